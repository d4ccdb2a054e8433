/* The words of a schema, and what they make of the places of a grammar. */
#include "text/schema.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "base/mem.h"
#include "text/regex.h"
#include "text/schema_impl.h"

/* The most that is counted out place by place. */
enum { MAX_COUNT = EXPR_MAX_COUNT };
/* Schemas in schemas, through references, too: those may lead into what is around them at many
 * places, so that what is as deep as JSON may be would be that many times over. */
enum { MAX_DEPTH = 1000 };

struct made {
    const json_t *schema;
    uint32_t rule;
    char *path; /* where it was met first, cut to what a message has room for */
};

struct build {
    struct grammar *g;
    struct schema_rules rules;
    const json_t *root;
    struct made *made; /* the schemas that are rules */
    size_t n_made, cap_made;
    struct buf path; /* where in the schema, as a JSON pointer */
    int depth;       /* schemas that are being looked at, one in another */
    struct err *err;
};

/* ---- words ---- */

enum word {
    WORD_ANY_OF,
    WORD_ONE_OF,
    WORD_ALL_OF,
    WORD_REF,
    WORD_CONST,
    WORD_ENUM,
    WORD_TYPE,
    WORD_PROPERTIES,
    WORD_REQUIRED,
    WORD_MORE_PROPERTIES,
    WORD_ITEMS,
    WORD_PREFIX_ITEMS,
    WORD_MIN_ITEMS,
    WORD_MAX_ITEMS,
    WORD_MIN_LENGTH,
    WORD_MAX_LENGTH,
    WORD_PATTERN,
    WORD_FORMAT,
    WORD_MINIMUM,
    WORD_MAXIMUM,
    WORD_ABOVE,
    WORD_BELOW,
    N_WORDS
};

static const char *const words[N_WORDS] = {
    [WORD_ANY_OF] = "anyOf",
    [WORD_ONE_OF] = "oneOf",
    [WORD_ALL_OF] = "allOf",
    [WORD_REF] = "$ref",
    [WORD_CONST] = "const",
    [WORD_ENUM] = "enum",
    [WORD_TYPE] = "type",
    [WORD_PROPERTIES] = "properties",
    [WORD_REQUIRED] = "required",
    [WORD_MORE_PROPERTIES] = "additionalProperties",
    [WORD_ITEMS] = "items",
    [WORD_PREFIX_ITEMS] = "prefixItems",
    [WORD_MIN_ITEMS] = "minItems",
    [WORD_MAX_ITEMS] = "maxItems",
    [WORD_MIN_LENGTH] = "minLength",
    [WORD_MAX_LENGTH] = "maxLength",
    [WORD_PATTERN] = "pattern",
    [WORD_FORMAT] = "format",
    [WORD_MINIMUM] = "minimum",
    [WORD_MAXIMUM] = "maximum",
    [WORD_ABOVE] = "exclusiveMinimum",
    [WORD_BELOW] = "exclusiveMaximum",
};

/* What says nothing about a text, or something that the grammar keeps to anyway. */
static const char *const passed_over[] = {
    "title",    "description", "default",       "examples",        "deprecated",
    "readOnly", "writeOnly",   "$comment",      "$schema",         "$anchor",
    "$defs",    "definitions", "discriminator", "additionalItems",
};

static grammar_place value(struct build *b, const json_t *schema, grammar_place next);
static uint32_t rule_of(struct build *b, const json_t *schema);

/* ---- errors: the first counts ---- */

static bool failed(const struct build *b)
{
    return b->err->code != ERR_NONE;
}

#define fail(b, ...)                                                                 \
    do {                                                                             \
        if (failed(b)) break;                                                        \
        err_write((b)->err, ERR_FORMAT, __VA_ARGS__);                                \
        err_write_prefix((b)->err, "%s", (b)->path.len ? buf_str(&(b)->path) : "/"); \
    } while (0)

static size_t enter(struct build *b, const char *name)
{
    const size_t at = b->path.len;
    buf_printf(&b->path, "/%s", name);
    return at;
}

