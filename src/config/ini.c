#include "config/ini.h"

#include <errno.h>
#include <fcntl.h>
#include <iniparser/iniparser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "config/paths.h"

enum { MAX_FILE_BYTES = 1 << 20 };

/* Stand for what is special on the way through libiniparser: it has no escapes up to 4.1, and
 * from 4.2 on every backslash between quotes begins one. The checker lets no control character
 * of the file through. */
enum { MARK_NEWLINE = 1, MARK_TAB = 2, MARK_QUOTE = 3, MARK_BACKSLASH = 4 };

struct ini {
    struct ini_entry *entries;
    size_t n, cap;
    char **profiles;
    int *profile_lines;
    size_t n_profiles, profiles_cap;
    int hearth_line; /* of the section [hearth]; 0: none yet */
};

/* The checker's place in the file. */
struct checker {
    struct ini *ini;
    const char *name;
    int line;            /* where the current logical line begins */
    const char *profile; /* of the current section */
    struct buf plain;    /* what libiniparser gets */
    struct err *err;
};

static bool fail(struct checker *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(struct checker *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct buf msg = {0};
    buf_vprintf(&msg, fmt, ap);
    va_end(ap);
    err_set(c->err, ERR_USER, "%s:%d: %s", c->name, c->line, buf_str(&msg));
    buf_free(&msg);
    return false;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && blank(*p))
        p++;
    return p;
}

static const char *trim_end(const char *start, const char *end)
{
    while (end > start && blank(end[-1]))
        end--;
    return end;
}

static char *lower_copy(const char *p, size_t n)
{
    char *s = mem_strndup(p, n);
    for (char *q = s; *q; q++)
        *q = ascii_lower(*q);
    return s;
}

bool ini_is_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
        if (!ok) return false;
    }
    return n > 0;
}

/* ---- Lines ---- */

static bool add_profile(struct checker *c, const char *start, const char *end)
{
    struct ini *ini = c->ini;
    char shown[80];
    size_t n = (size_t)(end - start);
    if (!ini_is_name(start, n))
        return fail(c, "a profile's name has letters, digits, '.', '_' and '-', found '%s'",
                    printable(shown, sizeof shown, start, n));
    char *name = lower_copy(start, n);
    for (size_t i = 0; i < ini->n_profiles; i++) {
        if (strcmp(ini->profiles[i], name) != 0) continue;
        fail(c, "[profile %s] is there twice, first in line %d", name, ini->profile_lines[i]);
        free(name);
        return false;
    }
    size_t cap = ini->profiles_cap;
    MEM_GROW(ini->profiles, ini->n_profiles, cap);
    MEM_GROW(ini->profile_lines, ini->n_profiles, ini->profiles_cap);
    ini->profile_lines[ini->n_profiles] = c->line;
    ini->profiles[ini->n_profiles++] = name;
    c->profile = name;
    buf_printf(&c->plain, "[profile %s]\n", name);
    return true;
}

/* p is behind the "[". */
static bool check_section(struct checker *c, const char *p, const char *end)
{
    const char *close = memchr(p, ']', (size_t)(end - p));
    if (!close) return fail(c, "expected ']' at the end of the section's name");
    const char *rest = skip_blanks(close + 1, end);
    if (rest < end && *rest != '#' && *rest != ';')
        return fail(c, "expected nothing after ']'");
    p = skip_blanks(p, close);
    end = trim_end(p, close);
    size_t n = (size_t)(end - p);
    if (n == 6 && ascii_same_n(p, "hearth", 6)) {
        if (c->ini->hearth_line)
            return fail(c, "[hearth] is there twice, first in line %d", c->ini->hearth_line);
        c->ini->hearth_line = c->line;
        c->profile = NULL;
        buf_puts(&c->plain, "[hearth]\n");
        return true;
    }
    if (n > 7 && ascii_same_n(p, "profile", 7) && blank(p[7]))
        return add_profile(c, skip_blanks(p + 7, end), end);
    char shown[80];
    return fail(c, "unknown section [%s], expected [hearth] or [profile NAME]",
                printable(shown, sizeof shown, p, n));
}

/* Takes the value p..end apart and appends it as libiniparser is to read it, between double
 * quotes. */
