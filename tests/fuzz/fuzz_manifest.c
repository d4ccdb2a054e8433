/* Ollama's manifests are anybody's JSON: a digest that comes out of one is 64 hexadecimal
 * digits, whatever went in. And any name can be asked about. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/discover.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    for (int layer = LAYER_WEIGHTS; layer <= LAYER_ADAPTER; layer++) {
        char digest[65] = "";
        if (discover_digest((const char *)data, n_bytes, (enum discover_layer)layer, digest) &&
            (strlen(digest) != 64 || strspn(digest, "0123456789abcdef") != 64))
            abort();
    }
    char *name = mem_strndup((const char *)data, n_bytes);
    discover_is_model_name(name);
    free(name);
    return 0;
}
