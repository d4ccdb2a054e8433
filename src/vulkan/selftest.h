/* Whether a device computes the elementary functions as the C text of numeric.h does.
 *
 * It knows numbers, no ops. Threading is that of pipelines. */
#ifndef VULKAN_SELFTEST_H
#define VULKAN_SELFTEST_H

#include "vulkan/pipeline.h"

/* What a function of elementary_list.h, by its number, makes of the bits u: the C text's
 * result, which a device must give. */
uint32_t vulkan_elementary(uint32_t function, uint32_t u);

/* Every function over bit patterns of all exponents and signs: false with ERR_DEVICE naming the
 * device, the function and the first argument whose result differs. */
bool vulkan_selftest(struct vulkan_pipelines *p, struct err *err);

#endif
