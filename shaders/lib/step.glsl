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

uint step_first_row(uint part)
{
    return step_words[STEP_FIRST + part];
}
