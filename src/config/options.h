/* The options: one table, from which the parser, the INI keys, the HEARTH_ variables, --help,
 * --print-config, the completion and the check of the man pages are made.
 *
 * main makes a `struct options`, fills it from the command line, the environment, the INI file
 * and the model (in any order: a value never replaces one of higher precedence) and hands it
 * out const. A face that lets the user change settings at run time works on its own clone.
 * Every string in it belongs to it. One thread at a time may change one; nothing here prints,
 * opens a model or knows a screen. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum option_id {
    OPT_MODEL,
    OPT_LORA,
    OPT_LORA_SCALE,
    OPT_DRAFT,
    OPT_TEMPLATE,
    OPT_DEVICE,
    OPT_GPU_LAYERS,
    OPT_ALLOW_INEXACT,
    OPT_CPU,
    OPT_THREADS,
    OPT_CTX,
    OPT_KV_TYPE,
    OPT_CACHE_RAM,
    OPT_CACHE_DISK,
    OPT_WARM_TYPING,

    OPT_SYSTEM,
    OPT_PROMPT,
    OPT_FILE,
    OPT_INTERACTIVE,
    OPT_STDIN,
    OPT_PROMPTS,
    OPT_FORGET,
    OPT_OUTPUT,
    OPT_NO_STREAM,
    OPT_JSON,
    OPT_JSONL,
    OPT_SCHEMA,

    OPT_MAX_TOKENS,
    OPT_TEMP,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_REPEAT_PENALTY,
    OPT_REPEAT_LAST_N,
    OPT_PRESENCE_PENALTY,
    OPT_FREQUENCY_PENALTY,
    OPT_LOGIT_BIAS,
    OPT_SEED,
    OPT_REPLY_SEED,
    OPT_STOP,
    OPT_OVERFLOW,
    OPT_THINK,

    OPT_SESSION,
    OPT_CONTINUE,
    OPT_PRIVATE,

    OPT_TUI,
    OPT_PLAIN,
    OPT_ACCESSIBLE,
    OPT_COLOR,
    OPT_WRAP,
    OPT_QUIET,
    OPT_VERBOSE,

    OPT_CONFIG,
    OPT_PROFILE,
    OPT_PRINT_CONFIG,
    OPT_LIST_DEVICES,
    OPT_COMPLETION,
    OPT_HELP,
    OPT_VERSION,
    N_OPTIONS
};

/* The words of --overflow, --think, --stdin and --color, in the order of the table. */
enum option_overflow { OVERFLOW_STOP, OVERFLOW_TRIM };
enum option_think {
    THINK_ON,   /* the template is asked to let the model think */
    THINK_OFF,  /* … not to */
    THINK_HIDE, /* as the model does by itself, but not shown */
    THINK_SHOW, /* as the model does by itself, shown (the built-in) */
};
enum option_stdin { STDIN_AS_TEXT, STDIN_AS_LINES, STDIN_AS_JSONL };
enum option_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* Where a value comes from, in rising precedence. */
enum option_from {
    FROM_BUILTIN,
    FROM_MODEL,
    FROM_HEARTH,  /* section [hearth] */
    FROM_PROFILE, /* section [profile NAME] */
    FROM_SESSION, /* the conversation that is gone on with */
    FROM_ENV,
    FROM_FLAG,
    FROM_SET, /* /set */
};

struct option_list {
    char **items;
    size_t n, cap;
};

struct option_bias {
    int32_t id;
    float bias; /* -INFINITY bans the token */
};

struct option_biases {
    struct option_bias *items;
    size_t n, cap;
};

/* What goes with a model that hearth models lists; NULL: nothing. */
struct option_listed {
    char *name;     /* by which it is listed; NULL: it was named as a file */
    char *adapter;  /* the path of its own */
    char *settings; /* its own, a line "KEY VALUE" each */
    char *system;   /* its own system message */
};

