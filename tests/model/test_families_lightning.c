/* minimax-01, whose layers have lightning attention (L in form.kinds), whose states decay by
 * what is of head and layer alone, or attention, and add what they give to the norm that they
 * read, on small random models: the logits against those of a second computation in double. No
 * case may differ by ten times what it was measured to. */
#include "second_model.h"

enum { INNER = HEADS * HEAD_DIM };
static const float residual = 3.5f;
static const double base = 500;
enum { N_ROT = HEAD_DIM / 2 };

static struct form form_of(const char *kinds)
{
    return (struct form){"minimax-01", .norm_before = true, .kinds = kinds,
                         .experts = {.any = true}};
}

/* A file but for what adds to what, and for which layers have states. */
static void lightning_begin(struct file *f, const struct form *form)
{
    file_begin(f, form);
    key_u32(f, "feed_forward_length", FF);
    key_u32(f, "attention.head_count_kv", KV_HEADS);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(f, "expert_used_count", USED);
    key_u32(f, "rope.dimension_count", N_ROT);
    key_f32(f, "rope.freq_base", (float)base);
    for (int i = 0; i < LAYERS; i++) {
        norm_tensors(f, i, "attn_norm");
        if (form->kinds[i] == 'L') {
            layer_tensor(f, i, "attn_qkv", EMBD, 3 * INNER);
            layer_tensor(f, i, "attn_gate", EMBD, INNER);
            layer_tensor(f, i, "attn_norm_2", INNER, 1);
            layer_tensor(f, i, "attn_output", INNER, EMBD);
        } else {
            attention_tensors(f, i);
        }
        norm_tensors(f, i, "ffn_norm");
        feed_forward_tensors(f, i);
    }
}

/* ---- the second computation ---- */

static double silu(double x)
{
    return x * sigmoid(x);
}

/* How much of a head's state a layer keeps for the next token. */
static double kept(int layer, size_t head)
{
    const double slope = pow(2, -8.0 / HEADS * (double)(head + 1));
    return exp(-slope * (1 - (double)layer / (LAYERS - 1) + 1e-5));
}

/* A head takes in its run of Q, K and V, and gives what Q finds. */
static void advance(double s[HEAD_DIM][HEAD_DIM], double keeps, const double *qkv, double *out)
{
    const double *q = qkv, *k = qkv + HEAD_DIM, *v = k + HEAD_DIM;
    for (size_t j = 0; j < HEAD_DIM; j++) {
        out[j] = 0;
        for (size_t i = 0; i < HEAD_DIM; i++) {
            s[i][j] = keeps * s[i][j] + silu(k[i]) * silu(v[j]);
            out[j] += silu(q[i]) * s[i][j];
        }
    }
}

/* x = what the layer gives for norm(x), plus that norm times the residual's scale. */
static void lightning(const struct file *f, int layer, struct rows *rows)
{
    double states[HEADS][HEAD_DIM][HEAD_DIM] = {0};
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], qkv[3 * INNER], gate[INNER], heads[INNER];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        times(values_of(f, layer, "attn_qkv"), in, EMBD, 3 * INNER, qkv);
        times(values_of(f, layer, "attn_gate"), in, EMBD, INNER, gate);
        for (size_t h = 0; h < HEADS; h++)
            advance(states[h], kept(layer, h), qkv + 3 * HEAD_DIM * h, heads + HEAD_DIM * h);
        norm(values_of(f, layer, "attn_norm_2"), heads, INNER, heads);
        for (size_t i = 0; i < INNER; i++)
            heads[i] *= sigmoid(gate[i]);
        times(values_of(f, layer, "attn_output"), heads, INNER, EMBD, rows->x[p]);
        add_times(rows->x[p], in, (double)residual);
    }
}

/* The same of attention, which adds to x. */
static void attended(const struct file *f, int layer, const struct sight *s, struct rows *rows)
{
    attention(f, layer, s, rows);
    for (size_t p = 0; p < N_IDS; p++) {
        add_times(rows->x[p], rows->given[p], -1);
        add_times(rows->x[p], rows->h[p], (double)residual);
    }
}

static void fed(const struct file *f, int layer, double *x)
{
    double in[EMBD];
    norm(values_of(f, layer, "ffn_norm"), x, EMBD, in);
    experts_or_dense(f, layer, in, in, x);
    add_times(x, in, (double)residual);
}

static void check_lightning(double most, const char *name, const struct file *f)
{
    const struct sight s = {0, plain_rotation(N_ROT, base)};
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (f->form->kinds[layer] == 'L')
            lightning(f, layer, rows);
        else
            attended(f, layer, &s, rows);
        for (size_t p = 0; p < N_IDS; p++)
            fed(f, layer, rows->x[p]);
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(rows);
    free(want);
}

/* ---- the tests ---- */

/* Which layers have states the file says one by one, or how many follow each other, or not. */
static void test_layers(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"LLALLLA", "ALLLALL", "LLALLAL", "LLLLLLL"};
    for (size_t i = 0; i < 4; i++) {
        const struct form form = form_of(orders[i]);
        struct file f;
        char name[48];
        bool states[LAYERS];
        lightning_begin(&f, &form);
        key_f32(&f, "residual_scale", residual);
        for (int l = 0; l < LAYERS; l++)
            states[l] = orders[i][l] == 'L';
        if (i < 2) bools_key(&f, "attention.recurrent_layers", states, LAYERS);
        if (i == 2) key_u32(&f, "full_attention_interval", 3);
        snprintf(name, sizeof name, "minimax-01 %s", orders[i]);
        check_lightning(1e-10, name, &f);
        file_free(&f);
    }
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct form form = form_of("LLLLLLL");
    struct file f;
    lightning_begin(&f, &form);
    check_refused(&f, "m.gguf: key minimax-01.residual_scale is missing");
    key_f32(&f, "residual_scale", residual);
    key_f32(&f, "expert_weights_scale", 2);
    check_refused(&f,
                  "m.gguf: key minimax-01.expert_weights_scale is 2, but hearth's minimax-01 "
                  "has weights that add up to 1");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_lightning", tests, NULL, NULL);
}
