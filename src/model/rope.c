/* Rope frequencies from keys and factor tensors, in double (base/real.h), once per model. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/real.h"
#include "model/blocks.h"

static const double TWO_PI = 6.283185307179586;

/* The dimension at which the original context makes beta turns (YaRN, equation 17 there). */
static double yarn_dim(const struct hparams *hp, double beta)
{
    return hp->n_rot * real_log(hp->n_ctx_orig / (TWO_PI * beta)) /
           (2.0 * real_log(hp->rope_base));
}

static bool is_yarn(const struct hparams *hp)
{
    return hp->scaling == SCALING_YARN && hp->yarn_ext_factor > 0;
}

/* Pairs below low keep their frequency, those above high are interpolated. */
static void yarn_mix(const struct hparams *hp, double *freq)
{
    double low = floor(yarn_dim(hp, hp->yarn_beta_fast));
    double high = ceil(yarn_dim(hp, hp->yarn_beta_slow));
    if (low < 0) low = 0;
    if (high > hp->n_rot - 1) high = hp->n_rot - 1;
    double span = high - low;
    if (span < 0.001) span = 0.001;
    for (uint32_t i = 0; i < hp->n_rot / 2; i++) {
        double ramp = (i - low) / span;
        if (ramp < 0) ramp = 0;
        if (ramp > 1) ramp = 1;
        double keep = (1.0 - ramp) * hp->yarn_ext_factor;
        freq[i] = freq[i] / hp->scaling_factor * (1.0 - keep) + freq[i] * keep;
    }
}

static double mscale(const struct hparams *hp)
{
    if (!is_yarn(hp) || hp->scaling_factor <= 1.0 || hp->attn_factor_whole)
        return hp->attn_factor;
    double ln = real_log(hp->scaling_factor);
    double m = 1.0 + 0.1 * ln;
    if (hp->yarn_log_multiplier > 0) m = m / (1.0 + 0.1 * hp->yarn_log_multiplier * ln);
    return m * hp->attn_factor;
}

/* Divides by the factors of the file, if it has some. */
static bool divide(struct builder *b, double *freq)
{
    const struct hparams *hp = b->hp;
    const char *name = "rope_freqs.weight";
    if (!weights_has(b->ws, name)) {
        if (!weights_has(b->ws, "rope_factors_long.weight") &&
            !weights_has(b->ws, "rope_factors_short.weight"))
            return true;
        name = hp->n_ctx > hp->n_ctx_orig ? "rope_factors_long.weight"
                                          : "rope_factors_short.weight";
    }
    const uint32_t n_pairs = hp->n_rot / 2, n = hp->n_factors ? hp->n_factors : n_pairs;
    float *factors = mem_zalloc(n, sizeof *factors);
    bool ok = weights_values(b->ws, name, n, factors);
    for (uint32_t i = 0; ok && i < n_pairs; i++) {
        if (factors[i] >= 1e-6f && factors[i] <= 3e38f)
            freq[i] = freq[i] / (double)factors[i];
        else
            ok = weights_fail(b->ws, ERR_FORMAT,
                              "tensor %s: item %u should be a positive number, but is %g", name,
                              i, (double)factors[i]);
    }
    free(factors);
    return ok;
}

static double *powers(double base, uint32_t n_rot)
{
    double *freq = mem_zalloc(n_rot / 2, sizeof *freq);
    for (uint32_t i = 0; i < n_rot / 2; i++)
        freq[i] = real_pow(base, -2.0 * i / n_rot);
    return freq;
}

static void scale(struct builder *b, double *freq)
{
    const struct hparams *hp = b->hp;
    divide(b, freq);
    if (is_yarn(hp))
        yarn_mix(hp, freq);
    else
        for (uint32_t i = 0; i < hp->n_rot / 2; i++)
            freq[i] = freq[i] / hp->scaling_factor;
}

/* Pairs take turns over three positions of a place in an image, which are one in text, as far
 * as their sections reach; the others have a fourth, which in text is 0. */
static void still(const struct hparams *hp, double *freq)
{
    for (uint32_t i = 0; i < hp->n_rot / 2; i++)
        if (i / 3 >= hp->rope_sections[i % 3]) freq[i] = 0;
}

uint32_t block_rope(struct builder *b, uint32_t layer, enum rope_pairs pairs)
{
    const struct hparams *hp = b->hp;
    const bool local = hp->layers[layer].rope_local;
    const uint32_t n_rot = local ? hp->rope_local.n_rot : hp->n_rot;
    double *freq = powers(local ? hp->rope_local.base : hp->rope_base, n_rot);
    if (!local) scale(b, freq);
    if (hp->has_rope_sections) still(hp, freq);
    /* real_sincos takes angles up to 2^28. */
    for (uint32_t i = 0; i < n_rot / 2; i++) {
        if (freq[i] * hp->n_ctx < 0x1p28) continue;
        weights_fail(b->ws, ERR_FORMAT,
                     "rope turns pair %u by %g per position, too much for a context of %u", i,
                     freq[i], hp->n_ctx);
        break;
    }
    return build_rope_table(b, pairs, n_rot, freq, local ? 1.0 : mscale(hp));
}