/* Plain values. Strings are NULL when not given, unless said otherwise. */
struct options {
    const char *model, *lora, *draft, *template_path;
    float lora_scale;   /* how much of the adapter counts */
    const char *device; /* "auto", "cpu", "vulkan", "vulkan:1"; never NULL */
    int gpu_layers;     /* -1: all */
    bool allow_inexact;
    const char *cpu; /* "auto", "scalar", …; never NULL */
    int threads;     /* 0: one per core */
    int ctx;         /* limit in tokens; 0: the model's own, as far as memory allows */
    const char *kv_type;
    uint64_t cache_ram_bytes, cache_disk_bytes;
    int warm_typing; /* 0 or 1 */

    const char *system; /* the text itself, also when given as @FILE */
    const char *prompt;
    struct option_list files; /* "-" is the standard input */
    bool interactive;
    int stdin_mode; /* enum option_stdin */
    const char *prompts;
    bool forget;
    const char *output;
    const char *schema; /* a file, "off", "json" or, from a { on, the text itself; never NULL */
    bool no_stream, json, jsonl;

    int max_tokens; /* -1: until the context is full */
    float temp;     /* 0: greedy */
    int top_k;      /* 0: off */
    float top_p, min_p, repeat_penalty;
    int repeat_last_n; /* 0: off, -1: the whole context */
    float presence_penalty, frequency_penalty;
    struct option_biases logit_bias;
    uint64_t seed, reply_seed; /* hold only if option_given */
    struct option_list stop;
    int overflow; /* enum option_overflow */
    int think;    /* enum option_think */

    const char *session;
    bool continue_last, private_mode;

    bool tui, plain, accessible;
    int color; /* enum option_color */
    int wrap;  /* 0 or 1 */
    bool quiet, verbose;

    const char *config, *profile;
    bool print_config, list_devices, help, version;
    const char *completion;

    struct option_source {
        enum option_from from;
        int line; /* of the INI file; 0 elsewhere */
    } source[N_OPTIONS];
    char *text[N_OPTIONS];       /* of a single value, as given; NULL: not given */
    char *system_text;           /* what --system @FILE holds */
    char *system_path;           /* … and that file; NULL: there is none */
    struct option_listed listed; /* goes with the model that `model` names */
    char *ini_path;              /* the INI file that was read, "standard input", or NULL */
    char *profile_name;          /* the chosen profile, or NULL */
    struct option_list notes; /* lines for the user, as of an unknown HEARTH_ variable: printed
                               * by who notes them, and shown by a full screen that covers it */
};

enum option_type {
    OPTION_STRING,
    OPTION_PATH,  /* or one of words; ~ and $HOME at its beginning are expanded */
    OPTION_PATHS, /* a list of them */
    OPTION_DRAFT, /* one of words, or a path with ",lookup" behind it or not */
    OPTION_WORD,  /* one of words, kept as a string; "vulkan[:N]" takes a number too */
    OPTION_ENUM,  /* one of words, kept as its number */
    OPTION_INT,
    OPTION_FLOAT,
    OPTION_SIZE, /* bytes, with K, M, G or T for powers of 1024 */
    OPTION_SEED, /* 64 bits, decimal or 0x… */
    OPTION_BOOL,
    OPTION_STRINGS, /* a list: one item per flag, or items between commas elsewhere */
    OPTION_BIASES,  /* a list of ID=BIAS */
};

enum option_group {
    GROUP_MODEL,
    GROUP_PROMPT,
    GROUP_SAMPLING,
    GROUP_SESSION,
    GROUP_FACE,
    GROUP_CONFIG,
    N_OPTION_GROUPS
};

enum {
    OPTION_ENGINE = 1, /* also taken by the subcommands that open a model */
    OPTION_SET = 2,    /* may be changed by /set */
    OPTION_NO_KEY = 4, /* a flag only: no INI key */
    OPTION_HIDDEN = 8, /* not in --help */
    OPTION_CWD = 16,   /* a relative path in an INI file is relative to the current folder */
    OPTION_NO_ENV = 32,
    OPTION_TEXT = 128,       /* a value of a path that begins with {, be it behind
                              * blanks and line ends, is the text itself */
    OPTION_HEARTH_ONLY = 64, /* a key of [hearth], not of a profile */
};

