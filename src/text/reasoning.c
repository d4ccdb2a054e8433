#include "text/reasoning.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

/* Rows from ROW_TAGS on are plain pairs of tags. */
enum { ROW_HARMONY, ROW_RECIPIENTS, ROW_OPENED, ROW_GEMMA, ROW_TAGS };

static const struct reasoning_marker table[] = {
    [ROW_HARMONY] = {"harmony", "<|channel|>analysis<|message|>", "<|end|>"},
    [ROW_RECIPIENTS] = {"muse", "<|start|>assistant to=self<|message|>", "<|eom|>"},
    [ROW_OPENED] = {"kimi-k3", "<|open|>think<|sep|>", "<|close|>think<|sep|>"},
    [ROW_GEMMA] = {"gemma", "<|channel>thought\n", "<channel|>"},
    [ROW_TAGS] = {"think", "<think>", "</think>"},
    {"seed", "<seed:think>", "</seed:think>"},
    {"mistral", "[THINK]", "[/THINK]"},
    {"thinking", "<thinking>", "</thinking>"},
    {"apertus", "<|inner_prefix|>", "<|inner_suffix|>"},
    {"cohere", "<|START_THINKING|>", "<|END_THINKING|>"},
    {"minimax", "<mm:think>", "</mm:think>"},
    {"kimi", "\u25c1think\u25b7", "\u25c1/think\u25b7"},
};
#define N_ROWS (sizeof table / sizeof *table)

const struct reasoning_marker *reasoning_at(size_t i)
{
    return i < N_ROWS ? &table[i] : NULL;
}

/* The ids of one row in a vocabulary; both -1 where it has not both of them. */
struct marker_ids {
    int32_t open, close;
};

/* Muse: like harmony, but a header names whom the message is to; channel is -1. */
struct harmony_ids {
    int32_t start, channel, message, end;
};

/* Kimi K3: names between two tokens open and close the parts of a message. */
struct opened_ids {
    int32_t open, close, sep;
};

enum state {
    STATE_BEGIN,  /* nothing but white space so far: a thought may open */
    STATE_BODY,   /* in the answer or in a thought */
    STATE_HEADER, /* in a harmony header, a part's name or gemma's name of a channel */
};

/* A header is a role, a channel, a recipient; something longer is text after all. */
#define MAX_HEADER 256

struct reasoning {
    const struct tokenizer *tok;
    reasoning_emit *emit;
    void *ctx;
    struct detokenizer whole;
    struct marker_ids ids[N_ROWS];
    struct harmony_ids harmony;
    struct opened_ids opened;
    bool by_token; /* some row is in the vocabulary: text is not searched for markers */
    enum state state;
    enum reply_part part;
    size_t row;       /* of the open thought */
    bool skip_space;  /* a marker was just passed */
    bool in_channel;  /* of STATE_HEADER: the name of the channel or part has begun */
    bool closes;      /* of STATE_HEADER: the part with that name ends */
    bool between;     /* a part has ended, and none has begun */
    bool muted;       /* the prompt is replayed */
    struct buf text;  /* not emitted yet: it may belong to a marker or be dropped */
    struct buf fresh; /* scratch of reasoning_add */
    size_t n_prompt;  /* bytes at the front of text that the prompt wrote: part of a header */
    size_t end;       /* of text in the whole reply */
    size_t piece_at;
};

static int32_t id_of(const struct tokenizer *tok, const char *text)
{
    return tokenizer_find(tok, text, strlen(text));
}

static struct harmony_ids harmony_of(const struct tokenizer *tok)
{
    struct harmony_ids h = {id_of(tok, "<|start|>"), id_of(tok, "<|channel|>"),
                            id_of(tok, "<|message|>"), id_of(tok, "<|end|>")};
    if (h.channel < 0) h.end = id_of(tok, "<|eom|>");
    if (h.start < 0 || h.message < 0 || (h.channel < 0 && h.end < 0))
        return (struct harmony_ids){-1, -1, -1, -1};
    return h;
}

static struct opened_ids opened_of(const struct tokenizer *tok)
{
    struct opened_ids o = {id_of(tok, "<|open|>"), id_of(tok, "<|close|>"),
                           id_of(tok, "<|sep|>")};
    if (o.open < 0 || o.close < 0 || o.sep < 0) return (struct opened_ids){-1, -1, -1};
    return o;
}

