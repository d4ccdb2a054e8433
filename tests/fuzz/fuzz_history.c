/* The history file is anybody's: what becomes an entry of readline's is UTF-8 without a
 * C1 control, which readline would show as it is, and what is written of it reads as the same.
 */
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "target.h"
#include "ui/history.h"

static void check(const char *entry, struct buf *again)
{
    struct buf line = {0};
    if (!*entry || !utf8_valid(entry, strlen(entry))) abort();
    if (entry[strlen(entry) + 1] != '\0') abort(); /* where readline may look for words */
    for (const char *c = entry; *c; c++)           /* C1 is C2 80 to C2 9F */
        if (*c == '\xc2' && (unsigned char)c[1] < 0xa0) abort();
    history_encode(&line, entry);
    if (memchr(line.data, '\n', line.len)) abort();
    history_decode(again, line.data, line.len);
    if (strcmp(buf_str(again), entry) != 0) abort();
    buf_free(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct buf again = {0};
    using_history();
    stifle_history(HISTORY_MAX);
    history_take((const char *)data, n_bytes);
    HIST_ENTRY **list = history_list();
    for (int i = 0; list && list[i]; i++) {
        buf_clear(&again);
        check(list[i]->line, &again);
    }
    clear_history();
    buf_free(&again);
    return 0;
}
