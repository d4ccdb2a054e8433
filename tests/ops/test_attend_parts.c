/* Attention that is cut by pages: whatever the cut, each set of kernels gives the reference's
 * bits. Sums that nobody wrote are NaN. How threads cut pages is compared in test_attend. */
#include "ops.h"

#include "backend/kv.h"
#include "cpu/exec_impl.h"
#include "cpu/ref.h"

enum { N_PAGES = 23, MOST_DIM = 512, MOST_HEADS = 8, CUTS = 6 };

struct shape {
    enum kv_type type;
    size_t n_kv, n_group, n_rows, dk, dv;
    uint32_t window;
    float softcap;
    bool sinks;
    float slope_step;
};

static const struct shape shapes[] = {
    {KV_F16, 1, 4, 1, 128, 128, 0, 0, false, 0},
    {KV_F16, 8, 1, 1, 64, 64, 0, 0, true, 0},
    {KV_F16, 2, 2, 2, 40, 24, 200, 0, false, 0},
    {KV_F16, 1, 8, 1, 16, 256, 700, 30, false, 0},
    {KV_F16, 3, 1, 5, 96, 80, 1, 0, true, 0},
    {KV_F32, 1, 3, 1, 64, 96, 0, 0, false, 0},
    {KV_F32, 4, 2, 1, 48, 8, 130, 50, true, 0},
    {KV_Q8_0, 1, 4, 1, 128, 128, 0, 0, false, 0},
    {KV_Q8_0, 2, 7, 1, 64, 64, 0, 0, false, 0},
    {KV_Q8_0, 8, 1, 1, 96, 64, 300, 0, true, 0},
    {KV_Q8_0, 1, 1, 8, 256, 32, 65, 0, false, 0},
    {KV_Q8_0, 4, 2, 1, 32, 192, 0, 50, false, 0},
    {KV_Q4_0, 1, 4, 1, 128, 128, 0, 0, false, 0},
    {KV_Q4_0, 2, 4, 2, 64, 96, 500, 0, false, 0},
    {KV_Q4_0, 4, 1, 2, 512, 64, 0, 30, true, 0},
    {KV_F16, 1, 1, 3, 512, 512, 0, 0, false, 0},
    {KV_F16, 1, 4, 1, 128, 128, 0, 0, false, 2},
    {KV_F32, 3, 2, 1, 48, 64, 300, 0, true, 1},
    {KV_Q8_0, 6, 1, 1, 64, 64, 0, 0, false, 0.5f},
    {KV_Q4_0, 1, 3, 2, 64, 96, 0, 30, false, 2},
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
    const size_t n_bytes = kv_layer_bytes(&t->kv);
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

static size_t stretch_floats(const struct attention *t)
{
    return t->n_rows * t->kv.n_heads * t->a.n_group * sums_stride(t);
}

static void attention_begin(struct attention *t, const struct shape *s, enum spread spread,
                            float factor)
{
    memset(t, 0, sizeof *t);
    t->kv = (struct kv_layer){s->type, (uint32_t)s->n_kv, s->dk, s->dv, 0, PAGE_FULL, 0};
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
                           .sinks = s->sinks ? t->sinks : NULL,
                           .slopes = {s->slope_step, (uint32_t)n_heads, 0}};
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
    t->sums = mem_try_pages(N_PAGES * stretch_floats(t) * sizeof *t->sums);
    void *scratch = mem_try_pages(ref_attend_scratch(&t->kv, s->n_group));
    t->a.out = t->want;
    for (size_t head = 0; head < s->n_kv; head++)
        ref_attend(&t->a, head, 0, s->n_rows, scratch);
    mem_free_pages(scratch, ref_attend_scratch(&t->kv, s->n_group));
    t->a.out = t->got;
}

static void attention_end(struct attention *t)
{
    const size_t n_bytes = kv_layer_bytes(&t->kv);
    for (size_t p = 0; p < N_PAGES; p++)
        mem_free_pages(t->pages[p], n_bytes);
    mem_free_pages(t->sums, N_PAGES * stretch_floats(t) * sizeof *t->sums);
    free(t->q);
    free(t->want);
    free(t->got);
}

static struct attend_sums sums_of(const struct attention *t, size_t stretch)
{
    return (struct attend_sums){t->sums + stretch * stretch_floats(t), sums_stride(t),
                                stretch_floats(t)};
}

