/* hearth inspect gguf and dequant: GGUF files and weight blocks as the reader sees them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/inspect.h"
#include "base/mem.h"
#include "base/printable.h"
#include "gguf/gguf.h"

/* What fits on a line or two of a terminal; the rest of a value is counted, not shown. */
#define SHOW_ITEMS 8
#define SHOW_BYTES 96

static int usage(const char *line)
{
    fprintf(stderr, "usage: hearth inspect %s\n", line);
    return 2;
}

/* The status after all output: a reader that went away is not a failure worth a message. */
static int finish(int status)
{
    bool bad = fflush(stdout) != 0;
    if (!bad && !ferror(stdout)) return status;
    if (errno == EPIPE) return 141;
    fprintf(stderr, "hearth: cannot write to stdout: %s\n", strerror(errno));
    return 1;
}

static void print_str(struct gguf_str s)
{
    char shown[SHOW_BYTES + 1];
    printf("\"%s\"", printable(shown, sizeof shown, s.data, s.len));
}

/* The shortest decimal that reads back as the same float. */
static void print_f32(float v)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v) break;
    }
    fputs(text, stdout);
}

static void print_item(const struct gguf_kv *kv, size_t i)
{
    switch (kv->type) {
    case GGUF_STRING: print_str(gguf_item_str(kv, i)); break;
    case GGUF_BOOL: fputs(gguf_item_int(kv, i) ? "true" : "false", stdout); break;
    case GGUF_F32: print_f32((float)gguf_item_float(kv, i)); break;
    case GGUF_F64: printf("%.17g", gguf_item_float(kv, i)); break;
    case GGUF_U64: {
        uint64_t v;
        memcpy(&v, kv->data + 8 * i, sizeof v);
        printf("%" PRIu64, v);
        break;
    }
    default: printf("%" PRId64, gguf_item_int(kv, i)); break;
    }
}

static void print_kv(const struct gguf_kv *kv)
{
    char key[128];
    printf("  %-44s ", printable(key, sizeof key, kv->key.data, kv->key.len));
    if (kv->is_array)
        printf("%s[%zu]  ", gguf_type_name(kv->type), kv->n);
    else
        printf("%s  ", gguf_type_name(kv->type));
    for (size_t i = 0; i < kv->n && i < SHOW_ITEMS; i++) {
        if (i) fputs(", ", stdout);
        print_item(kv, i);
    }
    if (kv->n > SHOW_ITEMS) fputs(", ...", stdout);
    putchar('\n');
}

static void print_tensor(const struct gguf_tensor *t)
{
    char name[128], shape[96];
    int used = snprintf(shape, sizeof shape, "%zu", t->ne[0]);
    for (uint32_t i = 1; i < t->n_dims; i++)
        used += snprintf(shape + used, sizeof shape - (size_t)used, " x %zu", t->ne[i]);
    printf("  %-44s %-7s %-24s %zu\n", printable(name, sizeof name, t->name, strlen(t->name)),
           qtype_info((uint32_t)t->type)->name, shape, t->n_bytes);
}

/* Bytes per weight type: what the file is made of. */
static void print_types(const struct gguf *g)
{
    const struct qtype_info *info;
    for (size_t row = 0; (info = qtype_at(row)); row++) {
        size_t n = 0, n_bytes = 0;
        for (size_t i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            if (t->type != info->type) continue;
            n++;
            n_bytes += t->n_bytes;
        }
        if (n) printf("  %-7s %5zu tensors %16zu bytes\n", info->name, n, n_bytes);
    }
}

int inspect_gguf(int argc, char **argv)
{
    struct err err;
    if (argc != 2 || (argv[1][0] == '-' && argv[1][1])) return usage("gguf FILE");
    struct gguf *g = gguf_open(argv[1], &err);
    if (!g) {
        char shown[sizeof err.msg];
        fprintf(stderr, "hearth: %s\n",
                printable(shown, sizeof shown, err.msg, strlen(err.msg)));
        return 1;
    }
    char path[512];
    printf("file     %s\n", printable(path, sizeof path, gguf_path(g), strlen(gguf_path(g))));
    printf("version  %" PRIu32 "\nbytes    %zu\nkeys     %zu\ntensors  %zu\n", gguf_version(g),
           gguf_file_bytes(g), gguf_n_kv(g), gguf_n_tensors(g));
    puts("\nkeys");
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        print_kv(gguf_kv_at(g, i));
    puts("\ntensors");
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        print_tensor(gguf_tensor_at(g, i));
    puts("\ntypes");
    print_types(g);
    gguf_close(g);
    return finish(0);
}

/* The operand of the only option, as --type T or --type=T; NULL if it is not that. */
static const char *type_operand(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--type") == 0) return argv[2];
    if (argc == 2 && strncmp(argv[1], "--type=", 7) == 0) return argv[1] + 7;
    return NULL;
}

static int unknown_type(const char *name)
{
    char shown[64];
    fprintf(stderr, "hearth: --type %s: not a weight type; known:",
            printable(shown, sizeof shown, name, strlen(name)));
    for (size_t i = 0; qtype_at(i); i++)
        fprintf(stderr, " %s", qtype_at(i)->name);
    fputc('\n', stderr);
    return 2;
}

#define BLOCKS_PER_READ 512

int inspect_dequant(int argc, char **argv)
{
    const char *name = type_operand(argc, argv);
    if (!name) return usage("dequant --type TYPE <blocks >values");
    const struct qtype_info *info = qtype_by_name(name);
    if (!info) return unknown_type(name);

    uint8_t *blocks = mem_alloc((size_t)BLOCKS_PER_READ * info->block_bytes);
    float *values = mem_zalloc((size_t)BLOCKS_PER_READ * info->block_len, sizeof *values);
    int status = 0;
    for (;;) {
        size_t n_bytes = fread(blocks, 1, (size_t)BLOCKS_PER_READ * info->block_bytes, stdin);
        size_t n_blocks = n_bytes / info->block_bytes, rest = n_bytes % info->block_bytes;
        qtype_dequant(info->type, blocks, n_blocks * info->block_len, values);
        if (fwrite(values, sizeof *values, n_blocks * info->block_len, stdout) <
            n_blocks * info->block_len)
            break;
        if (rest != 0) {
            fprintf(stderr,
                    "hearth: stdin ends with %zu bytes, a block of %s has %" PRIu32 "\n", rest,
                    info->name, info->block_bytes);
            status = 1;
        }
        if (n_blocks < BLOCKS_PER_READ) break;
    }
    if (ferror(stdin)) {
        fprintf(stderr, "hearth: stdin: %s\n", strerror(errno));
        status = 1;
    }
    free(blocks);
    free(values);
    return finish(status);
}
