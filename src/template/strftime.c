/* The time as strftime_now writes it, in the C locale. */
#include <locale.h>
#include <time.h>

#include "template/builtins.h"

/* Formats one directive such as "%d" or "%-d" in the C locale: model files expect English
 * names, whatever the terminal speaks. */
static size_t one_directive(char *out, size_t size, const char *directive, const struct tm *t)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0) return 0;
    size_t n = strftime_l(out, size, directive, t, c);
    freelocale(c);
    return n;
}

struct text strftime_text(struct work *w, struct text format, const struct tm *t)
{
    struct builder b;
    builder_init(&b, w);
    size_t done = 0, at;
    while ((at = text_find(format, text_literal("%"), done)) != TEXT_NONE) {
        builder_add(&b, text_plain(text_slice(format, done, at)));
        char directive[8] = "%", out[256];
        size_t n = 1;
        /* Flags and modifiers of glibc, then the letter. */
        for (at++; at < format.len && n < 6; at++) {
            directive[n++] = format.data[at];
            if (!format.data[at] || !strchr("-_0^#EO", format.data[at])) break;
        }
        directive[n] = 0;
        char letter = directive[n - 1];
        done = at < format.len ? at + 1 : format.len;
        work_burn(w, 16);
        if (letter == 'f')
            builder_puts(&b, "000000");          /* a whole second */
        else if (letter != 'z' && letter != 'Z') /* the time has no zone */
            builder_add_bytes(&b, out, one_directive(out, sizeof out, directive, t),
                              ORIGIN_USER);
    }
    builder_add(&b, text_plain(text_slice(format, done, format.len)));
    return builder_take(&b);
}
