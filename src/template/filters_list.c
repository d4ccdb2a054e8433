/* Filters of what can be walked: parts, order, mapping and selecting. */
#include "template/builtins.h"
#include "template/case.h"

static struct value *new_seq(struct eval *e, enum seq_kind kind)
{
    return value_make_seq(e->w, kind);
}

/* ---- Parts ---- */

static const struct value *filter_first(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)a;
    if (self->type == VALUE_STRING && self->text.len)
        return make_text(e, text_slice(self->text, 0, text_char_len(self->text, 0)));
    if (self->type == VALUE_SEQ && self->seq->kind == SEQ_GENERATOR) {
        if (self->seq->next < self->seq->n) return self->seq->items[self->seq->next++];
        return value_undefined_reason(e->w, "no first item, the sequence was empty");
    }
    struct items items = value_items(e->w, self);
    if (items.n) return items.at[0];
    return value_undefined_reason(e->w, "no first item, the sequence was empty");
}

static void no_generator(struct eval *e, const struct value *v)
{
    if (v->type == VALUE_SEQ && v->seq->kind == SEQ_GENERATOR)
        work_fail(e->w, "'generator' object is not reversible");
}

static const struct value *filter_last(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    (void)a;
    no_generator(e, self);
    struct items items = value_items(e->w, self);
    if (items.n) return items.at[items.n - 1];
    return value_undefined_reason(e->w, "no last item, the sequence was empty");
}

static const struct value *filter_list(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    (void)a;
    struct value *made = new_seq(e, SEQ_LIST);
    struct items items = value_items(e->w, self);
    for (size_t i = 0; i < items.n; i++)
        seq_add(e->w, made->seq, items.at[i]);
    return made;
}

static const struct value *filter_reverse(struct eval *e, const struct value *self,
                                          const struct args *a)
{
    (void)a;
    if (self->type == VALUE_STRING)
        return op_slice(e->w, self, NULL, NULL, value_make_int(e->w, -1));
    struct value *made = new_seq(e, SEQ_GENERATOR);
    struct items items = value_items(e->w, self);
    for (size_t i = items.n; i > 0; i--)
        seq_add(e->w, made->seq, items.at[i - 1]);
    return made;
}

static const struct value *filter_items(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)a;
    struct value *made = new_seq(e, SEQ_GENERATOR);
    if (self->type == VALUE_UNDEFINED) return made;
    if (self->type != VALUE_DICT)
        work_fail(e->w, "items: can only get item pairs from a mapping");
    for (size_t i = 0; i < self->dict->n; i++) {
        const struct dict_entry *entry = &self->dict->entries[i];
        seq_add(e->w, made->seq, value_make_pair(e->w, entry->key, entry->value));
    }
    work_burn(e->w, self->dict->n);
    return made;
}

/* Lists of `size` items each; the last is filled up when there is something to fill with. */
static const struct value *filter_batch(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    int64_t size = arg_int(e, a->bound[0], 1, "linecount");
    struct items items = value_items(e->w, self);
    struct value *made = new_seq(e, SEQ_GENERATOR), *row = NULL;
    if (size < 1) work_fail(e->w, "batch: linecount must be at least 1");
    for (size_t i = 0; i < items.n; i++) {
        if (!row || (int64_t)row->seq->n == size) {
            row = new_seq(e, SEQ_LIST);
            seq_add(e->w, made->seq, row);
        }
        seq_add(e->w, row->seq, items.at[i]);
    }
    bool fill = row && a->bound[1] && a->bound[1]->type != VALUE_NONE;
    for (; fill && (int64_t)row->seq->n < size; work_burn(e->w, 1))
        seq_add(e->w, row->seq, a->bound[1]);
    return made;
}

/* That many lists of about the same length; Jinja fills all but the longer ones, and all of
 * them where none is longer. */
static const struct value *filter_slice(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    int64_t slices = arg_int(e, a->bound[0], 1, "slices");
    struct items items = value_items(e->w, self);
    struct value *made = new_seq(e, SEQ_GENERATOR);
    if (slices < 1) work_fail(e->w, "slice: slices must be at least 1");
    size_t each = items.n / (size_t)slices, longer = items.n % (size_t)slices, at = 0;
    bool fill = a->bound[1] && a->bound[1]->type != VALUE_NONE;
    for (size_t i = 0; i < (size_t)slices; i++) {
        struct value *row = new_seq(e, SEQ_LIST);
        work_burn(e->w, 1);
        for (size_t k = 0; k < each + (i < longer); k++)
            seq_add(e->w, row->seq, items.at[at++]);
        if (fill && i >= longer) seq_add(e->w, row->seq, a->bound[1]);
        seq_add(e->w, made->seq, row);
    }
    return made;
}

