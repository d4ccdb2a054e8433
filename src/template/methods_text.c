/* The methods of str. */
#include "template/builtins.h"
#include "template/case.h"

/* ---- Splitting ---- */

static void add_slice(struct eval *e, struct value *list, struct text t, size_t from, size_t to)
{
    seq_add(e->w, list->seq, make_text(e, text_slice(t, from, to)));
    work_burn(e->w, 1);
}

/* Around runs of white space, empty parts left out; at most max splits unless negative. */
static void split_space(struct eval *e, struct value *list, struct text t, int64_t max)
{
    size_t at = 0, len = 0;
    for (;;) {
        while (at < t.len && char_is_space(text_char(t, at, &len)))
            at += len;
        if (at == t.len) return;
        size_t from = at;
        if (max == 0) {
            add_slice(e, list, t, from, t.len);
            return;
        }
        while (at < t.len && !char_is_space(text_char(t, at, &len)))
            at += len;
        add_slice(e, list, t, from, at);
        if (max > 0) max--;
    }
}

static void reverse_list(struct seq *seq)
{
    for (size_t i = 0; i + 1 < seq->n - i; i++) {
        const struct value *other = seq->items[i];
        seq->items[i] = seq->items[seq->n - 1 - i];
        seq->items[seq->n - 1 - i] = other;
    }
}

/* The same from the right, parts in reverse order. */
static void rsplit_space(struct eval *e, struct value *list, struct text t, int64_t max)
{
    while (t.len) {
        t = text_strip(e->w, t, NULL, false, true);
        if (!t.len) return;
        if (max == 0) {
            add_slice(e, list, t, 0, t.len);
            return;
        }
        size_t from = t.len;
        for (; from > 0; from--) {
            size_t len, at = from - 1;
            while (at > 0 && from - at < 4 && ((unsigned char)t.data[at] & 0xC0) == 0x80)
                at--;
            if (char_is_space(text_char(t, at, &len)) && at + len == from) break;
        }
        add_slice(e, list, t, from, t.len);
        t = text_slice(t, 0, from);
        if (max > 0) max--;
    }
}

static const struct value *split(struct eval *e, const struct value *self, const struct args *a,
                                 bool right)
{
    struct text t = self->text;
    struct value *list = value_make_seq(e->w, SEQ_LIST);
    int64_t max = arg_int(e, a->bound[1], -1, "maxsplit");
    work_burn_bytes(e->w, t.len);
    if (!a->bound[0] || a->bound[0]->type == VALUE_NONE) {
        if (right)
            rsplit_space(e, list, t, max);
        else
            split_space(e, list, t, max);
    } else {
        struct text separator = arg_string(e, a->bound[0], "the separator");
        if (!separator.len) work_fail(e->w, "split: empty separator");
        size_t from = 0, hit;
        for (; !right && max != 0; max -= max > 0) {
            hit = text_find(t, separator, from);
            if (hit == TEXT_NONE) break;
            add_slice(e, list, t, from, hit);
            from = hit + separator.len;
        }
        for (; right && max != 0; max -= max > 0) {
            hit = text_find_last(e->w, t, separator);
            if (hit == TEXT_NONE) break;
            add_slice(e, list, t, hit + separator.len, t.len);
            t = text_slice(t, 0, hit);
        }
        add_slice(e, list, t, from, t.len);
    }
    if (right) reverse_list(list->seq);
    return list;
}

static const struct value *text_method_split(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return split(e, self, a, false);
}

static const struct value *text_method_rsplit(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    return split(e, self, a, true);
}

static const struct value *text_method_splitlines(struct eval *e, const struct value *self,
                                                  const struct args *a)
{
    struct text t = self->text;
    bool keep = arg_bool(a->bound[0], false);
    struct value *list = value_make_seq(e->w, SEQ_LIST);
    for (size_t at = 0, next; at < t.len; at = next) {
        size_t end = text_line_end(t, at, &next);
        add_slice(e, list, t, at, keep ? next : end);
    }
    work_burn_bytes(e->w, t.len);
    return list;
}

/* (before, separator, after); the whole and two empty strings when it does not occur. */
static const struct value *partition(struct eval *e, const struct value *self,
                                     const struct args *a, bool right)
{
    struct text t = self->text, separator = arg_string(e, a->bound[0], "the separator");
    if (!separator.len) work_fail(e->w, "partition: empty separator");
    size_t hit = right ? text_find_last(e->w, t, separator) : text_find(t, separator, 0);
    size_t from = hit, to = hit + separator.len;
    if (hit == TEXT_NONE) from = to = right ? 0 : t.len;
    struct value *list = value_make_seq(e->w, SEQ_TUPLE);
    add_slice(e, list, t, 0, from);
    add_slice(e, list, t, from, to);
    add_slice(e, list, t, to, t.len);
    work_burn_bytes(e->w, t.len);
    return list;
}