static bool check_value(struct checker *c, const char *p, const char *end)
{
    struct buf *out = &c->plain;
    char quote = p < end && (*p == '"' || *p == '\'') ? *p++ : '\0';
    bool closed = false;
    const char *kept = p; /* behind the last byte of an unquoted value that is not blank */
    if (!quote) {
        for (const char *q = p; q < end; q++) {
            if (*q == '#' || *q == ';') {
                if (q > p && !blank(q[-1]))
                    return fail(c,
                                "'%c' begins a comment; put the value in quotes, or a space "
                                "before the comment",
                                *q);
                break;
            }
            if (!blank(*q)) kept = q + 1;
        }
        end = kept;
    }
    for (; p < end && !closed; p++) {
        char ch = *p;
        if (quote && ch == quote) {
            closed = true;
            continue;
        }
        if (quote == '"' && ch == '\\') {
            p++;
            char next = p < end ? *p : '\0';
            ch = next == 'n' ? MARK_NEWLINE : next == 't' ? MARK_TAB : next;
            if (ch == next && ch != '"' && ch != '\\')
                return fail(c,
                            "unknown escape in double quotes: there are \\\\, \\\", \\n, \\t");
        } else if (ch == '\t') {
            ch = MARK_TAB;
        }
        buf_putc(out, ch == '"' ? MARK_QUOTE : ch == '\\' ? MARK_BACKSLASH : ch);
    }
    if (!quote) return true;
    if (!closed) return fail(c, "the quote %c is not closed", quote);
    p = skip_blanks(p, end);
    if (p < end && *p != '#' && *p != ';')
        return fail(c, "expected nothing after the closing quote");
    return true;
}

static bool check_pair(struct checker *c, const char *p, const char *end)
{
    char shown[80];
    const char *equals = memchr(p, '=', (size_t)(end - p));
    if (!equals)
        return fail(c, "expected KEY = VALUE, found '%s'",
                    printable(shown, sizeof shown, p, (size_t)(end - p)));
    const char *key_end = trim_end(p, equals);
    size_t n = (size_t)(key_end - p);
    if (n == 0) return fail(c, "expected a key before '='");
    if (!ini_is_name(p, n))
        return fail(c, "unknown key %s", printable(shown, sizeof shown, p, n));

    struct ini *ini = c->ini;
    char *key = lower_copy(p, n);
    for (size_t i = 0; i < ini->n; i++) {
        if (ini->entries[i].profile != c->profile || strcmp(ini->entries[i].key, key) != 0)
            continue;
        fail(c, "%s is set twice, first in line %d", key, ini->entries[i].line);
        free(key);
        return false;
    }
    MEM_GROW(ini->entries, ini->n, ini->cap);
    ini->entries[ini->n++] = (struct ini_entry){c->profile, key, NULL, c->line};

    /* libiniparser holds lines of 1023 bytes: INI_MAX_LINE_BYTES, the spaces and the quotes. */
    buf_printf(&c->plain, "%s = \"", key);
    if (!check_value(c, skip_blanks(equals + 1, end), end)) return false;
    buf_puts(&c->plain, "\"\n");
    return true;
}

static bool check_line(struct checker *c, const char *p, size_t n)
{
    const char *end = p + n;
    p = skip_blanks(p, end);
    end = trim_end(p, end);
    if (p == end || *p == '#' || *p == ';') return true;
    if (*p == '[') return check_section(c, p + 1, end);
    /* Keys before the first section belong to [hearth]. */
    if (!c->profile && !c->ini->hearth_line) {
        c->ini->hearth_line = c->line;
        buf_puts(&c->plain, "[hearth]\n");
    }
    return check_pair(c, p, end);
}

/* ---- The file ---- */

static bool check_bytes(struct checker *c, const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(p + i, n - i, &cp);
        if (len <= 0) return fail(c, "not valid UTF-8: byte 0x%02x", (unsigned)(uint8_t)p[i]);
        if ((cp < 0x20 && cp != '\t') || cp == 0x7f)
            return fail(c, "a control character: 0x%02x", (unsigned)cp);
        i += (size_t)len;
    }
    return true;
}

/* Whether the line goes on: it ends in an odd number of backslashes. A comment does not; behind
 * a line that went on nothing is one. */
static bool is_continued(const char *p, size_t n, bool is_rest)
{
    const char *first = skip_blanks(p, p + n);
    if (!is_rest && (first == p + n || *first == '#' || *first == ';')) return false;
    size_t backslashes = 0;
    while (backslashes < n && p[n - 1 - backslashes] == '\\')
        backslashes++;
    return backslashes % 2 == 1;
}

/* Splits the text into lines, joins those that end in a backslash, and checks each. */
static bool check_text(struct checker *c, const char *text, size_t n)
{
    const char *p = text, *end = text + n;
    p += utf8_mark(text, n);
    struct buf joined = {0};
    bool ok = true, continued = false;
    int first = 1; /* of the logical line */
    for (int number = 1; ok && p < end; number++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *next = newline ? newline + 1 : end;
        const char *stop = newline ? newline : end;
        if (stop > p && stop[-1] == '\r') stop--;
        c->line = number;
        ok = check_bytes(c, p, (size_t)(stop - p));
        if (!ok) break;
        if (continued) p = skip_blanks(p, stop);
        size_t len = (size_t)(stop - p);
        bool goes_on = is_continued(p, len, continued);
        buf_append(&joined, p, goes_on ? len - 1 : len);
        if (!continued) first = number;
        c->line = first;
        p = next;
        continued = goes_on;
        if (joined.len > INI_MAX_LINE_BYTES) {
            ok = fail(c,
                      "a line of more than %d bytes (a long system message can stand in a "
                      "file: system = @FILE)",
                      INI_MAX_LINE_BYTES);
        } else if (goes_on && p >= end) {
            ok = fail(c, "the last line ends in a backslash");
        } else if (!goes_on) {
            ok = check_line(c, buf_str(&joined), joined.len);
            buf_clear(&joined);
        }
    }
    buf_free(&joined);
    return ok;
}

