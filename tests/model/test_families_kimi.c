/* kimi-linear, whose layers have Kimi delta attention, whose states decay dim by dim, or
 * attention over compressed keys and values, of which nothing rotates, on small random models:
 * the logits against those of a second computation in double. No case may differ by ten times
 * what it was measured to. */
#include "second_delta.h"

static struct form form_of(const char *kinds, bool by_heads, bool softmax)
{
    return (struct form){"kimi-linear", .norm_before = true, .kinds = kinds,
                         .latent = {.by_heads = by_heads},
                         .experts = {.any = true,
                                     .sigmoid = !softmax,
                                     .select = true,
                                     .n_dense = 1,
                                     .n_ff = L_WIDTH,
                                     .n_shared = 2 * L_WIDTH}};
}

static void check_kimi(double most, const char *name, const struct form *form,
                       const struct manner *m)
{
    struct latent_sight s = latent_plain(1, 1);
    struct file f;
    s.rotation = plain_rotation(0, 1);
    delta_init(&f, form, m);
    check_delta(most, name, &f, m, &s);
    file_free(&f);
}

/* ---- the tests ---- */

/* Each kind of layer may be the first and the last; both forms of the attention. */
static void test_layers(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"KKKLKKL", "LKKKLKK", "KLLKKKK"};
    for (size_t i = 0; i < 6; i++) {
        const struct form form = form_of(orders[i / 2], i % 2, false);
        const struct manner plain = {0};
        char name[48];
        snprintf(name, sizeof name, "kimi-linear %s, form %zu", orders[i / 2], i % 2);
        check_kimi(1e-10, name, &form, &plain);
    }
}

static void test_manners(void **unused)
{
    (void)unused;
    const struct manner fused = {.fused = true}, unit = {.unit_dims = true};
    const struct manner softmax = {.softmax = true};
    struct form form = form_of("KKLKKKL", false, false);
    check_kimi(1e-10, "kimi-linear, one matrix", &form, &fused);
    check_kimi(1e-10, "kimi-linear, dims of 1", &form, &unit);
    form = form_of("KKLKKKL", false, true);
    check_kimi(1e-10, "kimi-linear, by a softmax", &form, &softmax);
    form.experts.n_dense = 0;
    check_kimi(1e-10, "kimi-linear, experts everywhere", &form, &softmax);
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct manner plain = {0};
    const struct form form = form_of("KKKLKKL", false, false);
    struct file f;
    delta_begin(&f, &form, &plain);
    check_refused(&f, "m.gguf: key kimi-linear.ssm.conv_kernel is missing");
    key_u32(&f, "ssm.conv_kernel", K_TAPS);
    check_refused(&f, "m.gguf: key kimi-linear.kda.head_dim is missing");
    key_u32(&f, "kda.head_dim", K_DIM + 1);
    check_refused(&f, "m.gguf: tensor blk.0.attn_q.weight: expected [64, 52], found [64, 48]");
    file_free(&f);
    delta_init(&f, &form, &plain);
    key_bool(&f, "expert_weights_norm", false);
    check_refused(&f, "m.gguf: key kimi-linear.expert_weights_norm is false, but hearth's "
                      "kimi-linear renormalises weights");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_manners),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_kimi", tests, NULL, NULL);
}
