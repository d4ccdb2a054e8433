#include "template/value.h"

#include <assert.h>
#include <math.h>
#include <xxhash.h>

const struct value value_none_const = {.type = VALUE_NONE};
const struct value value_true_const = {.type = VALUE_BOOL, .boolean = true};
const struct value value_false_const = {.type = VALUE_BOOL, .boolean = false};

/* ---- Making ---- */

struct value *value_new(struct work *w, enum value_type type)
{
    struct value *v = work_alloc(w, sizeof *v);
    v->type = type;
    return v;
}

const struct value *value_make_bool(bool b)
{
    return b ? &value_true_const : &value_false_const;
}

const struct value *value_make_int(struct work *w, int64_t i)
{
    struct value *v = value_new(w, VALUE_INT);
    v->integer = i;
    return v;
}

const struct value *value_make_float(struct work *w, double f)
{
    struct value *v = value_new(w, VALUE_FLOAT);
    v->real = f;
    return v;
}

const struct value *value_make_text(struct work *w, struct text t)
{
    struct value *v = value_new(w, VALUE_STRING);
    v->text = t;
    return v;
}

static const struct value *undefined(struct work *w, const char *name,
                                     const struct value *owner, const char *reason)
{
    struct value *v = value_new(w, VALUE_UNDEFINED);
    v->undefined.name = name;
    v->undefined.owner = owner;
    v->undefined.reason = reason;
    return v;
}

const struct value *value_undefined_name(struct work *w, const char *name)
{
    return undefined(w, name, NULL, NULL);
}

const struct value *value_undefined_attr(struct work *w, const struct value *owner,
                                         const char *name)
{
    return undefined(w, name, owner, NULL);
}

const struct value *value_undefined_reason(struct work *w, const char *reason)
{
    return undefined(w, NULL, NULL, reason);
}

struct value *value_make_seq(struct work *w, enum seq_kind kind)
{
    struct value *v = value_new(w, VALUE_SEQ);
    v->seq = work_zalloc(w, 1, sizeof *v->seq);
    v->seq->kind = kind;
    return v;
}

void seq_add(struct work *w, struct seq *seq, const struct value *item)
{
    if (seq->n == seq->cap) {
        size_t cap = seq->cap ? seq->cap * 2 : 4;
        seq->items = work_grow(w, seq->items, seq->n, cap, sizeof *seq->items);
        seq->cap = cap;
    }
    seq->items[seq->n++] = item;
}

const struct value *value_make_pair(struct work *w, const struct value *a,
                                    const struct value *b)
{
    struct value *v = value_make_seq(w, SEQ_TUPLE);
    seq_add(w, v->seq, a);
    seq_add(w, v->seq, b);
    return v;
}

struct value *value_make_dict(struct work *w)
{
    struct value *v = value_new(w, VALUE_DICT);
    v->dict = work_zalloc(w, 1, sizeof *v->dict);
    return v;
}

/* ---- Dicts ---- */

/* Below this many entries a scan over the hashes is as fast as an index. */
#define DICT_SCAN 8

static void index_entry(struct dict *d, size_t entry)
{
    size_t mask = d->n_index - 1, slot = (size_t)d->entries[entry].hash & mask;
    while (d->index[slot])
        slot = (slot + 1) & mask;
    d->index[slot] = (uint32_t)entry + 1;
}

static uint64_t hash_text(struct text t)
{
    return XXH3_64bits(t.data, t.len);
}

static uint64_t hash_of(struct work *w, const struct value *v)
{
    switch (v->type) {
    case VALUE_STRING: work_burn_compare(w, v->text.len); return hash_text(v->text);
    case VALUE_NONE: return 0x9E3779B97F4A7C15u;
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_FLOAT: {
        /* Equal numbers hash alike, whatever their type. */
        double real = value_as_real(v) + 0.0; /* one zero */
        return XXH3_64bits(&real, sizeof real);
    }
    case VALUE_SEQ:
        if (v->seq->kind == SEQ_TUPLE) {
            uint64_t hash = 0x51ED270B;
            work_enter(w);
            for (size_t i = 0; i < v->seq->n; i++)
                hash = hash * 0x9E3779B97F4A7C15u + hash_of(w, v->seq->items[i]);
            work_burn(w, v->seq->n);
            work_leave(w);
            return hash;
        }
        break;
    case VALUE_UNDEFINED: return 0x1234567;
    case VALUE_DICT: break;
    default: return XXH3_64bits(&v, sizeof v);
    }
    work_fail(w, "unhashable type: '%s'", value_type_name(v));
}

/* Whether e holds the key: the string *text or, when that is NULL, any value. */
static bool holds(struct work *w, const struct dict_entry *e, uint64_t hash,
                  const struct value *key, const struct text *text)
{
    if (e->hash != hash) return false;
    if (!text) return value_equal(w, e->key, key);
    return e->key->type == VALUE_STRING && text_equal(e->key->text, *text);
}

