/* The same bits: instruction set, threads, rows per step, KV pages left from another run and
 * what lies beyond the last token change nothing, and the logits are those whose hashes are
 * stored in tests/data/golden/bits.txt (so that a change of the reference itself shows).
 *
 * Every model of the golden cases runs 600 seeded random ids and its golden prompt, with K and
 * V as f32 and f16, and one of each attention as q8_0 and q4_0. One scalar run per model and KV
 * type is the yardstick; every combination of threads and rows per step is compared with it on
 * the instruction set that this machine takes by itself, and in turns, or with HEARTH_SOAK on
 * every model, on each other one that it has. HEARTH_BITS=FILE in the environment writes the
 * hashes to a file instead of comparing. */
#include <xxhash.h>

#include "../golden.h"
#include "../soak.h"
#include "backend/kv.h"
#include "backend/kv_rows.h"

enum { RANDOM_IDS = 600, MAX_HASHES = 256 };

static const char stored_path[] = "tests/data/golden/bits.txt";

struct bits {
    char name[80]; /* "qwen3-Q4_0 f16" */
    uint64_t random, golden;
};

static struct bits stored[MAX_HASHES];
static size_t n_stored;
static FILE *writing;

static void read_stored(void)
{
    FILE *f = fopen(stored_path, "r");
    if (!f) fail_msg("%s is missing", stored_path);
    char line[256], model[64], kv[8];
    unsigned long long random, golden;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        if (sscanf(line, "%63s %7s %llx %llx", model, kv, &random, &golden) != 4)
            fail_msg("%s: '%s' is no line of hashes", stored_path, line);
        assert_true(n_stored < MAX_HASHES);
        struct bits *b = &stored[n_stored++];
        snprintf(b->name, sizeof b->name, "%s %s", model, kv);
        b->random = random;
        b->golden = golden;
    }
    fclose(f);
}

static void check_stored(const struct bits *b)
{
    if (writing) {
        fprintf(writing, "%s %016llx %016llx\n", b->name, (unsigned long long)b->random,
                (unsigned long long)b->golden);
        return;
    }
    for (size_t i = 0; i < n_stored; i++) {
        if (strcmp(stored[i].name, b->name) != 0) continue;
        if (stored[i].random != b->random || stored[i].golden != b->golden)
            fail_msg("%s: hashes %016llx %016llx, stored are %016llx %016llx", b->name,
                     (unsigned long long)b->random, (unsigned long long)b->golden,
                     (unsigned long long)stored[i].random,
                     (unsigned long long)stored[i].golden);
        return;
    }
    fail_msg("%s has no hash in %s", b->name, stored_path);
}

static void random_ids(int32_t *ids, size_t n, uint32_t n_vocab)
{
    uint32_t state = 600;
    for (size_t i = 0; i < n; i++) {
        /* A plain congruence would do; multiplied so that neighbours share nothing. */
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((uint64_t)state * n_vocab >> 32);
    }
}

/* Logits of all rows of both prompts. */
struct result {
    float *random, *golden;
};

static uint32_t n_random(const struct golden_case *c)
{
    return strcmp(c->name, "mistral3") == 0 ? 500 : RANDOM_IDS;
}

static void run_case(const struct golden_case *c, struct runner_options o, struct result *out)
{
    struct runner r;
    const uint32_t n = n_random(c);
    /* Above 600 and below where phi3 changes its factors, as the golden runs were. */
    o.n_ctx = n == 500 ? 512 : 1024;
    runner_open(&r, c->model, o);
    int32_t ids[RANDOM_IDS];
    random_ids(ids, n, c->n_vocab);
    out->random = mem_zalloc((size_t)n * c->n_vocab, sizeof(float));
    out->golden = mem_zalloc((size_t)c->n_tokens * c->n_vocab, sizeof(float));
    runner_run(&r, ids, n, 0, out->random);
    /* The pages keep what the first prompt left in them: beyond the token count and below. */
    runner_run(&r, c->tokens, c->n_tokens, 0, out->golden);
    runner_close(&r);
}

static void result_free(struct result *r)
{
    free(r->random);
    free(r->golden);
}

static void compare(const struct golden_case *c, const struct runner_options *o,
                    const struct result *want, const struct result *got)
{
    const size_t nr = (size_t)n_random(c) * c->n_vocab, ng = (size_t)c->n_tokens * c->n_vocab;
    const float *a = want->random, *b = got->random;
    size_t n = nr;
    if (memcmp(a, b, nr * sizeof *a) == 0) {
        a = want->golden, b = got->golden, n = ng;
        if (memcmp(a, b, ng * sizeof *a) == 0) return;
    }
    size_t i = 0;
    while (i < n && memcmp(&a[i], &b[i], sizeof *a) == 0)
        i++;
    fail_msg("%s: %s, %d threads, batch %u, KV %s: %s logit %zu of row %zu is %a, not %a",
             c->name, cpu_isa_name(o->isa), o->n_threads, o->batch, kv_type_name(o->kv_type),
             n == nr ? "random" : "golden", i % c->n_vocab, i / c->n_vocab, (double)b[i],
             (double)a[i]);
}

