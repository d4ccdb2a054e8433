/* Memory of a machine before anything is loaded: the context that fits, the bytes that its
 * pages may take, and the lines that say so.
 *
 * Weights and scratch are fixed; pages grow with the conversation, so the context is what gives
 * way. Up to two memories fill up, each by itself: the system's, and a device's own; the
 * smaller of the contexts that fit them is the machine's. It asks the system how much is free
 * and allocates nothing. The machine's thread; it knows no weights and no op. */
#ifndef ENGINE_MACHINE_MEMORY_H
#define ENGINE_MACHINE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/machine.h"

/* Tokens of context that memory allows: want (0: n_model) if it fits, else for want == 0 as
 * many as do. 0 with ERR_MEMORY if that is fewer than min(n_model, 512). Pure. */
uint32_t machine_fit_context(uint32_t want, uint32_t n_model, const struct model_sizes *sizes,
                             uint64_t available, struct err *err);

/* What the model takes and its draft. */
struct model_sizes machine_sizes(const struct machine *m);

/* Once layers and draft are placed: sets n_ctx, available and system_bytes, states the sizes,
 * and warns where the context is not the model's own. config->n_ctx 0: as much as fits.
 * ERR_MEMORY, with the numbers: what is asked for does not fit. */
bool machine_plan_memory(struct machine *m, const struct engine_config *config,
                         const struct machine_watch *watch, struct err *err);

/* Bytes that pages of the model and its draft may take, so that no memory has more than its
 * share of them. Of a planned machine. */
uint64_t machine_page_room(const struct machine *m);
/* What is one model's of n_bytes that all keep together: of as many tokens each. `all` has the
 * sizes of them all. */
uint64_t machine_share(uint64_t n_bytes, const struct model_sizes *of,
                       const struct model_sizes *all);

/* Whether a draft that came later, placed already, fits beside what is loaded; for a device's
 * own memory placing it has told. True without one. ERR_MEMORY. */
bool machine_draft_fits(const struct machine *m, struct err *err);

#endif
