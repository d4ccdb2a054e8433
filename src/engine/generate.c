/* One reply: draw, turn into text, hold back what may become a stop string, hand over. */
#include "engine/generate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "engine/bound.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/speculate.h"
#include "engine/stop.h"
#include "engine/timeline.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

/* From answer_at on, the answer's bytes lie in the whole text from text_at on. */
struct border {
    size_t answer_at, text_at;
};

struct generator {
    struct engine_reply reply;
    /* Of the reply under way. */
    struct timeline *tl; /* NULL, as spec: given up */
    uint32_t n_ctx;
    struct sampler *sampler;
    struct speculator *spec;
    struct speculate_counts counts; /* of all that made the reply: another may take over */
    const struct tokenizer *tok;
    struct bound *bound; /* NULL: nothing binds the reply */
    const struct engine_sampling *how;
    const struct generate_sink *sink;
    struct reasoning *split;
    struct ids all; /* prompt and reply: the window of the penalties */
    struct ids ids;
    size_t *id_at;
    size_t n_id_at, cap_id_at;
    struct buf text;   /* the whole reply, markers and control tokens spelled out */
    struct buf answer; /* what of it is neither reasoning nor marker */
    struct border *borders;
    size_t n_borders, cap_borders;
    size_t shown;    /* bytes of the answer given to the sink */
    size_t searched; /* bytes of the answer in which no stop string ends */
    size_t thought_end;
    bool has_thought, stopped;
};

struct generator *generator_new(void)
{
    return mem_zalloc(1, sizeof(struct generator));
}

void generator_free(struct generator *g)
{
    if (!g) return;
    ids_free(&g->ids);
    ids_free(&g->all);
    free(g->id_at);
    buf_free(&g->text);
    buf_free(&g->answer);
    free(g->borders);
    free(g);
}

uint32_t generator_n_drawn(const struct generator *g)
{
    return g->reply.n_generated;
}

static void reset(struct generator *g, const struct tokenizer *tok,
                  const struct engine_sampling *how, const struct generate_sink *sink)
{
    g->reply = (struct engine_reply){.reply_seed = how->reply_seed};
    g->tok = tok;
    g->how = how;
    g->sink = sink;
    ids_clear(&g->ids);
    ids_clear(&g->all);
    buf_clear(&g->text);
    buf_clear(&g->answer);
    g->n_id_at = g->n_borders = 0;
    g->shown = g->searched = g->thought_end = 0;
    g->has_thought = g->stopped = false;
}

static void push_id_at(struct generator *g, size_t at)
{
    MEM_GROW(g->id_at, g->n_id_at, g->cap_id_at);
    g->id_at[g->n_id_at++] = at;
}

/* Gives the sink what of the answer is certain. */
static void show(struct generator *g, size_t until)
{
    if (until > g->shown)
        g->sink->piece(g->sink->user, REPLY_TEXT, g->answer.data + g->shown, until - g->shown);
    g->shown = until > g->shown ? until : g->shown;
}

static size_t text_at_of(const struct generator *g, size_t answer_at)
{
    size_t i = g->n_borders;
    while (i > 1 && g->borders[i - 1].answer_at > answer_at)
        i--;
    return g->borders[i - 1].text_at + (answer_at - g->borders[i - 1].answer_at);
}

/* Cuts text, answer and ids at a place in the answer; a token that is cut goes as a whole. */
static void cut(struct generator *g, size_t answer_at)
{
    size_t at = text_at_of(g, answer_at);
    g->answer.len = answer_at;
    g->answer.data[answer_at] = '\0';
    g->text.len = at;
    g->text.data[at] = '\0';
    while (g->ids.n > 0 && g->id_at[g->ids.n] > at)
        g->ids.n--;
    /* Tokens that only began a character which was cut. */
    while (g->ids.n > 0 && g->id_at[g->ids.n] == g->id_at[g->ids.n - 1])
        g->ids.n--;
    g->n_id_at = g->ids.n + 1;
}

static void add_answer(struct generator *g, size_t at, const char *text, size_t len)
{
    const struct border *last = g->n_borders ? &g->borders[g->n_borders - 1] : NULL;
    if (!last || last->text_at + (g->answer.len - last->answer_at) != at) {
        MEM_GROW(g->borders, g->n_borders, g->cap_borders);
        g->borders[g->n_borders++] = (struct border){g->answer.len, at};
    }
    buf_append(&g->answer, text, len);
}

/* What the splitter emits. After a stop string nothing counts any more. */
static void emit(void *ctx, enum reply_part part, const char *text, size_t len)
{
    struct generator *g = ctx;
    if (g->stopped) return;
    size_t at = reasoning_piece_at(g->split);
    if (part == REPLY_REASONING) {
        if (!g->has_thought) g->reply.reasoning_at = at;
        g->has_thought = true;
        g->thought_end = at + len;
        g->sink->piece(g->sink->user, REPLY_REASONING, text, len);
        return;
    }
    add_answer(g, at, text, len);
    g->stopped = stop_find(g->how->stop, g->how->n_stop, g->answer.data, g->answer.len,
                           g->searched, &g->searched);
    if (g->stopped) return;
    g->searched = g->answer.len;
    show(g, g->answer.len -
                stop_held(g->how->stop, g->how->n_stop, g->answer.data, g->answer.len));
}

/* Whether a token may be drawn; if not, the reply's stop is set. */
static bool may_draw(struct generator *g, const atomic_bool *cancel)
{
    const int max = g->how->max_tokens;
    g->reply.stop = STOP_CANCELLED;
    if (cancel_is_set(cancel)) return false;
    g->reply.stop = STOP_LENGTH;
    if (max >= 0 && g->ids.n >= (size_t)max) return false;
    g->reply.stop = STOP_CONTEXT;
    return g->all.n < g->n_ctx;
}