static void leave(struct build *b, size_t at)
{
    b->path.len = at;
    if (b->path.data) b->path.data[at] = '\0';
}

/* ---- looking at a schema ---- */

static const json_t *get(const json_t *schema, enum word w)
{
    return json_object_get(schema, words[w]);
}

/* References in a schema with an $id of its own would begin there, so only that of the whole is
 * passed over; what begins with x- is somebody's own. */
static bool is_passed_over(const struct build *b, const json_t *schema, const char *name)
{
    if (strncmp(name, "x-", 2) == 0) return true;
    if (strcmp(name, "$id") == 0) return schema == b->root;
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
        if (strcmp(name, passed_over[i]) == 0) return true;
    return false;
}

/* The words that the schema has, a bit each; words that nobody can keep are refused. */
static unsigned words_of(struct build *b, const json_t *schema)
{
    unsigned found = 0;
    const char *name;
    json_t *ignored;
    json_object_foreach((json_t *)schema, name, ignored)
    {
        size_t i = 0;
        while (i < N_WORDS && strcmp(name, words[i]) != 0)
            i++;
        if (i < N_WORDS)
            found |= 1u << i;
        else if (!is_passed_over(b, schema, name))
            fail(b, "'%s' is not supported", name);
    }
    return found;
}

/* A count of a schema, or the preset. */
static size_t count(struct build *b, const json_t *schema, enum word w, size_t preset)
{
    const json_t *x = get(schema, w);
    if (!x) return preset;
    const double n = json_is_number(x) ? json_number_value(x) : -1;
    if (n < 0 || n != floor(n))
        fail(b, "%s: expected a whole number of at least 0", words[w]);
    else if (n > MAX_COUNT)
        fail(b, "%s: more than 10000 cannot be counted out", words[w]);
    return failed(b) ? 0 : (size_t)n;
}

/* ---- references ---- */

static grammar_place reference(struct build *b, const json_t *schema, grammar_place next)
{
    const char *ref = json_string_value(get(schema, WORD_REF));
    const json_t *to = ref ? schema_resolve(b->root, ref) : NULL;
    if (!to) {
        fail(b, "$ref: expected a place in this schema, found '%s'", ref ? ref : "no text");
        return next;
    }
    return grammar_call(b->g, rule_of(b, to), next);
}

/* ---- alternatives ---- */

static grammar_place any_of(struct build *b, const json_t *schema, enum word w,
                            grammar_place next)
{
    const json_t *list = get(schema, w);
    grammar_place at = GRAMMAR_END;
    if (json_array_size(list) == 0 || (w == WORD_ALL_OF && json_array_size(list) > 1)) {
        if (w == WORD_ALL_OF)
            fail(b, "allOf: one schema in it can be kept to, not several");
        else
            fail(b, "%s: expected schemas in an array", words[w]);
        return next;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const grammar_place one = value(b, json_array_get(list, i), next);
        at = i == 0 ? one : grammar_either(b->g, at, one);
    }
    return at;
}

static bool is_of_type(const json_t *x, const char *type)
{
    if (strcmp(type, "integer") == 0)
        return json_is_integer(x) ||
               (json_is_real(x) && json_real_value(x) == floor(json_real_value(x)));
    return (strcmp(type, "string") == 0 && json_is_string(x)) ||
           (strcmp(type, "number") == 0 && json_is_number(x)) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(x)) ||
           (strcmp(type, "null") == 0 && json_is_null(x)) ||
           (strcmp(type, "array") == 0 && json_is_array(x)) ||
           (strcmp(type, "object") == 0 && json_is_object(x));
}

/* Whether the schema's type, if it names any, allows x. */
static bool type_allows(const json_t *schema, const json_t *x)
{
    const json_t *type = get(schema, WORD_TYPE);
    bool ok = !type || (json_is_string(type) && is_of_type(x, json_string_value(type)));
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *one = json_string_value(json_array_get(type, i));
        ok |= one && is_of_type(x, one);
    }
    return ok;
}

