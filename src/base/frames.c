#include "base/frames.h"

#include <string.h>

#include <xxhash.h>

#include "base/bytes.h"

static const char magic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'L', 'G'};

enum { SUM_AT = 40 };

void frame_append(struct buf *out, const struct frame *frame)
{
    uint8_t head[FRAME_HEAD_BYTES];
    memcpy(head, magic, sizeof magic);
    bytes_put_u16(head + 8, frame->version);
    bytes_put_u16(head + 10, frame->type);
    bytes_put_u32(head + 12, (uint32_t)frame->n_bytes);
    bytes_put_u64(head + 16, frame->identity);
    bytes_put_u64(head + 24, frame->number);
    bytes_put_u64(head + 32,
                  XXH3_64bits_withSeed(frame->payload, frame->n_bytes, frame->identity));
    bytes_put_u64(head + SUM_AT, XXH3_64bits_withSeed(head, SUM_AT, frame->at));
    buf_append(out, head, sizeof head);
    buf_append(out, frame->payload, frame->n_bytes);
}

enum found { FOUND_NOTHING, FOUND_HEAD, FOUND_FRAME };

/* What begins at `at`: a sound header, and a sound payload behind it? A payload of more than
 * *budget bytes is not looked at; one that is uses them up. */
static enum found look(const uint8_t *data, size_t n, size_t at, size_t *budget,
                       struct frame *frame)
{
    if (n - at < FRAME_HEAD_BYTES) return FOUND_NOTHING;
    const uint8_t *p = data + at;
    if (memcmp(p, magic, sizeof magic) != 0) return FOUND_NOTHING;
    if (bytes_u64(p + SUM_AT) != XXH3_64bits_withSeed(p, SUM_AT, at)) return FOUND_NOTHING;
    *frame = (struct frame){.version = bytes_u16(p + 8),
                            .type = bytes_u16(p + 10),
                            .identity = bytes_u64(p + 16),
                            .number = bytes_u64(p + 24),
                            .at = at,
                            .payload = p + FRAME_HEAD_BYTES,
                            .n_bytes = bytes_u32(p + 12)};
    if (n - at - FRAME_HEAD_BYTES < frame->n_bytes || frame->n_bytes > *budget)
        return FOUND_HEAD;
    *budget -= frame->n_bytes;
    uint64_t sum = XXH3_64bits_withSeed(frame->payload, frame->n_bytes, frame->identity);
    return sum == bytes_u64(p + 32) ? FOUND_FRAME : FOUND_HEAD;
}

/* The first place from `at` on where the magic stands, or n. */
static size_t next_magic(const uint8_t *data, size_t n, size_t at)
{
    const uint8_t *p = at < n ? memmem(data + at, n - at, magic, sizeof magic) : NULL;
    return p ? (size_t)(p - data) : n;
}

/* Whether data[at..n) is a frame that was cut off: its header, or part of it, and not all of
 * the payload. */
static bool is_cut(const uint8_t *data, size_t n, size_t at)
{
    struct frame frame;
    size_t left = n - at, budget = 0; /* a payload that is whole is not cut */
    if (left == 0) return false;
    if (left < FRAME_HEAD_BYTES)
        return memcmp(data + at, magic, left < sizeof magic ? left : sizeof magic) == 0;
    return look(data, n, at, &budget, &frame) == FOUND_HEAD &&
           left - FRAME_HEAD_BYTES < frame.n_bytes;
}

struct frames_end frames_scan(const uint8_t *data, size_t n, uint16_t version,
                              const struct frames_sink *sink)
{
    struct frames_end end = {0};
    bool any = false;
    size_t at = 0, lost = 0; /* damage begins at lost */
    /* Frames lie side by side, also damaged ones. Headers that were made to overlap must not
     * each have all that follows read. */
    size_t budget = n;
    while (at < n) {
        struct frame frame;
        enum found found = look(data, n, at, &budget, &frame);
        bool ours = found == FOUND_FRAME && (!any || frame.identity == end.identity);
        if (!ours) {
            at = next_magic(data, n, at + 1);
            continue;
        }
        if (lost < at && sink->damage) sink->damage(sink->user, lost, at - lost);
        any = true;
        end.identity = frame.identity;
        if (frame.version > end.newest) end.newest = frame.version;
        if (frame.number >= end.next) end.next = frame.number + 1;
        if (frame.version <= version && sink->frame) sink->frame(sink->user, &frame);
        at = lost = at + FRAME_HEAD_BYTES + frame.n_bytes;
        end.sound = at;
    }
    end.is_torn = is_cut(data, n, (size_t)end.sound);
    if (lost < n && sink->damage) sink->damage(sink->user, lost, n - lost);
    return end;
}
