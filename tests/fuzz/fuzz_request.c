/* Lines of JSON are anybody's: a turn of --stdin jsonl that comes out of one is UTF-8, and its
 * id is one short line of ASCII that goes into every event, and its schema an object in one
 * line or a word; of those that inspect reads, ids are the vocabulary's, and those that were
 * named come back as they were. What is refused is refused in one line of words. */
#include <stdio.h>
#include <string.h>

#include "app/json_lines.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "target.h"
#include "text/grammar.h"
#include "text/schema.h"
#include "text/tokenizer.h"
#include "ui/source.h"

/* Of who wrote the line, whatever is wrong with it. */
static void must_be_mistake(const struct err *err)
{
    must_be_refusal(err);
    must(err->code == ERR_USER);
}

static struct tokenizer *vocab(void)
{
    static struct tokenizer *tok;
    struct err err;
    struct gguf *g = tok ? NULL : gguf_open("tests/data/vocab/bpe.gguf", &err);
    if (g) tok = tokenizer_open(g, NULL, &err);
    gguf_close(g);
    must(tok != NULL);
    return tok;
}

/* A schema that a line brings is read again by who compiles it: it is an object as one line of
 * ASCII, or one of two words. */
static void must_be_schema(const struct buf *schema)
{
    struct err err = {0};
    for (size_t i = 0; i < schema->len; i++)
        must(schema->data[i] >= ' ' && schema->data[i] <= '~');
    if (schema->len == 0 || strcmp(buf_str(schema), "json") == 0 ||
        strcmp(buf_str(schema), "off") == 0)
        return;
    must(schema->data[0] == '{' && schema->data[schema->len - 1] == '}');
    struct grammar *g = schema_grammar(schema->data, schema->len, &err);
    if (!g) must_be_refusal(&err);
    grammar_release(g);
}

static void try_turn(const char *s, size_t n)
{
    struct source_turn turn = {0};
    struct err err = {0};
    if (source_parse(s, n, &turn, &err)) {
        must(utf8_valid(buf_str(&turn.text), turn.text.len) && turn.id.len <= 256);
        for (size_t i = 0; i < turn.id.len; i++)
            must(turn.id.data[i] >= ' ' && turn.id.data[i] <= '~');
        must_be_schema(&turn.schema);
    } else {
        must_be_mistake(&err);
    }
    source_turn_free(&turn);
}

static void try_text(const char *s, size_t n)
{
    struct json_line_text what = {0};
    struct err err = {0};
    if (json_line_text(s, n, &what, &err))
        must(utf8_valid(buf_str(&what.text), what.text.len));
    else
        must_be_mistake(&err);
    buf_free(&what.text);
}

static void append_ids(struct buf *out, const char *name, const struct ids *ids)
{
    buf_printf(out, "\"%s\":[", name);
    for (size_t i = 0; i < ids->n; i++)
        buf_printf(out, "%s%d", i ? "," : "", (int)ids->data[i]);
    buf_putc(out, ']');
}

/* A prompt as its ids is the same prompt. */
static void try_prompt(const char *s, size_t n)
{
    struct ids prompt = {0}, reply = {0}, again[2] = {{0}, {0}};
    struct err err = {0};
    struct buf line = {0};
    if (json_line_prompt(vocab(), s, n, &prompt, &reply, &err)) {
        buf_putc(&line, '{');
        append_ids(&line, "prompt", &prompt);
        buf_putc(&line, ',');
        append_ids(&line, "reply", &reply);
        buf_putc(&line, '}');
        must(json_line_prompt(vocab(), line.data, line.len, &again[0], &again[1], &err));
        must(again[0].n == prompt.n && again[1].n == reply.n);
        for (size_t i = 0; i < prompt.n; i++)
            must(again[0].data[i] == prompt.data[i]);
        for (size_t i = 0; i < reply.n; i++)
            must(again[1].data[i] == reply.data[i]);
    } else {
        must_be_mistake(&err);
    }
    for (size_t i = 0; i < prompt.n; i++)
        must((size_t)prompt.data[i] < tokenizer_n_vocab(vocab()));
    ids_free(&prompt);
    ids_free(&reply);
    ids_free(&again[0]);
    ids_free(&again[1]);
    buf_free(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    const char *s = (const char *)data;
    try_turn(s, n_bytes);
    try_text(s, n_bytes);
    try_prompt(s, n_bytes);
    return 0;
}
