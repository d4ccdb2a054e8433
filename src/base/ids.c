#include "base/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void ids_push(struct ids *list, int32_t id)
{
    MEM_GROW(list->data, list->n, list->cap);
    list->data[list->n++] = id;
}

void ids_append(struct ids *list, const int32_t *ids, size_t n)
{
    if (n == 0) return;
    if (list->cap - list->n < n) {
        size_t cap = list->cap * 2 > list->n + n ? list->cap * 2 : list->n + n;
        list->data = mem_resize(list->data, cap, sizeof *list->data);
        list->cap = cap;
    }
    memcpy(list->data + list->n, ids, n * sizeof *ids);
    list->n += n;
}

void ids_clear(struct ids *list)
{
    list->n = 0;
}

void ids_free(struct ids *list)
{
    free(list->data);
    *list = (struct ids){0};
}
