#include "vulkan/selftest.h"

#include "base/numeric_c.h"
#include "vulkan/elementary_list.h"

#define NUM(name) num_##name
#define u_of num_bits
#define f_of num_of_bits
#define NAME(number, name, bits) #name,
#define CASE(number, name, bits) \
    case number: return bits;

static const char *const names[] = {ELEMENTARY_FUNCTIONS(NAME)};
enum { N_FUNCTIONS = sizeof names / sizeof *names, LOCAL = 64, N = 1 << 12 };

uint32_t vulkan_elementary(uint32_t function, uint32_t u)
{
    const float x = num_of_bits(u);
    switch (function) {
        ELEMENTARY_FUNCTIONS(CASE)
    }
    return 0;
}

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
            const uint32_t want = vulkan_elementary(f, pattern(i));
            if (got[f * N + i] != want)
                return err_set(err, ERR_DEVICE,
                               "%s: computes %s(%08x) as %08x instead of %08x: it cannot give "
                               "the same bits",
                               vk->properties.deviceName, names[f], pattern(i), got[f * N + i],
                               want);
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
