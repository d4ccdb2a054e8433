/* Random conversations over every golden model: whatever was appended, edited, taken back,
 * forked, switched to, trimmed, cancelled, drafted and refused before, the logits are those of
 * a run that starts from nothing, to the last bit. Rows that hold nothing are full of NaN. 25
 * histories per model over the KV types, or with HEARTH_SOAK as many times that. */
#include <malloc.h>
#include <stdatomic.h>

#include "../chance.h"
#include "../golden.h"
#include "../soak.h"
#include "base/ids.h"
#include "engine/timeline.h"
#include "engine/verify.h"

enum {
    CONTEXT = 256,
    LONG_CONTEXT = 1536,
    HISTORIES = 25,
    STEPS = 7,
    MAX_BRANCHES = 8,
    MAX_TURNS = 64
};

/* A conversation as tokens; turn_at[i] is where turn i begins, the first is the system's. */
struct talk {
    struct ids ids;
    size_t turn_at[MAX_TURNS], n_turns;
};

struct world {
    const struct golden_case *c;
    struct timeline *warm, *cold;
    struct talk now, branches[MAX_BRANCHES];
    size_t n_branches;
    bool forgets;   /* little memory: nothing is known of what is warm */
    bool recurrent; /* only where there was a snapshot can it go on */
    bool windowed;  /* the same, and a little before the end */
    uint32_t n_ctx;
    struct ids *past, *kept; /* what was held, what a snapshot was taken of */
    size_t n_past, n_kept;
};

static void talk_copy(struct talk *to, const struct talk *from)
{
    ids_clear(&to->ids);
    ids_append(&to->ids, from->ids.data, from->ids.n);
    memcpy(to->turn_at, from->turn_at, sizeof to->turn_at);
    to->n_turns = from->n_turns;
}

static void talk_cut(struct talk *t, size_t n_turns)
{
    t->ids.n = t->turn_at[n_turns];
    t->n_turns = n_turns;
}

/* What does not fit the context is left out. */
static void talk_say(struct world *w, uint32_t most)
{
    struct talk *t = &w->now;
    uint32_t n = 1 + below(most);
    if (w->windowed && below(3) == 0) n *= 8; /* many windows, and past a mark */
    if (t->n_turns == MAX_TURNS || t->ids.n + n > w->n_ctx) return;
    t->turn_at[t->n_turns++] = t->ids.n;
    while (n-- > 0)
        ids_push(&t->ids, (int32_t)below(w->c->n_vocab));
}

static size_t common(const struct ids *a, const struct ids *b)
{
    size_t i = 0;
    while (i < a->n && i < b->n && a->data[i] == b->data[i])
        i++;
    return i;
}

static void remember(struct world *w)
{
    w->past = mem_resize(w->past, w->n_past + 1, sizeof *w->past);
    w->past[w->n_past] = (struct ids){0};
    ids_append(&w->past[w->n_past++], timeline_ids(w->warm), timeline_n(w->warm));
}

static void take_snapshot(struct world *w)
{
    timeline_snapshot(w->warm);
    w->kept = mem_resize(w->kept, w->n_kept + 1, sizeof *w->kept);
    w->kept[w->n_kept] = (struct ids){0};
    ids_append(&w->kept[w->n_kept++], timeline_ids(w->warm), timeline_n(w->warm));
}

/* Tokens of ids that are known to be warm. */
static size_t must_be_warm(const struct world *w, const struct ids *ids, size_t known)
{
    if (w->forgets) return 0;
    if (!w->recurrent && !w->windowed)
        return known > 0 ? known - 1 : 0; /* the last may have no logits */
    size_t most = 0;
    for (size_t i = 0; i < w->n_kept; i++)
        if (w->kept[i].n > most && common(&w->kept[i], ids) == w->kept[i].n)
            most = w->kept[i].n;
    return most;
}