static const int threads[] = {1, 2, 7};
static const uint32_t batches[] = {1, 3, 64, 512};

static size_t n_runs, n_checks;

/* Of the set that is taken by itself all combinations; the others come round, a quarter of them
 * each time, and of the scalar one, which takes far longer, one in four times. */
static bool has_turn(enum cpu_isa isa, size_t pick)
{
    if (isa == CPU_SCALAR) return pick == n_checks * 5 % 48; /* 5: no factor in common */
    return isa == cpu_best() || pick % 4 == n_checks % 4;
}

static void check_model(const struct golden_case *c, enum kv_type kv_type, bool all)
{
    struct runner_options o = {
        .isa = CPU_SCALAR, .n_threads = 2, .kv_type = kv_type, .batch = 64, .poison = false};
    struct result base;
    run_case(c, o, &base);
    struct bits b;
    snprintf(b.name, sizeof b.name, "%s %s", c->name, kv_type_name(kv_type));
    b.random = XXH3_64bits(base.random, (size_t)n_random(c) * c->n_vocab * sizeof(float));
    b.golden = XXH3_64bits(base.golden, (size_t)c->n_tokens * c->n_vocab * sizeof(float));
    check_stored(&b);
    if (writing) {
        result_free(&base);
        return;
    }
    o.poison = true;
    for (enum cpu_isa isa = CPU_SCALAR; isa < N_CPU_ISAS; isa++) {
        if (!cpu_has(isa)) continue;
        for (size_t pick = 0; pick < 12; pick++) {
            if (!all && !has_turn(isa, pick)) continue;
            o.isa = isa;
            o.n_threads = threads[pick % 3];
            o.batch = batches[pick / 3 % 4];
            struct result got;
            run_case(c, o, &got);
            compare(c, &o, &base, &got);
            result_free(&got);
            n_runs++;
        }
    }
    n_checks++;
    result_free(&base);
}

static void check_folder(const char *folder)
{
    struct golden_set set = golden_read(folder, golden_known);
    const bool all = soak() > 1;
    for (size_t i = 0; i < set.n; i++) {
        check_model(&set.cases[i], KV_F32, all);
        check_model(&set.cases[i], KV_F16, all);
    }
    print_message("# %zu models, %zu runs against the yardsticks\n", set.n, n_runs);
    golden_free(&set);
}

/* With the kit, whose cases include ours, or else with ours. */
static void test_bits(void **unused)
{
    (void)unused;
    check_folder(golden_kit() ? golden_kit() : "tests/data");
}

/* Models of ours that differ in their attention: heads, groups, windows, biases, experts. */
static const char *const of_blocks[] = {
    "falcon-h1$",       "gemma3$",        "gemma4", "gpt-oss-MXFP4$", "llama-Q4_0$",
    "llama-ropefreqs$", "mistral3$",      "phi3$",  "qwen2$",         "qwen3-IQ4_XS$",
    "qwen3moe-MXFP4$",  "qwen35-Q4_K_M$", NULL};

static void test_blocks(void **unused)
{
    (void)unused;
    const bool all = soak() > 1;
    struct golden_set set = golden_read("tests/data", of_blocks);
    for (size_t i = 0; i < set.n; i++) {
        check_model(&set.cases[i], KV_Q8_0, all);
        check_model(&set.cases[i], KV_Q4_0, all);
    }
    golden_free(&set);
}

/* Heads of 24 dims have no whole blocks. */
static void test_refusal(void **unused)
{
    (void)unused;
    static const char *const some[] = {"llama-moe$", "smollm3$", NULL};
    struct golden_set set = golden_read("tests/data", some);
    for (size_t i = 0; i < set.n; i++) {
        struct err err = {0};
        struct gguf *g = gguf_open(set.cases[i].model, &err);
        assert_non_null(g);
        for (enum kv_type type = KV_Q8_0; type <= KV_Q4_0; type++) {
            const struct model_params params = {.kv_type = type};
            struct model_sizes sizes;
            assert_false(model_estimate(g, NULL, &params, 1, &sizes, &err));
            assert_int_equal(err.code, ERR_USER);
            assert_non_null(strstr(err.msg, "have a head size of 24; KV type q"));
        }
        gguf_close(g);
    }
    assert_int_equal(set.n, 2);
    golden_free(&set);
}

/* NaN over the rows of positions pos.. of all pages. */
static void poison_rows(struct runner *r, uint32_t pos)
{
    const struct program *p = model_program(r->m);
    for (size_t page = 0; page < r->n_pages; page++) {
        const size_t from = page * PAGE_LEN;
        if (from + PAGE_LEN <= pos) continue;
        for (int part = 0; part < PAGE_PARTS; part++) {
            if (!r->pages[part][page]) continue;
            void *host = mem_alloc(p->page_bytes[part]);
            backend_page_read(r->be, r->pages[part][page], p->page_bytes[part], host);
            kv_rows_poison(p->kv, p->n_kv, part, host, pos > from ? pos - from : 0);
            backend_page_write(r->be, r->pages[part][page], p->page_bytes[part], host);
            free(host);
        }
    }
}

