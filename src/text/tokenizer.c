#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "text/bpe.h"
#include "text/longest.h"
#include "text/merge.h"
#include "text/pretokenize.h"
#include "text/spans.h"
#include "text/special.h"
#include "text/spm.h"
#include "text/turn_names.h"
#include "text/unigram.h"
#include "text/vocab.h"

/* Offsets inside one text are 32 bits wide. */
#define MAX_TEXT ((size_t)1 << 30)
/* Spaces between two looks at the cancel flag. */
enum { CANCEL_STEP = 4096 };

struct template
{
    char *name; /* "" for the file's main one */
    char *text;
    size_t len;
};

/* How a text is cut into tokens. */
enum way {
    BY_MERGES, /* of byte pairs (gpt2, gemma4) */
    BY_SCORES, /* neighbours join, best score first (llama) */
    BY_SUMS,   /* of scores (plamo2) */
    BY_LENGTH, /* always the longest token (rwkv) */
};

struct tokenizer {
    const char *model; /* static */
    enum way way;
    bool pre_is_guess; /* the file does not name its pre-tokenizer, as some old ones */
    struct vocab vocab;
    struct bpe bpe;
    struct unigram unigram;
    struct longest longest;
    struct pretokenizer pre;
    struct special_set special;
    bool add_bos, add_eos, add_space;
    int32_t bos, eos;
    struct ids ends; /* ascending */
    struct ids suppressed;
    struct template *templates;
    size_t n_templates, cap_templates;
};

/* ---- opening ---- */

static bool is_text(const struct piece *p, const char *s)
{
    return p->len == strlen(s) && memcmp(p->data, s, p->len) == 0;
}

/* An id the file names; -1 if it names none. */
static bool read_id(const struct gguf *g, const char *what, size_t n_vocab, int32_t *out,
                    struct err *err)
{
    char key[80];
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", what);
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return true;
    uint64_t id;
    if (gguf_u64(g, key, &id) && id < n_vocab) {
        *out = (int32_t)id;
        return true;
    }
    if (!kv->is_array && gguf_is_int(kv->type) && gguf_item_int(kv, 0) == -1) {
        *out = -1; /* some files say "none" so */
        return true;
    }
    return err_set(err, ERR_FORMAT, "%s: %s is not an id below %zu", gguf_path(g), key,
                   n_vocab);
}

static bool read_flag(const struct gguf *g, const char *what, bool *out, struct err *err)
{
    char key[80];
    snprintf(key, sizeof key, "tokenizer.ggml.%s", what);
    if (!gguf_find(g, key) || gguf_bool(g, key, out)) return true;
    return err_set(err, ERR_FORMAT, "%s: %s must be true or false", gguf_path(g), key);
}

static bool is_architecture(const struct gguf *g, const char *name)
{
    return gguf_says(g, "general.architecture", name);
}

static bool has_token_at(const struct gguf *g, size_t i, const char *text)
{
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    if (!tokens || !tokens->is_array || tokens->type != GGUF_STRING || i >= tokens->n)
        return false;
    const struct gguf_str s = gguf_item_str(tokens, i);
    return is_text(&(struct piece){s.data, s.len}, text);
}

/* What cuts text for a model whose file does not say it: files that Ollama made call it
 * default, and the first of Llama 3 are older than the key. NULL: nobody knows. */
