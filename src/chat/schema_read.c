/* What --schema asks of replies. */
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "chat/impl.h"
#include "config/options.h"
#include "engine/engine.h"

#define MAX_SCHEMA_BYTES ((size_t)1 << 20)

bool schema_read(struct chat *c, struct err *err)
{
    const char *schema = c->options->schema;
    const char *path = options_file(c->options, OPT_SCHEMA);
    if (!schema) return true;
    if (!path && *schema != '{') {
        c->grammar = engine_grammar(NULL, 0, err);
        return true;
    }
    struct buf text = {0};
    if (!path) buf_puts(&text, schema);
    if (!path || file_read(path, MAX_SCHEMA_BYTES, &text, err)) {
        c->grammar = engine_grammar(buf_str(&text), text.len, err);
        if (!c->grammar && path) err_prefix(err, "%s", path);
    }
    buf_free(&text);
    return c->grammar || err_prefix(err, "the schema");
}
