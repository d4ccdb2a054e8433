/* Ollama's manifests are anybody's JSON: a digest that comes out of one is 64 hexadecimal
 * digits, whatever went in; settings of one are settings that the options read or refuse. And
 * any name can be asked about. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/discover.h"
#include "chat/modelfile.h"
#include "target.h"

/* Each line that comes of them sets an option or is told of. */
static void apply_settings(const char *json, size_t n_bytes)
{
    struct buf lines = {0}, left_out = {0}, notes = {0};
    const bool ok = modelfile_settings(json, n_bytes, &lines, &left_out);
    if (!ok && lines.len + left_out.len > 0) abort();
    struct options *o = options_new();
    o->listed.settings = buf_take(&lines);
    options_apply_listed(o, &notes);
    options_forget_model(o);
    options_free(o);
    buf_free(&left_out);
    buf_free(&notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    for (int part = 0; part < N_FOUND_PARTS; part++) {
        char digest[65] = "";
        if (discover_digest((const char *)data, n_bytes, (enum found_part)part, digest) &&
            (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64))
            abort();
    }
    apply_settings((const char *)data, n_bytes);
    char *name = mem_strndup((const char *)data, n_bytes);
    discover_is_model_name(name);
    free(name);
    return 0;
}
