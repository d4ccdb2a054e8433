/* A real model file cut at random lengths and with bytes flipped at random places: it is
 * refused with a message or opens, and what opens can be walked to the end. A sanitizer build
 * sees more than a crash. The sequence is seeded; HEARTH_SOAK makes it longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "../guide.h"
#include "../soak.h"
#include "base/buf.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "template/template.h"
#include "text/tokenizer.h"

#define N_CUTS 200
#define N_FLIPS 2000

/* Every key and item; of each tensor the first and the last blocks. */
static double walk(const struct gguf *g)
{
    double sum = 0;
    for (size_t i = 0; i < gguf_n_kv(g); i++) {
        const struct gguf_kv *kv = gguf_kv_at(g, i);
        for (size_t k = 0; k < kv->n; k++) {
            struct gguf_str s = gguf_item_str(kv, k);
            sum += s.len ? s.data[s.len - 1] : 0;
            sum += (double)(gguf_item_int(kv, k) & 1);
        }
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const struct qtype_info *info = qtype_info((uint32_t)t->type);
        float out[256];
        qtype_dequant(t->type, t->data, info->block_len, out);
        qtype_dequant(t->type, t->data + t->n_bytes - info->block_bytes, info->block_len, out);
        sum += out[0] > 0;
    }
    return sum;
}

/* A refusal is one line with a code, and nothing in it moves a cursor. Always false. */
static bool refused(const struct err *err)
{
    assert_true(err->code != ERR_NONE && err->msg[0]);
    assert_null(strchr(err->msg, '\n'));
    assert_null(strchr(err->msg, '\x1b'));
    return false;
}

static bool try_tokenizer(const struct gguf *g)
{
    static const char text[] = "What is a draft model? <|im_end|> \xff\xc3\xa9";
    struct err err = {0};
    struct tokenizer *tok = tokenizer_open(g, NULL, &err);
    if (!tok) return refused(&err);
    struct ids ids = {0};
    if (!tokenizer_encode(tok, text, sizeof text - 1, ENCODE_CONTROL | ENCODE_ENDS, &ids, &err))
        refused(&err);
    for (size_t i = 0; i < ids.n; i++) {
        struct piece piece = tokenizer_piece(tok, ids.data[i]);
        assert_true(piece.len == 0 || piece.data[piece.len - 1] + 1 > -200);
    }
    ids_free(&ids);
    tokenizer_close(tok);
    return true;
}

static bool try_template(const struct gguf *g)
{
    struct gguf_str s;
    struct err err = {0};
    if (!gguf_string(g, "tokenizer.chat_template", &s)) return false;
    struct template *t = template_parse(s.data, s.len, "chat template", &err);
    if (!t) return refused(&err);
    template_free(t);
    return true;
}

static bool try_model(const struct gguf *g)
{
    struct err err = {0};
    struct model_params params = {.kv_type = KV_F32};
    struct model_sizes sizes;
    return model_estimate(g, NULL, &params, 64, &sizes, &err) || refused(&err);
}

/* How many of the four parts take the bytes. */
static int try_open(const char *data, size_t n_bytes)
{
    struct err err = {0};
    struct gguf *g = gguf_from_memory(data, n_bytes, "damaged", &err);
    if (!g) return refused(&err);
    assert_true(walk(g) >= -1e30);
    int taken = 1 + try_tokenizer(g) + try_template(g) + try_model(g);
    gguf_close(g);
    return taken;
}

static int load(void **state)
{
    static struct buf whole;
    struct err err;
    if (!file_read(GUIDE_DRAFT, 1 << 24, &whole, &err)) fail_msg("%s", err.msg);
    *state = &whole;
    return 0;
}

static int unload(void **state)
{
    buf_free(*state);
    return 0;
}

static void test_whole(void **state)
{
    const struct buf *b = *state;
    assert_int_equal(try_open(b->data, b->len), 4);
}

/* The last tensor ends where the file does, so every cut is refused. */
static void test_cuts(void **state)
{
    const struct buf *b = *state;
    for (size_t i = N_CUTS * soak(); i > 0; i--) {
        size_t n = below((uint32_t)b->len);
        char *cut = malloc(n ? n : 1);
        memcpy(cut, b->data, n);
        assert_int_equal(try_open(cut, n), 0);
        free(cut);
    }
}

/* Half of the places in the header and its arrays, half anywhere. */
static void test_flips(void **state)
{
    struct buf *b = *state;
    struct err err;
    struct gguf *g = gguf_from_memory(b->data, b->len, GUIDE_DRAFT, &err);
    size_t header = (size_t)((const char *)gguf_tensor_at(g, 0)->data - b->data);
    gguf_close(g);
    size_t n_whole = 0, n_none = 0, n = N_FLIPS * soak();
    for (size_t i = 0; i < n; i++) {
        size_t at = below((uint32_t)(i % 2 ? header : b->len));
        char flip = (char)(1 << below(8));
        b->data[at] ^= flip;
        int taken = try_open(b->data, b->len);
        n_whole += taken == 4;
        n_none += taken == 0;
        b->data[at] ^= flip;
    }
    assert_true(n_whole > 0 && n_none > 0 && n_whole + n_none < n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests_name("damage", tests, load, unload);
}
