/* Whether a device computes the elementary functions as the C text of numeric.h does.
 *
 * It knows numbers, no ops. Threading is that of pipelines. */
#ifndef VULKAN_SELFTEST_H
#define VULKAN_SELFTEST_H

#include "vulkan/pipeline.h"

/* Every function over bit patterns of all exponents and signs: false with ERR_DEVICE naming the
 * device, the function and the first argument whose result differs. */
bool vulkan_selftest(struct vulkan_pipelines *p, struct err *err);

#endif
