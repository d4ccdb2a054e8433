/* Source to tree.
 *
 * A parser lives as long as one call of parse, on its stack, and borrows the tokens; what it
 * makes lies in the template's struct work. Fails through work_fail. Private to this folder:
 * template_parse is the public face. */
#ifndef TEMPLATE_PARSE_H
#define TEMPLATE_PARSE_H

#include "template/ast.h"
#include "template/lex.h"

/* What has variables of its own, while it is parsed. */
struct level {
    struct level *parent, *older; /* around it; begun before it */
    struct nodes *body;           /* NULL: an expression */
    struct dict *mentioned;       /* the names that stand in it, but not in levels within */
    struct unset *own;            /* those of them that it sets and has not read before */
    unsigned n_branches;          /* of `if`, around what is being parsed */
};

struct parser {
    struct work *w;
    struct template *t;
    const struct token *token;             /* the current one */
    unsigned loops;                        /* open around here, within the same macro */
    size_t n_callers, n_kwargs, n_varargs; /* mentions of these names so far */
    struct level *level, *levels;          /* the one around here; the newest */
    bool has_blocks;
};

/* Parses the source (UTF-8, lines ended by \n) into t->body. Fails with line and reason. */
void parse(struct template *t, const char *source, size_t n);

/* ---- Between parse.c (statements) and parse_expr.c (expressions) ---- */

/* The one value of the template that stands for this string. */
const struct value *parser_intern(struct parser *p, struct text s);
/* A node of that kind, on the line where the parser is; zeroed. */
struct node *parser_node(struct parser *p, enum node_kind kind);
void nodes_add(struct work *w, struct nodes *list, struct node *node);

/* Whether the current token is this operator or name; skip also passes it then; expect passes
 * it or fails. */
bool parser_at_op(const struct parser *p, int op);
bool parser_at_name(const struct parser *p, const char *name);
bool parser_skip_op(struct parser *p, int op);
bool parser_skip_name(struct parser *p, const char *name);
void parser_expect_op(struct parser *p, int op);
/* The name here, passed. */
struct text parser_expect_name(struct parser *p);
/* Fails with what was expected and what was found. */
_Noreturn void parser_fail(struct parser *p, const char *expected);

/* One expression; with_cond: "a if b else c" is one. */
struct node *parse_expression(struct parser *p, bool with_cond);
/* One expression, or several with commas between them as a tuple. end is the name that also
 * ends it ("in", "recursive"), or NULL. */
struct node *parse_tuple(struct parser *p, bool with_cond, const char *end);
/* A name, or names with commas as a tuple; with namespaces, also attributes of names. */
struct node *parse_target(struct parser *p, bool with_namespace, const char *end);
/* Filters from here on, `|` first unless inline, over subject. */
struct node *parse_filters(struct parser *p, struct node *subject, bool start_inline);

/* ---- levels.c: which names are whose ----
 *
 * Jinja decides that from the text (idtracking.py), not while it renders: a name that a level
 * sets, whatever happens, without having read it before is its own where no level around it
 * mentions the name. Levels within see it as undefined until it is set, though the rendering
 * may have a variable of that name. */

/* A level within the current one, or the first; its body stays where it is, NULL: it has none.
 */
void level_begin(struct parser *p, struct nodes *body);
/* Returns the one that ended, for level_resume. */
struct level *level_end(struct parser *p);
/* Goes on with a level that ended in the current one. */
void level_resume(struct parser *p, struct level *level);
/* The current level reads, or is given, or sets this name. */
void level_read(struct parser *p, const struct value *name);
void level_given(struct parser *p, const char *name);
void level_set(struct parser *p, const struct value *name);
/* f for each name of a target. */
void level_each(struct parser *p, const struct node *target,
                void (*f)(struct parser *p, const struct value *name));
/* Tells the bodies, once all is parsed. */
void levels_finish(struct parser *p);

#endif
