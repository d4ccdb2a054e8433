/* Families that few use, on small random models: the logits against those of a second
 * computation. No case may differ by ten times what it was measured to. */
#include "second_model.h"

static const double base = 10000; /* of files that say nothing of it */

/* As check_plain, by halves; fused: the file has Q, K and V in one tensor. */
static void check_halves(double most, const char *name, struct file *f, bool fused)
{
    const struct sight s = {0, plain_rotation(HEAD_DIM, base)};
    struct sight layers[LAYERS];
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    every(layers, 1, s, s);
    compute(f, layers, LAYERS, 0, want);
    if (fused) fuse(f);
    check_logits(most, name, f, want);
    free(want);
}

/* The key of the feed-forward's width is of gate and up together. */
static void test_qwen(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const struct form qwen = {"qwen", .norm_before = true, .biases = true,
                                     .ff_doubled = true};
    struct file f;
    file_init(&f, &qwen);
    check_halves(most, "qwen", &f, true);
    file_free(&f);
    static const struct form bare = {"qwen", .norm_before = true, .ff_doubled = true};
    file_init(&f, &bare);
    fuse(&f);
    check_refused(&f, "m.gguf: tensor blk.0.attn_qkv.bias: expected [128], but it is missing");
    file_free(&f);
    static const struct form single = {"qwen", .norm_before = true, .biases = true};
    file_init(&f, &single);
    check_refused(&f,
                  "m.gguf: tensor blk.0.ffn_gate.weight: expected [64, 20], found [64, 40]");
    file_free(&f);
    file_begin(&f, &bare);
    key_f32(&f, "attention.layer_norm_epsilon", 1e-6f);
    key_u32(&f, "feed_forward_length", 2 * FF + 1);
    check_refused(&f, "m.gguf: key qwen.feed_forward_length should be even, but is 81");
    file_free(&f);
}

static void experts_beside(struct file *f)
{
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(f, i, "ffn_norm_exps", EMBD, 1);
        layer_tensor(f, i, "ffn_gate", EMBD, EMBD);
        layer_tensor(f, i, "ffn_up", EMBD, EMBD);
        layer_tensor(f, i, "ffn_down", EMBD, EMBD);
    }
}

/* What a row as wide as EMBD gives in the dense feed-forward, added to it. */
static void square_unit(const struct file *f, int layer, double *x)
{
    double in[EMBD], gate[EMBD], up[EMBD], out[EMBD];
    norm(values_of(f, layer, "ffn_norm"), x, EMBD, in);
    times(values_of(f, layer, "ffn_gate"), in, EMBD, EMBD, gate);
    times(values_of(f, layer, "ffn_up"), in, EMBD, EMBD, up);
    for (size_t i = 0; i < EMBD; i++)
        up[i] *= gate[i] * sigmoid(gate[i]);
    times(values_of(f, layer, "ffn_down"), up, EMBD, EMBD, out);
    add_times(x, out, 1);
}

static void compute_arctic(const struct file *f, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct sight all = {0, plain_rotation(HEAD_DIM, base)};
    all.rotation.neighbours = true;
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        attention(f, layer, &all, rows);
        for (size_t p = 0; p < N_IDS; p++) {
            double in[EMBD], out[EMBD];
            square_unit(f, layer, rows->x[p]);
            norm(values_of(f, layer, "ffn_norm_exps"), rows->given[p], EMBD, in);
            experts(f, layer, in, in, out);
            add_times(rows->x[p], out, 1);
        }
    }
    head(f, rows, 0, logits);
    free(rows);
}

/* Experts read what the layer is given, and a dense feed-forward is beside them. */
static void test_arctic(void **unused)
{
    (void)unused;
    const double most = 1e-11;
    for (int i = 0; i < 2; i++) {
        const struct form arctic = {"arctic", .norm_before = true,
                                    .experts = {.any = true, .n_ff = i == 1 ? 24 : 0}};
        float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
        struct file f;
        file_init(&f, &arctic);
        experts_beside(&f);
        if (i == 1) key_f32(&f, "expert_weights_scale", 1.5f);
        if (i == 1) f.scales.experts = 1.5;
        compute_arctic(&f, want);
        check_logits(most, i == 0 ? "arctic" : "arctic with narrow experts", &f, want);
        free(want);
        file_free(&f);
    }
}

