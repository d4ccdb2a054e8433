/* The chat as a face drives it, with the bundled guide: turns, commands, seeds. */
#include "../chat_driver.h"
#include "../scratch.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "chat/impl.h"
#include "chat/view.h"
#include "gguf/gguf.h"

#define OTHER_MODEL "tests/data/models/qwen2.gguf"

static void test_turns_are_warm(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    free(ask(&r, "What is a draft model?"));
    assert_int_equal(r.report.stop, FACE_STOP_END);
    assert_int_equal(r.report.n_cached, 0);
    assert_true(r.report.n_generated > 5);
    uint32_t used = r.report.n_ctx_used;
    free(ask(&r, "And what is the cache?"));
    /* The prompt and the reply before it are there; only the end of that turn and the new
     * message are computed. */
    assert_true(r.report.n_cached + 1 >= used);
    assert_true(r.report.n_prefilled < 24);
    used = r.report.n_ctx_used;
    free(ask(&r, "Thanks"));
    assert_true(r.report.n_cached + 1 >= used);
    assert_int_equal(chat_n_messages(r.chat), 6);
    assert_string_equal(buf_str(&r.said), "");
    close_chat(&r);
}

/* /undo, the same again; /retry with the seed that was shown; --reply-seed for the first. */
static void test_seeds(void **unused)
{
    (void)unused;
    static const char *const warm[] = {"--temp",  "1.5", "--top-k",      "0",  "--min-p", "0",
                                       "--top-p", "1",   "--max-tokens", "40", "--seed",  "7",
                                       NULL};
    struct recorder r;
    open_chat(&r, false, warm);
    char *first = ask(&r, "Tell me a story");
    uint64_t first_seed = r.report.reply_seed;
    assert_int_equal(first_seed, engine_reply_seed(7, 0, 0));
    char *second = ask(&r, "/retry");
    assert_string_not_equal(first, second);
    assert_int_equal(r.report.reply_seed, engine_reply_seed(7, 0, 1));
    assert_int_equal(r.report.n_prefilled, 0);
    char command[64];
    snprintf(command, sizeof command, "/retry %" PRIu64, first_seed);
    char *again = ask(&r, command);
    assert_string_equal(first, again);
    assert_int_equal(r.report.reply_seed, first_seed);
    free(ask(&r, "/retry 010")); /* as --seed reads it, not in octal */
    assert_int_equal(r.report.reply_seed, 10);
    free(ask(&r, "/retry 0x10"));
    assert_int_equal(r.report.reply_seed, 16);
    assert_false(line(&r, "/retry 0x"));
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_true(line(&r, "/undo"));
    assert_int_equal(chat_n_messages(r.chat), 0);
    char *anew = ask(&r, "Tell me a story");
    assert_string_equal(first, anew);
    close_chat(&r);

    char seed[32];
    snprintf(seed, sizeof seed, "%" PRIu64, first_seed);
    const char *const cold[] = {"--temp",  "1.5", "--top-k",      "0",  "--min-p",      "0",
                                "--top-p", "1",   "--max-tokens", "40", "--reply-seed", seed,
                                NULL};
    open_chat(&r, false, cold);
    char *given = ask(&r, "Tell me a story");
    assert_string_equal(first, given);
    free(ask(&r, "More"));
    assert_true(r.report.reply_seed != first_seed);
    close_chat(&r);
    free(first), free(second), free(again), free(anew), free(given);
}

static void test_commands(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    assert_true(line(&r, "/help"));
    assert_true(said(&r, "info: /help"));
    assert_true(said(&r, "/quit /exit /bye"));
    assert_false(line(&r, "/udno"));
    assert_true(said(&r, "error: no command /udno; did you mean /undo?"));
    assert_false(line(&r, "/ 5"));
    assert_true(said(&r, "error: no command /; /help lists them (// sends it as text)"));
    assert_false(line(&r, "/ set temp 1"));
    assert_true(said(&r, "error: no command /; did you mean /set? (// sends it as text)"));
    assert_false(line(&r, "/undo"));
    assert_true(said(&r, "error: /undo: nothing has been said yet"));
    assert_true(line(&r, "/set temp 0.25"));
    assert_true(chat_options(r.chat)->temp == 0.25f);
    assert_false(line(&r, "/set tmep 1"));
    assert_true(said(&r, "did you mean temp?"));
    assert_false(line(&r, "/set ctx 5"));
    assert_true(said(&r, "settled at the start"));
    assert_true(line(&r, "/show"));
    assert_true(said(&r, "<|im_end|>"));
    assert_true(line(&r, "/think off"));
    assert_true(line(&r, "   "));
    assert_int_equal(r.n_begins, 0);
    assert_true(line(&r, "/quit"));
    assert_int_equal(chat_state(r.chat), CHAT_CLOSED);
    close_chat(&r);
}

