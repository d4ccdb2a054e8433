/* Statements, loops and macros: what a template does. */
#include "template/eval.h"
#include "template/print.h"

/* ---- Scopes ---- */

static void scope_set(struct work *w, struct scope *s, const struct value *name,
                      const struct value *v)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->vars[i].name == name) {
            s->vars[i].value = v;
            return;
        }
    work_burn(w, s->n / 16);
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        s->vars = work_grow(w, s->vars, s->n, cap, sizeof *s->vars);
        s->cap = cap;
    }
    s->vars[s->n++] = (struct binding){name, v};
}

static struct scope *scope_new(struct work *w, struct scope *parent)
{
    struct scope *s = work_zalloc(w, 1, sizeof *s);
    s->parent = parent;
    s->context = parent->context;
    return s;
}

/* An empty scope in the place of s, which is used again unless a macro still sees it. */
static struct scope *scope_renew(struct work *w, struct scope *s)
{
    if (s->captured) return scope_new(w, s->parent);
    s->n = 0;
    return s;
}

static struct macro *macro_new(struct eval *e, const struct macro_node *node)
{
    struct macro *m = work_alloc(e->w, sizeof *m);
    m->node = node;
    m->scope = e->scope;
    for (struct scope *s = e->scope; s && !s->captured; s = s->parent)
        s->captured = true;
    return m;
}

static const struct value *macro_value(struct work *w, const struct macro *m)
{
    struct value *v = value_new(w, VALUE_MACRO);
    v->macro = m;
    return v;
}

/* Binds target, a name or a tuple of targets or an attribute of a namespace, to v in scope. */
static void assign(struct eval *e, struct scope *scope, const struct node *target,
                   const struct value *v)
{
    if (target->kind == NODE_NAME) {
        scope_set(e->w, scope, target->value, v);
        return;
    }
    if (target->kind == NODE_ATTR) {
        const struct value *space = eval(e, target->attr.object);
        if (space->type != VALUE_NAMESPACE)
            work_fail(e->w, "cannot assign attribute on non-namespace object");
        dict_set(e->w, space->dict, target->attr.name, v);
        return;
    }
    work_enter(e->w);
    if (!value_iterable(v))
        work_fail(e->w, "cannot unpack non-iterable %s object", value_type_name(v));
    struct items items = value_items(e->w, v);
    if (items.n != target->items.n)
        work_fail(e->w, "%s values to unpack (expected %zu, got %zu)",
                  items.n < target->items.n ? "not enough" : "too many", target->items.n,
                  items.n);
    for (size_t i = 0; i < items.n; i++)
        assign(e, scope, target->items.at[i], items.at[i]);
    work_leave(e->w);
}

/* Runs body with its output captured. */
static const struct value *captured_text(struct eval *e, const struct nodes *body)
{
    struct builder captured, *out = e->out;
    builder_init(&captured, e->w);
    e->out = &captured;
    exec(e, body);
    e->out = out;
    return value_make_text(e->w, builder_take(&captured));
}

/* ---- Loops ---- */

/* Takes one more item of the source that passes the filter; false at the end. */
static bool loop_fetch(struct eval *e, struct loop *l)
{
    while (l->fetched < l->source.n) {
        const struct value *item = l->source.at[l->fetched++];
        struct scope *inside = e->scope;
        e->scope = scope_new(e->w, l->outer);
        assign(e, e->scope, l->node->target, item);
        bool passes = value_truth(eval(e, l->node->filter));
        e->scope = inside;
        if (!passes) continue;
        if (l->n == l->cap) {
            l->cap = l->cap ? l->cap * 2 : 8;
            l->passed = work_grow(e->w, l->passed, l->n, l->cap, sizeof *l->passed);
            l->items = l->passed;
        }
        l->passed[l->n++] = item;
        return true;
    }
    return false;
}

static struct loop *loop_new(struct eval *e, const struct for_node *node,
                             const struct value *iterable, unsigned depth)
{
    struct loop *l = work_zalloc(e->w, 1, sizeof *l);
    l->node = node;
    l->outer = e->scope;
    l->depth = depth;
    l->source = value_items(e->w, iterable);
    if (!node->filter) {
        l->items = l->source.at;
        l->n = l->fetched = l->source.n;
    }
    return l;
}

static enum flow run_loop(struct eval *e, const struct for_node *node,
                          const struct value *iterable, unsigned depth)
{
    const struct value *name = dict_get_text(e->w, e->t->names, text_literal("loop"));
    struct scope *outer = e->scope;
    struct loop *l = loop_new(e, node, iterable, depth);
    struct value *loop = value_new(e->w, VALUE_LOOP);
    loop->loop = l;

    struct scope *scope = scope_new(e->w, outer);
    for (; l->index < l->n || loop_fetch(e, l); l->index++) {
        scope = scope_renew(e->w, scope);
        if (name) scope_set(e->w, scope, name, loop);
        e->scope = scope;
        assign(e, scope, node->target, l->items[l->index]);
        work_burn(e->w, 1);
        if (exec(e, &node->body) == FLOW_BREAK) break;
    }
    e->scope = outer;
    if (!l->n) {
        e->scope = scope_new(e->w, outer);
        enum flow flow = exec(e, &node->otherwise);
        e->scope = outer;
        return flow;
    }
    return FLOW_NEXT;
}

