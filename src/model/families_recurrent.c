/* Families whose layers are all recurrent: none has attention, keys or values. */
#include "model/blocks.h"
#include "model/families.h"

static void layer_mamba2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_mamba2(b, layer, h, h, &(struct recurrent){0});
    build_add(b, x, h, 1, x);
}

const struct family families_recurrent[] = {
    {"mamba2", hparams_ssm, layer_mamba2},
    {NULL, NULL, NULL},
};