/* Two slashes send one; several lines are no command. */
static void test_slashes(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "8", NULL};
    open_chat(&r, false, args);
    free(ask(&r, "//help me"));
    free(ask(&r, "/undo\nis a command"));
    assert_int_equal(chat_n_messages(r.chat), 4);
    assert_int_equal(r.report.stop, FACE_STOP_LENGTH);
    assert_false(line(&r, "/quit now"));
    assert_true(said(&r, "takes nothing after it"));
    assert_int_equal(chat_state(r.chat), CHAT_IDLE);
    assert_false(line(&r, "/"));
    assert_false(line(&r, "/undo x"));
    assert_false(line(&r, "/undo 0"));
    assert_false(line(&r, "/undo 3"));
    assert_true(said(&r, "there are only 2 turns"));
    assert_true(line(&r, "/undo 2"));
    assert_int_equal(chat_n_messages(r.chat), 0);
    close_chat(&r);
}

/* A system message that is set says what it would say after --system. */
static void test_system(void **unused)
{
    (void)unused;
    struct recorder r;
    char path[SCRATCH_PATH], command[SCRATCH_PATH + 16];
    scratch_file(path, "system", "\xef\xbb\xbfYou are a cat.\nMeow.\r\n");
    open_chat(&r, true, NULL);
    snprintf(command, sizeof command, "/system @%s", path);
    assert_true(line(&r, command));
    assert_true(said(&r, "the system message is set"));
    assert_true(line(&r, "/system"));
    assert_string_equal(buf_str(&r.said), "literal: You are a cat.\nMeow.\n");
    assert_true(line(&r, "/system @@home"));
    assert_true(line(&r, "/system"));
    assert_string_equal(buf_str(&r.said), "literal: @home\n");
    /* What cannot be read changes nothing. */
    unlink(path);
    assert_false(line(&r, command));
    assert_true(said(&r, "error: /system: "));
    assert_true(said(&r, "No such file or directory"));
    assert_false(line(&r, "/system @"));
    assert_true(said(&r, "expected a path, found nothing"));
    assert_false(line(&r, "/system @/dev/null"));
    assert_true(said(&r, "/dev/null: is a device, expected a file"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(line(&r, command));
    assert_true(said(&r, "is a FIFO, expected a file"));
    assert_true(line(&r, "/system"));
    assert_string_equal(buf_str(&r.said), "literal: @home\n");
    unlink(path);
    scratch_file(path, "system", "caf\xe9\n");
    snprintf(command, sizeof command, "/system @%s", path);
    assert_false(line(&r, command));
    assert_true(said(&r, "is not UTF-8 text"));
    unlink(path);
    scratch_file(path, "system", "\n");
    snprintf(command, sizeof command, "/system @%s", path);
    assert_true(line(&r, command));
    assert_true(said(&r, "no system message"));
    unlink(path);
    close_chat(&r);
}

/* What a user types never becomes a control token: the turn does not end there, and the prompt
 * is longer than with the token itself. */
static void test_control_tokens(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "4", "--system", "x<|im_end|>y", NULL};
    open_chat(&r, false, args);
    free(ask(&r, "a"));
    uint32_t plain = r.report.n_cached + r.report.n_prefilled;
    assert_true(line(&r, "/clear"));
    free(ask(&r, "a<|im_end|>"));
    uint32_t spelled = r.report.n_cached + r.report.n_prefilled;
    assert_true(spelled >= plain + 4); /* in letters, not as one token */
    assert_true(line(&r, "/clear"));
    assert_true(line(&r, "/system x"));
    free(ask(&r, "a"));
    uint32_t without = r.report.n_cached + r.report.n_prefilled;
    assert_true(plain >= without + 4);
    close_chat(&r);
}

/* Puts a thought before the reply and drops it from the history. */
static const char thinking_template[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n<think>\nEasy.\n</think>\n\n";

/* A template that drops earlier reasoning: all is reused up to where the thought began. */
static void test_stripped(void **unused)
{
    (void)unused;
    char path[SCRATCH_PATH];
    scratch_file(path, "template", thinking_template);
    struct recorder r;
    const char *const args[] = {"--max-tokens", "8", "--template", path, NULL};
    open_chat(&r, false, args);
    free(ask(&r, "What is a token?"));
    uint32_t prompt = r.report.n_cached + r.report.n_prefilled;
    uint32_t thought = (uint32_t)strlen("<think>\nEasy.\n</think>\n\n");
    free(ask(&r, "And a page?"));
    assert_true(r.report.n_cached < prompt);
    assert_true(r.report.n_cached + thought >= prompt);
    assert_true(r.report.n_cached + 16 >= prompt);
    assert_true(line(&r, "/stats"));
    assert_true(said(&r, "diverged     at token"));
    close_chat(&r);
    unlink(path);
}

/* A file stands before the next message, once. */
static void test_read(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "2", NULL};
    char path[SCRATCH_PATH], command[SCRATCH_PATH + 8];
    scratch_file(path, "read", "some notes\n\r\n");
    open_chat(&r, false, args);
    free(ask(&r, "x"));
    uint32_t plain = r.report.n_ctx_used;
    assert_true(line(&r, "/clear"));
    snprintf(command, sizeof command, "/read %s", path);
    assert_true(line(&r, command));
    assert_true(said(&r, ": 10 bytes, "));
    assert_true(line(&r, "/clear")); /* a new conversation begins without it */
    assert_true(said(&r, "what was read or pasted is dropped"));
    chat_attach(r.chat, "x", 1);
    assert_true(said(&r, "pasted 1 byte, 1 token; they go"));
    assert_true(chat_detach(r.chat));
    chat_attach(r.chat, "\n \n", 3); /* blanks alone are no message */
    assert_false(chat_has_paste(r.chat));
    assert_false(chat_detach(r.chat));
    free(ask(&r, "x"));
    assert_int_equal(r.report.n_ctx_used, plain);
    assert_true(line(&r, "/clear"));
    assert_false(said(&r, "dropped"));
    assert_true(line(&r, command));
    free(ask(&r, "x"));
    assert_true(r.report.n_ctx_used >= plain + 3);
    uint32_t once = r.report.n_ctx_used;
    free(ask(&r, "x"));
    assert_true(r.report.n_ctx_used < 2 * once);
    unlink(path);
    scratch_file(path, "read",
                 "\xef\xbb\xbf"
                 "caf\xe9\n");
    snprintf(command, sizeof command, "/read %s", path);
    assert_true(line(&r, command));
    assert_true(said(&r, "is not valid UTF-8: U+FFFD stands for what is not"));
    free(ask(&r, "x"));
    assert_true(line(&r, "/show conversation"));
    assert_true(said(&r, "\ncaf\xef\xbf\xbd\n\nx"));
    assert_false(line(&r, "/read /nonexistent/file"));
    assert_true(said(&r, "/read: /nonexistent/file"));
    assert_false(line(&r, "/read /tmp"));
    assert_true(said(&r, "/read: /tmp: is a directory, expected a file"));
    assert_false(line(&r, "/read /dev/null"));
    assert_true(said(&r, "/dev/null: is a device, expected a file"));
    assert_false(line(&r, "/read"));
    /* Nobody ever writes to it. */
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(line(&r, command));
    assert_true(said(&r, "is a FIFO, expected a file"));
    unlink(path);
    close_chat(&r);
}

/* A generation prompt that opens a thought: what comes is reasoning, shown or hidden, and no
 * part of the answer. */
static void test_thinking(void **unused)
{
    (void)unused;
    char path[SCRATCH_PATH];
    static const char source[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor "
        "%}"
        "{% set ignored = messages[-1].reasoning_content %}<|im_start|>assistant\n<think>\n";
    scratch_file(path, "template", source);
    struct recorder r;
    const char *const args[] = {"--max-tokens", "8", "--template", path, NULL};
    open_chat(&r, false, args);
    free(ask(&r, "What is a token?"));
    assert_true(r.reasoning.len > 0);
    assert_string_equal(buf_str(&r.text), "");
    uint32_t prompt = r.report.n_cached + r.report.n_prefilled;
    assert_false(line(&r, "/edit reply"));
    assert_true(said(&r, "before its answer"));
    assert_true(line(&r, "/think hide"));
    assert_true(line(&r, "/think")); /* it hides what a template does anyway */
    assert_true(said(&r, "think hide; the template cannot turn thinking on or off"));
    buf_clear(&r.reasoning);
    free(ask(&r, "And a page?"));
    assert_int_equal(r.reasoning.len, 0);
    assert_true(r.report.n_cached + 8 >= prompt);
    assert_int_equal(chat_n_messages(r.chat), 4);
    /* This template cannot be asked. */
    assert_true(line(&r, "/think off"));
    free(ask(&r, "And a seed?"));
    assert_true(said(&r, "warning: the template cannot turn thinking on or off"));
    free(ask(&r, "And a draft?"));
    assert_false(said(&r, "warning"));
    close_chat(&r);
    unlink(path);
}

/* Foreign bytes never reach a face raw, whatever says them. */
static void test_filtered(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, true, NULL);
    assert_false(line(&r, "/foo\x1b[31m"));
    assert_true(said(&r, "/foo\\x1b[31m"));
    assert_true(line(&r, "/system \x1b]0;x\x07 \xff"));
    assert_true(line(&r, "/system"));
    assert_false(line(&r, "/set \x1bx"));
    assert_false(line(&r, "/switch \x1bx"));
    assert_false(line(&r, "/read \x1bx"));
    assert_true(line(&r, "/fork \x1bx"));
    assert_true(line(&r, "/show"));
    assert_null(strchr(buf_str(&r.said), '\x1b'));
    assert_true(said(&r, "\\x1b]0;x\\x07 \\xff"));
    assert_true(said(&r, "\\x1bx"));
    r.cancel_after = 1;
    assert_true(line(&r, "a \x1b[1m b"));
    assert_true(line(&r, "/edit"));
    assert_string_equal(buf_str(&r.offered), "a \\x1b[1m b");
    close_chat(&r);
}

/* What drafts is changed in the middle of a conversation; the replies are the same. */
static void test_draft(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--draft", "off", "--seed", "1", "--temp", "0.8", NULL};
    open_chat(&r, false, args);
    assert_true(line(&r, "/draft"));
    assert_true(said(&r, "guessed by nothing"));
    char *plain = ask(&r, "Count from 1 to 30");
    assert_int_equal(r.report.n_drafted, 0);
    const uint64_t seed = r.report.reply_seed;
    static const char *const drafts[] = {"lookup", GUIDE_DRAFT, GUIDE_DRAFT ",lookup", "off"};
    for (size_t i = 0; i < 4; i++) {
        char command[128];
        snprintf(command, sizeof command, "/draft %s", drafts[i]);
        assert_true(line(&r, command));
        assert_int_equal(chat_state(r.chat), CHAT_IDLE);
        snprintf(command, sizeof command, "/retry %" PRIu64, seed);
        assert_true(line(&r, command));
        assert_int_equal(r.report.n_prefilled, 0); /* nothing that was computed is lost */
        assert_string_equal(buf_str(&r.answer), plain);
        assert_true(line(&r, "/verify"));
        assert_true(said(&r, "the same bits"));
    }

    /* What cannot draft is refused, and what drafted before goes on. */
    assert_true(line(&r, "/draft lookup"));
    assert_true(line(&r, "/draft /no/such/file.gguf"));
    assert_true(said(&r, "error: /draft: the draft: /no/such/file.gguf"));
    assert_true(line(&r, "/draft tests/data/models/qwen2.gguf"));
    assert_true(said(&r, "another vocabulary: token 0 is "));
    assert_false(line(&r, "/draft ,lookup"));
    assert_true(line(&r, "/draft"));
    assert_true(said(&r, "guessed by lookup"));
    assert_true(line(&r, "/show model"));
    assert_true(said(&r, "draft        lookup"));

    free(plain);
    close_chat(&r);
}

/* /model: the conversation stays; ids mean something in the same vocabulary only. */
static void test_model(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--max-tokens", "12", NULL};
    open_chat(&r, false, args);
    char *first = ask(&r, "What is a token?");
    assert_true(line(&r, "/model"));
    assert_true(said(&r, "hearth guide"));
    buf_clear(&r.said);
    assert_true(chat_line(r.chat, "/model " GUIDE_DRAFT, strlen("/model " GUIDE_DRAFT)));
    assert_int_equal(chat_state(r.chat), CHAT_LOADING);
    assert_int_equal(finish(&r), CHAT_IDLE);
    assert_true(said(&r, "info: "));
    assert_string_equal(chat_options(r.chat)->model, GUIDE_DRAFT);
    assert_int_equal(chat_n_messages(r.chat), 2);
    free(ask(&r, "And a page?"));
    assert_int_equal(r.report.n_cached, 0);

    /* Another vocabulary. */
    buf_clear(&r.said);
    assert_true(chat_line(r.chat, "/model " OTHER_MODEL, strlen("/model " OTHER_MODEL)));
    assert_int_equal(finish(&r), CHAT_IDLE);
    assert_true(line(&r, "And a page?"));
    assert_int_not_equal(r.report.stop, FACE_STOP_FAILED);

    /* No file at all: the one that is there is not even closed. */
    buf_clear(&r.said);
    assert_false(chat_line(r.chat, "/model /nonexistent.gguf", 24));
    assert_int_equal(chat_state(r.chat), CHAT_IDLE);
    assert_true(said(&r, "error: /model: /nonexistent.gguf: there is no such file"));

    /* And back, where the same question gets the same answer. */
    assert_true(chat_line(r.chat, "/model " GUIDE, strlen("/model " GUIDE)));
    assert_int_equal(finish(&r), CHAT_IDLE);
    assert_true(line(&r, "/clear"));
    char *again = ask(&r, "What is a token?");
    assert_string_equal(first, again);
    free(first), free(again);
    close_chat(&r);
}

/* Waits for the work that nobody asked for. */
static void rest(struct recorder *r)
{
    struct pollfd fd = {.fd = chat_fd(r->chat), .events = POLLIN};
    while (r->chat->idle.runs) {
        poll(&fd, 1, -1);
        assert_int_equal(chat_step(r->chat, 0), CHAT_IDLE);
    }
}

static void warm(struct recorder *r, const char *typed)
{
    chat_warm(r->chat, typed, strlen(typed));
    rest(r);
}

/* Idle work: what was typed, and what a template will drop from the history, is there when the
 * message is sent. It shows nothing, changes no reply and yields to a turn. */
static void test_warm_typing(void **unused)
{
    (void)unused;
    char path[SCRATCH_PATH];
    scratch_file(path, "template", thinking_template);
    struct recorder r;
    const char *const off[] = {"--max-tokens",  "16",  "--template", path,
                               "--warm-typing", "off", NULL};
    const char *const on[] = {"--max-tokens", "16", "--template", path, NULL};
    open_chat(&r, true, off);
    char *first = ask(&r, "What is a token good for?");
    uint32_t cold = r.report.n_prefilled;
    char *second = ask(&r, "And what is a page of the cache?");
    uint32_t stripped = r.report.n_prefilled;
    warm(&r, "And a");
    close_chat(&r);

    open_chat(&r, true, on);
    warm(&r, "");
    warm(&r, "What is a tok");
    warm(&r, "What is a token");
    warm(&r, "What is a token good f");
    char *warm_first = ask(&r, "What is a token good for?");
    assert_true(r.report.n_prefilled + 6 < cold);
    assert_string_equal(first, warm_first);
    warm(&r, "");
    warm(&r, "And what is a pa");
    warm(&r, "And what is a page of the ca");
    assert_string_equal(buf_str(&r.text), buf_str(&r.answer));
    char *warm_second = ask(&r, "And what is a page of the cache?");
    assert_true(r.report.n_prefilled + 20 < stripped);
    assert_string_equal(second, warm_second);
    assert_int_equal(chat_n_messages(r.chat), 4);
    /* A turn while it runs, a command, another line at once, and the end. */
    chat_warm(r.chat, "And now something else", 22);
    free(ask(&r, "Thanks"));
    chat_warm(r.chat, "/read x", 7);
    chat_warm(r.chat, "And now", 7);
    chat_warm(r.chat, "And now somewhat more", 21);
    warm(&r, "And now somewhat more than that");
    chat_warm(r.chat, "//and", 5);
    assert_true(line(&r, "/undo"));
    /* What it counts is not what is there now. */
    assert_true(r.chat->idle.runs);
    rest(&r);
    assert_false(chat_status(r.chat).is_exact);
    chat_warm(r.chat, "And now", 7);
    assert_true(line(&r, "/verify"));
    assert_true(said(&r, "the same bits"));
    chat_warm(r.chat, "Or else", 7);
    close_chat(&r);
    free(first), free(second), free(warm_first), free(warm_second);
    unlink(path);
}

/* What is longer than the context is found so once, not at each rest of the line. */
static void test_warm_too_long(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, true, NULL);
    struct buf text = {0};
    while (text.len < 1 << 14)
        buf_puts(&text, "2 + 2 ");
    chat_warm(r.chat, text.data, text.len);
    assert_true(r.chat->idle.runs);
    rest(&r);
    buf_putc(&text, 'x');
    chat_warm(r.chat, text.data, text.len);
    assert_false(r.chat->idle.runs);
    chat_warm(r.chat, "2 + 2", 5);
    assert_true(r.chat->idle.runs);
    rest(&r);
    chat_attach(r.chat, text.data, text.len);
    chat_warm(r.chat, "", 0);
    assert_true(r.chat->idle.runs);
    rest(&r);
    chat_warm(r.chat, "What", 4);
    assert_false(r.chat->idle.runs);
    assert_true(chat_detach(r.chat));
    chat_warm(r.chat, "What is", 7);
    assert_true(r.chat->idle.runs);
    close_chat(&r);
    buf_free(&text);
}

