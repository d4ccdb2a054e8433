/* What operators, comparisons, indexes and slices mean, as Python has them. */
#include <math.h>

#include "template/builtins.h"
#include "template/lex.h"

_Noreturn static void unsupported(struct work *w, const char *op, const struct value *a,
                                  const struct value *b)
{
    if (a->type == VALUE_UNDEFINED) value_fail_undefined(w, a);
    if (b->type == VALUE_UNDEFINED) value_fail_undefined(w, b);
    if (a->type == VALUE_STRING && strcmp(op, "+") == 0)
        work_fail(w, "can only concatenate str (not \"%s\") to str", value_type_name(b));
    work_fail(w, "unsupported operand type(s) for %s: '%s' and '%s'", op, value_type_name(a),
              value_type_name(b));
}

_Noreturn static void overflow(struct work *w)
{
    work_fail(w, "an integer does not fit 64 bits");
}

/* ---- Arithmetic ---- */

static int64_t int_power(struct work *w, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow(w);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) overflow(w);
    }
    return result;
}

static const struct value *int_arithmetic(struct work *w, int op, int64_t a, int64_t b)
{
    int64_t result;
    bool over = false;
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, &result); break;
    case '-': over = __builtin_sub_overflow(a, b, &result); break;
    case '*': over = __builtin_mul_overflow(a, b, &result); break;
    case OP_POW: result = int_power(w, a, b); break;
    default: /* // and % round towards minus infinity */
        over = a == INT64_MIN && b == -1;
        result = 0;
        if (over) break;
        result = op == '%' ? a % b : a / b;
        if (a % b != 0 && (a < 0) != (b < 0)) result += op == '%' ? b : -1;
    }
    if (over) overflow(w);
    return value_make_int(w, result);
}

/* Python's floor division and remainder: the remainder is exact and has b's sign, also at zero,
 * and the quotient is what goes with it (1 // 0.1 is 9, although 1 / 0.1 is 10). */
static double real_divmod(double a, double b, double *mod)
{
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest == 0) {
        rest = copysign(0, b);
    } else if ((rest < 0) != (b < 0)) {
        rest += b;
        quotient -= 1;
    }
    *mod = rest;
    if (quotient == 0) return copysign(0, a / b);
    double whole = floor(quotient); /* the division may have left it a little beside it */
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static const struct value *real_arithmetic(struct work *w, int op, double a, double b)
{
    double result = 0, mod;
    switch (op) {
    case '+': result = a + b; break;
    case '-': result = a - b; break;
    case '*': result = a * b; break;
    case '/': result = a / b; break;
    case OP_POW:
        result = pow(a, b);
        if (isnan(result) && !isnan(a) && !isnan(b)) work_fail(w, "a complex power");
        break;
    default:
        result = real_divmod(a, b, &mod);
        if (op == '%') result = mod;
    }
    return value_make_float(w, result);
}

static const struct value *numbers(struct work *w, int op, const struct value *a,
                                   const struct value *b)
{
    int64_t i, k;
    bool ints = value_as_int(a, &i) && value_as_int(b, &k);
    bool divides = op == '/' || op == OP_FLOORDIV || op == '%';
    if (divides && value_as_real(b) == 0) work_fail(w, "division by zero");
    if (op == OP_POW && value_as_real(a) == 0 && value_as_real(b) < 0)
        work_fail(w, "0.0 cannot be raised to a negative power");
    if (ints && op != '/' && !(op == OP_POW && k < 0)) return int_arithmetic(w, op, i, k);
    return real_arithmetic(w, op, value_as_real(a), value_as_real(b));
}

/* ---- Strings and lists ---- */

static const struct value *repeat(struct work *w, const struct value *v, int64_t times)
{
    if (times < 0) times = 0;
    if (v->type == VALUE_STRING) {
        struct text t = v->text;
        if (t.len && (uint64_t)times > w->max_string_bytes / t.len)
            work_fail(w, "a string of more than %zu bytes", w->max_string_bytes);
        struct builder b;
        builder_init(&b, w);
        for (int64_t i = 0; t.len && i < times; i++)
            builder_add(&b, t);
        return value_make_text(w, builder_take(&b));
    }
    struct value *made = value_make_seq(w, v->seq->kind);
    for (int64_t i = 0; v->seq->n && i < times; i++) {
        work_burn(w, v->seq->n / 4 + 1);
        for (size_t k = 0; k < v->seq->n; k++)
            seq_add(w, made->seq, v->seq->items[k]);
    }
    return made;
}