static const char *pre_of_model(const struct gguf *g)
{
    static const char *const known[][2] = {
        {"mistral3", "tekken"}, {"gptoss", "gpt-4o"}, {"lfm2", "lfm2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_architecture(g, known[i][0])) return known[i][1];
    const bool is_llama3 = is_architecture(g, "llama") &&
                           has_token_at(g, 128006, "<|start_header_id|>") &&
                           has_token_at(g, 128009, "<|eot_id|>");
    return is_llama3 ? "llama-bpe" : NULL;
}

/* What the file calls its pre-tokenizer, or what stands in for it. */
static bool read_pre(struct tokenizer *t, const struct gguf *g, struct gguf_str *pre,
                     struct err *err)
{
    static const char key[] = "tokenizer.ggml.pre";
    const bool is_named = gguf_find(g, key) != NULL;
    *pre = (struct gguf_str){"default", 7};
    if (is_named && !gguf_string(g, key, pre))
        return err_set(err, ERR_FORMAT, "%s: %s must be a string", gguf_path(g), key);
    const bool is_plain =
        pre->len == 0 || is_text(&(struct piece){pre->data, pre->len}, "default");
    const char *known = is_plain ? pre_of_model(g) : NULL;
    if (known) *pre = (struct gguf_str){known, strlen(known)};
    t->pre_is_guess = !is_named && !known;
    return true;
}

/* A model of its own name has its own way to cut, whatever else the file says. */
static bool open_pretokenizer(struct tokenizer *t, const struct gguf *g, bool is_gemma,
                              struct err *err)
{
    struct gguf_str pre = {"gemma4", 6};
    if (!is_gemma && !read_pre(t, g, &pre, err)) return false;
    if (!pretokenize_open(&t->pre, pre.data, pre.len, err)) {
        err_prefix(err, "%s", gguf_path(g));
        return false;
    }
    t->add_bos = t->pre.traits & PRE_ADD_BOS;
    return true;
}

static enum vocab_spelling spelling_of(const struct tokenizer *t)
{
    switch (t->way) {
    case BY_MERGES: return t->pre.traits & PRE_SPACES ? SPELL_SPACES : SPELL_BYTES;
    case BY_SUMS: return SPELL_TEXT;
    case BY_LENGTH: return SPELL_ESCAPES;
    default: return SPELL_SPACES;
    }
}

static bool open_model(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    struct gguf_str name;
    if (!gguf_string(g, "tokenizer.ggml.model", &name))
        return err_set(err, ERR_FORMAT,
                       "%s: tokenizer.ggml.model is missing: the file has no vocabulary",
                       gguf_path(g));
    static const struct {
        const char *name;
        enum way way;
    } known[] = {{"gpt2", BY_MERGES},
                 {"gemma4", BY_MERGES},
                 {"llama", BY_SCORES},
                 {"plamo2", BY_SUMS},
                 {"rwkv", BY_LENGTH}};
    enum { N_KNOWN = sizeof known / sizeof *known, GEMMA = 1 };
    size_t k = 0;
    while (k < N_KNOWN && !is_text(&(struct piece){name.data, name.len}, known[k].name))
        k++;
    if (k == N_KNOWN)
        return err_set(
            err, ERR_FORMAT,
            "%s: unknown tokenizer \"%.*s\"; known are gpt2, gemma4, llama, plamo2, rwkv",
            gguf_path(g), (int)(name.len < 100 ? name.len : 100), name.data);
    /* Ollama's converter called it so, and wrote the merges all the same. */
    if (known[k].way == BY_SCORES && is_architecture(g, "gemma4") &&
        gguf_find(g, "tokenizer.ggml.merges"))
        k = GEMMA;
    t->model = known[k].name;
    t->way = known[k].way;
    const bool scores = t->way == BY_SCORES || t->way == BY_SUMS;
    if (t->way == BY_MERGES && !open_pretokenizer(t, g, k == GEMMA, err)) return false;
    if (!vocab_open(&t->vocab, g, spelling_of(t), scores, err)) return false;
    if (!scores) return true;
    /* SentencePiece's own defaults, for files that name no ids; PLaMo's are the same ids. */
    t->add_bos = t->add_space = t->way == BY_SCORES;
    if (t->vocab.n > 2) t->bos = 1, t->eos = 2;
    return true;
}

static void add_end(struct tokenizer *t, int32_t id)
{
    if (id < 0) return;
    size_t at = 0;
    while (at < t->ends.n && t->ends.data[at] < id)
        at++;
    if (at < t->ends.n && t->ends.data[at] == id) return;
    ids_push(&t->ends, id);
    memmove(t->ends.data + at + 1, t->ends.data + at,
            (t->ends.n - 1 - at) * sizeof *t->ends.data);
    t->ends.data[at] = id;
}

/* The id of a name, -1 if there is none. A name without the usual bars counts only if the file
 * does not call the token plain text: "</s>" is also a word of HTML. */
static int32_t find_named(const struct vocab *v, const char *name)
{
    const int32_t id = vocab_find(v, name, strlen(name));
    const bool barred = strchr(name, '|') || strstr(name, "\uff5c");
    return id >= 0 && v->type[id] == TOKEN_NORMAL && !barred ? -1 : id;
}

/* Ends by name, and what begins a turn: whatever the file says, plain text must not write them.
 * gemma has the tags of HTML as tokens of their own. */
static void take_names(struct tokenizer *t)
{
    const struct vocab *v = &t->vocab;
    bool harmony = vocab_find(v, "<|return|>", 10) >= 0 || vocab_find(v, "<|flush|>", 9) >= 0;
    bool gemma = vocab_find(v, "<end_of_turn>", 13) >= 0 || vocab_find(v, "<turn|>", 7) >= 0;
    const struct turn_name *name;
    for (size_t i = 0; (name = turn_name_at(i)); i++) {
        const int32_t id = find_named(v, name->name);
        if (id < 0) continue;
        if (harmony && strcmp(name->name, "<|end|>") == 0)
            continue; /* ends a message, not the turn */
        if (gemma && strcmp(name->name, "</s>") == 0) continue;
        v->type[id] = TOKEN_CONTROL;
        if (name->is_end) add_end(t, id);
    }
}

static bool read_suppressed(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv) return true;
    if (!kv->is_array || !gguf_is_int(kv->type))
        return err_set(err, ERR_FORMAT, "%s: %s must be an array of integers", gguf_path(g),
                       key);
    for (size_t i = 0; i < kv->n; i++) {
        const int64_t id = gguf_item_int(kv, i);
        /* A file may have lost the tokens, as one cut down to some languages. */
        if (id >= 0 && (uint64_t)id < t->vocab.n) ids_push(&t->suppressed, (int32_t)id);
    }
    return true;
}

static bool read_ids(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    int32_t eot = -1, eom = -1;
    size_t n = t->vocab.n;
    if (!read_id(g, "bos", n, &t->bos, err) || !read_id(g, "eos", n, &t->eos, err) ||
        !read_id(g, "eot", n, &eot, err) || !read_id(g, "eom", n, &eom, err))
        return false;
    if (!read_suppressed(t, g, err) || !read_flag(g, "add_bos_token", &t->add_bos, err) ||
        !read_flag(g, "add_eos_token", &t->add_eos, err) ||
        !read_flag(g, "add_space_prefix", &t->add_space, err))
        return false;
    if (t->way != BY_SCORES) t->add_space = false;
    if (t->pre.traits & PRE_MUST_BOS) t->add_bos = true;
    if (t->bos < 0) t->add_bos = false;
    if (t->eos < 0) t->add_eos = false;
    add_end(t, t->eos);
    add_end(t, eot);
    add_end(t, eom);
    take_names(t);
    return true;
}

/* After read_ids: no text may become a token that is an end by its name alone. */
static bool open_way(struct tokenizer *t, const struct gguf *g, const atomic_bool *cancel,
                     struct err *err)
{
    if (t->way == BY_SUMS) unigram_open(&t->unigram, &t->vocab);
    if (t->way == BY_LENGTH) longest_open(&t->longest, &t->vocab);
    return t->way != BY_MERGES || bpe_open(&t->bpe, g, &t->vocab, &t->pre, cancel, err);
}

/* The files of Phi-3 and Phi-3.5 do not say that white space after special tokens is dropped:
 * that they are phi3 with scores does (Phi-4 has merges and drops none), and the name of some
 * that are written as another architecture. */
static bool is_phi3(const struct gguf *g, bool scores)
{
    if (scores && is_architecture(g, "phi3")) return true;
    struct gguf_str name;
    if (!gguf_string(g, "general.name", &name)) return false;
    for (size_t i = 0; i + 4 <= name.len; i++) {
        if (ascii_same_n(name.data + i, "phi3", 4)) return true;
        if (i + 5 <= name.len && ascii_same_n(name.data + i, "phi-3", 5)) return true;
    }
    return false;
}

static void read_templates(struct tokenizer *t, const struct gguf *g)
{
    static const char key[] = "tokenizer.chat_template";
    size_t len = sizeof key - 1;
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        if (kv->is_array || kv->type != GGUF_STRING || kv->key.len < len) continue;
        if (memcmp(kv->key.data, key, len) != 0) continue;
        if (kv->key.len > len && kv->key.data[len] != '.') continue;
        size_t skip = kv->key.len > len ? len + 1 : len;
        struct gguf_str s = gguf_item_str(kv, 0);
        if (ascii_is_blank(s.data, s.len)) continue; /* as good as none */
        MEM_GROW(t->templates, t->n_templates, t->cap_templates);
        t->templates[t->n_templates++] =
            (struct template){mem_strndup(kv->key.data + skip, kv->key.len - skip),
                              mem_strndup(s.data, s.len), s.len};
    }
}