static const struct value *text_method_partition(struct eval *e, const struct value *self,
                                                 const struct args *a)
{
    return partition(e, self, a, false);
}

static const struct value *text_method_rpartition(struct eval *e, const struct value *self,
                                                  const struct args *a)
{
    return partition(e, self, a, true);
}

/* ---- Ends ---- */

static const struct value *strip(struct eval *e, const struct value *self, const struct args *a,
                                 bool left, bool right)
{
    struct text chars = text_literal("");
    bool all = !a->bound[0] || a->bound[0]->type == VALUE_NONE;
    if (!all) chars = arg_string(e, a->bound[0], "the characters to strip");
    return make_text(e, text_strip(e->w, self->text, all ? NULL : &chars, left, right));
}

static const struct value *text_method_strip(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return strip(e, self, a, true, true);
}

static const struct value *text_method_lstrip(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    return strip(e, self, a, true, false);
}

static const struct value *text_method_rstrip(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    return strip(e, self, a, false, true);
}

/* Index i of n characters as start and end of many methods have it: from the end below 0. */
static int64_t place_of(int64_t i, int64_t n)
{
    if (i >= 0) return i;
    return i + n > 0 ? i + n : 0;
}

/* The characters of self that the optional arguments start and end leave, and how many bytes
 * are left out at the front. False: start is behind the end, where there is not even an empty
 * text. */
static bool part_of(struct eval *e, const struct value *self, const struct args *a,
                    struct text *part, size_t *before)
{
    *part = self->text;
    *before = 0;
    if (!a->bound[1] && !a->bound[2]) return true;
    const int64_t n = (int64_t)text_n_chars(self->text);
    const int64_t from = place_of(arg_int(e, a->bound[1], 0, "start"), n);
    const int64_t end = place_of(arg_int(e, a->bound[2], n, "end"), n), to = end < n ? end : n;
    work_burn_bytes(e->w, self->text.len);
    if (from > to) return false;
    *before = text_char_pos(self->text, (size_t)from);
    *part = text_slice(self->text, *before, text_char_pos(self->text, (size_t)to));
    return true;
}

/* An argument to compare with the start or the end of a string. */
static struct text arg_end(struct eval *e, const struct value *v, const char *what)
{
    struct text end = arg_string(e, v, what);
    work_burn_compare(e->w, end.len);
    return end;
}

static const struct value *has_end(struct eval *e, const struct value *self,
                                   const struct args *a, bool (*has)(struct text, struct text))
{
    static const char what[] = "the prefix or suffix";
    size_t before;
    struct text t;
    const bool is_some = part_of(e, self, a, &t, &before);
    const struct value *ends = a->bound[0];
    if (ends->type != VALUE_SEQ || ends->seq->kind != SEQ_TUPLE)
        return value_make_bool(has(t, arg_end(e, ends, what)) && is_some);
    for (size_t i = 0; i < ends->seq->n; i++) {
        work_burn(e->w, 1);
        if (has(t, arg_end(e, ends->seq->items[i], what)) && is_some) return &value_true_const;
    }
    return &value_false_const;
}

static const struct value *text_method_startswith(struct eval *e, const struct value *self,
                                                  const struct args *a)
{
    return has_end(e, self, a, text_starts);
}

static const struct value *text_method_endswith(struct eval *e, const struct value *self,
                                                const struct args *a)
{
    return has_end(e, self, a, text_ends);
}

static const struct value *text_method_removeprefix(struct eval *e, const struct value *self,
                                                    const struct args *a)
{
    struct text prefix = arg_end(e, a->bound[0], "the prefix");
    if (!text_starts(self->text, prefix)) return self;
    return make_text(e, text_slice(self->text, prefix.len, self->text.len));
}

static const struct value *text_method_removesuffix(struct eval *e, const struct value *self,
                                                    const struct args *a)
{
    struct text suffix = arg_end(e, a->bound[0], "the suffix");
    if (!text_ends(self->text, suffix)) return self;
    return make_text(e, text_slice(self->text, 0, self->text.len - suffix.len));
}

/* ---- Finding ---- */