static const struct value *join_lists(struct work *w, const struct seq *a, const struct seq *b)
{
    struct value *made = value_make_seq(w, a->kind);
    work_burn(w, (a->n + b->n) / 4);
    for (size_t i = 0; i < a->n; i++)
        seq_add(w, made->seq, a->items[i]);
    for (size_t i = 0; i < b->n; i++)
        seq_add(w, made->seq, b->items[i]);
    return made;
}

static bool repeatable(const struct value *v)
{
    return v->type == VALUE_STRING || (v->type == VALUE_SEQ && v->seq->kind <= SEQ_TUPLE);
}

static const char *op_name(int op)
{
    switch (op) {
    case '+': return "+";
    case '-': return "-";
    case '*': return "*";
    case '/': return "/";
    case '%': return "%";
    case OP_FLOORDIV: return "//";
    case OP_POW: return "**";
    case '<': return "<";
    case '>': return ">";
    case OP_LE: return "<=";
    default: return ">=";
    }
}

const struct value *op_binary(struct work *w, int op, const struct value *a,
                              const struct value *b)
{
    if (value_is_number(a) && value_is_number(b)) return numbers(w, op, a, b);
    int64_t times;
    if (op == '+' && a->type == VALUE_STRING && b->type == VALUE_STRING)
        return value_make_text(w, text_concat(w, a->text, b->text));
    if (op == '+' && repeatable(a) && repeatable(b) && a->type == b->type &&
        a->seq->kind == b->seq->kind)
        return join_lists(w, a->seq, b->seq);
    if (op == '*' && repeatable(a) && value_as_int(b, &times)) return repeat(w, a, times);
    if (op == '*' && repeatable(b) && value_as_int(a, &times)) return repeat(w, b, times);
    if (op == '%' && a->type == VALUE_STRING)
        return value_make_text(w, format_percent(w, a->text, b));
    unsupported(w, op_name(op), a, b);
}

const struct value *op_negate(struct work *w, const struct value *v)
{
    int64_t i;
    if (!value_as_int(v, &i)) return value_make_float(w, -v->real);
    if (i == INT64_MIN) overflow(w);
    return value_make_int(w, -i);
}

/* ---- Comparing ---- */

static bool is_nan(const struct value *v)
{
    return v->type == VALUE_FLOAT && isnan(v->real);
}

bool op_compare(struct work *w, int op, const struct value *a, const struct value *b)
{
    switch (op) {
    case OP_EQ: return value_equal(w, a, b);
    case OP_NE: return !value_equal(w, a, b);
    case OP_IN: return op_contains(w, b, a);
    case OP_NOT_IN: return !op_contains(w, b, a);
    default: break;
    }
    int order = value_compare(w, a, b, op_name(op));
    if (is_nan(a) || is_nan(b)) return false;
    switch (op) {
    case '<': return order < 0;
    case '>': return order > 0;
    case OP_LE: return order <= 0;
    default: return order >= 0;
    }
}

bool op_contains(struct work *w, const struct value *container, const struct value *item)
{
    if (container->type == VALUE_STRING) {
        if (item->type != VALUE_STRING)
            work_fail(w, "'in <string>' requires string as left operand, not %s",
                      value_type_name(item));
        work_burn_bytes(w, container->text.len);
        return text_find(container->text, item->text, 0) != TEXT_NONE;
    }
    if (container->type == VALUE_DICT) return dict_get(w, container->dict, item) != NULL;
    if (!value_iterable(container))
        work_fail(w, "argument of type '%s' is not iterable", value_type_name(container));
    struct items items = value_items(w, container);
    for (size_t i = 0; i < items.n; i++)
        if (value_equal(w, items.at[i], item)) return true;
    return false;
}

/* ---- Items and slices ---- */

static bool indexable(const struct value *v)
{
    return v->type == VALUE_SEQ && v->seq->kind <= SEQ_RANGE;
}

/* Whether all characters of t are one byte. */
static bool one_byte_chars(struct work *w, struct text t, size_t *n_chars)
{
    work_burn_bytes(w, t.len);
    *n_chars = text_n_chars(t);
    return *n_chars == t.len;
}

const struct value *op_item(struct work *w, const struct value *object, const struct value *key)
{
    if (object->type == VALUE_DICT) {
        bool unhashable =
            key->type == VALUE_DICT || (key->type == VALUE_SEQ && key->seq->kind != SEQ_TUPLE);
        return unhashable ? NULL : dict_get(w, object->dict, key);
    }
    int64_t i;
    if (!value_as_int(key, &i)) return NULL;
    if (indexable(object)) {
        int64_t n = (int64_t)object->seq->n;
        if (i < 0) i += n;
        return i < 0 || i >= n ? NULL : object->seq->items[i];
    }
    if (object->type != VALUE_STRING) return NULL;
    struct text t = object->text;
    size_t n;
    bool bytes = one_byte_chars(w, t, &n);
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return NULL;
    size_t at = bytes ? (size_t)i : text_char_pos(t, (size_t)i);
    return value_make_text(w, text_slice(t, at, at + text_char_len(t, at)));
}

