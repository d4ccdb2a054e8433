/* Static state: readline is one per process. */
#include "ui/edit_keys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <readline/readline.h>

#include "base/buf.h"
#include "base/file.h"
#include "ui/charset.h"
#include "ui/edit_place.h"
#include "ui/editor.h"
#include "ui/input.h"
#include "ui/key_bytes.h"
#include "ui/paste.h"
#include "ui/signals.h"
#include "ui/tty.h"
#include "ui/wrap.h"

static const struct edit_keys_terminal *terminal;
static bool pasted_at_zero; /* the beginning of the line was pasted */
static int last_key;        /* as readline got it */
static double last_key_ms;  /* … and when */
static double gap_ms;       /* between a [ and the key behind it, when one has come */
static bool skips;          /* a sequence is skipped: a key that is late is none of it */

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

/* From the line that begins at `from` to the same column of the one that begins at `to`. */
static void go_to_line(int from, int to)
{
    int column = wrap_width(rl_line_buffer + from, (size_t)(rl_point - from), 0);
    size_t n = (size_t)(line_end(to) - to);
    rl_point = to + (int)wrap_fit(rl_line_buffer + to, n, column, NULL);
}

static int up(int count, int key)
{
    int start = line_start(rl_point);
    if (start == 0) return rl_get_previous_history(count, key);
    go_to_line(start, line_start(start - 1));
    return 0;
}

static int down(int count, int key)
{
    int end = line_end(rl_point);
    if (end == rl_end) return rl_get_next_history(count, key);
    go_to_line(line_start(rl_point), end + 1);
    return 0;
}

/* What is left of a sequence when its beginning has come: it is there at once, even over a slow
 * line. */
enum { SEQUENCE_MS = 50 };

/* A key that is bound to nothing, say F12, or a focus report: its sequence would be typed into
 * the line. Alt-[ begins like one, but its next key is typed by hand. */
static int skip_sequence(int count, int key)
{
    (void)count, (void)key;
    if (last_key != '[' && gap_ms > SEQUENCE_MS) return 0; /* readline has put it back */
    skips = true;
    int c = rl_read_key();
    if (c == '[') c = rl_read_key(); /* as Linux has it for F1 */
    while (c >= 0x20 && c < 0x40)
        c = rl_read_key();
    skips = false;
    return 0;
}

/* A larger paste makes the line slow to draw and hard to read. A terminal that sends nothing
 * for PASTE_REST_MS may have forgotten the end of it, or its line is slow. */
enum { PASTE_IN_LINE = 8192, PASTE_MAX = 64 << 20, PASTE_REST_MS = 2000 };

/* Takes bytes of a paste; what stands behind its mark is read as keys next. */
static void take_pasted(struct paste *p, const char *s, size_t n)
{
    const size_t used = paste_take(p, s, n);
    key_bytes_put_last(s + used, n - used);
}

/* Waits for more of a paste; false: there is none. Silence alone does not end it, for what
 * comes late would be read as keys; then Ctrl-C does, which stays for who gives up the line. */
static bool more_is_pasted(bool *is_silent)
{
    while (!signals_leaving()) {
        struct pollfd fds[2] = {{.fd = fileno(rl_instream), .events = POLLIN},
                                {.fd = signals_fd(), .events = POLLIN}};
        const int n = poll(fds, 2, *is_silent ? -1 : PASTE_REST_MS);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0 && fds[1].revents) signals_drain();
        if (*is_silent && signals_come(SIGINT)) return false;
        if (n > 0 && fds[0].revents) return true;
        if (n == 0) {
            *is_silent = true;
            signals_take(SIGINT); /* the key may have been pasted */
            terminal->tell(
                "the terminal has not said where the paste ends; Ctrl-C gives it up");
        }
    }
    return false;
}

/* Reads a paste up to its end mark, in blocks: byte by byte, megabytes would take minutes.
 * Nothing of it is ever read as keys, also where it is too long (it is cut), or Ctrl-C comes.
 */
static void read_paste(struct paste *p)
{
    struct buf before = {0};
    key_bytes_take(&before);
    take_pasted(p, buf_str(&before), before.len);
    buf_free(&before);
    bool is_silent = false;
    while (!p->is_over && more_is_pasted(&is_silent)) {
        char bytes[65536];
        const ssize_t n = read(fileno(rl_instream), bytes, sizeof bytes);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) break;
        take_pasted(p, bytes, (size_t)n);
    }
    paste_end(p);
}

static void tell_cut(void)
{
    struct buf text = {0};
    buf_printf(&text, "the paste is cut after %d MiB, longer than any context",
               PASTE_MAX >> 20);
    terminal->tell(text.data);
    buf_free(&text);
}

/* Inserts UTF-8 into the line at the cursor, in the terminal's character set. */
static void insert(const char *s, size_t n)
{
    struct buf typed = {0};
    charset_give(s, n, &typed);
    rl_insert_text(buf_str(&typed));
    buf_free(&typed);
}

