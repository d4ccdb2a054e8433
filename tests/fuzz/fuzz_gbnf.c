/* Any bytes as a grammar in the notation of llama.cpp: up to the first NUL the grammar, after
 * it a text that is tried on it. It ends in a grammar, in which states and the bytes that may
 * follow agree and every text is UTF-8, or in a refusal of one line. */
#include <string.h>

#include "target.h"
#include "text/gbnf.h"
#include "text/grammar.h"
#include "text/matcher.h"

/* A fuzzer finds texts in which every byte is a state of its own. */
enum { MAX_TEXT = 1000 };

static void try(const struct grammar *g, const char *text, size_t n)
{
    struct matcher *m = matcher_new(g);
    matcher_state s = MATCHER_START;
    if (n > MAX_TEXT) n = MAX_TEXT;
    must(matcher_may_end(m, s) || matcher_may_go_on(m, s));
    for (size_t i = 0; i < n && s != MATCHER_DEAD; i++) {
        const bool may_go_on = matcher_may_go_on(m, s);
        s = matcher_step(m, s, (uint8_t)text[i]);
        must(may_go_on || s == MATCHER_DEAD);
        must(s == MATCHER_DEAD || matcher_may_end(m, s) || matcher_may_go_on(m, s));
        must(!matcher_may_end(m, s) || utf8_valid(text, i + 1));
    }
    must(matcher_steps(m, MATCHER_START, text, n) == s);
    matcher_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const uint8_t *nul = n_bytes ? memchr(data, 0, n_bytes) : NULL;
    const size_t n = nul ? (size_t)(nul - data) : n_bytes;
    struct err err = {0};
    struct grammar *g = gbnf_grammar((const char *)data, n, &err);
    if (!g) {
        must_be_refusal(&err);
        return 0;
    }
    if (nul)
        try(g, (const char *)nul + 1, n_bytes - n - 1);
    else
        try(g, (const char *)data, n_bytes);
    grammar_release(g);
    return 0;
}
