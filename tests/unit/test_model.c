/* Hyperparameters, weights and programs over files of our own making: each thing that can be
 * wrong with a file, with its message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../gguf_builder.h"
#include "backend/impl.h"
#include "backend/kv.h"
#include "backend/kv_rows.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "model/model.h"
#include "model/program.h"
#include "model/weights.h"

enum { EMBD = 32, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, FF = 64, VOCAB = 16, LAYERS = 2 };

/* A key or tensor of the file under construction. */
struct item {
    char name[64];
    enum gguf_type type; /* of a key */
    uint64_t n;          /* value of an integer key; items of an array (all 1) */
    double f;
    char s[64];
    bool array, gone;
    uint64_t ne[3];
    uint32_t qtype;
};

struct draft {
    struct item keys[48], tensors[64];
    size_t n_keys, n_tensors;
};

static void key_u32(struct draft *d, const char *name, uint64_t n)
{
    struct item *k = &d->keys[d->n_keys++];
    *k = (struct item){.type = GGUF_U32, .n = n};
    snprintf(k->name, sizeof k->name, "%s", name);
}

static void key_f32(struct draft *d, const char *name, double f)
{
    key_u32(d, name, 0);
    d->keys[d->n_keys - 1].type = GGUF_F32;
    d->keys[d->n_keys - 1].f = f;
}

static void key_str(struct draft *d, const char *name, const char *s)
{
    key_u32(d, name, 0);
    d->keys[d->n_keys - 1].type = GGUF_STRING;
    snprintf(d->keys[d->n_keys - 1].s, sizeof d->keys->s, "%s", s);
}

static void key_array(struct draft *d, const char *name, uint64_t n)
{
    key_u32(d, name, n);
    d->keys[d->n_keys - 1].array = true;
}

static struct item *tensor(struct draft *d, const char *name, uint64_t ne0, uint64_t ne1)
{
    struct item *t = &d->tensors[d->n_tensors++];
    *t = (struct item){.ne = {ne0, ne1, 1}, .qtype = QTYPE_F32};
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static struct item *find(struct item *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    fail_msg("the draft has no %s", name);
    return NULL;
}

static struct item *key_of(struct draft *d, const char *name)
{
    return find(d->keys, d->n_keys, name);
}

static struct item *tensor_of(struct draft *d, const char *name)
{
    return find(d->tensors, d->n_tensors, name);
}

/* A whole llama of two layers. */
static struct draft good(void)
{
    struct draft d = {0};
    key_str(&d, "general.architecture", "llama");
    key_u32(&d, "llama.block_count", LAYERS);
    key_u32(&d, "llama.context_length", 128);
    key_u32(&d, "llama.embedding_length", EMBD);
    key_u32(&d, "llama.feed_forward_length", FF);
    key_u32(&d, "llama.attention.head_count", HEADS);
    key_u32(&d, "llama.attention.head_count_kv", KV_HEADS);
    key_f32(&d, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    tensor(&d, "token_embd.weight", EMBD, VOCAB);
    tensor(&d, "output_norm.weight", EMBD, 1);
    for (int i = 0; i < LAYERS; i++) {
        static const struct {
            const char *name;
            uint64_t ne0, ne1;
        } parts[] = {
            {"attn_norm", EMBD, 1},
            {"attn_q", EMBD, HEADS * HEAD_DIM},
            {"attn_k", EMBD, KV_HEADS * HEAD_DIM},
            {"attn_v", EMBD, KV_HEADS * HEAD_DIM},
            {"attn_output", HEADS * HEAD_DIM, EMBD},
            {"ffn_norm", EMBD, 1},
            {"ffn_gate", EMBD, FF},
            {"ffn_up", EMBD, FF},
            {"ffn_down", FF, EMBD},
        };
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, parts[k].name);
            tensor(&d, name, parts[k].ne0, parts[k].ne1);
        }
    }
    return d;
}

static void write_key(struct buf *b, const struct item *k)
{
    if (k->array) {
        gb_kv_array(b, k->name, GGUF_U32, k->n);
        for (uint64_t i = 0; i < k->n; i++)
            gb_u32(b, 1);
        return;
    }
    gb_kv(b, k->name, k->type);
    if (k->type == GGUF_STRING) {
        gb_str(b, k->s);
    } else if (k->type == GGUF_F32) {
        float f = (float)k->f;
        buf_append(b, &f, sizeof f);
    } else if (k->type == GGUF_U64 || k->type == GGUF_I64) {
        gb_u64(b, k->n);
    } else {
        gb_u32(b, (uint32_t)k->n);
    }
}