static void test_export(void **unused)
{
    (void)unused;
    struct recorder r;
    static const char *const args[] = {"--system", "Be kind.", NULL};
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16], command[SCRATCH_PATH + 32];
    scratch_folder(folder, "export");
    snprintf(path, sizeof path, "%s/chat.md", folder);
    snprintf(command, sizeof command, "/export %s", path);
    open_chat(&r, false, args);
    assert_false(line(&r, command));
    assert_false(line(&r, "/copy"));
    assert_true(said(&r, "no reply yet"));
    char *answer = ask(&r, "What is a token?");
    assert_true(line(&r, command));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct buf text = {0}, want = {0};
    struct err err;
    assert_true(file_read(path, 1 << 20, &text, &err));
    buf_printf(&want,
               "## System\n\nBe kind.\n\n## User\n\nWhat is a token?\n\n## Assistant\n\n%s\n",
               answer);
    assert_string_equal(text.data, buf_str(&want));
    assert_false(line(&r, command));
    assert_true(said(&r, ": is there already; give it another name"));
    assert_false(line(&r, "/export /nonexistent/x"));
    assert_false(line(&r, "/copy"));
    assert_true(said(&r, "no clipboard"));
    buf_free(&text);
    buf_free(&want);
    free(answer);
    scratch_remove(folder);
    close_chat(&r);
}

