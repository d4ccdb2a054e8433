/* Names of devices and what opens them, and the self-test before one is trusted. */
#include "engine/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/trial.h"
#include "base/buf.h"
#include "base/printable.h"
#include "cpu/cpu.h"
#include "vulkan/backend.h"

static struct backend *open_cpu(const struct device_choice *choice, struct err *err)
{
    char shown[64], known[64] = "";
    const char *cpu = choice->cpu ? choice->cpu : "auto";
    for (enum cpu_isa isa = CPU_AUTO; isa < N_CPU_ISAS; isa++) {
        if (strcmp(cpu, cpu_isa_name(isa)) != 0) continue;
        const struct cpu_options options = {choice->n_threads, isa};
        return cpu_open(&options, err);
    }
    for (enum cpu_isa isa = CPU_AUTO; isa < N_CPU_ISAS; isa++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s",
                 isa == CPU_AUTO ? "" : ", ", cpu_isa_name(isa));
    err_set(err, ERR_USER, "unknown instruction set '%s'; known: %s",
            printable(shown, sizeof shown, cpu, strlen(cpu)), known);
    return NULL;
}

static struct device_seam seam;

void device_set_seam(const struct device_seam *to)
{
    seam = to ? *to : (struct device_seam){0};
}

/* Hardware devices by number, best first; for tests, software ones behind them. */
static size_t hardware(uint32_t out[DEVICE_MOST], size_t *n_all)
{
    struct vulkan_info all[DEVICE_MOST];
    size_t n = vulkan_list(all, DEVICE_MOST);
    *n_all = n;
    if (n > DEVICE_MOST) n = DEVICE_MOST;
    size_t n_out = vulkan_order(all, n, out);
    for (uint32_t i = 0; seam.software_too && i < n; i++)
        if (all[i].kind == VULKAN_SOFTWARE) out[n_out++] = i;
    return n_out;
}

void device_auto(struct device_names *out)
{
    uint32_t order[DEVICE_MOST] = {0};
    size_t n_all = 0, n = 0;
    *out = (struct device_names){.why = "there is no graphics processor"};
    if (seam.software_too || vulkan_may_be_hardware()) {
        n = hardware(order, &n_all);
        out->is_odd = n == 0;
        if (n_all == 0)
            out->why = "there is no Vulkan driver";
        else if (n == 0)
            out->why = "no Vulkan driver knows a graphics processor";
    }
    if (n > 0) out->why = NULL;
    for (size_t i = 0; i < n && out->n < DEVICE_MOST - 1; i++)
        snprintf(out->names[out->n++], DEVICE_NAME_BYTES, "vulkan:%u", order[i]);
    snprintf(out->names[out->n++], DEVICE_NAME_BYTES, "cpu");
}

/* The index of "vulkan" or "vulkan:N". */
static bool find_vulkan(const char *device, uint32_t *index, struct err *err)
{
    char *end;
    unsigned long n = 0;
    if (strcmp(device, "vulkan") == 0) {
        uint32_t order[DEVICE_MOST];
        size_t n_all;
        if (hardware(order, &n_all) > 0) {
            *index = order[0];
            return true;
        }
        return err_set(err, ERR_DEVICE,
                       n_all == 0 ? "vulkan: there is no Vulkan device"
                                  : "vulkan: there is no hardware device; --list-devices "
                                    "prints what vulkan:N can name");
    }
    bool is_number = strncmp(device, "vulkan:", 7) == 0 && device[7] >= '0' && device[7] <= '9';
    if (is_number) n = strtoul(device + 7, &end, 10);
    if (is_number && *end == '\0' && n <= UINT32_MAX) {
        *index = (uint32_t)n;
        return true;
    }
    char shown[64];
    return err_set(err, ERR_USER, "unknown device '%s'; known: auto, cpu, vulkan, vulkan:N",
                   printable(shown, sizeof shown, device, strlen(device)));
}

static struct backend *open_vulkan(const struct device_choice *from, uint64_t *memory,
                                   struct err *err)
{
    struct vulkan_choice choice = {.wrong_bits = seam.wrong_bits,
                                   .may_differ = from->may_differ};
    if (!find_vulkan(from->device, &choice.index, err)) return NULL;
    struct buf dir = {0};
    if (from->cache_dir) {
        buf_printf(&dir, "%s/pipelines", from->cache_dir);
        choice.cache_dir = buf_str(&dir);
    }
    struct backend *be = vulkan_backend_open(&choice, err);
    buf_free(&dir);
    if (be) *memory = seam.memory ? seam.memory : vulkan_backend_memory(be);
    return be;
}

struct backend *device_open(const struct device_choice *choice, uint64_t *memory,
                            struct err *err)
{
    const char *device = choice->device ? choice->device : "cpu";
    *memory = 0;
    return strcmp(device, "cpu") == 0 ? open_cpu(choice, err)
                                      : open_vulkan(choice, memory, err);
}

bool device_check(struct backend *be, const struct program *p, const atomic_bool *cancel,
                  struct err *err)
{
    if (vulkan_backend_differs(be, err)) return false;
    if (seam.lost_at) vulkan_backend_lose_at(be, 0); /* not while a second model is checked */
    struct backend *cpu = cpu_open(&(struct cpu_options){0, CPU_AUTO}, err);
    if (!cpu) return false;
    bool ok = trial_program(be, cpu, p, cancel, NULL, err);
    backend_close(cpu);
    if (ok) vulkan_backend_keep(be);
    if (ok && seam.lost_at) vulkan_backend_lose_at(be, seam.lost_at);
    return ok;
}

double device_cpu_reads(const struct device_choice *cpu, const void *data, size_t n_bytes)
{
    struct err ignored;
    const char *const scalar = cpu_isa_name(CPU_SCALAR);
    if (seam.cpu_reads > 0) return seam.cpu_reads;
    if (cpu_best() == CPU_SCALAR || (cpu->cpu && strcmp(cpu->cpu, scalar) == 0)) return 0;
    struct backend *be = open_cpu(cpu, &ignored);
    const double gb_s = be ? cpu_read_speed_at(be, data, n_bytes) : 0;
    backend_close(be);
    return gb_s;
}
