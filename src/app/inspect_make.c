/* hearth inspect make: a GGUF file of a given shape with random weights, for benchmarks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command_line.h"
#include "app/inspect.h"
#include "app/shapes.h"
#include "base/ascii.h"
#include "base/mem.h"
#include "base/printable.h"
#include "config/paths.h"
#include "gguf/gguf_write.h"
#include "gguf/qgrid.h"
#include "gguf/random_blocks.h"

/* The usual file types: which tensor gets which weight type, as the usual tools mix them. */
struct file_type {
    const char *name;
    enum qtype base;
    enum qtype head;     /* the head, or a tied embedding */
    enum qtype v, down;  /* values and feed-forward down, in the layers of `more` */
    enum qtype attn_out; /* attention output */
    enum { MORE_NONE, MORE_SOME, MORE_ALL } more;
    uint32_t number; /* general.file_type */
};

#define SAME(t) (t), (t), (t)
static const struct file_type file_types[] = {
    {"F32", QTYPE_F32, QTYPE_F32, SAME(QTYPE_F32), MORE_NONE, 0},
    {"F16", QTYPE_F16, QTYPE_F16, SAME(QTYPE_F16), MORE_NONE, 1},
    {"Q4_0", QTYPE_Q4_0, QTYPE_Q6_K, SAME(QTYPE_Q4_0), MORE_NONE, 2},
    {"Q4_1", QTYPE_Q4_1, QTYPE_Q6_K, SAME(QTYPE_Q4_1), MORE_NONE, 3},
    {"Q8_0", QTYPE_Q8_0, QTYPE_Q8_0, SAME(QTYPE_Q8_0), MORE_NONE, 7},
    {"Q5_0", QTYPE_Q5_0, QTYPE_Q6_K, SAME(QTYPE_Q5_0), MORE_NONE, 8},
    {"Q5_1", QTYPE_Q5_1, QTYPE_Q6_K, SAME(QTYPE_Q5_1), MORE_NONE, 9},
    {"Q2_K", QTYPE_Q2_K, QTYPE_Q6_K, QTYPE_Q3_K, QTYPE_Q3_K, QTYPE_Q3_K, MORE_ALL, 10},
    {"Q3_K_M", QTYPE_Q3_K, QTYPE_Q6_K, QTYPE_Q4_K, QTYPE_Q4_K, QTYPE_Q4_K, MORE_ALL, 12},
    {"Q4_K_M", QTYPE_Q4_K, QTYPE_Q6_K, QTYPE_Q6_K, QTYPE_Q6_K, QTYPE_Q4_K, MORE_SOME, 15},
    {"Q5_K_M", QTYPE_Q5_K, QTYPE_Q6_K, QTYPE_Q6_K, QTYPE_Q6_K, QTYPE_Q5_K, MORE_SOME, 17},
    {"Q6_K", QTYPE_Q6_K, QTYPE_Q6_K, SAME(QTYPE_Q6_K), MORE_NONE, 18},
    {"IQ4_NL", QTYPE_IQ4_NL, QTYPE_Q6_K, SAME(QTYPE_IQ4_NL), MORE_NONE, 25},
    {"IQ4_XS", QTYPE_IQ4_XS, QTYPE_Q6_K, QTYPE_Q5_K, QTYPE_IQ4_XS, QTYPE_IQ4_XS, MORE_ALL, 30},
    {"BF16", QTYPE_BF16, QTYPE_BF16, SAME(QTYPE_BF16), MORE_NONE, 32},
    {"TQ1_0", QTYPE_TQ1_0, QTYPE_Q6_K, SAME(QTYPE_TQ1_0), MORE_NONE, 36},
    {"TQ2_0", QTYPE_TQ2_0, QTYPE_Q6_K, SAME(QTYPE_TQ2_0), MORE_NONE, 37},
    {"NVFP4", QTYPE_NVFP4, QTYPE_Q8_0, SAME(QTYPE_NVFP4), MORE_NONE, 39},
};
enum { N_FILE_TYPES = sizeof file_types / sizeof *file_types };

