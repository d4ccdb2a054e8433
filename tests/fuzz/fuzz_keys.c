/* What a terminal sends, as keys with names: any bytes are read to the end, one by one, names
 * are text that can be shown, and neither a key nor a character takes the next one with it. The
 * first two bytes choose keys that stand before the rest. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <readline/readline.h>

#include "base/buf.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "target.h"
#include "ui/actions.h"
#include "ui/keys.h"

static void must_be_name(const char *key)
{
    const size_t n = strlen(key);
    must(n < KEY_NAME_MAX && (n == 0 || !strchr(key, ' ')));
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t cp;
        const int got = utf8_decode(key + i, n - i, &cp);
        must(got > 0 && printable_char(cp));
        len = (size_t)got;
    }
    if (n > 0) must(key_is_in(key, key));
    action_of_key(key);
}

/* The names of all keys that these bytes are, a line each. */
static void read_all(const char *s, size_t n, struct buf *names)
{
    static int fd = -1;
    char key[KEY_NAME_MAX];
    if (fd < 0) {
        fd = memfd_create("terminal", 0);
        must(fd >= 0 && (rl_instream = fdopen(fd, "r")));
    }
    must(ftruncate(fd, 0) == 0 && pwrite(fd, s, n, 0) == (ssize_t)n &&
         lseek(fd, 0, SEEK_SET) == 0);
    buf_clear(names);
    /* The byte behind the last key tells that the terminal is gone. */
    for (size_t n_keys = 0; keys_read(key); n_keys++) {
        must(n_keys < n);
        must_be_name(key);
        buf_printf(names, "%s\n", key);
    }
    must(lseek(fd, 0, SEEK_CUR) == (off_t)n);
}

/* A key, by number: its name, and one of its sequences. */
static const char *sequence(unsigned i, const char **name)
{
    static const char *const names[] = {"Up",  "Down", "Right", "Left", "Home",
                                        "End", "PgUp", "PgDn",  "F1",   "F2",
                                        "F3",  "F4",   "F5",    "F6",   "Paste"};
    const size_t n = sizeof names / sizeof *names;
    *name = names[i % n];
    const char *s = key_sequence(*name, strlen(*name), i / n % 4);
    return s ? s : key_sequence(*name, strlen(*name), 0);
}

/* Characters of a text without controls are its keys. */
static void check_text(const char *s, size_t n, const struct buf *names)
{
    struct buf want = {0};
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        const int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0 || cp < ' ' || cp == 0x7f) {
            buf_free(&want);
            return;
        }
        if (cp == ' ')
            buf_puts(&want, "Space");
        else if (printable_char(cp))
            buf_append(&want, s + i, (size_t)len);
        buf_putc(&want, '\n');
        i += (size_t)len;
    }
    must(strcmp(buf_str(&want), buf_str(names)) == 0);
    buf_free(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2 || n_bytes > 4096) return 0;
    const char *rest = (const char *)data + 2, *first, *second;
    const size_t n = n_bytes - 2;
    struct buf bytes = {0}, names = {0}, all = {0}, want = {0};
    read_all(rest, n, &names);
    check_text(rest, n, &names);
    /* A known key, then a character: what follows is what it is without them. */
    buf_puts(&bytes, sequence(data[0], &first));
    buf_puts(&bytes, data[1] & 1 ? "é" : "x");
    buf_puts(&bytes, sequence(data[1], &second));
    buf_append(&bytes, rest, n);
    buf_printf(&want, "%s\n%s\n%s\n%s", first, data[1] & 1 ? "é" : "x", second,
               buf_str(&names));
    read_all(bytes.data, bytes.len, &all);
    must(strcmp(buf_str(&want), buf_str(&all)) == 0);
    /* And a character that is cut off leaves the next one alone. */
    buf_clear(&bytes);
    buf_puts(&bytes, data[0] & 1 ? "\xc3q" : "\xe2\x82q");
    buf_append(&bytes, rest, n);
    buf_clear(&want);
    buf_printf(&want, "\nq\n%s", buf_str(&names));
    read_all(bytes.data, bytes.len, &all);
    must(strcmp(buf_str(&want), buf_str(&all)) == 0);
    buf_free(&bytes);
    buf_free(&names);
    buf_free(&all);
    buf_free(&want);
    return 0;
}
