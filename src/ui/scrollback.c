/* Blocks and their rows. Rows are laid out when they are asked for, and kept. */
#include "ui/scrollback.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ui/style.h"
#include "ui/wrap.h"

struct row {
    size_t at, len;
    int hang;          /* columns that the rows of its line leave free from the second on */
    int margin;        /* those that this one leaves free, besides those of its kind */
    bool hangs_on_end; /* cut with a view to the last cluster of the text, which may grow */
};

struct block {
    enum block_kind kind;
    size_t message;
    struct buf text;
    size_t n_shown; /* of text: without the line breaks at its end */
    bool folded;
    bool is_found;        /* unfolded by scrollback_find */
    struct styler styler; /* of a reply */
    struct style_spans spans;
    size_t n_decided;       /* of spans: the rest stands for what the styler holds back */
    struct style_span last; /* the last of them, which the rest may have made longer */
    struct row *rows;
    size_t n_rows, cap_rows;
    bool is_laid;
    size_t first; /* row of the scrollback that is the first of this block, gap included */
};

struct scrollback {
    struct block *blocks;
    size_t n, cap;
    size_t n_placed; /* blocks whose `first` is right */
    int columns;
    bool folds;
};

struct scrollback *scrollback_new(void)
{
    struct scrollback *s = mem_zalloc(1, sizeof *s);
    s->columns = 80;
    return s;
}

void scrollback_free(struct scrollback *s)
{
    if (!s) return;
    scrollback_cut(s, 0);
    free(s->blocks);
    free(s);
}

/* ---- text ---- */

/* Block i has changed: the rows of those after it move. */
static void changed(struct scrollback *s, size_t i)
{
    s->blocks[i].is_laid = false;
    if (s->n_placed > i + 1) s->n_placed = i + 1;
}

/* The last block of that kind and message; NULL. */
static const struct block *earlier(const struct scrollback *s, enum block_kind kind,
                                   size_t message)
{
    if (message == SCROLLBACK_NO_MESSAGE) return NULL;
    for (size_t i = s->n; i-- > 0;) {
        const struct block *b = &s->blocks[i];
        if (b->message == message && b->kind == kind) return b;
        if (b->message < message) return NULL;
    }
    return NULL;
}

void scrollback_add(struct scrollback *s, enum block_kind kind, size_t message)
{
    struct block new = {.kind = kind, .message = message};
    const struct block *before = kind == BLOCK_REPLY ? earlier(s, kind, message) : NULL;
    if (before) {
        new.styler = before->styler;
        new.styler.n_known = before->styler.n_held;
    }
    MEM_GROW(s->blocks, s->n, s->cap);
    s->blocks[s->n++] = new;
}

/* Forgets the looks of what the styler holds back, to judge it anew. */
static void drop_undecided(struct block *b)
{
    b->spans.n = b->n_decided;
    if (b->n_decided > 0) b->spans.items[b->n_decided - 1] = b->last;
}

/* The looks of what is appended. */
static void add_looks(struct block *b, const char *text, size_t n)
{
    drop_undecided(b);
    style_spans(&b->styler, text, n, &b->spans);
    b->n_decided = b->spans.n;
    if (b->n_decided > 0) b->last = b->spans.items[b->n_decided - 1];
}

void scrollback_append(struct scrollback *s, const char *text, size_t n)
{
    assert(s->n > 0);
    struct block *b = &s->blocks[s->n - 1];
    size_t gone = 0;
    while (b->text.len == 0 && gone < n && text[gone] == '\n')
        gone++;
    buf_append(&b->text, text + gone, n - gone);
    b->styler.n_known += gone;
    if (b->kind == BLOCK_REPLY) add_looks(b, text, n);
    b->n_shown = b->text.len;
    while (b->n_shown > 0 && b->text.data[b->n_shown - 1] == '\n')
        b->n_shown--;
    changed(s, s->n - 1);
}

void scrollback_put(struct scrollback *s, enum block_kind kind, size_t message,
                    const char *text, size_t n)
{
    scrollback_add(s, kind, message);
    scrollback_append(s, text, n);
}