static void check_cold(struct world *w, const struct ids *ids)
{
    struct err err;
    timeline_forget(w->cold);
    if (!timeline_sync(w->cold, ids->data, ids->n, NULL, NULL, &err)) fail_msg("%s", err.msg);
    assert_int_equal(timeline_n(w->warm), ids->n);
    assert_memory_equal(timeline_ids(w->warm), ids->data, ids->n * sizeof *ids->data);
    if (memcmp(timeline_logits(w->warm), timeline_logits(w->cold),
               w->c->n_vocab * sizeof(float)) != 0)
        fail_msg("%s, history %lu: the logits after %zu tokens differ from a cold run",
                 w->c->name, (unsigned long)chance.key, ids->n);
}

static void verify(struct world *w)
{
    struct err err;
    struct verify_verdict v;
    assert_true(timeline_verify(w->warm, NULL, &v, &err));
    if (v.what != VERIFY_SAME)
        fail_msg("%s, history %lu: difference of kind %d at token %zu in layer %zu", w->c->name,
                 (unsigned long)chance.key, (int)v.what, v.pos, v.layer);
    assert_int_equal(v.n_tokens, timeline_n(w->warm));
}

struct canceller {
    atomic_bool flag;
    uint32_t chunks; /* until it is set; 0: it is set */
};

static void count_chunk(void *user, size_t done, size_t total, size_t n_cached)
{
    struct canceller *c = user;
    (void)total;
    assert_true(done >= n_cached);
    if (done == n_cached) return; /* told before the first */
    if (c->chunks > 0 && --c->chunks == 0) atomic_store(&c->flag, true);
}

/* Cancelled before a chunk or after the first, it holds a beginning of what was wanted. */
static void cancelled_sync(struct world *w)
{
    struct err err;
    const struct ids *ids = &w->now.ids;
    struct canceller c = {.chunks = below(2)};
    atomic_store(&c.flag, c.chunks == 0); /* before the first chunk, with its room made */
    const struct timeline_watch watch = {count_chunk, &c, &c.flag};
    bool ok = timeline_sync(w->warm, ids->data, ids->n, &watch, NULL, &err);
    if (!ok) assert_int_equal(err.code, ERR_CANCELLED);
    size_t n = timeline_n(w->warm);
    assert_true(ok ? n == ids->n : n <= ids->n);
    if (n > 0) assert_memory_equal(timeline_ids(w->warm), ids->data, n * sizeof *ids->data);
    if (!ok && below(3) == 0) verify(w);
}

static void talk_sync(struct world *w)
{
    struct err err;
    struct timeline_cost cost;
    const struct ids *ids = &w->now.ids;
    if (below(5) == 0) {
        remember(w);
        cancelled_sync(w);
    }
    remember(w);
    size_t known = 0;
    for (size_t i = 0; i < w->n_past; i++)
        known = common(&w->past[i], ids) > known ? common(&w->past[i], ids) : known;
    timeline_poison(w->warm);
    if (!timeline_sync(w->warm, ids->data, ids->n, NULL, &cost, &err)) fail_msg("%s", err.msg);
    assert_int_equal(cost.n_cached + cost.n_prefilled, ids->n);
    assert_true(cost.n_cached <= known);
    assert_true(cost.n_cached >= must_be_warm(w, ids, known));
    check_cold(w, ids);
    take_snapshot(w);
    if (below(4)) return;
    assert_true(timeline_sync(w->warm, ids->data, ids->n, NULL, &cost, &err));
    assert_int_equal(cost.n_prefilled, 0);
    check_cold(w, ids);
}

/* Several tokens verified in one step, of which the first few are accepted. */
static void verified(struct world *w)
{
    struct err err;
    struct talk *t = &w->now;
    int32_t ids[TIMELINE_MAX_VERIFY];
    const size_t room = CONTEXT - t->ids.n;
    uint32_t n = 1 + below(TIMELINE_MAX_VERIFY);
    if (n > room) n = (uint32_t)room;
    if (n == 0) return;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)below(w->c->n_vocab);
    const uint32_t n_kept = 1 + below(n);
    assert_true(timeline_append_rows(w->warm, ids, n, NULL, &err));
    timeline_keep_rows(w->warm, n_kept);
    ids_append(&t->ids, ids, n_kept);
}

