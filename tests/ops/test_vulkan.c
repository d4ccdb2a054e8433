/* The shaders use exact arithmetic only, and the device's copies of it are those of the C text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/numeric_c.h"
#include "vulkan/elementary_list.h"
#include "vulkan/impl.h"
#include "vulkan/selftest.h"

enum {
    SPIRV_HEADER_WORDS = 5,
    OP_EXT_INST = 12,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
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
 * is used whose rounding a driver may choose. Returns how many there are. */
static int check_spirv(const char *name, const uint32_t *code, size_t n_words)
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
    return n_ops;
}

static void spirv_is_exact(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHADERS; i++) {
        const struct vulkan_code *code = vulkan_code((enum vulkan_shader)i);
        const int n_ops = check_spirv(code->name, code->words, code->n_bytes / 4);
        /* One copies, one puts numbers into pages as they are, or rounds them with integers. */
        if (i != SHADER_COPY && i != SHADER_KV_STORE) assert_true(n_ops > 0);
    }
}

/* Words of the instructions of a kind whose word `at` has a value. */
static size_t words_with(const uint32_t *code, size_t n_words, uint32_t kind, size_t at,
                         uint32_t value)
{
    size_t n = 0;
    for (size_t i = SPIRV_HEADER_WORDS; i < n_words; i += code[i] >> 16)
        if ((code[i] & 0xffff) == kind && code[i + at] == value) n += code[i] >> 16;
    return n;
}

/* Every shader that has floats asks for rounding to even and for special values; a device that
 * knows no such mode sees nothing of it, and nothing else changes. */
static void unknown_modes_are_left_out(void **state)
{
    (void)state;
    enum { SPECIAL = 4461, EVEN = 4462, CAN_SPECIAL = 4466, CAN_EVEN = 4467 };
    for (int i = 0; i < N_SHADERS; i++) {
        const struct vulkan_code *code = vulkan_code((enum vulkan_shader)i);
        const size_t n = code->n_bytes / 4;
        uint32_t *out = mem_alloc(code->n_bytes);
        assert_int_equal(words_with(code->words, n, OP_EXECUTION_MODE, 2, EVEN), 4);
        assert_int_equal(words_with(code->words, n, OP_EXECUTION_MODE, 2, SPECIAL), 4);
        for (int known = 0; known < 4; known++) {
            const struct vulkan_modes modes = {known & 1, known & 2};
            const size_t n_out = vulkan_modes_known(&modes, code->words, n, out);
            const size_t even = modes.rounds_even ? 1 : 0,
                         special = modes.keeps_special ? 1 : 0;
            assert_int_equal(n_out, n - (2 - even - special) * 6);
            assert_int_equal(words_with(out, n_out, OP_EXECUTION_MODE, 2, EVEN), 4 * even);
            assert_int_equal(words_with(out, n_out, OP_EXECUTION_MODE, 2, SPECIAL),
                             4 * special);
            assert_int_equal(words_with(out, n_out, OP_CAPABILITY, 1, CAN_EVEN), 2 * even);
            assert_int_equal(words_with(out, n_out, OP_CAPABILITY, 1, CAN_SPECIAL),
                             2 * special);
            if (known == 3) assert_memory_equal(out, code->words, code->n_bytes);
        }
        free(out);
    }
}

/* numeric.h where a sum or product that is a NaN has the bits that NVIDIA's processors give it.
 */
static inline float nan_of_another(float x)
{
    return x == x ? x : num_of_bits(0x7fffffff);
}

#define F float
#define I int32_t
#define U uint32_t
#define FN static inline
#define NUM(name) another_##name
#define K(c) (c)
#define UK(c) (c)
#define fadd(a, b) nan_of_another((a) + (b))
#define fsub(a, b) nan_of_another((a) - (b))
#define fmul(a, b) nan_of_another((a) * (b))
#define sel_f(c, a, b) ((c) ? (a) : (b))
#define sel_u(c, a, b) ((c) ? (a) : (b))
#define u_of(x) num_bits(x)
#define f_of(u) num_of_bits(u)
#define i_of_u(u) ((int32_t)(u))
#define u_of_i(i) ((uint32_t)(i))
#define f_of_i(i) ((float)(i))

#include "base/numeric.h"

#define u_of num_bits
#define f_of num_of_bits
#define NAME(number, name, bits) #name,
#define CASE(number, name, bits) \
    case number:                 \
        return bits;
#define NUM(name) another_##name

static uint32_t another(uint32_t function, uint32_t u)
{
    const float x = num_of_bits(u);
    switch (function) {
        ELEMENTARY_FUNCTIONS(CASE)
    }
    return 0;
}