static struct marker_ids ids_of(const struct tokenizer *tok, size_t row)
{
    struct marker_ids ids = {-1, -1};
    if (row < ROW_GEMMA) return ids;
    ids.open = row == ROW_GEMMA ? id_of(tok, "<|channel>") : id_of(tok, table[row].open);
    ids.close = id_of(tok, table[row].close);
    if (ids.open < 0 || ids.close < 0) ids.open = ids.close = -1;
    return ids;
}

const struct reasoning_marker *reasoning_of(const struct tokenizer *tok)
{
    const struct harmony_ids h = harmony_of(tok);
    if (h.start >= 0) return &table[h.channel >= 0 ? ROW_HARMONY : ROW_RECIPIENTS];
    if (opened_of(tok).open >= 0) return &table[ROW_OPENED];
    for (size_t i = ROW_GEMMA; i < N_ROWS; i++)
        if (ids_of(tok, i).open >= 0) return &table[i];
    return NULL;
}

struct reasoning *reasoning_new(const struct tokenizer *tok, reasoning_emit *emit, void *ctx)
{
    struct reasoning *r = mem_zalloc(1, sizeof *r);
    r->tok = tok;
    r->emit = emit;
    r->ctx = ctx;
    detokenizer_init(&r->whole, tok, true);
    r->harmony = harmony_of(tok);
    r->opened = opened_of(tok);
    for (size_t i = 0; i < N_ROWS; i++)
        r->ids[i] = ids_of(tok, i);
    r->by_token = reasoning_of(tok) != NULL;
    return r;
}

void reasoning_free(struct reasoning *r)
{
    if (!r) return;
    buf_free(&r->text);
    buf_free(&r->fresh);
    free(r);
}

/* ---- text ---- */

static size_t leading_space(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && ascii_is_space(s[i]))
        i++;
    return i;
}

static size_t trailing_space(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && ascii_is_space(s[n - 1 - i]))
        i++;
    return i;
}

static void drop(struct reasoning *r, size_t n)
{
    memmove(r->text.data, r->text.data + n, r->text.len - n);
    r->text.len -= n;
    r->text.data[r->text.len] = '\0';
    r->n_prompt -= n < r->n_prompt ? n : r->n_prompt;
}

static void emit_front(struct reasoning *r, size_t n)
{
    size_t foreign = r->n_prompt < n ? r->n_prompt : n;
    if (foreign) drop(r, foreign);
    n -= foreign;
    if (n == 0) return;
    r->piece_at = r->end - r->text.len; /* all of it is the reply's now */
    if (!r->muted) r->emit(r->ctx, r->part, r->text.data, n);
    drop(r, n);
}

static void open_thought(struct reasoning *r, size_t row)
{
    r->state = STATE_BODY;
    r->part = REPLY_REASONING;
    r->row = row;
    r->skip_space = true;
}

static void close_thought(struct reasoning *r)
{
    r->state = STATE_BODY;
    r->part = REPLY_TEXT;
    r->skip_space = true;
}

/* At the beginning of a reply: a tag opens a thought, anything else is the answer. False while
 * that is not decided. */
static bool begin(struct reasoning *r, bool last)
{
    size_t space = leading_space(r->text.data, r->text.len), n = r->text.len - space;
    const char *s = r->text.data + space;
    if (n == 0 && !last) return false;
    for (size_t i = ROW_TAGS; i < N_ROWS && !r->by_token; i++) {
        size_t len = strlen(table[i].open);
        if (n >= len && memcmp(s, table[i].open, len) == 0) {
            drop(r, space + len);
            open_thought(r, i);
            return true;
        }
        if (!last && n < len && memcmp(s, table[i].open, n) == 0) return false;
    }
    r->state = STATE_BODY;
    return true;
}

/* How many bytes at the end of s[0..n) begin the closing tag. */
static size_t tag_begun(const char *s, size_t n, const char *tag)
{
    size_t len = strlen(tag);
    for (size_t k = n < len - 1 ? n : len - 1; k > 0; k--)
        if (memcmp(s + n - k, tag, k) == 0) return k;
    return 0;
}

/* Emits what is certain of a thought: white space at its end is dropped with the tag. */
static void think(struct reasoning *r, bool last)
{
    const char *tag = r->by_token ? NULL : table[r->row].close;
    const char *hit = tag ? memmem(r->text.data, r->text.len, tag, strlen(tag)) : NULL;
    size_t n = hit ? (size_t)(hit - r->text.data) : r->text.len, keep = 0;
    if (!hit && !last && tag) keep = tag_begun(r->text.data, n, tag);
    keep += trailing_space(r->text.data, n - keep);
    emit_front(r, n - keep);
    if (!hit) return;
    drop(r, keep + strlen(tag));
    close_thought(r);
}

