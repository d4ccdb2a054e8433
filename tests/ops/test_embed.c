/* Rows of tables: all machines give the reference's bits, by token and by position, wherever a
 * step begins; the row of a position is that of a token of the same number; and a step beyond a
 * table is refused. */
#include "ops.h"

#include "gguf/random_blocks.h"

enum { N_COLS = 512, N_TOKENS = 96, N_PLACES = 70 };

static const enum qtype types[] = {QTYPE_F32,  QTYPE_F16,  QTYPE_BF16,
                                   QTYPE_Q8_0, QTYPE_Q4_K, QTYPE_Q6_K};

static uint8_t blocks[N_TOKENS * N_COLS * 4];

static int32_t token_of(uint32_t pos)
{
    return (int32_t)((pos * 37 + 11) % N_TOKENS);
}

struct tables {
    struct row_buffer rows;
    struct op ops[3];
    struct program p;
};

/* A table of so many rows, times a scale that is not 1. */
static void open_table(struct tables *t, struct backend *be, enum qtype type, size_t n_rows,
                       bool by_pos)
{
    struct err err;
    const struct ref all = {0, 0, N_COLS};
    struct weight *w = backend_matrix(be, type, 1, n_rows, N_COLS, blocks, NULL, &err);
    if (!w) fail_msg("%s", err.msg);
    t->rows = (struct row_buffer){"test", ROW_F32, N_COLS};
    t->ops[0] = (struct op){.kind = OP_EMBED, .embed = {w, all, 0.375f, by_pos}};
    t->ops[1] = (struct op){.kind = OP_HEAD_ROWS};
    t->ops[2] = (struct op){.kind = OP_LOGITS, .logits = {all, 1, 0}};
    t->p = (struct program){
        .buffers = &t->rows, .n_buffers = 1, .ops = t->ops, .n_ops = 3, .n_vocab = N_COLS};
}

static bool run_at(struct exec *x, uint32_t pos, uint32_t n, const int32_t *tokens, float *out,
                   struct err *err)
{
    const struct step step = {
        .n_rows = n, .pos = pos, .tokens = tokens, .n_logits = n, .logits = out};
    return exec_run(x, &step, err);
}

/* All places in steps of so many rows; */
static void run_all(struct backend *be, enum qtype type, bool by_pos, uint32_t n_rows,
                    float *out)
{
    struct tables t;
    struct err err;
    int32_t tokens[N_PLACES];
    open_table(&t, be, type, by_pos ? N_PLACES : N_TOKENS, by_pos);
    struct exec *x = exec_new(be, &t.p, n_rows, &err);
    if (!x) fail_msg("%s", err.msg);
    for (uint32_t i = 0; i < N_PLACES; i++)
        tokens[i] = token_of(i);
    for (uint32_t pos = 0; pos < N_PLACES; pos += n_rows) {
        const uint32_t n = N_PLACES - pos < n_rows ? N_PLACES - pos : n_rows;
        if (!run_at(x, pos, n, tokens + pos, out + (size_t)pos * N_COLS, &err))
            fail_msg("%s: %s", backend_name(be), err.msg);
    }
    exec_free(x);
}

static void same_everywhere(enum qtype type, bool by_pos, const float *want)
{
    static const uint32_t steps[] = {1, 3, 8, 40, N_PLACES};
    float *got = mem_zalloc(N_PLACES * N_COLS, sizeof *got);
    for (int m = 0; m < N_MACHINES; m++) {
        if (!machines[m].be) continue;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            char what[96];
            snprintf(what, sizeof what, "%s by %s, steps of %u, %s", qtype_info(type)->name,
                     by_pos ? "position" : "token", steps[i], backend_name(machines[m].be));
            run_all(machines[m].be, type, by_pos, steps[i], got);
            assert_same_bits(got, want, N_PLACES * N_COLS, what);
        }
    }
    free(got);
}

static void all_types(void **state)
{
    (void)state;
    const size_t n_bytes = N_COLS * sizeof(float);
    float *by_token = mem_zalloc(N_PLACES, n_bytes), *by_pos = mem_zalloc(N_PLACES, n_bytes);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct random_blocks r = random_blocks_new(types[i], 1, 5 + i);
        random_blocks_fill(&r, blocks, (size_t)N_TOKENS * N_COLS);
        run_all(machines[0].be, types[i], false, N_PLACES, by_token);
        run_all(machines[0].be, types[i], true, N_PLACES, by_pos);
        size_t n_met = 0;
        for (uint32_t pos = 0; pos < N_PLACES; pos++) {
            const int32_t id = token_of(pos);
            if (id >= N_PLACES) continue;
            n_met++;
            assert_memory_equal(by_token + (size_t)pos * N_COLS, by_pos + (size_t)id * N_COLS,
                                n_bytes);
        }
        assert_true(n_met > N_PLACES / 2);
        assert_memory_not_equal(by_token, by_pos, n_bytes);
        same_everywhere(types[i], false, by_token);
        same_everywhere(types[i], true, by_pos);
        say_compared(qtype_info(types[i])->name);
    }
    free(by_token);
    free(by_pos);
}

/* The first that has no row is named, and the exec goes on. */
static void beyond(void **state)
{
    (void)state;
    static const int32_t tokens[4] = {0, 1, 2, 3}, wrong[4] = {0, 1, N_TOKENS, -1};
    float *out = mem_zalloc(4 * N_COLS, sizeof *out);
    for (int m = 0; m < N_MACHINES; m++) {
        struct tables t;
        struct err err;
        if (!machines[m].be) continue;
        open_table(&t, machines[m].be, QTYPE_F32, N_PLACES, true);
        struct exec *x = exec_new(machines[m].be, &t.p, 4, &err);
        assert_false(run_at(x, N_PLACES - 3, 4, tokens, out, &err));
        assert_int_equal(err.code, ERR_USER);
        assert_string_equal(err.msg, "position 70: the model has 0 to 69");
        assert_false(run_at(x, UINT32_MAX, 4, tokens, out, &err));
        assert_true(run_at(x, N_PLACES - 4, 4, wrong, out, &err)); /* nothing reads tokens */
        exec_free(x);
        open_table(&t, machines[m].be, QTYPE_F32, N_TOKENS, false);
        x = exec_new(machines[m].be, &t.p, 4, &err);
        assert_false(run_at(x, 0, 4, wrong, out, &err));
        assert_string_equal(err.msg, "token id 96: the vocabulary has 0 to 95");
        assert_true(run_at(x, N_PLACES, 4, tokens, out, &err));
        exec_free(x);
    }
    free(out);
}

int main(void)
{
    machines_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_types),
        cmocka_unit_test(beyond),
    };
    const int failed = cmocka_run_group_tests_name("embed", tests, NULL, NULL);
    machines_close();
    return failed;
}
