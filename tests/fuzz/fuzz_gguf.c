/* The GGUF reader over any bytes: what it opens must be walkable to the last item and value. */
#include "gguf/gguf.h"
#include "target.h"

/* Values decoded of each tensor: every byte is read anyway, and the time stays bounded. */
#define DEQUANT_VALUES 4096

static volatile uint64_t sink;

static void walk_kv(const struct gguf_kv *kv)
{
    uint64_t sum = kv->key.len;
    for (size_t i = 0; i < kv->n; i++) {
        if (kv->type == GGUF_STRING) {
            struct gguf_str s = gguf_item_str(kv, i);
            for (size_t k = 0; k < s.len; k++)
                sum += (uint8_t)s.data[k];
        } else {
            sum += (uint64_t)gguf_item_int(kv, i);
            double f = gguf_item_float(kv, i);
            sum += f > 0;
        }
    }
    sink = sink + sum;
}

static void walk_tensor(const struct gguf_tensor *t)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < t->n_bytes; i++)
        sum += t->data[i];
    float out[DEQUANT_VALUES];
    size_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    qtype_dequant(t->type, t->data, n < DEQUANT_VALUES ? n : DEQUANT_VALUES, out);
    sink = sink + sum + (out[0] > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct err err;
    struct gguf *g = gguf_from_memory(data, n_bytes, "fuzz", &err);
    if (!g) {
        must_be_refusal(&err);
        return 0;
    }
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        walk_kv(gguf_kv_at(g, i));
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        walk_tensor(gguf_tensor_at(g, i));
    gguf_close(g);
    return 0;
}
