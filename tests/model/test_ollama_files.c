/* Files as Ollama's converter writes them, made of golden ones: other names of the
 * architecture, of keys and of tensors, and what it leaves out. The logits are those of the
 * file as it was, to the last bit. */
#include <unistd.h>

#include "../golden.h"
#include "../scratch.h"
#include "gguf/gguf_write.h"
#include "model/families.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

enum { MAX_NAMES = 4 };

/* What is written otherwise; names may end early with NULL. */
struct otherwise {
    const char *model;
    const char *arch;                  /* NULL: as it was */
    const char *dropped[MAX_NAMES];    /* keys, without the architecture */
    const char *keys[MAX_NAMES][2];    /* … and the other name of one */
    const char *tensors[MAX_NAMES][2]; /* ends of names */
    uint32_t n_ctx;                    /* 0: as it was */
    uint32_t n_more_tokens;            /* for which there are no rows */
};

static char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];

static int set_up(void **state)
{
    (void)state;
    scratch_folder(folder, "ollama");
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

static bool is_dropped(const struct otherwise *o, const char *key)
{
    for (int i = 0; i < MAX_NAMES && o->dropped[i]; i++)
        if (strcmp(o->dropped[i], key) == 0) return true;
    return false;
}

static const char *other_key(const struct otherwise *o, const char *key)
{
    for (int i = 0; i < MAX_NAMES && o->keys[i][0]; i++)
        if (strcmp(o->keys[i][0], key) == 0) return o->keys[i][1];
    return key;
}

static void copy_key(struct gguf_writer *w, const struct otherwise *o, const char *was,
                     const struct gguf_kv *kv)
{
    char name[128], full[128];
    const size_t n_was = strlen(was);
    struct gguf_kv copy = *kv;
    snprintf(name, sizeof name, "%.*s", (int)kv->key.len, kv->key.data);
    if (strncmp(name, was, n_was) == 0 && name[n_was] == '.') {
        const char *key = name + n_was + 1;
        if (is_dropped(o, key) || (o->n_ctx && strcmp(key, "context_length") == 0)) return;
        snprintf(full, sizeof full, "%s.%s", o->arch ? o->arch : was, other_key(o, key));
        copy.key = (struct gguf_str){full, strlen(full)};
    }
    if (strcmp(name, "general.architecture") == 0)
        gguf_write_string(w, name, o->arch ? o->arch : was);
    else if (kv->is_array && o->n_more_tokens && strncmp(name, "tokenizer.ggml.", 15) == 0 &&
             strcmp(name, "tokenizer.ggml.merges") != 0)
        gguf_write_copy(w, &copy, kv->n + o->n_more_tokens, TOKEN_CONTROL);
    else
        gguf_write_copy(w, &copy, 0, 0);
}

static void name_tensor(const struct otherwise *o, const char *name, char out[128])
{
    const size_t n = strlen(name);
    snprintf(out, 128, "%s", name);
    for (int i = 0; i < MAX_NAMES && o->tensors[i][0]; i++) {
        const size_t n_end = strlen(o->tensors[i][0]);
        if (n >= n_end && strcmp(name + n - n_end, o->tensors[i][0]) == 0)
            snprintf(out + n - n_end, 128 - (n - n_end), "%s", o->tensors[i][1]);
    }
}

static void write_otherwise(const struct otherwise *o)
{
    struct err err;
    char in[128], was[64], name[128];
    struct gguf_str arch;
    snprintf(in, sizeof in, "tests/data/models/%s.gguf", o->model);
    struct gguf *g = gguf_open(in, &err);
    if (!g) fail_msg("%s", err.msg);
    assert_true(gguf_string(g, "general.architecture", &arch));
    snprintf(was, sizeof was, "%.*s", (int)arch.len, arch.data);
    unlink(path);
    struct gguf_writer *w = gguf_write_new(path, &err);
    if (!w) fail_msg("%s", err.msg);
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        copy_key(w, o, was, gguf_kv_at(g, i));
    if (o->n_ctx) {
        snprintf(name, sizeof name, "%s.context_length", o->arch ? o->arch : was);
        gguf_write_u32(w, name, o->n_ctx);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        name_tensor(o, t->name, name);
        gguf_write_tensor(w, name, t->type, t->n_dims, t->ne);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        gguf_write_data(w, gguf_tensor_at(g, i)->data, gguf_tensor_at(g, i)->n_bytes);
    if (!gguf_write_finish(w, &err)) fail_msg("%s", err.msg);
    gguf_write_free(w);
    gguf_close(g);
}

static float *logits_of(const struct golden_case *c, const char *file)
{
    const struct runner_options o = {
        .n_threads = 1, .kv_type = KV_F32, .n_ctx = c->n_ctx, .batch = 16};
    float *out = mem_zalloc((size_t)c->n_tokens * c->n_vocab, sizeof *out);
    struct runner r;
    runner_open(&r, file, o);
    runner_run(&r, c->tokens, c->n_tokens, 0, out);
    runner_close(&r);
    return out;
}

static void test_logits(void **state)
{
    (void)state;
    static const struct otherwise cases[] = {
        {.model = "gpt-oss-MXFP4",
         .arch = "gptoss",
         .dropped = {"rope.scaling.type", "rope.scaling.yarn_beta_fast",
                     "rope.scaling.yarn_beta_slow"},
         .tensors = {{".attn_output.weight", ".attn_out.weight"},
                     {".attn_output.bias", ".attn_out.bias"},
                     {".attn_sinks.weight", ".attn_sinks"},
                     {".post_attention_norm.weight", ".ffn_norm.weight"}}},
        {.model = "gemma3",
         .dropped = {"rope.scaling.type", "rope.scaling.factor", "rope.freq_base",
                     "attention.layer_norm_rms_epsilon"},
         .n_ctx = 131072},
        {.model = "gemma3",
         .dropped = {"rope.scaling.type", "rope.scaling.factor"},
         .keys = {{"rope.freq_base", "rope.global.freq_base"}},
         .n_ctx = 131072},
        {.model = "qwen2", .arch = "qwen25vl"},
        {.model = "qwen3next", .tensors = {{".ssm_dt.bias", ".ssm_dt"}}},
        {.model = "qwen35moe", .tensors = {{".ssm_dt.bias", ".ssm_dt"}}},
        {.model = "lfm2moe", .tensors = {{"token_embd_norm.weight", "output_norm.weight"}}},
        {.model = "gemma4-moe",
         .tensors = {{".ffn_down_exps.scale", ".ffn_gate_inp.per_expert_scale"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s$", cases[i].model);
        struct golden_set set = golden_read("tests/data", (const char *[]){name, NULL});
        const struct golden_case *c = &set.cases[0];
        const size_t n = (size_t)c->n_tokens * c->n_vocab;
        float *want = logits_of(c, c->model);
        write_otherwise(&cases[i]);
        float *got = logits_of(c, path);
        if (memcmp(want, got, n * sizeof *got) != 0)
            fail_msg("%s, case %zu: nmse %g", cases[i].model, i, golden_nmse(want, got, n));
        free(want);
        free(got);
        golden_free(&set);
    }
}

/* A gemma3 of a short context is not stretched. */
static void test_not_stretched(void **state)
{
    (void)state;
    static const struct otherwise short_one = {.model = "gemma3",
                                               .dropped = {"rope.scaling.type",
                                                           "rope.scaling.factor",
                                                           "attention.layer_norm_rms_epsilon"}};
    struct golden_set set = golden_read("tests/data", (const char *[]){"gemma3$", NULL});
    const struct golden_case *c = &set.cases[0];
    write_otherwise(&short_one);
    float *want = logits_of(c, c->model), *got = logits_of(c, path);
    assert_true(golden_nmse(want, got, (size_t)c->n_tokens * c->n_vocab) > 1e-6);
    free(want);
    free(got);
    golden_free(&set);
}

static struct tokenizer *tokenizer_otherwise(const struct otherwise *o)
{
    struct err err;
    write_otherwise(o);
    struct gguf *g = gguf_open(path, &err);
    struct tokenizer *tok = g ? tokenizer_open(g, NULL, &err) : NULL;
    if (!tok) fail_msg("%s", err.msg);
    gguf_close(g);
    return tok;
}

/* Tokens that have no rows are none of a gemma3; of others they stay, to be refused. */
static void test_tokens_without_rows(void **state)
{
    (void)state;
    static const struct otherwise gemma3 = {.model = "gemma3", .n_more_tokens = 3},
                                  qwen2 = {.model = "qwen2", .n_more_tokens = 3};
    struct tokenizer *tok = tokenizer_otherwise(&gemma3);
    assert_int_equal(tokenizer_n_vocab(tok), 512);
    tokenizer_close(tok);
    tok = tokenizer_otherwise(&qwen2);
    assert_int_equal(tokenizer_n_vocab(tok), 512 + 3);
    tokenizer_close(tok);
}

static void test_families(void **state)
{
    (void)state;
    const struct family *own = NULL, *other = NULL;
    for (const struct family *f = families_post; f->name; f++) {
        if (strcmp(f->name, "olmo2") == 0) own = f;
        if (strcmp(f->name, "olmo3") == 0) other = f;
    }
    assert_true(own && other && own->read == other->read && own->layer == other->layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits), cmocka_unit_test(test_not_stretched),
        cmocka_unit_test(test_tokens_without_rows), cmocka_unit_test(test_families)};
    return cmocka_run_group_tests_name("Ollama's files", tests, set_up, tear_down);
}
