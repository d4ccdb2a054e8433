#include "chat/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "chat/impl.h"

static bool command_help(struct chat *c, const char *args);
static bool command_quit(struct chat *c, const char *args);

static const struct command table[] = {
    {.name = "help",
     .aliases = {"?"},
     .args = "[command]",
     .help = "list the commands, or explain one",
     .more = "A message that begins with a slash is sent with two: //x sends /x.",
     .kind = WORDS_COMMAND,
     .run = command_help},
    {.name = "quit",
     .aliases = {"exit", "bye"},
     .args = "",
     .help = "leave hearth",
     .more = "Ctrl-D on an empty line does the same. What could not be saved is not let go at "
             "once: the first time only says so.",
     .run = command_quit},
    {.name = "clear",
     .aliases = {"new"},
     .args = "",
     .help = "begin a new, empty conversation",
     .more = "The system message and the settings stay. The old conversation stays a branch.",
     .run = command_clear},
    {.name = "undo",
     .args = "[n]",
     .help = "take back the last turn, or the last n",
     .more = "A turn is a message of yours and its reply. What is left needs no computing.",
     .run = command_undo},
    {.name = "retry",
     .aliases = {"regen"},
     .args = "[seed]",
     .help = "ask for the last reply again",
     .more = "Each try has a seed of its own; with a seed that was shown, that reply comes "
             "again. The reply before stays a branch.",
     .run = command_retry},
    {.name = "edit",
     .args = "[n|reply]",
     .help = "change the last message or nth last, and send it",
     .more =
         "It opens in the editor that $VISUAL or $EDITOR names, and is sent when that ends, "
         "unless it is empty or as it was; without an editor it is put into the prompt. What "
         "followed stays a branch. With reply it is the last reply that is changed, by an "
         "editor only; nothing is sent, and /continue goes on with it.",
     .kind = WORDS_LIST,
     .words = "reply",
     .run = command_edit},
    {.name = "continue",
     .args = "",
     .help = "go on with the last reply where it stopped",
     .more = "For a reply that was stopped by you, by --max-tokens or by a stop string; a "
             "message that has no reply gets one.",
     .run = command_continue},
    {.name = "fork",
     .args = "[name]",
     .help = "begin a branch of the conversation here",
     .more = "Both branches share what they have in common, so a fork costs nothing.",
     .run = command_fork},
    {.name = "branches",
     .args = "",
     .help = "list the branches of the conversation",
     .more = "Go to one of them with /switch. Of those that a command or --overflow trim left "
             "behind the newest 1000 are kept.",
     .run = command_branches},
    {.name = "switch",
     .args = "name",
     .help = "go to another branch, by name or number",
     .more = "/branches lists them.",
     .kind = WORDS_BRANCH,
     .run = command_switch},
    {.name = "trim",
     .args = "[n]",
     .help = "drop the oldest turn, or the oldest n",
     .more = "It makes room in a full context. The system message stays; the rest is computed "
             "again with the next message. The conversation as it was stays a branch.",
     .run = command_trim},
    {.name = "system",
     .args = "[text]",
     .help = "show the system message, or set it",
     .more = "/system @FILE reads it from a file, as --system does; @@ at the beginning stands "
             "for one @. /system - removes it. It holds from the next message on.",
     .kind = WORDS_TEXT_OR_AT,
     .run = command_system},
    {.name = "set",
     .args = "[key value]",
     .help = "change a setting, or list what can be set",
     .more = "For example: /set temp 0.7. A key alone shows its value and what it can be.",
     .kind = WORDS_SETTING,
     .run = command_set},
    {.name = "show",
     .args = "[what]",
     .help = "show the model, the settings, the conversation",
     .more =
         "what is one of model, settings, template, system, conversation, prompt. prompt is "
         "all that the model sees, and which of it may hold control tokens.",
     .kind = WORDS_LIST,
     .words = "model|settings|template|system|conversation|prompt",
     .run = command_show},
    {.name = "think",
     .args = "[on|off|hide|show]",
     .help = "reasoning: ask for it or not, hide or show it",
     .more = "on and off ask the template; hide and show leave it to the model.",
     .kind = WORDS_LIST,
     .words = "on|off|hide|show",
     .run = command_think},
    {.name = "read",
     .args = "file",
     .help = "put the text of a file before your next message",
     .more = "For example: /read notes.txt. Then ask something about it.",
     .kind = WORDS_FILE,
     .run = command_read},
    {.name = "model",
     .args = "[file]",
     .help = "show the model, or go on with another one",
     .more = "For example: /model other.gguf, or a name that hearth models lists. The "
             "conversation stays and is computed again. The "
             "settings stay, but those that came from the model.",
     .kind = WORDS_MODEL,
     .run = command_model},
    {.name = "draft",
     .args = "[file|lookup|off]",
     .help = "show what guesses tokens ahead, or change it",
     .more = "A small model with the same vocabulary, lookup (what followed the same words "
             "before), file,lookup for both, or off. It changes the speed, never the text.",
     .kind = WORDS_LIST_OR_FILE,
     .words = "lookup|off",
     .run = command_draft},
    {.name = "copy",
     .args = "[code]",
     .help = "copy the last reply, or its last code block",
     .more = "To the clipboard, by wl-copy, xclip, xsel or pbcopy on a desktop, else by the "
             "terminal, which must support it (OSC 52).",
     .kind = WORDS_LIST,
     .words = "code",
     .run = command_copy},
    {.name = "save",
     .args = "[name]",
     .help = "save the conversation, under a name if you like",
     .more = "It is saved after every turn anyway; this gives it a name for /load, and for "
             "hearth -s.",
     .run = command_save},
    {.name = "load",
     .args = "name",
     .help = "go on with a saved conversation",
     .more = "/sessions lists them. The conversation there is stays saved; where it could not "
             "be, the first /load only says so, and the next one lets it go. The other one's "
             "settings come back, but for those that you have /set.",
     .kind = WORDS_SESSION,
     .run = command_load},
    {.name = "sessions",
     .args = "",
     .help = "list the saved conversations",
     .more = "Go on with one of them with /load.",
     .run = command_sessions},
    {.name = "export",
     .args = "file",
     .help = "write the conversation to a new file",
     .more =
         "For example: /export chat.md. By its name the file is Markdown (.md), JSON (.json) "
         "or plain text (.txt); it must not be there yet.",
     .kind = WORDS_FILE,
     .run = command_export},
    {.name = "stats",
     .args = "",
     .help = "explain the last turn: reused, computed, memory",
     .more = "reused counts tokens whose work was there already, computed those of this turn.",
     .run = command_stats},
    {.name = "verify",
     .args = "",
     .help = "compute the conversation again, compare the bits",
     .more = "Keys, values, snapshots and the last logits must be the same as those held.",
     .run = command_verify},
};
#define N_COMMANDS (sizeof table / sizeof *table)