const struct value *exec_loop_again(struct eval *e, struct loop *l, const struct value *items)
{
    if (!l->node->recursive)
        work_fail(e->w, "the loop needs the 'recursive' marker to be called");
    struct builder captured, *out = e->out;
    struct scope *scope = e->scope;
    builder_init(&captured, e->w);
    e->out = &captured;
    e->scope = l->outer;
    work_enter(e->w);
    run_loop(e, l->node, items, l->depth + 1);
    work_leave(e->w);
    e->out = out;
    e->scope = scope;
    return value_make_text(e->w, builder_take(&captured));
}

static int64_t loop_length(struct eval *e, struct loop *l)
{
    while (loop_fetch(e, l))
        ;
    return (int64_t)l->n;
}

const struct value *exec_loop_attr(struct eval *e, struct loop *l, struct text name)
{
    struct work *w = e->w;
    int64_t index = (int64_t)l->index;
    if (text_is(name, "index")) return value_make_int(w, index + 1);
    if (text_is(name, "index0")) return value_make_int(w, index);
    if (text_is(name, "first")) return value_make_bool(index == 0);
    if (text_is(name, "length")) return value_make_int(w, loop_length(e, l));
    if (text_is(name, "revindex")) return value_make_int(w, loop_length(e, l) - index);
    if (text_is(name, "revindex0")) return value_make_int(w, loop_length(e, l) - index - 1);
    if (text_is(name, "depth")) return value_make_int(w, l->depth + 1);
    if (text_is(name, "depth0")) return value_make_int(w, l->depth);
    if (text_is(name, "previtem"))
        return index ? l->items[index - 1]
                     : value_undefined_reason(w, "there is no previous item");
    if (!text_is(name, "last") && !text_is(name, "nextitem")) return NULL;
    bool last = l->index + 1 >= l->n && !loop_fetch(e, l);
    if (text_is(name, "last")) return value_make_bool(last);
    return last ? value_undefined_reason(w, "there is no next item") : l->items[index + 1];
}

/* ---- Macros ---- */

/* The named argument, now marked as taken; NULL if it was not given. */
static const struct value *take_named(const struct args *a, const struct value *name,
                                      bool *taken)
{
    for (size_t i = 0; i < a->n_named; i++)
        if (!taken[i] && text_equal(a->named[i].name->text, name->text)) {
            taken[i] = true;
            return a->named[i].value;
        }
    return NULL;
}

static void bind_caller(struct eval *e, const struct macro_node *m, struct scope *scope,
                        const struct args *a, bool *taken)
{
    const struct value *name = dict_get_text(e->w, e->t->names, text_literal("caller"));
    if (!m->uses_caller || !name) return;
    for (size_t i = 0; i < m->n_params; i++)
        if (m->params[i] == name) return;
    const struct value *caller = take_named(a, name, taken);
    if (!caller) caller = value_undefined_reason(e->w, "no caller defined");
    scope_set(e->w, scope, name, caller);
}

/* What is left of the arguments goes to kwargs and varargs, or is one too many. */
static void bind_rest(struct eval *e, const struct macro_node *m, struct scope *scope,
                      const struct args *a, const bool *taken)
{
    struct work *w = e->w;
    struct value *kwargs = value_make_dict(w), *varargs = value_make_seq(w, SEQ_TUPLE);
    for (size_t i = 0; i < a->n_named; i++) {
        if (taken[i]) continue;
        if (!m->uses_kwargs)
            work_fail(w, "macro '%s' takes no keyword argument '%.*s'", m->name->text.data,
                      (int)a->named[i].name->text.len, a->named[i].name->text.data);
        dict_set(w, kwargs->dict, a->named[i].name, a->named[i].value);
    }
    for (size_t i = m->n_params; i < a->n; i++) {
        if (!m->uses_varargs)
            work_fail(w, "macro '%s' takes not more than %zu argument(s)", m->name->text.data,
                      m->n_params);
        seq_add(w, varargs->seq, a->at[i]);
    }
    if (m->uses_kwargs)
        scope_set(w, scope, dict_get_text(w, e->t->names, text_literal("kwargs")), kwargs);
    if (m->uses_varargs)
        scope_set(w, scope, dict_get_text(w, e->t->names, text_literal("varargs")), varargs);
}

