#include "ui/bar.h"

#include <string.h>

#include "base/buf.h"
#include "base/readable.h"
#include "ui/screen.h"
#include "ui/status.h"
#include "ui/wrap.h"

/* The parts of the bar from left to right. */
enum part { PART_NAME, PART_DEVICE, PART_METER, PART_RATE, PART_DRAFT, PART_SAVED, N_PARTS };

/* What goes first when the row is too narrow. */
static const enum part least[] = {PART_DEVICE, PART_DRAFT, PART_SAVED, PART_RATE, PART_METER};
enum { N_LEAST = sizeof least / sizeof *least };
/* The first of these make room for a hint that is not needed, too. */
enum { N_BELOW_HINT = 2 };
/* To keep the others, the name of the model is cut down to this. */
enum { LEAST_NAME = 16 };

static void add_count(struct buf *out, const struct chat_status *s)
{
    char used[READABLE_BYTES], all[READABLE_BYTES];
    buf_printf(out, "%s%s/%s", s->is_exact ? "" : "~", readable_number(used, s->n_used),
               readable_number(all, s->n_ctx));
}

static const char *saved(const struct chat_status *s)
{
    switch (s->saved) {
    case CHAT_SAVED: return "saved";
    case CHAT_NEW: return "new";
    case CHAT_PRIVATE: return "private";
    case CHAT_READ_ONLY: return "read only";
    case CHAT_UNSAVED: return "NOT SAVED";
    }
    return "";
}

static void make_parts(const struct bar *bar, struct buf parts[N_PARTS])
{
    const struct chat_status *s = &bar->chat;
    buf_puts(&parts[PART_NAME], *bar->activity ? bar->activity : s->model);
    if (s->n_ctx == 0) return;
    buf_puts(&parts[PART_DEVICE], s->device);
    add_count(&parts[PART_METER], s);
    if (bar->rate > 0) {
        struct buf rate = {0};
        status_rate(&rate, (uint64_t)(bar->rate * 1000 + 0.5), 1e6);
        /* What stands beside it keeps its place while a reply comes. */
        buf_printf(&parts[PART_RATE], "%5s tok/s", rate.data);
        buf_free(&rate);
    }
    if (bar->n_drafted > 0)
        buf_printf(&parts[PART_DRAFT], "%u %% accepted",
                   (unsigned)((uint64_t)bar->n_accepted * 100 / bar->n_drafted));
    buf_puts(&parts[PART_SAVED], saved(s));
}

static int meter_width(void)
{
    return screen_columns() >= 100 ? 20 : 10;
}

/* Columns of a part with what stands around it. */
static int width_of(enum part part, const struct buf *text)
{
    if (text->len == 0) return 0;
    return wrap_width(text->data, text->len, 0) + 3 +
           (part == PART_METER ? meter_width() + 1 : 0);
}

/* The context: computed, used but not computed, free. */
static int draw_meter(int y, int x, const struct chat_status *s)
{
    const bool plain = !screen_is_utf8();
    const int width = meter_width();
    uint64_t ctx = s->n_ctx ? s->n_ctx : 1;
    int used = (int)(((uint64_t)s->n_used * (uint64_t)width + ctx - 1) / ctx);
    int warm = s->n_used ? (int)((uint64_t)used * s->n_warm / s->n_used) : 0;
    for (int i = 0; i < width; i++) {
        unsigned ink = i < warm ? INK_BAR_WARM : i < used ? INK_BAR_COLD : INK_BAR;
        const char *cell = plain ? (i < warm   ? "#"
                                    : i < used ? "+"
                                               : ".")
                                 : (i < warm   ? "\u2588"
                                    : i < used ? "\u2592"
                                               : "\u2591");
        x = screen_puts(y, x, 1, ink, cell);
    }
    return screen_puts(y, x, 1, INK_BAR, " ");
}

/* Takes up to `over` columns from the name, which has so many; what is done is not cut. */
static int shorten(const struct bar *bar, int over, int *name)
{
    if (*bar->activity || over <= 0 || *name <= LEAST_NAME) return 0;
    const int gone = over < *name - LEAST_NAME ? over : *name - LEAST_NAME;
    *name -= gone;
    return gone;
}

void bar_draw(int y, const struct bar *bar)
{
    struct buf parts[N_PARTS] = {0};
    const int columns = screen_columns();
    const char *edge = screen_is_utf8() ? " \u2502 " : " | ";
    int width = 0, x = 1, hint = (int)strlen(bar->hint);
    const int kept = bar->needs_hint && hint + 10 < columns ? hint + 2 : 0;
    make_parts(bar, parts);
    for (int i = 0; i < N_PARTS; i++)
        width += width_of((enum part)i, &parts[i]);
    int name = wrap_width(parts[PART_NAME].data, parts[PART_NAME].len, 0);
    for (int i = 0; i < N_LEAST; i++) {
        const bool yields = hint > 0 && (i < N_BELOW_HINT || bar->needs_hint);
        const int room = columns + 1 - (yields ? hint + 3 : 0);
        if (i >= N_BELOW_HINT) width -= shorten(bar, width - room, &name);
        if (width <= room) continue;
        width -= width_of(least[i], &parts[least[i]]);
        buf_clear(&parts[least[i]]);
    }
    screen_fill(y, 0, columns, INK_BAR);
    for (int i = 0; i < N_PARTS; i++) {
        if (parts[i].len == 0) continue;
        if (x > 1) x = screen_puts(y, x, 3, INK_BAR, edge);
        if (i == PART_METER) x = draw_meter(y, x, &bar->chat);
        const int room = columns - 1 - x - kept;
        if (i == PART_NAME)
            x = screen_cut(y, x, room < name ? room : name, INK_BAR_NAME, parts[i].data,
                           parts[i].len);
        else
            x = screen_text(y, x, room, INK_BAR, parts[i].data, parts[i].len);
    }
    if (x + hint + 3 <= columns) screen_puts(y, columns - hint - 1, hint, INK_BAR, bar->hint);
    for (int i = 0; i < N_PARTS; i++)
        buf_free(&parts[i]);
}
