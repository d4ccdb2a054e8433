#include "template/case.h"

#include <utf8proc.h>

static bool is_upper(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_LU;
}

static bool is_lower(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_LL;
}

static void put(struct builder *b, uint32_t cp, enum case_map map)
{
    if (map == CASE_SWAP) map = is_upper(cp) ? CASE_LOWER : CASE_UPPER;
    if (cp == 0xDF && map != CASE_LOWER)
        builder_puts(b, map == CASE_UPPER ? "SS" : "Ss");
    else if (map == CASE_UPPER)
        builder_put_char(b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
    else if (map == CASE_TITLE)
        builder_put_char(b, (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
    else
        builder_put_char(b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

struct text case_map(struct work *w, struct text t, enum case_map map)
{
    struct builder b;
    builder_init(&b, w);
    size_t len;
    for (size_t at = 0; at < t.len; at += len)
        put(&b, text_char(t, at, &len), map);
    return builder_take(&b);
}

struct text case_first(struct work *w, struct text t, enum case_map first)
{
    struct builder b;
    builder_init(&b, w);
    size_t len;
    for (size_t at = 0; at < t.len; at += len)
        put(&b, text_char(t, at, &len), at ? CASE_LOWER : first);
    return builder_take(&b);
}

struct text case_title(struct work *w, struct text t)
{
    struct builder b;
    builder_init(&b, w);
    bool inside = false;
    size_t len;
    for (size_t at = 0; at < t.len; at += len) {
        uint32_t cp = text_char(t, at, &len);
        put(&b, cp, inside ? CASE_LOWER : CASE_TITLE);
        inside = is_upper(cp) || is_lower(cp);
    }
    return builder_take(&b);
}

bool char_is_alpha(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool char_is_digit(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND;
}

bool char_is_name(uint32_t cp)
{
    if (cp < 0x80)
        return cp == '_' || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') ||
               (cp >= '0' && cp <= '9');
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return char_is_alpha(cp) || char_is_digit(cp) || cp == 0xB7;
    }
}

bool case_is(struct work *w, struct text t, enum case_map map)
{
    bool cased = false;
    work_burn_lookups(w, t.len);
    size_t len;
    for (size_t at = 0; at < t.len; at += len) {
        uint32_t cp = text_char(t, at, &len);
        if (map == CASE_UPPER ? is_lower(cp) : is_upper(cp)) return false;
        cased = cased || is_lower(cp) || is_upper(cp);
    }
    return cased;
}
