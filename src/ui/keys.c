/* The sequences of the terminals in use: xterm and its kin in both cursor key modes, the Linux
 * console, rxvt. */
#include "ui/keys.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "ui/charset.h"
#include "ui/key_bytes.h"

enum { MAX_SEQUENCES = 4 };
/* After Esc the rest of a sequence is there at once; even over a slow line it is after this. */
enum { ESC_MS = 50 };

static const struct {
    const char *name, *sequences[MAX_SEQUENCES];
} table[] = {
    {"Up", {"\033[A", "\033OA"}},
    {"Down", {"\033[B", "\033OB"}},
    {"Right", {"\033[C", "\033OC"}},
    {"Left", {"\033[D", "\033OD"}},
    {"Home", {"\033[H", "\033OH", "\033[1~", "\033[7~"}},
    {"End", {"\033[F", "\033OF", "\033[4~", "\033[8~"}},
    {"PgUp", {"\033[5~"}},
    {"PgDn", {"\033[6~"}},
    {"F1", {"\033OP", "\033[11~", "\033[[A"}},
    {"F2", {"\033OQ", "\033[12~", "\033[[B"}},
    {"F3", {"\033OR", "\033[13~", "\033[[C"}},
    {"F4", {"\033OS", "\033[14~", "\033[[D"}},
    {"F5", {"\033[15~", "\033[[E"}},
    {"F6", {"\033[17~"}},
    {"Paste", {"\033[200~"}},
};
#define N_KEYS (sizeof table / sizeof *table)

const char *key_sequence(const char *name, size_t n, size_t i)
{
    for (size_t k = 0; k < N_KEYS; k++)
        if (strlen(table[k].name) == n && memcmp(table[k].name, name, n) == 0)
            return i < MAX_SEQUENCES ? table[k].sequences[i] : NULL;
    return NULL;
}

bool key_is_in(const char *key, const char *list)
{
    for (size_t n; *key && *list; list += n + (list[n] ? 2 : 0)) {
        n = strcspn(list, ",");
        if (n == 0) n = 1; /* the key of that name */
        if (strlen(key) == n && memcmp(key, list, n) == 0) return true;
    }
    return false;
}

static const char *name_of(const char *sequence)
{
    for (size_t k = 0; k < N_KEYS; k++)
        for (size_t i = 0; i < MAX_SEQUENCES && table[k].sequences[i]; i++)
            if (strcmp(table[k].sequences[i], sequence) == 0) return table[k].name;
    return NULL;
}

/* A sequence is over at the byte that may end it, by ECMA-48; "ESC [ [ A" is Linux's own. */
static bool is_over(const char *s, size_t n, char c)
{
    bool is_linux = n == 2 && s[1] == '[' && c == '[';
    return n >= 2 && c >= 0x40 && !is_linux;
}

/* Whether c can stand behind the first n bytes of a sequence. */
static bool belongs(size_t n, char c)
{
    return n == 1 ? c == '[' || c == 'O' : c >= 0x20 && c <= 0x7e;
}

/* Behind Esc. What cannot belong to it is another key, typed in haste. A sequence longer than
 * all that have names is read to its end, too. */
static void read_sequence(char name[KEY_NAME_MAX])
{
    char s[32] = "\033", c;
    size_t n = 1;
    bool over = false;
    while (!over && key_bytes_next(ESC_MS, &c) > 0) {
        if (!belongs(n, c)) {
            key_bytes_put_first(&c, 1);
            break;
        }
        over = is_over(s, n, c);
        if (n < sizeof s - 1) s[n++] = c;
    }
    s[n] = '\0';
    if (n == 2) key_bytes_put_first(&s[1], 1);
    const char *known = n <= 2 ? "Esc" : name_of(s);
    snprintf(name, KEY_NAME_MAX, "%s", known ? known : "");
}

/* A character of the terminal's set. What is none has no name, and takes nothing with it. */
static void read_char(char first, char name[KEY_NAME_MAX])
{
    char s[MB_LEN_MAX] = {first};
    size_t n = 1;
    int len = charset_char(s, n);
    while (len < 0 && n < sizeof s && key_bytes_next(ESC_MS, &s[n]) > 0) {
        len = charset_char(s, n + 1);
        if (len == 0)
            key_bytes_put_first(&s[n], 1);
        else
            n++;
    }
    struct buf utf8 = {0};
    uint32_t cp;
    if (len > 0) charset_take(s, n, &utf8);
    if (utf8.len > 0 && utf8.len < KEY_NAME_MAX && utf8_decode(utf8.data, utf8.len, &cp) > 0 &&
        (printable_char(cp) || printable_is_joiner(cp)))
        strcpy(name, utf8.data);
    buf_free(&utf8);
}

bool keys_read(char name[KEY_NAME_MAX])
{
    char c;
    int got = key_bytes_next(0, &c);
    name[0] = '\0';
    if (got <= 0) return got < 0;
    unsigned u = (unsigned char)c;
    if (c == '\033')
        read_sequence(name);
    else if (c == '\r' || c == '\n')
        strcpy(name, "Enter");
    else if (c == 0x7f || c == '\b')
        strcpy(name, "Backspace");
    else if (c == ' ')
        strcpy(name, "Space");
    else if (u < 0x20)
        snprintf(name, KEY_NAME_MAX, "C-%c", u - 1 < 26 ? u + 0x60 : u + 0x40);
    else
        read_char(c, name);
    return true;
}
