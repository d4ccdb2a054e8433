/* gemma3n on small random models: the logits against those of a second computation in double,
 * with streams, layers that read the keys of others, and gates that are cut. */
#include "second_model.h"

enum { MAX_STREAMS = 4, FEW = 12, GIVEN = 24 }; /* values of a layer's own input */

static const struct form form = {
    "gemma3n",    .norm_before = true,      .norm_after = true,  .norm_heads = true,
    .gelu = true, .scaled_embedding = true, .norm_values = true, .plain_scores = true};

/* What a file has; cut of layers from the fourth on: none. */
struct variant {
    size_t n_streams, n_shared;
    double softcap;
    float cut[3];
};

static void cuts_key(struct file *f, const float *values, size_t n)
{
    gb_kv_array(&f->keys, "gemma3n.activation_sparsity_scale", GGUF_F32, n);
    f->n_keys++;
    buf_append(&f->keys, values, n * sizeof *values);
}

static void stream_matrices(struct file *f, const char *name, size_t n)
{
    tensor(f, name, EMBD, n * EMBD);
    f->tensors[f->n_tensors - 1].n_mats = n;
}

static void layer_tensors(struct file *f, int layer, size_t n)
{
    char name[48];
    layer_tensor(f, layer, "inp_gate", EMBD, GIVEN);
    layer_tensor(f, layer, "proj", GIVEN, EMBD);
    layer_tensor(f, layer, "post_norm", EMBD, 1);
    layer_tensor(f, layer, "laurel_l", EMBD, FEW);
    layer_tensor(f, layer, "laurel_r", FEW, EMBD);
    layer_tensor(f, layer, "laurel_post_norm", EMBD, 1);
    layer_tensor(f, layer, "altup_correct_coef", n, n);
    layer_tensor(f, layer, "altup_correct_scale", EMBD, 1);
    layer_tensor(f, layer, "altup_predict_coef", n, n * n);
    layer_tensor(f, layer, "altup_router_norm", EMBD, 1);
    /* Its product is divided by EMBD. */
    snprintf(name, sizeof name, "blk.%d.altup_router.weight", layer);
    random_tensor(f, name, EMBD, n, 0, 3);
}

/* All but the keys of cuts and windows. */
static void file_without_cuts(struct file *f, const struct variant *v)
{
    file_init(f, &form);
    key_u32(f, "attention.sliding_window", WINDOW);
    key_u32(f, "attention.shared_kv_layers", (uint32_t)v->n_shared);
    key_u32(f, "embedding_length_per_layer_input", GIVEN);
    tensor(f, "per_layer_token_embd.weight", GIVEN * LAYERS, VOCAB);
    tensor(f, "per_layer_model_proj.weight", EMBD, GIVEN * LAYERS);
    tensor(f, "per_layer_proj_norm.weight", GIVEN, 1);
    stream_matrices(f, "altup_proj.weight", v->n_streams - 1);
    stream_matrices(f, "altup_unembd_proj.weight", v->n_streams - 1);
    for (int i = 0; i < LAYERS; i++)
        layer_tensors(f, i, v->n_streams);
}

