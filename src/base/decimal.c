#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void decimal_shortest(char out[DECIMAL_BYTES], double f)
{
    if (isnan(f) || isinf(f)) {
        snprintf(out, DECIMAL_BYTES, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    char shortest[DECIMAL_BYTES];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(shortest, sizeof shortest, "%.*e", digits - 1, f);
        if (strtod(shortest, NULL) == f) break;
    }
    /* d.ddde±xx: the digits and the exponent, laid out again. */
    char digits[24], *e = strchr(shortest, 'e'), *p = shortest, *o = out;
    int exponent = atoi(e + 1), n = 0;
    if (*p == '-') *o++ = *p++;
    for (; p < e; p++)
        if (*p != '.') digits[n++] = *p;
    digits[n] = 0;
    const size_t room = sizeof shortest - 1;
    if (exponent < -4 || exponent >= 16)
        snprintf(o, room, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1,
                 exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(o, room, "0.%.*s%s", -exponent - 1, "0000", digits);
    else if (exponent >= n - 1)
        snprintf(o, room, "%s%.*s.0", digits, exponent - n + 1, "0000000000000000");
    else
        snprintf(o, room, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
}
