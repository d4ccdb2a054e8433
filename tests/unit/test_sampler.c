#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "backend/draw.h"
#include "base/numeric_c.h"
#include "engine/engine.h"
#include "engine/penalties.h"
#include "engine/sampler.h"

static const struct engine_sampling plain = {
    .temp = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64};

/* The definition of sampler.h, by sorting everything. */

struct entry {
    float x;
    int32_t id;
};

static int by_order(const void *va, const void *vb)
{
    const struct entry *a = va, *b = vb;
    if (a->x != b->x) return a->x > b->x ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static void reference_penalties(const struct engine_sampling *how, float *l, size_t n_vocab,
                                const int32_t *ids, size_t n)
{
    size_t len = how->repeat_last_n < 0 ? n : (size_t)how->repeat_last_n;
    size_t from = n > len ? n - len : 0;
    for (size_t v = 0; v < n_vocab; v++) {
        uint32_t count = 0;
        for (size_t i = from; i < n; i++)
            count += ids[i] == (int32_t)v;
        if (!count) continue;
        float r = how->repeat_penalty;
        if (r != 1) l[v] = l[v] > 0 ? l[v] * (1 / r) : l[v] * r;
        l[v] -= (float)count * how->frequency_penalty;
        l[v] -= how->presence_penalty;
    }
}

static int32_t reference_draw(const struct engine_sampling *how, const float *logits,
                              size_t n_vocab, const int32_t *ids, size_t n, uint32_t pos)
{
    float *l = malloc(n_vocab * sizeof *l);
    struct entry *e = malloc(n_vocab * sizeof *e);
    memcpy(l, logits, n_vocab * sizeof *l);
    for (size_t i = 0; i < how->n_bias; i++) {
        float sum = 0; /* of all for this id, added once */
        bool is_first = true;
        for (size_t j = 0; j < how->n_bias; j++) {
            if (how->bias[j].id != how->bias[i].id) continue;
            is_first = is_first && j >= i;
            sum += how->bias[j].bias;
        }
        if (is_first) l[how->bias[i].id] += sum;
    }
    reference_penalties(how, l, n_vocab, ids, n);
    float max = -INFINITY;
    for (size_t i = 0; i < n_vocab; i++)
        max = l[i] > max ? l[i] : max;
    size_t m = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        float x = how->temp == 0 ? l[i] : (l[i] - max) * (1 / how->temp);
        if (x > -INFINITY) e[m++] = (struct entry){x, (int32_t)i};
    }
    qsort(e, m, sizeof *e, by_order);
    if (how->temp == 0) m = 1;
    if (how->top_k > 0 && (size_t)how->top_k < m) m = (size_t)how->top_k;
    if (how->temp != 0 && how->top_p < 1) {
        uint64_t sum = 0, got = 0;
        for (size_t i = 0; i < m; i++)
            sum += (uint64_t)(num_exp(e[i].x) * 0x1p30f);
        unsigned __int128 need = (unsigned __int128)sum * (uint64_t)(how->top_p * 0x1p24f);
        size_t keep = 0;
        do
            got += (uint64_t)(num_exp(e[keep++].x) * 0x1p30f);
        while (keep < m && ((unsigned __int128)got << 24) < need);
        m = keep;
    }
    float best = -INFINITY;
    int32_t id = e[0].id;
    for (size_t i = 0; how->temp != 0 && i < m; i++) {
        if (how->min_p > 0 && e[i].x < num_log(how->min_p)) continue;
        float y = e[i].x + draw_noise(how->reply_seed, pos, e[i].id);
        if (y > best || (y == best && e[i].id < id)) best = y, id = e[i].id;
    }
    free(l);
    free(e);
    return id;
}

/* Logits with ties, bans and a wide range. */
static void random_logits(float *l, size_t n)
{
    uint32_t spread = 1 + below(40), step = 1 + below(64);
    for (size_t i = 0; i < n; i++) {
        l[i] = ((float)below(spread * step) - (float)(spread * step) / 2) / (float)step;
        if (below(50) == 0) l[i] = -INFINITY;
    }
    l[below((uint32_t)n)] = 0.5f;
}

