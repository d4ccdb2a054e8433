#include "vulkan/shaders.h"

#include "shaders/attend.h"
#include "shaders/attend_fold.h"
#include "shaders/attend_fold_packed.h"
#include "shaders/attend_packed.h"
#include "shaders/attend_wide.h"
#include "shaders/attend_wide_packed.h"
#include "shaders/centre.h"
#include "shaders/combine.h"
#include "shaders/conv.h"
#include "shaders/copy.h"
#include "shaders/decay.h"
#include "shaders/draw_adjust.h"
#include "shaders/draw_collect.h"
#include "shaders/draw_final.h"
#include "shaders/draw_spread.h"
#include "shaders/elementary.h"
#include "shaders/embed.h"
#include "shaders/embed_float.h"
#include "shaders/kv_store.h"
#include "shaders/kv_store_codes.h"
#include "shaders/matmul.h"
#include "shaders/matmul_float.h"
#include "shaders/matmul_packed.h"
#include "shaders/norm.h"
#include "shaders/norm_packed.h"
#include "shaders/pointwise.h"
#include "shaders/quantise.h"
#include "shaders/quantise_packed.h"
#include "shaders/query.h"
#include "shaders/query_packed.h"
#include "shaders/recur.h"
#include "shaders/rope.h"
#include "shaders/route.h"

#define CODE(name)                                 \
    {                                              \
#name, shader_##name, sizeof shader_##name \
    }

static const struct vulkan_code codes[N_SHADERS] = {
    [SHADER_ELEMENTARY] = CODE(elementary),
    [SHADER_COPY] = CODE(copy),
    [SHADER_EMBED] = CODE(embed),
    [SHADER_EMBED_FLOAT] = CODE(embed_float),
    [SHADER_NORM] = CODE(norm),
    [SHADER_NORM_PACKED] = CODE(norm_packed),
    [SHADER_QUANTISE] = CODE(quantise),
    [SHADER_QUANTISE_PACKED] = CODE(quantise_packed),
    [SHADER_MATMUL] = CODE(matmul),
    [SHADER_MATMUL_PACKED] = CODE(matmul_packed),
    [SHADER_MATMUL_FLOAT] = CODE(matmul_float),
    [SHADER_ROPE] = CODE(rope),
    [SHADER_POINTWISE] = CODE(pointwise),
    [SHADER_KV_STORE] = CODE(kv_store),
    [SHADER_KV_STORE_CODES] = CODE(kv_store_codes),
    [SHADER_QUERY] = CODE(query),
    [SHADER_QUERY_PACKED] = CODE(query_packed),
    [SHADER_ATTEND] = CODE(attend),
    [SHADER_ATTEND_PACKED] = CODE(attend_packed),
    [SHADER_ATTEND_WIDE] = CODE(attend_wide),
    [SHADER_ATTEND_WIDE_PACKED] = CODE(attend_wide_packed),
    [SHADER_ATTEND_FOLD] = CODE(attend_fold),
    [SHADER_ATTEND_FOLD_PACKED] = CODE(attend_fold_packed),
    [SHADER_CENTRE] = CODE(centre),
    [SHADER_ROUTE] = CODE(route),
    [SHADER_COMBINE] = CODE(combine),
    [SHADER_CONV] = CODE(conv),
    [SHADER_DECAY] = CODE(decay),
    [SHADER_RECUR] = CODE(recur),
    [SHADER_DRAW_ADJUST] = CODE(draw_adjust),
    [SHADER_DRAW_SPREAD] = CODE(draw_spread),
    [SHADER_DRAW_COLLECT] = CODE(draw_collect),
    [SHADER_DRAW_FINAL] = CODE(draw_final),
};

const struct vulkan_code *vulkan_code(enum vulkan_shader shader)
{
    return &codes[shader];
}
