#include "ui/line.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/file.h"
#include "chat/chat.h"
#include "chat/conversation.h"
#include "chat/face.h"
#include "chat/sanitise.h"
#include "chat/view.h"
#include "config/options.h"
#include "config/paths.h"
#include "ui/clipboard.h"
#include "ui/complete.h"
#include "ui/edit_keys.h"
#include "ui/editor.h"
#include "ui/exit_status.h"
#include "ui/given.h"
#include "ui/history.h"
#include "ui/key_bytes.h"
#include "ui/output.h"
#include "ui/progress.h"
#include "ui/prompt.h"
#include "ui/recap.h"
#include "ui/signals.h"
#include "ui/status.h"
#include "ui/term.h"
#include "ui/tty.h"

/* A load that takes longer than GRACE_MS lets the user type meanwhile; the prompt then tells
 * how far it is, every MARK_MS. */
enum { GRACE_MS = 300, MARK_MS = 100 };

/* Where the cursor stands in what a turn prints. */
enum place { AT_START, IN_REASONING, IN_REPLY };

struct line {
    struct chat *chat;
    struct term term; /* where replies go */
    struct term ui;   /* where the prompt is */
    struct output out;
    struct output copy; /* --output; fd is -1 without */
    struct flow thoughts;
    struct progress progress;
    enum place place;
    bool at_margin;  /* the reasoning or the message printed last ended its line */
    struct buf held; /* --no-stream, --accessible: not printed yet */
    enum face_part held_part;
    bool quiet, verbose, no_stream, accessible;
    bool was_loaded;     /* a model was there: now /model loads another */
    double marked_ms;    /* when the prompt last told how far loading is */
    double cancelled_ms; /* of the turn: when it was told to stop; 0: it was not */
    int status;          /* of what ends the program, -1: goes on */
};

static void take_options(struct line *l, const struct options *o)
{
    l->term = term_of(STDOUT_FILENO, o);
    l->ui = l->term.is_tty ? l->term : term_of(STDERR_FILENO, o);
    l->quiet = o->quiet;
    l->verbose = o->verbose;
    l->no_stream = o->no_stream;
    l->accessible = o->accessible;
    l->progress.term = l->ui;
    if (o->quiet) l->progress.term.redraw = false;
}

static void put(struct line *l, const char *s)
{
    output_raw(&l->out, s, strlen(s));
}

/* The time that the process was stopped is none of what runs. */
static void leave_stop_out(struct line *l)
{
    const double ms = signals_take_stopped_ms();
    l->progress.began_ms += ms;
    chat_stood_still(l->chat, ms);
}

/* --- A turn on the screen ----------------------------------------------------------------- */

static void label(struct line *l, const char *name)
{
    if (l->accessible) {
        put(l, name);
        put(l, ":\n");
        return;
    }
    put(l, term_on(&l->term, STYLE_LABEL));
    put(l, "[");
    put(l, name);
    put(l, "]");
    put(l, term_off(&l->term));
    put(l, "\n");
}

static void put_thoughts(struct line *l, const struct buf *shown)
{
    if (shown->len == 0) return;
    put(l, term_on(&l->term, STYLE_DIM));
    output_raw(&l->out, shown->data, shown->len);
    put(l, term_off(&l->term));
}

/* What is held of them. */
static void flush_thoughts(struct line *l)
{
    struct buf shown = {0};
    flow_end(&l->thoughts, &shown);
    put_thoughts(l, &shown);
    buf_free(&shown);
}

static void end_reasoning(struct line *l)
{
    if (l->place != IN_REASONING) return;
    flush_thoughts(l);
    put(l, l->at_margin ? "\n" : "\n\n");
    l->place = AT_START;
    /* Without dimming nothing else tells the answer from what came before it. */
    if (!l->term.colour && !l->accessible) label(l, "answer");
}

static void print_reasoning(struct line *l, const char *s, size_t n)
{
    if (l->place != IN_REASONING) label(l, l->accessible ? "Thinking" : "thinking");
    l->place = IN_REASONING;
    struct buf shown = {0};
    flow_plain(&l->thoughts, s, n, &shown);
    put_thoughts(l, &shown);
    buf_free(&shown);
    l->at_margin = s[n - 1] == '\n';
}

