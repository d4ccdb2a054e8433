/* A chat with the bundled guide and a face that records: for the tests of chat.
 *
 * No include guard: one includer per program. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "app/command_line.h"
#include "base/buf.h"
#include "chat/chat.h"
#include "chat/conversation.h"
#include "chat/face.h"
#include "config/options.h"
#include "engine/engine.h"
#include "guide.h"

struct recorder {
    struct chat *chat;
    struct options *options;
    struct face face;
    struct buf text, reasoning, said, offered, answer;
    struct face_report report;
    int n_begins, n_ends, n_pieces;
    int cancel_after; /* pieces of text until the reply is cancelled; 0: never */
    uint64_t last_done, last_total, last_cached;
};

static void on_text(void *user, enum face_part part, const char *s, size_t n)
{
    struct recorder *r = user;
    assert_true(n > 0);
    buf_append(part == FACE_REPLY ? &r->text : &r->reasoning, s, n);
    if (++r->n_pieces == r->cancel_after) chat_cancel(r->chat);
}

static void on_progress(void *user, enum face_phase phase, uint64_t done, uint64_t total,
                        uint64_t cached)
{
    struct recorder *r = user;
    assert_true(done <= total || phase == FACE_LOAD);
    r->last_done = done;
    r->last_total = total;
    r->last_cached = cached;
}

static void on_say(void *user, enum face_level level, const char *text)
{
    struct recorder *r = user;
    static const char *const names[] = {[FACE_INFO] = "info",
                                        [FACE_LITERAL] = "literal",
                                        [FACE_WARNING] = "warning",
                                        [FACE_ERROR] = "error"};
    buf_printf(&r->said, "%s: %s\n", names[level], text);
}

static void on_offer(void *user, const char *text, size_t n)
{
    struct recorder *r = user;
    buf_clear(&r->offered);
    buf_append(&r->offered, text, n);
}

static void on_begin(void *user)
{
    struct recorder *r = user;
    assert_int_equal(r->n_begins, r->n_ends);
    r->n_begins++;
    r->n_pieces = 0;
    buf_clear(&r->text);
    buf_clear(&r->reasoning);
}

static void on_end(void *user, const struct face_report *report)
{
    struct recorder *r = user;
    r->n_ends++;
    assert_int_equal(r->n_begins, r->n_ends);
    r->report = *report;
    buf_clear(&r->answer);
    buf_append(&r->answer, report->text, report->text_len);
    r->report.text = NULL;
}

static enum chat_state finish(struct recorder *r)
{
    while (chat_step(r->chat, -1) == CHAT_LOADING || chat_state(r->chat) == CHAT_BUSY)
        continue;
    return chat_state(r->chat);
}

/* Options as flags, NULL at the end; temp 0 unless given. */
static void open_chat(struct recorder *r, bool is_terminal, const char *const *args)
{
    struct err err = {0};
    char *argv[32] = {"hearth", "-m", GUIDE, "--temp", "0", "--threads", "2"};
    int argc = 7;
    for (; args && *args; args++)
        argv[argc++] = (char *)*args;
    memset(r, 0, sizeof *r);
    r->options = options_new();
    struct option_args rest = {0};
    if (!options_parse_args(r->options, argc, argv, &rest, &err) ||
        !options_check(r->options, &err))
        fail_msg("%s", err.msg);
    free(rest.rest);
    r->face = (struct face){.user = r,
                            .is_terminal = is_terminal,
                            .has_prompt = is_terminal,
                            .text = on_text,
                            .progress = on_progress,
                            .say = on_say,
                            .offer = on_offer,
                            .turn_begin = on_begin,
                            .turn_end = on_end};
    const struct engine_config config = command_line_engine(r->options);
    r->chat = chat_open(r->options, &config, &r->face, &err);
    if (!r->chat) fail_msg("%s", err.msg);
    if (finish(r) != CHAT_IDLE) fail_msg("%s", chat_error(r->chat)->msg);
    buf_clear(&r->said);
}

static void close_chat(struct recorder *r)
{
    chat_close(r->chat);
    options_free(r->options);
    buf_free(&r->text);
    buf_free(&r->reasoning);
    buf_free(&r->said);
    buf_free(&r->offered);
    buf_free(&r->answer);
}

/* A line as typed, to its end; what was said is in said. */
static bool line(struct recorder *r, const char *s)
{
    buf_clear(&r->said);
    bool ok = chat_line(r->chat, s, strlen(s));
    if (chat_state(r->chat) == CHAT_BUSY) assert_int_equal(finish(r), CHAT_IDLE);
    return ok;
}

/* A message that must be answered; the answer, to be freed. */
static char *ask(struct recorder *r, const char *s)
{
    if (!line(r, s)) fail_msg("%s: %s", s, buf_str(&r->said));
    assert_string_equal(buf_str(&r->text), buf_str(&r->answer));
    return strdup(buf_str(&r->answer));
}

static bool said(const struct recorder *r, const char *part)
{
    return strstr(buf_str(&r->said), part) != NULL;
}