/* A reply token by token or by drafts, now and then with some that are refused. */
static void reply(struct world *w)
{
    struct err err;
    struct talk *t = &w->now;
    uint32_t n = 1 + below(12);
    if (t->n_turns == MAX_TURNS || t->ids.n + n + 4 > w->n_ctx) return;
    t->turn_at[t->n_turns++] = t->ids.n;
    while (n-- > 0) {
        if (below(4) == 0) {
            verified(w);
            continue;
        }
        if (t->ids.n + 4 >= CONTEXT) break;
        size_t before = timeline_n(w->warm);
        for (uint32_t drafts = below(4) ? 0 : 1 + below(4); drafts > 0; drafts--)
            assert_true(timeline_append(w->warm, (int32_t)below(w->c->n_vocab), NULL, &err));
        timeline_truncate(w->warm, before);
        if (below(2)) timeline_poison(w->warm);
        ids_push(&t->ids, (int32_t)below(w->c->n_vocab));
        assert_true(timeline_append(w->warm, t->ids.data[t->ids.n - 1], NULL, &err));
    }
    check_cold(w, &t->ids);
    take_snapshot(w);
}

static void fork_here(struct world *w)
{
    size_t i = w->n_branches < MAX_BRANCHES ? w->n_branches++ : below(MAX_BRANCHES);
    talk_copy(&w->branches[i], &w->now);
}

/* Drops the oldest turns after the system's. */
static void trim(struct world *w)
{
    struct talk *t = &w->now;
    if (t->n_turns < 3) return;
    size_t gone = 1 + below((uint32_t)t->n_turns - 2);
    size_t to = t->turn_at[1], from = t->turn_at[1 + gone];
    memmove(t->ids.data + to, t->ids.data + from, (t->ids.n - from) * sizeof *t->ids.data);
    t->ids.n -= from - to;
    memmove(t->turn_at + 1, t->turn_at + 1 + gone,
            (t->n_turns - 1 - gone) * sizeof *t->turn_at);
    t->n_turns -= gone;
    for (size_t i = 1; i < t->n_turns; i++)
        t->turn_at[i] -= from - to;
}

static void step(struct world *w)
{
    switch (below(7)) {
    case 0:
        talk_cut(&w->now, 1 + below((uint32_t)w->now.n_turns)); /* undone */
        break;
    case 1:
        talk_cut(&w->now, 1 + below((uint32_t)w->now.n_turns)); /* edited */
        talk_say(w, 40);
        break;
    case 2:
        fork_here(w);
        talk_say(w, 40);
        break;
    case 3:
        if (w->n_branches == 0) break;
        fork_here(w);
        talk_copy(&w->now, &w->branches[below((uint32_t)w->n_branches)]);
        break;
    case 4: trim(w); break;
    default: talk_say(w, 90); break;
    }
    talk_sync(w);
    if (below(2)) reply(w);
}

static void run_history(struct world *w)
{
    w->now.turn_at[0] = 0;
    w->now.n_turns = 0;
    talk_say(w, 30);
    talk_say(w, 60);
    w->now.turn_at[w->now.n_turns] = w->now.ids.n;
    for (uint32_t i = 0; i < STEPS; i++) {
        /* The border behind the last turn, where a cut may cut nothing. */
        w->now.turn_at[w->now.n_turns] = w->now.ids.n;
        step(w);
    }
    verify(w);
}

static void world_clear(struct world *w)
{
    ids_free(&w->now.ids);
    for (size_t i = 0; i < MAX_BRANCHES; i++)
        ids_free(&w->branches[i].ids);
    for (size_t i = 0; i < w->n_past; i++)
        ids_free(&w->past[i]);
    for (size_t i = 0; i < w->n_kept; i++)
        ids_free(&w->kept[i]);
    free(w->past);
    free(w->kept);
    timeline_free(w->warm);
    timeline_free(w->cold);
}

