/* One turn: conversation -> prompt -> engine -> face -> conversation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "config/options.h"
#include "engine/engine.h"
#include "text/spans.h"

/* ---- beginning ---- */

/* What the reply is bound to; NULL: it may be anything. */
static const struct grammar *grammar_of(const struct chat *c)
{
    return c->bond.counts ? c->bond.grammar : c->grammar;
}

static struct engine_sampling sampling_of(const struct chat *c, struct engine_bias *bias)
{
    const struct options *o = c->options;
    size_t n_bias = 0;
    for (size_t i = 0; i < o->logit_bias.n; i++) {
        const struct option_bias *b = &o->logit_bias.items[i];
        if (model_takes_bias(c, b->id)) bias[n_bias++] = (struct engine_bias){b->id, b->bias};
    }
    const struct message *base = c->turn.base;
    return (struct engine_sampling){
        .temp = o->temp,
        .top_k = o->top_k,
        .top_p = o->top_p,
        .min_p = o->min_p,
        .repeat_penalty = o->repeat_penalty,
        .presence_penalty = o->presence_penalty,
        .frequency_penalty = o->frequency_penalty,
        .repeat_last_n = o->repeat_last_n,
        .reply_seed = c->turn.seed,
        .max_tokens = o->max_tokens,
        .stop = (const char *const *)o->stop.items,
        .n_stop = o->stop.n,
        .bias = bias,
        .n_bias = n_bias,
        .grammar = grammar_of(c),
        .said = base ? base->answer : NULL,
        .n_said = base ? base->answer_len : 0,
        .no_thought = o->think == THINK_OFF,
    };
}

static void post(struct chat *c, const struct spans *prompt)
{
    idle_stop(c);
    idle_forget(c);
    struct engine_bias *bias = mem_zalloc(c->options->logit_bias.n + 1, sizeof *bias);
    struct engine_sampling how = sampling_of(c, bias);
    engine_turn(c->engine, prompt, &how);
    chat_cancel_late(c);
    free(bias);
}

/* Renders the conversation and posts it. */
static bool send(struct chat *c, struct err *err)
{
    struct spans prompt = {0};
    const bool ok = turn_prompt(c, &prompt, err);
    if (ok) post(c, &prompt);
    spans_free(&prompt);
    return ok;
}

/* Longer messages are not put back into the prompt. */
enum { MAX_OFFER_BYTES = 64 << 10 };

/* What stood before the message m stands before the next one again, with the empty line behind
 * it that it lost if it was sent alone; behind it what was pasted meanwhile. */
static void attach_again(struct chat *c, const struct message *m)
{
    const size_t n = c->turn.n_attached;
    if (n == 0) return;
    struct attached *a = &c->attached;
    struct buf text = {0};
    buf_append(&text, m->text, n);
    if (n < 2 || memcmp(m->text + n - 2, "\n\n", 2) != 0) buf_puts(&text, "\n\n");
    buf_append(&text, buf_str(&a->text), a->text.len);
    buf_free(&a->text);
    a->text = text;
    a->has_paste |= c->turn.has_paste;
}

/* Nothing came of the turn: the conversation is as before it, and a new message of the user
 * goes back into the prompt. */
static void give_up(struct chat *c)
{
    struct turn *t = &c->turn;
    size_t n = conversation_n(c->conversation);
    struct message *m = NULL;
    if (t->is_last && t->is_new) {
        turn_tell_dropped(c);
        return;
    }
    if (t->is_new) m = message_retain(conversation_at(c->conversation, n - 1));
    conversation_return(c->conversation, t->mark);
    t->mark = NULL;
    c->context = t->before; /* what was computed is still there */
    if (!m) return;
    attach_again(c, m);
    size_t n_typed = m->len - t->n_attached;
    if (n_typed <= MAX_OFFER_BYTES)
        chat_offer(c, m->text + t->n_attached, n_typed);
    else if (c->face->is_terminal)
        chat_hint(c, "the message of %zu bytes is too long to put back into the prompt",
                  n_typed);
    message_release(m);
}

