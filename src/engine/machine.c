#include "engine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "backend/kv.h"
#include "backend/split.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "base/resources.h"
#include "engine/device.h"
#include "engine/disk.h"
#include "engine/draft_vocab.h"
#include "engine/layers.h"
#include "engine/speculate.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"

/* Left to the rest of the system when the context is fitted to memory. */
static const uint64_t SPARE = LAYERS_SPARE;
enum { MIN_CONTEXT = 512 };

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
    kv = asked * sizes->kv_bytes_per_token;
    char total[READABLE_BYTES], weights[READABLE_BYTES], scratch[READABLE_BYTES],
        of_kv[READABLE_BYTES], there[READABLE_BYTES];
    err_set(err, ERR_MEMORY,
            "not enough memory: %s needed (weights %s, scratch %s, KV of %u tokens %s), %s "
            "available",
            readable_size(total, fixed + kv), readable_size(weights, sizes->weights_bytes),
            readable_size(scratch, sizes->scratch_bytes), asked, readable_size(of_kv, kv),
            readable_size(there, available));
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
                                         config->cache_dir, config->allow_inexact};
    m->be = device_open(&choice, &m->device_bytes, err);
    m->is_cpu = strcmp(device, "cpu") == 0;
    m->device = m->is_cpu ? NULL : m->be;
    return m->be != NULL;
}

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

static void warn(const struct machine_watch *watch, const char *line)
{
    if (watch->warning) watch->warning(watch->user, line);
}

/* Whether the device gives the bits of the CPU for what the model needs, before anything is
 * bound to it; or may be used without. */
static bool check_device(struct machine *m, const struct engine_config *config,
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
    warn(watch, line);
    return true;
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

/* Tokens that a device is to have room for, whatever it has of the model. */
static uint32_t wished_context(const struct machine *m, const struct engine_config *config)
{
    const uint32_t n_model = context_of(m->gguf);
    if (config->n_ctx) return config->n_ctx;
    return n_model < LAYERS_CONTEXT ? n_model : LAYERS_CONTEXT;
}

/* What the draft will take there. */
static bool estimate_draft(struct machine *d, const struct backend *be, enum kv_type kv_type,
                           struct err *err)
{
    const struct model_params params = {.kv_type = kv_type};
    if (!model_estimate(d->gguf, be, &params, TIMELINE_MAX_ROWS, &d->sizes, err)) return false;
    d->sizes.scratch_bytes += d->sizes.state_bytes; /* those that guesses come back to */
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
 * is no room, to the CPU. taken: bytes of the device that will be free later. */
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
    return (d->be || open_device(d, config, "cpu", err)) &&
           estimate_draft(d, d->be, kv_type, err);
}

/* Whether the draft is on the CPU though a device has the whole model. */
static bool draft_is_apart(const struct machine *m)
{
    return m->draft && m->draft->is_cpu && m->device && !m->is_split;
}

/* Opens the draft's file and counts what it will take: the context must leave room for it. */
static bool plan_draft(struct machine *m, const struct engine_config *config,
                       enum kv_type kv_type, uint64_t taken, const struct machine_watch *watch,
                       struct err *err)
{
    if (!config->draft_path) return true;
    struct machine *d = m->draft = mem_zalloc(1, sizeof *d);
    d->kv_type = m->kv_type;
    d->gguf = gguf_open(config->draft_path, err);
    if (!d->gguf) return err_prefix(err, "the draft");
    if (!draft_vocab_check(m->gguf, d->gguf, err) ||
        !place_draft(m, config, kv_type, taken, err))
        return err_prefix(err, "the draft %s", config->draft_path);
    if (draft_is_apart(m))
        warn(watch, "the device has no room for the draft beside the model: the CPU has it");
    return true;
}

static struct model_sizes sum_of(struct model_sizes a, const struct model_sizes *b)
{
    a.weights_bytes += b->weights_bytes;
    a.scratch_bytes += b->scratch_bytes;
    a.kv_bytes_per_token += b->kv_bytes_per_token;
    a.window_bytes_per_token += b->window_bytes_per_token;
    a.state_bytes += b->state_bytes;
    return a;
}

struct model_sizes machine_sizes(const struct machine *m)
{
    return m->draft ? sum_of(m->sizes, &m->draft->sizes) : m->sizes;
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
    warn(s->watch, line);
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
    if (!open_device(&front, s->config, "cpu", err)) return false;
    const struct backend *const on[CUT_SIDES] = {front.be, m->device};
    layers_sizes(p, m->split_at, on, TIMELINE_MAX_ROWS, m->split_sizes);
    m->sizes = sum_of(m->split_sizes[CUT_FRONT], &m->split_sizes[CUT_BACK]);
    m->be = split_open(front.be, m->device, p, m->split_at);
    m->is_split = true;
    m->n_layers = program_n_layers(p);
    say_placed(s);
    return true;
}

static bool place_layers(struct machine *m, const struct engine_config *config,
                         const struct model_params *params, const struct machine_watch *watch,
                         struct err *err)
{
    struct placing s = {m, config, watch};
    return !m->device || model_outline(m->gguf, params, place_program, &s, err);
}

/* ---- memory ---- */

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
        out[0] = (struct pool){"in front of the device's layers",
                               d ? sum_of(*front, &d->sizes) : *front, m->system_bytes};
        out[1] =
            (struct pool){backend_name(m->device), m->split_sizes[CUT_BACK], m->device_bytes};
        return 2;
    }
    if (m->device_bytes > 0 && draft_is_apart(m)) {
        out[0] = (struct pool){"the draft", d->sizes, m->system_bytes};
        out[1] = (struct pool){backend_name(m->device), m->sizes, m->device_bytes};
        return 2;
    }
    out[0] = (struct pool){NULL, machine_sizes(m), m->available};
    return 1;
}

