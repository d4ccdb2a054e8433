/* bailingmoe3, whose layers have Kimi delta attention with bounded decays, or attention over
 * compressed keys and values with a gate for each head, on small random models: the logits
 * against those of a second computation in double. No case may differ by ten times what it was
 * measured to. */
#include "second_delta.h"

static const struct manner bounded = {
    .bound = -5, .decays = "ssm_f_a", .gates = "ssm_g_a", .unit_dims = true};

static const float limits[LAYERS] = {0.5f, 0.5f, 0, 16, 0.75f, 0.5f, 0.625f};
static const float expert_limits[LAYERS] = {0, 0, 0.75f, 0.5f, 0, 0.75f, 7};

static struct form form_of(const char *kinds)
{
    return (struct form){"bailingmoe3", .norm_before = true, .kinds = kinds,
                         .latent = {.n_gates = HEADS},
                         .experts = {.any = true,
                                     .sigmoid = true,
                                     .select = true,
                                     .n_dense = 1,
                                     .n_ff = L_WIDTH,
                                     .n_shared = 2 * L_WIDTH}};
}

static void bailing_init(struct file *f, const struct form *form, const struct manner *m)
{
    delta_init(f, form, m);
    key_f32(f, "rope.freq_base", 500);
    key_f32(f, "kda.gate_lower_bound", (float)m->bound);
    key_bool(f, "expert_weights_norm", !form->experts.as_is);
    key_bool(f, "kda.safe_gate", true);
}

static void check_bailing(double most, const char *name, const struct form *form,
                          const struct manner *m)
{
    const struct latent_sight s = latent_plain(500, 1);
    struct file f;
    bailing_init(&f, form, m);
    check_delta(most, name, &f, m, &s);
    file_free(&f);
}

/* Each kind of layer may be the first and the last. */
static void test_layers(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"KKKLKKL", "LKKKLKK", "KLLKKKK"};
    static const double most[] = {8e-10, 3e-9, 3e-10};
    for (size_t i = 0; i < 3; i++) {
        const struct form form = form_of(orders[i]);
        char name[48];
        snprintf(name, sizeof name, "bailingmoe3 %s", orders[i]);
        check_bailing(most[i], name, &form, &bounded);
    }
}

static void test_manners(void **unused)
{
    (void)unused;
    const struct manner low = {.bound = -0.75, .decays = "ssm_f_a", .gates = "ssm_g_a"};
    struct form form = form_of("KKLKKKL");
    check_bailing(1e-10, "bailingmoe3, another bound", &form, &low);
    form.latent.n_q = 20;
    check_bailing(8e-10, "bailingmoe3, narrow queries", &form, &bounded);
    form.experts.halves = true;
    check_bailing(8e-10, "bailingmoe3, the better half", &form, &bounded);
    form.experts.as_is = true;
    check_bailing(8e-10, "bailingmoe3, weights as they are", &form, &bounded);
    form.unit_limits = limits, form.expert_limits = expert_limits;
    check_bailing(8e-10, "bailingmoe3, limits", &form, &bounded);
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct form form = form_of("KKKLKKL");
    struct file f;
    delta_init(&f, &form, &bounded);
    check_refused(&f, "m.gguf: key bailingmoe3.kda.gate_lower_bound is missing");
    key_f32(&f, "kda.gate_lower_bound", 0);
    check_refused(&f, "m.gguf: key bailingmoe3.kda.gate_lower_bound should be between -30 and "
                      "-0.001, but is 0");
    file_free(&f);
    delta_init(&f, &form, &bounded);
    key_f32(&f, "kda.gate_lower_bound", -5);
    key_bool(&f, "kda.safe_gate", false);
    check_refused(&f,
                  "m.gguf: key bailingmoe3.kda.safe_gate is false, but hearth's bailingmoe3 "
                  "has decays with a bound only");
    file_free(&f);
    bailing_init(&f, &form, &bounded);
    key_f32(&f, "swiglu_clamp_exp", 0.25f);
    check_refused(&f,
                  "m.gguf: key bailingmoe3.swiglu_clamp_exp should be 0 or at least 0.28, but "
                  "is 0.25 in layer 0");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_manners),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_bailing", tests, NULL, NULL);
}
