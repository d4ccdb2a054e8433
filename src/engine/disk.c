/* Names of pages from ids, then what the store has of them, then what it is given. */
#include "engine/disk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "backend/backend.h"
#include "backend/kv_rows.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "cache/key.h"
#include "cache/thin.h"
#include "cache/tree.h"
#include "engine/weights_id.h"

/* Snapshots of this run that stay on disk: the newest, each with a page and the logits, of
 * which all but the last are of use only to a conversation that went back before it was left.
 * With states or windows nothing goes on from where there is none, so older ones stay, too, the
 * further apart the older they are: of eighteen the first, the ninth and the last six. */
enum { N_NEWEST = 4, MOST_SNAPSHOTS = 8 };

struct kept {
    struct key key;
    uint64_t at; /* its place among all that were put */
};

struct disk {
    struct store *store;
    struct weights_id *weights;
    struct backend *be;
    const struct program *program;
    bool is_ready, never_told;
    struct fingerprint fingerprint;

    struct ids ids;   /* the sequence */
    struct key *keys; /* [n_keys] of its whole pages, as far as they were needed */
    size_t n_keys, cap_keys;

    struct key *found; /* [n_found] of the snapshots that the folder had at the last look */
    size_t n_found;
    bool has_looked;

    uint8_t *host; /* logits, states and both parts of a page */
    size_t logits_bytes, states_bytes;

    struct kept kept[MOST_SNAPSHOTS]; /* snapshots of this run, the newest last */
    size_t n_kept;
    uint64_t n_put;
};

static size_t full_bytes(const struct disk *d)
{
    return d->program->page_bytes[PAGE_FULL];
}

static size_t window_bytes(const struct disk *d)
{
    return d->program->page_bytes[PAGE_WINDOW];
}

/* Without layers that see everything before them there is nothing in a page but windowed rows,
 * or nothing at all: what counts is in windows and snapshots. */
static bool has_pages(const struct disk *d)
{
    return full_bytes(d) > 0;
}

/* Everything in the program that may differ between two runs with the same files: rope scaling
 * follows --ctx, and the layout of a page its type and, in another hearth, its groups of keys.
 */
static struct key options_key(const struct program *p, const struct disk_config *config)
{
    struct buf all = {0};
    const float scale = config->adapter_scale;
    if (config->inexact) buf_puts(&all, config->inexact);
    if (scale != 0) buf_append(&all, &scale, sizeof scale);
    for (size_t i = 0; i < p->n_ropes; i++) {
        const struct rope *rope = &p->ropes[i];
        const uint64_t numbers[2] = {rope->pairs, rope->n_rot};
        buf_append(&all, numbers, sizeof numbers);
        buf_append(&all, rope->freq, rope->n_rot / 2 * sizeof *rope->freq);
        buf_append(&all, &rope->mscale, sizeof rope->mscale);
    }
    for (size_t i = 0; i < p->n_row_scales; i++) {
        const uint64_t period = p->row_scales[i].period;
        buf_append(&all, &p->row_scales[i].log_scale, sizeof p->row_scales[i].log_scale);
        buf_append(&all, &period, sizeof period);
        if (p->row_scales[i].ahead > 0)
            buf_append(&all, &p->row_scales[i].ahead, sizeof p->row_scales[i].ahead);
    }
    for (size_t i = 0; i < p->n_kv; i++) {
        const struct kv_layer *kv = &p->kv[i];
        const uint64_t numbers[] = {kv->type, kv->n_heads, kv->head_dim_k, kv->head_dim_v,
                                    kv->at,   kv->part,    KEY_GROUP};
        buf_append(&all, numbers, sizeof numbers);
    }
    buf_append(&all, p->states, p->n_states * sizeof *p->states);
    XXH128_hash_t sum = XXH3_128bits(buf_str(&all), all.len);
    buf_free(&all);
    return (struct key){sum.low64, sum.high64};
}

struct disk *disk_new(const struct disk_config *config, struct backend *be,
                      const struct gguf *g, const struct program *program)
{
    struct disk *d = mem_zalloc(1, sizeof *d);
    struct buf path = {0};
    buf_printf(&path, "%s/pages", config->dir);
    d->store = store_new(buf_str(&path), config->name, config->cap_bytes);
    buf_clear(&path);
    buf_printf(&path, "%s/weights", config->dir);
    d->weights = weights_id_new(g, buf_str(&path));
    buf_free(&path);
    d->be = be;
    d->program = program;
    d->fingerprint.options = options_key(program, config);
    d->fingerprint.numerics = NUMERICS_VERSION;
    d->fingerprint.kv_type = program->n_kv > 0 ? program->kv[0].type : 0;
    d->logits_bytes = program->n_vocab * sizeof(float);
    d->states_bytes = program->state_bytes;
    d->host = mem_alloc(d->logits_bytes + d->states_bytes + full_bytes(d) + window_bytes(d));
    return d;
}

