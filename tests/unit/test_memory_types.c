/* Memory types of devices as their drivers list them: what is taken for what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>

#include "vulkan/memory_types.h"

enum {
    D = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    S = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    C = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
    LAZY = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT,
    PROTECTED = VK_MEMORY_PROPERTY_PROTECTED_BIT,
    UNCACHED_AMD = VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD,
    ALL = 0xff,
};

#define MIB(n) ((VkDeviceSize)(n) << 20)

static const struct {
    const char *name;
    VkDeviceSize heaps[3];
    VkMemoryType types[6];
    uint32_t n_types, usable;
    bool shares;
    struct vulkan_memory_types want; /* device, host, written, is_seen */
} devices[] = {
    {"a card with a window of 256 MiB, types for images first",
     {MIB(8192), MIB(15900), MIB(256)},
     {{0, 1}, {D, 0}, {D, 0}, {S, 1}, {S | C, 1}, {D | S, 2}},
     6,
     0x3c,
     false,
     {2, 4, 5, false}},
    {"a card whose memory the host sees whole",
     {MIB(16384), MIB(32000)},
     {{D | S, 0}, {S, 1}, {D, 0}, {S | C, 1}, {D | S | UNCACHED_AMD, 0}},
     5,
     ALL,
     false,
     {0, 3, 0, false}},
    {"a card without a window",
     {MIB(4096), MIB(8192)},
     {{D, 0}, {S, 1}},
     2,
     ALL,
     false,
     {0, 1, 1, false}},
    {"a processor's own that shares its cache",
     {MIB(24000)},
     {{D | S | C, 0}},
     1,
     ALL,
     true,
     {0, 0, 0, true}},
    {"one that does not: the device reads what is not cached",
     {MIB(24000)},
     {{D, 0}, {D | S, 0}, {D | S | C, 0}},
     3,
     ALL,
     true,
     {1, 2, 1, true}},
    {"one that calls 512 MiB its own",
     {MIB(512), MIB(15000)},
     {{D, 0}, {D | S, 0}, {S, 1}, {S | C, 1}},
     4,
     ALL,
     true,
     {2, 3, 1, true}},
    {"one with memory for other things",
     {MIB(6000)},
     {{D | PROTECTED, 0},
      {D | LAZY, 0},
      {D | VISIBLE | C, 0},
      {D | S | UNCACHED_AMD, 0},
      {D | S, 0}},
     5,
     ALL,
     true,
     {4, 4, 4, true}},
};

static void types_are_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        VkPhysicalDeviceMemoryProperties all = {.memoryTypeCount = devices[i].n_types,
                                                .memoryHeapCount = 3};
        struct vulkan_memory_types got;
        for (uint32_t k = 0; k < 3; k++)
            all.memoryHeaps[k].size = devices[i].heaps[k];
        for (uint32_t k = 0; k < devices[i].n_types; k++)
            all.memoryTypes[k] = devices[i].types[k];
        const struct vulkan_memory_types *want = &devices[i].want;
        assert_true(vulkan_memory_choose(&all, devices[i].usable, devices[i].shares, &got));
        if (got.device != want->device || got.host != want->host ||
            got.written != want->written || got.is_seen != want->is_seen)
            fail_msg("%s: types %u, %u, %u, %d", devices[i].name, got.device, got.host,
                     got.written, got.is_seen);
    }
}

static void some_have_none(void **state)
{
    (void)state;
    struct vulkan_memory_types got;
    VkPhysicalDeviceMemoryProperties all = {
        .memoryTypeCount = 2, .memoryTypes = {{D, 0}, {S, 0}}, .memoryHeapCount = 1};
    assert_false(vulkan_memory_choose(&all, 1, false, &got));
    assert_true(vulkan_memory_choose(&all, 2, false, &got));
    assert_int_equal(got.device, 1);
    assert_false(got.is_seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(types_are_chosen),
                                       cmocka_unit_test(some_have_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