static bool on_copy(void *user, const char *text, size_t n)
{
    struct recorder *r = user;
    buf_clear(&r->offered);
    buf_append(&r->offered, text, n);
    return true;
}

static void test_copy(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    r.face.copy = on_copy;
    char *answer = ask(&r, "What is a token?");
    assert_true(line(&r, "/copy"));
    assert_string_equal(buf_str(&r.offered), answer);
    assert_false(line(&r, "/copy code"));
    assert_true(said(&r, "no code block"));
    assert_false(line(&r, "/copy all"));
    free(answer);
    free(ask(&r, "Write a C function that adds two numbers"));
    assert_non_null(strstr(buf_str(&r.answer), "```c\n"));
    assert_true(line(&r, "/copy code"));
    assert_null(strstr(buf_str(&r.offered), "```"));
    assert_non_null(strstr(buf_str(&r.offered), "return"));
    assert_true(r.offered.data[r.offered.len - 1] == '\n');
    close_chat(&r);
}

static void test_stop_strings(void **unused)
{
    (void)unused;
    struct recorder r;
    open_chat(&r, false, NULL);
    char *whole = ask(&r, "Count from 1 to 10");
    assert_non_null(strstr(whole, "5"));
    assert_true(line(&r, "/set stop 5"));
    char *cut = ask(&r, "/retry");
    assert_int_equal(r.report.stop, FACE_STOP_STRING);
    assert_null(strstr(cut, "5"));
    assert_memory_equal(cut, whole, strlen(cut));
    uint32_t used = r.report.n_ctx_used;
    free(ask(&r, "Thanks"));
    assert_true(r.report.n_cached + 3 >= used);
    free(whole), free(cut);
    close_chat(&r);
}

