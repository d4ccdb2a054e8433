#include "chat/record.h"

#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"

enum field_kind { NUMBER, TEXT, SAID, WORDS };

/* Every field: its tag never changes and is never used again. */
static const struct field {
    uint16_t tag;
    enum field_kind kind;
    size_t at;
} fields[] = {
#define FIELD(tag, kind, name)                   \
    {                                            \
        tag, kind, offsetof(struct record, name) \
    }
    FIELD(1, NUMBER, time_ms),       FIELD(2, NUMBER, seed),
    FIELD(3, NUMBER, vocabulary),    FIELD(4, NUMBER, node),
    FIELD(5, NUMBER, parent),        FIELD(6, NUMBER, grandparent),
    FIELD(7, NUMBER, same_as),       FIELD(8, NUMBER, branch),
    FIELD(9, NUMBER, role),          FIELD(10, NUMBER, attempt),
    FIELD(11, NUMBER, attempts),     FIELD(12, NUMBER, content_at),
    FIELD(13, NUMBER, reasoning_at), FIELD(14, NUMBER, reasoning_len),
    FIELD(15, NUMBER, is_loose),     FIELD(16, NUMBER, is_gone),
    FIELD(17, NUMBER, is_current),   FIELD(18, NUMBER, numerics),
    FIELD(32, TEXT, program),        FIELD(33, TEXT, model),
    FIELD(34, TEXT, draft),          FIELD(35, TEXT, system),
    FIELD(36, TEXT, settings),       FIELD(37, SAID, text),
    FIELD(38, SAID, answer),         FIELD(39, TEXT, stop),
    FIELD(40, TEXT, name),           FIELD(41, TEXT, kv_type),
    FIELD(48, WORDS, ids),           FIELD(49, WORDS, id_at),
#undef FIELD
};

enum { N_FIELDS = sizeof fields / sizeof *fields, FIELD_HEAD = 8 };

static void put_field(struct buf *out, uint16_t tag, const void *data, size_t n)
{
    uint8_t head[FIELD_HEAD] = {0};
    uint32_t n_bytes = (uint32_t)n;
    memcpy(head, &tag, sizeof tag);
    memcpy(head + 4, &n_bytes, sizeof n_bytes);
    buf_append(out, head, sizeof head);
    buf_append(out, data, n);
}

void record_write(const struct record *r, struct buf *out)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *value = (const char *)r + fields[i].at;
        if (fields[i].kind == NUMBER) {
            uint64_t number;
            memcpy(&number, value, sizeof number);
            if (number) put_field(out, fields[i].tag, &number, sizeof number);
        } else {
            struct record_bytes bytes;
            memcpy(&bytes, value, sizeof bytes);
            if (bytes.data) put_field(out, fields[i].tag, bytes.data, bytes.n);
        }
    }
}

static const struct field *field_of(uint16_t tag)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (fields[i].tag == tag) return &fields[i];
    return NULL;
}

static bool take(const struct field *field, const uint8_t *data, size_t n, struct record *r)
{
    char *value = (char *)r + field->at;
    if (field->kind == NUMBER) {
        if (n != sizeof(uint64_t)) return false;
        memcpy(value, data, sizeof(uint64_t));
        return true;
    }
    if (field->kind == WORDS && n % 4 != 0) return false;
    if (field->kind == TEXT && memchr(data, 0, n)) return false;
    if (field->kind != WORDS && !utf8_valid((const char *)data, n)) return false;
    const struct record_bytes bytes = {data, n};
    memcpy(value, &bytes, sizeof bytes);
    return true;
}

bool record_read(uint16_t type, const uint8_t *payload, size_t n, struct record *r)
{
    *r = (struct record){.type = (enum record_type)type};
    for (size_t at = 0; at < n;) {
        if (n - at < FIELD_HEAD) return false;
        const struct field *field = field_of(bytes_u16(payload + at));
        size_t n_field = bytes_u32(payload + at + 4);
        at += FIELD_HEAD;
        if (n - at < n_field) return false;
        if (field && !take(field, payload + at, n_field, r)) return false;
        at += n_field;
    }
    return true;
}
