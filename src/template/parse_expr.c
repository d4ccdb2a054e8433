/* Tokens to the tree of an expression. */
#include "template/builtins.h"
#include "template/parse.h"

/* Precedence from loose to tight: if-else, or, and, not, comparison, + -, ~, * / // %, **,
 * unary, postfix, filters and tests. A unary sign binds tighter than **, filters tighter than a
 * sign's operand only at the end: that is Jinja's order, not Python's. */

static struct node *parse_unary(struct parser *p, bool with_filters);
static struct node *parse_primary(struct parser *p);

static bool at(const struct parser *p, enum token_type type)
{
    return p->token->type == type;
}

static struct node *node_at(struct parser *p, enum node_kind kind, unsigned line)
{
    struct node *n = parser_node(p, kind);
    n->line = line;
    return n;
}

static struct node *binary(struct parser *p, enum node_kind kind, int op, struct node *left,
                           struct node *right)
{
    struct node *n = node_at(p, kind, left->line);
    n->binary.op = op;
    n->binary.left = left;
    n->binary.right = right;
    return n;
}

/* ---- Calls, subscripts, filters, tests ---- */

static bool at_keyword(const struct parser *p)
{
    return at(p, TOKEN_NAME) && p->token[1].type == TOKEN_OPERATOR && p->token[1].op == '=';
}

static void add_keyword(struct parser *p, struct call_args *args, size_t *cap)
{
    if (args->n_keywords == *cap) {
        *cap = *cap ? *cap * 2 : 4;
        args->keywords =
            work_grow(p->w, args->keywords, args->n_keywords, *cap, sizeof *args->keywords);
    }
    struct keyword *k = &args->keywords[args->n_keywords++];
    k->name = parser_intern(p, parser_expect_name(p));
    parser_expect_op(p, '=');
    k->value = parse_expression(p, true);
}

static struct call_args parse_args(struct parser *p)
{
    struct call_args args = {.n_keywords = 0};
    size_t cap = 0;
    parser_expect_op(p, '(');
    while (!parser_at_op(p, ')')) {
        if (args.positional.n || args.n_keywords || args.star || args.star_star) {
            parser_expect_op(p, ',');
            if (parser_at_op(p, ')')) break;
        }
        if (args.star_star) parser_fail(p, "')'");
        if (!args.star && parser_skip_op(p, '*'))
            args.star = parse_expression(p, true);
        else if (parser_skip_op(p, OP_POW))
            args.star_star = parse_expression(p, true);
        else if (at_keyword(p))
            add_keyword(p, &args, &cap);
        else if (args.star || args.n_keywords)
            parser_fail(p, "a keyword argument");
        else
            nodes_add(p->w, &args.positional, parse_expression(p, true));
    }
    parser_expect_op(p, ')');
    return args;
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *n = parser_node(p, NODE_CALL);
    n->call.callee = callee;
    n->call.args = parse_args(p);
    return n;
}

/* One key of a subscript, a slice or an expression. */
static struct node *parse_key(struct parser *p)
{
    struct node *parts[3] = {NULL, NULL, NULL};
    size_t n_colons = 0;
    unsigned line = p->token->line;
    if (!parser_at_op(p, ':')) parts[0] = parse_expression(p, true);
    if (!parser_at_op(p, ':')) return parts[0];
    while (n_colons < 2 && parser_skip_op(p, ':')) {
        n_colons++;
        if (!parser_at_op(p, ':') && !parser_at_op(p, ']') && !parser_at_op(p, ','))
            parts[n_colons] = parse_expression(p, true);
    }
    struct node *n = node_at(p, NODE_SLICE, line);
    for (size_t i = 0; i < 3; i++)
        nodes_add(p->w, &n->items, parts[i]);
    return n;
}

static struct node *parse_subscript(struct parser *p, struct node *object)
{
    unsigned line = p->token->line;
    struct node *n;
    if (parser_skip_op(p, '.')) {
        if (at(p, TOKEN_INTEGER)) {
            n = node_at(p, NODE_ITEM, line);
            n->item.object = object;
            n->item.key = parse_primary(p);
            return n;
        }
        n = node_at(p, NODE_ATTR, line);
        n->attr.object = object;
        n->attr.name = parser_intern(p, parser_expect_name(p));
        return n;
    }
    n = node_at(p, NODE_ITEM, line);
    n->item.object = object;
    parser_expect_op(p, '[');
    struct node *key = parse_key(p);
    if (parser_at_op(p, ',')) {
        struct node *tuple = parser_node(p, NODE_TUPLE);
        nodes_add(p->w, &tuple->items, key);
        while (parser_skip_op(p, ','))
            nodes_add(p->w, &tuple->items, parse_key(p));
        key = tuple;
    }
    parser_expect_op(p, ']');
    n->item.key = key;
    return n;
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
    for (;;) {
        if (parser_at_op(p, '.') || parser_at_op(p, '['))
            n = parse_subscript(p, n);
        else if (parser_at_op(p, '('))
            n = parse_call(p, n);
        else
            return n;
    }
}

