/* Tokenizers for tests: the small vocabularies of tests/data/vocab, and smaller ones made on
 * the spot with every byte and the few tokens a test needs. */
#ifndef TESTS_VOCAB_CASE_H
#define TESTS_VOCAB_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "gguf_builder.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

static inline struct tokenizer *vocab_file(const char *name)
{
    struct err err = {0};
    char path[100];
    snprintf(path, sizeof path, "tests/data/vocab/%s.gguf", name);
    struct gguf *g = gguf_open(path, &err);
    struct tokenizer *tok = g ? tokenizer_open(g, NULL, &err) : NULL;
    if (!tok) fail_msg("%s", err.msg);
    gguf_close(g);
    return tok;
}

struct extra_token {
    const char *text;
    enum token_type type;
};

/* A vocabulary of the 256 bytes (ids 0..255) and `extra` (from 256 on) under a tokenizer model;
 * pre, arch (general.architecture), name (general.name) and template (tokenizer.chat_template)
 * may be NULL. */
struct made_vocab {
    const char *model, *pre, *arch, *name, *template;
    const struct extra_token *extra;
    uint32_t n_extra;
    const float *scores; /* of these, where a model has some; NULL: all 0, as those of bytes */
    uint32_t eos;        /* 0: none named */
    uint8_t lacks;       /* the byte without a token; 0: none */
    bool plain_bytes;    /* tokens of bytes are called plain text */
    const char *const *merges; /* "LEFT RIGHT" each; beside scores NULL: none */
    uint32_t n_merges;
    const int32_t *suppressed;
    uint32_t n_suppressed; /* 0: the file has no such key */
};

static inline void put_byte_tokens(struct buf *b, bool as_hex, bool escaped, int lacks)
{
    for (int i = 0; i < 256; i++) {
        char text[8] = "none";
        bool there = !lacks || i != lacks;
        if (there && escaped)
            snprintf(text, sizeof text, "\\x%02x", (unsigned)i);
        else if (there && as_hex)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)i);
        else if (there)
            text[utf8_encode(vocab_byte_char((uint8_t)i), text)] = '\0';
        gb_str(b, text);
    }
}

static inline struct tokenizer *vocab_make(const struct made_vocab *m, struct err *err)
{
    const bool is_text =
        m->pre && (strcmp(m->pre, "sarvam-moe") == 0 || strcmp(m->pre, "gemma4") == 0);
    const bool escaped = strcmp(m->model, "rwkv") == 0;
    bool as_hex = !escaped && (strcmp(m->model, "gpt2") != 0 || is_text);
    bool scored = strcmp(m->model, "llama") == 0 || strcmp(m->model, "plamo2") == 0;
    uint32_t n = 256 + m->n_extra;
    uint64_t n_kv = 4 + (m->pre != NULL) + (m->arch != NULL) + (m->name != NULL) +
                    (m->template != NULL) + (m->eos != 0) + (m->n_suppressed > 0) +
                    (scored && m->merges);
    struct buf b = {0};
    gb_header(&b, 3, 0, n_kv);
    gb_kv_str(&b, "tokenizer.ggml.model", m->model);
    gb_kv_array(&b, "tokenizer.ggml.tokens", GGUF_STRING, n);
    put_byte_tokens(&b, as_hex, escaped, m->lacks);
    for (uint32_t i = 0; i < m->n_extra; i++)
        gb_str(&b, m->extra[i].text);
    gb_kv_array(&b, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (uint32_t i = 0; i < n; i++)
        gb_u32(&b, i >= 256 ? m->extra[i - 256].type
                   : as_hex && !m->plain_bytes && !(m->lacks && i == m->lacks) ? TOKEN_BYTE
                                                                               : TOKEN_NORMAL);
    if (scored) {
        gb_kv_array(&b, "tokenizer.ggml.scores", GGUF_F32, n);
        gb_zeros(&b, m->scores ? 256 * 4 : (size_t)n * 4);
        if (m->scores) buf_append(&b, m->scores, m->n_extra * sizeof *m->scores);
    }
    if (!scored || m->merges) {
        gb_kv_array(&b, "tokenizer.ggml.merges", GGUF_STRING, m->n_merges);
        for (uint32_t i = 0; i < m->n_merges; i++)
            gb_str(&b, m->merges[i]);
    }
    if (m->pre) gb_kv_str(&b, "tokenizer.ggml.pre", m->pre);
    if (m->arch) gb_kv_str(&b, "general.architecture", m->arch);
    if (m->name) gb_kv_str(&b, "general.name", m->name);
    if (m->template) gb_kv_str(&b, "tokenizer.chat_template", m->template);
    if (m->eos) gb_kv_u32(&b, "tokenizer.ggml.eos_token_id", m->eos);
    if (m->n_suppressed > 0) {
        gb_kv_array(&b, "tokenizer.ggml.suppress_tokens", GGUF_I32, m->n_suppressed);
        buf_append(&b, m->suppressed, m->n_suppressed * sizeof *m->suppressed);
    }
    struct gguf *g = gguf_from_memory(b.data, b.len, "made", err);
    if (!g) fail_msg("%s", err->msg);
    struct tokenizer *tok = tokenizer_open(g, NULL, err);
    gguf_close(g);
    buf_free(&b);
    return tok;
}

/* The bytes of the tokens with a bar between them, control tokens in braces: "Hi|{<|im_end|>}".
 */
static inline char *ids_shown(const struct tokenizer *tok, const struct ids *ids)
{
    struct buf b = {0};
    for (size_t i = 0; i < ids->n; i++) {
        struct piece p = tokenizer_piece(tok, ids->data[i]);
        bool control = tokenizer_is_control(tok, ids->data[i]);
        buf_printf(&b, "%s%s%.*s%s", i ? "|" : "", control ? "{" : "", (int)p.len, p.data,
                   control ? "}" : "");
    }
    return buf_take(&b);
}

static inline void check_ids(const struct tokenizer *tok, const struct ids *ids,
                             const char *expected)
{
    char *shown = ids_shown(tok, ids);
    assert_string_equal(shown, expected);
    free(shown);
}

static inline void encode(const struct tokenizer *tok, const char *text, size_t len,
                          bool special, struct ids *out)
{
    struct err err;
    const unsigned how = special ? ENCODE_CONTROL : ENCODE_PLAIN;
    if (!tokenizer_encode(tok, text, len, how, out, &err)) fail_msg("%s", err.msg);
}

static inline void check_text(const struct tokenizer *tok, const char *text, bool special,
                              const char *expected)
{
    struct ids ids = {0};
    encode(tok, text, strlen(text), special, &ids);
    check_ids(tok, &ids, expected);
    ids_free(&ids);
}

#endif
