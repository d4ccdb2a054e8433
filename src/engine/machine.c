/* A machine's life: opened, moved to the CPU, given another draft, saved, closed. */
#include "engine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "backend/kv.h"
#include "base/file.h"
#include "base/printable.h"
#include "engine/device.h"
#include "engine/disk.h"
#include "engine/machine_memory.h"
#include "engine/machine_pace.h"
#include "engine/machine_place.h"
#include "engine/speculate.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"
#include "model/adapter.h"

bool machine_kv_type(const char *name, enum kv_type *type, const char **kept, struct err *err)
{
    char shown[64];
    if (!kv_type_find(name ? name : "f16", type))
        return err_set(err, ERR_USER, "unknown KV type '%s'; known: f32, f16, q8_0, q4_0",
                       printable(shown, sizeof shown, name, strlen(name)));
    *kept = kv_type_name(*type);
    return true;
}

/* Of m and the machine beside it, whose pages have so much room together. */
static struct timeline_limits limits_of(const struct machine *m,
                                        const struct engine_config *config,
                                        const struct model_sizes *all, uint64_t room)
{
    const uint64_t total = machine_share(room, &m->sizes, all);
    return (struct timeline_limits){.n_ctx = m->n_ctx,
                                    .warm_bytes =
                                        machine_share(config->cache_ram_bytes, &m->sizes, all),
                                    .total_bytes = total > 0 ? total : 1};
}

static bool open_timeline(struct machine *m, const struct engine_config *config,
                          const struct model_sizes *all, uint64_t room, struct err *err)
{
    const struct timeline_limits limits = limits_of(m, config, all, room);
    m->tl = timeline_new(m->be, model_program(m->model), &limits, err);
    return m->tl != NULL;
}

static void open_disk(struct machine *m, const struct engine_config *config, const char *path)
{
    if (!config->cache_dir || config->cache_disk_bytes == 0) return;
    const char *slash = strrchr(path, '/');
    const struct disk_config disk = {.dir = config->cache_dir,
                                     .cap_bytes = config->cache_disk_bytes,
                                     .name = slash ? slash + 1 : path,
                                     .adapter_scale = m->params.adapter.scale,
                                     .inexact = m->is_inexact ? backend_name(m->be) : NULL};
    m->disk = disk_new(&disk, m->be, m->gguf, model_program(m->model));
    timeline_set_disk(m->tl, m->disk);
}

static bool open_draft(struct machine *m, const struct engine_config *config,
                       enum kv_type kv_type, const atomic_bool *cancel, struct err *err)
{
    struct machine *d = m->draft;
    if (!d) return true;
    const struct model_sizes all = machine_sizes(m);
    const struct model_params params = {.kv_type = kv_type};
    /* What it guesses is checked, so of its bits nothing needs to be said. */
    const struct machine_watch silent = {.cancel = cancel};
    if (!machine_check_device(d, config, &params, &silent, err)) return false;
    d->n_ctx = d->context.n < m->n_ctx ? d->context.n : m->n_ctx;
    backend_expect(d->be, d->sizes.weights_bytes);
    d->model = model_open(d->gguf, d->be, &params, NULL, cancel, err);
    if (!d->model) return err_prefix(err, "the draft");
    if (!open_timeline(d, config, &all, machine_page_room(m), err)) return false;
    open_disk(d, config, config->draft_path);
    return true;
}

/* The target, after its memory was planned. */
static bool open_model(struct machine *m, const struct engine_config *config,
                       const struct model_params *params, const struct machine_watch *watch,
                       struct err *err)
{
    const struct model_progress progress = {watch->progress, watch->user};
    const struct model_sizes all = machine_sizes(m);
    if (m->is_split)
        backend_expect(m->device, m->split_sizes[CUT_BACK].weights_bytes);
    else
        backend_expect(m->be, m->sizes.weights_bytes);
    m->model = model_open(m->gguf, m->be, params, watch->progress ? &progress : NULL,
                          watch->cancel, err);
    if (!m->model || !open_timeline(m, config, &all, machine_page_room(m), err)) return false;
    open_disk(m, config, config->model_path);
    return true;
}

static void close_on(struct machine *m);

/* What it has to save is saved before. */
static void close_draft(struct machine *draft)
{
    if (!draft) return;
    close_on(draft);
    gguf_close(draft->gguf);
    free(draft);
}

/* All that stands on a device. */
static bool open_on(struct machine *m, const struct engine_config *config, const char *device,
                    const struct model_params *params, const struct machine_watch *watch,
                    struct err *err)
{
    const bool fits = machine_open_device(m, config, device, err) &&
                      machine_place_layers(m, config, params, watch, err) &&
                      machine_place_draft(m, config, params->kv_type, 0, watch, err) &&
                      machine_plan_memory(m, config, watch, err) &&
                      machine_check_device(m, config, params, watch, err);
    if (fits && watch->reading) watch->reading(watch->user, m->gguf);
    return fits && open_model(m, config, params, watch, err) &&
           open_draft(m, config, params->kv_type, watch->cancel, err);
}

static void close_on(struct machine *m)
{
    close_draft(m->draft);
    disk_free(m->disk); /* it may have borrowed pages */
    timeline_free(m->tl);
    model_close(m->model);
    backend_close(m->be);
    *m = (struct machine){
        .gguf = m->gguf, .kv_type = m->kv_type, .params = m->params, .why_cpu = m->why_cpu};
}

/* The first device that can be used and is worth it; each that is not is a line. Who asks for
 * layers on a device wants one. */