/* Keeps the first rows and columns of a matrix. */
static void cut_matrix(struct file *f, int layer, const char *what, size_t n_in, size_t n_out)
{
    struct values *t = tensor_of(f, layer, what);
    for (size_t o = 0; o < n_out; o++)
        memmove(t->v + o * n_in, t->v + o * t->n_in, n_in * sizeof *t->v);
    t->n_in = n_in;
    t->n_out = n_out;
}

static void clear_columns(struct file *f, int layer, const char *what, size_t from)
{
    const struct values *t = tensor_of(f, layer, what);
    for (size_t o = 0; o < t->n_out; o++)
        memset(t->v + o * t->n_in + from, 0, (t->n_in - from) * sizeof *t->v);
}

enum { FEW_HEADS = HEADS / 2, FEW_KV = KV_HEADS / 2, LITTLE_FF = FF / 4 };

static bool is_small(int layer)
{
    return layer % 3 != 1;
}

/* Some layers have fewer heads and are narrower: what the second computation has of them more
 * counts for nothing there, and is then taken out of the file. */
static void openelm_init(struct file *f, const struct form *form)
{
    int32_t heads[LAYERS], kv_heads[LAYERS], widths[LAYERS];
    file_begin(f, form);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(f, "attention.key_length", HEAD_DIM);
    key_u32(f, "attention.value_length", HEAD_DIM);
    for (int i = 0; i < LAYERS; i++) {
        heads[i] = is_small(i) ? FEW_HEADS : HEADS;
        kv_heads[i] = is_small(i) ? FEW_KV : KV_HEADS;
        widths[i] = is_small(i) ? LITTLE_FF : FF;
        norm_tensors(f, i, "attn_norm");
        attention_tensors(f, i);
        norm_tensors(f, i, "ffn_norm");
        dense_tensors(f, i);
        clear_columns(f, i, "attn_output", (size_t)heads[i] * HEAD_DIM);
        clear_columns(f, i, "ffn_down", (size_t)widths[i]);
    }
    array_key(f, "attention.head_count", heads, LAYERS);
    array_key(f, "attention.head_count_kv", kv_heads, LAYERS);
    array_key(f, "feed_forward_length", widths, LAYERS);
}

static void make_small(struct file *f, int layer)
{
    cut_matrix(f, layer, "attn_q", EMBD, FEW_HEADS * HEAD_DIM);
    cut_matrix(f, layer, "attn_k", EMBD, FEW_KV * HEAD_DIM);
    cut_matrix(f, layer, "attn_v", EMBD, FEW_KV * HEAD_DIM);
    cut_matrix(f, layer, "attn_output", FEW_HEADS * HEAD_DIM, EMBD);
    cut_matrix(f, layer, "ffn_gate", EMBD, LITTLE_FF);
    cut_matrix(f, layer, "ffn_up", EMBD, LITTLE_FF);
    cut_matrix(f, layer, "ffn_down", LITTLE_FF, EMBD);
}

/* Layers differ in their numbers of heads and their widths. */
static void test_openelm(void **unused)
{
    (void)unused;
    const double most = 2e-12;
    static const struct form openelm = {"openelm", .norm_before = true, .norm_heads = true,
                                        .heads_apart = true};
    const struct sight s = {0, plain_rotation(HEAD_DIM, 1000)};
    struct sight layers[LAYERS];
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct file f;
    openelm_init(&f, &openelm);
    key_f32(&f, "rope.freq_base", 1000);
    every(layers, 1, s, s);
    compute(&f, layers, LAYERS, 0, want);
    for (int i = 0; i < LAYERS; i++)
        if (is_small(i)) make_small(&f, i);
    check_logits(most, "openelm", &f, want);
    fuse(&f);
    check_logits(most, "openelm, fused", &f, want);
    free(want);
    file_free(&f);
    openelm_init(&f, &openelm);
    check_refused(&f, "m.gguf: tensor blk.0.attn_q.weight: expected [64, 32], found [64, 64]");
    file_free(&f);
}