static grammar_place literals(struct build *b, const json_t *schema, grammar_place next)
{
    const json_t *list = get(schema, WORD_ENUM), *only = get(schema, WORD_CONST);
    grammar_place at = GRAMMAR_END;
    bool is_some = false;
    const size_t n = only ? 1 : json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *x = only ? only : json_array_get(list, i);
        if (!type_allows(schema, x)) continue;
        const grammar_place one = schema_literal(b->g, x, next);
        at = is_some ? grammar_either(b->g, at, one) : one;
        is_some = true;
    }
    if (n == 0)
        fail(b, "enum: expected a list of one value or more");
    else if (!is_some)
        fail(b, "%s: expected values of the schema's type", only ? "const" : "enum");
    return at;
}

/* ---- numbers ---- */

static bool is_too_far(const json_t *x)
{
    const json_int_t n = json_integer_value(x);
    return json_is_integer(x) ? n > SCHEMA_MAX_BOUND || n < -SCHEMA_MAX_BOUND
                              : fabs(json_number_value(x)) > SCHEMA_MAX_BOUND;
}

/* The nearest that a bound can be to x, which is too far; on its own side it leaves nothing. */
static int64_t nearest_bound(struct build *b, enum word w, const json_t *x)
{
    char found[DECIMAL_BYTES];
    const bool is_lower = w == WORD_MINIMUM || w == WORD_ABOVE,
               above = json_number_value(x) > 0;
    if (json_is_integer(x))
        snprintf(found, sizeof found, "%" JSON_INTEGER_FORMAT, json_integer_value(x));
    else
        decimal_shortest(found, json_real_value(x));
    if (is_lower && above) fail(b, "%s: expected at most 1e18, found %s", words[w], found);
    if (!is_lower && !above) fail(b, "%s: expected at least -1e18, found %s", words[w], found);
    return above ? SCHEMA_MAX_BOUND : -SCHEMA_MAX_BOUND;
}

/* A bound that is a whole number, or for integers the next one inside. */
static int64_t bound(struct build *b, const json_t *schema, enum word w, bool is_integer)
{
    const json_t *x = get(schema, w);
    double n = json_number_value(x);
    if (!json_is_number(x)) fail(b, "%s: expected a number", words[w]);
    if (is_integer)
        n = w == WORD_MINIMUM || w == WORD_BELOW ? ceil(n) : floor(n);
    else if (n != floor(n))
        fail(b, "%s: of a number (not an integer) only whole bounds can be kept to", words[w]);
    if (is_too_far(x)) return nearest_bound(b, w, x);
    return json_is_integer(x) ? json_integer_value(x) : (int64_t)n;
}

static struct schema_bounds bounds_of(struct build *b, const json_t *schema, bool is_integer)
{
    struct schema_bounds o = {.min = -SCHEMA_MAX_BOUND, .max = SCHEMA_MAX_BOUND};
    static const enum word all[] = {WORD_MINIMUM, WORD_MAXIMUM, WORD_ABOVE, WORD_BELOW};
    for (size_t i = 0; i < 4; i++) {
        if (!get(schema, all[i])) continue;
        const int64_t n = bound(b, schema, all[i], is_integer);
        o.is_given = true;
        if (all[i] == WORD_MINIMUM && n > o.min) o.min = n;
        if (all[i] == WORD_MAXIMUM && n < o.max) o.max = n;
        if (all[i] == WORD_ABOVE && n >= o.min) o.min = n, o.above_min = true;
        if (all[i] == WORD_BELOW && n <= o.max) o.max = n, o.below_max = true;
    }
    const bool has_min = get(schema, WORD_MINIMUM) || get(schema, WORD_ABOVE);
    const bool has_max = get(schema, WORD_MAXIMUM) || get(schema, WORD_BELOW);
    if (!has_max && o.min < SCHEMA_MAX_NUMBER) o.max = SCHEMA_MAX_NUMBER;
    if (!has_min && o.max > -SCHEMA_MAX_NUMBER) o.min = -SCHEMA_MAX_NUMBER;
    return o;
}