static bool begin(struct chat *c)
{
    struct turn *t = &c->turn;
    struct err err;
    buf_clear(&t->answer);
    t->reply = t->reasoning = (struct sanitiser){0};
    t->n_cached = t->n_done = 0;
    t->prefill_from_ms = t->prefill_ms = 0;
    t->before = c->context;
    c->context.n_drawn = 0;
    atomic_store(&c->cancelled, false);
    if (!send(c, &err)) {
        give_up(c);
        turn_forget(c);
        chat_tell(c, FACE_ERROR, "%s", err.msg);
        return false;
    }
    c->state = CHAT_BUSY;
    c->work = WORK_TURN;
    c->face->turn_begin(c->face->user);
    return true;
}

/* The prompt fits: what was said is kept, whatever comes of it. One that does not fit would
 * stay in the session's file, which is only written on. */
static void keep_question(struct chat *c)
{
    if (c->turn.is_kept) return;
    c->turn.is_kept = true;
    c->session.told_loss = false; /* there is more to lose now */
    session_save(c, false);
}

static void choose_reply_seed(struct chat *c, const uint64_t *seed)
{
    struct turn *t = &c->turn;
    size_t turn = conversation_n_turns(c->conversation) - 1;
    t->attempt = conversation_next_attempt(c->conversation);
    if (seed)
        t->seed = *seed;
    else if (c->reply_seed_waits)
        t->seed = c->options->reply_seed;
    else
        t->seed = engine_reply_seed(c->session.seed, (uint32_t)turn, t->attempt);
}

/* A message that never had a reply, as after a kill or in what was imported, would stand before
 * the next one, which many templates refuse. */
static void leave_unanswered(struct chat *c)
{
    const size_t n = conversation_n(c->conversation);
    const struct message *m = n > 0 ? conversation_at(c->conversation, n - 1) : NULL;
    if (!m || m->role != ROLE_USER) return;
    printable(c->turn.unanswered, CHAT_QUOTE_BYTES, m->text, m->len);
    c->turn.unanswered_branch = conversation_rewind(c->conversation, n - 1);
}

static void tell_unanswered(struct chat *c)
{
    const struct turn *t = &c->turn;
    char where[32] = "";
    if (!*t->unanswered) return;
    if (t->unanswered_branch)
        snprintf(where, sizeof where, "; it is branch %u now", t->unanswered_branch);
    chat_tell(c, FACE_WARNING, "\"%s\" had no reply: your new message stands in its place%s",
              t->unanswered, where);
}

bool turn_say(struct chat *c, const char *text, size_t n)
{
    edit_settle(c);
    c->turn.mark = conversation_hold(c->conversation);
    leave_unanswered(c);
    c->turn.is_new = true;
    c->turn.n_attached = c->attached.text.len;
    c->turn.has_paste = c->attached.has_paste;
    buf_append(&c->attached.text, text, n);
    conversation_add(c->conversation,
                     message_new(ROLE_USER, c->attached.text.data, c->attached.text.len));
    chat_drop_attached(c);
    choose_reply_seed(c, NULL);
    return begin(c);
}

bool turn_retry(struct chat *c, const uint64_t *seed)
{
    size_t n = conversation_n(c->conversation);
    if (n == 0) {
        chat_tell(c, FACE_ERROR, "/retry: there is no message to answer again");
        return false;
    }
    c->turn.mark = conversation_hold(c->conversation);
    c->turn.is_new = false;
    if (conversation_at(c->conversation, n - 1)->role == ROLE_REPLY)
        conversation_rewind(c->conversation, n - 1);
    choose_reply_seed(c, seed);
    return begin(c);
}

bool turn_continue(struct chat *c)
{
    size_t n = conversation_n(c->conversation);
    const struct message *last = n > 0 ? conversation_at(c->conversation, n - 1) : NULL;
    if (!last) {
        chat_tell(c, FACE_ERROR, "/continue: there is no reply to go on with");
        return false;
    }
    if (last->role == ROLE_USER) return turn_retry(c, NULL);
    struct turn *t = &c->turn;
    t->mark = conversation_hold(c->conversation);
    t->is_new = false;
    t->base = message_retain(last);
    t->seed = last->seed;
    t->attempt = last->attempt;
    return begin(c);
}

