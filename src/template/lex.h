/* Template text to tokens: literal text, and the tokens inside {{ }} and {% %}.
 *
 * White space control is done here: what trim_blocks, lstrip_blocks, `-` and `+` remove never
 * reaches the parser, and comments and raw blocks are gone. Tokens borrow the source and lie in
 * the struct work. */
#ifndef TEMPLATE_LEX_H
#define TEMPLATE_LEX_H

#include "template/text.h"
#include "template/work.h"

enum token_type {
    TOKEN_EOF,
    TOKEN_DATA, /* literal text between tags */
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INTEGER,
    TOKEN_FLOAT,
    TOKEN_OPERATOR, /* op holds it */
};

/* Operators of two characters; those of one are their character. */
enum {
    OP_EQ = 256, /* == */
    OP_NE,       /* != */
    OP_LE,       /* <= */
    OP_GE,       /* >= */
    OP_POW,      /* ** */
    OP_FLOORDIV, /* // */
};

struct token {
    enum token_type type;
    int op;
    unsigned line;
    struct text text; /* DATA: the text; NAME: the name; STRING: the string, unescaped */
    union {
        int64_t integer;
        double real;
    };
};

/* All tokens of the source (UTF-8, lines ended by \n), TOKEN_EOF last. Fails with the line on
 * what is not a token, on a tag or bracket that is not closed, on numbers beyond 64 bits. */
struct token *lex(struct work *w, const char *source, size_t n);

/* How a token is called in messages: "'foo'", "end of the tag". The result lies in w. */
const char *token_describe(struct work *w, const struct token *t);

#endif
