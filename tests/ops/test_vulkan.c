/* The arithmetic on Vulkan: the elementary functions, one matrix-vector product and attention
 * give the bits of the scalar reference, on every device there is (lavapipe in CI). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/numeric_c.h"
#include "base/philox.h"
#include "cpu/ref.h"
#include "gguf/qblocks.h"
#include "shaders/attend_fold.h"
#include "shaders/attend_page.h"
#include "shaders/elementary.h"
#include "shaders/matvec_q8_0.h"
#include "vulkan/pipeline.h"

static struct vulkan vk;
static struct err err;

#define CHECK(call)                           \
    do {                                      \
        if (!(call)) fail_msg("%s", err.msg); \
    } while (0)

static int open_device(void **state)
{
    (void)state;
    if (vulkan_count() == 0) return 0;
    if (vulkan_open(&vk, 0, &err)) return 0;
    print_error("%s\n", err.msg);
    return -1;
}

static int close_device(void **state)
{
    (void)state;
    vulkan_close(&vk);
    return 0;
}

static void need_device(void)
{
    if (!vk.device) skip();
}

/* ---- SPIR-V ---- */

enum {
    SPIRV_HEADER_WORDS = 5,
    OP_EXT_INST = 12,
    OP_DECORATE = 71,
    OP_F_NEGATE = 127,
    OP_F_ADD = 129,
    OP_F_SUB = 131,
    OP_F_MUL = 133,
    OP_F_DIV = 136,
    OP_F_REM = 140,
    OP_F_MOD = 141,
    OP_VECTOR_TIMES_SCALAR = 142,
    OP_DOT = 148,
    NO_CONTRACTION = 42,
};

/* Every float addition, subtraction and multiplication is decorated NoContraction, and nothing
 * is used whose rounding a driver may choose. */
static void check_spirv(const char *name, const uint32_t *code, size_t n_words)
{
    uint32_t bound = code[3];
    uint8_t *exact = mem_zalloc(bound, 1);
    int n_ops = 0;
    for (size_t i = SPIRV_HEADER_WORDS; i < n_words; i += code[i] >> 16)
        if ((code[i] & 0xffff) == OP_DECORATE && code[i + 2] == NO_CONTRACTION)
            exact[code[i + 1]] = 1;
    for (size_t i = SPIRV_HEADER_WORDS; i < n_words; i += code[i] >> 16) {
        uint32_t op = code[i] & 0xffff;
        switch (op) {
        case OP_F_ADD:
        case OP_F_SUB:
        case OP_F_MUL:
            n_ops++;
            if (!exact[code[i + 2]]) fail_msg("%s: word %zu: not NoContraction", name, i);
            break;
        case OP_EXT_INST:
        case OP_F_NEGATE:
        case OP_F_DIV:
        case OP_F_REM:
        case OP_F_MOD:
        case OP_VECTOR_TIMES_SCALAR:
        case OP_DOT: fail_msg("%s: word %zu: operation %u is not exact", name, i, op); break;
        default: break;
        }
    }
    free(exact);
    assert_true(n_ops > 0);
}

static void spirv_is_exact(void **state)
{
    (void)state;
    check_spirv("elementary", shader_elementary, sizeof shader_elementary / 4);
    check_spirv("matvec_q8_0", shader_matvec_q8_0, sizeof shader_matvec_q8_0 / 4);
    check_spirv("attend_page", shader_attend_page, sizeof shader_attend_page / 4);
    check_spirv("attend_fold", shader_attend_fold, sizeof shader_attend_fold / 4);
}

/* ---- Elementary functions ---- */