static size_t write_tensor(struct buf *b, const struct item *t, size_t at)
{
    const uint32_t n_dims = t->ne[2] > 1 ? 3 : t->ne[1] > 1 ? 2 : 1;
    gb_str(b, t->name);
    gb_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        gb_u64(b, t->ne[i]);
    gb_u32(b, t->qtype);
    gb_u64(b, at);
    size_t n = qtype_bytes((enum qtype)t->qtype, t->ne[0] * t->ne[1] * t->ne[2]);
    return at + (n + 31) / 32 * 32;
}

static struct gguf *write_draft(const struct draft *d, struct buf *b)
{
    size_t n_keys = 0, n_tensors = 0, at = 0;
    for (size_t i = 0; i < d->n_keys; i++)
        n_keys += !d->keys[i].gone;
    for (size_t i = 0; i < d->n_tensors; i++)
        n_tensors += !d->tensors[i].gone;
    gb_header(b, 3, n_tensors, n_keys);
    for (size_t i = 0; i < d->n_keys; i++)
        if (!d->keys[i].gone) write_key(b, &d->keys[i]);
    for (size_t i = 0; i < d->n_tensors; i++)
        if (!d->tensors[i].gone) at = write_tensor(b, &d->tensors[i], at);
    gb_pad(b, 32);
    gb_zeros(b, at);
    struct err err;
    struct gguf *g = gguf_from_memory(b->data, b->len, "m.gguf", &err);
    if (!g) fail_msg("%s", err.msg);
    return g;
}

static bool estimate(const struct draft *d, uint32_t n_ctx, struct model_sizes *sizes,
                     struct err *err)
{
    struct buf b = {0};
    struct gguf *g = write_draft(d, &b);
    const struct model_params params = {.kv_type = KV_F16, .n_ctx = n_ctx};
    bool ok = model_estimate(g, NULL, &params, 64, sizes, err);
    gguf_close(g);
    buf_free(&b);
    return ok;
}

static void check_good(const struct draft *d)
{
    struct err err;
    struct model_sizes sizes;
    if (!estimate(d, 0, &sizes, &err)) fail_msg("%s", err.msg);
}

static void check_bad(const struct draft *d, enum err_code code, const char *message)
{
    struct err err = {0};
    struct model_sizes sizes;
    assert_false(estimate(d, 0, &sizes, &err));
    assert_string_equal(err.msg, message);
    assert_int_equal(err.code, code);
}

static void test_good(void **unused)
{
    (void)unused;
    struct draft d = good();
    struct model_sizes sizes;
    struct err err;
    assert_true(estimate(&d, 0, &sizes, &err));
    const size_t layer =
        2 * EMBD + 2 * EMBD * EMBD + 2 * EMBD * KV_HEADS * HEAD_DIM + 3 * EMBD * FF;
    assert_int_equal(sizes.weights_bytes, 4 * (VOCAB * EMBD + EMBD + LAYERS * layer));
    assert_int_equal(sizes.kv_bytes_per_token, LAYERS * 2 * KV_HEADS * HEAD_DIM * 2);
    assert_int_equal(model_scratch_bytes(&sizes, 128), 0);
}

static void test_family(void **unused)
{
    (void)unused;
    struct draft d = good();
    strcpy(key_of(&d, "general.architecture")->s, "mamba\x1b");
    char want[160];
    size_t n = 0;
    for (; model_family_at(n); n++)
        if (n > 0) assert_true(strcmp(model_family_at(n - 1), model_family_at(n)) < 0);
    snprintf(want, sizeof want,
             "m.gguf: hearth does not know the model family \"mamba\\x1b\"; hearth inspect "
             "families lists the %zu that it runs",
             n);
    check_bad(&d, ERR_USER, want);
    key_of(&d, "general.architecture")->gone = true;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key general.architecture is missing or no string: no model");
}

static void set_u32(struct draft *d, const char *key, uint64_t n)
{
    key_of(d, key)->n = n;
}

