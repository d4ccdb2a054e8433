#include "model/other_names.h"

#include <stdio.h>
#include <string.h>

#include "gguf/gguf.h"

/* What names end in, as llama/compat in Ollama's repository has it (2026): of gpt-oss, Qwen 3.5
 * and Qwen3-Next, Gemma 4. */
static const char *const others[][2] = {
    {".attn_output.weight", ".attn_out.weight"},
    {".attn_output.bias", ".attn_out.bias"},
    {".attn_sinks.weight", ".attn_sinks"},
    {".ssm_dt.bias", ".ssm_dt"},
    {".ffn_down_exps.scale", ".ffn_gate_inp.per_expert_scale"},
};

const struct gguf_tensor *tensor_named(const struct gguf *g, const char *name)
{
    const struct gguf_tensor *t = gguf_tensor_find(g, name);
    const size_t n = strlen(name);
    for (size_t i = 0; !t && i < sizeof others / sizeof *others; i++) {
        const size_t n_end = strlen(others[i][0]);
        char other[128];
        if (n <= n_end || n >= sizeof other / 2 || strcmp(name + n - n_end, others[i][0]) != 0)
            continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(n - n_end), name, others[i][1]);
        t = gguf_tensor_find(g, other);
    }
    return t;
}