/* ---- Order ---- */

/* What sorting, grouping and comparing look at: the item or its attribute, lower case unless
 * case matters. */
static const struct value *sort_key(struct eval *e, const struct value *item,
                                    const struct value *attribute, bool case_sensitive)
{
    work_burn(e->w, 1);
    if (attribute && attribute->type != VALUE_NONE) item = attr_path(e, item, attribute);
    if (!case_sensitive && item->type == VALUE_STRING)
        return make_text(e, case_map(e->w, item->text, CASE_LOWER));
    return item;
}

struct keyed {
    const struct value *key, *item;
};

/* A stable merge sort; reverse keeps equal items in their order, too. */
static void sort_keyed(struct work *w, struct keyed *list, struct keyed *spare, size_t n,
                       bool reverse)
{
    if (n < 2) return;
    size_t half = n / 2, i = 0, k = half, out = 0;
    sort_keyed(w, list, spare, half, reverse);
    sort_keyed(w, list + half, spare, n - half, reverse);
    memcpy(spare, list, half * sizeof *spare);
    while (i < half && k < n) {
        int order = value_compare(w, list[k].key, spare[i].key, "<");
        if (reverse ? order > 0 : order < 0)
            list[out++] = list[k++];
        else
            list[out++] = spare[i++];
    }
    while (i < half)
        list[out++] = spare[i++];
}

static struct value *sorted(struct eval *e, struct keyed *list, size_t n, bool reverse)
{
    sort_keyed(e->w, list, work_zalloc(e->w, n / 2 + 1, sizeof *list), n, reverse);
    struct value *made = new_seq(e, SEQ_LIST);
    for (size_t i = 0; i < n; i++)
        seq_add(e->w, made->seq, list[i].item);
    return made;
}

/* The keys of an attribute list "a,b" as one list; a list of one of any other. Lists compare
 * where they differ, so what has no order, such as None, may be there if it is everywhere. */
static const struct value *list_key(struct eval *e, const struct value *item,
                                    const struct value *attribute, bool case_sensitive)
{
    struct value *keys = new_seq(e, SEQ_LIST);
    if (!attribute || attribute->type != VALUE_STRING) {
        seq_add(e->w, keys->seq, sort_key(e, item, attribute, case_sensitive));
        return keys;
    }
    struct text t = attribute->text;
    for (size_t at = 0;;) {
        size_t comma = text_find(t, text_literal(","), at);
        struct text part = text_slice(t, at, comma == TEXT_NONE ? t.len : comma);
        seq_add(e->w, keys->seq, sort_key(e, item, make_text(e, part), case_sensitive));
        if (comma == TEXT_NONE) return keys;
        at = comma + 1;
    }
}

static const struct value *filter_sort(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    bool reverse = arg_bool(a->bound[0], false), case_sensitive = arg_bool(a->bound[1], false);
    struct items items = value_items(e->w, self);
    struct keyed *list = work_zalloc(e->w, items.n, sizeof *list);
    for (size_t i = 0; i < items.n; i++) {
        list[i].item = items.at[i];
        list[i].key = list_key(e, items.at[i], a->bound[2], case_sensitive);
    }
    return sorted(e, list, items.n, reverse);
}

static const struct value *filter_dictsort(struct eval *e, const struct value *self,
                                           const struct args *a)
{
    bool case_sensitive = arg_bool(a->bound[0], false), reverse = arg_bool(a->bound[2], false);
    struct text by = a->bound[1] ? arg_text(e, a->bound[1]) : text_literal("key");
    bool by_key = text_is(by, "key");
    if (!by_key && !text_is(by, "value"))
        work_fail(e->w, "dictsort: by must be 'key' or 'value'");
    if (self->type == VALUE_UNDEFINED) value_fail_undefined(e->w, self);
    if (self->type != VALUE_DICT) work_fail(e->w, "dictsort of a %s", value_type_name(self));
    struct keyed *list = work_zalloc(e->w, self->dict->n, sizeof *list);
    for (size_t i = 0; i < self->dict->n; i++) {
        const struct dict_entry *entry = &self->dict->entries[i];
        list[i].key = sort_key(e, by_key ? entry->key : entry->value, NULL, case_sensitive);
        list[i].item = value_make_pair(e->w, entry->key, entry->value);
    }
    return sorted(e, list, self->dict->n, reverse);
}