/* Attention and feed-forward read the same row. */
static void test_plamo(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const struct form plamo = {"plamo", .norm_before = true, .parallel = true};
    static const struct form other = {"plamo", .norm_before = true};
    struct file f;
    file_init(&f, &plamo);
    check_halves(most, "plamo", &f, false);
    check_halves(most, "plamo, fused", &f, true);
    file_free(&f);
    file_init(&f, &other);
    check_refused(&f, "m.gguf: tensor blk.0.ffn_norm.weight: hearth's plamo has no such "
                      "tensor, and leaving it out would change the answers");
    file_free(&f);
}

static void compute_talkie(const struct file *f, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    double(*first)[EMBD] = mem_zalloc(N_IDS, sizeof *first);
    const struct sight all = {0, plain_rotation(HEAD_DIM, base)};
    embed(f, rows);
    memcpy(first, rows->x, sizeof rows->x);
    for (int layer = 0; layer < LAYERS; layer++) {
        attention(f, layer, &all, rows);
        for (size_t p = 0; p < N_IDS; p++) {
            feed_forward(f, layer, NULL, rows->x[p]);
            add_times(rows->x[p], first[p], (double)*values_of(f, layer, "layer_output_scale"));
        }
    }
    head(f, rows, 0, logits);
    free(first);
    free(rows);
}

/* The matrix is divided by the number that it gets. */
static void gain_tensor(struct file *f, int layer, const char *what, float gain)
{
    char name[48];
    const struct values *t = tensor_of(f, layer, what);
    for (size_t i = 0; i < t->n_in * t->n_out; i++)
        t->v[i] /= gain;
    snprintf(name, sizeof name, "blk.%d.%s.scale", layer, what);
    random_tensor(f, name, 1, 1, (double)gain, 0);
}

/* Norms are bare, heads of Q have gains, and the embedding is added in each layer. */
static void test_talkie(void **unused)
{
    (void)unused;
    const double most = 4e-13;
    static const struct form talkie = {"talkie",
                                       .norm_before = true,
                                       .norm_bare = true,
                                       .norm_heads_bare = true,
                                       .norm_embedding = true,
                                       .head_gains = true};
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct file f;
    file_init(&f, &talkie);
    check_refused(&f, "m.gguf: key talkie.logit_scale is missing");
    key_f32(&f, "logit_scale", 0.25f);
    check_refused(&f, "m.gguf: tensor blk.0.layer_output_scale.weight: expected [1], but it is "
                      "missing");
    f.scales.logits = 4;
    for (int i = 0; i < LAYERS; i++)
        layer_tensor(&f, i, "layer_output_scale", 1, 1);
    compute_talkie(&f, want);
    check_logits(most, "talkie", &f, want);
    for (int i = 0; i < LAYERS; i++) {
        gain_tensor(&f, i, "attn_output", i % 2 == 0 ? 0.5f : 4);
        if (i != 3) gain_tensor(&f, i, "ffn_down", i % 2 == 0 ? 2 : 0.25f);
    }
    check_logits(most, "talkie with gains of matrices", &f, want);
    bias_tensor(&f, 2, "ffn_down", EMBD);
    check_refused(&f, "m.gguf: tensor blk.2.ffn_down.bias: hearth's talkie has no such tensor");
    free(want);
    file_free(&f);
}

static const float gate_limits[LAYERS] = {0.5f, 0, 0.75f, 7, 1, 0.625f, 0};

