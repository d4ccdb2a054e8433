/* deepseek2, deepseek32, glm-dsa, minicpm3, mistral4 and plm, whose keys and values all come
 * from one narrow row, on small random models: the logits against those of the second
 * computation, and the same bits however a prompt is read. No case may differ by ten times what
 * it was measured to. */
#include "engine/timeline.h"
#include "second_latent.h"

enum { N_QUERY = 20 };
static const double base = 500; /* so that YaRN mixes frequencies of few pairs */

/* Whether its models have an indexer; their routers are of sigmoids. */
static bool is_indexed(const char *arch)
{
    return strcmp(arch, "deepseek32") == 0 || strcmp(arch, "glm-dsa") == 0;
}

static struct form form_of(const char *arch, bool by_heads)
{
    return (struct form){arch, .norm_before = true,
                         .latent = {.n_q = N_QUERY, .by_heads = by_heads},
                         .experts = {.any = true,
                                     .as_is = true,
                                     .sigmoid = is_indexed(arch),
                                     .n_ff = L_WIDTH,
                                     .n_shared = L_WIDTH}};
}

static void init(struct file *f, const struct form *form)
{
    latent_init(f, form);
    key_f32(f, "rope.freq_base", (float)base);
    if (is_indexed(form->arch)) key_u32(f, "attention.indexer.top_k", 4096);
}

/* The cache has narrow rows, or keys and values of all heads; queries come from a narrow row,
 * too, or from the input, as in files that name a rank nonetheless. */
static void test_forms(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    static const char *const archs[] = {"deepseek2", "mistral4"};
    const struct latent_sight s = latent_plain(base, 1);
    for (int i = 0; i < 8; i++) {
        struct form form = form_of(archs[i / 4], i & 1);
        const bool direct = i & 2;
        char name[64];
        struct file f;
        if (direct) form.latent.n_q = 0;
        init(&f, &form);
        if (direct) key_u32(&f, "attention.q_lora_rank", N_QUERY);
        snprintf(name, sizeof name, "%s%s%s", form.arch, i & 1 ? ", keys of heads" : "",
                 direct ? ", queries of the input" : "");
        check_latent(most, name, &f, &s, LAYERS);
        file_free(&f);
    }
}

/* Without experts: minicpm3 has scales that files do not name and rotates halves, plm has
 * feed-forwards of squares and queries of the input. */
static void test_dense(void **unused)
{
    (void)unused;
    static const struct form minicpm3 = {"minicpm3", .norm_before = true,
                                         .latent = {.n_q = N_QUERY, .by_heads = true}};
    static const struct form plm = {"plm", .norm_before = true, .squares = true,
                                    .latent = {.by_heads = true}};
    struct latent_sight s = latent_plain(base, 1);
    struct file f;
    init(&f, &plm);
    check_latent(4e-12, "plm", &f, &s, LAYERS);
    file_free(&f);
    s.rotation.neighbours = false;
    init(&f, &minicpm3);
    f.scales = (struct scales){
        .embedding = 12, .residual = 1.4 / sqrt(LAYERS), .logits = EMBD / 256.0};
    check_latent(1.4e-12, "minicpm3", &f, &s, LAYERS);
    file_free(&f);
}

static uint64_t cache_bytes(const struct file *f)
{
    const struct model_params params = {.kv_type = KV_F32};
    struct model_sizes sizes;
    struct buf b = {0};
    struct err err;
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g || !model_estimate(g, NULL, &params, 1, &sizes, &err)) fail_msg("%s", err.msg);
    gguf_close(g);
    buf_free(&b);
    return sizes.kv_bytes_per_token;
}

/* Both forms of the same weights are one model, of which the first caches narrow rows only; of
 * one head, too, whose keys and values are as many either way, and of 40, which are no power of
 * two. */