/* ---- running ---- */

static void show(struct chat *c, enum face_part part, struct sanitiser *filter,
                 const struct engine_event *event)
{
    const char *s = event->text;
    size_t n = event->text_len;
    buf_clear(&c->filtered);
    if (c->face->is_terminal) {
        if (event->kind == EVENT_END)
            sanitise_end(filter, &c->filtered);
        else
            sanitise(filter, s, n, &c->filtered);
        s = buf_str(&c->filtered);
        n = c->filtered.len;
    }
    if (n > 0) c->face->text(c->face->user, part, s, n);
}

/* Tokens drawn with this piece of the reply and before. */
static void count_drawn(struct chat *c, uint64_t n)
{
    uint32_t more = (uint32_t)n - c->context.n_drawn;
    c->context.n_drawn += more;
    c->context.n_used += more;
    c->context.n_warm += more;
}

static void show_reasoning(struct chat *c, const struct engine_event *event)
{
    if (c->options->think != THINK_HIDE) show(c, FACE_REASONING, &c->turn.reasoning, event);
}

/* What the filters held back. */
static void show_rest(struct chat *c)
{
    const struct engine_event end = {.kind = EVENT_END};
    show_reasoning(c, &end);
    show(c, FACE_REPLY, &c->turn.reply, &end);
}

/* What is left of a time without the one that the process was stopped in it. */
static double without(double ms, double still_ms)
{
    return ms > still_ms ? ms - still_ms : 0;
}

/* ---- the reply as a message ---- */

static void set_answer(struct chat *c, struct message *m)
{
    const struct message *base = c->turn.base;
    struct buf answer = {0};
    if (base) buf_append(&answer, base->answer, base->answer_len);
    buf_append(&answer, c->turn.answer.data, c->turn.answer.len);
    m->answer_len = answer.len;
    m->answer = buf_take(&answer);
    m->vocabulary = engine_info(c->engine)->vocabulary;
    m->seed = c->turn.seed;
    m->attempt = c->turn.attempt;
}

static enum face_stop stop_of(enum engine_stop stop)
{
    static const enum face_stop table[] = {
        [STOP_END] = FACE_STOP_END,
        [STOP_LENGTH] = FACE_STOP_LENGTH,
        [STOP_STRING] = FACE_STOP_STRING,
        [STOP_CONTEXT] = FACE_STOP_CONTEXT,
        [STOP_CANCELLED] = FACE_STOP_CANCELLED,
    };
    return table[stop];
}

/* Puts the reply into the conversation. */
static const struct message *add_reply(struct chat *c, struct message *m, enum face_stop stop)
{
    set_answer(c, m);
    m->stop = face_stop_name(stop);
    if (c->turn.base) conversation_take_back(c->conversation);
    conversation_add(c->conversation, m);
    c->reply_seed_waits = false;
    conversation_drop(c->turn.mark);
    c->turn.mark = NULL;
    return m;
}

/* ---- ending ---- */

/* reply is the message that came of the turn, or NULL. */
static void finish(struct chat *c, struct face_report *report, const struct message *reply)
{
    report->text = reply ? reply->answer : "";
    report->text_len = reply ? reply->answer_len : 0;
    c->state = CHAT_IDLE;
    c->last.there = true;
    c->last.report = *report;
    c->last.report.text = NULL;
    c->face->turn_end(c->face->user, report);
    if (reply) {
        turn_tell_dropped(c);
        tell_unanswered(c);
    }
    chat_tell_thinned(c);
    turn_forget(c);
    session_save(c, true);
    if (report->stop == FACE_STOP_CANCELLED && !reply && c->attached.text.len > 0)
        chat_hint(c, "what was read or pasted stands before your next message again; Ctrl-C on "
                     "an empty line drops it");
}