/* Experts' gates are kept below limits, and layers that see everything do not rotate. */
static void test_maple(void **unused)
{
    (void)unused;
    const double most = 3e-12;
    struct form form = {"maple",
                        .norm_before = true,
                        .norm_heads = true,
                        .expert_limits = gate_limits,
                        .limit_first = true,
                        .experts = {.any = true, .n_ff = 24}};
    const struct sight full = {0, plain_rotation(0, base)};
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &form);
    key_u32(&f, "attention.sliding_window", WINDOW);
    check_refused(&f, "m.gguf: key maple.attention.sliding_window_pattern is missing");
    pattern_key(&f, 4);
    every(layers, 4, full, (struct sight){WINDOW, plain_rotation(HEAD_DIM, base)});
    check_within(most, "maple", &f, layers, LAYERS, 0);
    key_u32(&f, "rope.dimension_count", HEAD_DIM / 2);
    key_f32(&f, "rope.freq_base_swa", 100);
    every(layers, 4, full, (struct sight){WINDOW, plain_rotation(HEAD_DIM / 2, 100)});
    check_within(most, "maple, rotated by half", &f, layers, LAYERS, 0);
    key_u32(&f, "rope.dimension_count_swa", 4);
    key_str(&f, "rope.scaling.type", "yarn");
    key_f32(&f, "rope.scaling.factor", 8);
    key_u32(&f, "rope.scaling.original_context_length", 64);
    every(layers, 4, full, (struct sight){WINDOW, yarn_rotation(4, 100, 8, 64)});
    check_within(most, "maple with YaRN", &f, layers, LAYERS, 0);
    file_free(&f);
    static const float low[LAYERS] = {0, 0.45f};
    form.expert_limits = low;
    file_init(&f, &form);
    key_u32(&f, "attention.sliding_window", WINDOW);
    pattern_key(&f, 4);
    check_refused(&f, "m.gguf: key maple.swiglu_clamp_exp should be 0 or at least 0.46, but is "
                      "0.45 in layer 1");
    file_free(&f);
}

/* A file that says nothing of limits has the authors': the same as one that does. */
static void test_maple_unsaid(void **unused)
{
    (void)unused;
    static const float sevens[LAYERS] = {7, 7, 7, 7, 7, 7, 7};
    const struct form said = {"maple",
                              .norm_before = true,
                              .norm_heads = true,
                              .expert_limits = sevens,
                              .limit_first = true,
                              .experts = {.any = true, .n_ff = 24}};
    struct form unsaid = said;
    struct sight layers[LAYERS];
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct file f;
    every(layers, 4, (struct sight){0, plain_rotation(0, base)},
          (struct sight){WINDOW, plain_rotation(HEAD_DIM, base)});
    unsaid.expert_limits = NULL;
    file_init(&f, &unsaid);
    key_u32(&f, "attention.sliding_window", WINDOW);
    pattern_key(&f, 4);
    for (int i = 0; i < LAYERS; i++) {
        const struct values *t = tensor_of(&f, i, "ffn_gate_exps");
        for (size_t k = 0; k < t->n_in * t->n_out; k++)
            t->v[k] *= 8;
    }
    f.form = &said;
    compute(&f, layers, LAYERS, 0, want);
    f.form = &unsaid;
    check_logits(1e-11, "maple without a limit", &f, want);
    free(want);
    file_free(&f);
}

static void multiply(struct file *f, const char *what, float factor)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        const struct values *t = tensor_of(f, layer, what);
        for (size_t i = 0; i < t->n_in * t->n_out; i++)
            t->v[i] *= factor;
    }
}

static const struct form muse = {"muse-glimmer",    .norm_before = true, .norm_after = true,
                                 .after_eps = 1e-8, .norm_heads = true,  .norm_embedding = true,
                                 .gate_heads = true};

static void muse_layers(struct sight *layers, int period, size_t n_rot, double local_base)
{
    struct rotation r = plain_rotation(n_rot, local_base);
    r.neighbours = true;
    every(layers, period, (struct sight){0, plain_rotation(0, base)},
          (struct sight){WINDOW, r});
}

