/* A ring of slots between two threads, counted by an eventfd. */
#include "engine/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { N_SLOTS = 256, SLOT_TEXT = 1024 };

struct slot {
    struct engine_event event;
    char text[SLOT_TEXT];
};

struct mailbox {
    int fd;
    atomic_uint head; /* slots written, by the writer */
    atomic_uint tail; /* slots given back, by the reader */
    atomic_bool gone;
    unsigned n_written;
    bool lent; /* the slot at tail is being read */
    struct slot slots[N_SLOTS];
};

struct mailbox *mailbox_new(struct err *err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (fd < 0) {
        err_set(err, ERR_IO, "eventfd: %s", strerror(errno));
        return NULL;
    }
    struct mailbox *box = mem_zalloc(1, sizeof *box);
    box->fd = fd;
    return box;
}

void mailbox_free(struct mailbox *box)
{
    if (!box) return;
    close(box->fd);
    free(box);
}

int mailbox_fd(const struct mailbox *box)
{
    return box->fd;
}

void mailbox_hang_up(struct mailbox *box)
{
    atomic_store(&box->gone, true);
}

static bool wait_for_room(struct mailbox *box)
{
    while (box->n_written - atomic_load_explicit(&box->tail, memory_order_acquire) == N_SLOTS) {
        if (atomic_load(&box->gone)) return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return !atomic_load(&box->gone);
}

/* Bytes of text[0..len) that fit into a slot without cutting a character. */
static size_t fitting(const char *text, size_t len)
{
    if (len < SLOT_TEXT) return len;
    size_t n = SLOT_TEXT - 1;
    return n - utf8_partial_tail(text, n);
}

static void post_slot(struct mailbox *box, const struct engine_event *event, const char *text,
                      size_t len)
{
    if (!wait_for_room(box)) return;
    struct slot *slot = &box->slots[box->n_written % N_SLOTS];
    slot->event = *event;
    memcpy(slot->text, text, len);
    slot->text[len] = '\0';
    slot->event.text = slot->text;
    slot->event.text_len = len;
    atomic_store_explicit(&box->head, ++box->n_written, memory_order_release);
    uint64_t one = 1;
    while (write(box->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void mailbox_post(struct mailbox *box, const struct engine_event *event)
{
    const char *text = event->text ? event->text : "";
    size_t left = event->text ? event->text_len : 0;
    do {
        size_t n = fitting(text, left);
        post_slot(box, event, text, n);
        text += n;
        left -= n;
    } while (left > 0);
}

bool mailbox_next(struct mailbox *box, int timeout_ms, struct engine_event *event)
{
    unsigned tail = atomic_load_explicit(&box->tail, memory_order_relaxed);
    if (box->lent) atomic_store_explicit(&box->tail, ++tail, memory_order_release);
    box->lent = false;
    uint64_t one;
    while (read(box->fd, &one, sizeof one) < 0) {
        struct pollfd p = {.fd = box->fd, .events = POLLIN};
        int n = poll(&p, 1, timeout_ms);
        if (n < 0 && errno == EINTR && timeout_ms < 0) continue;
        if (n <= 0) return false;
    }
    /* The writer stored head before it counted the event up. */
    (void)atomic_load_explicit(&box->head, memory_order_acquire);
    *event = box->slots[tail % N_SLOTS].event;
    box->lent = true;
    return true;
}
