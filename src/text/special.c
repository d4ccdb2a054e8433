#include "text/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "text/vocab.h"

/* Places of the text, and candidates, between two looks at the cancel flag. */
enum { CANCEL_STEP = 4096 };

/* A trie by bytes; index 0 is "none". */
struct special_node {
    uint32_t child, sibling;
    int32_t id; /* the token that ends here, -1 if none */
    uint8_t byte;
};

static uint32_t new_node(struct special_set *s, uint8_t byte, uint32_t sibling)
{
    MEM_GROW(s->nodes, s->n_nodes, s->cap_nodes);
    s->nodes[s->n_nodes] = (struct special_node){0, sibling, -1, byte};
    return (uint32_t)s->n_nodes++;
}

static uint32_t child_of(const struct special_set *s, uint32_t node, uint8_t byte)
{
    uint32_t c = s->nodes[node].child;
    while (c && s->nodes[c].byte != byte)
        c = s->nodes[c].sibling;
    return c;
}

static void insert(struct special_set *s, const struct piece *text, int32_t id)
{
    uint8_t first = (uint8_t)text->data[0];
    uint32_t node = s->root[first];
    if (!node) node = s->root[first] = new_node(s, first, 0);
    for (size_t i = 1; i < text->len; i++) {
        uint8_t byte = (uint8_t)text->data[i];
        uint32_t next = child_of(s, node, byte);
        if (!next) {
            next = new_node(s, byte, s->nodes[node].child);
            s->nodes[node].child = next;
        }
        node = next;
    }
    s->nodes[node].id = id;
}

void special_open(struct special_set *s, const struct vocab *v, bool strip_right)
{
    *s = (struct special_set){.strip_right = strip_right};
    new_node(s, 0, 0);
    for (size_t i = 0; i < v->n; i++) {
        if (!vocab_is_special(v, (int32_t)i) || v->text[i].len == 0) continue;
        insert(s, &v->text[i], (int32_t)i);
        s->has_user_defined |= v->type[i] == TOKEN_USER_DEFINED;
    }
}

void special_close(struct special_set *s)
{
    free(s->nodes);
    *s = (struct special_set){0};
}

/* A token that may start at pos; others of other lengths may too. */
struct candidate {
    size_t pos, area_end; /* area_end: of the markup around pos, 0 in plain text */
    int32_t id;
};

struct bucket {
    struct candidate *list;
    size_t n, cap;
};

/* The longest token at pos that is shorter than below; its length, 0 if there is none. */
static size_t longest_at(const struct special_set *s, const struct vocab *v, const char *text,
                         size_t len, size_t below, struct candidate *c)
{
    size_t best = 0;
    uint32_t node = s->root[(uint8_t)text[c->pos]];
    for (size_t n = 1; node && n < below; n++) {
        int32_t id = s->nodes[node].id;
        if (id >= 0 && (v->type[id] == TOKEN_USER_DEFINED || c->pos + n <= c->area_end)) {
            best = n;
            c->id = id;
        }
        if (c->pos + n == len) break;
        node = child_of(s, node, (uint8_t)text[c->pos + n]);
    }
    return best;
}

static void put(struct bucket *buckets, size_t len, struct candidate c)
{
    struct bucket *b = &buckets[len];
    MEM_GROW(b->list, b->n, b->cap);
    b->list[b->n++] = c;
}

static int by_pos(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->pos < y->pos ? -1 : x->pos > y->pos;
}

/* As a bucket mostly is: a sort of millions cannot be cancelled. */
static bool is_sorted(const struct bucket *b)
{
    for (size_t i = 1; i < b->n; i++)
        if (b->list[i - 1].pos > b->list[i].pos) return false;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct special_match *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Phi-3 was trained with the white space after special tokens dropped, except after these. */
static bool strips_right(const struct special_set *s, const struct piece *t)
{
    static const char *const keep[] = {"<unk>", "<s>", "<|endoftext|>"};
    if (!s->strip_right) return false;
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++)
        if (t->len == strlen(keep[i]) && memcmp(t->data, keep[i], t->len) == 0) return false;
    return true;
}

static void take(const struct special_set *s, const struct vocab *v, const char *text,
                 size_t len, const struct candidate *c, uint8_t *taken,
                 struct special_matches *found)
{
    const struct piece *t = &v->text[c->id];
    size_t end = c->pos + t->len;
    if (strips_right(s, t))
        while (end < len && !taken[end] && ascii_is_space(text[end]))
            end++;
    memset(taken + c->pos, 1, end - c->pos);
    MEM_GROW(found->list, found->n, found->cap);
    found->list[found->n++] = (struct special_match){c->pos, end, c->id};
}

/* The longest match at every position, by its length; returns the longest of all. */
static size_t find_candidates(const struct special_set *s, const struct vocab *v,
                              const struct special_text *text, const atomic_bool *cancel,
                              struct bucket *buckets)
{
    size_t top = 0, pos = 0;
    for (size_t a = 0; a < text->n_areas; a++) {
        const struct special_area *area = &text->areas[a];
        if (!area->markup && !s->has_user_defined) {
            pos = area->end;
            continue;
        }
        for (; pos < area->end; pos++) {
            if (pos % CANCEL_STEP == 0 && cancel_is_set(cancel)) break;
            struct candidate c = {pos, area->markup ? area->end : 0, -1};
            size_t n = longest_at(s, v, text->data, text->len, SIZE_MAX, &c);
            if (n == 0) continue;
            put(buckets, n, c);
            if (n > top) top = n;
        }
    }
    return top;
}

void special_find(const struct special_set *s, const struct vocab *v,
                  const struct special_text *text, const atomic_bool *cancel,
                  struct special_matches *found)
{
    *found = (struct special_matches){0};
    struct bucket *buckets = mem_zalloc(v->max_len + 1, sizeof *buckets);
    const size_t top = find_candidates(s, v, text, cancel, buckets);
    /* Everything taken is at least as long as what comes, so looking at both ends is enough. */
    uint8_t *taken = top ? mem_zalloc(text->len, 1) : NULL;
    for (size_t n = top; n > 0; n--) {
        struct bucket *b = &buckets[n];
        if (!is_sorted(b)) qsort(b->list, b->n, sizeof *b->list, by_pos);
        for (size_t i = 0; i < b->n; i++) {
            if (i % CANCEL_STEP == 0 && cancel_is_set(cancel)) break;
            struct candidate c = b->list[i];
            if (taken[c.pos]) continue;
            if (!taken[c.pos + n - 1]) {
                take(s, v, text->data, text->len, &c, taken, found);
                continue;
            }
            size_t shorter = longest_at(s, v, text->data, text->len, n, &c);
            if (shorter) put(buckets, shorter, c);
        }
        free(b->list);
    }
    free(taken);
    free(buckets);
    if (found->n > 1) qsort(found->list, found->n, sizeof *found->list, by_start);
}
