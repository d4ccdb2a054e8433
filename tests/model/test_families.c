/* Families whose layers differ in more than a golden case shows, on small random models made
 * here: the logits against those of a second computation, in double and in plain loops. */
#include <math.h>

#include "../gguf_builder.h"
#include "../golden.h"

enum { VOCAB = 48, EMBD = 64, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 16, FF = 40, LAYERS = 7 };
enum { N_IDS = 40, WINDOW = 8, MAX_TENSORS = 128, MAX_PAIRS = HEAD_DIM / 2 };
/* Of what F32 costs: measured 2e-12 at most; what is looked for here gives 1e-3 or more. */
static const double tolerance = 1e-11;

/* ---- the file ---- */

/* How the layers of a family are put together. */
struct form {
    const char *arch;
    bool norm_before, norm_after; /* of attention and feed-forward */
    bool norm_heads;              /* Q and K: each head, else all together, if at all */
    bool norm_all;
    bool gate_in_up; /* ffn_up has the rows of the gate first */
    bool gelu, scaled_embedding;
    bool norm_values, plain_scores; /* V: each head, without factors; no root divides scores */
};

static const struct form olmo2 = {"olmo2", .norm_after = true, .norm_all = true};
static const struct form gemma3 = {"gemma3",           .norm_before = true,
                                   .norm_after = true, .norm_heads = true,
                                   .gelu = true,       .scaled_embedding = true};
static const struct form gemma4 = {
    "gemma4",     .norm_before = true,      .norm_after = true,  .norm_heads = true,
    .gelu = true, .scaled_embedding = true, .norm_values = true, .plain_scores = true};
static const struct form mistral3 = {"mistral3", .norm_before = true};
static const struct form glm4 = {"glm4", .norm_before = true, .norm_after = true,
                                 .gate_in_up = true};

struct values {
    char name[48];
    size_t n_in, n_out;
    float *v; /* [n_out][n_in] */
};

struct file {
    const struct form *form;
    struct buf keys;
    size_t n_keys, n_tensors;
    struct values tensors[MAX_TENSORS];
    uint32_t seed;
};

static void key(struct file *f, const char *name, enum gguf_type type)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", f->form->arch, name);
    gb_kv(&f->keys, full, type);
    f->n_keys++;
}

static void key_u32(struct file *f, const char *name, uint32_t v)
{
    key(f, name, GGUF_U32);
    gb_u32(&f->keys, v);
}

static void key_f32(struct file *f, const char *name, float v)
{
    key(f, name, GGUF_F32);
    buf_append(&f->keys, &v, sizeof v);
}

static void key_str(struct file *f, const char *name, const char *v)
{
    key(f, name, GGUF_STRING);
    gb_str(&f->keys, v);
}

static double uniform(struct file *f)
{
    f->seed = f->seed * 1664525u + 1013904223u;
    return (double)f->seed / 0x1p31 - 1.0;
}

/* A matrix that keeps the size of what it multiplies, or with n_out 1 the factors of a norm. */
static void tensor(struct file *f, const char *name, size_t n_in, size_t n_out)
{
    assert_true(f->n_tensors < MAX_TENSORS);
    struct values *t = &f->tensors[f->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_in = n_in;
    t->n_out = n_out;
    t->v = mem_zalloc(n_in * n_out, sizeof *t->v);
    for (size_t i = 0; i < n_in * n_out; i++)
        t->v[i] = (float)(n_out == 1 ? 1.0 + 0.3 * uniform(f)
                                     : 2.0 / sqrt((double)n_in) * uniform(f));
}

static void layer_tensor(struct file *f, int layer, const char *what, size_t n_in, size_t n_out)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    tensor(f, name, n_in, n_out);
}

