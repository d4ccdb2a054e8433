/* A second timeline in pages of its own, and memcmp. */
#include "engine/verify.h"

#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/kv_rows.h"
#include "base/mem.h"
#include "engine/states.h"
#include "engine/timeline.h"

/* Rows per step: enough for the weights to be read seldom, few enough to show progress. */
enum { ROWS = 128 };

struct run {
    const struct verify_subject *s;
    void **pages[PAGE_PARTS]; /* fresh ones, [n_pages] */
    size_t n_pages;
    struct states states;
    float *logits;      /* after the last row that was computed */
    void *warm, *fresh; /* one part of each in host memory */
    size_t host_bytes;  /* of each */
    size_t done, next_held;
};

static bool open_run(struct run *r, const struct verify_subject *s, struct err *err)
{
    const struct program *p = s->program;
    *r = (struct run){.s = s};
    for (int part = 0; part < PAGE_PARTS; part++) {
        r->pages[part] = mem_zalloc(pages_for(s->n) + 1, sizeof *r->pages[part]);
        if (p->page_bytes[part] > r->host_bytes) r->host_bytes = p->page_bytes[part];
    }
    r->logits = mem_zalloc(p->n_vocab, sizeof *r->logits);
    r->warm = mem_try_pages(r->host_bytes);
    r->fresh = mem_try_pages(r->host_bytes);
    if (!states_init(&r->states, s->be, p, err)) return false;
    if (r->warm && r->fresh) return true;
    return err_set(err, ERR_MEMORY, "no memory to compare pages of %zu bytes", r->host_bytes);
}

static void close_run(struct run *r)
{
    const struct program *p = r->s->program;
    for (int part = 0; part < PAGE_PARTS; part++) {
        for (size_t i = 0; i < r->n_pages; i++)
            backend_page_free(r->s->be, r->pages[part][i], p->page_bytes[part]);
        free(r->pages[part]);
    }
    mem_free_pages(r->warm, r->host_bytes);
    mem_free_pages(r->fresh, r->host_bytes);
    states_free(&r->states);
    free(r->logits);
}

/* One more fresh page. */
static bool add_page(struct run *r)
{
    const size_t *page_bytes = r->s->program->page_bytes;
    const size_t i = r->n_pages++;
    for (int part = 0; part < PAGE_PARTS; part++) {
        if (page_bytes[part] == 0) continue;
        r->pages[part][i] =
            backend_page_new(r->s->be, page_bytes[part], r->s->program->page_unit[part]);
        if (!r->pages[part][i]) return false;
    }
    return true;
}

/* The next step ends where logits are held, at a page's end, or when it is long enough. */
static uint32_t next_rows(const struct run *r)
{
    size_t most = r->s->max_rows < ROWS ? r->s->max_rows : ROWS, end = r->s->n;
    if (r->next_held < r->s->n_held) end = r->s->held[r->next_held].n;
    size_t left = end - r->done;
    return (uint32_t)(left < most ? left : most);
}

static bool compute(struct run *r, uint32_t n_rows, const atomic_bool *cancel, struct err *err)
{
    const struct verify_subject *s = r->s;
    while (r->n_pages * PAGE_LEN < r->done + n_rows)
        if (!add_page(r))
            return err_set(err, ERR_MEMORY,
                           "no memory for a second copy of %zu tokens to compare with", s->n);
    bool wants = r->next_held < s->n_held && s->held[r->next_held].n == r->done + n_rows;
    struct step step = {.n_rows = n_rows,
                        .pos = (uint32_t)r->done,
                        .tokens = s->ids + r->done,
                        .pages = {r->pages[PAGE_FULL], r->pages[PAGE_WINDOW]},
                        .n_logits = wants,
                        .logits = wants ? r->logits : NULL,
                        .cancel = cancel};
    states_lend(&r->states, &step);
    if (!exec_run(s->exec, &step, err)) return false;
    states_take(&r->states, n_rows);
    r->done += n_rows;
    return true;
}

