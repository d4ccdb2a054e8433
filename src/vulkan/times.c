/* What each op of a step takes, by the device's clock: the step runs once more, with a
 * timestamp behind every dispatch. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "vulkan/impl.h"

static bool pool_new(struct vulkan *vk, uint32_t n, VkQueryPool *out, struct err *err)
{
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = n,
    };
    return vulkan_check(vkCreateQueryPool(vk->device, &info, NULL, out), "vkCreateQueryPool",
                        err);
}

/* A step of few rows is timed this often: the least of each dispatch counts, since others may
 * use the machine. */
enum { FEW_ROWS = 8, N_RUNS = 5 };

/* The times between n + 1 timestamps, where they are less than what is there. */
static bool take_least(struct vulkan *vk, VkQueryPool pool, uint32_t n, double *least,
                       struct err *err)
{
    uint64_t *t = mem_zalloc(n + 1, sizeof *t);
    bool ok = vulkan_check(
        vkGetQueryPoolResults(vk->device, pool, 0, n + 1, (n + 1) * sizeof *t, t, sizeof *t,
                              VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "vkGetQueryPoolResults", err);
    const uint64_t mask = vk->clock_bits < 64 ? (1ull << vk->clock_bits) - 1 : UINT64_MAX;
    for (uint32_t i = 0; ok && i < n; i++)
        least[i] = fmin(least[i], (double)((t[i + 1] - t[i]) & mask) *
                                      (double)vk->properties.limits.timestampPeriod * 1e-6);
    free(t);
    return ok;
}

bool vulkan_exec_time(struct exec *base, const struct step *step, double *ms, struct err *err)
{
    struct vulkan_exec *x = (struct vulkan_exec *)base;
    struct vulkan *vk = vulkan_of(x)->vk;
    if (vk->clock_bits == 0)
        return err_set(err, ERR_DEVICE, "%s: has no clock for its ops",
                       vk->properties.deviceName);
    if (!vulkan_exec_run(base, step, err)) return false;
    /* What the host wrote of the step is there still, and keys and values become the same
     * again; the states at work do not. */
    x->state_of = NULL;
    x->has_trail = false;
    const uint32_t cap = (uint32_t)x->n_dispatches + 1;
    size_t *ops = mem_zalloc(cap, sizeof *ops);
    VkQueryPool pool = VK_NULL_HANDLE;
    VkCommandBuffer c = VK_NULL_HANDLE;
    uint32_t n = 0;
    bool ok = pool_new(vk, cap, &pool, err) && vulkan_begin(vk, 0, &c, err) &&
              vulkan_record_timed(x, step->n_rows, c, pool, ops, &n, err);
    double *least = mem_zalloc(cap, sizeof *least);
    for (uint32_t i = 0; i < cap; i++)
        least[i] = INFINITY;
    const int n_runs = step->n_rows <= FEW_ROWS ? N_RUNS : 1;
    for (int i = 0; ok && i < n_runs; i++)
        ok = vulkan_submit(vk, 1, &c, err) && take_least(vk, pool, n, least, err);
    for (uint32_t i = 0; ok && i < n; i++)
        ms[ops[i]] += least[i];
    vulkan_commands_free(vk, c);
    if (pool) vkDestroyQueryPool(vk->device, pool, NULL);
    free(ops);
    free(least);
    return ok;
}
