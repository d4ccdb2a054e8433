/* The built-in chat templates: what each makes of a conversation, that this is what the makers'
 * own make of it (where the conformance kit is there), and which one a vocabulary tells. */
#include "../vocab_case.h"

#include <jansson.h>

#include "../template_case.h"
#include "base/buf.h"
#include "config/options.h"
#include "template/builtin_templates.h"
#include "text/turn_template.h"

#define KIT "../shared/conformance/templates"

/* ---- what they make ---- */

/* Spaces at the ends of what is said show who trims. */
static const char talk[] =
    "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"add_generation_prompt\":%s,\"messages\":["
    "{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"U\"},"
    "{\"role\":\"assistant\",\"content\":\"A\",\"reasoning_content\":\"R\"},"
    "{\"role\":\"user\",\"content\":\" V\"}]}";

static const struct {
    const char *name, *expected, *asked;
} made[] = {
    {"chatml",
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
     "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\n V<|im_end|>\n",
     "<|im_start|>assistant\n"},
    {"qwen3",
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
     "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\n V<|im_end|>\n",
     "<|im_start|>assistant\n"},
    {"gpt-oss",
     "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
     "Knowledge cutoff: 2024-06\nCurrent date: 2025-07-04\n\nReasoning: medium\n\n"
     "# Valid channels: analysis, commentary, final. Channel must be included for every "
     "message.<|end|><|start|>developer<|message|># Instructions\n\nS\n\n<|end|>"
     "<|start|>user<|message|>U<|end|><|start|>assistant<|channel|>final<|message|>A<|end|>"
     "<|start|>user<|message|> V<|end|>",
     "<|start|>assistant"},
    {"gemma4",
     "<s><|turn>system\nS<turn|>\n<|turn>user\nU<turn|>\n<|turn>model\nA<turn|>\n"
     "<|turn>user\nV<turn|>\n",
     "<|turn>model\n<|channel>thought\n<channel|>"},
    {"gemma",
     "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"
     "<start_of_turn>user\nV<end_of_turn>\n",
     "<start_of_turn>model\n"},
    {"deepseek3",
     "<s>S<\uff5cUser\uff5c>U<\uff5cAssistant\uff5c>A<\uff5cend\u2581of\u2581sentence\uff5c>"
     "<\uff5cUser\uff5c> V",
     "<\uff5cAssistant\uff5c>"},
    {"deepseek2",
     "<s>S\n\nUser: U\n\nAssistant: A<\uff5cend\u2581of\u2581sentence\uff5c>User:  V\n\n",
     "Assistant:"},
    {"llama4",
     "<s><|header_start|>system<|header_end|>\n\nS<|eot|>"
     "<|header_start|>user<|header_end|>\n\nU<|eot|>"
     "<|header_start|>assistant<|header_end|>\n\nA<|eot|>"
     "<|header_start|>user<|header_end|>\n\nV<|eot|>",
     "<|header_start|>assistant<|header_end|>\n\n"},
    {"llama3",
     "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|>",
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]", ""},
    {"kimi-k2",
     "<|im_system|>system<|im_middle|>S<|im_end|><|im_user|>user<|im_middle|>U<|im_end|>"
     "<|im_assistant|>assistant<|im_middle|>A<|im_end|><|im_user|>user<|im_middle|> "
     "V<|im_end|>",
     "<|im_assistant|>assistant<|im_middle|>"},
    {"phi4",
     "<|im_start|>system<|im_sep|>S<|im_end|><|im_start|>user<|im_sep|>U<|im_end|>"
     "<|im_start|>assistant<|im_sep|>A<|im_end|><|im_start|>user<|im_sep|> V<|im_end|>",
     "<|im_start|>assistant<|im_sep|>"},
    {"phi4-mini", "<|system|>S<|end|><|user|>U<|end|><|assistant|>A<|end|><|user|> V<|end|>",
     "<|assistant|>"},
    {"phi3",
     "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\n V<|end|>\n",
     "<|assistant|>\n"},
    {"falcon3", "<|system|>\nS\n<|user|>\nU\n<|assistant|>\nA</s>\n<|user|>\n V\n",
     "<|assistant|>\n"},
    {"zephyr", "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|>\n V</s>\n",
     "<|assistant|>\n"},
    {"vicuna", "<s>S USER: U ASSISTANT: A</s>USER:  V ", "ASSISTANT:"},
    {"command-r",
     "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>U<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>A<|END_OF_TURN_TOKEN|>"
     "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>V<|END_OF_TURN_TOKEN|>",
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
    {"granite",
     "<|start_of_role|>system<|end_of_role|>S<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n"
     "<|start_of_role|>assistant<|end_of_role|>A<|end_of_text|>\n"
     "<|start_of_role|>user<|end_of_role|> V<|end_of_text|>\n",
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"glm4", "[gMASK]<sop><|system|>\nS<|user|>\nU<|assistant|>\nA<|user|>\n V",
     "<|assistant|>"},
    {"glm4.5",
     "[gMASK]<sop><|system|>\nS<|user|>\nU<|assistant|>\n<think></think>\nA<|user|>\n V",
     "<|assistant|>"},
    {"exaone3", "[|system|]S[|endofturn|]\n[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n",
     "[|assistant|]"},
    {"minicpm", "<s>S<\u7528\u6237>U<AI>A<\u7528\u6237>V<AI>", ""},
    {"hunyuan-dense",
     "<s>S<\uff5chy_place\u2581holder\u2581no\u25813\uff5c><\uff5chy_User\uff5c>U"
     "<\uff5chy_Assistant\uff5c>A<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>"
     "<\uff5chy_User\uff5c> V",
     "<\uff5chy_Assistant\uff5c>"},
    {"seed-oss",
     "<seed:bos>system\nS<seed:eos><seed:bos>user\nU<seed:eos>"
     "<seed:bos>assistant\n<seed:think>R</seed:think>\nA<seed:eos><seed:bos>user\n V<seed:eos>",
     "<seed:bos>assistant\n"},
    {"minimax-m2", "]~!b[]~b]system\nS[e~[\n]~b]user\nU[e~[\n]~b]ai\nA[e~[\n]~b]user\n V[e~[\n",
     "]~b]ai\n<think>\n"},
    {"nemotron-nano",
     "<SPECIAL_10>System\nS\n\n<SPECIAL_11>User\nU\n<SPECIAL_11>Assistant\nA\n<SPECIAL_12>\n"
     "<SPECIAL_11>User\nV\n",
     "<SPECIAL_11>Assistant\n<think>\n"},
    {"bailing2",
     "<role>SYSTEM</role>S<|role_end|><role>HUMAN</role>U<|role_end|>"
     "<role>ASSISTANT</role>A<|role_end|><role>HUMAN</role> V<|role_end|>",
     "<role>ASSISTANT</role>"},
    {"mistral-v7", "<s>[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] U[/INST] A</s>[INST]  V[/INST]",
     ""},
    {"mistral-v7-tekken",
     "<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U[/INST]A</s>[INST] V[/INST]", ""},
    {"mistral-v3", "<s>[INST] U[/INST] A</s>[INST] S\n\n V[/INST]", ""},
    {"mistral-v3-tekken", "<s>[INST]U[/INST]A</s>[INST]S\n\n V[/INST]", ""},
    {"apertus",
     "<s><|system_start|>S<|system_end|><|developer_start|>Deliberation: disabled\n"
     "Tool Capabilities: disabled<|developer_end|><|user_start|>U<|user_end|>"
     "<|assistant_start|>A<|assistant_end|><|user_start|> V<|user_end|>",
     "<|assistant_start|>"},
    {"exaone4",
     "[|system|]\nS[|endofturn|]\n[|user|]\nU[|endofturn|]\n"
     "[|assistant|]\n<think>\n\n</think>\n\nA[|endofturn|]\n[|user|]\n V[|endofturn|]\n",
     "[|assistant|]\n<think>\n\n</think>\n\n"},
    {"hunyuan-moe",
     "<|startoftext|>S<|extra_4|>U<|extra_0|>A<|eos|><|startoftext|> V<|extra_0|>", ""},
    {"dots1",
     "<|system|>S<|endofsystem|><|userprompt|>U<|endofuserprompt|><|response|>A<|endofresponse|"
     ">"
     "<|userprompt|> V<|endofuserprompt|>",
     "<|response|>"},
    {"rwkv-world", "<s>System: S\n\nUser: U\n\nAssistant: A\n\nUser: V\n\n", "Assistant:"},
    {"raw", "SUA V", ""},
};

static void test_made(void **unused)
{
    (void)unused;
    size_t n = 0;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        const char *source = template_builtin(made[i].name);
        if (!source) fail_msg("%s is not built in", made[i].name);
        char variables[400], asked[900];
        snprintf(variables, sizeof variables, talk, "false");
        check_rendering(source, variables, made[i].expected);
        snprintf(variables, sizeof variables, talk, "true");
        snprintf(asked, sizeof asked, "%s%s", made[i].expected, made[i].asked);
        check_rendering(source, variables, asked);
    }
    while (builtin_template_at(n))
        n++;
    assert_int_equal(n, sizeof made / sizeof *made);
}

