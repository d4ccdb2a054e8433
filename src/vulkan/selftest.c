#include "vulkan/selftest.h"

#include "base/numeric_c.h"

static uint32_t f16_to_f32(uint32_t u)
{
    return num_bits(num_f16_to_f32(u & 0xffff));
}

static uint32_t f32_to_f16_kv(uint32_t u)
{
    return num_f32_to_f16_kv(num_of_bits(u));
}

#define ELEMENTARY(name)                             \
    static uint32_t run_##name(uint32_t u)           \
    {                                                \
        return num_bits(num_##name(num_of_bits(u))); \
    }
ELEMENTARY(keep)
ELEMENTARY(flush)
ELEMENTARY(exp)
ELEMENTARY(log)
ELEMENTARY(rcp)
ELEMENTARY(rsqrt)
ELEMENTARY(sigmoid)
ELEMENTARY(silu)
ELEMENTARY(gelu)
ELEMENTARY(tanh)
ELEMENTARY(softplus)
ELEMENTARY(narrow)

static uint32_t run_exp2_below(uint32_t u)
{
    return num_bits(num_exp2_below(num_of_bits(u | NUM_SIGN)));
}

static uint32_t run_exp2_weight(uint32_t u)
{
    return num_bits(num_exp2_weight(num_of_bits(u | NUM_SIGN)));
}

static uint32_t run_weight_log2(uint32_t u)
{
    return num_bits(num_weight_log2(num_weight_scale(num_of_bits(u))));
}

static uint32_t run_weight_inverse(uint32_t u)
{
    return num_bits(num_weight_inverse(num_weight_scale(num_of_bits(u))));
}

/* In the order of shaders/elementary.comp. */
static const struct {
    const char *name;
    uint32_t (*run)(uint32_t);
} functions[] = {
    {"keep", run_keep},
    {"flush", run_flush},
    {"exp", run_exp},
    {"log", run_log},
    {"rcp", run_rcp},
    {"rsqrt", run_rsqrt},
    {"sigmoid", run_sigmoid},
    {"silu", run_silu},
    {"gelu", run_gelu},
    {"tanh", run_tanh},
    {"softplus", run_softplus},
    {"f16_to_f32", f16_to_f32},
    {"f32_to_f16_kv", f32_to_f16_kv},
    {"narrow", run_narrow},
    {"exp2_below", run_exp2_below},
    {"exp2_weight", run_exp2_weight},
    {"weight_log2", run_weight_log2},
    {"weight_inverse", run_weight_inverse},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions, LOCAL = 64, N = 1 << 12 };

/* A bit pattern that may be stored: anything but a denormal. An odd step walks through all
 * exponents and signs. */
static uint32_t pattern(uint32_t i)
{
    uint32_t u = i * 1048583u;
    return (u & NUM_ABS) < 0x00800000 ? u & NUM_SIGN : u;
}

static bool same(const struct vulkan *vk, const uint32_t *got, struct err *err)
{
    for (uint32_t f = 0; f < N_FUNCTIONS; f++)
        for (uint32_t i = 0; i < N; i++) {
            uint32_t want = functions[f].run(pattern(i));
            if (got[f * N + i] != want)
                return err_set(err, ERR_DEVICE,
                               "%s: computes %s(%08x) as %08x instead of %08x: it cannot give "
                               "the same bits",
                               vk->properties.deviceName, functions[f].name, pattern(i),
                               got[f * N + i], want);
        }
    return true;
}

bool vulkan_selftest(struct vulkan_pipelines *p, struct err *err)
{
    struct vulkan *vk = p->vk;
    struct vulkan_arena memory = {.vk = vk, .place = VULKAN_NEAR_HOST};
    struct vulkan_region buffers[2];
    const struct vulkan_variant v = {SHADER_ELEMENTARY, 1, {LOCAL}};
    bool ok = vulkan_arena_take(&memory, N * 4, &buffers[0], err) &&
              vulkan_arena_take(&memory, N_FUNCTIONS * N * 4, &buffers[1], err);
    for (uint32_t i = 0; ok && i < N; i++)
        ((uint32_t *)buffers[0].data)[i] = pattern(i);
    ok = ok && vulkan_run_once(p, &v, buffers, 2, N * N_FUNCTIONS / LOCAL, err) &&
         same(vk, (const uint32_t *)buffers[1].data, err);
    vulkan_arena_free(&memory);
    return ok;
}