void scrollback_cut(struct scrollback *s, size_t n)
{
    while (s->n > n) {
        struct block *b = &s->blocks[--s->n];
        buf_free(&b->text);
        free(b->spans.items);
        free(b->rows);
    }
    if (s->n_placed > s->n) s->n_placed = s->n;
}

size_t scrollback_n_blocks(const struct scrollback *s)
{
    return s->n;
}

struct scrollback_block scrollback_block(const struct scrollback *s, size_t i)
{
    const struct block *b = &s->blocks[i];
    return (struct scrollback_block){.kind = b->kind,
                                     .message = b->message,
                                     .is_folded = b->folded,
                                     .text = buf_str(&b->text),
                                     .len = b->text.len};
}

/* ---- folding ---- */

static void fold(struct scrollback *s, size_t i, bool folded)
{
    if (s->blocks[i].kind != BLOCK_REASONING || s->blocks[i].folded == folded) return;
    s->blocks[i].folded = folded;
    changed(s, i);
}

void scrollback_fold(struct scrollback *s, bool folded)
{
    s->folds = folded;
    for (size_t i = 0; i < s->n; i++)
        fold(s, i, folded);
    scrollback_end_find(s, false);
}

bool scrollback_folds(const struct scrollback *s)
{
    return s->folds;
}

void scrollback_end_reasoning(struct scrollback *s)
{
    for (size_t i = s->n; i-- > 0;) {
        if (s->blocks[i].kind != BLOCK_REASONING) continue;
        fold(s, i, s->folds);
        return;
    }
}

static size_t count_words(const struct block *b)
{
    size_t n = 0;
    bool inside = false;
    for (size_t i = 0; i < b->text.len; i++) {
        bool blank = b->text.data[i] == ' ' || b->text.data[i] == '\n';
        n += !blank && !inside;
        inside = !blank;
    }
    return n;
}

/* ---- rows ---- */

static int margin_of(enum block_kind kind)
{
    return kind == BLOCK_REPLY || kind >= BLOCK_NOTE ? 0 : 2;
}

/* An empty row stands between blocks, but not between what hearth says at one time. */
static size_t gap_before(const struct scrollback *s, size_t i)
{
    if (i == 0 || s->blocks[i].kind == BLOCK_FIGURES) return 0;
    return s->blocks[i].kind < BLOCK_NOTE || s->blocks[i - 1].kind < BLOCK_COMMAND;
}

/* Where the text of a list's item begins in its line: s is behind blanks, a bullet or a number,
 * and a blank. 0: it is no item. */
static size_t item_text(const char *s, size_t n)
{
    size_t i = 0, digits = 0;
    while (i < n && s[i] == ' ')
        i++;
    while (i + digits < n && s[i + digits] >= '0' && s[i + digits] <= '9')
        digits++;
    const size_t mark = i + digits;
    bool is_number =
        digits > 0 && digits < 10 && mark < n && (s[mark] == '.' || s[mark] == ')');
    bool is_bullet =
        digits == 0 && mark < n && (s[mark] == '-' || s[mark] == '*' || s[mark] == '+');
    if ((!is_number && !is_bullet) || mark + 1 >= n || s[mark + 1] != ' ') return 0;
    i = mark + 1;
    while (i < n && s[i] == ' ')
        i++;
    return i;
}

/* Sets what the row at row->at leaves free; before is the row above, or NULL. */
static void indent(const struct block *b, const struct row *before, int columns,
                   struct row *row)
{
    if (b->kind != BLOCK_REPLY) return;
    if (row->at > 0 && b->text.data[row->at - 1] != '\n') {
        row->hang = row->margin = before ? before->hang : 0;
        return;
    }
    const size_t hang = item_text(b->text.data + row->at, b->n_shown - row->at);
    row->hang = hang <= (size_t)columns / 3 ? (int)hang : 0;
}

