#include "base/err.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"

/* Longer than the message, so that a cut shows. */
enum { RAW_BYTES = sizeof((struct err *)0)->msg + 8 };

void err_write(struct err *err, enum err_code code, const char *fmt, ...)
{
    char raw[RAW_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    err->code = code;
    printable(err->msg, sizeof err->msg, raw, strlen(raw));
}

void err_write_prefix(struct err *err, const char *fmt, ...)
{
    char raw[RAW_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    size_t n = strlen(raw);
    snprintf(raw + n, sizeof raw - n, ": %s", err->msg);
    printable(err->msg, sizeof err->msg, raw, strlen(raw));
}
