#include "text/bpe.h"

#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/vocab.h"

#define MERGES_KEY "tokenizer.ggml.merges"

/* Merges read between two looks at the cancel flag. */
enum { CANCEL_STEP = 4096 };

struct bpe_merge {
    int32_t left, right, id; /* id: the joined token; left is -1 in a free slot */
    uint32_t rank;
};

static size_t slot_of(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 32) & (b->n_slots - 1);
    while (b->slots[i].left >= 0 && (b->slots[i].left != left || b->slots[i].right != right))
        i = (i + 1) & (b->n_slots - 1);
    return i;
}

static bool bad_merge(const struct gguf *g, size_t i, struct gguf_str line, const char *why,
                      struct err *err)
{
    return err_set(err, ERR_FORMAT, "%s: merge %zu \"%.*s\" %s", gguf_path(g), i,
                   (int)(line.len < 200 ? line.len : 200), line.data, why);
}

static bool add_merge(struct bpe *b, const struct gguf *g, const struct vocab *v, size_t i,
                      struct gguf_str line, struct err *err)
{
    const char *space = line.len > 2 ? memchr(line.data + 1, ' ', line.len - 1) : NULL;
    size_t l_len = space ? (size_t)(space - line.data) : 0;
    if (!space || l_len + 1 == line.len)
        return bad_merge(g, i, line, "is not two tokens separated by a space", err);
    size_t r_len = line.len - l_len - 1;
    if (l_len + r_len > VOCAB_MAX_TOKEN) return bad_merge(g, i, line, "is too long", err);

    char joined[VOCAB_MAX_TOKEN];
    memcpy(joined, line.data, l_len);
    memcpy(joined + l_len, space + 1, r_len);
    struct bpe_merge m = {vocab_find(v, line.data, l_len), vocab_find(v, space + 1, r_len),
                          vocab_find(v, joined, l_len + r_len), (uint32_t)i};
    if (m.left < 0 || m.right < 0) return bad_merge(g, i, line, "names an unknown token", err);
    if (m.id < 0) return bad_merge(g, i, line, "gives an unknown token", err);
    /* Plain text never becomes a control token, so such a merge is none. */
    if (!vocab_is_plain(v, m.id)) return true;
    size_t slot = slot_of(b, m.left, m.right);
    if (b->slots[slot].left < 0) b->slots[slot] = m; /* the first of equal lines counts */
    return true;
}

bool bpe_open(struct bpe *b, const struct gguf *g, const struct vocab *v,
              const struct pretokenizer *pre, const atomic_bool *cancel, struct err *err)
{
    *b = (struct bpe){.whole_words = pre->traits & PRE_WHOLE_WORDS,
                      .whole_breaks = pre->traits & PRE_WHOLE_BREAKS};
    const struct gguf_kv *kv = gguf_find(g, MERGES_KEY);
    if (!kv || !kv->is_array || kv->type != GGUF_STRING)
        return err_set(err, ERR_FORMAT, "%s: %s must be an array of strings, it is %s",
                       gguf_path(g), MERGES_KEY, kv ? "something else" : "missing");
    if (kv->n > INT32_MAX / 4)
        return err_set(err, ERR_FORMAT, "%s: %s has %zu items", gguf_path(g), MERGES_KEY,
                       kv->n);
    b->n_slots = 16;
    while (b->n_slots < kv->n * 2)
        b->n_slots *= 2;
    b->slots = mem_try_pages(b->n_slots * sizeof *b->slots);
    if (!b->slots) return err_set(err, ERR_MEMORY, "no memory for %zu merges", kv->n);
    memset(b->slots, 0xff, b->n_slots * sizeof *b->slots);
    for (size_t i = 0; i < kv->n; i++) {
        bool stop = i % CANCEL_STEP == 0 && cancel_is_set(cancel);
        if (stop) err_set(err, ERR_CANCELLED, "reading the vocabulary was cancelled");
        if (stop || !add_merge(b, g, v, i, gguf_item_str(kv, i), err)) {
            bpe_close(b);
            return false;
        }
    }
    return true;
}

void bpe_close(struct bpe *b)
{
    mem_free_pages(b->slots, b->n_slots * sizeof *b->slots);
    *b = (struct bpe){0};
}

static bool lookup(const void *ctx, const char *text, const struct symbol *l,
                   const struct symbol *r, uint32_t *rank, int32_t *id)
{
    (void)text;
    const struct bpe *b = ctx;
    if (l->id < 0 || r->id < 0) return false;
    const struct bpe_merge *m = &b->slots[slot_of(b, l->id, r->id)];
    if (m->left < 0) return false;
    *rank = m->rank;
    *id = m->id;
    return true;
}

/* The token that a whole word is, -1 if none. The vocabulary spells it its own way. */
static int32_t whole_word(const struct vocab *v, const char *word, size_t len)
{
    if (v->spelling == SPELL_SPACES) return vocab_find_plain(v, word, len);
    char text[VOCAB_MAX_TOKEN + 2];
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (n > v->max_len) return -1;
        n += (size_t)utf8_encode(vocab_byte_char((uint8_t)word[i]), text + n);
    }
    return vocab_find_plain(v, text, n);
}

void bpe_encode(const struct bpe *b, const struct vocab *v, const char *word, size_t len,
                struct merger *scratch, struct ids *out)
{
    if (len == 0) return;
    bool bytes = v->spelling == SPELL_BYTES;
    if (b->whole_words || (b->whole_breaks && word[0] == '\n')) {
        int32_t id = whole_word(v, word, len);
        if (id >= 0) {
            ids_push(out, id);
            return;
        }
    }
    for (size_t at = 0; at < len && !cancel_is_set(scratch->cancel);) {
        merger_start(scratch);
        if (bytes) {
            merger_add_bytes(scratch, v->byte_id, word, at, len - at);
            at = len;
        } else {
            at = merger_add_stretch(scratch, v, word, at, len); /* such a word is a line */
        }
        merger_run(scratch, word, lookup, b);
        merger_emit(scratch, v, word, out);
    }
}
