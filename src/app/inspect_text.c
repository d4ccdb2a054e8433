/* hearth inspect tokens and text: what the tokenizer of a file makes of text, and back. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/inspect.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/printable.h"
#include "gguf/gguf.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

#define MAX_INPUT ((size_t)1 << 30)

/* The status of an error; its message may carry text of the file or of stdin. */
static int fail(const struct err *err)
{
    char shown[sizeof err->msg];
    fprintf(stderr, "hearth: %s\n", printable(shown, sizeof shown, err->msg, strlen(err->msg)));
    return err->code == ERR_USER ? 2 : 1;
}

static int unexpected(const char *command, const char *arg)
{
    char shown[80];
    return usage_error(command, "unexpected argument '%s'",
                       printable(shown, sizeof shown, arg, strlen(arg)));
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

static struct tokenizer *open_tokenizer(const char *path, struct err *err)
{
    struct gguf *g = gguf_open(path, err);
    if (!g) return NULL;
    struct tokenizer *tok = tokenizer_open(g, NULL, err);
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

static bool print_tokens(const char *model, bool special, bool jsonl, struct err *err)
{
    struct buf in = {0};
    struct tokenizer *tok = open_tokenizer(model, err);
    bool ok = tok && file_read_fd(STDIN_FILENO, "stdin", MAX_INPUT, &in, err);
    if (ok && jsonl)
        ok = print_json_lines(tok, &in, err);
    else if (ok)
        ok = print_ids(tok, buf_str(&in), in.len, special, false, err);
    tokenizer_close(tok);
    buf_free(&in);
    return ok;
}

int inspect_tokens(int argc, char **argv)
{
    static const char command[] = "inspect tokens";
    bool special = false, jsonl = false;
    const struct option_extra extra[] = {
        {"special", 0, NULL, NULL, &special, "control tokens in the text are recognised"},
        {"jsonl", 0, NULL, NULL, &jsonl, "one object of text, special, add_special per line"},
    };
    struct command_line line;
    int status = command_line_read(&line, command, extra, 2, argc, argv);
    if (status == COMMAND_LINE_GO) {
        const char *model = line.options->model;
        struct err err;
        if (line.args.n_rest > 0)
            status = unexpected(command, line.args.rest[0]);
        else if (!model)
            status = usage_error(command, "-m FILE is missing");
        else if (special && jsonl)
            status = usage_error(command, "with --jsonl each object says \"special\" itself");
        else
            status = finish(print_tokens(model, special, jsonl, &err) ? 0 : fail(&err));
    }
    command_line_free(&line);
    return status;
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

static bool print_text_of(const char *model, const char *const *args, size_t n_args,
                          struct err *err)
{
    struct tokenizer *tok = open_tokenizer(model, err);
    if (!tok) return false;
    struct ids ids = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < n_args; i++)
        ok = add_ids(&ids, args[i], tokenizer_n_vocab(tok), err);
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
    return ok;
}

int inspect_text(int argc, char **argv)
{
    struct command_line line;
    int status = command_line_read(&line, "inspect text", NULL, 0, argc, argv);
    if (status == COMMAND_LINE_GO) {
        const char *model = line.options->model;
        struct err err;
        if (!model)
            status = usage_error("inspect text", "-m FILE is missing");
        else
            status = finish(
                print_text_of(model, line.args.rest, line.args.n_rest, &err) ? 0 : fail(&err));
    }
    command_line_free(&line);
    return status;
}