/* Thinking is on or off by words of the prompt. */
static void test_switches(void **unused)
{
    (void)unused;
    check_rendering(template_builtin("gemma4"),
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],"
                    "\"enable_thinking\":true,\"add_generation_prompt\":true}",
                    "<|turn>system\n<|think|>\n<turn|>\n<|turn>user\nU<turn|>\n<|turn>model\n");
    check_rendering(template_builtin("glm4.5"),
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],"
                    "\"enable_thinking\":false,\"add_generation_prompt\":true}",
                    "[gMASK]<sop><|user|>\nU/nothink<|assistant|>\n<think></think>");
    check_rendering(template_builtin("qwen3"),
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],"
                    "\"enable_thinking\":false,\"add_generation_prompt\":true}",
                    "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n<think>\n\n"
                    "</think>\n\n");
    check_rendering(template_builtin("exaone4"),
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}],"
                    "\"enable_thinking\":true,\"add_generation_prompt\":true}",
                    "[|user|]\nU[|endofturn|]\n[|assistant|]\n<think>\n");
    check_rendering(template_builtin("apertus"),
                    "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"}],"
                    "\"enable_thinking\":true}",
                    "<|system_start|>S<|system_end|><|developer_start|>Deliberation: enabled\n"
                    "Tool Capabilities: disabled<|developer_end|>");
}

