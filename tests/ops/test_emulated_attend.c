/* Attention on AVX-512 and AMX for many queries as plain C, from the same text, against the
 * scalar reference: on any machine. Where the instructions are, test_attend compares the real
 * ones, and tests/emulated.sh runs them in an emulator. */
#include "ops.h"

#define avx2_query_codes ref_query_codes
#define amx_attend emulated_amx_attend
#define amx_attend_scratch emulated_amx_attend_scratch
#define attend_many_avx512 emulated_attend_many
#define attend_many_scratch_avx512 emulated_attend_many_scratch
#define avx512_attend emulated_avx512_attend
#define avx512_attend_scratch emulated_avx512_attend_scratch
#define attend_floats_avx512 emulated_attend_floats
#define attend_blocks_avx512 emulated_attend_blocks

#include "../../src/cpu/attend_avx512.c"
#include "../../src/cpu/attend_f_avx512.c"
#include "../../src/cpu/attend_q_amx.c"
#include "../../src/cpu/attend_q_avx512.c"

#include "cpu/ref.h"

enum { N_PAGES = 4, MOST_GROUP = 16 };

struct shape {
    enum kv_type type;
    size_t n_group, dk, dv, n_rows;
    uint32_t pos, window;
    float softcap;
    bool sinks;
    float slope_step;
};

static const struct shape shapes[] = {
    {KV_F16, 2, 64, 64, 64, 100, 0, 0, false, 0},
    {KV_F16, 3, 40, 24, 9, 63, 70, 0, true, 0},
    {KV_F16, 1, 128, 80, 33, 0, 0, 30, false, 0},
    {KV_F16, 8, 16, 256, 2, 190, 1, 0, false, 0},
    {KV_F32, 2, 64, 96, 64, 77, 0, 0, true, 0},
    {KV_F32, 5, 12, 8, 7, 120, 65, 50, false, 0},
    {KV_Q8_0, 2, 64, 64, 64, 100, 0, 0, true, 0},
    {KV_Q8_0, 1, 256, 32, 40, 3, 20, 0, false, 0},
    {KV_Q8_0, 7, 32, 288, 9, 180, 0, 50, true, 0},
    {KV_Q4_0, 2, 64, 64, 64, 100, 0, 0, false, 0},
    {KV_Q4_0, 3, 96, 128, 21, 60, 70, 30, true, 0},
    {KV_Q8_0, 3, 128, 128, 64, 130, 0, 0, false, 0},
    {KV_Q8_0, 2, 96, 160, 40, 30, 5, 0, false, 0},
    {KV_Q8_0, 9, 512, 512, 1, 255, 0, 0, false, 0},
    {KV_Q4_0, 9, 512, 512, 1, 128, 0, 0, true, 0},
    {KV_Q4_0, 1, 32, 32, 64, 64, 33, 0, false, 0},
    {KV_Q8_0, 2, 64, 64, 16, 56, 0, 0, false, 0},
    {KV_Q4_0, 2, 64, 32, 16, 56, 60, 0, false, 0},
    {KV_Q8_0, 5, 96, 64, 9, 130, 0, 0, false, 0},
    {KV_Q8_0, 4, 32, 96, 9, 70, 0, 0, true, 0},
    {KV_Q8_0, 2, 512, 64, 24, 64, 0, 0, false, 0},
    {KV_F16, 3, 64, 40, 64, 100, WINDOW_CHUNKS | 70, 0, true, 0},
    {KV_Q8_0, 3, 96, 64, 64, 100, WINDOW_CHUNKS | 64, 0, false, 0},
    {KV_Q4_0, 2, 64, 32, 40, 60, WINDOW_CHUNKS | 33, 30, false, 0},
    {KV_F16, 4, 64, 64, 64, 100, 0, 0, false, 2},
    {KV_F16, 3, 40, 24, 9, 63, 70, 30, true, 0.25f},
    {KV_F32, 5, 64, 96, 64, 77, 0, 0, true, 1},
    {KV_Q8_0, 6, 64, 64, 64, 100, 0, 0, false, 1},
    {KV_Q8_0, 2, 96, 64, 40, 130, WINDOW_CHUNKS | 64, 0, true, 4},
    {KV_Q8_0, 9, 512, 512, 1, 255, 0, 0, false, 0.5f},
    {KV_Q4_0, 3, 96, 128, 64, 128, 0, 0, false, 2},
};