/* One row of the table. The INI key is the name; the variable is HEARTH_ and the name in upper
 * case with _ for -. */
struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_type type;
    enum option_group group;
    unsigned flags;
    size_t at;             /* offset of the value in struct options */
    const char *arg;       /* what --help calls the value; NULL for OPTION_BOOL */
    const char *words;     /* "auto|cpu|vulkan[:N]"; also completion's list for a
                            * string; of a number: other names of its minimum */
    double min, max;       /* OPTION_INT, OPTION_FLOAT */
    const char *preset;    /* the built-in value as text; NULL: not given */
    const char *model_key; /* the GGUF key that sets it, or NULL */
    const char *help;      /* one line, no full stop */
};

const struct option_row *option_row(enum option_id id);
/* The row of a long name, or NULL. */
const struct option_row *option_find(const char *name);
/* The row that llama.cpp or ollama knows by another name of the same meaning, "ngl" or
 * "num-ctx", with any number of dashes before it; or NULL. */
const struct option_row *option_find_foreign(const char *name);
/* Of an option of llama.cpp that has no counterpart: what there is instead; or NULL. */
const char *option_foreign_advice(const char *name);
enum option_id option_id(const struct option_row *row);
const char *option_group_title(enum option_group group);
/* Writes "HEARTH_TOP_K" to out[0..cap). */
void option_env_name(const struct option_row *row, char *out, size_t cap);
/* Word number i of a |-list: sets *len and returns where it begins, or NULL. */
const char *option_word(const char *words, size_t i, size_t *len);
/* Whether the value of a row of paths names a file: it is none of its words, nor the text of
 * what the file would hold. */
bool option_is_path(const struct option_row *row, const char *text);

/* Appends what a value must be: "a number from 0 to 1", "on or off", "auto, always or never".
 */
void option_takes(const struct option_row *row, struct buf *out);
/* A seed as it is written everywhere: below 2^64, decimal or with 0x in front; false, and *out
 * stays, if text is none. */
bool option_seed(const char *text, uint64_t *out);

/* All built-in values. Free with options_free. */
struct options *options_new(void);
void options_free(struct options *o); /* NULL is fine */
/* A copy of its own, with the same origins. */
struct options *options_clone(const struct options *o);

/* Whether somebody gave the value: it is not the built-in. */
bool option_given(const struct options *o, enum option_id id);

/* An option of a subcommand's own; exactly one of value and flag is not NULL. A name may come
 * again, for --help, with the same value or flag. */
struct option_extra {
    const char *name;
    char letter;        /* 0: none */
    const char *arg;    /* name of the value; NULL for a flag */
    const char **value; /* set to the argument */
    bool *flag;         /* set to true */
    const char *help;
    const char *preset; /* what it is if it is not given, for --help; NULL: nothing */
    bool is_part;       /* --help puts it below the last row that is no part */
};

struct option_args {
    const char *command;              /* "inspect tokens"; NULL: hearth itself */
    const struct option_extra *extra; /* win over rows of the same name */
    size_t n_extra;
    bool engine_only;  /* only rows with OPTION_ENGINE, and what chooses the configuration */
    const char **rest; /* set: the arguments that are no options, [n_rest]; free() it */
    size_t n_rest;
};

/* Reads argv[1..argc): long options with = or the next argument, short ones, bundled too; after
 * "--" everything is an argument. Strings in args are borrowed from argv. ERR_USER names the
 * option, what was expected and what was found. */
bool options_parse_args(struct options *o, int argc, char *const *argv,
                        struct option_args *args, struct err *err);

/* Reads the HEARTH_ variables of env (NULL-terminated, as environ); an empty one counts as
 * unset, an unknown one becomes a note. */
bool options_parse_env(struct options *o, char *const *env, struct err *err);

/* Reads the INI file --config names (default: default_path, which may be missing; NULL: none)
 * and applies [hearth] and the chosen profile. Errors name file and line. */
bool options_parse_ini(struct options *o, const char *default_path, struct err *err);
/* Whether that file is standard input, which is then at its end. */
bool options_config_is_stdin(const struct options *o);

