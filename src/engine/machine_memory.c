/* Memory before anything is loaded: the context that fits, what all takes, and the lines that
 * say so. */
#include "engine/machine_memory.h"

#include <stdio.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "base/readable.h"
#include "base/resources.h"
#include "engine/layers.h"
#include "engine/machine_place.h"
#include "engine/timeline.h"

/* Left to the rest of the system when the context is fitted to memory. */
static const uint64_t SPARE = LAYERS_SPARE;
enum { MIN_CONTEXT = 512 };

/* The longest context of whole pages, up to n_ctx, that so much memory has room for. */
static uint32_t most_tokens(const struct model_sizes *s, uint32_t n_ctx, uint64_t available)
{
    uint32_t lo = 0, hi = n_ctx / PAGE_LEN;
    while (lo < hi) {
        const uint32_t mid = hi - (hi - lo) / 2;
        if (model_bytes(s, mid * PAGE_LEN) <= available)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo * PAGE_LEN;
}

uint32_t machine_fit_context(uint32_t want, uint32_t n_model, const struct model_sizes *sizes,
                             uint64_t available, struct err *err)
{
    const uint32_t n_ctx = want ? want : n_model;
    if (model_bytes(sizes, n_ctx) <= available) return n_ctx;
    const uint32_t fits = most_tokens(sizes, n_ctx, available > SPARE ? available - SPARE : 0);
    const uint32_t least = n_model < MIN_CONTEXT ? n_model : MIN_CONTEXT;
    if (want == 0 && fits >= least) return fits;
    const uint32_t asked = want ? want : least;
    char total[READABLE_BYTES], weights[READABLE_BYTES], scratch[READABLE_BYTES],
        of_kv[READABLE_BYTES], there[READABLE_BYTES];
    err_set(err, ERR_MEMORY,
            "not enough memory: %s needed (weights %s, scratch %s, KV of %u tokens %s), %s "
            "available",
            readable_size(total, model_bytes(sizes, asked)),
            readable_size(weights, sizes->weights_bytes),
            readable_size(scratch, model_scratch_bytes(sizes, asked)), asked,
            readable_size(of_kv, asked * sizes->kv_bytes_per_token),
            readable_size(there, available));
    return 0;
}

struct model_sizes machine_sizes(const struct machine *m)
{
    return m->draft ? model_sizes_sum(m->sizes, &m->draft->sizes) : m->sizes;
}

/* Memory that fills up by itself, and what is to be in it. */
struct pool {
    const char *what; /* of the two: what lies there */
    struct model_sizes sizes;
    uint64_t available;
};

static size_t pools_of(const struct machine *m, struct pool out[2])
{
    const struct machine *d = m->draft;
    if (m->device_bytes > 0 && m->is_split) {
        const struct model_sizes *front = &m->split_sizes[CUT_FRONT];
        out[0] =
            (struct pool){"in front of the device's layers",
                          d ? model_sizes_sum(*front, &d->sizes) : *front, m->system_bytes};
        out[1] =
            (struct pool){backend_name(m->device), m->split_sizes[CUT_BACK], m->device_bytes};
        return 2;
    }
    if (m->device_bytes > 0 && machine_draft_is_apart(m)) {
        out[0] = (struct pool){"the draft", d->sizes, m->system_bytes};
        out[1] = (struct pool){backend_name(m->device), m->sizes, m->device_bytes};
        return 2;
    }
    out[0] = (struct pool){NULL, machine_sizes(m), m->available};
    return 1;
}

/* The context that fits all memories. */
static bool fit_context(struct machine *m, uint32_t want, struct err *err)
{
    struct pool pools[2];
    const size_t n = pools_of(m, pools);
    m->n_ctx = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const uint32_t fits =
            machine_fit_context(want, m->context.n, &pools[i].sizes, pools[i].available, err);
        if (fits == 0) return n == 2 && err_prefix(err, "%s", pools[i].what);
        if (fits < m->n_ctx) m->n_ctx = fits;
    }
    return true;
}

/* What a token takes of what a model keeps: its keys and values, and its part of the states
 * that are kept now and then. Never 0. */
static double kept_per_token(const struct model_sizes *s)
{
    return (double)s->kv_bytes_per_token + (double)s->window_bytes_per_token +
           (double)s->state_bytes / TIMELINE_MARK_ROWS + 1;
}

static uint64_t times(uint64_t n_bytes, double factor)
{
    const double product = (double)n_bytes * factor;
    return product < 0x1p64 ? (uint64_t)product : UINT64_MAX;
}

