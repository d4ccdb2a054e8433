/* Readline as an editor without a screen: it draws on nothing, and its line is looked at. */
#include "ui/input_box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/readline.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "chat/chat.h"
#include "ui/charset.h"
#include "ui/complete.h"
#include "ui/key_bytes.h"
#include "ui/keys.h"

static const char prompt[] = "> ";

static struct {
    struct input_line *lines;
    size_t n, cap;
} queue;
static struct buf attached; /* for the line that is not sent yet */
static bool at_end, giving_up;
static struct buf choices, viewed, asked; /* viewed, asked: the line and its prompt as UTF-8 */
static FILE *nowhere;                     /* what readline writes to */
static const struct input_hooks *hooks;

/* ---- actions as commands of readline ---- */

/* Home and End belong to the line as long as there is one. */
static int run(enum action action, int count, int key)
{
    if (action == ACTION_TOP && rl_end > 0) return rl_beg_of_line(count, key);
    if (action == ACTION_BOTTOM && rl_end > 0) return rl_end_of_line(count, key);
    hooks->act(action);
    return 0;
}

#define X(id, name, line, view, help)        \
    static int run_##id(int count, int key)  \
    {                                        \
        return run(ACTION_##id, count, key); \
    }
ACTIONS(X)
#undef X

static rl_command_func_t *const commands[N_ACTIONS] = {NULL,
#define X(id, name, line, view, help) run_##id,
                                                       ACTIONS(X)
#undef X
};

/* instead_of: where this is bound; NULL: whatever is. */
static void bind(const char *sequence, rl_command_func_t *command,
                 rl_command_func_t *instead_of)
{
    Keymap maps[] = {emacs_standard_keymap, vi_insertion_keymap, vi_movement_keymap};
    for (size_t m = 0; m < sizeof maps / sizeof *maps; m++)
        if (!instead_of || rl_function_of_keyseq(sequence, maps[m], NULL) == instead_of)
            rl_bind_keyseq_in_map(sequence, command, maps[m]);
}

/* One key of a list: its sequences, or "C-x h" as readline writes it. */
static void bind_key(const char *name, size_t n, rl_command_func_t *command)
{
    const char *sequence;
    for (size_t i = 0; (sequence = key_sequence(name, n, i)) != NULL; i++)
        bind(sequence, command, NULL);
    if (n < 3 || name[1] != '-') return;
    char keys[16];
    snprintf(keys, sizeof keys, "\\C-%c%.*s", name[2], n > 4 ? (int)n - 4 : 0, name + 4);
    bind(keys, command, NULL);
}

static void bind_actions(void)
{
    for (int i = 1; i < N_ACTIONS; i++) {
        const struct action_row *row = action_row((enum action)i);
        struct buf name = {0};
        buf_printf(&name, "hearth-%s", row->name);
        /* Readline keeps the name. */
        rl_add_defun(buf_take(&name), commands[i], -1);
        for (const char *key = row->line; *key; key += strspn(key, ", ")) {
            size_t n = strcspn(key, ",");
            bind_key(key, n, commands[i]);
            key += n;
        }
    }
}

/* Debian's own inputrc binds Home and End, as tmux and the Linux console send them, to the ends
 * of the line: those an action goes to as well, as long as there is a line. */
static void take_back(enum action action, rl_command_func_t *end_of_line)
{
    const char *key = action_row(action)->line, *sequence;
    for (size_t i = 0; (sequence = key_sequence(key, strlen(key), i)) != NULL; i++)
        bind(sequence, commands[action], end_of_line);
}

/* ---- the line ---- */

static void on_line(char *line)
{
    if (giving_up) {
        ;
    } else if (!line) {
        at_end = true;
    } else {
        MEM_GROW(queue.lines, queue.n, queue.cap);
        struct input_line *sent = &queue.lines[queue.n++];
        *sent = (struct input_line){.attached = attached, .is_pasted = edit_keys_pasted()};
        attached = (struct buf){0};
        charset_take(line, strlen(line), &sent->text);
        /* Now, since the line that begins next stands behind it in the history. */
        hooks->sent(sent);
    }
    free(line);
    edit_keys_new_line();
}

static void show_choices(char **shown, int n, int longest)
{
    (void)longest;
    buf_clear(&choices);
    for (int i = 1; i <= n; i++) {
        charset_take(shown[i], strlen(shown[i]), &choices);
        buf_putc(&choices, '\n');
    }
}

static void keep_terminal(int meta)
{
    (void)meta;
}

static void give_terminal(void)
{
}

/* Where the inputrc wants it, readline puts the cursor on the other parenthesis and waits. */
static void look_later(void)
{
    const char *blinks = rl_variable_value("blink-matching-paren");
    if (blinks && strcmp(blinks, "on") == 0) hooks->draw();
}

void input_open(const struct chat *chat, const struct input_hooks *h)
{
    hooks = h;
    nowhere = fopen("/dev/null", "w");
    rl_readline_name = "hearth";
    rl_instream = stdin;
    rl_outstream = nowhere ? nowhere : stdout;
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    rl_prep_term_function = keep_terminal;
    rl_deprep_term_function = give_terminal;
    rl_redisplay_function = look_later;
    edit_keys_install(&h->terminal);
    complete_install(chat, show_choices);
    bind_actions();
    rl_initialize();
    take_back(ACTION_TOP, rl_beg_of_line);
    take_back(ACTION_BOTTOM, rl_end_of_line);
    key_bytes_take_cooked();
    edit_keys_new_line();
    rl_callback_handler_install(prompt, on_line);
}

void input_close(void)
{
    rl_callback_handler_remove();
    complete_install(NULL, NULL);
    for (size_t i = 0; i < queue.n; i++)
        input_line_free(&queue.lines[i]);
    free(queue.lines);
    memset(&queue, 0, sizeof queue);
    buf_free(&attached);
    buf_free(&choices);
    buf_free(&viewed);
    buf_free(&asked);
    if (nowhere) fclose(nowhere);
    nowhere = NULL;
    rl_outstream = stdout;
}

/* On a screen of its own a program gets the mouse's wheel as arrow keys, three or more at once:
 * terminals do so where nobody asked for the mouse. A held key comes one at a time. */
static bool is_wheel(const char *key, enum action action)
{
    enum { WHEEL = 3 };
    const char *keys;
    size_t rows = 0;
    for (size_t i = 0; rows == 0 && (keys = key_sequence(key, strlen(key), i)); i++)
        rows = key_bytes_burst(keys, WHEEL);
    for (size_t i = 0; i < rows; i++)
        hooks->act(action);
    return rows > 0;
}

void input_key(void)
{
    buf_clear(&choices);
    if (is_wheel("Up", ACTION_LINE_UP) || is_wheel("Down", ACTION_LINE_DOWN)) return;
    edit_keys_next();
    edit_keys_handled();
}

void input_paste(void)
{
    buf_clear(&choices);
    edit_keys_paste();
}

bool input_take_end(void)
{
    const bool is_end = at_end || key_bytes_gone();
    at_end = false;
    return is_end;
}

void input_line_free(struct input_line *line)
{
    buf_free(&line->text);
    buf_free(&line->attached);
}

bool input_take(struct input_line *line)
{
    if (queue.n == 0) return false;
    input_line_free(line);
    *line = queue.lines[0];
    memmove(queue.lines, queue.lines + 1, --queue.n * sizeof *queue.lines);
    return true;
}

size_t input_n_waiting(void)
{
    return queue.n;
}

/* One behind the other, an empty line between them. */
static void append_part(struct buf *out, const char *s, size_t n)
{
    if (out->len > 0 && n > 0) buf_puts(out, "\n\n");
    buf_append(out, s, n);
}

void input_attach(const char *s, size_t n)
{
    append_part(&attached, s, n);
}

bool input_take_attached(struct buf *out)
{
    buf_free(out);
    *out = attached;
    attached = (struct buf){0};
    return out->len > 0;
}

/* The bytes that a line has before its message: a slash before one that begins with a slash. */
static size_t n_before_message(const char *line, size_t n)
{
    return n > 1 && line[1] == '/' && chat_wants_slash(line, n) ? 1 : 0;
}

/* Several lines are no command, and each stands in them as it is meant. */
void input_fill(const char *text, size_t n, bool is_message)
{
    struct buf all = {0};
    edit_keys_give_up_command();
    const size_t n_line = (size_t)rl_end;
    if (n_line == 0 && is_message && chat_wants_slash(text, n)) buf_putc(&all, '/');
    const size_t at = n_line > 0 && !is_message ? n_before_message(text, n) : 0;
    charset_give(text + at, n - at, &all);
    if (n_line > 0) {
        const size_t from = edit_keys_pasted() ? 0 : n_before_message(rl_line_buffer, n_line);
        buf_putc(&all, '\n');
        buf_append(&all, rl_line_buffer + from, n_line - from);
    }
    rl_free_line_state();
    rl_replace_line(buf_str(&all), 0);
    rl_point = rl_end;
    buf_free(&all);
}

void input_call_back(void)
{
    struct buf all = {0}, all_attached = {0};
    struct input_line line = {0};
    const bool is_alone = queue.n == 1;
    while (input_take(&line)) {
        const size_t at = is_alone || line.is_pasted
                              ? 0
                              : n_before_message(buf_str(&line.text), line.text.len);
        if (all.len > 0) buf_putc(&all, '\n');
        buf_append(&all, buf_str(&line.text) + at, line.text.len - at);
        append_part(&all_attached, buf_str(&line.attached), line.attached.len);
    }
    append_part(&all_attached, buf_str(&attached), attached.len);
    buf_free(&attached);
    attached = all_attached;
    if (all.len > 0) input_fill(all.data, all.len, line.is_pasted || !is_alone);
    buf_free(&all);
    input_line_free(&line);
}

void input_give_up(void)
{
    edit_keys_break_off();
    buf_clear(&choices);
    giving_up = true;
    edit_keys_give_up();
    giving_up = false;
}

/* What readline's own display puts before the prompt, if the user wants that; it may have
 * markers of what has no width. */
static const char *mode_shown(void)
{
    const char *is_on = rl_variable_value("show-mode-in-prompt");
    if (!is_on || strcmp(is_on, "on") != 0 || rl_display_prompt != rl_prompt) return "";
    const bool inserts = rl_get_keymap() == vi_insertion_keymap;
    const char *s = rl_variable_value(rl_editing_mode == 1 ? "emacs-mode-string"
                                      : inserts            ? "vi-ins-mode-string"
                                                           : "vi-cmd-mode-string");
    return s ? s : "";
}

struct input_view input_view(void)
{
    /* A search shows in it what was typed. */
    const char *asks = rl_display_prompt ? rl_display_prompt : prompt;
    const char *mode = mode_shown();
    buf_clear(&asked);
    charset_take(mode, strlen(mode), &asked);
    charset_take(asks, strlen(asks), &asked);
    struct input_view view = {.prompt = buf_str(&asked),
                              .text = rl_line_buffer ? rl_line_buffer : "",
                              .len = (size_t)rl_end,
                              .cursor = (size_t)rl_point};
    if (utf8_valid(view.text, view.len)) return view;
    const char *typed = view.text;
    size_t n_after = view.len - view.cursor;
    buf_clear(&viewed);
    charset_take(typed, view.cursor, &viewed);
    view.cursor = viewed.len;
    charset_take(typed + rl_point, n_after, &viewed);
    view.text = buf_str(&viewed);
    view.len = viewed.len;
    return view;
}

const char *input_choices(void)
{
    return buf_str(&choices);
}
