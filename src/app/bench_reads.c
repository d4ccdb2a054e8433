#include "app/bench_reads.h"

#include "cpu/cpu.h"
#include "engine/machine.h"
#include "vulkan/backend.h"

bool bench_reads(const struct machine *m, double *gb_s, struct err *err)
{
    if (m->device) return vulkan_backend_copy_speed(m->device, gb_s, err);
    *gb_s = cpu_read_speed(m->be);
    return true;
}
