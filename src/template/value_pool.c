/* The caller's side of values: pools, and JSON as values. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/mem.h"
#include "template/value.h"

struct value_pool *value_pool_new(void)
{
    struct value_pool *pool = mem_alloc(sizeof *pool);
    work_init(&pool->work);
    return pool;
}

void value_pool_free(struct value_pool *pool)
{
    if (!pool) return;
    work_free(&pool->work);
    free(pool);
}

struct value *value_null(struct value_pool *pool)
{
    return value_new(&pool->work, VALUE_NONE);
}

struct value *value_bool(struct value_pool *pool, bool b)
{
    struct value *v = value_new(&pool->work, VALUE_BOOL);
    v->boolean = b;
    return v;
}

struct value *value_int(struct value_pool *pool, int64_t i)
{
    struct value *v = value_new(&pool->work, VALUE_INT);
    v->integer = i;
    return v;
}

struct value *value_float(struct value_pool *pool, double f)
{
    struct value *v = value_new(&pool->work, VALUE_FLOAT);
    v->real = f;
    return v;
}

static struct value *string(struct value_pool *pool, const char *s, size_t n,
                            enum origin origin)
{
    struct value *v = value_new(&pool->work, VALUE_STRING);
    char *copy = work_bytes(&pool->work, n);
    if (n) memcpy(copy, s, n);
    v->text = (struct text){.data = copy, .len = n, .origin = origin};
    return v;
}

struct value *value_text(struct value_pool *pool, const char *s, size_t n)
{
    return string(pool, s, n, ORIGIN_USER);
}

struct value *value_markup(struct value_pool *pool, const char *s, size_t n)
{
    return string(pool, s, n, ORIGIN_LITERAL);
}

struct value *value_reply(struct value_pool *pool, const char *s, size_t n, uint32_t reply,
                          size_t source)
{
    struct value *v = string(pool, s, n, ORIGIN_REPLY);
    v->text.reply = reply;
    v->text.base = source;
    return v;
}

struct value *value_list(struct value_pool *pool)
{
    return value_make_seq(&pool->work, SEQ_LIST);
}

void value_list_add(struct value_pool *pool, struct value *list, struct value *item)
{
    assert(list->type == VALUE_SEQ && list->seq->kind == SEQ_LIST);
    seq_add(&pool->work, list->seq, item);
}

struct value *value_dict(struct value_pool *pool)
{
    return value_make_dict(&pool->work);
}

void value_dict_set(struct value_pool *pool, struct value *dict, const char *key,
                    struct value *item)
{
    assert(dict->type == VALUE_DICT);
    dict_set(&pool->work, dict->dict, value_text(pool, key, strlen(key)), item);
}

/* ---- JSON ---- */

/* The parser bounds the depth (JSON_PARSER_MAX_DEPTH, 2048), so recursion is safe. */
static struct value *from_json(struct value_pool *pool, json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        struct value *dict = value_dict(pool);
        for (void *it = json_object_iter(json); it; it = json_object_iter_next(json, it)) {
            const char *key = json_object_iter_key(it);
            value_dict_set(pool, dict, key, from_json(pool, json_object_iter_value(it)));
        }
        return dict;
    }
    case JSON_ARRAY: {
        struct value *list = value_list(pool);
        for (size_t i = 0; i < json_array_size(json); i++)
            value_list_add(pool, list, from_json(pool, json_array_get(json, i)));
        return list;
    }
    case JSON_STRING:
        return value_text(pool, json_string_value(json), json_string_length(json));
    case JSON_INTEGER: return value_int(pool, json_integer_value(json));
    case JSON_REAL: return value_float(pool, json_real_value(json));
    case JSON_TRUE: return value_bool(pool, true);
    case JSON_FALSE: return value_bool(pool, false);
    case JSON_NULL: break;
    }
    return value_null(pool);
}

struct value *value_from_json(struct value_pool *pool, const char *json, size_t n,
                              const char *name, struct err *err)
{
    json_error_t why;
    json_t *root = json_loadb(json, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!root) {
        err_set(err, ERR_FORMAT, "%s: line %d, column %d: %s", name, why.line, why.column,
                why.text);
        return NULL;
    }
    struct value *v = from_json(pool, root);
    json_decref(root);
    return v;
}

struct value *value_from_json_context(struct value_pool *pool, const char *json, size_t n,
                                      const char *name, struct err *err)
{
    static const char *const markup[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

    struct value *v = value_from_json(pool, json, n, name, err);
    if (!v) return NULL;
    if (v->type != VALUE_DICT) {
        err_set(err, ERR_FORMAT, "%s: expected a JSON object of variables, found a %s", name,
                value_type_name(v));
        return NULL;
    }
    for (size_t i = 0; i < sizeof markup / sizeof *markup; i++) {
        const struct value *token =
            dict_get_text(&pool->work, v->dict, text_literal(markup[i]));
        if (!token || token->type != VALUE_STRING) continue;
        value_dict_set(pool, v, markup[i],
                       value_markup(pool, token->text.data, token->text.len));
    }
    return v;
}