/* Whom the header so far says that the message is to; NULL: nobody. */
static const char *recipient(const struct reasoning *r)
{
    const bool names = r->harmony.start >= 0 && r->harmony.channel < 0;
    const char *to = names && r->text.len ? strstr(buf_str(&r->text), " to=") : NULL;
    return to ? to + 4 : NULL;
}

/* Whether what waits in a header is more than a role: no answer that lacks one. */
static bool names_part(const struct reasoning *r)
{
    return r->in_channel || recipient(r);
}

/* Emits what is certain of the waiting text; last: all of it is. */
static void drain(struct reasoning *r, bool last)
{
    while (r->text.len) {
        if (r->state == STATE_HEADER) {
            if (r->text.len <= MAX_HEADER && !last) return;
            r->state = STATE_BODY;
            if (last && names_part(r)) drop(r, r->text.len); /* cut off in a header */
            continue;
        }
        if (r->state == STATE_BEGIN && !begin(r, last)) return;
        if (r->skip_space) drop(r, leading_space(r->text.data, r->text.len));
        if (r->text.len == 0) return;
        r->skip_space = false;
        if (r->part == REPLY_TEXT) {
            emit_front(r, r->text.len);
            return;
        }
        think(r, last);
        if (r->part == REPLY_REASONING) break;
    }
    if (last && r->text.len) drop(r, r->text.len); /* the white space that ends a thought */
}

/* ---- tokens ---- */

static void header(struct reasoning *r)
{
    drain(r, true);
    r->state = STATE_HEADER;
    r->part = REPLY_TEXT;
}

/* Whether the header is of a thought. */
static bool names_thought(const struct reasoning *r)
{
    if (r->harmony.channel >= 0) return strncmp(buf_str(&r->text), "analysis", 8) == 0;
    const char *to = recipient(r);
    return to && strcmp(to, "self") == 0;
}

static bool harmony_token(struct reasoning *r, int32_t id)
{
    const struct harmony_ids *h = &r->harmony;
    if (h->start < 0) return false;
    if (id == h->start || id == h->channel) {
        /* What a header held before its channel is the role. */
        if (r->state == STATE_HEADER && r->text.len) drop(r, r->text.len);
        header(r);
        r->in_channel = id == h->channel;
    } else if (id == h->message) {
        const bool thought = r->state == STATE_HEADER && names_thought(r);
        if (r->state == STATE_HEADER && r->text.len) drop(r, r->text.len);
        drain(r, true);
        r->between = false;
        r->state = STATE_BODY;
        r->part = thought ? REPLY_REASONING : REPLY_TEXT;
    } else if (id == h->end) {
        drain(r, true);
        r->between = true;
        r->state = STATE_BODY;
        r->part = REPLY_TEXT;
    } else {
        return false;
    }
    return true;
}

/* The answer is a part, too; what else has a name is shown as part of it. */
static bool opened_token(struct reasoning *r, int32_t id)
{
    const struct opened_ids *o = &r->opened;
    if (o->open < 0) return false;
    if (id == o->open || id == o->close) {
        if (r->state != STATE_BODY && r->text.len) drop(r, r->text.len);
        header(r);
        r->in_channel = true;
        r->closes = id == o->close;
    } else if (id == o->sep) {
        const bool named = r->state == STATE_HEADER;
        const bool think = named && strcmp(buf_str(&r->text), "think") == 0;
        if (named && r->text.len) drop(r, r->text.len);
        drain(r, true);
        r->between = r->closes;
        if (think && !r->closes)
            open_thought(r, ROW_OPENED);
        else if (named)
            close_thought(r);
    } else {
        return false;
    }
    return true;
}

static bool tag_token(struct reasoning *r, int32_t id)
{
    for (size_t i = ROW_GEMMA; i < N_ROWS; i++) {
        if (r->ids[i].open < 0) continue;
        if (id == r->ids[i].open) {
            if (r->state == STATE_BEGIN && r->text.len) drop(r, r->text.len);
            drain(r, true);
            open_thought(r, i);
            r->in_channel = i == ROW_GEMMA;
            if (r->in_channel) r->state = STATE_HEADER;
            return true;
        }
        if (id == r->ids[i].close) {
            bool named = r->state == STATE_HEADER && r->text.len;
            if (named) drop(r, r->text.len); /* a channel without anything but its name */
            drain(r, true);
            close_thought(r);
            return true;
        }
    }
    return false;
}

