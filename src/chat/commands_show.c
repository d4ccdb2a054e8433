/* The commands that show and change settings and figures. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/readable.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/export.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "engine/engine.h"
#include "template/builtin_templates.h"

static void tell_buf(struct chat *c, struct buf *text)
{
    chat_tell(c, FACE_INFO, "%s", buf_str(text));
    buf_free(text);
}

/* ---- /set, /think ---- */

static void put_setting(const struct options *o, const struct option_row *row, struct buf *out)
{
    struct buf value = {0};
    enum option_id id = option_id(row);
    option_value(o, id, &value);
    buf_printf(out, "%-18s %-10s ", row->name, value.len ? value.data : "-");
    option_origin(o, id, out);
    buf_putc(out, '\n');
    buf_free(&value);
}

static void put_settings(const struct options *o, struct buf *out)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->flags & OPTION_SET) put_setting(o, row, out);
    }
}

/* ollama writes num_ctx. */
static const struct option_row *find_foreign(const char *name)
{
    char *with_dashes = mem_strdup(name);
    for (char *p = with_dashes; *p; p++)
        if (*p == '_') *p = '-';
    const struct option_row *row = option_find(with_dashes);
    if (!row) row = option_find_foreign(with_dashes);
    free(with_dashes);
    return row;
}

static void put_range(const struct option_row *row, struct buf *out)
{
    const bool is_list = row->type == OPTION_STRINGS || row->type == OPTION_BIASES;
    buf_puts(out, "it can be ");
    option_takes(row, out);
    if (is_list)
        buf_printf(out, ", or several between commas; /set %s= takes them back", row->name);
}

static const struct option_row *find_setting(struct chat *c, const char *name)
{
    const struct option_row *row = find_foreign(name);
    if (row && (row->flags & OPTION_SET)) return row;
    struct nearest near;
    nearest_begin(&near, name);
    for (size_t i = 0; i < N_OPTIONS && !row; i++) {
        const struct option_row *other = option_row((enum option_id)i);
        if (other->flags & OPTION_SET) nearest_offer(&near, other->name);
    }
    if (row && (option_id(row) == OPT_MODEL || option_id(row) == OPT_DRAFT))
        chat_tell(c, FACE_ERROR, "/set: %s is changed by /%s", name, row->name);
    else if (row)
        chat_tell(c, FACE_ERROR, "/set: %s is settled at the start; give --%s there", name,
                  row->name);
    else if (near.best)
        chat_tell(c, FACE_ERROR, "/set: no setting '%s'; did you mean %s?", name, near.best);
    else
        chat_tell(c, FACE_ERROR, "/set: no setting '%s'; /set lists them", name);
    return NULL;
}

bool setting_is(const char *name)
{
    const struct option_row *row = find_foreign(name);
    return row && (row->flags & OPTION_SET);
}

bool setting_explain(struct chat *c, const char *name, struct buf *out)
{
    const struct option_row *row = find_setting(c, name);
    if (!row) return false;
    buf_printf(out, "/set %s: %s\n", row->name, row->help);
    put_range(row, out);
    return true;
}

/* Whether args begins with this word; *rest is what stands after it. */
static bool after_word(const char *args, const char *word, const char **rest)
{
    size_t n = strcspn(args, " \t");
    *rest = args + n + strspn(args + n, " \t");
    return n == strlen(word) && memcmp(args, word, n) == 0;
}

const char *setting_name(const char *args, size_t *n)
{
    const char *rest;
    if (after_word(args, "parameter", &rest)) args = rest;
    *n = strcspn(args, " \t=");
    return args;
}

static bool set_option(struct chat *c, const struct option_row *row, const char *value,
                       struct err *err)
{
    const enum option_id id = option_id(row);
    if (id != OPT_SCHEMA && id != OPT_LOGIT_BIAS)
        return options_set(c->options, row, value, err);
    struct options *before = options_clone(c->options);
    const bool ok = options_set(c->options, row, value, err) &&
                    (id == OPT_SCHEMA ? schema_read(c, err) : model_has_biases(c, err));
    if (!ok) options_revert(c->options, id, before);
    options_free(before);
    return ok;
}

