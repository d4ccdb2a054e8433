#include "engine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/kv.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/resources.h"
#include "engine/device.h"
#include "engine/disk.h"
#include "engine/draft_vocab.h"
#include "engine/speculate.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"

/* Left to the rest of the system when the context is fitted to memory. */
static const uint64_t SPARE = 64u << 20;
enum { MIN_CONTEXT = 512 };

static double mib(uint64_t n_bytes)
{
    return (double)n_bytes / (1 << 20);
}

uint32_t machine_fit_context(uint32_t want, uint32_t n_model, const struct model_sizes *sizes,
                             uint64_t available, struct err *err)
{
    uint32_t n_ctx = want ? want : n_model;
    uint64_t fixed = sizes->weights_bytes + sizes->scratch_bytes;
    uint64_t kv = (uint64_t)n_ctx * sizes->kv_bytes_per_token;
    if (fixed <= available && kv <= available - fixed) return n_ctx;
    uint64_t room = available > fixed + SPARE ? available - fixed - SPARE : 0;
    uint64_t fits = sizes->kv_bytes_per_token ? room / sizes->kv_bytes_per_token : 0;
    fits -= fits % PAGE_LEN;
    uint32_t least = n_model < MIN_CONTEXT ? n_model : MIN_CONTEXT;
    if (want == 0 && fits >= least) return (uint32_t)fits;
    uint32_t asked = want ? want : least;
    err_set(err, ERR_MEMORY,
            "not enough memory: %.1f MiB needed (weights %.1f, scratch %.1f, KV of %u tokens "
            "%.1f), %.1f MiB available",
            mib(fixed + asked * sizes->kv_bytes_per_token), mib(sizes->weights_bytes),
            mib(sizes->scratch_bytes), asked, mib(asked * sizes->kv_bytes_per_token),
            mib(available));
    return 0;
}

bool machine_kv_type(const char *name, enum kv_type *type, const char **kept, struct err *err)
{
    char shown[64];
    if (!kv_type_find(name ? name : "f16", type))
        return err_set(err, ERR_USER, "unknown KV type '%s'; known: f32, f16, q8_0, q4_0",
                       printable(shown, sizeof shown, name, strlen(name)));
    *kept = kv_type_name(*type);
    return true;
}

static bool open_device(struct machine *m, const struct engine_config *config,
                        const char *device, struct err *err)
{
    const struct device_choice choice = {device, config->cpu, config->n_threads,
                                         config->cache_dir};
    m->be = device_open(&choice, &m->device_bytes, err);
    m->is_cpu = strcmp(device, "cpu") == 0;
    return m->be != NULL;
}

struct checked {
    struct backend *be;
    const atomic_bool *cancel;
};

static bool check_program(void *user, const struct program *p, struct err *err)
{
    const struct checked *c = user;
    return device_check(c->be, p, c->cancel, err);
}

/* Whether the device gives the bits of the CPU for what the model needs, before anything is
 * bound to it. */
static bool check_device(const struct machine *m, const struct model_params *params,
                         const atomic_bool *cancel, struct err *err)
{
    struct checked c = {m->be, cancel};
    return m->is_cpu || model_outline(m->gguf, params, check_program, &c, err);
}

static void warn(const struct machine_watch *watch, const char *line)
{
    if (watch->warning) watch->warning(watch->user, line);
}

/* A number of the file's family; 0: there is none. */
static uint64_t number_of(const struct gguf *g, const char *name)
{
    struct gguf_str arch = {0};
    uint64_t n = 0;
    char key[128];
    if (gguf_string(g, "general.architecture", &arch)) {
        snprintf(key, sizeof key, "%.*s.%s", (int)(arch.len < 64 ? arch.len : 64), arch.data,
                 name);
        gguf_u64(g, key, &n);
    }
    return n;
}

