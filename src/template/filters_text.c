/* Filters of strings. */
#include "template/builtins.h"
#include "template/case.h"
#include "template/print.h"

static const struct value *filter_string(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    (void)a;
    return self->type == VALUE_STRING ? self : make_text(e, arg_text(e, self));
}

static const struct value *filter_upper(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)a;
    return make_text(e, case_map(e->w, arg_text(e, self), CASE_UPPER));
}

static const struct value *filter_lower(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)a;
    return make_text(e, case_map(e->w, arg_text(e, self), CASE_LOWER));
}

static const struct value *filter_capitalize(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    (void)a;
    return make_text(e, case_capitalize(e->w, arg_text(e, self)));
}

static void add_word(struct builder *b, struct text t)
{
    const size_t first = t.len ? text_char_len(t, 0) : 0;
    builder_add(b, case_map(b->w, text_slice(t, 0, first), CASE_UPPER));
    builder_add(b, case_map(b->w, text_slice(t, first, t.len), CASE_LOWER));
}

/* Words are what white space, hyphens and opening brackets separate. They begin in upper case,
 * as Jinja has it, not in title case. */
static const struct value *filter_title(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)a;
    struct text t = arg_text(e, self);
    struct builder b;
    builder_init(&b, e->w);
    size_t len, from = 0;
    for (size_t at = 0; at < t.len; at += len) {
        uint32_t cp = text_char(t, at, &len);
        if (!char_is_space(cp) && !(cp < 0x80 && cp && strchr("-({[<", (int)cp))) continue;
        add_word(&b, text_slice(t, from, at));
        builder_add(&b, text_slice(t, at, at + len));
        from = at + len;
    }
    add_word(&b, text_slice(t, from, t.len));
    return make_text(e, text_plain(builder_take(&b)));
}

static const struct value *filter_trim(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    struct text t = arg_text(e, self), chars;
    bool all = !a->bound[0] || a->bound[0]->type == VALUE_NONE;
    if (!all) chars = arg_string(e, a->bound[0], "the characters to trim");
    return make_text(e, text_strip(e->w, t, all ? NULL : &chars, true, true));
}

static const struct value *filter_replace(struct eval *e, const struct value *self,
                                          const struct args *a)
{
    int64_t max = arg_int(e, a->bound[2], -1, "count");
    return make_text(e, text_replace(e->w, arg_text(e, self), arg_text(e, a->bound[0]),
                                     arg_text(e, a->bound[1]), max));
}

static const struct value *filter_indent(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    struct text t = arg_string(e, self, "what is indented");
    bool first = arg_bool(a->bound[1], false), blank = arg_bool(a->bound[2], false);
    struct text indent;
    if (a->bound[0] && a->bound[0]->type == VALUE_STRING) {
        indent = a->bound[0]->text;
    } else {
        int64_t width = arg_int(e, a->bound[0], 4, "width");
        struct builder spaces;
        builder_init(&spaces, e->w);
        if (width > (int64_t)e->w->max_string_bytes)
            work_fail(e->w, "an indent of too many spaces");
        builder_fill(&spaces, ' ', width > 0 ? (size_t)width : 0, ORIGIN_LITERAL);
        indent = builder_take(&spaces);
    }
    struct builder b;
    builder_init(&b, e->w);
    if (first) builder_add(&b, indent);
    /* One line break is added before the lines are split, so an empty last line stays. */
    for (size_t at = 0, next; at <= t.len; at = next) {
        size_t end = text_line_end(t, at, &next);
        if (at) {
            builder_add_bytes(&b, "\n", 1, ORIGIN_LITERAL);
            if (end > at || blank) builder_add(&b, indent);
        }
        builder_add(&b, text_slice(t, at, end));
        if (end == t.len) break;
    }
    work_burn_bytes(e->w, t.len);
    return make_builder(&b);
}

static const struct value *filter_truncate(struct eval *e, const struct value *self,
                                           const struct args *a)
{
    struct text t = arg_string(e, self, "what is truncated");
    struct text end = a->bound[2] ? arg_text(e, a->bound[2]) : text_literal("...");
    int64_t length = arg_int(e, a->bound[0], 255, "length");
    int64_t leeway = arg_int(e, a->bound[3], 5, "leeway");
    int64_t n = (int64_t)text_n_chars(t), n_end = (int64_t)text_n_chars(end);
    work_burn_bytes(e->w, t.len);
    if (length < n_end || leeway < 0)
        work_fail(e->w, "truncate: the length is less than that of the end");
    if (n <= length || n - length <= leeway) return self;
    struct text kept = text_slice(t, 0, text_char_pos(t, (size_t)(length - n_end)));
    if (!arg_bool(a->bound[1], false)) {
        size_t space = text_find_last(e->w, kept, text_literal(" "));
        if (space != TEXT_NONE) kept = text_slice(kept, 0, space);
    }
    return make_text(e, text_concat(e->w, kept, end));
}

