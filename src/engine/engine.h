/* The engine, as the chat sees it: engine = loaded model and one timeline of tokens.
 *
 * The caller passes whole prompts; what of it is already computed, the engine finds out itself
 * (the longest common prefix is kept, the rest prefilled). It runs on a thread of its own with
 * a mailbox; everything it has to say arrives as events, in order, at the thread that calls
 * engine_next. One request at a time: the next may be posted after the END or FAILED of the
 * last. It prints nothing and knows no screen, command or template. engine_cancel may be called
 * from a signal handler; every other function from the owner's thread only. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/spans.h"

struct builtin_template;
struct engine;
struct grammar;

struct engine_config {
    const char *model_path;
    const char *adapter_path; /* a LoRA adapter of the model; NULL: none */
    float adapter_scale;      /* how much of it counts, 1: all */
    const char *device;       /* "auto" (or NULL), "cpu", "vulkan", "vulkan:N" */
    uint32_t gpu_layers;      /* the last layers that a device takes; 0: as many as fit */
    bool wants_layers;        /* somebody asked for some: "auto" does not leave a slow device */
    const char *cpu;          /* the instruction set, as "avx2"; NULL: the best there is */
    bool allow_inexact;       /* a device that has not the CPU's bits is used all the same */
    const char *kv_type;      /* "f32", "f16" (or NULL), "q8_0", "q4_0" */
    int n_threads;            /* 0: one per core */
    uint32_t n_ctx;           /* limit in tokens; 0: the model's own, as far as memory allows */
    /* Another model that guesses tokens for this one (NULL: none), and whether what followed
     * the same tokens before is guessed. Neither changes a reply. */
    const char *draft_path;
    bool draft_lookup;
    uint32_t draft_fixed; /* drafts so many tokens each time, for tests; 0: as many as pay */
    /* Most memory that keeps what was computed for other conversations and branches than the
     * current one; 0: none. The current one has what it needs in any case. */
    uint64_t cache_ram_bytes;
    /* Where pages are kept on disk (hearth's folder in the user's cache; NULL: nowhere) and how
     * many bytes of them. */
    const char *cache_dir;
    uint64_t cache_disk_bytes;
    /* A conversation goes on that was kept: its pages are worth waiting for, the first time
     * that the model's files must be read to know them. */
    bool resumes;
};

struct engine_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY bans the token */
};

/* How a reply is sampled and when it stops. */
struct engine_sampling {
    float temp;                                /* 0: greedy */
    int top_k;                                 /* 0: off */
    float top_p;                               /* 1: off */
    float min_p;                               /* 0: off */
    float repeat_penalty;                      /* 1: off */
    float presence_penalty, frequency_penalty; /* 0: off */
    int repeat_last_n;   /* window of the penalties in tokens; 0: off, -1: the whole context */
    uint64_t reply_seed; /* the noise of this reply: Philox(reply_seed, position, id) */
    int max_tokens;      /* -1: until the context is full */
    const char *const *stop; /* found in the answer across token borders, and left out */
    size_t n_stop;
    const struct engine_bias *bias;
    size_t n_bias;
    /* What the answer is a text of (engine_grammar), held until the reply has ended; NULL: it
     * may be anything. The reply ends where it is whole. said[0..n_said) is the part of the
     * answer that the prompt ends with; no_thought: none may begin that the prompt has not
     * begun. */
    const struct grammar *grammar;
    const char *said;
    size_t n_said;
    bool no_thought;
};

enum engine_stop {
    STOP_END,       /* an end-of-turn token, or the end of a text of the grammar */
    STOP_LENGTH,    /* max_tokens */
    STOP_STRING,    /* a stop string */
    STOP_CONTEXT,   /* the context is full */
    STOP_CANCELLED, /* the user; what was said is kept */
};

