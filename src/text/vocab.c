#include "text/vocab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/gguf.h"

#define TOKENS_KEY "tokenizer.ggml.tokens"
#define TYPES_KEY "tokenizer.ggml.token_type"
#define SCORES_KEY "tokenizer.ggml.scores"

/* The visible characters of Latin-1 stand for themselves, the other 68 bytes for U+0100 up. */
static bool spells_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

uint32_t vocab_byte_char(uint8_t byte)
{
    if (spells_itself(byte)) return byte;
    uint32_t n = 0;
    for (uint32_t b = 0; b < byte; b++)
        n += !spells_itself(b);
    return 0x100 + n;
}

/* And back; -1 for a character that spells no byte. */
static int char_byte(uint32_t cp)
{
    if (cp < 0x100) return spells_itself(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)cp - 0x100;        /* 00 to 20 */
    if (cp <= 0x142) return 0x7f + (int)cp - 0x121; /* 7f to a0 */
    return cp == 0x143 ? 0xad : -1;
}

size_t vocab_char_len(const char *s, size_t n)
{
    uint32_t cp;
    int len = utf8_decode(s, n, &cp);
    return len > 0 ? (size_t)len : 1;
}

/* 2^20 bits: a vocabulary of 262144 tokens sets about 1 in 10. */
#define N_PAIR_BITS ((size_t)1 << 20)

/* The bytes of a character, four at most. */
static uint32_t char_bits(const char *s, size_t len)
{
    uint32_t x = 0;
    for (size_t i = 0; i < len; i++)
        x = x << 8 | (uint8_t)s[i];
    return x;
}

static size_t pair_bit(const char *a, size_t a_len, const char *b, size_t b_len)
{
    const uint64_t pair = (uint64_t)char_bits(a, a_len) << 32 | char_bits(b, b_len);
    return (size_t)(pair * 0x9e3779b97f4a7c15u >> 44);
}

bool vocab_may_join(const struct vocab *v, const char *a, size_t a_len, const char *b,
                    size_t b_len)
{
    size_t bit = pair_bit(a, a_len, b, b_len);
    return v->pairs[bit / 64] >> (bit % 64) & 1;
}

static void note_pairs(struct vocab *v)
{
    v->pairs = mem_zalloc(N_PAIR_BITS / 64, sizeof *v->pairs);
    for (size_t id = 0; id < v->n; id++) {
        const char *s = v->text[id].data;
        size_t left = v->text[id].len, len = left ? vocab_char_len(s, left) : 0;
        while (left > len) {
            size_t next = vocab_char_len(s + len, left - len);
            size_t bit = pair_bit(s, len, s + len, next);
            v->pairs[bit / 64] |= (uint64_t)1 << (bit % 64);
            s += len, left -= len, len = next;
        }
    }
}

static size_t slot_of(const struct vocab *v, const char *text, size_t len)
{
    size_t i = (size_t)XXH3_64bits(text, len) & (v->n_slots - 1);
    for (; v->slots[i]; i = (i + 1) & (v->n_slots - 1)) {
        const struct piece *t = &v->text[v->slots[i] - 1];
        if (t->len == len && memcmp(t->data, text, len) == 0) break;
    }
    return i;
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
    if (len == 0 || len > v->max_len) return -1;
    return (int32_t)v->slots[slot_of(v, text, len)] - 1;
}

bool vocab_is_plain(const struct vocab *v, int32_t id)
{
    uint8_t t = v->type[id];
    return t != TOKEN_CONTROL && t != TOKEN_UNKNOWN && t != TOKEN_BYTE;
}

bool vocab_is_special(const struct vocab *v, int32_t id)
{
    uint8_t t = v->type[id];
    return t == TOKEN_CONTROL || t == TOKEN_UNKNOWN || t == TOKEN_USER_DEFINED;
}

int32_t vocab_find_plain(const struct vocab *v, const char *text, size_t len)
{
    int32_t id = vocab_find(v, text, len);
    return id >= 0 && vocab_is_plain(v, id) ? id : -1;
}

void vocab_spell(const struct vocab *v, const char *text, size_t len, struct ids *out)
{
    static const uint8_t replacement[3] = {0xef, 0xbf, 0xbd};
    for (size_t i = 0; i < len; i++) {
        int32_t id = v->byte_id[(uint8_t)text[i]];
        if (id >= 0) ids_push(out, id);
        for (int k = 0; id < 0 && k < 3; k++)
            ids_push(out, v->byte_id[replacement[k]]);
    }
}

