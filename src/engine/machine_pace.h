/* Whether a device that nobody named is worth having: "auto" does not take one that makes a
 * token in much longer than the CPU would.
 *
 * The device is timed, once the model is on it; of the CPU, where it is not, just the time that
 * reading as many bytes takes is known, which bounds decode (cpu_read_speed_at). So only what
 * is slower by far is left: small models, whose steps are shorter than the device's hundreds of
 * dispatches, and processors that compute slowly what they share memory with. The machine's
 * thread. */
#ifndef ENGINE_MACHINE_PACE_H
#define ENGINE_MACHINE_PACE_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/machine.h"

/* True at once for the CPU, and where no kernels of the CPU are known to be fast. The timeline
 * is empty before and after. ERR_DEVICE says both times; ERR_CANCELLED; what a step fails with.
 */
bool machine_keeps_pace(struct machine *m, const struct engine_config *config,
                        const struct machine_watch *watch, struct err *err);

#endif
