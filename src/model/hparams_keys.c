/* Keys to numbers, each checked once, here. */
#include <stdio.h>

#include "gguf/gguf.h"
#include "model/hparams_impl.h"

const char *hparams_full_key(const struct hparams *hp, const char *key, char out[KEY_CAP])
{
    snprintf(out, KEY_CAP, "%s.%s", hp->arch, key);
    return out;
}

bool hparams_missing(const struct hparams *hp, const char *key, struct err *err)
{
    return err_set(err, ERR_FORMAT, "%s: key %s.%s is missing", gguf_path(hp->g), hp->arch,
                   key);
}

const char *hparams_found_text(const struct gguf_kv *kv, char out[FOUND_CAP])
{
    if (kv->is_array)
        snprintf(out, FOUND_CAP, "an array of %zu %s", kv->n, gguf_type_name(kv->type));
    else if (gguf_is_int(kv->type))
        snprintf(out, FOUND_CAP, "%lld", (long long)gguf_item_int(kv, 0));
    else if (kv->type == GGUF_F32 || kv->type == GGUF_F64)
        snprintf(out, FOUND_CAP, "%g", gguf_item_float(kv, 0));
    else
        snprintf(out, FOUND_CAP, "a %s", gguf_type_name(kv->type));
    return out;
}

static bool item_u32(const struct hparams *hp, const char *key, const struct gguf_kv *kv,
                     size_t item, uint32_t lo, uint32_t hi, uint32_t *value, struct err *err)
{
    if (gguf_is_int(kv->type)) {
        int64_t v = gguf_item_int(kv, item);
        if (v >= lo && v <= hi) {
            *value = (uint32_t)v;
            return true;
        }
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.%s should be between %u and %u, but is %lld",
                       gguf_path(hp->g), hp->arch, key, lo, hi, (long long)v);
    }
    char found[FOUND_CAP];
    return err_set(err, ERR_FORMAT, "%s: key %s.%s should be an integer, but is %s",
                   gguf_path(hp->g), hp->arch, key, hparams_found_text(kv, found));
}

bool hparams_u32(const struct hparams *hp, const char *key, uint32_t lo, uint32_t hi,
                 bool required, uint32_t *value, struct err *err)
{
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, key, name));
    if (!kv) return required ? hparams_missing(hp, key, err) : true;
    if (kv->is_array)
        return err_set(err, ERR_FORMAT, "%s: key %s should be an integer, but is %s",
                       gguf_path(hp->g), name, hparams_found_text(kv, found));
    return item_u32(hp, key, kv, 0, lo, hi, value, err);
}

bool hparams_layer_u32(const struct hparams *hp, const char *key, uint32_t layer, uint32_t lo,
                       uint32_t hi, bool required, uint32_t *value, struct err *err)
{
    char name[KEY_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, key, name));
    if (!kv) return required ? hparams_missing(hp, key, err) : true;
    if (kv->is_array && kv->n != hp->n_layer)
        return err_set(err, ERR_FORMAT, "%s: key %s has %zu items, but there are %u layers",
                       gguf_path(hp->g), name, kv->n, hp->n_layer);
    return item_u32(hp, key, kv, kv->is_array ? layer : 0, lo, hi, value, err);
}

bool hparams_f64(const struct hparams *hp, const char *key, double lo, double hi, bool required,
                 double *value, struct err *err)
{
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, key, name));
    if (!kv) return required ? hparams_missing(hp, key, err) : true;
    double v;
    if (!gguf_f64(hp->g, name, &v))
        return err_set(err, ERR_FORMAT, "%s: key %s should be a number, but is %s",
                       gguf_path(hp->g), name, hparams_found_text(kv, found));
    if (!(v >= lo && v <= hi))
        return err_set(err, ERR_FORMAT, "%s: key %s should be between %g and %g, but is %g",
                       gguf_path(hp->g), name, lo, hi, v);
    *value = v;
    return true;
}

bool hparams_layer_f64(const struct hparams *hp, const char *key, uint32_t layer, double lo,
                       double hi, double *value, struct err *err)
{
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, key, name));
    if (!kv) return true;
    const bool is_float = kv->type == GGUF_F32 || kv->type == GGUF_F64;
    if (!is_float || (kv->is_array && kv->n != hp->n_layer))
        return err_set(err, ERR_FORMAT,
                       "%s: key %s should be a number or an array of %u floats, but is %s",
                       gguf_path(hp->g), name, hp->n_layer, hparams_found_text(kv, found));
    const double v = gguf_item_float(kv, kv->is_array ? layer : 0);
    if (!(v >= lo && v <= hi))
        return err_set(err, ERR_FORMAT,
                       "%s: key %s should be between %g and %g, but is %g in layer %u",
                       gguf_path(hp->g), name, lo, hi, v, layer);
    *value = v;
    return true;
}

bool hparams_f64_alias(const struct hparams *hp, const char *key, const char *alias, double lo,
                       double hi, double *value, struct err *err)
{
    return hparams_f64(hp, alias, lo, hi, false, value, err) &&
           hparams_f64(hp, key, lo, hi, false, value, err);
}

bool hparams_even_u32(const struct hparams *hp, const char *key, uint32_t most, uint32_t *value,
                      struct err *err)
{
    if (!hparams_u32(hp, key, 2, most, false, value, err)) return false;
    return *value % 2 == 0 ||
           err_set(err, ERR_FORMAT, "%s: key %s.%s should be even, but is %u", gguf_path(hp->g),
                   hp->arch, key, *value);
}

bool hparams_n_rot(const struct hparams *hp, const char *key, uint32_t head_dim,
                   uint32_t *n_rot, struct err *err)
{
    *n_rot = head_dim;
    return hparams_even_u32(hp, key, head_dim, n_rot, err);
}

bool hparams_rope_base(const struct hparams *hp, const char *key, double *base, struct err *err)
{
    return hparams_f64(hp, key, 1.0009765625, 1e15, false, base, err);
}

bool hparams_bool(const struct hparams *hp, const char *key, bool *value, struct err *err)
{
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, key, name));
    if (!kv || gguf_bool(hp->g, name, value)) return true;
    return err_set(err, ERR_FORMAT, "%s: key %s should be a bool, but is %s", gguf_path(hp->g),
                   name, hparams_found_text(kv, found));
}

bool hparams_layer_bool(const struct hparams *hp, const char *key, uint32_t layer, bool *value,
                        struct err *err)
{
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, key, name));
    if (!kv) return true;
    if (!kv->is_array || kv->type != GGUF_BOOL || kv->n != hp->n_layer)
        return err_set(err, ERR_FORMAT, "%s: key %s should be an array of %u bools, but is %s",
                       gguf_path(hp->g), name, hp->n_layer, hparams_found_text(kv, found));
    *value = gguf_item_int(kv, layer) != 0;
    return true;
}