/* Of a finished reply. Borrowed: lives until the next request. */
struct engine_reply {
    enum engine_stop stop;
    const int32_t *ids; /* sampled ids as they are to be replayed, the end of turn left out */
    size_t n_ids;
    const char *text; /* the whole reply, reasoning and markers included, valid UTF-8 */
    size_t text_len;
    /* [n_ids + 1]: where in text the bytes of each id begin, and where the last end: text_len,
     * or before it when a stop string cut the last token (that rest has no id). */
    const size_t *id_at;
    size_t content_at; /* text[0..content_at) is reasoning with its markers; 0: none */
    size_t reasoning_at, reasoning_len; /* the reasoning alone, inside text */
    uint64_t reply_seed;
    /* Tokens of the prompt: cached + prefilled are all of it; restored are those of the cached
     * that came from another branch than the one just left. */
    uint32_t n_cached, n_restored, n_prefilled;
    uint32_t n_read; /* of the cached: from the disk, for this prompt or one without a reply */
    double read_ms;
    /* Where the prompt left what the timeline held before, as token index and as the text of
     * the token there then and now (valid UTF-8, raw). NULL: it only went on, or was cut. */
    uint32_t diverged_at;
    const char *diverged_old, *diverged_new;
    uint32_t n_generated; /* all draws, an end of turn too */
    /* Tokens guessed and those of them that were drawn; steps of the model, one for each block
     * of guesses and for each token that had none; what a token would have
     * taken without drafts, on the machine as it was then (0: not known). */
    uint32_t n_drafted, n_accepted, n_steps;
    double plain_ms;
    double prefill_ms, decode_ms;
    uint32_t n_ctx_used, n_ctx;
};

/* Of engine_verify. Borrowed: lives until the next request. */
struct engine_verified {
    uint32_t n_tokens, n_snapshots; /* computed again; compared with them */
    uint64_t n_bytes;               /* of keys, values, states and logits compared */
    double ms;
    /* NULL: every bit is the same. Otherwise the first that is not, in words: "keys of layer 3
     * at token 17". */
    const char *difference;
};

enum engine_event_kind {
    EVENT_LOAD,      /* done of total bytes; the first has text: what loading will take */
    EVENT_READY,     /* the model is open: engine_info holds */
    EVENT_PREFILL,   /* done of total tokens, cached of them kept; the first of several comes
                      * before anything is computed */
    EVENT_REASONING, /* a piece of the reply's reasoning; done: tokens drawn so far */
    EVENT_TEXT,      /* a piece of the reply; done: as above */
    EVENT_WARNING,   /* one line that the user should see */
    EVENT_END,       /* the reply is done */
    EVENT_VERIFIED,  /* the answer to engine_verify */
    EVENT_DRAFT,     /* the answer to engine_draft: engine_info counts what it takes */
    EVENT_FAILED,    /* the request failed; the timeline is as valid as before. If the prompt is
                      * longer than the context: total > done, its tokens and the context's */
};

struct engine_event {
    enum engine_event_kind kind;
    uint64_t done, total, cached;
    const char *text; /* valid UTF-8, NUL-terminated, until the next engine_next */
    size_t text_len;
    const struct engine_reply *reply;       /* EVENT_END */
    const struct engine_verified *verified; /* EVENT_VERIFIED */
    struct err err;                         /* EVENT_FAILED */
};

/* What is known of the loaded model. Borrowed from the engine, constant after EVENT_READY but
 * for the bytes, which include the draft's and change with EVENT_DRAFT, and for the device, the
 * context and the bytes when the CPU takes over from a device that failed: an EVENT_WARNING
 * says so. */
struct engine_info {
    const char *name;          /* general.name, or the file's name, and its adapter's; may hold
                                  hostile bytes */
    const char *family;        /* "qwen3" */
    const char *chat_template; /* NULL: the file has none */
    /* The built-in one for the tokens that the vocabulary holds; NULL: for none. */
    const struct builtin_template *turn_template;
    const char *bos_text, *eos_text; /* "" if none */
    const char *device;              /* "cpu (avx2, 2 threads)" */
    bool is_inexact;                 /* the device has not the CPU's bits */
    const char *kv_type;
    uint64_t vocabulary; /* XXH3-64 of the texts of all tokens: what the ids of replies mean */
    uint32_t numerics;   /* NUMERICS_VERSION */
    uint32_t n_ctx, n_ctx_model, n_vocab;
    uint64_t weights_bytes, kv_bytes_per_token, scratch_bytes;
    double load_ms;
    const char *const *end_tokens; /* texts of the ids that end a turn */
    size_t n_end_tokens;
    const char *const *reasoning_markers; /* "<think>", "</think>", … in pairs */
    size_t n_reasoning_markers;
};

