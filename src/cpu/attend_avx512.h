/* Attention on AVX-512 and AMX for many queries: what pages of floats and of codes share. For
 * attend_*avx512.c and attend_q_amx.c only.
 *
 * A lane is a query, sixteen of them a group, and numbers of keys and values are the same in
 * all lanes: so maxima, sums, weights and outputs need no step across lanes. A page is laid out
 * once per call for all groups, or where one or two groups read it, a tile at a time; then a
 * group's scores, softmax and values of it follow each other. attend_avx512.c walks the pages
 * and has the softmax; what depends on the KV type is a struct attend_pages. */
#ifndef CPU_ATTEND_AVX512_H
#define CPU_ATTEND_AVX512_H

#include "cpu/attend.h"
#include "cpu/lanes16.h"

enum {
    KEY_TILE = 16, /* keys whose scores are computed together */
    STRIPE = 8,    /* keys whose probabilities are computed together */
};

/* What a group sees of a page. */
struct seen {
    size_t from, to; /* keys that any lane sees */
    bool whole;      /* all lanes see all keys */
    iz lo, hi;       /* the keys that a lane sees */
};

/* Lanes that see a key. */
VEC_INLINE mz seen_by(const struct seen *t, size_t key)
{
    const iz k = z_all_i((int32_t)key);
    return z_less(t->lo, k + 1) & z_less(k, t->hi);
}

/* A weight as an integer, in the low byte of each lane: rne (numeric.h) adds 1.5 · 2^23. */
VEC_INLINE iz weight_code(fz w)
{
    return (iz)(w + z_all(12582912.0f));
}

/* O = O a + o b, with o the values of the page. */
struct fold {
    fz a, b;
    mz is_1;        /* a is, so that O is not kept */
    bool only_adds; /* in all lanes, as most often behind many pages */
};

/* n dims. Where a is 1 O needs no keep: its terms are multiples of 2^-123. */
VEC_INLINE void fold_in(const struct fold *f, const fz *page, const size_t n, fz *all)
{
    if (f->only_adds) {
        UNROLL for (size_t i = 0; i < n; i++) all[i] = all[i] + page[i] * f->b;
    } else {
        UNROLL for (size_t i = 0; i < n; i++) all[i] =
            z_product_where(z_stays(all[i]) | f->is_1, all[i], f->a) + page[i] * f->b;
    }
}

/* A group at a page. */
struct item {
    const void *q;
    struct seen t;
    fz *s; /* [PAGE_LEN]: dots, scores, then probabilities, or with codes the weights unless the
            * softmax has made u of them; 0 for keys that a lane does not see */
    bz *u; /* with codes, [PAGE_LEN/4]: integer weights of four keys each; likewise */
    struct fold f;
    fz *o; /* [head_dim_v] */
};

enum { AT_ONCE = 2 /* items that may share what is read of a page */ };

static inline bool both_whole(const struct item *x, size_t n)
{
    return n == 2 && x[0].t.whole && x[1].t.whole;
}

/* A page as a call reads it, of one head. */
struct head_page {
    const void *page, *next;  /* next: the one after it, or again this one */
    const struct head_at *at; /* where the head's parts are in both */
    size_t from, to;          /* keys that any group sees */
    bool once;                /* AT_ONCE groups at most, which go together */
};

/* With codes, of the keys of a page: the logarithm and the inverse of the scale of a weight. */
struct page_weights {
    const float *log2, *inverse; /* [PAGE_LEN] */
    bz *u;                       /* [AT_ONCE][PAGE_LEN/4]: room for those of items */
    bool become_codes;           /* integers, by the softmax: of q8_0 */
};

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
    /* Of a page that is laid out; NULL: the probabilities are the weights. */
    struct page_weights (*weights)(const struct kv_layer *kv, void *laid);
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
