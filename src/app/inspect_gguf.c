/* hearth inspect gguf, families and dequant: GGUF files, what models in them may be, and weight
 * blocks, as the reader sees them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command_line.h"
#include "app/inspect.h"
#include "base/mem.h"
#include "base/printable.h"
#include "gguf/gguf.h"
#include "model/model.h"

/* What fits on a line or two of a terminal; the rest of a value is counted, not shown. */
#define SHOW_ITEMS 8
#define SHOW_BYTES 96

static void put_str(struct buf *out, struct gguf_str s)
{
    char shown[SHOW_BYTES + 1];
    buf_printf(out, "\"%s\"", printable(shown, sizeof shown, s.data, s.len));
}

/* The shortest decimal that reads back as the same float. */
static void put_f32(struct buf *out, float v)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v) break;
    }
    buf_puts(out, text);
}

static void put_item(struct buf *out, const struct gguf_kv *kv, size_t i)
{
    switch (kv->type) {
    case GGUF_STRING: put_str(out, gguf_item_str(kv, i)); break;
    case GGUF_BOOL: buf_puts(out, gguf_item_int(kv, i) ? "true" : "false"); break;
    case GGUF_F32: put_f32(out, (float)gguf_item_float(kv, i)); break;
    case GGUF_F64: buf_printf(out, "%.17g", gguf_item_float(kv, i)); break;
    case GGUF_U64: {
        uint64_t v;
        memcpy(&v, kv->data + 8 * i, sizeof v);
        buf_printf(out, "%" PRIu64, v);
        break;
    }
    default: buf_printf(out, "%" PRId64, gguf_item_int(kv, i)); break;
    }
}

static void put_kv(struct buf *out, const struct gguf_kv *kv)
{
    char key[128];
    buf_printf(out, "  %-44s ", printable(key, sizeof key, kv->key.data, kv->key.len));
    if (kv->is_array)
        buf_printf(out, "%s[%zu]  ", gguf_type_name(kv->type), kv->n);
    else
        buf_printf(out, "%s  ", gguf_type_name(kv->type));
    for (size_t i = 0; i < kv->n && i < SHOW_ITEMS; i++) {
        if (i) buf_puts(out, ", ");
        put_item(out, kv, i);
    }
    if (kv->n > SHOW_ITEMS) buf_puts(out, ", ...");
    buf_putc(out, '\n');
}

static void put_tensor(struct buf *out, const struct gguf_tensor *t)
{
    char name[128], shape[96];
    int used = snprintf(shape, sizeof shape, "%zu", t->ne[0]);
    for (uint32_t i = 1; i < t->n_dims; i++)
        used += snprintf(shape + used, sizeof shape - (size_t)used, " x %zu", t->ne[i]);
    buf_printf(out, "  %-44s %-7s %-24s %zu\n",
               printable(name, sizeof name, t->name, strlen(t->name)),
               qtype_info((uint32_t)t->type)->name, shape, t->n_bytes);
}

/* Bytes per weight type: what the file is made of. */
static void put_types(struct buf *out, const struct gguf *g)
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
        if (n) buf_printf(out, "  %-7s %5zu tensors %16zu bytes\n", info->name, n, n_bytes);
    }
}

static void put_file(struct buf *out, const struct gguf *g)
{
    char path[512];
    printable(path, sizeof path, gguf_path(g), strlen(gguf_path(g)));
    buf_printf(out, "file     %s\nversion  %" PRIu32 "\n", path, gguf_version(g));
    buf_printf(out, "bytes    %zu\nkeys     %zu\ntensors  %zu\n\nkeys\n", gguf_file_bytes(g),
               gguf_n_kv(g), gguf_n_tensors(g));
    for (size_t i = 0; i < gguf_n_kv(g); i++)
        put_kv(out, gguf_kv_at(g, i));
    buf_puts(out, "\ntensors\n");
    for (size_t i = 0; i < gguf_n_tensors(g); i++)
        put_tensor(out, gguf_tensor_at(g, i));
    buf_puts(out, "\ntypes\n");
    put_types(out, g);
}

int inspect_gguf(int argc, char **argv)
{
    struct err err;
    if (argc != 2 || (argv[1][0] == '-' && argv[1][1]))
        return usage_error("inspect gguf", "expected one FILE");
    struct gguf *g = gguf_open(argv[1], &err);
    if (!g) return runtime_error(&err);
    struct buf out = {0};
    put_file(&out, g);
    gguf_close(g);
    return print_text(&out);
}

int inspect_families(int argc, char **argv)
{
    (void)argv;
    if (argc != 1) return usage_error("inspect families", "expected no arguments");
    struct buf out = {0};
    for (size_t i = 0; model_family_at(i); i++)
        buf_printf(&out, "%s\n", model_family_at(i));
    return print_text(&out);
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
    struct buf known = {0};
    for (size_t i = 0; qtype_at(i); i++)
        buf_printf(&known, " %s", qtype_at(i)->name);
    char shown[64];
    int status =
        usage_error("inspect dequant", "--type %s is not a weight type; known:%s",
                    printable(shown, sizeof shown, name, strlen(name)), buf_str(&known));
    buf_free(&known);
    return status;
}

#define BLOCKS_PER_READ 512

/* Decodes what one read gave; bytes beyond the last whole block are an error. */
static int dequant_chunk(const struct qtype_info *info, const uint8_t *blocks, size_t n_bytes)
{
    size_t n_blocks = n_bytes / info->block_bytes, rest = n_bytes % info->block_bytes;
    size_t n_values = n_blocks * info->block_len;
    float *values = mem_zalloc(n_values, sizeof *values);
    qtype_dequant(info->type, blocks, n_values, values);
    struct buf out = {0};
    buf_append(&out, values, n_values * sizeof *values);
    free(values);
    int status = print_text(&out);
    if (status != EXIT_DONE || rest == 0) return status;
    struct err err;
    err_set(&err, ERR_FORMAT, "standard input ends with %zu bytes, a block of %s has %" PRIu32,
            rest, info->name, info->block_bytes);
    return config_error("inspect dequant", &err);
}

int inspect_dequant(int argc, char **argv)
{
    const char *name = type_operand(argc, argv);
    if (!name) return usage_error("inspect dequant", "expected --type TYPE");
    const struct qtype_info *info = qtype_by_name(name);
    if (!info) return unknown_type(name);

    size_t chunk = (size_t)BLOCKS_PER_READ * info->block_bytes, n_bytes = chunk;
    uint8_t *blocks = mem_alloc(chunk);
    int status = EXIT_DONE;
    while (status == EXIT_DONE && n_bytes == chunk) {
        n_bytes = fread(blocks, 1, chunk, stdin);
        if (n_bytes) status = dequant_chunk(info, blocks, n_bytes);
    }
    if (status == EXIT_DONE && ferror(stdin)) {
        struct err err;
        err_set(&err, ERR_IO, "standard input: cannot be read: %s", strerror(errno));
        status = runtime_error(&err);
    }
    free(blocks);
    return status;
}
