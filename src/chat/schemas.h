/* The last few schemas that messages brought with them, as grammars: one that comes again is
 * not compiled again, and what the engine keeps of its grammar counts again.
 *
 * The owner embeds it, {0} at first. Owner's thread only. It knows no option and no message. */
#ifndef CHAT_SCHEMAS_H
#define CHAT_SCHEMAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct grammar;

/* As many as a script asks for in turn. */
enum { SCHEMAS_KEPT = 8 };
/* Of one schema; a file may have as many. */
enum { SCHEMA_MAX_BYTES = 1 << 20 };

struct schemas {
    struct {
        char *text; /* NULL: none yet */
        const struct grammar *grammar;
        uint64_t used; /* when it was asked for last */
    } kept[SCHEMAS_KEPT];
    uint64_t asked;
};

/* The grammar of a schema: an object of JSON, or "json" for any object or array. It lives until
 * SCHEMAS_KEPT - 1 others were asked for. NULL and err: it cannot be promised, or is longer
 * than SCHEMA_MAX_BYTES. */
const struct grammar *schemas_find(struct schemas *s, const char *text, struct err *err);
void schemas_free(struct schemas *s);

#endif