const struct command *command_at(size_t i)
{
    return i < N_COMMANDS ? &table[i] : NULL;
}

static bool is_word(const char *word, const char *name, size_t n)
{
    return word && strlen(word) == n && memcmp(word, name, n) == 0;
}

const struct command *command_find(const char *name, size_t n)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const struct command *row = &table[i];
        if (is_word(row->name, name, n) || is_word(row->aliases[0], name, n) ||
            is_word(row->aliases[1], name, n))
            return row;
    }
    return NULL;
}

/* ---- the parser ---- */

static const char *nearest_command(const char *name)
{
    struct nearest near;
    nearest_begin(&near, name);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        nearest_offer(&near, table[i].name);
        for (size_t k = 0; k < 2 && table[i].aliases[k]; k++)
            nearest_offer(&near, table[i].aliases[k]);
    }
    return near.best;
}

/* A blank behind the slash, before a command. */
static const struct command *command_apart(const char *args)
{
    size_t n = 0;
    while (args[n] && !ascii_is_space(args[n]))
        n++;
    return command_find(args, n);
}

/* best: what it may have been, or NULL. more stands behind it. */
static void tell_unknown(struct chat *c, const char *name, const char *best, const char *more)
{
    if (best)
        chat_tell(c, FACE_ERROR, "no command /%s; did you mean /%s?%s", name, best, more);
    else
        chat_tell(c, FACE_ERROR, "no command /%s; /help lists them%s", name, more);
}

