#include "ui/prompt.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "base/mem.h"
#include "chat/chat.h"
#include "ui/charset.h"
#include "ui/edit_keys.h"
#include "ui/key_bytes.h"
#include "ui/tty.h"
#include "ui/wrap.h"

static bool shown, lifted;
static bool paused; /* the terminal is given away */
static char *marker_shown;
static struct buf fill; /* for the next prompt */
static enum prompt_got got;
static struct prompt_line *got_line;
static bool marks; /* the terminal marks pastes though no prompt is shown */

/* What is pasted then waits in the terminal for the next prompt, which must tell it from keys.
 */
static void mark_pastes(bool on)
{
    const char *is_on = rl_outstream ? rl_variable_value("enable-bracketed-paste") : NULL;
    if (on == marks || !is_on || strcmp(is_on, "on") != 0 || !isatty(fileno(rl_outstream)))
        return;
    static const char off[] = "\033[?2004l";
    marks = on;
    fputs(on ? "\033[?2004h" : off, rl_outstream);
    fflush(rl_outstream);
    /* However the program ends. */
    if (rl_outstream == stdout) tty_say_goodbye(off, on ? sizeof off - 1 : 0);
}

/* --- Reading ------------------------------------------------------------------------------ */

static void on_line(char *line)
{
    shown = false;
    got = line ? PROMPT_LINE : PROMPT_EOF;
    buf_clear(&got_line->text);
    if (line) charset_take(line, strlen(line), &got_line->text);
    got_line->is_pasted = edit_keys_pasted();
    free(line);
    edit_keys_put_macro_off();
    rl_callback_handler_remove();
    mark_pastes(true);
    tty_quiet();
}

enum prompt_got prompt_keys(struct prompt_line *line)
{
    got = PROMPT_MORE;
    got_line = line;
    edit_keys_next();
    if (shown) edit_keys_handled();
    if (shown && key_bytes_gone()) on_line(NULL);
    return got;
}

/* --- The prompt --------------------------------------------------------------------------- */

static void complain(const char *text)
{
    fprintf(stderr, "hearth: %s\n", text);
}

static void tell(const char *text)
{
    prompt_pause();
    complain(text);
    prompt_resume();
}

static void (*on_paste)(void *user, const char *s, size_t n);
static void *on_paste_user;

static void pasted(const char *s, size_t n)
{
    on_paste(on_paste_user, s, n);
}

/* Readline's own: the columns of the prompt, with what the inputrc's show-mode-in-prompt puts
 * before it. */
extern int rl_visible_prompt_length;

/* Counts on: the rows that text takes which begins at *column. */
static int count_rows(const char *s, size_t n, int columns, int *column)
{
    int n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        if ((s[i] & 0xc0) == 0x80) continue;
        *column += (unsigned char)s[i] >= 0xe0 ? 2 : 1; /* most of these are wide */
        if (s[i] != '\n' && *column <= columns) continue;
        n_rows++;
        *column = 0;
    }
    return n_rows;
}

/* Of a line of more rows than the terminal has, readline draws the first ones and the cursor.
 */
static bool fits_behind(size_t n_typed, const char *s, size_t n)
{
    int rows, columns, column = rl_visible_prompt_length;
    rl_get_screen_size(&rows, &columns);
    if (rows < 2 || columns < 2) return true;
    int n_rows = 1 + count_rows(rl_line_buffer, n_typed, columns, &column);
    return n_rows + count_rows(s, n, columns, &column) < rows;
}

static bool fits(const char *s, size_t n)
{
    return fits_behind((size_t)rl_end, s, n);
}

bool prompt_fits(const char *s, size_t n)
{
    return fits_behind(0, s, n);
}

void prompt_open(FILE *out, void (*take_paste)(void *user, const char *s, size_t n), void *user)
{
    static const struct edit_keys_terminal terminal = {prompt_pause, prompt_resume, complain,
                                                       tell,         pasted,        fits};
    paused = false;
    on_paste = take_paste;
    on_paste_user = user;
    rl_readline_name = "hearth";
    rl_instream = stdin;
    rl_outstream = out;
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    edit_keys_install(&terminal);
    rl_initialize();
    mark_pastes(true);
}

/* Without what is no text on the screen, as colours are. */
static void put_seen(const char *marker, struct buf *out)
{
    bool is_seen = true;
    for (const char *s = marker; *s; s++) {
        const bool switches = *s == RL_PROMPT_START_IGNORE || *s == RL_PROMPT_END_IGNORE;
        if (switches) is_seen = *s == RL_PROMPT_END_IGNORE;
        if (is_seen && !switches) buf_putc(out, *s);
    }
}

/* Where the terminal cannot clear a row, readline writes blanks over what was there; behind a
 * search it counts too few of them beside a marker with colours. */
static void keep_marker(const char *marker)
{
    struct buf seen = {0};
    free(marker_shown);
    if (!rl_get_termcap("ce")) put_seen(marker, &seen);
    marker_shown = mem_strdup(seen.len > 0 ? buf_str(&seen) : marker);
    buf_free(&seen);
}