static void lay_out(const struct scrollback *s, struct block *b)
{
    if (b->is_laid) return;
    b->is_laid = true;
    /* The last row may have been waiting for what was appended; and what joins the text's last
     * cluster may make it wide, so that the row above could have ended before it. */
    size_t at = 0;
    for (bool again = true; again && b->n_rows > 0;) {
        at = b->rows[--b->n_rows].at;
        again = b->n_rows > 0 && b->rows[b->n_rows - 1].hangs_on_end;
    }
    int columns = s->columns - margin_of(b->kind);
    while (at < b->n_shown) {
        MEM_GROW(b->rows, b->n_rows, b->cap_rows);
        struct row *row = &b->rows[b->n_rows];
        *row = (struct row){.at = at};
        indent(b, b->n_rows > 0 ? row - 1 : NULL, columns, row);
        const char *s_at = b->text.data + at;
        const struct wrap_row cut =
            b->kind == BLOCK_LITERAL ? wrap_row_exact(s_at, b->n_shown - at, columns)
                                     : wrap_row(s_at, b->n_shown - at, columns - row->margin);
        row->len = cut.len;
        row->hangs_on_end = at + cut.seen == b->n_shown;
        b->n_rows++;
        if (cut.next == 0) break;
        at += cut.next;
    }
}

static size_t rows_of(const struct scrollback *s, struct block *b)
{
    if (b->folded) return 1;
    lay_out(s, b);
    return b->n_rows > 0 ? b->n_rows : 1;
}

static void place_blocks(struct scrollback *s)
{
    for (size_t i = s->n_placed; i < s->n; i++) {
        struct block *before = i > 0 ? &s->blocks[i - 1] : NULL;
        s->blocks[i].first =
            before ? before->first + gap_before(s, i - 1) + rows_of(s, before) : 0;
    }
    s->n_placed = s->n;
}

void scrollback_set_width(struct scrollback *s, int columns)
{
    if (columns < 4) columns = 4;
    if (columns == s->columns) return;
    s->columns = columns;
    for (size_t i = 0; i < s->n; i++) {
        s->blocks[i].n_rows = 0;
        s->blocks[i].is_laid = false;
    }
    s->n_placed = 0;
}

size_t scrollback_n_rows(struct scrollback *s)
{
    if (s->n == 0) return 0;
    place_blocks(s);
    struct block *last = &s->blocks[s->n - 1];
    return last->first + gap_before(s, s->n - 1) + rows_of(s, last);
}