static void print_text(struct line *l, enum face_part part, const char *s, size_t n)
{
    if (n == 0) return;
    if (part == FACE_REASONING) {
        print_reasoning(l, s, n);
        return;
    }
    end_reasoning(l);
    if (l->place == AT_START && l->accessible) label(l, "Assistant");
    l->place = IN_REPLY;
    output_text(&l->out, s, n);
}

/* Prints what was held back, up to n bytes of it. */
static void release(struct line *l, size_t n)
{
    print_text(l, l->held_part, l->held.data, n);
    memmove(l->held.data, l->held.data + n, l->held.len - n);
    l->held.len -= n;
}

static void hold(struct line *l, enum face_part part, const char *s, size_t n)
{
    if (part != l->held_part && l->held.len > 0) release(l, l->held.len);
    l->held_part = part;
    buf_append(&l->held, s, n);
    if (l->no_stream) return;
    /* A screen reader reads whole lines. */
    const char *last = memrchr(l->held.data, '\n', l->held.len);
    if (last) release(l, (size_t)(last - l->held.data) + 1);
}

static void on_text(void *user, enum face_part part, const char *s, size_t n)
{
    struct line *l = user;
    progress_end(&l->progress);
    if (l->copy.fd >= 0 && part == FACE_REPLY) output_text(&l->copy, s, n);
    if (l->no_stream || l->accessible)
        hold(l, part, s, n);
    else
        print_text(l, part, s, n);
}

/* Ends the line that the reply stands in, if it stands in one. */
static void to_margin(struct line *l, bool is_over)
{
    progress_clear(&l->progress);
    if (l->held.len > 0) release(l, l->held.len);
    if (l->place == IN_REASONING) flush_thoughts(l);
    if (l->place == IN_REASONING && !l->at_margin) put(l, "\n");
    if (l->place == IN_REPLY) (is_over ? output_end : output_pause)(&l->out);
    l->at_margin = true;
}

static void on_progress(void *user, enum face_phase phase, uint64_t done, uint64_t total,
                        uint64_t cached)
{
    struct line *l = user;
    if (!prompt_is_shown()) {
        progress_update(&l->progress, phase, done, total, cached);
        return;
    }
    double now = clock_ms();
    if (done >= total || now - l->marked_ms < MARK_MS) return;
    l->marked_ms = now;
    char marker[64];
    snprintf(marker, sizeof marker, "loading %2d %% > ", (int)(done * 100 / total));
    prompt_mark(marker);
}

static void print_message(struct line *l, enum style style, const char *text)
{
    struct term err = l->ui;
    err.fd = STDERR_FILENO;
    if (!isatty(STDERR_FILENO)) err.colour = err.words = false;
    term_message(&err, style, text);
}

static void on_say(void *user, enum face_level level, const char *text)
{
    struct line *l = user;
    to_margin(l, false);
    prompt_lift();
    if (level < FACE_WARNING) {
        /* A file that takes the replies takes nothing else. */
        struct buf lines = {0};
        if (level == FACE_LITERAL)
            buf_puts(&lines, text);
        else
            term_line(&l->ui, text, &lines);
        buf_putc(&lines, '\n');
        output_write(l->ui.fd, lines.data, lines.len);
        buf_free(&lines);
    } else {
        print_message(l, level == FACE_WARNING ? STYLE_WARNING : STYLE_ERROR, text);
    }
    prompt_drop();
}

static void on_offer(void *user, const char *text, size_t n)
{
    (void)user;
    prompt_fill(text, n);
}

static bool on_fits(void *user, const char *s, size_t n)
{
    (void)user;
    return prompt_fits(s, n);
}

static bool on_edit(void *user, const char *s, size_t n, struct buf *out, struct err *err)
{
    const char *warning;
    prompt_pause();
    tty_restore();
    bool ok = editor_run(s, n, out, &warning, err);
    if (signals_leaving()) return ok;
    tty_return();
    prompt_resume();
    leave_stop_out(user); /* before what was edited is sent */
    if (ok && warning) on_say(user, FACE_WARNING, warning);
    return ok;
}