static void make_file(struct file *f, const struct variant *v)
{
    float cuts[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        cuts[i] = i < 3 ? v->cut[i] : -INFINITY;
    file_without_cuts(f, v);
    cuts_key(f, cuts, LAYERS);
}

/* ---- the second computation ---- */

struct keys {
    double k[N_IDS][HEADS * HEAD_DIM], v[N_IDS][HEADS * HEAD_DIM];
};

struct flow {
    struct rows rows;
    double streams[N_IDS][MAX_STREAMS][EMBD], predicted[N_IDS][MAX_STREAMS][EMBD];
    double inputs[N_IDS][GIVEN * LAYERS];
    struct keys keys[LAYERS];
};

static double size_of(const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < EMBD; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void compute_inputs(const struct file *f, struct flow *w)
{
    const float *table = values_of(f, -1, "per_layer_token_embd");
    for (size_t p = 0; p < N_IDS; p++) {
        double *in = w->inputs[p];
        const float *own = table + (size_t)id_at(p) * GIVEN * LAYERS;
        times(values_of(f, -1, "per_layer_model_proj"), w->rows.x[p], EMBD, GIVEN * LAYERS, in);
        for (size_t l = 0; l < LAYERS; l++) {
            double *part = in + l * GIVEN;
            for (size_t i = 0; i < GIVEN; i++)
                part[i] /= sqrt(EMBD);
            norm(values_of(f, -1, "per_layer_proj_norm"), part, GIVEN, part);
            for (size_t i = 0; i < GIVEN; i++)
                part[i] = (part[i] + (double)own[l * GIVEN + i] * sqrt(GIVEN)) / sqrt(2);
        }
    }
}

/* A row by the i-th of some matrices, with the size of another row. */
static void sized(const struct file *f, const char *what, size_t i, const double *x,
                  const double *like, double *y)
{
    times(values_of(f, -1, what) + i * EMBD * EMBD, x, EMBD, EMBD, y);
    const double factor = size_of(like) / size_of(y);
    for (size_t k = 0; k < EMBD; k++)
        y[k] *= factor;
}

static void modalities(const struct file *f, int layer, const double *x, size_t n, double *y)
{
    double in[EMBD];
    norm(values_of(f, layer, "altup_router_norm"), x, EMBD, in);
    times(values_of(f, layer, "altup_router"), in, EMBD, n, y);
    for (size_t i = 0; i < n; i++)
        y[i] = tanh(y[i] / EMBD);
}

static void predict(const struct file *f, int layer, size_t n, struct flow *w, size_t p)
{
    double from[MAX_STREAMS], coefs[MAX_STREAMS * MAX_STREAMS];
    modalities(f, layer, w->streams[p][0], n, from);
    times(values_of(f, layer, "altup_predict_coef"), from, n, n * n, coefs);
    for (size_t j = 0; j < n; j++) {
        memcpy(w->predicted[p][j], w->streams[p][j], sizeof w->predicted[p][j]);
        for (size_t k = 0; k < n; k++)
            add_times(w->predicted[p][j], w->streams[p][k], coefs[j * n + k]);
    }
}

static void correct(const struct file *f, int layer, size_t n, struct flow *w, size_t p,
                    const double *activated)
{
    double from[MAX_STREAMS], coefs[MAX_STREAMS], news[EMBD];
    modalities(f, layer, activated, n, from);
    times(values_of(f, layer, "altup_correct_coef"), from, n, n, coefs);
    for (size_t i = 0; i < EMBD; i++)
        news[i] = activated[i] - w->predicted[p][0][i];
    for (size_t j = 0; j < n; j++) {
        memcpy(w->streams[p][j], w->predicted[p][j], sizeof w->streams[p][j]);
        add_times(w->streams[p][j], news, coefs[j] + 1);
    }
}

/* The keys and values of another layer, by queries of this one's x. */
static void attention_by(const struct file *f, int layer, const struct keys *keys,
                         const struct sight *s, struct rows *rows)
{
    memcpy(rows->k, keys->k, sizeof rows->k);
    memcpy(rows->v, keys->v, sizeof rows->v);
    for (size_t p = 0; p < N_IDS; p++) {
        double heads[HEADS * HEAD_DIM], out[EMBD];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, rows->h[p]);
        project(f, layer, "attn_q", rows->h[p], HEADS * HEAD_DIM, rows->q[p]);
        norm_and_rotate(f, values_of(f, layer, "attn_q_norm"), &s->rotation, p, HEADS,
                        rows->q[p]);
        attend(f, rows, p, s, NULL, heads);
        times(values_of(f, layer, "attn_output"), heads, HEADS * HEAD_DIM, EMBD, out);
        norm(values_of(f, layer, "post_attention_norm"), out, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
}

/* x = (x + h + norm(right left h)) / sqrt 2. */
static void laurel(const struct file *f, int layer, const double *h, double *x)
{
    double few[FEW], out[EMBD];
    times(values_of(f, layer, "laurel_l"), h, EMBD, FEW, few);
    times(values_of(f, layer, "laurel_r"), few, FEW, EMBD, out);
    norm(values_of(f, layer, "laurel_post_norm"), out, EMBD, out);
    for (size_t i = 0; i < EMBD; i++)
        x[i] = (x[i] + h[i] + out[i]) / sqrt(2);
}

static void cut_gate(double *gate, double cut)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < FF; i++)
        mean += gate[i] / FF;
    for (size_t i = 0; i < FF; i++)
        square += (gate[i] - mean) * (gate[i] - mean) / FF;
    for (size_t i = 0; i < FF; i++)
        gate[i] = fmax(0, gate[i] - mean - cut * sqrt(square));
}

static void cut_dense(const struct file *f, int layer, const struct variant *v, double *x)
{
    double in[EMBD], gate[FF], up[FF], out[EMBD];
    norm(values_of(f, layer, "ffn_norm"), x, EMBD, in);
    times(values_of(f, layer, "ffn_gate"), in, EMBD, FF, gate);
    times(values_of(f, layer, "ffn_up"), in, EMBD, FF, up);
    if (layer < 3 && v->cut[layer] > -INFINITY) cut_gate(gate, (double)v->cut[layer]);
    for (size_t i = 0; i < FF; i++)
        gate[i] = activation(f->form, gate[i]) * up[i];
    times(values_of(f, layer, "ffn_down"), gate, FF, EMBD, out);
    norm(values_of(f, layer, "post_ffw_norm"), out, EMBD, out);
    add_times(x, out, 1);
}

/* Adds what the layer has for the token to all streams but the first. */
static void own_input(const struct file *f, int layer, size_t n, struct flow *w, size_t p)
{
    const float *scale = values_of(f, layer, "altup_correct_scale");
    double in[EMBD], gate[GIVEN], out[EMBD];
    for (size_t i = 0; i < EMBD; i++)
        in[i] = w->streams[p][0][i] * (double)scale[i];
    times(values_of(f, layer, "inp_gate"), in, EMBD, GIVEN, gate);
    for (size_t i = 0; i < GIVEN; i++)
        gate[i] = activation(f->form, gate[i]) * w->inputs[p][(size_t)layer * GIVEN + i];
    times(values_of(f, layer, "proj"), gate, GIVEN, EMBD, out);
    norm(values_of(f, layer, "post_norm"), out, EMBD, out);
    for (size_t j = 1; j < n; j++)
        add_times(w->streams[p][j], out, 1);
}

static void run_layer(const struct file *f, int layer, const struct variant *v,
                      const struct sight *s, struct flow *w)
{
    const int n_own = LAYERS - (int)v->n_shared;
    for (size_t p = 0; p < N_IDS; p++) {
        predict(f, layer, v->n_streams, w, p);
        memcpy(w->rows.x[p], w->predicted[p][0], sizeof w->rows.x[p]);
    }
    if (layer < n_own) {
        attention(f, layer, s, &w->rows);
        memcpy(w->keys[layer].k, w->rows.k, sizeof w->rows.k);
        memcpy(w->keys[layer].v, w->rows.v, sizeof w->rows.v);
    } else {
        attention_by(f, layer, &w->keys[n_own - (s->window > 0 ? 2 : 1)], s, &w->rows);
    }
    for (size_t p = 0; p < N_IDS; p++) {
        laurel(f, layer, w->rows.h[p], w->rows.x[p]);
        cut_dense(f, layer, v, w->rows.x[p]);
        correct(f, layer, v->n_streams, w, p, w->rows.x[p]);
        own_input(f, layer, v->n_streams, w, p);
    }
}

static void open_streams(const struct file *f, size_t n, struct flow *w)
{
    for (size_t p = 0; p < N_IDS; p++) {
        memcpy(w->streams[p][0], w->rows.x[p], sizeof w->rows.x[p]);
        for (size_t j = 1; j < n; j++)
            sized(f, "altup_proj", j - 1, w->rows.x[p], w->rows.x[p], w->streams[p][j]);
    }
}

static void close_streams(const struct file *f, size_t n, struct flow *w)
{
    for (size_t p = 0; p < N_IDS; p++) {
        double part[EMBD];
        memcpy(w->rows.x[p], w->streams[p][0], sizeof w->rows.x[p]);
        for (size_t j = 1; j < n; j++) {
            sized(f, "altup_unembd_proj", j - 1, w->streams[p][j], w->streams[p][0], part);
            add_times(w->rows.x[p], part, 1);
        }
        for (size_t i = 0; i < EMBD; i++)
            w->rows.x[p][i] /= (double)n;
    }
}

static void check_flow(double most, const char *name, const struct file *f,
                       const struct variant *v, const struct sight *layers)
{
    struct flow *w = mem_zalloc(1, sizeof *w);
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    embed(f, &w->rows);
    compute_inputs(f, w);
    open_streams(f, v->n_streams, w);
    for (int i = 0; i < LAYERS; i++)
        run_layer(f, i, v, &layers[i], w);
    close_streams(f, v->n_streams, w);
    head(f, &w->rows, v->softcap, want);
    check_logits(most, name, f, want);
    free(want);
    free(w);
}

/* ---- tests ---- */

/* As files have it: of five layers one sees everything; the last read what earlier ones keep.
 */
static void test_shared(void **unused)
{
    (void)unused;
    const double most = 6e-11;
    const struct sight full = {0, plain_rotation(HEAD_DIM, 500)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 10000)};
    struct variant v = {.n_streams = 4, .softcap = 30, .cut = {0.8f, 0, -0.5f}};
    struct sight layers[LAYERS];
    every(layers, 5, full, local);
    for (size_t n_shared = 0; n_shared < 3; n_shared += 2) {
        struct file f;
        v.n_shared = n_shared;
        make_file(&f, &v);
        key_f32(&f, "rope.freq_base", 500);
        check_flow(most, n_shared ? "gemma3n with layers that read other keys" : "gemma3n", &f,
                   &v, layers);
        file_free(&f);
    }
}

