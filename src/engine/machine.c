#include "engine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/kv.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/resources.h"
#include "cpu/cpu.h"
#include "engine/disk.h"
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
    uint64_t fits = sizes->kv_bytes_per_token ? room / sizes->kv_bytes_per_token : n_ctx;
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

static bool open_device(struct machine *m, const struct engine_config *config, struct err *err)
{
    char shown[64];
    const char *device = config->device ? config->device : "auto";
    const char *cpu = config->cpu ? config->cpu : "auto";
    if (strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0)
        return err_set(err, ERR_DEVICE, "unknown device '%s'; known: auto, cpu",
                       printable(shown, sizeof shown, device, strlen(device)));
    for (enum cpu_isa isa = CPU_AUTO; isa < N_CPU_ISAS; isa++) {
        if (strcmp(cpu, cpu_isa_name(isa)) != 0) continue;
        const struct cpu_options options = {config->n_threads, isa};
        m->be = cpu_open(&options, err);
        return m->be != NULL;
    }
    char known[64] = "";
    for (enum cpu_isa isa = CPU_AUTO; isa < N_CPU_ISAS; isa++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                 isa == CPU_AUTO ? "" : ", ", cpu_isa_name(isa));
    return err_set(err, ERR_USER, "unknown instruction set '%s'; known: %s",
                   printable(shown, sizeof shown, cpu, strlen(cpu)), known);
}

static void warn(const struct machine_watch *watch, const char *line)
{
    if (watch->warning) watch->warning(watch->user, line);
}

/* context_length of the file, which model_estimate has found to be there and sound. */
static uint32_t context_of(const struct gguf *g)
{
    struct gguf_str arch = {0};
    uint64_t n = 0;
    char key[128];
    if (gguf_string(g, "general.architecture", &arch)) {
        snprintf(key, sizeof key, "%.*s.context_length", (int)(arch.len < 64 ? arch.len : 64),
                 arch.data);
        gguf_u64(g, key, &n);
    }
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Chooses the context, states the sizes, refuses what does not fit. */
static bool plan_memory(struct machine *m, const struct engine_config *config,
                        const struct model_params *params, const struct machine_watch *watch,
                        struct err *err)
{
    if (!model_estimate(m->gguf, m->be, params, TIMELINE_MAX_ROWS, &m->sizes, err))
        return false;
    uint32_t n_model = context_of(m->gguf);
    m->available = resources_memory(NULL);
    m->n_ctx = machine_fit_context(config->n_ctx, n_model, &m->sizes, m->available, err);
    if (m->n_ctx == 0) return false;
    char line[512];
    snprintf(line, sizeof line,
             "weights %.1f MiB, KV %.1f KiB per token (%u tokens: %.1f MiB), scratch %.1f MiB; "
             "%.1f MiB of memory available",
             mib(m->sizes.weights_bytes), (double)m->sizes.kv_bytes_per_token / 1024, m->n_ctx,
             mib(m->n_ctx * m->sizes.kv_bytes_per_token), mib(m->sizes.scratch_bytes),
             mib(m->available));
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

static bool open_timeline(struct machine *m, const struct engine_config *config,
                          struct err *err)
{
    uint64_t fixed = m->sizes.weights_bytes + m->sizes.scratch_bytes + SPARE;
    const struct timeline_limits limits = {.n_ctx = m->n_ctx,
                                           .warm_bytes = config->cache_ram_bytes,
                                           .total_bytes =
                                               m->available > fixed ? m->available - fixed : 1};
    m->tl = timeline_new(m->be, model_program(m->model), &limits, err);
    return m->tl != NULL;
}

static void open_disk(struct machine *m, const struct engine_config *config)
{
    if (!config->cache_dir || config->cache_disk_bytes == 0) return;
    const char *slash = strrchr(config->model_path, '/');
    const struct disk_config disk = {.dir = config->cache_dir,
                                     .cap_bytes = config->cache_disk_bytes,
                                     .name = slash ? slash + 1 : config->model_path};
    m->disk = disk_new(&disk, m->be, m->gguf, model_program(m->model));
    timeline_set_disk(m->tl, m->disk);
}

bool machine_open(struct machine *m, const struct engine_config *config,
                  const struct machine_watch *watch, struct err *err)
{
    static const struct machine_watch nobody;
    if (!watch) watch = &nobody;
    *m = (struct machine){0};
    double start = clock_ms();
    struct model_params params = {.n_ctx = config->n_ctx};
    const struct model_progress progress = {watch->progress, watch->user};
    if (!machine_kv_type(config->kv_type, &params.kv_type, &m->kv_type, err)) return false;
    bool ok = open_device(m, config, err) && (m->gguf = gguf_open(config->model_path, err)) &&
              plan_memory(m, config, &params, watch, err) &&
              (m->model = model_open(m->gguf, m->be, &params,
                                     watch->progress ? &progress : NULL, watch->cancel, err)) &&
              open_timeline(m, config, err);
    if (ok) open_disk(m, config);
    m->load_ms = clock_ms() - start;
    return ok;
}

void machine_close(struct machine *m)
{
    if (m->disk) timeline_save_all(m->tl);
    timeline_free(m->tl);
    disk_free(m->disk);
    model_close(m->model);
    backend_close(m->be);
    gguf_close(m->gguf);
    *m = (struct machine){0};
}
