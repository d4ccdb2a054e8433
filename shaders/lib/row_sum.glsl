/* The one shape of a row sum: 32 partials, term i goes to partial i mod 32 in order, partials are
 * folded left to right. A work group is one sum, its first 32 lanes have the partials. */
shared float row_partials[32];

/* All lanes call it and have the sum; n: how many terms the whole sum has. */
float row_fold(float partial, uint n)
{
    uint lane = gl_LocalInvocationID.x, n_partials = n < 32u ? n : 32u;
    barrier();
    if (lane < 32u) row_partials[lane] = partial;
    barrier();
    float sum = row_partials[0];
    for (uint i = 1u; i < n_partials; i++)
        sum = fadd(sum, row_partials[i]);
    return sum;
}
