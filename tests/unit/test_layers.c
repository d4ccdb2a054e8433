/* How many layers a device takes: for every size of its memory the most that fit, compared with
 * trying all cuts of every model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../outline.h"
#include "engine/layers.h"

enum { N_CTX = 512, MAX_ROWS = 64, N_TRIES = 24 };

static const struct backend *const nowhere[CUT_SIDES];
static size_t n_split, n_whole, n_refused;

static uint64_t needs(const struct model_sizes *s)
{
    return model_bytes(s, N_CTX) + LAYERS_SPARE;
}

static uint64_t needs_from(const struct program *p, uint32_t layer)
{
    struct model_sizes sizes[CUT_SIDES];
    layers_sizes(p, program_cut_at(p, layer), nowhere, MAX_ROWS, sizes);
    return needs(&sizes[CUT_BACK]);
}

static void check_memory(const struct program *p, uint64_t memory, uint64_t all)
{
    struct err err;
    uint32_t at, first = 0;
    bool is_whole;
    const uint32_t n = program_n_layers(p);
    const struct layers_wish wish = {.memory = memory, .n_ctx = N_CTX, .max_rows = MAX_ROWS};
    while (first < n && needs_from(p, first) > memory)
        first++;
    const bool ok = layers_choose(p, &wish, &at, &is_whole, &err);
    assert_int_equal(ok, all <= memory || first < n);
    n_refused += !ok;
    if (!ok) {
        assert_int_equal(err.code, ERR_MEMORY);
        return;
    }
    assert_int_equal(is_whole, all <= memory);
    n_whole += is_whole;
    if (is_whole) return;
    assert_int_equal(at, program_cut_at(p, first));
    n_split++;
}

static bool look(void *user, const struct program *p, struct err *err)
{
    (void)user;
    struct model_sizes all;
    model_program_sizes(p, NULL, MAX_ROWS, &all);
    const uint64_t least = needs_from(p, program_n_layers(p) - 1), most = needs(&all);
    for (uint64_t i = 0; i <= N_TRIES; i++)
        check_memory(p, least - 1 + (most - least + 1) * i / N_TRIES, most);

    /* A number is taken as it is, up to all; what shares the system's memory has all. */
    uint32_t at;
    bool is_whole;
    const uint32_t n = program_n_layers(p);
    for (uint32_t k = 1; k <= n + 1; k++) {
        assert_true(
            layers_choose(p, &(struct layers_wish){.n = k, .memory = 1}, &at, &is_whole, err));
        assert_int_equal(is_whole, k >= n);
        if (k < n) assert_int_equal(at, program_cut_at(p, n - k));
    }
    assert_true(layers_choose(p, &(struct layers_wish){.n_ctx = 1}, &at, &is_whole, err));
    assert_true(is_whole);

    /* With a draft, here another of its kind, there is to be room for both. */
    const uint64_t both = 2 * most - LAYERS_SPARE;
    struct layers_wish wish = {.memory = both, .n_ctx = N_CTX, .max_rows = MAX_ROWS};
    assert_true(layers_fit(&wish, &all, &all));
    wish.memory = both - 1;
    assert_false(layers_fit(&wish, &all, &all));
    wish.memory = most;
    assert_true(layers_fit(&wish, &all, NULL));
    wish.memory = 0;
    assert_true(layers_fit(&wish, &all, &all));
    return true;
}

static void the_most_that_fit(void **state)
{
    (void)state;
    const size_t n_models = outline_each(look);
    print_message("# %zu split, %zu whole, %zu refused\n", n_split, n_whole, n_refused);
    assert_int_equal(n_whole, n_models);
    assert_int_equal(n_refused, n_models);
    assert_true(n_split > 20 * n_models);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_most_that_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
