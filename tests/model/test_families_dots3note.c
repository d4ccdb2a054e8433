/* dots3note, whose layers with windows make keys and values of other sizes than those that see
 * everything, on small random models: the logits against those of a second computation in
 * double, which makes keys and values of all heads where hearth brings queries to the narrow
 * row. No case may differ by ten times what it was measured to. */
#include "engine/timeline.h"
#include "second_model.h"

enum { N_ROT = 8, N_QUERY = 20, WIDTH = 12, MOST_HEADS = 6, MOST_PLAIN = 12, MOST_VALUE = 14 };
enum { PERIOD = 4 }; /* every so many layers one sees everything */

static const double far_base = 500, near_base = 100;

/* The sizes of layers that see everything, and of those with windows. */
struct kind {
    size_t n_head, n_plain, n_narrow, n_value;
};
static const struct kind full = {4, 12, 24, 10}, local = {6, 5, 18, 14};

static bool is_full(int layer)
{
    return (layer + 1) % PERIOD == 0;
}

static const struct kind *kind_of(int layer)
{
    return is_full(layer) ? &full : &local;
}

static const struct form form = {.arch = "dots3note",
                                 .heads_apart = true,
                                 .experts = {.any = true,
                                             .sigmoid = true,
                                             .select = true,
                                             .as_is = true,
                                             .n_dense = 1,
                                             .n_ff = WIDTH,
                                             .n_shared = WIDTH}};

/* ---- files ---- */

static void matrices_by_head(struct file *f, int layer, const char *what, size_t n_in,
                             size_t n_out)
{
    const size_t n_head = kind_of(layer)->n_head;
    layer_tensor(f, layer, what, n_in, n_head * n_out);
    f->tensors[f->n_tensors - 1].n_mats = n_head;
}

static void layer_tensors(struct file *f, int layer)
{
    const struct kind *k = kind_of(layer);
    layer_tensor(f, layer, "attn_norm", EMBD, 1);
    layer_tensor(f, layer, "attn_q_a", EMBD, N_QUERY);
    layer_tensor(f, layer, "attn_q_a_norm", N_QUERY, 1);
    layer_tensor(f, layer, "attn_q_b", N_QUERY, k->n_head * (k->n_plain + N_ROT));
    layer_tensor(f, layer, "attn_kv_a_mqa", EMBD, k->n_narrow + N_ROT);
    layer_tensor(f, layer, "attn_kv_a_norm", k->n_narrow, 1);
    layer_tensor(f, layer, "attn_k_norm", N_ROT, 1);
    matrices_by_head(f, layer, "attn_k_b", k->n_plain, k->n_narrow);
    matrices_by_head(f, layer, "attn_v_b", k->n_narrow, k->n_value);
    layer_tensor(f, layer, "attn_gate", EMBD, k->n_head);
    layer_tensor(f, layer, "attn_output", k->n_head * k->n_value, EMBD);
    layer_tensor(f, layer, "ffn_norm", EMBD, 1);
    feed_forward_tensors(f, layer);
    if (is_full(layer)) layer_tensor(f, layer, "indexer.proj", EMBD, 2);
}

/* All but the sizes of layers with windows, and how much the indexer chooses. */
static void init(struct file *f)
{
    int32_t heads[LAYERS];
    file_begin(f, &form);
    key_u32(f, "feed_forward_length", FF);
    key_u32(f, "expert_used_count", USED);
    key_u32(f, "expert_shared_count", 1);
    key_u32(f, "leading_dense_block_count", 1);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(f, "attention.head_count_kv", 1);
    key_u32(f, "attention.sliding_window", WINDOW);
    pattern_key(f, PERIOD);
    key_u32(f, "rope.dimension_count", N_ROT);
    key_f32(f, "rope.freq_base", (float)far_base);
    key_f32(f, "rope.freq_base_swa", (float)near_base);
    key_u32(f, "attention.q_lora_rank", N_QUERY);
    key_u32(f, "attention.kv_lora_rank", (uint32_t)full.n_narrow);
    key_u32(f, "attention.key_length", (uint32_t)full.n_narrow + N_ROT);
    key_u32(f, "attention.value_length", (uint32_t)full.n_narrow);
    key_u32(f, "attention.key_length_mla", (uint32_t)full.n_plain + N_ROT);
    key_u32(f, "attention.value_length_mla", (uint32_t)full.n_value);
    for (int i = 0; i < LAYERS; i++) {
        heads[i] = (int32_t)kind_of(i)->n_head;
        layer_tensors(f, i);
    }
    array_key(f, "attention.head_count", heads, LAYERS);
}