/* Whether the model that config names would open, as far as can be told without reading its
 * weights: the file, the model, the vocabulary; not whether memory suffices. *chat_template
 * becomes a copy of its template, NUL-terminated, to free(); NULL: it has none. Takes a tenth
 * of a second for a large vocabulary. Any thread. */
bool engine_check(const struct engine_config *config, char **chat_template, struct err *err);

/* Starts the engine's thread, which begins to load: EVENT_LOAD…, then READY or FAILED. */
struct engine *engine_open(const struct engine_config *config, struct err *err);
/* Cancels what runs, ends the thread and keeps on disk what is not there yet. False if it
 * cannot be kept and that was not said before. Only engine_close may follow. */
bool engine_finish(struct engine *e, struct err *err);
/* Finishes it if need be and frees everything. NULL is fine. */
void engine_close(struct engine *e);

/* Waits up to timeout_ms (-1: for ever) for the next event; false if none came. */
bool engine_next(struct engine *e, int timeout_ms, struct engine_event *event);
/* A descriptor that is readable while events wait: for a face that polls. */
int engine_event_fd(const struct engine *e);
/* Stops the running load, prefill or reply within milliseconds. Async-signal-safe. */
void engine_cancel(struct engine *e);

/* The seed of a reply: Philox(session seed, turn, attempt). Attempt 0 is the first; each retry
 * counts on. Pure, any thread. */
uint64_t engine_reply_seed(uint64_t session_seed, uint32_t turn, uint32_t attempt);

/* What answers can be bound to: the JSON that a JSON Schema allows (text/schema.h says what of
 * it counts), or of schema NULL any object or array. Lives until engine_grammar_release and the
 * replies that it was given to are over; NULL and err: it cannot be promised. Any thread. */
const struct grammar *engine_grammar(const char *schema, size_t len, struct err *err);
/* The same for a grammar in the notation of llama.cpp (text/gbnf.h says what of it counts). */
const struct grammar *engine_gbnf(const char *text, size_t len, struct err *err);
void engine_grammar_release(const struct grammar *g); /* NULL is fine */

const struct engine_info *engine_info(const struct engine *e);
/* A number of the file's metadata, as general.sampling.temp; false if it has none of that name,
 * or before READY. */
bool engine_number(const struct engine *e, const char *key, double *value);
/* Whether the vocabulary has a token that a bias names, after READY; ERR_USER: not. */
bool engine_has_biased(const struct engine *e, int32_t id, struct err *err);

/* Whether what is posted from now on goes on with a conversation that was kept, as
 * config.resumes says. */
void engine_resumes(struct engine *e, bool resumes);

/* Posts a turn: prompt (copied) is the whole conversation as rendered, up to and including the
 * generation prompt. Ends in EVENT_END or EVENT_FAILED. */
void engine_turn(struct engine *e, const struct spans *prompt,
                 const struct engine_sampling *sampling);

/* Computes all tokens of the timeline again from nothing and compares every bit with what is
 * held: keys, values, snapshots, the last logits. EVENT_PREFILL…, then EVENT_VERIFIED or
 * EVENT_FAILED (cancelled, no memory for a second copy). Changes nothing. */
void engine_verify(struct engine *e);

/* Changes what drafts, as draft_path and draft_lookup of the configuration. EVENT_DRAFT, or
 * EVENT_FAILED: another vocabulary, no such file, no memory; then everything is as before. */
void engine_draft(struct engine *e, const char *path, bool lookup);

/* The tokens of a text as plain text (n), or -1 before READY. */
long engine_count_tokens(struct engine *e, const char *text, size_t len);

/* Appends the ids that engine_turn would make of a prompt. False and err if it cannot be
 * tokenised, or before READY; out is then as before. */
bool engine_prompt_ids(struct engine *e, const struct spans *prompt, struct ids *out,
                       struct err *err);
/* Appends the text of ids, that of control tokens too: valid UTF-8, raw. After READY. */
void engine_spell(struct engine *e, const int32_t *ids, size_t n, struct buf *out);

#endif