/* gemma's channel begins with its name and a line break. */
static void pass_channel_name(struct reasoning *r)
{
    if (r->state != STATE_HEADER || r->part != REPLY_REASONING || !r->text.len) return;
    const char *nl = memchr(r->text.data, '\n', r->text.len);
    if (!nl) return;
    drop(r, (size_t)(nl - r->text.data) + 1);
    r->state = STATE_BODY;
}

static void add_text(struct reasoning *r, const char *text, size_t n)
{
    buf_append(&r->text, text, n);
    r->end += n;
    pass_channel_name(r);
    drain(r, false);
}

/* Whether a token begins inside a character. */
static bool is_continuation(struct piece p)
{
    return p.len && ((uint8_t)p.data[0] & 0xc0) == 0x80;
}

void reasoning_add(struct reasoning *r, int32_t id)
{
    bool was_held = r->whole.n_held > 0;
    buf_clear(&r->fresh);
    detokenizer_add(&r->whole, id, &r->fresh);
    bool control = tokenizer_is_control(r->tok, id);
    bool marker = id == r->harmony.start || id == r->harmony.channel ||
                  id == r->harmony.message || id == r->harmony.end;
    marker = marker || id == r->opened.open || id == r->opened.close || id == r->opened.sep;
    for (size_t i = 0; i < N_ROWS && !marker; i++)
        marker = id == r->ids[i].open || id == r->ids[i].close;
    if (!control && !marker) {
        add_text(r, buf_str(&r->fresh), r->fresh.len);
        return;
    }
    /* Bytes that were held and never became a character stand before the token's own spelling:
     * one U+FFFD. */
    size_t before = was_held && !is_continuation(tokenizer_piece(r->tok, id)) ? 3 : 0;
    if (before) add_text(r, r->fresh.data, before);
    if (!harmony_token(r, id) && !opened_token(r, id) && !tag_token(r, id) &&
        r->state != STATE_HEADER)
        drain(r, true);
    /* A header keeps only what counts towards its channel, so its offset is not needed. */
    r->end += r->fresh.len - before;
}

void reasoning_flush(struct reasoning *r)
{
    buf_clear(&r->fresh);
    detokenizer_flush(&r->whole, &r->fresh);
    if (r->fresh.len) add_text(r, r->fresh.data, r->fresh.len);
    drain(r, true);
}

/* ---- prompt ---- */

/* Replays ids[from..n) without emitting anything. */
static void replay(struct reasoning *r, const int32_t *ids, size_t from, size_t n)
{
    r->muted = true;
    for (size_t i = from; i < n; i++)
        reasoning_add(r, ids[i]);
    r->muted = false;
    if (r->text.len && !(r->state == STATE_HEADER && names_part(r))) drop(r, r->text.len);
    r->n_prompt = r->text.len;
    r->end = 0;
    detokenizer_init(&r->whole, r->tok, true);
}

static bool is_close_tag(const struct reasoning *r, int32_t id)
{
    for (size_t i = ROW_GEMMA; i < N_ROWS; i++)
        if (r->ids[i].close == id) return true;
    return false;
}

static bool is_open_tag(const struct reasoning *r, int32_t id)
{
    for (size_t i = ROW_GEMMA; i < N_ROWS; i++)
        if (r->ids[i].open == id) return true;
    return false;
}

/* Whether ids[at] opens a part of a message with that name. */
static bool opens_part(const struct reasoning *r, const int32_t *ids, size_t at, size_t n,
                       const char *name)
{
    if (r->opened.open < 0 || ids[at] != r->opened.open) return false;
    for (size_t i = at + 1; i < n && ids[i] != r->opened.sep; i++) {
        const struct piece p = tokenizer_piece(r->tok, ids[i]);
        if (p.len > strlen(name) || memcmp(name, p.data, p.len) != 0) return false;
        name += p.len;
    }
    return *name == '\0';
}

/* Whether ids[at] is of the parts behind which an answer is still to come. */
static bool in_parts(const struct reasoning *r, const int32_t *ids, size_t at, size_t n)
{
    return r->opened.open >= 0 && (ids[at] == r->opened.sep || ids[at] == r->opened.close ||
                                   opens_part(r, ids, at, n, "response"));
}

