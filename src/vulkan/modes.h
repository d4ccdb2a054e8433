/* What the shaders ask of a device's floats beyond exact single operations: rounding to nearest
 * even, and zeros' signs, infinities and NaNs as they are (SPV_KHR_float_controls).
 *
 * Every shader declares both; a device that knows no such mode must not see it declared. It
 * rounds as it does then, and the self-test tells. Denormals are left to the device: there are
 * none (hearth-numerics(7)). Pure, any thread. */
#ifndef VULKAN_MODES_H
#define VULKAN_MODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vulkan_modes {
    bool rounds_even, keeps_special; /* the device knows the mode */
};

/* SPIR-V without the modes that the device has not, to out (room for n_words); returns its
 * words. */
size_t vulkan_modes_known(const struct vulkan_modes *known, const uint32_t *code,
                          size_t n_words, uint32_t *out);

#endif
