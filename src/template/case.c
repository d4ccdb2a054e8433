#include "template/case.h"

#include <utf8proc.h>

/* What no character has more of, in upper case or folded. */
enum { MAX_PARTS = 4 };
enum { CAPITAL_SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, IOTA = 0x3B9, IOTA_BELOW = 0x345 };

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

static uint32_t simple_upper(uint32_t cp)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}

static uint32_t simple_lower(uint32_t cp)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

static uint32_t simple_title(uint32_t cp)
{
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
}

/* Numerals and letters in circles have cases, too, without being letters. */
static bool is_upper(uint32_t cp)
{
    const utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || (c > UTF8PROC_CATEGORY_LT && simple_lower(cp) != cp);
}

static bool is_lower(uint32_t cp)
{
    const utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LL || (c > UTF8PROC_CATEGORY_LT && simple_upper(cp) != cp);
}

static bool is_cased(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LT || is_upper(cp) || is_lower(cp);
}

/* What does not end a word, with or without a case of its own: Case_Ignorable of the Unicode
 * Standard, section 3.13. */
static bool is_passed_over(uint32_t cp)
{
    static const uint16_t signs[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                     0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                     0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (cp == signs[i]) return true;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
    }
}

/* ---- Mapping ---- */

/* The characters that cp is, case folded: itself at least. */
static size_t fold(uint32_t cp, uint32_t parts[MAX_PARTS])
{
    utf8proc_int32_t folded[MAX_PARTS];
    int unused = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, folded, MAX_PARTS,
                                                       UTF8PROC_CASEFOLD, &unused);
    parts[0] = cp;
    if (n < 1 || n > MAX_PARTS) return 1;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        parts[i] = (uint32_t)folded[i];
    return (size_t)n;
}

/* What is no capital and folds to several letters is their capitals in upper case; all of
 * SpecialCasing.txt that does not ask for a language is so. */
static void put_upper(struct builder *b, uint32_t cp)
{
    uint32_t parts[MAX_PARTS];
    const size_t n = category(cp) == UTF8PROC_CATEGORY_LU ? 1 : fold(cp, parts);
    if (n == 1) parts[0] = cp;
    for (size_t i = 0; i < n; i++)
        builder_put_char(b, simple_upper(parts[i]));
}

/* The same with the first a capital, where there is not one character for that. */
static void put_title(struct builder *b, uint32_t cp)
{
    uint32_t parts[MAX_PARTS];
    const uint32_t one = simple_title(cp);
    const size_t n =
        category(one) == UTF8PROC_CATEGORY_LT || category(cp) == UTF8PROC_CATEGORY_LU
            ? 1
            : fold(cp, parts);
    builder_put_char(b, n == 1 ? one : simple_title(parts[0]));
    for (size_t i = 1; i < n; i++)
        builder_put_char(b, parts[i] == IOTA ? IOTA_BELOW : parts[i]);
}

static void put_folded(struct builder *b, uint32_t cp)
{
    uint32_t parts[MAX_PARTS];
    const size_t n = fold(cp, parts);
    for (size_t i = 0; i < n; i++)
        builder_put_char(b, parts[i]);
}

/* Whether a word goes on at `at`. */
static bool goes_on(struct text t, size_t at)
{
    size_t len;
    for (; at < t.len; at += len) {
        const uint32_t cp = text_char(t, at, &len);
        if (!is_passed_over(cp)) return is_cased(cp);
    }
    return false;
}

/* A text that is being mapped: where in it, and whether a cased letter is before that, maybe
 * with what does not end a word behind. */
struct mapping {
    struct builder b;
    struct text t;
    size_t at;
    bool in_word;
};

static void put_lower(struct mapping *m, uint32_t cp, size_t len)
{
    if (cp == CAPITAL_SIGMA && m->in_word && !goes_on(m->t, m->at + len))
        builder_put_char(&m->b, FINAL_SIGMA);
    else if (cp == 0x130) /* I with a dot, which it keeps */
        put_folded(&m->b, cp);
    else
        builder_put_char(&m->b, simple_lower(cp));
}

static void put(struct mapping *m, uint32_t cp, size_t len, enum case_map map)
{
    if (map == CASE_SWAP && is_upper(cp))
        map = CASE_LOWER;
    else if (map == CASE_SWAP && is_lower(cp))
        map = CASE_UPPER;
    switch (map) {
    case CASE_UPPER: put_upper(&m->b, cp); break;
    case CASE_LOWER: put_lower(m, cp, len); break;
    case CASE_TITLE: put_title(&m->b, cp); break;
    case CASE_FOLD: put_folded(&m->b, cp); break;
    case CASE_SWAP: builder_put_char(&m->b, cp); break;
    }
}

/* Mapped, the first character of the text, or of each word, like `first`. */
static struct text map_text(struct work *w, struct text t, enum case_map first,
                            enum case_map others, bool by_word)
{
    struct mapping m = {.t = t};
    builder_init(&m.b, w);
    work_burn_lookups(w, t.len);
    bool is_inside = false;
    for (size_t len; m.at < t.len; m.at += len) {
        const uint32_t cp = text_char(t, m.at, &len);
        put(&m, cp, len, is_inside ? others : first);
        const bool cased = is_cased(cp);
        is_inside = cased || !by_word;
        if (!is_passed_over(cp)) m.in_word = cased;
    }
    return builder_take(&m.b);
}

struct text case_map(struct work *w, struct text t, enum case_map map)
{
    return map_text(w, t, map, map, false);
}

struct text case_capitalize(struct work *w, struct text t)
{
    return map_text(w, t, CASE_TITLE, CASE_LOWER, false);
}

struct text case_title(struct work *w, struct text t)
{
    return map_text(w, t, CASE_TITLE, CASE_LOWER, true);
}

/* ---- Asking ---- */

bool char_is_alpha(uint32_t cp)
{
    const utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool char_is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

int char_decimal(uint32_t cp)
{
    if (!char_is_decimal(cp)) return -1;
    int before = 0;
    while (char_is_decimal(cp - 1 - (uint32_t)before))
        before++;
    return before % 10;
}

bool char_is_digit(uint32_t cp)
{
    static const uint32_t others[][2] = {
        {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
        {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
        {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
        {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
        {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (cp >= others[i][0] && cp <= others[i][1]) return true;
    return char_is_decimal(cp);
}

bool char_is_number(uint32_t cp)
{
    const utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool char_is_alnum(uint32_t cp)
{
    return char_is_alpha(cp) || char_is_number(cp);
}

bool char_is_name(uint32_t cp)
{
    if (cp < 0x80)
        return cp == '_' || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') ||
               (cp >= '0' && cp <= '9');
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return char_is_alpha(cp) || char_is_decimal(cp) || cp == 0xB7;
    }
}

bool case_is(struct work *w, struct text t, enum case_map map)
{
    bool cased = false;
    work_burn_lookups(w, t.len);
    size_t len;
    for (size_t at = 0; at < t.len; at += len) {
        uint32_t cp = text_char(t, at, &len);
        if (category(cp) == UTF8PROC_CATEGORY_LT) return false; /* of both, or neither */
        if (map == CASE_UPPER ? is_lower(cp) : is_upper(cp)) return false;
        cased = cased || is_cased(cp);
    }
    return cased;
}