static bool on_copy(void *user, const char *text, size_t n)
{
    struct line *l = user;
    if (clipboard_by_tool(text, n)) return true;
    if (!l->term.escapes) return false;
    struct buf sequence = {0};
    clipboard_sequence(text, n, &sequence);
    put(l, buf_str(&sequence));
    buf_free(&sequence);
    return true;
}

/* A reply that goes on looks as if it had never stopped, say inside a code block. */
static void resume_reply(struct line *l)
{
    size_t n;
    const struct message *const *path = chat_path_now(l->chat, &n);
    struct buf shown = {0};
    if (n == 0 || path[n - 1]->role != ROLE_REPLY) return;
    sanitise_all(path[n - 1]->answer, path[n - 1]->answer_len, &shown);
    output_resume(&l->out, buf_str(&shown), shown.len);
    buf_free(&shown);
}

static void on_turn_begin(void *user)
{
    struct line *l = user;
    flow_free(&l->thoughts);
    l->thoughts = (struct flow){.columns = term_flow_width(&l->term)};
    output_begin(&l->out, l->term.colour, l->thoughts.columns);
    resume_reply(l);
    l->place = AT_START;
    l->at_margin = true;
    l->cancelled_ms = 0;
    buf_clear(&l->held);
}

static void end_copied_reply(struct line *l)
{
    struct buf warning = {0};
    if (l->copy.fd >= 0 && !output_end_copy(&l->copy, &warning))
        on_say(l, FACE_WARNING, buf_str(&warning));
    buf_free(&warning);
}

static void on_turn_end(void *user, const struct face_report *report)
{
    struct line *l = user;
    progress_end(&l->progress);
    to_margin(l, true);
    l->place = AT_START;
    end_copied_reply(l);
    if (report->stop == FACE_STOP_FAILED) return;
    if (l->quiet) return;
    struct buf text = {0};
    status_line(&text, &l->ui, report, l->verbose);
    output_write(l->ui.fd, text.data, text.len);
    buf_free(&text);
}

/* --- Signals ------------------------------------------------------------------------------ */

static void stop_here(struct line *l)
{
    progress_clear(&l->progress);
    prompt_pause();
    tty_lend();
    signals_stop_here();
    leave_stop_out(l);
    /* Who is ended while stopped is in the background: the terminal is the shell's. */
    if (signals_leaving()) return;
    tty_return();
    prompt_resume();
}

static void on_interrupt(struct line *l)
{
    switch (chat_state(l->chat)) {
    case CHAT_LOADING:
        if (prompt_is_shown() && !prompt_is_empty()) {
            prompt_interrupt();
            break;
        }
        if (!l->was_loaded) l->status = EXIT_SIGINT;
        /* After /model: back to the model before. */
        chat_cancel(l->chat);
        break;
    case CHAT_BUSY:
        if (signals_first_interrupt(&l->cancelled_ms)) chat_cancel(l->chat);
        break;
    default:
        if (!prompt_is_shown()) break;
        bool was_empty = prompt_is_empty();
        prompt_interrupt();
        if (!chat_unedit(l->chat) && was_empty) chat_detach(l->chat);
    }
}

static void resize(struct line *l)
{
    int columns = term_flow_width(&l->term);
    prompt_resize();
    output_resize(&l->out, columns);
    if (l->thoughts.columns > 0) l->thoughts.columns = columns;
}

static void on_signals(struct line *l)
{
    signals_drain();
    if (!signals_leaving() && signals_take(SIGTSTP)) stop_here(l);
    if (signals_leaving()) l->status = signals_leaving();
    if (l->status >= 0) return;
    if (signals_take(SIGCONT)) {
        /* Somebody else stopped us, and a shell has used the terminal since. */
        prompt_pause();
        tty_return();
        prompt_resume();
    }
    if (signals_take(SIGWINCH)) resize(l);
    if (signals_take(SIGINT)) on_interrupt(l);
}

/* --- The loop ----------------------------------------------------------------------------- */

static bool is_at_work(enum chat_state state)
{
    return state == CHAT_LOADING || state == CHAT_BUSY;
}

