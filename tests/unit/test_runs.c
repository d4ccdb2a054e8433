/* Which ops of a program run together on the CPU (cpu/exec_runs.c), and how they are cut. That
 * they compute the same is shown by tests/ops and tests/model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpu/exec_impl.h"

enum { HEAD = 64, Q_HEADS = 8, KV_HEADS = 4, Q = Q_HEADS * HEAD, K = KV_HEADS * HEAD };
enum { QKV, OUT, A8, GATE, UP, A8_WIDE, N_BUFFERS };

static const struct ref q = {QKV, 0, Q}, k = {QKV, Q, K}, v = {QKV, Q + K, K};
static const struct ref both = {QKV, 0, Q + K}, out = {OUT, 0, Q}, a8 = {A8, 0, Q};
static const struct ref gate = {GATE, 0, 256}, up = {UP, 0, 256}, wide = {A8_WIDE, 0, 256};
static const struct kv_layer kv = {
    .type = KV_F16, .n_heads = KV_HEADS, .head_dim_k = HEAD, .head_dim_v = HEAD};

static struct op norm(struct ref in, size_t group)
{
    return (struct op){.kind = OP_NORM, .norm = {.in = in, .out = in, .group = group}};
}

static struct op rope(struct ref x)
{
    return (struct op){.kind = OP_ROPE, .rope = {x, HEAD, 0}};
}

static struct op store(void)
{
    return (struct op){.kind = OP_KV_STORE, .kv_store = {k, v, 0}};
}

static struct op attend(void)
{
    return (struct op){.kind = OP_ATTEND, .attend = {.q = q, .out = out, .n_heads = Q_HEADS}};
}

static struct op quantise(void)
{
    return (struct op){.kind = OP_QUANTISE, .quantise = {out, a8}};
}

static const struct op product = {.kind = OP_MATMUL};

/* The runs of n ops from the first on, of few rows or of many. */
static struct run first_run(const struct op *ops, size_t n, bool few)
{
    const struct program p = {.n_ops = n, .ops = ops, .n_kv = 1, .kv = &kv};
    struct run *runs = runs_find(&p);
    const struct run first = runs[few * n];
    free(runs);
    return first;
}

static void attention_is_one_run_of_few_rows(void **state)
{
    (void)state;
    const struct op ops[] = {norm(q, HEAD), norm(k, HEAD), rope(q),    rope(k),
                             store(),       attend(),      quantise(), product};
    const struct run few = first_run(ops, 8, true), many = first_run(ops, 8, false);
    assert_int_equal(few.n_ops, 7);
    assert_int_equal(few.n_units, KV_HEADS);
    assert_int_equal(few.n_values, Q);
    assert_int_equal(many.n_ops, 5); /* a row's attention wants the keys of other rows */
    assert_int_equal(many.n_units, KV_HEADS);
}

static void a_rotation_of_queries_and_keys_becomes_two(void **state)
{
    (void)state;
    const struct op ops[] = {norm(q, HEAD), rope(both), store(), attend(), product, rope(q)};
    const struct program p = {.n_ops = 6, .ops = ops};
    size_t n;
    struct op *cut = runs_ops(&p, &n);
    assert_int_equal(n, 7);
    assert_int_equal(cut[1].kind, OP_ROPE);
    assert_int_equal(cut[1].rope.x.at, q.at);
    assert_int_equal(cut[1].rope.x.n, q.n);
    assert_int_equal(cut[2].kind, OP_ROPE);
    assert_int_equal(cut[2].rope.x.at, k.at);
    assert_int_equal(cut[2].rope.x.n, k.n);
    assert_int_equal(cut[3].kind, OP_KV_STORE);
    assert_int_equal(cut[6].rope.x.n, q.n);
    assert_int_equal(first_run(cut, n, true).n_ops, 5);
    free(cut);
}

/* Heads of q and of q and k together do not lie in the same parts. */
static void what_lies_across_does_not_join(void **state)
{
    (void)state;
    const struct op ops[] = {norm(q, HEAD), rope(both), store()};
    assert_int_equal(first_run(ops, 3, true).n_ops, 1);
    assert_int_equal(first_run(ops + 1, 2, true).n_ops, 1);
}

/* Nor does what needs a whole row, or has no part in common. */
static void a_cut_is_not_given_up(void **state)
{
    (void)state;
    const struct op glu = {.kind = OP_GLU, .glu = {gate, up, gate, GLU_SILU}};
    const struct op narrow = {.kind = OP_QUANTISE, .quantise = {gate, wide}};
    const struct op whole[] = {glu, norm(gate, gate.n), narrow};
    assert_int_equal(first_run(whole, 3, true).n_ops, 1);
    assert_int_equal(first_run(whole + 1, 2, true).n_units, 1);
    const struct op ops[] = {glu, narrow, product};
    const struct run run = first_run(ops, 3, false);
    assert_int_equal(run.n_ops, 2);
    assert_int_equal(run.n_units, 256 / A8_BLOCK);
    assert_int_equal(run.cost, 6 * 256);
    assert_int_equal(first_run(ops + 2, 1, true).n_ops, 0);
}

/* Heads of 100 values have blocks in common: attention keeps its own cut. */
static void a_cut_is_not_made_coarser(void **state)
{
    (void)state;
    enum { HEADS = 32, WIDE = HEADS * 100 };
    const struct kv_layer heads = {
        .type = KV_F16, .n_heads = HEADS, .head_dim_k = 100, .head_dim_v = 100};
    const struct ref in = {QKV, 0, WIDE}, codes = {A8, 0, WIDE}, to = {OUT, 0, WIDE};
    const struct op ops[] = {
        {.kind = OP_ATTEND, .attend = {.q = in, .out = to, .n_heads = HEADS}},
        {.kind = OP_QUANTISE, .quantise = {to, codes}}};
    const struct program p = {.n_ops = 2, .ops = ops, .n_kv = 1, .kv = &heads};
    struct run *runs = runs_find(&p);
    assert_int_equal(runs[2].n_ops, 1);
    assert_int_equal(runs[2].n_units, HEADS);
    free(runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_one_run_of_few_rows),
        cmocka_unit_test(a_rotation_of_queries_and_keys_becomes_two),
        cmocka_unit_test(what_lies_across_does_not_join),
        cmocka_unit_test(a_cut_is_not_given_up),
        cmocka_unit_test(a_cut_is_not_made_coarser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
