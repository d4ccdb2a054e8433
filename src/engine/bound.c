/* The vocabulary in the order of its bytes, walked with the grammar at its side. */
#include "engine/bound.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "text/gbnf.h"
#include "text/grammar.h"
#include "text/matcher.h"
#include "text/reasoning.h"
#include "text/schema.h"
#include "text/tokenizer.h"

/* Tokens that come after each other in the order of their bytes share their first ones. */
struct word {
    struct piece piece;
    int32_t id;
    uint32_t shared; /* bytes that it has in common with the word before */
};

/* Longer tokens are never allowed; those of real vocabularies have up to 256 bytes. */
enum { MAX_PIECE = 1024 };

/* The tokens that may follow a state. */
struct allowed {
    matcher_state state; /* MATCHER_DEAD: none yet */
    uint32_t *bits;
    uint64_t used; /* when it was asked for last */
};

/* The states of a reply: as many as recur, where a value is written that has several parts. */
enum { N_ALLOWED = 64 };

/* A grammar, and what was found of it: with 151,936 tokens up to 1.2 MB. */
struct found {
    struct matcher *matcher; /* NULL: none yet */
    uint64_t used;           /* when a reply began with it last */
    struct allowed allowed[N_ALLOWED];
};

/* Where the answer is, and what the next token may do besides. */
struct stand {
    matcher_state state;
    bool at_ease;
    bool opens; /* a thought may begin */
};

struct bound {
    const struct tokenizer *tok;
    size_t n_vocab;
    struct word *words; /* NULL: not sorted yet */
    size_t n_words;
    struct found founds[BOUND_GRAMMARS];
    struct found *found; /* of the last grammar; NULL: there was none */
    bool is_bound;
    struct stand now;
    struct stand *before; /* of the tokens that were accepted, the last of them last */
    size_t n_before, cap_before;
    int32_t opens[REASONING_MAX_IDS];
    size_t n_opens;
    uint64_t asked, n_walks;
    uint32_t *with_opens;              /* [n_vocab bits] */
    matcher_state path[MAX_PIECE + 1]; /* of the word that is walked */
};

static size_t n_bits_words(const struct bound *b)
{
    return (b->n_vocab + 31) / 32;
}

struct bound *bound_new(const struct tokenizer *tok, size_t n_vocab)
{
    struct bound *b = mem_zalloc(1, sizeof *b);
    b->tok = tok;
    b->n_vocab = n_vocab;
    return b;
}

static void forget_grammar(struct found *f)
{
    for (size_t i = 0; i < N_ALLOWED; i++)
        free(f->allowed[i].bits);
    matcher_free(f->matcher);
    *f = (struct found){0};
}

/* Of those kept the one that was bound to longest ago makes room. */
static struct found *find_grammar(struct bound *b, const struct grammar *g)
{
    struct found *oldest = &b->founds[0];
    for (size_t i = 0; i < BOUND_GRAMMARS; i++) {
        struct found *f = &b->founds[i];
        if (f->matcher && matcher_grammar(f->matcher) == g) return f;
        if (f->used < oldest->used) oldest = f;
    }
    forget_grammar(oldest);
    oldest->matcher = matcher_new(g);
    for (size_t i = 0; i < N_ALLOWED; i++)
        oldest->allowed[i].state = MATCHER_DEAD;
    return oldest;
}

void bound_free(struct bound *b)
{
    if (!b) return;
    for (size_t i = 0; i < BOUND_GRAMMARS; i++)
        forget_grammar(&b->founds[i]);
    free(b->words);
    free(b->before);
    free(b->with_opens);
    free(b);
}

/* ---- the vocabulary ---- */

