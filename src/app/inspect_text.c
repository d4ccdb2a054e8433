/* hearth inspect tokens and text: what the tokenizer of a file makes of text, and back. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/inspect.h"
#include "app/json_lines.h"
#include "app/model_choice.h"
#include "app/token_ids.h"
#include "base/buf.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"

#define MAX_INPUT ((size_t)1 << 30)

/* Prints what there is, also before an error, and frees it. */
static int finish(const char *command, struct buf *out, bool ok, const struct err *err)
{
    int status = print_text(out);
    if (ok || status != EXIT_DONE) return status;
    return err->code == ERR_USER ? usage_error(command, "%s", err->msg) : runtime_error(err);
}

static struct tokenizer *open_tokenizer(const char *path, struct err *err)
{
    struct gguf *g = gguf_open(path, err);
    if (!g) return NULL;
    struct tokenizer *tok = tokenizer_open(g, NULL, err);
    gguf_close(g);
    return tok;
}

static bool put_ids(const struct tokenizer *tok, const char *text, size_t len, unsigned how,
                    struct buf *out, struct err *err)
{
    struct ids ids = {0};
    bool ok = tokenizer_encode(tok, text, len, how, &ids, err);
    for (size_t i = 0; ok && i < ids.n; i++)
        buf_printf(out, "%s%d", i ? " " : "", ids.data[i]);
    if (ok) buf_putc(out, '\n');
    ids_free(&ids);
    return ok;
}

static bool put_json_line(const struct tokenizer *tok, const char *line, size_t len, size_t n,
                          struct buf *out, struct err *err)
{
    struct json_line_text what = {0};
    bool ok = json_line_text(line, len, &what, err);
    const unsigned how =
        (what.special ? ENCODE_CONTROL : 0) | (what.add_special ? ENCODE_ENDS : 0);
    ok = ok && put_ids(tok, buf_str(&what.text), what.text.len, how, out, err);
    buf_free(&what.text);
    return ok || err_prefix(err, "standard input, line %zu", n);
}

static bool put_json_lines(const struct tokenizer *tok, const struct buf *in, struct buf *out,
                           struct err *err)
{
    const char *s = buf_str(in);
    size_t left = in->len;
    for (size_t n = 1; left; n++) {
        const char *nl = memchr(s, '\n', left);
        size_t len = nl ? (size_t)(nl - s) : left;
        if (strspn(s, " \t\r") < len && !put_json_line(tok, s, len, n, out, err)) return false;
        len += nl != NULL;
        s += len, left -= len;
    }
    return true;
}

static bool put_tokens(const char *model, bool special, bool jsonl, struct buf *out,
                       struct err *err)
{
    struct buf in = {0};
    struct tokenizer *tok = open_tokenizer(model, err);
    bool ok = tok && file_read_fd(STDIN_FILENO, "standard input", MAX_INPUT, &in, err);
    if (ok && jsonl)
        ok = put_json_lines(tok, &in, out, err);
    else if (ok)
        ok = put_ids(tok, buf_str(&in), in.len, special ? ENCODE_CONTROL : ENCODE_PLAIN, out,
                     err);
    tokenizer_close(tok);
    buf_free(&in);
    return ok;
}

int inspect_tokens(const struct subcommand *self, int argc, char **argv)
{
    bool special = false, jsonl = false;
    const struct option_extra extra[] = {
        {.name = "special",
         .flag = &special,
         .help = "control tokens in the text are recognised"},
        {.name = "jsonl",
         .flag = &jsonl,
         .help = "one object of text, special, add_special per line"},
    };
    struct command_line line;
    int status = command_line_read(&line, self, extra, 2, argc, argv);
    if (status == COMMAND_LINE_GO) {
        if (line.args.n_rest > 0)
            status = unexpected_argument(line.args.command, line.args.rest[0]);
        else if (special && jsonl)
            status = usage_error(line.args.command,
                                 "with --jsonl each object says \"special\" itself");
        else
            status = model_needed(line.options, line.args.command);
    }
    if (status == COMMAND_LINE_GO) {
        struct buf out = {0};
        struct err err;
        bool ok = put_tokens(line.options->model, special, jsonl, &out, &err);
        status = finish(line.args.command, &out, ok, &err);
    }
    command_line_free(&line);
    return status;
}

/* Those of the arguments; without any, what standard input has, as inspect tokens prints it. */
static bool read_ids(const char *const *args, size_t n_args, size_t n_vocab, struct ids *ids,
                     struct err *err)
{
    for (size_t i = 0; i < n_args; i++)
        if (!token_ids_parse(args[i], n_vocab, ids, err)) return false;
    if (n_args > 0) return true;
    struct buf in = {0};
    bool ok = file_read_fd(STDIN_FILENO, "standard input", MAX_INPUT, &in, err);
    if (ok && memchr(buf_str(&in), 0, in.len))
        ok = err_set(err, ERR_USER, "standard input: expected token ids, found a NUL byte");
    ok = ok && token_ids_parse(buf_str(&in), n_vocab, ids, err);
    buf_free(&in);
    return ok;
}

static bool put_text(const char *model, const char *const *args, size_t n_args, struct buf *out,
                     struct err *err)
{
    struct tokenizer *tok = open_tokenizer(model, err);
    if (!tok) return false;
    struct ids ids = {0};
    const bool ok = read_ids(args, n_args, tokenizer_n_vocab(tok), &ids, err);
    if (ok && !detokenize(tok, ids.data, ids.n, out))
        fprintf(stderr, "hearth: bytes that are not UTF-8 became U+FFFD\n");
    ids_free(&ids);
    tokenizer_close(tok);
    return ok;
}

int inspect_text(const struct subcommand *self, int argc, char **argv)
{
    struct command_line line;
    int status = command_line_read(&line, self, NULL, 0, argc, argv);
    if (status == COMMAND_LINE_GO) status = model_needed(line.options, line.args.command);
    if (status == COMMAND_LINE_GO) {
        struct buf out = {0};
        struct err err;
        bool ok = put_text(line.options->model, line.args.rest, line.args.n_rest, &out, &err);
        status = finish(line.args.command, &out, ok, &err);
    }
    command_line_free(&line);
    return status;
}