struct tokenizer *tokenizer_open(const struct gguf *g, const atomic_bool *cancel,
                                 struct err *err)
{
    struct tokenizer *t = mem_zalloc(1, sizeof *t);
    t->bos = t->eos = -1;
    if (!open_model(t, g, err) || !read_ids(t, g, err) || !open_way(t, g, cancel, err)) {
        tokenizer_close(t);
        return NULL;
    }
    special_open(&t->special, &t->vocab, is_phi3(g, t->way == BY_SCORES));
    read_templates(t, g);
    return t;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    special_close(&t->special);
    pretokenize_close(&t->pre);
    bpe_close(&t->bpe);
    unigram_close(&t->unigram);
    longest_close(&t->longest);
    vocab_close(&t->vocab);
    ids_free(&t->ends);
    ids_free(&t->suppressed);
    for (size_t i = 0; i < t->n_templates; i++) {
        free(t->templates[i].name);
        free(t->templates[i].text);
    }
    free(t->templates);
    free(t);
}

static bool in_vocab(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->vocab.n;
}

/* ---- encoding ---- */

struct scratch {
    struct merger merger;
    struct chart chart;
    struct words words;
    struct buf escaped;
};

static void scratch_free(struct scratch *s)
{
    merger_free(&s->merger);
    chart_free(&s->chart);
    words_free(&s->words);
    buf_free(&s->escaped);
}