/* context_length of the file, which model_estimate has found to be there and sound. */
static uint32_t context_of(const struct gguf *g)
{
    const uint64_t n = number_of(g, "context_length");
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Opens the draft's file and counts what it will take: the context must leave room for it. */
static bool plan_draft(struct machine *m, const struct engine_config *config,
                       enum kv_type kv_type, struct err *err)
{
    if (!config->draft_path) return true;
    struct machine *d = m->draft = mem_zalloc(1, sizeof *d);
    const struct model_params params = {.kv_type = kv_type};
    d->kv_type = m->kv_type;
    d->be = backend_beside(m->be);
    d->is_cpu = m->is_cpu;
    if (!d->be && !open_device(d, config, "cpu", err)) return false;
    d->gguf = gguf_open(config->draft_path, err);
    if (!d->gguf) return err_prefix(err, "the draft");
    if (draft_vocab_check(m->gguf, d->gguf, err) &&
        model_estimate(d->gguf, d->be, &params, TIMELINE_MAX_ROWS, &d->sizes, err)) {
        d->sizes.scratch_bytes += d->sizes.state_bytes; /* those that guesses come back to */
        return true;
    }
    return err_prefix(err, "the draft %s", config->draft_path);
}

struct model_sizes machine_sizes(const struct machine *m)
{
    struct model_sizes all = m->sizes;
    if (!m->draft) return all;
    all.weights_bytes += m->draft->sizes.weights_bytes;
    all.scratch_bytes += m->draft->sizes.scratch_bytes;
    all.kv_bytes_per_token += m->draft->sizes.kv_bytes_per_token;
    return all;
}

/* "9.0 MiB", "22.3 GiB". */
static const char *size_text(char out[32], uint64_t n_bytes)
{
    const double n = mib(n_bytes);
    snprintf(out, 32, n < 1000 ? "%.1f MiB" : "%.1f GiB", n < 1000 ? n : n / 1024);
    return out;
}

/* Chooses the context, states the sizes, refuses what does not fit. */
static bool plan_memory(struct machine *m, const struct engine_config *config,
                        const struct model_params *params, const struct machine_watch *watch,
                        struct err *err)
{
    if (!model_estimate(m->gguf, m->be, params, TIMELINE_MAX_ROWS, &m->sizes, err) ||
        !plan_draft(m, config, params->kv_type, err))
        return false;
    const struct model_sizes all = machine_sizes(m);
    uint32_t n_model = context_of(m->gguf);
    m->available = m->device_bytes ? m->device_bytes : resources_memory(NULL);
    m->n_ctx = machine_fit_context(config->n_ctx, n_model, &all, m->available, err);
    if (m->n_ctx == 0) return false;
    char line[512], weights[32], kv[32], scratch[32], available[32];
    snprintf(line, sizeof line,
             "weights %s, KV %.1f KiB per token (%u tokens: %s), scratch %s%s; "
             "%s of memory available%s%s",
             size_text(weights, all.weights_bytes), (double)all.kv_bytes_per_token / 1024,
             m->n_ctx, size_text(kv, m->n_ctx * all.kv_bytes_per_token),
             size_text(scratch, all.scratch_bytes), m->draft ? " with the draft" : "",
             size_text(available, m->available), m->why_cpu ? "; on the CPU: " : "",
             m->why_cpu ? m->why_cpu : "");
    if (watch->sizes) watch->sizes(watch->user, m->sizes.weights_bytes, line);
    if (config->n_ctx == 0 && m->n_ctx < n_model) {
        snprintf(line, sizeof line,
                 "the context is %u tokens of the model's %u: memory allows no more", m->n_ctx,
                 n_model);
        warn(watch, line);
    }
    if (m->n_ctx > n_model) {
        snprintf(line, sizeof line,
                 "the context of %u tokens is longer than the %u the model was made for",
                 m->n_ctx, n_model);
        warn(watch, line);
    }
    return true;
}

/* Of two machines each keeps warm in proportion to what a token takes in it. */
static bool open_timeline(struct machine *m, const struct engine_config *config,
                          const struct model_sizes *all, struct err *err)
{
    const double share = all->kv_bytes_per_token > 0 ? (double)m->sizes.kv_bytes_per_token /
                                                           (double)all->kv_bytes_per_token
                                                     : 1;
    uint64_t fixed = all->weights_bytes + all->scratch_bytes + SPARE;
    uint64_t room = m->available > fixed ? m->available - fixed : 1;
    const struct timeline_limits limits = {
        .n_ctx = m->n_ctx,
        .warm_bytes = (uint64_t)((double)config->cache_ram_bytes * share),
        .total_bytes = (uint64_t)((double)room * share) + 1};
    m->tl = timeline_new(m->be, model_program(m->model), &limits, err);
    return m->tl != NULL;
}

static void open_disk(struct machine *m, const struct engine_config *config, const char *path)
{
    if (!config->cache_dir || config->cache_disk_bytes == 0) return;
    const char *slash = strrchr(path, '/');
    const struct disk_config disk = {.dir = config->cache_dir,
                                     .cap_bytes = config->cache_disk_bytes,
                                     .name = slash ? slash + 1 : path};
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
    if (!check_device(d, &params, cancel, err)) return false;
    d->available = m->available;
    d->n_ctx = context_of(d->gguf) < m->n_ctx ? context_of(d->gguf) : m->n_ctx;
    d->model = model_open(d->gguf, d->be, &params, NULL, cancel, err);
    if (!d->model) return err_prefix(err, "the draft %s", config->draft_path);
    if (!open_timeline(d, config, &all, err)) return false;
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
    m->model = model_open(m->gguf, m->be, params, watch->progress ? &progress : NULL,
                          watch->cancel, err);
    if (!m->model || !open_timeline(m, config, &all, err)) return false;
    open_disk(m, config, config->model_path);
    return true;
}

static void close_draft(struct machine *draft)
{
    if (draft) machine_close(draft);
    free(draft);
}

/* A device takes the whole model. Other programs count the output as one more layer. */
static bool check_layers(const struct machine *m, const struct engine_config *config,
                         struct err *err)
{
    const uint64_t n = number_of(m->gguf, "block_count");
    if (m->is_cpu || config->gpu_layers == 0 || config->gpu_layers >= n) return true;
    return err_set(err, ERR_USER,
                   "--gpu-layers %u: the model has %u layers, and a device takes all of them "
                   "or none: all or 0",
                   config->gpu_layers, (unsigned)n);
}

/* All that stands on a device. */
static bool open_on(struct machine *m, const struct engine_config *config, const char *device,
                    const struct model_params *params, const struct machine_watch *watch,
                    struct err *err)
{
    return open_device(m, config, device, err) && check_layers(m, config, err) &&
           plan_memory(m, config, params, watch, err) &&
           check_device(m, params, watch->cancel, err) &&
           open_model(m, config, params, watch, err) &&
           open_draft(m, config, params->kv_type, watch->cancel, err);
}

static void close_on(struct machine *m)
{
    close_draft(m->draft);
    timeline_free(m->tl);
    disk_free(m->disk);
    model_close(m->model);
    backend_close(m->be);
    *m = (struct machine){
        .gguf = m->gguf, .kv_type = m->kv_type, .params = m->params, .why_cpu = m->why_cpu};
}

/* The first device that can be used; each that cannot is a line. */
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
        warn(watch, line);
    }
    for (size_t i = 0;; i++) {
        if (open_on(m, config, devices.names[i], params, watch, err)) return true;
        if (i == devices.n - 1 || (err->code != ERR_DEVICE && err->code != ERR_MEMORY))
            return false;
        char line[sizeof err->msg + 64];
        const char *next = i + 1 == devices.n - 1 ? "the CPU" : devices.names[i + 1];
        snprintf(line, sizeof line, "%s is not used: %s; %s takes its place", devices.names[i],
                 err->msg, next);
        warn(watch, line);
        close_on(m);
    }
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
    m->params = params;
    m->gguf = gguf_open(config->model_path, err);
    bool ok = m->gguf &&
              (strcmp(device, "auto") == 0 ? open_best(m, config, &params, watch, err)
                                           : open_on(m, config, device, &params, watch, err));
    m->load_ms = clock_ms() - start;
    return ok;
}

