/* The checker over programs that break a rule, each with its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/impl.h"
#include "backend/kv.h"
#include "model/program.h"

/* A small right program, to be broken: x -> norm -> matmul -> logits. */
struct small {
    struct weight table, vec, head;
    struct row_buffer buffers[3];
    struct op ops[5];
    struct program p;
};

static void small_init(struct small *s)
{
    *s = (struct small){
        .table = {QTYPE_F32, 1, 16, 8, NULL},
        .vec = {QTYPE_F32, 1, 1, 8, NULL},
        .head = {QTYPE_F16, 1, 16, 8, NULL},
        .buffers = {{"x", ROW_F32, 8}, {"h", ROW_F32, 8}, {"logits", ROW_F32, 16}},
    };
    const struct ref x = {0, 0, 8}, h = {1, 0, 8}, out = {2, 0, 16};
    s->ops[0] =
        (struct op){.kind = OP_EMBED, .embed = {.table = &s->table, .out = x, .scale = 1}};
    s->ops[1] = (struct op){.kind = OP_NORM, .norm = {x, h, &s->vec, 8, 1e-5f, NULL}};
    s->ops[2] = (struct op){.kind = OP_HEAD_ROWS};
    s->ops[3] =
        (struct op){.kind = OP_MATMUL,
                    .matmul = {.in_f32 = h, .n_mats = 1, .mat = {{&s->head, NULL, NULL, out}}}};
    s->ops[4] = (struct op){.kind = OP_LOGITS, .logits = {out, 1, 0}};
    s->p = (struct program){
        .n_buffers = 3, .n_ops = 5, .buffers = s->buffers, .ops = s->ops, .n_vocab = 16};
}

static void check_broken(const struct program *p, const char *message)
{
    struct err err = {0};
    assert_false(program_check(p, &err));
    assert_string_equal(err.msg, message);
}

static void test_checker(void **unused)
{
    (void)unused;
    struct small s;
    struct err err;
    small_init(&s);
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    s.ops[1].norm.out.n = 9;
    check_broken(&s.p, "op 1 (norm, layer 0): rows of different widths");
    small_init(&s);
    s.ops[1].norm.in.buf = 7;
    check_broken(&s.p, "op 1 (norm, layer 0): a buffer that is not there");
    small_init(&s);
    s.ops[1].norm.in.at = SIZE_MAX;
    check_broken(&s.p, "op 1 (norm, layer 0): values beyond the row");
    small_init(&s);
    s.ops[1].norm.in.buf = 1;
    check_broken(&s.p, "op 1 (norm, layer 0): it reads what nothing wrote");
    small_init(&s);
    s.ops[1].norm.group = 3;
    check_broken(&s.p, "op 1 (norm, layer 0): a broken group");
    small_init(&s);
    s.vec.n_cols = 4;
    check_broken(&s.p, "op 1 (norm, layer 0): a vector of another length");
    small_init(&s);
    s.head.type = QTYPE_Q8_0;
    check_broken(&s.p, "op 3 (matmul, layer 0): no input of the kind that its matrix reads");
    small_init(&s);
    s.head.n_rows = 15;
    check_broken(&s.p, "op 3 (matmul, layer 0): a matrix of another shape");
    small_init(&s);
    s.ops[2].kind = OP_NORM;
    s.ops[2].norm = s.ops[1].norm;
    check_broken(&s.p, "op 4 (logits, layer 0): not the last op after head rows");
    small_init(&s);
    s.buffers[2].width = 17;
    check_broken(&s.p, "op 4 (logits, layer 0): a buffer that holds more than the logits");
    small_init(&s);
    s.p.n_ops = 4;
    check_broken(&s.p, "no logits at the end");
    small_init(&s);
    struct kv_layer kv[2] = {{KV_F16, 2, 8, 8, 0, PAGE_FULL, 0},
                             {KV_F16, 2, 8, 8, 4032, PAGE_FULL, 0}};
    s.p.kv = kv;
    s.p.n_kv = 2;
    s.p.page_bytes[PAGE_FULL] = 1 << 20;
    check_broken(&s.p, "KV layer 1 overlaps another");
    kv[1].at = 2 * kv_layer_bytes(&kv[0]);
    s.p.page_unit[PAGE_FULL] = kv_head_bytes(&kv[0]);
    check_broken(&s.p, "a page is not made of its units");
    s.p.page_bytes[PAGE_FULL] = 2 * kv_layer_bytes(&kv[0]);
    kv[1].at /= 2;
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    kv[1].n_heads = 1, kv[1].head_dim_v = 24;
    check_broken(&s.p, "a page is not made of its units");
}