static void local_sizes(struct file *f)
{
    key_u32(f, "attention.kv_lora_rank_swa", (uint32_t)local.n_narrow);
    key_u32(f, "attention.key_length_mla_swa", (uint32_t)local.n_plain + N_ROT);
    key_u32(f, "attention.value_length_mla_swa", (uint32_t)local.n_value);
}

/* ---- the second computation ---- */

struct heads {
    double q[N_IDS][MOST_HEADS][MOST_PLAIN + N_ROT], k[N_IDS][MOST_HEADS][MOST_PLAIN + N_ROT];
    double v[N_IDS][MOST_HEADS][MOST_VALUE], gate[N_IDS][MOST_HEADS];
};

static void queries(const struct file *f, int layer, const double *in, size_t pos,
                    const struct rotation *r, struct heads *heads)
{
    const struct kind *k = kind_of(layer);
    const size_t n = k->n_plain + N_ROT;
    double narrow[N_QUERY], q[MOST_HEADS * (MOST_PLAIN + N_ROT)];
    times(values_of(f, layer, "attn_q_a"), in, EMBD, N_QUERY, narrow);
    norm(values_of(f, layer, "attn_q_a_norm"), narrow, N_QUERY, narrow);
    times(values_of(f, layer, "attn_q_b"), narrow, N_QUERY, k->n_head * n, q);
    for (size_t h = 0; h < k->n_head; h++) {
        rotate(r, pos, q + h * n + k->n_plain);
        memcpy(heads->q[pos][h], q + h * n, n * sizeof *q);
    }
    times(values_of(f, layer, "attn_gate"), in, EMBD, k->n_head, heads->gate[pos]);
}

/* A head's matrix of keys has a row for each value of the narrow row, of that head's key. */
static void keys_and_values(const struct file *f, int layer, const double *in, size_t pos,
                            const struct rotation *r, struct heads *heads)
{
    const struct kind *k = kind_of(layer);
    const size_t n = k->n_narrow;
    double c[EMBD];
    times(values_of(f, layer, "attn_kv_a_mqa"), in, EMBD, n + N_ROT, c);
    norm(values_of(f, layer, "attn_kv_a_norm"), c, n, c);
    norm(values_of(f, layer, "attn_k_norm"), c + n, N_ROT, c + n);
    rotate(r, pos, c + n);
    for (size_t h = 0; h < k->n_head; h++) {
        const float *w = values_of(f, layer, "attn_k_b") + h * n * k->n_plain;
        double *key = heads->k[pos][h];
        for (size_t to = 0; to < k->n_plain; to++) {
            key[to] = 0;
            for (size_t from = 0; from < n; from++)
                key[to] += (double)w[from * k->n_plain + to] * c[from];
        }
        memcpy(key + k->n_plain, c + n, N_ROT * sizeof *key);
        times(values_of(f, layer, "attn_v_b") + h * n * k->n_value, c, n, k->n_value,
              heads->v[pos][h]);
    }
}

static void attend_head(const struct heads *heads, int layer, size_t h, size_t pos, double *out)
{
    const struct kind *k = kind_of(layer);
    const size_t n = k->n_plain + N_ROT;
    double weight[N_IDS], sum = 0;
    memset(out, 0, k->n_value * sizeof *out);
    for (size_t p = 0; p <= pos; p++) {
        double score = 0;
        for (size_t d = 0; d < n; d++)
            score += heads->q[pos][h][d] * heads->k[p][h][d];
        const bool seen = is_full(layer) || pos - p < WINDOW;
        sum += weight[p] = seen ? exp(score / sqrt((double)n)) : 0;
    }
    for (size_t p = 0; p <= pos; p++)
        for (size_t d = 0; d < k->n_value; d++)
            out[d] += weight[p] / sum * heads->v[p][h][d] * sigmoid(heads->gate[pos][h]);
}

