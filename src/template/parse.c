#include "template/parse.h"

/* ---- The stream of tokens ---- */

const struct value *parser_intern(struct parser *p, struct text s)
{
    const struct value *known = dict_get_text(p->w, p->t->names, s);
    if (known) return known;
    char *copy = work_bytes(p->w, s.len + 1);
    memcpy(copy, s.data, s.len);
    copy[s.len] = 0;
    const struct value *v = value_make_text(p->w, text_of(copy, s.len, ORIGIN_LITERAL));
    dict_set(p->w, p->t->names, v, v);
    return v;
}

struct node *parser_node(struct parser *p, enum node_kind kind)
{
    struct node *n = work_zalloc(p->w, 1, sizeof *n);
    n->kind = kind;
    n->line = p->token->line;
    return n;
}

void nodes_add(struct work *w, struct nodes *list, struct node *node)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        list->at = work_grow(w, list->at, list->n, cap, sizeof *list->at);
        list->cap = cap;
    }
    list->at[list->n++] = node;
}

bool parser_at_op(const struct parser *p, int op)
{
    return p->token->type == TOKEN_OPERATOR && p->token->op == op;
}

bool parser_at_name(const struct parser *p, const char *name)
{
    return p->token->type == TOKEN_NAME && text_is(p->token->text, name);
}

bool parser_skip_op(struct parser *p, int op)
{
    if (!parser_at_op(p, op)) return false;
    p->token++;
    return true;
}

bool parser_skip_name(struct parser *p, const char *name)
{
    if (!parser_at_name(p, name)) return false;
    p->token++;
    return true;
}

_Noreturn void parser_fail(struct parser *p, const char *expected)
{
    p->w->line = p->token->line;
    work_fail(p->w, "expected %s, found %s", expected, token_describe(p->w, p->token));
}

void parser_expect_op(struct parser *p, int op)
{
    p->w->line = p->token->line;
    if (parser_skip_op(p, op)) return;
    struct token wanted = {.type = TOKEN_OPERATOR, .op = op};
    parser_fail(p, token_describe(p->w, &wanted));
}

struct text parser_expect_name(struct parser *p)
{
    p->w->line = p->token->line;
    if (p->token->type != TOKEN_NAME) parser_fail(p, "a name");
    return p->token++->text;
}

static void expect(struct parser *p, enum token_type type)
{
    p->w->line = p->token->line;
    struct token wanted = {.type = type};
    if (p->token->type != type) parser_fail(p, token_describe(p->w, &wanted));
    p->token++;
}

/* ---- Statements ---- */

/* Whether the tag that begins here is one of the names in `ends`, separated by spaces. */
static bool at_end_tag(const struct parser *p, const char *ends)
{
    if (p->token->type != TOKEN_BLOCK_BEGIN || p->token[1].type != TOKEN_NAME) return false;
    struct text name = p->token[1].text;
    while (*ends) {
        size_t len = strcspn(ends, " ");
        if (text_equal(name, text_of(ends, len, ORIGIN_LITERAL))) return true;
        ends += len + (ends[len] == ' ');
    }
    return false;
}

static struct node *parse_statement(struct parser *p);

/* Text and tags up to a tag named in `ends` (NULL: the end of the template), which is left
 * current. tag and line are what needs it, for the message. */
static struct nodes parse_until(struct parser *p, const char *ends, const char *tag,
                                unsigned line)
{
    struct nodes body = {.n = 0};
    work_enter(p->w);
    for (;;) {
        struct node *n;
        p->w->line = p->token->line;
        if (p->token->type == TOKEN_DATA) {
            n = parser_node(p, NODE_TEXT);
            n->text = p->token++->text;
        } else if (p->token->type == TOKEN_VARIABLE_BEGIN) {
            n = parser_node(p, NODE_PRINT);
            p->token++;
            n->operand = parse_tuple(p, true, NULL);
            expect(p, TOKEN_VARIABLE_END);
        } else if (p->token->type == TOKEN_BLOCK_BEGIN) {
            if (ends && at_end_tag(p, ends)) break;
            p->token++;
            n = parse_statement(p);
            expect(p, TOKEN_BLOCK_END);
        } else {
            if (!ends) break;
            p->w->line = line;
            work_fail(p->w, "{%% %s %%} is not closed", tag);
        }
        nodes_add(p->w, &body, n);
    }
    work_leave(p->w);
    return body;
}

/* The rest of an opening tag, its body, and `{% name` of the tag that ended it. */
static struct nodes parse_body(struct parser *p, const char *ends, const char *tag,
                               unsigned line)
{
    parser_skip_op(p, ':');
    expect(p, TOKEN_BLOCK_END);
    struct nodes body = parse_until(p, ends, tag, line);
    p->token++;
    return body;
}

/* A body ended by one tag only, that tag passed up to its end. */
static struct nodes parse_closed(struct parser *p, const char *end, const char *tag,
                                 unsigned line)
{
    struct nodes body = parse_body(p, end, tag, line);
    p->token++;
    return body;
}

