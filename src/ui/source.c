#include "ui/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/ascii.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "config/options.h"
#include "ui/given.h"
#include "ui/input.h"

/* An id is given back in every event. */
enum { ID_MAX_BYTES = 256 };

static bool ends_in_jsonl(const char *path)
{
    static const char end[] = ".jsonl";
    size_t n = strlen(path), n_end = sizeof end - 1;
    return n > n_end && strcmp(path + n - n_end, end) == 0;
}

static enum source_form form_of(const struct options *o)
{
    if (o->stdin_mode == STDIN_AS_LINES) return SOURCE_LINES;
    if (o->stdin_mode == STDIN_AS_JSONL) return SOURCE_JSONL;
    if (!o->prompts) return SOURCE_TEXT;
    return ends_in_jsonl(o->prompts) ? SOURCE_JSONL : SOURCE_LINES;
}

bool source_open(struct source *s, const struct options *o, bool wants_stdin, struct err *err)
{
    const bool names_stdin = o->prompts && strcmp(o->prompts, "-") == 0;
    *s = (struct source){.form = form_of(o), .name = "standard input", .fd = -1};
    if (o->prompts && !names_stdin) {
        char shown[256];
        s->name = o->prompts;
        s->fd = open(o->prompts, O_RDONLY | O_CLOEXEC);
        if (s->fd < 0)
            return err_set(err, ERR_IO, "%s: %s",
                           printable(shown, sizeof shown, o->prompts, strlen(o->prompts)),
                           strerror(errno));
    } else if (wants_stdin || s->form != SOURCE_TEXT) {
        s->is_closed = !input_can_read(STDIN_FILENO);
        if (s->is_closed && (s->form != SOURCE_TEXT || given_names_stdin(o)))
            return err_set(err, ERR_IO, "%s: is not open for reading", s->name);
        if (!s->is_closed) s->fd = STDIN_FILENO;
    }
    s->at_end = s->fd < 0;
    return true;
}

void source_close(struct source *s)
{
    if (s->fd > STDIN_FILENO) close(s->fd);
    buf_free(&s->raw);
}

bool source_read(struct source *s, struct err *err)
{
    char shown[256];
    const char *name = printable(shown, sizeof shown, s->name, strlen(s->name));
    switch (input_read(s->fd, &s->raw)) {
    case INPUT_END: s->at_end = true; break;
    case INPUT_FAILED:
        s->at_end = true;
        return err_set(err, ERR_IO, "%s: cannot be read: %s", name, strerror(errno));
    case INPUT_MORE:
        if (s->raw.len - s->at > INPUT_MAX_BYTES) return input_too_long(s->name, err);
    }
    return true;
}

/* --- JSON --------------------------------------------------------------------------------- */

/* Text of jansson's, in ASCII, with DEL spelled out too: it can only stand inside a string. */
static void append_printable(struct buf *b, const char *json)
{
    for (; *json; json++)
        if (*json == '\x7f')
            buf_puts(b, "\\u007f");
        else
            buf_putc(b, *json);
}

static bool take_id(const json_t *value, struct source_turn *turn, struct err *err)
{
    char *text = json_is_string(value) || json_is_integer(value)
                     ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII)
                     : NULL;
    if (text) append_printable(&turn->id, text);
    bool ok = text && turn->id.len <= ID_MAX_BYTES;
    if (!ok) buf_clear(&turn->id);
    free(text);
    return ok ||
           err_set(err, ERR_USER, "\"id\" must be a text of at most %d bytes or a whole number",
                   ID_MAX_BYTES);
}

/* The order of the keys stays: it is the order in a reply. */
static bool take_schema(const json_t *value, struct source_turn *turn, struct err *err)
{
    const char *word = json_string_value(value);
    char *text =
        json_is_object(value) ? json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    if (text)
        append_printable(&turn->schema, text);
    else if (word && (strcmp(word, "json") == 0 || strcmp(word, "off") == 0))
        buf_puts(&turn->schema, word);
    free(text);
    return turn->schema.len > 0 ||
           err_set(err, ERR_USER, "\"schema\" must be an object, \"json\" or \"off\"");
}

static bool take_key(const char *key, const json_t *value, struct source_turn *turn,
                     struct err *err)
{
    char shown[80];
    if (strcmp(key, "prompt") == 0) {
        if (!json_is_string(value)) return err_set(err, ERR_USER, "\"prompt\" must be a text");
        buf_append(&turn->text, json_string_value(value), json_string_length(value));
    } else if (strcmp(key, "new") == 0) {
        if (!json_is_boolean(value))
            return err_set(err, ERR_USER, "\"new\" must be true or false");
        turn->is_new = json_is_true(value);
    } else if (strcmp(key, "schema") == 0) {
        return take_schema(value, turn, err);
    } else if (strcmp(key, "id") != 0) {
        return err_set(err, ERR_USER, "unknown key \"%s\", expected prompt, id, new or schema",
                       printable(shown, sizeof shown, key, strlen(key)));
    }
    return true;
}

bool source_parse(const char *line, size_t n, struct source_turn *turn, struct err *err)
{
    json_error_t why;
    /* Any value, or jansson would say that an array is expected, too. */
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
    json_t *root = json_loadb(line, n, flags, &why), *value;
    const char *key;
    bool ok = true;
    if (!root) {
        char shown[120];
        return err_set(err, ERR_USER, "expected a JSON object: %s at byte %d",
                       printable(shown, sizeof shown, why.text, strlen(why.text)),
                       why.position);
    }
    if (!json_is_object(root))
        ok = err_set(err, ERR_USER, "expected a JSON object with a \"prompt\"");
    /* First what an error is told with. */
    if (ok && (value = json_object_get(root, "id"))) ok = take_id(value, turn, err);
    if (ok && !json_object_get(root, "prompt"))
        ok = err_set(err, ERR_USER, "the object has no \"prompt\"");
    if (ok) {
        json_object_foreach(root, key, value) ok = ok && take_key(key, value, turn, err);
    }
    json_decref(root);
    return ok;
}

/* --- Lines -------------------------------------------------------------------------------- */

bool source_blame(const struct source *s, struct err *err)
{
    char shown[256];
    return err_prefix(err, "%s, line %zu",
                      printable(shown, sizeof shown, s->name, strlen(s->name)), s->n_lines);
}

enum source_got source_next(struct source *s, struct source_turn *turn, struct err *err)
{
    size_t n;
    const char *line;
    while ((line = input_line(&s->raw, &s->at, s->at_end, &n))) {
        if (s->n_lines++ == 0) {
            const size_t mark = utf8_mark(line, n);
            line += mark, n -= mark;
        }
        if (ascii_is_blank(line, n)) continue;
        if (s->form != SOURCE_JSONL) {
            buf_append(&turn->text, line, n);
            return SOURCE_TURN;
        }
        if (source_parse(line, n, turn, err)) return SOURCE_TURN;
        source_blame(s, err);
        return SOURCE_WRONG;
    }
    /* What is left is the beginning of a line. */
    if (s->at > 0) {
        memmove(s->raw.data, s->raw.data + s->at, s->raw.len - s->at);
        s->raw.len -= s->at;
        s->at = 0;
    }
    return SOURCE_NONE;
}

void source_turn_clear(struct source_turn *turn)
{
    buf_clear(&turn->text);
    buf_clear(&turn->id);
    buf_clear(&turn->schema);
    turn->is_new = false;
}

void source_turn_free(struct source_turn *turn)
{
    buf_free(&turn->text);
    buf_free(&turn->id);
    buf_free(&turn->schema);
}