/* command: what stands before the name of the option in an error. */
static bool set(struct chat *c, const char *command, const struct option_row *row,
                const char *value)
{
    const enum render_think think = render_think_of(c->options->think);
    struct err err;
    if (!set_option(c, row, value, &err)) {
        chat_tell(c, FACE_ERROR, "%s%s", command, err.msg);
        return false;
    }
    if (option_id(row) == OPT_SEED) session_choose_seed(c);
    if (render_think_of(c->options->think) != think && render_knows_think(c->renderer))
        context_forget(c);
    if (option_id(row) == OPT_THINK) c->said.no_think = false;
    struct buf line = {0};
    put_setting(c->options, row, &line);
    if (!c->options->quiet) chat_tell(c, FACE_INFO, "%s", buf_str(&line));
    buf_free(&line);
    return true;
}

/* Also with = between key and value, as a configuration has it, and as ollama has it: parameter
 * KEY VALUE, system TEXT, nothink. */
bool command_set(struct chat *c, const char *args)
{
    struct buf out = {0};
    if (!*args) {
        put_settings(c->options, &out);
        tell_buf(c, &out);
        return true;
    }
    const char *value;
    size_t n;
    args = setting_name(args, &n);
    if (!*args) {
        chat_tell(c, FACE_ERROR, "/set parameter: which one? /set lists them");
        return false;
    }
    if (after_word(args, "system", &value)) return command_system(c, value);
    if (after_word(args, "nothink", &value) && !*value) return command_think(c, "off");
    buf_append(&out, args, n);
    const struct option_row *row = find_setting(c, buf_str(&out));
    buf_clear(&out);
    value = args + n + strspn(args + n, " \t");
    /* What begins with = is a value, unless it touches the name or has blanks on both sides. */
    const bool touches = *value == '=' && value == args + n;
    if (touches || (*value == '=' && (value[1] == ' ' || value[1] == '\t')))
        value += 1 + strspn(value + 1, " \t");
    const bool is_list = row && (row->type == OPTION_STRINGS || row->type == OPTION_BIASES);
    bool ok = row != NULL;
    if (row && (*value || (touches && is_list))) {
        ok = set(c, "/set: ", row, value);
    } else if (row) {
        put_setting(c->options, row, &out);
        put_range(row, &out);
        chat_tell(c, FACE_INFO, "%s", buf_str(&out));
    }
    buf_free(&out);
    return ok;
}

bool command_think(struct chat *c, const char *args)
{
    const struct option_row *row = option_row(OPT_THINK);
    if (*args) return set(c, "/", row, args);
    struct buf out = {0};
    option_value(c->options, OPT_THINK, &out);
    chat_tell(c, FACE_INFO, "think %s; the template %s", buf_str(&out),
              render_knows_think(c->renderer) ? "can turn thinking on and off"
                                              : "cannot turn thinking on or off");
    buf_free(&out);
    return true;
}

/* ---- /show ---- */

static void put_bytes(struct buf *out, uint64_t n)
{
    char size[READABLE_BYTES];
    buf_puts(out, readable_size(size, n));
}

static void put_list(struct buf *out, const char *label, const char *const *items, size_t n)
{
    buf_printf(out, "%-12s", label);
    for (size_t i = 0; i < n; i++)
        buf_printf(out, " %s", items[i]);
    buf_puts(out, n ? "\n" : " none\n");
}

