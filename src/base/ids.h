/* A growing list of token ids.
 *
 * The owner embeds it, zero-initialised ({0} is an empty one), and frees it with ids_free.
 * Growing never fails (mem.h). Not shared between threads; knows no vocabulary. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stddef.h>
#include <stdint.h>

struct ids {
    int32_t *data;
    size_t n, cap;
};

/* Each appends. ids[0..n) is copied and may not lie in the list itself; NULL is fine for 0. */
void ids_push(struct ids *list, int32_t id);
void ids_append(struct ids *list, const int32_t *ids, size_t n);
/* Empties it but keeps the memory. */
void ids_clear(struct ids *list);
/* Leaves it empty, fit to be used again. */
void ids_free(struct ids *list);

#endif