/* Runs the engine's work, loading or a reply, to its end or for max_ms (-1: no limit). */
static void wait_until_idle(struct line *l, int max_ms)
{
    double end = clock_ms() + max_ms;
    while (l->status < 0) {
        int left = max_ms < 0 ? -1 : (int)(end - clock_ms());
        if (!is_at_work(chat_state(l->chat)) || (max_ms >= 0 && left <= 0)) return;
        struct pollfd fds[2] = {{.fd = signals_fd(), .events = POLLIN},
                                {.fd = chat_fd(l->chat), .events = POLLIN}};
        const int due = progress_due_ms(&l->progress);
        poll(fds, 2, due >= 0 && (left < 0 || due < left) ? due : left);
        key_bytes_take_ahead();
        on_signals(l);
        /* However it ended, nothing tells of progress any more. */
        if (!is_at_work(chat_step(l->chat, 0))) progress_end(&l->progress);
        progress_tick(&l->progress);
        if (l->out.failed && l->out.failed != EINTR) {
            l->status = l->out.failed == EPIPE ? EXIT_PIPE : EXIT_RUNTIME;
            struct buf text = {0};
            output_explain(&l->out, &text);
            if (l->out.failed != EPIPE) fprintf(stderr, "hearth: %s\n", buf_str(&text));
            buf_free(&text);
        }
        l->out.failed = 0;
    }
}

static void greet(struct line *l)
{
    if (l->quiet) return;
    struct buf text = {0};
    struct buf model = {0};
    buf_printf(&model, "hearth " HEARTH_VERSION ": %s", chat_model_line(l->chat));
    buf_puts(&text, term_on(&l->ui, STYLE_DIM));
    term_line(&l->ui, buf_str(&model), &text);
    buf_printf(&text, "%s\n%s/help lists the commands, Ctrl-D leaves.%s\n\n", term_off(&l->ui),
               term_on(&l->ui, STYLE_DIM), term_off(&l->ui));
    output_write(l->ui.fd, text.data, text.len);
    buf_free(&model);
    buf_free(&text);
}

/* The model is open, or cannot be opened. */
static void end_loading(struct line *l)
{
    prompt_lift();
    progress_end(&l->progress);
    if (chat_state(l->chat) == CHAT_FAILED) {
        print_message(l, STYLE_ERROR, chat_error(l->chat)->msg);
        l->status = exit_status_of_load(chat_error(l->chat));
        return;
    }
    greet(l);
    /* Of a session that is gone on with, not after /model. */
    if (!l->was_loaded && !l->quiet) recap_show(&l->ui, l->chat, l->accessible);
    l->was_loaded = true;
}

static void marker(const struct line *l, struct buf *out)
{
    if (l->accessible)
        buf_puts(out, "You: ");
    else if (l->ui.colour)
        buf_printf(out, "\001%s\002>\001%s\002 ", term_on(&l->ui, STYLE_PROMPT),
                   term_off(&l->ui));
    else
        buf_puts(out, "> ");
}

static void show_prompt(struct line *l)
{
    struct buf text = {0};
    marker(l, &text);
    prompt_show(l->was_loaded ? text.data : "loading > ");
    buf_free(&text);
}

/* Goes on with loading while the prompt is shown. */
static void load_on(struct line *l)
{
    if (chat_step(l->chat, 0) == CHAT_LOADING || l->status >= 0) return;
    end_loading(l);
    if (l->status >= 0) return;
    struct buf text = {0};
    marker(l, &text);
    prompt_mark(text.data);
    prompt_drop();
    buf_free(&text);
}

static void warm(struct line *l)
{
    struct buf text = {0};
    prompt_text(&text);
    chat_warm(l->chat, buf_str(&text), text.len);
    buf_free(&text);
}

/* What stands in the line when the program ends, as where the terminal is gone, waits in the
 * history for the next start. */
static void keep_line(void)
{
    struct buf text = {0};
    struct err ignored; /* nobody looks any more */
    prompt_text(&text);
    if (!ascii_is_blank(buf_str(&text), text.len))
        history_remember(buf_str(&text), edit_keys_pasted(), &ignored);
    buf_free(&text);
}