static int use_fill(void)
{
    rl_insert_text(buf_str(&fill));
    buf_clear(&fill);
    return 0;
}

void prompt_show(const char *marker)
{
    keep_marker(marker);
    edit_keys_new_line();
    rl_startup_hook = fill.len > 0 ? use_fill : NULL;
    shown = true;
    marks = false; /* readline's from here */
    tty_say_goodbye("", 0);
    tty_echo();
    key_bytes_take_cooked();
    rl_callback_handler_install(marker_shown, on_line);
}

void prompt_fill(const char *text, size_t n)
{
    buf_clear(&fill);
    if (chat_wants_slash(text, n)) buf_putc(&fill, '/');
    charset_give(text, n, &fill);
    if (!shown) return;
    edit_keys_give_up_command();
    rl_free_line_state();
    rl_replace_line(buf_str(&fill), 0);
    rl_point = rl_end;
    buf_clear(&fill);
    rl_redisplay();
}

void prompt_text(struct buf *out)
{
    charset_take(rl_line_buffer, (size_t)rl_end, out);
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
    keep_marker(marker);
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

void prompt_interrupt(void)
{
    struct prompt_line given_up = {0};
    edit_keys_break_off();
    /* Behind the end of what was typed, so that it stays readable. */
    rl_point = rl_end;
    rl_redisplay();
    fputs("^C", rl_outstream);
    got_line = &given_up;
    edit_keys_give_up();
    buf_free(&given_up.text);
    char *marker = mem_strdup(marker_shown);
    prompt_show(marker);
    free(marker);
}

/* Whether the terminal breaks rows anew that are longer than its new width, and joins those
 * that it had broken. Nearly all do; xterm and GNU screen cut and leave them. */
static bool breaks_anew(void)
{
    const char *term = getenv("TERM");
    if (!rl_get_termcap("up") || !term || strcmp(term, "linux") == 0) return false;
    return getenv("TMUX") || !(getenv("XTERM_VERSION") || getenv("STY"));
}

static void put_blanks(int n, struct buf *out)
{
    while (n-- > 0)
        buf_putc(out, ' ');
}

/* How many rows of the prompt, which may be that of a search or a count, stand above the cursor
 * where so many columns are. */
static int rows_above(int columns)
{
    struct buf seen = {0}, text = {0};
    if (rl_display_prompt == rl_prompt)
        put_blanks(rl_visible_prompt_length, &seen);
    else
        put_seen(rl_display_prompt, &seen);
    buf_append(&seen, rl_line_buffer, (size_t)rl_point);
    charset_take(buf_str(&seen), seen.len, &text);
    int n = 0;
    for (size_t at = 0; columns > 0 && at < text.len; n++) {
        const struct wrap_row row = wrap_row_exact(text.data + at, text.len - at, columns);
        if (row.next == 0) break;
        at += row.next;
    }
    buf_free(&seen);
    buf_free(&text);
    return n;
}

/* Where the prompt of a search or a count is broken readline settles once, for the width there
 * is when it is made. */
static void show_message_anew(void)
{
    char *text = mem_strdup(rl_display_prompt);
    rl_message("%s", text);
    free(text);
}

/* Readline goes up by the rows that there were before: of a message of several rows some would
 * stand twice then, or what is above it would be gone. */
static void draw_anew(void)
{
    int rows, columns;
    rl_reset_screen_size();
    rl_get_screen_size(&rows, &columns);
    const int n = rows_above(columns);
    if (n > 0) fprintf(rl_outstream, "\033[%dA", n); /* not beyond the first row */
    /* The rows below, then its own: of a screen that is cleared as a whole tmux keeps a copy.
     */
    fputs("\r\0337\033[B\033[J\0338\033[K", rl_outstream);
    rl_on_new_line();
    if (rl_display_prompt != rl_prompt)
        show_message_anew();
    else
        rl_forced_update_display();
}

void prompt_resize(void)
{
    if (!rl_instream) return; /* readline is not open yet and will see for itself */
    if (!shown)
        rl_reset_screen_size();
    else if (lifted || !breaks_anew())
        rl_resize_terminal();
    else
        draw_anew();
}

void prompt_pause(void)
{
    if (paused) return;
    paused = true;
    if (!shown) {
        mark_pastes(false);
        return;
    }
    /* Below the last row; the cursor is where it was when the line is drawn again. */
    const int point = rl_point;
    rl_point = rl_end;
    rl_redisplay();
    rl_point = point;
    fputc('\n', rl_outstream);
    fflush(rl_outstream);
    rl_deprep_terminal();
    tty_restore();
}

void prompt_resume(void)
{
    paused = false;
    if (!shown) {
        mark_pastes(true);
        return;
    }
    tty_echo();
    key_bytes_take_cooked();
    rl_prep_terminal(1);
    rl_reset_screen_size();
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
