/* The engine's thread: a model loaded, then a request at a time. */
#include "engine/engine_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/wait.h"
#include "engine/bound.h"
#include "engine/check.h"
#include "engine/disk.h"
#include "engine/generate.h"
#include "engine/mailbox.h"
#include "engine/sampler.h"
#include "engine/speculate.h"
#include "engine/timeline.h"
#include "engine/tokenizer_thread.h"
#include "engine/verify.h"
#include "gguf/gguf.h"
#include "text/detokenize.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

/* Progress of loading is reported this often. */
static const double PROGRESS_MS = 20;
/* What is left to be saved is looked at this often. */
static const double SAVE_AGAIN_MS = 100;

/* ---- events ---- */

static void post_text(struct engine *e, enum engine_event_kind kind, const char *text,
                      size_t len)
{
    mailbox_post(e->box, &(struct engine_event){.kind = kind, .text = text, .text_len = len});
}

static void post_failed(struct engine *e, const struct err *err, uint64_t n_prompt)
{
    struct engine_event event = {.kind = EVENT_FAILED, .err = *err};
    if (n_prompt > 0) event.done = e->machine.n_ctx, event.total = n_prompt;
    mailbox_post(e->box, &event);
}

static void on_warning(void *user, const char *line)
{
    post_text(user, EVENT_WARNING, line, strlen(line));
}

static void on_reading(void *user, const struct gguf *g)
{
    struct engine *e = user;
    if (!e->tok_thread) e->tok_thread = tokenizer_thread_start(g, &e->cancel);
}

static void on_sizes(void *user, uint64_t total, const char *line)
{
    struct engine *e = user;
    mailbox_post(e->box, &(struct engine_event){.kind = EVENT_LOAD,
                                                .total = total,
                                                .text = line,
                                                .text_len = strlen(line)});
}

static void on_load(void *user, uint64_t done, uint64_t total)
{
    struct engine *e = user;
    double now = clock_ms();
    if (done < total && now - e->last_progress_ms < PROGRESS_MS) return;
    e->last_progress_ms = now;
    mailbox_post(e->box,
                 &(struct engine_event){.kind = EVENT_LOAD, .done = done, .total = total});
}

static void on_prefill(void *user, size_t done, size_t total, size_t n_cached)
{
    struct engine *e = user;
    mailbox_post(e->box,
                 &(struct engine_event){
                     .kind = EVENT_PREFILL, .done = done, .total = total, .cached = n_cached});
}

static void on_piece(void *user, enum reply_part part, const char *text, size_t len)
{
    struct engine *e = user;
    mailbox_post(e->box, &(struct engine_event){.kind = part == REPLY_TEXT ? EVENT_TEXT
                                                                           : EVENT_REASONING,
                                                .done = generator_n_drawn(e->generator),
                                                .text = text,
                                                .text_len = len});
}

/* ---- loading ---- */

static const char *keep_device(struct engine *e, size_t i)
{
    snprintf(e->device[i], sizeof e->device[i], "%s%s", backend_name(e->machine.be),
             e->machine.is_inexact ? ", inexact" : "");
    return e->device[i];
}

static void start_speculation(struct engine *e)
{
    struct speculator_parts parts = machine_speculation(&e->machine, &e->config);
    parts.sampler = e->sampler;
    parts.ends = tokenizer_ends(e->tok, &parts.n_ends);
    speculator_free(e->spec);
    e->spec = speculator_new(&parts);
}

static void warn_of_guess(struct engine *e)
{
    char line[160];
    snprintf(
        line, sizeof line,
        "the model does not say how text is cut into words (no tokenizer.ggml.pre): \"%s\" "
        "is taken; where that is wrong, answers are worse",
        tokenizer_pre(e->tok));
    on_warning(e, line);
}

/* The machine and the tokenizer; of two failures the machine's is told. */
static bool open_both(struct engine *e, struct err *err)
{
    const struct machine_watch watch = {.reading = on_reading,
                                        .sizes = on_sizes,
                                        .progress = on_load,
                                        .warning = on_warning,
                                        .user = e,
                                        .cancel = &e->cancel};
    struct err of_tokenizer;
    const bool ok = machine_open(&e->machine, &e->config, &watch, err);
    if (e->tok_thread) e->tok = tokenizer_thread_join(e->tok_thread, ok ? err : &of_tokenizer);
    e->tok_thread = NULL;
    return ok && e->tok;
}