void disk_free(struct disk *d)
{
    if (!d) return;
    store_free(d->store);
    weights_id_free(d->weights);
    ids_free(&d->ids);
    free(d->keys);
    free(d->found);
    free(d->host);
    free(d);
}

bool disk_is_ready(struct disk *d)
{
    if (!d->is_ready) d->is_ready = weights_id_known(d->weights, &d->fingerprint.weights);
    return d->is_ready;
}

bool disk_make_ready(struct disk *d, const atomic_bool *cancel)
{
    if (!disk_is_ready(d))
        d->is_ready = weights_id_wait(d->weights, cancel, &d->fingerprint.weights);
    return d->is_ready;
}

bool disk_is_never_ready(struct disk *d)
{
    return weights_id_changed(d->weights) != NULL;
}

/* ---- names ---- */

void disk_follow(struct disk *d, const int32_t *ids, size_t n)
{
    assert(d->is_ready);
    size_t most = d->ids.n < n ? d->ids.n : n, same = 0;
    while (same < most && d->ids.data[same] == ids[same])
        same++;
    if (d->n_keys > same / PAGE_LEN) d->n_keys = same / PAGE_LEN;
    d->ids.n = same;
    d->has_looked = false;
    if (n > same) ids_append(&d->ids, ids + same, n - same);
}

/* The key of the first i pages. */
static struct key key_before(struct disk *d, size_t i)
{
    while (d->n_keys < i) {
        struct key before = d->n_keys ? d->keys[d->n_keys - 1] : key_begin(&d->fingerprint);
        MEM_GROW(d->keys, d->n_keys, d->cap_keys);
        d->keys[d->n_keys] =
            key_next(&d->fingerprint, before, d->ids.data + d->n_keys * PAGE_LEN, PAGE_LEN);
        d->n_keys++;
    }
    return i ? d->keys[i - 1] : key_begin(&d->fingerprint);
}

static struct blob_id page_id(struct disk *d, size_t i)
{
    assert((i + 1) * PAGE_LEN <= d->ids.n);
    return (struct blob_id){.kind = BLOB_PAGE,
                            .key = key_before(d, i + 1),
                            .ids = d->ids.data + i * PAGE_LEN,
                            .n_ids = PAGE_LEN,
                            .n_tokens = (i + 1) * PAGE_LEN};
}

static struct blob_id snapshot_id(struct disk *d, size_t n)
{
    assert(n > 0 && n <= d->ids.n);
    size_t i = (n - 1) / PAGE_LEN, n_ids = n - i * PAGE_LEN;
    const int32_t *ids = d->ids.data + i * PAGE_LEN;
    return (struct blob_id){.kind = BLOB_SNAPSHOT,
                            .key = key_next(&d->fingerprint, key_before(d, i), ids, n_ids),
                            .ids = ids,
                            .n_ids = n_ids,
                            .n_tokens = n};
}

static bool has_tail(size_t n)
{
    return n % PAGE_LEN != 0;
}

static size_t snapshot_bytes(const struct disk *d, size_t n)
{
    const size_t tail = has_tail(n) ? full_bytes(d) + window_bytes(d) : 0;
    return d->logits_bytes + d->states_bytes + tail;
}

/* What the shuffle takes apart: the numbers of a page. */
static unsigned element_bytes(const struct disk *d)
{
    return d->fingerprint.kv_type == KV_F32 ? 4 : d->fingerprint.kv_type == KV_F16 ? 2 : 1;
}

/* ---- reading ---- */

size_t disk_n_pages(struct disk *d, size_t first)
{
    size_t i = first;
    if (!has_pages(d)) return d->ids.n / PAGE_LEN - first;
    for (; i < d->ids.n / PAGE_LEN; i++) {
        const struct blob_id id = page_id(d, i);
        if (!store_has(d->store, &id)) break;
    }
    return i - first;
}

struct row {
    struct disk *disk;
    void *const *pages;
};

static void got_page(void *user, size_t i, const void *raw)
{
    const struct row *row = user;
    backend_page_write(row->disk->be, row->pages[i], full_bytes(row->disk), raw);
}

