/* A line of --stdin jsonl is anybody's: a turn that comes out of one is UTF-8, and its id is
 * one short line of ASCII that goes into every event. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "ui/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct source_turn turn = {0};
    struct err err;
    if (source_parse((const char *)data, n_bytes, &turn, &err)) {
        if (!utf8_valid(buf_str(&turn.text), turn.text.len) || turn.id.len > 256) abort();
        for (size_t i = 0; i < turn.id.len; i++)
            if (turn.id.data[i] < ' ' || turn.id.data[i] > '~') abort();
    }
    source_turn_free(&turn);
    return 0;
}