/* A model that is broken at one token, which nothing but its input is read for. */
static void broken_model(char path[SCRATCH_PATH], size_t id)
{
    struct buf bytes = {0};
    struct err err;
    if (!file_read("tests/data/models/llama-Q4_0.gguf", 64 << 20, &bytes, &err))
        fail_msg("%s", err.msg);
    struct gguf *g = gguf_from_memory(bytes.data, bytes.len, "llama", &err);
    assert_non_null(g);
    const struct gguf_tensor *t = gguf_tensor_find(g, "token_embd.weight");
    assert_non_null(gguf_tensor_find(g, "output.weight"));
    const size_t row = t->n_bytes / t->ne[1];
    memset((uint8_t *)bytes.data + (t->data - (const uint8_t *)bytes.data) + id * row, 0xff,
           row);
    gguf_close(g);
    scratch_file(path, "broken", "");
    if (!file_replace(path, bytes.data, bytes.len, &err)) fail_msg("%s", err.msg);
    buf_free(&bytes);
}

/* What was said of a reply before the model failed stays, also when it goes on with one, and so
 * does what was there when it fails before the first word. */
static void test_fails_within(void **unused)
{
    (void)unused;
    char path[SCRATCH_PATH];
    struct recorder r;
    broken_model(path, 57);
    /* "A", then "Z". */
    const char *const args[] = {
        "-m", path, "--logit-bias", "32=90,57=60", "--frequency-penalty", "60", NULL};
    open_chat(&r, false, args);
    static const char *const lines[] = {"hm", "/continue", "/continue"};
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            assert_true(line(&r, "/set max-tokens 1") && line(&r, "/retry"));
            assert_string_equal(conversation_at(r.chat->conversation, 1)->answer, "A");
            assert_true(line(&r, "/set max-tokens -1"));
        }
        assert_true(line(&r, lines[i]));
        assert_int_equal(r.report.stop, FACE_STOP_FAILED);
        assert_true(said(&r, "the weights are broken"));
        assert_int_equal(chat_n_messages(r.chat), 2);
        const struct message *m = conversation_at(r.chat->conversation, 1);
        assert_string_equal(m->text, "AZ");
        assert_string_equal(m->answer, "AZ");
    }
    close_chat(&r);
    unlink(path);
}

