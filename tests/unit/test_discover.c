/* Names, manifests and settings of models that other programs keep. (tests/shell/models.sh
 * walks folders.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "chat/discover.h"
#include "chat/modelfile.h"

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
        if (discover_digest(none[i], strlen(none[i]), FOUND_WEIGHTS, out))
            fail_msg("%s", none[i]);
    static const char good[] =
        "{\"layers\":[{\"digest\":7},{" MODEL ",\"digest\":\"sha256:" DIGITS "\"}]}";
    assert_true(discover_digest(good, strlen(good), FOUND_WEIGHTS, out));
    assert_string_equal(out, DIGITS);
    assert_false(discover_digest(good, strlen(good), FOUND_ADAPTER, out));
    static const char tuned[] =
        "{\"layers\":[{" MODEL ",\"digest\":\"sha256:" DIGITS "\"},{\"mediaType\":"
        "\"application/vnd.ollama.image.adapter\",\"digest\":\"sha256:" OTHER_DIGITS "\"}]}";
    assert_true(discover_digest(tuned, strlen(tuned), FOUND_WEIGHTS, out));
    assert_string_equal(out, DIGITS);
    assert_true(discover_digest(tuned, strlen(tuned), FOUND_ADAPTER, out));
    assert_string_equal(out, OTHER_DIGITS);
}

static void test_settings(void **unused)
{
    (void)unused;
    static const struct {
        const char *json, *lines, *left_out;
    } cases[] = {
        {"{}", "", ""},
        {"{\"temperature\":0.6,\"top_p\":1}", "temp 0.6\ntop-p 1\n", ""},
        {"{\"top_k\":-1}", "top-k 0\n", ""},
        {"{\"repeat_last_n\":-1,\"num_predict\":-2}", "repeat-last-n -1\nmax-tokens -1\n", ""},
        {"{\"seed\":9007199254740993}", "seed 9007199254740993\n", ""},
        {"{\"seed\":12345678901.0,\"num_predict\":2e9}",
         "seed 12345678901\nmax-tokens 2000000000\n", ""},
        {"{\"temperature\":0.1234567891}", "temp 0.1234567891\n", ""},
        {"{\"seed\":-1,\"num_ctx\":8192,\"num_gpu\":1,\"use_mmap\":true}", "", ""},
        {"{\"mirostat\":0,\"tfs_z\":1,\"typical_p\":1.0}", "", ""},
        {"{\"mirostat\":1,\"tfs_z\":0.5,\"penalize_newline\":false}", "", "mirostat, tfs_z"},
        {"{\"temperature\":\"hot\",\"x\\u001b\":1}", "", "temperature, x\\x1b"},
        {"{\"stop\":\"a\"}", "stop a\n", ""},
        {"{\"stop\":[\"a,b\",\" c\\n\",\"\",7]}", "stop a\\,b,\\ c\\n\n", ""},
        {"{\"stop\":[]}", "", ""},
        {"{\"stop\":7}", "", "stop"},
        {"{\"presence_penalty\":1.5,\"frequency_penalty\":-1}",
         "presence-penalty 1.5\nfrequency-penalty -1\n", ""},
        {"{\"min_p\":0.05,\"repeat_penalty\":1.1}", "min-p 0.05\nrepeat-penalty 1.1\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *json = cases[i].json;
        struct buf lines = {0}, left_out = {0};
        assert_true(modelfile_settings(json, strlen(json), &lines, &left_out));
        assert_string_equal(buf_str(&lines), cases[i].lines);
        assert_string_equal(buf_str(&left_out), cases[i].left_out);
        buf_free(&lines);
        buf_free(&left_out);
    }
    static const char *const none[] = {"", "7", "[]", "{\"a\":", "{\"temperature\":0.6} x"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        struct buf lines = {0}, left_out = {0};
        assert_false(modelfile_settings(none[i], strlen(none[i]), &lines, &left_out));
        assert_int_equal(lines.len + left_out.len, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_manifests),
                                       cmocka_unit_test(test_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