static struct dict_entry *find(struct work *w, const struct dict *d, uint64_t hash,
                               const struct value *key, const struct text *text)
{
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (holds(w, &d->entries[i], hash, key, text)) return &d->entries[i];
        return NULL;
    }
    size_t mask = d->n_index - 1;
    for (size_t slot = (size_t)hash & mask; d->index[slot]; slot = (slot + 1) & mask) {
        struct dict_entry *e = &d->entries[d->index[slot] - 1];
        if (holds(w, e, hash, key, text)) return e;
        work_burn(w, 1);
    }
    return NULL;
}

void dict_set(struct work *w, struct dict *d, const struct value *key, const struct value *item)
{
    uint64_t hash = hash_of(w, key);
    struct dict_entry *e = find(w, d, hash, key, NULL);
    if (e) {
        e->value = item;
        return;
    }
    if (d->n == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 4;
        d->entries = work_grow(w, d->entries, d->n, d->cap, sizeof *d->entries);
    }
    if (d->n >= UINT32_MAX - 1) work_fail(w, "a dict of too many entries");
    d->entries[d->n++] = (struct dict_entry){key, item, hash};
    if (d->n > DICT_SCAN && d->n * 2 > d->n_index) {
        d->n_index = d->n_index ? d->n_index * 2 : 32;
        d->index = work_zalloc(w, d->n_index, sizeof *d->index);
        for (size_t i = 0; i < d->n; i++)
            index_entry(d, i);
    } else if (d->index) {
        index_entry(d, d->n - 1);
    }
}

const struct value *dict_get(struct work *w, const struct dict *d, const struct value *key)
{
    struct dict_entry *e = find(w, d, hash_of(w, key), key, NULL);
    return e ? e->value : NULL;
}

const struct value *dict_get_text(struct work *w, const struct dict *d, struct text key)
{
    work_burn_compare(w, key.len);
    struct dict_entry *e = find(w, d, hash_text(key), NULL, &key);
    return e ? e->value : NULL;
}

/* ---- Asking ---- */

_Noreturn void value_fail_undefined(struct work *w, const struct value *v)
{
    if (!v->undefined.name) work_fail(w, "%s", v->undefined.reason);
    if (!v->undefined.owner) work_fail(w, "'%s' is undefined", v->undefined.name);
    const struct value *owner = v->undefined.owner;
    work_fail(w, "'%s%s' has no attribute '%s'", value_type_name(owner),
              owner->type == VALUE_NONE ? "" : " object", v->undefined.name);
}

const char *value_type_name(const struct value *v)
{
    switch (v->type) {
    case VALUE_UNDEFINED: return "Undefined";
    case VALUE_NONE: return "None";
    case VALUE_BOOL: return "bool";
    case VALUE_INT: return "int";
    case VALUE_FLOAT: return "float";
    case VALUE_STRING: return "str";
    case VALUE_SEQ:
        switch (v->seq->kind) {
        case SEQ_LIST: return "list";
        case SEQ_TUPLE: return "tuple";
        case SEQ_RANGE: return "range";
        case SEQ_VIEW: return v->seq->name;
        case SEQ_GENERATOR: return "generator";
        }
        break;
    case VALUE_DICT: return "dict";
    case VALUE_NAMESPACE: return "Namespace";
    case VALUE_FUNCTION: return "function";
    case VALUE_METHOD: return "method";
    case VALUE_MACRO: return "Macro";
    case VALUE_LOOP: return "LoopContext";
    case VALUE_CYCLER: return "Cycler";
    case VALUE_JOINER: return "Joiner";
    }
    assert(false && "a type of value");
    return "";
}

bool value_is_number(const struct value *v)
{
    return v->type == VALUE_INT || v->type == VALUE_FLOAT || v->type == VALUE_BOOL;
}

double value_as_real(const struct value *v)
{
    if (v->type == VALUE_FLOAT) return v->real;
    return v->type == VALUE_INT ? (double)v->integer : (double)v->boolean;
}

bool value_as_int(const struct value *v, int64_t *out)
{
    if (v->type != VALUE_INT && v->type != VALUE_BOOL) return false;
    *out = v->type == VALUE_INT ? v->integer : v->boolean;
    return true;
}

bool value_truth(const struct value *v)
{
    switch (v->type) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL: return v->boolean;
    case VALUE_INT: return v->integer != 0;
    case VALUE_FLOAT: return v->real != 0;
    case VALUE_STRING: return v->text.len != 0;
    case VALUE_SEQ: return v->seq->kind == SEQ_GENERATOR || v->seq->n != 0;
    case VALUE_DICT: return v->dict->n != 0;
    default: return true;
    }
}

bool value_length(struct work *w, const struct value *v, size_t *n)
{
    switch (v->type) {
    case VALUE_UNDEFINED: *n = 0; return true;
    case VALUE_STRING:
        work_burn_bytes(w, v->text.len);
        *n = text_n_chars(v->text);
        return true;
    case VALUE_SEQ: *n = v->seq->n; return v->seq->kind != SEQ_GENERATOR;
    case VALUE_DICT: *n = v->dict->n; return true;
    default: return false;
    }
}

bool value_callable(const struct value *v)
{
    switch (v->type) {
    case VALUE_UNDEFINED: /* as in Python: calling it is what fails */
    case VALUE_FUNCTION:
    case VALUE_METHOD:
    case VALUE_MACRO:
    case VALUE_LOOP:
    case VALUE_JOINER: return true;
    default: return false;
    }
}