/* An array of the file with one item per token, or NULL without an error if it may be missing.
 */
static bool token_array(const struct gguf *g, const char *key, size_t n, bool strings,
                        bool needed, const struct gguf_kv **out, struct err *err)
{
    const struct gguf_kv *kv = *out = gguf_find(g, key);
    if (!kv) {
        if (!needed) return true;
        return err_set(err, ERR_FORMAT, "%s: %s is missing: the file has no vocabulary",
                       gguf_path(g), key);
    }
    if (!kv->is_array || (kv->type == GGUF_STRING) != strings)
        return err_set(err, ERR_FORMAT, "%s: %s must be an array of %s", gguf_path(g), key,
                       strings ? "strings" : "numbers");
    if (n && kv->n != n)
        return err_set(err, ERR_FORMAT, "%s: %s has %zu items for %zu tokens", gguf_path(g),
                       key, kv->n, n);
    return true;
}

/* The value of two hexadecimal digits at s, -1 if they are none. */
static int hex_value(const char *s)
{
    int value = 0;
    for (int i = 0; i < 2; i++) {
        const char *digits = "0123456789ABCDEF0123456789abcdef";
        const char *p = s[i] ? strchr(digits, s[i]) : NULL;
        if (!p) return -1;
        value = value * 16 + (int)((p - digits) % 16);
    }
    return value;
}

/* Takes the escapes out of s[0..*len) in place; false if one is broken off. */
static bool unescape(char *s, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < *len; i++) {
        if (s[i] != '\\') {
            s[n++] = s[i];
            continue;
        }
        if (++i == *len) return false;
        int c = (uint8_t)s[i];
        switch (c) {
        case 'n': c = '\n'; break;
        case 'r': c = '\r'; break;
        case 't': c = '\t'; break;
        case 'x':
            c = *len - i > 2 ? hex_value(s + i + 1) : -1;
            if (c < 0) return false;
            i += 2;
            break;
        default: break;
        }
        s[n++] = (char)c;
    }
    *len = n;
    return true;
}

static bool copy_texts(struct vocab *v, const struct gguf *g, const struct gguf_kv *tokens,
                       struct err *err)
{
    size_t total = 0;
    for (size_t i = 0; i < v->n; i++) {
        size_t len = gguf_item_str(tokens, i).len;
        if (len > VOCAB_MAX_TOKEN)
            return err_set(err, ERR_FORMAT, "%s: token %zu has %zu bytes, at most %d expected",
                           gguf_path(g), i, len, VOCAB_MAX_TOKEN);
        total += len;
        if (len > v->max_len) v->max_len = len;
    }
    /* Pieces are never longer than texts, so twice the texts holds both. */
    v->bytes = mem_alloc(total * 2);
    mem_touch(v->bytes, total * 2);
    char *at = v->bytes;
    for (size_t i = 0; i < v->n; i++) {
        struct gguf_str s = gguf_item_str(tokens, i);
        if (s.len) memcpy(at, s.data, s.len);
        size_t len = s.len;
        if (v->spelling == SPELL_ESCAPES && !unescape(at, &len))
            return err_set(
                err, ERR_FORMAT,
                "%s: token %zu is spelled \"%.*s\", with an escape that is broken off",
                gguf_path(g), i, (int)s.len, s.data);
        v->text[i] = (struct piece){at, len};
        at += len;
    }
    return true;
}

static bool build_slots(struct vocab *v, const struct gguf *g, struct err *err)
{
    v->n_slots = 16;
    while (v->n_slots < v->n * 2)
        v->n_slots *= 2;
    v->slots = mem_try_pages(v->n_slots * sizeof *v->slots);
    if (!v->slots) return err_set(err, ERR_MEMORY, "no memory for %zu tokens", v->n);
    for (size_t i = 0; i < v->n; i++) {
        const struct piece *t = &v->text[i];
        if (t->len == 0)
            continue; /* some converters leave holes: such a token is never found */
        size_t slot = slot_of(v, t->data, t->len);
        if (v->slots[slot])
            return err_set(err, ERR_FORMAT, "%s: tokens %u and %zu have the same text \"%.*s\"",
                           gguf_path(g), v->slots[slot] - 1, i, (int)t->len, t->data);
        v->slots[slot] = (uint32_t)i + 1;
    }
    return true;
}

/* The byte that "<0xXX>" spells, -1 if the text is something else. */
static int hex_byte(const struct piece *t)
{
    if (t->len != 6 || memcmp(t->data, "<0x", 3) != 0 || t->data[5] != '>') return -1;
    return hex_value(t->data + 3);
}

