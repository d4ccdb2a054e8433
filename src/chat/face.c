/* The words of the face's enums. */
#include "chat/face.h"

const char *face_stop_name(enum face_stop stop)
{
    static const char *const names[] = {
        [FACE_STOP_END] = "end",
        [FACE_STOP_LENGTH] = "length",
        [FACE_STOP_STRING] = "stop",
        [FACE_STOP_CONTEXT] = "context",
        [FACE_STOP_CANCELLED] = "cancelled",
        [FACE_STOP_FAILED] = "error",
    };
    return names[stop];
}

bool face_has_rate(const struct face_report *r)
{
    return r->n_generated > 1 && r->decode_ms > 0;
}