static void open_timelines(struct world *w, struct runner *r, uint64_t warm_bytes,
                           uint64_t total_bytes)
{
    struct err err;
    w->recurrent = model_program(r->m)->state_bytes > 0;
    w->windowed = model_program(r->m)->window > 0;
    w->n_ctx = w->windowed ? LONG_CONTEXT : CONTEXT;
    const struct timeline_limits limits = {
        .n_ctx = w->n_ctx, .warm_bytes = warm_bytes, .total_bytes = total_bytes};
    const struct timeline_limits none = {.n_ctx = w->n_ctx};
    w->warm = timeline_new(r->be, model_program(r->m), &limits, &err);
    w->cold = timeline_new(r->be, model_program(r->m), &none, &err);
    assert_true(w->warm && w->cold);
}

static void check_model(const struct golden_case *c, enum kv_type type, size_t first,
                        size_t stride)
{
    struct runner r;
    const struct runner_options o = {
        .isa = CPU_AUTO, .n_threads = 2, .kv_type = type, .n_ctx = LONG_CONTEXT, .batch = 1};
    runner_open(&r, c->model, o);
    size_t page_bytes =
        model_program(r.m)->page_bytes[PAGE_FULL] + model_program(r.m)->page_bytes[PAGE_WINDOW];
    for (size_t i = first; i < HISTORIES * soak(); i += stride) {
        chance_begin(1000 + i);
        struct world w = {.c = c, .forgets = below(3) == 0};
        uint64_t warm = below(4) * page_bytes, total = below(2) ? 5 * page_bytes : 0;
        open_timelines(&w, &r, w.forgets ? warm : UINT64_MAX, w.forgets ? total : 0);
        run_history(&w);
        world_clear(&w);
    }
    runner_close(&r);
}

enum { N_TYPES = 4, N_FLOAT_TYPES = 2 };
static const enum kv_type types[N_TYPES] = {KV_F32, KV_F16, KV_Q8_0, KV_Q4_0};

static void check_type(size_t i)
{
    const char *folder = golden_kit() ? golden_kit() : "tests/data";
    struct golden_set set = golden_read(folder, golden_known);
    for (size_t c = 0; c < set.n; c++) {
        size_t n_types = golden_has_blocks(&set.cases[c]) ? N_TYPES : N_FLOAT_TYPES;
        if (i < n_types) check_model(&set.cases[c], types[i], (i + c) % n_types, n_types);
    }
    golden_free(&set);
}

static void test_f32(void **state)
{
    (void)state;
    check_type(0);
}

static void test_f16(void **state)
{
    (void)state;
    check_type(1);
}

static void test_q8_0(void **state)
{
    (void)state;
    check_type(2);
}

static void test_q4_0(void **state)
{
    (void)state;
    check_type(3);
}

