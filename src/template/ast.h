/* The tree that a template is parsed into.
 *
 * It lies in the template's struct work and never changes once it is parsed, so any number of
 * renderings, on any threads, may walk it at once. parse.c makes it, eval.c and exec.c walk it;
 * nobody outside this folder sees it. */
#ifndef TEMPLATE_AST_H
#define TEMPLATE_AST_H

#include "template/value.h"

struct builtin; /* a row of the tables of builtins */

enum node_kind {
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_BODY, /* what the block around it has captured; the innermost subject of its filters */
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT, /* keys and values by turns */
    NODE_CONCAT,
    NODE_ATTR,
    NODE_ITEM,
    NODE_SLICE, /* only as the key of NODE_ITEM: three items, NULL where absent */
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_NOT,
    NODE_NEGATE,
    NODE_PLUS,
    NODE_AND,
    NODE_OR,
    NODE_COND,
    NODE_COMPARE,
    NODE_BINARY,
    /* statements */
    NODE_TEXT,
    NODE_PRINT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_WITH,
    NODE_SCOPE,
    NODE_BLOCK,
    NODE_BREAK,
    NODE_CONTINUE,
};

/* Operators beyond those of the lexer (lex.h), whose numbers end below. */
enum {
    OP_IN = 512,
    OP_NOT_IN,
};

/* A name that a body has for itself, and an undefined value of that name. */
struct unset {
    const struct value *name, *value;
    struct unset *next;
};

struct nodes {
    struct node **at;
    size_t n, cap;
    struct unset *unset; /* of a body: what is so until it sets it */
};

struct keyword {
    const struct value *name; /* interned */
    struct node *value;
};

/* f(a, b=c, *list, **dict), as it stands. */
struct call_args {
    struct nodes positional;
    struct keyword *keywords;
    size_t n_keywords;
    struct node *star, *star_star; /* *list and **dict, or NULL */
};

struct compare_op {
    int op;
    struct node *right;
};

struct if_branch {
    struct node *test; /* NULL: else */
    struct nodes body;
};

struct for_node {
    struct node *target, *iter, *filter; /* filter may be NULL */
    struct nodes body, otherwise;
    bool recursive;
};

struct macro_node {
    const struct value *name; /* interned, as are those of the parameters */
    const struct value **params;
    struct node **defaults; /* by parameter, NULL where there is none */
    size_t n_params;
    bool uses_caller;               /* the body mentions it */
    bool uses_kwargs, uses_varargs; /* it mentions them, and they are no parameters */
    struct nodes body;
};

struct node {
    enum node_kind kind;
    unsigned line;
    union {
        const struct value *value; /* CONST; NAME: the interned name */
        struct nodes items;        /* TUPLE, LIST, DICT, CONCAT, SLICE, SCOPE */
        struct text text;
        struct node *operand; /* NOT, NEGATE, PLUS, PRINT */
        struct {
            int op;
            struct node *left, *right;
        } binary; /* BINARY, AND, OR */
        struct {
            struct node *test, *yes, *no; /* no may be NULL */
        } cond;
        struct {
            struct node *first;
            struct compare_op *ops;
            size_t n_ops;
        } compare;
        struct {
            struct node *object;
            const struct value *name;
        } attr;
        struct {
            struct node *object, *key;
        } item;
        struct {
            struct node *callee;
            struct call_args args;
        } call;
        struct {
            const char *name;
            struct node *subject;
            const struct builtin *builtin; /* NULL if there is none of that name */
            struct call_args args;
        } apply; /* FILTER, TEST */
        struct {
            struct if_branch *branches;
            size_t n;
        } branch;
        struct for_node *loop;
        struct {
            struct node *target; /* NAME, TUPLE of targets, or ATTR of a NAME */
            struct node *value; /* SET: the value; SET_BLOCK, FILTER_BLOCK: filters over BODY */
            struct nodes body;
        } set;
        struct macro_node *macro;
        struct {
            struct macro_node *macro; /* what caller() runs */
            struct node *call;
        } call_block;
        struct {
            struct nodes targets, values, body;
        } with;
        struct {
            struct nodes body;
            bool scoped; /* it sees what is around it */
        } block;
    };
};

struct template
{
    struct work work; /* owns everything below */
    char *name;
    struct dict *names; /* every name and string constant, interned: key and value the same */
    struct dict *variables; /* those of them that are variables */
    struct nodes body;
};

#endif
