/* A case of test_rows.c: an op along a row, its formula, and the weights that both read. One
 * program includes it, for the weights are its own. */
#ifndef TESTS_OPS_ROW_CASE_H
#define TESTS_OPS_ROW_CASE_H

#include "ops.h"

enum { N_ROWS = 64, MAX_WIDTH = 1100, LONG_WIDTH = 7202, BIAS_AT = 3 };

/* What one op makes of a row of `width` (an even number; the halves are two operands). */
struct row_case {
    const char *name;
    struct ref (*build)(struct trial *t, struct ref in, size_t width);
    /* The formula in double: value i of the row at pos. NULL: bits only. */
    double (*exact)(const float *x, size_t width, size_t i, size_t pos);
    double bound; /* of the error, against max(1, |value|) */
};

static float norm_weights[LONG_WIDTH + BIAS_AT]; /* and from BIAS_AT on biases */
static double frequencies[MAX_WIDTH];

#endif