/* Going back to any token and on with others gives what a cold run gives, with NaN in every row
 * that was given up. */
static void check_rollback(const struct golden_case *c, enum kv_type type)
{
    struct runner warm, cold;
    const struct runner_options o = {.isa = CPU_AUTO,
                                     .n_threads = 2,
                                     .kv_type = type,
                                     .n_ctx = 512,
                                     .batch = 40,
                                     .poison = true};
    runner_open(&warm, c->model, o);
    runner_open(&cold, c->model, o);
    int32_t ids[200], edited[200];
    random_ids(ids, 200, c->n_vocab);
    float *want = mem_zalloc((size_t)200 * c->n_vocab, sizeof *want);
    float *got = mem_zalloc((size_t)200 * c->n_vocab, sizeof *got);
    static const uint32_t keeps[] = {199, 130, 128, 127, 65, 64, 63, 1, 0};
    for (size_t k = 0; k < sizeof keeps / sizeof *keeps; k++) {
        const uint32_t keep = keeps[k], n = 200 - keep;
        runner_run(&warm, ids, 200, 0, NULL);
        poison_rows(&warm, keep);
        for (size_t t = 0; t < 200; t++)
            edited[t] = t < keep ? ids[t] : (ids[t] + 1 + (int32_t)k) % (int32_t)c->n_vocab;
        runner_run(&warm, edited + keep, n, keep, got);
        runner_reset(&cold);
        runner_run(&cold, edited, 200, 0, want);
        if (memcmp(want + (size_t)keep * c->n_vocab, got,
                   (size_t)n * c->n_vocab * sizeof *got) != 0)
            fail_msg("%s, KV %s: going on from %u of 200 tokens differs from a cold run",
                     c->name, kv_type_name(type), keep);
    }
    free(want);
    free(got);
    runner_close(&warm);
    runner_close(&cold);
}

static void test_rollback(void **unused)
{
    (void)unused;
    static const char *const some[] = {"llama-Q4_0$", "llama-moe$", "phi3$",
                                       "mistral3$",   "smollm3$",   NULL};
    struct golden_set set = golden_read("tests/data", some);
    for (size_t i = 0; i < set.n; i++) {
        const struct golden_case *c = &set.cases[i];
        const enum kv_type last = golden_has_blocks(c) ? KV_Q4_0 : KV_F16;
        for (enum kv_type type = KV_F32; type <= last; type++)
            check_rollback(c, type);
    }
    golden_free(&set);
}

/* A program whose windowed layers see one row more. */
static void widen(const struct program *p, struct program *wide, struct op *ops)
{
    *wide = *p;
    memcpy(ops, p->ops, p->n_ops * sizeof *ops);
    for (size_t i = 0; i < p->n_ops; i++)
        if (ops[i].kind == OP_ATTEND && ops[i].attend.window) ops[i].attend.window++;
    wide->ops = ops;
}

/* A row too many is found, in the first row that has it and in the hash of all: the rows before
 * are the same. */
static void test_window_too_wide(void **unused)
{
    (void)unused;
    enum { N = 64 };
    static const char *const windowed[] = {"gemma3$", "gemma4", "gpt-oss-MXFP4$", NULL};
    struct golden_set set = golden_read("tests/data", windowed);
    for (size_t i = 0; i < set.n; i++) {
        const struct golden_case *c = &set.cases[i];
        struct runner r;
        struct err err;
        const struct runner_options o = {
            .isa = CPU_AUTO, .n_threads = 2, .kv_type = KV_F32, .n_ctx = 512, .batch = N};
        int32_t ids[N];
        random_ids(ids, N, c->n_vocab);
        float *right = mem_zalloc((size_t)N * c->n_vocab, sizeof *right);
        float *wrong = mem_zalloc((size_t)N * c->n_vocab, sizeof *wrong);
        runner_open(&r, c->model, o);
        runner_run(&r, ids, N, 0, right);
        const struct program *p = model_program(r.m);
        struct op *ops = mem_zalloc(p->n_ops, sizeof *ops);
        struct program wide;
        widen(p, &wide, ops);
        exec_free(r.x);
        r.x = exec_new(r.be, &wide, N, &err);
        assert_non_null(r.x);
        runner_run(&r, ids, N, 0, wrong);
        size_t row = 0;
        while (row < N && memcmp(right + row * c->n_vocab, wrong + row * c->n_vocab,
                                 c->n_vocab * sizeof *right) == 0)
            row++;
        if (row != p->window)
            fail_msg("%s: row %zu differs first, not %u", c->name, row, p->window);
        runner_close(&r);
        free(ops);
        free(right);
        free(wrong);
    }
    assert_true(set.n >= 4);
    golden_free(&set);
}

int main(void)
{
    const char *path = getenv("HEARTH_BITS");
    if (path) {
        writing = fopen(path, "w");
        if (!writing) return 1;
        fprintf(writing, "# model, KV type, XXH3-64 of the logits of the random ids and of the "
                         "golden prompt\n");
    } else {
        read_stored();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_window_too_wide),
    };
    int status = cmocka_run_group_tests_name("bits", tests, NULL, NULL);
    if (writing) fclose(writing);
    return status;
}
