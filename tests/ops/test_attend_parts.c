/* Attention that is cut by pages: whatever the cut, each set of kernels gives the reference's
 * bits. Sums that nobody wrote are NaN. How threads cut pages is compared in test_attend. */
#include "ops.h"

#include "backend/kv.h"
#include "cpu/cpu_impl.h"
#include "cpu/ref.h"

enum { N_PAGES = 23, MOST_DIM = 512, MOST_HEADS = 8, CUTS = 6 };

struct shape {
    enum kv_type type;
    size_t n_kv, n_group, n_rows, dk, dv;
    uint32_t window;
    float softcap;
    bool sinks;
};

static const struct shape shapes[] = {
    {KV_F16, 1, 4, 1, 128, 128, 0, 0, false},  {KV_F16, 8, 1, 1, 64, 64, 0, 0, true},
    {KV_F16, 2, 2, 2, 40, 24, 200, 0, false},  {KV_F16, 1, 8, 1, 16, 256, 700, 30, false},
    {KV_F16, 3, 1, 5, 96, 80, 1, 0, true},     {KV_F32, 1, 3, 1, 64, 96, 0, 0, false},
    {KV_F32, 4, 2, 1, 48, 8, 130, 50, true},   {KV_Q8_0, 1, 4, 1, 128, 128, 0, 0, false},
    {KV_Q8_0, 2, 7, 1, 64, 64, 0, 0, false},   {KV_Q8_0, 8, 1, 1, 96, 64, 300, 0, true},
    {KV_Q8_0, 1, 1, 8, 256, 32, 65, 0, false}, {KV_Q8_0, 4, 2, 1, 32, 192, 0, 50, false},
    {KV_Q4_0, 1, 4, 1, 128, 128, 0, 0, false}, {KV_Q4_0, 2, 4, 2, 64, 96, 500, 0, false},
    {KV_Q4_0, 4, 1, 2, 512, 64, 0, 30, true},  {KV_F16, 1, 1, 3, 512, 512, 0, 0, false},
};

struct attention {
    struct kv_layer kv;
    void *pages[N_PAGES];
    float *q, *want, *got, *sums, sinks[MOST_HEADS * MOST_HEADS];
    struct attend a;
    size_t n_rows, begin, end; /* pages that rows see */
};

static void fill_pages(struct attention *t, enum spread spread, float factor)
{
    const size_t n_bytes = t->kv.v_at + kv_layer_v_bytes(&t->kv);
    float k[MOST_DIM], v[MOST_DIM];
    for (size_t p = 0; p < N_PAGES; p++) {
        t->pages[p] = mem_try_pages(n_bytes);
        memset(t->pages[p], 0xff, n_bytes);
    }
    for (size_t at = 0; at < t->a.pos + t->n_rows; at++) {
        for (size_t head = 0; head < t->kv.n_heads; head++) {
            random_floats(spread, k, t->kv.head_dim_k);
            random_floats(spread, v, t->kv.head_dim_v);
            for (size_t e = 0; e < t->kv.head_dim_v; e++)
                v[e] *= factor;
            if (spread == HUGE_VALUES && random_u64() % 97 == 0) v[0] = NAN;
            ref_kv_store(&t->kv, t->pages[at / PAGE_LEN], head, at % PAGE_LEN, k, v);
        }
    }
}

static size_t sums_stride(const struct attention *t)
{
    return mem_round_up(t->kv.head_dim_v + ATTEND_SUM_ENDS, 16);
}

static size_t page_stride(const struct attention *t)
{
    return t->n_rows * t->kv.n_heads * t->a.n_group * sums_stride(t);
}

static void attention_begin(struct attention *t, const struct shape *s, enum spread spread,
                            float factor)
{
    memset(t, 0, sizeof *t);
    t->kv = (struct kv_layer){s->type, (uint32_t)s->n_kv, s->dk, s->dv, 0, 0, PAGE_FULL};
    t->kv.v_at = mem_round_up(kv_layer_k_bytes(&t->kv), 64);
    t->n_rows = s->n_rows;
    const size_t n_heads = s->n_kv * s->n_group;
    t->a = (struct attend){.kv = &t->kv,
                           .pages = t->pages,
                           .q_stride = n_heads * s->dk,
                           .out_stride = n_heads * s->dv,
                           .pos = (uint32_t)(random_u64() % (PAGE_LEN * N_PAGES - s->n_rows)),
                           .n_group = s->n_group,
                           .factors = kv_factors(&t->kv, 0.125f, s->softcap),
                           .window = s->window,
                           .sinks = s->sinks ? t->sinks : NULL};
    random_floats(NORMAL, t->sinks, n_heads);
    fill_pages(t, spread, factor);
    t->q = mem_zalloc(s->n_rows * t->a.q_stride, sizeof *t->q);
    random_floats(spread, t->q, s->n_rows * t->a.q_stride);
    t->a.q = t->q;
    t->want = mem_zalloc(s->n_rows * t->a.out_stride, sizeof *t->want);
    t->got = mem_zalloc(s->n_rows * t->a.out_stride, sizeof *t->got);
    const size_t first_end = t->a.pos + 1;
    t->begin = s->window && first_end > s->window ? (first_end - s->window) / PAGE_LEN : 0;
    t->end = pages_for(t->a.pos + s->n_rows);
    t->sums = mem_try_pages(N_PAGES * page_stride(t) * sizeof *t->sums);
    void *scratch = mem_try_pages(ref_attend_scratch(&t->kv, s->n_group));
    t->a.out = t->want;
    for (size_t head = 0; head < s->n_kv; head++)
        ref_attend(&t->a, head, 0, s->n_rows, scratch);
    mem_free_pages(scratch, ref_attend_scratch(&t->kv, s->n_group));
    t->a.out = t->got;
}

