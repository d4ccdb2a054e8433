/* The driver's cache of pipelines over starts: what was made once is not made again, whoever
 * made it. The driver is the one below: it compiles what its cache does not hold, and counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "../scratch.h"
#include "base/mem.h"
#include "vulkan/pipeline.h"
#include "vulkan/pipeline_file.h"

/* ---- a driver ---- */

enum { MOST_KEYS = 64, DATA_HEADER = 32 };

struct VkPipelineCache_T {
    uint64_t keys[MOST_KEYS];
    size_t n;
};

struct VkShaderModule_T {
    uint64_t code;
};

static struct {
    int n_compiled, n_caches; /* n_caches: alive */
    size_t padding;           /* that its data have besides */
    bool cannot_merge;
} driver;

static bool holds(const struct VkPipelineCache_T *c, uint64_t key)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->keys[i] == key) return true;
    return false;
}

static void add(struct VkPipelineCache_T *c, uint64_t key)
{
    if (holds(c, key)) return;
    assert_true(c->n < MOST_KEYS);
    c->keys[c->n++] = key;
}

VkResult vkCreatePipelineCache(VkDevice device, const VkPipelineCacheCreateInfo *info,
                               const VkAllocationCallbacks *a, VkPipelineCache *out)
{
    (void)device, (void)a;
    struct VkPipelineCache_T *c = mem_zalloc(1, sizeof *c);
    if (info->initialDataSize > 0) {
        c->n = (info->initialDataSize - DATA_HEADER) / sizeof *c->keys;
        assert_true(c->n <= MOST_KEYS);
        memcpy(c->keys, (const char *)info->pInitialData + DATA_HEADER, c->n * sizeof *c->keys);
    }
    driver.n_caches++;
    *out = c;
    return VK_SUCCESS;
}

void vkDestroyPipelineCache(VkDevice device, VkPipelineCache c, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    driver.n_caches--;
    free(c);
}

VkResult vkGetPipelineCacheData(VkDevice device, VkPipelineCache c, size_t *n, void *data)
{
    (void)device;
    const size_t n_keys = c->n * sizeof *c->keys;
    if (data) {
        assert_int_equal(*n, DATA_HEADER + n_keys);
        memset(data, 'h', DATA_HEADER);
        memcpy((char *)data + DATA_HEADER, c->keys, n_keys);
    }
    *n = DATA_HEADER + n_keys + driver.padding;
    return VK_SUCCESS;
}

VkResult vkMergePipelineCaches(VkDevice device, VkPipelineCache to, uint32_t n,
                               const VkPipelineCache *from)
{
    (void)device;
    if (driver.cannot_merge) return VK_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = 0; k < from[i]->n; k++)
            add(to, from[i]->keys[k]);
    return VK_SUCCESS;
}

VkResult vkCreateShaderModule(VkDevice device, const VkShaderModuleCreateInfo *info,
                              const VkAllocationCallbacks *a, VkShaderModule *out)
{
    (void)device, (void)a;
    *out = mem_zalloc(1, sizeof **out);
    (*out)->code = XXH3_64bits(info->pCode, info->codeSize);
    return VK_SUCCESS;
}

void vkDestroyShaderModule(VkDevice device, VkShaderModule m, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    free(m);
}

VkResult vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                  const VkComputePipelineCreateInfo *info,
                                  const VkAllocationCallbacks *a, VkPipeline *out)
{
    (void)device, (void)a;
    assert_int_equal(n, 1);
    assert_non_null(cache);
    const VkSpecializationInfo *s = info->stage.pSpecializationInfo;
    const uint64_t key = XXH3_64bits_withSeed(s->pData, s->dataSize, info->stage.module->code);
    driver.n_compiled += !holds(cache, key);
    add(cache, key);
    *out = mem_alloc(1);
    return VK_SUCCESS;
}

void vkDestroyPipeline(VkDevice device, VkPipeline p, const VkAllocationCallbacks *a)
{
    (void)device, (void)a;
    free(p);
}

/* ---- starts ---- */

static char root[SCRATCH_PATH], dir[SCRATCH_PATH + 10], *path;

/* A process with the device open, and a model and a draft on it. */
struct start {
    struct vulkan vk;
    struct vulkan_pipelines model, draft;
};

static void begin(struct start *s, const char *in)
{
    *s = (struct start){0};
    s->vk.properties.vendorID = 0x10de;
    s->model.vk = s->draft.vk = &s->vk;
    vulkan_pipeline_cache_open(&s->vk, in);
    vulkan_pipeline_cache_open(&s->vk, in); /* as the draft's backend does */
}

/* Pipelines number first to last. */
static void need(struct vulkan_pipelines *p, uint32_t first, uint32_t last)
{
    struct err err;
    for (uint32_t i = first; i <= last; i++) {
        const struct vulkan_variant v = {i % 2 ? SHADER_NORM : SHADER_ROUTE, 2, {64, i}};
        if (!vulkan_pipeline(p, &v, &err)) fail_msg("%s", err.msg);
    }
}

