/* The values of a rendering, as the interpreter sees them.
 *
 * Values are immutable once other code can see them; the exceptions are namespaces, the
 * position of a generator, and the state of loops, cyclers and joiners, all made during the
 * rendering. They live in a struct work. What Python says of types, truth, equality and order
 * holds here. */
#ifndef TEMPLATE_VALUE_H
#define TEMPLATE_VALUE_H

#include "template/text.h"

enum value_type {
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_STRING,
    VALUE_SEQ,
    VALUE_DICT,
    VALUE_NAMESPACE, /* a dict whose entries `set` may change */
    VALUE_FUNCTION,  /* a built-in function */
    VALUE_METHOD,    /* a built-in method of `self` */
    VALUE_MACRO,
    VALUE_LOOP,
    VALUE_CYCLER,
    VALUE_JOINER,
};

enum seq_kind {
    SEQ_LIST,
    SEQ_TUPLE,
    SEQ_RANGE,
    SEQ_VIEW,      /* keys(), values(), items() of a dict: has a length, but no index */
    SEQ_GENERATOR, /* what map, select, ... give: neither; can be walked once */
};

struct seq {
    enum seq_kind kind;
    const struct value **items;
    size_t n, cap;
    size_t next;      /* SEQ_GENERATOR: items before it have been taken */
    const char *name; /* SEQ_VIEW: "dict_keys" and the like; a pair of groupby: "group" */
    int64_t start, stop, step; /* SEQ_RANGE: as given */
};

struct dict_entry {
    const struct value *key, *value;
    uint64_t hash;
};

struct dict {
    struct dict_entry *entries; /* in the order in which the keys were first set */
    size_t n, cap;
    uint32_t *index; /* entry number + 1 by hash, open addressing; NULL while n is small */
    size_t n_index;  /* a power of two */
};

struct cycler {
    const struct value *const *items;
    size_t n, at;
};

struct joiner {
    const struct value *separator;
    bool used;
};

struct macro; /* eval.h */
struct loop;
struct builtin; /* a row of the tables of builtins */

struct value {
    enum value_type type;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct text text;
        struct seq *seq;
        struct dict *dict; /* also of a namespace */
        struct {
            const char *name;          /* of the variable or attribute; NULL: see reason */
            const struct value *owner; /* of the attribute; NULL for a variable */
            const char *reason;        /* the whole message, when neither explains it */
        } undefined;
        struct {
            const struct builtin *builtin;
            const struct value *self; /* NULL of a function */
        } bound;                      /* FUNCTION, METHOD */
        const struct macro *macro;
        struct loop *loop;
        struct cycler *cycler;
        struct joiner *joiner;
    };
};

struct value_pool {
    struct work work;
};

extern const struct value value_none_const, value_true_const, value_false_const;

/* ---- Making ---- */

struct value *value_new(struct work *w, enum value_type type);
const struct value *value_make_bool(bool b);
const struct value *value_make_int(struct work *w, int64_t i);
const struct value *value_make_float(struct work *w, double f);
const struct value *value_make_text(struct work *w, struct text t);
/* The undefined variable of that name (borrowed). */
const struct value *value_undefined_name(struct work *w, const char *name);
/* The attribute or item that owner lacks. */
const struct value *value_undefined_attr(struct work *w, const struct value *owner,
                                         const char *name);
const struct value *value_undefined_reason(struct work *w, const char *reason);

struct value *value_make_seq(struct work *w, enum seq_kind kind);
void seq_add(struct work *w, struct seq *seq, const struct value *item);
/* A tuple of two. */
const struct value *value_make_pair(struct work *w, const struct value *a,
                                    const struct value *b);
struct value *value_make_dict(struct work *w);

/* ---- Dicts ---- */

/* Sets key (hashable, or it fails) to item. */
void dict_set(struct work *w, struct dict *dict, const struct value *key,
              const struct value *item);
/* The item under key; NULL if there is none. A key that cannot be one fails. */
const struct value *dict_get(struct work *w, const struct dict *dict, const struct value *key);
/* The same for a string key. */
const struct value *dict_get_text(struct work *w, const struct dict *dict, struct text key);

/* ---- Asking ---- */

/* Fails with the reason why the value is undefined. */
_Noreturn void value_fail_undefined(struct work *w, const struct value *v);
/* Python's name of the type: "str", "dict", ... */
const char *value_type_name(const struct value *v);
bool value_is_number(const struct value *v); /* bool, int or float */
/* The number as a double; v is a number. */
double value_as_real(const struct value *v);
/* Whether v is a bool or int; then *out is it. */
bool value_as_int(const struct value *v, int64_t *out);
bool value_truth(const struct value *v);
/* Whether v has a length; then *n is it. */
bool value_length(struct work *w, const struct value *v, size_t *n);
bool value_equal(struct work *w, const struct value *a, const struct value *b);
/* <0, 0, >0; fails where Python refuses an order ("'<' not supported between ..."). op is for
 * that message. Not a number compares as equal here; operators look at floats themselves. */
int value_compare(struct work *w, const struct value *a, const struct value *b, const char *op);
bool value_callable(const struct value *v);

/* The items of anything that can be walked, as an array: a string gives its characters, a dict
 * its keys, undefined nothing; a generator is used up. Fails if v is not iterable. */
struct items {
    const struct value *const *at;
    size_t n;
};
bool value_iterable(const struct value *v);
struct items value_items(struct work *w, const struct value *v);

#endif
