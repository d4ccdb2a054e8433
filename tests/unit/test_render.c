/* A conversation as spans: what is markup, what is text, which sampled ids stay ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/philox.h"
#include "chat/conversation.h"
#include "chat/render.h"
#include "config/options.h"
#include "template/builtin_templates.h"

/* "M:<s>|T:Hi|I:1 2" */
static char *spell(const struct spans *s)
{
    struct buf out = {0};
    for (size_t i = 0; i < s->n; i++) {
        const struct span *span = &s->list[i];
        buf_printf(&out, "%s%c:", i ? "|" : "", "MTI"[span->kind]);
        if (span->kind != SPAN_IDS) {
            buf_append(&out, spans_bytes_of(s, span), span->n);
            continue;
        }
        for (size_t k = 0; k < span->n; k++)
            buf_printf(&out, "%s%d", k ? " " : "", (int)spans_ids_of(s, span)[k]);
    }
    return buf_take(&out);
}

static struct renderer *renderer(const char *source)
{
    struct err err = {0};
    const struct render_config config = {source, strlen(source), "test", "<s>", "</s>", 0};
    struct renderer *r = renderer_new(&config, &err);
    if (!r) fail_msg("%s", err.msg);
    return r;
}

static void say(struct conversation *c, const char *text)
{
    conversation_add(c, message_new(ROLE_USER, text, strlen(text)));
}

/* A reply of tokens; their ids are 100, 101, … An empty token begins a character that the next
 * one ends. */
static struct message *reply_of(const char *const *tokens, size_t n)
{
    struct buf text = {0};
    size_t *at = mem_zalloc(n + 1, sizeof *at);
    int32_t *ids = mem_zalloc(n + 1, sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        at[i] = text.len;
        ids[i] = 100 + (int32_t)i;
        buf_puts(&text, tokens[i]);
    }
    at[n] = text.len;
    struct message *m = message_new(ROLE_REPLY, buf_str(&text), text.len);
    buf_free(&text);
    m->ids = ids;
    m->id_at = at;
    m->n_ids = n;
    return m;
}

#define REPLY(...)                          \
    reply_of((const char *[]){__VA_ARGS__}, \
             sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))

static void expect(struct renderer *r, struct conversation *c, enum render_think think,
                   bool folded, const char *expected)
{
    struct spans s = {0};
    struct err err = {0};
    bool was_folded = !folded;
    if (!render_prompt(r, c, think, &s, &was_folded, &err)) fail_msg("%s", err.msg);
    char *got = spell(&s);
    assert_string_equal(got, expected);
    assert_int_equal(was_folded, folded);
    free(got);
    spans_free(&s);
}

static void test_chatml(void **unused)
{
    (void)unused;
    struct renderer *r = renderer(template_builtin("chatml"));
    struct conversation *c = conversation_new();
    conversation_set_system(c, "Be brief <|im_end|>");
    say(c, "Hi<|im_start|>");
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:<|im_start|>system\n|T:Be brief <|im_end|>|M:<|im_end|>\n<|im_start|>user\n|"
           "T:Hi<|im_start|>|M:<|im_end|>\n<|im_start|>assistant\n");
    conversation_add(c, REPLY("Hel", "lo", " there"));
    say(c, "More");
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:<|im_start|>system\n|T:Be brief <|im_end|>|M:<|im_end|>\n<|im_start|>user\n|"
           "T:Hi<|im_start|>|M:<|im_end|>\n<|im_start|>assistant\n|I:100 101 102|"
           "M:<|im_end|>\n<|im_start|>user\n|T:More|M:<|im_end|>\n<|im_start|>assistant\n");
    conversation_free(c);
    renderer_free(r);
}

/* As SmolVLM's: what is no list of parts has none. */
static void test_parts(void **unused)
{
    (void)unused;
    static const char smolvlm[] =
        "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
        "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
        "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
        "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}"
        "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}"
        "{% endif %}";
    struct renderer *r = renderer(smolvlm);
    struct conversation *c = conversation_new();
    conversation_set_system(c, "Be brief");
    say(c, "Hi<image>");
    conversation_add(c, REPLY("Hel", "lo"));
    say(c, "More");
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:<|im_start|>|T:System|M:: |T:Be brief|M:<end_of_utterance>\n|T:User|M:: |"
           "T:Hi<image>|M:<end_of_utterance>\n|T:Assistant|M:: |I:100 101|"
           "M:<end_of_utterance>\n|T:User|M:: |T:More|M:<end_of_utterance>\nAssistant:");
    conversation_free(c);
    renderer_free(r);
}

