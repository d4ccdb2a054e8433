/* What the files of the chat share: the struct itself, and what they do with it.
 *
 * Private to this folder. chat.c owns it and gives the others events and lines; turn.c runs the
 * turn in it, the commands change it. Owner's thread only, but for what chat_cancel touches in
 * a signal handler: engine and cancelled. */
#ifndef CHAT_IMPL_H
#define CHAT_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/chat.h"
#include "chat/face.h"
#include "chat/sanitise.h"
#include "chat/schemas.h"
#include "config/options.h"
#include "engine/engine.h"

struct archive;
struct conversation;
struct message;
struct node;
struct renderer;
struct spans;

/* What BUSY is at. All but a turn have no turn_begin and no turn_end. */
enum chat_work {
    WORK_TURN,
    WORK_VERIFY_SYNC, /* /verify: the engine is brought to this conversation */
    WORK_VERIFY,      /* … and computes it again */
    WORK_DRAFT,       /* /draft */
};

/* Room for what a line quotes: how a message begins, the value of a setting (printable). */
enum { CHAT_QUOTE_BYTES = 48 };

/* ---- for as long as the chat lives, or until a command says otherwise ---- */

/* The saved conversation: session.c. */
struct session {
    struct archive *archive; /* where it is kept; NULL: nowhere */
    uint64_t seed;           /* what replies are drawn from, kept with it */
    int64_t clock_s;         /* what a template takes for the time, kept with it */
    unsigned attempt;        /* of the name that was made up for it; 0: somebody named it */
    struct buf notes;        /* what reading it found, to be said once the model is there */
    unsigned n_read;         /* conversations read from files, the present one the last */
    bool expects_pages;      /* its first turn should find them on disk */
    bool tells_saving; /* it is the first session of all: its name is said when it is saved */
    bool save_failed;  /* nothing more goes into its file */
    bool told_loss;    /* and that leaving would lose what is not there: the next time it may */
    bool told_limit;   /* that it brings the limit that cut a reply off */
};

/* Where /model and /draft go back to if what they ask for cannot be opened: model.c, draft.c.
 */
struct before {
    char *model;                 /* NULL: there is none, or it is loading again */
    char *draft;                 /* what --draft said; NULL: nothing */
    char *adapter;               /* what --lora said; NULL: nothing */
    struct option_listed listed; /* what went with it */
    bool is_switching; /* what loads is what /model asked for, or the one before again */
    uint64_t vocabulary;
};

/* The template that counts. */
struct chosen_template {
    char *text;           /* of --template, NULL: the model's own */
    const char *from;     /* "the model's own"; for /show */
    const char *stand_in; /* the built-in one in place of the model's, NULL: none is */
};

/* Said once, and not again at each turn: of a model and a system message, and of the
 * conversation. */
struct said {
    bool folded, no_think, no_text, thinned;
};

/* What is told of the last turn until the next: /stats. */
struct last_turn {
    bool there;
    struct face_report report; /* without its text */
    double read_ms;            /* of n_read */
    uint32_t n_restored;       /* of n_cached: from another branch than the one just left */
    /* The first token at which the prompt left what was held; NULL: it only went on. */
    uint32_t diverged_at;
    char *diverged_old, *diverged_new;
};

/* The conversation in tokens, as the engine last told, and by what it is known whether that is
 * still the conversation. */
struct context {
    uint32_t n_used, n_warm, n_drawn;
    bool is_guess; /* rather than what the engine told */
    size_t n_messages;
    const struct message *last; /* only compared: it may be gone */
};

/* ---- from one turn to the next ---- */

/* What chat_bind says of replies. */
struct bond {
    bool counts;                   /* rather than --schema */
    const struct grammar *grammar; /* of schemas; NULL: replies may be anything */
    struct schemas schemas;
};

/* What /read or a paste puts before the next message. */
struct attached {
    struct buf text;
    bool has_paste; /* it may be sent alone */
};

