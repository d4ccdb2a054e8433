#include "text/spm.h"

#include "base/cancel.h"
#include "text/merge.h"
#include "text/vocab.h"

static bool lookup(const void *ctx, const char *text, const struct symbol *l,
                   const struct symbol *r, uint32_t *rank, int32_t *id)
{
    const struct vocab *v = ctx;
    *id = vocab_find_plain(v, text + l->start, (size_t)l->len + r->len);
    if (*id < 0) return false;
    *rank = v->order[*id];
    return true;
}

void spm_encode(const struct vocab *v, const char *text, size_t len, struct merger *scratch,
                struct ids *out)
{
    for (size_t at = 0; at < len && !cancel_is_set(scratch->cancel);) {
        merger_start(scratch);
        at = merger_add_stretch(scratch, v, text, at, len);
        merger_run(scratch, text, lookup, v);
        merger_emit(scratch, v, text, out);
    }
}