static void random_sampling(struct engine_sampling *how, struct engine_bias *bias,
                            size_t n_vocab)
{
    static const float temps[] = {0, 0.1f, 0.7f, 1, 1.3f, 5};
    static const int ks[] = {0, 1, 2, 7, 40, 1024, 1025, 3000};
    static const float ps[] = {1, 0.95f, 0.5f, 0.01f, 0, 0.99f};
    static const float mins[] = {0, 0.05f, 0.5f, 1, 1e-6f};
    *how = plain;
    how->temp = temps[below(6)];
    how->top_k = ks[below(8)];
    how->top_p = ps[below(6)];
    how->min_p = mins[below(5)];
    if (below(2)) how->repeat_penalty = 1.3f;
    if (below(2)) how->presence_penalty = 0.4f;
    if (below(2)) how->frequency_penalty = -0.25f;
    how->repeat_last_n = (int)below(4) * 10 - 1;
    how->reply_seed = (uint64_t)below(UINT32_MAX) << 32 | chance.n_drawn;
    how->n_bias = below(4);
    for (size_t i = 0; i < how->n_bias; i++)
        bias[i] = (struct engine_bias){(int32_t)below((uint32_t)n_vocab),
                                       below(3) ? 2.5f : -INFINITY};
    how->bias = bias;
}

static void test_against_sorting(void **state)
{
    (void)state;
    chance_begin(1);
    struct err err;
    for (int round = 0; round < 300; round++) {
        size_t n_vocab = round % 10 == 0 ? 4000 : 2 + below(200), n = 60;
        float *l = malloc(n_vocab * sizeof *l);
        int32_t ids[60];
        struct engine_sampling how;
        struct engine_bias bias[4];
        random_sampling(&how, bias, n_vocab);
        struct sampler *s = sampler_new(n_vocab);
        for (size_t i = 0; i < n; i++)
            ids[i] = (int32_t)below((uint32_t)n_vocab);
        assert_true(sampler_begin(s, &how, ids, 30, &err));
        for (size_t i = 30; i < n; i++) { /* counts kept incrementally from 30 to 60 */
            random_logits(l, n_vocab);
            int32_t want = reference_draw(&how, l, n_vocab, ids, i, (uint32_t)i), id = -1;
            if (!sampler_draw(s, l, (uint32_t)i, &id, &err)) {
                assert_int_equal(err.code, ERR_USER); /* all banned */
                break;
            }
            assert_int_equal(id, want);
            sampler_accept(s, ids, i + 1);
        }
        sampler_free(s);
        free(l);
    }
}

static void test_penalties_equal_a_rescan(void **state)
{
    (void)state;
    chance_begin(2);
    static const int lens[] = {-1, 0, 1, 5, 64, 300};
    int32_t ids[400];
    for (size_t i = 0; i < 400; i++)
        ids[i] = (int32_t)below(50);
    for (size_t k = 0; k < 6; k++) {
        struct penalties a, b;
        penalties_init(&a, 50);
        penalties_init(&b, 50);
        assert_true(b.n_changes - a.n_changes > UINT32_MAX); /* never one's for the other's */
        penalties_count(&a, lens[k], ids, 10);
        size_t n_counted = 0;
        for (size_t id = 0; id < 50; id++)
            n_counted += a.count[id];
        assert_int_equal(n_counted, lens[k] < 0 || lens[k] > 10 ? 10 : lens[k]);
        for (size_t n = 11; n <= 400; n++) {
            penalties_add(&a, ids, n);
            penalties_count(&b, lens[k], ids, n);
            assert_int_equal(a.n_distinct, b.n_distinct);
            assert_memory_equal(a.count, b.count, 50 * sizeof *a.count);
        }
        for (size_t n = 400; n > 1; n--) { /* taken back one by one, as refused drafts are */
            penalties_remove(&a, ids, n);
            penalties_count(&b, lens[k], ids, n - 1);
            assert_int_equal(a.n_distinct, b.n_distinct);
            assert_memory_equal(a.count, b.count, 50 * sizeof *a.count);
        }
        penalties_free(&a);
        penalties_free(&b);
    }
}

/* What the counts will be, row by row, is what they become; and whoever follows the changes has
 * them, or knows that it is too far behind. */