static grammar_place number(struct build *b, const json_t *schema, bool is_integer,
                            grammar_place next)
{
    const struct schema_bounds bounds = bounds_of(b, schema, is_integer);
    bool is_empty = false;
    const grammar_place at =
        (is_integer ? schema_integer : schema_number)(b->g, &bounds, next, &is_empty);
    if (is_empty)
        fail(b, "there is no %s within the bounds", is_integer ? "integer" : "number");
    return at;
}

/* ---- strings ---- */

static grammar_place of_format(struct build *b, const json_t *schema, grammar_place next)
{
    const char *name = json_string_value(get(schema, WORD_FORMAT));
    grammar_place at = next;
    if (!name || !schema_format(b->g, name, next, &at))
        fail(b, "format: expected date, time, date-time or uuid, found '%s'",
             name ? name : "no text");
    return at;
}

static grammar_place of_pattern(struct build *b, const json_t *schema, grammar_place next)
{
    const json_t *pattern = get(schema, WORD_PATTERN);
    const grammar_place end = grammar_byte(b->g, '"', '"', next);
    grammar_place at = end;
    struct err err = {0};
    if (!json_is_string(pattern))
        fail(b, "pattern: expected a text");
    else if (!regex_place(b->g, json_string_value(pattern), json_string_length(pattern),
                          schema_characters, end, &at, &err))
        fail(b, "pattern: %s", err.msg);
    return grammar_byte(b->g, '"', '"', at);
}

static grammar_place string(struct build *b, const json_t *schema, grammar_place next)
{
    const size_t min = count(b, schema, WORD_MIN_LENGTH, 0);
    const size_t max = count(b, schema, WORD_MAX_LENGTH, SIZE_MAX);
    const bool has_length = get(schema, WORD_MIN_LENGTH) || get(schema, WORD_MAX_LENGTH);
    const bool has_format = get(schema, WORD_FORMAT), has_pattern = get(schema, WORD_PATTERN);
    if (min > max)
        fail(b, "maxLength is below minLength");
    else if (has_pattern && (has_format || has_length))
        fail(b, "a pattern and a %s together cannot be kept to",
             has_format ? "format" : "length");
    else if (has_format && has_length)
        fail(b, "a format and a length together cannot be kept to");
    if (failed(b)) return next;
    if (has_pattern) return of_pattern(b, schema, next);
    if (has_format) return of_format(b, schema, next);
    return schema_string(b->g, &b->rules, min, max, next);
}

/* ---- arrays ---- */

/* The rule of the elements behind the first ones; false: there are none. */
static bool rest_of(struct build *b, const json_t *items, uint32_t *rule)
{
    *rule = b->rules.value;
    if (json_is_false(items)) return false;
    if (items && !json_is_true(items)) {
        const size_t at = enter(b, "items");
        *rule = rule_of(b, items);
        leave(b, at);
    }
    return true;
}

/* An array whose first elements have schemas of their own: these, and nothing behind them. */
static grammar_place tuple(struct build *b, const json_t *first, size_t min, size_t max,
                           grammar_place next)
{
    const size_t n = json_array_size(first);
    if (n < min || n > max) fail(b, "as many elements as prefixItems has are written");
    grammar_place at = grammar_call(b->g, b->rules.space, grammar_byte(b->g, ']', ']', next));
    for (size_t i = n; i > 0; i--) {
        at = value(b, json_array_get(first, i - 1), at);
        at = grammar_call(b->g, b->rules.space, at);
        if (i > 1) at = grammar_byte(b->g, ',', ',', at);
    }
    return grammar_byte(b->g, '[', '[', at);
}

