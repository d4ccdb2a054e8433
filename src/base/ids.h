/* A growing list of token ids. The owner embeds it, zero-initialised ({0} is an empty one), and
 * frees it with ids_free. Not shared between threads. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stddef.h>
#include <stdint.h>

struct ids {
    int32_t *data;
    size_t n, cap;
};

void ids_push(struct ids *list, int32_t id);
void ids_append(struct ids *list, const int32_t *ids, size_t n);
/* Empties it but keeps the memory. */
void ids_clear(struct ids *list);
void ids_free(struct ids *list);

#endif