static bool find_type(const char *name, struct file_type *out, struct err *err)
{
    for (size_t i = 0; i < N_FILE_TYPES; i++)
        if (ascii_same(file_types[i].name, name)) {
            *out = file_types[i];
            return true;
        }
    const struct qtype_info *info = qtype_by_name(name);
    if (info) {
        enum qtype t = info->type;
        /* MXFP4 files keep everything but the experts in Q8_0. */
        enum qtype rest = t == QTYPE_MXFP4 ? QTYPE_Q8_0 : t;
        *out = (struct file_type){info->name, t, rest, SAME(t), MORE_NONE, 0};
        if (t == QTYPE_MXFP4) out->number = 38;
        return true;
    }
    struct buf known = {0};
    char shown[32];
    for (size_t i = 0; i < N_FILE_TYPES; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", file_types[i].name);
    err_set(err, ERR_USER, "--type: '%s' is unknown, expected %s or a block type",
            printable(shown, sizeof shown, name, strlen(name)), buf_str(&known));
    buf_free(&known);
    return false;
}

/* The first and last eighth of the layers and every third between get more bits. */
static bool more_bits(const struct file_type *f, uint32_t layer, uint32_t n_layer)
{
    uint32_t eighth = n_layer / 8;
    if (f->more != MORE_SOME) return f->more == MORE_ALL;
    return layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
}

/* The type for rows that are no multiple of a type's block. */
static enum qtype fitting(enum qtype type, size_t ne0)
{
    if (ne0 % qtype_info(type)->block_len == 0) return type;
    if (ne0 % 32 != 0) return QTYPE_F16;
    if (qgrid_of(type).table) return QTYPE_IQ4_NL;
    switch (type) {
    case QTYPE_Q2_K:
    case QTYPE_Q3_K:
    case QTYPE_NVFP4:
    case QTYPE_TQ1_0:
    case QTYPE_TQ2_0:
    case QTYPE_Q1_0:
    case QTYPE_Q2_0:
    case QTYPE_IQ4_XS: return QTYPE_IQ4_NL;
    case QTYPE_Q4_K: return QTYPE_Q5_0;
    case QTYPE_Q5_K: return QTYPE_Q5_1;
    case QTYPE_Q6_K: return QTYPE_Q8_0;
    default: return QTYPE_F16;
    }
}

static enum qtype tensor_type(const struct file_type *f, const struct shape *s,
                              const struct shape_tensor *t)
{
    enum qtype type = f->base;
    bool more = more_bits(f, t->layer, s->n_layer);
    switch (t->role) {
    case SHAPE_NORM:
    case SHAPE_BIAS:
    case SHAPE_DECAY:
    case SHAPE_F32: return QTYPE_F32;
    case SHAPE_EMBED: type = f->head; break;
    case SHAPE_V: type = more ? f->v : f->base; break;
    case SHAPE_DOWN: type = more ? f->down : f->base; break;
    case SHAPE_ATTN_OUT: type = f->attn_out; break;
    case SHAPE_MATRIX: break;
    }
    if (f->base == QTYPE_MXFP4 && !t->experts) type = QTYPE_Q8_0;
    return fitting(type, t->ne[0]);
}

/* The key of that family and suffix, in a room of the caller's. */
#define KEY(suffix) (snprintf(key, sizeof key, "%s.%s", arch, suffix), key)

/* Of mamba and mamba2, nothing but recurrent layers: heads and feed-forwards are 0, as
 * converters write it. */
static void write_mamba_keys(struct gguf_writer *w, const struct shape *s)
{
    const char *arch = shape_architecture(s);
    const bool has_heads = s->family == SHAPE_MAMBA2;
    char key[96];
    gguf_write_u32(w, KEY("feed_forward_length"), 0);
    gguf_write_u32(w, KEY("attention.head_count"), 0);
    gguf_write_f32(w, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    gguf_write_u32(w, KEY("ssm.conv_kernel"), 4);
    gguf_write_u32(w, KEY("ssm.state_size"), s->ssm_dim);
    if (has_heads) gguf_write_u32(w, KEY("ssm.group_count"), s->ssm_groups);
    gguf_write_u32(w, KEY("ssm.time_step_rank"),
                   has_heads ? s->ssm_heads : shape_mamba_step(s));
    gguf_write_u32(w, KEY("ssm.inner_size"), 2 * s->n_embd);
}

static void write_keys(struct gguf_writer *w, const struct shape *s, const struct file_type *f,
                       const char *name)
{
    const char *arch = shape_architecture(s);
    char key[96];
    gguf_write_string(w, "general.architecture", arch);
    gguf_write_string(w, "general.type", "model");
    gguf_write_string(w, "general.name", name);
    gguf_write_u32(w, "general.file_type", f->number);
    gguf_write_u32(w, "general.quantization_version", 2);
    gguf_write_u32(w, KEY("block_count"), s->n_layer);
    gguf_write_u32(w, KEY("context_length"), s->n_ctx);
    gguf_write_u32(w, KEY("embedding_length"), s->n_embd);
    if (s->family == SHAPE_MAMBA || s->family == SHAPE_MAMBA2) {
        write_mamba_keys(w, s);
        return;
    }
    gguf_write_u32(w, KEY("feed_forward_length"), s->n_ff);
    gguf_write_u32(w, KEY("attention.head_count"), s->n_head);
    gguf_write_u32(w, KEY("attention.head_count_kv"), s->n_head_kv);
    gguf_write_u32(w, KEY("attention.key_length"), s->head_dim);
    gguf_write_u32(w, KEY("attention.value_length"), s->head_dim);
    if (s->family == SHAPE_GPT2) {
        gguf_write_f32(w, KEY("attention.layer_norm_epsilon"), 1e-5f);
    } else {
        gguf_write_f32(w, KEY("attention.layer_norm_rms_epsilon"), 1e-6f);
        gguf_write_f32(w, KEY("rope.freq_base"), (float)s->rope_base);
    }
    if (s->n_expert) {
        gguf_write_u32(w, KEY("expert_count"), s->n_expert);
        gguf_write_u32(w, KEY("expert_used_count"), s->n_expert_used);
        gguf_write_u32(w, KEY("expert_feed_forward_length"), s->n_ff);
    }
    if (s->family == SHAPE_GEMMA2 || s->family == SHAPE_GEMMA3 || s->family == SHAPE_GPT_OSS)
        gguf_write_u32(w, KEY("attention.sliding_window"), s->window);
    if (s->family == SHAPE_GEMMA2) {
        gguf_write_f32(w, KEY("attn_logit_softcapping"), 50);
        gguf_write_f32(w, KEY("final_logit_softcapping"), 30);
    }
    if (s->family == SHAPE_GLM4)
        gguf_write_u32(w, KEY("rope.dimension_count"), s->head_dim / 2);
    if (s->family == SHAPE_QWEN35) {
        const uint32_t n_rot =
            s->head_dim / 4; /* a quarter of a head turns, in three sections */
        const int32_t n_pairs = (int32_t)n_rot / 2;
        const int32_t sections[4] = {(n_pairs + 2) / 3, (n_pairs + 1) / 3, n_pairs / 3, 0};
        gguf_write_u32(w, KEY("rope.dimension_count"), n_rot);
        gguf_write_i32s(w, KEY("rope.dimension_sections"), sections, 4);
        gguf_write_u32(w, KEY("ssm.conv_kernel"), 4);
        gguf_write_u32(w, KEY("ssm.state_size"), s->ssm_dim);
        gguf_write_u32(w, KEY("ssm.group_count"), s->ssm_groups);
        gguf_write_u32(w, KEY("ssm.time_step_rank"), s->ssm_heads);
        gguf_write_u32(w, KEY("ssm.inner_size"), s->ssm_heads * s->ssm_dim);
        gguf_write_u32(w, KEY("full_attention_interval"), 4);
    }
}
#undef KEY

/* The guide's tokenizer and template; what the shape's vocabulary has more is unused. */
static bool write_tokenizer(struct gguf_writer *w, const struct shape *s, struct err *err)
{
    enum { TOKEN_UNUSED = 5 };
    char *path = paths_guide("guide-q8_0.gguf");
    if (!path)
        return err_set(err, ERR_USER, "guide-q8_0.gguf, whose tokenizer is copied, is missing");
    struct gguf *guide = gguf_open(path, err);
    free(path);
    if (!guide) return false;
    static const char prefix[] = "tokenizer.";
    for (size_t i = 0; i < gguf_n_kv(guide); i++) {
        const struct gguf_kv *kv = gguf_kv_at(guide, i);
        if (kv->key.len < sizeof prefix || memcmp(kv->key.data, prefix, sizeof prefix - 1) != 0)
            continue;
        bool per_token = kv == gguf_find(guide, "tokenizer.ggml.tokens") ||
                         kv == gguf_find(guide, "tokenizer.ggml.token_type");
        gguf_write_copy(w, kv, per_token ? s->n_vocab : 0, TOKEN_UNUSED);
    }
    gguf_close(guide);
    return true;
}

static void fill_floats(struct random_blocks *r, enum shape_role role, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = random_blocks_normal(r) * 0.05f;
        out[i] = role == SHAPE_NORM ? 1.0f + x : role == SHAPE_DECAY ? -1.0f - fabsf(x) : x;
    }
}

/* A matrix keeps the size of what it multiplies: deviation 1/sqrt(columns). */
static void write_data(struct gguf_writer *w, const struct shape_tensor *t, enum qtype type,
                       uint64_t seed)
{
    enum { CHUNK_VALUES = 1 << 16, CHUNK_BYTES = CHUNK_VALUES * 4 };
    struct random_blocks r =
        random_blocks_new(type, 1.0f / sqrtf((float)t->ne[0]), seed << 32 | 0x5eed);
    uint8_t *chunk = mem_alloc(CHUNK_BYTES);
    size_t n_values = t->ne[0] * t->ne[1] * t->ne[2];
    for (size_t at = 0; at < n_values; at += CHUNK_VALUES) {
        size_t n = n_values - at < CHUNK_VALUES ? n_values - at : CHUNK_VALUES;
        if (t->role == SHAPE_NORM || t->role == SHAPE_BIAS || t->role == SHAPE_DECAY)
            fill_floats(&r, t->role, (float *)(void *)chunk, n);
        else
            random_blocks_fill(&r, chunk, n);
        gguf_write_data(w, chunk, qtype_bytes(type, n));
    }
    free(chunk);
}

static bool make(const struct shape *s, const struct file_type *f, const char *name,
                 const char *path, struct err *err)
{
    struct gguf_writer *w = gguf_write_new(path, err);
    if (!w) return false;
    write_keys(w, s, f, name);
    bool ok = write_tokenizer(w, s, err);
    size_t n;
    struct shape_tensor *tensors = shape_tensors(s, &n);
    for (size_t i = 0; i < n; i++)
        gguf_write_tensor(w, tensors[i].name, tensor_type(f, s, &tensors[i]), tensors[i].n_dims,
                          tensors[i].ne);
    for (size_t i = 0; ok && i < n; i++)
        write_data(w, &tensors[i], tensor_type(f, s, &tensors[i]), i + 1);
    free(tensors);
    ok = ok && gguf_write_finish(w, err);
    gguf_write_free(w);
    return ok;
}

int inspect_make(const struct subcommand *self, int argc, char **argv)
{
    const char *spec = NULL, *type_name = NULL;
    const struct option_extra extra[] = {
        {.name = "shape",
         .arg = "SHAPE",
         .value = &spec,
         .help = "qwen3-0.6b, qwen35-0.8b, gemma2-2b, gemma3-1b, gptoss-tiny, KEY=VALUE,... or "
                 "both"},
        {.name = "type",
         .arg = "TYPE",
         .value = &type_name,
         .help =
             "a file type (Q4_0, Q8_0, Q4_K_M, Q6_K, ...) or a block type for all matrices"},
    };
    struct command_line line;
    int status = command_line_read(&line, self, extra, 2, argc, argv);
    if (status == COMMAND_LINE_GO) {
        struct shape shape;
        struct file_type type;
        struct err err;
        if (!spec || !type_name || line.args.n_rest != 1)
            status =
                usage_error(line.args.command, "expected --shape SHAPE --type TYPE OUT.gguf");
        else if (!shape_parse(spec, &shape, &err) || !find_type(type_name, &type, &err))
            status = usage_error(line.args.command, "%s", err.msg);
        else if (!make(&shape, &type, spec, line.args.rest[0], &err))
            status = runtime_error(&err);
        else
            status = EXIT_DONE;
    }
    command_line_free(&line);
    return status;
}
