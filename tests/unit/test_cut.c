/* Programs cut in two: of every model at every layer both halves keep all rules of a program,
 * what they hand over is what lives on, and no page, state, key or layer is parted or lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../outline.h"
#include "backend/cut.h"
#include "backend/kv.h"
#include "backend/op_parts.h"
#include "model/program.h"

static size_t n_cuts;

static void check_rules(const struct program *p, const char *what)
{
    struct err err;
    if (!program_check(p, &err)) fail_msg("%s: %s", what, err.msg);
}

/* Every op is in one half, in order, with the weights it had; the others hand over. */
static void check_ops(const struct program *p, uint32_t layer, const struct program_cut *cut)
{
    size_t at = 0;
    for (int side = 0; side < CUT_SIDES; side++) {
        const struct program *half = &cut->side[side];
        for (size_t i = 0; i < half->n_ops; i++) {
            struct op op = half->ops[i];
            if (op.kind == OP_INPUT || op.kind == OP_OUTPUT) {
                assert_int_equal(op.kind, side == CUT_FRONT ? OP_OUTPUT : OP_INPUT);
                continue;
            }
            struct op whole = p->ops[at++];
            const struct weight **a[OP_MOST_WEIGHTS], **b[OP_MOST_WEIGHTS];
            assert_int_equal(op.kind, whole.kind);
            assert_int_equal(op.layer, whole.layer);
            if (whole.layer >= 0)
                assert_true((whole.layer < (int)layer) == (side == CUT_FRONT));
            const size_t n = op_weights(&whole, a);
            assert_int_equal(op_weights(&op, b), n);
            for (size_t w = 0; w < n; w++)
                assert_ptr_equal(*a[w], *b[w]);
            const uint32_t *kv = op_kv_index(&whole);
            if (kv) {
                const struct kv_layer *was = &p->kv[*kv], *is = &half->kv[*op_kv_index(&op)];
                const size_t before =
                    side == CUT_FRONT ? 0 : cut->side[0].page_bytes[was->part];
                assert_int_equal(is->at + before, was->at);
                assert_int_equal(kv_layer_bytes(is), kv_layer_bytes(was));
            }
            const uint32_t *state = op_state_index(&whole);
            if (state) {
                const struct state_part *is = &half->states[*op_state_index(&op)];
                const size_t before = side == CUT_FRONT ? 0 : cut->side[0].state_bytes;
                assert_int_equal(is->at + before, p->states[*state].at);
                assert_int_equal(is->n, p->states[*state].n);
            }
        }
    }
    assert_int_equal(at, p->n_ops);
}

/* A KV layer that a half reads is one that it stores, and the other way round. */
static void check_kv(const struct program *half)
{
    for (uint32_t kv = 0; kv < half->n_kv; kv++) {
        size_t n_stores = 0, n_reads = 0;
        for (size_t i = 0; i < half->n_ops; i++) {
            const struct op *op = &half->ops[i];
            n_stores += op->kind == OP_KV_STORE && op->kv_store.kv == kv;
            n_reads += op->kind == OP_ATTEND && op->attend.kv == kv;
        }
        assert_int_equal(n_stores, 1);
        assert_true(n_reads >= 1);
    }
}

static void check_cut(const struct program *p, uint32_t layer, const char *name)
{
    struct program_cut cut;
    char what[160];
    program_cut(p, layer, &cut);
    for (int side = 0; side < CUT_SIDES; side++) {
        snprintf(what, sizeof what, "%s, layer %u, side %d", name, layer, side);
        check_rules(&cut.side[side], what);
        check_kv(&cut.side[side]);
    }
    check_ops(p, layer, &cut);
    for (int part = 0; part < PAGE_PARTS; part++)
        assert_int_equal(cut.side[0].page_bytes[part] + cut.side[1].page_bytes[part],
                         p->page_bytes[part]);
    assert_int_equal(cut.side[0].state_bytes + cut.side[1].state_bytes, p->state_bytes);
    assert_int_equal(cut.side[0].n_output, cut.side[1].n_input);
    assert_true(cut.side[0].n_output > 0);
    n_cuts++;
    program_cut_free(&cut);
}

