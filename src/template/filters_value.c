/* Filters of any value: numbers, defaults, lengths, JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "template/builtins.h"
#include "template/number.h"
#include "template/print.h"

static const struct value *filter_default(struct eval *e, const struct value *self,
                                          const struct args *a)
{
    bool missing =
        self->type == VALUE_UNDEFINED || (arg_bool(a->bound[1], false) && !value_truth(self));
    if (!missing) return self;
    return a->bound[0] ? a->bound[0] : make_text(e, text_literal(""));
}

/* ---- tojson ---- */

/* transformers': json.dumps, non-ASCII as it is, keys in their order. */
static const struct value *filter_tojson(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    const struct value *ascii = a->bound[0], *indent = a->bound[1], *separators = a->bound[2];
    struct json_style style = {.item = text_of(", ", 2, ORIGIN_USER),
                               .key = text_of(": ", 2, ORIGIN_USER),
                               .indent = text_of("", 0, ORIGIN_USER)};
    style.ascii = arg_bool(ascii, false);
    style.sort_keys = arg_bool(a->bound[3], false);
    struct builder b;
    if (indent && indent->type != VALUE_NONE) {
        style.pretty = true;
        style.item = text_of(",", 1, ORIGIN_USER);
        if (indent->type == VALUE_STRING) {
            style.indent = text_plain(indent->text);
        } else {
            int64_t width = arg_int(e, indent, 0, "indent");
            if (width > (int64_t)e->w->max_string_bytes)
                work_fail(e->w, "tojson: indent is too wide");
            builder_init(&b, e->w);
            builder_fill(&b, ' ', width > 0 ? (size_t)width : 0, ORIGIN_USER);
            style.indent = builder_take(&b);
        }
    }
    if (separators && separators->type != VALUE_NONE) {
        struct items two = value_items(e->w, separators);
        if (two.n != 2) work_fail(e->w, "tojson: separators must be two strings");
        style.item = text_plain(arg_string(e, two.at[0], "a separator"));
        style.key = text_plain(arg_string(e, two.at[1], "a separator"));
    }
    builder_init(&b, e->w);
    print_json(&b, self, &style);
    return make_builder(&b);
}

/* ---- Numbers ---- */

static const struct value *real_as_int(struct work *w, double f)
{
    if (!(f > -9223372036854775808.0 && f < 9223372036854775808.0))
        work_fail(w, "cannot convert float %g to a 64-bit integer", f);
    return value_make_int(w, (int64_t)f);
}

static const struct value *filter_int(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    int64_t i, base = arg_int(e, a->bound[1], 10, "base");
    double f;
    if (self->type == VALUE_UNDEFINED) value_fail_undefined(e->w, self);
    if (base != 0 && (base < 2 || base > 36)) work_fail(e->w, "int: base must be 2..36 or 0");
    if (value_as_int(self, &i)) return value_make_int(e->w, i);
    if (self->type == VALUE_FLOAT && !isnan(self->real)) return real_as_int(e->w, self->real);
    if (self->type == VALUE_STRING) {
        enum number_parse read = number_parse_int(e->w, self->text, (int)base, &i);
        if (read == NUMBER_TOO_BIG) work_fail(e->w, "an integer does not fit 64 bits");
        if (read == NUMBER_OK) return value_make_int(e->w, i);
        if (number_parse_real(e->w, self->text, &f) && isfinite(f)) return real_as_int(e->w, f);
    }
    return a->bound[0] ? a->bound[0] : value_make_int(e->w, 0);
}

static const struct value *filter_float(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    double f;
    if (self->type == VALUE_UNDEFINED) value_fail_undefined(e->w, self);
    if (value_is_number(self)) return value_make_float(e->w, value_as_real(self));
    if (self->type == VALUE_STRING && number_parse_real(e->w, self->text, &f))
        return value_make_float(e->w, f);
    return a->bound[0] ? a->bound[0] : value_make_float(e->w, 0);
}

static const struct value *number_only(struct eval *e, const struct value *v, const char *what)
{
    if (v->type == VALUE_UNDEFINED) value_fail_undefined(e->w, v);
    if (!value_is_number(v)) work_fail(e->w, "%s of a %s", what, value_type_name(v));
    return v;
}

static const struct value *filter_abs(struct eval *e, const struct value *self,
                                      const struct args *a)
{
    (void)a;
    number_only(e, self, "abs");
    if (self->type == VALUE_FLOAT) return value_make_float(e->w, fabs(self->real));
    int64_t i = 0;
    value_as_int(self, &i);
    return i < 0 ? op_negate(e->w, self) : value_make_int(e->w, i);
}

/* f to that many decimals, ties to even in the exact decimal expansion: Python's round. */
static double round_decimals(double f, int decimals)
{
    if (!isfinite(f) || decimals > 300) return f;
    if (decimals < 0) {
        double unit = pow(10, -decimals);
        return isinf(unit) ? 0 * f : nearbyint(f / unit) * unit;
    }
    char s[700];
    snprintf(s, sizeof s, "%.*f", decimals, f);
    return strtod(s, NULL);
}

static const struct value *filter_round(struct eval *e, const struct value *self,
                                        const struct args *a)
{
    number_only(e, self, "round");
    int64_t precision = arg_int(e, a->bound[0], 0, "precision");
    struct text method = a->bound[1] ? arg_text(e, a->bound[1]) : text_literal("common");
    int decimals = precision > 400 ? 400 : precision < -400 ? -400 : (int)precision;
    double f = value_as_real(self);
    if (text_is(method, "common")) {
        if (self->type == VALUE_FLOAT)
            return value_make_float(e->w, round_decimals(f, decimals));
        if (decimals >= 0) return op_binary(e->w, '+', self, value_make_int(e->w, 0));
        return real_as_int(e->w, round_decimals(f, decimals));
    }
    double scale = pow(10, decimals); /* + 0.0: an integer that is divided, never -0.0 */
    if (text_is(method, "ceil")) return value_make_float(e->w, ceil(f * scale) / scale + 0.0);
    if (text_is(method, "floor")) return value_make_float(e->w, floor(f * scale) / scale + 0.0);
    work_fail(e->w, "round: method must be common, ceil or floor");
}

static const struct value *filter_length(struct eval *e, const struct value *self,
                                         const struct args *a)
{
    (void)a;
    size_t n;
    if (!value_length(e->w, self, &n))
        work_fail(e->w, "object of type '%s' has no len()", value_type_name(self));
    return value_make_int(e->w, (int64_t)n);
}

/* The attribute of that name, never an item. */
static const struct value *filter_attr(struct eval *e, const struct value *self,
                                       const struct args *a)
{
    struct text name = arg_text(e, a->bound[0]);
    if (self->type == VALUE_DICT && !method_find(self, name))
        return eval_no_attr(e, self, name);
    return eval_attr(e, self, name);
}

const struct builtin filters_value[] = {
    {"abs", "", 0, filter_abs},
    {"attr", "name", 1, filter_attr},
    {"count", "", 0, filter_length},
    {"d", "default_value boolean", 0, filter_default},
    {"default", "default_value boolean", 0, filter_default},
    {"float", "default", 0, filter_float},
    {"int", "default base", 0, filter_int},
    {"length", "", 0, filter_length},
    {"round", "precision method", 0, filter_round},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {NULL, NULL, 0, NULL},
};
