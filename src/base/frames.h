/* A log of frames: bytes that are only ever appended, of which any part may be damaged without
 * taking the rest with it.
 *
 *      0  magic "HEARTHLG"
 *      8  u16 version, u16 type, u32 bytes of the payload
 *     16  u64 identity of the file, chosen by chance when it is made
 *     24  u64 number of the frame, from 0
 *     32  u64 XXH3-64 of the payload, seeded with the identity
 *     40  u64 XXH3-64 of bytes 0..39, seeded with the frame's place in the file
 *     48  the payload
 *
 * All little-endian. A reader that loses its way goes on at the next header that is sound. The
 * place in its checksum keeps it from taking for a frame what is a copy of one inside a
 * payload: a session file may have been pasted into a conversation. Pure: no file. Bytes that
 * are scanned are hostile until checked. */
#ifndef BASE_FRAMES_H
#define BASE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { FRAME_HEAD_BYTES = 48 };

struct frame {
    uint16_t version, type;
    uint64_t identity, number;
    uint64_t at; /* where its header begins */
    const uint8_t *payload;
    size_t n_bytes;
};

/* Appends a frame to out; frame->at must be where it will lie in the file. */
void frame_append(struct buf *out, const struct frame *frame);

/* What a scan meets, in the order of the file: frames, and between them damage. */
struct frames_sink {
    void (*frame)(void *user, const struct frame *frame);
    void (*damage)(void *user, uint64_t at, uint64_t n_bytes);
    void *user;
};

struct frames_end {
    uint64_t sound;    /* bytes up to the end of the last sound frame */
    uint64_t next;     /* the number that the next frame gets */
    uint64_t identity; /* of the sound frames; 0 if there is none */
    bool is_torn;    /* what follows sound is the beginning of a frame whose rest is missing */
    uint16_t newest; /* the highest version of a sound frame, its payload skipped or not */
};

/* Walks data[0..n). Frames of a version above `version` are not handed over. Those of another
 * identity than the first sound frame's are damage. */
struct frames_end frames_scan(const uint8_t *data, size_t n, uint16_t version,
                              const struct frames_sink *sink);

#endif