static bool load(struct engine *e, struct err *err)
{
    double start = clock_ms();
    if (!open_both(e, err)) return false;
    if (atomic_load(&e->cancel)) return err_set(err, ERR_CANCELLED, "loading was cancelled");
    size_t n_vocab = model_n_vocab(e->machine.model);
    if (!check_vocab(e->tok, gguf_path(e->machine.gguf), n_vocab, err)) return false;
    if (tokenizer_pre_is_guess(e->tok)) warn_of_guess(e);
    e->sampler = sampler_new(n_vocab);
    size_t n_suppressed;
    const int32_t *suppressed = tokenizer_suppressed(e->tok, &n_suppressed);
    sampler_suppress(e->sampler, suppressed, n_suppressed);
    e->bound = bound_new(e->tok, n_vocab);
    sampler_bind(e->sampler, e->bound);
    e->generator = generator_new();
    start_speculation(e);
    e->machine.load_ms = clock_ms() - start;
    known_fill(&e->known, &e->machine, e->tok, &e->config);
    e->known.info.device = keep_device(e, 0);
    e->changed = e->known.info;
    return true;
}

/* ---- a device that failed ---- */

/* Opens the model again, on the CPU. */
static bool move_to_cpu(struct engine *e, struct err *err)
{
    const struct machine_watch watch = {.warning = on_warning, .user = e, .cancel = &e->cancel};
    speculator_free(e->spec);
    e->spec = NULL;
    if (!machine_move_to_cpu(&e->machine, &e->config, &watch, err))
        return err_prefix(err, "the CPU does not go on (the conversation is kept)");
    machine_set_busy(&e->machine, true);
    start_speculation(e);
    e->changed.device = keep_device(e, 1);
    e->changed.n_ctx = e->machine.n_ctx;
    known_bytes(&e->machine, &e->changed);
    atomic_store(&e->has_changed, true);
    return true;
}

/* After a failure: whether the CPU goes on. The pages that are on disk are not computed again.
 */
static bool take_over(struct engine *e, struct err *err)
{
    char line[sizeof err->msg + 64];
    if (e->machine.is_cpu || (err->code != ERR_DEVICE && err->code != ERR_MEMORY)) return false;
    snprintf(line, sizeof line, "the device failed (%s): the CPU goes on", err->msg);
    on_warning(e, line);
    return move_to_cpu(e, err);
}

/* The same in the middle of a reply. */
static bool reply_takes_over(void *user, const struct ids *all, struct timeline **tl,
                             struct speculator **spec, struct err *err)
{
    struct engine *e = user;
    const struct timeline_watch watch = {.cancel = &e->cancel};
    bool ok =
        take_over(e, err) && timeline_sync(e->machine.tl, all->data, all->n, &watch, NULL, err);
    *tl = e->machine.tl;
    *spec = e->spec;
    return ok;
}

/* ---- a turn ---- */

/* The text of one token; bytes that are not UTF-8 become U+FFFD. */
static const char *token_text(const struct engine *e, int32_t id, struct buf *out)
{
    buf_clear(out);
    detokenize(e->tok, &id, 1, out);
    return buf_str(out);
}

static void fill_cost(struct engine *e, const struct timeline_cost *cost,
                      struct engine_reply *reply)
{
    reply->n_cached = (uint32_t)cost->n_cached;
    reply->n_restored = (uint32_t)cost->n_restored;
    reply->n_prefilled = (uint32_t)cost->n_prefilled;
    reply->n_read = e->n_read < reply->n_cached ? e->n_read : reply->n_cached;
    reply->read_ms = e->read_ms;
    if (!cost->diverged) return;
    reply->diverged_at = (uint32_t)cost->diverged_at;
    reply->diverged_old = token_text(e, cost->old_id, &e->diverged[0]);
    reply->diverged_new = token_text(e, cost->new_id, &e->diverged[1]);
}

/* A resumed conversation has pages on disk; their names follow from the model's content. */
static void wait_for_disk(struct engine *e)
{
    struct disk *disk = e->machine.disk;
    const struct machine *draft = e->machine.draft;
    if (!atomic_load(&e->resumes) || !disk) return;
    if (!disk_is_ready(disk) && !disk_is_never_ready(disk) && !e->said_reading) {
        on_warning(e, "reading the model once more, to know what was kept of it on disk");
        e->said_reading = true;
    }
    disk_make_ready(disk, &e->cancel);
    if (draft && draft->disk) disk_make_ready(draft->disk, &e->cancel);
}

static bool is_reply(const struct request *r)
{
    return r->kind == REQUEST_TURN && r->sampling.max_tokens != 0;
}

/* Gives the disk what it has not, or is owed. Of a reply all that it takes, whoever waits:
 * after the next answer the sequence may be another, and its snapshot gone. What is no reply
 * may be given up for the next key: only its whole pages go there, until somebody waits, and
 * what is left of the reply before. False: there is more, or the disk takes none now: its queue
 * is full, or the weights are not known to it yet. */