/* After Ctrl-D; where the terminal is gone nobody can ask again. */
static bool may_leave(struct line *l)
{
    return key_bytes_gone() || signals_leaving() || chat_may_leave(l->chat);
}

/* The next line of the user; false when the program is to end. */
static bool ask(struct line *l, struct prompt_line *line)
{
    enum prompt_got got = PROMPT_MORE;
    bool rests = false;
    if (signals_leaving()) {
        /* Perhaps in the background, where nothing is shown any more. */
        l->status = signals_leaving();
        return false;
    }
    show_prompt(l);
    while (got == PROMPT_MORE) {
        bool loading = chat_state(l->chat) == CHAT_LOADING;
        struct pollfd fds[3] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                {.fd = signals_fd(), .events = POLLIN},
                                {.fd = chat_fd(l->chat), .events = POLLIN}};
        int wait_ms = key_bytes_come(0) ? 0 : rests || loading ? -1 : CHAT_REST_MS;
        if (poll(fds, 3, wait_ms) == 0 && wait_ms != 0) {
            rests = true;
            warm(l);
            continue;
        }
        if (fds[0].revents || fds[1].revents) rests = false;
        if (!loading) chat_step(l->chat, 0);
        /* What was typed before Ctrl-C or Ctrl-Z comes before it. */
        while (got == PROMPT_MORE && !signals_leaving() && key_bytes_come(0))
            got = prompt_keys(line);
        leave_stop_out(l); /* a key may have stopped it */
        if (got == PROMPT_MORE) on_signals(l);
        if (got == PROMPT_EOF && !may_leave(l)) {
            show_prompt(l);
            got = PROMPT_MORE;
        }
        if (got == PROMPT_MORE && loading) load_on(l);
        if (l->status >= 0) break;
    }
    if (got == PROMPT_LINE) return true;
    keep_line();
    if (l->status >= 0) return false;
    l->status = signals_leaving() ? signals_leaving() : EXIT_DONE;
    if (!l->quiet || l->accessible) output_write(l->ui.fd, "\n", 1);
    return false;
}

/* Where in which conversation the chat is. */
struct scene {
    unsigned n_read; /* tells conversations apart: the one before may be freed */
    unsigned branch; /* its number */
    const struct message *last;
};

static struct scene scene_of(const struct chat *c)
{
    size_t n;
    const struct message *const *path = chat_path_now(c, &n);
    return (struct scene){.n_read = chat_n_read(c),
                          .branch = conversation_current(chat_conversation(c))->number,
                          .last = n > 0 ? path[n - 1] : NULL};
}

/* Whether another conversation was loaded, or another branch has other words. */
static bool goes_elsewhere(const struct scene *before, const struct chat *c)
{
    const struct scene now = scene_of(c);
    return now.n_read != before->n_read ||
           (now.branch != before->branch && now.last != before->last);
}

/* Runs what the line asks for, a message whatever it looks like or perhaps a command, to its
 * end. */
static void carry_out(struct line *l, const char *text, size_t n, bool is_message)
{
    const struct scene before = scene_of(l->chat);
    l->place = AT_START;
    l->cancelled_ms = 0;
    if (is_message)
        chat_say(l->chat, text, n);
    else
        chat_line(l->chat, text, n);
    wait_until_idle(l, -1);
    if (chat_state(l->chat) == CHAT_CLOSED) l->status = EXIT_DONE;
    if (chat_state(l->chat) == CHAT_FAILED) {
        print_message(l, STYLE_ERROR, chat_error(l->chat)->msg);
        l->status = exit_status_of_load(chat_error(l->chat));
    }
    take_options(l, chat_options(l->chat));
    if (l->status < 0 && !l->accessible) output_write(l->ui.fd, "\n", 1);
    if (goes_elsewhere(&before, l->chat) && !l->quiet)
        recap_show(&l->ui, l->chat, l->accessible);
}