/* A filter's or test's name, dots and all. */
static const struct value *dotted_name(struct parser *p)
{
    struct text name = parser_expect_name(p);
    while (parser_skip_op(p, '.')) {
        name = text_concat(p->w, name, text_literal("."));
        name = text_concat(p->w, name, parser_expect_name(p));
    }
    return parser_intern(p, name);
}

struct node *parse_filters(struct parser *p, struct node *subject, bool start_inline)
{
    while (start_inline || parser_skip_op(p, '|')) {
        struct node *n = parser_node(p, NODE_FILTER);
        const struct value *name = dotted_name(p);
        n->apply.name = name->text.data;
        n->apply.builtin = filter_find(name->text);
        n->apply.subject = subject;
        n->apply.args = (struct call_args){.n_keywords = 0};
        if (parser_at_op(p, '(')) n->apply.args = parse_args(p);
        subject = n;
        start_inline = false;
    }
    return subject;
}

static bool starts_test_argument(const struct parser *p)
{
    switch (p->token->type) {
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: return true;
    case TOKEN_OPERATOR: return p->token->op == '[' || p->token->op == '{';
    case TOKEN_NAME:
        return !parser_at_name(p, "else") && !parser_at_name(p, "or") &&
               !parser_at_name(p, "and");
    default: return false;
    }
}

static struct node *parse_test(struct parser *p, struct node *subject)
{
    unsigned line = p->token->line;
    bool negated = parser_skip_name(p, "not");
    const struct value *name = dotted_name(p);
    struct node *n = node_at(p, NODE_TEST, line);
    n->apply.name = name->text.data;
    n->apply.builtin = predicate_find(name->text);
    n->apply.subject = subject;
    n->apply.args = (struct call_args){.n_keywords = 0};
    if (parser_at_op(p, '(')) {
        n->apply.args = parse_args(p);
    } else if (starts_test_argument(p)) {
        if (parser_at_name(p, "is")) work_fail(p->w, "tests with 'is' cannot be chained");
        nodes_add(p->w, &n->apply.args.positional, parse_postfix(p, parse_primary(p)));
    }
    if (!negated) return n;
    struct node *not = node_at(p, NODE_NOT, line);
    not ->operand = n;
    return not ;
}

static struct node *parse_filters_and_tests(struct parser *p, struct node *n)
{
    for (;;) {
        if (parser_at_op(p, '|'))
            n = parse_filters(p, n, false);
        else if (parser_skip_name(p, "is"))
            n = parse_test(p, n);
        else if (parser_at_op(p, '('))
            n = parse_call(p, n);
        else
            return n;
    }
}

/* ---- Primary ---- */

static struct node *constant(struct parser *p, unsigned line, const struct value *v)
{
    struct node *n = node_at(p, NODE_CONST, line);
    n->value = v;
    return n;
}

static struct node *parse_name(struct parser *p)
{
    unsigned line = p->token->line;
    struct text name = parser_expect_name(p);
    if (text_is(name, "true") || text_is(name, "True"))
        return constant(p, line, &value_true_const);
    if (text_is(name, "false") || text_is(name, "False"))
        return constant(p, line, &value_false_const);
    if (text_is(name, "none") || text_is(name, "None"))
        return constant(p, line, &value_none_const);
    p->n_callers += text_is(name, "caller");
    p->n_kwargs += text_is(name, "kwargs");
    p->n_varargs += text_is(name, "varargs");
    struct node *n = node_at(p, NODE_NAME, line);
    n->value = parser_intern(p, name);
    dict_set(p->w, p->t->variables, n->value, n->value);
    return n;
}

static struct node *parse_variable(struct parser *p)
{
    struct node *n = parse_name(p);
    if (n->kind == NODE_NAME) level_read(p, n->value);
    return n;
}

