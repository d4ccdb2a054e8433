/* The configuration over any bytes: what is read keeps its promises (names, profiles, lines in
 * order), and what its values make of the options is the same after --print-config and back. */
#include <assert.h>
#include <string.h>

#include "config/ini.h"
#include "config/options.h"
#include "target.h"

static void check_entries(const struct ini *ini)
{
    size_t n;
    const struct ini_entry *entries = ini_entries(ini, &n);
    int line = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ini_entry *e = &entries[i];
        assert(e->line > line);
        line = e->line;
        assert(ini_is_name(e->key, strlen(e->key)));
        assert(strlen(e->value) <= INI_MAX_LINE_BYTES);
        bool found = !e->profile;
        for (size_t k = 0; k < ini_n_profiles(ini); k++)
            found = found || strcmp(ini_profile(ini, k), e->profile) == 0;
        assert(found);
    }
}

/* Values that cannot be used are left out. */
static void apply(const struct ini *ini, struct options *o)
{
    size_t n;
    const struct ini_entry *entries = ini_entries(ini, &n);
    for (size_t i = 0; i < n; i++) {
        const struct option_row *row = option_find(entries[i].key);
        struct err err;
        if (!row || (row->flags & OPTION_NO_KEY)) continue;
        options_give(o, option_id(row), FROM_HEARTH, entries[i].line, entries[i].value, &err);
    }
}

static bool has_key(const struct ini *ini, const char *key)
{
    size_t n;
    const struct ini_entry *entries = ini_entries(ini, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(entries[i].key, key) == 0) return true;
    return false;
}

static void check_round_trip(const struct options *o)
{
    struct err err;
    struct buf text = {0};
    options_print_config(o, &text);
    struct ini *ini = ini_parse(buf_str(&text), text.len, "printed", &err);
    assert(ini);
    struct options *again = options_new();
    apply(ini, again);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        /* What no line can hold is a comment there. */
        if (!has_key(ini, option_row((enum option_id)i)->name)) continue;
        struct buf a = {0}, b = {0};
        option_value(o, (enum option_id)i, &a);
        option_value(again, (enum option_id)i, &b);
        assert(strcmp(buf_str(&a), buf_str(&b)) == 0);
        buf_free(&a);
        buf_free(&b);
    }
    options_free(again);
    ini_free(ini);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct err err;
    struct ini *ini = ini_parse((const char *)data, n_bytes, "fuzz", &err);
    if (!ini) {
        must_be_refusal(&err);
        assert(strncmp(err.msg, "fuzz:", 5) == 0);
        return 0;
    }
    check_entries(ini);
    struct options *o = options_new();
    apply(ini, o);
    check_round_trip(o);
    options_free(o);
    ini_free(ini);
    return 0;
}