static bool save_by(struct engine *e, bool (*give)(struct timeline *, const atomic_bool *stop))
{
    const atomic_bool *stop = is_reply(&e->turn) ? NULL : &e->is_wanted;
    const bool ok = give(e->machine.tl, stop);
    return (!e->machine.draft || give(e->machine.draft->tl, stop)) && ok;
}

static void warn_if_unkept(struct engine *e)
{
    struct disk *disk = e->machine.disk;
    struct err err;
    if (!disk || e->said_unkept || !disk_trouble(disk, &err)) return;
    err_write_prefix(&err, ENGINE_UNKEPT);
    on_warning(e, err.msg);
    e->said_unkept = true;
}

/* Behind the context that a draft was made for it guesses nothing. */
static void warn_if_draft_full(struct engine *e)
{
    const struct machine *draft = e->machine.draft;
    char line[96];
    if (!draft || e->said_full || timeline_n(e->machine.tl) <= draft->n_ctx) return;
    snprintf(line, sizeof line, "the draft's context of %u tokens is full: it guesses no more",
             draft->n_ctx);
    on_warning(e, line);
    e->said_full = true;
}

/* A prompt without a reply is computed while nobody waits: the draft reads it too, and is to be
 * able to come back to it. */
static void draft_ahead(struct engine *e)
{
    const struct timeline_watch watch = {.cancel = &e->cancel};
    const struct timeline *tl = e->machine.tl;
    struct timeline *draft = e->machine.draft ? e->machine.draft->tl : NULL;
    struct err ignored; /* the draft reads it later, or cannot */
    if (draft &&
        timeline_sync(draft, timeline_ids(tl), timeline_n(tl), &watch, NULL, &ignored) &&
        timeline_needs_marks(draft))
        timeline_snapshot_passing(draft);
}

static bool sync_prompt(struct engine *e, const struct ids *ids, struct timeline_cost *cost,
                        struct err *err)
{
    const struct timeline_watch watch = {on_prefill, e, &e->cancel};
    /* The next prompt may repeat this turn without its thoughts. */
    timeline_mark(e->machine.tl, reasoning_opened_at(e->tok, ids->data, ids->n));
    *cost = (struct timeline_cost){0};
    const bool ok = timeline_sync(e->machine.tl, ids->data, ids->n, &watch, cost, err);
    e->n_read += (uint32_t)cost->n_read; /* though it may have been cancelled after that */
    e->read_ms += cost->read_ms;
    return ok;
}

static bool run_turn(struct engine *e, struct ids *ids, struct engine_reply **reply,
                     struct err *err)
{
    const struct generate_sink sink = {on_piece, on_warning, e, reply_takes_over};
    struct timeline_cost cost;
    wait_for_disk(e);
    double start = clock_ms();
    if (!tokenizer_encode_next(e->tok, &e->prompt, &e->turn.prompt, &e->cancel, ids, err))
        return false;
    if (!sync_prompt(e, ids, &cost, err) &&
        !(take_over(e, err) && sync_prompt(e, ids, &cost, err)))
        return false;
    double prefill_ms = clock_ms() - start;
    const bool replies = is_reply(&e->turn);
    if (replies) timeline_snapshot(e->machine.tl); /* for another attempt */
    const struct generate_parts parts = {e->machine.tl, e->sampler, e->spec, e->tok, e->bound};
    *reply = generate(e->generator, &parts, &e->turn.sampling, &sink, &e->cancel, err);
    if (!*reply) return false;
    fill_cost(e, &cost, *reply);
    (*reply)->prefill_ms = prefill_ms;
    if (!machine_is_up(&e->machine)) return true; /* cancelled while the CPU took over */
    if (!replies) {
        draft_ahead(e);
        timeline_snapshot_passing(e->machine.tl); /* for the rest of the line */
        return true;
    }
    timeline_snapshot(e->machine.tl); /* for going on with the reply */
    warn_if_unkept(e);
    warn_if_draft_full(e);
    e->n_read = 0;
    e->read_ms = 0;
    return true;
}

static void answer_turn(struct engine *e)
{
    struct err err;
    struct ids ids = {0};
    struct engine_reply *reply = NULL;
    if (run_turn(e, &ids, &reply, &err))
        mailbox_post(e->box, &(struct engine_event){.kind = EVENT_END, .reply = reply});
    else /* a machine that is down has no context to be too short */
        post_failed(e, &err,
                    machine_is_up(&e->machine) && ids.n > e->machine.n_ctx ? ids.n : 0);
    ids_free(&ids);
}

