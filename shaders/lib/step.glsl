/* The step under way, as the host writes it before each submission: binding 0 of every shader of
 * an op. Push constants say which part of the program runs (0: all rows, 1: the rows whose logits
 * are wanted). */
#include "vulkan/step_layout.h"

layout(set = 0, binding = 0, std430) readonly buffer Step { uint step_words[]; };

uint step_n_rows()
{
    return step_words[STEP_N_ROWS];
}

uint step_pos()
{
    return step_words[STEP_POS];
}

/* Which row of a table a row of the step reads: that of its token, in the words from tokens_at on,
 * or with 0 that of its position. */
uint step_table_row(uint tokens_at, uint row)
{
    return tokens_at > 0u ? step_words[tokens_at + row] : step_pos() + row;
}

uint step_first_row(uint part)
{
    return step_words[STEP_FIRST + part];
}
