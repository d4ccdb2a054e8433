/* The sum of a model's files: the same whoever reads them, the thread, who waits for it, or the
 * one after the other; remembered, and read again where it is not. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "../guide.h"
#include "../scratch.h"
#include "base/buf.h"
#include "base/file.h"
#include "engine/weights_id.h"
#include "gguf/gguf.h"

static char dir[SCRATCH_PATH];
static struct gguf *model; /* of more than one piece */

static int set_up(void **state)
{
    (void)state;
    struct err err;
    model = gguf_open(GUIDE, &err);
    scratch_folder(dir, "weights");
    return model ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gguf_close(model);
    scratch_remove(dir);
    return 0;
}

static struct key wait_for(struct weights_id *w)
{
    struct key id;
    assert_true(weights_id_wait(w, NULL, &id));
    return id;
}

static struct key sum_of_model(void)
{
    XXH3_state_t *sum = XXH3_createState();
    const struct file_map *file;
    const char *path;
    XXH3_128bits_reset(sum);
    for (size_t i = 0; (file = gguf_file(model, i, &path)); i++) {
        XXH3_128bits_update(sum, &file->n_bytes, sizeof file->n_bytes);
        XXH3_128bits_update(sum, file->data, file->n_bytes);
    }
    const XXH128_hash_t id = XXH3_128bits_digest(sum);
    XXH3_freeState(sum);
    return (struct key){id.low64, id.high64};
}

static void assert_same(struct key got, struct key want)
{
    assert_true(got.lo == want.lo && got.hi == want.hi);
}

static void test_any_reader(void **state)
{
    (void)state;
    const struct key want = sum_of_model();
    for (unsigned i = 0; i < 40; i++) {
        struct weights_id *w = weights_id_new(model, dir);
        struct key id;
        usleep(i * 50); /* the thread has read none of it, some, or all */
        assert_same(wait_for(w), want);
        assert_null(weights_id_changed(w));
        assert_true(weights_id_known(w, &id));
        assert_same(id, want);
        assert_same(wait_for(w), want);
        weights_id_free(w);
        scratch_empty(dir);
    }
}

static void test_remembered(void **state)
{
    (void)state;
    struct key id;
    struct weights_id *w = weights_id_new(model, dir);
    const struct key want = wait_for(w);
    weights_id_free(w);
    w = weights_id_new(model, dir);
    assert_true(weights_id_known(w, &id));
    assert_same(id, want);
    weights_id_free(w);
    weights_id_free(NULL);
    scratch_empty(dir);
}

/* Whatever was read by then, no wrong sum is remembered. */
static void test_given_up(void **state)
{
    (void)state;
    const struct key want = sum_of_model();
    for (unsigned i = 0; i < 20; i++) {
        struct weights_id *w = weights_id_new(model, dir);
        usleep(i * 50);
        weights_id_free(w);
        w = weights_id_new(model, dir);
        assert_same(wait_for(w), want);
        weights_id_free(w);
        scratch_empty(dir);
    }
}

/* A copy of the model with another last byte, or with its own. */
static void copy_model(const char *path, bool other)
{
    struct buf bytes = {0};
    struct err err;
    assert_true(file_read(GUIDE, SIZE_MAX, &bytes, &err));
    if (other) bytes.data[bytes.len - 1] ^= 1;
    assert_true(file_replace(path, bytes.data, bytes.len, &err));
    buf_free(&bytes);
}

/* Opens such a copy, at path. */
static struct gguf *open_copy(char path[SCRATCH_PATH + 10])
{
    struct err err;
    snprintf(path, SCRATCH_PATH + 10, "%s/m.gguf", dir);
    copy_model(path, false);
    return gguf_open(path, &err);
}

/* Another file of the same size takes the model's place while that is open: its sum is not
 * remembered for the other. */