/* The context that fits all memories. */
static bool fit_context(struct machine *m, uint32_t want, uint32_t n_model, struct err *err)
{
    struct pool pools[2];
    const size_t n = pools_of(m, pools);
    m->n_ctx = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const uint32_t fits =
            machine_fit_context(want, n_model, &pools[i].sizes, pools[i].available, err);
        if (fits == 0) return n == 2 && err_prefix(err, "%s", pools[i].what);
        if (fits < m->n_ctx) m->n_ctx = fits;
    }
    return true;
}

/* Bytes that pages of the model and its draft may take, so that no memory has more than its
 * share of them. */
static uint64_t page_room(const struct machine *m)
{
    struct pool pools[2];
    const size_t n = pools_of(m, pools);
    const uint64_t all = machine_sizes(m).kv_bytes_per_token;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct model_sizes *s = &pools[i].sizes;
        const uint64_t fixed = s->weights_bytes + s->scratch_bytes + SPARE;
        uint64_t room = pools[i].available > fixed ? pools[i].available - fixed : 1;
        if (n == 2 && s->kv_bytes_per_token == 0) continue;
        if (n == 2)
            room = (uint64_t)((double)room * (double)all / (double)s->kv_bytes_per_token);
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
                     readable_size(scratch, all.scratch_bytes),
                     m->draft ? " with the draft" : "", readable_size(available, m->available),
                     m->why_cpu ? "; on the CPU: " : "", m->why_cpu ? m->why_cpu : "",
                     m->device && m->draft && m->draft->is_cpu ? "; the draft on the CPU" : "");
    if (!m->is_split || n < 0 || (size_t)n >= cap) return;
    const uint64_t bytes =
        back->weights_bytes + back->scratch_bytes + m->n_ctx * back->kv_bytes_per_token;
    snprintf(line + n, cap - (size_t)n, "; on the device %u of %u layers, %s%s%s",
             m->n_layers - m->split_at, m->n_layers, readable_size(there, bytes),
             m->device_bytes ? " of " : "",
             m->device_bytes ? readable_size(of, m->device_bytes) : "");
}

