/* Chat templates: an interpreter for the Jinja that model files carry.
 *
 * template_parse turns the text into an immutable `struct template`; template_render runs it
 * over a dict of values and yields bytes and runs that say where every byte came from: the
 * template itself, the caller's values, or an earlier reply. The set-up is that of Hugging Face
 * transformers (trim_blocks, lstrip_blocks, break and continue, an immutable sandbox, undefined
 * prints as nothing; raise_exception, strftime_now, tojson without HTML escaping).
 *
 * Templates are hostile until proven otherwise: work, memory, nesting and sizes are bounded,
 * and whatever goes wrong ends in an error that says the template's name, the line and the
 * reason.
 *
 * Values belong to a `struct value_pool` made by the caller, who frees it when done with the
 * rendering; a pool is for one thread at a time. Rendering never changes a value that the
 * caller made. A struct template may be rendered by any number of threads at once, each with
 * its own pool. Nothing here knows tokens, models or conversations. */
#ifndef TEMPLATE_TEMPLATE_H
#define TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

/* Where a byte came from. Slicing, trimming, splitting, replacing, joining, concatenating and
 * formatting keep it; what any other filter or method computes is ORIGIN_USER. */
enum origin {
    ORIGIN_LITERAL, /* the template's own text and string literals: may become control tokens */
    ORIGIN_USER,    /* a value of the caller, or computed: must never become one */
    ORIGIN_REPLY,   /* bytes of an earlier reply whose token ids the caller still has */
};

/* A stretch of bytes of one origin. */
struct origin_run {
    size_t start, len; /* in the string or rendering */
    enum origin origin;
    uint32_t reply; /* ORIGIN_REPLY: the number the caller gave, else 0 */
    size_t source;  /* ORIGIN_REPLY: offset of the first byte in the reply's text, else 0 */
};

/* ---- Values ---- */

struct value;
struct value_pool;

struct value_pool *value_pool_new(void);
void value_pool_free(struct value_pool *pool); /* and all its values; NULL is fine */

/* Results live as long as the pool. Bytes are copied. Strings should be UTF-8; a byte that is
 * not counts as one character. */
struct value *value_null(struct value_pool *pool);
struct value *value_bool(struct value_pool *pool, bool b);
struct value *value_int(struct value_pool *pool, int64_t i);
struct value *value_float(struct value_pool *pool, double f);
/* A string of n bytes from the caller (ORIGIN_USER). */
struct value *value_text(struct value_pool *pool, const char *s, size_t n);
/* A string that may become control tokens (ORIGIN_LITERAL): bos_token, eos_token and the like.
 */
struct value *value_markup(struct value_pool *pool, const char *s, size_t n);
/* Bytes source .. source+n of the text of reply number `reply`. */
struct value *value_reply(struct value_pool *pool, const char *s, size_t n, uint32_t reply,
                          size_t source);

struct value *value_list(struct value_pool *pool);
void value_list_add(struct value_pool *pool, struct value *list, struct value *item);

/* A dict keeps the order in which its keys were first set. */
struct value *value_dict(struct value_pool *pool);
void value_dict_set(struct value_pool *pool, struct value *dict, const char *key,
                    struct value *item);

/* A JSON text of n bytes as values: key order kept, strings and keys of ORIGIN_USER. name is
 * what errors call it. NULL and err (line, column, reason) if it is not JSON. */
struct value *value_from_json(struct value_pool *pool, const char *json, size_t n,
                              const char *name, struct err *err);
/* The same with the strings under the top-level keys bos_token, eos_token, unk_token and
 * pad_token as ORIGIN_LITERAL: the variables of a template as a JSON object. */
struct value *value_from_json_context(struct value_pool *pool, const char *json, size_t n,
                                      const char *name, struct err *err);

/* ---- Templates ---- */

struct template;

/* Parses n bytes of source, copied; a byte order mark is no part of it. Some files have a name
 * for a template, as "rwkv-world": one that is built in. name begins every error message of
 * this template. NULL and err (ERR_FORMAT) if it is not a template. */
struct template *template_parse(const char *source, size_t n, const char *name,
                                struct err *err);
void template_free(struct template *t); /* NULL is fine */

/* Whether a variable, attribute or string literal of the template is called so
 * ("enable_thinking", "tools", "system"): what the template can react to. */
bool template_mentions(const struct template *t, const char *name);
/* Whether a variable is called so, not only an attribute or a string: what it can be told. */
bool template_has_variable(const struct template *t, const char *name);

/* Zero means the default. */
struct template_options {
    uint64_t fuel;           /* steps; the default lasts about a second */
    unsigned max_depth;      /* nested expressions, blocks, calls and values; 600 */
    size_t max_output_bytes; /* of the rendering and of any string on the way; 64 MiB */
    size_t max_memory_bytes; /* of all values made on the way; 192 MiB */
    const struct tm *now;    /* what strftime_now sees; NULL: the local clock */
};

/* A rendering: text holds len bytes (and a NUL after them), runs cover them in order without
 * gaps, neighbours that continue each other are one run. */
struct rendering {
    char *text;
    size_t len;
    struct origin_run *runs;
    size_t n_runs;
};

/* Renders t with the variables of the dict `globals` (made by value_dict or value_from_json)
 * into *out, which rendering_free releases. options may be NULL. On failure *out is empty and
 * err holds "NAME: line N: reason": ERR_USER when the template itself called raise_exception
 * (the reason is its message), ERR_FORMAT when it cannot work on these values or exceeds a
 * limit. */
bool template_render(const struct template *t, const struct value *globals,
                     const struct template_options *options, struct rendering *out,
                     struct err *err);
void rendering_free(struct rendering *r);

#endif
