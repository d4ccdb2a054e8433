/* Pages of the KV cache on the device: a slab of them is one buffer; where the parts of a layer lie
 * in a page is said at struct kv_layer (ops.h). */
const uint KV_F32 = 0u, KV_F16 = 1u, KV_Q8_0 = 2u, KV_Q4_0 = 3u;
const uint PAGE_LEN = 64u;
const uint KEY_GROUP = 16u;
const int Q4_BIAS = 8;

/* As kv_key_at of kv.h. */
uint key_at(uint n, uint i, uint slot)
{
    return (slot / KEY_GROUP * n + i) * KEY_GROUP + slot % KEY_GROUP;
}

/* Stored halves are 0, normal or the one NaN. */
float kv_half(uint h)
{
    uint m = h & 0x7fffu;
    uint u = m == 0u ? 0u : (m << 13) + 0x38000000u;
    return f_of((m > 0x7bffu ? NUM_NAN : u) | ((h & 0x8000u) << 16));
}

/* As attend_first of attend.h. */
const uint WINDOW_CHUNKS = 1u << 30;

uint first_seen(uint window, uint pos)
{
    uint n = window & ~WINDOW_CHUNKS;
    if ((window & WINDOW_CHUNKS) != 0u) return pos / n * n;
    return n != 0u && pos + 1u > n ? pos + 1u - n : 0u;
}

/* Which of a page's keys a row sees: lo..hi-1. */
struct visible {
    uint lo, hi;
};

visible visible_keys(uint page, uint pos, uint window)
{
    uint end = pos + 1u, begin = page * PAGE_LEN;
    uint first = first_seen(window, pos);
    visible v;
    v.lo = first > begin ? first - begin : 0u;
    v.hi = end < begin ? 0u : end - begin < PAGE_LEN ? end - begin : PAGE_LEN;
    return v;
}
