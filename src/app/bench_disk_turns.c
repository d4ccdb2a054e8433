/* Pairs of turns, with a disk and without. */
#include "app/bench_disk_turns.h"

#include "app/bench_tools.h"
#include "base/buf.h"
#include "base/file.h"
#include "engine/disk.h"
#include "engine/machine.h"
#include "engine/sampler.h"
#include "engine/timeline.h"

/* Back to the end of the conversation, whose logits are held. */
static bool begin(struct machine *m, const struct ids *before, struct err *err)
{
    timeline_set_disk(m->tl, NULL);
    if (timeline_n(m->tl) > before->n) timeline_truncate(m->tl, before->n);
    if (!timeline_sync(m->tl, before->data, before->n, NULL, NULL, err)) return false;
    timeline_snapshot(m->tl);
    timeline_prepare(m->tl, NULL);
    return true;
}

/* Hands the conversation over, of which nothing is on disk. */
static void hand_over(struct machine *m, const char *folder)
{
    struct buf pages = {0};
    buf_printf(&pages, "%s/pages", folder);
    bench_tree_remove(buf_str(&pages));
    buf_free(&pages);
    timeline_set_disk(m->tl, m->disk);
}

static bool decode(struct machine *m, size_t n, struct err *err)
{
    const size_t n_vocab = model_n_vocab(m->model);
    bool ok = true;
    for (; ok && n > 0; n--) {
        const int32_t id = sampler_argmax(timeline_logits(m->tl), n_vocab);
        ok = timeline_append(m->tl, id < 0 ? 0 : id, NULL, err);
    }
    return ok;
}

/* The i-th turn with a disk or without. */
static bool run(struct machine *m, const struct disk_turns_plan *plan, const struct ids *turn,
                bool with, size_t i, struct disk_turns *out, struct err *err)
{
    if (!begin(m, plan->before, err)) return false;
    if (with) hand_over(m, plan->folder);
    const size_t n_before = disk_counts(m->disk).n_written;
    const double start = clock_ms();
    timeline_save(m->tl, NULL); /* without a disk it is nothing */
    const double saved = clock_ms();
    disk_set_busy(m->disk, true); /* as the engine does for a request */
    const size_t n_standing = disk_counts(m->disk).n_written;
    bool ok = timeline_sync(m->tl, turn->data, turn->n, NULL, NULL, err);
    const double filled = clock_ms();
    ok = ok && decode(m, plan->n_gen, err);
    const double end = clock_ms();
    out->prefill[with][i] = filled - saved;
    out->decode[with][i] = end - filled;
    out->whole[with][i] = end - start;
    if (with) out->after[i] = saved - start;
    if (with) out->n_meanwhile = disk_counts(m->disk).n_written - n_standing;
    disk_set_busy(m->disk, false);
    disk_drain(m->disk); /* nothing is left for the next */
    if (with) out->n_files = disk_counts(m->disk).n_written - n_before;
    return ok;
}

bool disk_turns_run(struct machine *m, const struct disk_turns_plan *plan,
                    struct disk_turns *out, struct err *err)
{
    struct ids turn = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < plan->n_pairs; i++) {
        ids_clear(&turn);
        ids_append(&turn, plan->before->data, plan->before->n);
        bench_random_ids(&turn, plan->n_prompt, model_n_vocab(m->model), plan->drawn);
        ok = run(m, plan, &turn, i % 2 != 0, i, out, err) &&
             run(m, plan, &turn, i % 2 == 0, i, out, err);
    }
    timeline_set_disk(m->tl, m->disk);
    ids_free(&turn);
    return ok;
}