/* The text with U+2581 for each space, and one more in front if lead; a part of it once *cancel
 * is true. */
static void escape_spaces(const char *text, size_t len, bool lead, const atomic_bool *cancel,
                          struct buf *out)
{
    buf_clear(out);
    if (lead) buf_puts(out, "\u2581");
    for (size_t i = 0, n_spaces = 0; i < len; n_spaces++) {
        if (n_spaces % CANCEL_STEP == 0 && cancel_is_set(cancel)) return;
        const char *space = memchr(text + i, ' ', len - i);
        size_t n = space ? (size_t)(space - text) - i : len - i;
        buf_append(out, text + i, n);
        if (space) buf_puts(out, "\u2581");
        i += n + (space != NULL);
    }
}

/* Text without special tokens. after_special: the start of the prompt or a special token lies
 * before it. */
static bool encode_plain(const struct tokenizer *t, const char *text, size_t len,
                         bool after_special, struct scratch *s, struct ids *out,
                         struct err *err)
{
    if (len == 0) return true;
    if (t->vocab.spelling == SPELL_SPACES) {
        escape_spaces(text, len, t->add_space && after_special, s->merger.cancel, &s->escaped);
        text = s->escaped.data;
        len = s->escaped.len;
    }
    if (t->way == BY_SUMS) {
        unigram_encode(&t->unigram, &t->vocab, text, len, &s->chart, out);
        return true;
    }
    if (t->way == BY_LENGTH) {
        longest_encode(&t->longest, &t->vocab, text, len, s->merger.cancel, out);
        return true;
    }
    if (t->way == BY_SCORES) {
        spm_encode(&t->vocab, text, len, &s->merger, out);
        return true;
    }
    if (!pretokenize_split(&t->pre, text, len, s->merger.cancel, &s->words, err)) return false;
    size_t start = 0;
    for (size_t i = 0; i < s->words.n && !cancel_is_set(s->merger.cancel);
         start = s->words.ends[i++])
        bpe_encode(&t->bpe, &t->vocab, text + start, s->words.ends[i] - start, &s->merger, out);
    return true;
}

