/* The sum of a model's files: the same whoever reads them, the thread, who waits for it, or the
 * one after the other; remembered, and read again where it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "engine/weights_id.h"
#include "gguf/gguf.h"

static char dir[] = "/tmp/hearth-weights-XXXXXX";
static struct gguf *model; /* of more than one piece */

static void forget(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s/*", dir);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
    (void)state;
    struct err err;
    model = gguf_open("examples/guide/guide-q8_0.gguf", &err);
    return model && mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gguf_close(model);
    forget();
    return rmdir(dir);
}

static struct key sum_of_model(void)
{
    XXH3_state_t *sum = XXH3_createState();
    const char *path;
    const uint8_t *data;
    size_t n_bytes;
    XXH3_128bits_reset(sum);
    for (size_t i = 0; gguf_file(model, i, &path, &data, &n_bytes); i++) {
        XXH3_128bits_update(sum, &n_bytes, sizeof n_bytes);
        XXH3_128bits_update(sum, data, n_bytes);
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
        assert_same(weights_id_wait(w), want);
        assert_true(weights_id_known(w, &id));
        assert_same(id, want);
        assert_same(weights_id_wait(w), want);
        weights_id_free(w);
        forget();
    }
}

static void test_remembered(void **state)
{
    (void)state;
    struct key id;
    struct weights_id *w = weights_id_new(model, dir);
    const struct key want = weights_id_wait(w);
    weights_id_free(w);
    w = weights_id_new(model, dir);
    assert_true(weights_id_known(w, &id));
    assert_same(id, want);
    weights_id_free(w);
    weights_id_free(NULL);
    forget();
}

static void test_given_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct weights_id *w = weights_id_new(model, dir);
        usleep(i * 50);
        weights_id_free(w);
        forget();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_reader),
        cmocka_unit_test(test_remembered),
        cmocka_unit_test(test_given_up),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
