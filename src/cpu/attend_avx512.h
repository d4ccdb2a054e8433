/* Attention on AVX-512 and AMX for many queries: what pages of floats and of codes share. For
 * attend_*avx512.c and attend_q_amx.c only.
 *
 * A lane is a query, sixteen of them a group, and numbers of keys and values are the same in
 * all lanes: so maxima, sums, weights and outputs need no step across lanes. A page is laid out
 * once per call for all groups, or where one or two groups read it, a tile at a time; then a
 * group's scores, softmax and values of it follow each other. Where all groups see all of a
 * page of q8_0, scores and weights of all come before the values of all. attend_avx512.c walks
 * the pages and has the softmax; what depends on the KV type is a struct attend_pages. */
#ifndef CPU_ATTEND_AVX512_H
#define CPU_ATTEND_AVX512_H

#include "cpu/attend.h"
#include "cpu/lanes16.h"

enum {
    KEY_TILE = 16, /* keys whose scores are computed together */
    STRIPE = 8,    /* keys whose probabilities are computed together */
    AT_ONCE = 2,   /* items that may share what is read of a page */
};

/* What a group sees of a page. */
struct seen {
    size_t from, to; /* keys that any lane sees */
    bool whole;      /* all lanes see all keys */
    iz lo, hi;       /* the keys that a lane sees */
    iz own_key;      /* that of its row, counted from the page's first */
};

/* Lanes that see a key. */
VEC_INLINE mz seen_by(const struct seen *t, size_t key)
{
    const iz k = z_all_i((int32_t)key);
    return z_less(t->lo, k + 1) & z_less(k, t->hi);
}

/* O = O a + o b, with o the values of the page. */
struct fold {
    fz a, b;
    iz kept_from;   /* bits of the least magnitude that is kept: 2^-50, or 0 where a is 1 */
    bool only_adds; /* a is 1 in all lanes, as most often behind many pages */
};

/* Of one dim. Where a is 1 O needs no keep: its terms are multiples of 2^-123. What keep takes
 * away is found without a comparison, which would wait for the pipes of products (Zen 4). */
VEC_INLINE fz fold_in(const struct fold *f, bool only_adds, fz all, fz page)
{
    if (only_adds) return all + page * f->b;
    const iz small = ((iz)((uz)all & NUM_ABS) - f->kept_from) >> 31;
    return (fz)(~small & (iz)all) * f->a + page * f->b;
}

/* A group's queries, outputs and room, for a call, and what becomes of them at a page. */
struct item {
    const void *q; /* as they are multiplied */
    fz *o;         /* [head_dim_v] */
    struct seen t;
    /* [PAGE_LEN]: dots, scores, then probabilities, or with codes the weights unless the
     * softmax has made u of them; 0 for keys that a lane does not see. Items further on share
     * it. */
    fz *s;
    bz *u;       /* with codes, [PAGE_LEN/4]: integer weights of four keys each; likewise */
    fz m, least; /* of scores_beside: the largest and the smallest score */
    fz l, run;   /* of weigh_quad: the sum of the probabilities, and of the last few */
    struct fold f;
};

/* Sums of a page join n_dims outputs from e on, of n items; only_add has a bit for each, and it
 * may be set if the item only adds. In the order in which the sums are ready, so that the next
 * products wait for nothing: values of two groups and a page, in the first cache, 4390 cycles,
 * item by item 4590; 4096 are products (Zen 4, 2026-11). */
VEC_INLINE void fold_dims(int n, unsigned only_add, const struct item *x, size_t e,
                          size_t n_dims, const fz page[][Z_LANES])
{
    struct fold f[AT_ONCE];
    fz *o[AT_ONCE];
    UNROLL for (int r = 0; r < n; r++) f[r] = x[r].f, o[r] = x[r].o + e;
    UNROLL for (size_t i = 0; i < n_dims; i++)
    {
        UNROLL for (int r = 0; r < n; r++) o[r][i] =
            fold_in(&f[r], only_add >> r & 1, o[r][i], page[r][i]);
    }
}