const struct value *exec_macro(struct eval *e, const struct macro *macro, const struct args *a)
{
    const struct macro_node *m = macro->node;
    struct work *w = e->w;
    work_enter(w);
    struct scope *outside = e->scope, *scope = scope_new(w, macro->scope);
    bool *taken = work_zalloc(w, a->n_named + 1, sizeof *taken);
    bool *missing = work_zalloc(w, m->n_params + 1, sizeof *missing);
    for (size_t i = 0; i < m->n_params; i++) {
        const struct value *v = i < a->n ? a->at[i] : take_named(a, m->params[i], taken);
        missing[i] = !v;
        if (!v) v = value_undefined_name(w, m->params[i]->text.data);
        scope_set(w, scope, m->params[i], v);
    }
    bind_caller(e, m, scope, a, taken);
    bind_rest(e, m, scope, a, taken);

    e->scope = scope; /* a default sees the parameters before it */
    for (size_t i = 0; i < m->n_params; i++)
        if (missing[i] && m->defaults[i])
            scope_set(w, scope, m->params[i], eval(e, m->defaults[i]));
    const struct value *v = captured_text(e, &m->body);
    e->scope = outside;
    work_leave(w);
    return v;
}

static void call_block(struct eval *e, const struct node *n)
{
    const struct node *c = n->call_block.call;
    const struct value *callee = eval(e, c->call.callee);
    struct args a = eval_args(e, &c->call.args);
    struct binding *named = work_grow(e->w, a.named, a.n_named, a.n_named + 1, sizeof *named);
    struct value *name = value_new(e->w, VALUE_STRING);
    name->text = text_literal("caller");
    named[a.n_named++] =
        (struct binding){name, macro_value(e->w, macro_new(e, n->call_block.macro))};
    a.named = named;
    e->w->line = n->line;
    print_str(e->out, eval_call(e, callee, &a));
}

/* ---- Statements ---- */

static enum flow exec_if(struct eval *e, const struct node *n)
{
    for (size_t i = 0; i < n->branch.n; i++) {
        const struct if_branch *branch = &n->branch.branches[i];
        if (!branch->test || value_truth(eval(e, branch->test))) return exec(e, &branch->body);
    }
    return FLOW_NEXT;
}

/* body in a scope of its own, captured, and its filters over it. */
static const struct value *filtered_body(struct eval *e, const struct node *n)
{
    struct scope *scope = e->scope;
    e->scope = scope_new(e->w, scope);
    const struct value *outer = e->body, *captured = captured_text(e, &n->set.body);
    e->scope = scope;
    e->body = captured;
    const struct value *v = eval(e, n->set.value);
    e->body = outer;
    return v;
}

static enum flow exec_with(struct eval *e, const struct node *n)
{
    struct scope *outer = e->scope, *scope = scope_new(e->w, outer);
    for (size_t i = 0; i < n->with.targets.n; i++)
        assign(e, scope, n->with.targets.at[i], eval(e, n->with.values.at[i]));
    e->scope = scope;
    enum flow flow = exec(e, &n->with.body);
    e->scope = outer;
    return flow;
}

static enum flow exec_scope(struct eval *e, const struct node *n)
{
    struct scope *outer = e->scope;
    e->scope = scope_new(e->w, outer);
    enum flow flow = exec(e, &n->items);
    e->scope = outer;
    return flow;
}

/* A block sees the variables of the rendering, not those of loops, macros and `with` around it.
 * A scoped one sees these, too, and so do the blocks in it. */
static enum flow exec_block(struct eval *e, const struct node *n)
{
    struct scope *outer = e->scope, *seen = n->block.scoped ? outer : outer->context;
    e->scope = scope_new(e->w, seen);
    e->scope->context = seen;
    enum flow flow = exec(e, &n->block.body);
    e->scope = outer;
    return flow;
}

static enum flow exec_one(struct eval *e, const struct node *n)
{
    switch (n->kind) {
    case NODE_TEXT: builder_add(e->out, n->text); break;
    case NODE_PRINT: print_str(e->out, eval(e, n->operand)); break;
    case NODE_IF: return exec_if(e, n);
    case NODE_FOR: return run_loop(e, n->loop, eval(e, n->loop->iter), 0);
    case NODE_SET: assign(e, e->scope, n->set.target, eval(e, n->set.value)); break;
    case NODE_SET_BLOCK: assign(e, e->scope, n->set.target, filtered_body(e, n)); break;
    case NODE_FILTER_BLOCK: print_str(e->out, filtered_body(e, n)); break;
    case NODE_MACRO:
        scope_set(e->w, e->scope, n->macro->name, macro_value(e->w, macro_new(e, n->macro)));
        break;
    case NODE_CALL_BLOCK: call_block(e, n); break;
    case NODE_WITH: return exec_with(e, n);
    case NODE_SCOPE: return exec_scope(e, n);
    case NODE_BLOCK: return exec_block(e, n);
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: break;
    }
    return FLOW_NEXT;
}

enum flow exec(struct eval *e, const struct nodes *body)
{
    enum flow flow = FLOW_NEXT;
    work_enter(e->w);
    for (const struct unset *u = body->unset; u; u = u->next)
        scope_set(e->w, e->scope, u->name, u->value);
    for (size_t i = 0; i < body->n && flow == FLOW_NEXT; i++) {
        work_burn(e->w, 1);
        e->w->line = body->at[i]->line;
        flow = exec_one(e, body->at[i]);
    }
    work_leave(e->w);
    return flow;
}