/* Values are times value_factor. */
static void fill_pages(const struct kv_layer *kv, void *pages[N_PAGES], size_t n_bytes,
                       enum spread spread, float value_factor, size_t n_keys)
{
    float k[512], v[512];
    for (size_t p = 0; p < N_PAGES; p++) {
        pages[p] = zalloc64(n_bytes);
        memset(pages[p], 0xff, n_bytes);
    }
    for (size_t at = 0; at < n_keys; at++) {
        random_floats(spread, k, kv->head_dim_k);
        random_floats(spread, v, kv->head_dim_v);
        for (size_t e = 0; e < kv->head_dim_v; e++)
            v[e] *= value_factor;
        ref_kv_store(kv, pages[at / PAGE_LEN], 0, at % PAGE_LEN, k, v);
    }
}

static const struct {
    const char *name;
    size_t (*scratch)(const struct kv_layer *kv, size_t n_group);
    void (*attend)(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);
} sets[] = {
    {"avx512", emulated_avx512_attend_scratch, emulated_avx512_attend},
    {"amx", emulated_amx_attend_scratch, emulated_amx_attend},
};

static void check(const struct shape *s, enum spread spread, float value_factor)
{
    const struct kv_layer kv = {s->type, 1, s->dk, s->dv, 0, PAGE_FULL, 0};
    assert_true(s->n_group <= MOST_GROUP);
    const size_t q_stride = s->n_group * s->dk, out_stride = s->n_group * s->dv;
    const size_t n_out = s->n_rows * out_stride;
    void *pages[N_PAGES];
    fill_pages(&kv, pages, kv_layer_bytes(&kv), spread, value_factor, s->pos + s->n_rows);
    float *q = zalloc64(s->n_rows * q_stride * sizeof *q), sinks[MOST_GROUP];
    random_floats(spread, q, s->n_rows * q_stride);
    random_floats(NORMAL, sinks, MOST_GROUP);
    float *want = zalloc64(n_out * sizeof *want), *got = zalloc64(n_out * sizeof *got);
    struct attend a = {
        .kv = &kv,
        .pages = pages,
        .q = q,
        .q_stride = q_stride,
        .out = want,
        .out_stride = out_stride,
        .pos = s->pos,
        .n_group = s->n_group,
        .factors = kv_factors(&kv, 0.125f, s->softcap),
        .window = s->window,
        .sinks = s->sinks ? sinks : NULL,
        .slopes = {s->slope_step, (uint32_t)s->n_group, 0},
    };
    void *scratch = zalloc64(ref_attend_scratch(&kv, s->n_group));
    ref_attend(&a, 0, 0, s->n_rows, scratch);
    free(scratch);
    a.out = got;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char what[112];
        snprintf(what, sizeof what, "%s, %s, group of %zu, heads %zu and %zu, kind %d times %a",
                 sets[i].name, kv_type_name(s->type), s->n_group, s->dk, s->dv, (int)spread,
                 (double)value_factor);
        memset(got, 0xff, n_out * sizeof *got);
        const size_t n_bytes = sets[i].scratch(&kv, s->n_group);
        scratch = zalloc64(n_bytes);
        memset(scratch, 0xff, n_bytes);
        sets[i].attend(&a, 0, 0, s->n_rows, scratch);
        assert_same_bits(got, want, n_out, what);
        free(scratch);
    }
    free(q);
    free(want);
    free(got);
    for (size_t p = 0; p < N_PAGES; p++)
        free(pages[p]);
}

static void all_shapes(void **state)
{
    (void)state;
    random_seed(513);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        /* Pages that are near 2^-50 fall below it when they are folded; f16 has none. */
        if (shapes[i].type != KV_F16)
            check(&shapes[i], NORMAL, shapes[i].type == KV_F32 ? 0x1p-49f : 0x1p-36f);
        for (enum spread k = NORMAL; k < N_SPREADS; k++)
            check(&shapes[i], k, 1);
    }
    say_compared("attention of many queries, avx512 and amx as plain C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