/* Norms before blocks and behind them, those by an epsilon of their own; layers with windows
 * alone rotate. */
static void test_muse_glimmer(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &muse);
    check_refused(&f, "m.gguf: key muse-glimmer.logit_scale is missing");
    key_f32(&f, "logit_scale", 4);
    f.scales.logits = 0.25;
    check_refused(&f, "m.gguf: key muse-glimmer.attention.sliding_window is missing");
    key_u32(&f, "attention.sliding_window", WINDOW);
    muse_layers(layers, 4, HEAD_DIM, base);
    check_within(most, "muse-glimmer", &f, layers, LAYERS, 30);
    multiply(&f, "attn_output", 1e-4f);
    multiply(&f, "ffn_down", 1e-4f);
    check_within(most, "muse-glimmer with small results", &f, layers, LAYERS, 30);
    key_f32(&f, "final_logit_softcapping", 3);
    key_u32(&f, "attention.sliding_window_pattern", 3);
    key_f32(&f, "rope.freq_base_swa", 100);
    key_u32(&f, "rope.dimension_count_swa", HEAD_DIM / 2);
    muse_layers(layers, 3, HEAD_DIM / 2, 100);
    check_within(most, "muse-glimmer by other keys", &f, layers, LAYERS, 3);
    key_f32(&f, "rope.scaling.factor", 2);
    check_refused(&f, "m.gguf: the file scales its rotations (context by 2, cos and sin by 1), "
                      "which hearth's muse-glimmer does not");
    file_free(&f);
}

static const double grok_embed = 78.38367176906169, grok_logits = 1.7320508075688772;

/* The numbers that no file needs to say. */
static void grok_init(struct file *f, const struct form *form)
{
    file_init(f, form);
    f->scales = (struct scales){.embedding = grok_embed,
                                .scores = 0.08838834764831845,
                                .score_cap = 30,
                                .logits = grok_logits};
}

/* The same by other numbers than Grok-1's. */
static void grok_numbers(struct file *f)
{
    key_f32(f, "embedding_scale", 3);
    key_f32(f, "logit_scale", 2);
    key_f32(f, "attention.output_scale", 0.5f);
    key_f32(f, "attn_logit_softcapping", 2);
    key_f32(f, "router_logit_softcapping", 1.5f);
    f->scales = (struct scales){
        .embedding = 3, .scores = 0.5, .score_cap = 2, .logits = 0.5, .route_cap = 1.5};
}

static const struct form grok = {"grok",
                                 .norm_before = true,
                                 .norm_after = true,
                                 .attn_after = "attn_output_norm",
                                 .feed_after = "layer_output_norm",
                                 .gelu = true,
                                 .experts = {.any = true, .as_is = true}};

/* Grok-1 and Grok-2: norms before blocks and behind them, caps of all scores, and a dense
 * feed-forward beside experts. */
static void test_grok(void **unused)
{
    (void)unused;
    const double most = 2e-11;
    const struct sight s = {0, plain_rotation(HEAD_DIM, base)};
    struct sight layers[LAYERS];
    struct form two = grok;
    struct file f;
    every(layers, 1, s, s);
    grok_init(&f, &grok);
    check_within(most, "grok", &f, layers, LAYERS, 0);
    grok_numbers(&f);
    key_f32(&f, "final_logit_softcapping", 5);
    check_within(most, "grok by other numbers", &f, layers, LAYERS, 5);
    file_free(&f);
    two.feed_after = NULL;
    two.experts.n_ff = 24;
    two.experts.beside = true;
    file_init(&f, &two);
    grok_numbers(&f);
    key_u32(&f, "attention.temperature_length", 4096);
    assert_null(context_of(&f, 0).beyond);
    check_within(most, "grok with a feed-forward beside", &f, layers, LAYERS, 0);
    file_free(&f);
}