static const struct value *filter_groupby(struct eval *e, const struct value *self,
                                          const struct args *a)
{
    const struct value *fallback = a->bound[1];
    bool case_sensitive = arg_bool(a->bound[2], false);
    struct items items = value_items(e->w, self);
    struct keyed *list = work_zalloc(e->w, items.n, sizeof *list);
    for (size_t i = 0; i < items.n; i++) {
        const struct value *key = sort_key(e, items.at[i], a->bound[0], case_sensitive);
        if (key->type == VALUE_UNDEFINED && fallback)
            key = sort_key(e, fallback, NULL, case_sensitive);
        list[i] = (struct keyed){key, items.at[i]};
    }
    sort_keyed(e->w, list, work_zalloc(e->w, items.n / 2 + 1, sizeof *list), items.n, false);

    struct value *groups = new_seq(e, SEQ_LIST), *group = NULL;
    for (size_t i = 0; i < items.n; i++) {
        if (!group || !value_equal(e->w, list[i].key, list[i - 1].key)) {
            group = new_seq(e, SEQ_LIST);
            const struct value *name = attr_path(e, list[i].item, a->bound[0]);
            if (name->type == VALUE_UNDEFINED && fallback) name = fallback;
            const struct value *pair = value_make_pair(e->w, name, group);
            pair->seq->name = "group"; /* its halves are also .grouper and .list */
            seq_add(e->w, groups->seq, pair);
        }
        seq_add(e->w, group->seq, list[i].item);
    }
    return groups;
}

static const struct value *filter_unique(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    bool case_sensitive = arg_bool(a->bound[0], false);
    struct items items = value_items(e->w, self);
    struct value *made = new_seq(e, SEQ_GENERATOR);
    struct dict *seen = value_make_dict(e->w)->dict;
    for (size_t i = 0; i < items.n; i++) {
        const struct value *key = sort_key(e, items.at[i], a->bound[1], case_sensitive);
        if (dict_get(e->w, seen, key)) continue;
        dict_set(e->w, seen, key, key);
        seq_add(e->w, made->seq, items.at[i]);
    }
    return made;
}

static const struct value *extreme(struct eval *e, const struct value *self,
                                   const struct args *a, int wanted)
{
    bool case_sensitive = arg_bool(a->bound[0], false);
    struct items items = value_items(e->w, self);
    if (!items.n)
        return value_undefined_reason(e->w, "no aggregated item, the sequence was empty");
    struct keyed best = {NULL, NULL};
    for (size_t i = 0; i < items.n; i++) {
        const struct value *key = sort_key(e, items.at[i], a->bound[1], case_sensitive);
        if (best.key) {
            int order = value_compare(e->w, key, best.key, wanted < 0 ? "<" : ">");
            if (wanted < 0 ? order >= 0 : order <= 0) continue;
        }
        best = (struct keyed){key, items.at[i]};
    }
    return best.item;
}

static const struct value *filter_min(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    return extreme(e, self, a, -1);
}

static const struct value *filter_max(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    return extreme(e, self, a, 1);
}

static const struct value *filter_sum(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    const struct value *sum = a->bound[1] ? a->bound[1] : value_make_int(e->w, 0);
    struct items items = value_items(e->w, self);
    for (size_t i = 0; i < items.n; i++) {
        const struct value *item = items.at[i];
        if (a->bound[0] && a->bound[0]->type != VALUE_NONE)
            item = attr_path(e, item, a->bound[0]);
        work_burn(e->w, 1);
        sum = op_binary(e->w, '+', sum, item);
    }
    return sum;
}

/* ---- Mapping and selecting ---- */

/* The arguments after the first n, for the filter or test that is applied to each item. */
static struct args rest(const struct args *a, size_t n)
{
    struct args r = *a;
    r.at += n;
    r.n -= n;
    return r;
}