static void test_penalties_ahead(void **state)
{
    (void)state;
    chance_begin(3);
    enum { N = 120, MOST = 16 };
    int32_t ids[N];
    for (int round = 0; round < 200; round++) {
        static const int lens[] = {-1, 1, 2, 5, 30};
        const size_t n_vocab = 2 + below(20), n = 1 + below(N - MOST);
        const size_t n_ahead = 1 + below(MOST);
        for (size_t i = 0; i < n + n_ahead; i++)
            ids[i] = (int32_t)below((uint32_t)n_vocab);
        struct penalties p;
        struct draw_count ahead[2 * MOST];
        uint32_t n_upto[MOST + 1] = {99};
        penalties_init(&p, n_vocab);
        penalties_count(&p, lens[below(5)], ids, n);
        uint32_t counts[32], held[32];
        memcpy(counts, p.count, n_vocab * sizeof *counts);
        memcpy(held, p.count, n_vocab * sizeof *held);
        const uint64_t n_changes = p.n_changes;
        penalties_ahead(&p, ids, n, n_ahead, ahead, n_upto);
        for (size_t i = 0; i <= n_ahead; i++) {
            if (i > 0) penalties_add(&p, ids, n + i);
            assert_true(i > 0 || n_upto[i] == 0);
            for (uint32_t k = i > 0 ? n_upto[i - 1] : 0; k < n_upto[i]; k++)
                counts[ahead[k].id] = ahead[k].n;
            assert_memory_equal(counts, p.count, n_vocab * sizeof *counts);
        }
        assert_true(p.n_changes - n_changes <= DRAW_RECENT);
        for (uint64_t v = n_changes; v < p.n_changes; v++)
            held[p.recent[v % DRAW_RECENT]] = p.count[p.recent[v % DRAW_RECENT]];
        assert_memory_equal(held, p.count, n_vocab * sizeof *held);
        penalties_count(&p, 5, ids, n);
        assert_true(p.n_changes - n_changes > DRAW_RECENT);
        const uint64_t n_before = p.n_changes;
        penalties_count(&p, 5, NULL,
                        0); /* nothing is there, which is no change of the recent */
        assert_true(p.n_changes > n_before + DRAW_RECENT);
        penalties_free(&p);
    }
}

/* What leaves the window for tokens that nobody knows yet: some of those before, then the first
 * of the unknown ones themselves. */
static void test_penalties_leaving(void **state)
{
    (void)state;
    const int32_t ids[] = {7, 8, 9};
    int32_t out[4];
    struct penalties p;
    penalties_init(&p, 10);
    static const struct {
        int len;
        int32_t want[4];
    } cases[] = {{-1, {-1, -1, -1, -1}}, {5, {-1, -1, 7, 8}}, {2, {8, 9, -2, -3}}};
    for (size_t i = 0; i < 3; i++) {
        penalties_count(&p, cases[i].len, ids, 3);
        penalties_leaving(&p, ids, 3, 4, out);
        assert_memory_equal(out, cases[i].want, sizeof out);
    }
    penalties_free(&p);
}

/* A request has counts where a penalty needs them, and what lies ahead where it is asked for.
 */
static void test_requests(void **state)
{
    (void)state;
    struct err err;
    const int32_t ids[] = {3, 4, 3, 5};
    struct sampler *s = sampler_new(8);
    struct engine_sampling penalised[] = {plain, plain, plain, plain};
    penalised[1].repeat_penalty = 2, penalised[1].repeat_last_n = 1;
    penalised[2].presence_penalty = 1;
    penalised[3].frequency_penalty = 1;
    for (size_t i = 0; i < 4; i++) {
        assert_true(sampler_begin(s, &penalised[i], ids, 2, &err));
        const bool counts = i > 0;
        const struct draw *d = sampler_request(s, ids, 4, 2);
        assert_true(!!d->count == counts && !!d->ahead == counts && !!d->n_ahead == counts);
        if (i > 1) {
            assert_true(d->ahead[0].id == 3 && d->ahead[0].n == 2 && d->n_ahead[1] == 1);
            assert_true(d->ahead[1].id == 5 && d->ahead[1].n == 1 && d->n_ahead[2] == 2);
        }
        assert_true(!!sampler_request(s, ids, 3, 1)->ahead == counts);
        d = sampler_request_block(s, ids, 2, 1);
        assert_true(!!d->leaves == counts && !d->ahead && !d->n_ahead);
        if (counts) assert_int_equal(d->leaves[0], i == 1 ? 4 : -1);
        d = sampler_request(s, NULL, 0, 0);
        assert_true(!!d->count == counts && !d->leaves && !d->ahead && !d->n_ahead);
        const uint64_t n_changes = d->n_changes;
        sampler_accept(s, ids, 3);
        d = sampler_request(s, NULL, 0, 0);
        if (!counts) continue;
        assert_true(d->n_changes > n_changes);
        assert_int_equal(d->recent[n_changes % DRAW_RECENT], 3);
    }
    sampler_free(s);
}

