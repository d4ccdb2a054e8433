#include "config/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "config/ini.h"
#include "config/option_value.h"

enum { MAX_SYSTEM_BYTES = 16 << 20 };

static const struct option_reading as_is = {.one_item = true};
static const struct option_reading as_list = {.one_item = false};

struct options *options_new(void)
{
    struct options *o = mem_zalloc(1, sizeof *o);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!row->preset) continue;
        struct option_parsed value;
        struct err err;
        if (!option_parse(row, row->preset, &as_list, &value, &err)) abort(); /* our table */
        option_store(o, row, &value, false);
    }
    return o;
}

void options_free(struct options *o)
{
    if (!o) return;
    for (size_t i = 0; i < N_OPTIONS; i++)
        option_unset(o, option_row((enum option_id)i));
    for (size_t i = 0; i < o->notes.n; i++)
        free(o->notes.items[i]);
    free(o->notes.items);
    free(o->system_text);
    free(o->system_path);
    option_listed_free(&o->listed);
    free(o->ini_path);
    free(o->profile_name);
    free(o);
}

struct options *options_clone(const struct options *o)
{
    struct options *copy = mem_zalloc(1, sizeof *copy);
    for (size_t i = 0; i < N_OPTIONS; i++)
        option_copy(copy, o, option_row((enum option_id)i));
    memcpy(copy->source, o->source, sizeof copy->source);
    if (o->system_text) copy->system = copy->system_text = mem_strdup(o->system_text);
    if (o->system_path) copy->system_path = mem_strdup(o->system_path);
    option_listed_copy(&copy->listed, &o->listed);
    if (o->ini_path) copy->ini_path = mem_strdup(o->ini_path);
    if (o->profile_name) copy->profile_name = mem_strdup(o->profile_name);
    return copy;
}

bool option_given(const struct options *o, enum option_id id)
{
    return o->source[id].from != FROM_BUILTIN;
}

/* ---- One value ---- */

/* The folder of the INI file, "" for the root; NULL for the working folder. */
static char *ini_folder(const struct options *o)
{
    const char *slash = strrchr(o->ini_path, '/');
    return slash ? mem_strndup(o->ini_path, (size_t)(slash - o->ini_path)) : NULL;
}

bool options_give(struct options *o, enum option_id id, enum option_from from, int line,
                  const char *value, struct err *err)
{
    const struct option_row *row = option_row(id);
    struct option_reading reading = from == FROM_FLAG ? as_is : as_list;
    reading.is_typed = from == FROM_SET;
    char *folder = NULL;
    if ((from == FROM_HEARTH || from == FROM_PROFILE) && !(row->flags & OPTION_CWD) &&
        o->ini_path)
        reading.folder = folder = ini_folder(o);
    struct option_parsed parsed;
    bool ok = option_parse(row, value, &reading, &parsed, err);
    free(folder);
    if (!ok) return false;

    struct option_source *source = &o->source[id];
    if (from < source->from) {
        option_parsed_free(&parsed);
        return true;
    }
    /* An empty one takes back what the flags before it said. */
    bool append = from == FROM_FLAG && source->from == FROM_FLAG && *value;
    option_store(o, row, &parsed, append && !o->text[id]);
    *source = (struct option_source){from, line};
    return true;
}

bool options_set(struct options *o, const struct option_row *row, const char *value,
                 struct err *err)
{
    if (!(row->flags & OPTION_SET))
        return err_set(err, ERR_USER, "%s: is set when hearth starts, with --%s", row->name,
                       row->name);
    if (!options_give(o, option_id(row), FROM_SET, 0, value, err))
        return err_prefix(err, "%s", row->name);
    return true;
}

static void forget_system_file(struct options *o)
{
    free(o->system_text);
    free(o->system_path);
    o->system_text = o->system_path = NULL;
}

void options_forget(struct options *o, enum option_id id)
{
    const struct option_row *row = option_row(id);
    struct err err;
    o->source[id].from = FROM_BUILTIN;
    if (id == OPT_SYSTEM) forget_system_file(o);
    if (!row->preset)
        option_unset(o, row);
    else if (!options_give(o, id, FROM_BUILTIN, 0, row->preset, &err))
        abort(); /* our table */
}

void options_revert(struct options *o, enum option_id id, const struct options *as)
{
    option_unset(o, option_row(id));
    option_copy(o, as, option_row(id));
    o->source[id] = as->source[id];
}

