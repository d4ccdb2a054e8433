#include "ui/pipe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/file.h"
#include "chat/chat.h"
#include "chat/face.h"
#include "config/options.h"
#include "ui/exit_status.h"
#include "ui/given.h"
#include "ui/input.h"
#include "ui/json.h"
#include "ui/output.h"
#include "ui/progress.h"
#include "ui/signals.h"
#include "ui/source.h"
#include "ui/status.h"
#include "ui/term.h"

enum form { AS_TEXT, AS_JSON, AS_JSONL };

struct pipe {
    const struct options *o;
    struct chat *chat;
    enum form form;
    struct output out;
    struct term shown; /* where replies are seen: no colours, no words where they are not */
    struct term err;
    struct progress progress;
    bool reads_stdin;     /* as a part of the one turn */
    struct buf held;      /* the reply, with --no-stream */
    struct buf reasoning; /* of this turn */
    bool reasoning_open;  /* standard error stands behind reasoning */
    unsigned n_turns;
    bool end_is_due; /* JSON: no end object yet, or none since the last start */
    int told;        /* … and the status that the last one gave */
    bool ended;      /* … and what it is to say is in report, its text in held */
    struct face_report report;
    struct buf error; /* the last error said, for the end object */
    int status;       /* of the first thing that went wrong, EXIT_DONE so far */
    bool unsaved;     /* the session could not be written */
    bool lacked_room; /* a turn did, as below */
    bool is_refused;  /* the turn that has just ended, one of lines; its error comes next */

    struct source source;
    struct source_turn turn;  /* of its lines, the present one */
    struct buf flaws;         /* of all parts of all messages */
    size_t n_explained;       /* bytes of them that were told */
    struct given_files files; /* before the first turn, or before each with --forget */
    bool has_files;           /* the conversation has them: a turn with them was not refused */
    struct buf message;       /* what is said next */
};

static void fail(struct pipe *p, int status)
{
    if (p->status == EXIT_DONE) p->status = status;
    if (p->chat) chat_cancel(p->chat);
}

/* Its prompt did not fit, and the conversation is as before it. */
static bool was_refused(const struct face_report *report)
{
    return report->too_long && report->text_len == 0;
}

/* Or its reply did not, of which --schema wants all. */
static bool lacked_room(const struct face_report *report)
{
    return report->is_cut || was_refused(report);
}

/* What the program would end with now if a turn lacked room, or none. That, or a session that
 * cannot be written, spoils the end but stops no other reply. */
static int status_with(const struct pipe *p, bool lacked)
{
    if (p->status != EXIT_DONE) return p->status;
    return p->unsaved ? EXIT_RUNTIME : lacked ? EXIT_TOO_LONG : EXIT_DONE;
}

static int status_now(const struct pipe *p)
{
    return status_with(p, p->lacked_room);
}

static void print_message(struct pipe *p, const char *text)
{
    struct term bare = p->err;
    bare.colour = false;
    term_message(&bare, STYLE_ERROR, text);
}

static void print_error(struct pipe *p, const char *text)
{
    progress_clear(&p->progress);
    print_message(p, text);
    buf_clear(&p->error);
    buf_puts(&p->error, text);
}

/* After every write: a reader that left ends the program quietly, anything else is said. */
static void check_output(struct pipe *p)
{
    if (!p->out.failed || p->out.failed == EINTR || p->status != EXIT_DONE) return;
    if (p->out.failed == EPIPE) {
        fail(p, EXIT_PIPE);
        return;
    }
    struct buf text = {0};
    output_explain(&p->out, &text);
    print_error(p, buf_str(&text));
    buf_free(&text);
    fail(p, EXIT_RUNTIME);
}

/* Writes the JSON object in line and empties it. */
static void put_object(struct pipe *p, struct buf *line)
{
    progress_clear(&p->progress);
    output_raw(&p->out, line->data, line->len);
    check_output(p);
    buf_free(line);
}