static char *of_reply(const struct message *m, size_t at, size_t n)
{
    struct spans s = {0};
    render_reply(m, at, n, &s);
    char *out = spell(&s);
    spans_free(&s);
    return out;
}

static void expect_reply(const struct message *m, size_t at, size_t n, const char *expected)
{
    char *got = of_reply(m, at, n);
    assert_string_equal(got, expected);
    free(got);
}

static void test_reply_parts(void **unused)
{
    (void)unused;
    struct message *m = REPLY(" Hel", "lo", "\n\n", "", "", "é", "!");
    expect_reply(m, 0, m->len, "I:100 101 102 103 104 105 106");
    expect_reply(m, 1, m->len - 1, "T:Hel|I:101 102 103 104 105 106");
    expect_reply(m, 0, 6, "I:100 101");
    expect_reply(m, 0, 7, "I:100 101|T:\n");
    expect_reply(m, 0, 8, "I:100 101 102");
    expect_reply(m, 8, 2, "I:103 104 105");
    expect_reply(m, 5, 1, "T:o");
    expect_reply(m, 2, 1, "T:e");
    message_release(m);

    /* Text that has no id. */
    m = REPLY(" Hel", "lo", "!");
    m->ids[1] = -1;
    expect_reply(m, 0, m->len, "I:100|T:lo|I:102");
    message_release(m);

    /* A stop string cut the last token: its rest is text. */
    m = message_new(ROLE_REPLY, "one two", 7);
    m->ids = mem_zalloc(2, sizeof *m->ids);
    m->id_at = mem_zalloc(2, sizeof *m->id_at);
    m->ids[0] = 5;
    m->id_at[1] = 3;
    m->n_ids = 1;
    expect_reply(m, 0, 7, "I:5|T: two");
    expect_reply(m, 3, 4, "T: two");
    message_release(m);

    /* Text without ids. */
    m = message_new(ROLE_REPLY, "broken", 6);
    m->id_at = mem_zalloc(1, sizeof *m->id_at);
    expect_reply(m, 0, 6, "T:broken");
    message_release(m);
}

/* Spans that are used again hold nothing of what they held. */
static void test_cleared(void **unused)
{
    (void)unused;
    struct message *m = REPLY(" Hel", "lo");
    struct spans s = {0};
    render_reply(m, 1, 5, &s);
    assert_true(s.n == 2 && s.bytes.len == 3 && s.ids.n == 1);
    spans_clear(&s);
    assert_true(s.n == 0 && s.bytes.len == 0 && s.ids.n == 0);
    render_reply(m, 1, 5, &s);
    assert_int_equal(s.n, 2);
    spans_free(&s);
    assert_true(s.n == 0 && !s.list);
    message_release(m);
}

/* Any stretch of a random reply: the texts of ids and of the rest are that stretch, and no id
 * is missing that lies wholly inside. */
static void test_reply_random(void **unused)
{
    (void)unused;
    for (uint32_t round = 0; round < 300; round++) {
        const char *tokens[12];
        static const char *const pool[] = {"", "a", "bc", "def", " ", "\n\n"};
        size_t n = 1 + philox(3, round, 0, 0, PHILOX_BENCH).word[0] % 12;
        for (size_t i = 0; i < n; i++)
            tokens[i] = pool[philox(4, round, (uint32_t)i, 0, PHILOX_BENCH).word[0] % 6];
        tokens[n - 1] = "end";
        struct message *m = reply_of(tokens, n);
        for (size_t at = 0; at <= m->len; at++)
            for (size_t len = 1; at + len <= m->len; len++) {
                struct spans s = {0};
                render_reply(m, at, len, &s);
                struct buf text = {0};
                size_t n_ids = 0, want_ids = 0;
                for (size_t i = 0; i < s.n; i++) {
                    const struct span *span = &s.list[i];
                    if (span->kind != SPAN_IDS) {
                        buf_append(&text, spans_bytes_of(&s, span), span->n);
                        continue;
                    }
                    n_ids += span->n;
                    for (size_t k = 0; k < span->n; k++)
                        buf_puts(&text, tokens[spans_ids_of(&s, span)[k] - 100]);
                }
                for (size_t i = 0; i < n; i++)
                    want_ids += *tokens[i] && m->id_at[i] >= at && m->id_at[i + 1] <= at + len;
                assert_int_equal(text.len, len);
                assert_memory_equal(text.data, m->text + at, len);
                assert_true(n_ids >= want_ids);
                buf_free(&text);
                spans_free(&s);
            }
        message_release(m);
    }
}

/* No tools and no documents: there are templates that take them for given if they are not none.
 */