/* ---- Sources ---- */

static bool give_env(struct options *o, const struct option_row *row, const char *name,
                     const char *value, struct err *err)
{
    if (!*value || options_give(o, option_id(row), FROM_ENV, 0, value, err)) return true;
    return err_prefix(err, "%s", name);
}

void options_note(struct options *o, const char *line)
{
    MEM_GROW(o->notes.items, o->notes.n, o->notes.cap);
    o->notes.items[o->notes.n++] = mem_strdup(line);
}

static void note_unknown(struct options *o, const char *variable, const char *nearest)
{
    char shown[80];
    struct buf note = {0};
    buf_printf(&note, "warning: %s in the environment is no option",
               printable(shown, sizeof shown, variable, strlen(variable)));
    if (nearest) buf_printf(&note, "; did you mean HEARTH_%s?", nearest);
    options_note(o, buf_str(&note));
    buf_free(&note);
}

bool options_parse_env(struct options *o, char *const *env, struct err *err)
{
    enum { PREFIX = sizeof "HEARTH_" - 1 }; /* no likeness */
    char names[N_OPTIONS][40];
    for (size_t i = 0; i < N_OPTIONS; i++)
        option_env_name(option_row((enum option_id)i), names[i], sizeof names[i]);

    for (; *env; env++) {
        const char *equals = strchr(*env, '=');
        if (strncmp(*env, "HEARTH_", PREFIX) != 0 || !equals) continue;
        char *variable = mem_strndup(*env, (size_t)(equals - *env));
        const struct option_row *row = NULL;
        struct nearest nearest;
        nearest_begin(&nearest, variable + PREFIX);
        for (size_t i = 0; i < N_OPTIONS; i++) {
            const struct option_row *r = option_row((enum option_id)i);
            if (r->flags & OPTION_NO_ENV) continue;
            if (strcmp(variable, names[i]) == 0) row = r;
            nearest_offer(&nearest, names[i] + PREFIX);
        }
        bool ok = true;
        if (row)
            ok = give_env(o, row, variable, equals + 1, err);
        else
            note_unknown(o, variable, nearest.best);
        free(variable);
        if (!ok) return false;
    }
    return true;
}

static bool unknown_key(const struct ini_entry *e, const char *path, struct err *err)
{
    struct nearest nearest;
    nearest_begin(&nearest, e->key);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->flags & OPTION_NO_KEY) continue;
        if (e->profile && (row->flags & OPTION_HEARTH_ONLY)) continue;
        nearest_offer(&nearest, row->name);
    }
    char shown[80];
    printable(shown, sizeof shown, e->key, strlen(e->key));
    const struct option_row *meant = option_find_foreign(e->key);
    const char *best = meant ? meant->name : nearest.best;
    if (best)
        return err_set(err, ERR_USER, "%s:%d: unknown key %s, did you mean %s?", path, e->line,
                       shown, best);
    return err_set(err, ERR_USER, "%s:%d: unknown key %s", path, e->line, shown);
}

/* Checks every entry, of every profile, and applies those of [hearth] and of the chosen one. */
static bool apply_entry(struct options *o, const struct ini_entry *e, const char *path,
                        struct err *err)
{
    const struct option_row *row = option_find(e->key);
    if (!row) return unknown_key(e, path, err);
    if (row->flags & OPTION_NO_KEY)
        return err_set(err, ERR_USER, "%s:%d: %s is no key: it belongs on the command line",
                       path, e->line, row->name);
    if (e->profile && (row->flags & OPTION_HEARTH_ONLY))
        return err_set(err, ERR_USER, "%s:%d: %s belongs in [hearth], not in a profile", path,
                       e->line, row->name);
    bool ok;
    if (!e->profile) {
        ok = options_give(o, option_id(row), FROM_HEARTH, e->line, e->value, err);
    } else if (o->profile_name && strcmp(e->profile, o->profile_name) == 0) {
        ok = options_give(o, option_id(row), FROM_PROFILE, e->line, e->value, err);
    } else {
        struct option_parsed unused;
        ok = option_parse(row, e->value, &as_list, &unused, err);
        if (ok) option_parsed_free(&unused);
    }
    return ok || err_prefix(err, "%s:%d: %s", path, e->line, row->name);
}