/* No function that the self-test asks for shows which bits a processor gives a NaN. */
static void nan_has_any_bits(void **state)
{
    (void)state;
    static const char *const names[] = {ELEMENTARY_FUNCTIONS(NAME)};
    static const uint32_t odd[] = {0x7fc00000, 0xffc00000, 0x7fffffff, 0xff806fc8,
                                   0x7f800001, 0x7f800000, 0xff800000};
    for (uint32_t f = 0; f < sizeof names / sizeof *names; f++)
        for (uint32_t i = 0; i < sizeof odd / sizeof *odd; i++)
            if (another(f, odd[i]) != vulkan_elementary(f, odd[i]))
                fail_msg("%s(%08x): %08x and %08x", names[f], odd[i], another(f, odd[i]),
                         vulkan_elementary(f, odd[i]));
}

static void run_elementary(const struct vulkan_choice *choice)
{
    struct err err;
    struct vulkan vk;
    if (vulkan_count() == 0) skip();
    if (!vulkan_open(&vk, choice, &err)) fail_msg("%s", err.msg);
    struct vulkan_pipelines p = {.vk = &vk};
    if (!vulkan_selftest(&p, &err)) fail_msg("%s", err.msg);
    vulkan_pipelines_free(&p);
    vulkan_close(&vk);
}

/* Drivers are loaded once: see shared_instance. */
static void one_instance(void **state)
{
    (void)state;
    struct err err;
    struct vulkan a, b;
    if (vulkan_count() == 0) skip();
    if (!vulkan_open(&a, &(struct vulkan_choice){0}, &err)) fail_msg("%s", err.msg);
    const VkInstance first = a.instance;
    vulkan_close(&a);
    if (!vulkan_open(&a, &(struct vulkan_choice){0}, &err)) fail_msg("%s", err.msg);
    if (!vulkan_open(&b, &(struct vulkan_choice){0}, &err)) fail_msg("%s", err.msg);
    assert_ptr_equal(a.instance, first);
    assert_ptr_equal(b.instance, first);
    vulkan_close(&a);
    vulkan_close(&b);
}

static void elementary_functions(void **state)
{
    (void)state;
    run_elementary(&(struct vulkan_choice){0});
}

static void without_modes(void **state)
{
    (void)state;
    run_elementary(&(struct vulkan_choice){.least = true});
}

/* Regions of sizes like a model's, a sixty-fourth of a 14B one's, leave little of the blocks
 * over if it is known how many bytes will come; each has a place of its own. */
static void blocks_leave_little(void **state)
{
    (void)state;
    static const size_t kib[] = {225, 45, 70, 225, 785, 785, 1221};
    enum { N_LAYERS = 40, N_KINDS = sizeof kib / sizeof *kib, N = N_LAYERS * N_KINDS + 1 };
    struct vulkan_region r[N];
    struct err err;
    struct vulkan vk;
    if (vulkan_count() == 0) skip();
    if (!vulkan_open(&vk, &(struct vulkan_choice){0}, &err)) fail_msg("%s", err.msg);
    size_t all = 0;
    for (size_t i = 0; i < N; i++)
        all += (r[i].n_bytes = (i < N - 1 ? kib[i % N_KINDS] : 10000) << 10);
    struct vulkan_arena a = {
        .vk = &vk, .block_bytes = 1 << 20, .large_bytes = 8 << 20, .expected = all};
    const uint64_t before = vk.counters.allocated_bytes;
    for (size_t i = 0; i < N; i++)
        if (!vulkan_arena_take(&a, r[i].n_bytes, &r[i], &err)) fail_msg("%s", err.msg);
    const uint64_t taken = vk.counters.allocated_bytes - before;
    if (taken > all + all / 20)
        fail_msg("%zu KiB took %zu KiB", all >> 10, (size_t)taken >> 10);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(r[i].buffer != r[k].buffer || r[i].at >= r[k].at + r[k].n_bytes ||
                        r[k].at >= r[i].at + r[i].n_bytes);
    /* More than was expected is there all the same. */
    assert_true(vulkan_arena_take(&a, 1 << 10, &r[0], &err));
    vulkan_arena_free(&a);
    vulkan_close(&vk);
}

/* A step of most rows, each of whose heads has a matrix of its own, stays within what Vulkan
 * promises in each direction, and has a group for each. */
static void experts_fit_the_grid(void **state)
{
    (void)state;
    enum { PROMISED = 65535, N_ROWS = 512, N_RANKS = 128 };
    struct vulkan vk = {.subgroup_size = 8};
    struct vulkan_backend be = {.vk = &vk};
    const struct vulkan_exec x = {.base = {.be = &be.base}};
    const struct vulkan_dispatch d = {
        .grid = {.kind = GRID_EXPERTS, .n_values = {64}, .n_used = N_RANKS}};
    uint32_t groups[3];
    vulkan_groups(&x, &d, vulkan_bucket(N_ROWS), N_ROWS, NULL, groups);
    assert_int_equal((uint64_t)groups[1] * groups[2], N_ROWS * N_RANKS);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(groups[i], 1, PROMISED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spirv_is_exact),       cmocka_unit_test(unknown_modes_are_left_out),
        cmocka_unit_test(nan_has_any_bits),     cmocka_unit_test(one_instance),
        cmocka_unit_test(elementary_functions), cmocka_unit_test(blocks_leave_little),
        cmocka_unit_test(without_modes),        cmocka_unit_test(experts_fit_the_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
