/* Any bytes as a chat template: up to the first NUL the template, after it the variables as
 * JSON. It ends in a rendering whose runs cover it, or in an error of one line. */
#include <string.h>

#include "target.h"
#include "template/template.h"

static const char usual[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"S <|im_end|>\"},"
    "{\"role\":\"user\",\"content\":\" Hi\\u00e9 \"},{\"role\":\"assistant\",\"content\":"
    "\"<think>a</think>b\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
    "{\"x\":1.5}}}]}],\"tools\":[{\"name\":\"f\",\"n\":null}],\"add_generation_prompt\":true,"
    "\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"n\":-3}";

static const struct tm now = {.tm_year = 125, .tm_mon = 6, .tm_mday = 4, .tm_yday = 184};

static void check_rendering(const struct rendering *r)
{
    size_t at = 0;
    for (size_t i = 0; i < r->n_runs; i++) {
        must(r->runs[i].start == at && r->runs[i].len > 0);
        must(r->runs[i].origin != ORIGIN_REPLY); /* the variables have none */
        at += r->runs[i].len;
    }
    must(at == r->len && r->text[r->len] == '\0');
}

static void render(const struct template *t, const char *json, size_t n)
{
    /* Little of everything: a fuzzer finds the way to all limits. */
    const struct template_options limits = {.fuel = 200000,
                                            .max_depth = 100,
                                            .max_output_bytes = 1 << 20,
                                            .max_memory_bytes = 16 << 20,
                                            .now = &now};
    struct err err = {0};
    struct value_pool *pool = value_pool_new();
    struct value *globals = value_from_json_context(pool, json, n, "variables", &err);
    struct rendering out;
    if (!globals)
        must_be_refusal(&err);
    else if (template_render(t, globals, &limits, &out, &err)) {
        check_rendering(&out);
        rendering_free(&out);
    } else
        must_be_refusal(&err);
    value_pool_free(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *source = (const char *)data;
    const uint8_t *nul = n_bytes ? memchr(data, 0, n_bytes) : NULL;
    size_t n = nul ? (size_t)(nul - data) : n_bytes;
    struct err err = {0};
    struct template *t = template_parse(source, n, "fuzz", &err);
    if (!t) {
        must_be_refusal(&err);
        return 0;
    }
    template_mentions(t, "tools");
    if (nul)
        render(t, source + n + 1, n_bytes - n - 1);
    else
        render(t, usual, sizeof usual - 1);
    template_free(t);
    return 0;
}