static uint32_t f16_to_f32(uint32_t u)
{
    return num_bits(num_f16_to_f32(u & 0xffff));
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

static uint32_t f32_to_f16_kv(uint32_t u)
{
    return num_f32_to_f16_kv(num_of_bits(u));
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
};

/* A bit pattern that may be stored: anything but a denormal. */
static uint32_t stored(uint32_t u)
{
    return (u & 0x7fffffff) < 0x00800000 ? u & 0x80000000 : u;
}

static void elementary_functions(void **state)
{
    (void)state;
    need_device();
    enum { LOCAL = 64, N = 1 << 18 };
    struct vulkan_buffer in, out;
    CHECK(vulkan_buffer_new(&vk, N * 4, &in, &err));
    CHECK(vulkan_buffer_new(&vk, N * 4, &out, &err));
    /* An odd step walks through all exponents and signs, 2^18 of the 2^32 patterns. */
    uint32_t *x = in.data, *y = out.data;
    for (uint32_t i = 0; i < N; i++)
        x[i] = stored(i * 16369u);
    for (uint32_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const uint32_t constants[] = {LOCAL, f};
        const struct vulkan_shader shader = {
            shader_elementary, sizeof shader_elementary, 2, 0, constants, 2};
        struct vulkan_pipeline p;
        CHECK(vulkan_pipeline_new(&vk, &shader, &p, &err));
        const struct vulkan_buffer *buffers[] = {&in, &out};
        memset(y, 0xaa, N * 4);
        CHECK(vulkan_run(&vk, &p, buffers, NULL, N / LOCAL, &err));
        for (uint32_t i = 0; i < N; i++)
            if (y[i] != functions[f].run(x[i]))
                fail_msg("%s(%08x): %08x on %s, %08x in C", functions[f].name, x[i], y[i],
                         vk.properties.deviceName, functions[f].run(x[i]));
        vulkan_pipeline_free(&vk, &p);
    }
    vulkan_buffer_free(&vk, &out);
    vulkan_buffer_free(&vk, &in);
}

/* ---- A matrix-vector product and attention ---- */

static uint64_t random_state;

/* Roughly uniform in -1..1. */
static float uniform(void)
{
    struct philox_block b = philox(7, (uint32_t)random_state++, 0, 0, PHILOX_BENCH);
    return (float)(int32_t)b.word[0] * 0x1p-31f;
}

static struct vulkan_buffer buffer_of(const void *data, size_t n_bytes)
{
    struct vulkan_buffer b;
    CHECK(vulkan_buffer_new(&vk, n_bytes, &b, &err));
    if (data) memcpy(b.data, data, n_bytes);
    return b;
}

static void run_shader(const struct vulkan_shader *shader, const struct vulkan_buffer *list,
                       const void *push, uint32_t n_groups)
{
    struct vulkan_pipeline p;
    const struct vulkan_buffer *buffers[VULKAN_MAX_BUFFERS];
    for (uint32_t i = 0; i < shader->n_buffers; i++)
        buffers[i] = &list[i];
    CHECK(vulkan_pipeline_new(&vk, shader, &p, &err));
    CHECK(vulkan_run(&vk, &p, buffers, push, n_groups, &err));
    vulkan_pipeline_free(&vk, &p);
}

static void free_buffers(struct vulkan_buffer *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vulkan_buffer_free(&vk, &list[i]);
}

enum { MV_ROWS = 100, MV_COLS = 1120, MV_BLOCKS = MV_COLS / 32, MV_LOCAL = 32 };

/* The file's blocks, and the shader's order of the same bytes. */
static void random_q8_0(struct block_q8_0 *w, uint32_t *codes, uint32_t *scales)
{
    for (size_t row = 0; row < MV_ROWS; row++) {
        for (size_t b = 0; b < MV_BLOCKS; b++) {
            struct block_q8_0 *block = &w[row * MV_BLOCKS + b];
            block->d = (uint16_t)num_f32_to_f16_kv(uniform() * 0.1f);
            for (size_t i = 0; i < 32; i++)
                block->qs[i] = (int8_t)(uniform() * 127.0f);
            scales[b * MV_ROWS + row] = block->d;
            for (size_t word = 0; word < 8; word++)
                memcpy(&codes[(b * 8 + word) * MV_ROWS + row], block->qs + 4 * word, 4);
        }
    }
}

static void matrix_vector(void **state)
{
    (void)state;
    need_device();
    struct block_q8_0 *w = mem_zalloc(MV_ROWS * MV_BLOCKS, sizeof *w);
    uint32_t *codes = mem_zalloc(MV_ROWS * MV_BLOCKS * 8, 4);
    uint32_t *scales = mem_zalloc(MV_ROWS * MV_BLOCKS, 4);
    random_q8_0(w, codes, scales);

    float x[MV_COLS], d[MV_BLOCKS], expected[MV_ROWS];
    int8_t q[MV_COLS];
    int16_t sum[MV_COLS / 16];
    for (size_t i = 0; i < MV_COLS; i++)
        x[i] = uniform();
    ref_quantise(x, MV_COLS, q, d, sum);
    const struct cpu_weight weight = {
        .base = {QTYPE_Q8_0, 1, MV_ROWS, MV_COLS},
        .file = (const uint8_t *)w,
    };
    const struct matmul m = {
        .w = &weight,
        .a8 = {q, d, sum, MV_COLS},
        .n_rows = 1,
        .out = expected,
        .out_stride = MV_ROWS,
    };
    void *scratch = mem_alloc(ref_matmul_scratch(MV_COLS));
    ref_matmul(&m, 0, MV_ROWS, scratch);

    struct vulkan_buffer list[] = {
        buffer_of(codes, MV_ROWS * MV_BLOCKS * 32),
        buffer_of(scales, MV_ROWS * MV_BLOCKS * 4),
        buffer_of(q, sizeof q),
        buffer_of(d, sizeof d),
        buffer_of(NULL, sizeof expected),
    };
    const uint32_t constants[] = {MV_LOCAL, MV_BLOCKS}, n_rows = MV_ROWS;
    const struct vulkan_shader shader = {
        shader_matvec_q8_0, sizeof shader_matvec_q8_0, 5, 4, constants, 2};
    run_shader(&shader, list, &n_rows, (MV_ROWS + MV_LOCAL - 1) / MV_LOCAL);
    assert_memory_equal(list[4].data, expected, sizeof expected);

    free_buffers(list, 5);
    free(scratch);
    free(scales);
    free(codes);
    free(w);
}

enum {
    AT_DIM = 64,
    AT_HEADS = 4,
    AT_KV_HEADS = 2,
    AT_PAGES = 4,
    AT_K_BYTES = AT_KV_HEADS * AT_DIM * PAGE_LEN * 2,
    AT_PAGE_BYTES = 2 * AT_K_BYTES,
};

/* Keys beyond the count hold NaN: they may not reach the result. */
static void attention_of(uint32_t n_keys)
{
    const struct kv_layer kv = {KV_F16, AT_KV_HEADS, AT_DIM, AT_DIM, 0, AT_K_BYTES, PAGE_FULL};
    uint8_t *bytes = mem_alloc(AT_PAGES * AT_PAGE_BYTES);
    memset(bytes, 0x7f, AT_PAGES * AT_PAGE_BYTES);
    void *pages[AT_PAGES];
    for (size_t p = 0; p < AT_PAGES; p++)
        pages[p] = bytes + p * AT_PAGE_BYTES;
    for (size_t i = 0; i < n_keys; i++) {
        for (size_t head = 0; head < AT_KV_HEADS; head++) {
            float k[AT_DIM], v[AT_DIM];
            for (size_t e = 0; e < AT_DIM; e++)
                k[e] = uniform() * 4.0f, v[e] = uniform();
            ref_kv_store(&kv, pages[i / PAGE_LEN], head, i % PAGE_LEN, k, v);
        }
    }
    float q[AT_HEADS * AT_DIM], expected[AT_HEADS * AT_DIM];
    for (size_t i = 0; i < AT_HEADS * AT_DIM; i++)
        q[i] = uniform() * 4.0f;
    const struct attend a = {
        .kv = &kv,
        .pages = pages,
        .q = q,
        .q_stride = AT_HEADS * AT_DIM,
        .out = expected,
        .out_stride = AT_HEADS * AT_DIM,
        .pos = n_keys - 1,
        .n_group = AT_HEADS / AT_KV_HEADS,
        .scale = 0.125f,
    };
    void *scratch = mem_alloc(ref_attend_scratch(&kv, a.n_group));
    for (size_t head = 0; head < AT_KV_HEADS; head++)
        ref_attend(&a, head, 0, 1, scratch);

    uint32_t n_pages = (n_keys + PAGE_LEN - 1) / PAGE_LEN;
    struct vulkan_buffer page_list[] = {
        buffer_of(q, sizeof q),
        buffer_of(bytes, AT_PAGES * AT_PAGE_BYTES),
        buffer_of(NULL, AT_HEADS * AT_PAGES * (AT_DIM + 2) * 4),
    };
    const uint32_t page_constants[] = {PAGE_LEN, AT_DIM, AT_HEADS, AT_KV_HEADS};
    const struct vulkan_shader page_shader = {
        shader_attend_page, sizeof shader_attend_page, 3, 20, page_constants, 4};
    const struct {
        uint32_t n_keys, page_words, k_at, v_at;
        float scale;
    } push = {n_keys, AT_PAGE_BYTES / 4, 0, AT_K_BYTES / 4, 0.125f};
    run_shader(&page_shader, page_list, &push, AT_HEADS * n_pages);

    struct vulkan_buffer fold_list[] = {page_list[2], buffer_of(NULL, sizeof expected)};
    const uint32_t fold_constants[] = {AT_DIM, AT_DIM};
    const struct vulkan_shader fold_shader = {
        shader_attend_fold, sizeof shader_attend_fold, 2, 4, fold_constants, 2};
    run_shader(&fold_shader, fold_list, &n_pages, AT_HEADS);
    assert_memory_equal(fold_list[1].data, expected, sizeof expected);

    free_buffers(page_list, 3);
    free_buffers(fold_list + 1, 1);
    free(scratch);
    free(bytes);
}

static void attention(void **state)
{
    (void)state;
    need_device();
    const uint32_t counts[] = {1, 7, 8, 63, 64, 65, 200, 256};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        attention_of(counts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spirv_is_exact),
        cmocka_unit_test(elementary_functions),
        cmocka_unit_test(matrix_vector),
        cmocka_unit_test(attention),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
