#include "ui/status.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/readable.h"
#include "ui/term.h"

void status_rate(struct buf *out, uint64_t n_tokens, double ms)
{
    if (n_tokens == 0 || !(ms > 0)) {
        buf_puts(out, "-");
        return;
    }
    double rate = (double)n_tokens * 1000 / ms;
    char number[READABLE_BYTES];
    if (rate >= 99.95)
        buf_puts(out, readable_number(number, (uint64_t)(rate + 0.5)));
    else
        buf_printf(out, rate < 9.995 ? "%.2f" : "%.1f", rate);
}

static void duration(struct buf *out, double ms)
{
    const int64_t s = (int64_t)((ms + 50) / 1000); /* so that 59.95 s are a minute */
    if (ms < 999.5)
        buf_printf(out, "%.0f ms", ms);
    else if (ms < 59950)
        buf_printf(out, "%.1f s", ms / 1000);
    else
        buf_printf(out, "%" PRId64 " min %02d s", s / 60, (int)(s % 60));
}

/* Puts a line break for the blank behind the last comma that fits, from `at` on. */
static void break_lines(struct buf *out, size_t at, size_t width)
{
    size_t comma = 0;
    for (size_t i = at; i + 1 < out->len; i++) {
        if (i + 1 - at > width && comma > 0) {
            out->data[comma + 1] = '\n';
            at = comma + 2;
            comma = 0;
        }
        if (out->data[i] == ',' && out->data[i + 1] == ' ') comma = i;
    }
    if (out->len - at > width && comma > 0) out->data[comma + 1] = '\n';
}

void status_report(struct buf *out, int width, const struct face_report *r, bool verbose)
{
    char a[READABLE_BYTES], b[READABLE_BYTES];
    size_t start = out->len;
    if (r->stop != FACE_STOP_END) buf_printf(out, "stop: %s, ", face_stop_name(r->stop));
    buf_printf(out, "%s cached", readable_number(a, r->n_cached));
    if (r->n_read > 0) buf_printf(out, " (%s from disk)", readable_number(a, r->n_read));
    buf_printf(out, ", %s prefilled", readable_number(a, r->n_prefilled));
    if (verbose && r->n_prefilled > 0) {
        buf_puts(out, " at ");
        status_rate(out, r->n_prefilled, r->prefill_ms);
        buf_puts(out, " tok/s in ");
        duration(out, r->prefill_ms);
    }
    buf_printf(out, ", %s generated", readable_number(a, r->n_generated));
    if (face_has_rate(r)) {
        buf_puts(out, " at ");
        status_rate(out, r->n_generated, r->decode_ms);
        buf_puts(out, " tok/s");
    }
    if (verbose && r->n_generated > 0) {
        buf_puts(out, " in ");
        duration(out, r->decode_ms);
    }
    if (r->n_drafted > 0)
        buf_printf(out, ", %s of %s drafted accepted", readable_number(a, r->n_accepted),
                   readable_number(b, r->n_drafted));
    buf_printf(out, ", context %s of %s, seed %" PRIu64, readable_number(a, r->n_ctx_used),
               readable_number(b, r->n_ctx), r->reply_seed);
    if (r->is_inexact) buf_puts(out, ", inexact");
    break_lines(out, start, width > 20 ? (size_t)width : 20);
}

void status_line(struct buf *out, const struct term *t, const struct face_report *r,
                 bool verbose)
{
    buf_printf(out, "%s[", term_on(t, STYLE_DIM));
    status_report(out, t->words ? term_width(t) - 2 : INT_MAX, r, verbose);
    buf_printf(out, "]%s\n", term_off(t));
}

/* Leaves out what stands behind the last comma that fits, where the whole does not. */
static void cut_parts(struct buf *out, size_t at, size_t width)
{
    if (out->len - at <= width) return;
    size_t end = at + width;
    while (end > at && memcmp(out->data + end, ", ", 2) != 0)
        end--;
    out->len = end > at ? end : at + width;
    out->data[out->len] = '\0';
}

void status_progress(struct buf *out, int width, enum face_phase phase, uint64_t done,
                     uint64_t total, uint64_t cached, double elapsed_ms)
{
    struct buf tail = {0};
    double share = total > 0 ? (double)done / (double)total : 0;
    if (share > 1) share = 1;
    buf_printf(&tail, " %3d %%", (int)(share * 100));
    /* What was cached took no time and says nothing about the rest. */
    uint64_t fresh = phase == FACE_PREFILL && done > cached ? done - cached : done;
    if (fresh > 0 && elapsed_ms > 0) {
        if (phase == FACE_PREFILL) {
            buf_puts(&tail, ", ");
            status_rate(&tail, fresh, elapsed_ms);
            buf_puts(&tail, " tok/s");
        }
        if (total > done) {
            buf_puts(&tail, ", ");
            duration(&tail, (double)(total - done) * elapsed_ms / (double)fresh + 500);
            buf_puts(&tail, " left");
        }
    }
    struct buf head = {0};
    if (phase == FACE_LOAD) {
        buf_puts(&head, "loading the model ");
    } else {
        char tokens[READABLE_BYTES];
        const uint64_t n = total - (cached < total ? cached : total);
        buf_printf(&head, "reading %s ", readable_count(tokens, n, "token"));
    }
    /* The same however long the numbers are, so that the bar does not jump. */
    int room = width - (int)head.len - 42;
    if (room > 30) room = 30;
    size_t start = out->len;
    buf_puts(out, buf_str(&head));
    if (room >= 5) {
        buf_putc(out, '[');
        for (int i = 0; i < room; i++)
            buf_putc(out, i < (int)(share * room) ? '#' : '.');
        buf_putc(out, ']');
    }
    buf_puts(out, buf_str(&tail));
    if (width >= 0) cut_parts(out, start, (size_t)width);
    buf_free(&head);
    buf_free(&tail);
}