static void test_both(void **unused)
{
    (void)unused;
    const double most = 8e-12, most_apart = 1e-11;
    static const size_t n_heads[] = {1, HEADS, L_MAX_HEADS};
    const struct latent_sight s = latent_plain(base, 1);
    const size_t n = N_IDS * VOCAB;
    float *logits[2];
    for (size_t i = 0; i < sizeof n_heads / sizeof *n_heads; i++) {
        const size_t n_head = n_heads[i];
        for (int by_heads = 0; by_heads < 2; by_heads++) {
            struct form form = form_of("deepseek2", by_heads);
            char name[64];
            struct file f;
            form.latent.n_head = n_head;
            init(&f, &form);
            snprintf(name, sizeof name, "deepseek2 of %zu heads, form %d", n_head, by_heads);
            check_latent(most, name, &f, &s, LAYERS);
            logits[by_heads] = mem_zalloc(n, sizeof(float));
            run(&f, logits[by_heads]);
            assert_int_equal(cache_bytes(&f), LAYERS * sizeof(float) *
                                                  (by_heads ? n_head * (L_KEY + L_VALUE)
                                                            : L_NARROW + L_ROT + L_NARROW));
            file_free(&f);
        }
        const double apart = golden_nmse(logits[0], logits[1], n);
        print_message("# %-40s nmse %.2g\n", "both forms", apart);
        if (!(apart <= most_apart)) fail_msg("%zu heads: nmse %.3g", n_head, apart);
        free(logits[0]);
        free(logits[1]);
    }
}

/* What a file says of scaling. */
struct scaling {
    const char *name, *arch;
    bool yarn;
    double multiplier; /* the model's, of which the file has a tenth; 0: without the key */
    double factor;     /* attn_factor; 0: without the key */
};

/* Scores grow by the square of one factor, cos and sin by another: deepseek2 takes the ratio of
 * its two multipliers as 1, mistral4 the one that is not in the file. */
static struct latent_sight scaled_sight(const struct scaling *c, double by, double n_orig)
{
    const double a = or_one(c->factor), m = c->multiplier;
    const double of_1 = 1 + 0.1 * log(by), of_m = 1 + 0.1 * m * log(by);
    const bool own = m > 0 && strcmp(c->arch, "deepseek2") == 0;
    struct latent_sight s = latent_plain(base, a * a);
    s.rotation.scale = a;
    if (!c->yarn) return s;
    const double grown = own ? of_m : of_1;
    s = latent_plain(base, a * a * grown * grown);
    s.rotation = yarn_rotation(L_ROT, base, by, n_orig);
    s.rotation.neighbours = true;
    s.rotation.scale = own ? a : m > 0 ? a * of_1 / of_m : a * of_1;
    return s;
}

