/* Angles and factors from positions. */
#include "backend/positions.h"

#include "base/numeric_c.h"
#include "base/real.h"

void positions_rope(const struct rope *rope, size_t pos, float *cos_sin)
{
    const size_t n_pairs = rope->n_rot / 2;
    for (size_t k = 0; k < n_pairs; k++) {
        double s, c;
        real_sincos((double)pos * rope->freq[k], &s, &c);
        cos_sin[k] = num_keep((float)(c * rope->mscale));
        cos_sin[n_pairs + k] = num_keep((float)(s * rope->mscale));
    }
}

float positions_factor(const struct row_scale *s, size_t pos)
{
    const size_t periods = (pos + s->ahead) / s->period;
    return num_keep((float)(1.0 + s->log_scale * real_log(1.0 + (double)periods)));
}
