#include "chat/modelfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/decimal.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"

enum { MAX_SETTINGS_BYTES = 1 << 20 };

/* Ollama's parameters, as its documentation of the Modelfile and its api/types.go name them. */
static const struct parameter {
    const char *name;
    enum option_id id; /* N_OPTIONS: hearth has none */
    double least;      /* what is below means the same */
    double off;        /* of one without an option: does nothing */
} parameters[] = {
    {"temperature", OPT_TEMP, 0, 0},
    {"top_k", OPT_TOP_K, 0, 0},
    {"top_p", OPT_TOP_P, 0, 0},
    {"min_p", OPT_MIN_P, 0, 0},
    {"repeat_penalty", OPT_REPEAT_PENALTY, 0, 0},
    {"repeat_last_n", OPT_REPEAT_LAST_N, -1, 0},
    {"presence_penalty", OPT_PRESENCE_PENALTY, -100, 0},
    {"frequency_penalty", OPT_FREQUENCY_PENALTY, -100, 0},
    {"num_predict", OPT_MAX_TOKENS, -1, 0},
    {"seed", OPT_SEED, 0, 0},
    {"mirostat", N_OPTIONS, 0, 0},
    {"tfs_z", N_OPTIONS, 0, 1},
    {"typical_p", N_OPTIONS, 0, 1},
};

/* Of the machine, or of one of the above that is off. */
static bool is_no_matter(const char *name)
{
    static const char *const names[] = {
        "num_ctx",    "num_batch",    "num_gpu",      "main_gpu",         "num_thread",
        "num_keep",   "use_mmap",     "use_mlock",    "low_vram",         "numa",
        "f16_kv",     "vocab_only",   "logits_all",   "embedding_only",   "num_gqa",
        "rope_scale", "mirostat_eta", "mirostat_tau", "penalize_newline",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void leave_out(const char *name, struct buf *left_out)
{
    char shown[64];
    buf_printf(left_out, "%s%s", left_out->len ? ", " : "",
               printable(shown, sizeof shown, name, strlen(name)));
}

static const struct parameter *find(const char *name)
{
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (strcmp(parameters[i].name, name) == 0) return &parameters[i];
    return NULL;
}

/* Whole numbers without a point or an exponent, which options that count do not take. */
static void put_real(double x, struct buf *out)
{
    char s[DECIMAL_BYTES];
    if (x == floor(x) && fabs(x) <= 0x1p53) {
        buf_printf(out, "%.0f\n", x);
        return;
    }
    decimal_shortest(s, x);
    buf_printf(out, "%s\n", s);
}

static void put_number(const struct parameter *p, const json_t *value, struct buf *out,
                       struct buf *left_out)
{
    const double x = json_number_value(value);
    if (p->id == N_OPTIONS) {
        if (x != p->off) leave_out(p->name, left_out);
        return;
    }
    if (p->id == OPT_SEED && x < 0) return; /* any */
    buf_printf(out, "%s ", option_row(p->id)->name);
    if (x < p->least)
        put_real(p->least, out);
    else if (json_is_integer(value))
        buf_printf(out, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        put_real(x, out);
}

/* One text or a list of them, as one value of --stop outside the command line. */
static void put_stops(const json_t *value, struct buf *out)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    struct buf items = {0};
    for (size_t i = 0; i < n; i++) {
        const char *s =
            json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        if (!s || !*s) continue;
        if (items.len) buf_putc(&items, ',');
        option_put_item(s, &items);
    }
    if (items.len) buf_printf(out, "%s %s\n", option_row(OPT_STOP)->name, items.data);
    buf_free(&items);
}

bool modelfile_settings(const char *json, size_t n, struct buf *out, struct buf *left_out)
{
    json_t *root = json_loadb(json, n, 0, NULL), *value;
    const char *name;
    const bool ok = json_is_object(root);
    json_object_foreach(root, name, value)
    {
        const struct parameter *p = find(name);
        if (p && json_is_number(value))
            put_number(p, value, out, left_out);
        else if (strcmp(name, "stop") == 0 && (json_is_string(value) || json_is_array(value)))
            put_stops(value, out);
        else if (!is_no_matter(name))
            leave_out(name, left_out);
    }
    json_decref(root);
    return ok;
}

static void read_settings(const struct found_model *m, char **settings, struct buf *notes)
{
    const char *path = m->parts[FOUND_SETTINGS];
    struct buf json = {0}, lines = {0}, left_out = {0};
    struct err err;
    char shown[512];
    if (!file_read_regular(path, MAX_SETTINGS_BYTES, &json, &err))
        buf_printf(notes, "the model's settings are left out: %s\n", err.msg);
    else if (!modelfile_settings(buf_str(&json), json.len, &lines, &left_out))
        buf_printf(notes, "the model's settings are left out: %s is no JSON object\n",
                   printable(shown, sizeof shown, path, strlen(path)));
    if (left_out.len)
        buf_printf(notes, "of the model's settings these have no counterpart: %s\n",
                   left_out.data);
    *settings = lines.len ? buf_take(&lines) : NULL;
    buf_free(&json);
    buf_free(&lines);
    buf_free(&left_out);
}

/* As --system @FILE reads one. */
static void read_system(const struct found_model *m, char **system, struct buf *notes)
{
    struct buf word = {0};
    struct err err;
    char *path;
    buf_printf(&word, "@%s", m->parts[FOUND_SYSTEM]);
    *system = options_system(buf_str(&word), NULL, false, &path, &err);
    if (!*system) buf_printf(notes, "the model's system message is left out: %s\n", err.msg);
    if (*system && !**system) { /* an empty one is none */
        free(*system);
        *system = NULL;
    }
    free(path);
    buf_free(&word);
}

void modelfile_read(const struct found_model *m, struct option_listed *out, struct buf *notes)
{
    const char *adapter = m->parts[FOUND_ADAPTER];
    option_listed_free(out);
    *out = (struct option_listed){.name = m->name ? mem_strdup(m->name) : NULL,
                                  .adapter = adapter ? mem_strdup(adapter) : NULL};
    if (m->parts[FOUND_SETTINGS]) read_settings(m, &out->settings, notes);
    if (m->parts[FOUND_SYSTEM]) read_system(m, &out->system, notes);
    if (m->parts[FOUND_MESSAGES])
        buf_puts(notes, "the messages that the model begins with are left out\n");
}
