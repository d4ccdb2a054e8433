#include "app/shapes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/printable.h"

static const char *const families[] = {
    [SHAPE_LLAMA] = "llama",     [SHAPE_QWEN2] = "qwen2",   [SHAPE_QWEN3] = "qwen3",
    [SHAPE_QWEN35] = "qwen35",   [SHAPE_GEMMA2] = "gemma2", [SHAPE_GEMMA3] = "gemma3",
    [SHAPE_GPT_OSS] = "gpt-oss", [SHAPE_OLMO2] = "olmo2",   [SHAPE_GLM4] = "glm4",
    [SHAPE_MAMBA2] = "mamba2",   [SHAPE_MAMBA] = "mamba",   [SHAPE_GPT2] = "gpt2",
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Every full-attention layer of qwen35 is the last of four. */
enum { FULL_ATTENTION_INTERVAL = 4, CONV_KERNEL = 4 };

static const struct {
    const char *name;
    struct shape shape;
} presets[] = {
    {"qwen3-0.6b",
     {.family = SHAPE_QWEN3,
      .n_embd = 1024,
      .n_layer = 28,
      .n_head = 16,
      .n_head_kv = 8,
      .head_dim = 128,
      .n_ff = 3072,
      .n_vocab = 151936,
      .n_ctx = 40960,
      .rope_base = 1000000}},
    {"qwen35-0.8b",
     {.family = SHAPE_QWEN35,
      .n_embd = 1024,
      .n_layer = 24,
      .n_head = 8,
      .n_head_kv = 2,
      .head_dim = 256,
      .n_ff = 3584,
      .n_vocab = 248320,
      .n_ctx = 262144,
      .ssm_heads = 16,
      .ssm_groups = 16,
      .ssm_dim = 128,
      .rope_base = 10000000}},
    {"gemma2-2b",
     {.family = SHAPE_GEMMA2,
      .n_embd = 2304,
      .n_layer = 26,
      .n_head = 8,
      .n_head_kv = 4,
      .head_dim = 256,
      .n_ff = 9216,
      .n_vocab = 256000,
      .n_ctx = 8192,
      .window = 4096,
      .rope_base = 10000}},
    {"gemma3-1b",
     {.family = SHAPE_GEMMA3,
      .n_embd = 1152,
      .n_layer = 26,
      .n_head = 4,
      .n_head_kv = 1,
      .head_dim = 256,
      .n_ff = 6912,
      .n_vocab = 262144,
      .n_ctx = 32768,
      .window = 512,
      .rope_base = 1000000}},
    {"gptoss-tiny",
     {.family = SHAPE_GPT_OSS,
      .n_embd = 512,
      .n_layer = 8,
      .n_head = 16,
      .n_head_kv = 4,
      .head_dim = 64,
      .n_ff = 512,
      .n_vocab = 32768,
      .n_ctx = 131072,
      .n_expert = 16,
      .n_expert_used = 4,
      .window = 128,
      .rope_base = 150000}},
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

static const struct {
    const char *name;
    size_t at;
    uint32_t min, max;
} fields[] = {
    {"n_embd", offsetof(struct shape, n_embd), 32, 65536},
    {"n_layer", offsetof(struct shape, n_layer), 1, 1024},
    {"n_head", offsetof(struct shape, n_head), 1, 1024},
    {"n_head_kv", offsetof(struct shape, n_head_kv), 1, 1024},
    {"head_dim", offsetof(struct shape, head_dim), 2, 1024},
    {"n_ff", offsetof(struct shape, n_ff), 32, 1 << 20},
    {"n_vocab", offsetof(struct shape, n_vocab), 2048, 1 << 22},
    {"n_ctx", offsetof(struct shape, n_ctx), 64, 1 << 24},
    {"n_expert", offsetof(struct shape, n_expert), 0, 1024},
    {"n_expert_used", offsetof(struct shape, n_expert_used), 0, 1024},
    {"window", offsetof(struct shape, window), 0, 1 << 24},
    {"ssm_heads", offsetof(struct shape, ssm_heads), 1, 1024},
    {"ssm_groups", offsetof(struct shape, ssm_groups), 1, 1024},
    {"ssm_dim", offsetof(struct shape, ssm_dim), 2, 1024},
    {"rope_base", offsetof(struct shape, rope_base), 1, 1 << 30},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

const char *shape_preset(size_t i)
{
    return i < N_PRESETS ? presets[i].name : NULL;
}

const char *shape_architecture(const struct shape *s)
{
    return families[s->family];
}

static bool is_recurrent(const struct shape *s, uint32_t layer)
{
    return s->family == SHAPE_QWEN35 && (layer + 1) % FULL_ATTENTION_INTERVAL != 0;
}

static bool unknown_word(const char *word, struct err *err)
{
    struct buf known = {0};
    char shown[64];
    for (size_t i = 0; i < N_PRESETS; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", presets[i].name);
    buf_puts(&known, ", or KEY=VALUE with family");
    for (size_t i = 0; i < N_FIELDS; i++)
        buf_printf(&known, ", %s", fields[i].name);
    err_set(err, ERR_USER, "--shape: '%s' is unknown, expected one of %s",
            printable(shown, sizeof shown, word, strlen(word)), buf_str(&known));
    buf_free(&known);
    return false;
}

static bool set_family(struct shape *s, const char *value, struct err *err)
{
    for (uint32_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i], value) == 0) {
            s->family = i;
            return true;
        }
    struct buf known = {0};
    char shown[64];
    for (size_t i = 0; i < N_FAMILIES; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", families[i]);
    err_set(err, ERR_USER, "--shape: family '%s', expected one of %s",
            printable(shown, sizeof shown, value, strlen(value)), buf_str(&known));
    buf_free(&known);
    return false;
}

static bool set_field(struct shape *s, const char *key, const char *value, struct err *err)
{
    if (strcmp(key, "family") == 0) return set_family(s, value, err);
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (strcmp(fields[i].name, key) != 0) continue;
        char *end;
        errno = 0;
        unsigned long v = strtoul(value, &end, 10);
        if (errno || end == value || *end || v < fields[i].min || v > fields[i].max)
            return err_set(err, ERR_USER, "--shape: %s=%.20s, expected a number from %u to %u",
                           key, value, fields[i].min, fields[i].max);
        memcpy((char *)s + fields[i].at, &(uint32_t){(uint32_t)v}, sizeof(uint32_t));
        return true;
    }
    return unknown_word(key, err);
}

static bool set_word(struct shape *s, char *word, struct err *err)
{
    char *equals = strchr(word, '=');
    if (equals) {
        *equals = '\0';
        return set_field(s, word, equals + 1, err);
    }
    for (size_t i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, word) == 0) {
            *s = presets[i].shape;
            return true;
        }
    return unknown_word(word, err);
}

static bool check(const struct shape *s, struct err *err)
{
    if (s->n_head % s->n_head_kv != 0)
        return err_set(err, ERR_USER, "--shape: n_head %u is no multiple of n_head_kv %u",
                       s->n_head, s->n_head_kv);
    if (s->n_embd % 32 || s->n_ff % 32 || s->n_head * s->head_dim % 32)
        return err_set(err, ERR_USER,
                       "--shape: n_embd, n_ff and n_head * head_dim must be multiples of 32");
    if (s->head_dim % 2) return err_set(err, ERR_USER, "--shape: head_dim must be even");
    if (s->n_expert_used > s->n_expert)
        return err_set(err, ERR_USER, "--shape: n_expert_used %u is more than n_expert %u",
                       s->n_expert_used, s->n_expert);
    if ((s->n_expert > 0) != (s->n_expert_used > 0) ||
        (s->n_expert > 0 && s->family != SHAPE_GPT_OSS && s->family != SHAPE_LLAMA) ||
        (s->n_expert == 0 && s->family == SHAPE_GPT_OSS))
        return err_set(err, ERR_USER,
                       "--shape: n_expert and n_expert_used go together, in llama and gpt-oss");
    const bool has_ssm = s->family == SHAPE_QWEN35 || s->family == SHAPE_MAMBA2;
    if (has_ssm && s->ssm_heads % s->ssm_groups != 0)
        return err_set(err, ERR_USER, "--shape: ssm_heads %u is no multiple of ssm_groups %u",
                       s->ssm_heads, s->ssm_groups);
    if (s->family == SHAPE_MAMBA2 && 2 * s->n_embd % s->ssm_heads != 0)
        return err_set(err, ERR_USER, "--shape: twice n_embd %u is no multiple of ssm_heads %u",
                       s->n_embd, s->ssm_heads);
    return true;
}

bool shape_parse(const char *spec, struct shape *out, struct err *err)
{
    /* What KEY=VALUE alone starts from: a small qwen3. */
    *out = (struct shape){
        .family = SHAPE_QWEN3,
        .n_embd = 256,
        .n_layer = 4,
        .n_head = 4,
        .n_head_kv = 2,
        .head_dim = 64,
        .n_ff = 768,
        .n_vocab = 2048,
        .n_ctx = 4096,
        .window = 128,
        .ssm_heads = 4,
        .ssm_groups = 2,
        .ssm_dim = 64,
        .rope_base = 10000,
    };
    char *copy = mem_strdup(spec), *state = NULL;
    bool ok = true;
    for (char *word = strtok_r(copy, ",", &state); ok && word;
         word = strtok_r(NULL, ",", &state))
        ok = set_word(out, word, err);
    free(copy);
    return ok && check(out, err);
}

struct list {
    struct shape_tensor *items;
    size_t n, cap;
    uint32_t layer; /* of what is added */
    const char *prefix;
};

static struct shape_tensor *add(struct list *l, enum shape_role role, const char *name,
                                size_t ne0, size_t ne1)
{
    MEM_GROW(l->items, l->n, l->cap);
    struct shape_tensor *t = &l->items[l->n++];
    *t = (struct shape_tensor){
        .role = role,
        .layer = l->layer,
        .n_dims = ne1 ? 2 : 1,
        .ne = {ne0, ne1 ? ne1 : 1, 1, 1},
    };
    snprintf(t->name, sizeof t->name, "%s%s", l->prefix, name);
    return t;
}

static void add_experts(struct list *l, enum shape_role role, const char *name, size_t ne0,
                        size_t ne1, size_t n_expert)
{
    struct shape_tensor *t = add(l, role, name, ne0, ne1);
    t->experts = true;
    t->n_dims = 3;
    t->ne[2] = n_expert;
}

static void add_attention(struct list *l, const struct shape *s)
{
    size_t q = (size_t)s->n_head * s->head_dim, kv = (size_t)s->n_head_kv * s->head_dim;
    bool gated = s->family == SHAPE_QWEN35; /* a gate per head beside the query */
    bool biases = s->family == SHAPE_QWEN2 || s->family == SHAPE_GPT_OSS;
    add(l, SHAPE_MATRIX, "attn_q.weight", s->n_embd, gated ? 2 * q : q);
    add(l, SHAPE_MATRIX, "attn_k.weight", s->n_embd, kv);
    add(l, SHAPE_V, "attn_v.weight", s->n_embd, kv);
    add(l, SHAPE_ATTN_OUT, "attn_output.weight", q, s->n_embd);
    if (biases) {
        add(l, SHAPE_BIAS, "attn_q.bias", q, 0);
        add(l, SHAPE_BIAS, "attn_k.bias", kv, 0);
        add(l, SHAPE_BIAS, "attn_v.bias", kv, 0);
    }
    if (s->family == SHAPE_GPT_OSS) {
        add(l, SHAPE_BIAS, "attn_output.bias", s->n_embd, 0);
        add(l, SHAPE_BIAS, "attn_sinks.weight", s->n_head, 0);
    }
    if (s->family == SHAPE_QWEN3 || s->family == SHAPE_QWEN35 || s->family == SHAPE_GEMMA3) {
        add(l, SHAPE_NORM, "attn_q_norm.weight", s->head_dim, 0);
        add(l, SHAPE_NORM, "attn_k_norm.weight", s->head_dim, 0);
    }
    if (s->family == SHAPE_OLMO2) { /* of all heads together */
        add(l, SHAPE_NORM, "attn_q_norm.weight", q, 0);
        add(l, SHAPE_NORM, "attn_k_norm.weight", kv, 0);
    }
}

static void add_delta_net(struct list *l, const struct shape *s)
{
    size_t inner = (size_t)s->ssm_heads * s->ssm_dim;
    size_t channels = inner + 2 * (size_t)s->ssm_groups * s->ssm_dim;
    add(l, SHAPE_MATRIX, "attn_qkv.weight", s->n_embd, channels);
    add(l, SHAPE_MATRIX, "attn_gate.weight", s->n_embd, inner);
    add(l, SHAPE_F32, "ssm_conv1d.weight", CONV_KERNEL, channels);
    add(l, SHAPE_BIAS, "ssm_dt.bias", s->ssm_heads, 0);
    add(l, SHAPE_DECAY, "ssm_a", s->ssm_heads, 0);
    add(l, SHAPE_MATRIX, "ssm_beta.weight", s->n_embd, s->ssm_heads);
    add(l, SHAPE_MATRIX, "ssm_alpha.weight", s->n_embd, s->ssm_heads);
    add(l, SHAPE_NORM, "ssm_norm.weight", s->ssm_dim, 0);
    add(l, SHAPE_MATRIX, "ssm_out.weight", inner, s->n_embd);
}

static void add_mamba2(struct list *l, const struct shape *s)
{
    const size_t inner = 2 * (size_t)s->n_embd;
    const size_t channels = inner + 2 * (size_t)s->ssm_groups * s->ssm_dim;
    add(l, SHAPE_NORM, "attn_norm.weight", s->n_embd, 0);
    add(l, SHAPE_MATRIX, "ssm_in.weight", s->n_embd, inner + channels + s->ssm_heads);
    add(l, SHAPE_F32, "ssm_conv1d.weight", CONV_KERNEL, channels);
    add(l, SHAPE_BIAS, "ssm_conv1d.bias", channels, 0);
    add(l, SHAPE_BIAS, "ssm_dt.bias", s->ssm_heads, 0);
    add(l, SHAPE_DECAY, "ssm_a", 1, s->ssm_heads);
    add(l, SHAPE_NORM, "ssm_d", 1, s->ssm_heads);
    add(l, SHAPE_NORM, "ssm_norm.weight", inner / s->ssm_groups, s->ssm_groups);
    add(l, SHAPE_MATRIX, "ssm_out.weight", inner, s->n_embd);
}

static void add_mamba(struct list *l, const struct shape *s)
{
    const size_t inner = 2 * (size_t)s->n_embd, n_step = shape_mamba_step(s);
    add(l, SHAPE_NORM, "attn_norm.weight", s->n_embd, 0);
    add(l, SHAPE_MATRIX, "ssm_in.weight", s->n_embd, 2 * inner);
    add(l, SHAPE_F32, "ssm_conv1d.weight", CONV_KERNEL, inner);
    add(l, SHAPE_BIAS, "ssm_conv1d.bias", inner, 0);
    add(l, SHAPE_F32, "ssm_x.weight", inner, n_step + 2 * (size_t)s->ssm_dim);
    add(l, SHAPE_F32, "ssm_dt.weight", n_step, inner);
    add(l, SHAPE_BIAS, "ssm_dt.bias", inner, 0);
    add(l, SHAPE_DECAY, "ssm_a", s->ssm_dim, inner);
    add(l, SHAPE_NORM, "ssm_d", inner, 0);
    add(l, SHAPE_MATRIX, "ssm_out.weight", inner, s->n_embd);
}

/* A norm, or a product, and its biases. */
static void add_biased(struct list *l, enum shape_role role, const char *stem, size_t ne0,
                       size_t ne1)
{
    char name[48];
    snprintf(name, sizeof name, "%s.weight", stem);
    add(l, role, name, ne0, ne1);
    snprintf(name, sizeof name, "%s.bias", stem);
    add(l, SHAPE_BIAS, name, ne1 ? ne1 : ne0, 0);
}

static void add_gpt2(struct list *l, const struct shape *s)
{
    const size_t q = (size_t)s->n_head * s->head_dim, kv = (size_t)s->n_head_kv * s->head_dim;
    add_biased(l, SHAPE_NORM, "attn_norm", s->n_embd, 0);
    add_biased(l, SHAPE_MATRIX, "attn_qkv", s->n_embd, q + 2 * kv);
    add_biased(l, SHAPE_ATTN_OUT, "attn_output", q, s->n_embd);
    add_biased(l, SHAPE_NORM, "ffn_norm", s->n_embd, 0);
    add_biased(l, SHAPE_MATRIX, "ffn_up", s->n_embd, s->n_ff);
    add_biased(l, SHAPE_DOWN, "ffn_down", s->n_ff, s->n_embd);
}

static void add_feed_forward(struct list *l, const struct shape *s)
{
    if (s->family == SHAPE_GLM4) { /* the gate's rows, then its own */
        add(l, SHAPE_MATRIX, "ffn_up.weight", s->n_embd, 2 * (size_t)s->n_ff);
        add(l, SHAPE_DOWN, "ffn_down.weight", s->n_ff, s->n_embd);
        return;
    }
    if (s->n_expert == 0) {
        add(l, SHAPE_MATRIX, "ffn_gate.weight", s->n_embd, s->n_ff);
        add(l, SHAPE_MATRIX, "ffn_up.weight", s->n_embd, s->n_ff);
        add(l, SHAPE_DOWN, "ffn_down.weight", s->n_ff, s->n_embd);
        return;
    }
    add(l, SHAPE_F32, "ffn_gate_inp.weight", s->n_embd, s->n_expert);
    add_experts(l, SHAPE_MATRIX, "ffn_gate_exps.weight", s->n_embd, s->n_ff, s->n_expert);
    add_experts(l, SHAPE_MATRIX, "ffn_up_exps.weight", s->n_embd, s->n_ff, s->n_expert);
    add_experts(l, SHAPE_DOWN, "ffn_down_exps.weight", s->n_ff, s->n_embd, s->n_expert);
    if (s->family != SHAPE_GPT_OSS) return;
    add(l, SHAPE_BIAS, "ffn_gate_inp.bias", s->n_expert, 0);
    add(l, SHAPE_BIAS, "ffn_gate_exps.bias", s->n_ff, s->n_expert);
    add(l, SHAPE_BIAS, "ffn_up_exps.bias", s->n_ff, s->n_expert);
    add(l, SHAPE_BIAS, "ffn_down_exps.bias", s->n_embd, s->n_expert);
}

static void add_layer(struct list *l, const struct shape *s)
{
    const bool post = s->family == SHAPE_GEMMA2 || s->family == SHAPE_GEMMA3 ||
                      s->family == SHAPE_GLM4; /* norms after, too */
    const bool only_post = s->family == SHAPE_OLMO2;
    const bool renamed = s->family == SHAPE_QWEN35 || s->family == SHAPE_GPT_OSS;
    if (!only_post) add(l, SHAPE_NORM, "attn_norm.weight", s->n_embd, 0);
    if (is_recurrent(s, l->layer))
        add_delta_net(l, s);
    else
        add_attention(l, s);
    if (post || only_post || renamed)
        add(l, SHAPE_NORM, "post_attention_norm.weight", s->n_embd, 0);
    if (!only_post && !renamed) add(l, SHAPE_NORM, "ffn_norm.weight", s->n_embd, 0);
    add_feed_forward(l, s);
    if (post || only_post) add(l, SHAPE_NORM, "post_ffw_norm.weight", s->n_embd, 0);
}

uint32_t shape_mamba_step(const struct shape *s)
{
    return s->n_embd / 16;
}

struct shape_tensor *shape_tensors(const struct shape *s, size_t *n)
{
    struct list l = {.prefix = ""};
    add(&l, SHAPE_EMBED, "token_embd.weight", s->n_embd, s->n_vocab);
    add(&l, SHAPE_NORM, "output_norm.weight", s->n_embd, 0);
    if (s->family == SHAPE_GPT2) {
        add(&l, SHAPE_BIAS, "output_norm.bias", s->n_embd, 0);
        add(&l, SHAPE_F32, "position_embd.weight", s->n_embd, s->n_ctx);
    }
    if (s->family == SHAPE_OLMO2) add(&l, SHAPE_EMBED, "output.weight", s->n_embd, s->n_vocab);
    for (l.layer = 0; l.layer < s->n_layer; l.layer++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blk.%u.", l.layer);
        l.prefix = prefix;
        if (s->family == SHAPE_MAMBA2)
            add_mamba2(&l, s);
        else if (s->family == SHAPE_MAMBA)
            add_mamba(&l, s);
        else if (s->family == SHAPE_GPT2)
            add_gpt2(&l, s);
        else
            add_layer(&l, s);
    }
    *n = l.n;
    return l.items;
}