/* What --draft says, taken apart: *path (free() it) is the draft model or NULL, *lookup whether
 * the conversation is searched. Not given: the draft that comes with the bundled guide, for the
 * guide. */
void options_draft(const struct options *o, char **path, bool *lookup);

/* What a system message says, to free(): of "@FILE" what that file holds, in folder (NULL:
 * where we are) if its path is relative, of "@@" the text behind the first @, else the text
 * itself. A file that must not be waited for is refused if it is not regular, say a pipe; it
 * may be named as a shell writes it, as paths_found has it. *path, to free(), names the file or
 * is NULL. NULL: it cannot be read, as err says. */
char *options_system(const char *text, const char *folder, bool waits, char **path,
                     struct err *err);

/* After all sources: reads --system @FILE, takes --output - for none given and refuses options
 * that exclude each other. */
bool options_check(struct options *o, struct err *err);

/* Puts where the INI file or the environment names a thing before the message about it:
 * "FILE:3: model: ", "HEARTH_MODEL: "; nothing where a flag does. Always false. */
bool options_blame(const struct options *o, enum option_id id, struct err *err);
/* The file that a row of paths names, borrowed; NULL: none is given, or it is no file. */
const char *options_file(const struct options *o, enum option_id id);
/* Whether the draft, the template, the schema and the files of prompts that the INI file or the
 * environment names can be read; ERR_IO names the first that cannot, and its place. */
bool options_files_there(const struct options *o, struct err *err);

/* A key of the model's metadata, as general.sampling.temp; nothing happens where it is not one
 * of the table's, or the user has said otherwise. ERR_USER: its number is out of range, and the
 * option stays as it is. */
bool options_apply_model(struct options *o, const char *key, double value, struct err *err);

/* What o->listed says of settings and of a system message counts as the model's, and goes
 * before the keys of its file if it is applied behind them. What is not taken is told in notes,
 * a line each, and stays as it is. */
void options_apply_listed(struct options *o, struct buf *notes);
/* Replaces *to, which is {0} at first, by a copy. */
void option_listed_copy(struct option_listed *to, const struct option_listed *from);
/* {0} is fine, and what it is then. */
void option_listed_free(struct option_listed *listed);

/* Another model comes: what options_apply_model and options_apply_listed set is built-in again.
 */
void options_forget_model(struct options *o);
/* Nobody gave this one, whatever was: it is built-in again. */
void options_forget(struct options *o, enum option_id id);
/* It has the value and the origin again that it has in `as`. */
void options_revert(struct options *o, enum option_id id, const struct options *as);

/* /set: only rows with OPTION_SET. */
bool options_set(struct options *o, const struct option_row *row, const char *value,
                 struct err *err);

/* Adds a line to o->notes. */
void options_note(struct options *o, const char *line);

/* One value from one source; line is that of the INI file. From a flag a list takes
 * one item as it is and adds it to those of the flags before, elsewhere items between commas.
 * A value of lower precedence than the present one is checked and dropped. */
bool options_give(struct options *o, enum option_id id, enum option_from from, int line,
                  const char *value, struct err *err);

/* Appends the value as it would be written after a flag: "0.7", "on", "f16"; nothing when it is
 * not given. */
void option_value(const struct options *o, enum option_id id, struct buf *out);
/* Appends one item of a list as it is written between commas. */
void option_put_item(const char *item, struct buf *out);
/* Appends where the value comes from: "flag --temp", "environment HEARTH_TEMP", "profile code,
 * FILE:12", "[hearth], FILE:3", "the model", "built-in", "/set". Paths may hold hostile bytes.
 */
void option_origin(const struct options *o, enum option_id id, struct buf *out);

/* --help, at most 80 columns; the subcommands are the caller's to add. */
void options_help(struct buf *out);
/* Appends a text that begins at a column, broken before column 80, and ends its line. */
void help_wrap(struct buf *out, size_t column, const char *text);
/* --print-config: an INI file with the origin of every value, which read again by -c gives the
 * same values, wherever it lies: files that are there stand in it from the root on. */
void options_print_config(const struct options *o, struct buf *out);

#endif