/* The tensors and the keys that all files have. */
static void file_init(struct file *f, const struct form *form)
{
    *f = (struct file){.form = form, .seed = 7};
    gb_kv_str(&f->keys, "general.architecture", form->arch);
    f->n_keys++;
    key_u32(f, "block_count", LAYERS);
    key_u32(f, "context_length", 4096);
    key_u32(f, "embedding_length", EMBD);
    key_u32(f, "feed_forward_length", FF);
    key_u32(f, "attention.head_count", HEADS);
    key_u32(f, "attention.head_count_kv", KV_HEADS);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    tensor(f, "token_embd.weight", EMBD, VOCAB);
    tensor(f, "output_norm.weight", EMBD, 1);
    tensor(f, "output.weight", EMBD, VOCAB);
    const size_t n_q = HEADS * HEAD_DIM, n_kv = KV_HEADS * HEAD_DIM;
    for (int i = 0; i < LAYERS; i++) {
        if (form->norm_before) layer_tensor(f, i, "attn_norm", EMBD, 1);
        layer_tensor(f, i, "attn_q", EMBD, n_q);
        layer_tensor(f, i, "attn_k", EMBD, n_kv);
        layer_tensor(f, i, "attn_v", EMBD, n_kv);
        layer_tensor(f, i, "attn_output", n_q, EMBD);
        if (form->norm_heads || form->norm_all) {
            layer_tensor(f, i, "attn_q_norm", form->norm_all ? n_q : HEAD_DIM, 1);
            layer_tensor(f, i, "attn_k_norm", form->norm_all ? n_kv : HEAD_DIM, 1);
        }
        if (form->norm_after) layer_tensor(f, i, "post_attention_norm", EMBD, 1);
        if (form->norm_before) layer_tensor(f, i, "ffn_norm", EMBD, 1);
        if (!form->gate_in_up) layer_tensor(f, i, "ffn_gate", EMBD, FF);
        layer_tensor(f, i, "ffn_up", EMBD, form->gate_in_up ? 2 * FF : FF);
        layer_tensor(f, i, "ffn_down", FF, EMBD);
        if (form->norm_after) layer_tensor(f, i, "post_ffw_norm", EMBD, 1);
    }
}

static void file_free(struct file *f)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        free(f->tensors[i].v);
    buf_free(&f->keys);
}

static void write_file(const struct file *f, struct buf *b)
{
    gb_header(b, 3, f->n_tensors, f->n_keys);
    buf_append(b, f->keys.data, f->keys.len);
    size_t at = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct values *t = &f->tensors[i];
        gb_str(b, t->name);
        gb_u32(b, t->n_out == 1 ? 1 : 2);
        gb_u64(b, t->n_in);
        if (t->n_out > 1) gb_u64(b, t->n_out);
        gb_u32(b, QTYPE_F32);
        gb_u64(b, at);
        at += (t->n_in * t->n_out * sizeof *t->v + 31) / 32 * 32;
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        gb_pad(b, 32);
        buf_append(b, f->tensors[i].v,
                   f->tensors[i].n_in * f->tensors[i].n_out * sizeof(float));
    }
    gb_pad(b, 32);
}

static int32_t id_at(size_t i)
{
    return (int32_t)(i * 29 % VOCAB);
}

static struct values *tensor_of(struct file *f, int layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Makes one tensor of Q, K and V of each layer: their rows after each other. */
static void fuse(struct file *f)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    for (int layer = 0; layer < LAYERS; layer++) {
        struct values all = {.n_in = EMBD};
        snprintf(all.name, sizeof all.name, "blk.%d.attn_qkv.weight", layer);
        for (size_t i = 0; i < 3; i++) {
            struct values *part = tensor_of(f, layer, parts[i]);
            all.v = mem_resize(all.v, EMBD * (all.n_out + part->n_out), sizeof *all.v);
            memcpy(all.v + EMBD * all.n_out, part->v, EMBD * part->n_out * sizeof *all.v);
            all.n_out += part->n_out;
            free(part->v);
            *part = f->tensors[--f->n_tensors];
        }
        f->tensors[f->n_tensors++] = all;
    }
}

/* What hearth makes of the file: [N_IDS][VOCAB]. */
static void run(const struct file *f, float *logits)
{
    struct buf b = {0};
    struct err err;
    write_file(f, &b);
    struct runner r = {.o = {.kv_type = KV_F32, .batch = 16}};
    r.g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!r.g) fail_msg("%s", err.msg);
    r.be = cpu_open(&(struct cpu_options){.n_threads = 1}, &err);
    if (!r.be) fail_msg("%s", err.msg);
    const struct model_params params = {.kv_type = KV_F32};
    r.m = model_open(r.g, r.be, &params, NULL, NULL, &err);
    if (!r.m) fail_msg("%s", err.msg);
    r.x = exec_new(r.be, model_program(r.m), r.o.batch, &err);
    if (!r.x) fail_msg("%s", err.msg);
    int32_t ids[N_IDS];
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = id_at(i);
    runner_run(&r, ids, N_IDS, 0, logits);
    runner_close(&r);
    buf_free(&b);
}

