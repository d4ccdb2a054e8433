/* A key, value or query of one head in the shared memory of a work group that makes codes of it;
 * ref_attend_q.c says how. All lanes call these functions, in this order: begin, put for every
 * value, turn unless it is a value, measure. */
layout(local_size_x_id = 0) in; /* first: gl_WorkGroupSize is 1 where it is named before this */

const uint MAX_DIM = 512u;
const uint LARGEST = 0x71800000u, TURN_LARGEST = 0x6c800000u; /* 2^100, 2^90 */

shared float head_row[MAX_DIM];
/* Of the dims of each scale the largest magnitude, one up, and below it whether -m is there: the
 * bits rotated by one, so that of two alike the negative one is the larger. */
shared uint head_most[MAX_DIM / 32u];
shared uint head_broken; /* not 0: something in it is too large to be turned */

void head_row_begin()
{
    barrier(); /* nobody needs the row before any more */
    for (uint b = gl_LocalInvocationID.x; b < MAX_DIM / 32u; b += gl_WorkGroupSize.x)
        head_most[b] = 0u;
    if (gl_LocalInvocationID.x == 0u) head_broken = 0u;
    barrier();
}

/* Each value by one lane. */
void head_row_put(uint i, float x)
{
    head_row[i] = x;
    if ((u_of(x) & NUM_ABS) >= TURN_LARGEST) atomicOr(head_broken, 1u);
}

/* What it makes of a broken row is of no use. */
void head_row_turn(uint n)
{
    uint run = n & (~n + 1u);
    for (uint h = 1u; h < run; h *= 2u) {
        barrier();
        for (uint i = gl_LocalInvocationID.x; i < n / 2u; i += gl_WorkGroupSize.x) {
            uint at = 2u * i - (i & (h - 1u)); /* pairs of blocks of h: in the first one */
            float a = head_row[at], b = head_row[at + h];
            head_row[at] = fadd(a, b);
            head_row[at + h] = fsub(a, b);
        }
    }
}

/* one_scale: for all n values, else for 32 each. */
void head_row_measure(uint n, bool one_scale)
{
    uint most = 0u;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < n; i += gl_WorkGroupSize.x) {
        uint u = u_of(head_row[i]), rotated = u << 1 | u >> 31;
        most = rotated > most ? rotated : most;
        if (one_scale) continue;
        atomicMax(head_most[i / 32u], most);
        most = 0u;
    }
    if (one_scale) atomicMax(head_most[0], most);
    barrier();
}