static void test_templates(void **unused)
{
    (void)unused;
    char path[SCRATCH_PATH];
    static const char source[] =
        "{% if messages | length > 2 %}{{ raise_exception('only one') }}"
        "{% endif %}{{ messages[0].content }}";
    scratch_file(path, "template", source);
    struct recorder r;
    const char *const args[] = {"--max-tokens", "2", "--template", path, NULL};
    open_chat(&r, false, args);
    free(ask(&r, "x"));
    assert_false(line(&r, "and more"));
    assert_true(said(&r, "line 1: only one"));
    assert_string_equal(buf_str(&r.offered), "and more");
    assert_int_equal(chat_n_messages(r.chat), 2);
    assert_true(line(&r, "/show template"));
    assert_true(said(&r, "raise_exception('only one')"));
    assert_false(said(&r, "leaves out"));
    close_chat(&r);

    FILE *f = fopen(path, "w");
    fputs("no word of it", f);
    fclose(f);
    open_chat(&r, false, args);
    free(ask(&r, "x"));
    assert_true(said(&r, "warning: the template leaves out what you say"));
    assert_false(said(&r, "/show")); /* there is nobody to ask for it */
    free(ask(&r, "x"));              /* said once */
    assert_false(said(&r, "leaves out"));
    close_chat(&r);
    open_chat(&r, true, args);
    free(ask(&r, "x"));
    assert_true(said(&r, "sees only its own words (/show prompt)"));
    close_chat(&r);

    f = fopen(path, "w");
    fputs("{% if %}", f);
    fclose(f);
    struct options *o = options_new();
    struct err err = {0};
    assert_true(options_give(o, OPT_TEMPLATE, FROM_FLAG, 0, path, &err));
    const struct engine_config config = {.model_path = GUIDE};
    assert_null(chat_open(o, &config, &r.face, &err));
    assert_non_null(strstr(err.msg, path));
    options_free(o);
    unlink(path);
}

