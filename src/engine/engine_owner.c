/* The engine as its owner sees it: requests posted, events taken. */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/wait.h"
#include "engine/bound.h"
#include "engine/engine_impl.h"
#include "engine/generate.h"
#include "engine/mailbox.h"
#include "engine/sampler.h"
#include "engine/speculate.h"
#include "gguf/gguf.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

/* The owner's thread learns where the model runs now, and what it takes. */
static void take_changed(struct engine *e)
{
    if (atomic_exchange(&e->has_changed, false)) e->known.info = e->changed;
}

static const char *keep(struct engine *e, enum kept i, const char *s)
{
    return e->kept[i] = s ? mem_strdup(s) : NULL;
}

static void engine_free(struct engine *e)
{
    request_free(&e->request);
    request_free(&e->turn);
    encoded_free(&e->prompt);
    encoded_free(&e->asked);
    generator_free(e->generator);
    speculator_free(e->spec);
    sampler_free(e->sampler);
    bound_free(e->bound);
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

/* Signals that come from outside are the owner's: the engine's thread, and all that it starts,
 * takes none. Those of a crash come where it happens. */
static int start_thread(struct engine *e)
{
    static const int owners[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH};
    sigset_t outside, before;
    sigemptyset(&outside);
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
        sigaddset(&outside, owners[i]);
    pthread_sigmask(SIG_BLOCK, &outside, &before);
    int failed = pthread_create(&e->thread, NULL, engine_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
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
    e->resumes = config->resumes;
    e->config.model_path = keep(e, KEPT_MODEL, config->model_path);
    e->config.adapter_path = keep(e, KEPT_ADAPTER, config->adapter_path);
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
    int failed = start_thread(e);
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
    if (machine_save(&e->machine, NULL, err) || e->said_unkept) return true;
    return err_prefix(err, ENGINE_UNKEPT);
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

bool engine_has_biased(const struct engine *e, int32_t id, struct err *err)
{
    return sampler_has_biased(engine_info(e)->n_vocab, id, err);
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

void engine_resumes(struct engine *e, bool resumes)
{
    atomic_store(&e->resumes, resumes);
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
    long n = tokenizer_encode(e->tok, text, len, ENCODE_PLAIN, &ids, &err) ? (long)ids.n : -1;
    ids_free(&ids);
    return n;
}

bool engine_prompt_ids(struct engine *e, const struct spans *prompt, struct ids *out,
                       struct err *err)
{
    if (!atomic_load(&e->is_ready)) return err_set(err, ERR_USER, "the model is not open yet");
    return tokenizer_encode_next(e->tok, &e->asked, prompt, NULL, out, err);
}

void engine_spell(struct engine *e, const int32_t *ids, size_t n, struct buf *out)
{
    detokenize(e->tok, ids, n, out);
}
