/* How many of a model's last layers a device takes, when it does not take all of it.
 *
 * Pure but for asking backends what things would take; any thread that may ask them. It knows
 * programs and sizes, no device and no file. */
#ifndef ENGINE_LAYERS_H
#define ENGINE_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cut.h"
#include "base/err.h"
#include "model/model.h"

struct backend;

/* Left to others when memory is shared out. */
enum { LAYERS_SPARE = 64 << 20 };
/* Tokens of a conversation that a device has room for when it takes what fits, where no other
 * number is asked for: fewer layers there are better than a context that ends soon. */
enum { LAYERS_CONTEXT = 8192 };

struct layers_wish {
    const struct backend *device;
    uint64_t memory;   /* bytes it has free; 0: it shares the system's */
    uint32_t n;        /* of the last layers; 0: as many as fit */
    uint32_t n_ctx;    /* tokens there must be room for, if as many as fit */
    uint32_t max_rows; /* of a step */
};

/* The first layer that runs on the device, in *at, or *is_whole: all of the model does, the
 * embedding too. n may come out larger than wished where layers cannot be parted (cut.h).
 * ERR_MEMORY, if as many as fit: not even one does. p's weights are stand-ins. */
bool layers_choose(const struct program *p, const struct layers_wish *wish, uint32_t *at,
                   bool *is_whole, struct err *err);

/* Whether a model and its draft (NULL: none) have room on the device, with the wished context.
 */
bool layers_fit(const struct layers_wish *wish, const struct model_sizes *model,
                const struct model_sizes *draft);

/* What both sides take if the model is cut there. */
void layers_sizes(const struct program *p, uint32_t at,
                  const struct backend *const on[CUT_SIDES], uint32_t max_rows,
                  struct model_sizes out[CUT_SIDES]);

#endif
