#include "ui/complete.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <readline/readline.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "chat/chat.h"
#include "ui/charset.h"

static const struct chat *chat;
static void (*show)(char **shown, int n, int longest);

/* What is being completed: readline's word is the whole line up to the cursor, so that names
 * with blanks need no quotes. */
static struct {
    struct buf words; /* candidates, one per line */
    size_t at;        /* of the next one in words */
    size_t word;      /* where the last word of the line begins */
    struct buf typed; /* that word, as UTF-8 */
    struct buf match;
} job;

/* What the user's inputrc says. */
static bool any_case(void)
{
    const char *is_on = rl_variable_value("completion-ignore-case");
    return is_on && strcmp(is_on, "on") == 0;
}

/* The next character of s; of what is no UTF-8, a byte. */
static uint32_t next_char(const char *s, size_t n, size_t *at)
{
    uint32_t cp;
    const int len = utf8_decode(s + *at, n - *at, &cp);
    if (len <= 0) return (unsigned char)s[(*at)++];
    *at += (size_t)len;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* Whether a word can be what was typed of it. */
static bool begins_with(const char *word, size_t n, const char *typed, size_t n_typed)
{
    if (!any_case()) return n >= n_typed && memcmp(word, typed, n_typed) == 0;
    size_t i = 0, k = 0;
    while (k < n_typed)
        if (i >= n || next_char(word, n, &i) != next_char(typed, n_typed, &k)) return false;
    return true;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether the prompt can show the name as it is. */
static bool can_be_shown(const char *name)
{
    size_t n = strlen(name);
    char *shown = mem_alloc(4 * n + 16);
    bool same = strcmp(printable(shown, 4 * n + 16, name, n), name) == 0;
    free(shown);
    return same;
}

/* Appends the files whose path begins with `prefix`, a folder's with a slash. */
static void add_files(struct buf *out, const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    int n_folder = slash ? (int)(slash - prefix) + 1 : 0;
    const char *name = prefix + n_folder;
    char *typed = mem_strndup(prefix, (size_t)n_folder);
    char *folder = n_folder ? tilde_expand(typed) : mem_strdup(".");
    DIR *dir = opendir(folder);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        if (!begins_with(e->d_name, strlen(e->d_name), name, strlen(name))) continue;
        if (!can_be_shown(e->d_name)) continue;
        if (e->d_name[0] == '.' && name[0] != '.') continue;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        struct buf path = {0};
        buf_printf(&path, "%s/%s", folder, e->d_name);
        buf_printf(out, "%s%s%s\n", typed, e->d_name, is_folder(path.data) ? "/" : "");
        buf_free(&path);
    }
    if (dir) closedir(dir);
    free(folder);
    free(typed);
}

/* Appends a word as it would be typed; false if the terminal's set has not all of it. */
static bool give_whole(const char *word, size_t n, struct buf *out)
{
    struct buf back = {0};
    const size_t at = out->len;
    charset_give(word, n, out);
    charset_take(buf_str(out) + at, out->len - at, &back);
    const bool is_whole = back.len == n && memcmp(buf_str(&back), word, n) == 0;
    buf_free(&back);
    return is_whole;
}

static char *next_match(const char *text, int state)
{
    (void)state;
    while (job.at < job.words.len) {
        const char *word = job.words.data + job.at;
        size_t n = strcspn(word, "\n");
        job.at += n + 1;
        if (!begins_with(word, n, buf_str(&job.typed), job.typed.len)) continue;
        buf_clear(&job.match);
        buf_append(&job.match, text, job.word);
        if (!give_whole(word, n, &job.match)) continue;
        /* readline frees it, with free(). */
        return strdup(job.match.data);
    }
    return NULL;
}

/* The chat knows words by their beginning. In any case, the line without its last word asks for
 * all of them; a command has its slash. What precedes a word that it knows has the same bytes
 * in the terminal's character set: names of commands and settings. */
static void ask_chat(const char *text, bool *is_path)
{
    struct buf line = {0};
    buf_clear(&job.words);
    buf_clear(&job.typed);
    charset_take(text, strlen(text), &line);
    job.word = chat_complete(chat, buf_str(&line), &job.words, is_path);
    buf_puts(&job.typed, line.data + job.word);
    if (any_case()) {
        line.data[job.word > 0 ? job.word : 1] = '\0';
        buf_clear(&job.words);
        chat_complete(chat, line.data, &job.words, is_path);
    }
    buf_free(&line);
    job.at = 0;
}

static char **matches_of(const char *text, int start, int end)
{
    (void)start, (void)end;
    rl_attempted_completion_over = 1;
    if (!chat || text[0] != '/' || strchr(text, '\n')) return NULL;
    bool is_path = false;
    ask_chat(text, &is_path);
    if (is_path) add_files(&job.words, buf_str(&job.typed));
    rl_completion_append_character = is_path ? '\0' : ' ';
    return rl_completion_matches(text, next_match);
}

/* Without the line before the word, and without the folders of a path. */
static const char *shown_part(const char *match)
{
    const char *word = match + (strlen(match) < job.word ? 0 : job.word);
    size_t n = strlen(word);
    if (job.word == 0) return word;
    for (size_t i = n; i-- > 0;)
        if (word[i] == '/' && i + 1 < n) return word + i + 1;
    return word;
}

static void list(char **shown, int n, int longest)
{
    rl_display_match_list(shown, n, longest);
    rl_forced_update_display();
}

static void show_matches(char **matches, int n, int longest)
{
    char **shown = mem_zalloc((size_t)n + 2, sizeof *shown);
    longest = 0;
    for (int i = 0; i <= n; i++) {
        shown[i] = mem_strdup(shown_part(matches[i]));
        if ((int)strlen(shown[i]) > longest) longest = (int)strlen(shown[i]);
    }
    show(shown, n, longest);
    for (int i = 0; i <= n; i++)
        free(shown[i]);
    free(shown);
}

void complete_install(const struct chat *c, void (*shower)(char **shown, int n, int longest))
{
    chat = c;
    show = shower ? shower : list;
    rl_completer_word_break_characters = "";
    rl_attempted_completion_function = matches_of;
    rl_completion_display_matches_hook = show_matches;
    if (c) return;
    buf_free(&job.words);
    buf_free(&job.typed);
    buf_free(&job.match);
}
