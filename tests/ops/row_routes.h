/* Routes for test_rows.c: scores of a row choose four parts of it and weigh them, and what
 * comes out is their sum; and the formulas in double. */
#ifndef TESTS_OPS_ROW_ROUTES_H
#define TESTS_OPS_ROW_ROUTES_H

#include "row_case.h"

/* Routing of 8 experts of 32 by renormalised softmax, and a sum of eight parts by rank. */
static struct ref build_route(struct trial *t, struct ref in, size_t width)
{
    struct ref route = trial_buffer(t, ROW_ROUTE, 4), out = trial_buffer(t, ROW_F32, width / 8);
    struct ref scores = ref_part(in, 0, width / 4);
    trial_op(t, OP_ROUTE)->route = (struct op_route){.scores = scores,
                                                     .out = route,
                                                     .kind = ROUTE_SOFTMAX,
                                                     .renormalise = true,
                                                     .scale = 2.5f};
    trial_op(t, OP_COMBINE)->combine =
        (struct op_combine){ref_part(in, width / 2, width / 8 * 4), route, out};
    return out;
}

/* The same, chosen with a bias and weighed by expert. */
static struct ref build_route_by(struct trial *t, struct ref in, size_t width,
                                 enum route_kind kind)
{
    struct err err;
    struct ref route = trial_buffer(t, ROW_ROUTE, 4), out = trial_buffer(t, ROW_F32, width / 8);
    size_t n = width / 4;
    trial_op(t, OP_ROUTE)->route =
        (struct op_route){.scores = ref_part(in, 0, n),
                          .out = route,
                          .kind = kind,
                          .renormalise = true,
                          .scale = 2.5f,
                          .select = backend_vector(t->be, norm_weights, n, &err),
                          .scales = backend_vector(t->be, norm_weights + n, n, &err)};
    trial_op(t, OP_COMBINE)->combine =
        (struct op_combine){ref_part(in, width / 2, width / 8 * 4), route, out};
    return out;
}

static struct ref build_route_sigmoid(struct trial *t, struct ref in, size_t width)
{
    return build_route_by(t, in, width, ROUTE_SIGMOID);
}

/* The same by sigmoid, four of the best three groups of two, where there are so many. */
enum { MOST_IN_GROUPS = 128 };

static size_t in_groups(size_t width)
{
    return width / 4 < MOST_IN_GROUPS ? width / 4 / 2 * 2 : MOST_IN_GROUPS;
}

static uint32_t groups_used(size_t width)
{
    return in_groups(width) / 2 < 3 ? 2 : 3;
}

static struct ref build_route_groups(struct trial *t, struct ref in, size_t width)
{
    struct err err;
    const size_t n = in_groups(width);
    struct ref out = build_route_by(t, in, width, ROUTE_SIGMOID);
    struct op_route *r = &t->ops[t->p.n_ops - 2].route;
    r->scores.n = n;
    r->n_groups = (uint32_t)n / 2;
    r->n_groups_used = groups_used(width);
    r->select = backend_vector(t->be, norm_weights, n, &err);
    r->scales = backend_vector(t->be, norm_weights + width / 4, n, &err);
    return out;
}

/* All four parts, each by 1. */
static struct ref build_route_each(struct trial *t, struct ref in, size_t width)
{
    struct ref route = trial_buffer(t, ROW_ROUTE, 4), out = trial_buffer(t, ROW_F32, width / 8);
    trial_op(t, OP_ROUTE)->route = (struct op_route){.out = route, .kind = ROUTE_EACH};
    trial_op(t, OP_COMBINE)->combine =
        (struct op_combine){ref_part(in, width / 2, width / 8 * 4), route, out};
    return out;
}

static double exact_route_each(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double out = 0;
    for (size_t j = 0; j < 4; j++)
        out += (double)x[width / 2 + j * (width / 8) + i];
    return out;
}

/* All four parts, each by its score. */
static struct ref build_route_given(struct trial *t, struct ref in, size_t width)
{
    struct ref route = trial_buffer(t, ROW_ROUTE, 4), out = trial_buffer(t, ROW_F32, width / 8);
    trial_op(t, OP_ROUTE)->route =
        (struct op_route){.scores = ref_part(in, 1, 4), .out = route, .kind = ROUTE_GIVEN};
    trial_op(t, OP_COMBINE)->combine =
        (struct op_combine){ref_part(in, width / 2, width / 8 * 4), route, out};
    return out;
}

