/* Attention on AVX2: what its float and its block pages share. For attend_*avx2.c, and for
 * attend_few*_avx512.c, which has steps of its own (struct attend_few).
 *
 * attend_avx2.c walks the pages and owns queries and scratch; attend_f_avx2.c and
 * attend_q_avx2.c (with attend_weights_avx2.c and attend_softmax_avx2.c) compute pages for all
 * queries of the call, batch by batch: scores of all, softmax of all, values of all, so that
 * keys and values are each read from the cache nearest to the processor. A batch has up to 32
 * items, each a query at a page: many queries at one page, or few at several pages, for the
 * softmax reduces eight items in a vector's lanes. */
#ifndef CPU_ATTEND_AVX2_H
#define CPU_ATTEND_AVX2_H

#include "cpu/attend.h"
#include "cpu/kernels.h"
#include "cpu/vec_avx2.h"

enum {
    ATTEND_BATCH = 32,   /* items whose scores are at hand together; a multiple of eight */
    ATTEND_LANES = 8,    /* of a vector */
    ATTEND_KEY_VECS = 8, /* vectors of a page's keys */
};

/* One row and query head on its way through the pages. */
struct query {
    const float *q;
    size_t first, end; /* visible positions; the last is its own */
    float slope;       /* 0: none */
    float m, l;        /* of the pages so far */
    float *o;          /* [head_dim_v] */
    bool begun;

    /* of KV types of codes: q turned and quantised */
    int8_t *codes; /* [head_dim_k] */
    int16_t *wide; /* the same, of four dims in the order 0 2 1 3 */
    float *d;      /* [kv_scales], the scales */
    int16_t *sums; /* [head_dim_k/16] */
    int32_t sum;   /* of all codes */
};

/* Memory of the next step, fetched into the second cache a few lines at a time, so that as much
 * as possible is under way all the time; `ahead` below asks for it again, soon before it is
 * read. A run has n_lines from at on; after the last, which is of no use, it comes again. */
struct run {
    const char *at;
    size_t n_lines;
    bool is_last;
};
enum { FAR_RUNS = ATTEND_LANES + 1 };
struct far {
    struct run now;
    const struct run *next;
};

/* n lines, of which some may lie after a run. */
static inline __attribute__((always_inline)) void far_fetch(struct far *f, size_t n)
{
    UNROLL for (size_t i = 0; i < n; i++) _mm_prefetch(f->now.at + 64 * i, _MM_HINT_T1);
    if (f->now.n_lines > n) {
        f->now.at += 64 * n;
        f->now.n_lines -= n;
    } else {
        f->now = *f->next;
        if (!f->now.is_last) f->next++;
    }
}

struct attend_few;

/* Of the keys of a page of codes, see ref_attend_q.c: the logarithm and the inverse of the
 * scale of a weight, and with q4_0 the scales as shares of it. */
struct key_weights {
    float *log2, *inverse; /* [PAGE_LEN] */
    float *shares;         /* [n_v_scales][PAGE_LEN], or NULL: weights are as they are */
};

/* What items have between the steps. Those of a query are in the order of their pages. */
struct batch {
    _Alignas(32) float s[ATTEND_BATCH][PAGE_LEN]; /* scores, then probabilities, or weights */
    float m[ATTEND_BATCH], l[ATTEND_BATCH];       /* of the page */
    float a[ATTEND_BATCH], b[ATTEND_BATCH];       /* O = O a + o b; O = o where is_first */
    struct query *x[ATTEND_BATCH];
    size_t lo[ATTEND_BATCH], hi[ATTEND_BATCH];       /* visible keys */
    int32_t own_key[ATTEND_BATCH];                   /* the row's, from the page's first on */
    bool is_first[ATTEND_BATCH];                     /* the query had no page before */
    const struct key_weights *weights[ATTEND_BATCH]; /* with KV types of codes, else NULL */
    struct far *far;                                 /* for struct attend_few alone */
    size_t n;
};

/* The items of one page. */
struct span {
    size_t at, n;
    size_t from, to; /* keys that any of them sees */
};

/* The next of n queries from *i on that see something of page p join the batch, as many as it
 * holds. */
struct span avx2_batch(struct batch *t, struct query *x, size_t n, size_t p, size_t *i);
/* Raw dots s -> probabilities or weights, 0 for keys that are not seen; m, l, a and b; and m
 * and l of the queries, these pages included. */
void avx2_softmax(const struct attend *a, const struct attend_few *few, struct batch *t);
/* Items at..at+n-1, n <= 8, join the pages before them: a and b, and m and l of the queries.
 * Lanes of no item do no harm. */
void avx2_fold_factors(struct batch *t, size_t at, size_t n);

/* Eight scales of codes. */
VEC_INLINE f8 avx2_scales8(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (f8)_mm256_slli_epi32(wide, 16);
}

/* Values v of a page join the output of an item at out. A NaN may have any pattern: the result,
 * O times rcp(L), is kept at the end. */
VEC_INLINE void avx2_fold(bool is_first, f8 a, f8 b, f8 v, float *out)
{
    const f8 o = vec_load(out);
    const f8 kept =
        (f8)((i8x)o & (vec_more_i((i8x)o & 0x7fffffff, 0x267fffff) | vec_equal(a, vec_all(1))));
    vec_store(out, is_first ? v : kept * a + v * b);
}

/* Memory that is read next, prefetched meanwhile: a line at a time between the products, for
 * more at once than the processor has buffers for would make it wait. step is a line, 64, or 0
 * with so many queries that the memory does not matter. */
struct ahead {
    const void *codes, *scales; /* numbers or codes, and scales of KV types of codes */
    size_t step;
};

