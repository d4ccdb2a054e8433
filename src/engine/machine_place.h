/* Which device computes what of a machine: all of the model on one, or its last layers with the
 * CPU in front; and the draft beside the model or on the CPU.
 *
 * Each step fills members of struct machine, in this order: machine_open_device,
 * machine_place_layers, machine_place_draft, then machine_memory.h, and machine_check_device
 * before a weight is bound. What was opened is the machine's, also after a failure;
 * machine_close frees it. The machine's thread; it knows programs and sizes, no weights. */
#ifndef ENGINE_MACHINE_PLACE_H
#define ENGINE_MACHINE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/machine.h"

/* Opens what `device` names ("cpu", "vulkan", "vulkan:N"): sets be, device, device_bytes and
 * is_cpu. ERR_USER, ERR_DEVICE. */
bool machine_open_device(struct machine *m, const struct engine_config *config,
                         const char *device, struct err *err);

/* Counts what the model takes (sizes) and learns how long it can get (context). Where the
 * device has no room for all of it, or shall not have it all, the CPU takes the layers in
 * front: be is then both, and is_split. */
bool machine_place_layers(struct machine *m, const struct engine_config *config,
                          const struct model_params *params, const struct machine_watch *watch,
                          struct err *err);

/* Opens the file of the draft that config names and places it: where the model is, or where
 * just a part of that is on a device, or there is no room, on the CPU. Counts what it takes.
 * taken: bytes of the device that the draft before has, which goes once this one is there. True
 * without one. */
bool machine_place_draft(struct machine *m, const struct engine_config *config,
                         enum kv_type kv_type, uint64_t taken,
                         const struct machine_watch *watch, struct err *err);
/* Whether the draft is on the CPU though a device has the whole model. */
bool machine_draft_is_apart(const struct machine *m);

/* Whether the device gives the bits of the CPU for what the model needs; or may be used without
 * (is_inexact, after a warning). The CPU does. ERR_DEVICE, ERR_CANCELLED. */
bool machine_check_device(struct machine *m, const struct engine_config *config,
                          const struct model_params *params, const struct machine_watch *watch,
                          struct err *err);

#endif
