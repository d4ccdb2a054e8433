#include "template/eval.h"

#include <stdio.h>

#include "template/builtins.h"
#include "template/print.h"

static const struct value *lookup(struct eval *e, const struct value *name)
{
    size_t walked = 0;
    for (const struct scope *s = e->scope; s; s = s->parent) {
        for (size_t i = 0; i < s->n; i++)
            if (s->vars[i].name == name) return s->vars[i].value;
        walked += s->n + 1;
        work_burn(e->w, walked / 16);
        walked %= 16;
    }
    const struct value *v = dict_get_text(e->w, e->globals, name->text);
    if (v) return v;
    const struct builtin *function = function_find(name->text);
    if (!function) return value_undefined_name(e->w, name->text.data);
    struct value *made = value_new(e->w, VALUE_FUNCTION);
    made->bound.builtin = function;
    made->bound.self = NULL;
    return made;
}

/* ---- Attributes and items ---- */

const struct value *eval_no_attr(struct eval *e, const struct value *object, struct text name)
{
    char *copy = work_bytes(e->w, name.len + 1);
    memcpy(copy, name.data, name.len);
    copy[name.len] = 0;
    return value_undefined_attr(e->w, object, copy);
}

static const struct value *unsafe(struct work *w, const struct value *object, struct text name)
{
    char *reason = work_alloc(w, 160);
    snprintf(reason, 160, "access to attribute '%.*s' of '%s' object is unsafe", (int)name.len,
             name.data, value_type_name(object));
    return value_undefined_reason(w, reason);
}

/* What Python's getattr gives; NULL if there is no such attribute. */
static const struct value *attribute(struct eval *e, const struct value *object,
                                     struct text name)
{
    const struct value *v = NULL;
    switch (object->type) {
    case VALUE_NAMESPACE: return dict_get_text(e->w, object->dict, name);
    case VALUE_LOOP: v = exec_loop_attr(e, object->loop, name); break;
    case VALUE_MACRO:
        if (text_is(name, "name")) return object->macro->node->name;
        return NULL;
    case VALUE_CYCLER:
        if (text_is(name, "current")) return object->cycler->items[object->cycler->at];
        break;
    case VALUE_SEQ:
        /* The pairs that groupby makes. */
        if (object->seq->kind == SEQ_TUPLE && object->seq->name) {
            if (text_is(name, "grouper")) return object->seq->items[0];
            if (text_is(name, "list")) return object->seq->items[1];
        }
        break;
    default: break;
    }
    if (v) return v;
    const struct builtin *method = method_find(object, name);
    if (!method) return method_is_unsafe(object, name) ? unsafe(e->w, object, name) : NULL;
    struct value *bound = value_new(e->w, VALUE_METHOD);
    bound->bound.builtin = method;
    bound->bound.self = object;
    return bound;
}

const struct value *eval_attr(struct eval *e, const struct value *object, struct text name)
{
    if (object->type == VALUE_UNDEFINED) value_fail_undefined(e->w, object);
    const struct value *v = attribute(e, object, name);
    if (!v && object->type == VALUE_DICT) v = dict_get_text(e->w, object->dict, name);
    return v ? v : eval_no_attr(e, object, name);
}

const struct value *eval_item(struct eval *e, const struct value *object,
                              const struct value *key)
{
    if (object->type == VALUE_UNDEFINED) value_fail_undefined(e->w, object);
    const struct value *v = op_item(e->w, object, key);
    if (!v && key->type == VALUE_STRING) v = attribute(e, object, key->text);
    if (v) return v;
    if (key->type == VALUE_STRING) return eval_no_attr(e, object, key->text);
    struct text shown = print_to_text(e->w, key);
    char *reason = work_alloc(e->w, 160);
    snprintf(reason, 160, "%s object has no element %.*s", value_type_name(object),
             (int)(shown.len < 80 ? shown.len : 80), shown.data);
    return value_undefined_reason(e->w, reason);
}