/* Bytes of memory that the process has in use. */
static size_t resident(void)
{
    size_t size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &size, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Ten thousand times the last reply is taken back and made anew, or the turn with it: memory is
 * what the limit allows, and stays. */
static void test_memory_is_flat(void **state)
{
    (void)state;
    struct golden_set set = golden_read("tests/data", golden_known);
    struct runner r;
    const struct runner_options o = {
        .isa = CPU_AUTO, .n_threads = 1, .kv_type = KV_F16, .n_ctx = CONTEXT, .batch = 1};
    runner_open(&r, set.cases[0].model, o);
    size_t page_bytes =
        model_program(r.m)->page_bytes[PAGE_FULL] + model_program(r.m)->page_bytes[PAGE_WINDOW];
    struct world w = {.c = &set.cases[0]};
    open_timelines(&w, &r, 8 * page_bytes, 0);
    chance_begin(7);
    talk_say(&w, 30);
    talk_say(&w, 90);
    struct err err;
    size_t settled = 0;
    for (uint32_t round = 0; round < 10000; round++) {
        struct timeline_cost cost;
        size_t n = w.now.ids.n - (round % 3 == 0 ? 2 : 0); /* undone, or only retried */
        assert_true(timeline_sync(w.warm, w.now.ids.data, n, NULL, &cost, &err));
        if (round > 3) assert_int_equal(cost.n_prefilled, 0);
        timeline_snapshot(w.warm);
        assert_true(timeline_append(w.warm, (int32_t)below(w.c->n_vocab), NULL, &err));
        timeline_snapshot(w.warm);
        struct timeline_usage u = timeline_usage(w.warm);
        assert_true(u.bytes - u.current_bytes <= 8 * page_bytes);
        assert_true(u.n_pages <= u.n_current_pages + 8);
        if (round == 1000) settled = resident();
    }
    /* A sanitizer holds freed memory back for a while. */
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && !defined __clang__
    malloc_trim(0);
    assert_true(resident() <= settled + (1 << 20));
#endif
    (void)settled;
    world_clear(&w);
    runner_close(&r);
    golden_free(&set);
}

/* A token takes what was said it would, whatever the KV type. */
static void test_memory_per_token(void **state)
{
    (void)state;
    struct golden_set set = golden_read("tests/data", golden_known);
    for (size_t i = 0; i < N_TYPES; i++) {
        struct runner r;
        struct err err;
        const struct runner_options o = {
            .isa = CPU_AUTO, .n_threads = 1, .kv_type = types[i], .n_ctx = CONTEXT, .batch = 1};
        runner_open(&r, set.cases[0].model, o);
        struct model_sizes sizes;
        const struct model_params params = {.kv_type = types[i]};
        assert_true(model_estimate(r.g, r.be, &params, 1, &sizes, &err));
        struct world w = {.c = &set.cases[0]};
        open_timelines(&w, &r, 0, 0);
        for (uint32_t n = 0; n < CONTEXT; n++)
            ids_push(&w.now.ids, (int32_t)below(w.c->n_vocab));
        assert_true(timeline_sync(w.warm, w.now.ids.data, CONTEXT, NULL, NULL, &err));
        assert_int_equal(timeline_usage(w.warm).bytes, CONTEXT * sizes.kv_bytes_per_token);
        world_clear(&w);
        runner_close(&r);
    }
    golden_free(&set);
}

/* Of windowed rows only those stay that something looks back on: the end, and each mark of a
 * long prompt. */
static void test_windows_are_dropped(void **state)
{
    (void)state;
    static const char *const one[] = {"gemma3$", NULL};
    struct golden_set set = golden_read("tests/data", one);
    struct runner r;
    struct err err;
    const struct runner_options o = {
        .isa = CPU_AUTO, .n_threads = 1, .kv_type = KV_F16, .n_ctx = LONG_CONTEXT, .batch = 1};
    runner_open(&r, set.cases[0].model, o);
    const struct program *p = model_program(r.m);
    struct world w = {.c = &set.cases[0]};
    open_timelines(&w, &r, UINT64_MAX, 0);
    for (uint32_t n = 0; n < 1500; n++)
        ids_push(&w.now.ids, (int32_t)below(w.c->n_vocab));
    assert_true(timeline_sync(w.warm, w.now.ids.data, 1500, NULL, NULL, &err));
    struct timeline_usage u = timeline_usage(w.warm);
    const size_t full = u.n_pages * p->page_bytes[PAGE_FULL];
    const size_t logits = u.n_snapshots * (w.c->n_vocab * sizeof(float) + 64);
    assert_int_equal(u.n_pages, 24);
    assert_int_equal(u.n_snapshots, 2); /* after 512 and 1024 tokens */
    /* One page before each of those, three at the end: 64 rows may be taken back. */
    assert_true(u.bytes <= full + logits + 5 * p->page_bytes[PAGE_WINDOW]);
    /* An edit goes on from the mark before it. */
    struct timeline_cost cost;
    w.now.ids.data[1100] ^= 1;
    assert_true(timeline_sync(w.warm, w.now.ids.data, 1500, NULL, &cost, &err));
    assert_int_equal(cost.n_prefilled, 1500 - 1024);
    check_cold(&w, &w.now.ids);
    world_clear(&w);
    runner_close(&r);
    golden_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_q8_0),
        cmocka_unit_test(test_q4_0),
        cmocka_unit_test(test_memory_is_flat),
        cmocka_unit_test(test_memory_per_token),
        cmocka_unit_test(test_windows_are_dropped),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