static void test_keys(void **unused)
{
    (void)unused;
    struct draft d = good();
    key_of(&d, "llama.block_count")->gone = true;
    check_bad(&d, ERR_FORMAT, "m.gguf: key llama.block_count is missing");
    d = good();
    set_u32(&d, "llama.block_count", 100000);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.block_count should be between 1 and 1024, but is 100000");
    d = good();
    key_of(&d, "llama.block_count")->type = GGUF_I32;
    set_u32(&d, "llama.block_count", 0xffffffff);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.block_count should be between 1 and 1024, but is -1");
    d = good();
    set_u32(&d, "llama.attention.head_count", 0);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.attention.head_count should be between 1 and 8192, but is 0");
    d = good();
    set_u32(&d, "llama.attention.head_count_kv", 3);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: layer 0 has 4 heads, which is no multiple of its 3 KV heads");
    d = good();
    set_u32(&d, "llama.attention.head_count_kv", 0);
    check_bad(&d, ERR_FORMAT, "m.gguf: layer 0 has no KV heads, which llama needs");
    d = good();
    key_of(&d, "llama.attention.layer_norm_rms_epsilon")->f = 0;
    check_bad(
        &d, ERR_FORMAT,
        "m.gguf: key llama.attention.layer_norm_rms_epsilon should be between 1e-12 and 1, "
        "but is 0");
    d = good();
    key_of(&d, "llama.context_length")->type = GGUF_STRING;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.context_length should be an integer, but is a string");
    d = good();
    key_of(&d, "llama.embedding_length")->type = GGUF_U64;
    set_u32(&d, "llama.embedding_length", UINT64_MAX);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.embedding_length should be between 1 and 16777216, but is "
              "9223372036854775807");
    d = good();
    key_of(&d, "llama.feed_forward_length")->gone = true;
    key_array(&d, "llama.feed_forward_length", 3);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.feed_forward_length has 3 items, but there are 2 layers");
    d = good();
    set_u32(&d, "llama.attention.head_count", 64);
    check_bad(
        &d, ERR_FORMAT,
        "m.gguf: 32 values per row and 64 heads give a head size of 0; it should be between "
        "2 and 8192");
}

/* A width that is not there is named, not the tensors that it makes a wrong shape of. */
static void test_widths(void **unused)
{
    (void)unused;
    struct draft d = good();
    key_of(&d, "llama.feed_forward_length")->gone = true;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.feed_forward_length should be positive for layer 0, but is "
              "missing or 0");
    key_u32(&d, "llama.expert_count", 4);
    key_u32(&d, "llama.expert_used_count", 2);
    check_bad(
        &d, ERR_FORMAT,
        "m.gguf: key llama.expert_feed_forward_length should be positive for layer 0, but "
        "is missing or 0");
}

static void test_rope_keys(void **unused)
{
    (void)unused;
    struct draft d = good();
    key_u32(&d, "llama.rope.dimension_count", 9);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.rope.dimension_count should be between 2 and 8, but is 9");
    d = good();
    key_u32(&d, "llama.rope.dimension_count", 5);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.rope.dimension_count should be even, but is 5");
    d = good();
    key_f32(&d, "llama.rope.freq_base", 1);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.rope.freq_base should be between 1.00098 and 1e+15, but is 1");
    d = good();
    key_str(&d, "llama.rope.scaling.type", "dynamic");
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.rope.scaling.type should be none, linear, yarn, llama3 or "
              "longrope, but is \"dynamic\"");
    d = good();
    tensor(&d, "rope_freqs.weight", HEAD_DIM / 2, 1);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor rope_freqs.weight: item 0 should be a positive number, but is 0");
    d = good();
    tensor(&d, "rope_freqs.weight", HEAD_DIM, 1);
    check_bad(&d, ERR_FORMAT, "m.gguf: tensor rope_freqs.weight: expected [4], found [8]");
    d = good();
    key_f32(&d, "llama.rope.scaling.factor", 4);
    key_str(&d, "llama.rope.scaling.type", "yarn");
    check_good(&d);
}