static void put_end(struct pipe *p)
{
    /* A turn that lacked room is told with its own end, and with the last one. */
    p->told = status_with(p, p->ended ? lacked_room(&p->report) : p->lacked_room);
    struct json_end end = {.report = p->ended ? &p->report : NULL, .exit = p->told};
    if (p->error.len > 0) end.error = buf_str(&p->error);
    end.id = buf_str(&p->turn.id);
    if (p->form == AS_JSON) end.reasoning = &p->reasoning;
    struct buf line = {0};
    json_end(&line, &end);
    p->end_is_due = p->ended = false;
    buf_clear(&p->held);
    buf_clear(&p->error);
    buf_clear(&p->reasoning);
    buf_clear(&p->turn.id);
    put_object(p, &line);
}

/* The error of a turn that failed is said after its end, so the object waits for it. */
static void put_due_end(struct pipe *p)
{
    if (p->chat && !chat_saves(p->chat)) p->unsaved = true;
    p->is_refused = false;
    if (p->form != AS_TEXT && p->end_is_due && p->ended) put_end(p);
}

/* No stream ends without the status that the program ends with. */
static void put_last_end(struct pipe *p)
{
    if (p->form != AS_TEXT && (p->end_is_due || p->told != status_now(p))) put_end(p);
}

/* --- What the chat calls ----------------------------------------------------------------- */

static void show_reasoning(struct pipe *p, const char *s, size_t n)
{
    if (p->o->quiet) return;
    struct buf text = {0};
    if (!p->reasoning_open)
        buf_printf(&text, "%s[thinking]%s\n", term_on(&p->err, STYLE_LABEL), term_off(&p->err));
    buf_puts(&text, term_on(&p->err, STYLE_DIM));
    if (p->err.is_tty)
        term_harmless(&text, s, n);
    else
        buf_append(&text, s, n);
    buf_puts(&text, term_off(&p->err));
    output_write(STDERR_FILENO, text.data, text.len);
    buf_free(&text);
    p->reasoning_open = true;
}

static void close_reasoning(struct pipe *p)
{
    if (!p->reasoning_open) return;
    const char *end = p->err.is_tty ? "\n\n" : "\n";
    output_write(STDERR_FILENO, end, strlen(end));
    p->reasoning_open = false;
}

static void put_text_event(struct pipe *p, enum face_part part, const char *s, size_t n)
{
    struct buf line = {0};
    if (n == 0) return;
    json_text(&line, part, s, n);
    put_object(p, &line);
}

static void on_text(void *user, enum face_part part, const char *s, size_t n)
{
    struct pipe *p = user;
    progress_end(&p->progress);
    if (part == FACE_REASONING) buf_append(&p->reasoning, s, n);
    if (p->form == AS_JSONL) {
        if (!p->o->no_stream) put_text_event(p, part, s, n);
    } else if (p->form == AS_TEXT && part == FACE_REASONING) {
        show_reasoning(p, s, n);
    } else if (p->form == AS_TEXT) {
        close_reasoning(p);
        if (p->o->no_stream)
            buf_append(&p->held, s, n);
        else
            output_text(&p->out, s, n);
        check_output(p);
    }
}

static void on_progress(void *user, enum face_phase phase, uint64_t done, uint64_t total,
                        uint64_t cached)
{
    struct pipe *p = user;
    if (p->form == AS_JSONL && phase == FACE_PREFILL) {
        struct buf line = {0};
        json_prefill(&line, done, total, cached);
        put_object(p, &line);
    }
    progress_update(&p->progress, phase, done, total, cached);
}

/* Whether replies and messages come to the same eyes: on a terminal, or by 2>&1. */
static bool is_one_stream(const struct pipe *p)
{
    struct file_stamp out, err;
    if (p->err.is_tty && isatty(STDOUT_FILENO)) return true;
    return file_stamp_fd(STDOUT_FILENO, &out) && file_stamp_fd(STDERR_FILENO, &err) &&
           out.device == err.device && out.inode == err.inode;
}

