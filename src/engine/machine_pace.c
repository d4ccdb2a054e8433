/* Times steps of one row until one is fast enough, or enough time has passed. */
#include "engine/machine_pace.h"

#include <string.h>

#include "backend/backend.h"
#include "base/file.h"
#include "engine/device.h"
#include "engine/timeline.h"
#include "gguf/gguf.h"
#include "model/model.h"

/* A device may take so many times what reading takes the CPU, whose own steps take that 1.03 to
 * 1.25 times (0.6B shape; Zen 4, Emerald Rapids, 2026-11): it mostly reads prompts faster. */
static const double SLOWER = 2;
/* A device that was asleep has so long to wake up: steps are timed until one is fast enough, or
 * until then. */
static const double ENOUGH_MS = 150;
/* One step is not enough: a driver may put off work until the first. */
enum { LEAST_STEPS = 2 };

static const struct file_map *largest_file(const struct gguf *g)
{
    const char *path;
    const struct file_map *largest = gguf_file(g, 0, &path), *map;
    for (size_t i = 1; (map = gguf_file(g, i, &path)); i++)
        if (map->n_bytes > largest->n_bytes) largest = map;
    return largest;
}

/* About how many ms a token takes the CPU; 0: not known. */
static double cpu_ms(const struct machine *m, const struct engine_config *config)
{
    const struct device_choice cpu = {
        .device = "cpu", .cpu = config->cpu, .n_threads = config->n_threads};
    const uint64_t n_bytes = model_token_bytes(m->model);
    const struct file_map *map = largest_file(m->gguf);
    const size_t n_read = n_bytes < map->n_bytes ? (size_t)n_bytes : map->n_bytes;
    const double gb_s = device_cpu_reads(&cpu, map->data, n_read);
    return gb_s > 0 ? (double)n_bytes / 1e6 / gb_s : 0;
}

/* The best of some steps; it stops at one of at most `enough` ms. */
static bool time_steps(struct timeline *tl, double enough, double *best,
                       const atomic_bool *cancel, struct err *err)
{
    const double start = clock_ms();
    *best = 0;
    for (int i = 0; i < LEAST_STEPS || clock_ms() - start < ENOUGH_MS; i++) {
        if (timeline_n(tl) == timeline_n_ctx(tl)) timeline_forget(tl);
        const double begin = clock_ms();
        if (!timeline_append(tl, 0, cancel, err)) return false;
        const double ms = clock_ms() - begin;
        if (i == 0 || ms < *best) *best = ms;
        if (ms <= enough) break;
    }
    return true;
}

static int decimals(double ms)
{
    return ms < 1 ? 3 : ms < 100 ? 1 : 0;
}

bool machine_keeps_pace(struct machine *m, const struct engine_config *config,
                        const struct machine_watch *watch, struct err *err)
{
    double device, cpu = m->device ? cpu_ms(m, config) : 0;
    if (cpu == 0) return true;
    const bool ok = time_steps(m->tl, SLOWER * cpu, &device, watch->cancel, err);
    timeline_forget(m->tl);
    if (!ok || device <= SLOWER * cpu) return ok;
    const char *name = backend_name(m->device); /* "vulkan:0 (...)" */
    return err_set(
        err, ERR_DEVICE,
        "it takes %.*f ms for a token, and the CPU about %.*f (--device %.*s takes it "
        "all the same)",
        decimals(device), device, decimals(cpu), cpu, (int)strcspn(name, " "), name);
}
