/* Names and manifests of models that other programs keep. (tests/shell/models.sh walks
 * folders.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "chat/discover.h"

static void test_names(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        bool is_model;
    } cases[] = {
        {"a.gguf", true},
        {"A.GGUF", true},
        {".gguf", true},
        {"gguf", false},
        {"a.gguf.part", false},
        {"a.bin", false},
        {"mmproj-a.gguf", false},
        {"a-mmproj-f16.gguf", false},
        {"a-00001-of-00003.gguf", true},
        {"a-00002-of-00003.gguf", false},
        {"a-10000-of-20000.gguf", false},
        {"a-0002-of-0003.gguf", true},
        {"-00002-of-00003.gguf", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (discover_is_model_name(cases[i].name) != cases[i].is_model)
            fail_msg("%s", cases[i].name);
}

#define MODEL "\"mediaType\":\"application/vnd.ollama.image.model\""
#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define OTHER_DIGITS "00000000000000000000000000000000000000000000000000000000000000aa"

static void test_manifests(void **unused)
{
    (void)unused;
    static const char *const none[] = {
        "",
        "null",
        "[]",
        "{\"layers\":{}}",
        "{\"layers\":[{" MODEL "}]}",
        "{\"layers\":[{" MODEL ",\"digest\":\"" DIGITS "\"}]}",
        "{\"layers\":[{" MODEL ",\"digest\":\"sha256:" DIGITS "0\"}]}",
        "{\"layers\":[{" MODEL ",\"digest\":\"sha256:../" DIGITS "\"}]}",
        "{\"layers\":[{\"mediaType\":\"x\",\"digest\":\"sha256:" DIGITS "\"}]}",
        "{\"layers\":[{" MODEL ",\"digest\":\"sha256:" DIGITS "\"}]",
    };
    char out[65];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (discover_digest(none[i], strlen(none[i]), LAYER_WEIGHTS, out))
            fail_msg("%s", none[i]);
    static const char good[] =
        "{\"layers\":[{\"digest\":7},{" MODEL ",\"digest\":\"sha256:" DIGITS "\"}]}";
    assert_true(discover_digest(good, strlen(good), LAYER_WEIGHTS, out));
    assert_string_equal(out, DIGITS);
    assert_false(discover_digest(good, strlen(good), LAYER_ADAPTER, out));
    static const char tuned[] =
        "{\"layers\":[{" MODEL ",\"digest\":\"sha256:" DIGITS "\"},{\"mediaType\":"
        "\"application/vnd.ollama.image.adapter\",\"digest\":\"sha256:" OTHER_DIGITS "\"}]}";
    assert_true(discover_digest(tuned, strlen(tuned), LAYER_WEIGHTS, out));
    assert_string_equal(out, DIGITS);
    assert_true(discover_digest(tuned, strlen(tuned), LAYER_ADAPTER, out));
    assert_string_equal(out, OTHER_DIGITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_manifests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
