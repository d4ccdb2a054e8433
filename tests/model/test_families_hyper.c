/* hy_v4 on small random models: the logits against those of a second computation in double,
 * with streams, gates and sinks of latent attention, and experts that have limits. */
#include "second_latent.h"

enum { MOST_STREAMS = 8, TOP_K = 64 };
static const double base = 500, most = 1e-11;

/* What a file says of its streams. */
struct variant {
    size_t n;
    double eps, gain;
};

static const struct variant usual = {4, 1e-6, 2};
static const float limits[LAYERS] = {0, 0.5f, 0.75f, 7, 0, 0.625f, 1};

static struct form form_of(void)
{
    return (struct form){"hy_v4",
                         .sinks = true,
                         .latent = {.n_q = 20, .n_gates = HEADS * L_VALUE},
                         .expert_limits = limits,
                         .limit_first = true,
                         .experts = {.any = true,
                                     .sigmoid = true,
                                     .select = true,
                                     .n_dense = 1,
                                     .n_ff = L_WIDTH,
                                     .n_shared = L_WIDTH}};
}

/* Coefficients of n, with a scale for each run of n_streams. */
static void mixing_tensors(struct file *f, const char *stem, size_t n_streams, size_t n)
{
    char name[48];
    snprintf(name, sizeof name, "%s_fn.weight", stem);
    random_tensor(f, name, n_streams * EMBD, n, 0, 2 / sqrt((double)n_streams * EMBD));
    snprintf(name, sizeof name, "%s_base.weight", stem);
    random_tensor(f, name, n, 1, -0.5, 2);
    snprintf(name, sizeof name, "%s_scale.weight", stem);
    random_tensor(f, name, n / n_streams, 1, 1, 0.5);
}

/* All but the keys of streams. */
static void hyper_begin(struct file *f, const struct form *form, size_t n)
{
    char stem[32];
    latent_init(f, form);
    key_f32(f, "rope.freq_base", (float)base);
    if (!form->experts.as_is) key_bool(f, "expert_weights_norm", true);
    for (int i = 0; i < LAYERS; i++) {
        snprintf(stem, sizeof stem, "blk.%d.hc_attn", i);
        mixing_tensors(f, stem, n, 2 * n);
        snprintf(stem, sizeof stem, "blk.%d.hc_ffn", i);
        mixing_tensors(f, stem, n, 2 * n);
    }
    mixing_tensors(f, "output_hc", n, n);
}

static void hyper_init(struct file *f, const struct form *form, const struct variant *v)
{
    hyper_begin(f, form, v->n);
    key_u32(f, "hyper_connection.count", (uint32_t)v->n);
    key_f32(f, "hyper_connection.epsilon", (float)v->eps);
    key_f32(f, "hyper_connection.magnitude", (float)v->gain);
}

/* ---- the second computation ---- */

struct work {
    struct rows rows; /* its x is what attention and feed-forward read */
    struct latent_rows latent;
    double streams[N_IDS][MOST_STREAMS][EMBD], by[N_IDS][2 * MOST_STREAMS], out[N_IDS][EMBD];
};

/* What the streams of a row count by, and behind that what is added to them. */
static void coefficients(const struct file *f, int layer, const char *what,
                         const struct variant *v, double (*streams)[EMBD], size_t n, double *by)
{
    char name[32];
    double sized[MOST_STREAMS * EMBD];
    snprintf(name, sizeof name, "%s_base", what);
    const float *bases = values_of(f, layer, name);
    snprintf(name, sizeof name, "%s_scale", what);
    const float *factors = values_of(f, layer, name);
    snprintf(name, sizeof name, "%s_fn", what);
    norm(NULL, streams[0], v->n * EMBD, sized);
    times(values_of(f, layer, name), sized, v->n * EMBD, n, by);
    for (size_t i = 0; i < n; i++) {
        const bool is_added = i >= v->n;
        by[i] = sigmoid(by[i] * (double)factors[is_added] + (double)bases[i]);
        by[i] = by[i] * (is_added ? v->gain : 1) + v->eps;
    }
}

