/* A search for the first layer from which everything fits. */
#include "engine/layers.h"

#include "base/readable.h"

void layers_sizes(const struct program *p, uint32_t at,
                  const struct backend *const on[CUT_SIDES], uint32_t max_rows,
                  struct model_sizes out[CUT_SIDES])
{
    struct program_cut cut;
    program_cut(p, at, &cut);
    for (int side = 0; side < CUT_SIDES; side++)
        model_program_sizes(&cut.side[side], on[side], max_rows, &out[side]);
    program_cut_free(&cut);
}

static uint64_t needed(const struct model_sizes *s, uint32_t n_ctx)
{
    return model_bytes(s, n_ctx) + LAYERS_SPARE;
}

bool layers_fit(const struct layers_wish *wish, const struct model_sizes *model,
                const struct model_sizes *draft)
{
    uint64_t n = needed(model, wish->n_ctx);
    if (draft) n += needed(draft, wish->n_ctx) - LAYERS_SPARE;
    return wish->memory == 0 || n <= wish->memory;
}

/* What the device needs for the layers from the last cut at or before `layer`. */
static uint64_t needed_from(const struct program *p, const struct layers_wish *wish,
                            uint32_t layer)
{
    const struct backend *const on[CUT_SIDES] = {NULL, wish->device};
    struct model_sizes sizes[CUT_SIDES];
    layers_sizes(p, program_cut_at(p, layer), on, wish->max_rows, sizes);
    return needed(&sizes[CUT_BACK], wish->n_ctx);
}

/* The first layer from which all fit; n_layers: not even the last does. */
static uint32_t first_that_fits(const struct program *p, const struct layers_wish *wish)
{
    uint32_t lo = 0, hi = program_n_layers(p);
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (needed_from(p, wish, mid) <= wish->memory)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

bool layers_choose(const struct program *p, const struct layers_wish *wish, uint32_t *at,
                   bool *is_whole, struct err *err)
{
    const uint32_t n_layers = program_n_layers(p);
    *at = 0;
    *is_whole = wish->n >= n_layers || (wish->n == 0 && wish->memory == 0);
    if (*is_whole) return true;
    if (wish->n > 0) {
        *at = program_cut_at(p, n_layers - wish->n);
        return true;
    }
    struct model_sizes all;
    model_program_sizes(p, wish->device, wish->max_rows, &all);
    *is_whole = layers_fit(wish, &all, NULL);
    if (*is_whole) return true;
    const uint32_t first = first_that_fits(p, wish);
    if (first < n_layers) {
        *at = program_cut_at(p, first);
        return true;
    }
    char wants[READABLE_BYTES], has[READABLE_BYTES];
    return err_set(err, ERR_MEMORY,
                   "not enough memory for one layer: %s needed with %u tokens of context, %s "
                   "available",
                   readable_size(wants, needed_from(p, wish, n_layers - 1)), wish->n_ctx,
                   readable_size(has, wish->memory));
}
