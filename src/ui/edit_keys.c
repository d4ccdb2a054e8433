/* Static state: readline is one per process. */
#include "ui/edit_keys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <readline/readline.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "ui/editor.h"
#include "ui/signals.h"
#include "ui/tty.h"

static const struct edit_keys_terminal *terminal;
static bool pasted_at_zero; /* the beginning of the line was pasted */
/* Bytes typed before the terminal was ours: their Return had become a line feed. */
static int n_cooked;

static int insert_line_break(int count, int key)
{
    (void)key;
    while (count-- > 0)
        rl_insert_text("\n");
    return 0;
}

/* Where the line that holds position `at` of the text begins. */
static int line_start(int at)
{
    while (at > 0 && rl_line_buffer[at - 1] != '\n')
        at--;
    return at;
}

static int line_end(int at)
{
    while (at < rl_end && rl_line_buffer[at] != '\n')
        at++;
    return at;
}

/* To the same byte of the line above or below; characters are not cut. */
static void go_to_column(int start, int column)
{
    int at = start + column, end = line_end(start);
    if (at > end) at = end;
    while (at > start && (rl_line_buffer[at] & 0xc0) == 0x80)
        at--;
    rl_point = at;
}

static int up(int count, int key)
{
    int start = line_start(rl_point);
    if (start == 0) return rl_get_previous_history(count, key);
    go_to_column(line_start(start - 1), rl_point - start);
    return 0;
}

static int down(int count, int key)
{
    int end = line_end(rl_point);
    if (end == rl_end) return rl_get_next_history(count, key);
    go_to_column(end + 1, rl_point - line_start(rl_point));
    return 0;
}

/* Takes control characters out of what was pasted into [from, to): a terminal would obey them
 * while it shows the line. */
static void clean_paste(int from, int to)
{
    struct buf clean = {0};
    for (int i = from; i < to;) {
        uint32_t cp;
        int len = utf8_decode(rl_line_buffer + i, (size_t)(to - i), &cp);
        bool keep = len > 0 && (cp == '\n' || cp == '\t' ||
                                (cp >= 0x20 && cp != 0x7f && !(cp >= 0x80 && cp < 0xa0)));
        if (keep) buf_append(&clean, rl_line_buffer + i, (size_t)len);
        i += len > 0 ? len : 1;
    }
    if (clean.len != (size_t)(to - from)) {
        rl_delete_text(from, to);
        rl_point = from;
        rl_insert_text(buf_str(&clean));
    }
    buf_free(&clean);
}

static int paste(int count, int key)
{
    int from = rl_point, rest = rl_end - rl_point;
    int result = rl_bracketed_paste_begin(count, key);
    if (rl_end - rest > from) {
        if (from == 0) pasted_at_zero = true;
        clean_paste(from, rl_end - rest);
    }
    return result;
}

static int open_editor(int count, int key)
{
    (void)count, (void)key;
    struct buf text = {0};
    struct err err;
    terminal->pause();
    bool ok = editor_run(rl_line_buffer, (size_t)rl_end, &text, &err);
    if (ok) {
        rl_begin_undo_group();
        rl_delete_text(0, rl_end);
        rl_point = 0;
        rl_insert_text(buf_str(&text));
        rl_end_undo_group();
    } else {
        terminal->complain(err.msg);
    }
    buf_free(&text);
    terminal->resume();
    return 0;
}

/* Before readline reads the inputrc, so that the user's bindings win. */
static void bind_keys(void)
{
    static const struct {
        const char *name;
        rl_command_func_t *run;
    } commands[] = {{"insert-line-break", insert_line_break},
                    {"edit-in-editor", open_editor},
                    {"line-up-or-history", up},
                    {"line-down-or-history", down}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        rl_add_defun(commands[i].name, commands[i].run, -1);

    Keymap inserting[] = {emacs_standard_keymap, vi_insertion_keymap};
    static const struct {
        const char *keys;
        rl_command_func_t *run;
    } keys[] = {
        {"\\C-j", insert_line_break},
        {"\\e\\C-m", insert_line_break},
        {"\\e\\C-j", insert_line_break},
        {"\\C-x\\C-e", open_editor},
        {"\\e[A", up},
        {"\\eOA", up},
        {"\\e[B", down},
        {"\\eOB", down},
        {"\\e[200~", paste},
    };
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            rl_bind_keyseq_in_map(keys[i].keys, keys[i].run, inserting[m]);
    rl_bind_keyseq_in_map("v", open_editor, vi_movement_keymap);
}

/* Readline's source of keys. It may be called where readline waits by itself (inside a paste,
 * at a question), so signals are looked after here, too. */
static int read_key(FILE *in)
{
    for (;;) {
        struct pollfd fds[2] = {{.fd = fileno(in), .events = POLLIN},
                                {.fd = signals_fd(), .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return EOF;
        if (signals_leaving()) return EOF;
        if (fds[0].revents) {
            unsigned char c;
            ssize_t n = read(fileno(in), &c, 1);
            if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
            if (n <= 0) return EOF;
            if (n_cooked > 0) {
                n_cooked--;
                if (c == '\n') return '\r';
            }
            return c;
        }
        signals_drain();
        if (signals_come(SIGINT)) return '\a';
        if (signals_take(SIGTSTP)) {
            terminal->pause();
            signals_stop_here();
            tty_return();
            terminal->resume();
        }
    }
}

void edit_keys_install(const struct edit_keys_terminal *t)
{
    terminal = t;
    rl_getc_function = read_key;
    bind_keys();
}

static Keymap return_map(void)
{
    static Keymap map;
    if (!map) {
        map = rl_make_bare_keymap();
        rl_bind_key_in_map('\r', rl_newline, map);
    }
    return map;
}

void edit_keys_give_up(void)
{
    Keymap map = rl_get_keymap();
    rl_set_keymap(return_map());
    rl_execute_next('\r');
    rl_callback_read_char();
    rl_set_keymap(map);
}

void edit_keys_take_cooked(void)
{
    n_cooked += tty_take_cooked();
}

bool edit_keys_pasted(void)
{
    return pasted_at_zero;
}

void edit_keys_new_line(void)
{
    pasted_at_zero = false;
}

void edit_keys_handled(void)
{
    if (rl_end == 0) pasted_at_zero = false;
}