static int by_bytes(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    const size_t n = x->piece.len < y->piece.len ? x->piece.len : y->piece.len;
    const int order = memcmp(x->piece.data, y->piece.data, n);
    if (order) return order;
    if (x->piece.len != y->piece.len) return x->piece.len < y->piece.len ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t n_shared(struct piece a, struct piece b)
{
    uint32_t n = 0;
    while (n < a.len && n < b.len && a.data[n] == b.data[n])
        n++;
    return n;
}

/* What a text is written with: no control tokens, ends and markers of thoughts, although some
 * have letters of their own. */
static void sort_vocabulary(struct bound *b)
{
    size_t n_all = tokenizer_n_vocab(b->tok);
    if (n_all > b->n_vocab) n_all = b->n_vocab;
    bool *left_out = mem_zalloc(n_all + 1, sizeof *left_out);
    int32_t marks[REASONING_MAX_IDS];
    const size_t n_marks = reasoning_ids(b->tok, marks);
    for (size_t i = 0; i < n_marks; i++)
        if ((size_t)marks[i] < n_all) left_out[marks[i]] = true;
    b->words = mem_zalloc(n_all + 1, sizeof *b->words);
    for (size_t i = 0; i < n_all; i++) {
        const int32_t id = (int32_t)i;
        const struct piece p = tokenizer_piece(b->tok, id);
        if (left_out[i] || p.len == 0 || p.len > MAX_PIECE ||
            tokenizer_is_control(b->tok, id) || tokenizer_is_end(b->tok, id))
            continue;
        b->words[b->n_words++] = (struct word){p, id, 0};
    }
    free(left_out);
    qsort(b->words, b->n_words, sizeof *b->words, by_bytes);
    for (size_t i = 1; i < b->n_words; i++)
        b->words[i].shared = n_shared(b->words[i - 1].piece, b->words[i].piece);
    b->with_opens = mem_zalloc(n_bits_words(b), sizeof *b->with_opens);
}

/* The states of the reply in a new matcher, when the old one is full: states pile up over all
 * replies to a grammar, and the walks make many that no reply comes to. */
static void make_room(struct bound *b)
{
    struct found *f = b->found;
    struct matcher *old = f->matcher;
    const size_t n = matcher_n_states(old);
    matcher_state *brought = mem_alloc(n * sizeof *brought); /* by the old state */
    bool *is_brought = mem_zalloc(n, sizeof *is_brought);
    f->matcher = matcher_new(matcher_grammar(old));
    for (size_t i = 0; i <= b->n_before; i++) {
        struct stand *stand = i < b->n_before ? &b->before[i] : &b->now;
        const matcher_state s = stand->state;
        if (s == MATCHER_DEAD) continue;
        if (!is_brought[s]) brought[s] = matcher_bring(f->matcher, old, s);
        is_brought[s] = true;
        stand->state = brought[s];
    }
    for (size_t i = 0; i < N_ALLOWED; i++)
        f->allowed[i].state = MATCHER_DEAD;
    free(brought);
    free(is_brought);
    matcher_free(old);
}

/* The answer goes on with bytes[0..n). */
static void go_on(struct bound *b, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && b->now.state != MATCHER_DEAD; i++) {
        const uint8_t byte = (uint8_t)bytes[i];
        matcher_state next = matcher_step(b->found->matcher, b->now.state, byte);
        if (next == MATCHER_DEAD && matcher_is_full(b->found->matcher)) {
            make_room(b);
            next = matcher_step(b->found->matcher, b->now.state, byte);
        }
        b->now.state = next;
    }
}

static void set_bit(uint32_t *bits, int32_t id)
{
    bits[id / 32] |= UINT32_C(1) << id % 32;
}

/* Walks the words in order and steps through what each has beyond the one before; where the
 * grammar ends, all words that share so much are passed over. */
static void find_allowed(struct bound *b, matcher_state state, uint32_t *bits)
{
    memset(bits, 0, n_bits_words(b) * sizeof *bits);
    struct matcher *m = b->found->matcher;
    b->n_walks++;
    size_t alive = 0; /* so many bytes of the word before can be written */
    b->path[0] = state;
    for (size_t i = 0; i < b->n_words; i++) {
        const struct word *w = &b->words[i];
        if (w->shared < alive) alive = w->shared;
        if (alive < w->shared) continue;
        while (alive < w->piece.len) {
            const uint8_t byte = (uint8_t)w->piece.data[alive];
            const matcher_state next = matcher_step(m, b->path[alive], byte);
            if (next == MATCHER_DEAD) break;
            b->path[++alive] = next;
        }
        if (alive == w->piece.len) set_bit(bits, w->id);
    }
    if (!matcher_may_end(m, state)) return;
    size_t n_ends;
    const int32_t *ends = tokenizer_ends(b->tok, &n_ends);
    for (size_t i = 0; i < n_ends; i++)
        if ((size_t)ends[i] < b->n_vocab) set_bit(bits, ends[i]);
}

