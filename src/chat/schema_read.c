/* What --schema asks of replies. */
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "chat/impl.h"
#include "config/options.h"
#include "engine/engine.h"

/* A file whose name ends so is a grammar of llama.cpp's, any other a JSON Schema. */
static bool is_gbnf(const char *path)
{
    static const char ending[] = ".gbnf";
    const size_t len = path ? strlen(path) : 0, n = sizeof ending - 1;
    return len >= n && strcmp(path + len - n, ending) == 0;
}

/* NULL and err: it cannot be read, or not be promised. */
static const struct grammar *read_grammar(const struct options *o, struct err *err)
{
    const char *path = options_file(o, OPT_SCHEMA);
    if (strcmp(o->schema, "json") == 0) return engine_grammar(NULL, 0, err);
    struct buf text = {0};
    const struct grammar *g = NULL;
    if (!path) buf_puts(&text, o->schema);
    if (!path || file_read(path, SCHEMA_MAX_BYTES, &text, err)) {
        const size_t mark = utf8_mark(buf_str(&text), text.len);
        g = (is_gbnf(path) ? engine_gbnf : engine_grammar)(buf_str(&text) + mark,
                                                           text.len - mark, err);
        if (!g && path) err_prefix(err, "%s", path);
    }
    buf_free(&text);
    if (!g) err_prefix(err, "the schema");
    return g;
}

bool schema_read(struct chat *c, struct err *err)
{
    const bool is_off = strcmp(c->options->schema, "off") == 0;
    const struct grammar *g = is_off ? NULL : read_grammar(c->options, err);
    if (!g && !is_off) return false;
    engine_grammar_release(c->grammar);
    c->grammar = g;
    return true;
}