static const struct value *named(const struct args *a, const char *name)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (text_is(a->named[i].name->text, name)) return a->named[i].value;
    return NULL;
}

/* What is walked: nothing if v is false, whatever its type. */
static struct items items_if_true(struct eval *e, const struct value *v)
{
    return value_truth(v) ? value_items(e->w, v) : (struct items){NULL, 0};
}

/* item's attribute along a path, `fallback` (NULL: none) for what is undefined on the way. */
static const struct value *attr_or(struct eval *e, const struct value *item,
                                   const struct value *path, const struct value *fallback)
{
    if (!fallback || fallback->type == VALUE_NONE) return attr_path(e, item, path);
    const struct value *v = attr_path(e, item, path);
    return v->type == VALUE_UNDEFINED ? fallback : v;
}

static const struct value *filter_map(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    struct value *made = new_seq(e, SEQ_GENERATOR);
    struct items items = items_if_true(e, self);
    if (!a->n && named(a, "attribute")) {
        for (size_t i = 0; i < items.n; i++)
            seq_add(e->w, made->seq,
                    attr_or(e, items.at[i], named(a, "attribute"), named(a, "default")));
        return made;
    }
    if (!a->n) work_fail(e->w, "map needs the name of a filter, or attribute=");
    struct text name = arg_string(e, a->at[0], "the filter's name");
    const struct builtin *filter = filter_find(name);
    if (!filter) work_fail(e->w, "no filter named '%.*s'", (int)name.len, name.data);
    work_enter(e->w); /* the filter may be map again */
    for (size_t i = 0; i < items.n; i++) {
        struct args args = rest(a, 1);
        seq_add(e->w, made->seq, builtin_call(e, filter, items.at[i], &args));
    }
    work_leave(e->w);
    return made;
}

/* Items whose test (or truth, without one) equals `wanted`; with by_attr, the test looks at the
 * attribute that the first argument names. */
static const struct value *select_items(struct eval *e, const struct value *self,
                                        const struct args *a, bool by_attr, bool wanted)
{
    struct value *made = new_seq(e, SEQ_GENERATOR);
    struct items items = items_if_true(e, self);
    const struct builtin *test = NULL;
    size_t before = by_attr;
    if (a->n < before) work_fail(e->w, "the name of an attribute is needed");
    if (a->n > before) {
        struct text name = arg_string(e, a->at[before], "the test's name");
        test = predicate_find(name);
        if (!test) work_fail(e->w, "no test named '%.*s'", (int)name.len, name.data);
    }
    for (size_t i = 0; i < items.n; i++) {
        const struct value *v = items.at[i];
        work_enter(e->w);
        if (by_attr) v = attr_path(e, v, a->at[0]);
        if (test) {
            struct args args = rest(a, before + 1);
            v = builtin_call(e, test, v, &args);
        }
        work_leave(e->w);
        work_burn(e->w, 1);
        if (value_truth(v) == wanted) seq_add(e->w, made->seq, items.at[i]);
    }
    return made;
}

static const struct value *filter_select(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    return select_items(e, self, a, false, true);
}

static const struct value *filter_reject(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    return select_items(e, self, a, false, false);
}

static const struct value *filter_selectattr(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return select_items(e, self, a, true, true);
}

static const struct value *filter_rejectattr(struct eval *e, const struct value *self,
                                             const struct args *a)
{
    return select_items(e, self, a, true, false);
}

const struct builtin filters_list[] = {
    {"batch", "linecount fill_with", 1, filter_batch},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"first", "", 0, filter_first},
    {"groupby", "attribute default case_sensitive", 1, filter_groupby},
    {"items", "", 0, filter_items},
    {"last", "", 0, filter_last},
    {"list", "", 0, filter_list},
    {"map", NULL, 0, filter_map},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"reject", NULL, 0, filter_reject},
    {"rejectattr", NULL, 0, filter_rejectattr},
    {"reverse", "", 0, filter_reverse},
    {"select", NULL, 0, filter_select},
    {"selectattr", NULL, 0, filter_selectattr},
    {"slice", "slices fill_with", 1, filter_slice},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"sum", "attribute start", 0, filter_sum},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {NULL, NULL, 0, NULL},
};