/* Puts the place of the value before a message: "--temp", "HEARTH_TEMP", "FILE:3: temp". */
static bool fail_at(const struct options *o, enum option_id id, struct err *err)
{
    const struct option_row *row = option_row(id);
    const struct option_source *source = &o->source[id];
    char name[512];
    if (source->from == FROM_ENV) {
        option_env_name(row, name, sizeof name);
        return err_prefix(err, "%s", name);
    }
    if (source->from != FROM_HEARTH && source->from != FROM_PROFILE)
        return err_prefix(err, "--%s", row->name);
    return err_prefix(err, "%s:%d: %s",
                      printable(name, sizeof name, o->ini_path, strlen(o->ini_path)),
                      source->line, row->name);
}

static bool unknown_profile(const struct ini *ini, const char *wanted, const char *path,
                            struct err *err)
{
    char shown[80];
    printable(shown, sizeof shown, wanted, strlen(wanted));
    struct buf names = {0};
    for (size_t i = 0; i < ini_n_profiles(ini); i++)
        buf_printf(&names, "%s%s", i ? ", " : "", ini_profile(ini, i));
    if (names.len)
        err_set(err, ERR_USER, "no profile %s in %s; there are: %s", shown, path,
                buf_str(&names));
    else
        err_set(err, ERR_USER, "no profile %s in %s, which has no [profile NAME]", shown, path);
    buf_free(&names);
    return false;
}

/* The name of the chosen profile may itself stand in [hearth]. */
static bool choose_profile(struct options *o, const struct ini *ini, const char *path,
                           struct err *err)
{
    const char *wanted = o->profile;
    size_t n;
    const struct ini_entry *entries = ini_entries(ini, &n);
    for (size_t i = 0; i < n && !option_given(o, OPT_PROFILE); i++)
        if (!entries[i].profile && strcmp(entries[i].key, "profile") == 0)
            wanted = entries[i].value;
    if (!wanted || !*wanted) return true;
    for (size_t i = 0; i < ini_n_profiles(ini); i++)
        if (ascii_same(ini_profile(ini, i), wanted)) {
            o->profile_name = mem_strdup(ini_profile(ini, i));
            return true;
        }
    unknown_profile(ini, wanted, path, err);
    if (o->source[OPT_PROFILE].from == FROM_ENV) fail_at(o, OPT_PROFILE, err);
    return false;
}

bool options_config_is_stdin(const struct options *o)
{
    return o->config && strcmp(o->config, "-") == 0;
}

bool options_parse_ini(struct options *o, const char *default_path, struct err *err)
{
    const char *path = o->config ? o->config : default_path;
    const char *name = options_config_is_stdin(o) ? "standard input" : path;
    char shown[512];
    struct ini *ini = NULL;
    if (path) {
        printable(shown, sizeof shown, name, strlen(name));
        bool missing;
        ini = ini_read(path, shown, o->config != NULL, &missing, err);
        if (!ini && missing && o->config) return fail_at(o, OPT_CONFIG, err);
        if (!ini && !missing) return false;
    }
    if (!ini) {
        if (!o->profile || !*o->profile) return true;
        err_set(err, ERR_USER, "there is no configuration file%s%s", path ? " at " : "",
                path ? shown : "");
        return fail_at(o, OPT_PROFILE, err);
    }
    o->ini_path = mem_strdup(name);
    bool ok = choose_profile(o, ini, shown, err);
    size_t n;
    const struct ini_entry *entries = ini_entries(ini, &n);
    for (size_t i = 0; ok && i < n; i++)
        ok = apply_entry(o, &entries[i], shown, err);
    ini_free(ini);
    return ok;
}

/* ---- After all sources ---- */

/* What the file at path holds, without a line break at its end. */
static char *system_of_file(const char *path, bool waits, struct err *err)
{
    struct buf content = {0};
    char shown[256], *text = NULL;
    bool ok = (waits ? file_read : file_read_regular)(path, MAX_SYSTEM_BYTES, &content, err);
    const size_t mark = utf8_mark(buf_str(&content), content.len);
    if (ok && (!utf8_valid(buf_str(&content), content.len) ||
               memchr(buf_str(&content), 0, content.len)))
        ok = err_set(err, ERR_USER, "%s: is not UTF-8 text",
                     printable(shown, sizeof shown, path, strlen(path)));
    if (ok) {
        const size_t len = ascii_without_ends(buf_str(&content), content.len);
        text = mem_strndup(buf_str(&content) + mark, len - mark);
    }
    buf_free(&content);
    return text;
}