/* ---- the second computation ---- */

struct rotation {
    size_t n_rot;
    bool neighbours; /* pairs 2i and 2i+1, else i and i + n_rot/2 */
    double freq[MAX_PAIRS], scale;
};

/* What a layer should do. */
struct sight {
    size_t window; /* 0: all */
    struct rotation rotation;
};

static struct rotation plain_rotation(size_t n_rot, double base)
{
    struct rotation r = {.n_rot = n_rot, .scale = 1};
    for (size_t i = 0; i < n_rot / 2; i++)
        r.freq[i] = pow(base, -2.0 * (double)i / (double)n_rot);
    return r;
}

static double yarn_pair(size_t n_rot, double base, double n_orig, double turns)
{
    return (double)n_rot * log(n_orig / (2.0 * M_PI * turns)) / (2.0 * log(base));
}

static struct rotation yarn_rotation(size_t n_rot, double base, double factor, double n_orig)
{
    struct rotation r = plain_rotation(n_rot, base);
    const double low = fmax(0, floor(yarn_pair(n_rot, base, n_orig, 32)));
    const double high = fmin((double)n_rot - 1, ceil(yarn_pair(n_rot, base, n_orig, 1)));
    for (size_t i = 0; i < n_rot / 2; i++) {
        const double ramp = fmin(1, fmax(0, ((double)i - low) / fmax(0.001, high - low)));
        r.freq[i] = r.freq[i] / factor * ramp + r.freq[i] * (1 - ramp);
    }
    r.scale = 1 + 0.1 * log(factor);
    return r;
}

static const float *values_of(const struct file *f, int layer, const char *what)
{
    char name[48];
    if (layer >= 0)
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    else
        snprintf(name, sizeof name, "%s.weight", what);
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return f->tensors[i].v;
    fail_msg("no tensor %s", name);
    return NULL;
}

static void times(const float *w, const double *x, size_t n_in, size_t n_out, double *y)
{
    for (size_t o = 0; o < n_out; o++) {
        y[o] = 0;
        for (size_t i = 0; i < n_in; i++)
            y[o] += (double)w[o * n_in + i] * x[i];
    }
}

/* w NULL: without factors. */
static void norm(const float *w, const double *x, size_t n, double *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + 1e-6) * (w ? (double)w[i] : 1);
}

static void rotate(const struct rotation *r, size_t pos, double *head)
{
    for (size_t i = 0; i < r->n_rot / 2; i++) {
        double *a = r->neighbours ? &head[2 * i] : &head[i];
        double *b = r->neighbours ? &head[2 * i + 1] : &head[i + r->n_rot / 2];
        const double x = *a, y = *b, angle = (double)pos * r->freq[i];
        *a = (x * cos(angle) - y * sin(angle)) * r->scale;
        *b = (x * sin(angle) + y * cos(angle)) * r->scale;
    }
}

static void norm_and_rotate(const struct file *f, const float *w, const struct rotation *r,
                            size_t pos, size_t n_heads, double *x)
{
    if (f->form->norm_all) norm(w, x, n_heads * HEAD_DIM, x);
    for (size_t h = 0; h < n_heads; h++) {
        if (f->form->norm_heads) norm(w, x + h * HEAD_DIM, HEAD_DIM, x + h * HEAD_DIM);
        rotate(r, pos, x + h * HEAD_DIM);
    }
}

struct rows {
    double x[N_IDS][EMBD], q[N_IDS][HEADS * HEAD_DIM];
    double k[N_IDS][KV_HEADS * HEAD_DIM], v[N_IDS][KV_HEADS * HEAD_DIM];
};

