/* Tests: what stands behind `is`. */
#include "template/builtins.h"
#include "template/case.h"
#include "template/lex.h"

#define PREDICATE(id, condition)                                              \
    static const struct value *is_##id(struct eval *e, const struct value *v, \
                                       const struct args *a)                  \
    {                                                                         \
        (void)e, (void)v, (void)a;                                            \
        return value_make_bool(condition);                                    \
    }

PREDICATE(defined, v->type != VALUE_UNDEFINED)
PREDICATE(undefined, v->type == VALUE_UNDEFINED)
PREDICATE(none, v->type == VALUE_NONE)
PREDICATE(boolean, v->type == VALUE_BOOL)
PREDICATE(true, v->type == VALUE_BOOL && v->boolean)
PREDICATE(false, v->type == VALUE_BOOL && !v->boolean)
PREDICATE(integer, v->type == VALUE_INT)
PREDICATE(float, v->type == VALUE_FLOAT)
PREDICATE(number, value_is_number(v))
PREDICATE(string, v->type == VALUE_STRING)
PREDICATE(mapping, v->type == VALUE_DICT)
PREDICATE(iterable, value_iterable(v))
PREDICATE(callable, value_callable(v))
/* What has a length and items: strings, dicts and undefined values, too. */
PREDICATE(sequence, v->type == VALUE_STRING || v->type == VALUE_DICT ||
                        v->type == VALUE_UNDEFINED ||
                        (v->type == VALUE_SEQ && v->seq->kind <= SEQ_RANGE))
PREDICATE(escaped, false)
PREDICATE(lower, case_is(e->w, arg_text(e, v), CASE_LOWER))
PREDICATE(upper, case_is(e->w, arg_text(e, v), CASE_UPPER))
PREDICATE(eq, op_compare(e->w, OP_EQ, v, a->bound[0]))
PREDICATE(ne, op_compare(e->w, OP_NE, v, a->bound[0]))
PREDICATE(lt, op_compare(e->w, '<', v, a->bound[0]))
PREDICATE(le, op_compare(e->w, OP_LE, v, a->bound[0]))
PREDICATE(gt, op_compare(e->w, '>', v, a->bound[0]))
PREDICATE(ge, op_compare(e->w, OP_GE, v, a->bound[0]))
PREDICATE(in, op_contains(e->w, a->bound[0], v))
PREDICATE(filter, filter_find(arg_text(e, v)) != NULL)
PREDICATE(test, predicate_find(arg_text(e, v)) != NULL)

/* The same object; numbers, None, booleans and strings by value, as there is but one of each.
 */
static const struct value *is_sameas(struct eval *e, const struct value *v,
                                     const struct args *a)
{
    const struct value *other = a->bound[0];
    bool by_value = v->type <= VALUE_STRING;
    return value_make_bool(v->type == other->type &&
                           (by_value               ? value_equal(e->w, v, other)
                            : v->type == VALUE_SEQ ? v->seq == other->seq
                                                   : v->dict == other->dict));
}

/* v modulo `by`, both integers. */
static int64_t remainder_of(struct eval *e, const struct value *v, const struct value *by)
{
    const struct value *r = op_binary(e->w, '%', v, by);
    int64_t i = 0;
    if (!value_as_int(r, &i)) return r->type == VALUE_FLOAT && r->real == 0 ? 0 : -1;
    return i;
}

PREDICATE(odd, remainder_of(e, v, value_make_int(e->w, 2)) == 1)
PREDICATE(even, remainder_of(e, v, value_make_int(e->w, 2)) == 0)
PREDICATE(divisibleby, remainder_of(e, v, a->bound[0]) == 0)

const struct builtin predicates[] = {
    {"!=", "other", 1, is_ne},
    {"<", "other", 1, is_lt},
    {"<=", "other", 1, is_le},
    {"==", "other", 1, is_eq},
    {">", "other", 1, is_gt},
    {">=", "other", 1, is_ge},
    {"boolean", "", 0, is_boolean},
    {"callable", "", 0, is_callable},
    {"defined", "", 0, is_defined},
    {"divisibleby", "num", 1, is_divisibleby},
    {"eq", "other", 1, is_eq},
    {"equalto", "other", 1, is_eq},
    {"escaped", "", 0, is_escaped},
    {"even", "", 0, is_even},
    {"false", "", 0, is_false},
    {"filter", "", 0, is_filter},
    {"float", "", 0, is_float},
    {"ge", "other", 1, is_ge},
    {"greaterthan", "other", 1, is_gt},
    {"gt", "other", 1, is_gt},
    {"in", "seq", 1, is_in},
    {"integer", "", 0, is_integer},
    {"iterable", "", 0, is_iterable},
    {"le", "other", 1, is_le},
    {"lessthan", "other", 1, is_lt},
    {"lower", "", 0, is_lower},
    {"lt", "other", 1, is_lt},
    {"mapping", "", 0, is_mapping},
    {"ne", "other", 1, is_ne},
    {"none", "", 0, is_none},
    {"number", "", 0, is_number},
    {"odd", "", 0, is_odd},
    {"sameas", "other", 1, is_sameas},
    {"sequence", "", 0, is_sequence},
    {"string", "", 0, is_string},
    {"test", "", 0, is_test},
    {"true", "", 0, is_true},
    {"undefined", "", 0, is_undefined},
    {"upper", "", 0, is_upper},
    {NULL, NULL, 0, NULL},
};
