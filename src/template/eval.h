/* The evaluator: one rendering under way.
 *
 * eval.c has expressions, exec.c statements, loops and macros, operators.c what operators mean.
 * Everything fails through work_fail, so no result is NULL unless it says so. Values, scopes
 * and loops lie in e->w and go with it. One thread per struct eval; the template is shared.
 * Private to this folder. */
#ifndef TEMPLATE_EVAL_H
#define TEMPLATE_EVAL_H

#include <time.h>

#include "template/ast.h"

/* Variables by interned name. Loops, macros, call blocks, `with` and blocks have one of their
 * own; a name is looked up from the innermost outwards. */
struct binding {
    const struct value *name, *value;
};

struct scope {
    struct scope *parent;
    struct scope *context; /* what a {% block %} in here sees, unless it is scoped */
    struct binding *vars;
    size_t n, cap;
    bool captured; /* a macro made here still sees it */
};

/* A macro as it was defined: its text and the variables around it. */
struct macro {
    const struct macro_node *node;
    struct scope *scope;
};

/* A `for` under way. Items that its filter has not yet judged are fetched one by one, because
 * the body may change what the filter sees. */
struct loop {
    const struct for_node *node;
    struct scope *outer;
    struct items source;
    size_t fetched;                   /* of source */
    const struct value *const *items; /* those that passed; without a filter, source's own */
    size_t n;
    const struct value **passed; /* where items lie when there is a filter */
    size_t cap;
    size_t index;                /* of the current one */
    unsigned depth;              /* of recursive calls, from 0 */
    const struct value *changed; /* arguments of the last loop.changed(); NULL */
};

struct eval {
    struct work *w;
    const struct template *t;
    const struct dict *globals;
    struct scope *scope;
    struct builder *out;
    const struct value *body; /* what the block around a filter has captured */
    const struct tm *now;     /* NULL: the local clock */
};

/* Arguments of a call, and, once bound to a builtin's parameters, one value per parameter. */
#define ARGS_MAX_BOUND 6
struct args {
    const struct value **at;
    size_t n;
    struct binding *named;
    size_t n_named;
    const struct value *bound[ARGS_MAX_BOUND]; /* NULL where absent */
};

/* ---- eval.c ---- */

/* The value of an expression. */
const struct value *eval(struct eval *e, const struct node *n);
/* object.name: a method or attribute, else an item, else undefined. */
const struct value *eval_attr(struct eval *e, const struct value *object, struct text name);
/* What is undefined because object has no attribute of that name. */
const struct value *eval_no_attr(struct eval *e, const struct value *object, struct text name);
/* object[key]: an item, else an attribute of that name, else undefined. */
const struct value *eval_item(struct eval *e, const struct value *object,
                              const struct value *key);
/* callee(args); fails if it cannot be called. */
const struct value *eval_call(struct eval *e, const struct value *callee, struct args *args);
/* The arguments of a call with their values, *list and **dict taken apart; nothing is bound. */
struct args eval_args(struct eval *e, const struct call_args *args);

/* ---- exec.c ---- */

enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE };

/* Runs statements into e->out; what a break or continue leaves is the loop's to take. */
enum flow exec(struct eval *e, const struct nodes *body);
/* What a macro called so writes, as a string. */
const struct value *exec_macro(struct eval *e, const struct macro *macro,
                               const struct args *args);
/* loop(items): the body of a recursive loop over other items. */
const struct value *exec_loop_again(struct eval *e, struct loop *loop,
                                    const struct value *items);
/* loop.name; NULL if loops have no such attribute. */
const struct value *exec_loop_attr(struct eval *e, struct loop *loop, struct text name);

/* ---- operators.c ---- */

/* a op b for the operators of lex.h but comparisons, as Python has it; -v. */
const struct value *op_binary(struct work *w, int op, const struct value *a,
                              const struct value *b);
const struct value *op_negate(struct work *w, const struct value *v);
/* a op b for ==, !=, <, <=, >, >=, in, not in. */
bool op_compare(struct work *w, int op, const struct value *a, const struct value *b);
/* item in container; fails if it is none. */
bool op_contains(struct work *w, const struct value *container, const struct value *item);
/* object[key] by key or index alone; NULL if there is no such item. */
const struct value *op_item(struct work *w, const struct value *object,
                            const struct value *key);
/* object[start:stop:step], None or NULL where left out; fails if it cannot be sliced. */
const struct value *op_slice(struct work *w, const struct value *object,
                             const struct value *start, const struct value *stop,
                             const struct value *step);

#endif
