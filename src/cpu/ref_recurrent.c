/* The scalar reference of the ops of recurrent layers, which take row after row in order. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/numeric_c.h"
#include "cpu/ref.h"

/* Taps are added from the oldest on, then the bias. */
void ref_conv(const struct conv *c, size_t lo, size_t hi)
{
    for (size_t r = lo; r < hi; r++) {
        for (size_t i = 0; i < c->n; i++) {
            float sum = conv_row(c, r)[i] * c->w[i];
            for (size_t j = 1; j < c->n_taps; j++)
                sum = sum + conv_row(c, r + j)[i] * c->w[j * c->n + i];
            if (c->bias) sum = sum + c->bias[i];
            float y = num_keep(sum);
            c->out[r * c->out_stride + i] = c->silu ? num_silu(y) : y;
        }
    }
}

/* The logarithm of a decay whose x + bias is y, and which has no dt of its own. */
static float bounded(float y, float a, float bound)
{
    return num_keep(num_keep(num_sigmoid(num_keep(y * fabsf(a)))) * bound);
}

static void fixed_decays(size_t n_heads, const float *a, float *out)
{
    for (size_t h = 0; h < n_heads; h++) {
        out[h] = num_exp(num_keep(a[h]));
        out[n_heads + h] = 1;
    }
}

/* A decay is 0 or at least 2^-50 because exp is; so is a sigmoid once it is kept. */
void ref_decay(const struct op_decay *op, const float *in, const float *bias, const float *a,
               float *out)
{
    const size_t n_each = decay_n_each(op), n_heads = decay_n_heads(op);
    const size_t run = op->betas ? op->run : n_heads;
    if (op->in.n == 0) {
        fixed_decays(n_heads, a, out);
        return;
    }
    for (size_t h = 0; h < n_heads; h++) {
        const float *runs = in + (op->betas ? h / run * run * (n_each + 1) : 0);
        const float *x = runs + h % run * n_each + (op->betas ? run : 0);
        float dt = 0;
        for (size_t i = 0; i < n_each; i++) {
            const float y = num_keep(x[i] + bias[h * n_each + i]);
            dt = op->by_exp ? num_exp(y) : num_softplus(y);
            out[h * n_each + i] =
                num_exp(op->bound < 0 ? bounded(y, a[h], op->bound) : num_keep(dt * a[h]));
        }
        out[n_heads * n_each + h] = op->betas ? num_keep(num_sigmoid(runs[h % run])) : dt;
    }
}

/* What column j of a head's state gives for k once it has decayed. One decay of all dims is
 * taken out of the sum. */
static float held(const struct recur *r, const float *column, const float *k,
                  const float *decay)
{
    float sum = 0;
    for (size_t i = 0; i < r->n_dim; i++) {
        const float x = column[i * r->n_width] * (r->by_dim ? num_keep(k[i] * decay[i]) : k[i]);
        sum = i == 0 ? x : sum + x;
    }
    return r->by_dim ? num_keep(sum) : num_keep(sum) * decay[0];
}

/* One row: the state S as it was is multiplied by the decay inside the two products that it
 * takes part in, so each of its values is rounded and kept once. */
static void advance(const struct recur *r, size_t head, size_t row, size_t lo, size_t hi)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width;
    const float *q = r->q + row * r->q_stride + group, *k = r->k + row * r->k_stride + group;
    const float *v = r->v + row * r->v_stride + first;
    const float *gates = r->gates + row * r->gates_stride;
    const float *decay = gates + recur_decay_at(r, head);
    const float step = gates[recur_step_at(r, head)];
    float *state = r->to + first * r->n_dim;
    for (size_t j = lo; j < hi; j++) {
        float target = v[j];
        if (r->delta) target = num_keep(v[j] - held(r, state + j, k, decay));
        float d = num_keep(step * target), out = 0;
        for (size_t i = 0; i < r->n_dim; i++) {
            float *s = &state[i * r->n_width + j];
            *s = num_keep(*s * decay[r->by_dim ? i : 0] + k[i] * d);
            out = i == 0 ? *s * q[0] : out + *s * q[i];
        }
        if (!r->out) continue;
        if (r->skip) out = out + r->skip[head] * v[j];
        r->out[row * r->out_stride + first + j] = num_keep(out);
    }
}

/* The same where each column has a step and each value of S a decay. */
static void advance_each(const struct recur *r, size_t head, size_t row, size_t lo, size_t hi)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width;
    const float *q = r->q + row * r->q_stride + group, *k = r->k + row * r->k_stride + group;
    const float *v = r->v + row * r->v_stride + first;
    const float *gates = r->gates + row * r->gates_stride + first;
    for (size_t j = lo; j < hi; j++) {
        const float step = num_softplus(gates[j]), d = num_keep(step * v[j]);
        float out = 0;
        for (size_t i = 0; i < r->n_dim; i++) {
            const size_t at = first * r->n_dim + i * r->n_width + j;
            const float decay = num_exp(num_keep(step * r->a[at]));
            r->to[at] = num_keep(r->to[at] * decay + k[i] * d);
            out = i == 0 ? r->to[at] * q[0] : out + r->to[at] * q[i];
        }
        if (r->out) r->out[row * r->out_stride + first + j] = num_keep(out);
    }
}

/* The same with an erasure. */
static void advance_erase(const struct recur *r, size_t head, size_t row, size_t lo, size_t hi)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width;
    const float *q = r->q + row * r->q_stride + group, *k = r->k + row * r->k_stride + group;
    const float *v = r->v + row * r->v_stride + first;
    const float *decay = r->gates + row * r->gates_stride + recur_decay_at(r, head);
    const float *e = decay + recur_erase_apart(r), *f = e + recur_erase_apart(r);
    for (size_t j = lo; j < hi; j++) {
        float *s = r->to + first * r->n_dim + j, held = 0, out = 0;
        for (size_t i = 0; i < r->n_dim; i++) {
            const float x = s[i * r->n_width] * e[i];
            held = i == 0 ? x : held + x;
        }
        held = num_keep(held);
        for (size_t i = 0; i < r->n_dim; i++) {
            const float next = s[i * r->n_width] * decay[i] + k[i] * v[j];
            s[i * r->n_width] = num_keep(next - f[i] * held);
            const float x = s[i * r->n_width] * q[i];
            out = i == 0 ? x : out + x;
        }
        if (r->out) r->out[row * r->out_stride + first + j] = num_keep(out);
    }
}

void ref_recur(const struct recur *r, size_t head, size_t lo, size_t hi)
{
    const size_t at = head * r->n_dim * r->n_width;
    assert(hi <= r->n_width);
    for (size_t i = 0; i < r->n_dim; i++)
        memcpy(r->to + at + i * r->n_width + lo, r->in + at + i * r->n_width + lo,
               (hi - lo) * sizeof *r->to);
    for (size_t row = 0; row < r->n_rows; row++) {
        if (r->a)
            advance_each(r, head, row, lo, hi);
        else if (r->erase)
            advance_erase(r, head, row, lo, hi);
        else
            advance(r, head, row, lo, hi);
    }
}