static void test_tensors(void **unused)
{
    (void)unused;
    struct draft d = good();
    tensor_of(&d, "blk.1.attn_v.weight")->gone = true;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor blk.1.attn_v.weight: expected [32, 16], but it is missing");
    d = good();
    tensor_of(&d, "blk.0.ffn_down.weight")->ne[1] = 31;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor blk.0.ffn_down.weight: expected [64, 32], found [64, 31]");
    d = good();
    tensor_of(&d, "blk.0.attn_norm.weight")->qtype = QTYPE_F16;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor blk.0.attn_norm.weight: expected type F32, found F16");
    d = good();
    tensor_of(&d, "token_embd.weight")->gone = true;
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor token_embd.weight: expected [32, vocabulary], but it is missing");
    d = good();
    tensor(&d, "output.weight", EMBD, VOCAB + 1);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor output.weight: expected [32, 16], found [32, 17]");
    d = good();
    tensor(&d, "blk.0.attn_sub_norm.weight", EMBD, 1);
    check_bad(
        &d, ERR_FORMAT,
        "m.gguf: tensor blk.0.attn_sub_norm.weight: hearth's llama has no such tensor, and "
        "leaving it out would change the answers");
    /* What is beyond the layers or of another sense is ignored; biases are used. */
    d = good();
    tensor(&d, "blk.2.attn_q.weight", EMBD, EMBD);
    tensor(&d, "v.patch_embd.weight", EMBD, EMBD);
    tensor(&d, "blk.0.attn_q.bias", HEADS * HEAD_DIM, 1);
    tensor(&d, "blk.1.ffn_down.bias", EMBD, 1);
    check_good(&d);
}

static bool count_factors(void *user, const struct program *p, struct err *err)
{
    size_t *n = user;
    (void)err;
    for (size_t i = 0; i < p->n_ops; i++)
        for (uint32_t k = 0; p->ops[i].kind == OP_MATMUL && k < p->ops[i].matmul.n_mats; k++)
            *n += p->ops[i].matmul.mat[k].factor != NULL;
    return true;
}

/* A factor beside a matrix of codes is the product's; where it can be none the file is refused,
 * and one of activations says nothing. */
static void test_factors(void **unused)
{
    (void)unused;
    static const char refused[] = "m.gguf: tensor %s: hearth's llama has no such tensor, and "
                                  "leaving it out would change the answers";
    const struct model_params params = {.kv_type = KV_F16};
    struct draft d = good();
    struct buf b = {0};
    struct err err;
    size_t n = 0;
    char want[200];
    tensor_of(&d, "blk.0.attn_q.weight")->qtype = QTYPE_Q8_0;
    tensor_of(&d, "blk.1.ffn_down.weight")->qtype = QTYPE_Q8_0;
    tensor(&d, "blk.0.attn_q.scale", 1, 1);
    tensor(&d, "blk.0.attn_q.input_scale", 1, 1);
    tensor(&d, "blk.1.ffn_down.scale", 1, 1);
    check_good(&d);
    struct gguf *g = write_draft(&d, &b);
    if (!model_outline(g, &params, count_factors, &n, &err)) fail_msg("%s", err.msg);
    assert_int_equal(n, 2);
    gguf_close(g);
    buf_free(&b);
    tensor_of(&d, "blk.0.attn_q.scale")->ne[0] = 2;
    check_bad(&d, ERR_FORMAT, "m.gguf: tensor blk.0.attn_q.scale: expected [1], found [2]");
    static const char *const no_factors[] = {"blk.0.attn_k.scale", "token_embd.scale"};
    for (size_t i = 0; i < sizeof no_factors / sizeof *no_factors; i++) {
        d = good();
        tensor(&d, no_factors[i], 1, 1);
        snprintf(want, sizeof want, refused, no_factors[i]);
        check_bad(&d, ERR_FORMAT, want);
    }
}

static void test_experts(void **unused)
{
    (void)unused;
    struct draft d = good();
    key_u32(&d, "llama.expert_count", 8);
    check_bad(&d, ERR_FORMAT, "m.gguf: key llama.expert_used_count is missing");
    key_u32(&d, "llama.expert_used_count", 9);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: key llama.expert_used_count should be between 1 and 8, but is 9");
    set_u32(&d, "llama.expert_used_count", 2);
    check_bad(&d, ERR_FORMAT,
              "m.gguf: tensor blk.0.ffn_gate_inp.weight: expected [32, 8], but it is missing");
}