static int compare_numbers(const struct value *a, const struct value *b)
{
    int64_t i, k;
    if (value_as_int(a, &i) && value_as_int(b, &k)) return (i > k) - (i < k);
    double x = value_as_real(a), y = value_as_real(b);
    return (x > y) - (x < y);
}

static bool seq_equal(struct work *w, const struct seq *a, const struct seq *b)
{
    if (a->kind != b->kind || a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!value_equal(w, a->items[i], b->items[i])) return false;
    return true;
}

static bool dict_equal(struct work *w, const struct dict *a, const struct dict *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct dict_entry *e = &a->entries[i];
        const struct dict_entry *other = find(w, b, e->hash, e->key, NULL);
        if (!other || !value_equal(w, e->value, other->value)) return false;
    }
    return true;
}

bool value_equal(struct work *w, const struct value *a, const struct value *b)
{
    work_burn(w, 1);
    if (value_is_number(a) && value_is_number(b)) {
        if (a->type == VALUE_FLOAT && isnan(a->real)) return false;
        if (b->type == VALUE_FLOAT && isnan(b->real)) return false;
        return compare_numbers(a, b) == 0;
    }
    if (a->type != b->type) return false;
    if (a == b) return true;
    switch (a->type) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return true;
    case VALUE_STRING: work_burn_compare(w, a->text.len); return text_equal(a->text, b->text);
    case VALUE_SEQ:
    case VALUE_DICT: {
        if (a->type == VALUE_SEQ && a->seq->kind == SEQ_GENERATOR) return a->seq == b->seq;
        work_enter(w);
        bool equal = a->type == VALUE_SEQ ? seq_equal(w, a->seq, b->seq)
                                          : dict_equal(w, a->dict, b->dict);
        work_leave(w);
        return equal;
    }
    case VALUE_FUNCTION:
    case VALUE_METHOD:
        return a->bound.builtin == b->bound.builtin && a->bound.self == b->bound.self;
    case VALUE_NAMESPACE: return a->dict == b->dict;
    default: return false;
    }
}

int value_compare(struct work *w, const struct value *a, const struct value *b, const char *op)
{
    work_burn(w, 1);
    if (value_is_number(a) && value_is_number(b)) return compare_numbers(a, b);
    if (a->type == VALUE_UNDEFINED) value_fail_undefined(w, a);
    if (b->type == VALUE_UNDEFINED) value_fail_undefined(w, b);
    if (a->type == VALUE_STRING && b->type == VALUE_STRING) {
        work_burn_compare(w, a->text.len < b->text.len ? a->text.len : b->text.len);
        return text_compare(a->text, b->text);
    }
    if (a->type == VALUE_SEQ && b->type == VALUE_SEQ && a->seq->kind == b->seq->kind &&
        a->seq->kind <= SEQ_TUPLE) {
        work_enter(w);
        int order = 0;
        size_t n = a->seq->n < b->seq->n ? a->seq->n : b->seq->n, i = 0;
        while (i < n && value_equal(w, a->seq->items[i], b->seq->items[i]))
            i++;
        if (i < n)
            order = value_compare(w, a->seq->items[i], b->seq->items[i], op);
        else
            order = (a->seq->n > b->seq->n) - (a->seq->n < b->seq->n);
        work_leave(w);
        return order;
    }
    work_fail(w, "'%s' not supported between instances of '%s' and '%s'", op,
              value_type_name(a), value_type_name(b));
}

bool value_iterable(const struct value *v)
{
    return v->type == VALUE_STRING || v->type == VALUE_SEQ || v->type == VALUE_DICT ||
           v->type == VALUE_UNDEFINED;
}

struct items value_items(struct work *w, const struct value *v)
{
    struct items items = {NULL, 0};
    switch (v->type) {
    case VALUE_UNDEFINED: return items;
    case VALUE_SEQ: {
        struct seq *seq = v->seq;
        items.at = seq->items;
        items.n = seq->n;
        if (seq->kind == SEQ_GENERATOR) {
            if (seq->next) items.at += seq->next;
            items.n -= seq->next;
            seq->next = seq->n;
        }
        break;
    }
    case VALUE_DICT: {
        const struct value **keys = work_zalloc(w, v->dict->n, sizeof *keys);
        for (size_t i = 0; i < v->dict->n; i++)
            keys[i] = v->dict->entries[i].key;
        items.at = keys;
        items.n = v->dict->n;
        break;
    }
    case VALUE_STRING: {
        size_t n = text_n_chars(v->text), at = 0;
        const struct value **chars = work_zalloc(w, n, sizeof *chars);
        for (size_t i = 0; i < n; i++) {
            size_t len = text_char_len(v->text, at);
            chars[i] = value_make_text(w, text_slice(v->text, at, at + len));
            at += len;
        }
        items.at = chars;
        items.n = n;
        break;
    }
    default: work_fail(w, "'%s' object is not iterable", value_type_name(v));
    }
    work_burn(w, items.n / 4 + 1);
    return items;
}
