/* Whole chat templates of our own, in four manners, with renderings written by hand
 * (tests/data/templates: NAME.jinja and the cases of NAME.json), and the built-in ChatML. */
#include <jansson.h>

#include "../template_case.h"
#include "base/buf.h"
#include "base/file.h"
#include "template/builtin_templates.h"

static void check_case(const char *source, json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    const char *expected = json_string_value(json_object_get(c, "expected"));
    const char *error = json_string_value(json_object_get(c, "error"));
    char *variables = json_dumps(json_object_get(c, "variables"), 0);
    assert_true(name && variables && (expected || error));
    struct err err = {0};
    struct rendering out;
    bool ok = render_case(source, variables, NULL, &out, &err);
    if (error) {
        if (ok || !strstr(err.msg, error)) fail_msg("%s: %s", name, ok ? out.text : err.msg);
    } else {
        if (!ok) fail_msg("%s: %s", name, err.msg);
        if (strcmp(out.text, expected) != 0)
            fail_msg("%s\n  renders  %s\n  expected %s", name, out.text, expected);
    }
    rendering_free(&out);
    free(variables);
}

static void check_file(const char *name)
{
    char path[200];
    struct err err = {0};
    struct buf source = {0}, cases = {0};
    snprintf(path, sizeof path, "tests/data/templates/%s.jinja", name);
    if (!file_read(path, 1 << 20, &source, &err)) fail_msg("%s", err.msg);
    snprintf(path, sizeof path, "tests/data/templates/%s.json", name);
    if (!file_read(path, 1 << 20, &cases, &err)) fail_msg("%s", err.msg);
    json_error_t why;
    json_t *list = json_loadb(cases.data, cases.len, 0, &why);
    if (!list) fail_msg("%s: line %d: %s", path, why.line, why.text);
    assert_true(json_array_size(list) > 0);
    for (size_t i = 0; i < json_array_size(list); i++)
        check_case(buf_str(&source), json_array_get(list, i));
    json_decref(list);
    buf_free(&source);
    buf_free(&cases);
}

static void test_chatml_tools(void **state)
{
    (void)state;
    check_file("chatml_tools");
}

static void test_headers(void **state)
{
    (void)state;
    check_file("headers");
}

static void test_instructions(void **state)
{
    (void)state;
    check_file("instructions");
}

static void test_channels(void **state)
{
    (void)state;
    check_file("channels");
}

static void test_built_in(void **state)
{
    (void)state;
    check_rendering(template_builtin("chatml"),
                    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},"
                    "{\"role\":\"user\",\"content\":\" Hi \"}],\"add_generation_prompt\":true}",
                    "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
                    "<|im_start|>assistant\n");
    check_rendering(template_builtin("chatml"), "{\"messages\":[]}", "");
    check_rendering(template_builtin("raw"),
                    "{\"messages\":[{\"role\":\"user\",\"content\":\" Once\\n\"},"
                    "{\"role\":\"assistant\",\"content\":\"upon \"}],"
                    "\"add_generation_prompt\":true}",
                    " Once\nupon ");
    assert_null(template_builtin("Raw"));
}

/* A template that files have by its name alone. */
static void test_named(void **state)
{
    (void)state;
    check_rendering("rwkv-world",
                    "{\"bos_token\":\"<s>\",\"messages\":["
                    "{\"role\":\"system\",\"content\":\"Be brief.\"},"
                    "{\"role\":\"user\",\"content\":\" Hi\\n\"},"
                    "{\"role\":\"assistant\",\"content\":\" <think>x</think>\\nHello. \"},"
                    "{\"role\":\"user\",\"content\":\"More\"}],"
                    "\"add_generation_prompt\":true}",
                    "<s>System: Be brief.\n\nUser: Hi\n\nAssistant: Hello.\n\nUser: More\n\n"
                    "Assistant:");
    check_rendering("rwkv-world", "{\"bos_token\":\"\",\"messages\":[]}", "");
    check_rendering("rwkv-worlds", "{\"messages\":[]}", "rwkv-worlds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chatml_tools), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_instructions), cmocka_unit_test(test_channels),
        cmocka_unit_test(test_built_in),     cmocka_unit_test(test_named),
    };
    return cmocka_run_group_tests_name("template_files", tests, NULL, NULL);
}
