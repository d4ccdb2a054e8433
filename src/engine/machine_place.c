/* The machine's backends: which device computes what of a model and its draft. */
#include "engine/machine_place.h"

#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "backend/split.h"
#include "base/mem.h"
#include "engine/device.h"
#include "engine/draft_vocab.h"
#include "engine/layers.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"

bool machine_open_device(struct machine *m, const struct engine_config *config,
                         const char *device, struct err *err)
{
    const struct device_choice choice = {device, config->cpu, config->n_threads,
                                         config->cache_dir, config->allow_inexact};
    m->be = device_open(&choice, &m->device_bytes, err);
    m->is_cpu = strcmp(device, "cpu") == 0;
    m->device = m->is_cpu ? NULL : m->be;
    return m->be != NULL;
}

/* Tokens that a device is to have room for, whatever it has of the model. */
static uint32_t wished_context(const struct machine *m, const struct engine_config *config)
{
    if (config->n_ctx) return config->n_ctx;
    return m->context.n < LAYERS_CONTEXT ? m->context.n : LAYERS_CONTEXT;
}

/* ---- the layers on a device ---- */

struct placing {
    struct machine *m;
    const struct engine_config *config;
    const struct machine_watch *watch;
};

static void say_placed(const struct placing *s)
{
    char line[512];
    const uint32_t n_layers = s->m->n_layers;
    const uint32_t n = n_layers - s->m->split_at, wished = s->config->gpu_layers;
    if (n == wished) return;
    if (wished)
        snprintf(
            line, sizeof line,
            "--gpu-layers %u: %u of %u layers run on the device: it is the fewest that can "
            "be parted from the others",
            wished, n, n_layers);
    else
        snprintf(line, sizeof line,
                 "the device has room for %u of %u layers: the CPU has the rest", n, n_layers);
    machine_warn(s->watch, line);
}

/* The CPU takes what comes before the layers that the device has room for, or shall have. */
static bool place_program(void *user, const struct program *p, struct err *err)
{
    const struct placing *s = user;
    struct machine *m = s->m;
    const struct layers_wish wish = {m->device, m->device_bytes, s->config->gpu_layers,
                                     wished_context(m, s->config), TIMELINE_MAX_ROWS};
    bool is_whole;
    if (!layers_choose(p, &wish, &m->split_at, &is_whole, err)) return false;
    if (is_whole) return true;
    struct machine front = {0};
    if (!machine_open_device(&front, s->config, "cpu", err)) return false;
    const struct backend *const on[CUT_SIDES] = {front.be, m->device};
    layers_sizes(p, m->split_at, on, TIMELINE_MAX_ROWS, m->split_sizes);
    m->sizes = model_sizes_sum(m->split_sizes[CUT_FRONT], &m->split_sizes[CUT_BACK]);
    m->be = split_open(front.be, m->device, p, m->split_at);
    m->is_split = true;
    m->n_layers = program_n_layers(p);
    say_placed(s);
    return true;
}

bool machine_place_layers(struct machine *m, const struct engine_config *config,
                          const struct model_params *params, const struct machine_watch *watch,
                          struct err *err)
{
    struct placing s = {m, config, watch};
    if (!model_context(m->gguf, params, &m->context, err)) return false;
    if (m->device && !model_outline(m->gguf, params, place_program, &s, err)) return false;
    return m->is_split ||
           model_estimate(m->gguf, m->be, params, TIMELINE_MAX_ROWS, &m->sizes, err);
}

/* ---- the draft ---- */

/* What the draft will take there, and how long it can get. */
static bool estimate_draft(struct machine *d, const struct backend *be, enum kv_type kv_type,
                           struct err *err)
{
    const struct model_params params = {.kv_type = kv_type};
    if (!model_context(d->gguf, &params, &d->context, err) ||
        !model_estimate(d->gguf, be, &params, TIMELINE_MAX_ROWS, &d->sizes, err))
        return false;
    d->sizes.exec_bytes += d->sizes.state_bytes; /* those that guesses come back to */
    return true;
}

/* Whether the device has room for the draft beside the model and what takes `taken` bytes more.
 */
static bool device_has_room(const struct machine *m, const struct engine_config *config,
                            uint64_t taken)
{
    const uint64_t left = m->device_bytes > taken ? m->device_bytes - taken : 1;
    const struct layers_wish wish = {.memory = m->device_bytes > 0 ? left : 0,
                                     .n_ctx = m->n_ctx ? m->n_ctx : wished_context(m, config)};
    return layers_fit(&wish, &m->sizes, &m->draft->sizes);
}

/* Where the draft goes: beside the model, or where just a part of that is on a device, or there
 * is no room, to the CPU. taken: as in machine_place_draft. */
static bool place_draft(struct machine *m, const struct engine_config *config,
                        enum kv_type kv_type, uint64_t taken, struct err *err)
{
    struct machine *d = m->draft;
    bool has_room = true;
    d->is_cpu = !m->device || m->is_split; /* beside the front */
    if (!d->is_cpu) {
        if (!estimate_draft(d, m->device, kv_type, err)) return false;
        has_room = device_has_room(m, config, taken);
    }
    d->be = has_room ? backend_beside(m->be) : NULL;
    d->device = d->is_cpu ? NULL : d->be;
    return (d->be || machine_open_device(d, config, "cpu", err)) &&
           estimate_draft(d, d->be, kv_type, err);
}

bool machine_draft_is_apart(const struct machine *m)
{
    return m->draft && m->draft->is_cpu && m->device && !m->is_split;
}

bool machine_place_draft(struct machine *m, const struct engine_config *config,
                         enum kv_type kv_type, uint64_t taken,
                         const struct machine_watch *watch, struct err *err)
{
    if (!config->draft_path) return true;
    struct machine *d = m->draft = mem_zalloc(1, sizeof *d);
    d->kv_type = m->kv_type;
    d->gguf = gguf_open(config->draft_path, err);
    if (!d->gguf) return err_prefix(err, "the draft");
    if (!draft_vocab_check(m->gguf, d->gguf, err))
        return err_prefix(err, "the draft %s", config->draft_path);
    if (!place_draft(m, config, kv_type, taken, err)) return err_prefix(err, "the draft");
    if (machine_draft_is_apart(m))
        machine_warn(watch,
                     "the device has no room for the draft beside the model: the CPU has it");
    return true;
}

/* ---- its bits ---- */

struct checked {
    const struct machine *m;
    const atomic_bool *cancel;
};

static bool check_program(void *user, const struct program *p, struct err *err)
{
    const struct checked *c = user;
    if (!c->m->is_split) return device_check(c->m->device, p, c->cancel, err);
    struct program_cut cut;
    program_cut(p, c->m->split_at, &cut);
    const bool ok = device_check(c->m->device, &cut.side[CUT_BACK], c->cancel, err);
    program_cut_free(&cut);
    return ok;
}

bool machine_check_device(struct machine *m, const struct engine_config *config,
                          const struct model_params *params, const struct machine_watch *watch,
                          struct err *err)
{
    struct checked c = {m, watch->cancel};
    if (!m->device || model_outline(m->gguf, params, check_program, &c, err)) return true;
    m->is_inexact =
        config->allow_inexact && err->code == ERR_DEVICE && !backend_is_lost(m->device);
    if (!m->is_inexact) return false;
    char line[sizeof err->msg + 80];
    snprintf(line, sizeof line, "%s; it is used all the same (--allow-inexact)", err->msg);
    machine_warn(watch, line);
    return true;
}
