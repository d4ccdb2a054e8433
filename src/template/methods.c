/* The methods of dict, list, tuple and range that change nothing. */
#include "template/builtins.h"

enum part { KEYS, VALUES, ITEMS };

static const struct value *view(struct eval *e, const struct value *self, enum part part)
{
    static const char *const names[] = {"dict_keys", "dict_values", "dict_items"};
    struct value *v = value_make_seq(e->w, SEQ_VIEW);
    v->seq->name = names[part];
    for (size_t i = 0; i < self->dict->n; i++) {
        const struct dict_entry *entry = &self->dict->entries[i];
        const struct value *item = part == KEYS ? entry->key
                                   : part == VALUES
                                       ? entry->value
                                       : value_make_pair(e->w, entry->key, entry->value);
        seq_add(e->w, v->seq, item);
    }
    work_burn(e->w, self->dict->n);
    return v;
}

static const struct value *dict_keys(struct eval *e, const struct value *self,
                                     const struct args *a)
{
    (void)a;
    return view(e, self, KEYS);
}

static const struct value *dict_values(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    (void)a;
    return view(e, self, VALUES);
}

static const struct value *dict_items(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    (void)a;
    return view(e, self, ITEMS);
}

static const struct value *dict_method_get(struct eval *e, const struct value *self,
                                           const struct args *a)
{
    const struct value *v = dict_get(e->w, self->dict, a->bound[0]);
    if (v) return v;
    return a->bound[1] ? a->bound[1] : &value_none_const;
}

static const struct value *dict_copy(struct eval *e, const struct value *self,
                                     const struct args *a)
{
    (void)a;
    struct value *copy = value_make_dict(e->w);
    for (size_t i = 0; i < self->dict->n; i++)
        dict_set(e->w, copy->dict, self->dict->entries[i].key, self->dict->entries[i].value);
    work_burn(e->w, self->dict->n);
    return copy;
}

const struct builtin methods_dict[] = {
    {"copy", "", 0, dict_copy},     {"get", "key default", 1, dict_method_get},
    {"items", "", 0, dict_items},   {"keys", "", 0, dict_keys},
    {"values", "", 0, dict_values}, {NULL, NULL, 0, NULL},
};

static const struct value *list_index(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    for (size_t i = 0; i < self->seq->n; i++)
        if (value_equal(e->w, self->seq->items[i], a->bound[0]))
            return value_make_int(e->w, (int64_t)i);
    work_fail(e->w, "index(): the value is not in the list");
}

static const struct value *list_count(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    int64_t n = 0;
    for (size_t i = 0; i < self->seq->n; i++)
        n += value_equal(e->w, self->seq->items[i], a->bound[0]);
    return value_make_int(e->w, n);
}

static const struct value *list_copy(struct eval *e, const struct value *self,
                                     const struct args *a)
{
    (void)a;
    return op_slice(e->w, self, NULL, NULL, NULL);
}

const struct builtin methods_list[] = {
    {"copy", "", 0, list_copy},
    {"count", "value", 1, list_count},
    {"index", "value", 1, list_index},
    {NULL, NULL, 0, NULL},
};
