/* Attention on AVX2: what its float and its integer pages share. For attend_*avx2.c only. */
#ifndef CPU_ATTEND_AVX2_H
#define CPU_ATTEND_AVX2_H

#include <immintrin.h>

#include "cpu/kernels.h"

/* One row and query head on its way through the pages. */
struct query {
    const float *q;
    size_t first, end; /* visible positions */
    float m, l;
    float *o; /* [head_dim_v] */
    bool begun;

    /* of KV types of blocks: q quantised */
    int8_t *codes, *magnitudes; /* [head_dim_k] */
    float *d;                   /* [head_dim_k/32] */
    int16_t *sums;              /* [head_dim_k/16] */
};

/* The next page's keys and values of one head, prefetched while this page is computed: a line
 * at a time between the products, for more at once than the processor has buffers for would
 * make it wait. At the last page it is this one again. step is a line, 64, or 0 with so many
 * queries that the memory does not matter. */
struct ahead {
    const char *k, *v;
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

/* Raw dots s[PAGE_LEN] of keys lo..hi-1 -> probabilities in place, 0 elsewhere; m and l. */
void avx2_softmax(const struct attend *a, size_t lo, size_t hi, float *s, float *m, float *l);
/* A page's partial into x's, of which it is the first or not; o may be x->o if it is. */
void avx2_fold(struct query *x, float m, float l, const float *o, size_t dv);
/* Visible keys of page p for a query: lo >= hi if there are none. */
void avx2_visible(const struct query *x, size_t p, size_t *lo, size_t *hi);

/* KV types of blocks: one page for n queries, with scratch of that many bytes, aligned to 64;
 * and what each query needs of its own. */
size_t avx2_page_q_scratch(const struct kv_layer *kv);
void avx2_page_q(const struct attend *a, size_t kv_head, size_t p, struct query *x, size_t n,
                 void *scratch);
size_t avx2_query_q_bytes(const struct kv_layer *kv);
void avx2_query_q(const struct kv_layer *kv, struct query *x, void *memory);

#endif