/* A message does not stand behind the last word of the reply. */
static void leave_reply(struct pipe *p)
{
    if (p->form == AS_TEXT && p->out.began && !p->o->output && is_one_stream(p))
        output_pause(&p->out);
}

/* One turn among many is named. */
static void say_error(struct pipe *p, const char *text)
{
    struct err err;
    err_set(&err, ERR_USER, "%s", text);
    if (p->is_refused) source_blame(&p->source, &err);
    print_error(p, p->is_refused ? err.msg : text);
}

static void on_say(void *user, enum face_level level, const char *text)
{
    struct pipe *p = user;
    if (level < FACE_WARNING && !p->o->verbose) return;
    close_reasoning(p);
    leave_reply(p);
    if (level == FACE_ERROR) {
        say_error(p, text);
        return;
    }
    progress_clear(&p->progress);
    struct buf line = {0};
    buf_printf(&line, "%s%s", level == FACE_WARNING ? "warning: " : "", text);
    print_message(p, buf_str(&line));
    buf_free(&line);
}

static void on_offer(void *user, const char *text, size_t n)
{
    (void)user, (void)text, (void)n;
}

static void on_turn_begin(void *user)
{
    struct pipe *p = user;
    p->n_turns++;
    output_begin(&p->out, p->shown.colour, term_flow_width(&p->shown));
    buf_clear(&p->error);
    buf_clear(&p->reasoning);
    if (p->form != AS_JSONL) return;
    struct buf line = {0};
    json_start(&line, p->n_turns, p->o->model, buf_str(&p->turn.id));
    put_object(p, &line);
}

static int status_of(const struct face_report *report)
{
    if (report->stop == FACE_STOP_CANCELLED) return EXIT_SIGINT;
    if (report->stop != FACE_STOP_FAILED || was_refused(report)) return EXIT_DONE;
    return report->too_long ? EXIT_TOO_LONG : EXIT_RUNTIME;
}

/* Also an empty reply is a line, and so is that of a turn of lines that was refused, so that
 * replies can be counted. */
static bool is_line(const struct pipe *p, const struct face_report *report)
{
    if (report->text_len > 0 || report->stop == FACE_STOP_CANCELLED) return false;
    return report->stop != FACE_STOP_FAILED || p->is_refused;
}

static void show_statistics(struct pipe *p, const struct face_report *report)
{
    if (p->o->quiet || !(p->o->verbose || p->err.is_tty)) return;
    struct buf line = {0};
    status_line(&line, &p->err, report, p->o->verbose);
    output_write(STDERR_FILENO, line.data, line.len);
    buf_free(&line);
}

static void on_turn_end(void *user, const struct face_report *report)
{
    struct pipe *p = user;
    progress_end(&p->progress);
    close_reasoning(p);
    p->is_refused = was_refused(report) && p->source.form != SOURCE_TEXT;
    if (p->form == AS_TEXT) {
        output_text(&p->out, p->held.data, p->held.len);
        buf_clear(&p->held);
        if (is_line(p, report)) p->out.began = true;
        output_end(&p->out);
        check_output(p);
    }
    if (!was_refused(report)) p->has_files = true;
    if (lacked_room(report)) p->lacked_room = true;
    /* What made us cancel the turn has set the status already. */
    if (p->status == EXIT_DONE) p->status = status_of(report);
    if (p->form == AS_JSONL && p->o->no_stream) {
        put_text_event(p, FACE_REASONING, p->reasoning.data, p->reasoning.len);
        put_text_event(p, FACE_REPLY, report->text, report->text_len);
    }
    if (p->form != AS_TEXT) {
        p->ended = true;
        p->report = *report;
        buf_append(&p->held, report->text, report->text_len);
        p->report.text = buf_str(&p->held);
    } else if (report->stop != FACE_STOP_FAILED && !p->out.failed) {
        show_statistics(p, report);
    }
}