static const struct value *subscript(struct eval *e, const struct node *n)
{
    const struct value *object = eval(e, n->item.object);
    const struct node *key = n->item.key;
    if (key->kind != NODE_SLICE) return eval_item(e, object, eval(e, key));
    if (object->type == VALUE_UNDEFINED) value_fail_undefined(e->w, object);
    const struct value *parts[3];
    for (size_t i = 0; i < 3; i++)
        parts[i] = key->items.at[i] ? eval(e, key->items.at[i]) : NULL;
    return op_slice(e->w, object, parts[0], parts[1], parts[2]);
}

/* ---- Calls ---- */

static void add_named(struct work *w, struct args *a, const struct value *name,
                      const struct value *v)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (text_equal(a->named[i].name->text, name->text))
            work_fail(w, "got multiple values for keyword argument '%.*s'", (int)name->text.len,
                      name->text.data);
    work_burn(w, a->n_named / 4 + 1);
    work_burn_compare(w, a->n_named * name->text.len);
    a->named[a->n_named++] = (struct binding){name, v};
}

struct args eval_args(struct eval *e, const struct call_args *c)
{
    struct args a = {.n = 0};
    struct items star = {NULL, 0};
    const struct dict *more = NULL;
    if (c->star) star = value_items(e->w, eval(e, c->star));
    if (c->star_star) {
        const struct value *v = eval(e, c->star_star);
        if (v->type != VALUE_DICT)
            work_fail(e->w, "argument after ** must be a mapping, not %s", value_type_name(v));
        more = v->dict;
    }
    size_t n = c->positional.n + star.n, n_named = c->n_keywords + (more ? more->n : 0);
    if (n) a.at = work_zalloc(e->w, n, sizeof *a.at);
    if (n_named) a.named = work_zalloc(e->w, n_named, sizeof *a.named);
    for (size_t i = 0; i < c->positional.n; i++)
        a.at[a.n++] = eval(e, c->positional.at[i]);
    for (size_t i = 0; i < star.n; i++)
        a.at[a.n++] = star.at[i];
    for (size_t i = 0; i < c->n_keywords; i++)
        add_named(e->w, &a, c->keywords[i].name, eval(e, c->keywords[i].value));
    for (size_t i = 0; more && i < more->n; i++) {
        if (more->entries[i].key->type != VALUE_STRING)
            work_fail(e->w, "keywords must be strings");
        add_named(e->w, &a, more->entries[i].key, more->entries[i].value);
    }
    return a;
}

const struct value *eval_call(struct eval *e, const struct value *callee, struct args *a)
{
    switch (callee->type) {
    case VALUE_UNDEFINED: value_fail_undefined(e->w, callee);
    case VALUE_FUNCTION:
    case VALUE_METHOD: return builtin_call(e, callee->bound.builtin, callee->bound.self, a);
    case VALUE_MACRO: return exec_macro(e, callee->macro, a);
    case VALUE_LOOP:
        if (a->n != 1 || a->n_named) work_fail(e->w, "loop() takes one argument");
        return exec_loop_again(e, callee->loop, a->at[0]);
    case VALUE_JOINER: {
        bool used = callee->joiner->used;
        callee->joiner->used = true;
        return used ? callee->joiner->separator : value_make_text(e->w, text_literal(""));
    }
    default: work_fail(e->w, "'%s' object is not callable", value_type_name(callee));
    }
}

static const struct value *call(struct eval *e, const struct node *n)
{
    const struct value *callee = eval(e, n->call.callee);
    struct args a = eval_args(e, &n->call.args);
    e->w->line = n->line;
    return eval_call(e, callee, &a);
}

static const struct value *apply(struct eval *e, const struct node *n)
{
    const struct value *subject = eval(e, n->apply.subject);
    struct args a = eval_args(e, &n->apply.args);
    e->w->line = n->line;
    if (!n->apply.builtin)
        work_fail(e->w, "no %s named '%s'", n->kind == NODE_FILTER ? "filter" : "test",
                  n->apply.name);
    return builtin_call(e, n->apply.builtin, subject, &a);
}

/* ---- Expressions ---- */

static const struct value *sequence(struct eval *e, const struct nodes *items,
                                    enum seq_kind kind)
{
    struct value *v = value_make_seq(e->w, kind);
    for (size_t i = 0; i < items->n; i++)
        seq_add(e->w, v->seq, eval(e, items->at[i]));
    return v;
}