/* Two streams; windows in a pattern with a base of their own; another cap. */
static void test_keys(void **unused)
{
    (void)unused;
    const double most = 6e-11;
    const struct sight full = {0, plain_rotation(HEAD_DIM, 10000)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 100)};
    const struct variant v = {
        .n_streams = 2, .softcap = 5, .cut = {-INFINITY, 0.25f, -INFINITY}};
    struct sight layers[LAYERS];
    struct file f;
    make_file(&f, &v);
    every(layers, 3, full, local);
    pattern_key(&f, 3);
    key_u32(&f, "altup.num_inputs", 2);
    key_u32(&f, "altup.active_idx", 0);
    key_f32(&f, "rope.freq_base_swa", 100);
    key_f32(&f, "final_logit_softcapping", 5);
    check_flow(most, "gemma3n with two streams", &f, &v, layers);
    file_free(&f);
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct variant v = {.n_streams = 4};
    float cuts[LAYERS] = {0};
    struct file f;
    file_without_cuts(&f, &v);
    check_refused(&f, "m.gguf: key gemma3n.activation_sparsity_scale is missing");
    cuts_key(&f, cuts, LAYERS - 1);
    check_refused(&f, "m.gguf: key gemma3n.activation_sparsity_scale should be an array of 7 "
                      "numbers");
    file_free(&f);
    cuts[4] = INFINITY;
    file_without_cuts(&f, &v);
    cuts_key(&f, cuts, LAYERS);
    check_refused(&f, "m.gguf: key gemma3n.activation_sparsity_scale should be within 100 of 0 "
                      "or -inf, but has inf of layer 4");
    file_free(&f);
    make_file(&f, &v);
    key_u32(&f, "altup.active_idx", 1);
    check_refused(&f,
                  "m.gguf: key gemma3n.altup.active_idx should be between 0 and 0, but is 1");
    file_free(&f);
    make_file(&f, &v);
    key_u32(&f, "altup.num_inputs", 3);
    check_refused(&f,
                  "m.gguf: tensor altup_proj.weight: expected [64, 64, 2], found [64, 64, 3]");
    file_free(&f);
    make_file(&f, &v);
    struct values *t = tensor_of(&f, 2, "laurel_l");
    free(t->v);
    *t = f.tensors[--f.n_tensors];
    check_refused(&f, "m.gguf: tensor blk.2.laurel_l.weight is missing or empty");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