char *options_system(const char *text, const char *folder, bool waits, char **path,
                     struct err *err)
{
    struct option_reading reading = as_is;
    struct option_parsed file;
    *path = NULL;
    if (*text != '@') return mem_strdup(text);
    if (text[1] == '@') return mem_strdup(text + 1);
    reading.folder = folder;
    reading.is_typed = !waits;
    if (!option_parse(option_row(OPT_MODEL), text + 1, &reading, &file, err)) return NULL;
    *path = mem_strdup(file.text);
    option_parsed_free(&file);
    return system_of_file(*path, waits, err);
}

static bool read_system(struct options *o, struct err *err)
{
    if (!o->system || *o->system != '@' || o->system_text) return true;
    const enum option_from from = o->source[OPT_SYSTEM].from;
    char *folder = from == FROM_HEARTH || from == FROM_PROFILE ? ini_folder(o) : NULL;
    o->system_text = options_system(o->system, folder, true, &o->system_path, err);
    free(folder);
    if (!o->system_text) {
        err->code = ERR_USER; /* the option names a file that is not there */
        return fail_at(o, OPT_SYSTEM, err);
    }
    o->system = o->system_text;
    return true;
}

/* Of two that exclude each other, the one of higher precedence stays; false if they are equal.
 */
static bool one_yields(struct options *o, enum option_id a, enum option_id b)
{
    const enum option_from from_a = o->source[a].from, from_b = o->source[b].from;
    if (from_a == from_b) return false;
    options_forget(o, from_a > from_b ? b : a);
    return true;
}

/* What the user wrote: "--session", "HEARTH_SESSION", "session in line 3". */
static const char *as_written(const struct options *o, enum option_id id, char out[80])
{
    const struct option_row *row = option_row(id);
    const struct option_source *source = &o->source[id];
    if (source->from == FROM_ENV)
        option_env_name(row, out, 80);
    else if (source->from == FROM_HEARTH || source->from == FROM_PROFILE)
        snprintf(out, 80, "%s in line %d", row->name, source->line);
    else
        snprintf(out, 80, "--%s", row->name);
    return out;
}

static bool choose(struct options *o, enum option_id a, enum option_id b, struct err *err)
{
    char other[80];
    if (one_yields(o, a, b)) return true;
    err_set(err, ERR_USER, "cannot be together with %s", as_written(o, b, other));
    return fail_at(o, a, err);
}

/* Prompts of a file or of standard input, or that of --prompt. */
static bool choose_prompts(struct options *o, enum option_id id, struct err *err)
{
    char other[80];
    if (one_yields(o, id, OPT_PROMPT)) return true;
    err_set(err, ERR_USER, "takes its prompts from a file or standard input, not from %s",
            as_written(o, OPT_PROMPT, other));
    return fail_at(o, id, err);
}

static bool choose_device(struct options *o, struct err *err)
{
    char other[80];
    if (one_yields(o, OPT_GPU_LAYERS, OPT_DEVICE)) return true;
    err_set(err, ERR_USER, "0 means the CPU, but %s is %s", as_written(o, OPT_DEVICE, other),
            o->device);
    return fail_at(o, OPT_GPU_LAYERS, err);
}

/* A person who goes on talking, or one of what a script asks for. */
static bool choose_talk(struct options *o, struct err *err)
{
    static const enum option_id scripts[] = {OPT_JSON, OPT_JSONL, OPT_STDIN, OPT_PROMPTS};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts && o->interactive; i++) {
        const bool there[] = {o->json, o->jsonl, o->stdin_mode != STDIN_AS_TEXT,
                              o->prompts != NULL};
        if (there[i] && !choose(o, OPT_INTERACTIVE, scripts[i], err)) return false;
    }
    return true;
}

/* What -c - has read to its end is not there for another. */
static bool spares_stdin(const struct options *o, struct err *err)
{
    const char *other = NULL;
    for (size_t i = 0; i < o->files.n; i++)
        if (strcmp(o->files.items[i], "-") == 0) other = "--file -";
    if (o->prompts && strcmp(o->prompts, "-") == 0) other = "--prompts -";
    if (!o->prompts && o->stdin_mode == STDIN_AS_LINES) other = "--stdin lines";
    if (!o->prompts && o->stdin_mode == STDIN_AS_JSONL) other = "--stdin jsonl";
    return !other || !options_config_is_stdin(o) ||
           err_set(err, ERR_USER, "--config - and %s: only one of them can read standard input",
                   other);
}