static double exact_route_given(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double out = 0;
    for (size_t j = 0; j < 4; j++)
        out += (double)x[1 + j] * (double)x[width / 2 + j * (width / 8) + i];
    return out;
}

static struct ref build_route_softmax(struct trial *t, struct ref in, size_t width)
{
    return build_route_by(t, in, width, ROUTE_SOFTMAX);
}

/* The four experts of the largest ratings, ties to the lower id. */
static void best_four(const double *rating, size_t n, size_t taken[4])
{
    for (size_t j = 0; j < 4; j++) {
        size_t best = n;
        for (size_t e = 0; e < n; e++) {
            bool used = false;
            for (size_t k = 0; k < j; k++)
                used = used || taken[k] == e;
            if (!used && (best == n || rating[e] > rating[best])) best = e;
        }
        taken[j] = best;
    }
}

static double exact_route(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    size_t n = width / 4, taken[4];
    double rating[MAX_WIDTH], weight[4], sum = 0, out = 0;
    for (size_t e = 0; e < n; e++)
        rating[e] = (double)x[e];
    best_four(rating, n, taken);
    for (size_t j = 0; j < 4; j++) {
        weight[j] = exp(rating[taken[j]] - rating[taken[0]]);
        sum += weight[j];
    }
    for (size_t j = 0; j < 4; j++)
        out += 2.5 * weight[j] / sum * (double)x[width / 2 + j * (width / 8) + i];
    return out;
}

/* Takes the experts of all but the best groups of two out of the choice. */
static void keep_groups(double *rating, size_t n, size_t n_used)
{
    double sum[MAX_WIDTH];
    for (size_t g = 0; g < n / 2; g++)
        sum[g] = rating[2 * g] + rating[2 * g + 1];
    for (size_t g = 0; g < n / 2; g++) {
        size_t n_better = 0;
        for (size_t o = 0; o < n / 2; o++)
            n_better += sum[o] > sum[g] || (sum[o] == sum[g] && o < g);
        if (n_better >= n_used) rating[2 * g] = rating[2 * g + 1] = -HUGE_VAL;
    }
}

/* As chosen by weights and biases, weight the softmax of all or each one's sigmoid; n in groups
 * of two, of which n_used are chosen from, 0: in none. */
static double exact_route_by(const double *weight, const float *x, size_t width, size_t i,
                             size_t n, size_t n_used)
{
    size_t taken[4];
    double rating[MAX_WIDTH], sum = 0, out = 0;
    for (size_t e = 0; e < n; e++)
        rating[e] = weight[e] + (double)norm_weights[e];
    if (n_used > 0) keep_groups(rating, n, n_used);
    best_four(rating, n, taken);
    for (size_t j = 0; j < 4; j++)
        sum += weight[taken[j]];
    for (size_t j = 0; j < 4; j++)
        out += 2.5 * weight[taken[j]] / sum * (double)norm_weights[width / 4 + taken[j]] *
               (double)x[width / 2 + j * (width / 8) + i];
    return out;
}

static double exact_route_sigmoid(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double weight[MAX_WIDTH];
    for (size_t e = 0; e < width / 4; e++)
        weight[e] = 1 / (1 + exp(-(double)x[e]));
    return exact_route_by(weight, x, width, i, width / 4, 0);
}

static double exact_route_groups(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double weight[MAX_WIDTH];
    for (size_t e = 0; e < width / 4; e++)
        weight[e] = 1 / (1 + exp(-(double)x[e]));
    return exact_route_by(weight, x, width, i, in_groups(width), groups_used(width));
}

static double exact_route_softmax(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double weight[MAX_WIDTH], sum = 0;
    for (size_t e = 0; e < width / 4; e++)
        sum += weight[e] = exp((double)x[e]);
    for (size_t e = 0; e < width / 4; e++)
        weight[e] /= sum;
    return exact_route_by(weight, x, width, i, width / 4, 0);
}

#endif
