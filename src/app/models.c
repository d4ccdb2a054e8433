/* hearth models: what discover.c finds, opened to see what it is; and the offer at the first
 * start. */
#include "app/models.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "base/resources.h"
#include "chat/discover.h"
#include "gguf/gguf.h"
#include "model/families.h"

struct model_facts {
    char family[64];
    const char *type; /* of most bytes of the weights; static */
    uint64_t n_bytes, n_ctx;
};

struct listing {
    struct found_models found;
    /* One per found model that can be talked to; n_bytes 0: not one. */
    struct model_facts *facts;
    size_t n;         /* of those */
    size_t n_foreign; /* of families that hearth does not know */
    uint64_t memory;  /* that can be had */
};

/* --- What a file is ----------------------------------------------------------------------- */

/* The key of an architecture, as "qwen3.context_length". */
static bool arch_number(const struct gguf *g, const char *key, uint64_t *out)
{
    struct gguf_str arch;
    char name[128];
    if (!gguf_string(g, "general.architecture", &arch) || arch.len > 60) return false;
    snprintf(name, sizeof name, "%.*s.%s", (int)arch.len, arch.data, key);
    return gguf_u64(g, name, out);
}

/* Projectors, adapters and embedders hold no conversation. */
static bool can_talk(const struct gguf *g)
{
    struct gguf_str s;
    uint64_t pooling;
    if (gguf_string(g, "general.type", &s) && !gguf_says(g, "general.type", "model"))
        return false;
    if (arch_number(g, "pooling_type", &pooling) && pooling != 0) return false;
    return !gguf_says(g, "general.architecture", "clip") &&
           gguf_string(g, "tokenizer.ggml.model", &s);
}

static const char *main_type(const struct gguf *g)
{
    uint64_t best = 0;
    const char *name = "?";
    for (size_t i = 0; qtype_at(i); i++) {
        const struct qtype_info *info = qtype_at(i);
        uint64_t n_bytes = 0;
        for (size_t k = 0; k < gguf_n_tensors(g); k++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, k);
            if (t->type == info->type) n_bytes += t->n_bytes;
        }
        if (n_bytes > best) best = n_bytes, name = info->name;
    }
    return name;
}

static void look(struct listing *l, size_t i)
{
    struct err ignored;
    struct model_facts *facts = &l->facts[i];
    struct gguf *g = gguf_open(l->found.items[i].parts[FOUND_WEIGHTS], &ignored);
    if (!g) return;
    const struct family *family = can_talk(g) ? family_find(g, &ignored) : NULL;
    if (family) {
        snprintf(facts->family, sizeof facts->family, "%s", family->name);
        facts->type = main_type(g);
        facts->n_bytes = gguf_file_bytes(g);
        arch_number(g, "context_length", &facts->n_ctx);
        l->n++;
    } else if (can_talk(g)) {
        l->n_foreign++;
    }
    gguf_close(g);
}

static struct listing list_models(void)
{
    struct listing l = {.memory = resources_memory(NULL)};
    discover_models(&l.found);
    l.facts = mem_zalloc(l.found.n + 1, sizeof *l.facts);
    for (size_t i = 0; i < l.found.n; i++)
        look(&l, i);
    return l;
}

static void listing_free(struct listing *l)
{
    found_models_free(&l->found);
    free(l->facts);
}

/* --- As text ------------------------------------------------------------------------------ */

/* Weights, a tenth more for what is computed with them, and nothing left for others. */
static const char *fit_of(const struct listing *l, const struct model_facts *facts)
{
    uint64_t need = facts->n_bytes + facts->n_bytes / 10;
    if (need > l->memory) return "too big for the memory that is free";
    return need > l->memory - l->memory / 5 ? "just fits in memory" : "fits in memory";
}

static void put_text(struct buf *out, const char *s)
{
    size_t n = strlen(s), cap = 4 * n + 16;
    char *shown = mem_alloc(cap);
    buf_puts(out, printable(shown, cap, s, n));
    free(shown);
}

/* "  1  qwen3:0.6b (Ollama)", and below it what it is. */
static void put_model(const struct listing *l, size_t i, size_t number, bool with_path,
                      struct buf *out)
{
    const struct found_model *m = &l->found.items[i];
    const struct model_facts *facts = &l->facts[i];
    char size[READABLE_BYTES];
    buf_printf(out, "%3zu  ", number);
    put_text(out, m->name);
    buf_printf(out, " (%s)\n     %s, %s", m->where, facts->type,
               readable_size(size, facts->n_bytes));
    char n_ctx[READABLE_BYTES];
    if (facts->n_ctx > 0) buf_printf(out, ", context %s", readable_number(n_ctx, facts->n_ctx));
    buf_printf(out, ", %s%s%s\n", fit_of(l, facts),
               m->parts[FOUND_ADAPTER] ? ", with an adapter" : "",
               m->parts[FOUND_SYSTEM] ? ", with a system message" : "");
    if (!with_path) return;
    buf_puts(out, "     ");
    put_text(out, m->parts[FOUND_WEIGHTS]);
    buf_putc(out, '\n');
}

