/* What a reference in a schema names: a JSON pointer in a fragment of a URI. */
#include <stdlib.h>

#include "base/buf.h"
#include "text/scan.h"
#include "text/schema_impl.h"

/* The byte that a % and two hexadecimal digits are; 0: they are none. */
static char percent_byte(const char *s)
{
    const int high = *s == '%' ? scan_digit(s[1]) : -1, low = high < 0 ? -1 : scan_digit(s[2]);
    return low < 0 ? '\0' : (char)(high << 4 | low);
}

/* What a part of a URI stands for: any byte may be written with a %, but for NUL, which no name
 * has. */
static void decode(struct buf *out, const char *ref)
{
    for (; *ref; ref++) {
        const char byte = percent_byte(ref);
        buf_putc(out, byte ? byte : *ref);
        if (byte) ref += 2;
    }
}

/* The element whose index the name is, without zeros in front. */
static const json_t *element(const json_t *array, const char *name)
{
    char *end;
    if (*name < '0' || *name > '9' || (*name == '0' && name[1])) return NULL;
    const unsigned long i = strtoul(name, &end, 10);
    return *end ? NULL : json_array_get(array, i);
}

/* What "/a/b" names: "~1" is a slash and "~0" a tilde in a name. */
static const json_t *at_pointer(const json_t *at, const char *p)
{
    struct buf name = {0};
    while (at && *p == '/') {
        buf_clear(&name);
        for (p++; *p && *p != '/'; p++) {
            const bool is_escaped = *p == '~' && (p[1] == '0' || p[1] == '1');
            if (is_escaped) p++;
            buf_putc(&name, !is_escaped ? *p : *p == '1' ? '/' : '~');
        }
        at = json_is_array(at) ? element(at, buf_str(&name))
                               : json_object_get(at, buf_str(&name));
    }
    buf_free(&name);
    return *p ? NULL : at;
}

const json_t *schema_resolve(const json_t *root, const char *ref)
{
    struct buf pointer = {0};
    if (*ref != '#') return NULL;
    decode(&pointer, ref + 1);
    const json_t *to = at_pointer(root, buf_str(&pointer));
    buf_free(&pointer);
    return to;
}
