/* Sequences of random tokens on a timeline, for tests that compare what it holds with what its
 * tokens give. What goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_TIMELINE_CASE_H
#define TESTS_TIMELINE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../chance.h"
#include "engine/timeline.h"
#include "engine/verify.h"

/* Draws ids[from..to). */
static inline void random_ids(int32_t *ids, size_t from, size_t to, size_t n_vocab)
{
    for (size_t i = from; i < to; i++)
        ids[i] = (int32_t)below((uint32_t)n_vocab);
}

/* Makes ids[0..n) its tokens; what that cost. */
static inline struct timeline_cost sync_to(struct timeline *tl, const int32_t *ids, size_t n)
{
    struct timeline_cost cost;
    struct err err;
    if (!timeline_sync(tl, ids, n, NULL, &cost, &err)) fail_msg("%s", err.msg);
    assert_int_equal(cost.n_cached + cost.n_prefilled, n);
    return cost;
}

/* Whatever it holds has the bits that its tokens give, computed again. */
static inline void same_as_computed(struct timeline *tl)
{
    struct verify_verdict v;
    struct err err;
    if (!timeline_verify(tl, NULL, &v, &err)) fail_msg("%s", err.msg);
    assert_int_equal(v.what, VERIFY_SAME);
}

#endif