static void end(struct start *s)
{
    vulkan_pipeline_cache_save(&s->vk);
    vulkan_pipelines_free(&s->draft);
    vulkan_pipeline_cache_save(&s->vk);
    vulkan_pipelines_free(&s->model);
    vulkan_pipeline_cache_close(&s->vk);
}

/* How many a start compiles that needs first to last. */
static int compiled_by(uint32_t first, uint32_t last)
{
    struct start s;
    const int before = driver.n_compiled;
    begin(&s, dir);
    need(&s.model, first, last);
    end(&s);
    return driver.n_compiled - before;
}

static int setup(void **state)
{
    (void)state;
    struct vulkan vk = {.properties = {.vendorID = 0x10de}};
    scratch_folder(root, "pipelines");
    snprintf(dir, sizeof dir, "%s/pipelines", root);
    vulkan_pipeline_cache_open(&vk, dir);
    path = mem_strdup(vk.cache.path);
    vulkan_pipeline_cache_close(&vk);
    memset(&driver, 0, sizeof driver);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(driver.n_caches, 0);
    unlink(path);
    free(path);
    rmdir(dir);
    return rmdir(root);
}

/* Model and draft need some of the same; each is compiled once, in the first start alone. */
static void a_second_start_compiles_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct start s;
        begin(&s, dir);
        need(&s.model, 1, 5);
        vulkan_pipeline_cache_save(&s.vk);
        need(&s.draft, 3, 9);
        end(&s);
        assert_int_equal(s.vk.counters.pipelines, 5 + 7);
        assert_int_equal(driver.n_compiled, 9);
    }
}

/* Each wrote after the other had read, in both orders. */
static void two_processes_add_up(void **state)
{
    (void)state;
    struct start a, b;
    begin(&a, dir), begin(&b, dir);
    need(&a.model, 1, 3), need(&b.model, 3, 6);
    end(&a), end(&b);
    assert_int_equal(compiled_by(1, 6), 0);
    begin(&a, dir), begin(&b, dir);
    need(&a.model, 7, 7), need(&b.model, 8, 9);
    end(&b), end(&a);
    assert_int_equal(compiled_by(1, 9), 0);
}

static void another_model_adds_to_it(void **state)
{
    (void)state;
    assert_int_equal(compiled_by(1, 4), 4);
    assert_int_equal(compiled_by(3, 7), 3);
    assert_int_equal(compiled_by(1, 7), 0);
}

static void nothing_new_writes_nothing(void **state)
{
    (void)state;
    struct stat before, after;
    assert_int_equal(compiled_by(1, 4), 4);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(compiled_by(2, 3), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino); /* it would have been replaced */
    assert_int_equal(after.st_mode & 0777, 0600);
}

static void a_damaged_file_is_replaced(void **state)
{
    (void)state;
    assert_int_equal(compiled_by(1, 4), 4);
    assert_int_equal(truncate(path, 70), 0);
    assert_int_equal(compiled_by(1, 4), 4);
    assert_true(pipeline_file_is_sound(path));
    assert_int_equal(compiled_by(1, 4), 0);
}

static void without_merging_ones_own_is_kept(void **state)
{
    (void)state;
    assert_int_equal(compiled_by(1, 4), 4);
    driver.cannot_merge = true;
    assert_int_equal(compiled_by(5, 6), 2);
    assert_int_equal(compiled_by(1, 6), 0);
}

/* What could not be read again is not written: the file begins anew. */
static void it_does_not_grow_for_ever(void **state)
{
    (void)state;
    assert_int_equal(compiled_by(1, 4), 4);
    driver.padding = PIPELINE_FILE_MOST;
    assert_int_equal(compiled_by(1, 5), 1);
    assert_int_equal(access(path, F_OK), -1);
    driver.padding = 0;
    assert_int_equal(compiled_by(1, 5), 5);
    assert_int_equal(compiled_by(1, 5), 0);
}

/* Without a folder model and draft share it all the same. */
static void without_a_folder_nothing_is_written(void **state)
{
    (void)state;
    struct start s;
    begin(&s, NULL);
    need(&s.model, 1, 5), need(&s.draft, 3, 9);
    end(&s);
    assert_int_equal(driver.n_compiled, 9);
    assert_int_equal(access(dir, F_OK), -1);
}

static void a_lost_device_writes_nothing(void **state)
{
    (void)state;
    struct start s;
    begin(&s, dir);
    need(&s.model, 1, 5);
    s.vk.is_lost = true;
    end(&s);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_second_start_compiles_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(two_processes_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(another_model_adds_to_it, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_new_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(without_merging_ones_own_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(it_does_not_grow_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_folder_nothing_is_written, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_device_writes_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