/* What /stats explains beyond the report. */
static void keep_cost(struct chat *c, const struct engine_reply *r)
{
    struct last_turn *last = &c->last;
    free(last->diverged_old);
    free(last->diverged_new);
    last->diverged_old = last->diverged_new = NULL;
    last->n_restored = r ? r->n_restored : 0;
    last->read_ms = r ? r->read_ms : 0;
    if (!r || !r->diverged_old) return;
    last->diverged_at = r->diverged_at;
    last->diverged_old = mem_strdup(r->diverged_old);
    last->diverged_new = mem_strdup(r->diverged_new);
}

static void tell_full(struct chat *c, uint32_t n_ctx)
{
    const bool asks = c->face->has_prompt && c->options->overflow == OVERFLOW_STOP;
    chat_tell(c, FACE_WARNING, "the context of %u tokens is full: the reply is cut off%s%s",
              (unsigned)n_ctx, turn_room_hint(c, conversation_n_turns(c->conversation)),
              asks ? "; /clear begins a new conversation" : "");
}

/* At a prompt the line of statistics says it. */
static void tell_limit(struct chat *c, bool is_cut)
{
    if (c->face->has_prompt || session_explain_limit(c) || !is_cut) return;
    chat_tell(
        c, FACE_WARNING,
        "the reply is cut off: with max-tokens %d it may be less than the schema asks for",
        c->options->max_tokens);
}

static void end(struct chat *c, const struct engine_reply *r)
{
    show_rest(c);
    keep_cost(c, r);
    struct face_report report = {
        .stop = stop_of(r->stop),
        .n_cached = r->n_cached,
        .n_read = r->n_read,
        .n_prefilled = r->n_prefilled,
        .n_generated = r->n_generated,
        .n_drafted = r->n_drafted,
        .n_accepted = r->n_accepted,
        .n_steps = r->n_steps,
        .plain_ms = r->plain_ms,
        .prefill_ms = without(r->prefill_ms, c->turn.still_prefill_ms),
        .decode_ms = without(r->decode_ms, c->turn.still_reply_ms),
        .n_ctx_used = r->n_ctx_used,
        .n_ctx = r->n_ctx,
        .reply_seed = r->reply_seed,
        .is_inexact = engine_info(c->engine)->is_inexact,
    };
    report.is_cut = grammar_of(c) && c->options->max_tokens != 0 &&
                    (report.stop == FACE_STOP_LENGTH || report.stop == FACE_STOP_CONTEXT);
    const struct message *reply = NULL;
    if (r->n_ids == 0 && r->stop == STOP_CANCELLED)
        give_up(c);
    else
        reply = add_reply(c, reply_join(c->turn.base, r), report.stop);
    if (reply) context_set(c, r->n_ctx_used, r->n_ctx_used);
    const bool had_ended =
        c->turn.base && report.stop == FACE_STOP_END && c->turn.answer.len == 0;
    finish(c, &report, reply);
    session_explain(c, r);
    if (had_ended)
        chat_tell(c, FACE_INFO,
                  "the reply was complete: the model ended it; /retry asks for another");
    if (report.stop == FACE_STOP_CONTEXT) tell_full(c, report.n_ctx);
    if (report.stop == FACE_STOP_LENGTH) tell_limit(c, report.is_cut);
}

/* Whether the last message would fit if it stood alone. */
static bool last_fits(struct chat *c)
{
    const size_t n = conversation_n(c->conversation);
    const struct message *m = n > 0 ? conversation_at(c->conversation, n - 1) : NULL;
    return m && engine_count_tokens(c->engine, m->text, m->len) <
                    (long)engine_info(c->engine)->n_ctx;
}

/* A reply that broke off: its text stays, without ids. */
static const struct message *keep_partial(struct chat *c)
{
    struct buf text = {0};
    if (c->turn.base) buf_append(&text, c->turn.base->answer, c->turn.base->answer_len);
    buf_append(&text, c->turn.answer.data, c->turn.answer.len);
    struct message *m = reply_without_ids(buf_str(&text), text.len);
    buf_free(&text);
    return add_reply(c, m, FACE_STOP_FAILED);
}

