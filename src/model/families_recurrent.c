/* Families whose layers are all recurrent: none has attention, keys or values. */
#include "model/blocks.h"
#include "model/families.h"

/* ---- mamba: Mamba-1, some files with norms of what makes steps, B and C ---- */

static bool read_mamba(struct hparams *hp, struct err *err)
{
    hp->ssm.norm_bare = true;
    return hparams_ssm1(hp, err) && hparams_bool(hp, "ssm.dt_b_c_rms", &hp->ssm.normed, err);
}

static void layer_mamba(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_mamba(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

/* ---- mamba2 ---- */

static void layer_mamba2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_mamba2(b, layer, h, h, &(struct recurrent){0});
    build_add(b, x, h, 1, x);
}

const struct family families_recurrent[] = {
    {"mamba", read_mamba, layer_mamba},
    {"mamba2", hparams_ssm, layer_mamba2},
    {NULL, NULL, NULL},
};
