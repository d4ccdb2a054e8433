/* The full-screen face: what the chat says, lines, signals, and the loop between them. */
#include "ui/tui.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/file.h"
#include "chat/chat.h"
#include "config/options.h"
#include "config/paths.h"
#include "ui/clipboard.h"
#include "ui/editor.h"
#include "ui/exit_status.h"
#include "ui/given.h"
#include "ui/history.h"
#include "ui/input_box.h"
#include "ui/key_bytes.h"
#include "ui/screen.h"
#include "ui/signals.h"
#include "ui/status.h"
#include "ui/term.h"
#include "ui/transcript.h"
#include "ui/tty.h"
#include "ui/tui_impl.h"

/* A stream is shown so often; a key at once. */
enum { FRAME_MS = 33 };

/* Readline's commands know no face. */
static struct tui *the_tui;

/* --- The terminal given and taken --------------------------------------------------------- */

static void pause_screen(void)
{
    screen_pause();
    tty_restore();
}

static void resume_screen(void)
{
    tty_return();
    key_bytes_take_cooked();
    screen_resume();
    the_tui->frame.is_due = the_tui->frame.is_whole = true;
}

static void complain(const char *text)
{
    transcript_say(the_tui->transcript, FACE_ERROR, text);
}

static void tell(const char *text)
{
    complain(text);
    tui_draw(the_tui);
}

static void draw(void)
{
    tui_draw(the_tui);
}

static void stop_here(void)
{
    screen_pause();
    tty_lend();
    signals_stop_here();
    /* Who is ended while stopped is in the background: the terminal is the shell's. */
    if (!signals_leaving()) resume_screen();
}

/* The time that the process was stopped is none of what runs. */
static void leave_stop_out(struct tui *t)
{
    const double ms = signals_take_stopped_ms();
    t->work.began_ms += ms;
    if (t->figures.from_ms > 0) t->figures.from_ms += ms;
    chat_stood_still(t->chat, ms);
}

/* --- What the chat says ------------------------------------------------------------------- */

static void release(struct tui *t)
{
    if (t->unseen.text.len > 0)
        transcript_text(t->transcript, t->unseen.part, t->unseen.text.data, t->unseen.text.len);
    buf_clear(&t->unseen.text);
}

static void on_text(void *user, enum face_part part, const char *s, size_t n)
{
    struct tui *t = user;
    t->work.runs = false;
    t->reply.is_coming = true;
    if (t->copy.fd >= 0 && part == FACE_REPLY) output_text(&t->copy, s, n);
    if (t->no_stream) {
        if (part != t->unseen.part) release(t);
        t->unseen.part = part;
        buf_append(&t->unseen.text, s, n);
        return;
    }
    transcript_text(t->transcript, part, s, n);
    t->frame.is_due = true;
}

static void on_progress(void *user, enum face_phase phase, uint64_t done, uint64_t total,
                        uint64_t cached)
{
    struct tui *t = user;
    if (!t->work.runs || t->work.phase != phase) t->work.began_ms = clock_ms();
    t->work.runs = done < total;
    t->work.phase = phase;
    t->work.done = done;
    t->work.total = total;
    t->work.cached = cached;
    t->frame.is_due = true;
}

static void on_say(void *user, enum face_level level, const char *text)
{
    struct tui *t = user;
    if (t->is_over) {
        if (level >= FACE_WARNING) fprintf(stderr, "hearth: %s\n", text);
        return;
    }
    transcript_say(t->transcript, level, text);
    t->frame.is_due = true;
}

static void on_offer(void *user, const char *text, size_t n)
{
    struct tui *t = user;
    input_fill(text, n, true);
    t->frame.is_due = true;
}

static bool on_edit(void *user, const char *s, size_t n, struct buf *out, struct err *err)
{
    const char *warning;
    pause_screen();
    bool ok = editor_run(s, n, out, &warning, err);
    if (signals_leaving()) return ok;
    resume_screen();
    leave_stop_out(user); /* before what was edited is sent */
    if (ok && warning) on_say(user, FACE_WARNING, warning);
    return ok;
}

static bool on_copy(void *user, const char *text, size_t n)
{
    (void)user;
    if (clipboard_by_tool(text, n)) return true;
    struct buf sequence = {0};
    clipboard_sequence(text, n, &sequence);
    screen_raw(buf_str(&sequence), sequence.len);
    buf_free(&sequence);
    return true;
}

static void on_turn_begin(void *user)
{
    struct tui *t = user;
    t->reply.cancelled_ms = 0;
    t->reply.rate = 0;
    t->figures.from_ms = 0;
    t->reply.n_drafted = t->reply.n_accepted = 0;
    buf_clear(&t->unseen.text);
    transcript_turn(t->transcript, t->chat, tui_shows_reasoning(t));
    t->frame.is_due = true;
}