static void test_no_tools(void **unused)
{
    (void)unused;
    struct renderer *r = renderer("{% if tools is not none %}{{ tools | tojson }}{% endif %}"
                                  "{% if documents is not none %}{{ documents | tojson }}"
                                  "{% endif %}{{ messages[0].content }}");
    struct conversation *c = conversation_new();
    say(c, "q");
    expect(r, c, RENDER_THINK_DEFAULT, false, "T:q");
    renderer_free(r);
    r = renderer("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
    expect(r, c, RENDER_THINK_DEFAULT, false, "M:<s>|T:q|M:</s>");
    renderer_free(r);
    r = renderer("{% if tools is defined and documents is defined %}none{% endif %}");
    expect(r, c, RENDER_THINK_DEFAULT, false, "M:none");
    renderer_free(r);
    r = renderer("{% for t in tools %}{{ t }}{% endfor %}{{ messages[0].content }}");
    expect(r, c, RENDER_THINK_DEFAULT, false, "T:q");
    renderer_free(r);
    conversation_free(c);
}

/* A template that cuts earlier reasoning: what is left of the reply stays ids. */
static void test_reasoning(void **unused)
{
    (void)unused;
    static const char by_key[] =
        "{% for m in messages %}[{{ m.role }}]"
        "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>"
        "{% endif %}{{ m.content }}{% endfor %}"
        "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}";
    static const char always[] =
        "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content is defined %}"
        "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}{% endfor %}";
    static const char by_text[] = "{% for m in messages %}[{{ m.role }}]"
                                  "{{ m.content.split('</think>')[-1] }}{% endfor %}";
    static const char unknowing[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
                                    "{% endfor %}";
    struct conversation *c = conversation_new();
    struct message *m = REPLY("<think>", "hm", "</think>", "\n\n", "Yes", ".");
    m->reasoning_at = 7;
    m->reasoning_len = 2;
    m->content_at = 19;
    say(c, "q");
    conversation_add(c, m);
    say(c, "r");
    struct renderer *r = renderer(by_key);
    assert_true(render_knows_think(r));
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:[assistant]|I:104 105|M:[user]|T:r");
    expect(r, c, RENDER_THINK_OFF, false,
           "M:[user]|T:q|M:[assistant]|I:104 105|M:[user]|T:r|M:<think></think>");
    expect(r, c, RENDER_THINK_ON, false, "M:[user]|T:q|M:[assistant]|I:104 105|M:[user]|T:r");
    renderer_free(r);
    r = renderer(
        "{% for m in messages %}{% if m.thinking or m.type == 'thinking' %}x{% endif %}"
        "{% endfor %}");
    assert_int_equal(render_think_of(THINK_ON), RENDER_THINK_ON);
    assert_int_equal(render_think_of(THINK_OFF), RENDER_THINK_OFF);
    assert_int_equal(render_think_of(THINK_SHOW), RENDER_THINK_DEFAULT);
    assert_false(render_knows_think(r)); /* an attribute and a string are no switch */
    renderer_free(r);
    r = renderer("{% if thinking is defined %}{{ 'on' if thinking else 'off' }}{% endif %}");
    expect(r, c, RENDER_THINK_OFF, false, "M:off");
    expect(r, c, RENDER_THINK_ON, false, "M:on");
    expect(r, c, RENDER_THINK_DEFAULT, false, "");
    renderer_free(r);
    r = renderer(always);
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:[assistant]<think>|I:101|M:</think>|I:104 105|M:[user]|T:r");
    m->reasoning_len = 0; /* a thought of nothing is none */
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:[assistant]|I:104 105|M:[user]|T:r");
    m->reasoning_len = 2;
    renderer_free(r);
    r = renderer("{% for m in messages %}{{ m.content | upper }}"
                 "{% if m.reasoning_content %}/{% endif %}{% endfor %}");
    expect(r, c, RENDER_THINK_DEFAULT, false, "T:QYES.|M:/|T:R");
    renderer_free(r);
    r = renderer(by_text);
    assert_false(render_knows_think(r));
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:[assistant]|I:103 104 105|M:[user]|T:r");
    renderer_free(r);
    r = renderer(unknowing);
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:[assistant]|I:100 101 102 103 104 105|M:[user]|T:r");
    renderer_free(r);
    conversation_free(c);
}

/* A reply that was stopped while it thought, in a template that refuses empty answers. */
static void test_reasoning_alone(void **unused)
{
    (void)unused;
    static const char source[] =
        "{% for m in messages %}{% if not m.content %}{{ raise_exception('empty') }}{% endif %}"
        "[{{ m.role }}]{{ m.content }}{% if m.thinking %}({{ m.thinking }}){% endif %}"
        "{% endfor %}";
    struct conversation *c = conversation_new();
    say(c, "q");
    struct message *m = REPLY("<think>", "a", "b");
    m->content_at = m->len;
    m->reasoning_at = 7;
    m->reasoning_len = 2;
    conversation_add(c, m);
    say(c, "r");
    struct renderer *r = renderer(source);
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:[assistant]|I:100 101 102|M:[user]|T:r");
    renderer_free(r);
    /* One that takes them has the thought where it belongs. */
    r = renderer(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}({{ m.thinking | upper }})"
        "{% endfor %}");
    expect(r, c, RENDER_THINK_DEFAULT, false,
           "M:[user]|T:q|M:()[assistant](|T:AB|M:)[user]|T:r|M:()");
    renderer_free(r);
    conversation_free(c);
}

static const char ignores_system[] =
    "{% for m in messages %}{% if m.role != 'system' %}"
    "[{{ m.role }}]{{ m.content | trim }}{% endif %}{% endfor %}";

/* What a template makes of the conversation, and whether the system message was folded. */
static void shows(struct conversation *c, const char *source, bool folded, const char *expected)
{
    struct renderer *r = renderer(source);
    expect(r, c, RENDER_THINK_DEFAULT, folded, expected);
    renderer_free(r);
}

/* A conversation of one message, "q", under a system message. */
static struct conversation *told(const char *system)
{
    struct conversation *c = conversation_new();
    conversation_set_system(c, system);
    say(c, "q");
    return c;
}

/* A template that refuses the system message, or leaves it out, gets it in the user's. */
static void test_system_is_folded(void **unused)
{
    (void)unused;
    static const char refuses[] =
        "{% for m in messages %}{% if m.role == 'system' %}"
        "{{ raise_exception('no system role here') }}{% endif %}[{{ m.role }}]{{ m.content }}"
        "{% endfor %}";
    struct conversation *c = told(" Be kind. ");
    shows(c, refuses, true, "M:[user]|T: Be kind. \n\nq");
    shows(c, ignores_system, true, "M:[user]|T:Be kind. \n\nq");
    /* Into the first message, and where that is refused, too, nowhere. */
    conversation_add(c, REPLY("A", "b"));
    say(c, "r");
    shows(c, ignores_system, true,
          "M:[user]|T:Be kind. \n\nq|M:[assistant]|I:100 101|M:[user]|T:r");
    shows(c,
          "{% for m in messages %}{% if m.role != 'system' %}{% if 'kind' in m.content %}"
          "{{ raise_exception('too kind') }}{% endif %}{{ m.content }}{% endif %}{% endfor %}",
          false, "T:q|I:100 101|T:r");
    conversation_free(c);
}

/* One that trims it has it all the same, and so has one that spells it in its own way, whatever
 * it says. */
static void test_system_is_shown_otherwise(void **unused)
{
    (void)unused;
    struct conversation *c = told(" Be kind. ");
    shows(c, "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}", false,
          "M:[system]|T:Be kind.|M:[user]|T:q");
    shows(c, "{% for m in messages %}[{{ m.role }}]{{ m.content | tojson }}{% endfor %}", false,
          "M:[system]|T:\" Be kind. \"|M:[user]|T:\"q\"");
    shows(c, "{% for m in messages %}[{{ m.role }}]{{ m.content | upper }}{% endfor %}", false,
          "M:[system]|T: BE KIND. |M:[user]|T:Q");

    static const char *const others[] = {"One.", "Two.", "Another one."};
    for (size_t i = 0; i < 3; i++) {
        char expected[80];
        snprintf(expected, sizeof expected, "T:\"%s\"|M:[user]|T:\"q\"", others[i]);
        conversation_set_system(c, others[i]);
        shows(c,
              "{% for m in messages %}{% if m.role == 'user' %}[user]{% endif %}"
              "{{ m.content | tojson }}{% endfor %}",
              false, expected);
    }
    conversation_free(c);
}

/* Its words in the template or in what the user says are not it; nor need all of it be there.
 */
static void test_system_is_told_by_origin(void **unused)
{
    (void)unused;
    static const char drops_switch[] = "{% for m in messages %}[{{ m.role }}]"
                                       "{{ m.content.replace('/no_think', '') | trim }}"
                                       "{% endfor %}";
    struct conversation *c = told("user");
    shows(c, ignores_system, true, "M:[user]|T:user\n\nq");
    conversation_set_system(c, "q");
    shows(c, ignores_system, true, "M:[user]|T:q\n\nq");
    conversation_set_system(c, "Be kind. /no_think");
    shows(c, drops_switch, false, "M:[system]|T:Be kind.|M:[user]|T:q");
    conversation_set_system(c, "/no_think "); /* a switch that is all of it */
    shows(c, drops_switch, false, "M:[system][user]|T:q");
    shows(c, ignores_system, true, "M:[user]|T:/no_think \n\nq");
    conversation_free(c);
}

/* What the template complains of otherwise is said in its own words. */
static void test_complaint_beside_system(void **unused)
{
    (void)unused;
    struct conversation *c = told("/no_think ");
    struct renderer *r = renderer("{{ bos_token }}{{ raise_exception('never') }}");
    struct spans s = {0};
    struct err err = {0};
    bool folded;
    assert_false(render_prompt(r, c, RENDER_THINK_DEFAULT, &s, &folded, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg, "test: line 1: never");
    assert_int_equal(s.n, 0);
    renderer_free(r);
    spans_free(&s);
    conversation_free(c);
}

/* Going on with a reply: its prompt and all of its ids, also of what the template would cut. */
static void test_continued(void **unused)
{
    (void)unused;
    struct renderer *r = renderer(template_builtin("chatml"));
    struct conversation *c = conversation_new();
    say(c, "q");
    conversation_add(c, REPLY(" A", " b"));
    struct spans s = {0};
    struct err err = {0};
    bool folded;
    assert_true(render_continued(r, c, RENDER_THINK_DEFAULT, &s, &folded, &err));
    char *got = spell(&s);
    assert_string_equal(
        got, "M:<|im_start|>user\n|T:q|M:<|im_end|>\n<|im_start|>assistant\n|I:100 101");
    free(got);
    spans_free(&s);
    renderer_free(r);
    conversation_free(c);
}

static void expect_begun(struct renderer *r, struct conversation *c, const char *text,
                         size_t n_known, const char *expected)
{
    struct message *m = message_new(ROLE_USER, text, strlen(text));
    struct spans s = {0};
    bool ok = render_begun(r, c, RENDER_THINK_DEFAULT, m, n_known, &s);
    assert_int_equal(ok, expected != NULL);
    char *got = spell(&s);
    assert_string_equal(got, expected ? expected : "");
    free(got);
    spans_free(&s);
    message_release(m);
}

/* The beginning of a prompt whose last message is not written to its end. */
static void test_begun(void **unused)
{
    (void)unused;
    struct conversation *c = conversation_new();
    struct renderer *r = renderer(template_builtin("chatml"));
    expect_begun(r, c, "Hex", 2, "M:<|im_start|>user\n|T:He");
    expect_begun(r, c, "x", 0, "M:<|im_start|>user\n");
    say(c, "q");
    conversation_add(c, REPLY("A", "b"));
    expect_begun(r, c, "Hex", 2,
                 "M:<|im_start|>user\n|T:q|M:<|im_end|>\n<|im_start|>assistant\n|I:100 101|"
                 "M:<|im_end|>\n<|im_start|>user\n|T:He");
    assert_int_equal(conversation_n(c), 2);
    renderer_free(r);
    /* Cut and trimmed. */
    r = renderer("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}");
    expect_begun(r, c, "  He x", 5, "M:[|T:q|M:][|I:100 101|M:][|T:He ");
    expect_begun(r, c, "  He x", 1, "M:[|T:q|M:][|I:100 101|M:][");
    renderer_free(r);
    /* A template that shows the message otherwise, or not at all. */
    r = renderer("{% for m in messages %}[{{ m.content | upper }}]{% endfor %}");
    expect_begun(r, c, "Hex", 2, NULL);
    renderer_free(r);
    /* A system message that is put into the first message of the user, unless it is this. */
    r = renderer(ignores_system);
    conversation_set_system(c, "S");
    expect_begun(r, c, "Hex", 2, "M:[user]|T:S\n\nq|M:[assistant]|I:100 101|M:[user]|T:He");
    conversation_rewind(c, 0);
    expect_begun(r, c, "Hex", 2, NULL);
    renderer_free(r);
    conversation_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chatml),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_reply_parts),
        cmocka_unit_test(test_cleared),
        cmocka_unit_test(test_reply_random),
        cmocka_unit_test(test_no_tools),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_reasoning_alone),
        cmocka_unit_test(test_system_is_folded),
        cmocka_unit_test(test_system_is_shown_otherwise),
        cmocka_unit_test(test_system_is_told_by_origin),
        cmocka_unit_test(test_complaint_beside_system),
        cmocka_unit_test(test_continued),
        cmocka_unit_test(test_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
