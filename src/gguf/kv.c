/* Values of GGUF keys: conversions of items that gguf_open has checked. */
#include <assert.h>

#include "base/bytes.h"
#include "gguf/gguf.h"

bool gguf_is_int(enum gguf_type type)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_U16:
    case GGUF_I16:
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_U64:
    case GGUF_I64: return true;
    default: return false;
    }
}

const char *gguf_type_name(enum gguf_type type)
{
    static const char *const names[GGUF_N_TYPES] = {
        [GGUF_U8] = "u8",       [GGUF_I8] = "i8",     [GGUF_U16] = "u16",
        [GGUF_I16] = "i16",     [GGUF_U32] = "u32",   [GGUF_I32] = "i32",
        [GGUF_F32] = "f32",     [GGUF_BOOL] = "bool", [GGUF_STRING] = "string",
        [GGUF_ARRAY] = "array", [GGUF_U64] = "u64",   [GGUF_I64] = "i64",
        [GGUF_F64] = "f64",
    };
    assert(type < GGUF_N_TYPES);
    return names[type];
}

size_t gguf_type_bytes(enum gguf_type type)
{
    static const uint8_t n_bytes[GGUF_N_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    assert(type < GGUF_N_TYPES);
    return n_bytes[type];
}

int64_t gguf_item_int(const struct gguf_kv *kv, size_t i)
{
    assert(i < kv->n);
    const uint8_t *p = kv->data;
    switch (kv->type) {
    case GGUF_U8:
    case GGUF_BOOL: return p[i];
    case GGUF_I8: return (int8_t)p[i];
    case GGUF_U16: return bytes_u16(p + 2 * i);
    case GGUF_I16: return (int16_t)bytes_u16(p + 2 * i);
    case GGUF_U32: return bytes_u32(p + 4 * i);
    case GGUF_I32: return (int32_t)bytes_u32(p + 4 * i);
    case GGUF_U64: {
        uint64_t v = bytes_u64(p + 8 * i);
        return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    case GGUF_I64: return (int64_t)bytes_u64(p + 8 * i);
    default: return 0;
    }
}

double gguf_item_float(const struct gguf_kv *kv, size_t i)
{
    assert(i < kv->n);
    if (kv->type == GGUF_F32) return (double)bytes_f32(kv->data + 4 * i);
    if (kv->type == GGUF_F64) {
        double v;
        memcpy(&v, kv->data + 8 * i, sizeof v);
        return v;
    }
    if (kv->type == GGUF_U64) return (double)bytes_u64(kv->data + 8 * i);
    return gguf_is_int(kv->type) ? (double)gguf_item_int(kv, i) : 0;
}

struct gguf_str gguf_item_str(const struct gguf_kv *kv, size_t i)
{
    assert(i < kv->n);
    if (kv->type != GGUF_STRING) return (struct gguf_str){"", 0};
    const uint8_t *p = kv->data + kv->at[i];
    return (struct gguf_str){(const char *)p + 8, (size_t)bytes_u64(p)};
}