static void end_copied_reply(struct tui *t)
{
    struct buf warning = {0};
    if (t->copy.fd >= 0 && !output_end_copy(&t->copy, &warning))
        on_say(t, FACE_WARNING, buf_str(&warning));
    buf_free(&warning);
}

static void on_turn_end(void *user, const struct face_report *report)
{
    struct tui *t = user;
    struct buf figures = {0};
    release(t);
    end_copied_reply(t);
    bool went = report->stop != FACE_STOP_FAILED && report->n_generated > 0;
    if (went && !t->quiet) status_report(&figures, 4096, report, t->verbose);
    if (went && face_has_rate(report))
        t->reply.rate = report->n_generated * 1000 / report->decode_ms;
    t->reply.n_drafted = report->n_drafted;
    t->reply.n_accepted = report->n_accepted;
    transcript_end(t->transcript, t->chat, tui_shows_reasoning(t), buf_str(&figures));
    buf_free(&figures);
    t->reply.is_coming = false;
    t->frame.is_due = true;
}

/* --- Signals ------------------------------------------------------------------------------ */

static void cancel_loading(struct tui *t)
{
    /* After /model: back to the model before. */
    if (!t->was_loaded) t->status = EXIT_SIGINT;
    chat_cancel(t->chat);
}

/* Whether something that was sent goes to the chat before what is pasted or typed now. */
static bool has_waiting(const struct tui *t)
{
    return t->given || input_n_waiting() > 0;
}

/* What was pasted stands before the next message, once no other one comes before that. */
static void give_attached(struct tui *t)
{
    struct buf attached = {0};
    if (!has_waiting(t) && input_take_attached(&attached))
        chat_put_before(t->chat, attached.data, attached.len);
    buf_free(&attached);
}

static void on_interrupt(struct tui *t)
{
    enum chat_state state = chat_state(t->chat);
    t->frame.is_due = true;
    t->leaves = false;
    if (state == CHAT_BUSY) {
        if (!signals_first_interrupt(&t->reply.cancelled_ms)) return;
        chat_cancel(t->chat);
        input_call_back();
        give_attached(t);
    } else if (t->mode != MODE_LINE) {
        tui_leave_mode(t);
    } else if (state == CHAT_LOADING && input_view().len == 0) {
        cancel_loading(t);
    } else if (chat_unedit(t->chat)) {
        input_give_up();
        transcript_sync(t->transcript, t->chat, tui_shows_reasoning(t));
    } else if (input_view().len > 0 || !chat_detach(t->chat)) {
        input_give_up();
    }
}

static void on_signals(struct tui *t)
{
    signals_drain();
    if (!signals_leaving() && signals_take(SIGTSTP)) stop_here();
    if (signals_leaving()) t->status = signals_leaving();
    if (t->status >= 0) return;
    if (signals_take(SIGCONT)) {
        /* Somebody else stopped us, and a shell has used the terminal since. */
        pause_screen();
        resume_screen();
    }
    if (signals_take(SIGWINCH)) {
        /* The size may be the one of before, with another in between that cut what was there.
         */
        screen_resize();
        t->frame.is_due = t->frame.is_whole = true;
    }
    if (signals_take(SIGINT)) on_interrupt(t);
}

/* --- Lines -------------------------------------------------------------------------------- */

static void remember(const char *line, bool is_pasted)
{
    struct err err;
    if (!ascii_is_blank(line, strlen(line)) && !history_remember(line, is_pasted, &err))
        on_say(the_tui, FACE_WARNING, err.msg);
}

/* The view goes to the end now, and not when the line's turn comes: who has gone elsewhere
 * since then reads. */
static void on_sent(const struct input_line *line)
{
    struct tui *t = the_tui;
    const char *text = buf_str(&line->text);
    if (!ascii_is_blank(text, line->text.len) || line->attached.len > 0 ||
        chat_has_paste(t->chat))
        t->view.follows = true;
    remember(text, line->is_pasted);
}

/* The turn of the command line. */
static void begin_with(struct tui *t, const struct given *given)
{
    struct buf note = {0};
    for (size_t at = 0; given_flaw(&given->flaws, &at, &note);)
        on_say(t, FACE_WARNING, buf_str(&note));
    if (given->before.len > 0) chat_put_before(t->chat, given->before.data, given->before.len);
    buf_free(&note);
    tui_submit(t, &given->prompt, true);
}

static void take_lines(struct tui *t)
{
    struct input_line line = {0};
    if (t->given && chat_state(t->chat) == CHAT_IDLE && !t->is_loading) {
        begin_with(t, t->given);
        t->given = NULL;
    }
    while (t->status < 0 && chat_state(t->chat) == CHAT_IDLE && !t->is_loading &&
           input_take(&line)) {
        if (line.attached.len > 0)
            chat_put_before(t->chat, line.attached.data, line.attached.len);
        tui_submit(t, &line.text, line.is_pasted);
    }
    give_attached(t);
    input_line_free(&line);
}