/* The block that row i belongs to. */
static size_t block_at(struct scrollback *s, size_t row)
{
    place_blocks(s);
    size_t low = 0, high = s->n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (s->blocks[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct scrollback_row scrollback_row(struct scrollback *s, size_t i)
{
    size_t k = block_at(s, i), gap = gap_before(s, k);
    struct block *b = &s->blocks[k];
    struct scrollback_row out = {.block = k, .kind = b->kind, .text = "", .margin = 0};
    size_t row = i - b->first;
    if (row < gap) {
        out.is_gap = true;
        return out;
    }
    row -= gap;
    out.is_first = row == 0;
    out.margin = margin_of(b->kind);
    out.is_folded = b->folded;
    if (b->folded) {
        out.n_words = count_words(b);
        return out;
    }
    lay_out(s, b);
    if (row >= b->n_rows) return out; /* a block without text */
    out.margin += b->rows[row].margin;
    out.at = b->rows[row].at;
    out.text = b->text.data + out.at;
    out.len = b->rows[row].len;
    return out;
}

struct scrollback_place scrollback_place(struct scrollback *s, size_t i)
{
    if (s->n == 0) return (struct scrollback_place){0};
    struct scrollback_row row = scrollback_row(s, i);
    return (struct scrollback_place){row.block, row.at, row.is_gap};
}

size_t scrollback_row_of(struct scrollback *s, struct scrollback_place place)
{
    if (place.block >= s->n) return scrollback_n_rows(s);
    place_blocks(s);
    struct block *b = &s->blocks[place.block];
    if (place.is_gap) return b->first;
    size_t first = b->first + gap_before(s, place.block);
    if (b->folded || place.at == 0) return first;
    lay_out(s, b);
    size_t low = 0, high = b->n_rows;
    while (high > low + 1) {
        size_t middle = (low + high) / 2;
        if (b->rows[middle].at <= place.at)
            low = middle;
        else
            high = middle;
    }
    return first + low;
}

/* ---- looks ---- */

const struct style_span *scrollback_spans(struct scrollback *s, size_t block, size_t *n)
{
    struct block *b = &s->blocks[block];
    if (b->styler.n_held > 0) {
        /* As if the text ended here, which it may. */
        drop_undecided(b);
        struct styler copy = b->styler;
        style_spans_end(&copy, &b->spans);
    }
    *n = b->spans.n;
    return b->spans.items;
}

/* ---- search ---- */

/* The parts of one character, by Unicode's canonical decomposition, which are at most four. */
enum { MAX_PARTS = 8 };

/* Reads characters: each as it is first, and taken apart where that decides. */
struct reader {
    const char *s;
    size_t n, at; /* at: behind the character */
    utf8proc_int32_t parts[MAX_PARTS];
    size_t n_parts, next; /* next == n_parts: all of it was used */
};

static bool read_char(struct reader *r)
{
    uint32_t cp;
    if (r->next < r->n_parts) return true;
    const int n = r->at < r->n ? utf8_decode(r->s + r->at, r->n - r->at, &cp) : 0;
    if (n <= 0) return false;
    r->at += (size_t)n;
    r->parts[0] = (utf8proc_int32_t)cp;
    r->n_parts = 1;
    r->next = 0;
    return true;
}

static void take_apart(struct reader *r)
{
    utf8proc_int32_t parts[MAX_PARTS];
    if (r->n_parts != 1 || r->parts[0] < 0x80) return;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(r->parts[0], parts, MAX_PARTS, UTF8PROC_DECOMPOSE, NULL);
    if (n <= 1 || n > MAX_PARTS) return;
    memcpy(r->parts, parts, (size_t)n * sizeof *parts);
    r->n_parts = (size_t)n;
}

static bool same_part(const struct reader *text, const struct reader *word)
{
    const utf8proc_int32_t t = text->parts[text->next], w = word->parts[word->next];
    return t == w || utf8proc_tolower(t) == w;
}

size_t scrollback_matches(const char *s, size_t n, const char *words)
{
    struct reader text = {.s = s, .n = n}, word = {.s = words, .n = strlen(words)};
    while (read_char(&word)) {
        if (!read_char(&text)) return 0;
        if (!same_part(&text, &word)) {
            take_apart(&text);
            take_apart(&word);
            if (!same_part(&text, &word)) return 0;
        }
        text.next++;
        word.next++;
    }
    const bool ends = word.at == word.n && text.next == text.n_parts;
    return ends ? text.at : 0;
}

/* The first match in text[from..to), or the last if backwards. */
static bool find_in(const struct block *b, const char *words, size_t from, size_t to,
                    bool backwards, size_t *at)
{
    if (to > b->text.len) to = b->text.len;
    for (size_t k = from; k < to; k++) {
        size_t i = backwards ? to - 1 - (k - from) : k;
        if (!scrollback_matches(b->text.data + i, b->text.len - i, words)) continue;
        *at = i;
        return true;
    }
    return false;
}

bool scrollback_find(struct scrollback *s, const char *words, bool backwards,
                     struct scrollback_place from, struct scrollback_place *found)
{
    if (s->n == 0 || !*words) return false;
    if (from.block >= s->n) from = (struct scrollback_place){.block = s->n - 1, .at = SIZE_MAX};
    /* Once around: the rest of the first block comes at the end again, its other part. */
    for (size_t k = 0; k <= s->n; k++) {
        size_t i = backwards ? (from.block + s->n - k % s->n) % s->n : (from.block + k) % s->n;
        size_t begin = 0, end = SIZE_MAX;
        if (k == 0 && backwards) end = from.at;
        if (k == 0 && !backwards) begin = from.at < SIZE_MAX ? from.at + 1 : SIZE_MAX;
        if (!find_in(&s->blocks[i], words, begin, end, backwards, &found->at)) continue;
        found->block = i;
        found->is_gap = false;
        s->blocks[i].is_found |= s->blocks[i].folded;
        fold(s, i, false);
        return true;
    }
    return false;
}

void scrollback_end_find(struct scrollback *s, bool folds)
{
    for (size_t i = 0; i < s->n; i++) {
        if (folds && s->blocks[i].is_found) fold(s, i, true);
        s->blocks[i].is_found = false;
    }
}
