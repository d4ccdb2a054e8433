/* Two objects that change places, and a third to come back to. */
#include "engine/states.h"

#include <assert.h>
#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"

static bool no_memory(const struct states *s, struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for recurrent states of %zu bytes", s->n_bytes);
}

bool states_init(struct states *s, struct backend *be, const struct program *p, struct err *err)
{
    *s = (struct states){.be = be, .n_bytes = p->state_bytes, .is_known = true};
    if (s->n_bytes == 0) return true;
    s->now = backend_state_new(be, s->n_bytes);
    s->next = backend_state_new(be, s->n_bytes);
    s->host = mem_try_pages(s->n_bytes);
    if (s->now && s->next && s->host) return true;
    no_memory(s, err);
    states_free(s);
    return false;
}

void states_free(struct states *s)
{
    if (s->n_bytes == 0) return;
    backend_state_free(s->be, s->now, s->n_bytes);
    backend_state_free(s->be, s->next, s->n_bytes);
    void *third = s->held && s->held != s->now ? s->held : s->spare;
    if (third) backend_state_free(s->be, third, s->n_bytes);
    mem_free_pages(s->host, s->n_bytes);
    *s = (struct states){0};
}

/* Nothing is held any more. */
static void let_go(struct states *s)
{
    if (s->held && s->held != s->now) s->spare = s->held;
    s->held = NULL;
}

bool states_at(const struct states *s, size_t n)
{
    return s->n_bytes == 0 || (s->is_known && s->n == n);
}

void states_hold(struct states *s)
{
    if (s->n_bytes == 0 || !s->is_known) return;
    let_go(s);
    if (!s->spare) s->spare = backend_state_new(s->be, s->n_bytes);
    if (!s->spare) return;
    s->held = s->now;
    s->n_held = s->n;
}

void states_cut(struct states *s, size_t n)
{
    if (s->n_bytes == 0) return;
    if (s->held && s->n_held > n) let_go(s);
    if (s->n <= n) return;
    if (!s->held) {
        states_lose(s);
        return;
    }
    s->spare = s->now; /* not the held ones, which have taken fewer tokens */
    s->now = s->held;
    s->n = s->n_held;
    s->is_known = true;
    s->n_returns++;
}

void states_reset(struct states *s)
{
    if (s->n_bytes == 0 || states_at(s, 0)) return;
    memset(s->host, 0, s->n_bytes);
    states_load(s, 0, s->host);
}

void states_load(struct states *s, size_t n, const void *bytes)
{
    if (s->n_bytes == 0) return;
    let_go(s);
    backend_state_write(s->be, s->now, s->n_bytes, bytes);
    s->n = n;
    s->is_known = true;
}

void states_break(struct states *s)
{
    const size_t n = s->n;
    states_lose(s);
    states_reset(s);
    s->n = n;
}

const void *states_bytes(struct states *s)
{
    if (s->n_bytes == 0) return NULL;
    assert(s->is_known);
    backend_state_read(s->be, s->now, s->n_bytes, s->host);
    return s->host;
}

void states_lose(struct states *s)
{
    let_go(s);
    s->is_known = s->n_bytes == 0;
}

void states_lend(const struct states *s, struct step *step)
{
    step->state_in = s->now;
    step->state_out = s->next;
}

void states_take(struct states *s, size_t n_rows)
{
    if (s->n_bytes == 0) return;
    void *old = s->now;
    s->now = s->next;
    s->next = old;
    s->before = old;
    s->n_before = s->n;
    if (old == s->held) {
        /* The held states stay as they are. The next step writes to the third object, which
         * states_hold has made. */
        s->next = s->spare;
        s->spare = NULL;
    }
    s->n += n_rows;
}

bool states_lend_ahead(struct states *s, struct step *step, void **end, struct err *err)
{
    states_lend(s, step);
    *end = NULL;
    if (s->n_bytes == 0) return true;
    let_go(s);
    if (!s->spare) s->spare = backend_state_new(s->be, s->n_bytes);
    *end = s->spare;
    return *end || no_memory(s, err);
}

void states_take_ahead(struct states *s, size_t n_rows, size_t n_more)
{
    states_take(s, n_rows);
    states_hold(s);
    if (s->n_bytes == 0 || n_more == 0) return;
    s->now = s->spare;
    s->spare = NULL;
    s->n += n_more;
}

void states_keep(struct states *s, struct exec *x, size_t n)
{
    if (s->n_bytes == 0 || s->n == s->n_before + n) return;
    assert(n > 0 && s->n_before + n < s->n);
    struct err ignored; /* they are computed again where they are needed */
    s->is_known = s->is_known && exec_advance(x, s->before, s->now, (uint32_t)n, &ignored);
    s->n_returns++;
    s->written_bytes += s->n_bytes;
    s->n = s->n_before + n;
}