/* A table of positions has rows as long as the embedding's, and any number of them. */
static void test_checker_tables(void **unused)
{
    (void)unused;
    struct small s;
    struct err err;
    small_init(&s);
    s.table.n_rows = 15;
    check_broken(&s.p, "op 0 (embed, layer 0): a matrix of another shape");
    s.ops[0].embed.by_pos = true;
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    s.table.n_cols = 7;
    check_broken(&s.p, "op 0 (embed, layer 0): a matrix of another shape");
    s.ops[0].embed.table = NULL;
    check_broken(&s.p, "op 0 (embed, layer 0): a matrix of another shape");
}

/* What takes the place of the norm and leaves its result alone. */
static void test_checker_rows(void **unused)
{
    (void)unused;
    const struct ref x = {0, 0, 8}, h = {1, 0, 8}, one = {1, 0, 1};
    const struct weight odd = {QTYPE_F32, 1, 1, 7, NULL};
    struct small s;
    struct err err;
    small_init(&s);
    s.ops[1] = (struct op){.kind = OP_CUT, .cut = {x, h, 1}};
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    s.ops[1].cut.out = one;
    check_broken(&s.p, "op 1 (cut, layer 0): rows of different widths");
    s.ops[1] = (struct op){.kind = OP_FACTORS, .factors = {x, h, &s.vec, &s.vec}};
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    s.ops[1].factors.out = (struct ref){0, 1, 8};
    s.buffers[0].width = 9;
    check_broken(&s.p, "op 1 (factors, layer 0): it writes over part of its input");
    s.ops[1].factors.out = h;
    s.ops[1].factors.bias = &odd;
    check_broken(&s.p, "op 1 (factors, layer 0): a vector of another length");
    s.ops[1].factors.bias = NULL;
    s.vec.n_cols = 7;
    check_broken(&s.p, "op 1 (factors, layer 0): a vector of another length");
    s.ops[1] = (struct op){.kind = OP_XIELU, .xielu = {x, 1, 0x1p-21f, 1}};
    check_broken(&s.p, "op 1 (xielu, layer 0): a factor that is almost 0");
    s.ops[1] = (struct op){.kind = OP_ROW_GATE, .row_gate = {x, {1, 0, 3}, true}};
    check_broken(&s.p, "op 1 (row gate, layer 0): it reads what nothing wrote");
    s.ops[1].row_gate.gate = (struct ref){0, 0, 1};
    check_broken(
        &s.p, "op 1 (row gate, layer 0): no gates beside the row, one for each of equal runs");
    s.buffers[0].width = 12;
    s.ops[0].embed.out.n = s.table.n_cols = 12;
    s.ops[1].row_gate.gate = (struct ref){0, 8, 3};
    check_broken(
        &s.p, "op 1 (row gate, layer 0): no gates beside the row, one for each of equal runs");
    s.ops[1].row_gate.gate.n = 4;
    check_broken(&s.p, "op 3 (matmul, layer 0): it reads what nothing wrote");
    s.buffers[0].width = 8;
    s.ops[0].embed.out.n = s.table.n_cols = 8;
    s.ops[1] = (struct op){.kind = OP_SIZE, .size = {x, one}};
    check_broken(&s.p, "op 3 (matmul, layer 0): it reads what nothing wrote");
    s.ops[1].size.out.n = 2;
    check_broken(&s.p, "op 1 (size, layer 0): no single size beside the row");
    s.ops[1].size.out = (struct ref){0, 3, 1};
    check_broken(&s.p, "op 1 (size, layer 0): no single size beside the row");
}

/* Decays that no row changes. */
static void test_checker_decays(void **unused)
{
    (void)unused;
    struct small s;
    struct err err;
    small_init(&s);
    s.vec.n_cols = 4;
    s.ops[1] = (struct op){.kind = OP_DECAY, .decay = {.out = {1, 0, 8}, .a = &s.vec}};
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    s.ops[1].decay.bias = &s.vec;
    check_broken(&s.p, "op 1 (decay, layer 0): no input, and yet betas or biases");
    s.ops[1].decay.bias = NULL;
    s.ops[1].decay.bound = -1;
    check_broken(&s.p, "op 1 (decay, layer 0): a bound that decays cannot have");
}

/* x -> a route to each -> products with halves of x -> dealt out -> matmul -> logits. */
struct routed {
    struct weight table, experts, head;
    struct row_buffer buffers[6];
    struct op ops[7];
    struct program p;
};