static void test_grok_refused(void **unused)
{
    (void)unused;
    struct file f;
    file_init(&f, &grok);
    key_u32(&f, "attention.temperature_length", 1024);
    check_reach(&f, 1024, "scales scores by a temperature",
                "grok.attention.temperature_length");
    file_free(&f);
    file_init(&f, &grok);
    key_bool(&f, "expert_weights_norm", true);
    check_refused(&f, "m.gguf: key grok.expert_weights_norm is true, but hearth's grok takes "
                      "weights as they are");
    file_free(&f);
    file_init(&f, &grok);
    key_f32(&f, "rope.scaling.yarn_attn_factor", 2);
    check_refused(&f, "m.gguf: key grok.rope.scaling.yarn_attn_factor should be between 1 and "
                      "1, but is 2");
    file_free(&f);
}

/* How a file of minimax-m3 begins. */
static void minimax_init(struct file *f, const struct form *form)
{
    file_init(f, form);
    key_u32(f, "expert_shared_count", 2);
    key_u32(f, "leading_dense_block_count", 1);
    key_u32(f, "rope.dimension_count", HEAD_DIM / 2);
    key_f32(f, "expert_weights_scale", 2);
    f->scales.experts = 2;
}

/* minimax-m3: gpt-oss's activation in all feed-forwards, and an indexer of blocks that chooses
 * nothing. */
static void test_minimax_m3(void **unused)
{
    (void)unused;
    const double most = 2e-11;
    static const struct form minimax = {"minimax-m3", .norm_before = true, .norm_heads = true,
                                        .clamped = true,
                                        .experts = {.any = true,
                                                    .sigmoid = true,
                                                    .select = true,
                                                    .n_dense = 1,
                                                    .n_ff = 12,
                                                    .n_shared = 24}};
    const struct sight s = {0, plain_rotation(HEAD_DIM / 2, base)};
    struct sight layers[LAYERS];
    struct file f;
    every(layers, 1, s, s);
    minimax_init(&f, &minimax);
    for (int i = 1; i < LAYERS; i++) {
        layer_tensor(&f, i, "indexer.q_proj", EMBD, (size_t)KV_HEADS * HEAD_DIM);
        layer_tensor(&f, i, "indexer.k_proj", EMBD, HEAD_DIM);
        layer_tensor(&f, i, "indexer.q_norm", HEAD_DIM, 1);
        layer_tensor(&f, i, "indexer.k_norm", HEAD_DIM, 1);
    }
    check_refused(&f, "m.gguf: key minimax-m3.attention.indexer.top_k is missing");
    key_u32(&f, "attention.indexer.top_k", 32);
    key_u32(&f, "attention.indexer.block_size", 128);
    check_within(most, "minimax-m3", &f, layers, LAYERS, 0);
    for (int i = 1; i < LAYERS; i++) { /* units far beyond the limits */
        const struct values *t = tensor_of(&f, i, "ffn_up_exps");
        for (size_t k = 0; k < t->n_in * t->n_out; k++)
            t->v[k] *= 8;
    }
    check_within(most, "minimax-m3 with large units", &f, layers, LAYERS, 0);
    file_free(&f);
    minimax_init(&f, &minimax);
    key_u32(&f, "attention.indexer.top_k", 16);
    key_u32(&f, "attention.indexer.block_size", 128);
    check_reach(&f, 2048, "attends to what its indexer chooses",
                "minimax-m3.attention.indexer.top_k");
    assert_int_equal(context_of(&f, 16).n, 16);
    file_free(&f);
}

enum { STACK = 3, LOW = 2, HIGH = 2 };

/* One time of a stack: of x, which begins as what both gave last. */
static void run_stack(const struct file *f, int first, double (*a)[EMBD], double (*b)[EMBD],
                      struct rows *rows)
{
    const struct sight all = {0, plain_rotation(HEAD_DIM, base)};
    for (size_t p = 0; p < N_IDS; p++)
        for (size_t i = 0; i < EMBD; i++)
            rows->x[p][i] = a[p][i] + b[p][i];
    for (int layer = first; layer < first + STACK; layer++) {
        attention(f, layer, &all, rows);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(f, layer, NULL, rows->x[p]);
    }
}