/* What stands before the user's turn where there is no system message. */
static void test_no_system(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"kimi-k2", "<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>"
                    "<|im_user|>user<|im_middle|>U<|im_end|>"},
        {"minimax-m2", "]~!b[]~b]system\nYou are a helpful assistant.[e~[\n]~b]user\nU[e~[\n"},
        {"nemotron-nano", "<SPECIAL_10>System\n\n\n<SPECIAL_11>User\nU\n"},
        {"exaone3", "[|system|][|endofturn|]\n[|user|]U\n"},
        {"bailing2", "<role>SYSTEM</role>detailed thinking off<|role_end|>"
                     "<role>HUMAN</role>U<|role_end|>"},
        {"gemma", "<start_of_turn>user\nU<end_of_turn>\n"},
        {"gemma4", "<|turn>user\nU<turn|>\n"},
        {"llama2", "[INST] U [/INST]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_rendering(template_builtin(rows[i][0]),
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"}]}", rows[i][1]);
}

/* A turn right behind the system message, and one behind none. */
static void test_hunyuan(void **unused)
{
    (void)unused;
    check_rendering(template_builtin("hunyuan-moe"),
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"U\"},"
                    "{\"role\":\"assistant\",\"content\":\"A\"},"
                    "{\"role\":\"user\",\"content\":\"V\"}]}",
                    "<|startoftext|>U<|extra_0|>A<|eos|><|startoftext|>V<|extra_0|>");
}

static void test_find(void **unused)
{
    (void)unused;
    assert_null(template_builtin("Raw"));
    assert_null(template_builtin(""));
    assert_null(builtin_template_find("gemma", 4));
    assert_string_equal(builtin_template_find("gemma4", 5)->name, "gemma");
}

/* ---- what the makers' own make of the same ---- */

/* What of the kit is another thing: "own" is what the makers' put in that ours leave out. Where
 * they make up a system message, what has none is not compared; nor is what ends with a reply
 * where they write an end of the text behind it or show its thoughts. */