static void fail(struct chat *c, const struct engine_event *event)
{
    bool too_long = event->total > event->done;
    const struct err err = event->err;
    const size_t n_turns = last_fits(c) ? conversation_n_turns(c->conversation) : 0;
    show_rest(c);
    keep_cost(c, NULL);
    bool cancelled = err.code == ERR_CANCELLED;
    struct face_report report = {
        .stop = cancelled ? FACE_STOP_CANCELLED : FACE_STOP_FAILED,
        .too_long = too_long,
        .n_ctx = engine_info(c->engine)->n_ctx,
        .n_cached = cancelled ? c->turn.n_cached : 0,
        .n_prefilled = cancelled ? c->turn.n_done - c->turn.n_cached : 0,
        .prefill_ms = cancelled ? c->turn.prefill_ms : 0,
        .n_ctx_used = too_long    ? (uint32_t)event->total
                      : cancelled ? c->context.n_warm /* what was there, before a prefill */
                                  : 0,
        .reply_seed = c->turn.seed,
    };
    const struct message *reply = NULL;
    if (too_long) c->turn.is_last = false; /* it will not fit next time, either */
    if (c->turn.answer.len > 0)
        reply = keep_partial(c);
    else
        give_up(c);
    if (err.code == ERR_DEVICE) context_forget(c); /* what was warm went with the device */
    /* Kept, it would make the prompts of all messages that follow too long as well, unless
     * there are turns that can make room for it. */
    const char *hint = too_long ? turn_room_hint(c, n_turns) : "";
    const bool has_more = too_long && c->attached.text.len > 0;
    const bool waits = has_more && *hint && c->face->has_prompt;
    if (has_more && !waits) chat_drop_attached(c);
    finish(c, &report, reply);
    if (!cancelled)
        chat_tell(c, FACE_ERROR, "%s%s%s", err.msg, hint,
                  waits      ? "; what was read or pasted waits for your next message"
                  : has_more ? "; what was read or pasted before the message is dropped"
                             : "");
}

static void count_prefill(struct chat *c, const struct engine_event *event)
{
    struct turn *t = &c->turn;
    const double now = clock_ms();
    t->n_cached = (uint32_t)event->cached;
    t->n_done = (uint32_t)event->done;
    if (t->prefill_from_ms == 0) t->prefill_from_ms = now;
    t->prefill_ms = now - t->prefill_from_ms;
}

void turn_event(struct chat *c, const struct engine_event *event)
{
    switch (event->kind) {
    case EVENT_PREFILL:
        keep_question(c);
        context_set(c, (uint32_t)event->total, (uint32_t)event->done);
        count_prefill(c, event);
        c->face->progress(c->face->user, FACE_PREFILL, event->done, event->total,
                          event->cached);
        break;
    case EVENT_REASONING:
        keep_question(c);
        count_drawn(c, event->done);
        show_reasoning(c, event);
        break;
    case EVENT_TEXT:
        keep_question(c);
        count_drawn(c, event->done);
        buf_append(&c->turn.answer, event->text, event->text_len);
        if (c->turn.answer.len > 0) turn_tell_dropped(c);
        show(c, FACE_REPLY, &c->turn.reply, event);
        break;
    case EVENT_WARNING: chat_tell(c, FACE_WARNING, "%s", event->text); break;
    case EVENT_END: end(c, event->reply); break;
    case EVENT_FAILED: fail(c, event); break;
    case EVENT_LOAD:
    case EVENT_READY:
    case EVENT_VERIFIED:
    case EVENT_DRAFT: break;
    }
}

void turn_stood_still(struct chat *c, double ms)
{
    struct turn *t = &c->turn;
    if (c->context.n_drawn > 0) {
        t->still_reply_ms += ms;
        return;
    }
    t->still_prefill_ms += ms;
    if (t->prefill_from_ms > 0) t->prefill_from_ms += ms;
}

void turn_forget(struct chat *c)
{
    struct turn *t = &c->turn;
    if (t->mark) conversation_drop(t->mark);
    message_release(t->base);
    buf_free(&t->answer);
    *t = (struct turn){0};
}