/* Work while the user reads and types: idle.c. */
struct idle {
    bool runs;               /* the engine works at it, in state IDLE */
    bool is_wanted;          /* wanted waits for that to end */
    bool is_done;            /* what stands in done is computed, nothing has happened since */
    struct buf wanted, done; /* lines as far as they are typed */
    size_t n_begun;          /* bytes of the message that was computed last */
    size_t n_failed;         /* so many are too many, since it was forgotten; 0: nobody knows */
};

/* ---- of the turn that runs, {0} when none does: turn.c ---- */

struct turn {
    struct node *mark;    /* where the conversation goes back to if nothing comes of it */
    bool is_new;          /* the user's last message belongs to this turn */
    bool is_last;         /* the chat ends with it: its message stays, whatever comes of it */
    bool is_kept;         /* in the session's file, since the prompt is known to fit */
    size_t n_attached;    /* bytes of it that came from /read or a paste */
    bool has_paste;       /* as struct attached had it */
    struct message *base; /* the reply that is gone on with; NULL: a new one is made */
    uint64_t seed;
    uint32_t attempt;
    uint32_t n_cached, n_done;         /* tokens of the prompt, as prefill last told */
    double prefill_from_ms;            /* when it first did; 0: not yet */
    double prefill_ms;                 /* between that and the last time */
    double still_prefill_ms;           /* the process was stopped in prefill … */
    double still_reply_ms;             /* … and in the reply */
    char unanswered[CHAT_QUOTE_BYTES]; /* how the message began that this one stands for */
    unsigned unanswered_branch;        /* the number that it has now; 0: another holds it */
    size_t n_dropped;                  /* turns that --overflow trim drops, not yet said */
    char dropped[CHAT_QUOTE_BYTES];    /* how the last of them began */
    struct context before;             /* the context before it: give_up brings it back */
    struct buf answer;                 /* as it came, without reasoning */
    struct sanitiser reply, reasoning; /* filters of the two streams */
};

struct chat {
    const struct face *face; /* borrowed */
    struct options *options; /* its own: /set changes them, and a session does */
    struct options *given;   /* … as they were at first */

    enum chat_state state;
    enum chat_work work; /* while BUSY */
    struct err err;      /* of FAILED */
    atomic_bool cancelled;

    _Atomic(struct engine *) engine; /* NULL for a moment when /model changes it */
    struct engine_config config;
    char *draft_path;              /* of config */
    const struct grammar *grammar; /* of --schema; NULL: replies may be anything */
    struct bond bond;
    char *model_line; /* for a greeting; NULL before a model is there */
    struct before before;

    struct conversation *conversation;
    struct node *before_edit; /* held while what /edit offers waits to be sent; NULL: nothing */
    struct session session;
    struct renderer *renderer;
    struct chosen_template template;
    bool reply_seed_waits; /* --reply-seed has not been used yet */
    struct said said;

    struct attached attached;
    struct idle idle;
    struct turn turn;
    struct last_turn last;
    struct context context;

    struct buf filtered; /* scratch of chat_tell and of what a reply shows */
};

/* To be called after a request was posted, which clears the engine's cancel flag: a chat_cancel
 * that came just before counts, too. */
static inline void chat_cancel_late(struct chat *c)
{
    if (atomic_load(&c->cancelled)) engine_cancel(c->engine);
}

/* The sampling of a request that makes no reply. */
static inline struct engine_sampling chat_no_reply(void)
{
    return (struct engine_sampling){.top_p = 1, .repeat_penalty = 1, .max_tokens = 0};
}

/* ---- saying (tell.c) ---- */