static const struct {
    const char *kit, *name, *own;
    bool needs_system, needs_question;
} makers[] = {
    {"Apertus-8B-Instruct", "apertus", NULL, false, true},
    {"ByteDance-Seed-OSS", "seed-oss", NULL, false, false},
    {"GLM-4.6", "glm4.5", NULL, false, true},
    {"LFM2-8B-A1B", "chatml", "<|startoftext|>", false, false},
    {"Qwen-Qwen2.5-7B-Instruct", "chatml", NULL, true, false},
    {"Qwen-Qwen3-0.6B", "qwen3", NULL, false, true},
    {"openbmb-MiniCPM5-1B", "chatml", "<s>", false, true},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral-v7-tekken", NULL, true, false},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral-v7-tekken", NULL, true, false},
    {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-v3-tekken", NULL, false, false},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek3", "<think>\n</think>", false, true},
    {"deepseek-ai-DeepSeek-V3.1", "deepseek3", "<think></think>", false, false},
    {"google-gemma-2-2b-it", "gemma", NULL, false, false},
    {"google-gemma-4-31B-it", "gemma4", NULL, false, false},
    {"ibm-granite-granite-3.3-2B-Instruct", "granite", NULL, true, false},
    {"ibm-granite-granite-4.0", "granite", NULL, true, false},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama3",
     "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n", true, false},
    {"microsoft-Phi-3.5-mini-instruct", "phi3", NULL, false, true},
    {"moonshotai-Kimi-K2", "kimi-k2", NULL, false, false},
    {"openai-gpt-oss-120b", "gpt-oss", NULL, false, true},
    {"MiniMax-M2", "minimax-m2", NULL, false, true},
    {"NVIDIA-Nemotron-Nano-v2", "nemotron-nano", NULL, false, true},
};

/* text without every `what`, to free(). */
static char *without(const char *text, const char *what)
{
    struct buf out = {0};
    const char *at;
    while (what && (at = strstr(text, what))) {
        buf_append(&out, text, (size_t)(at - text));
        text = at + strlen(what);
    }
    buf_puts(&out, text);
    return buf_take(&out);
}

static bool is_compared(size_t k, json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    json_t *messages = json_object_get(c, "messages"), *first = json_array_get(messages, 0);
    const bool has_system =
        strcmp(json_string_value(json_object_get(first, "role")), "system") == 0;
    json_t *flags = json_object_get(c, "flags");
    if (strcmp(makers[k].name, "nemotron-nano") == 0 && strcmp(name, "special_lookalike") == 0)
        return false; /* theirs take "/think" out of what the user says */
    if (json_object_get(flags, "enable_thinking") &&
        !strstr(template_builtin(makers[k].name), "enable_thinking"))
        return false; /* ours have no such switch */
    const bool asks = json_is_true(json_object_get(flags, "add_generation_prompt"));
    /* Thoughts in tags are taken apart before ours see them, and an empty system message is
     * none. */
    return json_object_get(c, "expected") && !strstr(name, "inline") &&
           strcmp(name, "empty_content") != 0 && (has_system || !makers[k].needs_system) &&
           (asks || !makers[k].needs_question);
}

static bool check_maker(size_t k, size_t *n)
{
    char path[200];
    snprintf(path, sizeof path, KIT "/%s.json", makers[k].kit);
    json_t *file = json_load_file(path, 0, NULL);
    if (!file) return false;
    size_t i, n_before = *n;
    json_t *c;
    json_array_foreach(json_object_get(file, "cases"), i, c)
    {
        if (!is_compared(k, c)) continue;
        json_t *variables = json_deep_copy(json_object_get(c, "flags"));
        json_object_set(variables, "messages", json_object_get(c, "messages"));
        json_object_set(variables, "bos_token", json_object_get(file, "bos_token"));
        json_object_set(variables, "eos_token", json_object_get(file, "eos_token"));
        char *text = json_dumps(variables, 0);
        char *expected =
            without(json_string_value(json_object_get(c, "expected")), makers[k].own);
        struct rendering out;
        struct err err = {0};
        if (!render_case(template_builtin(makers[k].name), text, NULL, &out, &err))
            fail_msg("%s: %s", makers[k].kit, err.msg);
        char *got = without(out.text, makers[k].own);
        if (strcmp(got, expected) != 0)
            fail_msg("%s, %s of\n%s\n  ours    %s\n  theirs  %s", makers[k].kit,
                     json_string_value(json_object_get(c, "name")), text, got, expected);
        free(got);
        free(expected);
        free(text);
        rendering_free(&out);
        json_decref(variables);
        ++*n;
    }
    if (*n - n_before < 3) fail_msg("%s: only %zu compared", makers[k].kit, *n - n_before);
    json_decref(file);
    return true;
}

static void test_makers(void **unused)
{
    (void)unused;
    size_t n = 0;
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++)
        if (!check_maker(k, &n)) skip();
    print_message("%zu renderings are the makers'\n", n);
}