size_t reasoning_opened_at(const struct tokenizer *tok, const int32_t *ids, size_t n)
{
    struct reasoning r = {.tok = tok, .harmony = harmony_of(tok), .opened = opened_of(tok)};
    size_t at = n;
    for (size_t i = 0; i < N_ROWS; i++)
        r.ids[i] = ids_of(tok, i);
    for (size_t i = n; i-- > 0;) {
        const bool structures = tokenizer_is_control(tok, ids[i]) ||
                                tokenizer_is_end(tok, ids[i]) || ids[i] == r.opened.open;
        if (is_open_tag(&r, ids[i]) || opens_part(&r, ids, i, n, "think"))
            at = i;
        else if (structures && !is_close_tag(&r, ids[i]) && !in_parts(&r, ids, i, n))
            break;
    }
    return at;
}

/* Back to where this turn of the model began: a marker, or a token that structures the prompt.
 */
static void prompt_by_token(struct reasoning *r, const int32_t *ids, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        int32_t id = ids[i];
        if (id == r->harmony.start || id == r->opened.open || is_open_tag(r, id)) {
            replay(r, ids, i, n);
            return;
        }
        if (is_close_tag(r, id)) return;
        bool inside =
            id == r->harmony.channel || id == r->harmony.message || id == r->opened.sep;
        if (!inside && (tokenizer_is_control(r->tok, id) || tokenizer_is_end(r->tok, id)))
            return;
    }
}

/* The last tokens of a generation prompt spell an opening tag, if they do, in at most these. */
#define TAIL_TOKENS 32

static void prompt_by_text(struct reasoning *r, const int32_t *ids, size_t n)
{
    struct buf tail = {0};
    for (size_t i = n > TAIL_TOKENS ? n - TAIL_TOKENS : 0; i < n; i++) {
        struct piece p = tokenizer_piece(r->tok, ids[i]);
        buf_append(&tail, p.data, p.len);
    }
    size_t len = tail.len - trailing_space(buf_str(&tail), tail.len);
    for (size_t i = ROW_TAGS; i < N_ROWS; i++) {
        size_t n_tag = strlen(table[i].open);
        if (len < n_tag || memcmp(tail.data + len - n_tag, table[i].open, n_tag) != 0) continue;
        open_thought(r, i);
        break;
    }
    buf_free(&tail);
}

void reasoning_prompt(struct reasoning *r, const int32_t *ids, size_t n)
{
    if (r->by_token)
        prompt_by_token(r, ids, n);
    else
        prompt_by_text(r, ids, n);
}

size_t reasoning_piece_at(const struct reasoning *r)
{
    return r->piece_at;
}

bool reasoning_ends_turn(const struct reasoning *r, int32_t id)
{
    return r->harmony.end < 0 || id != r->harmony.end;
}

bool reasoning_in_answer(const struct reasoning *r)
{
    return r->part == REPLY_TEXT && r->state != STATE_HEADER && !r->between;
}

size_t reasoning_opens(const struct reasoning *r, int32_t ids[REASONING_MAX_IDS])
{
    size_t n = 0;
    for (size_t i = ROW_GEMMA; i < N_ROWS && r->state == STATE_BEGIN; i++)
        if (r->ids[i].open >= 0) ids[n++] = r->ids[i].open;
    return n;
}

size_t reasoning_ids(const struct tokenizer *tok, int32_t ids[REASONING_MAX_IDS])
{
    static_assert(7 + 2 * N_ROWS <= REASONING_MAX_IDS, "all fit");
    const struct harmony_ids h = harmony_of(tok);
    const struct opened_ids o = opened_of(tok);
    int32_t all[REASONING_MAX_IDS] = {h.start, h.channel, h.message, h.end,
                                      o.open,  o.close,   o.sep};
    size_t n_all = 7, n = 0;
    for (size_t i = 0; i < N_ROWS; i++) {
        const struct marker_ids m = ids_of(tok, i);
        all[n_all++] = m.open;
        all[n_all++] = m.close;
    }
    for (size_t i = 0; i < n_all; i++)
        if (all[i] >= 0) ids[n++] = all[i];
    return n;
}

bool reasoning_saw_invalid(const struct reasoning *r)
{
    return r->whole.invalid;
}