static void test_replaced(void **state)
{
    (void)state;
    char path[SCRATCH_PATH + 10];
    struct err err;
    struct key id;
    struct gguf *before = open_copy(path), *after;
    copy_model(path, true);
    struct weights_id *w = weights_id_new(before, dir);
    const struct key sum = wait_for(w);
    weights_id_free(w);
    after = gguf_open(path, &err);
    w = weights_id_new(after, dir);
    id = wait_for(w);
    assert_true(id.lo != sum.lo || id.hi != sum.hi);
    weights_id_free(w);
    gguf_close(before);
    gguf_close(after);
    scratch_empty(dir);
}

/* A file that is written to while it is open: what was loaded may not be what is read now. */
static void test_written(void **state)
{
    (void)state;
    char path[SCRATCH_PATH + 10];
    struct key id;
    struct gguf *g = open_copy(path);
    FILE *f = fopen(path, "r+");
    assert_true(fseek(f, -1, SEEK_END) == 0 && fputc('x', f) == 'x' && fclose(f) == 0);
    struct weights_id *w = weights_id_new(g, dir);
    assert_false(weights_id_wait(w, NULL, &id));
    assert_false(weights_id_known(w, &id));
    assert_string_equal(weights_id_changed(w), path);
    weights_id_free(w);
    gguf_close(g);
    scratch_empty(dir);
}

/* Memory that the mapping of a model takes, in KiB. */
static size_t resident_kib(const struct gguf *g)
{
    const char *path;
    const struct file_map *file = gguf_file(g, 0, &path);
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false;
    size_t kib = SIZE_MAX;
    assert_non_null(f);
    while (kib == SIZE_MAX && fgets(line, sizeof line, f)) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            here = from == (uintptr_t)file->data;
        else if (here && sscanf(line, "Rss: %zu kB", &kib) == 1)
            break;
    }
    fclose(f);
    assert_true(kib != SIZE_MAX);
    return kib;
}

/* Reading does not leave a second copy of the weights in the program's memory. */
static void test_leaves_nothing(void **state)
{
    (void)state;
    struct err err;
    const struct key want = sum_of_model();
    struct gguf *g = gguf_open(GUIDE, &err);
    assert_non_null(g);
    const size_t before = resident_kib(g);
    struct weights_id *w = weights_id_new(g, dir);
    assert_same(wait_for(w), want);
    weights_id_free(w);
    assert_true(resident_kib(g) <= before);
    gguf_close(g);
    scratch_empty(dir);
}

/* Bytes that are no file have nothing they could be read from again. */
static void test_bytes_stay(void **state)
{
    (void)state;
    struct buf bytes = {0};
    struct err err;
    assert_true(file_read(GUIDE, SIZE_MAX, &bytes, &err));
    struct gguf *g = gguf_from_memory(bytes.data, bytes.len, "bytes", &err);
    assert_non_null(g);
    const struct key want = sum_of_model();
    for (int i = 0; i < 2; i++) {
        struct weights_id *w = weights_id_new(g, dir);
        assert_same(wait_for(w), want);
        weights_id_free(w);
    }
    gguf_close(g);
    buf_free(&bytes);
}

/* Who waits may change their mind; then it is read as before. */
static void test_cancelled(void **state)
{
    (void)state;
    const struct key want = sum_of_model();
    atomic_bool cancel = true;
    struct key id;
    for (unsigned i = 0; i < 20; i++) {
        struct weights_id *w = weights_id_new(model, dir);
        usleep(i * 50);
        if (weights_id_wait(w, &cancel, &id)) assert_same(id, want);
        for (int k = 0; !weights_id_known(w, &id) && k < 30000; k++)
            usleep(1000);
        assert_true(weights_id_known(w, &id));
        assert_same(id, want);
        weights_id_free(w);
        scratch_empty(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_reader),     cmocka_unit_test(test_remembered),
        cmocka_unit_test(test_given_up),       cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_written),        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_leaves_nothing), cmocka_unit_test(test_bytes_stay),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