static bool open_best(struct machine *m, const struct engine_config *config,
                      const struct model_params *params, const struct machine_watch *watch,
                      struct err *err)
{
    struct device_names devices;
    device_auto(&devices);
    m->why_cpu = devices.why;
    if (devices.is_odd) {
        char line[256];
        snprintf(line, sizeof line, "%s: the CPU is used", devices.why);
        machine_warn(watch, line);
    }
    for (size_t i = 0;; i++) {
        if (open_on(m, config, devices.names[i], params, watch, err) &&
            (config->wants_layers || machine_keeps_pace(m, config, watch, err)))
            return true;
        if (i == devices.n - 1 || (err->code != ERR_DEVICE && err->code != ERR_MEMORY))
            return false;
        char line[sizeof err->msg + 64];
        const char *next = i + 1 == devices.n - 1 ? "the CPU" : devices.names[i + 1];
        snprintf(line, sizeof line, "%s is not used: %s; %s takes its place", devices.names[i],
                 err->msg, next);
        machine_warn(watch, line);
        close_on(m);
    }
}

/* A number of layers for a device that there is not. */
static void say_no_layers(const struct machine *m, const struct engine_config *config,
                          const struct machine_watch *watch)
{
    char line[256];
    if (config->gpu_layers == 0 || m->device) return;
    const bool is_named = config->device && strcmp(config->device, "cpu") == 0;
    snprintf(line, sizeof line, "--gpu-layers %u has no effect: %s", config->gpu_layers,
             m->why_cpu ? m->why_cpu
             : is_named ? "--device is cpu"
                        : "the CPU is used");
    machine_warn(watch, line);
}

bool machine_open(struct machine *m, const struct engine_config *config,
                  const struct machine_watch *watch, struct err *err)
{
    static const struct machine_watch nobody;
    if (!watch) watch = &nobody;
    *m = (struct machine){0};
    double start = clock_ms();
    const char *device = config->device ? config->device : "auto";
    struct model_params params = {.n_ctx = config->n_ctx};
    if (!machine_kv_type(config->kv_type, &params.kv_type, &m->kv_type, err)) return false;
    m->gguf = adapter_open(config->model_path, config->adapter_path, config->adapter_scale,
                           &params.adapter, err);
    m->params = params;
    bool ok = m->gguf &&
              (strcmp(device, "auto") == 0 ? open_best(m, config, &params, watch, err)
                                           : open_on(m, config, device, &params, watch, err));
    m->load_ms = clock_ms() - start;
    if (ok) say_no_layers(m, config, watch);
    return ok;
}

bool machine_change_draft(struct machine *m, const struct engine_config *config,
                          const struct machine_watch *watch, struct err *err)
{
    struct machine *before = m->draft;
    enum kv_type type;
    uint64_t taken = 0;
    struct err ignored;
    if (before && !before->is_cpu) taken = model_bytes(&before->sizes, m->n_ctx);
    m->draft = NULL;
    bool ok = machine_kv_type(m->kv_type, &type, &m->kv_type, err) &&
              machine_place_draft(m, config, type, taken, watch, err) &&
              machine_draft_fits(m, err) && open_draft(m, config, type, watch->cancel, err);
    if (ok) {
        const struct model_sizes all = machine_sizes(m);
        const struct timeline_limits limits = limits_of(m, config, &all, machine_page_room(m));
        timeline_set_limits(m->tl, &limits);
        if (before) machine_save(before, watch->cancel, &ignored);
        close_draft(before);
    } else {
        close_draft(m->draft);
        m->draft = before;
    }
    return ok;
}

struct speculator_parts machine_speculation(const struct machine *m,
                                            const struct engine_config *config)
{
    struct speculator_parts parts = {.target = m->tl,
                                     .n_vocab = model_n_vocab(m->model),
                                     .lookup = config->draft_lookup,
                                     .fixed = config->draft_fixed};
    if (!m->draft) return parts;
    parts.draft = m->draft->tl;
    parts.n_draft_vocab = model_n_vocab(m->draft->model);
    parts.draft_cost =
        (double)model_token_bytes(m->draft->model) / (double)model_token_bytes(m->model);
    return parts;
}

void machine_set_busy(struct machine *m, bool is_busy)
{
    if (m->disk) disk_set_busy(m->disk, is_busy);
    if (m->draft) machine_set_busy(m->draft, is_busy);
}

bool machine_save(struct machine *m, const atomic_bool *cancel, struct err *err)
{
    bool ok = !m->draft || machine_save(m->draft, cancel, err);
    if (!m->disk) return ok;
    timeline_save_all(m->tl, cancel);
    disk_drain(m->disk);
    struct err ignored;
    return !disk_trouble(m->disk, ok ? err : &ignored) && ok;
}

bool machine_move_to_cpu(struct machine *m, const struct engine_config *config,
                         const struct machine_watch *watch, struct err *err)
{
    struct err ignored;
    const struct model_params params = m->params;
    /* Of a device that is lost nothing can be read; a draft may be beside it. */
    const bool lives = m->be && !backend_is_lost(m->be);
    if (lives)
        machine_save(m, watch->cancel, &ignored);
    else if (m->draft && m->draft->be && !backend_is_lost(m->draft->be))
        machine_save(m->draft, watch->cancel, &ignored);
    close_on(m);
    m->why_cpu = "the device failed";
    if (open_on(m, config, "cpu", &params, watch, err)) return true;
    close_on(m);
    return false;
}

void machine_close(struct machine *m)
{
    struct err ignored;
    machine_save(m, NULL, &ignored);
    close_on(m);
    gguf_close(m->gguf);
    *m = (struct machine){0};
}
