/* Completion of a command line: names, settings and their values, branches; paths are the
 * face's. */
#include <string.h>

#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/discover.h"
#include "chat/impl.h"
#include "chat/sessions.h"
#include "config/options.h"

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

static void offer_values(struct buf *out, const char *key, size_t n_key, const char *typed)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (strlen(row->name) != n_key || memcmp(row->name, key, n_key) != 0) continue;
        offer_words(out, row->type == OPTION_BOOL ? "on|off" : row->words, typed);
    }
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

void chat_complete(const struct chat *c, const char *line, struct buf *out, bool *is_path)
{
    static const char spaces[] = " \t";
    *is_path = false;
    if (line[0] != '/' || line[1] == '/') return;
    size_t n_name = strcspn(line + 1, spaces);
    if (!line[1 + n_name]) {
        offer_commands(out, "/", line + 1);
        return;
    }
    const struct command *row = command_find(line + 1, n_name);
    if (!row) return;
    const char *first = line + 1 + n_name + strspn(line + 1 + n_name, spaces);
    size_t n_first = strcspn(first, spaces);
    bool in_first = !first[n_first];
    const char *second = first + n_first + strspn(first + n_first, spaces);
    switch (row->kind) {
    case WORDS_NONE: break;
    case WORDS_COMMAND:
        if (in_first) offer_commands(out, "", first);
        break;
    case WORDS_SETTING:
        if (in_first)
            offer_settings(out, first);
        else if (!second[strcspn(second, spaces)])
            offer_values(out, first, n_first, second);
        break;
    case WORDS_LIST:
        if (in_first) offer_words(out, row->words, first);
        break;
    case WORDS_FILE: *is_path = true; break;
    case WORDS_MODEL:
        *is_path = true;
        offer_models(out, first);
        break;
    case WORDS_LIST_OR_FILE:
        *is_path = true;
        offer_words(out, row->words, first);
        break;
    case WORDS_BRANCH: offer_branches(c, out, first); break;
    case WORDS_SESSION: offer_sessions(out, first); break;
    }
}