static grammar_place array(struct build *b, const json_t *schema, grammar_place next)
{
    const size_t min = count(b, schema, WORD_MIN_ITEMS, 0);
    size_t max = count(b, schema, WORD_MAX_ITEMS, SIZE_MAX);
    const json_t *items = get(schema, WORD_ITEMS), *first = get(schema, WORD_PREFIX_ITEMS);
    if (first && !json_is_array(first)) fail(b, "prefixItems: expected schemas in an array");
    if (json_is_array(items)) first = items;
    if (json_array_size(first) > 0) return tuple(b, first, min, max, next);
    uint32_t rule;
    if (!rest_of(b, json_is_array(items) ? NULL : items, &rule)) max = 0;
    if (min > max) fail(b, "maxItems is below minItems");
    if (failed(b)) return next;
    return grammar_byte(b->g, '[', '[',
                        schema_elements(b->g, &b->rules, rule, min, max, ']', next));
}

/* ---- objects ---- */

static bool is_required(const json_t *required, const char *name)
{
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *one = json_string_value(json_array_get(required, i));
        if (one && strcmp(one, name) == 0) return true;
    }
    return false;
}

/* "name": value, before next. */
static grammar_place member(struct build *b, const char *name, const json_t *schema,
                            grammar_place next)
{
    json_t *key = json_string(name);
    grammar_place at;
    if (schema) {
        const size_t path = enter(b, name);
        at = value(b, schema, next);
        leave(b, path);
    } else {
        at = grammar_call(b->g, b->rules.value, next);
    }
    at = grammar_byte(b->g, ':', ':', grammar_call(b->g, b->rules.space, at));
    at = schema_literal(b->g, key, at);
    json_decref(key);
    return at;
}

/* The properties from the last to the first: what may stand where some stood before, and where
 * none did. Those that are not required may be left out. */
struct members {
    grammar_place behind_some, behind_none;
};

static void add_member(struct build *b, struct members *m, const char *name,
                       const json_t *schema, bool required)
{
    const grammar_place one = member(b, name, schema, m->behind_some);
    const grammar_place spaced = grammar_call(b->g, b->rules.space, one);
    const grammar_place with_comma = grammar_byte(b->g, ',', ',', spaced);
    m->behind_some = required ? with_comma : grammar_either(b->g, with_comma, m->behind_some);
    m->behind_none = required ? spaced : grammar_either(b->g, spaced, m->behind_none);
}

/* An object without properties of its own names: any names, with values of one kind. */
static grammar_place map(struct build *b, const json_t *schema, grammar_place next)
{
    const json_t *more = get(schema, WORD_MORE_PROPERTIES);
    uint32_t kind = b->rules.value;
    if (json_is_object(more)) {
        const size_t path = enter(b, words[WORD_MORE_PROPERTIES]);
        kind = rule_of(b, more);
        leave(b, path);
    }
    const uint32_t pair = schema_pair(b->g, &b->rules, kind);
    const size_t max = json_is_false(more) ? 0 : SIZE_MAX;
    return grammar_byte(b->g, '{', '{',
                        schema_elements(b->g, &b->rules, pair, 0, max, '}', next));
}

/* What is required beside the properties, each once, with the values of any other name. */
static void add_others(struct build *b, struct members *m, const json_t *schema)
{
    const json_t *properties = get(schema, WORD_PROPERTIES);
    const json_t *required = get(schema, WORD_REQUIRED);
    const json_t *more = get(schema, WORD_MORE_PROPERTIES);
    json_t *seen = json_object();
    for (size_t i = json_array_size(required); i > 0; i--) {
        const char *name = json_string_value(json_array_get(required, i - 1));
        if (!name) fail(b, "required: expected names");
        if (!name || json_object_get(properties, name) || json_object_get(seen, name)) continue;
        if (json_is_false(more))
            fail(b, "required: '%s' is no property, and there may be no others", name);
        else
            add_member(b, m, name, more, true);
        json_object_set_new(seen, name, json_true());
    }
    json_decref(seen);
}

