/* Values as text, as Python prints them: str, repr, json.dumps. Each appends to a builder of
 * the rendering and fails through work_fail. Private to this folder. */
#ifndef TEMPLATE_PRINT_H
#define TEMPLATE_PRINT_H

#include "template/value.h"

/* str(v): a string as it is, with its origins; undefined as nothing; all else ORIGIN_USER. */
void print_str(struct builder *b, const struct value *v);
struct text print_to_text(struct work *w, const struct value *v);
/* repr(v). */
void print_repr(struct builder *b, const struct value *v);

struct json_style {
    struct text indent;    /* of one level; only if pretty */
    struct text item, key; /* separators: ", " and ": " */
    bool pretty;           /* one item per line */
    bool sort_keys;
    bool ascii; /* everything beyond ASCII as \u escapes */
};
/* json.dumps(v); fails on what JSON has no form for. All of it is ORIGIN_USER. */
void print_json(struct builder *b, const struct value *v, const struct json_style *style);

#endif
