/* Completion of a command line: names, settings and their values, branches; paths are the
 * face's. Each function that offers something says where the word begins that it would be. */
#include <string.h>

#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/discover.h"
#include "chat/impl.h"
#include "chat/sessions.h"
#include "config/options.h"

static const char BLANKS[] = " \t";

static void offer(struct buf *out, const char *prefix, const char *word, size_t n,
                  const char *typed)
{
    size_t n_typed = strlen(typed);
    if (n < n_typed || memcmp(word, typed, n_typed) != 0) return;
    buf_puts(out, prefix);
    buf_append(out, word, n);
    buf_putc(out, '\n');
}

static void offer_commands(struct buf *out, const char *prefix, const char *typed)
{
    const struct command *row;
    for (size_t i = 0; (row = command_at(i)) != NULL; i++) {
        offer(out, prefix, row->name, strlen(row->name), typed);
        for (size_t k = 0; k < 2 && row->aliases[k]; k++)
            offer(out, prefix, row->aliases[k], strlen(row->aliases[k]), typed);
    }
}

static void offer_words(struct buf *out, const char *words, const char *typed)
{
    const char *word;
    size_t n;
    for (size_t i = 0; (word = option_word(words, i, &n)) != NULL; i++)
        offer(out, "", word, n, typed);
}

static void offer_settings(struct buf *out, const char *typed)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->flags & OPTION_SET) offer(out, "", row->name, strlen(row->name), typed);
    }
}

/* What a setting can be; *is_path if that is a file, too. */
static void offer_values(struct buf *out, const char *key, size_t n_key, const char *typed,
                         bool *is_path)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!(row->flags & OPTION_SET)) continue;
        if (strlen(row->name) != n_key || memcmp(row->name, key, n_key) != 0) continue;
        offer_words(out, row->type == OPTION_BOOL ? "on|off" : row->words, typed);
        *is_path = row->type == OPTION_PATH;
    }
}

/* A key, then its value: where that begins. */
static const char *offer_setting(struct buf *out, const char *key, bool *is_path)
{
    const size_t n_key = strcspn(key, BLANKS);
    const char *value = key + n_key + strspn(key + n_key, BLANKS);
    if (!key[n_key]) {
        offer_settings(out, key);
        return key;
    }
    offer_values(out, key, n_key, value, is_path);
    return value;
}

static void offer_branches(const struct chat *c, struct buf *out, const char *typed)
{
    for (size_t i = 0; i < conversation_n_branches(c->conversation); i++) {
        const struct branch *b = conversation_branch(c->conversation, i);
        struct buf number = {0};
        buf_printf(&number, "%u", b->number);
        if (b->name)
            offer(out, "", b->name, strlen(b->name), typed);
        else
            offer(out, "", number.data, number.len, typed);
        buf_free(&number);
    }
}

static void offer_sessions(struct buf *out, const char *typed)
{
    struct session_list list;
    struct err ignored;
    sessions_list(&list, &ignored);
    for (size_t i = 0; i < list.n; i++)
        offer(out, "", list.items[i].name, strlen(list.items[i].name), typed);
    session_list_free(&list);
}

/* A name may hold any bytes; what no line of the prompt can show is left out. */
static bool can_be_typed(const char *name)
{
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 0x7f) return false;
    return true;
}

static void offer_models(struct buf *out, const char *typed)
{
    struct found_models found = {0};
    discover_models(&found);
    for (size_t i = 0; i < found.n; i++) {
        const char *name = found.items[i].name;
        if (can_be_typed(name)) offer(out, "", name, strlen(name), typed);
    }
    found_models_free(&found);
}

size_t chat_complete(const struct chat *c, const char *line, struct buf *out, bool *is_path)
{
    *is_path = false;
    if (line[0] != '/' || line[1] == '/') return 0;
    const size_t n_name = strcspn(line + 1, BLANKS);
    if (!line[1 + n_name]) {
        offer_commands(out, "/", line + 1);
        return 0;
    }
    const struct command *row = command_find(line + 1, n_name);
    if (!row) return 0;
    const char *word = line + 1 + n_name + strspn(line + 1 + n_name, BLANKS);
    switch (row->kind) {
    case WORDS_NONE: break;
    case WORDS_COMMAND: offer_commands(out, "", word); break;
    case WORDS_SETTING: word = offer_setting(out, word, is_path); break;
    case WORDS_LIST: offer_words(out, row->words, word); break;
    case WORDS_FILE: *is_path = true; break;
    case WORDS_MODEL:
        *is_path = true;
        offer_models(out, word);
        break;
    case WORDS_LIST_OR_FILE:
        *is_path = true;
        offer_words(out, row->words, word);
        break;
    case WORDS_TEXT_OR_AT:
        *is_path = word[0] == '@' && word[1] != '@';
        word += *is_path;
        break;
    case WORDS_BRANCH: offer_branches(c, out, word); break;
    case WORDS_SESSION: offer_sessions(out, word); break;
    }
    return (size_t)(word - line);
}