static void gather(const struct file *f, int layer, const char *what, const struct variant *v,
                   struct work *w, size_t n)
{
    for (size_t p = 0; p < N_IDS; p++) {
        double sum[EMBD] = {0};
        coefficients(f, layer, what, v, w->streams[p], n, w->by[p]);
        for (size_t i = 0; i < v->n; i++)
            add_times(sum, w->streams[p][i], w->by[p][i]);
        memcpy(w->rows.x[p], sum, sizeof sum);
    }
}

static void spread(const struct variant *v, struct work *w)
{
    for (size_t p = 0; p < N_IDS; p++)
        for (size_t i = 0; i < v->n; i++)
            add_times(w->streams[p][i], w->out[p], w->by[p][v->n + i]);
}

static void hyper_layer(const struct file *f, int layer, const struct variant *v,
                        const struct latent_sight *s, struct work *w)
{
    gather(f, layer, "hc_attn", v, w, 2 * v->n);
    latent_attention_of(f, layer, s, w->rows.x, &w->latent, w->out);
    spread(v, w);
    gather(f, layer, "hc_ffn", v, w, 2 * v->n);
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD];
        norm(values_of(f, layer, "ffn_norm"), w->rows.x[p], EMBD, in);
        experts_or_dense(f, layer, in, in, w->out[p]);
    }
    spread(v, w);
}

static void check_hyper(const char *name, const struct file *f, const struct variant *v,
                        const struct latent_sight *s)
{
    struct work *w = mem_zalloc(1, sizeof *w);
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    embed(f, &w->rows);
    for (size_t p = 0; p < N_IDS; p++)
        for (size_t i = 0; i < v->n; i++)
            memcpy(w->streams[p][i], w->rows.x[p], sizeof w->rows.x[p]);
    for (int layer = 0; layer < LAYERS; layer++)
        hyper_layer(f, layer, v, s, w);
    gather(f, -1, "output_hc", v, w, v->n);
    head(f, &w->rows, 0, want);
    check_logits(most, name, f, want);
    free(want);
    free(w);
}

/* ---- tests ---- */

/* One stream to as many as there may be, and numbers that are not the usual ones. */
static void test_streams(void **unused)
{
    (void)unused;
    static const struct variant variants[] = {
        {1, 1e-6, 2}, {2, 1e-6, 2}, {4, 1e-6, 2}, {8, 1e-6, 2}, {4, 0.125, 2}, {3, 0, 0.375},
    };
    const struct form form = form_of();
    const struct latent_sight s = latent_plain(base, 1);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const struct variant *v = &variants[i];
        char name[64];
        struct file f;
        hyper_init(&f, &form, v);
        snprintf(name, sizeof name, "hy_v4 of %zu streams, %g, %g", v->n, v->eps, v->gain);
        check_hyper(name, &f, v, &s);
        file_free(&f);
    }
}

/* Coefficients that are almost 0: what is read has a size again, so that they count by what
 * they are beside each other. */
static void test_small(void **unused)
{
    (void)unused;
    const struct form form = form_of();
    const struct latent_sight s = latent_plain(base, 1);
    struct file f;
    hyper_init(&f, &form, &(struct variant){4, 0, 2});
    for (int i = 0; i < LAYERS; i++) {
        struct values *bases = tensor_of(&f, i, "hc_attn_base");
        for (size_t k = 0; k < 4; k++)
            bases->v[k] -= 12;
    }
    check_hyper("hy_v4, small coefficients", &f, &(struct variant){4, 0, 2}, &s);
    file_free(&f);
}