/* The first n_first pages of a KV head in one part, the others before it in parts of any size.
 */
static void run_parts(const struct attention *t, const struct kernels *k, size_t kv_head,
                      size_t n_first, void *scratch)
{
    const size_t others = t->begin + n_first;
    struct attend_part part = {.kv_head = kv_head, .n_rows = t->n_rows};
    for (size_t at = others, n; at < t->end; at += n) {
        n = 1 + random_u64() % (t->end - at);
        part.from = at;
        part.to = at + n;
        part.end = random_u64() % 2 ? part.to : t->end;
        part.sums = sums_of(t, 1 + at - others);
        k->attend_part(&t->a, &part, scratch);
    }
    part.from = t->begin;
    part.to = others;
    part.end = t->end;
    part.folded = true;
    part.sums = sums_of(t, 0);
    k->attend_part(&t->a, &part, scratch);
}

static void check_cut(struct attention *t, const struct kernels *k, const char *name)
{
    const size_t n_pages = t->end - t->begin, n_first = 1 + random_u64() % n_pages;
    const size_t scratch_bytes = k->attend_scratch(&t->kv, t->a.n_group);
    const size_t n_out = t->n_rows * t->a.out_stride;
    void *scratch = mem_try_pages(scratch_bytes);
    memset(scratch, 0xff, scratch_bytes);
    memset(t->sums, 0xff, N_PAGES * stretch_floats(t) * sizeof *t->sums);
    memset(t->got, 0xff, n_out * sizeof *t->got);
    for (size_t head = 0; head < t->kv.n_heads; head++)
        run_parts(t, k, head, n_first, scratch);
    for (size_t head = 0; head < t->kv.n_heads; head++)
        k->attend_join(&t->a, head, t->n_rows, sums_of(t, 0), 1 + n_pages - n_first, scratch);
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

/* Each page is in one part, none is empty, and there is room for the sums. */
static void check_cut_of(size_t n_pages, size_t n_heads, size_t n_threads, size_t n_room)
{
    const struct page_cut cut = attend_cut(n_pages, 64 << 10, n_heads, n_threads, n_room);
    if (cut.n_parts == 0) return;
    const size_t n_others = n_pages - cut.n_first;
    assert_true(2 * n_heads <= n_threads);
    assert_in_range(cut.n_first, 1, n_pages - 1);
    assert_true(1 + n_others <= n_room);
    assert_true(cut.per_part > 0 && cut.n_parts > 1);
    assert_true((cut.n_parts - 1) * cut.per_part >= n_others);
    assert_true((cut.n_parts - 2) * cut.per_part < n_others);
}

static void cuts(void **state)
{
    (void)state;
    for (size_t n_pages = 0; n_pages < 400; n_pages += n_pages < 70 ? 1 : 37)
        for (size_t n_heads = 1; n_heads <= 9; n_heads++)
            for (size_t n_threads = 1; n_threads <= 65; n_threads += n_threads < 9 ? 1 : 7)
                for (size_t n_room = 0; n_room < 200; n_room += n_room < 9 ? 1 : 60)
                    check_cut_of(n_pages, n_heads, n_threads, n_room);
}

/* Who is cut: of 1 MiB a thread that has all would read half too much; of less it is not worth
 * it, nor where each thread has a head, nor without room for the pages that others take. */
static void who_is_cut(void **state)
{
    (void)state;
    assert_true(attend_cut(16, 64 << 10, 1, 2, 100).n_parts > 2);
    assert_int_equal(attend_cut(6, 64 << 10, 1, 2, 100).n_parts, 0);
    assert_int_equal(attend_cut(16, 64 << 10, 2, 2, 100).n_parts, 0);
    assert_int_equal(attend_cut(16, 64 << 10, 2, 3, 100).n_parts, 0);
    assert_true(attend_cut(16, 64 << 10, 2, 4, 100).n_parts > 2);
    assert_int_equal(attend_cut(16, 64 << 10, 1, 2, 4).n_parts, 0);
    assert_int_equal(attend_cut(160, 64 << 10, 1, 2, 11).n_first, 150);
    /* The cases of test_attend, on 2 threads. */
    assert_true(attend_cut(25, 32 << 10, 1, 2, 100).n_parts > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_shapes), cmocka_unit_test(cuts),
                                       cmocka_unit_test(who_is_cut)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
