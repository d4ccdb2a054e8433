/* Texts that come in pieces: stop strings in a reply, and the lines of a pipe. The same comes
 * of them whatever the pieces, and it is what a plain search over the whole gives. The first
 * byte chooses which; the second sets the pieces. */
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "engine/stop.h"
#include "target.h"
#include "ui/source.h"

/* The size of the next piece; 0 asks for one piece. */
static size_t next_piece(size_t left, uint32_t *state)
{
    if (*state == 0) return left;
    *state = *state * 1664525u + 1013904223u;
    const size_t n = 1 + (*state >> 24) % ((*state >> 16) % 16 + 1);
    *state |= 1;
    return n < left ? n : left;
}

/* ---- stop strings ---- */

enum { MOST_STOPS = 4 };

/* Where the reply ends by a look at every place: of the stop strings that end first the one
 * that begins first; n if none ends. */
static size_t naive_end(const char *const *stop, size_t n_stop, const char *text, size_t n)
{
    for (size_t end = 1; end <= n; end++) {
        size_t longest = 0;
        for (size_t i = 0; i < n_stop; i++) {
            const size_t len = strlen(stop[i]);
            if (len > longest && len <= end && memcmp(text + end - len, stop[i], len) == 0)
                longest = len;
        }
        if (longest > 0) return end - longest;
    }
    return n;
}

/* How long an end of the text is also the beginning of a stop string. */
static size_t naive_held(const char *const *stop, size_t n_stop, const char *text, size_t n)
{
    for (size_t k = n; k > 0; k--)
        for (size_t i = 0; i < n_stop; i++)
            if (strlen(stop[i]) > k && memcmp(text + n - k, stop[i], k) == 0) return k;
    return 0;
}

/* Shows what is certain after each piece; what was shown and what is held are what came. */
static void stream(const char *const *stop, size_t n_stop, const char *text, size_t n,
                   uint32_t pieces)
{
    size_t shown = 0, at = 0;
    bool found = false;
    for (size_t len = 0; len < n && !found;) {
        const size_t from = len;
        len += next_piece(n - len, &pieces);
        found = stop_find(stop, n_stop, text, len, from, &at);
        if (found) {
            must(at >= shown && at < len);
            break;
        }
        const size_t held = stop_held(stop, n_stop, text, len);
        must(held <= len && len - held >= shown);
        must(held == naive_held(stop, n_stop, text, len));
        shown = len - held;
    }
    must((found ? at : n) == naive_end(stop, n_stop, text, n));
}

static void try_stops(char *s, size_t n, uint32_t pieces)
{
    const char *stop[MOST_STOPS];
    size_t n_stop = 0;
    for (char *nul; n_stop < MOST_STOPS && (nul = memchr(s, 0, n));) {
        stop[n_stop++] = s;
        n -= (size_t)(nul + 1 - s);
        s = nul + 1;
    }
    if (n > 2000) n = 2000;
    stream(stop, n_stop, s, n, pieces);
    stream(stop, n_stop, s, n, 0);
}

/* ---- lines of a pipe ---- */

/* All turns and errors of a text in pieces, one behind the other. */
static void take_lines(enum source_form form, const char *s, size_t n, uint32_t pieces,
                       struct buf *out)
{
    struct source source = {.form = form, .name = "fuzz", .fd = -1};
    struct source_turn turn = {0};
    struct err err;
    for (size_t at = 0; !source.at_end;) {
        const size_t piece = at < n ? next_piece(n - at, &pieces) : 0;
        buf_append(&source.raw, s + at, piece);
        at += piece;
        source.at_end = piece == 0;
        for (enum source_got got; (got = source_next(&source, &turn, &err)) != SOURCE_NONE;) {
            if (got == SOURCE_WRONG) {
                must_be_refusal(&err);
                buf_printf(out, "<%s>", err.msg);
            } else {
                buf_printf(out, "<%zu %d %zu:", source.n_lines, turn.is_new, turn.text.len);
            }
            buf_append(out, buf_str(&turn.text), turn.text.len);
            buf_append(out, buf_str(&turn.id), turn.id.len);
            source_turn_clear(&turn);
        }
    }
    /* Nothing is left over. */
    must(source.at == 0 && source.raw.len == 0);
    source_turn_free(&turn);
    source_close(&source);
}

/* The lines of a text that is there as a whole. */
static void naive_lines(const char *s, size_t n, struct buf *out)
{
    size_t number = 1, len, next;
    for (size_t at = 0; at < n; at = next, number++) {
        for (len = 0; at + len < n && s[at + len] != '\n';)
            len++;
        next = at + len + 1;
        if (next <= n && len > 0 && s[at + len - 1] == '\r') len--;
        if (ascii_is_blank(s + at, len)) continue;
        buf_printf(out, "<%zu 0 %zu:", number, len);
        buf_append(out, s + at, len);
    }
}

static void try_lines(enum source_form form, const char *s, size_t n, uint32_t pieces)
{
    struct buf whole = {0}, parts = {0}, naive = {0};
    take_lines(form, s, n, 0, &whole);
    take_lines(form, s, n, pieces, &parts);
    must(whole.len == parts.len);
    must(memcmp(buf_str(&whole), buf_str(&parts), whole.len) == 0);
    if (form == SOURCE_LINES) {
        const size_t mark = n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        naive_lines(s + mark, n - mark, &naive);
        must(whole.len == naive.len);
        must(memcmp(buf_str(&whole), buf_str(&naive), whole.len) == 0);
    }
    buf_free(&whole);
    buf_free(&parts);
    buf_free(&naive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) return 0;
    char *text = mem_strndup((const char *)data + 2, n_bytes - 2);
    const uint32_t pieces = data[1] * 2u + 1;
    switch (data[0] % 3) {
    case 0: try_stops(text, n_bytes - 2, pieces); break;
    case 1: try_lines(SOURCE_LINES, text, n_bytes - 2, pieces); break;
    default: try_lines(SOURCE_JSONL, text, n_bytes - 2, pieces); break;
    }
    free(text);
    return 0;
}