/* ---- which one a vocabulary tells ---- */

static const struct builtin_template *told(const char *const *tokens, size_t n)
{
    struct extra_token extra[16];
    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++)
        extra[i] = (struct extra_token){tokens[i], TOKEN_CONTROL};
    const struct made_vocab v = {
        .model = "gpt2", .pre = "qwen2", .extra = extra, .n_extra = (uint32_t)n};
    struct err err;
    struct tokenizer *tok = vocab_make(&v, &err);
    if (!tok) fail_msg("%s", err.msg);
    const struct builtin_template *t = turn_template(tok);
    tokenizer_close(tok);
    return t;
}

static void expect_told(const char *const *tokens, size_t n, const char *name)
{
    const struct builtin_template *t = told(tokens, n);
    if ((t != NULL) != (name != NULL) || (t && strcmp(t->name, name) != 0))
        fail_msg("'%s'…: told %s, not %s", n ? tokens[0] : "", t ? t->name : "none",
                 name ? name : "none");
}

#define TOLD(name, ...)                                            \
    do {                                                           \
        static const char *const tokens[] = {__VA_ARGS__};         \
        expect_told(tokens, sizeof tokens / sizeof *tokens, name); \
    } while (0)

static void test_told(void **unused)
{
    (void)unused;
    const struct builtin_template *t;
    for (size_t i = 0; (t = builtin_template_at(i)); i++) {
        size_t n = 0;
        while (n < BUILTIN_MAX_TOKENS && t->tokens[n])
            n++;
        assert_int_equal(n > 0, t->whose != NULL);
        if (n > 0) expect_told(t->tokens, n, t->name);
        /* Each of its tokens counts. */
        for (size_t k = 0; k < n; k++) {
            const char *fewer[BUILTIN_MAX_TOKENS] = {NULL};
            for (size_t j = 0, m = 0; j < n; j++)
                if (j != k) fewer[m++] = t->tokens[j];
            if (told(fewer, n - 1) == t) fail_msg("%s without %s", t->name, t->tokens[k]);
        }
    }
    expect_told(NULL, 0, NULL);
    TOLD(NULL, "<s>", "</s>", "<|endoftext|>");
    /* Distilled into Llama and Qwen, whose tokens stay. */
    TOLD("deepseek3", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
         "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>",
         "<\uff5cend\u2581of\u2581sentence\uff5c>",
         "<\uff5cbegin\u2581of\u2581sentence\uff5c>");
    /* Taught ChatML on top of Llama 3. */
    TOLD("chatml", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>",
         "<|im_end|>");
    TOLD("phi4", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_sep|>");
    TOLD("gpt-oss", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>");
    TOLD("mistral-v7-tekken", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]");
}

static void test_why(void **unused)
{
    (void)unused;
    struct buf why = {0};
    const struct builtin_template *gemma = builtin_template_find("gemma", 5);
    builtin_template_why(gemma, &why);
    assert_string_equal(buf_str(&why), "; its tokens are Gemma's, so --template gemma is used");
    assert_ptr_equal(builtin_template_stand_in(gemma), gemma);
    assert_string_equal(builtin_template_stand_in(NULL)->name, "chatml");
    buf_clear(&why);
    builtin_template_why(NULL, &why);
    assert_non_null(strstr(buf_str(&why), "using ChatML (--template raw"));
    buf_free(&why);
}

/* ---- what --template takes ---- */

static void test_words(void **unused)
{
    (void)unused;
    const char *words = option_row(OPT_TEMPLATE)->words, *word;
    size_t n = 0, len, n_built_in = 0;
    for (; (word = option_word(words, n, &len)); n++)
        if (!builtin_template_find(word, len)) fail_msg("%.*s is not built in", (int)len, word);
    while (builtin_template_at(n_built_in))
        n_built_in++;
    assert_int_equal(n, n_built_in);
    assert_ptr_equal(option_find_foreign("chat-template"), option_row(OPT_TEMPLATE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made),      cmocka_unit_test(test_switches),
        cmocka_unit_test(test_no_system), cmocka_unit_test(test_hunyuan),
        cmocka_unit_test(test_find),      cmocka_unit_test(test_makers),
        cmocka_unit_test(test_told),      cmocka_unit_test(test_why),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests_name("builtin_templates", tests, NULL, NULL);
}