static void attention_of(const struct file *f, int layer, double (*x)[EMBD],
                         struct heads *heads)
{
    const struct kind *k = kind_of(layer);
    struct rotation r = plain_rotation(N_ROT, is_full(layer) ? far_base : near_base);
    r.neighbours = true;
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD];
        norm(values_of(f, layer, "attn_norm"), x[p], EMBD, in);
        queries(f, layer, in, p, &r, heads);
        keys_and_values(f, layer, in, p, &r, heads);
    }
    for (size_t p = 0; p < N_IDS; p++) {
        double all[MOST_HEADS * MOST_VALUE], out[EMBD];
        for (size_t h = 0; h < k->n_head; h++)
            attend_head(heads, layer, h, p, all + h * k->n_value);
        times(values_of(f, layer, "attn_output"), all, k->n_head * k->n_value, EMBD, out);
        add_times(x[p], out, 1);
    }
}

static void feed_forward_of(const struct file *f, int layer, double *x)
{
    double in[EMBD], out[EMBD];
    norm(values_of(f, layer, "ffn_norm"), x, EMBD, in);
    experts_or_dense(f, layer, in, in, out);
    add_times(x, out, 1);
}

/* By the first n_layer layers. */
static void check_dots(double most, const char *name, const struct file *f, int n_layer)
{
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct heads *heads = mem_zalloc(1, sizeof *heads);
    embed(f, rows);
    for (int layer = 0; layer < n_layer; layer++) {
        attention_of(f, layer, rows->x, heads);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward_of(f, layer, rows->x[p]);
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(heads);
    free(rows);
    free(want);
}

/* ---- tests ---- */

static void test_logits(void **unused)
{
    (void)unused;
    const double most = 4e-12;
    struct file f;
    init(&f);
    local_sizes(&f);
    key_u32(&f, "attention.indexer.top_k", 4096);
    check_dots(most, "dots3note", &f, LAYERS);
    key_u32(&f, "nextn_predict_layers", 1);
    check_dots(most, "dots3note with a block of the next token", &f, LAYERS - 1);
    file_free(&f);
}

/* A sequence that went on otherwise after some tokens, of which rows of windows may be gone,
 * has the bits of one that is read at once. */
static void test_kept(void **unused)
{
    (void)unused;
    static const size_t kept[] = {1, 16, 29, N_IDS - 1};
    const struct runner_options o = {.n_threads = 1, .kv_type = KV_F16, .batch = 16};
    const struct timeline_limits limits = {.n_ctx = 2 * N_IDS};
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    int32_t ids[N_IDS], others[N_IDS];
    struct file f;
    struct buf b = {0};
    struct runner r;
    struct err err = {0};
    init(&f);
    local_sizes(&f);
    key_u32(&f, "attention.indexer.top_k", 4096);
    open_file(&r, &f, o, &b);
    all_ids(ids);
    runner_run(&r, ids, N_IDS, 0, want);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        all_ids(others);
        for (size_t i = kept[k]; i < N_IDS; i++)
            others[i] = (ids[i] + 1) % VOCAB;
        struct timeline *tl = timeline_new(r.be, model_program(r.m), &limits, &err);
        if (!tl || !timeline_sync(tl, others, N_IDS, NULL, NULL, &err) ||
            !timeline_sync(tl, ids, N_IDS, NULL, NULL, &err))
            fail_msg("%s", err.msg);
        assert_memory_equal(timeline_logits(tl), want + (size_t)(N_IDS - 1) * VOCAB,
                            VOCAB * sizeof *want);
        timeline_free(tl);
    }
    runner_close(&r);
    buf_free(&b);
    file_free(&f);
    free(want);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct file f;
    init(&f);
    check_refused(&f, "m.gguf: key dots3note.attention.kv_lora_rank_swa is missing");
    local_sizes(&f);
    check_refused(&f, "m.gguf: key dots3note.attention.indexer.top_k is missing");
    key_u32(&f, "attention.indexer.top_k", 4095);
    check_reach(&f, 4095, "attends to what its indexer chooses",
                "dots3note.attention.indexer.top_k");
    file_free(&f);
    init(&f);
    key_u32(&f, "attention.kv_lora_rank_swa", (uint32_t)local.n_narrow);
    key_u32(&f, "attention.key_length_mla_swa", N_ROT);
    check_refused(&f, "m.gguf: key dots3note.attention.key_length_mla_swa should be between 9 "
                      "and 8192, but is 8");
    file_free(&f);
    init(&f);
    local_sizes(&f);
    key_u32(&f, "attention.indexer.top_k", 4096);
    key_f32(&f, "rope.scaling.factor", 4);
    check_refused(&f, "m.gguf: the file scales its rotations (context by 4, cos and sin by 1), "
                      "which hearth's dots3note does not");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_dots3note", tests, NULL, NULL);
}
