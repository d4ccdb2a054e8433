/* The functions that every template finds, and the small methods of loops and cyclers. */
#include <time.h>

#include "template/builtins.h"

/* As the sandbox of transformers has it. */
#define MAX_RANGE 100000

static const struct value *fn_range(struct eval *e, const struct value *self,
                                    const struct args *a)
{
    (void)self;
    int64_t start = 0, stop = arg_int(e, a->bound[0], 0, "range()");
    int64_t step = arg_int(e, a->bound[2], 1, "the step of range()");
    if (a->bound[1]) {
        start = stop;
        stop = arg_int(e, a->bound[1], 0, "range()");
    }
    if (step == 0) work_fail(e->w, "range(): the step must not be zero");
    struct value *v = value_make_seq(e->w, SEQ_RANGE);
    v->seq->start = start;
    v->seq->stop = stop;
    v->seq->step = step;
    int64_t i = start;
    while (step > 0 ? i < stop : i > stop) {
        if (v->seq->n == MAX_RANGE) work_fail(e->w, "range() of more than %d items", MAX_RANGE);
        seq_add(e->w, v->seq, value_make_int(e->w, i));
        work_burn(e->w, 1);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return v;
}

/* dict(mapping or pairs, name=value, ...) into *dict. */
static void fill_dict(struct eval *e, struct dict *dict, const struct args *a)
{
    if (a->n > 1) work_fail(e->w, "dict expected at most 1 argument, got %zu", a->n);
    if (a->n && a->at[0]->type == VALUE_DICT) {
        const struct dict *from = a->at[0]->dict;
        for (size_t i = 0; i < from->n; i++)
            dict_set(e->w, dict, from->entries[i].key, from->entries[i].value);
        work_burn(e->w, from->n);
    } else if (a->n) {
        struct items items = value_items(e->w, a->at[0]);
        for (size_t i = 0; i < items.n; i++) {
            struct items pair = value_items(e->w, items.at[i]);
            if (pair.n != 2) work_fail(e->w, "dict needs pairs, found %zu items", pair.n);
            dict_set(e->w, dict, pair.at[0], pair.at[1]);
        }
    }
    for (size_t i = 0; i < a->n_named; i++)
        dict_set(e->w, dict, a->named[i].name, a->named[i].value);
}

static const struct value *fn_dict(struct eval *e, const struct value *self,
                                   const struct args *a)
{
    (void)self;
    struct value *v = value_make_dict(e->w);
    fill_dict(e, v->dict, a);
    return v;
}

static const struct value *fn_namespace(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)self;
    struct value *v = value_make_dict(e->w);
    v->type = VALUE_NAMESPACE;
    fill_dict(e, v->dict, a);
    return v;
}

static const struct value *fn_cycler(struct eval *e, const struct value *self,
                                     const struct args *a)
{
    (void)self;
    if (!a->n) work_fail(e->w, "cycler() needs at least one item");
    struct value *v = value_new(e->w, VALUE_CYCLER);
    v->cycler = work_zalloc(e->w, 1, sizeof *v->cycler);
    v->cycler->items = a->at;
    v->cycler->n = a->n;
    return v;
}

static const struct value *fn_joiner(struct eval *e, const struct value *self,
                                     const struct args *a)
{
    (void)self;
    struct value *v = value_new(e->w, VALUE_JOINER);
    v->joiner = work_zalloc(e->w, 1, sizeof *v->joiner);
    v->joiner->separator = a->bound[0] ? a->bound[0] : make_text(e, text_literal(", "));
    return v;
}

static const struct value *fn_raise_exception(struct eval *e, const struct value *self,
                                              const struct args *a)
{
    (void)self;
    struct text why = arg_text(e, a->bound[0]);
    e->w->fail_code = ERR_USER;
    work_fail(e->w, "%.*s", (int)(why.len < 900 ? why.len : 900), why.data);
}

static const struct value *fn_strftime_now(struct eval *e, const struct value *self,
                                           const struct args *a)
{
    (void)self;
    struct tm now;
    if (e->now) {
        now = *e->now;
    } else {
        time_t t = time(NULL);
        localtime_r(&t, &now);
    }
    return make_text(e, strftime_text(e->w, arg_string(e, a->bound[0], "the format"), &now));
}

const struct builtin functions[] = {
    {"cycler", NULL, 0, fn_cycler},
    {"dict", NULL, 0, fn_dict},
    {"joiner", "sep", 0, fn_joiner},
    {"namespace", NULL, 0, fn_namespace},
    {"raise_exception", "message", 1, fn_raise_exception},
    {"range", "start stop step", 1, fn_range},
    {"strftime_now", "format", 1, fn_strftime_now},
    {NULL, NULL, 0, NULL},
};

/* ---- Loops and cyclers ---- */

static const struct value *loop_cycle(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    if (!a->n) work_fail(e->w, "no items for cycling given");
    return a->at[self->loop->index % a->n];
}

static const struct value *loop_changed(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    struct value *now = value_make_seq(e->w, SEQ_TUPLE);
    for (size_t i = 0; i < a->n; i++)
        seq_add(e->w, now->seq, a->at[i]);
    bool same = self->loop->changed && value_equal(e->w, self->loop->changed, now);
    self->loop->changed = now;
    return value_make_bool(!same);
}

const struct builtin methods_loop[] = {
    {"changed", NULL, 0, loop_changed},
    {"cycle", NULL, 0, loop_cycle},
    {NULL, NULL, 0, NULL},
};

static const struct value *cycler_next(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    (void)e, (void)a;
    const struct value *v = self->cycler->items[self->cycler->at];
    self->cycler->at = (self->cycler->at + 1) % self->cycler->n;
    return v;
}

static const struct value *cycler_reset(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    (void)e, (void)a;
    self->cycler->at = 0;
    return &value_none_const;
}

const struct builtin methods_cycler[] = {
    {"next", "", 0, cycler_next},
    {"reset", "", 0, cycler_reset},
    {NULL, NULL, 0, NULL},
};
