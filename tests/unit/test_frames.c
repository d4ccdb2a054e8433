/* The log of frames: what is written is read; a cut or a flip costs the frame it hit and no
 * other; a log pasted into a payload is not taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/frames.h"
#include "base/philox.h"

enum { N = 40, IDENTITY = 77 };

static uint32_t word(uint64_t key, uint32_t i)
{
    return philox(key, i, 0, 0, PHILOX_BENCH).word[0];
}

/* Frame i: its payload follows from i. */
static size_t payload(uint32_t i, uint8_t out[512])
{
    size_t n = i == 3 ? 0 : word(1, i) % 500;
    for (size_t k = 0; k < n; k++)
        out[k] = (uint8_t)word(i + 10, (uint32_t)k);
    return n;
}

static uint64_t starts[N + 1];

static void make(struct buf *log)
{
    uint8_t bytes[512];
    for (uint32_t i = 0; i < N; i++) {
        starts[i] = log->len;
        size_t n = payload(i, bytes);
        frame_append(log,
                     &(struct frame){1, (uint16_t)(i % 7), IDENTITY, i, log->len, bytes, n});
    }
    starts[N] = log->len;
}

struct seen {
    bool frame[N];
    size_t n, n_damage;
    uint64_t damage_bytes;
};

static void on_frame(void *user, const struct frame *f)
{
    struct seen *seen = user;
    uint8_t want[512];
    assert_true(f->number < N);
    assert_false(seen->frame[f->number]);
    seen->frame[f->number] = true;
    seen->n++;
    assert_int_equal(f->at, starts[f->number]);
    assert_int_equal(f->type, f->number % 7);
    assert_int_equal(f->n_bytes, payload((uint32_t)f->number, want));
    assert_memory_equal(f->payload, want, f->n_bytes);
}

static void on_damage(void *user, uint64_t at, uint64_t n_bytes)
{
    struct seen *seen = user;
    (void)at;
    seen->n_damage++;
    seen->damage_bytes += n_bytes;
}

/* Scans a copy of just the size, so that a read beyond it shows. */
static struct frames_end scan(const char *data, size_t n, struct seen *seen)
{
    *seen = (struct seen){0};
    uint8_t *copy = malloc(n + !n);
    if (n) memcpy(copy, data, n);
    const struct frames_sink sink = {on_frame, on_damage, seen};
    struct frames_end end = frames_scan(copy, n, 1, &sink);
    free(copy);
    return end;
}

static void test_whole(void **state)
{
    (void)state;
    struct buf log = {0};
    struct seen seen;
    make(&log);
    struct frames_end end = scan(log.data, log.len, &seen);
    assert_int_equal(seen.n, N);
    assert_int_equal(seen.n_damage, 0);
    assert_int_equal(end.sound, log.len);
    assert_int_equal(end.next, N);
    assert_int_equal(end.newest, 1);
    assert_false(end.is_torn);
    buf_free(&log);
}

static void test_cuts(void **state)
{
    (void)state;
    struct buf log = {0};
    struct seen seen;
    make(&log);
    for (size_t n = 0; n < log.len; n++) {
        size_t whole = 0;
        while (starts[whole + 1] <= n)
            whole++;
        struct frames_end end = scan(log.data, n, &seen);
        assert_int_equal(seen.n, whole);
        assert_int_equal(end.next, whole);
        assert_int_equal(end.sound, starts[whole]);
        assert_int_equal(end.is_torn, n > starts[whole]);
        assert_int_equal(seen.damage_bytes, n - starts[whole]);
    }
    buf_free(&log);
}

static void test_flips(void **state)
{
    (void)state;
    struct buf log = {0};
    struct seen seen;
    make(&log);
    for (uint32_t i = 0; i < 4000; i++) {
        size_t at = word(5, i) % log.len, hit = 0;
        char bit = (char)(1 << word(6, i) % 8);
        while (starts[hit + 1] <= at)
            hit++;
        log.data[at] ^= bit;
        struct frames_end end = scan(log.data, log.len, &seen);
        log.data[at] ^= bit;
        assert_int_equal(seen.n, N - 1);
        assert_false(seen.frame[hit]);
        assert_int_equal(seen.n_damage, 1);
        assert_int_equal(seen.damage_bytes, starts[hit + 1] - starts[hit]);
        assert_int_equal(end.next, hit == N - 1 ? N - 1 : N);
        assert_false(end.is_torn);
    }
    buf_free(&log);
}