static int ignore_message(const char *fmt, ...)
{
    (void)fmt;
    return 0;
}

/* libiniparser only reads files it can name: one in memory, or where there is no /proc one in
 * $TMPDIR that is gone at once. */
static dictionary *load_plain(const struct buf *plain)
{
    char path[4096];
    bool on_disk = false;
    int fd = memfd_create("hearth.ini", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || access(path, R_OK) != 0) {
        if (fd >= 0) close(fd);
        snprintf(path, sizeof path, "%s/hearth-ini-XXXXXX", paths_temporary());
        fd = mkstemp(path);
        on_disk = true;
    }
    if (fd < 0) return NULL;
    bool ok = file_write_fd(fd, plain->data, plain->len);
    iniparser_set_error_callback(ignore_message);
    dictionary *d = ok ? iniparser_load(path) : NULL;
    close(fd);
    if (on_disk) unlink(path);
    return d;
}

static char *restore_marks(const char *value)
{
    char *s = mem_strdup(value);
    for (char *p = s; *p; p++) {
        switch (*p) {
        case MARK_NEWLINE: *p = '\n'; break;
        case MARK_TAB: *p = '\t'; break;
        case MARK_QUOTE: *p = '"'; break;
        case MARK_BACKSLASH: *p = '\\'; break;
        }
    }
    return s;
}

static bool read_values(struct ini *ini, const struct buf *plain, const char *name,
                        struct err *err)
{
    dictionary *d = load_plain(plain);
    if (!d) return err_set(err, ERR_IO, "%s: cannot be parsed: %s", name, strerror(errno));
    bool ok = true;
    for (size_t i = 0; ok && i < ini->n; i++) {
        struct ini_entry *e = &ini->entries[i];
        struct buf id = {0};
        if (e->profile)
            buf_printf(&id, "profile %s:%s", e->profile, e->key);
        else
            buf_printf(&id, "hearth:%s", e->key);
        const char *value = iniparser_getstring(d, buf_str(&id), NULL);
        buf_free(&id);
        if (value)
            e->value = restore_marks(value);
        else
            ok = err_set(err, ERR_USER, "%s:%d: %s has no value", name, e->line, e->key);
    }
    iniparser_freedict(d);
    return ok;
}

struct ini *ini_parse(const char *text, size_t n, const char *name, struct err *err)
{
    struct ini *ini = mem_zalloc(1, sizeof *ini);
    struct checker c = {.ini = ini, .name = name, .line = 1, .err = err};
    bool ok = check_text(&c, text, n) && (ini->n == 0 || read_values(ini, &c.plain, name, err));
    buf_free(&c.plain);
    if (ok) return ini;
    ini_free(ini);
    return NULL;
}

struct ini *ini_read(const char *path, const char *name, bool waits, bool *missing,
                     struct err *err)
{
    *missing = false;
    const bool is_stdin = waits && strcmp(path, "-") == 0;
    const int fd =
        is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | (waits ? 0 : O_NONBLOCK));
    if (fd < 0) {
        *missing = file_is_missing(errno);
        err_set(err, ERR_USER, "%s: %s", name, strerror(errno));
        return NULL;
    }
    struct stat st;
    struct buf text = {0};
    struct ini *ini = NULL;
    if (is_stdin && fcntl(fd, F_GETFL) < 0)
        err_set(err, ERR_USER, "%s: is not open for reading", name);
    else if (fstat(fd, &st) != 0)
        err_set(err, ERR_USER, "%s: %s", name, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set(err, ERR_USER, "%s: is a directory, expected an INI file", name);
    else if (!waits && S_ISFIFO(st.st_mode))
        err_set(err, ERR_USER, "%s: is a FIFO, expected an INI file; -c reads one", name);
    else if (file_read_fd(fd, name, MAX_FILE_BYTES, &text, err))
        ini = ini_parse(buf_str(&text), text.len, name, err);
    if (!is_stdin) close(fd);
    buf_free(&text);
    return ini;
}

void ini_free(struct ini *ini)
{
    if (!ini) return;
    for (size_t i = 0; i < ini->n; i++) {
        free((char *)(uintptr_t)ini->entries[i].key);
        free((char *)(uintptr_t)ini->entries[i].value);
    }
    for (size_t i = 0; i < ini->n_profiles; i++)
        free(ini->profiles[i]);
    free(ini->entries);
    free(ini->profiles);
    free(ini->profile_lines);
    free(ini);
}

const struct ini_entry *ini_entries(const struct ini *ini, size_t *n)
{
    *n = ini->n;
    return ini->entries;
}

size_t ini_n_profiles(const struct ini *ini)
{
    return ini->n_profiles;
}

const char *ini_profile(const struct ini *ini, size_t i)
{
    return ini->profiles[i];
}