/* --- Input ------------------------------------------------------------------------------- */

static void explain(struct pipe *p)
{
    struct buf text = {0};
    while (given_flaw(&p->flaws, &p->n_explained, &text))
        on_say(p, FACE_WARNING, buf_str(&text));
    buf_free(&text);
}

/* What cannot be read, or is longer than any context. */
static bool refuse_input(struct pipe *p, const struct err *err)
{
    print_error(p, err->msg);
    fail(p, err->code == ERR_IO ? EXIT_RUNTIME : EXIT_TOO_LONG);
    return false;
}

static bool add_part(struct pipe *p, const char *name, const char *s, size_t n)
{
    struct err err;
    const bool ok = given_join(&p->message, name, s, n, &p->flaws, &err);
    explain(p);
    return ok || refuse_input(p, &err);
}

static bool read_files(struct pipe *p)
{
    struct err err;
    const bool ok = given_files_read(&p->files, p->o, &p->flaws, &err);
    explain(p);
    return ok || refuse_input(p, &err);
}

static void read_more(struct pipe *p)
{
    struct err err;
    if (!source_read(&p->source, &err)) refuse_input(p, &err);
}

static bool refuse_line(struct pipe *p, const struct err *err)
{
    print_error(p, err->msg);
    fail(p, EXIT_USAGE);
    return false;
}

/* What the line wants of its reply; the line after it begins with the option again. */
static bool bind_reply(struct pipe *p)
{
    struct err err;
    const bool is_own = p->turn.schema.len > 0;
    if (chat_bind(p->chat, is_own ? buf_str(&p->turn.schema) : NULL, &err)) return true;
    err_prefix(&err, "\"schema\"");
    source_blame(&p->source, &err);
    return refuse_line(p, &err);
}

/* The next turn of lines, as a message; false if there is none yet. */
static bool next_line(struct pipe *p)
{
    struct err err;
    source_turn_clear(&p->turn);
    switch (source_next(&p->source, &p->turn, &err)) {
    case SOURCE_NONE: return false;
    case SOURCE_TURN: break;
    case SOURCE_WRONG: return refuse_line(p, &err);
    }
    const bool forget = p->o->forget || p->turn.is_new;
    if (forget) p->has_files = false;
    if (!p->has_files) buf_append(&p->message, p->files.before.data, p->files.before.len);
    if (!add_part(p, p->source.name, p->turn.text.data, p->turn.text.len)) return false;
    if (ascii_is_blank(buf_str(&p->message), p->message.len)) {
        err_set(&err, ERR_USER, "\"prompt\" must be a text that is not empty");
        source_blame(&p->source, &err);
        return refuse_line(p, &err);
    }
    if (!bind_reply(p)) return false;
    if (forget) chat_line(p->chat, "/clear", 6);
    return true;
}

/* --- The loop ---------------------------------------------------------------------------- */

static void on_signals(struct pipe *p)
{
    signals_drain();
    int leaving = signals_leaving();
    if (leaving) fail(p, leaving);
    if (signals_take(SIGWINCH)) output_resize(&p->out, term_flow_width(&p->shown));
    if (!signals_take(SIGINT)) return;
    /* The second one does not wait for the engine. */
    if (p->status == EXIT_SIGINT) {
        output_close(&p->out);
        _exit(EXIT_SIGINT);
    }
    fail(p, EXIT_SIGINT);
}