void edit_keys_read_paste(struct buf *out)
{
    struct paste raw = {.max = PASTE_MAX};
    struct buf text = {0};
    read_paste(&raw);
    charset_take(buf_str(&raw.text), raw.text.len, &text);
    input_clean(out, buf_str(&text), text.len);
    if (raw.is_cut) tell_cut();
    paste_free(&raw);
    buf_free(&text);
}

static int paste(int count, int key)
{
    struct buf clean = {0};
    (void)count, (void)key;
    edit_keys_read_paste(&clean);
    if (clean.len > PASTE_IN_LINE ||
        (terminal->fits && !terminal->fits(buf_str(&clean), clean.len))) {
        terminal->pasted(clean.data, clean.len);
    } else if (clean.len > 0) {
        if (rl_point == 0) pasted_at_zero = true;
        insert(clean.data, clean.len);
    }
    buf_free(&clean);
    return 0;
}

static int open_editor(int count, int key)
{
    (void)count, (void)key;
    struct buf typed = {0}, text = {0};
    const char *warning;
    struct err err;
    charset_take(rl_line_buffer, (size_t)rl_end, &typed);
    terminal->pause();
    bool ok = editor_run(buf_str(&typed), typed.len, &text, &warning, &err);
    if (ok) {
        rl_begin_undo_group();
        rl_delete_text(0, rl_end);
        rl_point = 0;
        insert(buf_str(&text), text.len);
        rl_end_undo_group();
    }
    const bool leaves = signals_leaving() != 0;
    if (!leaves && (!ok || warning)) terminal->complain(ok ? warning : err.msg);
    buf_free(&typed);
    buf_free(&text);
    if (!leaves) terminal->resume();
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
        /* Shift, Alt and Ctrl with Return, of terminals that tell them apart: as kitty's
         * protocol has it, and as xterm's modifyOtherKeys. */
        {"\\e[13;2u", insert_line_break},
        {"\\e[13;3u", insert_line_break},
        {"\\e[13;5u", insert_line_break},
        {"\\e[27;2;13~", insert_line_break},
        {"\\e[27;3;13~", insert_line_break},
        {"\\e[27;5;13~", insert_line_break},
        {"\\e[", skip_sequence},
        {"\\C-x\\C-e", open_editor},
        {"\\e[A", up},
        {"\\eOA", up},
        {"\\e[B", down},
        {"\\eOB", down},
        /* Where it does not draw by itself readline asks no terminfo for it. */
        {"\\e[3~", rl_delete},
        {"\\e[200~", paste},
    };
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            rl_bind_keyseq_in_map(keys[i].keys, keys[i].run, inserting[m]);
    rl_bind_keyseq_in_map("v", open_editor, vi_movement_keymap);
}

static int no_key_waits(void)
{
    return 0;
}

/* Whether another key is there, of those read already, too, which readline cannot see. Inside a
 * sequence it is waited for, as readline does by itself. */
static int a_key_waits(void)
{
    const char *ms = rl_variable_value("keyseq-timeout");
    bool in_sequence = last_key == '\033' || RL_ISSTATE(RL_STATE_MULTIKEY);
    return key_bytes_come(in_sequence && ms ? atoi(ms) : 0);
}

/* Whether keys follow an escape is no question in a search: readline 8.2 would put the escape
 * back for its next command and lose its way (a null context in rl_callback_read_char). So it
 * ends the search by itself; see end_search_at_key. */
static void answer_for_escape(void)
{
    rl_input_available_hook = RL_ISSTATE(RL_STATE_ISEARCH) ? no_key_waits : a_key_waits;
}

/* Readline's own: the next key of a macro, 0 behind the last. */
extern int _rl_next_macro_key(void);

void edit_keys_put_macro_off(void)
{
    struct buf keys = {0};
    for (int key; RL_ISSTATE(RL_STATE_MACROINPUT) && (key = _rl_next_macro_key()) != 0;)
        buf_putc(&keys, (char)key);
    key_bytes_put_first(buf_str(&keys), keys.len);
    buf_free(&keys);
}

/* Readline's source of keys. It may be called where readline waits by itself (inside a paste,
 * at a question), so signals are looked after here, too. */
