/* Attention on AVX2: what its float and its block pages share. For attend_*avx2.c only.
 *
 * attend_avx2.c walks the pages and owns queries and scratch; attend_f_avx2.c and
 * attend_q_avx2.c compute one page for all queries of the call, batch by batch: scores of all,
 * softmax of all, values of all, so that keys and values are each read from the cache nearest
 * to the processor. */
#ifndef CPU_ATTEND_AVX2_H
#define CPU_ATTEND_AVX2_H

#include <immintrin.h>

#include "cpu/kernels.h"
#include "cpu/vec_avx2.h"

enum {
    ATTEND_BATCH = 32,   /* queries whose scores are at hand together; a multiple of eight */
    ATTEND_LANES = 8,    /* of a vector */
    ATTEND_KEY_VECS = 8, /* vectors of a page's keys */
};

/* One row and query head on its way through the pages. */
struct query {
    const float *q;
    size_t first, end; /* visible positions */
    float m, l;        /* of the pages so far */
    float *o;          /* [head_dim_v] */
    bool begun;

    /* of KV types of blocks: q quantised */
    int8_t *codes; /* [head_dim_k] */
    int16_t *wide; /* the same */
    float *d;      /* [head_dim_k/32] */
    int16_t *sums; /* [head_dim_k/16] */
};

/* Queries that all see something of a page, and what they have of it between the steps. */
struct batch {
    _Alignas(32) float s[ATTEND_BATCH][PAGE_LEN]; /* scores, then probabilities */
    float m[ATTEND_BATCH], l[ATTEND_BATCH];       /* of the page */
    float a[ATTEND_BATCH], b[ATTEND_BATCH]; /* O = O a + o b; not where x->begun is false */
    struct query *x[ATTEND_BATCH];
    size_t lo[ATTEND_BATCH], hi[ATTEND_BATCH]; /* visible keys */
    size_t n;
    size_t from, to; /* keys that any of them sees */
};

/* The next queries from *i on that see something of page p; false: there are none. */
bool avx2_batch(struct batch *t, struct query *x, size_t n, size_t p, size_t *i);
/* Raw dots s -> probabilities, 0 for keys that are not seen; m, l, a and b; and m and l of the
 * queries, this page included. */
void avx2_softmax(const struct attend *a, struct batch *t);

/* Values e..e+7 of a page, kept or with a NaN of another pattern, join the output of the i-th
 * query. */
VEC_INLINE void avx2_fold(const struct batch *t, size_t i, size_t e, f8 v)
{
    const struct query *x = t->x[i];
    if (x->begun) v = num8_keep(vec_load(x->o + e) * vec_all(t->a[i]) + v * vec_all(t->b[i]));
    vec_store(x->o + e, v);
}

/* The next page's keys and values of one head, prefetched while this page is computed: a line
 * at a time between the products, for more at once than the processor has buffers for would
 * make it wait. At the last page it is this one again. step is a line, 64, or 0 with so many
 * queries that the memory does not matter. */
struct ahead {
    const char *k, *v;
    const char *k_scales, *v_scales; /* of KV types of blocks */
    size_t step;
};

struct ahead avx2_ahead(const struct attend *a, size_t kv_head, size_t p, size_t end,
                        bool few_queries);

/* Inlined by force: gcc 12 takes a function that only prefetches for one without effect and
 * drops its calls. */
static inline __attribute__((always_inline)) void avx2_prefetch(const struct ahead *a,
                                                                const char *base, size_t line)
{
    _mm_prefetch(base + a->step * line, _MM_HINT_T0);
}

/* A page for n queries, each with its softmax and its values in o; scratch of so many bytes,
 * aligned to 64. Pages of f32 and f16, of blocks. */
size_t avx2_page_f_scratch(const struct kv_layer *kv);
void avx2_page_f(const struct attend *a, size_t kv_head, size_t p, struct query *x, size_t n,
                 void *scratch);
size_t avx2_page_q_scratch(const struct kv_layer *kv);
void avx2_page_q(const struct attend *a, size_t kv_head, size_t p, struct query *x, size_t n,
                 void *scratch);
/* What a query of types of blocks needs of its own: bytes, a multiple of 64, and filling it. */
size_t avx2_query_q_bytes(const struct kv_layer *kv);
void avx2_query_q(const struct kv_layer *kv, struct query *x, void *memory);

static inline size_t attend_align(size_t n)
{
    return (n + 63) / 64 * 64;
}

#endif
