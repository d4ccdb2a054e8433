/* The timeline on the bundled guide: whatever was computed before, the same ids give the same
 * logits to the last bit. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../guide.h"
#include "backend/backend.h"
#include "backend/kv.h"
#include "backend/kv_rows.h"
#include "base/mem.h"
#include "base/philox.h"
#include "engine/machine.h"
#include "engine/machine_memory.h"
#include "engine/timeline.h"
#include "engine/verify.h"

enum { N_VOCAB = 2048 };

/* Two machines over the same file: one goes through histories, one starts cold each time. */
static struct machine warm, cold;

static int open_machines(void **state)
{
    (void)state;
    struct err err;
    const struct engine_config config = {.model_path = GUIDE, .n_threads = 2};
    const struct engine_config single = {.model_path = GUIDE, .n_threads = 1};
    if (!machine_open(&warm, &config, NULL, &err) ||
        !machine_open(&cold, &single, NULL, &err)) {
        print_error("%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int close_machines(void **state)
{
    (void)state;
    machine_close(&warm);
    machine_close(&cold);
    return 0;
}

static void random_ids(uint64_t key, int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(philox(key, (uint32_t)i, 0, 0, PHILOX_BENCH).word[0] % N_VOCAB);
}

/* The bytes of page i of the warm timeline, to be changed and put back. */
static uint8_t *page_take(size_t i)
{
    const size_t n_bytes = model_program(warm.model)->page_bytes[PAGE_FULL];
    uint8_t *page = mem_alloc(n_bytes);
    backend_page_read(warm.be, timeline_page(warm.tl, i), n_bytes, page);
    return page;
}

static void page_put(size_t i, const uint8_t *page)
{
    const size_t n_bytes = model_program(warm.model)->page_bytes[PAGE_FULL];
    backend_page_write(warm.be, timeline_page(warm.tl, i), n_bytes, page);
}

static void check_cold(const int32_t *ids, size_t n)
{
    struct err err;
    timeline_forget(cold.tl);
    assert_true(timeline_sync(cold.tl, ids, n, NULL, NULL, &err));
    assert_int_equal(timeline_n(warm.tl), n);
    assert_memory_equal(timeline_ids(warm.tl), ids, n * sizeof *ids);
    assert_non_null(timeline_logits(warm.tl));
    assert_memory_equal(timeline_logits(warm.tl), timeline_logits(cold.tl),
                        N_VOCAB * sizeof(float));
}

static void sync_and_check(const int32_t *ids, size_t n, size_t want_cached)
{
    struct err err;
    struct timeline_cost cost;
    assert_true(timeline_sync(warm.tl, ids, n, NULL, &cost, &err));
    assert_int_equal(cost.n_cached, want_cached);
    assert_int_equal(cost.n_prefilled, n - want_cached);
    check_cold(ids, n);
}

static void test_histories(void **state)
{
    (void)state;
    int32_t ids[200], edited[200];
    random_ids(1, ids, 200);
    timeline_forget(warm.tl);
    sync_and_check(ids, 90, 0);
    sync_and_check(ids, 90, 90);  /* an exact repeat runs nothing */
    sync_and_check(ids, 150, 90); /* appended */
    memcpy(edited, ids, sizeof ids);
    edited[100] = (ids[100] + 1) % N_VOCAB;
    sync_and_check(edited, 160, 100); /* the last message edited */
    sync_and_check(ids, 120, 100);    /* and taken back, shorter */
    sync_and_check(ids, 64, 63);      /* shortened to a page's border */
    sync_and_check(ids, 1, 0);
    edited[0] = (ids[0] + 1) % N_VOCAB;
    sync_and_check(edited, 3, 0); /* nothing in common */
}

static void test_append_equals_prefill(void **state)
{
    (void)state;
    struct err err;
    int32_t ids[140];
    random_ids(2, ids, 140);
    timeline_forget(warm.tl);
    sync_and_check(ids, 120, 0);
    for (size_t n = 121; n <= 140; n++) {
        assert_true(timeline_append(warm.tl, ids[n - 1], NULL, &err));
        if (n == 121 || n == 128 || n == 129 || n == 140) check_cold(ids, n);
    }
}

struct rows_check {
    float *all;
    size_t n;
};

static bool keep_rows(void *user, size_t first, size_t n_rows, const float *logits)
{
    struct rows_check *r = user;
    memcpy(r->all + first * N_VOCAB, logits, n_rows * N_VOCAB * sizeof(float));
    r->n += n_rows;
    return true;
}

static void test_all_rows_in_any_chunks(void **state)
{
    (void)state;
    struct err err;
    enum { N = 100 };
    int32_t ids[N];
    random_ids(3, ids, N);
    struct rows_check want = {calloc((size_t)N * N_VOCAB, sizeof(float)), 0};
    assert_true(timeline_all_rows(cold.tl, ids, N, 1, keep_rows, &want, &err));
    static const uint32_t chunks[] = {3, 64, 0};
    for (size_t i = 0; i < 3; i++) {
        struct rows_check got = {calloc((size_t)N * N_VOCAB, sizeof(float)), 0};
        assert_true(timeline_all_rows(warm.tl, ids, N, chunks[i], keep_rows, &got, &err));
        assert_int_equal(got.n, N);
        assert_memory_equal(got.all, want.all, (size_t)N * N_VOCAB * sizeof(float));
        free(got.all);
    }
    sync_and_check(ids, N, N - 1); /* what all_rows left is a timeline like any other */
    free(want.all);
}

/* Rows beyond the token count hold whatever they like: here NaN. */
static void test_rows_beyond_are_never_read(void **state)
{
    (void)state;
    struct err err;
    int32_t ids[100];
    random_ids(4, ids, 100);
    timeline_forget(warm.tl);
    sync_and_check(ids, 100, 0);
    const struct program *p = model_program(warm.model);
    timeline_truncate(warm.tl, 70);
    uint8_t *page = page_take(1);
    kv_rows_poison(p->kv, p->n_kv, PAGE_FULL, page, 70 - PAGE_LEN);
    page_put(1, page);
    free(page);
    assert_true(timeline_append(warm.tl, ids[70], NULL, &err));
    check_cold(ids, 71);
    sync_and_check(ids, 75, 71);
}

/* Pages made ahead are nobody's until they are used, and hold nothing that is read. */
static void test_prepared_pages(void **state)
{
    (void)state;
    int32_t ids[200];
    random_ids(6, ids, 200);
    timeline_forget(warm.tl);
    sync_and_check(ids, 70, 0);
    const size_t n_bytes = timeline_usage(warm.tl).bytes;
    timeline_prepare(warm.tl, NULL);
    timeline_prepare(warm.tl, NULL);
    assert_int_equal(timeline_usage(warm.tl).bytes, n_bytes);
    sync_and_check(ids, 200, 70);
    timeline_prepare(warm.tl, NULL);
    ids[100] = (ids[100] + 1) % N_VOCAB;
    sync_and_check(ids, 200, 100);
}

static void test_refusals(void **state)
{
    (void)state;
    struct err err;
    size_t n_ctx = timeline_n_ctx(warm.tl);
    assert_int_equal(n_ctx, 2048);
    int32_t *ids = calloc(n_ctx + 1, sizeof *ids);
    random_ids(5, ids, 70);
    timeline_forget(warm.tl);
    sync_and_check(ids, 70, 0);
    assert_false(timeline_sync(warm.tl, ids, n_ctx + 1, NULL, NULL, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, "the prompt has 2049 tokens, the context holds 2048");
    assert_false(timeline_sync(warm.tl, ids, 0, NULL, NULL, &err));
    int32_t odd[2] = {1, N_VOCAB};
    assert_false(timeline_sync(warm.tl, odd, 2, NULL, NULL, &err));
    assert_string_equal(err.msg, "token id 2048 is outside the vocabulary of 2048");
    sync_and_check(ids, 70, 70); /* nothing had changed */
    free(ids);
}

struct canceller {
    atomic_bool flag;
    uint32_t delay_us;
    double set_at_ms;
};

/* Processor time of all threads: what others do with the machine does not count. */
static double worked_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *cancel_later(void *arg)
{
    struct canceller *c = arg;
    nanosleep(&(struct timespec){.tv_nsec = (long)c->delay_us * 1000}, NULL);
    atomic_store(&c->flag, true);
    c->set_at_ms = worked_ms();
    return NULL;
}

/* Cancelled at random moments of prefill and decode, it holds what it says it holds. */
static void test_cancel_at_random_moments(void **state)
{
    (void)state;
    enum { ROUNDS = 12, N = 400, MOST = 1000 };
    struct err err;
    int32_t ids[N];
    random_ids(6, ids, N);
    int n_cancelled = 0, n_late = 0;
    uint32_t longest_us = 60000; /* shorter where a round is over by then */
    timeline_forget(warm.tl);
    for (uint32_t round = 0; round < ROUNDS || (n_cancelled <= ROUNDS / 4 && round < MOST);
         round++) {
        struct canceller c = {.delay_us =
                                  philox(7, round, 0, 0, PHILOX_BENCH).word[0] % longest_us};
        const struct timeline_watch watch = {.cancel = &c.flag};
        pthread_t t;
        timeline_truncate(warm.tl, timeline_n(warm.tl) / 2);
        assert_int_equal(pthread_create(&t, NULL, cancel_later, &c), 0);
        bool ok = timeline_sync(warm.tl, ids, N - 40, &watch, NULL, &err);
        while (ok && timeline_n(warm.tl) < N)
            ok = timeline_append(warm.tl, ids[timeline_n(warm.tl)], &c.flag, &err);
        double ended_ms = worked_ms();
        pthread_join(t, NULL);
        if (!ok) {
            n_cancelled++;
            assert_int_equal(err.code, ERR_CANCELLED);
            n_late += ended_ms - c.set_at_ms >= 50;
        } else if (longest_us > 100) {
            longest_us -= longest_us / 4;
        }
        size_t n = timeline_n(warm.tl);
        assert_memory_equal(timeline_ids(warm.tl), ids, n * sizeof *ids);
        size_t next = n < N ? n + 1 : N;
        assert_true(timeline_sync(warm.tl, ids, next, NULL, NULL, &err));
        check_cold(ids, next);
    }
    assert_true(n_cancelled > ROUNDS / 4);
    assert_int_equal(n_late, 0);
}

/* What is held is what is computed again; one wrong bit is found and named. */
static void test_verify(void **state)
{
    (void)state;
    struct err err;
    struct verify_verdict v;
    int32_t ids[150];
    random_ids(8, ids, 150);
    timeline_forget(warm.tl);
    assert_true(timeline_verify(warm.tl, NULL, &v, &err));
    assert_int_equal(v.what, VERIFY_SAME);
    assert_int_equal(v.n_tokens, 0);
    sync_and_check(ids, 140, 0);
    sync_and_check(ids, 150, 140);
    const struct program *p = model_program(warm.model);
    assert_true(timeline_verify(warm.tl, NULL, &v, &err));
    assert_int_equal(v.what, VERIFY_SAME);
    assert_int_equal(v.n_tokens, 150);
    assert_int_equal(v.n_held, 1);
    assert_int_equal(v.n_bytes,
                     150 * (p->page_bytes[PAGE_FULL] / PAGE_LEN) + N_VOCAB * sizeof(float));
    sync_and_check(ids, 150, 150);

    const struct kv_layer *kv = &p->kv[2];
    const size_t slot = 100 - PAGE_LEN;
    uint8_t *page = page_take(1);
    uint8_t *value = page + kv_head_at(kv, 1).v + slot * kv->head_dim_v * 2 + 3;
    uint8_t *k = page + kv_head_at(kv, 0).k + kv_key_at(kv->head_dim_k, 7, slot + 1) * 2;
    *value ^= 1;
    *k ^= 4;
    page_put(1, page);
    assert_true(timeline_verify(warm.tl, NULL, &v, &err));
    assert_int_equal(v.what, VERIFY_VALUES);
    assert_int_equal(v.layer, 2);
    assert_int_equal(v.pos, 100);
    *value ^= 1;
    page_put(1, page);
    assert_true(timeline_verify(warm.tl, NULL, &v, &err));
    assert_int_equal(v.what, VERIFY_KEYS);
    assert_int_equal(v.layer, 2);
    assert_int_equal(v.pos, 101);
    *k ^= 4;
    page_put(1, page);
    free(page);
    float *last = (float *)timeline_logits(warm.tl);
    last[5] += 1;
    assert_true(timeline_verify(warm.tl, NULL, &v, &err));
    assert_int_equal(v.what, VERIFY_LOGITS);
    assert_int_equal(v.pos, 149);
    last[5] -= 1;
    timeline_forget(warm.tl);
}

/* What lies behind the last row is taken from every layer of a page, and nothing else. */
static void test_rows_are_poisoned(void **state)
{
    (void)state;
    const struct program *p = model_program(warm.model);
    const size_t n_bytes = p->page_bytes[PAGE_FULL], n = 22;
    uint8_t *before = mem_zalloc(1, n_bytes), *after = mem_zalloc(1, n_bytes);
    struct kv_difference d;
    kv_rows_poison(p->kv, p->n_kv, PAGE_FULL, after, n);
    assert_false(kv_rows_differ(p->kv, p->n_kv, PAGE_FULL, before, after, n, &d));
    for (size_t layer = 0; layer < p->n_kv; layer++) {
        assert_true(kv_rows_differ(&p->kv[layer], 1, PAGE_FULL, before, after, PAGE_LEN, &d));
        assert_int_equal(d.slot, n);
    }
    size_t n_poisoned = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n_poisoned += after[i] == 0xff;
    assert_int_equal(n_poisoned, n_bytes / PAGE_LEN * (PAGE_LEN - n));
    free(before);
    free(after);
}

static void test_divergence_is_told(void **state)
{
    (void)state;
    struct err err;
    struct timeline_cost cost;
    int32_t ids[90];
    random_ids(9, ids, 90);
    timeline_forget(warm.tl);
    assert_true(timeline_sync(warm.tl, ids, 70, NULL, &cost, &err));
    assert_false(cost.diverged);
    assert_true(timeline_sync(warm.tl, ids, 90, NULL, &cost, &err));
    assert_false(cost.diverged);
    assert_true(timeline_sync(warm.tl, ids, 80, NULL, &cost, &err));
    assert_false(cost.diverged);
    int32_t old = ids[75];
    ids[75] = (old + 1) % N_VOCAB;
    assert_true(timeline_sync(warm.tl, ids, 80, NULL, &cost, &err));
    assert_true(cost.diverged);
    assert_int_equal(cost.diverged_at, 75);
    assert_int_equal(cost.old_id, old);
    assert_int_equal(cost.new_id, ids[75]);
    assert_int_equal(cost.n_cached, 75);
}

static void test_fit_context(void **state)
{
    (void)state;
    struct err err;
    const struct model_sizes s = {
        .weights_bytes = 1000u << 20, .kv_bytes_per_token = 1u << 20, .exec_bytes = 24u << 20};
    uint64_t mib = 1 << 20;
    assert_int_equal(machine_fit_context(0, 4096, &s, 8000 * mib, &err), 4096);
    assert_int_equal(machine_fit_context(100, 4096, &s, 8000 * mib, &err), 100);
    /* 2048 - 1024 - 64 spare */
    assert_int_equal(machine_fit_context(0, 4096, &s, 2048 * mib, &err), 960);
    assert_int_equal(machine_fit_context(0, 4096, &s, 1100 * mib, &err), 0);
    assert_int_equal(err.code, ERR_MEMORY);
    assert_string_equal(err.msg, "not enough memory: 1.5 GiB needed (weights 1000 MiB, scratch "
                                 "24 MiB, KV of 512 tokens 512 MiB), 1.07 GiB available");
    assert_int_equal(machine_fit_context(4000, 4096, &s, 2048 * mib, &err), 0);
    assert_int_equal(machine_fit_context(0, 4096, &s, 10 * mib, &err), 0);
    /* Rows of windows take what the context has of them: of 512 tokens half a gibibyte. */
    struct model_sizes windowed = s;
    windowed.window_rows = 1024, windowed.window_bytes_per_token = 1u << 20;
    assert_int_equal(machine_fit_context(512, 4096, &windowed, 2048 * mib, &err), 512);
    assert_int_equal(machine_fit_context(513, 4096, &windowed, 2048 * mib, &err), 0);
    assert_string_equal(err.msg,
                        "not enough memory: 2.06 GiB needed (weights 1000 MiB, scratch "
                        "600 MiB, KV of 513 tokens 513 MiB), 2 GiB available");
    assert_int_equal(machine_fit_context(0, 4096, &windowed, 2176 * mib, &err), 512);
    /* 4096 - 1024 - 64 spare - 1024 */
    assert_int_equal(machine_fit_context(0, 4096, &windowed, 4096 * mib, &err), 1984);
    /* Without keys and values the context costs nothing, but the weights do. */
    const struct model_sizes bare = {.weights_bytes = 1000u << 20};
    assert_int_equal(machine_fit_context(0, 4096, &bare, 1001 * mib, &err), 4096);
    assert_int_equal(machine_fit_context(0, 4096, &bare, 999 * mib, &err), 0);
}

/* Each of two models gets a share of what both may keep, also one whose tokens leave nothing
 * but states, or nothing at all. */
static void test_shares(void **state)
{
    (void)state;
    const uint64_t gib = 1u << 30;
    const struct model_sizes dense = {.kv_bytes_per_token = 114688},
                             recurrent = {.state_bytes = 19 << 20}, bare = {0};
    const struct model_sizes two = model_sizes_sum(dense, &recurrent);
    const uint64_t of_dense = machine_share(gib, &dense, &two);
    const uint64_t of_recurrent = machine_share(gib, &recurrent, &two);
    assert_in_range(of_dense, gib / 4 * 3 - gib / 64, gib / 4 * 3 + gib / 64);
    assert_in_range(of_dense + of_recurrent, gib, gib + gib / 1024);
    assert_true(machine_share(gib, &bare, &two) > 0);
    assert_int_equal(machine_share(gib, &dense, &dense), gib);
    assert_true(machine_share(UINT64_MAX, &bare, &bare) == UINT64_MAX);
}

static void test_odd_configurations(void **state)
{
    (void)state;
    struct err err;
    struct machine m;
    const struct {
        struct engine_config config;
        const char *message;
    } odd[] = {
        {{.model_path = GUIDE, .device = "vulkan:x"},
         "unknown device 'vulkan:x'; known: auto, cpu, vulkan, vulkan:N"},
        {{.model_path = GUIDE, .kv_type = "q5_1"},
         "unknown KV type 'q5_1'; known: f32, f16, q8_0, q4_0"},
        {{.model_path = GUIDE, .cpu = "sse2"},
         "unknown instruction set 'sse2'; known: auto, scalar, simd, dotprod, avx2, avxvnni, "
         "avx512, amx"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_false(machine_open(&m, &odd[i].config, NULL, &err));
        assert_string_equal(err.msg, odd[i].message);
        assert_null(m.model);
        machine_close(&m);
    }
    atomic_bool stop = true;
    const struct machine_watch watch = {.cancel = &stop};
    assert_false(machine_open(&m, &(struct engine_config){.model_path = GUIDE}, &watch, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_append_equals_prefill),
        cmocka_unit_test(test_all_rows_in_any_chunks),
        cmocka_unit_test(test_rows_beyond_are_never_read),
        cmocka_unit_test(test_prepared_pages),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cancel_at_random_moments),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_rows_are_poisoned),
        cmocka_unit_test(test_divergence_is_told),
        cmocka_unit_test(test_fit_context),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_odd_configurations),
    };
    return cmocka_run_group_tests(tests, open_machines, close_machines);
}