/* --- Loading and ends --------------------------------------------------------------------- */

static void greet(struct tui *t)
{
    struct buf text = {0};
    if (t->quiet) return;
    buf_printf(&text,
               "hearth " HEARTH_VERSION ": %s\nF1 shows the keys, /help the commands, Ctrl-D "
               "leaves.",
               chat_model_line(t->chat));
    transcript_say(t->transcript, FACE_INFO, buf_str(&text));
    buf_free(&text);
}

/* The model is open, or cannot be opened. */
static void end_loading(struct tui *t)
{
    t->is_loading = false;
    t->frame.is_due = true;
    if (chat_state(t->chat) == CHAT_FAILED) {
        buf_puts(&t->farewell, chat_error(t->chat)->msg);
        t->status = exit_status_of_load(chat_error(t->chat));
        return;
    }
    transcript_sync(t->transcript, t->chat, tui_shows_reasoning(t));
    t->reply = (struct tui_reply){0}; /* the last one was of the model before */
    if (!t->was_loaded) greet(t);     /* after /model the chat has said what is open */
    t->was_loaded = true;
}

/* Where nothing runs nothing is on its way, however it ended: what is cancelled has no last
 * piece that would tell. */
static void end_work(struct tui *t, enum chat_state state)
{
    if (!t->work.runs || state == CHAT_LOADING || state == CHAT_BUSY) return;
    t->work.runs = false;
    t->frame.is_due = true;
}

static void follow_chat(struct tui *t)
{
    enum chat_state state = chat_step(t->chat, 0);
    if (state == CHAT_LOADING) t->is_loading = true;
    if (t->is_loading && state != CHAT_LOADING) end_loading(t);
    end_work(t, state);
}

/* The chat may be over by a line as well as by what the engine says. After both: no event may
 * ever come that would tell of it. */
static void end_with_chat(struct tui *t)
{
    enum chat_state state = chat_state(t->chat);
    if (t->status >= 0) return;
    if (state == CHAT_CLOSED) t->status = EXIT_DONE;
    /* A /model that failed, with no model to go back to, may not have been seen loading. */
    if (state == CHAT_FAILED) end_loading(t);
}

/* --- Keys --------------------------------------------------------------------------------- */

static void act(enum action action)
{
    tui_act(the_tui, action);
}

/* Where the terminal is gone nobody can ask again. */
static void leave_now(struct tui *t)
{
    if (key_bytes_gone() || chat_may_leave(t->chat)) t->status = EXIT_DONE;
}

/* Ctrl-D: what was sent before it comes before it, unless it is said twice. */
static void leave(struct tui *t)
{
    if (t->leaves || key_bytes_gone() || input_n_waiting() == 0) {
        leave_now(t);
        return;
    }
    t->leaves = true;
    t->notice = "leaves after what waits; Ctrl-D again leaves now";
}

/* Nothing waits any more; who has begun another line stays. */
static void leave_once_done(struct tui *t)
{
    if (!t->leaves || t->is_loading || chat_state(t->chat) != CHAT_IDLE) return;
    if (input_view().len == 0) leave_now(t);
    t->leaves = false;
}

static void handle_keys(struct tui *t)
{
    /* What was typed before Ctrl-C or Ctrl-Z comes before it. */
    while (t->status < 0 && !signals_leaving() && key_bytes_come(0)) {
        t->notice = NULL;
        t->was_refused = false;
        t->frame.is_due = true;
        if (t->mode == MODE_LINE)
            input_key();
        else
            tui_key(t);
        leave_stop_out(t); /* before the turn of a line that was sent */
        if (input_take_end()) leave(t);
        /* Keys behind Enter come behind its line. */
        take_lines(t);
        end_with_chat(t);
    }
    if (signals_leaving()) t->status = signals_leaving();
}

/* --- The loop ----------------------------------------------------------------------------- */

/* A reply is looked at when its next frame is due and not for each of its tokens: that would
 * take the processor from those who compute it. */
static bool looks_later(const struct tui *t)
{
    return chat_state(t->chat) == CHAT_BUSY && clock_ms() - t->frame.drawn_ms < FRAME_MS;
}

/* Milliseconds until something is to be done without being asked, -1: never. */
static int time_left(const struct tui *t, double rest_at, bool later)
{
    double now = clock_ms(), at = -1;
    if (t->frame.is_due || later) at = t->frame.drawn_ms + FRAME_MS;
    if (rest_at > 0 && (at < 0 || rest_at < at)) at = rest_at;
    return at < 0 ? -1 : at > now ? (int)(at - now) + 1 : 0;
}