/* Neighbouring markup and text, joined. */
static bool encode_joined(const struct tokenizer *t, const struct special_text *text,
                          bool after_special, struct scratch *s, struct ids *out,
                          struct err *err)
{
    if (text->len > MAX_TEXT)
        return err_set(err, ERR_USER, "the text has %zu bytes, at most %zu can be tokenised",
                       text->len, MAX_TEXT);
    struct special_matches found;
    special_find(&t->special, &t->vocab, text, s->merger.cancel, &found);
    size_t at = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < found.n && !cancel_is_set(s->merger.cancel); i++) {
        const struct special_match *m = &found.list[i];
        ok = encode_plain(t, text->data + at, m->start - at, after_special, s, out, err);
        ids_push(out, m->id);
        at = m->end;
        after_special = true;
    }
    if (ok) ok = encode_plain(t, text->data + at, text->len - at, after_special, s, out, err);
    free(found.list);
    return ok;
}

bool tokenizer_encode(const struct tokenizer *t, const char *text, size_t len, unsigned how,
                      struct ids *out, struct err *err)
{
    size_t n_before = out->n;
    if ((how & ENCODE_ENDS) && t->add_bos) ids_push(out, t->bos);
    struct scratch s = {0};
    const struct special_area area = {len, (how & ENCODE_CONTROL) != 0};
    bool ok = encode_joined(t, &(struct special_text){text, len, &area, 1}, true, &s, out, err);
    scratch_free(&s);
    if (ok && (how & ENCODE_ENDS) && t->add_eos) ids_push(out, t->eos);
    if (!ok) out->n = n_before;
    return ok;
}

/* The spans from list[i] up to the next ids are one text; returns where they end. */
static size_t join(const struct spans *spans, size_t i, struct buf *text,
                   struct special_area *areas, size_t *n_areas)
{
    buf_clear(text);
    *n_areas = 0;
    for (; i < spans->n && spans->list[i].kind != SPAN_IDS; i++) {
        const struct span *span = &spans->list[i];
        buf_append(text, spans_bytes_of(spans, span), span->n);
        areas[(*n_areas)++] = (struct special_area){text->len, span->kind == SPAN_MARKUP};
    }
    return i;
}

/* Tokenises the spans from the first-th on, behind the ids that there are. */
static bool encode_rest(const struct tokenizer *t, struct encoded *e, size_t first,
                        const atomic_bool *cancel, struct err *err)
{
    const struct spans *spans = &e->spans;
    struct ids *ids = &e->ids;
    struct scratch s = {.merger.cancel = cancel, .chart.cancel = cancel};
    struct buf text = {0};
    struct special_area *areas = mem_zalloc(spans->n, sizeof *areas);
    bool ok = true;
    for (size_t i = first, n_areas; ok && i < spans->n; e->n_ids[i - 1] = ids->n) {
        int32_t before = ids->n ? ids->data[ids->n - 1] : -1;
        bool after_special =
            ids->n == 0 || (in_vocab(t, before) && vocab_is_special(&t->vocab, before));
        if (spans->list[i].kind == SPAN_IDS) {
            ids_append(ids, spans_ids_of(spans, &spans->list[i]), spans->list[i].n);
            i++;
            continue;
        }
        i = join(spans, i, &text, areas, &n_areas);
        const struct special_text joined = {buf_str(&text), text.len, areas, n_areas};
        ok = encode_joined(t, &joined, after_special, &s, ids, err);
    }
    if (ok && cancel_is_set(cancel)) ok = err_set(err, ERR_CANCELLED, "cancelled");
    free(areas);
    buf_free(&text);
    scratch_free(&s);
    return ok;
}