static void routed_init(struct routed *s)
{
    *s = (struct routed){
        .table = {QTYPE_F32, 1, 16, 8, NULL},
        .experts = {QTYPE_F32, 2, 8, 4, NULL},
        .head = {QTYPE_F16, 1, 16, 8, NULL},
        .buffers = {{"x", ROW_F32, 8},
                    {"each", ROW_ROUTE, 2},
                    {"both", ROW_F32, 16},
                    {"h", ROW_F32, 8},
                    {"rest", ROW_F32, 8},
                    {"logits", ROW_F32, 16}},
    };
    const struct ref x = {0, 0, 8}, each = {1, 0, 2}, both = {2, 0, 16};
    const struct ref h = {3, 0, 8}, rest = {4, 0, 8}, out = {5, 0, 16};
    s->ops[0] =
        (struct op){.kind = OP_EMBED, .embed = {.table = &s->table, .out = x, .scale = 1}};
    s->ops[1] = (struct op){.kind = OP_ROUTE, .route = {.out = each, .kind = ROUTE_EACH}};
    s->ops[2] = (struct op){.kind = OP_MATMUL_EXPERTS,
                            .experts = {.in_f32 = x,
                                        .route = each,
                                        .w = &s->experts,
                                        .out = both,
                                        .split = true,
                                        .n_parts = 1}};
    s->ops[3] = (struct op){.kind = OP_RUNS, .runs = {both, h, rest, 4, 4, false}};
    s->ops[4] = (struct op){.kind = OP_HEAD_ROWS};
    s->ops[5] =
        (struct op){.kind = OP_MATMUL,
                    .matmul = {.in_f32 = h, .n_mats = 1, .mat = {{&s->head, NULL, NULL, out}}}};
    s->ops[6] = (struct op){.kind = OP_LOGITS, .logits = {out, 1, 0}};
    s->p = (struct program){
        .n_buffers = 6, .n_ops = 7, .buffers = s->buffers, .ops = s->ops, .n_vocab = 16};
}

/* A route by scores, which are x. */
static void routed_by(struct routed *s, enum route_kind kind, uint32_t n_groups,
                      uint32_t n_groups_used)
{
    routed_init(s);
    s->ops[1].route = (struct op_route){.scores = {0, 0, 8},
                                        .out = s->ops[1].route.out,
                                        .kind = kind,
                                        .n_groups = n_groups,
                                        .n_groups_used = n_groups_used};
}

static void test_checker_routes(void **unused)
{
    (void)unused;
    struct routed s;
    struct err err;
    routed_init(&s);
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    s.ops[1].route.scores.n = 8;
    check_broken(&s.p, "op 1 (route, layer 0): all are chosen, and yet by something");
    routed_init(&s);
    s.experts.n_mats = 1;
    check_broken(&s.p, "op 2 (experts, layer 0): more ranks than experts");
    s.ops[2].experts.n_share = 2;
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    routed_by(&s, ROUTE_SIGMOID, 4, 1);
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
    routed_by(&s, ROUTE_SOFTMAX, 4, 1);
    check_broken(&s.p, "op 1 (route, layer 0): groups of another router, or too many");
    routed_by(&s, ROUTE_SIGMOID, 3, 1);
    check_broken(&s.p, "op 1 (route, layer 0): broken groups");
    routed_by(&s, ROUTE_SIGMOID, 8, 1);
    check_broken(&s.p, "op 1 (route, layer 0): broken groups");
    routed_by(&s, ROUTE_SIGMOID, 4, 0);
    check_broken(&s.p, "op 1 (route, layer 0): no groups to use");
    routed_by(&s, ROUTE_SIGMOID, 4, 1);
    s.buffers[1].width = s.ops[1].route.out.n = 3;
    check_broken(&s.p, "op 1 (route, layer 0): more experts chosen than there are");
    routed_by(&s, ROUTE_GIVEN, 0, 0);
    check_broken(&s.p, "op 1 (route, layer 0): all have their number's rank, and yet there are "
                       "others");
    s.ops[1].route.scores.n = 2;
    if (!program_check(&s.p, &err)) fail_msg("%s", err.msg);
}

static void test_checker_runs(void **unused)
{
    (void)unused;
    struct routed s;
    routed_init(&s);
    s.ops[3].runs.run_a = 0;
    check_broken(&s.p, "op 3 (runs, layer 0): a broken run");
    routed_init(&s);
    s.ops[3].runs.run_a = 3;
    check_broken(&s.p, "op 3 (runs, layer 0): a broken run");
    routed_init(&s);
    s.ops[3].runs.a.n = 4; /* in every turn: only where parts are joined */
    check_broken(&s.p, "op 3 (runs, layer 0): parts of another width");
    routed_init(&s);
    s.ops[3].runs.b.n = 4;
    check_broken(&s.p, "op 3 (runs, layer 0): parts of another width");
    routed_init(&s);
    s.ops[3].runs.a.buf = 2;
    check_broken(&s.p, "op 3 (runs, layer 0): it writes over its input");
    routed_init(&s);
    s.ops[3].runs.b.buf = 3;
    check_broken(&s.p, "op 3 (runs, layer 0): it writes over its input");
    routed_init(&s);
    s.ops[3].runs.join = true;
    check_broken(&s.p, "op 3 (runs, layer 0): it reads what nothing wrote");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checker),        cmocka_unit_test(test_checker_tables),
        cmocka_unit_test(test_checker_rows),   cmocka_unit_test(test_checker_decays),
        cmocka_unit_test(test_checker_routes), cmocka_unit_test(test_checker_runs),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