static void test_greedy(void **state)
{
    (void)state;
    struct err err;
    struct sampler *s = sampler_new(4);
    struct engine_sampling how = plain;
    how.temp = 0;
    float l[4] = {1, 3, 3, -INFINITY};
    int32_t id;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_true(sampler_draw(s, l, 0, &id, &err));
    assert_int_equal(id, 1);
    struct engine_bias bias[2] = {{1, -INFINITY}, {0, 2}};
    how.bias = bias, how.n_bias = 2;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_true(sampler_draw(s, l, 0, &id, &err));
    assert_int_equal(id, 0);
    /* What is suppressed is banned, however high a reply would have it. */
    sampler_suppress(s, (int32_t[]){2, 0, 0}, 3);
    bias[0].bias = -1;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_true(sampler_draw(s, l, 0, &id, &err));
    assert_int_equal(id, 1);
    how.n_bias = 0;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_true(sampler_draw(s, l, 0, &id, &err));
    assert_int_equal(id, 1);
    sampler_free(s);
}

static void test_errors(void **state)
{
    (void)state;
    struct err err;
    struct sampler *s = sampler_new(3);
    struct engine_sampling how = plain;
    int32_t id;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_false(sampler_draw(s, (float[]){0, NAN, 1}, 0, &id, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_non_null(strstr(err.msg, "token 1 is not a number"));
    assert_false(sampler_draw(s, (float[]){0, 0, INFINITY}, 0, &id, &err));
    assert_false(sampler_draw(s, (float[]){-INFINITY, -INFINITY, -INFINITY}, 0, &id, &err));
    assert_string_equal(err.msg, "logit-bias bans every token");
    /* Numbers so large that bias or penalty make them infinite. */
    how.bias = &(struct engine_bias){2, 3e38f};
    how.n_bias = 1, how.top_p = 0.9f;
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    assert_false(sampler_draw(s, (float[]){0, -3e38f, 3e38f}, 0, &id, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    how.n_bias = 0, how.repeat_penalty = 0.01f, how.repeat_last_n = -1;
    assert_true(sampler_begin(s, &how, (int32_t[]){2}, 1, &err));
    assert_false(sampler_draw(s, (float[]){0, -3e38f, 3e38f}, 1, &id, &err));
    assert_int_equal(err.code, ERR_FORMAT);
    how = plain;
    how.bias = &(struct engine_bias){3, 1};
    how.n_bias = 1;
    assert_false(sampler_begin(s, &how, NULL, 0, &err));
    assert_string_equal(err.msg, "logit-bias names token 3, but the vocabulary has 3 tokens");
    how.bias = (struct engine_bias[]){{2, 3e38f}, {0, 1}, {2, 3e38f}};
    how.n_bias = 3;
    assert_false(sampler_begin(s, &how, NULL, 0, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, "logit-bias of token 2 is too large in all");
    how.n_bias = 0;
    how.bias = &(struct engine_bias){2, NAN};
    how.n_bias = 1;
    assert_false(sampler_begin(s, &how, NULL, 0, &err));
    assert_string_equal(err.msg, "logit-bias of token 2 is nan, expected a number");
    sampler_free(s);
}

static void test_ranges(void **state)
{
    (void)state;
    struct err err;
    struct sampler *s = sampler_new(3);
    struct engine_sampling how = plain;
    const struct {
        const char *name;
        float *at, lo, hi;
    } ranges[] = {{"temp", &how.temp, 0, 1e6f},
                  {"top-p", &how.top_p, 0, 1},
                  {"min-p", &how.min_p, 0, 1},
                  {"repeat-penalty", &how.repeat_penalty, 1e-3f, 1e3f},
                  {"presence-penalty", &how.presence_penalty, -1e3f, 1e3f},
                  {"frequency-penalty", &how.frequency_penalty, -1e3f, 1e3f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const float lo = ranges[i].lo, hi = ranges[i].hi;
        const float in[] = {lo, hi},
                    out[] = {nextafterf(lo, -INFINITY), nextafterf(hi, INFINITY), NAN};
        how = plain;
        for (size_t k = 0; k < 2; k++) {
            *ranges[i].at = in[k];
            assert_true(sampler_begin(s, &how, NULL, 0, &err));
        }
        for (size_t k = 0; k < 3; k++) {
            *ranges[i].at = out[k];
            assert_false(sampler_begin(s, &how, NULL, 0, &err));
            assert_int_equal(err.code, ERR_USER);
            assert_memory_equal(err.msg, ranges[i].name, strlen(ranges[i].name));
        }
    }
    sampler_free(s);
}

static void test_argmax(void **state)
{
    (void)state;
    assert_int_equal(sampler_argmax((float[]){-2, 1, NAN, 1, 0}, 5), 1);
    assert_int_equal(sampler_argmax((float[]){NAN, -INFINITY}, 2), -1);
}

/* One draw in 2^23 is of the last part of (0,1), where nine bits more place it. These are some,
 * with seed 1. */
static void test_noise_at_the_end(void **state)
{
    (void)state;
    static const struct {
        uint32_t pos;
        int32_t id;
        int bits;
    } cases[] = {{685, 5833, 264}, {1620, 15192, 164}, {1801, 2168, 286}, {2234, 8296, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double from_the_end = (511 - cases[i].bits + 0.5) * 0x1p-32;
        const double want = -log(-log1p(-from_the_end));
        assert_true(fabs((double)draw_noise(1, cases[i].pos, cases[i].id) - want) < 1e-5);
    }
}

/* The noise is that of a Gumbel distribution: its mean is Euler's constant, its variance
 * pi^2 / 6; it stays inside the bounds that the draw relies on. */
static void test_noise(void **state)
{
    (void)state;
    double sum = 0, squares = 0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        float g = draw_noise(42, (uint32_t)i >> 8, i & 255);
        assert_true(g > -2.9f && g < 22.9f);
        sum += (double)g;
        squares += (double)g * (double)g;
    }
    double mean = sum / n;
    assert_true(fabs(mean - 0.5772) < 0.01);
    assert_true(fabs(squares / n - mean * mean - 1.6449) < 0.04);
}

/* Draws follow the softmax: chi-squared over eight tokens, 7 degrees of freedom. */
static void test_distribution(void **state)
{
    (void)state;
    struct err err;
    struct sampler *s = sampler_new(8);
    struct engine_sampling how = plain;
    how.temp = 0.8f;
    how.reply_seed = 7;
    float l[8];
    double p[8], total = 0, chi = 0;
    int seen[8] = {0}, n = 40000;
    for (int i = 0; i < 8; i++) {
        l[i] = (float)i * 0.3f;
        total += p[i] = exp((double)l[i] / 0.8);
    }
    assert_true(sampler_begin(s, &how, NULL, 0, &err));
    for (int i = 0; i < n; i++) {
        int32_t id;
        assert_true(sampler_draw(s, l, (uint32_t)i, &id, &err));
        seen[id]++;
    }
    for (int i = 0; i < 8; i++) {
        double want = n * p[i] / total;
        chi += (seen[i] - want) * (seen[i] - want) / want;
    }
    assert_true(chi < 24.3); /* 0.1 % */
    sampler_free(s);
}

static void test_seeds(void **state)
{
    (void)state;
    assert_true(engine_reply_seed(1, 0, 0) ==
                UINT64_C(0x1e047488127bee41)); /* in every version */
    assert_true(engine_reply_seed(1, 0, 0) != engine_reply_seed(1, 0, 1));
    assert_true(engine_reply_seed(1, 0, 0) != engine_reply_seed(1, 1, 0));
    assert_true(engine_reply_seed(1, 0, 0) != engine_reply_seed(2, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_sorting),
        cmocka_unit_test(test_penalties_equal_a_rescan),
        cmocka_unit_test(test_penalties_ahead),
        cmocka_unit_test(test_penalties_leaving),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_noise_at_the_end),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