bool options_check(struct options *o, struct err *err)
{
    if (!spares_stdin(o, err)) return false;
    if ((o->quiet && o->verbose && !choose(o, OPT_QUIET, OPT_VERBOSE, err)) ||
        (o->json && o->jsonl && !choose(o, OPT_JSON, OPT_JSONL, err)) ||
        (o->session && o->continue_last && !choose(o, OPT_SESSION, OPT_CONTINUE, err)) ||
        (o->private_mode && o->session && !choose(o, OPT_PRIVATE, OPT_SESSION, err)) ||
        (o->private_mode && o->continue_last && !choose(o, OPT_PRIVATE, OPT_CONTINUE, err)) ||
        (o->tui && o->plain && !choose(o, OPT_TUI, OPT_PLAIN, err)) ||
        (o->tui && o->accessible && !choose(o, OPT_TUI, OPT_ACCESSIBLE, err)) ||
        !choose_talk(o, err))
        return false;
    if (o->gpu_layers == 0 && strncmp(o->device, "vulkan", 6) == 0 && !choose_device(o, err))
        return false;
    /* Standard output, whatever a source of lower precedence says. */
    if (o->output && strcmp(o->output, "-") == 0) options_forget(o, OPT_OUTPUT);
    if (o->prompt && o->prompts && !choose_prompts(o, OPT_PROMPTS, err)) return false;
    if (o->prompt && o->stdin_mode != STDIN_AS_TEXT && !choose_prompts(o, OPT_STDIN, err))
        return false;
    return read_system(o, err);
}

/* Whether a line of a file or a variable gives the value. */
static bool has_place(const struct options *o, enum option_id id)
{
    const enum option_from from = o->source[id].from;
    return from == FROM_HEARTH || from == FROM_PROFILE || from == FROM_ENV;
}

bool options_blame(const struct options *o, enum option_id id, struct err *err)
{
    return has_place(o, id) && fail_at(o, id, err);
}

/* One that a flag names is missed by whoever opens it. */
static bool is_there(const struct options *o, enum option_id id, const char *path,
                     struct err *err)
{
    char shown[512];
    const bool may_be_stdin = id == OPT_PROMPTS || id == OPT_FILE;
    if (!has_place(o, id) || !path || (may_be_stdin && strcmp(path, "-") == 0) ||
        access(path, R_OK) == 0)
        return true;
    err_set(err, ERR_IO, "%s: %s", printable(shown, sizeof shown, path, strlen(path)),
            strerror(errno));
    return options_blame(o, id, err);
}

const char *options_file(const struct options *o, enum option_id id)
{
    const char *value = o->text[id];
    return value && option_is_path(option_row(id), value) ? value : NULL;
}

bool options_files_there(const struct options *o, struct err *err)
{
    char *draft;
    bool lookup;
    options_draft(o, &draft, &lookup);
    bool ok = is_there(o, OPT_DRAFT, draft, err) &&
              is_there(o, OPT_TEMPLATE, options_file(o, OPT_TEMPLATE), err) &&
              is_there(o, OPT_SCHEMA, options_file(o, OPT_SCHEMA), err) &&
              is_there(o, OPT_PROMPTS, o->prompts, err);
    free(draft);
    for (size_t i = 0; i < o->files.n && ok; i++)
        ok = is_there(o, OPT_FILE, o->files.items[i], err);
    return ok;
}

void option_origin(const struct options *o, enum option_id id, struct buf *out)
{
    const struct option_row *row = option_row(id);
    const struct option_source *source = &o->source[id];
    char variable[64];
    switch (source->from) {
    case FROM_BUILTIN: buf_puts(out, "built-in"); break;
    case FROM_MODEL: buf_puts(out, "the model"); break;
    case FROM_HEARTH: buf_printf(out, "[hearth], %s:%d", o->ini_path, source->line); break;
    case FROM_PROFILE:
        buf_printf(out, "profile %s, %s:%d", o->profile_name, o->ini_path, source->line);
        break;
    case FROM_SESSION: buf_puts(out, "the session"); break;
    case FROM_ENV:
        option_env_name(row, variable, sizeof variable);
        buf_printf(out, "environment %s", variable);
        break;
    case FROM_FLAG: buf_printf(out, "flag --%s", row->name); break;
    case FROM_SET: buf_puts(out, "/set"); break;
    }
}
