/* Layers of Mamba-1: the keys and tensors of small random files, and what such a layer does by
 * a second computation in double, channel by channel from the formulas. What goes wrong in here
 * fails the cmocka test that called. */
#ifndef TESTS_SECOND_SCAN_H
#define TESTS_SECOND_SCAN_H

#include "second_model.h"

/* Channels; what one product makes of them: a row that steps are made from, B and C. */
enum { S_INNER = 88, S_STEP = 10, S_STATE = 12, S_MADE = S_STEP + 2 * S_STATE, S_TAPS = 4 };

/* What the row that steps are made from, B and C pass through. */
enum scan_norms { SCAN_NO_NORMS, SCAN_BARE_NORMS, SCAN_NORMS };

/* ---- files ---- */

static inline void scan_keys(struct file *f)
{
    key_u32(f, "ssm.conv_kernel", S_TAPS);
    key_u32(f, "ssm.inner_size", S_INNER);
    key_u32(f, "ssm.state_size", S_STATE);
    key_u32(f, "ssm.time_step_rank", S_STEP);
}

/* Factors A that keep between a third and nearly all of a value for the next token. */
static inline void scan_tensors(struct file *f, int layer, enum scan_norms norms)
{
    char name[48];
    layer_tensor(f, layer, "ssm_in", EMBD, 2 * S_INNER);
    layer_tensor(f, layer, "ssm_conv1d", S_TAPS, S_INNER);
    bias_tensor(f, layer, "ssm_conv1d", S_INNER);
    layer_tensor(f, layer, "ssm_x", S_INNER, S_MADE);
    layer_tensor(f, layer, "ssm_dt", S_STEP, S_INNER);
    bias_tensor(f, layer, "ssm_dt", S_INNER);
    snprintf(name, sizeof name, "blk.%d.ssm_a", layer);
    random_tensor(f, name, S_STATE, S_INNER, -0.5, 0.45);
    snprintf(name, sizeof name, "blk.%d.ssm_d", layer);
    random_tensor(f, name, S_INNER, 1, 1, 0.5);
    layer_tensor(f, layer, "ssm_out", S_INNER, EMBD);
    if (norms != SCAN_NORMS) return;
    layer_tensor(f, layer, "ssm_dt_norm", S_STEP, 1);
    layer_tensor(f, layer, "ssm_b_norm", S_STATE, 1);
    layer_tensor(f, layer, "ssm_c_norm", S_STATE, 1);
}

/* ---- the second computation ---- */

static inline const float *scan_values(const struct file *f, int layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    return values_named(f, name);
}

static inline double scan_silu(double x)
{
    return x * sigmoid(x);
}

/* Channels of token pos behind the convolution over x and z of all tokens. */
static inline void scan_convolve(const struct file *f, int layer, double xz[][2 * S_INNER],
                                 size_t pos, double *out)
{
    const float *w = values_of(f, layer, "ssm_conv1d");
    const float *bias = bias_of(f, layer, "ssm_conv1d");
    for (size_t i = 0; i < S_INNER; i++) {
        double sum = (double)bias[i];
        for (size_t back = 0; back < S_TAPS && back <= pos; back++)
            sum += (double)w[i * S_TAPS + S_TAPS - 1 - back] * xz[pos - back][i];
        out[i] = scan_silu(sum);
    }
}

static inline void scan_norm(const struct file *f, int layer, enum scan_norms norms,
                             const char *what, size_t n, double *x)
{
    if (norms == SCAN_NO_NORMS) return;
    norm(norms == SCAN_NORMS ? values_of(f, layer, what) : NULL, x, n, x);
}

/* The states of all channels take in x, and give y. */
static inline void scan_advance(const struct file *f, int layer, enum scan_norms norms,
                                const double *x, double states[S_INNER][S_STATE], double *y)
{
    const float *a = scan_values(f, layer, "ssm_a"), *d = scan_values(f, layer, "ssm_d");
    double made[S_MADE], dt[S_INNER];
    double *b = made + S_STEP, *c = b + S_STATE;
    times(values_of(f, layer, "ssm_x"), x, S_INNER, S_MADE, made);
    scan_norm(f, layer, norms, "ssm_dt_norm", S_STEP, made);
    scan_norm(f, layer, norms, "ssm_b_norm", S_STATE, b);
    scan_norm(f, layer, norms, "ssm_c_norm", S_STATE, c);
    times(values_of(f, layer, "ssm_dt"), made, S_STEP, S_INNER, dt);
    add_bias(dt, bias_of(f, layer, "ssm_dt"), S_INNER);
    for (size_t i = 0; i < S_INNER; i++) {
        const double step = log1p(exp(dt[i]));
        y[i] = (double)d[i] * x[i];
        for (size_t n = 0; n < S_STATE; n++) {
            double *s = &states[i][n];
            *s = exp(step * (double)a[i * S_STATE + n]) * *s + step * b[n] * x[i];
            y[i] += c[n] * *s;
        }
    }
}

/* What such a layer adds to all rows. */
static inline void scan(const struct file *f, int layer, enum scan_norms norms,
                        struct rows *rows)
{
    double(*xz)[2 * S_INNER] = mem_zalloc(N_IDS, sizeof *xz);
    double states[S_INNER][S_STATE] = {{0}};
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], out[EMBD], x[S_INNER], y[S_INNER];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        times(values_of(f, layer, "ssm_in"), in, EMBD, 2 * S_INNER, xz[p]);
        scan_convolve(f, layer, xz, p, x);
        scan_advance(f, layer, norms, x, states, y);
        for (size_t i = 0; i < S_INNER; i++)
            y[i] *= scan_silu(xz[p][S_INNER + i]);
        times(values_of(f, layer, "ssm_out"), y, S_INNER, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
    free(xz);
}

#endif
