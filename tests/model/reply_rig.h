/* A machine with all that makes a reply of it, for tests that compare replies. What goes wrong
 * in here fails the cmocka test that called, unless it says so. */
#ifndef TESTS_REPLY_RIG_H
#define TESTS_REPLY_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../guide.h"
#include "base/buf.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/speculate.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct rig {
    struct machine m;
    struct engine_config config;
    struct tokenizer *tok;
    struct sampler *sampler;
    struct generator *generator;
    struct buf shown; /* of the last reply, reasoning and all */
};

/* draft may be NULL; one thread, as far as the CPU computes. */
static inline void rig_open(struct rig *r, const char *path, const char *draft, bool lookup,
                            const char *device, uint32_t n_ctx)
{
    struct err err;
    *r = (struct rig){.config = {.model_path = path,
                                 .draft_path = draft,
                                 .draft_lookup = lookup,
                                 .device = device,
                                 .n_threads = 1,
                                 .n_ctx = n_ctx,
                                 .cache_ram_bytes = 16 << 20}};
    if (!machine_open(&r->m, &r->config, NULL, &err)) fail_msg("%s", err.msg);
    r->tok = tokenizer_open(r->m.gguf, NULL, &err);
    if (!r->tok) fail_msg("%s", err.msg);
    r->sampler = sampler_new(model_n_vocab(r->m.model));
    r->generator = generator_new();
}

static inline void rig_close(struct rig *r)
{
    generator_free(r->generator);
    sampler_free(r->sampler);
    tokenizer_close(r->tok);
    machine_close(&r->m);
    buf_free(&r->shown);
}

static inline void rig_on_piece(void *user, enum reply_part part, const char *text, size_t len)
{
    struct rig *r = user;
    (void)part;
    buf_append(&r->shown, text, len);
}

static inline void rig_on_warning(void *user, const char *line)
{
    (void)user, (void)line;
}

/* A reply to what the timeline holds; fixed: tokens guessed ahead, 0: as many as pay. Lives
 * until the next. NULL: an error, left in *err. */
static inline const struct engine_reply *
rig_reply(struct rig *r, const struct engine_sampling *how, uint32_t fixed, struct err *err)
{
    struct speculator_parts parts = machine_speculation(&r->m, &r->config);
    parts.sampler = r->sampler;
    parts.ends = tokenizer_ends(r->tok, &parts.n_ends);
    parts.fixed = fixed;
    struct speculator *spec = speculator_new(&parts);
    const struct generate_parts with = {r->m.tl, r->sampler, spec, r->tok, NULL};
    const struct generate_sink sink = {
        .piece = rig_on_piece, .warning = rig_on_warning, .user = r};
    buf_clear(&r->shown);
    const struct engine_reply *reply = generate(r->generator, &with, how, &sink, NULL, err);
    speculator_free(spec);
    return reply;
}

#endif