/* Whether a draft that comes later fits beside what is there already. */
static bool draft_fits(const struct machine *m, struct err *err)
{
    if (!m->draft) return true;
    const struct model_sizes *sizes = &m->draft->sizes;
    const uint64_t available = resources_memory(NULL);
    const uint64_t needed = sizes->weights_bytes + sizes->scratch_bytes +
                            m->n_ctx * sizes->kv_bytes_per_token + SPARE;
    if (needed <= available) return true;
    return err_set(err, ERR_MEMORY,
                   "not enough memory for the draft: %.1f MiB needed, %.1f MiB available",
                   mib(needed), mib(available));
}

bool machine_change_draft(struct machine *m, const struct engine_config *config,
                          const atomic_bool *cancel, struct err *err)
{
    struct machine *before = m->draft;
    enum kv_type type;
    m->draft = NULL;
    bool ok = machine_kv_type(m->kv_type, &type, &m->kv_type, err) &&
              plan_draft(m, config, type, err) && draft_fits(m, err) &&
              open_draft(m, config, type, cancel, err);
    if (ok) {
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

bool machine_save(struct machine *m, struct err *err)
{
    bool ok = !m->draft || machine_save(m->draft, err);
    if (!m->disk) return ok;
    timeline_save_all(m->tl);
    disk_drain(m->disk);
    struct err ignored;
    return !disk_trouble(m->disk, ok ? err : &ignored) && ok;
}

bool machine_move_to_cpu(struct machine *m, const struct engine_config *config,
                         const struct machine_watch *watch, struct err *err)
{
    struct err ignored;
    const struct model_params params = m->params;
    if (m->be && !backend_is_lost(m->be)) machine_save(m, &ignored);
    close_on(m);
    m->why_cpu = "the device failed";
    if (open_on(m, config, "cpu", &params, watch, err)) return true;
    close_on(m);
    return false;
}

void machine_close(struct machine *m)
{
    struct err ignored;
    machine_save(m, &ignored);
    close_on(m);
    gguf_close(m->gguf);
    *m = (struct machine){0};
}