/* What the conversation would be after a command that changes it, or how it is rendered, is
 * counted; that it is warm is said of what the engine has computed alone. */
static void test_counts(void **unused)
{
    (void)unused;
    static const char *const changes[] = {"/system Answer in one short sentence.", "/trim 1",
                                          "/undo", "/think off"};
    static const char source[] =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor "
        "%}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}"
        "<think>\n\n</think>\n\n{% endif %}";
    char path[SCRATCH_PATH];
    struct recorder r;
    /* The guide's template has no switch: its prompt stays what it was. */
    open_chat(&r, false, NULL);
    free(ask(&r, "What is a token?"));
    assert_true(line(&r, "/think off"));
    assert_true(chat_status(r.chat).is_exact);
    close_chat(&r);
    scratch_file(path, "template", source);
    const char *const args[] = {"--template", path, NULL};
    open_chat(&r, false, args);
    free(ask(&r, "What is a token?"));
    assert_false(line(&r, "/think nonsense"));
    assert_true(line(&r, "/think hide")); /* changes what is shown, not what is rendered */
    assert_true(chat_status(r.chat).is_exact);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        free(ask(&r, "And a page?"));
        const struct chat_status before = chat_status(r.chat);
        assert_true(before.is_exact);
        assert_int_equal(before.n_warm, before.n_used);
        assert_true(line(&r, changes[i]));
        const struct chat_status after = chat_status(r.chat);
        assert_false(after.is_exact);
        assert_int_equal(after.n_warm, 0);
        assert_true(after.n_used > 0);
        if (i == 0) assert_true(after.n_used > before.n_used);
        if (i == 1 || i == 2) assert_true(after.n_used < before.n_used);
    }
    assert_true(line(&r, "/clear"));
    assert_true(chat_status(r.chat).is_exact);
    assert_int_equal(chat_status(r.chat).n_used, 0);
    close_chat(&r);
    unlink(path);
}

