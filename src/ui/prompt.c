#include "ui/prompt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "ui/editor.h"
#include "ui/signals.h"
#include "ui/tty.h"

static bool shown, lifted;
static char *marker_shown;
static struct buf fill;     /* for the next prompt */
static bool pasted_at_zero; /* the beginning of the line was pasted */
static enum prompt_got got;
static struct prompt_line *got_line;
/* Bytes typed before the terminal was ours: their Return had become a line feed. */
static int n_cooked;

/* --- Keys --------------------------------------------------------------------------------- */

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
    prompt_pause();
    bool ok = editor_run(rl_line_buffer, (size_t)rl_end, &text, &err);
    if (ok) {
        rl_begin_undo_group();
        rl_delete_text(0, rl_end);
        rl_point = 0;
        rl_insert_text(buf_str(&text));
        rl_end_undo_group();
    } else {
        fprintf(stderr, "hearth: %s\n", err.msg);
    }
    buf_free(&text);
    prompt_resume();
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

/* --- Reading ------------------------------------------------------------------------------ */

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
            prompt_pause();
            signals_stop_here();
            tty_return();
            prompt_resume();
        }
    }
}

static void on_line(char *line)
{
    shown = false;
    got = line ? PROMPT_LINE : PROMPT_EOF;
    buf_clear(&got_line->text);
    if (line) buf_puts(&got_line->text, line);
    got_line->is_pasted = pasted_at_zero;
    free(line);
    rl_callback_handler_remove();
    tty_quiet();
}

enum prompt_got prompt_keys(struct prompt_line *line)
{
    got = PROMPT_MORE;
    got_line = line;
    rl_callback_read_char();
    if (shown && rl_end == 0) pasted_at_zero = false;
    return got;
}

/* --- The prompt --------------------------------------------------------------------------- */

void prompt_open(FILE *out)
{
    rl_readline_name = "hearth";
    rl_instream = stdin;
    rl_outstream = out;
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    rl_getc_function = read_key;
    bind_keys();
    rl_initialize();
}

static int use_fill(void)
{
    rl_insert_text(buf_str(&fill));
    buf_clear(&fill);
    return 0;
}

void prompt_show(const char *marker)
{
    free(marker_shown);
    marker_shown = mem_strdup(marker);
    pasted_at_zero = false;
    rl_startup_hook = fill.len > 0 ? use_fill : NULL;
    shown = true;
    tty_echo();
    n_cooked += tty_take_cooked();
    rl_callback_handler_install(marker_shown, on_line);
}

void prompt_fill(const char *text, size_t n)
{
    buf_clear(&fill);
    buf_append(&fill, text, n);
    if (!shown) return;
    rl_free_line_state();
    rl_replace_line(buf_str(&fill), 0);
    rl_point = rl_end;
    buf_clear(&fill);
    rl_redisplay();
}

const char *prompt_text(size_t *n)
{
    *n = (size_t)rl_end;
    return rl_line_buffer ? rl_line_buffer : "";
}

bool prompt_is_shown(void)
{
    return shown;
}

bool prompt_is_empty(void)
{
    return rl_end == 0;
}

void prompt_mark(const char *marker)
{
    if (!shown) return;
    free(marker_shown);
    marker_shown = mem_strdup(marker);
    rl_set_prompt(marker_shown);
    if (!lifted) rl_redisplay();
}

void prompt_lift(void)
{
    if (!shown) return;
    lifted = true;
    rl_clear_visible_line();
    fflush(rl_outstream);
}

void prompt_drop(void)
{
    if (!shown) return;
    lifted = false;
    rl_on_new_line();
    rl_forced_update_display();
}

/* Return, whatever keys the user has bound to it. */
static Keymap return_map(void)
{
    static Keymap map;
    if (!map) {
        map = rl_make_bare_keymap();
        rl_bind_key_in_map('\r', rl_newline, map);
    }
    return map;
}

void prompt_interrupt(void)
{
    struct prompt_line given_up = {0};
    rl_callback_sigcleanup();
    /* Behind the end of what was typed, so that it stays readable. */
    rl_point = rl_end;
    rl_redisplay();
    fputs("^C", rl_outstream);
    /* Only readline itself knows who shares the undo lists of the line, of the history and of
     * the line that a search has put aside, so the line ends as with Return. */
    Keymap map = rl_get_keymap();
    rl_set_keymap(return_map());
    rl_execute_next('\r');
    prompt_keys(&given_up);
    rl_set_keymap(map);
    buf_free(&given_up.text);
    char *marker = mem_strdup(marker_shown);
    prompt_show(marker);
    free(marker);
}

void prompt_resize(void)
{
    rl_resize_terminal();
}

void prompt_pause(void)
{
    if (!shown) return;
    rl_point = rl_end;
    rl_redisplay();
    fputc('\n', rl_outstream);
    fflush(rl_outstream);
    rl_deprep_terminal();
    tty_restore();
}

void prompt_resume(void)
{
    if (!shown) return;
    tty_echo();
    n_cooked += tty_take_cooked();
    rl_prep_terminal(1);
    rl_resize_terminal();
    rl_on_new_line();
    rl_forced_update_display();
}

void prompt_close(void)
{
    prompt_pause();
    if (shown) rl_callback_handler_remove();
    shown = false;
    free(marker_shown);
    marker_shown = NULL;
    buf_free(&fill);
}