static void put_model(struct chat *c, struct buf *out)
{
    const struct engine_info *info = engine_info(c->engine);
    buf_printf(out, "%-12s %s (%s)\n", "model", info->name, info->family);
    if (c->options->model) buf_printf(out, "%-12s %s\n", "file", c->options->model);
    if (c->config.adapter_path)
        buf_printf(out, "%-12s %s, of which %g counts\n", "adapter", c->config.adapter_path,
                   (double)c->config.adapter_scale);
    buf_printf(out, "%-12s %s\n", "device", info->device);
    buf_printf(out, "%-12s %u tokens (the model's own: %u), KV %s\n", "context",
               (unsigned)info->n_ctx, (unsigned)info->n_ctx_model, info->kv_type);
    buf_printf(out, "%-12s ", "draft");
    draft_name(c, out);
    buf_printf(out, "\n%-12s weights ", "memory");
    put_bytes(out, info->weights_bytes);
    buf_puts(out, ", KV ");
    put_bytes(out, info->kv_bytes_per_token);
    buf_puts(out, " per token, scratch ");
    put_bytes(out, info->scratch_bytes);
    buf_printf(out, "\n%-12s %u tokens\n", "vocabulary", (unsigned)info->n_vocab);
    put_list(out, "ends", info->end_tokens, info->n_end_tokens);
    put_list(out, "reasoning", info->reasoning_markers, info->n_reasoning_markers);
    const char *name = c->template.stand_in;
    buf_printf(out, "%-12s %s%s%s; thinking %s\n", "template", name ? name : "",
               name ? ", " : "", c->template.from,
               render_knows_think(c->renderer) ? "can be switched" : "has no switch");
}

static void put_conversation(struct chat *c, struct buf *out)
{
    const struct branch *b = conversation_current(c->conversation);
    char turns[READABLE_BYTES];
    buf_printf(
        out, "%-12s branch %u%s%s of %zu, %s, seed %" PRIu64 "\n", "conversation", b->number,
        b->name ? " " : "", b->name ? b->name : "", conversation_n_branches(c->conversation),
        readable_count(turns, conversation_n_turns(c->conversation), "turn"), c->session.seed);
}

static void put_template(struct chat *c, struct buf *out)
{
    if (c->template.text)
        buf_puts(out, c->template.text);
    else if (c->template.stand_in)
        buf_puts(out, template_builtin(c->template.stand_in));
    else
        buf_puts(out, engine_info(c->engine)->chat_template);
}

static void put_all(struct chat *c, struct buf *out)
{
    const char *system = conversation_system(c->conversation);
    put_model(c, out);
    put_conversation(c, out);
    buf_printf(out, "%-12s %s\n", "system", system ? system : "none");
    put_settings(c->options, out);
}

static void put_said(struct chat *c, struct buf *out)
{
    if (conversation_n(c->conversation) > 0)
        export_conversation(c->conversation, EXPORT_PLAIN, out);
    else
        buf_puts(out, "nothing has been said yet");
}

bool command_show(struct chat *c, const char *args)
{
    struct buf out = {0};
    bool known = true, literal = false;
    if (!*args)
        put_all(c, &out);
    else if (!strcmp(args, "model") || !strcmp(args, "info"))
        put_model(c, &out);
    else if (!strcmp(args, "settings") || !strcmp(args, "parameters"))
        put_settings(c->options, &out);
    else if ((literal = !strcmp(args, "template")))
        put_template(c, &out);
    else if (!strcmp(args, "system"))
        return command_system(c, "");
    else if (!strcmp(args, "conversation"))
        put_said(c, &out);
    else if (!strcmp(args, "prompt"))
        return command_show_prompt(c);
    else
        known = false;
    if (known)
        chat_tell(c, literal ? FACE_LITERAL : FACE_INFO, "%s", buf_str(&out));
    else
        chat_tell(c, FACE_ERROR,
                  "/show: expected model, settings, template, system, conversation or prompt, "
                  "found '%s'",
                  args);
    buf_free(&out);
    return known;
}

/* ---- /stats ---- */

static void put_rate(struct buf *out, uint32_t n, double ms)
{
    buf_printf(out, " in %.0f ms", ms);
    if (ms > 0 && n > 0) buf_printf(out, " (%.1f tok/s)", n * 1000.0 / ms);
}