static void attend(const struct form *form, const struct rows *rows, size_t pos, size_t window,
                   double *out)
{
    const double root = form->plain_scores ? 1 : sqrt(HEAD_DIM);
    for (size_t h = 0; h < HEADS; h++) {
        const size_t kv = h * KV_HEADS / HEADS * HEAD_DIM;
        double weight[N_IDS], sum = 0;
        memset(out + h * HEAD_DIM, 0, HEAD_DIM * sizeof *out);
        for (size_t p = 0; p <= pos; p++) {
            double score = 0;
            for (size_t d = 0; d < HEAD_DIM; d++)
                score += rows->q[pos][h * HEAD_DIM + d] * rows->k[p][kv + d];
            const bool seen = window == 0 || pos - p < window;
            weight[p] = seen ? exp(score / root) : 0;
            sum += weight[p];
        }
        for (size_t p = 0; p <= pos; p++)
            for (size_t d = 0; d < HEAD_DIM; d++)
                out[h * HEAD_DIM + d] += weight[p] / sum * rows->v[p][kv + d];
    }
}

static double activation(const struct form *form, double x)
{
    if (form->gelu) return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return x / (1 + exp(-x));
}

static void feed_forward(const struct file *f, int layer, double *x)
{
    double in[EMBD], gate[FF], up[FF], out[EMBD];
    memcpy(in, x, sizeof in);
    if (f->form->norm_before) norm(values_of(f, layer, "ffn_norm"), x, EMBD, in);
    const float *w = values_of(f, layer, "ffn_up");
    times(f->form->gate_in_up ? w : values_of(f, layer, "ffn_gate"), in, EMBD, FF, gate);
    times(f->form->gate_in_up ? w + FF * EMBD : w, in, EMBD, FF, up);
    for (size_t i = 0; i < FF; i++)
        gate[i] = activation(f->form, gate[i]) * up[i];
    times(values_of(f, layer, "ffn_down"), gate, FF, EMBD, out);
    if (f->form->norm_after) norm(values_of(f, layer, "post_ffw_norm"), out, EMBD, out);
    for (size_t i = 0; i < EMBD; i++)
        x[i] += out[i];
}

static void compute_layer(const struct file *f, int layer, const struct sight *s,
                          struct rows *rows)
{
    const struct form *form = f->form;
    const bool normed = form->norm_heads || form->norm_all;
    const float *q_norm = normed ? values_of(f, layer, "attn_q_norm") : NULL;
    const float *k_norm = normed ? values_of(f, layer, "attn_k_norm") : NULL;
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD];
        memcpy(in, rows->x[p], sizeof in);
        if (form->norm_before) norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        times(values_of(f, layer, "attn_q"), in, EMBD, HEADS * HEAD_DIM, rows->q[p]);
        times(values_of(f, layer, "attn_k"), in, EMBD, KV_HEADS * HEAD_DIM, rows->k[p]);
        times(values_of(f, layer, "attn_v"), in, EMBD, KV_HEADS * HEAD_DIM, rows->v[p]);
        for (size_t h = 0; form->norm_values && h < KV_HEADS; h++)
            norm(NULL, &rows->v[p][h * HEAD_DIM], HEAD_DIM, &rows->v[p][h * HEAD_DIM]);
        norm_and_rotate(f, q_norm, &s->rotation, p, HEADS, rows->q[p]);
        norm_and_rotate(f, k_norm, &s->rotation, p, KV_HEADS, rows->k[p]);
    }
    for (size_t p = 0; p < N_IDS; p++) {
        double heads[HEADS * HEAD_DIM], out[EMBD];
        attend(form, rows, p, s->window, heads);
        times(values_of(f, layer, "attn_output"), heads, HEADS * HEAD_DIM, EMBD, out);
        if (form->norm_after) norm(values_of(f, layer, "post_attention_norm"), out, EMBD, out);
        for (size_t i = 0; i < EMBD; i++)
            rows->x[p][i] += out[i];
        feed_forward(f, layer, rows->x[p]);
    }
}

/* The logits of a model of n_layer layers that see and rotate as told. */
static void compute(const struct file *f, const struct sight *layers, int n_layer,
                    double softcap, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    const float *embd = values_of(f, -1, "token_embd");
    for (size_t p = 0; p < N_IDS; p++)
        for (size_t i = 0; i < EMBD; i++)
            rows->x[p][i] = (double)embd[(size_t)id_at(p) * EMBD + i] *
                            (f->form->scaled_embedding ? sqrt(EMBD) : 1);
    for (int layer = 0; layer < n_layer; layer++)
        compute_layer(f, layer, &layers[layer], rows);
    for (size_t p = 0; p < N_IDS; p++) {
        double h[EMBD], out[VOCAB];
        norm(values_of(f, -1, "output_norm"), rows->x[p], EMBD, h);
        times(values_of(f, -1, "output"), h, EMBD, VOCAB, out);
        for (size_t i = 0; i < VOCAB; i++)
            logits[p * VOCAB + i] =
                (float)(softcap > 0 ? softcap * tanh(out[i] / softcap) : out[i]);
    }
    free(rows);
}