size_t disk_get_pages(struct disk *d, size_t first, size_t n, void *const *pages,
                      const atomic_bool *cancel)
{
    struct row row = {d, pages};
    if (!has_pages(d)) return n;
    struct blob_id *ids = mem_zalloc(n, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = page_id(d, first + i);
    size_t n_got = store_get_row(d->store, ids, n, full_bytes(d), got_page, &row, cancel);
    free(ids);
    return n_got;
}

bool disk_has_snapshot(struct disk *d, size_t n)
{
    const struct blob_id id = snapshot_id(d, n);
    return store_has(d->store, &id);
}

/* A file is asked for of each number of tokens, or the folder is read: of a model without pages
 * any number may have a snapshot. */
static bool may_have_snapshot(struct disk *d, size_t n)
{
    const struct blob_id id = snapshot_id(d, n);
    if (!d->has_looked) return store_has(d->store, &id);
    return d->n_found > 0 &&
           bsearch(&id.key, d->found, d->n_found, sizeof *d->found, key_compare);
}

static void look(struct disk *d)
{
    free(d->found);
    d->found = store_keys(d->store, BLOB_SNAPSHOT, &d->n_found);
    d->has_looked = true;
}

size_t disk_find_snapshot(struct disk *d, size_t least, size_t most)
{
    enum { FEW = PAGE_LEN }; /* as many as lie behind the last page */
    size_t n = most;
    if (most > least + FEW && !d->has_looked) look(d);
    if (d->has_looked && d->n_found == 0) return 0;
    while (n > least && !may_have_snapshot(d, n))
        n--;
    return n > least ? n : 0;
}

bool disk_get_snapshot(struct disk *d, size_t n, float *logits, const void **states,
                       void *const page[PAGE_PARTS])
{
    const struct blob_id id = snapshot_id(d, n);
    if (!store_get(d->store, &id, d->host, snapshot_bytes(d, n))) return false;
    const uint8_t *tail = d->host + d->logits_bytes + d->states_bytes;
    memcpy(logits, d->host, d->logits_bytes);
    *states = d->states_bytes ? d->host + d->logits_bytes : NULL;
    if (!has_tail(n)) return true;
    if (page[PAGE_FULL]) backend_page_write(d->be, page[PAGE_FULL], full_bytes(d), tail);
    if (page[PAGE_WINDOW])
        backend_page_write(d->be, page[PAGE_WINDOW], window_bytes(d), tail + full_bytes(d));
    return true;
}

static struct blob_id window_id(struct disk *d, size_t i)
{
    struct blob_id id = page_id(d, i);
    id.kind = BLOB_WINDOW;
    return id;
}

bool disk_has_window(struct disk *d, size_t i)
{
    const struct blob_id id = window_id(d, i);
    return store_has(d->store, &id);
}

bool disk_get_window(struct disk *d, size_t i, void *part)
{
    const struct blob_id id = window_id(d, i);
    if (!store_get(d->store, &id, d->host, window_bytes(d))) return false;
    backend_page_write(d->be, part, window_bytes(d), d->host);
    return true;
}

/* ---- writing ---- */

/* Queues what was read of a device, unless that was lost: then it is rubbish. */
static void put_read(struct disk *d, const struct blob_id *id, void *raw, size_t n_bytes)
{
    if (backend_is_lost(d->be))
        store_return(raw, n_bytes);
    else
        store_put(d->store, id, raw, n_bytes, element_bytes(d));
}

/* Whether it is on disk; then it was used now. */
static bool is_there(struct disk *d, const struct blob_id *id)
{
    const bool there = store_has(d->store, id);
    if (there) store_touch(d->store, id);
    return there;
}

static bool put(struct disk *d, const struct blob_id *id, const void *part, size_t n_bytes)
{
    if (is_there(d, id)) return true;
    void *raw = store_room(d->store, n_bytes);
    if (!raw) return store_is_broken(d->store);
    backend_page_read(d->be, part, n_bytes, raw);
    put_read(d, id, raw, n_bytes);
    return true;
}

bool disk_put_page(struct disk *d, size_t i, struct tree *t)
{
    if (!has_pages(d)) return true;
    const struct blob_id id = page_id(d, i);
    const void *page = tree_pages(t, PAGE_FULL)[i];
    struct pieces host;
    if (!backend_page_host(d->be, page, &host)) return put(d, &id, page, full_bytes(d));
    if (is_there(d, &id)) return true;
    if (!store_has_room(d->store, full_bytes(d))) return store_is_broken(d->store);
    store_put_lent(d->store, &id, host, full_bytes(d), element_bytes(d), tree_lend(t, i));
    return true;
}

bool disk_put_window(struct disk *d, size_t i, const void *part)
{
    const struct blob_id id = window_id(d, i);
    return put(d, &id, part, window_bytes(d));
}

static bool same_key(struct key a, struct key b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* Whether it is on disk or on its way there; then it was used now. */
static bool is_kept(struct disk *d, const struct blob_id *id)
{
    for (size_t i = 0; i < d->n_kept; i++)
        if (same_key(d->kept[i].key, id->key))
            return store_waits(d->store, id) || is_there(d, id);
    return false;
}

/* Which of those that are kept goes for another one; n_kept: none yet. */
static size_t victim(const struct disk *d)
{
    const bool has_marks = d->states_bytes > 0 || window_bytes(d) > 0;
    uint64_t at[MOST_SNAPSHOTS];
    if (d->n_kept < (has_marks ? MOST_SNAPSHOTS : N_NEWEST)) return d->n_kept;
    if (!has_marks) return 0;
    for (size_t i = 0; i < d->n_kept; i++)
        at[i] = d->kept[i].at;
    return thin_victim(at, d->n_kept, N_NEWEST - 1);
}

/* Makes the snapshot of this key the newest in the list of those that were put, and drops
 * another from disk where there would be too many. One that was listed before becomes the
 * newest, too: a prompt is put again with each reply that it gets, and must not go before the
 * replies. */
static void keep_snapshot(struct disk *d, struct key key)
{
    size_t at = 0;
    while (at < d->n_kept && !same_key(d->kept[at].key, key))
        at++;
    if (at == d->n_kept) at = victim(d);
    if (at == d->n_kept) {
        d->n_kept++;
    } else if (!same_key(d->kept[at].key, key)) {
        const struct blob_id gone = {.kind = BLOB_SNAPSHOT, .key = d->kept[at].key};
        store_drop(d->store, &gone);
    }
    memmove(d->kept + at, d->kept + at + 1, (d->n_kept - 1 - at) * sizeof *d->kept);
    d->kept[d->n_kept - 1] = (struct kept){key, ++d->n_put};
}

/* A part of a page into host, but for the rows behind the last token, which hold what was there
 * before. */
static void read_tail(struct disk *d, enum page_part part, const void *page, size_t n_rows,
                      uint8_t *host)
{
    const struct program *p = d->program;
    if (p->page_bytes[part] == 0) return;
    backend_page_read(d->be, page, p->page_bytes[part], host);
    kv_rows_poison(p->kv, p->n_kv, part, host, n_rows);
}

bool disk_put_snapshot(struct disk *d, size_t n, const float *logits, const void *states,
                       void *const page[PAGE_PARTS])
{
    const struct blob_id id = snapshot_id(d, n);
    const size_t n_bytes = snapshot_bytes(d, n);
    if (is_kept(d, &id)) {
        keep_snapshot(d, id.key);
        return true;
    }
    uint8_t *raw = store_room(d->store, n_bytes);
    if (!raw) return store_is_broken(d->store);
    uint8_t *tail = raw + d->logits_bytes + d->states_bytes;
    memcpy(raw, logits, d->logits_bytes);
    if (d->states_bytes) memcpy(raw + d->logits_bytes, states, d->states_bytes);
    if (has_tail(n)) {
        read_tail(d, PAGE_FULL, page[PAGE_FULL], n % PAGE_LEN, tail);
        read_tail(d, PAGE_WINDOW, page[PAGE_WINDOW], n % PAGE_LEN, tail + full_bytes(d));
    }
    put_read(d, &id, raw, n_bytes);
    keep_snapshot(d, id.key);
    return true;
}

void disk_set_busy(struct disk *d, bool is_busy)
{
    store_set_busy(d->store, is_busy);
}

void disk_drain(struct disk *d)
{
    store_flush(d->store);
}

void disk_touch(struct disk *d)
{
    for (size_t i = 0; has_pages(d) && i < d->ids.n / PAGE_LEN; i++) {
        const struct blob_id id = page_id(d, i);
        store_touch(d->store, &id);
    }
}

bool disk_trouble(struct disk *d, struct err *err)
{
    if (store_trouble(d->store, err)) return true;
    if (d->never_told || !disk_is_never_ready(d)) return false;
    d->never_told = true;
    err_set(err, ERR_IO, "%s: was written to after it was opened",
            weights_id_changed(d->weights));
    return true;
}

struct store_counts disk_counts(struct disk *d)
{
    return store_counts(d->store);
}