static bool is_same_span(const struct spans *a, const struct spans *b, size_t i)
{
    const struct span *x = &a->list[i], *y = &b->list[i];
    if (x->kind != y->kind || x->n != y->n) return false;
    if (x->kind == SPAN_IDS)
        return memcmp(spans_ids_of(a, x), spans_ids_of(b, y), x->n * sizeof(int32_t)) == 0;
    return memcmp(spans_bytes_of(a, x), spans_bytes_of(b, y), x->n) == 0;
}

/* Whether no text goes on from before span i to behind it. */
static bool is_border(const struct spans *s, size_t i)
{
    return i == 0 || i == s->n || s->list[i - 1].kind == SPAN_IDS ||
           s->list[i].kind == SPAN_IDS;
}

/* The first spans of both that are tokenised alike, whatever follows. */
static size_t n_alike(const struct spans *a, const struct spans *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && is_same_span(a, b, n))
        n++;
    while (!is_border(a, n) || !is_border(b, n))
        n--;
    return n;
}

bool tokenizer_encode_next(const struct tokenizer *t, struct encoded *last,
                           const struct spans *spans, const atomic_bool *cancel,
                           struct ids *out, struct err *err)
{
    const size_t n = n_alike(&last->spans, spans);
    last->n_taken = last->ids.n = n > 0 ? last->n_ids[n - 1] : 0;
    spans_clear(&last->spans);
    spans_append(&last->spans, spans);
    last->n_ids = mem_resize(last->n_ids, spans->n + 1, sizeof *last->n_ids);
    if (!encode_rest(t, last, n, cancel, err)) {
        last->spans.n = n;
        last->ids.n = last->n_taken;
        return false;
    }
    const struct ids *ids = &last->ids;
    if (t->add_bos && (ids->n == 0 || ids->data[0] != t->bos)) ids_push(out, t->bos);
    ids_append(out, ids->data, ids->n);
    return true;
}

void encoded_free(struct encoded *e)
{
    spans_free(&e->spans);
    ids_free(&e->ids);
    free(e->n_ids);
    *e = (struct encoded){0};
}

bool tokenizer_encode_spans(const struct tokenizer *t, const struct spans *spans,
                            const atomic_bool *cancel, struct ids *out, struct err *err)
{
    struct encoded none = {0};
    const bool ok = tokenizer_encode_next(t, &none, spans, cancel, out, err);
    encoded_free(&none);
    return ok;
}

/* ---- questions ---- */

size_t tokenizer_n_vocab(const struct tokenizer *t)
{
    return t->vocab.n;
}

struct piece tokenizer_piece(const struct tokenizer *t, int32_t id)
{
    return in_vocab(t, id) ? t->vocab.piece[id] : (struct piece){"", 0};
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    if (!in_vocab(t, id)) return false;
    return t->vocab.type[id] == TOKEN_CONTROL || t->vocab.type[id] == TOKEN_UNKNOWN;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t len)
{
    return vocab_find(&t->vocab, text, len);
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->ends.n; i++)
        if (t->ends.data[i] == id) return true;
    return false;
}

const int32_t *tokenizer_ends(const struct tokenizer *t, size_t *n)
{
    *n = t->ends.n;
    return t->ends.data;
}

const int32_t *tokenizer_suppressed(const struct tokenizer *t, size_t *n)
{
    *n = t->suppressed.n;
    return t->suppressed.data;
}

struct piece tokenizer_template(const struct tokenizer *t, const char *name)
{
    for (size_t i = 0; i < t->n_templates; i++)
        if (strcmp(t->templates[i].name, name ? name : "") == 0)
            return (struct piece){t->templates[i].text, t->templates[i].len};
    return (struct piece){NULL, 0};
}

const char *tokenizer_model(const struct tokenizer *t)
{
    return t->model;
}

const char *tokenizer_pre(const struct tokenizer *t)
{
    return t->way == BY_MERGES ? t->pre.name : "";
}

bool tokenizer_pre_is_guess(const struct tokenizer *t)
{
    return t->pre_is_guess;
}