static struct node *parse_strings(struct parser *p)
{
    unsigned line = p->token->line;
    struct text s = p->token++->text;
    while (at(p, TOKEN_STRING))
        s = text_concat(p->w, s, p->token++->text);
    return constant(p, line, parser_intern(p, s));
}

static struct node *parse_list(struct parser *p)
{
    struct node *n = parser_node(p, NODE_LIST);
    parser_expect_op(p, '[');
    while (!parser_at_op(p, ']')) {
        if (n->items.n) parser_expect_op(p, ',');
        if (parser_at_op(p, ']')) break;
        nodes_add(p->w, &n->items, parse_expression(p, true));
    }
    parser_expect_op(p, ']');
    return n;
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = parser_node(p, NODE_DICT);
    parser_expect_op(p, '{');
    while (!parser_at_op(p, '}')) {
        if (n->items.n) parser_expect_op(p, ',');
        if (parser_at_op(p, '}')) break;
        nodes_add(p->w, &n->items, parse_expression(p, true));
        parser_expect_op(p, ':');
        nodes_add(p->w, &n->items, parse_expression(p, true));
    }
    parser_expect_op(p, '}');
    return n;
}

static struct node *parse_parenthesis(struct parser *p)
{
    parser_expect_op(p, '(');
    struct node *n;
    if (parser_at_op(p, ')'))
        n = parser_node(p, NODE_TUPLE);
    else
        n = parse_tuple(p, true, NULL);
    parser_expect_op(p, ')');
    return n;
}

static struct node *parse_primary(struct parser *p)
{
    const struct token *t = p->token;
    switch (t->type) {
    case TOKEN_NAME: return parse_variable(p);
    case TOKEN_STRING: return parse_strings(p);
    case TOKEN_INTEGER:
        p->token++;
        return constant(p, t->line, value_make_int(p->w, t->integer));
    case TOKEN_FLOAT: p->token++; return constant(p, t->line, value_make_float(p->w, t->real));
    case TOKEN_OPERATOR:
        if (t->op == '(') return parse_parenthesis(p);
        if (t->op == '[') return parse_list(p);
        if (t->op == '{') return parse_dict(p);
        break;
    default: break;
    }
    parser_fail(p, "an expression");
}

/* ---- Operators ---- */