static void test_scaling(void **unused)
{
    (void)unused;
    enum { BY = 8, N_ORIG = 512 };
    static const struct scaling cases[] = {
        {"factor", "deepseek2", false, 0, 0.8},
        {"multiplier alone", "deepseek2", false, 0.707, 0},
        {"YaRN", "deepseek2", true, 0, 0},
        {"YaRN, multiplier", "deepseek2", true, 0.707, 0},
        {"YaRN, multiplier 1", "deepseek2", true, 1, 0},
        {"YaRN, factor", "deepseek2", true, 0, 0.8},
        {"YaRN, multiplier, factor", "deepseek2", true, 0.707, 0.8},
        {"factor", "mistral4", false, 0, 0.8},
        {"YaRN", "mistral4", true, 0, 0},
        {"YaRN, multiplier", "mistral4", true, 0.5, 0},
        {"YaRN, multiplier 1", "mistral4", true, 1, 0},
        {"YaRN, multiplier, factor", "mistral4", true, 0.5, 0.8},
        {"YaRN", "deepseek32", true, 0, 0},
        {"YaRN, multiplier", "deepseek32", true, 0.5, 0},
        {"YaRN, multiplier 1", "glm-dsa", true, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct scaling *c = &cases[i];
        const struct form form = form_of(c->arch, i & 1);
        const struct latent_sight s = scaled_sight(c, BY, N_ORIG);
        char name[64];
        struct file f;
        init(&f, &form);
        if (c->yarn) {
            key_str(&f, "rope.scaling.type", "yarn");
            key_f32(&f, "rope.scaling.factor", BY);
            key_u32(&f, "rope.scaling.original_context_length", N_ORIG);
        }
        if (c->multiplier > 0)
            key_f32(&f, "rope.scaling.yarn_log_multiplier", (float)(0.1 * c->multiplier));
        if (c->factor > 0) key_f32(&f, "rope.scaling.attn_factor", (float)c->factor);
        snprintf(name, sizeof name, "%s, %s", c->arch, c->name);
        check_latent(c->factor > 0 ? 4e-12 : 8e-12, name, &f, &s, LAYERS);
        file_free(&f);
    }
}

static void test_temperature(void **unused)
{
    (void)unused;
    const double most = 8e-12;
    static const char *const archs[] = {"deepseek2", "mistral4"};
    for (int i = 0; i < 4; i++) {
        const struct form form = form_of(archs[i / 2], i & 1);
        struct latent_sight s = latent_plain(base, 1);
        char name[64];
        struct file f;
        init(&f, &form);
        key_f32(&f, "attention.temperature_scale", 0.5f);
        key_u32(&f, "attention.temperature_length", 16);
        s.temperature = 0.5;
        s.length = 16;
        snprintf(name, sizeof name, "%s with temperature, form %d", form.arch, i & 1);
        check_latent(most, name, &f, &s, LAYERS);
        file_free(&f);
    }
}

/* How experts are chosen and weighed, which layers have some, and how wide the one is that all
 * rows use: as so many of the others. */
static void test_experts(void **unused)
{
    (void)unused;
    const double most = 8e-12;
    enum { NOT_SAID = -1 };
    static const struct {
        const char *name;
        int gating, norm; /* NOT_SAID: without the key */
        bool select;
        float scale; /* 0: without the key */
        int n_dense;
        size_t n_shared;
    } cases[] = {
        {"softmax", 1, NOT_SAID, false, 0, 0, 1},
        {"softmax, as is, scaled", NOT_SAID, 0, false, 2.5f, 1, 2},
        {"softmax, weights of sum 1", 1, 1, false, 0, 2, 1},
        {"softmax with a bias", NOT_SAID, NOT_SAID, true, 0, 0, 3},
        {"sigmoid, as is", 2, NOT_SAID, false, 0, 1, 1},
        {"sigmoid with a bias", 2, 0, true, 0, 0, 1},
        {"sigmoid with a bias, all", 2, 1, true, 2.5f, 3, 2},
    };
    const struct latent_sight s = latent_plain(base, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct form form = form_of(i & 1 ? "mistral4" : "deepseek2", i & 2);
        char name[64];
        struct file f;
        form.experts.sigmoid = cases[i].gating == 2;
        form.experts.as_is = cases[i].norm != 1;
        form.experts.select = cases[i].select;
        form.experts.n_dense = cases[i].n_dense;
        form.experts.n_shared = cases[i].n_shared * L_WIDTH;
        init(&f, &form);
        if (cases[i].gating != NOT_SAID)
            key_u32(&f, "expert_gating_func", (uint32_t)cases[i].gating);
        if (cases[i].norm != NOT_SAID) key_bool(&f, "expert_weights_norm", cases[i].norm);
        if (cases[i].scale > 0) key_f32(&f, "expert_weights_scale", cases[i].scale);
        f.scales.experts = (double)cases[i].scale;
        snprintf(name, sizeof name, "%s, %s", form.arch, cases[i].name);
        check_latent(most, name, &f, &s, LAYERS);
        file_free(&f);
    }
}

/* The rows of gate and up in one tensor, as mistral4's files have them: each expert's gate in
 * front. */
static void fuse_experts(struct file *f)
{
    const size_t n = (size_t)L_WIDTH * EMBD;
    for (int layer = 0; layer < LAYERS; layer++) {
        struct values *gate = tensor_of(f, layer, "ffn_gate_exps");
        struct values *up = tensor_of(f, layer, "ffn_up_exps");
        float *both = mem_zalloc(EXPERTS * 2 * n, sizeof *both);
        for (size_t e = 0; e < EXPERTS; e++) {
            memcpy(both + 2 * e * n, gate->v + e * n, n * sizeof *both);
            memcpy(both + (2 * e + 1) * n, up->v + e * n, n * sizeof *both);
        }
        snprintf(gate->name, sizeof gate->name, "blk.%d.ffn_gate_up_exps.weight", layer);
        gate->n_out *= 2;
        free(gate->v);
        gate->v = both;
        free(up->v);
        *up = f->tensors[--f->n_tensors];
    }
}

static void test_fused(void **unused)
{
    (void)unused;
    const struct form form = form_of("mistral4", false);
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    struct file f;
    init(&f, &form);
    run(&f, want);
    fuse_experts(&f);
    run(&f, got);
    assert_memory_equal(got, want, n * sizeof *got);
    file_free(&f);
    free(want);
    free(got);
}

/* The block of the next token, which is counted, is left out. */
static void test_next(void **unused)
{
    (void)unused;
    const double most = 8e-12;
    const struct latent_sight s = latent_plain(base, 1);
    for (int by_heads = 0; by_heads < 2; by_heads++) {
        const struct form form = form_of("deepseek2", by_heads);
        struct file f;
        init(&f, &form);
        key_u32(&f, "nextn_predict_layers", 1);
        layer_tensor(&f, LAYERS - 1, "nextn.eh_proj", 2 * EMBD, EMBD);
        layer_tensor(&f, LAYERS - 1, "nextn.enorm", EMBD, 1);
        layer_tensor(&f, LAYERS - 1, "nextn.hnorm", EMBD, 1);
        check_latent(most, "deepseek2 with a block of the next token", &f, &s, LAYERS - 1);
        file_free(&f);
    }
}

enum { INDEX_HEADS = 2, INDEX_KEY = 16 };

static void indexer_tensors(struct file *f, int layer)
{
    layer_tensor(f, layer, "indexer.k_norm", INDEX_KEY, 1);
    bias_tensor(f, layer, "indexer.k_norm", INDEX_KEY);
    layer_tensor(f, layer, "indexer.proj", EMBD, INDEX_HEADS);
    layer_tensor(f, layer, "indexer.attn_k", EMBD, INDEX_KEY);
    layer_tensor(f, layer, "indexer.attn_q_b", N_QUERY, (size_t)INDEX_HEADS * INDEX_KEY);
}

/* An indexer chooses nothing where the context is no longer than what it chooses, and where it
 * would be longer, it ends there; not each layer of glm-dsa has one. */
static void test_indexed(void **unused)
{
    (void)unused;
    const double most = 8e-12;
    const struct latent_sight s = latent_plain(base, 1);
    static const char *const archs[] = {"deepseek32", "glm-dsa"};
    for (int i = 0; i < 2; i++) {
        struct form form = form_of(archs[i], false);
        char message[256];
        struct file f;
        form.experts.select = true;
        init(&f, &form);
        for (int layer = 0; layer < LAYERS; layer += 1 + i)
            indexer_tensors(&f, layer);
        check_latent(most, archs[i], &f, &s, LAYERS);
        file_free(&f);
        latent_init(&f, &form);
        snprintf(message, sizeof message, "m.gguf: key %s.attention.indexer.top_k is missing",
                 archs[i]);
        check_refused(&f, message);
        key_u32(&f, "attention.indexer.top_k", N_IDS);
        snprintf(message, sizeof message, "%s.attention.indexer.top_k", archs[i]);
        check_reach(&f, N_IDS, "attends to what its indexer chooses", message);
        key_f32(&f, "rope.freq_base", (float)base);
        snprintf(message, sizeof message, "%s in a short context", archs[i]);
        check_latent(most, message, &f, &s, LAYERS);
        file_free(&f);
    }
}

/* Of zeros, without a matrix of its own for the output. */
static void widen_vocabulary(struct file *f, size_t n_vocab)
{
    struct values *embd = &f->tensors[0], *output = &f->tensors[2];
    assert_string_equal(embd->name, "token_embd.weight");
    assert_string_equal(output->name, "output.weight");
    free(embd->v);
    embd->v = mem_zalloc(n_vocab * EMBD, sizeof *embd->v);
    embd->n_out = n_vocab;
    free(output->v);
    *output = f->tensors[--f->n_tensors];
}

/* How the first router of the model chooses. */
static bool router_kind(void *user, const struct program *p, struct err *err)
{
    enum route_kind *kind = user;
    (void)err;
    *kind = ROUTE_EACH;
    for (size_t i = 0; *kind == ROUTE_EACH && i < p->n_ops; i++)
        if (p->ops[i].kind == OP_ROUTE) *kind = p->ops[i].route.kind;
    return true;
}

/* Files of GLM-4.7-Flash may not say that its routers are of sigmoids: the model is known by
 * its sizes. Blocks that these files count and do not have are said to be of the next token. */
static void test_unsaid(void **unused)
{
    (void)unused;
    enum { N_VOCAB = 154880 };
    static const struct {
        uint32_t n_layer, n_vocab, gating; /* gating 0: no key */
        enum route_kind want;
    } cases[] = {
        {46, N_VOCAB, 0, ROUTE_SOFTMAX}, {47, N_VOCAB, 0, ROUTE_SIGMOID},
        {48, N_VOCAB, 0, ROUTE_SIGMOID}, {49, N_VOCAB, 0, ROUTE_SOFTMAX},
        {47, N_VOCAB, 1, ROUTE_SOFTMAX}, {47, N_VOCAB - 1, 0, ROUTE_SOFTMAX},
    };
    const struct model_params params = {.kv_type = KV_F32};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct form form = form_of("deepseek2", false);
        enum route_kind got = ROUTE_EACH;
        struct buf b = {0};
        struct err err;
        struct file f;
        form.n_blocks = cases[i].n_layer;
        init(&f, &form);
        widen_vocabulary(&f, cases[i].n_vocab);
        key_u32(&f, "nextn_predict_layers", cases[i].n_layer - LAYERS);
        if (cases[i].gating > 0) key_u32(&f, "expert_gating_func", cases[i].gating);
        write_file(&f, &b);
        struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
        if (!g || !model_outline(g, &params, router_kind, &got, &err)) fail_msg("%s", err.msg);
        if (got != cases[i].want) fail_msg("case %zu: routes by %d", i, (int)got);
        gguf_close(g);
        buf_free(&b);
        file_free(&f);
    }
}

