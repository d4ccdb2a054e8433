/* How the buffer that tells the shaders of a step begins: one text for C and GLSL. Words of 32
 * bits; behind these stand tables whose places the dispatches carry. */
#ifndef VULKAN_STEP_LAYOUT_H
#define VULKAN_STEP_LAYOUT_H

#define STEP_N_ROWS 0    /* rows of the step */
#define STEP_POS 1       /* position of row 0 */
#define STEP_FIRST 2     /* first row: of the body (0), then of the part behind OP_HEAD_ROWS */
#define STEP_N_ADVANCE 4 /* rows of the trail that an advance of states takes */
#define STEP_WORDS 16    /* where the tables begin */

#endif