/* The first n_slots rows of a part of page i, warm and fresh; false: they differ, as *d says.
 */
static bool part_same(struct run *r, enum page_part part, size_t i, size_t n_slots,
                      struct kv_difference *d)
{
    const struct verify_subject *s = r->s;
    const struct program *p = s->program;
    if (n_slots == 0 || p->page_bytes[part] == 0) return true;
    backend_page_read(s->be, s->pages[part][i], p->page_bytes[part], r->warm);
    backend_page_read(s->be, r->pages[part][i], p->page_bytes[part], r->fresh);
    return !kv_rows_differ(p->kv, p->n_kv, part, r->warm, r->fresh, n_slots, d);
}

static bool rows_same(struct run *r, struct verify_verdict *v)
{
    const struct verify_subject *s = r->s;
    const size_t *page_bytes = s->program->page_bytes;
    for (size_t i = v->n_tokens / PAGE_LEN; i * PAGE_LEN < r->done; i++) {
        size_t left = r->done - i * PAGE_LEN, n_slots = left < PAGE_LEN ? left : PAGE_LEN;
        size_t n_window = s->windows && s->windows[i] < n_slots ? s->windows[i] : n_slots;
        struct kv_difference d;
        if (part_same(r, PAGE_FULL, i, n_slots, &d) &&
            part_same(r, PAGE_WINDOW, i, n_window, &d)) {
            size_t before = v->n_tokens > i * PAGE_LEN ? v->n_tokens - i * PAGE_LEN : 0;
            size_t more = n_window > before ? n_window - before : 0;
            v->n_bytes += (n_slots - before) * (page_bytes[PAGE_FULL] / PAGE_LEN) +
                          more * (page_bytes[PAGE_WINDOW] / PAGE_LEN);
            continue;
        }
        v->what = d.is_key ? VERIFY_KEYS : VERIFY_VALUES;
        v->layer = d.layer;
        v->pos = i * PAGE_LEN + d.slot;
        return false;
    }
    v->n_tokens = r->done;
    return true;
}

/* Whether the states are these; of bytes without alignment. */
static bool states_same(struct run *r, const void *warm, struct verify_verdict *v)
{
    const struct program *p = r->s->program;
    const uint8_t *fresh = states_bytes(&r->states);
    for (size_t i = 0; i < p->n_states; i++) {
        const struct state_part *part = &p->states[i];
        if (memcmp((const uint8_t *)warm + part->at, fresh + part->at,
                   part->n * sizeof(float)) == 0)
            continue;
        v->what = VERIFY_STATES;
        v->layer = i;
        v->pos = r->done - 1;
        return false;
    }
    v->n_bytes += p->state_bytes;
    return true;
}

static bool held_same(struct run *r, struct verify_verdict *v)
{
    const struct verify_subject *s = r->s;
    size_t n_bytes = s->program->n_vocab * sizeof(float);
    for (; r->next_held < s->n_held && s->held[r->next_held].n == r->done; r->next_held++) {
        const struct verify_held *held = &s->held[r->next_held];
        if (held->states && !states_same(r, held->states, v)) return false;
        v->n_held++;
        if (!held->logits) continue;
        if (memcmp(held->logits, r->logits, n_bytes) != 0) {
            v->what = VERIFY_LOGITS;
            v->pos = r->done - 1;
            return false;
        }
        v->n_bytes += n_bytes;
    }
    return true;
}

bool verify_run(const struct verify_subject *s, const struct timeline_watch *watch,
                struct verify_verdict *out, struct err *err)
{
    struct run r;
    *out = (struct verify_verdict){.what = VERIFY_SAME};
    bool ok = open_run(&r, s, err);
    while (ok && r.done < s->n) {
        ok = compute(&r, next_rows(&r), watch ? watch->cancel : NULL, err);
        if (!ok || !rows_same(&r, out) || !held_same(&r, out)) break;
        if (watch && watch->progress) watch->progress(watch->user, r.done, s->n, 0);
    }
    close_run(&r);
    return ok;
}