static void check(const char *name, const struct file *f, const struct sight *layers,
                  int n_layer, double softcap)
{
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    float *got = mem_zalloc(N_IDS * VOCAB, sizeof *got);
    compute(f, layers, n_layer, softcap, want);
    run(f, got);
    const double nmse = golden_nmse(want, got, N_IDS * VOCAB);
    print_message("# %-40s nmse %.2g\n", name, nmse);
    if (!(nmse <= tolerance)) fail_msg("%s: nmse %.3g exceeds %.3g", name, nmse, tolerance);
    free(want);
    free(got);
}

static void check_refused(const struct file *f, const char *message)
{
    struct buf b = {0};
    struct err err = {0};
    struct model_sizes sizes;
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g) fail_msg("%s", err.msg);
    assert_false(model_estimate(g, NULL, &(struct model_params){0}, 1, &sizes, &err));
    assert_string_equal(err.msg, message);
    gguf_close(g);
    buf_free(&b);
}

/* Every period-th layer as `full`, the others as `local`. */
static void every(struct sight *layers, int period, struct sight full, struct sight local)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] = (i + 1) % period == 0 ? full : local;
}

/* ---- the families ---- */

static void yarn_keys(struct file *f)
{
    key_str(f, "rope.scaling.type", "yarn");
    key_f32(f, "rope.scaling.factor", 8);
    key_u32(f, "rope.scaling.original_context_length", 512);
}

static void pattern_key(struct file *f, int period)
{
    char full[96];
    snprintf(full, sizeof full, "%s.attention.sliding_window_pattern", f->form->arch);
    gb_kv_array(&f->keys, full, GGUF_BOOL, LAYERS);
    f->n_keys++;
    for (int i = 0; i < LAYERS; i++)
        buf_putc(&f->keys, (i + 1) % period != 0);
}

/* OLMo 3 is an olmo2 file with windows: three layers of four see the window only and rotate by
 * the plain frequencies, the fourth sees all and rotates by those of YaRN. */
static void test_olmo3(void **unused)
{
    (void)unused;
    const double base = 500;
    const struct sight yarn = {0, yarn_rotation(HEAD_DIM, base, 8, 512)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, base)};
    const struct sight other = {WINDOW, plain_rotation(HEAD_DIM, 100)};
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &olmo2);
    key_f32(&f, "rope.freq_base", (float)base);
    yarn_keys(&f);
    every(layers, 1, yarn, local);
    check("olmo2 with YaRN", &f, layers, LAYERS, 0);
    key_u32(&f, "attention.sliding_window", WINDOW);
    every(layers, 4, yarn, local);
    check("olmo2 with windows", &f, layers, LAYERS, 0);
    pattern_key(&f, 3);
    every(layers, 3, yarn, local);
    check("olmo2 with windows in a pattern", &f, layers, LAYERS, 0);
    key_f32(&f, "rope.freq_base_swa", 100);
    every(layers, 3, yarn, other);
    check("olmo2 with another base in windows", &f, layers, LAYERS, 0);
    file_free(&f);
    file_init(&f, &olmo2);
    key_f32(&f, "rope.freq_base", (float)base);
    yarn_keys(&f);
    key_u32(&f, "attention.sliding_window", 0);
    every(layers, 1, yarn, local);
    check("olmo2 with a window of 0", &f, layers, LAYERS, 0);
    /* As allenai/Olmo-3's attention_factor: the whole factor, not one beside that of YaRN. */
    struct sight whole = yarn;
    whole.rotation.scale = 1.25;
    key_f32(&f, "rope.scaling.attn_factor", 1.25F);
    every(layers, 1, whole, local);
    check("olmo2 with the factor of cos and sin", &f, layers, LAYERS, 0);
    file_free(&f);
}

static void sections_key(struct file *f, const int32_t *sections, size_t n)
{
    char full[96];
    snprintf(full, sizeof full, "%s.rope.dimension_sections", f->form->arch);
    gb_kv_array(&f->keys, full, GGUF_I32, n);
    f->n_keys++;
    buf_append(&f->keys, sections, n * sizeof *sections);
}

