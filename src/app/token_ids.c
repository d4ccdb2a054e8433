#include "app/token_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"

static const char between[] = " ,\t\r\n";

bool token_ids_parse(const char *s, size_t n_vocab, struct ids *out, struct err *err)
{
    for (;;) {
        s += strspn(s, between);
        if (!*s) return true;
        char *end, shown[40];
        const size_t len = strcspn(s, between);
        errno = 0;
        long id = strtol(s, &end, 10);
        if (end != s + len || errno || id < 0 || (size_t)id >= n_vocab)
            return err_set(err, ERR_USER, "'%s' is no token id below %zu",
                           printable(shown, sizeof shown, s, len), n_vocab);
        ids_push(out, (int32_t)id);
        s = end;
    }
}