uint64_t machine_share(uint64_t n_bytes, const struct model_sizes *of,
                       const struct model_sizes *all)
{
    return times(n_bytes, kept_per_token(of) / kept_per_token(all));
}

uint64_t machine_page_room(const struct machine *m)
{
    struct pool pools[2];
    const size_t n = pools_of(m, pools);
    const struct model_sizes all = machine_sizes(m);
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct model_sizes *s = &pools[i].sizes;
        const uint64_t fixed = s->weights_bytes + model_scratch_bytes(s, m->n_ctx) + SPARE;
        uint64_t room = pools[i].available > fixed ? pools[i].available - fixed : 1;
        if (n == 2) room = times(room, kept_per_token(&all) / kept_per_token(s));
        if (room < least) least = room;
    }
    return least;
}

/* "weights 9.0 MiB, …", with what lies on the device if not all does. */
static void say_sizes(const struct machine *m, char *line, size_t cap)
{
    const struct model_sizes all = machine_sizes(m), *back = &m->split_sizes[CUT_BACK];
    char weights[READABLE_BYTES], kv[READABLE_BYTES], token[READABLE_BYTES],
        scratch[READABLE_BYTES], available[READABLE_BYTES], there[READABLE_BYTES],
        of[READABLE_BYTES];
    int n = snprintf(line, cap,
                     "weights %s, KV %s per token (%u tokens: %s), scratch %s%s; "
                     "%s of memory available%s%s%s",
                     readable_size(weights, all.weights_bytes),
                     readable_size(token, all.kv_bytes_per_token), m->n_ctx,
                     readable_size(kv, m->n_ctx * all.kv_bytes_per_token),
                     readable_size(scratch, model_scratch_bytes(&all, m->n_ctx)),
                     m->draft ? " with the draft" : "", readable_size(available, m->available),
                     m->why_cpu ? "; on the CPU: " : "", m->why_cpu ? m->why_cpu : "",
                     m->device && m->draft && m->draft->is_cpu ? "; the draft on the CPU" : "");
    if (!m->is_split || n < 0 || (size_t)n >= cap) return;
    snprintf(line + n, cap - (size_t)n, "; on the device %u of %u layers, %s%s%s",
             m->n_layers - m->split_at, m->n_layers,
             readable_size(there, model_bytes(back, m->n_ctx)), m->device_bytes ? " of " : "",
             m->device_bytes ? readable_size(of, m->device_bytes) : "");
}

/* Where it is not the model's own: why. */
static void say_context(const struct machine *m, bool is_free,
                        const struct machine_watch *watch)
{
    const struct model_context *context = &m->context;
    char line[512];
    if (is_free && m->n_ctx < context->n) {
        snprintf(line, sizeof line,
                 "the context is %u tokens of the model's %u: memory allows no more", m->n_ctx,
                 context->n_file);
        machine_warn(watch, line);
    } else if (is_free && m->n_ctx < context->n_file) {
        snprintf(line, sizeof line,
                 "the context is %u tokens of the model's %u: beyond, this model %s, which "
                 "hearth cannot",
                 m->n_ctx, context->n_file, context->beyond);
        machine_warn(watch, line);
    }
    if (m->n_ctx > context->n_file) {
        snprintf(line, sizeof line,
                 "the context of %u tokens is longer than the %u the model was made for",
                 m->n_ctx, context->n_file);
        machine_warn(watch, line);
    }
}

bool machine_plan_memory(struct machine *m, const struct engine_config *config,
                         const struct machine_watch *watch, struct err *err)
{
    m->system_bytes = resources_memory(NULL);
    m->available = m->device_bytes && !m->is_split ? m->device_bytes : m->system_bytes;
    if (!fit_context(m, config->n_ctx, err)) return false;
    char line[512];
    say_sizes(m, line, sizeof line);
    if (watch->sizes) watch->sizes(watch->user, m->sizes.weights_bytes, line);
    say_context(m, config->n_ctx == 0, watch);
    return true;
}

bool machine_draft_fits(const struct machine *m, struct err *err)
{
    if (!m->draft || (m->device_bytes > 0 && !m->draft->is_cpu)) return true;
    const struct model_sizes *sizes = &m->draft->sizes;
    const uint64_t available = resources_memory(NULL);
    const uint64_t needed = model_bytes(sizes, m->n_ctx) + SPARE;
    if (needed <= available) return true;
    char wants[READABLE_BYTES], has[READABLE_BYTES];
    return err_set(err, ERR_MEMORY, "not enough memory for the draft: %s needed, %s available",
                   readable_size(wants, needed), readable_size(has, available));
}