/* Tokens that may follow the next one. */
static size_t tokens_left(const struct generator *g)
{
    const int max = g->how->max_tokens;
    return max < 0 ? SIZE_MAX : (size_t)max - g->ids.n - 1;
}

static void add_counts(struct generator *g)
{
    const struct speculate_counts counts = speculate_take_counts(g->spec);
    g->counts.n_drafted += counts.n_drafted;
    g->counts.n_accepted += counts.n_accepted;
    g->counts.n_steps += counts.n_steps;
    g->counts.plain_ms = counts.plain_ms;
}

/* Whether the reply goes on elsewhere after a failure. */
static bool take_over(struct generator *g, struct err *err)
{
    if (!g->sink->take_over || err->code == ERR_CANCELLED) return false;
    add_counts(g);
    if (!g->sink->take_over(g->sink->user, &g->all, &g->tl, &g->spec, err)) return false;
    g->n_ctx = timeline_n_ctx(g->tl);
    speculate_begin(g->spec);
    return true;
}

/* Says whether the next token is the answer's. False: the answer is whole. */
static bool bind(struct generator *g)
{
    int32_t opens[REASONING_MAX_IDS];
    if (!g->bound) return true;
    if (!reasoning_in_answer(g->split)) {
        bound_ease(g->bound);
        return true;
    }
    bound_answer(g->bound, opens, g->how->no_thought ? 0 : reasoning_opens(g->split, opens));
    if (!bound_is_over(g->bound)) return true;
    g->reply.stop = STOP_END;
    return false;
}

/* Draws until something ends the reply; false on failure. */
static bool run(struct generator *g, struct detokenizer *whole, const atomic_bool *cancel,
                struct err *err)
{
    while (!g->stopped && bind(g) && may_draw(g, cancel)) {
        int32_t id = -1;
        if (!speculate_draw(g->spec, &g->all, tokens_left(g), cancel, &id, err)) {
            if (take_over(g, err)) continue;
            g->reply.stop = STOP_CANCELLED;
            return err->code == ERR_CANCELLED;
        }
        g->reply.n_generated++;
        if (tokenizer_is_end(g->tok, id) && reasoning_ends_turn(g->split, id)) {
            g->reply.stop = STOP_END;
            break;
        }
        push_id_at(g, g->text.len);
        ids_push(&g->ids, id);
        ids_push(&g->all, id);
        sampler_accept(g->sampler, g->all.data, g->all.n);
        detokenizer_add(whole, id, &g->text);
        reasoning_add(g->split, id);
    }
    return true;
}

static bool run_drafted(struct generator *g, struct detokenizer *whole,
                        const atomic_bool *cancel, struct err *err)
{
    speculate_begin(g->spec);
    bool ok = run(g, whole, cancel, err);
    if (g->spec) {
        speculate_end(g->spec, &g->all);
        add_counts(g);
    }
    g->reply.n_drafted = g->counts.n_drafted;
    g->reply.n_accepted = g->counts.n_accepted;
    g->reply.n_steps = g->counts.n_steps;
    g->reply.plain_ms = g->counts.plain_ms;
    return ok;
}

static void fill_reply(struct generator *g, size_t n_prompt)
{
    struct engine_reply *r = &g->reply;
    r->ids = g->ids.data;
    r->n_ids = g->ids.n;
    r->id_at = g->id_at;
    r->text = buf_str(&g->text);
    r->text_len = g->text.len;
    r->content_at = g->n_borders ? g->borders[0].text_at : g->text.len;
    r->reasoning_len = g->has_thought ? g->thought_end - r->reasoning_at : 0;
    r->n_ctx_used = (uint32_t)(n_prompt + g->ids.n);
    r->n_ctx = g->n_ctx;
}

struct engine_reply *generate(struct generator *g, const struct generate_parts *parts,
                              const struct engine_sampling *how,
                              const struct generate_sink *sink, const atomic_bool *cancel,
                              struct err *err)
{
    const struct timeline *tl = parts->tl;
    assert(timeline_logits(parts->tl));
    reset(g, parts->tok, how, sink);
    g->tl = parts->tl;
    g->n_ctx = timeline_n_ctx(tl);
    g->counts = (struct speculate_counts){0};
    g->sampler = parts->sampler;
    g->spec = parts->spec;
    ids_append(&g->all, timeline_ids(tl), timeline_n(tl));
    size_t n_prompt = timeline_n(tl);
    g->bound = how->grammar ? parts->bound : NULL;
    if (parts->bound && !bound_begin(parts->bound, how->grammar, how->said, how->n_said, err))
        return NULL;
    if (!sampler_begin(g->sampler, how, timeline_ids(tl), n_prompt, err)) return NULL;
    struct reasoning *split = g->split = reasoning_new(parts->tok, emit, g);
    reasoning_prompt(split, timeline_ids(tl), n_prompt);
    struct detokenizer whole;
    detokenizer_init(&whole, parts->tok, true);
    double start = clock_ms();
    bool ok = run_drafted(g, &whole, cancel, err);
    if (!g->stopped) {
        detokenizer_flush(&whole, &g->text);
        reasoning_flush(split);
    }
    push_id_at(g, g->text.len);
    if (g->stopped) {
        g->reply.stop = STOP_STRING;
        cut(g, g->searched);
    }
    show(g, g->answer.len);
    if (reasoning_saw_invalid(split))
        sink->warning(sink->user, "the reply has bytes that are not UTF-8; they are shown as "
                                  "U+FFFD");
    g->reply.decode_ms = clock_ms() - start;
    reasoning_free(split);
    g->split = NULL;
    fill_reply(g, n_prompt);
    return ok ? &g->reply : NULL;
}