/* A log inside a payload, whose own header is damaged. */
static void test_pasted(void **state)
{
    (void)state;
    struct buf inner = {0}, log = {0};
    struct seen seen;
    frame_append(&inner, &(struct frame){1, 0, IDENTITY, 5, 0, (const uint8_t *)"abc", 3});
    frame_append(&inner,
                 &(struct frame){1, 0, 99, 6, FRAME_HEAD_BYTES + 51, (const uint8_t *)"x", 1});
    frame_append(&log,
                 &(struct frame){1, 0, IDENTITY, 0, 0, (const uint8_t *)inner.data, inner.len});
    uint8_t bytes[512];
    starts[1] = log.len;
    size_t n = payload(1, bytes);
    frame_append(&log, &(struct frame){1, 1, IDENTITY, 1, log.len, bytes, n});
    log.data[9] ^= 1;
    /* The second of the inner frames lies where its checksum says: a forger's work. It makes
     * the rest a foreign file, which is damage and no crash. */
    const struct frames_sink sink = {NULL, on_damage, &seen};
    seen = (struct seen){0};
    struct frames_end end = frames_scan((const uint8_t *)log.data, log.len, 1, &sink);
    assert_int_equal(end.next, 7);
    /* Without it only the outer frames count. */
    log.data[FRAME_HEAD_BYTES + 51] ^= 1;
    end = scan(log.data, log.len, &seen);
    assert_int_equal(seen.n, 1);
    assert_true(seen.frame[1]);
    assert_int_equal(end.next, 2);
    buf_free(&inner);
    buf_free(&log);
}

static void test_newer(void **state)
{
    (void)state;
    struct buf log = {0};
    struct seen seen;
    make(&log);
    frame_append(&log, &(struct frame){2, 0, IDENTITY, N, log.len, (const uint8_t *)"?", 1});
    struct frames_end end = scan(log.data, log.len, &seen);
    assert_int_equal(seen.n, N);
    assert_int_equal(seen.n_damage, 0);
    assert_int_equal(end.newest, 2);
    buf_free(&log);
}

/* Headers that overlap, each of which claims all that follows: they do not cost the square of
 * their number, which here would be many minutes. */
static void test_overlapping(void **state)
{
    (void)state;
    enum { N_HEADS = 400000 };
    struct buf log = {0};
    struct seen seen;
    for (size_t i = 0; i < N_HEADS; i++) {
        const size_t at = log.len;
        frame_append(&log, &(struct frame){.version = 1, .identity = IDENTITY, .at = at});
        uint8_t *head = (uint8_t *)log.data + at;
        const uint32_t n_bytes = (uint32_t)((N_HEADS - 1 - i) * FRAME_HEAD_BYTES);
        const uint64_t wrong = 1;
        memcpy(head + 12, &n_bytes, sizeof n_bytes);
        memcpy(head + 32, &wrong, sizeof wrong);
        const uint64_t sum = XXH3_64bits_withSeed(head, 40, at);
        memcpy(head + 40, &sum, sizeof sum);
    }
    scan(log.data, log.len, &seen);
    assert_int_equal(seen.n, 0);
    assert_int_equal(seen.damage_bytes, log.len);
    buf_free(&log);
}

/* The next number is above all, whatever the order of the frames is, and the newest version the
 * highest; bytes as many as a header are not a frame that was cut off. */
static void test_end(void **state)
{
    (void)state;
    static const char filler[FRAME_HEAD_BYTES + 20] = "HEARTHLG";
    struct buf log = {0};
    for (int last = 0; last < 2; last++) {
        buf_clear(&log);
        frame_append(&log, &(struct frame){2, 1, IDENTITY, 5, log.len, NULL, 0});
        frame_append(&log, &(struct frame){1, 1, IDENTITY, 3, log.len, NULL, 0});
        buf_append(&log, filler + last, sizeof filler - 1);
        const struct frames_end end =
            frames_scan((const uint8_t *)log.data, log.len, 1, &(struct frames_sink){0});
        assert_int_equal(end.next, 6);
        assert_int_equal(end.newest, 2);
        assert_int_equal(end.sound, 2 * FRAME_HEAD_BYTES);
        assert_false(end.is_torn);
    }
    buf_free(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),       cmocka_unit_test(test_end),
        cmocka_unit_test(test_cuts),        cmocka_unit_test(test_flips),
        cmocka_unit_test(test_pasted),      cmocka_unit_test(test_newer),
        cmocka_unit_test(test_overlapping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
