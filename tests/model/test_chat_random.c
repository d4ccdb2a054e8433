/* Random conversations: messages, retries, edits, undos, forks, switches, trims, cancels, work
 * done while typing, changed settings and drafts in any order. Whatever came before, the same
 * messages with the same seed get the same reply, and the bits held are those computed cold.
 * The sequence is seeded; HEARTH_SOAK makes it longer. */
#include "../chance.h"
#include "../chat_driver.h"
#include "../soak.h"

#include <xxhash.h>

#include "chat/impl.h"

enum { STEPS = 400, MAX_KNOWN = 20000 };

/* What a reply depends on, and the reply. */
static struct known {
    uint64_t prompt, seed, reply;
} known[MAX_KNOWN];
static size_t n_known, n_repeated;

static void mix(uint64_t *h, const char *s, size_t n)
{
    *h = XXH3_64bits_withSeed(s, n, *h + n + 1);
}

/* Of all messages before the last. */
static uint64_t prompt_of(struct recorder *r, const char *settings)
{
    struct conversation *c = r->chat->conversation;
    const char *system = conversation_system(c);
    uint64_t h = 1;
    mix(&h, settings, strlen(settings));
    if (system) mix(&h, system, strlen(system));
    for (size_t i = 0; i + 1 < conversation_n(c); i++) {
        const struct message *m = conversation_at(c, i);
        mix(&h, m->text, m->len);
    }
    return h;
}

/* A whole reply must be the one that was made before under the same circumstances. */
static void check_reply(struct recorder *r, const char *settings)
{
    struct conversation *c = r->chat->conversation;
    if (r->report.stop == FACE_STOP_CANCELLED || r->report.stop == FACE_STOP_FAILED) return;
    const struct message *m = conversation_at(c, conversation_n(c) - 1);
    assert_int_equal(m->role, ROLE_REPLY);
    assert_true(r->report.n_ctx_used <= r->report.n_ctx);
    struct known now = {prompt_of(r, settings), m->seed, 1};
    mix(&now.reply, m->text, m->len);
    for (size_t i = 0; i < n_known; i++) {
        if (known[i].prompt != now.prompt || known[i].seed != now.seed) continue;
        if (known[i].reply != now.reply) fail_msg("another reply this time: %s", m->text);
        n_repeated++;
        return;
    }
    if (n_known < MAX_KNOWN) known[n_known++] = now;
}

/* Every message ends where it says, and messages of user and model take turns. */
static void check_conversation(struct recorder *r)
{
    struct conversation *c = r->chat->conversation;
    for (size_t i = 0; i < conversation_n(c); i++) {
        const struct message *m = conversation_at(c, i);
        assert_int_equal(m->role, i % 2 ? ROLE_REPLY : ROLE_USER);
        assert_int_equal(strlen(m->text), m->len);
        if (m->role == ROLE_USER) continue;
        assert_in_range(m->content_at, 0, m->len);
        assert_in_range(m->reasoning_at + m->reasoning_len, 0, m->len);
        for (size_t k = 0; k < m->n_ids; k++)
            assert_true(m->id_at[k] <= m->id_at[k + 1]);
        assert_true(m->id_at[m->n_ids] <= m->len);
    }
}

/* The editor of /edit reply: words that no model says, and no two replies share. */
static bool change(void *user, const char *s, size_t n, struct buf *out, struct err *err)
{
    (void)user, (void)err;
    static unsigned n_changes;
    size_t half = n / 2;
    while (half > 0 && (s[half] & 0xc0) == 0x80)
        half--; /* whole characters */
    buf_append(out, s, half);
    buf_printf(out, " [%u]", ++n_changes);
    return true;
}

static void edit_reply(struct recorder *r)
{
    r->face.edit = change;
    line(r, "/edit reply");
    r->face.edit = NULL;
}

/* False: the reply that may have come was gone on with, so it has no prompt of its own. */
static bool one_step(struct recorder *r, char settings[32])
{
    static const char *const messages[] = {"What is a token?", "Tell me a story",
                                           "Write a C function that adds two numbers"};
    static const char *const drafts[] = {"off", "lookup", GUIDE_DRAFT, GUIDE_DRAFT ",lookup"};
    const uint32_t n_messages = sizeof messages / sizeof *messages;
    char command[64];
    /* Something is typed and rests; what it computes may still run when the next comes. */
    const char *typed = messages[below(n_messages)];
    if (below(3) == 0) chat_warm(r->chat, typed, below((uint32_t)strlen(typed) + 1));
    r->cancel_after = below(6) == 0 ? 1 + (int)below(8) : 0;
    switch (below(16)) {
    case 0: line(r, "/retry"); break;
    case 1:
        snprintf(command, sizeof command, "/retry %u", below(3));
        line(r, command);
        break;
    case 2:
        snprintf(command, sizeof command, "/undo %u", 1 + below(3));
        line(r, command);
        break;
    case 3:
        snprintf(command, sizeof command, "/edit %u", 1 + below(3));
        if (line(r, command) && !(below(3) == 0 && chat_unedit(r->chat)))
            line(r, messages[below(n_messages)]);
        break;
    case 4: line(r, "/continue"); return false;
    case 5: line(r, "/fork"); break;
    case 6:
    case 7:
        snprintf(command, sizeof command, "/switch %u", 1 + below(12));
        line(r, command);
        break;
    case 8: line(r, below(3) ? "/clear" : "/trim"); break;
    case 9:
        snprintf(settings, 32, "/set temp %s", below(2) ? "0.9" : "1.3");
        assert_true(line(r, settings));
        break;
    case 11:
        snprintf(command, sizeof command, "/draft %s", drafts[below(4)]);
        assert_true(line(r, command));
        break;
    case 12: edit_reply(r); break;
    case 10: line(r, below(2) ? "/system Be brief." : "/system -"); break;
    default: line(r, messages[below(n_messages)]); break;
    }
    return true;
}

static void test_random(void **unused)
{
    (void)unused;
    const int n = STEPS * (int)soak();
    chance_begin(20260101);
    static const char *const args[] = {
        "--temp",       "0.9", "--top-k", "0",   "--min-p",    "0",    "--seed", "3",
        "--max-tokens", "24",  "--ctx",   "512", "--overflow", "trim", NULL};
    char settings[32] = "/set temp 0.9";
    struct recorder r;
    open_chat(&r, true, args);
    free(ask(&r, "What is a token?"));
    for (int i = 0; i < n; i++) {
        int n_begins = r.n_begins;
        bool is_whole = one_step(&r, settings);
        assert_int_equal(chat_state(r.chat), CHAT_IDLE);
        assert_int_equal(r.n_begins, r.n_ends);
        check_conversation(&r);
        if (r.n_begins > n_begins && is_whole) check_reply(&r, settings);
        if (i % 50 == 49 && chat_n_messages(r.chat) > 0) {
            assert_true(line(&r, "/verify"));
            if (!said(&r, "info: the same bits")) fail_msg("step %d: %s", i, buf_str(&r.said));
        }
    }
    assert_true(n_repeated >= 10);
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests_name("chat_random", tests, NULL, NULL);
}