static const struct value *filter_center(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    struct text t = arg_text(e, self);
    work_burn_bytes(e->w, t.len);
    size_t n = text_n_chars(t);
    int64_t width = arg_width(e, a->bound[0], 80);
    int64_t pad = width - (int64_t)n;
    if (pad <= 0) return make_text(e, t);
    if (pad > (int64_t)e->w->max_string_bytes) work_fail(e->w, "centred in too many columns");
    /* As str.center: the odd space goes left when the width is odd too. */
    int64_t left = pad / 2 + (pad & width & 1);
    struct builder b;
    builder_init(&b, e->w);
    builder_fill(&b, ' ', (size_t)left, ORIGIN_LITERAL);
    builder_add(&b, t);
    builder_fill(&b, ' ', (size_t)(pad - left), ORIGIN_LITERAL);
    return make_builder(&b);
}

static const struct value *filter_wordcount(struct eval *e, const struct value *self,
                                            const struct args *a)
{
    (void)a;
    struct text t = arg_text(e, self);
    int64_t n = 0;
    bool inside = false;
    size_t len;
    work_burn_lookups(e->w, t.len);
    for (size_t at = 0; at < t.len; at += len) {
        uint32_t cp = text_char(t, at, &len);
        bool word = char_is_alnum(cp) || cp == '_';
        n += word && !inside;
        inside = word;
    }
    return value_make_int(e->w, n);
}

static const struct value *filter_escape(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    (void)a;
    static const struct {
        char c;
        const char *entity;
    } entities[] = {
        {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    struct text t = arg_text(e, self);
    struct builder b;
    builder_init(&b, e->w);
    for (size_t i = 0; i < t.len; i++) {
        const char *entity = NULL;
        for (size_t k = 0; k < sizeof entities / sizeof *entities; k++)
            if (t.data[i] == entities[k].c) entity = entities[k].entity;
        if (entity)
            builder_puts(&b, entity);
        else
            builder_putc(&b, t.data[i]);
    }
    return make_builder(&b);
}

static const struct value *filter_urlencode(struct eval *e, const struct value *self,
                                            const struct args *a)
{
    (void)a;
    static const char hex[] = "0123456789ABCDEF";
    if (self->type == VALUE_SEQ || self->type == VALUE_DICT) /* pairs, to Jinja */
        work_fail(e->w, "urlencode of a %s is not supported", value_type_name(self));
    struct text t = arg_text(e, self);
    struct builder b;
    builder_init(&b, e->w);
    for (size_t i = 0; i < t.len; i++) {
        unsigned char c = (unsigned char)t.data[i];
        bool safe = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                    (c >= 'A' && c <= 'Z') || (c && strchr("_.-~/", c));
        if (!safe) {
            builder_putc(&b, '%');
            builder_putc(&b, hex[c >> 4]);
        }
        builder_putc(&b, safe ? (char)c : hex[c & 15]);
    }
    return make_builder(&b);
}

/* %-formatting with the positional arguments as a tuple or the named ones as a dict. */
static const struct value *filter_format(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    if (a->n && a->n_named)
        work_fail(e->w, "format takes positional or named arguments, not both");
    struct value *values = a->n_named ? value_make_dict(e->w) : value_make_seq(e->w, SEQ_TUPLE);
    for (size_t i = 0; i < a->n; i++)
        seq_add(e->w, values->seq, a->at[i]);
    for (size_t i = 0; i < a->n_named; i++)
        dict_set(e->w, values->dict, a->named[i].name, a->named[i].value);
    return make_text(e, format_percent(e->w, arg_text(e, self), values));
}

static const struct value *filter_join(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    struct text separator = a->bound[0] ? arg_text(e, a->bound[0]) : text_literal("");
    struct items items = value_items(e->w, self);
    struct builder b;
    builder_init(&b, e->w);
    for (size_t i = 0; i < items.n; i++) {
        const struct value *item = items.at[i];
        if (a->bound[1] && a->bound[1]->type != VALUE_NONE)
            item = attr_path(e, item, a->bound[1]);
        if (i) builder_add(&b, separator);
        print_str(&b, item);
        work_burn(e->w, 1);
    }
    return make_builder(&b);
}

const struct builtin filters_text[] = {
    {"capitalize", "", 0, filter_capitalize},
    {"center", "width", 0, filter_center},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"forceescape", "", 0, filter_escape},
    {"format", NULL, 0, filter_format},
    {"indent", "width first blank", 0, filter_indent},
    {"join", "d attribute", 0, filter_join},
    {"lower", "", 0, filter_lower},
    {"replace", "old new count", 2, filter_replace},
    {"safe", "", 0, filter_string},
    {"string", "", 0, filter_string},
    {"title", "", 0, filter_title},
    {"trim", "chars", 0, filter_trim},
    {"truncate", "length killwords end leeway", 0, filter_truncate},
    {"upper", "", 0, filter_upper},
    {"urlencode", "", 0, filter_urlencode},
    {"wordcount", "", 0, filter_wordcount},
    {NULL, NULL, 0, NULL},
};
