/* Filters, tests, methods and functions, as tables of rows.
 *
 * A row names its parameters; builtin_call binds positional and named arguments to them before
 * the row's function runs, so the functions see one value per parameter, NULL where it was left
 * out. Rows with params NULL take any arguments and look at them themselves.
 *
 * Static data; what a row makes lies in the rendering's struct work. Everything fails through
 * work_fail. Private to this folder. */
#ifndef TEMPLATE_BUILTINS_H
#define TEMPLATE_BUILTINS_H

#include "template/eval.h"

struct builtin {
    const char *name;
    const char *params; /* names separated by spaces; NULL: any arguments */
    size_t n_required;
    /* self is what is filtered, tested, or has the method; NULL for functions. */
    const struct value *(*run)(struct eval *e, const struct value *self, const struct args *a);
};

/* The row of that name; NULL if there is none. */
const struct builtin *filter_find(struct text name);
const struct builtin *predicate_find(struct text name);
const struct builtin *function_find(struct text name);
/* The method of self's type; NULL if there is none. */
const struct builtin *method_find(const struct value *self, struct text name);
/* Whether self's type has a method of that name that changes it: the sandbox refuses those. */
bool method_is_unsafe(const struct value *self, struct text name);

/* Binds args to b's parameters and runs it. Fails, as Python does, on one too many, one twice,
 * one that is unknown, or one that is required and missing. */
const struct value *builtin_call(struct eval *e, const struct builtin *b,
                                 const struct value *self, struct args *args);

/* ---- What the functions share ---- */

/* v as text: str(v). */
struct text arg_text(struct eval *e, const struct value *v);
/* v as a string; fails, naming what, when it is not one. */
struct text arg_string(struct eval *e, const struct value *v, const char *what);
/* v as an integer, or fallback when v is NULL or None; fails, naming what, when it is neither.
 */
int64_t arg_int(struct eval *e, const struct value *v, int64_t fallback, const char *what);
/* v as a width in characters, 0 for what is less: a length can be taken off it. */
int64_t arg_width(struct eval *e, const struct value *v, int64_t fallback);
/* Whether v is true; fallback when it is NULL. */
bool arg_bool(const struct value *v, bool fallback);
/* A string value of t, or of what b has; b is empty then. */
const struct value *make_text(struct eval *e, struct text t);
const struct value *make_builder(struct builder *b);
/* item's attribute along a path as map(attribute=) takes it: "a.b.0", or an integer. */
const struct value *attr_path(struct eval *e, const struct value *item,
                              const struct value *path);

/* ---- The tables, each ended by a row without a name ---- */

extern const struct builtin filters_text[];  /* filters_text.c */
extern const struct builtin filters_list[];  /* filters_list.c */
extern const struct builtin filters_value[]; /* filters_value.c */
extern const struct builtin predicates[];    /* predicates.c */
extern const struct builtin functions[];     /* functions.c */
extern const struct builtin methods_text[];  /* methods_text.c */
extern const struct builtin methods_dict[];  /* methods.c */
extern const struct builtin methods_list[];
extern const struct builtin methods_loop[];
extern const struct builtin methods_cycler[];

/* str.format and the % operator (format.c). */
struct text format_percent(struct work *w, struct text format, const struct value *args);
struct text format_braces(struct eval *e, struct text format, const struct args *args);
/* strftime over the fields of *t, in the C locale (strftime.c). */
struct text strftime_text(struct work *w, struct text format, const struct tm *t);

#endif
