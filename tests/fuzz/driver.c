/* Runs a libFuzzer target without libFuzzer: first every file of a corpus folder, then seeded
 * changes of them (cuts, flipped bytes, copied runs, integers at their limits). Prints TAP. A
 * crash is the failure; sanitizer builds see more. usage: fuzz_<thing> CORPUS */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../soak.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "target.h"

#define N_CHANGED 2000
#define MAX_BYTES (1 << 20)

static uint64_t state = 0x9e3779b97f4a7c15u;

/* xorshift64*: the same sequence on every machine. */
static size_t below(size_t n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return n ? (size_t)((state * 0x2545f4914f6cdd1du) >> 11) % n : 0;
}

/* The target gets an allocation of exactly the input's size, so that a read beyond it shows. */
static void run_one(const char *data, size_t n_bytes)
{
    uint8_t *copy = mem_alloc(n_bytes);
    if (n_bytes) memcpy(copy, data, n_bytes);
    LLVMFuzzerTestOneInput(copy, n_bytes);
    free(copy);
}

static void change(struct buf *b)
{
    static const uint64_t limits[] = {0,          1,          0x7f,      0xff,
                                      0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX};
    if (b->len == 0) return;
    size_t at = below(b->len), n = 1 + below(16);
    if (n > b->len - at) n = b->len - at;
    switch (below(5)) {
    case 0: b->data[at] = (char)below(256); break;
    case 1: b->data[at] ^= (char)(1 << below(8)); break;
    case 2: memcpy(b->data + at, &limits[below(8)], n < 8 ? n : 8); break;
    case 3: memmove(b->data + at, b->data + below(b->len - n + 1), n); break;
    default: b->len = at; break;
    }
}

struct corpus {
    struct buf *items;
    size_t n, cap;
};

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool load(struct corpus *corpus, const char *dir)
{
    struct dirent **names;
    int n = scandir(dir, &names, NULL, by_name);
    for (int i = 0; i < n; i++) {
        struct err err;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (names[i]->d_name[0] != '.') {
            MEM_GROW(corpus->items, corpus->n, corpus->cap);
            struct buf *b = &corpus->items[corpus->n++];
            *b = (struct buf){0};
            if (!file_read(path, MAX_BYTES, b, &err)) {
                printf("# %s\n", err.msg);
                return false;
            }
        }
        free(names[i]);
    }
    if (n >= 0) free(names);
    return corpus->n > 0;
}

int main(int argc, char **argv)
{
    struct corpus corpus = {0};
    if (argc != 2 || !load(&corpus, argv[1])) {
        printf("not ok 1 - no corpus in %s\n", argc == 2 ? argv[1] : "?");
        return 1;
    }
    for (size_t i = 0; i < corpus.n; i++)
        run_one(corpus.items[i].data, corpus.items[i].len);
    printf("ok 1 - %zu files of %s\n", corpus.n, argv[1]);

    size_t n = N_CHANGED * soak();
    for (size_t i = 0; i < n; i++) {
        const struct buf *seed = &corpus.items[below(corpus.n)];
        struct buf b = {0};
        buf_append(&b, seed->data, seed->len);
        for (size_t k = 1 + below(4); k > 0; k--)
            change(&b);
        run_one(b.data, b.len);
        buf_free(&b);
    }
    printf("ok 2 - %zu changed inputs\n", n);
    for (size_t i = 0; i < corpus.n; i++)
        buf_free(&corpus.items[i]);
    free(corpus.items);
    return 0;
}
