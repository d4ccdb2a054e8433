/* The shaders in the program: SPIR-V made from shaders/<name>.comp at build time.
 *
 * One row per shader. Static data, any thread; it knows no device. */
#ifndef VULKAN_SHADERS_H
#define VULKAN_SHADERS_H

#include <stddef.h>
#include <stdint.h>

enum vulkan_shader {
    SHADER_ELEMENTARY,
    SHADER_COPY,
    SHADER_EMBED,
    SHADER_EMBED_FLOAT,
    SHADER_NORM,
    SHADER_NORM_PACKED,
    SHADER_QUANTISE,
    SHADER_QUANTISE_PACKED,
    SHADER_MATMUL,
    SHADER_MATMUL_PACKED,
    SHADER_MATMUL_FLOAT,
    SHADER_ROPE,
    SHADER_POINTWISE,
    SHADER_KV_STORE,
    SHADER_KV_STORE_CODES,
    SHADER_QUERY,
    SHADER_QUERY_PACKED,
    SHADER_ATTEND,
    SHADER_ATTEND_PACKED,
    SHADER_ATTEND_WIDE,
    SHADER_ATTEND_WIDE_PACKED,
    SHADER_ATTEND_FOLD,
    SHADER_ATTEND_FOLD_PACKED,
    SHADER_CENTRE,
    SHADER_ROUTE,
    SHADER_COMBINE,
    SHADER_CONV,
    SHADER_DECAY,
    SHADER_RECUR,
    SHADER_DRAW_ADJUST,
    SHADER_DRAW_SPREAD,
    SHADER_DRAW_COLLECT,
    SHADER_DRAW_FINAL,
    N_SHADERS,
};

struct vulkan_code {
    const char *name;
    const uint32_t *words;
    size_t n_bytes;
};

const struct vulkan_code *vulkan_code(enum vulkan_shader shader);

#endif