/* The place in characters, -1 if nowhere; an error instead when it must be there. */
static const struct value *find(struct eval *e, const struct value *self, const struct args *a,
                                bool right, bool must)
{
    size_t before;
    struct text needle = arg_string(e, a->bound[0], "what is looked for"), t;
    size_t hit = TEXT_NONE;
    if (part_of(e, self, a, &t, &before))
        hit = right ? text_find_last(e->w, t, needle) : text_find(t, needle, 0);
    work_burn_bytes(e->w, self->text.len);
    if (hit == TEXT_NONE && must) work_fail(e->w, "substring not found");
    if (hit == TEXT_NONE) return value_make_int(e->w, -1);
    size_t n = text_n_chars(text_slice(self->text, 0, before + hit));
    return value_make_int(e->w, (int64_t)n);
}

static const struct value *text_method_find(struct eval *e, const struct value *self,
                                            const struct args *a)
{
    return find(e, self, a, false, false);
}

static const struct value *text_method_rfind(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return find(e, self, a, true, false);
}

static const struct value *text_method_index(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return find(e, self, a, false, true);
}

static const struct value *text_method_rindex(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    return find(e, self, a, true, true);
}

static const struct value *text_method_count(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    size_t before;
    struct text needle = arg_string(e, a->bound[0], "what is counted"), t;
    if (!part_of(e, self, a, &t, &before)) return value_make_int(e->w, 0);
    work_burn_bytes(e->w, t.len);
    if (!needle.len) return value_make_int(e->w, (int64_t)text_n_chars(t) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = text_find(t, needle, at)) != TEXT_NONE; at += needle.len)
        n++;
    return value_make_int(e->w, n);
}

/* ---- Making other strings ---- */

static const struct value *text_method_replace(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    struct text from = arg_string(e, a->bound[0], "what is replaced");
    struct text to = arg_string(e, a->bound[1], "the replacement");
    int64_t max = arg_int(e, a->bound[2], -1, "count");
    return make_text(e, text_replace(e->w, self->text, from, to, max));
}

static const struct value *text_method_join(struct eval *e, const struct value *self,
                                            const struct args *a)
{
    struct items items = value_items(e->w, a->bound[0]);
    struct builder b;
    builder_init(&b, e->w);
    for (size_t i = 0; i < items.n; i++) {
        if (i) builder_add(&b, self->text);
        builder_add(&b, arg_string(e, items.at[i], "an item to join"));
    }
    return make_builder(&b);
}

static const struct value *text_method_format(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    return make_text(e, format_braces(e, self->text, a));
}

static const struct value *text_method_upper(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    (void)a;
    return make_text(e, case_map(e->w, self->text, CASE_UPPER));
}

static const struct value *text_method_lower(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    (void)a;
    return make_text(e, case_map(e->w, self->text, CASE_LOWER));
}

static const struct value *text_method_casefold(struct eval *e, const struct value *self,
                                                const struct args *a)
{
    (void)a;
    return make_text(e, case_map(e->w, self->text, CASE_FOLD));
}

static const struct value *text_method_swapcase(struct eval *e, const struct value *self,
                                                const struct args *a)
{
    (void)a;
    return make_text(e, case_map(e->w, self->text, CASE_SWAP));
}

static const struct value *text_method_title(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    (void)a;
    return make_text(e, case_title(e->w, self->text));
}

static const struct value *text_method_capitalize(struct eval *e, const struct value *self,
                                                  const struct args *a)
{
    (void)a;
    return make_text(e, case_capitalize(e->w, self->text));
}

/* self between `left` and `right` pads that make it that wide. */
static const struct value *pad(struct eval *e, const struct value *self, const struct args *a,
                               int where)
{
    struct text fill =
        a->bound[1] ? arg_string(e, a->bound[1], "the fill character") : text_literal(" ");
    if (text_n_chars(fill) != 1) work_fail(e->w, "the fill must be exactly one character");
    int64_t width = arg_width(e, a->bound[0], 0);
    int64_t n = width - (int64_t)text_n_chars(self->text);
    work_burn_bytes(e->w, self->text.len);
    if (n <= 0) return self;
    int64_t left = where < 0 ? 0 : where > 0 ? n : n / 2 + (n & width & 1);
    struct builder b;
    builder_init(&b, e->w);
    for (int64_t i = 0; i < left; i++)
        builder_add(&b, fill);
    builder_add(&b, self->text);
    for (int64_t i = left; i < n; i++)
        builder_add(&b, fill);
    return make_builder(&b);
}

static const struct value *text_method_ljust(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return pad(e, self, a, -1);
}

static const struct value *text_method_rjust(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return pad(e, self, a, 1);
}

static const struct value *text_method_center(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    return pad(e, self, a, 0);
}