/* The turn of the command line, with what it says where a typed line would stand. */
static void begin_with(struct line *l, const struct given *given)
{
    const struct buf *prompt = &given->prompt;
    struct buf shown = {0};
    for (size_t at = 0; given_flaw(&given->flaws, &at, &shown);)
        on_say(l, FACE_WARNING, buf_str(&shown));
    if (given->before.len > 0) {
        chat_put_before(l->chat, given->before.data, given->before.len);
        buf_printf(&shown, "%s: %zu bytes", buf_str(&given->names), given->before.len);
        if (!l->quiet) on_say(l, FACE_INFO, buf_str(&shown));
        buf_clear(&shown);
    }
    if (prompt->len > 0) recap_typed(&l->ui, prompt->data, prompt->len, l->accessible);
    buf_free(&shown);
    carry_out(l, buf_str(prompt), prompt->len, true);
}

static void converse(struct line *l)
{
    struct prompt_line line = {0};
    struct err err;
    while (l->status < 0 && ask(l, &line)) {
        bool blank = ascii_is_blank(buf_str(&line.text), line.text.len);
        if (blank && !chat_has_paste(l->chat)) continue;
        if (!blank && !history_remember(line.text.data, line.is_pasted, &err))
            print_message(l, STYLE_WARNING, err.msg);
        if (!l->was_loaded) {
            wait_until_idle(l, -1);
            if (l->status < 0) end_loading(l);
            if (l->status >= 0) break;
        }
        carry_out(l, line.text.data, line.text.len, line.is_pasted || blank);
    }
    buf_free(&line.text);
}

static void load_history(struct line *l, const struct options *o)
{
    char *path = o->private_mode ? NULL : paths_in(PATHS_STATE, "history");
    struct err err;
    if (!history_open(path, &err)) print_message(l, STYLE_WARNING, err.msg);
    free(path);
}

static void on_paste(void *user, const char *s, size_t n)
{
    struct line *l = user;
    chat_attach(l->chat, s, n);
}

static void run(struct line *l, const struct options *o, const struct given *given)
{
    const bool begins = !given_is_empty(given);
    if (l->accessible && !l->quiet) output_write(l->ui.fd, "Loading the model.\n", 19);
    wait_until_idle(l, l->ui.redraw && !begins ? GRACE_MS : -1);
    if (l->status < 0 && chat_state(l->chat) != CHAT_LOADING) end_loading(l);
    if (l->status >= 0) return;
    progress_end(&l->progress);
    load_history(l, o);
    prompt_open(l->term.is_tty ? stdout : stderr, on_paste, l);
    complete_install(l->chat, NULL);
    if (begins) begin_with(l, given);
    converse(l);
    prompt_close();
    complete_install(NULL, NULL);
    history_close();
}

int line_run(const struct options *o, const struct engine_config *engine,
             const struct given *given)
{
    struct line l = {.status = -1, .copy.fd = -1, .at_margin = true};
    struct err err;
    take_options(&l, o);
    bool ok = output_open(&l.out, NULL, &err) &&
              (!o->output || output_open(&l.copy, o->output, &err));
    struct face face = {.user = &l,
                        .is_terminal = l.term.is_tty,
                        .has_prompt = true,
                        .text = on_text,
                        .progress = on_progress,
                        .say = on_say,
                        .offer = on_offer,
                        .edit = on_edit,
                        .fits = editor_is_named() ? NULL : on_fits,
                        .copy = on_copy,
                        .turn_begin = on_turn_begin,
                        .turn_end = on_turn_end};
    if (ok) {
        tty_open(STDIN_FILENO);
        signals_install(true);
        tty_quiet();
        l.chat = chat_open(o, engine, &face, &err);
    }
    if (l.chat) {
        run(&l, o, given);
    } else {
        print_message(&l, STYLE_ERROR, err.msg);
        l.status = exit_status_of(&err);
    }
    progress_end(&l.progress);
    to_margin(&l, true); /* of a reply that a signal has broken off */
    output_close(&l.out);
    if (l.copy.fd >= 0 && !output_close(&l.copy)) {
        struct buf text = {0};
        output_explain(&l.copy, &text);
        print_message(&l, STYLE_ERROR, buf_str(&text));
        buf_free(&text);
        if (l.status == EXIT_DONE) l.status = EXIT_RUNTIME;
    }
    tty_restore();
    chat_close(l.chat);
    buf_free(&l.held);
    flow_free(&l.thoughts);
    return l.status;
}
