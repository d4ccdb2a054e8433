#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/check.h"
#include "engine/disk.h"
#include "engine/generate.h"
#include "engine/known.h"
#include "engine/machine.h"
#include "engine/mailbox.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/speculate.h"
#include "engine/timeline.h"
#include "engine/verify.h"
#include "gguf/gguf.h"
#include "text/detokenize.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"

enum kept { KEPT_MODEL, KEPT_DEVICE, KEPT_CPU, KEPT_KV_TYPE, KEPT_CACHE, KEPT_DRAFT, N_KEPT };

struct engine {
    pthread_t thread;
    struct mailbox *box;
    atomic_bool cancel;
    atomic_bool is_ready;
    atomic_bool
        is_wanted; /* a request is posted, or none will be: what is done in idle time ends */

    /* The owner's side of the one request there may be. */
    pthread_mutex_t lock;
    pthread_cond_t posted;
    bool has_request, closing;
    struct request request;

    /* The engine's thread only. */
    struct engine_config config;
    char *kept[N_KEPT]; /* copies of the configuration's strings */
    struct machine machine;
    struct tokenizer *tok;
    struct sampler *sampler;
    struct speculator *spec;
    struct generator *generator;
    struct request turn;    /* the one that runs */
    struct buf diverged[2]; /* what the reply borrows: the token before and now */
    struct buf difference;
    struct engine_verified verified;
    uint32_t n_read; /* tokens from disk since the last reply, prompts without one included */
    double read_ms;
    double last_progress_ms;
    bool is_open;
    bool is_behind;   /* the disk may lack something of the sequence */
    bool said_unkept; /* that pages are no longer kept; a draft's lie on the same disk */

    /* Written before is_ready; after that by the owner's thread alone. */
    struct known known;
    char device[2][320]; /* at first, and after the CPU took over */

    /* What known becomes when the CPU takes over or the draft changes: written before
     * has_changed is set, and taken by the owner's thread. */
    struct engine_info changed;
    atomic_bool has_changed;
};

static const char unkept[] = "what is computed is no longer kept on disk";
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