static void test_experts(void **unused)
{
    (void)unused;
    struct form form = form_of();
    const struct latent_sight s = latent_plain(base, 1);
    struct file f;
    hyper_init(&f, &form, &usual);
    key_f32(&f, "expert_weights_scale", 2.5f);
    f.scales.experts = 2.5;
    check_hyper("hy_v4, weights of experts scaled", &f, &usual, &s);
    file_free(&f);
    form.experts.as_is = true, form.experts.n_dense = 0, form.experts.select = false;
    form.expert_limits = NULL;
    hyper_init(&f, &form, &usual);
    key_u32(&f, "expert_gating_func", 2);
    check_hyper("hy_v4, weights of experts as they are", &f, &usual, &s);
    file_free(&f);
    form.latent.by_heads = true;
    hyper_init(&f, &form, &usual);
    check_hyper("hy_v4, keys of all heads", &f, &usual, &s);
    file_free(&f);
}

static void test_yarn(void **unused)
{
    (void)unused;
    enum { BY = 8, N_ORIG = 512 };
    const struct form form = form_of();
    struct latent_sight s = latent_plain(base, 1);
    struct file f;
    s.rotation = yarn_rotation(L_ROT, base, BY, N_ORIG);
    s.rotation.neighbours = true;
    hyper_init(&f, &form, &usual);
    key_str(&f, "rope.scaling.type", "yarn");
    key_f32(&f, "rope.scaling.factor", BY);
    key_u32(&f, "rope.scaling.original_context_length", N_ORIG);
    check_hyper("hy_v4 with YaRN", &f, &usual, &s);
    key_f32(&f, "rope.scaling.yarn_log_multiplier", 0.0625f);
    check_refused(&f,
                  "m.gguf: key hy_v4.rope.scaling.yarn_log_multiplier should be 0 or missing, "
                  "but is 0.0625");
    file_free(&f);
}

/* In a context that an indexer chooses all of, its tensors have no say. */
static void test_indexer(void **unused)
{
    (void)unused;
    const struct form form = form_of();
    const struct latent_sight s = latent_plain(base, 1);
    struct file f;
    hyper_init(&f, &form, &usual);
    for (int i = 0; i < LAYERS; i += 2) {
        layer_tensor(&f, i, "indexer.attn_q_b", 20, 32);
        layer_tensor(&f, i, "indexer.attn_k", EMBD, 16);
        layer_tensor(&f, i, "indexer.k_norm", 16, 1);
        bias_tensor(&f, i, "indexer.k_norm", 16);
        layer_tensor(&f, i, "indexer.proj", EMBD, 2);
    }
    check_refused(&f,
                  "m.gguf: tensor blk.0.indexer.attn_q_b.weight: hearth's hy_v4 has no such "
                  "tensor, and leaving it out would change the answers");
    key_u32(&f, "attention.indexer.top_k", 4096);
    check_hyper("hy_v4 with an indexer", &f, &usual, &s);
    file_free(&f);
    hyper_init(&f, &form, &usual);
    key_u32(&f, "attention.indexer.top_k", TOP_K);
    check_reach(&f, TOP_K, "attends to what its indexer chooses",
                "hy_v4.attention.indexer.top_k");
    file_free(&f);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct form form = form_of();
    struct file f;
    hyper_begin(&f, &form, usual.n);
    check_refused(&f, "m.gguf: key hy_v4.hyper_connection.count is missing");
    key_u32(&f, "hyper_connection.count", 9);
    check_refused(
        &f, "m.gguf: key hy_v4.hyper_connection.count should be between 1 and 8, but is 9");
    file_free(&f);
    hyper_init(&f, &form, &(struct variant){4, 2, 2});
    check_refused(&f,
                  "m.gguf: key hy_v4.hyper_connection.epsilon should be between 0 and 1, but "
                  "is 2");
    file_free(&f);
    form.unit_limits = limits;
    hyper_init(&f, &form, &usual);
    check_refused(&f, "m.gguf: key hy_v4.swiglu_clamp_shexp should be between 0 and 0, but is "
                      "0.5 in layer 1");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_small),
        cmocka_unit_test(test_experts), cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_indexer), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_hyper", tests, NULL, NULL);
}
