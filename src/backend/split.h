/* A backend of two: the first layers of a model run on one, the front, the last layers and the
 * head on the other, the back.
 *
 * It is made for one program, cut in front of one layer (cut.h), and owns both backends. A
 * matrix is bound where its layer runs, or on both sides if both read it; pages and states are
 * pairs, read and written by the host as those of any other backend, so what is saved of a
 * conversation does not depend on the cut. A step runs the front, hands its rows over in host
 * memory, and runs the back. The bits are those of its backends. It knows no device and no
 * model; threading is that of backend.h. */
#ifndef BACKEND_SPLIT_H
#define BACKEND_SPLIT_H

#include <stdint.h>

struct backend;
struct program;

/* p, whose matrices need not be bound but know their bytes (struct weight), is read during the
 * call only; layer is one of program_cut_at. What is bound, allocated and run afterwards is of
 * this program. front and back are closed with it. */
struct backend *split_open(struct backend *front, struct backend *back, const struct program *p,
                           uint32_t layer);

#endif