/* A body whose output is kept: break and continue cannot leave it. */
static struct nodes parse_captured(struct parser *p, const char *end, const char *tag,
                                   unsigned line)
{
    unsigned loops = p->loops;
    p->loops = 0;
    struct nodes body = parse_closed(p, end, tag, line);
    p->loops = loops;
    return body;
}

static struct node *parse_if(struct parser *p, struct node *n)
{
    size_t cap = 0;
    struct node *test = parse_tuple(p, false, NULL);
    for (;;) {
        if (n->branch.n == cap) {
            cap = cap ? cap * 2 : 2;
            n->branch.branches = work_grow(p->w, n->branch.branches, n->branch.n, cap,
                                           sizeof *n->branch.branches);
        }
        struct if_branch *branch = &n->branch.branches[n->branch.n++];
        branch->test = test;
        p->level->n_branches++;
        branch->body = parse_body(p, test ? "elif else endif" : "endif", "if", n->line);
        p->level->n_branches--;
        if (parser_skip_name(p, "endif")) return n;
        test = NULL;
        if (parser_skip_name(p, "elif"))
            test = parse_tuple(p, false, NULL);
        else
            p->token++; /* else */
    }
}

/* The `if` of a loop, which sees its targets and sets nothing. */
static struct node *parse_for_filter(struct parser *p, struct for_node *f)
{
    level_begin(p, NULL);
    level_each(p, f->target, level_read);
    struct node *filter = parse_expression(p, true);
    level_end(p);
    return filter;
}

static struct node *parse_for(struct parser *p, struct node *n)
{
    struct for_node *f = n->loop = work_zalloc(p->w, 1, sizeof *f);
    f->target = parse_target(p, false, "in");
    if (!parser_skip_name(p, "in")) parser_fail(p, "'in'");
    f->iter = parse_tuple(p, false, "recursive");
    if (parser_skip_name(p, "if")) f->filter = parse_for_filter(p, f);
    f->recursive = parser_skip_name(p, "recursive");
    p->loops++;
    level_begin(p, &f->body);
    level_given(p, "loop");
    level_each(p, f->target, level_read);
    f->body = parse_body(p, "else endfor", "for", n->line);
    level_end(p);
    p->loops--;
    level_begin(p, &f->otherwise);
    if (parser_skip_name(p, "else"))
        f->otherwise = parse_closed(p, "endfor", "for", n->line);
    else
        p->token++; /* endfor */
    level_end(p);
    return n;
}

/* `set`, as an assignment or as a block. */
static struct node *parse_set(struct parser *p, struct node *n)
{
    n->set.target = parse_target(p, true, NULL);
    if (parser_skip_op(p, '=')) {
        n->kind = NODE_SET;
        n->set.value = parse_tuple(p, true, NULL);
    } else {
        n->set.value = parse_filters(p, parser_node(p, NODE_BODY), false);
        level_begin(p, &n->set.body);
        n->set.body = parse_captured(p, "endset", "set", n->line);
        level_end(p);
    }
    level_each(p, n->set.target, level_set);
    return n;
}

static struct node *parse_filter_block(struct parser *p, struct node *n)
{
    n->set.value = parse_filters(p, parser_node(p, NODE_BODY), true);
    level_begin(p, &n->set.body);
    n->set.body = parse_captured(p, "endfilter", "filter", n->line);
    level_end(p);
    return n;
}

static void parse_signature(struct parser *p, struct macro_node *m)
{
    size_t cap = 0;
    bool defaults = false;
    parser_expect_op(p, '(');
    while (!parser_at_op(p, ')')) {
        if (m->n_params) parser_expect_op(p, ',');
        if (m->n_params == cap) {
            cap = cap ? cap * 2 : 4;
            m->params = work_grow(p->w, m->params, m->n_params, cap, sizeof *m->params);
            m->defaults = work_grow(p->w, m->defaults, m->n_params, cap, sizeof *m->defaults);
        }
        m->params[m->n_params] = parser_intern(p, parser_expect_name(p));
        level_read(p, m->params[m->n_params]);
        m->defaults[m->n_params] = NULL;
        if (parser_skip_op(p, '=')) {
            m->defaults[m->n_params] = parse_expression(p, true);
            defaults = true;
        } else if (defaults) {
            work_fail(p->w, "a parameter without a default follows one with a default");
        }
        m->n_params++;
    }
    parser_expect_op(p, ')');
}

/* Whether the name is that of a parameter, and so no longer of what Jinja gives of itself. */
static bool is_param(const struct macro_node *m, const char *name)
{
    for (size_t i = 0; i < m->n_params; i++)
        if (text_is(m->params[i]->text, name)) return true;
    return false;
}

/* A level of a macro or call block, with what it may be given unasked. */
static void begin_macro(struct parser *p, struct macro_node *m)
{
    static const char *const names[] = {"caller", "kwargs", "varargs"};
    level_begin(p, &m->body);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        level_given(p, names[i]);
}