static const struct value *text_method_zfill(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    struct text t = self->text;
    work_burn_bytes(e->w, t.len);
    int64_t n = arg_width(e, a->bound[0], 0) - (int64_t)text_n_chars(t);
    if (n <= 0) return self;
    if (n > (int64_t)e->w->max_string_bytes) work_fail(e->w, "zfill: the width is too large");
    size_t sign = t.len && (t.data[0] == '-' || t.data[0] == '+');
    struct builder b;
    builder_init(&b, e->w);
    builder_add(&b, text_slice(t, 0, sign));
    builder_fill(&b, '0', (size_t)n, ORIGIN_LITERAL);
    builder_add(&b, text_slice(t, sign, t.len));
    return make_builder(&b);
}

/* ---- Asking ---- */

static const struct value *every_char(struct eval *e, const struct value *self,
                                      bool (*holds)(uint32_t))
{
    struct text t = self->text;
    size_t len;
    work_burn_lookups(e->w, t.len);
    for (size_t at = 0; at < t.len; at += len)
        if (!holds(text_char(t, at, &len))) return &value_false_const;
    return value_make_bool(t.len != 0);
}

static const struct value *text_method_isalpha(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    (void)a;
    return every_char(e, self, char_is_alpha);
}

static const struct value *text_method_isdigit(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    (void)a;
    return every_char(e, self, char_is_digit);
}

static const struct value *text_method_isdecimal(struct eval *e, const struct value *self,
                                                 const struct args *a)
{
    (void)a;
    return every_char(e, self, char_is_decimal);
}

static const struct value *text_method_isnumeric(struct eval *e, const struct value *self,
                                                 const struct args *a)
{
    (void)a;
    return every_char(e, self, char_is_number);
}

static const struct value *text_method_isalnum(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    (void)a;
    return every_char(e, self, char_is_alnum);
}

static const struct value *text_method_isspace(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    (void)a;
    return every_char(e, self, char_is_space);
}

static const struct value *text_method_isupper(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    (void)a;
    return value_make_bool(case_is(e->w, self->text, CASE_UPPER));
}

static const struct value *text_method_islower(struct eval *e, const struct value *self,
                                               const struct args *a)
{
    (void)a;
    return value_make_bool(case_is(e->w, self->text, CASE_LOWER));
}

const struct builtin methods_text[] = {
    {"capitalize", "", 0, text_method_capitalize},
    {"casefold", "", 0, text_method_casefold},
    {"center", "width fillchar", 1, text_method_center},
    {"count", "sub start end", 1, text_method_count},
    {"endswith", "suffix start end", 1, text_method_endswith},
    {"find", "sub start end", 1, text_method_find},
    {"format", NULL, 0, text_method_format},
    {"index", "sub start end", 1, text_method_index},
    {"isalnum", "", 0, text_method_isalnum},
    {"isalpha", "", 0, text_method_isalpha},
    {"isdecimal", "", 0, text_method_isdecimal},
    {"isdigit", "", 0, text_method_isdigit},
    {"islower", "", 0, text_method_islower},
    {"isnumeric", "", 0, text_method_isnumeric},
    {"isspace", "", 0, text_method_isspace},
    {"isupper", "", 0, text_method_isupper},
    {"join", "iterable", 1, text_method_join},
    {"ljust", "width fillchar", 1, text_method_ljust},
    {"lower", "", 0, text_method_lower},
    {"lstrip", "chars", 0, text_method_lstrip},
    {"partition", "sep", 1, text_method_partition},
    {"removeprefix", "prefix", 1, text_method_removeprefix},
    {"removesuffix", "suffix", 1, text_method_removesuffix},
    {"replace", "old new count", 2, text_method_replace},
    {"rfind", "sub start end", 1, text_method_rfind},
    {"rindex", "sub start end", 1, text_method_rindex},
    {"rjust", "width fillchar", 1, text_method_rjust},
    {"rpartition", "sep", 1, text_method_rpartition},
    {"rsplit", "sep maxsplit", 0, text_method_rsplit},
    {"rstrip", "chars", 0, text_method_rstrip},
    {"split", "sep maxsplit", 0, text_method_split},
    {"splitlines", "keepends", 0, text_method_splitlines},
    {"startswith", "prefix start end", 1, text_method_startswith},
    {"strip", "chars", 0, text_method_strip},
    {"swapcase", "", 0, text_method_swapcase},
    {"title", "", 0, text_method_title},
    {"upper", "", 0, text_method_upper},
    {"zfill", "width", 1, text_method_zfill},
    {NULL, NULL, 0, NULL},
};