static bool look(void *user, const struct program *p, struct err *err)
{
    (void)err;
    const char *name = user;
    const uint32_t n_layers = program_n_layers(p);
    assert_true(n_layers > 0);
    assert_int_equal(program_cut_at(p, 0), 0);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        const uint32_t at = program_cut_at(p, layer);
        assert_true(at <= layer);
        assert_int_equal(program_cut_at(p, at), at);
        check_cut(p, at, name);
        /* gemma4's layers from the fifth on read the keys of the two before; of gpt-oss, every
         * other layer has a window, and both parts of a page have one size. */
        const uint32_t shares = layer < 2 ? layer : 2;
        assert_int_equal(at, strstr(name, "gemma4.gguf") ? shares
                             : strstr(name, "gpt-oss")   ? layer / 2 * 2
                                                         : layer);
    }
    return true;
}

static void all_models_at_all_layers(void **state)
{
    (void)state;
    const size_t n_models = outline_each(look);
    print_message("# %zu cuts of %zu models\n", n_cuts, n_models);
    assert_true(n_cuts > 50);
}

/* x0 is written in front, read behind in part; y is written again before it is read. */
static void what_lives_on(void **state)
{
    (void)state;
    const struct row_buffer buffers[] = {
        {"x", ROW_F32, 96}, {"y", ROW_F32, 32}, {"codes", ROW_A8, 32}, {"logits", ROW_F32, 32}};
    const struct ref x = {0, 0, 96}, y = {1, 0, 32}, codes = {2, 0, 32}, out = {3, 0, 32};
    const struct op ops[] = {
        {.kind = OP_EMBED, .layer = -1, .embed = {.out = x}},
        {.kind = OP_SCALE, .layer = 0, .scale = {x, 2}},
        {.kind = OP_ADD, .layer = 0, .add = {{0, 0, 32}, {0, 32, 32}, y, 1}},
        {.kind = OP_QUANTISE, .layer = 0, .quantise = {y, codes}},
        {.kind = OP_ADD, .layer = 1, .add = {{0, 0, 32}, {0, 64, 32}, y, 1}},
        {.kind = OP_SCALE, .layer = 1, .scale = {y, 2}},
        {.kind = OP_HEAD_ROWS, .layer = 1},
        {.kind = OP_ADD, .layer = 2, .add = {y, {0, 0, 32}, out, 1}},
        {.kind = OP_LOGITS, .layer = -1, .logits = {out, 1, 0}},
    };
    struct program p = {.n_buffers = 4, .buffers = buffers, .n_ops = 9, .ops = ops};
    assert_int_equal(program_n_layers(&p), 3);
    assert_int_equal(program_cut_at(&p, 2), 1); /* the head's rows would be in front */
    struct program_cut cut;
    program_cut(&p, 1, &cut);
    const struct program *front = &cut.side[CUT_FRONT], *back = &cut.side[CUT_BACK];
    assert_int_equal(front->n_output, 64);
    assert_int_equal(front->n_ops, 6);
    assert_int_equal(front->n_buffers, 3);
    assert_int_equal(back->n_ops, 7);
    assert_int_equal(back->n_buffers, 3); /* no codes */
    const struct op *first = &front->ops[4], *second = &front->ops[5];
    assert_true(first->output.in.at == 0 && first->output.in.n == 32 && first->output.at == 0);
    assert_true(second->output.in.at == 64 && second->output.in.n == 32);
    assert_int_equal(second->output.at, 32);
    assert_true(back->ops[1].input.out.at == 64 && back->ops[1].input.at == 32);
    program_cut_free(&cut);

    /* Codes that live on move the cut. */
    struct op late[9];
    memcpy(late, ops, sizeof ops);
    const struct ref a8 = {2, 0, 32};
    late[5] = (struct op){.kind = OP_MATMUL,
                          .layer = 1,
                          .matmul = {.in_a8 = a8, .n_mats = 1, .mat = {{.out = y}}}};
    p.ops = late;
    assert_int_equal(program_cut_at(&p, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lives_on),
        cmocka_unit_test(all_models_at_all_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