static void test_params(void **unused)
{
    (void)unused;
    struct draft d = good();
    struct err err;
    struct model_sizes sizes;
    assert_false(estimate(&d, UINT32_MAX, &sizes, &err));
    assert_string_equal(err.msg,
                        "a context of 4294967295 tokens is too large; the limit is 134217728");
    struct buf b = {0};
    struct gguf *g = write_draft(&d, &b);
    const struct model_params params = {.kv_type = KV_Q8_0};
    assert_false(model_estimate(g, NULL, &params, 1, &sizes, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, "m.gguf: keys have a head size of 8; KV type q8_0 needs a "
                                 "multiple of 32, at most 512; use f16 or f32");
    gguf_close(g);
    buf_free(&b);
}

/* What a token takes with each KV type, to the byte: 96 dims of a head, and with types of codes
 * scales of two bytes: one for the key and one for the value, or one per 32 dims. */
static void test_kv_types(void **unused)
{
    (void)unused;
    struct draft d = good();
    key_u32(&d, "llama.attention.key_length", 64);
    key_u32(&d, "llama.attention.value_length", 32);
    for (int i = 0; i < LAYERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        tensor_of(&d, name)->ne[1] = HEADS * 64;
        snprintf(name, sizeof name, "blk.%d.attn_k.weight", i);
        tensor_of(&d, name)->ne[1] = KV_HEADS * 64;
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", i);
        tensor_of(&d, name)->ne[1] = KV_HEADS * 32;
        snprintf(name, sizeof name, "blk.%d.attn_output.weight", i);
        tensor_of(&d, name)->ne[0] = HEADS * 32;
    }
    struct buf b = {0};
    struct gguf *g = write_draft(&d, &b);
    static const uint64_t bytes_of_head[] = {
        [KV_F32] = 384, [KV_F16] = 192, [KV_Q8_0] = 96 + 4, [KV_Q4_0] = 48 + 6};
    for (enum kv_type type = KV_F32; type <= KV_Q4_0; type++) {
        struct err err;
        struct model_sizes sizes;
        const struct model_params params = {.kv_type = type};
        if (!model_estimate(g, NULL, &params, 1, &sizes, &err)) fail_msg("%s", err.msg);
        assert_int_equal(sizes.kv_bytes_per_token, LAYERS * KV_HEADS * bytes_of_head[type]);
    }
    gguf_close(g);
    buf_free(&b);
}

/* Every byte of the keys in a slot is poison, or none. */
static void expect_key(const struct kv_layer *kv, const uint8_t *page, size_t slot,
                       bool poisoned)
{
    const size_t part = kv_type_codes(kv->type) ? 4 : kv->type == KV_F16 ? 2 : 4;
    const size_t n = kv_code_bytes(kv->type, kv->head_dim_k) / PAGE_LEN / part;
    for (size_t head = 0; head < kv->n_heads; head++)
        for (size_t i = 0; i < n; i++)
            for (size_t byte = 0; byte < part; byte++)
                assert_int_equal(
                    page[kv_head_at(kv, head).k + part * kv_key_at(n, i, slot) + byte],
                    poisoned ? 0xff : 0);
}

/* The planes of a row cover each byte of a page once, with every type, and each slot's keys are
 * where kv_key_at has them. */
static void test_kv_rows(void **unused)
{
    (void)unused;
    for (enum kv_type type = KV_F32; type <= KV_Q4_0; type++) {
        const struct kv_layer kv = {type, 3, 64, 96, 128, PAGE_FULL, 0};
        const size_t end = kv.at + kv_layer_bytes(&kv);
        uint8_t *page = mem_zalloc(end, 1);
        struct kv_plane planes[KV_MAX_PLANES];
        for (size_t head = 0; head < kv.n_heads; head++) {
            const size_t n = kv_planes(&kv, head, planes);
            for (size_t i = 0; i < n; i++)
                for (size_t at = 0; at < planes[i].n * PAGE_LEN * planes[i].unit; at++)
                    page[planes[i].at + at]++;
        }
        for (size_t at = 0; at < end; at++)
            assert_int_equal(page[at], at >= kv.at);
        for (size_t slot = PAGE_LEN - 1; slot > 0; slot--) {
            memset(page, 0, end);
            kv_rows_poison(&kv, 1, PAGE_FULL, page, slot);
            size_t n_set = 0;
            for (size_t at = 0; at < end; at++)
                n_set += page[at] == 0xff;
            assert_int_equal(n_set * PAGE_LEN, (end - kv.at) * (PAGE_LEN - slot));
            expect_key(&kv, page, slot, true);
            expect_key(&kv, page, slot - 1, false);
        }
        free(page);
    }
}

struct seen {
    uint64_t done, total;
    int n;
};

static void report(void *user, uint64_t done, uint64_t total)
{
    struct seen *s = user;
    assert_true(done >= s->done && done <= total);
    *s = (struct seen){done, total, s->n + 1};
}

static void test_open(void **unused)
{
    (void)unused;
    struct draft d = good();
    struct buf b = {0};
    struct gguf *g = write_draft(&d, &b);
    struct err err;
    struct backend *be =
        cpu_open(&(struct cpu_options){.n_threads = 1, .isa = CPU_SCALAR}, &err);
    assert_non_null(be);
    struct seen seen = {0};
    const struct model_progress progress = {report, &seen};
    const struct model_params params = {.kv_type = KV_F32};
    atomic_bool cancel = false;
    struct model *m = model_open(g, be, &params, &progress, &cancel, &err);
    if (!m) fail_msg("%s", err.msg);
    assert_int_equal(seen.done, seen.total);
    assert_int_equal(seen.n, 2 + 9 * LAYERS);
    assert_string_equal(model_family(m), "llama");
    assert_int_equal(model_n_vocab(m), VOCAB);
    assert_int_equal(model_n_layer(m), LAYERS);
    assert_int_equal(model_n_ctx(m), 128);
    assert_int_equal(model_program(m)->page_bytes[PAGE_FULL],
                     LAYERS * 2 * KV_HEADS * HEAD_DIM * PAGE_LEN * 4);
    /* The tied embedding is read once per token, as the head. */
    assert_int_equal(model_token_bytes(m), seen.total);
    assert_int_equal(model_kv_read_bytes(m, 9), 10 * LAYERS * 2 * KV_HEADS * HEAD_DIM * 4);
    model_close(m);
    cancel = true;
    assert_null(model_open(g, be, &params, NULL, &cancel, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    backend_close(be);
    gguf_close(g);
    buf_free(&b);
}

/* Bytes that a token reads of experts whose gate and up are one tensor, with so many in use; of
 * an embedding beside the head that is tied to it. */
static void test_token_bytes(void **unused)
{
    (void)unused;
    enum { EXPERTS = 4, EXPERT_BYTES = 2 * FF * EMBD * 4 };
    static const char both[] = "blk.0.ffn_gate_up_exps.weight", embd[] = "token_embd.weight";
    struct draft d = good();
    tensor(&d, both, EMBD, 2 * FF)->ne[2] = EXPERTS;
    struct buf b = {0};
    struct gguf *g = write_draft(&d, &b);
    for (size_t n_used = 1; n_used <= EXPERTS; n_used++) {
        struct err err;
        struct weights ws;
        weights_init(&ws, g, NULL, &err);
        for (int part = 0; part < 2; part++)
            assert_non_null(weights_experts(&ws, both, EXPERTS, n_used, 2, FF, EMBD));
        assert_int_equal(ws.token_bytes, n_used * EXPERT_BYTES);
        assert_non_null(weights_table(&ws, embd, VOCAB, EMBD));
        assert_int_equal(ws.token_bytes, n_used * EXPERT_BYTES + EMBD * 4);
        assert_non_null(weights_matrix(&ws, embd, VOCAB, EMBD));
        assert_int_equal(ws.token_bytes, n_used * EXPERT_BYTES + VOCAB * EMBD * 4);
        weights_free(&ws);
    }
    gguf_close(g);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_family),
        cmocka_unit_test(test_keys),        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_rope_keys),   cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_factors),     cmocka_unit_test(test_experts),
        cmocka_unit_test(test_params),      cmocka_unit_test(test_kv_types),
        cmocka_unit_test(test_kv_rows),     cmocka_unit_test(test_open),
        cmocka_unit_test(test_token_bytes),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