static void put_reused(const struct last_turn *last, struct buf *out)
{
    const struct face_report *r = &last->report;
    char tokens[READABLE_BYTES];
    buf_printf(out, "%-12s %s: %u reused", "prompt",
               readable_count(tokens, r->n_cached + r->n_prefilled, "token"),
               (unsigned)r->n_cached);
    if (last->n_restored)
        buf_printf(out, " (%u of them from another branch)", (unsigned)last->n_restored);
    if (r->n_read)
        buf_printf(out, " (%u read from disk in %.0f ms)", (unsigned)r->n_read, last->read_ms);
    buf_printf(out, ", %u computed", (unsigned)r->n_prefilled);
    put_rate(out, r->n_prefilled, r->prefill_ms);
    if (last->diverged_old) {
        char old[64], now[64];
        printable(old, sizeof old, last->diverged_old, strlen(last->diverged_old));
        printable(now, sizeof now, last->diverged_new, strlen(last->diverged_new));
        buf_printf(out, "\n%-12s at token %u: \"%s\" was held, \"%s\" came", "diverged",
                   (unsigned)last->diverged_at, old, now);
    }
}

/* What guessing came to: tokens per step of the model, and the speed without it. */
static void put_drafts(const struct face_report *r, struct buf *out)
{
    if (!r->n_drafted || !r->n_steps) return;
    char tokens[READABLE_BYTES];
    buf_printf(out, "%-12s %s, %u right (%.0f %%); %.1f tokens per step of the model",
               "guessed", readable_count(tokens, r->n_drafted, "token"),
               (unsigned)r->n_accepted, 100.0 * r->n_accepted / r->n_drafted,
               1 + (double)r->n_accepted / r->n_steps);
    if (r->plain_ms > 0)
        buf_printf(out, "\n%-12s about %.1f tok/s without", "", 1000 / r->plain_ms);
    buf_putc(out, '\n');
}

static void put_last(const struct last_turn *last, struct buf *out)
{
    const struct face_report *r = &last->report;
    put_reused(last, out);
    char tokens[READABLE_BYTES];
    buf_printf(out, "\n%-12s %s", "reply", readable_count(tokens, r->n_generated, "token"));
    put_rate(out, face_has_rate(r) ? r->n_generated : 0, r->decode_ms);
    buf_printf(out, ", stop %s\n%-12s seed %" PRIu64 "\n", face_stop_name(r->stop), "",
               r->reply_seed);
    put_drafts(r, out);
    buf_printf(out, "%-12s %u of %u tokens (%.0f %%)\n", "context", (unsigned)r->n_ctx_used,
               (unsigned)r->n_ctx, r->n_ctx ? 100.0 * r->n_ctx_used / r->n_ctx : 0);
}

bool command_stats(struct chat *c, const char *args)
{
    (void)args;
    const struct engine_info *info = engine_info(c->engine);
    const struct face_report *r = &c->last.report;
    struct buf out = {0};
    if (c->last.there)
        put_last(&c->last, &out);
    else
        buf_printf(&out, "no turn yet\n");
    buf_printf(&out, "%-12s weights ", "memory");
    put_bytes(&out, info->weights_bytes);
    buf_puts(&out, ", KV ");
    put_bytes(&out, info->kv_bytes_per_token * (c->last.there ? r->n_ctx_used : 0));
    buf_puts(&out, " of ");
    put_bytes(&out, info->kv_bytes_per_token * info->n_ctx);
    buf_puts(&out, ", scratch ");
    put_bytes(&out, info->scratch_bytes);
    tell_buf(c, &out);
    return true;
}

bool command_verify(struct chat *c, const char *args)
{
    (void)args;
    if (conversation_n(c->conversation) > 0) return verify_begin(c);
    chat_tell(c, FACE_ERROR, "/verify: nothing has been said yet");
    return false;
}
