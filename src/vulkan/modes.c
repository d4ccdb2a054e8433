/* SPIR-V is copied instruction by instruction; what declares an unknown mode is left out. */
#include "vulkan/modes.h"

#include <string.h>

enum {
    HEADER_WORDS = 5,
    OP_EXECUTION_MODE = 16, /* entry point, mode, its operands */
    OP_CAPABILITY = 17,
    MODE_KEEPS_SPECIAL = 4461,
    MODE_ROUNDS_EVEN = 4462,
    CAPABILITY_KEEPS_SPECIAL = 4466,
    CAPABILITY_ROUNDS_EVEN = 4467,
};

static bool is_unknown(const struct vulkan_modes *known, const uint32_t *op)
{
    const uint32_t code = op[0] & 0xffff;
    const bool is_mode = code == OP_EXECUTION_MODE, is_capability = code == OP_CAPABILITY;
    if (!is_mode && !is_capability) return false;
    switch (op[is_mode ? 2 : 1]) {
    case MODE_KEEPS_SPECIAL: return is_mode && !known->keeps_special;
    case MODE_ROUNDS_EVEN: return is_mode && !known->rounds_even;
    case CAPABILITY_KEEPS_SPECIAL: return is_capability && !known->keeps_special;
    case CAPABILITY_ROUNDS_EVEN: return is_capability && !known->rounds_even;
    default: return false;
    }
}

size_t vulkan_modes_known(const struct vulkan_modes *known, const uint32_t *code,
                          size_t n_words, uint32_t *out)
{
    size_t n = HEADER_WORDS;
    memcpy(out, code, n * sizeof *out);
    for (size_t i = HEADER_WORDS, length; i < n_words; i += length) {
        length = code[i] >> 16;
        if (is_unknown(known, code + i)) continue;
        memcpy(out + n, code + i, length * sizeof *out);
        n += length;
    }
    return n;
}
