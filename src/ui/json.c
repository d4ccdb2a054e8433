#include "ui/json.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"

static void put_id(struct buf *out, const char *id)
{
    if (id && *id) buf_printf(out, ",\"id\":%s", id);
}

void json_start(struct buf *out, unsigned turn, const char *model, const char *id)
{
    buf_printf(out, "{\"type\":\"start\",\"turn\":%u,\"model\":", turn);
    json_quote(out, model, strlen(model));
    put_id(out, id);
    buf_puts(out, "}\n");
}

void json_prefill(struct buf *out, uint64_t done, uint64_t total, uint64_t cached)
{
    buf_printf(out,
               "{\"type\":\"prefill\",\"done\":%" PRIu64 ",\"total\":%" PRIu64
               ",\"cached\":%" PRIu64 "}\n",
               done, total, cached);
}

void json_text(struct buf *out, enum face_part part, const char *s, size_t n)
{
    buf_printf(out, "{\"type\":\"%s\",\"text\":", part == FACE_REPLY ? "text" : "reasoning");
    json_quote(out, s, n);
    buf_puts(out, "}\n");
}

static void work(struct buf *out, const struct face_report *r)
{
    buf_printf(out,
               ",\"usage\":{\"cached\":%" PRIu32 ",\"prefilled\":%" PRIu32
               ",\"generated\":%" PRIu32 ",\"drafted\":%" PRIu32 ",\"accepted\":%" PRIu32 "}",
               r->n_cached, r->n_prefilled, r->n_generated, r->n_drafted, r->n_accepted);
    buf_printf(out, ",\"timings\":{\"prefill_ms\":%.3f,\"decode_ms\":%.3f}", r->prefill_ms,
               r->decode_ms);
}

static void outcome(struct buf *out, const struct face_report *r)
{
    /* A string: many readers of JSON keep only 53 bits of a number. */
    buf_printf(out,
               ",\"context\":{\"used\":%" PRIu32 ",\"limit\":%" PRIu32 "},\"seed\":\"%" PRIu64
               "\"",
               r->n_ctx_used, r->n_ctx, r->reply_seed);
}

/* Statuses of signals lie above 128. */
static enum face_stop stop_without_turn(int status)
{
    if (status == 0) return FACE_STOP_END;
    return status > 128 ? FACE_STOP_CANCELLED : FACE_STOP_FAILED;
}

void json_end(struct buf *out, const struct json_end *end)
{
    const struct face_report none = {.stop = stop_without_turn(end->exit)};
    const struct face_report *r = end->report ? end->report : &none;
    buf_printf(out, "{\"type\":\"end\",\"stop\":\"%s\"", face_stop_name(r->stop));
    put_id(out, end->id);
    if (end->reasoning) {
        buf_puts(out, ",\"text\":");
        json_quote(out, r->text ? r->text : "", r->text ? r->text_len : 0);
        if (end->reasoning->len > 0) {
            buf_puts(out, ",\"reasoning\":");
            json_quote(out, end->reasoning->data, end->reasoning->len);
        }
    }
    if (end->error) {
        buf_puts(out, ",\"error\":");
        json_quote(out, end->error, strlen(end->error));
    }
    work(out, r);
    if (end->report) outcome(out, r);
    buf_printf(out, ",\"exit\":%d}\n", end->exit);
}