static void attention_end(struct attention *t)
{
    const size_t n_bytes = t->kv.v_at + kv_layer_v_bytes(&t->kv);
    for (size_t p = 0; p < N_PAGES; p++)
        mem_free_pages(t->pages[p], n_bytes);
    mem_free_pages(t->sums, N_PAGES * page_stride(t) * sizeof *t->sums);
    free(t->q);
    free(t->want);
    free(t->got);
}

static struct attend_part part_of(const struct attention *t, size_t kv_head, size_t n_heads,
                                  size_t at)
{
    return (struct attend_part){.kv_head = kv_head,
                                .n_heads = n_heads,
                                .n_rows = t->n_rows,
                                .end = t->end,
                                .sums = t->sums + at * page_stride(t),
                                .stride = sums_stride(t),
                                .page_stride = page_stride(t)};
}

/* The first n_first pages of some KV heads in one part, the others in parts of any size. */
static void run_parts(const struct attention *t, const struct kernels *k, size_t kv_head,
                      size_t n_heads, size_t n_first, void *scratch)
{
    const size_t first_end = t->begin + n_first;
    for (size_t at = first_end, n; at < t->end; at += n) {
        n = 1 + random_u64() % (t->end - at);
        struct attend_part part = part_of(t, kv_head, n_heads, 1 + at - first_end);
        part.from = at;
        part.to = at + n;
        k->attend_part(&t->a, &part, scratch);
    }
    struct attend_part first = part_of(t, kv_head, n_heads, 0);
    first.from = t->begin;
    first.to = first_end;
    first.folded = true;
    k->attend_part(&t->a, &first, scratch);
}

static void check_cut(struct attention *t, const struct kernels *k, const char *name)
{
    const size_t n_pages = t->end - t->begin, n_first = 1 + random_u64() % n_pages;
    const size_t scratch_bytes = k->attend_scratch(&t->kv, t->a.n_group);
    const size_t n_out = t->n_rows * t->a.out_stride;
    size_t at_once = ATTEND_HEADS_QUERIES / (t->n_rows * t->a.n_group);
    if (at_once > 1) at_once = 1 + random_u64() % at_once;
    void *scratch = mem_try_pages(scratch_bytes);
    memset(scratch, 0xff, scratch_bytes);
    memset(t->sums, 0xff, N_PAGES * page_stride(t) * sizeof *t->sums);
    memset(t->got, 0xff, n_out * sizeof *t->got);
    for (size_t head = 0, n; head < t->kv.n_heads; head += n) {
        n = t->kv.n_heads - head < at_once ? t->kv.n_heads - head : at_once;
        run_parts(t, k, head, n, n_first, scratch);
    }
    for (size_t head = 0; head < t->kv.n_heads; head++) {
        struct attend_part all = part_of(t, head, 1, 0);
        all.to = 1 + n_pages - n_first;
        k->attend_join(&t->a, &all, scratch);
    }
    char what[160];
    snprintf(what, sizeof what,
             "%s, %s, %zu heads of %zu and %zu, position %u, first %zu of %zu", name,
             kv_type_name(t->kv.type), (size_t)t->kv.n_heads, t->kv.head_dim_k,
             t->kv.head_dim_v, t->a.pos, n_first, n_pages);
    assert_same_bits(t->got, t->want, n_out, what);
    mem_free_pages(scratch, scratch_bytes);
}

static void check_everywhere(const struct shape *s, enum spread spread, float factor)
{
    struct attention t;
    attention_begin(&t, s, spread, factor);
    for (int m = 0; m < N_MACHINES; m++) {
        struct machine *machine = &machines[m];
        if (!machine->be || machine->n_threads != 1) continue;
        const struct kernels *k = ((const struct cpu_backend *)machine->be)->kernels;
        for (size_t i = 0; k->attend_part && i < CUTS; i++, machine->n_runs++)
            check_cut(&t, k, backend_name(machine->be));
    }
    attention_end(&t);
}

static void all_shapes(void **state)
{
    (void)state;
    random_seed(33);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (enum spread k = NORMAL; k < N_SPREADS; k++)
            check_everywhere(&shapes[i], k, 1);
        /* Pages that are near 2^-50 fall below it when they are folded; f16 has none. */
        if (shapes[i].type != KV_F16)
            check_everywhere(&shapes[i], NORMAL,
                             shapes[i].type == KV_F32 ? 0x1p-49f : 0x1p-36f);
    }
    say_compared("attention by pages");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_shapes)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
