#include "base/err.h"

#include <stdio.h>
#include <string.h>

#include "base/printable.h"

void err_write(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
}

void err_write_prefix(struct err *err, const char *fmt, ...)
{
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);

    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %.*s", (int)sizeof err->msg - n,
                 old);
}