static int wait_for_key(FILE *in)
{
    char c;
    if (key_bytes_n() > 0 && key_bytes_next(0, &c) > 0) return (unsigned char)c;
    for (;;) {
        struct pollfd fds[2] = {{.fd = fileno(in), .events = POLLIN},
                                {.fd = signals_fd(), .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return EOF;
        if (signals_leaving()) return EOF;
        if (fds[0].revents) {
            const int got = key_bytes_read(&c);
            if (got < 0) continue;
            return got > 0 ? (unsigned char)c : EOF;
        }
        signals_drain();
        if (signals_come(SIGINT)) return '\a';
        if (signals_take(SIGTSTP)) {
            terminal->pause();
            signals_stop_here();
            if (signals_leaving()) return EOF;
            tty_return();
            terminal->resume();
        }
    }
}

static int read_key(FILE *in)
{
    answer_for_escape();
    if (skips && !key_bytes_come(SEQUENCE_MS)) return EOF;
    const int key = wait_for_key(in);
    const double now = clock_ms();
    if (last_key == '[') gap_ms = now - last_key_ms;
    last_key_ms = now;
    last_key = key;
    return key;
}

/* ---- a key ---- */

static const char paste_mark[] = "\033[200~";
enum { N_MARK = sizeof paste_mark - 1 };

/* Whether a paste comes next. What is typed behind other keys stays in the terminal: an editor
 * may be started by them. */
static bool paste_waits(void)
{
    if (key_bytes_n() == 0 && !key_bytes_look(0, 1)) return false;
    for (size_t i = 0; i < N_MARK; i++) {
        if (i == key_bytes_n() && !key_bytes_look(SEQUENCE_MS, N_MARK - i)) return false;
        if (key_bytes_at(i) != paste_mark[i]) return false;
    }
    return true;
}

static void read_char(void)
{
    const bool searches = RL_ISSTATE(RL_STATE_NSEARCH);
    edit_place_take_undo();
    rl_callback_read_char();
    if (!RL_ISSTATE(RL_STATE_CALLBACK) || RL_ISSTATE(RL_STATE_NSEARCH)) return;
    if (searches) edit_place_end_search();
    edit_place_settle();
}

/* What is begun gets C-g. */
static void abort_command(void)
{
    rl_execute_next('\a');
    read_char();
}

/* Readline's own: the keys of a sequence that is not complete. */
extern void _rl_keyseq_chain_dispose(void);

void edit_keys_break_off(void)
{
    if (RL_ISSTATE(RL_STATE_NSEARCH)) abort_command();
    /* C-g would be no part of the sequence: in vi mode its keys and C-g would be typed, and
     * with them what stands in the terminal. Readline 8.2 leaves it to be gone on with. */
    _rl_keyseq_chain_dispose();
    rl_callback_sigcleanup();
    edit_place_settle();
}

/* Of C-v, which waits for a character to insert as it is, readline has no state that one could
 * see: what is begun is broken off in any case. */
void edit_keys_give_up_command(void)
{
    enum {
        BEGUN = RL_STATE_ISEARCH | RL_STATE_NSEARCH | RL_STATE_VIMOTION | RL_STATE_NUMERICARG |
                RL_STATE_CHARSEARCH
    };
    if (RL_ISSTATE(BEGUN)) abort_command();
    edit_keys_break_off();
}

void edit_keys_paste(void)
{
    edit_keys_give_up_command();
    paste(1, 0);
    rl_redisplay_function();
}

/* Two keys in haste. */
enum { TWICE_MS = 500 };

/* Takes an escape that comes so long behind another that it is the beginning of a key, as that
 * one is for readline: behind two of them, what is left of F1 would be typed into the line. */
static bool take_escape_again(void)
{
    if (!RL_ISSTATE(RL_STATE_MULTIKEY) || last_key != '\033') return false;
    if (key_bytes_n() == 0 || key_bytes_at(0) != '\033') return false;
    const double now = clock_ms();
    if (now - last_key_ms <= TWICE_MS) return false;
    key_bytes_skip(1);
    last_key_ms = now;
    return true;
}

/* Readline's own: isearch-terminators, as characters; NULL: the user has set none. */
extern char *_rl_isearch_terminators;

/* What ends a search and does nothing else. */
static char end_of_search(void)
{
    const char *set = _rl_isearch_terminators;
    return set && *set && !strchr(set, '\033') ? *set : '\033';
}

/* Whether what was read begins with a key of two bytes or more that does something. */
static bool is_longer_key(void)
{
    if (key_bytes_n() < 2) return false;
    const char keys[] = {key_bytes_at(0), key_bytes_at(1), '\0'};
    return keys[1] && rl_function_of_keyseq(keys, rl_get_keymap(), NULL);
}

/* The first of several bytes, say of an arrow key or C-x, ends a search, and is a key then.
 * Readline 8.2 gets lost where it does not know the whole (a null context, as above). An escape
 * that begins none is no more than the end. */
static void end_search_at_key(void)
{
    if (!RL_ISSTATE(RL_STATE_ISEARCH) || key_bytes_n() == 0) return;
    const char first = key_bytes_at(0), end = end_of_search();
    if (rl_get_keymap()[(unsigned char)first].type != ISKMAP) return;
    if (first == end && !is_longer_key()) return;
    answer_for_escape();
    rl_execute_next(end);
    read_char();
}

void edit_keys_next(void)
{
    if (paste_waits()) {
        key_bytes_skip(N_MARK);
        edit_keys_paste();
        return;
    }
    /* Readline would drop what stands in the line, or end it with a line break. */
    if (key_bytes_gone()) return;
    end_search_at_key();
    if (!take_escape_again()) read_char();
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
    /* Where the next line has begun in vi mode, readline has put its own. */
    if (rl_get_keymap() == return_map()) rl_set_keymap(map);
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