static struct node *parse_unary(struct parser *p, bool with_filters)
{
    struct node *n;
    unsigned line = p->token->line;
    bool minus = parser_at_op(p, '-');
    work_enter(p->w);
    if (minus || parser_at_op(p, '+')) {
        p->token++;
        n = node_at(p, minus ? NODE_NEGATE : NODE_PLUS, line);
        n->operand = parse_unary(p, false);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    if (with_filters) n = parse_filters_and_tests(p, n);
    work_leave(p->w);
    return n;
}

static struct node *parse_power(struct parser *p)
{
    struct node *left = parse_unary(p, true);
    while (parser_skip_op(p, OP_POW))
        left = binary(p, NODE_BINARY, OP_POW, left, parse_unary(p, true));
    return left;
}

static struct node *parse_product(struct parser *p)
{
    struct node *left = parse_power(p);
    for (;;) {
        int op = at(p, TOKEN_OPERATOR) ? p->token->op : 0;
        if (op != '*' && op != '/' && op != OP_FLOORDIV && op != '%') return left;
        p->token++;
        left = binary(p, NODE_BINARY, op, left, parse_power(p));
    }
}

static struct node *parse_concat(struct parser *p)
{
    struct node *first = parse_product(p);
    if (!parser_at_op(p, '~')) return first;
    struct node *n = node_at(p, NODE_CONCAT, first->line);
    nodes_add(p->w, &n->items, first);
    while (parser_skip_op(p, '~'))
        nodes_add(p->w, &n->items, parse_product(p));
    return n;
}

static struct node *parse_sum(struct parser *p)
{
    struct node *left = parse_concat(p);
    for (;;) {
        int op = parser_at_op(p, '+') ? '+' : parser_at_op(p, '-') ? '-' : 0;
        if (!op) return left;
        p->token++;
        left = binary(p, NODE_BINARY, op, left, parse_concat(p));
    }
}

/* The comparison here, passed; 0 if there is none. */
static int comparison(struct parser *p)
{
    int op = at(p, TOKEN_OPERATOR) ? p->token->op : 0;
    if (op == OP_EQ || op == OP_NE || op == OP_LE || op == OP_GE || op == '<' || op == '>') {
        p->token++;
        return op;
    }
    if (parser_skip_name(p, "in")) return OP_IN;
    if (parser_at_name(p, "not") && p->token[1].type == TOKEN_NAME &&
        text_is(p->token[1].text, "in")) {
        p->token += 2;
        return OP_NOT_IN;
    }
    return 0;
}

static struct node *parse_compare(struct parser *p)
{
    struct node *first = parse_sum(p);
    int op = comparison(p);
    if (!op) return first;
    struct node *n = node_at(p, NODE_COMPARE, first->line);
    struct compare_op *ops = NULL;
    size_t n_ops = 0, cap = 0;
    for (; op; op = comparison(p)) {
        if (n_ops == cap) {
            cap = cap ? cap * 2 : 1;
            ops = work_grow(p->w, ops, n_ops, cap, sizeof *ops);
        }
        ops[n_ops++] = (struct compare_op){op, parse_sum(p)};
    }
    n->compare.first = first;
    n->compare.ops = ops;
    n->compare.n_ops = n_ops;
    return n;
}

static struct node *parse_not(struct parser *p)
{
    unsigned line = p->token->line;
    if (!parser_skip_name(p, "not")) return parse_compare(p);
    work_enter(p->w);
    struct node *n = node_at(p, NODE_NOT, line);
    n->operand = parse_not(p);
    work_leave(p->w);
    return n;
}

static struct node *parse_and(struct parser *p)
{
    struct node *left = parse_not(p);
    while (parser_skip_name(p, "and"))
        left = binary(p, NODE_AND, 0, left, parse_not(p));
    return left;
}

static struct node *parse_or(struct parser *p)
{
    struct node *left = parse_and(p);
    while (parser_skip_name(p, "or"))
        left = binary(p, NODE_OR, 0, left, parse_and(p));
    return left;
}

struct node *parse_expression(struct parser *p, bool with_cond)
{
    work_enter(p->w);
    struct node *n = parse_or(p);
    while (with_cond && parser_skip_name(p, "if")) {
        struct node *cond = node_at(p, NODE_COND, n->line);
        cond->cond.yes = n;
        cond->cond.test = parse_or(p);
        cond->cond.no = parser_skip_name(p, "else") ? parse_expression(p, true) : NULL;
        n = cond;
    }
    work_leave(p->w);
    return n;
}

static bool tuple_ends(const struct parser *p, const char *end)
{
    return at(p, TOKEN_VARIABLE_END) || at(p, TOKEN_BLOCK_END) || parser_at_op(p, ')') ||
           (end && parser_at_name(p, end));
}

struct node *parse_tuple(struct parser *p, bool with_cond, const char *end)
{
    if (tuple_ends(p, end)) parser_fail(p, "an expression");
    struct node *first = parse_expression(p, with_cond);
    if (!parser_at_op(p, ',')) return first;
    struct node *n = node_at(p, NODE_TUPLE, first->line);
    nodes_add(p->w, &n->items, first);
    while (parser_skip_op(p, ',') && !tuple_ends(p, end))
        nodes_add(p->w, &n->items, parse_expression(p, with_cond));
    return n;
}

static struct node *parse_one_target(struct parser *p, bool with_namespace)
{
    if (parser_at_op(p, '(')) {
        work_enter(p->w);
        parser_expect_op(p, '(');
        struct node *n = parse_target(p, with_namespace, NULL);
        parser_expect_op(p, ')');
        work_leave(p->w);
        return n;
    }
    if (!at(p, TOKEN_NAME)) parser_fail(p, "a name to assign to");
    const struct token *t = p->token;
    struct node *name = parse_name(p);
    if (name->kind != NODE_NAME)
        work_fail(p->w, "cannot assign to %.*s", (int)t->text.len, t->text.data);
    if (!with_namespace || !parser_skip_op(p, '.')) return name;
    struct node *n = node_at(p, NODE_ATTR, name->line);
    n->attr.object = name;
    n->attr.name = parser_intern(p, parser_expect_name(p));
    return n;
}

struct node *parse_target(struct parser *p, bool with_namespace, const char *end)
{
    struct node *first = parse_one_target(p, with_namespace);
    if (!parser_at_op(p, ',')) return first;
    struct node *n = node_at(p, NODE_TUPLE, first->line);
    nodes_add(p->w, &n->items, first);
    while (parser_skip_op(p, ',') && !tuple_ends(p, end) && !parser_at_op(p, '='))
        nodes_add(p->w, &n->items, parse_one_target(p, with_namespace));
    return n;
}
