#include "engine/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The index of "vulkan" or "vulkan:N". */
static bool find_vulkan(const char *device, uint32_t *index, struct err *err)
{
    char *end;
    unsigned long n = 0;
    if (strcmp(device, "vulkan") == 0)
        return vulkan_first_hardware(index) ||
               err_set(err, ERR_DEVICE,
                       vulkan_count() == 0
                           ? "vulkan: there is no Vulkan device"
                           : "vulkan: there is no hardware device; --list-devices "
                             "prints what vulkan:N can name");
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

static struct backend *open_vulkan(const char *device, uint64_t *memory, struct err *err)
{
    struct vulkan_choice choice = {0};
    struct vulkan_info info;
    if (!find_vulkan(device, &choice.index, err)) return NULL;
    struct backend *be = vulkan_backend_open(&choice, err);
    if (be && vulkan_describe(choice.index, &info) && strcmp(info.kind, "discrete") == 0)
        *memory = info.memory_bytes;
    return be;
}

struct backend *device_open(const struct device_choice *choice, uint64_t *memory,
                            struct err *err)
{
    const char *device = choice->device ? choice->device : "auto";
    *memory = 0;
    if (strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0) return open_cpu(choice, err);
    return open_vulkan(device, memory, err);
}