/* The body of a macro or call block, and what it mentions; its level ends. */
static void parse_macro_body(struct parser *p, struct macro_node *m, const char *end,
                             const char *tag, unsigned line)
{
    size_t callers = p->n_callers, kwargs = p->n_kwargs, varargs = p->n_varargs;
    m->body = parse_captured(p, end, tag, line);
    level_end(p);
    m->uses_caller = p->n_callers > callers;
    m->uses_kwargs = p->n_kwargs > kwargs && !is_param(m, "kwargs");
    m->uses_varargs = p->n_varargs > varargs && !is_param(m, "varargs");
}

static struct node *parse_macro(struct parser *p, struct node *n)
{
    struct macro_node *m = n->macro = work_zalloc(p->w, 1, sizeof *m);
    m->name = parser_intern(p, parser_expect_name(p));
    level_set(p, m->name);
    begin_macro(p, m);
    parse_signature(p, m);
    parse_macro_body(p, m, "endmacro", "macro", n->line);
    return n;
}

static struct node *parse_call_block(struct parser *p, struct node *n)
{
    struct macro_node *m = n->call_block.macro = work_zalloc(p->w, 1, sizeof *m);
    m->name = parser_intern(p, text_literal("caller"));
    begin_macro(p, m);
    if (parser_at_op(p, '(')) parse_signature(p, m);
    struct level *inside = level_end(p); /* the call stands around the block */
    n->call_block.call = parse_expression(p, true);
    level_resume(p, inside);
    if (n->call_block.call->kind != NODE_CALL) work_fail(p->w, "{%% call %%} needs a call");
    parse_macro_body(p, m, "endcall", "call", n->line);
    return n;
}

static struct node *parse_with(struct parser *p, struct node *n)
{
    while (p->token->type != TOKEN_BLOCK_END) {
        if (n->with.targets.n) parser_expect_op(p, ',');
        nodes_add(p->w, &n->with.targets, parse_target(p, false, NULL));
        parser_expect_op(p, '=');
        nodes_add(p->w, &n->with.values, parse_expression(p, true));
    }
    level_begin(p, &n->with.body);
    for (size_t i = 0; i < n->with.targets.n; i++)
        level_each(p, n->with.targets.at[i], level_read);
    n->with.body = parse_closed(p, "endwith", "with", n->line);
    level_end(p);
    return n;
}

/* transformers' mark around what the assistant says; the text stays as it is. */
static struct node *parse_generation(struct parser *p, struct node *n)
{
    level_begin(p, &n->items);
    n->items = parse_captured(p, "endgeneration", "generation", n->line);
    level_end(p);
    return n;
}

static struct node *parse_block(struct parser *p, struct node *n)
{
    parser_expect_name(p);
    n->block.scoped = parser_skip_name(p, "scoped");
    if (!n->block.scoped) parser_skip_name(p, "required");
    level_begin(p, &n->block.body);
    n->block.body = parse_closed(p, "endblock", "block", n->line);
    level_end(p);
    if (p->token->type == TOKEN_NAME) p->token++;
    p->has_blocks = true;
    return n;
}

static struct node *parse_loop_control(struct parser *p, struct node *n)
{
    if (!p->loops) work_fail(p->w, "break and continue need a loop around them");
    return n;
}

static struct node *parse_print(struct parser *p, struct node *n)
{
    n->operand = parse_expression(p, true);
    return n;
}

/* The statement whose name is current, up to the end of its last tag. */
static struct node *parse_statement(struct parser *p)
{
    static const struct {
        const char *name;
        enum node_kind kind;
        struct node *(*parse)(struct parser *p, struct node *n);
    } statements[] = {
        {"if", NODE_IF, parse_if},
        {"for", NODE_FOR, parse_for},
        {"set", NODE_SET_BLOCK, parse_set},
        {"macro", NODE_MACRO, parse_macro},
        {"call", NODE_CALL_BLOCK, parse_call_block},
        {"filter", NODE_FILTER_BLOCK, parse_filter_block},
        {"with", NODE_WITH, parse_with},
        {"generation", NODE_SCOPE, parse_generation},
        {"block", NODE_BLOCK, parse_block},
        {"break", NODE_BREAK, parse_loop_control},
        {"continue", NODE_CONTINUE, parse_loop_control},
        {"print", NODE_PRINT, parse_print},
    };
    unsigned line = p->token->line;
    struct text name = parser_expect_name(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (text_is(name, statements[i].name)) {
            struct node *n = parser_node(p, statements[i].kind);
            n->line = line;
            return statements[i].parse(p, n);
        }
    work_fail(p->w, "unknown tag '%.*s'", (int)(name.len < 60 ? name.len : 60), name.data);
}

void parse(struct template *t, const char *source, size_t n)
{
    struct parser p = {.w = &t->work, .t = t};
    t->names = value_make_dict(p.w)->dict;
    t->variables = value_make_dict(p.w)->dict;
    p.token = lex(p.w, source, n);
    level_begin(&p, &t->body);
    t->body = parse_until(&p, NULL, NULL, 1);
    /* A block sees the variables of the rendering, whatever is set around it. */
    if (!p.has_blocks) levels_finish(&p);
}
