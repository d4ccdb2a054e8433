/* A command line and an environment of any words, one to each NUL: ends in options or in one
 * line that says what is wrong. What was taken prints as it reads (fuzz_ini reads it again).
 * And each word as a line of the chat that is to be completed. */
#include <stdlib.h>
#include <string.h>

#include "app/foreign.h"
#include "app/shapes.h"
#include "app/token_ids.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/sessions.h"
#include "config/options.h"
#include "target.h"

enum { MOST = 32 };

static void try_nearest(const char *word)
{
    struct nearest near;
    nearest_begin(&near, word);
    for (size_t i = 0; i < N_OPTIONS; i++)
        nearest_offer(&near, option_row((enum option_id)i)->name);
}

/* Words that stand alone. */
static void try_word(const char *word)
{
    struct err err;
    struct shape shape;
    struct ids ids = {0};
    if (!shape_parse(word, &shape, &err)) must_be_refusal(&err);
    if (!token_ids_parse(word, 1000, &ids, &err)) must_be_refusal(&err);
    for (size_t i = 0; i < ids.n; i++)
        must(ids.data[i] >= 0 && ids.data[i] < 1000);
    ids_free(&ids);
    foreign_advice(word);
    /* A name of a session stays in its folder. */
    char *path = sessions_path(word, &err), *name;
    if (!path) {
        must_be_refusal(&err);
        return;
    }
    name = sessions_name(path);
    must(strcmp(name, word) == 0 && !strchr(word, '/') && word[0] != '.');
    free(name);
    free(path);
}

/* A line that is typed at the prompt, when TAB is pressed: what is offered begins as its last
 * word does. */
static void try_completion(const char *line)
{
    static struct conversation *conversation;
    if (!conversation) conversation = conversation_new();
    struct chat chat = {.conversation = conversation};
    struct buf words = {0};
    bool is_path;
    const size_t n = strlen(line), at = chat_complete(&chat, line, &words, &is_path);
    must(at <= n && (line[0] == '/' || (words.len == 0 && !is_path)));
    for (const char *word = buf_str(&words); *word; word += strcspn(word, "\n") + 1) {
        must(strncmp(word, line + at, n - at) == 0);
        must(strcspn(word, "\n") > 0 &&
             strcspn(word, is_path ? "\t\x1b" : " \t\x1b") > strcspn(word, "\n"));
    }
    must(words.len == 0 || words.data[words.len - 1] == '\n');
    buf_free(&words);
}

static void parse(int argc, char **argv, char **env)
{
    struct err err;
    struct options *o = options_new();
    struct option_args args = {0};
    if (!options_parse_args(o, argc, argv, &args, &err)) must_be_refusal(&err);
    if (!options_parse_env(o, env, &err)) must_be_refusal(&err);
    struct buf text = {0};
    options_print_config(o, &text);
    must(!memchr(buf_str(&text), '\x1b', text.len));
    for (size_t i = 0; i < o->notes.n; i++)
        must(!strpbrk(o->notes.items[i], "\n\x1b"));
    buf_free(&text);
    free(args.rest);
    options_free(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static bool has_home;
    if (!has_home) has_home = setenv("HOME", "/home/x", 1) == 0;
    char *copy = mem_strndup((const char *)data, n_bytes), *argv[MOST + 1], *env[MOST + 1];
    int n = 0;
    argv[n++] = "hearth";
    for (size_t at = 0; at < n_bytes && n < MOST; at += strlen(copy + at) + 1)
        argv[n++] = copy + at;
    argv[n] = NULL;
    memcpy(env, argv + 1, (size_t)n * sizeof *env);
    if (n > 1) try_nearest(argv[1]);
    for (int i = 1; i < n; i++) {
        try_word(argv[i]);
        try_completion(argv[i]);
    }
    int argc = n;
    char **words = foreign_words(&argc, argv);
    parse(argc, words, env);
    if (words != argv) free(words);
    free(copy);
    return 0;
}
