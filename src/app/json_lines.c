/* By way of jansson; what it says of a wrong line goes into the error. */
#include "app/json_lines.h"

#include <stdint.h>

#include <jansson.h>

#include "text/spans.h"
#include "text/tokenizer.h"

static json_t *load(const char *line, size_t n, struct err *err)
{
    json_error_t why;
    /* Any value, or jansson would say that an array is expected, too. */
    json_t *value = json_loadb(line, n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (json_is_object(value)) return value;
    err_set(err, ERR_USER, "expected a JSON object%s%s", value ? "" : ": ",
            value ? "" : why.text);
    json_decref(value);
    return NULL;
}

static bool take_flag(const json_t *object, const char *name, bool *out)
{
    const json_t *v = json_object_get(object, name);
    *out = json_is_true(v);
    return !v || json_is_boolean(v);
}

bool json_line_text(const char *line, size_t n, struct json_line_text *out, struct err *err)
{
    json_t *object = load(line, n, err);
    if (!object) return false;
    const json_t *text = json_object_get(object, "text");
    bool ok = true;
    if (!json_is_string(text))
        ok = err_set(err, ERR_USER, "no string \"text\"");
    else if (!take_flag(object, "special", &out->special) ||
             !take_flag(object, "add_special", &out->add_special))
        ok = err_set(err, ERR_USER, "\"special\" and \"add_special\" must be true or false");
    else
        buf_append(&out->text, json_string_value(text), json_string_length(text));
    json_decref(object);
    return ok;
}

bool json_line_encode(const struct tokenizer *tok, const char *text, size_t n, struct ids *ids,
                      struct err *err)
{
    struct spans spans = {0};
    spans_markup(&spans, text, n);
    bool ok = tokenizer_encode_spans(tok, &spans, NULL, ids, err);
    spans_free(&spans);
    return ok;
}

static bool take_ids(const struct tokenizer *tok, const json_t *list, struct ids *ids,
                     struct err *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || (size_t)id >= tokenizer_n_vocab(tok))
            return err_set(err, ERR_USER, "entry %zu of the list is no token id below %zu", i,
                           tokenizer_n_vocab(tok));
        ids_push(ids, (int32_t)id);
    }
    return true;
}

static bool take_tokens(const struct tokenizer *tok, const json_t *v, bool is_reply,
                        struct ids *ids, struct err *err)
{
    const char *name = is_reply ? "reply" : "prompt";
    if (json_is_array(v)) return take_ids(tok, v, ids, err);
    if (!json_is_string(v))
        return err_set(err, ERR_USER, "\"%s\" must be a text or a list of token ids", name);
    const char *text = json_string_value(v);
    const size_t n = json_string_length(v);
    return is_reply ? tokenizer_encode(tok, text, n, ENCODE_CONTROL, ids, err)
                    : json_line_encode(tok, text, n, ids, err);
}

bool json_line_prompt(const struct tokenizer *tok, const char *line, size_t n,
                      struct ids *prompt, struct ids *reply, struct err *err)
{
    json_t *object = load(line, n, err);
    if (!object) return false;
    const json_t *said = json_object_get(object, "reply");
    bool ok = take_tokens(tok, json_object_get(object, "prompt"), false, prompt, err) &&
              (!said || take_tokens(tok, said, true, reply, err));
    json_decref(object);
    return ok;
}