static void warm(struct tui *t)
{
    struct input_view line = input_view();
    chat_warm(t->chat, line.text, line.len);
}

static void loop(struct tui *t)
{
    double rest_at = clock_ms() + CHAT_REST_MS;
    enum chat_state state = CHAT_LOADING;
    while (t->status < 0) {
        bool later = looks_later(t);
        struct pollfd fds[3] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                {.fd = signals_fd(), .events = POLLIN},
                                {.fd = later ? -1 : chat_fd(t->chat), .events = POLLIN}};
        poll(fds, 3, time_left(t, rest_at, later));
        bool typed = fds[0].revents != 0;
        if (typed) handle_keys(t);
        if (typed || fds[1].revents) on_signals(t); /* a paste looks after them itself */
        if (fds[2].revents) t->frame.is_due = true;
        if (t->status >= 0) break;
        leave_stop_out(t);
        follow_chat(t);
        take_lines(t);
        end_with_chat(t);
        leave_once_done(t);
        bool was_idle = state == CHAT_IDLE;
        state = chat_state(t->chat);
        if (typed || (state == CHAT_IDLE && !was_idle)) rest_at = clock_ms() + CHAT_REST_MS;
        if (state == CHAT_IDLE && rest_at > 0 && clock_ms() >= rest_at) {
            warm(t);
            rest_at = 0;
        } else if (state != CHAT_IDLE) {
            rest_at = 0;
        }
        if (t->frame.is_due && (typed || clock_ms() - t->frame.drawn_ms >= FRAME_MS))
            tui_draw(t);
    }
}

static void attach(const char *s, size_t n)
{
    if (ascii_is_blank(s, n)) return;
    n = ascii_without_ends(s, n);
    input_attach(s, n);
    chat_tell_paste(the_tui->chat, s, n);
    give_attached(the_tui);
}

static void run(struct tui *t, const struct options *o)
{
    static const struct input_hooks hooks = {
        {pause_screen, resume_screen, complain, tell, attach, NULL}, act, on_sent, draw};
    char *path = o->private_mode ? NULL : paths_in(PATHS_STATE, "history");
    struct err err;
    if (!history_open(path, &err)) on_say(t, FACE_WARNING, err.msg);
    free(path);
    for (size_t i = 0; i < o->notes.n; i++)
        on_say(t, FACE_INFO, o->notes.items[i]);
    input_open(t->chat, &hooks);
    t->frame.is_due = true;
    loop(t);
    /* What nobody sent waits for the next start, as where the terminal is gone. */
    remember(input_view().text, edit_keys_pasted());
    input_close();
    history_close();
}

/* The file of --output did not take everything. */
static void end_copy(struct tui *t)
{
    if (t->copy.fd < 0 || output_close(&t->copy)) return;
    if (t->farewell.len > 0) buf_puts(&t->farewell, "\nhearth: ");
    output_explain(&t->copy, &t->farewell);
    if (t->status == EXIT_DONE) t->status = EXIT_RUNTIME;
}

static bool open_all(struct tui *t, const struct options *o, struct err *err)
{
    if (o->output && !output_open(&t->copy, o->output, err)) return false;
    tty_open(STDIN_FILENO);
    signals_install(true);
    tty_quiet();
    return screen_open(term_of(STDOUT_FILENO, o).colour, err);
}

int tui_run(const struct options *o, const struct engine_config *engine,
            const struct given *given)
{
    struct tui t = {.status = -1, .copy.fd = -1, .view.follows = true, .is_loading = true};
    if (!given_is_empty(given)) t.given = given;
    struct err err;
    struct face face = {.user = &t,
                        .is_terminal = true,
                        .has_prompt = true,
                        .text = on_text,
                        .progress = on_progress,
                        .say = on_say,
                        .offer = on_offer,
                        .edit = editor_is_named() ? on_edit : NULL,
                        .copy = on_copy,
                        .turn_begin = on_turn_begin,
                        .turn_end = on_turn_end};
    the_tui = &t;
    t.transcript = transcript_new();
    t.rows = transcript_scrollback(t.transcript);
    tui_take_options(&t, o);
    if (open_all(&t, o, &err)) t.chat = chat_open(o, engine, &face, &err);
    if (t.chat) {
        run(&t, o);
    } else {
        buf_puts(&t.farewell, err.msg);
        t.status = exit_status_of(&err);
    }
    screen_close();
    tty_restore();
    t.is_over = true;
    end_copy(&t);
    if (t.farewell.len > 0) fprintf(stderr, "hearth: %s\n", t.farewell.data);
    chat_close(t.chat);
    dialog_free(&t.dialog);
    transcript_free(t.transcript);
    buf_free(&t.search.words);
    buf_free(&t.unseen.text);
    buf_free(&t.farewell);
    return t.status;
}
