#include "template/builtins.h"

#include "base/readable.h"
#include "template/print.h"

static const struct builtin *find(const struct builtin *table, struct text name)
{
    for (; table->name; table++)
        if (text_is(name, table->name)) return table;
    return NULL;
}

const struct builtin *filter_find(struct text name)
{
    const struct builtin *b = find(filters_text, name);
    if (!b) b = find(filters_list, name);
    if (!b) b = find(filters_value, name);
    return b;
}

const struct builtin *predicate_find(struct text name)
{
    return find(predicates, name);
}

const struct builtin *function_find(struct text name)
{
    return find(functions, name);
}

const struct builtin *method_find(const struct value *self, struct text name)
{
    switch (self->type) {
    case VALUE_STRING: return find(methods_text, name);
    case VALUE_DICT: return find(methods_dict, name);
    case VALUE_SEQ: return self->seq->kind <= SEQ_RANGE ? find(methods_list, name) : NULL;
    case VALUE_LOOP: return find(methods_loop, name);
    case VALUE_CYCLER: return find(methods_cycler, name);
    default: return NULL;
    }
}

bool method_is_unsafe(const struct value *self, struct text name)
{
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear",      "pop",    "popitem",
                                          "setdefault", "update", NULL};
    const char *const *names = NULL;
    if (self->type == VALUE_DICT) names = of_dict;
    if (self->type == VALUE_SEQ && self->seq->kind == SEQ_LIST) names = of_list;
    for (; names && *names; names++)
        if (text_is(name, *names)) return true;
    return false;
}

/* The number of the parameter of that name; -1 if there is none. *n is how many there are. */
static int parameter(const char *params, struct text name, size_t *n)
{
    int found = -1;
    *n = 0;
    while (*params) {
        size_t len = strcspn(params, " ");
        if (name.len == len && memcmp(name.data, params, len) == 0) found = (int)*n;
        params += len + (params[len] == ' ');
        ++*n;
    }
    return found;
}

const struct value *builtin_call(struct eval *e, const struct builtin *b,
                                 const struct value *self, struct args *args)
{
    memset(args->bound, 0, sizeof args->bound);
    work_burn(e->w, 1);
    if (!b->params) return b->run(e, self, args);
    size_t n;
    parameter(b->params, text_literal(""), &n);
    char most[READABLE_BYTES];
    if (args->n > n)
        work_fail(e->w, "%s() takes at most %s, %zu given", b->name,
                  readable_count(most, n, "argument"), args->n);
    for (size_t i = 0; i < args->n; i++)
        args->bound[i] = args->at[i];
    for (size_t i = 0; i < args->n_named; i++) {
        struct text name = args->named[i].name->text;
        int at = parameter(b->params, name, &n);
        if (at < 0)
            work_fail(e->w, "%s() has no argument named '%.*s'", b->name, (int)name.len,
                      name.data);
        if (args->bound[at])
            work_fail(e->w, "%s() got two values for '%.*s'", b->name, (int)name.len,
                      name.data);
        args->bound[at] = args->named[i].value;
    }
    for (size_t i = 0; i < b->n_required; i++)
        if (!args->bound[i])
            work_fail(e->w, "%s() needs %zu argument(s)", b->name, b->n_required);
    return b->run(e, self, args);
}

/* ---- What the functions share ---- */

struct text arg_text(struct eval *e, const struct value *v)
{
    return print_to_text(e->w, v);
}

struct text arg_string(struct eval *e, const struct value *v, const char *what)
{
    if (v->type == VALUE_UNDEFINED) value_fail_undefined(e->w, v);
    if (v->type != VALUE_STRING)
        work_fail(e->w, "%s must be str, not %s", what, value_type_name(v));
    return v->text;
}

int64_t arg_int(struct eval *e, const struct value *v, int64_t fallback, const char *what)
{
    int64_t i;
    if (!v || v->type == VALUE_NONE) return fallback;
    if (v->type == VALUE_UNDEFINED) value_fail_undefined(e->w, v);
    if (!value_as_int(v, &i))
        work_fail(e->w, "%s must be int, not %s", what, value_type_name(v));
    return i;
}

int64_t arg_width(struct eval *e, const struct value *v, int64_t fallback)
{
    const int64_t width = arg_int(e, v, fallback, "width");
    return width > 0 ? width : 0;
}

bool arg_bool(const struct value *v, bool fallback)
{
    return v ? value_truth(v) : fallback;
}

const struct value *make_text(struct eval *e, struct text t)
{
    return value_make_text(e->w, t);
}

const struct value *make_builder(struct builder *b)
{
    return value_make_text(b->w, builder_take(b));
}

/* A part of a path: a number is an index. */
static const struct value *path_key(struct eval *e, struct text part)
{
    int64_t index = 0;
    for (size_t i = 0; i < part.len; i++) {
        if (part.data[i] < '0' || part.data[i] > '9' || i > 9) return make_text(e, part);
        index = index * 10 + (part.data[i] - '0');
    }
    return part.len ? value_make_int(e->w, index) : make_text(e, part);
}

const struct value *attr_path(struct eval *e, const struct value *item,
                              const struct value *path)
{
    if (path->type != VALUE_STRING) return eval_item(e, item, path);
    struct text t = path->text;
    for (size_t at = 0;;) {
        size_t dot = text_find(t, text_literal("."), at);
        struct text part = text_slice(t, at, dot == TEXT_NONE ? t.len : dot);
        item = eval_item(e, item, path_key(e, part));
        if (dot == TEXT_NONE) return item;
        at = dot + 1;
    }
}