static const char *difference_text(const struct verify_verdict *v, struct buf *out)
{
    buf_clear(out);
    switch (v->what) {
    case VERIFY_SAME: return NULL;
    case VERIFY_KEYS:
        buf_printf(out, "keys of layer %zu at token %zu", v->layer, v->pos);
        break;
    case VERIFY_VALUES:
        buf_printf(out, "values of layer %zu at token %zu", v->layer, v->pos);
        break;
    case VERIFY_STATES: buf_printf(out, "state %zu after token %zu", v->layer, v->pos); break;
    case VERIFY_LOGITS: buf_printf(out, "logits after token %zu", v->pos); break;
    }
    return buf_str(out);
}

static void answer_verify(struct engine *e)
{
    const struct timeline_watch watch = {on_prefill, e, &e->cancel};
    struct verify_verdict verdict;
    struct err err;
    double start = clock_ms();
    if (!timeline_verify(e->machine.tl, &watch, &verdict, &err)) {
        post_failed(e, &err, 0);
        return;
    }
    e->verified = (struct engine_verified){
        .n_tokens = (uint32_t)verdict.n_tokens,
        .n_snapshots = (uint32_t)verdict.n_held,
        .n_bytes = verdict.n_bytes,
        .ms = clock_ms() - start,
        .difference = difference_text(&verdict, &e->difference),
    };
    mailbox_post(e->box,
                 &(struct engine_event){.kind = EVENT_VERIFIED, .verified = &e->verified});
}

static void answer_draft(struct engine *e)
{
    struct engine_config config = e->config;
    struct err err;
    config.draft_path = e->turn.draft_path;
    config.draft_lookup = e->turn.draft_lookup;
    const struct machine_watch watch = {.warning = on_warning, .user = e, .cancel = &e->cancel};
    if (!machine_change_draft(&e->machine, &config, &watch, &err)) {
        post_failed(e, &err, 0);
        return;
    }
    free(e->kept[KEPT_DRAFT]);
    e->config = config;
    e->config.draft_path = e->kept[KEPT_DRAFT] = e->turn.draft_path;
    e->turn.draft_path = NULL;
    e->said_full = false;
    start_speculation(e);
    known_bytes(&e->machine, &e->changed);
    atomic_store(&e->has_changed, true);
    mailbox_post(e->box, &(struct engine_event){.kind = EVENT_DRAFT});
}

static void answer(struct engine *e)
{
    struct err err;
    if (!e->is_open) {
        err_set(&err, ERR_USER, "no model is loaded");
        post_failed(e, &err, 0);
        return;
    }
    if (!machine_is_up(&e->machine) && !move_to_cpu(e, &err)) {
        post_failed(e, &err, 0);
        return;
    }
    switch (e->turn.kind) {
    case REQUEST_TURN: answer_turn(e); break;
    case REQUEST_VERIFY: answer_verify(e); break;
    case REQUEST_DRAFT: answer_draft(e); break;
    }
}

/* Takes the next request. False: there will be none. Meanwhile the disk gets what its queue had
 * no room for. */
static bool wait_for_request(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    while (!e->has_request && !e->closing) {
        if (!e->is_behind) {
            pthread_cond_wait(&e->posted, &e->lock);
        } else if (!wait_ms(&e->posted, &e->lock, SAVE_AGAIN_MS)) {
            pthread_mutex_unlock(&e->lock);
            e->is_behind = !save_by(e, timeline_save_whole);
            pthread_mutex_lock(&e->lock);
        }
    }
    bool run = !e->closing;
    if (run) {
        request_free(&e->turn);
        e->turn = e->request;
        e->request = (struct request){0};
        e->has_request = false;
        atomic_store(&e->is_wanted, false);
    }
    pthread_mutex_unlock(&e->lock);
    return run;
}

/* What the answer did not wait for. What is no reply goes to the disk if nothing comes after it
 * for a while. */
static void after_answer(struct engine *e)
{
    timeline_prepare(e->machine.tl, &e->is_wanted);
    if (e->machine.draft) timeline_prepare(e->machine.draft->tl, &e->is_wanted);
    if (is_reply(&e->turn)) e->is_behind = !save_by(e, timeline_save);
}

void *engine_main(void *engine)
{
    struct engine *e = engine;
    struct err err;
    e->is_open = load(e, &err);
    if (e->is_open) {
        atomic_store(&e->is_ready, true);
        mailbox_post(e->box, &(struct engine_event){.kind = EVENT_READY});
    } else {
        post_failed(e, &err, 0);
        machine_close(&e->machine); /* after the answer: it takes its time */
    }
    while (wait_for_request(e)) {
        machine_set_busy(&e->machine, true);
        answer(e);
        machine_set_busy(&e->machine, false);
        e->is_behind = e->is_open && machine_is_up(&e->machine);
        if (e->is_behind) after_answer(e);
    }
    return NULL;
}