static const struct value *dict(struct eval *e, const struct nodes *items)
{
    struct value *v = value_make_dict(e->w);
    for (size_t i = 0; i < items->n; i += 2) {
        const struct value *key = eval(e, items->at[i]);
        dict_set(e->w, v->dict, key, eval(e, items->at[i + 1]));
    }
    return v;
}

static const struct value *concat(struct eval *e, const struct nodes *items)
{
    struct text t = text_literal("");
    for (size_t i = 0; i < items->n; i++)
        t = text_concat(e->w, t, print_to_text(e->w, eval(e, items->at[i])));
    return value_make_text(e->w, t);
}

static const struct value *compare(struct eval *e, const struct node *n)
{
    const struct value *left = eval(e, n->compare.first);
    for (size_t i = 0; i < n->compare.n_ops; i++) {
        const struct value *right = eval(e, n->compare.ops[i].right);
        e->w->line = n->line;
        if (!op_compare(e->w, n->compare.ops[i].op, left, right)) return &value_false_const;
        left = right;
    }
    return &value_true_const;
}

static const struct value *arithmetic(struct eval *e, const struct node *n)
{
    const struct value *left = eval(e, n->binary.left);
    const struct value *right = eval(e, n->binary.right);
    e->w->line = n->line;
    return op_binary(e->w, n->binary.op, left, right);
}

static const struct value *cond(struct eval *e, const struct node *n)
{
    if (value_truth(eval(e, n->cond.test))) return eval(e, n->cond.yes);
    if (n->cond.no) return eval(e, n->cond.no);
    return value_undefined_reason(e->w,
                                  "the inline if-expression evaluated to false and no else "
                                  "section was defined");
}

static const struct value *signed_operand(struct eval *e, const struct node *n)
{
    const struct value *v = eval(e, n->operand);
    if (v->type == VALUE_UNDEFINED) value_fail_undefined(e->w, v);
    if (!value_is_number(v))
        work_fail(e->w, "bad operand type for unary %c: '%s'",
                  n->kind == NODE_NEGATE ? '-' : '+', value_type_name(v));
    if (n->kind == NODE_NEGATE) return op_negate(e->w, v);
    return v->type == VALUE_BOOL ? value_make_int(e->w, v->boolean) : v;
}

static const struct value *eval_kind(struct eval *e, const struct node *n)
{
    const struct value *v;
    switch (n->kind) {
    case NODE_CONST: return n->value;
    case NODE_NAME: return lookup(e, n->value);
    case NODE_BODY: return e->body;
    case NODE_TUPLE: return sequence(e, &n->items, SEQ_TUPLE);
    case NODE_LIST: return sequence(e, &n->items, SEQ_LIST);
    case NODE_DICT: return dict(e, &n->items);
    case NODE_CONCAT: return concat(e, &n->items);
    case NODE_ATTR:
        v = eval(e, n->attr.object);
        e->w->line = n->line;
        return eval_attr(e, v, n->attr.name->text);
    case NODE_ITEM: return subscript(e, n);
    case NODE_CALL: return call(e, n);
    case NODE_FILTER:
    case NODE_TEST: return apply(e, n);
    case NODE_NOT: return value_make_bool(!value_truth(eval(e, n->operand)));
    case NODE_NEGATE:
    case NODE_PLUS: return signed_operand(e, n);
    case NODE_AND:
        v = eval(e, n->binary.left);
        return value_truth(v) ? eval(e, n->binary.right) : v;
    case NODE_OR:
        v = eval(e, n->binary.left);
        return value_truth(v) ? v : eval(e, n->binary.right);
    case NODE_COND: return cond(e, n);
    case NODE_COMPARE: return compare(e, n);
    case NODE_BINARY: return arithmetic(e, n);
    default: break;
    }
    /* A slice where no slice can be: x[1:2, 3]. */
    work_fail(e->w, "a slice is not allowed here");
}

const struct value *eval(struct eval *e, const struct node *n)
{
    work_enter(e->w);
    work_burn(e->w, 1);
    e->w->line = n->line;
    const struct value *v = eval_kind(e, n);
    work_leave(e->w);
    return v;
}
