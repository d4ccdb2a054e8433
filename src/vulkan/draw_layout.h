/* What the host and the shaders of a draw share: one text for C and GLSL.
 *
 * The request stands in the step, from the word on that the dispatches carry. In a block of
 * drafts the host does not know them: the device writes each among these words once it is
 * drawn. The marks are what the stages of a draw tell each other about a row. */
#ifndef VULKAN_DRAW_LAYOUT_H
#define VULKAN_DRAW_LAYOUT_H

#define DRAW_N_VOCAB 0
#define DRAW_SEED 1 /* two words, the low one first */
#define DRAW_POS 3  /* of the token that follows row 0 */
#define DRAW_INVERSE_TEMP 4
#define DRAW_TOP_K 5
#define DRAW_TOP_P 6
#define DRAW_MOST 7 /* bits of the largest -x that min-p leaves */
#define DRAW_REPEAT 8
#define DRAW_INVERSE_REPEAT 9
#define DRAW_FREQUENCY 10
#define DRAW_PRESENCE 11
#define DRAW_HAS_COUNTS 12
#define DRAW_HAS_BIAS 13
#define DRAW_N_KEPT 14 /* of the counts below, those that stay */
#define DRAW_AHEAD 15  /* in a block: 1 and how many drafts are ahead of row 0; else 0 */
#define DRAW_N_COUNTS \
    16                 /* [TRAIL_ROWS] how many there are for a row, the kept ones among them */
#define DRAW_LEAVES 40 /* [DRAW_MOST_DRAFTS] as in struct draw */
#define DRAW_DRAFTED 56 /* [DRAW_MOST_DRAFTS] ids */
#define DRAW_COUNTS 72  /* pairs of id and count */
#define DRAW_MOST_DRAFTS 16

/* Ids of a vocabulary that one work group goes through. */
#define DRAW_CHUNK 2048

/* x is at most 0. Below -26 it has no weight, and even with the largest noise it never reaches
 * the largest logit with the smallest: 22.9 - 26 < -2.9. So it is dropped. The others are
 * sorted into bins of 1/64. */
#define DRAW_LEAST_X 26
#define DRAW_N_BINS (64 * DRAW_LEAST_X + 1)

/* The marks of a row, in words: tokens in its list; for each bin their number and the two words
 * of their weight; for each chunk the largest logit's key and id, then the largest x + noise
 * and id. */
#define MARK_N_LIST 0
#define MARK_BINS 1
#define MARK_CHUNKS (MARK_BINS + 3 * DRAW_N_BINS)
#define MARK_WORDS(n_chunks) (MARK_CHUNKS + 4 * (n_chunks))

/* In place of an id: the logits are broken. As a result: the host draws, or says what is wrong.
 */
#define DRAW_NONE 0xffffffffu

#endif