static grammar_place object(struct build *b, const json_t *schema, grammar_place next)
{
    const json_t *properties = get(schema, WORD_PROPERTIES);
    const json_t *required = get(schema, WORD_REQUIRED);
    const json_t *more = get(schema, WORD_MORE_PROPERTIES);
    if (properties && !json_is_object(properties)) fail(b, "properties: expected an object");
    if (required && !json_is_array(required)) fail(b, "required: expected an array");
    if (more && !json_is_object(more) && !json_is_boolean(more))
        fail(b, "additionalProperties: expected a schema");
    const size_t n = json_object_size(properties), n_required = json_array_size(required);
    if (failed(b)) return next;
    if (n + n_required == 0) return map(b, schema, next);
    const grammar_place end =
        grammar_call(b->g, b->rules.space, grammar_byte(b->g, '}', '}', next));
    struct members m = {end, end};
    add_others(b, &m, schema);
    const char **names = mem_zalloc(n + 1, sizeof *names), *name;
    size_t i = 0;
    json_t *ignored;
    json_object_foreach((json_t *)properties, name, ignored) names[i++] = name;
    const size_t path = enter(b, "properties");
    while (i-- > 0)
        add_member(b, &m, names[i], json_object_get(properties, names[i]),
                   is_required(required, names[i]));
    leave(b, path);
    free(names);
    return grammar_byte(b->g, '{', '{', m.behind_none);
}

/* ---- a schema ---- */

static grammar_place of_type(struct build *b, const json_t *schema, const char *type,
                             grammar_place next)
{
    if (strcmp(type, "object") == 0) return object(b, schema, next);
    if (strcmp(type, "array") == 0) return array(b, schema, next);
    if (strcmp(type, "string") == 0) return string(b, schema, next);
    if (strcmp(type, "integer") == 0) return number(b, schema, true, next);
    if (strcmp(type, "number") == 0) return number(b, schema, false, next);
    if (strcmp(type, "null") == 0) return grammar_text(b->g, "null", 4, next);
    if (strcmp(type, "boolean") == 0)
        return grammar_either(b->g, grammar_text(b->g, "true", 4, next),
                              grammar_text(b->g, "false", 5, next));
    fail(b, "type: expected one of JSON's, found '%s'", type);
    return next;
}

#define WORDS(a, b) ((2u << (b)) - (1u << (a)))

/* What is meant where no type is said: what its words are about. */
static const char *type_meant(unsigned found)
{
    if (found & WORDS(WORD_PROPERTIES, WORD_MORE_PROPERTIES)) return "object";
    if (found & WORDS(WORD_ITEMS, WORD_MAX_ITEMS)) return "array";
    if (found & WORDS(WORD_MIN_LENGTH, WORD_FORMAT)) return "string";
    if (found & WORDS(WORD_MINIMUM, WORD_BELOW)) return "number";
    return NULL;
}

static grammar_place typed(struct build *b, const json_t *schema, unsigned found,
                           grammar_place next)
{
    const json_t *type = get(schema, WORD_TYPE);
    if (!type) {
        const char *meant = type_meant(found);
        return meant ? of_type(b, schema, meant, next)
                     : grammar_call(b->g, b->rules.value, next);
    }
    if (json_is_string(type)) return of_type(b, schema, json_string_value(type), next);
    if (json_array_size(type) == 0) fail(b, "type: expected a name or several");
    grammar_place at = next;
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *name = json_string_value(json_array_get(type, i));
        const grammar_place one = of_type(b, schema, name ? name : "no text", next);
        at = i == 0 ? one : grammar_either(b->g, at, one);
    }
    return at;
}

static grammar_place of_schema(struct build *b, const json_t *schema, grammar_place next)
{
    if (json_is_true(schema)) return grammar_call(b->g, b->rules.value, next);
    if (json_is_false(schema)) fail(b, "false allows nothing");
    if (!json_is_object(schema)) fail(b, "expected a schema");
    if (failed(b)) return next;
    const unsigned found = words_of(b, schema);
    for (unsigned w = WORD_ANY_OF; w <= WORD_REF; w++) {
        if (!(found & 1u << w)) continue;
        if (found & ~(1u << w))
            fail(b, "%s and other words together cannot be kept to", words[w]);
        if (failed(b)) return next;
        return w == WORD_REF ? reference(b, schema, next) : any_of(b, schema, w, next);
    }
    const unsigned fixed = 1u << WORD_CONST | 1u << WORD_ENUM;
    if (!(found & fixed)) return typed(b, schema, found, next);
    if (found & ~(fixed | 1u << WORD_TYPE) || (found & fixed) == fixed)
        fail(b, "const or enum and other words than type cannot be kept to");
    return failed(b) ? next : literals(b, schema, next);
}