static void test_completion(void **unused)
{
    (void)unused;
    struct recorder r;
    char models[SCRATCH_PATH], file[SCRATCH_PATH + 16];
    scratch_folder(models, "models");
    snprintf(file, sizeof file, "%s/tiny.gguf", models);
    fclose(fopen(file, "w"));
    setenv("LLAMA_CACHE", models, 1);
    open_chat(&r, false, NULL);
    static const struct {
        const char *line;
        size_t word; /* where what is completed begins */
        const char *words;
        bool is_path;
    } cases[] = {
        {"/un", 0, "/undo\n", false},
        {"/re", 0, "/retry\n/regen\n/read\n", false},
        {"/set temp", 5, "temp\n", false},
        {"/set top", 5, "top-k\ntop-p\n", false},
        {"/set think h", 11, "hide\n", false},
        {"/set color ", 11, "auto\nalways\nnever\n", false},
        {"/set quiet o", 11, "on\noff\n", false},
        {"/set quiet on o", 11, "", false},
        {"/set schema  my f", 13, "", true},
        {"/set quie o", 10, "", false},
        {"/think o", 7, "on\noff\n", false},
        {"/help ret", 6, "retry\n", false},
        {"/read no", 6, "", true},
        {"/read  my file", 7, "", true},
        {"/read ", 6, "", true},
        {"/system @my f", 9, "", true},
        {"/system @", 9, "", true},
        {"/system @@", 8, "", false},
        {"/system @@a", 8, "", false},
        {"/system a", 8, "", false},
        {"/model ti", 7, "tiny\n", true},
        {"/model x", 7, "", true},
        {"/show m", 6, "model\n", false},
        {"/show model m", 6, "", false},
        {"/undo ", 6, "", false},
        {"/nothing x", 0, "", false},
        {"//re", 0, "", false},
        {"hello", 0, "", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf words = {0};
        bool is_path = !cases[i].is_path;
        assert_int_equal(chat_complete(r.chat, cases[i].line, &words, &is_path), cases[i].word);
        assert_string_equal(buf_str(&words), cases[i].words);
        assert_int_equal(is_path, cases[i].is_path);
        buf_free(&words);
    }
    unsetenv("LLAMA_CACHE");
    scratch_remove(models);
    close_chat(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_are_warm), cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_commands),       cmocka_unit_test(test_slashes),
        cmocka_unit_test(test_control_tokens), cmocka_unit_test(test_read),
        cmocka_unit_test(test_system),         cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_fails_within),   cmocka_unit_test(test_templates),
        cmocka_unit_test(test_completion),     cmocka_unit_test(test_counts),
        cmocka_unit_test(test_stripped),       cmocka_unit_test(test_export),
        cmocka_unit_test(test_copy),           cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_filtered),       cmocka_unit_test(test_draft),
        cmocka_unit_test(test_model),          cmocka_unit_test(test_warm_typing),
        cmocka_unit_test(test_warm_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