static bool load(struct engine *e, struct err *err)
{
    const struct machine_watch watch = {.sizes = on_sizes,
                                        .progress = on_load,
                                        .warning = on_warning,
                                        .user = e,
                                        .cancel = &e->cancel};
    double start = clock_ms();
    if (!machine_open(&e->machine, &e->config, &watch, err)) return false;
    e->tok = tokenizer_open(e->machine.gguf, &e->cancel, err);
    if (!e->tok) return false;
    if (atomic_load(&e->cancel)) return err_set(err, ERR_CANCELLED, "loading was cancelled");
    size_t n_vocab = model_n_vocab(e->machine.model);
    if (!check_vocab(e->tok, n_vocab, err)) return false;
    e->sampler = sampler_new(n_vocab);
    e->generator = generator_new();
    start_speculation(e);
    e->machine.load_ms = clock_ms() - start;
    known_fill(&e->known, &e->machine, e->tok, e->config.model_path);
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

/* The owner's thread learns where the model runs now, and what it takes. */
static void take_changed(struct engine *e)
{
    if (atomic_exchange(&e->has_changed, false)) e->known.info = e->changed;
}

/* ---- a turn ---- */

/* The text of one token; bytes that are not UTF-8 become U+FFFD. */
static const char *token_text(const struct engine *e, int32_t id, struct buf *out)
{
    struct detokenizer whole;
    buf_clear(out);
    detokenizer_init(&whole, e->tok, true);
    detokenizer_add(&whole, id, out);
    detokenizer_flush(&whole, out);
    return buf_str(out);
}

static void fill_cost(struct engine *e, const struct timeline_cost *cost,
                      struct engine_reply *reply)
{
    reply->n_cached = (uint32_t)cost->n_cached;
    reply->n_restored = (uint32_t)cost->n_restored;
    reply->n_prefilled = (uint32_t)cost->n_prefilled;
    e->n_read += (uint32_t)cost->n_read;
    e->read_ms += cost->read_ms;
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
    if (!e->config.resumes || !disk) return;
    if (!disk_is_ready(disk))
        on_warning(e, "reading the model once more, to know what was kept of it on disk");
    disk_make_ready(disk);
    if (draft && draft->disk) disk_make_ready(draft->disk);
}

static bool is_reply(const struct request *r)
{
    return r->kind == REQUEST_TURN && r->sampling.max_tokens != 0;
}

/* Gives the disk what it has not, until somebody waits; what is no reply may be given up for
 * the next key, and only its whole pages go there. False: there is more. */
static bool save(struct engine *e)
{
    bool (*const save_of)(struct timeline * tl, const atomic_bool *stop) =
        is_reply(&e->turn) ? timeline_save : timeline_save_whole;
    const bool ok = save_of(e->machine.tl, &e->is_wanted);
    return (!e->machine.draft || save_of(e->machine.draft->tl, &e->is_wanted)) && ok;
}

static void warn_if_unkept(struct engine *e)
{
    struct disk *disk = e->machine.disk;
    struct err err;
    if (!disk || e->said_unkept || !disk_trouble(disk, &err)) return;
    err_write_prefix(&err, unkept);
    on_warning(e, err.msg);
    e->said_unkept = true;
}

/* A prompt without a reply is computed while nobody waits: the draft reads it too. */
static void draft_ahead(struct engine *e)
{
    const struct timeline_watch watch = {.cancel = &e->cancel};
    const struct timeline *tl = e->machine.tl;
    struct err ignored; /* the draft reads it later, or cannot */
    if (e->machine.draft)
        timeline_sync(e->machine.draft->tl, timeline_ids(tl), timeline_n(tl), &watch, NULL,
                      &ignored);
}

static bool sync_prompt(struct engine *e, const struct ids *ids, struct timeline_cost *cost,
                        struct err *err)
{
    const struct timeline_watch watch = {on_prefill, e, &e->cancel};
    /* The next prompt may repeat this turn without its thoughts. */
    timeline_mark(e->machine.tl, reasoning_opened_at(e->tok, ids->data, ids->n));
    return timeline_sync(e->machine.tl, ids->data, ids->n, &watch, cost, err);
}

static bool run_turn(struct engine *e, struct ids *ids, struct engine_reply **reply,
                     struct err *err)
{
    const struct generate_sink sink = {on_piece, on_warning, e, reply_takes_over};
    struct timeline_cost cost;
    wait_for_disk(e);
    double start = clock_ms();
    if (!tokenizer_encode_spans(e->tok, &e->turn.prompt, &e->cancel, ids, err)) return false;
    if (!sync_prompt(e, ids, &cost, err) &&
        !(take_over(e, err) && sync_prompt(e, ids, &cost, err)))
        return false;
    double prefill_ms = clock_ms() - start;
    timeline_snapshot(e->machine.tl); /* for another attempt */
    *reply = generate(e->generator, e->machine.tl, e->sampler, e->spec, e->tok,
                      &e->turn.sampling, &sink, &e->cancel, err);
    if (!*reply) return false;
    fill_cost(e, &cost, *reply);
    (*reply)->prefill_ms = prefill_ms;
    if (!machine_is_up(&e->machine)) return true; /* cancelled while the CPU took over */
    if (e->turn.sampling.max_tokens == 0) draft_ahead(e);
    timeline_snapshot(e->machine.tl); /* for going on with the reply */
    if (is_reply(&e->turn)) {
        warn_if_unkept(e);
        e->n_read = 0;
        e->read_ms = 0;
    }
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
            e->is_behind = !save(e);
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
    if (is_reply(&e->turn)) e->is_behind = !save(e);
}

static void *engine_main(void *arg)
{
    struct engine *e = arg;
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

/* ---- the owner's side ---- */

static const char *keep(struct engine *e, enum kept i, const char *s)
{
    return e->kept[i] = s ? mem_strdup(s) : NULL;
}

static void engine_free(struct engine *e)
{
    request_free(&e->request);
    request_free(&e->turn);
    generator_free(e->generator);
    speculator_free(e->spec);
    sampler_free(e->sampler);
    tokenizer_close(e->tok);
    machine_close(&e->machine);
    for (size_t i = 0; i < N_KEPT; i++)
        free(e->kept[i]);
    known_free(&e->known);
    buf_free(&e->diverged[0]);
    buf_free(&e->diverged[1]);
    buf_free(&e->difference);
    pthread_cond_destroy(&e->posted);
    pthread_mutex_destroy(&e->lock);
    mailbox_free(e->box);
    free(e);
}

struct engine *engine_open(const struct engine_config *config, struct err *err)
{
    if (!config->model_path) {
        err_set(err, ERR_USER, "no model is named");
        return NULL;
    }
    struct engine *e = mem_zalloc(1, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    wait_init(&e->posted);
    e->config = *config;
    e->config.model_path = keep(e, KEPT_MODEL, config->model_path);
    e->config.device = keep(e, KEPT_DEVICE, config->device);
    e->config.cpu = keep(e, KEPT_CPU, config->cpu);
    e->config.kv_type = keep(e, KEPT_KV_TYPE, config->kv_type);
    e->config.cache_dir = keep(e, KEPT_CACHE, config->cache_dir);
    e->config.draft_path = keep(e, KEPT_DRAFT, config->draft_path);
    e->box = mailbox_new(err);
    if (!e->box) {
        engine_free(e);
        return NULL;
    }
    int failed = pthread_create(&e->thread, NULL, engine_main, e);
    if (failed) {
        err_set(err, ERR_IO, "the engine's thread did not start: %s", strerror(failed));
        engine_free(e);
        return NULL;
    }
    return e;
}

static void end_thread(struct engine *e)
{
    mailbox_hang_up(e->box);
    pthread_mutex_lock(&e->lock);
    bool ended = e->closing;
    e->closing = true;
    atomic_store(&e->is_wanted, true);
    pthread_cond_signal(&e->posted);
    pthread_mutex_unlock(&e->lock);
    atomic_store(&e->cancel, true);
    if (!ended) pthread_join(e->thread, NULL);
}

bool engine_finish(struct engine *e, struct err *err)
{
    end_thread(e);
    if (machine_save(&e->machine, err) || e->said_unkept) return true;
    return err_prefix(err, unkept);
}

void engine_close(struct engine *e)
{
    if (!e) return;
    end_thread(e);
    engine_free(e);
}

bool engine_next(struct engine *e, int timeout_ms, struct engine_event *event)
{
    const bool came = mailbox_next(e->box, timeout_ms, event);
    take_changed(e);
    return came;
}

int engine_event_fd(const struct engine *e)
{
    return mailbox_fd(e->box);
}

void engine_cancel(struct engine *e)
{
    atomic_store(&e->cancel, true);
}

const struct engine_info *engine_info(const struct engine *e)
{
    return &e->known.info;
}

bool engine_number(const struct engine *e, const char *key, double *value)
{
    return atomic_load(&e->is_ready) && gguf_f64(e->machine.gguf, key, value);
}

static void post(struct engine *e, struct request request)
{
    atomic_store(&e->cancel, false);
    pthread_mutex_lock(&e->lock);
    assert(!e->has_request);
    e->request = request;
    e->has_request = true;
    atomic_store(&e->is_wanted, true);
    pthread_cond_signal(&e->posted);
    pthread_mutex_unlock(&e->lock);
}

void engine_turn(struct engine *e, const struct spans *prompt,
                 const struct engine_sampling *sampling)
{
    post(e, request_turn(prompt, sampling));
}

void engine_verify(struct engine *e)
{
    post(e, request_verify());
}

void engine_draft(struct engine *e, const char *path, bool lookup)
{
    post(e, request_draft(path, lookup));
}

long engine_count_tokens(struct engine *e, const char *text, size_t len)
{
    if (!atomic_load(&e->is_ready)) return -1;
    struct ids ids = {0};
    struct err err;
    long n = tokenizer_encode(e->tok, text, len, false, false, &ids, &err) ? (long)ids.n : -1;
    ids_free(&ids);
    return n;
}

bool engine_prompt_ids(struct engine *e, const struct spans *prompt, struct ids *out,
                       struct err *err)
{
    if (!atomic_load(&e->is_ready)) return err_set(err, ERR_USER, "the model is not open yet");
    return tokenizer_encode_spans(e->tok, prompt, NULL, out, err);
}

void engine_spell(struct engine *e, const int32_t *ids, size_t n, struct buf *out)
{
    struct detokenizer d;
    detokenizer_init(&d, e->tok, true);
    for (size_t i = 0; i < n; i++)
        detokenizer_add(&d, ids[i], out);
    detokenizer_flush(&d, out);
}