/* A converter that takes a vocabulary spelled as text for one of bytes, as Sarvam's, calls its
 * byte tokens plain text: where none is called a byte, the spelling says which are. */
static void find_plain_bytes(struct vocab *v)
{
    if (v->spelling != SPELL_SPACES || memchr(v->type, TOKEN_BYTE, v->n)) return;
    for (size_t i = 0; i < v->n; i++)
        if (v->type[i] == TOKEN_NORMAL && hex_byte(&v->text[i]) >= 0) v->type[i] = TOKEN_BYTE;
}

static bool read_types(struct vocab *v, const struct gguf *g, struct err *err)
{
    const struct gguf_kv *kv;
    if (!token_array(g, TYPES_KEY, gguf_find(g, TOKENS_KEY)->n, false, false, &kv, err))
        return false;
    memset(v->type, TOKEN_NORMAL, v->n);
    if (!kv) return true;
    if (!gguf_is_int(kv->type))
        return err_set(err, ERR_FORMAT, "%s: %s must be an array of integers", gguf_path(g),
                       TYPES_KEY);
    for (size_t i = 0; i < v->n; i++) {
        int64_t t = gguf_item_int(kv, i);
        if (t < 0 || t > TOKEN_BYTE)
            return err_set(err, ERR_FORMAT, "%s: token %zu has the unknown type %lld",
                           gguf_path(g), i, (long long)t);
        v->type[i] = t == 0 ? TOKEN_UNUSED : (uint8_t)t; /* 0 is "undefined" */
    }
    return true;
}

struct scored {
    double score;
    uint32_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool read_scores(struct vocab *v, const struct gguf *g, bool needed, struct err *err)
{
    const struct gguf_kv *kv;
    if (!token_array(g, SCORES_KEY, gguf_find(g, TOKENS_KEY)->n, false, needed, &kv, err))
        return false;
    if (!needed) return true;
    struct scored *list = mem_zalloc(v->n, sizeof *list);
    bool ok = true;
    for (size_t i = 0; ok && i < v->n; i++) {
        list[i] = (struct scored){gguf_item_float(kv, i), (uint32_t)i};
        if (isnan(list[i].score))
            ok = err_set(err, ERR_FORMAT, "%s: the score of token %zu is not a number",
                         gguf_path(g), i);
    }
    if (ok) {
        qsort(list, v->n, sizeof *list, by_score);
        v->score = mem_zalloc(v->n, sizeof *v->score);
        for (size_t i = 0; i < v->n; i++)
            v->score[list[i].id] = (float)list[i].score;
        v->order = mem_zalloc(v->n, sizeof *v->order);
        for (size_t i = 1; i < v->n; i++)
            v->order[list[i].id] =
                v->order[list[i - 1].id] + (list[i].score != list[i - 1].score);
    }
    free(list);
    return ok;
}

/* Writes the bytes that a byte-level text stands for; 0 if a character of it spells no byte. */
static size_t unspell_bytes(const struct piece *t, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->len;) {
        uint32_t cp;
        int len = utf8_decode(t->data + i, t->len - i, &cp);
        int byte = len > 0 ? char_byte(cp) : -1;
        if (byte < 0) return 0;
        out[n++] = (char)byte;
        i += (size_t)len;
    }
    return n;
}

static size_t unspell_spaces(const struct piece *t, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < t->len;) {
        if (t->len - i >= 3 && memcmp(t->data + i, "\xe2\x96\x81", 3) == 0) {
            out[n++] = ' ';
            i += 3;
        } else {
            out[n++] = t->data[i++];
        }
    }
    return n;
}

/* The bytes that the text of a plain token stands for, if it does not spell itself; else 0. */
static size_t unspell(const struct vocab *v, const struct piece *t, char *out)
{
    switch (v->spelling) {
    case SPELL_BYTES: return unspell_bytes(t, out);
    case SPELL_SPACES: return unspell_spaces(t, out);
    default: return 0;
    }
}