static void tell_unknown_line(struct chat *c, const char *name, const char *args)
{
    const struct command *apart = *name ? NULL : command_apart(args);
    const char *best = apart ? apart->name : *name ? nearest_command(name) : NULL;
    struct buf more = {0};
    buf_printf(&more, " (//%s sends it as text)", name);
    tell_unknown(c, name, best, more.data);
    buf_free(&more);
}

bool command_run(struct chat *c, const char *line, size_t n)
{
    size_t end = 1;
    while (end < n && !ascii_is_space(line[end]))
        end++;
    size_t args = end;
    while (args < n && ascii_is_space(line[args]))
        args++;
    while (n > args && ascii_is_space(line[n - 1]))
        n--;
    const struct command *row = command_find(line + 1, end - 1);
    edit_settle(c);
    char *rest = mem_strndup(line + args, n - args), *name = mem_strndup(line + 1, end - 1);
    bool ok = false;
    if (!row)
        tell_unknown_line(c, name, rest);
    else if (*rest && !*row->args)
        chat_tell(c, FACE_ERROR, "/%s takes nothing after it, found '%s'", name, rest);
    else
        ok = row->run(c, rest);
    if (ok && c->state == CHAT_IDLE) session_save(c, false);
    if (ok) chat_tell_thinned(c);
    idle_forget(c);
    free(rest);
    free(name);
    return ok;
}

/* ---- /help and /quit ---- */

static void put_row(const struct command *row, struct buf *out)
{
    size_t start = out->len;
    buf_printf(out, "/%s", row->name);
    for (size_t k = 0; k < 2 && row->aliases[k]; k++)
        buf_printf(out, " /%s", row->aliases[k]);
    if (*row->args) buf_printf(out, " %s", row->args);
    do
        buf_putc(out, ' ');
    while (out->len - start < 28);
    buf_printf(out, "%s\n", row->help);
}

static void put_all(struct buf *out)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        put_row(&table[i], out);
    buf_puts(out, "/help COMMAND says more; //x sends /x as a message.");
}

static void put_command(const struct command *row, struct buf *out)
{
    put_row(row, out);
    buf_puts(out, row->more);
}

/* The command that a word behind /set is for; NULL: it is for none. */
static const struct command *behind_set(const char *name)
{
    static const char *const words[] = {"system", "model", "draft"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(name, words[i]) == 0) return command_find(name, strlen(name));
    if (!*name) return command_find("set", 3);
    return strcmp(name, "nothink") == 0 ? command_find("think", 5) : NULL;
}

/* Of what stands behind /set. */
static bool put_setting_help(struct chat *c, const char *args, struct buf *out)
{
    size_t n;
    args = setting_name(args, &n);
    char *name = mem_strndup(args, n);
    const struct command *row = behind_set(name);
    if (row) put_command(row, out);
    const bool ok = row || setting_explain(c, name, out);
    free(name);
    return ok;
}

/* Of "set temp" the setting, of "undo 2" the command alone; a setting need have no /set before
 * it. False: there is nothing of the name, which was said. */
static bool put_help(struct chat *c, const char *args, struct buf *out)
{
    const size_t n = strcspn(args, " \t=");
    const struct command *row = command_find(args, n);
    const char *setting = args + n + strspn(args + n, " \t");
    if (row && row->kind == WORDS_SETTING && *setting) return put_setting_help(c, setting, out);
    if (row) {
        put_command(row, out);
        return true;
    }
    char *name = mem_strndup(args, n);
    const bool ok = setting_is(name) && setting_explain(c, name, out);
    if (!ok) tell_unknown(c, name, nearest_command(name), "");
    free(name);
    return ok;
}

static bool command_help(struct chat *c, const char *args)
{
    struct buf text = {0};
    const char *name = *args == '/' ? args + 1 : args;
    bool ok = true;
    if (!*name)
        put_all(&text);
    else if (*name == '/')
        buf_puts(&text, command_find("help", 4)->more);
    else
        ok = put_help(c, name, &text);
    if (ok) chat_tell(c, FACE_INFO, "%s", buf_str(&text));
    buf_free(&text);
    return ok;
}

static bool command_quit(struct chat *c, const char *args)
{
    struct err err;
    (void)args;
    if (c->face->has_prompt && !session_may_go(c, "/quit", &err)) {
        chat_tell(c, FACE_ERROR, "/quit: %s", err.msg);
        return false;
    }
    c->state = CHAT_CLOSED;
    return true;
}
