#include "ui/progress.h"

#include "base/file.h"
#include "ui/output.h"
#include "ui/status.h"

enum { FIRST_MS = 500, EVERY_MS = 100 };

static void draw(struct progress *p, double now)
{
    struct buf line = {0};
    buf_puts(&line, "\r");
    status_progress(&line, term_width(&p->term) - 1, p->phase, p->done, p->total, p->cached,
                    now - p->began_ms);
    buf_puts(&line, "\033[K");
    output_write(p->term.fd, line.data, line.len);
    buf_free(&line);
    p->drawn = true;
    p->drawn_ms = now;
}

void progress_update(struct progress *p, enum face_phase phase, uint64_t done, uint64_t total,
                     uint64_t cached)
{
    double now = clock_ms();
    if (!p->running || p->phase != phase) {
        progress_end(p);
        p->running = true;
        p->phase = phase;
        p->began_ms = now;
    }
    if (done >= total) {
        progress_end(p);
        return;
    }
    p->done = done;
    p->total = total;
    p->cached = cached;
    if (!p->term.redraw || now - p->began_ms < FIRST_MS ||
        (p->drawn && now - p->drawn_ms < EVERY_MS))
        return;
    draw(p, now);
}

int progress_due_ms(const struct progress *p)
{
    if (!p->running || p->drawn || !p->term.redraw) return -1;
    double left = p->began_ms + FIRST_MS - clock_ms();
    return left > 0 ? (int)left + 1 : 0;
}

void progress_tick(struct progress *p)
{
    if (progress_due_ms(p) == 0) draw(p, clock_ms());
}

void progress_clear(struct progress *p)
{
    if (p->drawn) output_write(p->term.fd, "\r\033[K", 4);
    p->drawn = false;
}

void progress_end(struct progress *p)
{
    progress_clear(p);
    p->running = false;
}