/* Says a text to the face, filtered: foreign bytes are fine. */
void chat_tell(struct chat *c, enum face_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a hint that nobody asked for: not under --quiet. */
void chat_hint(struct chat *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says each line of a text as a warning. */
void chat_tell_lines(struct chat *c, const struct buf *lines);
/* Puts a message into the prompt, filtered if that is a terminal's. */
void chat_offer(struct chat *c, const char *text, size_t n);

/* After whatever leaves a branch behind: says so the first time that another goes for it. */
void chat_tell_thinned(struct chat *c);

/* ---- what goes before the next message (attached.c) ---- */

/* Drops it without a word. */
void chat_drop_attached(struct chat *c);
/* Appends how much a text of n_bytes is, of which text[0..n) counts: "2,000 bytes, 1 token".
 * What the model's vocabulary cannot tell, say before it is there, is left out. */
void chat_put_size(struct chat *c, size_t n_bytes, const char *text, size_t n, struct buf *out);

/* ---- what /edit has put into the prompt (edit.c) ---- */

/* Before the conversation goes back to where the message was said; none is there yet. */
void edit_begin(struct chat *c);
/* It is sent, or something else is done from there: there is no going back. */
void edit_settle(struct chat *c);
/* It is not sent: the conversation is as it was before, without a word. False: there is none.
 */
bool edit_give_up(struct chat *c);

/* ---- the template (chosen_template.c) ---- */

/* Reads and parses the file of --template, if it is given: before the model, so that an error
 * in it comes at once. */
bool template_read(struct chat *c, struct err *err);
/* Makes the renderer of the template that counts, anew after c->session.clock_s has changed. */
bool template_choose(struct chat *c, struct err *err);

/* ---- what replies are bound to (schema_read.c) ---- */

/* Makes c->grammar of --schema, anew where /set has changed it; before the model, too. On
 * failure it is as before. */
bool schema_read(struct chat *c, struct err *err);

/* ---- the session (session.c) ---- */

/* Sets c->session.seed from the options, or by chance. */
void session_choose_seed(struct chat *c);

/* Finds or makes the session that the options ask for, before the engine is opened.
 * ERR_SESSION: it cannot be used. */
bool session_begin(struct chat *c, struct err *err);
/* The model is there: says what was read and whether it still holds. */
void session_ready(struct chat *c);
/* After the first turn of a resumed session: says so if nothing of it was found on disk. */
void session_explain(struct chat *c, const struct engine_reply *r);
/* A reply came to --max-tokens: who runs a script and gave none is told once where it is from;
 * false if there is nothing to tell. */
bool session_explain_limit(struct chat *c);
/* Writes what is new; with durable it is on the disk then. Says once if it fails. */
void session_save(struct chat *c, bool durable);
/* Whether the conversation may be left, for another or for good. What is nowhere else is not
 * let go before that is said, and then not before what asks does so again; `again` names that.
 */
bool session_may_go(struct chat *c, const char *again, struct err *err);
/* Writes and closes it: before the engine goes. */
void session_end(struct chat *c);
/* /save NAME and /load NAME. */
bool session_rename(struct chat *c, const char *name, struct err *err);
/* Nothing more can be written to its file: only another name keeps what is said. */
bool session_is_stuck(const struct chat *c);
bool session_load(struct chat *c, const char *name, struct err *err);

/* ---- another model (model.c) ---- */

/* The model that /model asked for is there. */
void model_ready(struct chat *c);
/* The model that /model asked for is not to be had: says why and goes back to the one before.
 * False if there is none to go to. */
bool model_failed(struct chat *c, const struct err *err);
/* Closes the engine, if there is one; what it could not keep on disk is said. */
void model_end(struct chat *c);

/* ---- what a model changes of the options (model_options.c) ---- */

/* The model's own settings count, those of its file and those it is listed with, where nobody
 * says otherwise. is_new: what is wrong with one is told. */
void model_take_settings(struct chat *c, bool is_new);
/* Whether the system message that counts, or that there is none, is as the model has it. */
bool model_has_system(const struct chat *c);
/* Says that it is the model's, and how it begins, where there is one. */
void model_tell_system(struct chat *c);
/* The vocabulary is another: says so of a bias, whose numbers now are other tokens'. */
void model_explain_bias(struct chat *c);
/* Whether the bias of this token counts: what a session brings may name one that the model does
 * not have. */
bool model_takes_bias(const struct chat *c, int32_t id);
/* Says so where one does not. */
void model_explain_lost_bias(struct chat *c);
/* Whether the model has all tokens that a bias names and that count; if not, no message can be
 * answered. */
bool model_has_biases(const struct chat *c, struct err *err);
/* Says so where somebody can change it. */
void model_explain_wrong_bias(struct chat *c);

/* ---- what drafts (draft.c) ---- */

/* Puts what the options say of drafts into the engine's configuration. */
void draft_configure(struct chat *c);
/* Another model comes: a draft that was named was named for the one before. */
void draft_forget(struct chat *c);
/* Keeps what --draft says; and puts it back, after what came next has failed. */
void draft_remember(struct chat *c);
void draft_restore(struct chat *c);
/* Handles one event while /draft is at work. */
void draft_event(struct chat *c, const struct engine_event *event);
/* The file name of the draft model, without its folder; NULL: there is none. */
const char *draft_file(const struct chat *c);
/* Appends what drafts: "small.gguf and lookup", "nothing". */
void draft_name(const struct chat *c, struct buf *out);

/* ---- the turn (turn.c) ---- */

/* Each begins a turn: BUSY and true, or an error was said, the conversation is as it was before
 * and false. */

/* Adds a message of the user, what was attached in front of it, and asks for a reply. When
 * nothing comes of the turn, now or later, both go back to where they were. */
bool turn_say(struct chat *c, const char *text, size_t n);
/* Asks for another reply to the last message of the user. */
bool turn_retry(struct chat *c, const uint64_t *seed);
/* Goes on with the reply at the end. */
bool turn_continue(struct chat *c);
/* Handles one event of the turn. */
void turn_event(struct chat *c, const struct engine_event *event);
/* The process was stopped for so long. */
void turn_stood_still(struct chat *c, double ms);
/* Forgets what runs: before the chat is freed. */
void turn_forget(struct chat *c);

/* ---- its prompt (turn_prompt.c) ---- */

/* Appends the conversation as the turn posts it: up to where the reply begins, or goes on with
 * turn.base. With --overflow trim turns that have no room go from the conversation first
 * (turn.n_dropped). What the template leaves out is said once. */
bool turn_prompt(struct chat *c, struct spans *out, struct err *err);
/* Appends the whole conversation, which has a message, as the model sees it: up to the reply at
 * its end, or to where one would begin. */
bool turn_whole(struct chat *c, struct spans *out, struct err *err);
/* The tokens of that; 0: nobody can tell. */
size_t turn_count(struct chat *c);
/* Says which turns were dropped, if any: once something has come of the turn, for without that
 * they are back. */
void turn_tell_dropped(struct chat *c);
/* What makes room, for whoever is there to do it: "; /trim drops the oldest turns". "" where
 * nothing does: a single turn leaves nothing to drop. Static. */
const char *turn_room_hint(const struct chat *c, size_t n_turns);

/* ---- the reply as a message (reply.c) ---- */

/* What came, as a message of one reference with text, ids and reasoning but no answer yet; base
 * is the reply that it goes on with, or NULL. */
struct message *reply_join(const struct message *base, const struct engine_reply *r);
/* The reply `old` with another answer, s[0..n): its reasoning stays if it came before the
 * answer, and its ids do up to where the text differs. */
struct message *reply_edited(const struct message *old, const char *s, size_t n);
/* A reply of which only the text is left. */
struct message *reply_without_ids(const char *text, size_t n);

/* ---- /verify (verify.c) ---- */

/* Recomputes the conversation, which has a message, from nothing and compares: BUSY and true,
 * or an error was said. */
bool verify_begin(struct chat *c);
/* Handles one event of it. */
void verify_event(struct chat *c, const struct engine_event *event);

/* ---- what a face looks at (view.c) ---- */

/* The conversation as it stands has n_used tokens, of which n_warm are computed. */
void context_set(struct chat *c, uint32_t n_used, uint32_t n_warm);
/* What is known of it holds no more: it is another one or another model's, or rendered in
 * another way. */
void context_forget(struct chat *c);

/* ---- while nothing is asked (idle.c) ---- */

/* Handles one event that comes in state IDLE. */
void idle_event(struct chat *c, const struct engine_event *event);
/* Ends it within milliseconds: before anything else is asked of the engine. */
void idle_stop(struct chat *c);
/* Something has happened: what is computed may not be what the next prompt begins with. */
void idle_forget(struct chat *c);
void idle_free(struct chat *c);

/* ---- commands (commands.c) ---- */

/* Runs a line that begins with a slash; as chat_line. */
bool command_run(struct chat *c, const char *line, size_t n);

#endif
