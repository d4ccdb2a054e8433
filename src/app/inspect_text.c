/* hearth inspect tokens and text: what the tokenizer of a file makes of text, and back. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/inspect.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/printable.h"
#include "gguf/gguf.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

#define MAX_INPUT ((size_t)1 << 30)

struct args {
    const char *model;
    bool special, jsonl;
    char **rest; /* what is no option */
    int n_rest;
};

/* The status of an error; its message may carry text of the file or of stdin. */
static int fail(const struct err *err)
{
    char shown[sizeof err->msg];
    fprintf(stderr, "hearth: %s\n", printable(shown, sizeof shown, err->msg, strlen(err->msg)));
    return err->code == ERR_USER ? 2 : 1;
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

static bool parse_args(int argc, char **argv, struct args *a, struct err *err)
{
    bool tokens = !strcmp(argv[0], "tokens");
    *a = (struct args){.rest = argv + 1};
    for (int i = 1; i < argc; i++) {
        char *s = argv[i];
        if (!strcmp(s, "-m") || !strcmp(s, "--model")) {
            if (i + 1 == argc)
                return err_set(err, ERR_USER, "inspect %s: %s needs a file", argv[0], s);
            a->model = argv[++i];
        } else if (!strncmp(s, "--model=", 8)) {
            a->model = s + 8;
        } else if (tokens && !strcmp(s, "--special")) {
            a->special = true;
        } else if (tokens && !strcmp(s, "--jsonl")) {
            a->jsonl = true;
        } else if (tokens || s[0] == '-') {
            return err_set(err, ERR_USER, "inspect %s: unknown argument '%s'", argv[0], s);
        } else {
            a->rest[a->n_rest++] = s;
        }
    }
    if (!a->model) return err_set(err, ERR_USER, "inspect %s: -m FILE is missing", argv[0]);
    if (a->special && a->jsonl)
        return err_set(err, ERR_USER,
                       "inspect tokens: with --jsonl each object says \"special\" itself");
    return true;
}

static struct tokenizer *open_tokenizer(const char *path, struct err *err)
{
    struct gguf *g = gguf_open(path, err);
    if (!g) return NULL;
    struct tokenizer *tok = tokenizer_open(g, err);
    gguf_close(g);
    return tok;
}

static bool print_ids(const struct tokenizer *tok, const char *text, size_t len, bool special,
                      bool add_special, struct err *err)
{
    struct ids ids = {0};
    bool ok = tokenizer_encode(tok, text, len, special, add_special, &ids, err);
    for (size_t i = 0; ok && i < ids.n; i++)
        printf("%s%d", i ? " " : "", ids.data[i]);
    if (ok) putchar('\n');
    ids_free(&ids);
    return ok;
}

static bool json_flag(const json_t *object, const char *name, bool *out)
{
    const json_t *v = json_object_get(object, name);
    *out = json_is_true(v);
    return !v || json_is_boolean(v);
}

static bool print_json_line(const struct tokenizer *tok, const char *line, size_t len, size_t n,
                            struct err *err)
{
    json_error_t why;
    json_t *object = json_loadb(line, len, JSON_ALLOW_NUL, &why);
    if (!object) return err_set(err, ERR_USER, "stdin, line %zu: %s", n, why.text);
    const json_t *text = json_object_get(object, "text");
    bool special, add_special, ok;
    if (!json_is_string(text))
        ok = err_set(err, ERR_USER, "stdin, line %zu: no string \"text\"", n);
    else if (!json_flag(object, "special", &special) ||
             !json_flag(object, "add_special", &add_special))
        ok = err_set(err, ERR_USER,
                     "stdin, line %zu: \"special\" and \"add_special\" must be true or false",
                     n);
    else
        ok = print_ids(tok, json_string_value(text), json_string_length(text), special,
                       add_special, err);
    json_decref(object);
    return ok;
}

static bool print_json_lines(const struct tokenizer *tok, const struct buf *in, struct err *err)
{
    const char *s = buf_str(in);
    size_t left = in->len;
    for (size_t n = 1; left; n++) {
        const char *nl = memchr(s, '\n', left);
        size_t len = nl ? (size_t)(nl - s) : left;
        if (strspn(s, " \t\r") < len && !print_json_line(tok, s, len, n, err)) return false;
        len += nl != NULL;
        s += len, left -= len;
    }
    return true;
}

int inspect_tokens(int argc, char **argv)
{
    struct args a;
    struct err err;
    struct buf in = {0};
    if (!parse_args(argc, argv, &a, &err)) return fail(&err);
    struct tokenizer *tok = open_tokenizer(a.model, &err);
    bool ok = tok && file_read_fd(STDIN_FILENO, "stdin", MAX_INPUT, &in, &err);
    if (ok && a.jsonl)
        ok = print_json_lines(tok, &in, &err);
    else if (ok)
        ok = print_ids(tok, buf_str(&in), in.len, a.special, false, &err);
    tokenizer_close(tok);
    buf_free(&in);
    return finish(ok ? 0 : fail(&err));
}

/* Appends the ids in an argument such as "12" or "12 13". */
static bool add_ids(struct ids *ids, const char *s, size_t n_vocab, struct err *err)
{
    for (;;) {
        s += strspn(s, " ,\t\n");
        if (!*s) return true;
        char *end;
        errno = 0;
        long id = strtol(s, &end, 10);
        if (end == s || errno || (*end && !strchr(" ,\t\n", *end)))
            return err_set(err, ERR_USER, "'%.40s' is not a token id", s);
        if (id < 0 || (size_t)id >= n_vocab)
            return err_set(err, ERR_USER, "token id %ld is not in the vocabulary of %zu", id,
                           n_vocab);
        ids_push(ids, (int32_t)id);
        s = end;
    }
}

int inspect_text(int argc, char **argv)
{
    struct args a;
    struct err err;
    if (!parse_args(argc, argv, &a, &err)) return fail(&err);
    struct tokenizer *tok = open_tokenizer(a.model, &err);
    if (!tok) return fail(&err);
    struct ids ids = {0};
    bool ok = true;
    for (int i = 0; ok && i < a.n_rest; i++)
        ok = add_ids(&ids, a.rest[i], tokenizer_n_vocab(tok), &err);
    if (ok) {
        struct buf out = {0};
        struct detokenizer d;
        detokenizer_init(&d, tok, true);
        for (size_t i = 0; i < ids.n; i++)
            detokenizer_add(&d, ids.data[i], &out);
        detokenizer_flush(&d, &out);
        fwrite(buf_str(&out), 1, out.len, stdout);
        if (d.invalid) fprintf(stderr, "hearth: bytes that are not UTF-8 became U+FFFD\n");
        buf_free(&out);
    }
    ids_free(&ids);
    tokenizer_close(tok);
    return finish(ok ? 0 : fail(&err));
}