/* A value that the schema allows, before next. */
static grammar_place value(struct build *b, const json_t *schema, grammar_place next)
{
    if (b->depth == MAX_DEPTH) fail(b, "schemas in schemas beyond %d", MAX_DEPTH);
    if (failed(b)) return next;
    b->depth++;
    const grammar_place at = of_schema(b, schema, next);
    b->depth--;
    return at;
}

/* The rule that is this schema, made where it was not yet: it may call itself. */
static uint32_t rule_of(struct build *b, const json_t *schema)
{
    for (size_t i = 0; i < b->n_made; i++)
        if (b->made[i].schema == schema) return b->made[i].rule;
    const uint32_t rule = grammar_rule(b->g);
    if (grammar_is_full(b->g)) fail(b, "the schema is too large");
    if (failed(b)) return rule;
    MEM_GROW(b->made, b->n_made, b->cap_made);
    const size_t room = sizeof b->err->msg, n = b->path.len;
    char *path = mem_strndup(buf_str(&b->path), n < room ? n : room);
    b->made[b->n_made++] = (struct made){schema, rule, path};
    grammar_begin(b->g, rule, value(b, schema, GRAMMAR_END));
    return rule;
}

/* ---- the whole ---- */

/* A schema never ends if there is itself in each text of it, for which it is a rule; it is
 * looked for behind rule 0, the whole, which has no place of its own. */
static void refuse_endless(struct build *b)
{
    const uint32_t rule = grammar_endless_rule(b->g, 1);
    for (size_t i = 0; i < b->n_made; i++) {
        if (b->made[i].rule != rule) continue;
        buf_clear(&b->path);
        buf_puts(&b->path, b->made[i].path);
        fail(b, "no text that ends satisfies it");
    }
}

static void free_made(struct build *b)
{
    for (size_t i = 0; i < b->n_made; i++)
        free(b->made[i].path);
    free(b->made);
}

/* In front a blank or up to two line breaks, with which a model goes on behind a thought. */
static void begin_text(struct grammar *g, grammar_place at)
{
    const grammar_place line = grammar_either(g, at, grammar_byte(g, '\n', '\n', at));
    const grammar_place blank = grammar_byte(g, ' ', ' ', at);
    grammar_begin(
        g, 0,
        grammar_either(g, at, grammar_either(g, blank, grammar_byte(g, '\n', '\n', line))));
}

struct grammar *schema_grammar(const char *text, size_t len, struct err *err)
{
    json_error_t at;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (!root) {
        err_set(err, ERR_FORMAT, "line %d: %s", at.line, at.text);
        return NULL;
    }
    struct grammar *g = grammar_new();
    *err = (struct err){0};
    struct build b = {.g = g, .root = root, .err = err};
    const uint32_t whole = grammar_rule(g);
    assert(whole == 0);
    (void)whole;
    b.rules = schema_rules(g);
    begin_text(g, value(&b, root, GRAMMAR_END));
    if (!failed(&b) && !grammar_finish(g))
        err_set(err, ERR_FORMAT, "it refers to itself and says nothing else, or is too large");
    if (!failed(&b)) refuse_endless(&b);
    const bool ok = !failed(&b);
    free_made(&b);
    buf_free(&b.path);
    json_decref(root);
    if (ok) return g;
    grammar_release(g);
    return NULL;
}

struct grammar *schema_any(void)
{
    struct grammar *g = grammar_new();
    grammar_rule(g);
    const struct schema_rules r = schema_rules(g);
    begin_text(g, schema_container(g, &r, GRAMMAR_END));
    const bool ok = grammar_finish(g);
    assert(ok);
    (void)ok;
    return g;
}