/* The files of glm4 whose models see images, too, have the rows of Q and K in another order,
 * and some count a block that is not to run. */
static void test_glm4(void **unused)
{
    (void)unused;
    enum { N_ROT = HEAD_DIM / 2 };
    static const int32_t three[] = {1, 2, 1, 0}, none[] = {0, 0, 0, 0}, four[] = {1, 1, 1, 1};
    static const struct {
        const char *name;
        const int32_t *sections;
        bool neighbours, next;
    } cases[] = {
        {"glm4", NULL, true, false},
        {"glm4 with sections", three, false, false},
        {"glm4 with sections of nothing", none, true, false},
        {"glm4 with a block of the next token", three, false, true},
    };
    struct sight layers[LAYERS], s = {0, plain_rotation(N_ROT, 10000)};
    struct file f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_init(&f, &glm4);
        key_u32(&f, "rope.dimension_count", N_ROT);
        if (cases[i].sections) sections_key(&f, cases[i].sections, 4);
        if (cases[i].next) key_u32(&f, "nextn_predict_layers", 1);
        s.rotation.neighbours = cases[i].neighbours;
        every(layers, 1, s, s);
        check(cases[i].name, &f, layers, LAYERS - cases[i].next, 0);
        file_free(&f);
    }
    file_init(&f, &glm4);
    sections_key(&f, four, 4);
    check_refused(&f, "m.gguf: key glm4.rope.dimension_sections should end in a section of 0, "
                      "but that is 1");
    file_free(&f);
}

/* gemma3 has windows and rotates in them by another base; Rnj-1, a gemma3 without windows, does
 * everywhere what gemma3 does in the layers that see all. */
static void test_gemma3(void **unused)
{
    (void)unused;
    const double base = 1000000, cap = 3;
    const struct sight yarn = {0, yarn_rotation(HEAD_DIM, base, 8, 512)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 10000)};
    struct sight layers[LAYERS];
    static const struct {
        const char *name;
        bool has_key;
        uint32_t window;
    } cases[] = {
        {"gemma3", true, WINDOW},
        {"gemma3 without windows", false, 0},
        {"gemma3 with a window of 0", true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f;
        file_init(&f, &gemma3);
        key_f32(&f, "rope.freq_base", (float)base);
        yarn_keys(&f);
        if (cases[i].has_key) key_u32(&f, "attention.sliding_window", cases[i].window);
        every(layers, cases[i].window > 0 ? 6 : 1, yarn, local);
        check(cases[i].name, &f, layers, LAYERS, 0);
        key_f32(&f, "final_logit_softcapping", (float)cap);
        check("the same with a cap", &f, layers, LAYERS, cap);
        file_free(&f);
    }
}

/* gemma4 with n_shared layers that read the keys of others. */
static void gemma4_file(struct file *f, uint32_t n_shared)
{
    file_init(f, &gemma4);
    key_u32(f, "attention.sliding_window", WINDOW);
    key_u32(f, "attention.shared_kv_layers", n_shared);
    pattern_key(f, 3);
}

/* The values of gemma4 are normed, whether their rows are a tensor or a part of one; a layer
 * that reads the keys of another may have some, too. */
static void test_gemma4(void **unused)
{
    (void)unused;
    const struct sight full = {0, plain_rotation(HEAD_DIM, 10000)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 10000)};
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    struct sight layers[LAYERS];
    struct file f;
    gemma4_file(&f, 0);
    every(layers, 3, full, local);
    check("gemma4", &f, layers, LAYERS, 0);
    file_free(&f);
    for (uint32_t n_shared = 0; n_shared < 2; n_shared++) {
        gemma4_file(&f, n_shared);
        run(&f, want);
        fuse(&f);
        run(&f, got);
        assert_memory_equal(got, want, n * sizeof *got);
        file_free(&f);
    }
    gemma4_file(&f, 0);
    key_u32(&f, "rope.dimension_count_swa", 7);
    check_refused(&f, "m.gguf: key gemma4.rope.dimension_count_swa should be even, but is 7");
    file_free(&f);
    free(want);
    free(got);
}

