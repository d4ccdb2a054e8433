#include "app/bench_work.h"

#include <string.h>

#include "base/buf.h"
#include "chat/conversation.h"
#include "chat/render.h"
#include "template/builtin_templates.h"
#include "text/tokenizer.h"
#include "text/turn_template.h"

/* A text, and the same as somebody has edited it: a word here, a sentence there. */
static const char draft_text[] =
    "The harbour of the old town lies in the north, behind a long wall of grey stone. In the "
    "morning the boats come in with the tide, and the men carry the baskets up the stairs to "
    "the market. There are six rows of tables under a roof of glass. At the first row they "
    "sell fish, at the second row they sell bread, and behind them stand the tables with fruit "
    "and flowers. A woman with a red scarf has sold apples there for thirty years, and she "
    "knows the name of everybody who stops to talk. At noon a bell rings, the tables are "
    "washed, and the square is empty until the evening, when the lamps are lit and music comes "
    "from the open windows of the inn. The road to the station goes along the river and "
    "crosses it on two bridges. The first bridge is made of iron and was built before the war; "
    "the second bridge is new, wide and quiet. Behind the station begin the gardens, where "
    "children play in the summer and where the paths are covered with leaves in the autumn.";
static const char edited_text[] =
    "The harbour of the old town lies in the north, behind a long wall of dark stone. In the "
    "morning the boats come in with the tide, and the men carry the baskets up the stairs to "
    "the market. There are eight rows of tables under a roof of glass. At the first row they "
    "sell fish, at the second row they sell bread and cheese, and behind them stand the tables "
    "with fruit and flowers. A woman with a red scarf has sold apples there for forty years, "
    "and she knows the name of everybody who stops to talk. At noon a bell rings, the tables "
    "are washed, and the square is empty until the evening, when music comes from the open "
    "windows of the inn. The road to the station goes along the river and crosses it on two "
    "bridges. The first bridge is made of iron and was built before the war; the second bridge "
    "is new, wide and quiet. Behind the station begin the gardens, where children play in the "
    "summer and where the paths are covered with leaves in the autumn and snow in the winter.";

static const struct {
    const char *name;
    const char *said[7]; /* user, reply, user, …; ends with the user */
    const char *forced;  /* NULL: nothing */
} works[] = {
    {"code", {"Write a C function that adds two numbers"}, NULL},
    {"list", {"Count from 1 to 40"}, NULL},
    {"prose", {"Tell me a story"}, NULL},
    {"chat-short", {"What is a token?"}, NULL},
    {"chat-long",
     {"Hello, what can you do?",
      "I explain hearth: its commands, keys and options, the cache and drafts.",
      "How do I take back the last message?",
      "/undo takes back the last turn, and /undo 2 the last two. What is left needs no "
      "computing.",
      "And how do I ask for another reply?",
      "/retry asks for the last reply again. Each try has a seed of its own.",
      "What is a draft model good for?"},
     NULL},
    {"edit", {draft_text}, edited_text},
};
enum { N_WORKS = sizeof works / sizeof *works };

const char *bench_work_name(size_t i)
{
    return i < N_WORKS ? works[i].name : NULL;
}

static const char *special_text(const struct tokenizer *tok, int32_t id, struct buf *out)
{
    struct piece p = {0};
    if (id >= 0) p = tokenizer_piece(tok, id);
    buf_clear(out);
    buf_append(out, p.data, p.len);
    return buf_str(out);
}

static bool render(size_t i, const struct tokenizer *tok, struct spans *out, struct err *err)
{
    const struct piece own = tokenizer_template(tok, NULL);
    const char *source =
        own.data ? own.data : builtin_template_stand_in(turn_template(tok))->source;
    struct buf bos = {0}, eos = {0};
    const struct render_config config = {
        .source = source,
        .len = own.data ? own.len : strlen(source),
        .name = "chat template",
        .bos_text = special_text(tok, tokenizer_bos(tok), &bos),
        .eos_text = special_text(tok, tokenizer_eos(tok), &eos),
    };
    struct renderer *r = renderer_new(&config, err);
    struct conversation *c = conversation_new();
    bool folded, ok = r != NULL;
    for (size_t k = 0; ok && k < 7 && works[i].said[k]; k++) {
        const char *said = works[i].said[k];
        struct message *m = message_new(k % 2 ? ROLE_REPLY : ROLE_USER, said, strlen(said));
        conversation_add(c, m);
    }
    ok = ok && render_prompt(r, c, RENDER_THINK_DEFAULT, out, &folded, err);
    conversation_free(c);
    renderer_free(r);
    buf_free(&bos);
    buf_free(&eos);
    return ok;
}

bool bench_work_make(struct bench_work *w, size_t i, const struct tokenizer *tok,
                     struct err *err)
{
    struct spans prompt = {0};
    const char *forced = works[i].forced;
    *w = (struct bench_work){.name = works[i].name};
    bool ok = render(i, tok, &prompt, err) &&
              tokenizer_encode_spans(tok, &prompt, NULL, &w->prompt, err);
    spans_free(&prompt);
    return ok && (!forced ||
                  tokenizer_encode(tok, forced, strlen(forced), ENCODE_PLAIN, &w->forced, err));
}

void bench_work_free(struct bench_work *w)
{
    ids_free(&w->prompt);
    ids_free(&w->forced);
}