/* The bytes each token stands for. Control and user-defined tokens are spelled literally. */
static bool make_pieces(struct vocab *v, const struct gguf *g, struct err *err)
{
    char *at = v->bytes;
    for (size_t i = 0; i < v->n; i++)
        at += v->text[i].len;
    for (size_t i = 0; i < v->n; i++) {
        const struct piece *t = &v->text[i];
        size_t n = 0;
        v->piece[i] = *t;
        if (v->type[i] == TOKEN_BYTE) {
            int byte = hex_byte(t);
            if (byte < 0)
                return err_set(err, ERR_FORMAT,
                               "%s: byte token %zu is spelled \"%.*s\", <0xXX> expected",
                               gguf_path(g), i, (int)t->len, t->data);
            *at = (char)byte;
            n = 1;
        } else if (v->type[i] == TOKEN_NORMAL || v->type[i] == TOKEN_UNUSED) {
            n = unspell(v, t, at);
        }
        if (n) v->piece[i] = (struct piece){at, n};
        at += n;
    }
    return true;
}

/* Bytes without which a vocabulary is no use: those of a line of ASCII, and of U+FFFD, which
 * stands for the others. Vocabularies learned from text lack what it did not have: StarCoder's
 * has no f1, Falcon's no vertical tab. */
static bool byte_needed(int b)
{
    return b == '\n' || (b >= 0x20 && b <= 0x7e) || b == 0xef || b == 0xbf || b == 0xbd;
}

/* The token of a byte that is called one, or else is text of that byte alone; -1 if there is
 * none. */
static int32_t find_byte_as_text(const struct vocab *v, char byte)
{
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)(uint8_t)byte);
    const int32_t id = vocab_find(v, name, 6);
    if (id < 0) return vocab_find_plain(v, &byte, 1);
    return v->piece[id].len == 1 && v->piece[id].data[0] == byte ? id : -1;
}

static int32_t find_byte(const struct vocab *v, uint8_t b)
{
    char text[8] = {(char)b};
    switch (v->spelling) {
    case SPELL_BYTES:
        return vocab_find_plain(v, text, (size_t)utf8_encode(vocab_byte_char(b), text));
    case SPELL_ESCAPES: return vocab_find_plain(v, text, 1);
    default: return find_byte_as_text(v, (char)b);
    }
}

static bool find_bytes(struct vocab *v, const struct gguf *g, struct err *err)
{
    for (int b = 0; b < 256; b++) {
        v->byte_id[b] = find_byte(v, (uint8_t)b);
        if (v->byte_id[b] < 0 && byte_needed(b))
            return err_set(err, ERR_FORMAT, "%s: the vocabulary has no token for the byte %02x",
                           gguf_path(g), (unsigned)b);
    }
    return true;
}

/* How many of the tokens count. Files of gemma3 that Ollama made have one for images behind
 * those that the embedding has rows for. */
static size_t n_tokens(const struct gguf *g, const struct gguf_kv *tokens)
{
    const struct gguf_tensor *rows = gguf_tensor_find(g, "token_embd.weight");
    const bool is_gemma3 = gguf_says(g, "general.architecture", "gemma3");
    return is_gemma3 && rows && rows->ne[1] > 0 && rows->ne[1] < tokens->n ? rows->ne[1]
                                                                           : tokens->n;
}

bool vocab_open(struct vocab *v, const struct gguf *g, enum vocab_spelling spelling,
                bool need_scores, struct err *err)
{
    *v = (struct vocab){.spelling = spelling};
    const struct gguf_kv *tokens;
    if (!token_array(g, TOKENS_KEY, 0, true, true, &tokens, err)) return false;
    if (tokens->n == 0 || tokens->n > INT32_MAX / 4)
        return err_set(err, ERR_FORMAT, "%s: %s has %zu items", gguf_path(g), TOKENS_KEY,
                       tokens->n);
    v->n = n_tokens(g, tokens);
    v->text = mem_zalloc(v->n, sizeof *v->text);
    v->piece = mem_zalloc(v->n, sizeof *v->piece);
    mem_touch(v->text, v->n * sizeof *v->text);
    mem_touch(v->piece, v->n * sizeof *v->piece);
    v->type = mem_zalloc(v->n, 1);
    bool ok = copy_texts(v, g, tokens, err) && build_slots(v, g, err) && read_types(v, g, err);
    if (ok) find_plain_bytes(v);
    ok = ok && read_scores(v, g, need_scores, err) && make_pieces(v, g, err) &&
         find_bytes(v, g, err);
    if (ok)
        note_pairs(v);
    else
        vocab_close(v);
    return ok;
}

void vocab_close(struct vocab *v)
{
    free(v->text);
    free(v->piece);
    free(v->type);
    free(v->score);
    free(v->order);
    mem_free_pages(v->slots, v->n_slots * sizeof *v->slots);
    free(v->pairs);
    free(v->bytes);
    *v = (struct vocab){0};
}