/* Waits until something can be done, and does what needs no state. */
static void wait_for(struct pipe *p, bool input)
{
    enum chat_state state = chat_state(p->chat);
    bool running = state == CHAT_LOADING || state == CHAT_BUSY;
    struct pollfd fds[4] = {
        {.fd = signals_fd(), .events = POLLIN},
        /* No events asked for: only that the reader has left. */
        {.fd = p->out.failed ? -1 : p->out.fd},
        {.fd = running ? chat_fd(p->chat) : -1, .events = POLLIN},
        {.fd = input ? p->source.fd : -1, .events = POLLIN},
    };
    poll(fds, 4, progress_due_ms(&p->progress));
    on_signals(p);
    if (fds[1].revents & (POLLERR | POLLHUP)) {
        p->out.failed = EPIPE;
        check_output(p);
    }
    if (fds[3].revents) read_more(p);
    if (running) chat_step(p->chat, 0);
    if (state == CHAT_LOADING && p->o->verbose && chat_state(p->chat) == CHAT_IDLE)
        on_say(p, FACE_INFO, chat_model_line(p->chat));
    progress_tick(&p->progress);
    put_due_end(p);
}

/* Names all that was looked at. */
static void nothing_to_answer(struct pipe *p)
{
    struct buf why = {0};
    buf_puts(&why, "nothing to answer: ");
    if (p->reads_stdin)
        buf_printf(&why, "standard input %s%s",
                   options_config_is_stdin(p->o) ? "was read as the configuration"
                   : p->source.is_closed         ? "is not open for reading"
                                                 : "is empty",
                   p->o->files.n > 0 ? ", " : " and ");
    if (p->o->files.n > 0) buf_puts(&why, "-f has no text and ");
    buf_puts(&why, p->o->prompt ? "--prompt is blank" : "there is no --prompt");
    print_error(p, buf_str(&why));
    fail(p, EXIT_USAGE);
    buf_free(&why);
}

/* The one message of all parts. */
static bool join_parts(struct pipe *p)
{
    const char *prompt = p->o->prompt;
    struct err err;
    buf_append(&p->message, p->files.before.data, p->files.before.len);
    if (!add_part(p, "standard input", p->source.raw.data, p->source.raw.len)) return false;
    input_join(&p->message, buf_str(&p->files.after), p->files.after.len);
    if (!given_fits(p->message.len, &err)) return refuse_input(p, &err);
    return !prompt || add_part(p, "--prompt", prompt, strlen(prompt));
}

/* Whether there is a turn to take; otherwise reads on or is at the end. */
static bool next_turn(struct pipe *p)
{
    if (p->source.form != SOURCE_TEXT) return next_line(p);
    if (p->n_turns > 0 || !p->source.at_end || !join_parts(p)) return false;
    if (!ascii_is_blank(buf_str(&p->message), p->message.len)) return true;
    nothing_to_answer(p);
    return false;
}

static void take_turns(struct pipe *p)
{
    while (p->status == EXIT_DONE || chat_state(p->chat) == CHAT_BUSY) {
        enum chat_state state = chat_state(p->chat);
        if (state == CHAT_FAILED || state == CHAT_CLOSED) break;
        bool reading = !p->source.at_end && p->status == EXIT_DONE;
        bool lines = p->source.form != SOURCE_TEXT;
        if (state != CHAT_IDLE) {
            wait_for(p, reading && !lines);
        } else if (next_turn(p)) {
            p->end_is_due = true;
            if (!chat_say(p->chat, p->message.data, p->message.len)) fail(p, EXIT_RUNTIME);
            put_due_end(p);
            buf_clear(&p->message);
        } else if (reading && p->status == EXIT_DONE) {
            wait_for(p, true); /* not behind a line that is wrong: nothing need come any more */
        } else {
            break;
        }
    }
    if (chat_state(p->chat) == CHAT_FAILED && p->status == EXIT_DONE) {
        print_error(p, chat_error(p->chat)->msg);
        fail(p, exit_status_of_load(chat_error(p->chat)));
    }
}

