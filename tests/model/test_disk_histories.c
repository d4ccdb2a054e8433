/* Pages on disk never change a bit: random histories with saves, restarts, kills and damage
 * have the logits of a run that starts from nothing. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../golden.h"
#include "../soak.h"
#include "cache/store_files.h"
#include "disk_case.h"

static size_t next_history(int32_t *ids, size_t n, size_t n_vocab)
{
    const uint32_t kind = below(6);
    if (kind == 0 && n > 0) return n;
    if (kind == 1 && n > 0) return below((uint32_t)n) + 1;
    size_t keep = kind == 2 ? n : below((uint32_t)n + 1);
    size_t grown = keep + 1 + below(kind == 4 ? 150 : 12);
    if (grown > CONTEXT) grown = CONTEXT;
    random_ids(ids, keep < grown ? keep : grown, grown, n_vocab);
    return grown;
}

static void flip(void *user, const struct store_file *file)
{
    (void)user;
    if (below(4)) return;
    FILE *f = fopen(file->path, "r+b");
    if (!f) return;
    long at = (long)below((uint32_t)file->n_bytes);
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ (1 << below(8)), f);
    fclose(f);
}

/* A process that goes on from the history and dies at some moment of saving. */
static void die(struct machine *m, int32_t *ids, size_t n, size_t n_vocab, const char *path,
                const char *type)
{
    uint32_t moment = below(8000);
    machine_close(m);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        chance.n_drawn += 1000;
        open_model(m, path, type, true);
        for (;;) {
            n = next_history(ids, n, n_vocab);
            sync_to(m->tl, ids, n);
            timeline_save(m->tl, NULL);
        }
    }
    usleep(moment);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    open_model(m, path, type, true);
}

/* What is read back differs by what a model keeps. */
enum kind { KIND_PLAIN, KIND_WINDOWS, KIND_RECURRENT, N_KINDS };

static enum kind kind_of(const struct program *p)
{
    if (p->state_bytes > 0) return KIND_RECURRENT;
    return p->page_bytes[PAGE_WINDOW] > 0 ? KIND_WINDOWS : KIND_PLAIN;
}

/* Every round has another KV type. Adds the tokens that were read to those of the model's kind:
 * a short history may hit none of what is on disk. */
static void check_model(const struct golden_case *c, uint32_t i, uint32_t round, int n_steps,
                        size_t n_read[N_KINDS])
{
    static const char *const types[] = {"f16", "q8_0", "f32", "q4_0"};
    const char *type = types[golden_has_blocks(c) ? (i + round) % 4 : (i + round) % 2 * 2];
    struct machine m, cold;
    struct err err;
    int32_t ids[CONTEXT];
    size_t n = 0;
    char pages[512];
    snprintf(pages, sizeof pages, "%s/pages", home);
    scratch_empty(home);
    chance_begin(20261121 + i + 1000 * round);
    open_model(&m, c->model, type, true);
    open_model(&cold, c->model, type, false);
    const enum kind kind = kind_of(model_program(m.model));
    for (int step = 0; step < n_steps; step++) {
        n = next_history(ids, n, c->n_vocab);
        struct timeline_cost cost = sync_to(m.tl, ids, n);
        n_read[kind] += cost.n_read;
        timeline_forget(cold.tl);
        sync_to(cold.tl, ids, n);
        if (memcmp(timeline_logits(m.tl), timeline_logits(cold.tl),
                   c->n_vocab * sizeof(float)) != 0)
            fail_msg("%s: step %d: %zu tokens, %zu of them read, differ from a cold run",
                     c->name, step, n, cost.n_read);
        switch (below(6)) {
        case 0: timeline_save(m.tl, NULL); break;
        case 1: timeline_forget(m.tl); break;
        case 2:
            if (below(2)) timeline_save(m.tl, NULL);
            machine_close(&m);
            open_model(&m, c->model, type, true);
            break;
        case 3: die(&m, ids, n, c->n_vocab, c->model, type); break;
        case 4:
            if (below(3) == 0 && !store_files_walk(pages, flip, NULL, &err))
                fail_msg("%s", err.msg);
            break;
        default: break;
        }
    }
    machine_close(&m);
    machine_close(&cold);
}

static void test_histories(void **state)
{
    (void)state;
    const uint32_t n_rounds = soak();
    struct golden_set set = golden_read("tests/data", golden_known);
    size_t n_read[N_KINDS] = {0};
    for (uint32_t round = 0; round < n_rounds; round++)
        for (size_t i = 0; i < set.n; i++)
            check_model(&set.cases[i], (uint32_t)i, round, 24, n_read);
    for (int kind = 0; kind < N_KINDS; kind++)
        if (n_read[kind] == 0) fail_msg("nothing was ever read of models of kind %d", kind);
    golden_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histories),
    };
    return cmocka_run_group_tests_name("disk_histories", tests, disk_set_up, disk_tear_down);
}