static void put_models(const struct listing *l, bool with_path, struct buf *out)
{
    size_t number = 0;
    for (size_t i = 0; i < l->found.n; i++)
        if (l->facts[i].n_bytes > 0) put_model(l, i, ++number, with_path, out);
}

static void put_path(const struct found_model *m, enum found_part part, struct buf *out)
{
    const char *path = m->parts[part];
    if (path)
        json_quote(out, path, strlen(path));
    else
        buf_puts(out, "null");
}

static void put_json(const struct listing *l, struct buf *out)
{
    for (size_t i = 0; i < l->found.n; i++) {
        const struct found_model *m = &l->found.items[i];
        const struct model_facts *facts = &l->facts[i];
        if (facts->n_bytes == 0) continue;
        buf_puts(out, "{\"name\":");
        json_quote(out, m->name, strlen(m->name));
        buf_puts(out, ",\"path\":");
        put_path(m, FOUND_WEIGHTS, out);
        buf_puts(out, ",\"adapter\":");
        put_path(m, FOUND_ADAPTER, out);
        buf_puts(out, ",\"system\":");
        put_path(m, FOUND_SYSTEM, out);
        buf_puts(out, ",\"settings\":");
        put_path(m, FOUND_SETTINGS, out);
        buf_printf(out,
                   ",\"found_by\":\"%s\",\"family\":\"%s\",\"type\":\"%s\",\"bytes\":%" PRIu64
                   ",\"context\":%" PRIu64 ",\"fits\":%s}\n",
                   m->where, facts->family, facts->type, facts->n_bytes, facts->n_ctx,
                   facts->n_bytes + facts->n_bytes / 10 <= l->memory ? "true" : "false");
    }
}

int models_run(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    struct buf out = {0};
    if (argc > 1 && !json) {
        char shown[80];
        return usage_error("models", "%s: expected nothing or --json",
                           printable(shown, sizeof shown, argv[1], strlen(argv[1])));
    }
    struct listing l = list_models();
    if (json)
        put_json(&l, &out);
    else
        put_models(&l, true, &out);
    if (!json && l.n == 0)
        buf_puts(
            &out,
            "no models were found where llama.cpp, Hugging Face, Ollama and LM Studio "
            "keep them\n"
            "hearth downloads none; a GGUF file from anywhere opens with hearth -m FILE\n");
    if (!json && l.n_foreign > 0)
        buf_printf(&out, "and %zu of famil%s that hearth does not know\n", l.n_foreign,
                   l.n_foreign == 1 ? "y" : "ies");
    listing_free(&l);
    return print_text(&out);
}

/* --- The offer ---------------------------------------------------------------------------- */

/* A line from the terminal without what was typed behind it; false at its end. */
static bool read_line(char *line, size_t cap)
{
    size_t n = 0;
    for (;;) {
        char c;
        ssize_t got = read(STDIN_FILENO, &c, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        if (c == '\n') break;
        if (n + 1 < cap) line[n++] = c;
    }
    line[n] = '\0';
    return true;
}

/* The model of that number, 1 to l->n. */
static struct found_model *model_of(const struct listing *l, size_t number)
{
    for (size_t i = 0; i < l->found.n; i++)
        if (l->facts[i].n_bytes > 0 && --number == 0) return &l->found.items[i];
    return NULL;
}

static enum models_answer ask(const struct listing *l, struct found_model **chosen)
{
    char line[64];
    for (;;) {
        fputs("Which one? A number, or Return for the bundled guide: ", stderr);
        if (!read_line(line, sizeof line)) {
            fputc('\n', stderr);
            return MODELS_LEFT;
        }
        size_t blanks = strspn(line, " \t");
        if (!line[blanks]) return MODELS_DECLINED;
        char *end;
        unsigned long number = strtoul(line + blanks, &end, 10);
        end += strspn(end, " \t");
        if (line[blanks] >= '1' && line[blanks] <= '9' && !*end && number <= l->n) {
            *chosen = model_of(l, number);
            return MODELS_CHOSEN;
        }
        fprintf(stderr, "hearth: expected a number from 1 to %zu\n", l->n);
    }
}

enum models_answer models_offer(struct found_model *out)
{
    struct found_model *chosen = NULL;
    enum models_answer answer = MODELS_NONE;
    struct listing l = list_models();
    if (l.n > 0) {
        struct buf text = {0};
        buf_puts(&text, "No model has been named yet. These are on this machine:\n");
        put_models(&l, false, &text);
        fputs(buf_str(&text), stderr);
        buf_free(&text);
        answer = ask(&l, &chosen);
    }
    *out = (struct found_model){0};
    if (chosen) {
        *out = *chosen;
        *chosen = (struct found_model){0};
    }
    listing_free(&l);
    return answer;
}