static void compute_hrm(const struct file *f, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    double(*high)[EMBD] = mem_zalloc(N_IDS, sizeof *high);
    double(*low)[EMBD] = mem_zalloc(N_IDS, sizeof *low);
    const float *first = values_named(f, "hrm.z_l_init");
    embed(f, rows);
    memcpy(high, rows->x, sizeof rows->x);
    for (size_t i = 0; i < N_IDS * EMBD; i++)
        low[i / EMBD][i % EMBD] = (double)first[i % EMBD];
    for (int h = 0; h < HIGH; h++) {
        for (int l = 0; l < LOW; l++) {
            run_stack(f, 0, high, low, rows);
            for (size_t p = 0; p < N_IDS; p++)
                norm(NULL, rows->x[p], EMBD, low[p]);
        }
        run_stack(f, STACK, high, low, rows);
        for (size_t p = 0; p < N_IDS; p++)
            norm(NULL, rows->x[p], EMBD, high[p]);
    }
    head(f, rows, 0, logits);
    free(high);
    free(low);
    free(rows);
}

/* Takes the tensors of the last layer out of the file, which is of two stacks. */
static void drop_last(struct file *f)
{
    char front[16];
    snprintf(front, sizeof front, "blk.%d.", 2 * STACK);
    for (size_t i = f->n_tensors; i-- > 0;) {
        if (strncmp(f->tensors[i].name, front, strlen(front)) != 0) continue;
        free(f->tensors[i].v);
        f->tensors[i] = f->tensors[--f->n_tensors];
    }
}

static void test_hrm_text(void **unused)
{
    (void)unused;
    const double most = 1e-11;
    static const struct form hrm = {"hrm_text", .norm_before = true, .norm_bare = true,
                                    .gate_heads = true, .n_blocks = STACK * HIGH * (LOW + 1)};
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct file f;
    file_init(&f, &hrm);
    drop_last(&f);
    key_u32(&f, "hrm.layers_per_stack", STACK);
    key_u32(&f, "hrm.l_cycles", LOW);
    check_refused(&f, "m.gguf: key hrm_text.hrm.h_cycles is missing");
    key_u32(&f, "hrm.h_cycles", HIGH);
    check_refused(&f, "m.gguf: tensor hrm.z_l_init: expected [64], but it is missing");
    random_tensor(&f, "hrm.z_l_init", EMBD, 1, 0, 1);
    key_f32(&f, "embedding_scale", 3);
    f.scales.embedding = 3;
    key_bool(&f, "hrm.prefix_lm", false);
    compute_hrm(&f, want);
    check_logits(most, "hrm_text", &f, want);
    free(want);
    file_free(&f);
    file_init(&f, &hrm);
    key_u32(&f, "hrm.layers_per_stack", STACK);
    key_u32(&f, "hrm.l_cycles", LOW + 1);
    key_u32(&f, "hrm.h_cycles", HIGH);
    check_refused(&f,
                  "m.gguf: key hrm_text.block_count should be 3 layers of a stack, 3 and one "
                  "times, 2 times, but is 18");
    key_bool(&f, "hrm.prefix_lm", true);
    check_refused(&f,
                  "m.gguf: key hrm_text.hrm.prefix_lm is true: tokens of a prompt see those "
                  "behind them, too, which hearth has not");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen),         cmocka_unit_test(test_arctic),
        cmocka_unit_test(test_openelm),      cmocka_unit_test(test_plamo),
        cmocka_unit_test(test_talkie),       cmocka_unit_test(test_maple),
        cmocka_unit_test(test_maple_unsaid), cmocka_unit_test(test_muse_glimmer),
        cmocka_unit_test(test_grok),         cmocka_unit_test(test_grok_refused),
        cmocka_unit_test(test_minimax_m3),   cmocka_unit_test(test_hrm_text),
    };
    return cmocka_run_group_tests_name("families_rare", tests, NULL, NULL);
}