/* Python's slice.indices: a start and a stop within 0..n (-1 as the stop of a negative step).
 */
static void slice_range(int64_t n, const struct value *start, const struct value *stop,
                        int64_t step, int64_t *from, int64_t *to)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const struct value *given[2] = {start, stop};
    int64_t result[2] = {step > 0 ? low : high, step > 0 ? high : low};
    for (size_t i = 0; i < 2; i++) {
        int64_t v;
        if (!given[i] || !value_as_int(given[i], &v)) continue;
        if (v < 0) v = v < -n ? low : v + n;
        result[i] = v < low ? low : v > high ? high : v;
    }
    *from = result[0];
    *to = result[1];
}

static const struct value *slice_text(struct work *w, struct text t, int64_t from, int64_t to,
                                      int64_t step, bool bytes)
{
    if (step == 1) {
        if (to < from) to = from;
        size_t start = bytes ? (size_t)from : text_char_pos(t, (size_t)from);
        struct text rest = text_slice(t, start, t.len);
        size_t len = bytes ? (size_t)(to - from) : text_char_pos(rest, (size_t)(to - from));
        return value_make_text(w, text_slice(rest, 0, len));
    }
    /* Every step needs the place of a character: an index of them all. */
    size_t n = 0, *at = NULL;
    if (!bytes) {
        at = work_zalloc(w, t.len + 1, sizeof *at);
        for (size_t i = 0; i < t.len; i += text_char_len(t, i))
            at[n++] = i;
    }
    struct builder b;
    builder_init(&b, w);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        size_t start = bytes ? (size_t)i : at[i];
        builder_add(&b, text_slice(t, start, start + text_char_len(t, start)));
    }
    return value_make_text(w, builder_take(&b));
}

static bool slice_bound(const struct value *v)
{
    return !v || v->type == VALUE_NONE || v->type == VALUE_INT || v->type == VALUE_BOOL;
}

/* The bounds of a range's slice, which is a range again. They may lie beyond 64 bits where they
 * are only printed; the items do not. */
static void slice_bounds(struct seq *made, const struct seq *range, int64_t from, int64_t to,
                         int64_t by)
{
    const uint64_t start = (uint64_t)range->start, step = (uint64_t)range->step;
    made->start = (int64_t)(start + (uint64_t)from * step);
    made->stop = (int64_t)(start + (uint64_t)to * step);
    made->step = (int64_t)(step * (uint64_t)by);
}

const struct value *op_slice(struct work *w, const struct value *object,
                             const struct value *start, const struct value *stop,
                             const struct value *step)
{
    if (!slice_bound(start) || !slice_bound(stop) || !slice_bound(step))
        work_fail(w, "slice indices must be integers or None");
    if (object->type != VALUE_STRING && !indexable(object))
        work_fail(w, "a %s cannot be sliced", value_type_name(object));
    int64_t given = 1, from, to;
    if (step && value_as_int(step, &given) && given == 0)
        work_fail(w, "slice step cannot be zero");
    size_t n = 0;
    bool bytes = false;
    if (object->type == VALUE_STRING)
        bytes = one_byte_chars(w, object->text, &n);
    else
        n = object->seq->n;
    /* A longer step than the whole makes no difference, and cannot overflow below. */
    int64_t most = (int64_t)n + 1;
    const int64_t by = given > most ? most : given < -most ? -most : given;
    slice_range((int64_t)n, start, stop, by, &from, &to);
    if (object->type == VALUE_STRING) return slice_text(w, object->text, from, to, by, bytes);

    struct value *made = value_make_seq(w, object->seq->kind);
    if (object->seq->kind == SEQ_RANGE) slice_bounds(made->seq, object->seq, from, to, given);
    if (by == 1 && from < to) { /* a stretch of the same array */
        made->seq->items = object->seq->items + from;
        made->seq->n = made->seq->cap = (size_t)(to - from);
        return made;
    }
    for (int64_t i = from; by > 0 ? i < to : i > to; i += by) {
        work_burn(w, 1);
        seq_add(w, made->seq, object->seq->items[i]);
    }
    return made;
}