/* The gates of qwen35 come with the rows of Q, whether those are a tensor or a part of one. */
static void test_gates(void **unused)
{
    (void)unused;
    static const struct form qwen35 = {"qwen35", .norm_before = true, .norm_heads = true};
    static const char *const ssm[] = {"conv_kernel", "state_size", "group_count",
                                      "time_step_rank", "inner_size"};
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    struct file f;
    file_init(&f, &qwen35);
    key_u32(&f, "full_attention_interval", 1);
    for (size_t i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "ssm.%s", ssm[i]);
        key_u32(&f, name, 2);
    }
    for (int i = 0; i < LAYERS; i++) {
        struct values *q = tensor_of(&f, i, "attn_q"), *norm = tensor_of(&f, i, "ffn_norm");
        snprintf(norm->name, sizeof norm->name, "blk.%d.post_attention_norm.weight", i);
        free(q->v);
        *q = f.tensors[--f.n_tensors];
        layer_tensor(&f, i, "attn_q", EMBD, 2 * HEADS * HEAD_DIM);
    }
    run(&f, want);
    fuse(&f);
    run(&f, got);
    assert_memory_equal(got, want, n * sizeof *got);
    file_free(&f);
    free(want);
    free(got);
}

/* A key that Ollama's converter names otherwise. */
struct alias {
    const char *key, *alias;
    float value;
};

/* Logits of a file with YaRN and those keys: NULL ends the list. Each has its common name, or
 * Ollama's, or both, of which Ollama's is wrong; the one called `without` is left out. */
static void run_named(const struct form *form, const struct alias *list, bool common,
                      bool ollama, const char *without, float *logits)
{
    struct file f;
    file_init(&f, form);
    key_str(&f, "rope.scaling.type", "yarn");
    key_f32(&f, "rope.scaling.factor", 8);
    key_u32(&f, "rope.scaling.original_context_length", 16);
    key_u32(&f, "attention.sliding_window", WINDOW); /* no matter to mistral3 */
    for (const struct alias *a = list; a->key; a++) {
        if (without && strcmp(without, a->key) == 0) continue;
        if (common) key_f32(&f, a->key, a->value);
        if (ollama) key_f32(&f, a->alias, common ? a->value * 0.5f : a->value);
    }
    run(&f, logits);
    file_free(&f);
}

static void check_aliases(const struct form *form, const struct alias *list)
{
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    run_named(form, list, true, false, NULL, want);
    run_named(form, list, false, true, NULL, got);
    assert_memory_equal(got, want, n * sizeof *got);
    run_named(form, list, true, true, NULL, got);
    assert_memory_equal(got, want, n * sizeof *got);
    for (const struct alias *a = list; a->key; a++) { /* that the test would see it */
        run_named(form, list, true, false, a->key, got);
        if (golden_nmse(want, got, n) < 1e-6) fail_msg("%s changes nothing", a->key);
    }
    free(want);
    free(got);
}

static void test_aliases(void **unused)
{
    (void)unused;
    static const struct alias of_gemma3[] = {
        {"rope.freq_base", "rope.global.freq_base", 1000000},
        {"rope.freq_base_swa", "rope.local.freq_base", 500},
        {"rope.scaling.yarn_ext_factor", "rope.scaling.extrapolation_factor", 0.5f},
        {NULL, NULL, 0},
    };
    static const struct alias of_mistral3[] = {
        {"rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast", 0.5f},
        {"rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow", 0.125f},
        {"rope.scaling.yarn_log_multiplier", "rope.scaling.mscale_all_dim", 1},
        {"attention.temperature_scale", "rope.scaling_beta", 0.5f},
        {NULL, NULL, 0},
    };
    check_aliases(&gemma3, of_gemma3);
    check_aliases(&mistral3, of_mistral3);
    struct file f;
    file_init(&f, &mistral3);
    key_f32(&f, "rope.scaling_beta", 0.1f);
    key_u32(&f, "rope.scaling.original_context_length", 16);
    check_refused(&f, "m.gguf: with key mistral3.rope.scaling_beta, key "
                      "mistral3.rope.scaling.type should be yarn, but is not: the file lacks "
                      "the scaling of its model");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_olmo3),  cmocka_unit_test(test_glm4),
        cmocka_unit_test(test_gemma3), cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_gates),  cmocka_unit_test(test_aliases),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