/* ---- grammars, for engine.h ---- */

const struct grammar *engine_grammar(const char *schema, size_t len, struct err *err)
{
    return schema ? schema_grammar(schema, len, err) : schema_any();
}

const struct grammar *engine_gbnf(const char *text, size_t len, struct err *err)
{
    return gbnf_grammar(text, len, err);
}

void engine_grammar_release(const struct grammar *g)
{
    grammar_release(g);
}

/* ---- a reply ---- */

bool bound_begin(struct bound *b, const struct grammar *g, const char *said, size_t n,
                 struct err *err)
{
    b->is_bound = g != NULL;
    b->n_before = b->n_opens = 0;
    if (!g) return true;
    if (!b->words) sort_vocabulary(b);
    b->found = find_grammar(b, g);
    b->found->used = ++b->asked;
    b->now = (struct stand){MATCHER_START, true, false};
    go_on(b, said, n);
    if (b->now.state != MATCHER_DEAD) return true;
    b->is_bound = false;
    return err_set(err, ERR_USER,
                   "the reply does not begin as the schema asks for, so it cannot "
                   "go on by it");
}

bool bound_is_bound(const struct bound *b)
{
    return b->is_bound;
}

void bound_answer(struct bound *b, const int32_t *opens, size_t n)
{
    b->now.at_ease = false;
    b->now.opens = n > 0;
    b->n_opens = n;
    if (n > 0) memcpy(b->opens, opens, n * sizeof *opens);
}

void bound_ease(struct bound *b)
{
    b->now.at_ease = true;
    b->now.opens = false;
}

static bool is_open(const struct bound *b, int32_t id)
{
    for (size_t i = 0; i < b->n_opens && b->now.opens; i++)
        if (b->opens[i] == id) return true;
    return false;
}

void bound_accept(struct bound *b, int32_t id)
{
    if (!b->is_bound) return;
    MEM_GROW(b->before, b->n_before, b->cap_before);
    b->before[b->n_before++] = b->now;
    if (b->now.at_ease) return;
    if (is_open(b, id)) {
        b->now.at_ease = true;
    } else {
        const struct piece p = tokenizer_piece(b->tok, id);
        go_on(b, p.data, p.len);
    }
    b->now.opens = false;
}

void bound_take_back(struct bound *b)
{
    if (!b->is_bound) return;
    assert(b->n_before > 0);
    b->now = b->before[--b->n_before];
}

/* The tokens that may follow here; of the states whose are kept the one that was asked for
 * longest ago makes room. */
static const uint32_t *allowed_now(struct bound *b)
{
    const matcher_state state = b->now.state;
    struct allowed *oldest = &b->found->allowed[0];
    for (size_t i = 0; i < N_ALLOWED; i++) {
        struct allowed *a = &b->found->allowed[i];
        if (a->bits && a->state == state) {
            a->used = ++b->asked;
            return a->bits;
        }
        if (a->used < oldest->used) oldest = a;
    }
    if (!oldest->bits) oldest->bits = mem_zalloc(n_bits_words(b), sizeof *oldest->bits);
    oldest->used = ++b->asked;
    find_allowed(b, state, oldest->bits);
    if (matcher_is_full(b->found->matcher)) {
        make_room(b);
        find_allowed(b, b->now.state, oldest->bits);
    }
    oldest->state = b->now.state;
    return oldest->bits;
}

const uint32_t *bound_allowed(struct bound *b)
{
    if (!b->is_bound || b->now.at_ease) return NULL;
    const uint32_t *bits = allowed_now(b);
    if (!b->now.opens) return bits;
    memcpy(b->with_opens, bits, n_bits_words(b) * sizeof *bits);
    for (size_t i = 0; i < b->n_opens; i++)
        if ((size_t)b->opens[i] < b->n_vocab) set_bit(b->with_opens, b->opens[i]);
    return b->with_opens;
}

bool bound_is_over(const struct bound *b)
{
    return b->is_bound && !b->now.at_ease && matcher_may_end(b->found->matcher, b->now.state) &&
           !matcher_may_go_on(b->found->matcher, b->now.state);
}

uint64_t bound_n_walks(const struct bound *b)
{
    return b->n_walks;
}