/* Who types the input is told that it is waited for, and how it ends. */
static void hint(const struct pipe *p)
{
    static const char *const texts[] = {
        [SOURCE_TEXT] = given_hint,
        [SOURCE_LINES] = "type a message and Return; Ctrl-D on a line of its own ends",
        [SOURCE_JSONL] =
            "type {\"prompt\": \"...\"} and Return; Ctrl-D on a line of its own ends",
    };
    if (p->o->quiet || !p->err.is_tty || p->source.fd < 0 || !isatty(p->source.fd)) return;
    fprintf(stderr, "hearth: %s\n", texts[p->source.form]);
}

static bool open_input(struct pipe *p)
{
    struct err err;
    p->reads_stdin = !isatty(STDIN_FILENO) || given_names_stdin(p->o);
    if (source_open(&p->source, p->o, p->reads_stdin, &err)) return read_files(p);
    print_error(p, err.msg);
    fail(p, EXIT_RUNTIME);
    return false;
}

static bool open_output(struct pipe *p)
{
    struct err err;
    if (output_open(&p->out, p->o->output, &err)) return true;
    print_error(p, err.msg);
    fail(p, EXIT_RUNTIME);
    return false;
}

static bool start(struct pipe *p, const struct engine_config *engine, struct face *face)
{
    const struct options *o = p->o;
    struct err err;
    /* Input first: a file that is missing is not to be there because it is --output, too. */
    bool ok = open_input(p);
    if (ok || p->form != AS_TEXT) ok = open_output(p) && ok;
    if (!ok) return false;
    /* --output may name a terminal, too. */
    face->is_terminal = p->form == AS_TEXT && isatty(p->out.fd);
    /* A file may be a FIFO that nobody writes to: until here a signal simply ends all. */
    signals_install(false);
    hint(p);
    p->chat = chat_open(o, engine, face, &err);
    if (p->chat) return true;
    const int leaving = signals_leaving();
    if (!leaving) print_error(p, err.msg);
    fail(p, leaving ? leaving : (int)exit_status_of(&err));
    return false;
}

static enum form form_of(const struct options *o)
{
    return o->jsonl ? AS_JSONL : o->json ? AS_JSON : AS_TEXT;
}

int pipe_refuse(const struct options *o, const struct err *why, int status)
{
    struct pipe p = {
        .o = o, .form = form_of(o), .err = term_of(STDERR_FILENO, o), .end_is_due = true};
    struct err err;
    print_error(&p, why->msg);
    fail(&p, status);
    if (p.form != AS_TEXT && output_open(&p.out, o->output, &err)) {
        put_last_end(&p);
        output_close(&p.out);
    }
    buf_free(&p.error);
    return status;
}

int pipe_run(const struct options *o, const struct engine_config *engine)
{
    struct pipe p = {
        .o = o, .out.fd = -1, .err = term_of(STDERR_FILENO, o), .end_is_due = true};
    p.form = form_of(o);
    if (p.form == AS_TEXT && !o->output) p.shown = term_of(STDOUT_FILENO, o);
    p.progress.term = p.err;
    if (o->quiet) p.progress.term.redraw = false;
    struct face face = {.user = &p,
                        .text = on_text,
                        .progress = on_progress,
                        .say = on_say,
                        .offer = on_offer,
                        .turn_begin = on_turn_begin,
                        .turn_end = on_turn_end};
    if (start(&p, engine, &face)) take_turns(&p);
    progress_end(&p.progress);
    put_last_end(&p);
    struct chat *chat = p.chat;
    p.chat = NULL;
    if (!chat_close(chat)) p.unsaved = true;
    put_last_end(&p);
    if (status_now(&p) == EXIT_DONE) output_empty(&p.out);
    if (!output_close(&p.out)) check_output(&p);
    buf_free(&p.held);
    buf_free(&p.reasoning);
    buf_free(&p.error);
    source_close(&p.source);
    source_turn_free(&p.turn);
    given_files_free(&p.files);
    buf_free(&p.message);
    buf_free(&p.flaws);
    return status_now(&p);
}