/* ---- the same bits ---- */

/* All rows in steps of so many, by pages that have NaN where nothing was written. */
static void run_steps(const struct file *f, struct runner_options o, uint32_t batch,
                      float *logits)
{
    struct buf b = {0};
    struct runner r;
    int32_t ids[N_IDS];
    o.batch = batch;
    o.poison = true;
    open_file(&r, f, o, &b);
    all_ids(ids);
    runner_run(&r, ids, N_IDS, 0, logits);
    runner_close(&r);
    buf_free(&b);
}

/* A sequence that goes on otherwise after n_kept keeps these, and has the logits wanted. */
static void run_kept(const struct file *f, struct runner_options o, size_t n_kept,
                     const float *want)
{
    const struct timeline_limits limits = {.n_ctx = 2 * N_IDS};
    struct timeline_cost cost;
    struct buf b = {0};
    struct err err = {0};
    struct runner r;
    int32_t ids[N_IDS], others[N_IDS];
    o.batch = 16;
    open_file(&r, f, o, &b);
    all_ids(ids);
    all_ids(others);
    for (size_t i = n_kept; i < N_IDS; i++)
        others[i] = (ids[i] + 1) % VOCAB;
    struct timeline *tl = timeline_new(r.be, model_program(r.m), &limits, &err);
    if (!tl || !timeline_sync(tl, others, N_IDS, NULL, NULL, &err) ||
        !timeline_sync(tl, ids, N_IDS, NULL, &cost, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(cost.n_cached, n_kept);
    assert_memory_equal(timeline_logits(tl), want, VOCAB * sizeof *want);
    timeline_free(tl);
    runner_close(&r);
    buf_free(&b);
}

/* Rows at once, one by one, in steps that leave a rest, and behind a part that was kept; of a
 * few heads, and of 40 by three threads. */
static void test_steps(void **unused)
{
    (void)unused;
    static const uint32_t batches[] = {1, 7, 16};
    static const size_t kept[] = {1, 16, 29, N_IDS - 1};
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    for (int i = 0; i < 4; i++) {
        const bool many = i >= 2;
        const struct runner_options o = {.n_threads = many ? 3 : 1,
                                         .kv_type = many ? KV_F16 : KV_F32};
        struct form form = form_of("deepseek2", i & 1);
        struct file f;
        form.latent.n_head = many ? L_MAX_HEADS : HEADS;
        init(&f, &form);
        key_f32(&f, "attention.temperature_scale", 0.5f);
        key_u32(&f, "attention.temperature_length", 16);
        run_steps(&f, o, N_IDS, want);
        for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
            run_steps(&f, o, batches[k], got);
            assert_memory_equal(got, want, n * sizeof *got);
        }
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
            run_kept(&f, o, kept[k], want + (size_t)(N_IDS - 1) * VOCAB);
        file_free(&f);
    }
    free(want);
    free(got);
}

/* ---- files that are refused ---- */

/* A layer without heads has nothing to make of a row. */
static void test_headless_layer(void **unused)
{
    (void)unused;
    for (int by_heads = 0; by_heads < 2; by_heads++) {
        struct form form = form_of("deepseek2", by_heads);
        int32_t heads[LAYERS], kv_heads[LAYERS];
        struct file f;
        form.heads_apart = true;
        for (int i = 0; i < LAYERS; i++) {
            heads[i] = i == 2 ? 0 : HEADS;
            kv_heads[i] = i == 2 ? 0 : by_heads ? HEADS : 1;
        }
        init(&f, &form);
        array_key(&f, "attention.head_count", heads, LAYERS);
        array_key(&f, "attention.head_count_kv", kv_heads, LAYERS);
        check_refused(&f, "m.gguf: layer 2 has no heads, which deepseek2 needs");
        file_free(&f);
    }
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct form form = form_of("deepseek2", false);
    struct form heads = form_of("deepseek2", true);
    struct file f;
    latent_begin(&f, &form);
    key_u32(&f, "rope.dimension_count", L_ROT);
    check_refused(&f, "m.gguf: key deepseek2.expert_shared_count is missing");
    key_u32(&f, "expert_shared_count", 1);
    check_refused(&f, "m.gguf: key deepseek2.attention.kv_lora_rank is missing");
    file_free(&f);
    latent_begin(&f, &form);
    key_u32(&f, "rope.dimension_count", L_ROT);
    key_u32(&f, "expert_shared_count", 1);
    key_u32(&f, "attention.kv_lora_rank", L_NARROW);
    key_u32(&f, "attention.key_length_mla", L_ROT);
    check_refused(&f, "m.gguf: keys of 8 values should be longer than what is rotated, 8");
    file_free(&f);
    latent_begin(&f, &heads);
    key_u32(&f, "rope.dimension_count", L_ROT);
    key_u32(&f, "expert_shared_count", 1);
    key_u32(&f, "attention.kv_lora_rank", L_NARROW);
    key_u32(&f, "attention.key_length", L_ROT);
    check_refused(&f, "m.gguf: keys of 8 values should be longer than what is rotated, 8");
    file_free(&f);
    latent_init(&f, &form);
    check_refused_with(&f, KV_Q8_0,
                       "m.gguf: values have a head size of 24; KV type q8_0 needs a multiple "
                       "of 32, at most 512; use f16 or f32");
    key_u32(&f, "expert_group_count", 2);
    key_u32(&f, "expert_group_used_count", 1);
    check_refused(&f, "m.gguf: key deepseek2.expert_group_count is 2; experts in groups are "
                      "chosen by sigmoids, but the file's are not");
    file_free(&f);
    /* As the models have it: the sizes are refused before the tensors are. */
    latent_begin(&f, &form);
    key_u32(&f, "rope.dimension_count", 64);
    key_u32(&f, "expert_shared_count", 1);
    key_u32(&f, "attention.kv_lora_rank", 512);
    key_u32(&f, "attention.key_length", 576);
    key_u32(&f, "attention.value_length", 512);
    key_u32(&f, "attention.key_length_mla", 192);
    key_u32(&f, "attention.value_length_mla", 128);
    check_refused_with(&f, KV_Q8_0,
                       "m.gguf: keys have a head size of 576; KV type q8_0 needs a multiple "
                       "of 32, at most 512; use f16 or f32");
    file_free(&f);
    latent_init(&f, &form);
    key_f32(&f, "attention.temperature_scale", 0.5f);
    check_refused(&f, "m.gguf: key deepseek2.attention.temperature_length is missing");
    file_free(&f);
    heads.arch = "mistral4";
    latent_init(&f, &heads);
    layer_tensor(&f, 2, "attn_v_b", L_NARROW, HEADS * L_VALUE);
    check_refused(&f, "m.gguf: tensor blk.2.attn_v_b.weight: hearth's mistral4 has no such "
                      "tensor, and leaving it out would change the answers");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),       cmocka_unit_test(test_dense),
        cmocka_unit_test(test_both),        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_temperature), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_fused),       cmocka_unit_test(test_next),
        cmocka_unit_test(test_unsaid),      cmocka_unit_test(test_indexed),
        cmocka_unit_test(test_steps),       cmocka_unit_test(test_headless_layer),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_latent", tests, NULL, NULL);
}