/* Chooses the context, states the sizes, refuses what does not fit. */
static bool plan_memory(struct machine *m, const struct engine_config *config,
                        const struct model_params *params, const struct machine_watch *watch,
                        struct err *err)
{
    if ((!m->is_split &&
         !model_estimate(m->gguf, m->be, params, TIMELINE_MAX_ROWS, &m->sizes, err)) ||
        !plan_draft(m, config, params->kv_type, 0, watch, err))
        return false;
    uint32_t n_model = context_of(m->gguf);
    m->system_bytes = resources_memory(NULL);
    m->available = m->device_bytes && !m->is_split ? m->device_bytes : m->system_bytes;
    if (!fit_context(m, config->n_ctx, n_model, err)) return false;
    char line[512];
    say_sizes(m, line, sizeof line);
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
                          const struct model_sizes *all, uint64_t room, struct err *err)
{
    const double share = all->kv_bytes_per_token > 0 ? (double)m->sizes.kv_bytes_per_token /
                                                           (double)all->kv_bytes_per_token
                                                     : 1;
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
                                     .name = slash ? slash + 1 : path,
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
    if (!check_device(d, config, &params, &silent, err)) return false;
    d->n_ctx = context_of(d->gguf) < m->n_ctx ? context_of(d->gguf) : m->n_ctx;
    backend_expect(d->be, d->sizes.weights_bytes);
    d->model = model_open(d->gguf, d->be, &params, NULL, cancel, err);
    if (!d->model) return err_prefix(err, "the draft %s", config->draft_path);
    if (!open_timeline(d, config, &all, page_room(m), err)) return false;
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
    if (!m->model || !open_timeline(m, config, &all, page_room(m), err)) return false;
    open_disk(m, config, config->model_path);
    return true;
}

static void close_draft(struct machine *draft)
{
    if (draft) machine_close(draft);
    free(draft);
}

/* All that stands on a device. */
static bool open_on(struct machine *m, const struct engine_config *config, const char *device,
                    const struct model_params *params, const struct machine_watch *watch,
                    struct err *err)
{
    return open_device(m, config, device, err) && place_layers(m, config, params, watch, err) &&
           plan_memory(m, config, params, watch, err) &&
           check_device(m, config, params, watch, err) &&
           open_model(m, config, params, watch, err) &&
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
    warn(watch, line);
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
    if (ok) say_no_layers(m, config, watch);
    return ok;
}

/* Whether a draft that comes later fits beside what is there already; for a device's own memory
 * that is known from placing it. */
static bool draft_fits(const struct machine *m, struct err *err)
{
    if (!m->draft || (m->device_bytes > 0 && !m->draft->is_cpu)) return true;
    const struct model_sizes *sizes = &m->draft->sizes;
    const uint64_t available = resources_memory(NULL);
    const uint64_t needed = sizes->weights_bytes + sizes->scratch_bytes +
                            m->n_ctx * sizes->kv_bytes_per_token + SPARE;
    if (needed <= available) return true;
    char wants[READABLE_BYTES], has[READABLE_BYTES];
    return err_set(err, ERR_MEMORY, "not enough memory for the draft: %s needed, %s available",
                   readable_size(wants, needed), readable_size(has, available));
}

bool machine_change_draft(struct machine *m, const struct engine_config *config,
                          const struct machine_watch *watch, struct err *err)
{
    struct machine *before = m->draft;
    enum kv_type type;
    uint64_t taken = 0;
    if (before && !before->is_cpu)
        taken = before->sizes.weights_bytes + before->sizes.scratch_bytes +
                m->n_ctx * before->sizes.kv_bytes_per_token;
    m->draft = NULL;
    bool ok = machine_kv_type(m->kv_type, &type, &m->kv_type, err) &&
              plan_draft(m, config, type, taken, watch, err) && draft_fits(m, err) &&
              open_draft(m, config, type, watch->cancel, err);
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
