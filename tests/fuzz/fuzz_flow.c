/* A reply on its way to a terminal, of any text, at any width, in any pieces: what is shown
 * does not depend on the pieces, no colour is open behind one, and it is the text but for line
 * breaks in the place of blanks. The first byte is the width, the second the pieces, the third
 * whether there are colours and pauses. */
#include <string.h>

#include "chat/sanitise.h"
#include "target.h"
#include "ui/flow.h"

/* Appends raw without sequences, none of which is open at its end, and empties it. */
static void take_bare(struct buf *raw, struct buf *out)
{
    bool is_open = false;
    for (size_t i = 0; i < raw->len; i++) {
        if (raw->data[i] != '\033') {
            buf_putc(out, raw->data[i]);
            continue;
        }
        is_open = strncmp(raw->data + i, "\033[0m", 4) != 0;
        must(raw->data[++i] == '[');
        while (raw->data[++i] != 'm')
            must(raw->data[i] == ';' || (raw->data[i] >= '0' && raw->data[i] <= '9'));
    }
    must(!is_open);
    buf_clear(raw);
}

struct how {
    int columns;
    bool colours, plain;
    size_t piece; /* characters */
};

/* What is shown of s[0..n); every call leaves the terminal without a look. */
static void show(const struct how *how, const char *s, size_t n, struct buf *out)
{
    struct flow flow = {.colours = how->colours, .columns = how->columns};
    struct buf raw = {0};
    buf_clear(out);
    for (size_t i = 0, end; i < n; i = end) {
        end = i;
        for (size_t k = 0; k < how->piece && end < n; k++)
            do
                end++;
            while (end < n && (s[end] & 0xc0) == 0x80);
        if (how->plain)
            flow_plain(&flow, s + i, end - i, &raw);
        else
            flow_reply(&flow, s + i, end - i, &raw);
        take_bare(&raw, out);
    }
    flow_end(&flow, &raw);
    must(!flow.gap.len && !flow.word.len && !flow.look && !flow.x);
    flow_free(&flow);
    take_bare(&raw, out);
    buf_free(&raw);
}

/* Whether b is a with line breaks for some of its blanks or between its characters, and nothing
 * else changed. */
static bool is_broken(const char *a, const char *b)
{
    while (*a || *b) {
        if (*a == *b) {
            a++, b++;
            continue;
        }
        const size_t n = strspn(a, " \t");
        if (*b == '\n')
            b++;
        else if (n == 0 || (a[n] && a[n] != '\n'))
            return false; /* blanks beyond the edge end a line */
        a += n;
        if (b[-1] == '\n' && *a == '\n') a++;
    }
    return true;
}

/* With a pause somewhere nothing but blanks is lost. */
static void check_pause(const struct how *how, const char *s, size_t n, size_t at)
{
    struct flow flow = {.colours = how->colours, .columns = how->columns};
    struct buf raw = {0}, out = {0}, text = {0};
    at = n ? at % n : 0;
    while (at < n && (s[at] & 0xc0) == 0x80)
        at++;
    flow_reply(&flow, s, at, &raw);
    flow_pause(&flow, &raw);
    take_bare(&raw, &out); /* nothing is open while something else is shown */
    flow_reply(&flow, s + at, n - at, &raw);
    flow_end(&flow, &raw);
    flow_free(&flow);
    take_bare(&raw, &out);
    for (size_t i = 0; i < out.len; i++)
        if (!strchr(" \t\n", out.data[i])) buf_putc(&text, out.data[i]);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\n", s[i])) must(k < text.len && text.data[k++] == s[i]);
    must(k == text.len);
    buf_free(&raw);
    buf_free(&out);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 4 || n_bytes > 1000) return 0;
    struct buf text = {0}, whole = {0}, parts = {0};
    sanitise_all((const char *)data + 3, n_bytes - 3, &text);
    const size_t n = text.len;
    struct how how = {data[0] % 80, data[2] & 1, data[2] & 2, n};
    if (how.columns == 1) how.columns = 2; /* wide characters have room */
    show(&how, buf_str(&text), n, &whole);
    how.piece = 1 + data[1] % 20;
    show(&how, buf_str(&text), n, &parts);
    must(strcmp(buf_str(&whole), buf_str(&parts)) == 0);
    must(is_broken(buf_str(&text), buf_str(&whole)));
    if (how.columns == 0) must(strcmp(buf_str(&text), buf_str(&whole)) == 0);
    check_pause(&how, buf_str(&text), n, data[1] * 7u);
    /* Colours change nothing of the text. */
    how.colours = !how.colours;
    show(&how, buf_str(&text), n, &parts);
    must(strcmp(buf_str(&whole), buf_str(&parts)) == 0);
    buf_free(&text);
    buf_free(&whole);
    buf_free(&parts);
    return 0;
}