/* Likewise of one item. */
VEC_INLINE void fold_item(const struct item *x, size_t e, size_t n_dims, const fz *page)
{
    if (x->f.only_adds)
        fold_dims(1, 1, x, e, n_dims, (const fz(*)[Z_LANES])page);
    else
        fold_dims(1, 0, x, e, n_dims, (const fz(*)[Z_LANES])page);
}

static inline bool both_whole(const struct item *x, size_t n)
{
    return n == 2 && x[0].t.whole && x[1].t.whole;
}

/* A page as a call reads it, of one head. */
struct head_page {
    const void *page, *next;  /* next: the one after it, or again this one */
    const struct kv_head *at; /* where the head's parts are in both */
    size_t from, to;          /* keys that any group sees */
    bool once;                /* AT_ONCE groups at most, which go together */
};

/* ---- weights of codes ---- */

/* Of the keys of a page: the logarithm and the inverse of the scale of a weight. */
struct page_weights {
    const float *log2, *inverse; /* [PAGE_LEN] */
};

/* Whether weights become integers without another scale, in the softmax. */
static inline bool weights_become_codes(const struct kv_layer *kv)
{
    return kv->type == KV_Q8_0;
}

/* Of an item that sees all of its page: four scores become weights, and join l. By quads from 0
 * on, for l, which is 0 before, is eight runs, each summed in order. near: none of the item's
 * weights is 0. */
VEC_INLINE void weigh_quad(bool near, const float *inverse, struct item *x, size_t quad)
{
    fz w[4];
    UNROLL for (size_t i = 0; i < 4; i++) w[i] = x->s[4 * quad + i] - x->m;
    UNROLL for (size_t i = 0; i < 4; i++) w[i] = z_exp2_weight(near, w[i]);
    x->u[quad] = z_bytes(w);
    UNROLL for (size_t i = 0; i < 4; i++) w[i] = w[i] * z_all(inverse[4 * quad + i]);
    const bool ends = 4 * quad % STRIPE != 0;
    fz run = ends ? x->run + w[0] : w[0];
    UNROLL for (size_t i = 1; i < 4; i++) run = run + w[i];
    x->run = run;
    if (ends) x->l = x->l + run;
}

/* ---- pages ---- */

/* How the pages of a KV type are multiplied. Memory is aligned to 64; n is at most AT_ONCE. */
struct attend_pages {
    size_t (*query_bytes)(const struct kv_layer *kv);
    /* The queries of a group as they are multiplied. */
    void (*queries)(const struct attend *a, const float *const x[Z_LANES], void *q);
    size_t (*page_bytes)(const struct kv_layer *kv);
    /* The keys that are seen of a page are laid out, or may be later if they are read once. */
    void (*lay_out)(const struct kv_layer *kv, const struct head_page *p, void *laid);
    /* q · k of the tiles of keys that items see, with codes times factors.query. Keys that no
     * lane sees may give anything. */
    void (*scores)(const struct kv_layer *kv, void *laid, const struct item *x, size_t n);
    /* Where weights become codes and there is one scale a key: scores of AT_ONCE items that see
     * all of a page, without a softcap, and the logarithms with them, to s, m and least.
     * Meanwhile those of AT_ONCE items before, which are near, go through weigh_quad; before
     * may be NULL. The member is NULL where there is no such kernel. */
    void (*scores_beside)(const void *laid, struct item *x, struct item *before);
    /* Of a page that is laid out; NULL: the probabilities are the weights. */
    struct page_weights (*weights)(const void *laid);
    /* Weighted values join the outputs; laid has room for more. */
    void (*values)(const struct kv_layer *kv, void *laid, const struct item *x, size_t n);
};

extern const struct attend_pages attend_floats_avx512, attend_blocks_avx512;

enum { ATTEND_FEW = 8 /* queries of a call that are left to avx512_attend_few */ };

/* The call of struct kernels for many queries over such pages; dims of values are a multiple
 * of 8. */
void attend_many_avx512(const struct attend_pages *by, const struct attend *a, size_t kv_head,
                        size_t lo, size_t hi, void *scratch);
/* Bytes of its scratch for avx512_attend_rows rows. */
size_t attend_many_scratch_avx512(const struct attend_pages *by, const struct kv_layer *kv,
                                  size_t n_group);

#endif
