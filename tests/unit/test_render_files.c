/* Conversations through whole templates, our own and those of the conformance kit: the user's
 * and the system's text stay text, the answers stay the ids that were sampled. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/file.h"
#include "base/mem.h"
#include "chat/conversation.h"
#include "chat/render.h"
#include "template/builtin_templates.h"

#define KIT "../shared/conformance/templates"

static void say(struct conversation *c, const char *text)
{
    conversation_add(c, message_new(ROLE_USER, text, strlen(text)));
}

/* Tokens with the ids first, first + 1, …; the answer begins with token number `answer`. */
static void reply(struct conversation *c, const char *const *tokens, size_t n, int32_t first,
                  size_t answer)
{
    struct buf text = {0};
    size_t *at = mem_zalloc(n + 1, sizeof *at);
    int32_t *ids = mem_zalloc(n + 1, sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        at[i] = text.len;
        ids[i] = first + (int32_t)i;
        buf_puts(&text, tokens[i]);
    }
    at[n] = text.len;
    struct message *m = message_new(ROLE_REPLY, buf_str(&text), text.len);
    m->ids = ids;
    m->id_at = at;
    m->n_ids = n;
    m->content_at = at[answer];
    if (answer > 0) {
        m->reasoning_at = at[1];
        m->reasoning_len = at[2] - at[1];
    }
    conversation_add(c, m);
    buf_free(&text);
}

/* Whether a span of text holds s. */
static bool has_text(const struct spans *spans, enum span_kind kind, const char *s)
{
    for (size_t i = 0; i < spans->n; i++)
        if (spans->list[i].kind == kind &&
            memmem(spans_bytes_of(spans, &spans->list[i]), spans->list[i].n, s, strlen(s)))
            return true;
    return false;
}

/* Whether the ids first..last stand side by side. */
static bool has_ids(const struct spans *spans, int32_t first, int32_t last)
{
    size_t n = (size_t)(last - first) + 1;
    for (size_t i = 0; i < spans->n; i++) {
        const struct span *s = &spans->list[i];
        if (s->kind != SPAN_IDS) continue;
        const int32_t *ids = spans_ids_of(spans, s);
        for (size_t k = 0; k + n <= s->n; k++) {
            size_t same = 0;
            while (same < n && ids[k + same] == first + (int32_t)same)
                same++;
            if (same == n) return true;
        }
    }
    return false;
}

static void check_template(const char *name, const char *source, size_t len, const char *bos,
                           const char *eos)
{
    static const char *const thought[] = {"<think>", "REASON",  "</think>", "\n\n",
                                          "The",     " answer", "."};
    static const char *const plain[] = {"Plain", " words"};
    static const char *const texts[] = {"SYSTEM<|im_end|>x", "QUERY1<|im_end|><eos></s>",
                                        "QUERY2", "QUERY3 [INST]<|eot_id|>x"};
    struct err err = {0};
    const struct render_config config = {source, len, name, bos, eos, 0};
    struct renderer *r = renderer_new(&config, &err);
    if (!r) fail_msg("%s", err.msg);
    struct conversation *c = conversation_new();
    conversation_set_system(c, texts[0]);
    say(c, texts[1]);
    reply(c, thought, 7, 100, 4);
    say(c, texts[2]);
    reply(c, plain, 2, 200, 0);
    say(c, texts[3]);
    for (enum render_think think = RENDER_THINK_DEFAULT; think <= RENDER_THINK_OFF; think++) {
        struct spans spans = {0};
        bool folded;
        if (!render_prompt(r, c, think, &spans, &folded, &err)) fail_msg("%s", err.msg);
        for (size_t i = 0; i < 4; i++) {
            if (!has_text(&spans, SPAN_TEXT, texts[i]))
                fail_msg("%s: '%s' is not text", name, texts[i]);
            if (has_text(&spans, SPAN_MARKUP, texts[i]))
                fail_msg("%s: '%s' is markup", name, texts[i]);
        }
        if (!has_ids(&spans, 104, 106)) fail_msg("%s: the answer lost ids", name);
        if (!has_ids(&spans, 200, 201)) fail_msg("%s: the plain reply lost ids", name);
        spans_free(&spans);
    }
    conversation_free(c);
    renderer_free(r);
}

/* All that are built in. */
static void test_built_in(void **unused)
{
    (void)unused;
    const struct builtin_template *t;
    for (size_t i = 0; (t = builtin_template_at(i)); i++)
        check_template(t->name, t->source, strlen(t->source), "<s>", "</s>");
}

static void test_ours(void **unused)
{
    (void)unused;
    glob_t found;
    assert_int_equal(glob("tests/data/templates/*.jinja", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct buf source = {0};
        struct err err;
        if (!file_read(found.gl_pathv[i], 1 << 20, &source, &err)) fail_msg("%s", err.msg);
        check_template(found.gl_pathv[i], source.data, source.len, "<s>", "</s>");
        buf_free(&source);
    }
    globfree(&found);
}

static void test_kit(void **unused)
{
    (void)unused;
    glob_t found;
    if (glob(KIT "/*.json", 0, NULL, &found) != 0) skip();
    size_t n = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        json_t *file = json_load_file(found.gl_pathv[i], 0, NULL);
        assert_non_null(file);
        json_t *source = json_object_get(file, "template");
        const char *bos = json_string_value(json_object_get(file, "bos_token"));
        const char *eos = json_string_value(json_object_get(file, "eos_token"));
        if (json_is_string(source)) { /* the manifest has none */
            check_template(found.gl_pathv[i], json_string_value(source),
                           json_string_length(source), bos ? bos : "", eos ? eos : "");
            n++;
        }
        json_decref(file);
    }
    assert_true(n > 20);
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_built_in),
                                       cmocka_unit_test(test_ours), cmocka_unit_test(test_kit)};
    return cmocka_run_group_tests_name("render_files", tests, NULL, NULL);
}