/* A step of the walk: pages p..p+n_pages-1 of some KV heads, in tiles of a page and a head, the
 * heads of a page side by side. n_pages n_heads n <= 8 unless both are 1. */
struct walk {
    const struct attend *a;
    const struct attend_few *few; /* or NULL */
    struct kv_head heads[ATTEND_LANES];
    size_t n_heads;
    struct query *x; /* n of a head, one head after the other */
    size_t n;
    size_t of_page; /* from the queries of a page to those of the next; 0: all have the same */
    size_t p, n_pages, end; /* no page is at end or after it */
    size_t next_p; /* where the next step begins, if before end, and with which heads */
    const struct kv_head *next_heads;
    struct far far; /* what comes after the step; of 0 lines: nothing is fetched of it */
    struct run runs[FAR_RUNS];
};

static inline size_t avx2_tiles(const struct walk *w)
{
    return w->n_pages * w->n_heads;
}

/* The queries of tile i of a step. */
static inline struct query *avx2_tile_queries(const struct walk *w, size_t i)
{
    return w->x + i / w->n_heads * w->of_page + i % w->n_heads * w->n;
}

/* What is read after the keys, and after the values, of tile i: keys of all tiles, then values
 * of all. */
void avx2_look_ahead(const struct walk *w, size_t i, struct ahead *after_k,
                     struct ahead *after_v);

/* Into the second cache. On the way to the first a line keeps one of its few buffers until it
 * comes: attention at a depth of 8192 took 25.2 ms instead of 16.2 with q8_0, where reading the
 * pages takes 13.5, and 34.8 instead of 26.9 of 16 with f16 (Zen 4, 2 threads, 2026-11).
 * Inlined by force: gcc 12 takes a function that only prefetches for one without effect and
 * drops its calls. */
static inline __attribute__((always_inline)) void avx2_prefetch(size_t step, const void *base,
                                                                size_t line)
{
    _mm_prefetch((const char *)base + step * line, _MM_HINT_T1);
}

/* How a page of floats is read: as it is stored, or laid out in f32. */
enum float_form { PAGE_F32, PAGE_F16, WIDE_F32, WIDE_F16 };

static inline bool form_is_wide(enum float_form form)
{
    return form == WIDE_F32 || form == WIDE_F16;
}

/* Keys and values of one page and head, and the items that see them. */
struct float_tile {
    enum float_form form;
    const void *k, *v;
    size_t dk, dv;
    struct span items;
    struct ahead after_k, after_v; /* what is read after them */
};

/* Keys and values of one page and head, and the items that see them. */
struct block_tile {
    bool is_q4;
    size_t k_blocks, v_blocks;           /* of KV_BLOCK dims */
    size_t n_k_scales, n_v_scales;       /* as many, or one */
    const uint8_t *k, *v;                /* as stored */
    const uint16_t *k_scales, *v_scales; /* [n_k_scales], [n_v_scales] [PAGE_LEN] */
    float *wide_k_scales;
    struct key_weights weights;
    int16_t *wide_k, *wide_v; /* laid out, or NULL */
    struct span items;
    struct ahead after_k, after_v; /* what is read after them */
};

/* The parts of the scratch of a batch. */
struct block_parts {
    struct batch *batch;
    int16_t *wide_k, *wide_v;
    float *k_scales; /* [n_k_scales][PAGE_LEN], of one page */
    float *weights;  /* [ATTEND_LANES][2 + n_v_scales][PAGE_LEN] */
    int16_t *u;      /* [ATTEND_BATCH][n_v_scales][PAGE_LEN] */
};

/* Another instruction set's steps, for at most eight items. */
struct attend_few {
    bool reads_far; /* what comes after a step is fetched during it: struct far */
    /* The items of a page: scores and values, of floats and of codes. */
    void (*float_scores)(const struct float_tile *t, struct batch *b);
    void (*float_values)(const struct float_tile *t, const struct batch *b);
    void (*block_scores)(const struct block_tile *t, struct batch *b);
    void (*block_values)(const struct block_tile *t, const struct block_parts *parts);
    /* As avx2_weigh_keys. */
    void (*weigh_keys)(const struct kv_layer *kv, const struct block_tile *t);
    /* Dots of items at..at+n-1, which see all of their pages, -> probabilities, m and l. */
    void (*softmax)(const struct attend *a, struct batch *t, size_t at, size_t n);
    /* As avx2_weights, but u are bytes, in the order that block_values takes. */
    void (*weights)(const struct batch *t, size_t n_v_scales, int16_t *u);
};

/* avx2_attend, or avx2_attend_heads, with them; NULL: without. */
void attend_by_rows(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                    size_t hi, const struct attend_few *few, void *scratch);

/* avx2_attend_part with them; NULL: without. */
void attend_part_by_rows(const struct attend *a, const struct attend_part *part,
                         const struct attend_few *few, void *scratch);

/* The tiles of a step for its queries, each with its softmax and its values in o. scratch of so
 * many bytes, aligned to 64. Pages of f32 and f16, of codes. */
size_t avx2_pages_f_scratch(const struct kv_layer *kv);
void avx2_pages_f(struct walk *w, void *scratch);
size_t avx2_pages_q_scratch(const struct kv_layer *kv);
void avx2_pages_q(struct walk *w, void *scratch);
/* What a query of types of codes needs of its own: bytes, a multiple of 64, and filling it. */
size_t avx2_query_q_bytes(const struct kv_layer *kv);
void avx2_query_q(const struct attend *a, struct query *x, void *memory);

/* What the weights of a page's keys are made with. */
void avx2_weigh_keys(const struct kv_layer *kv, const struct block_tile *t);
/* Weights of all items -> integers u[items][n_v_scales][PAGE_LEN]. */
void avx2_weights(const struct batch *batch, size_t n_v_scales, int16_t *u);

#endif
