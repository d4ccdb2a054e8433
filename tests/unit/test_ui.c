/* The faces' pure parts: numbers as people read them, JSON, input as it becomes a message, the
 * lines of the history, words to complete. */
#include <limits.h>
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <readline/history.h>
#include <readline/readline.h>

#include "../child.h"
#include "../scratch.h"
#include "base/ascii.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ui/charset.h"
#include "ui/given.h"
#include "ui/history.h"
#include "ui/input.h"
#include "ui/json.h"
#include "ui/progress.h"
#include "ui/status.h"
#include "ui/term.h"

static struct buf got;

/* What readline takes its memory by: no header of its has them. */
void *xmalloc(size_t n_bytes);
void *xrealloc(void *p, size_t n_bytes);
void xfree(void *p);

static void is(const char *want)
{
    char shown[1024];
    snprintf(shown, sizeof shown, "%s", buf_str(&got));
    buf_free(&got); /* also where the next line ends the test: the others begin with none */
    assert_string_equal(shown, want);
}

static void rates(void **state)
{
    (void)state;
    status_rate(&got, 0, 100), is("-");
    status_rate(&got, 5, 0), is("-");
    status_rate(&got, 1, 2400), is("0.42");
    status_rate(&got, 421, 10000), is("42.1");
    status_rate(&got, 9994, 1000000), is("9.99");
    status_rate(&got, 9996, 1000000), is("10.0");
    status_rate(&got, 9994, 100000), is("99.9");
    status_rate(&got, 99960, 1000000), is("100");
    status_rate(&got, 1204, 1000), is("1,204");
}

static const struct face_report report = {.stop = FACE_STOP_END,
                                          .n_cached = 12,
                                          .n_prefilled = 1234,
                                          .n_generated = 88,
                                          .prefill_ms = 310,
                                          .decode_ms = 2000,
                                          .n_ctx_used = 1334,
                                          .n_ctx = 2048,
                                          .reply_seed = UINT64_MAX};

static void statistics_line(void **state)
{
    (void)state;
    status_report(&got, 1000, &report, false);
    is("12 cached, 1,234 prefilled, 88 generated at 44.0 tok/s, context 1,334 of 2,048, seed "
       "18446744073709551615");
    status_report(&got, 78, &report, false);
    is("12 cached, 1,234 prefilled, 88 generated at 44.0 tok/s,\n"
       "context 1,334 of 2,048, seed 18446744073709551615");
    struct term no_words = {.fd = -1, .is_tty = true}, words = no_words; /* 80 columns */
    words.words = true;
    status_line(&got, &words, &report, false);
    is("[12 cached, 1,234 prefilled, 88 generated at 44.0 tok/s,\n"
       "context 1,334 of 2,048, seed 18446744073709551615]\n");
    status_line(&got, &no_words, &report, false);
    is("[12 cached, 1,234 prefilled, 88 generated at 44.0 tok/s, context 1,334 of 2,048, seed "
       "18446744073709551615]\n");
    struct face_report r = report;
    r.stop = FACE_STOP_LENGTH;
    r.n_drafted = 10;
    r.n_accepted = 7;
    status_report(&got, 1000, &r, true);
    is("stop: length, 12 cached, 1,234 prefilled at 3,981 tok/s in 310 ms, 88 generated at "
       "44.0 "
       "tok/s in 2.0 s, 7 of 10 drafted accepted, context 1,334 of 2,048, seed "
       "18446744073709551615");
    r = (struct face_report){
        .n_prefilled = 9, .n_generated = 1, .decode_ms = 0.04, .n_ctx = 99};
    status_report(&got, 1000, &r, false);
    is("0 cached, 9 prefilled, 1 generated, context 0 of 99, seed 0");
    r = (struct face_report){.stop = FACE_STOP_CANCELLED, .n_ctx = 1};
    status_report(&got, 1000, &r, true);
    is("stop: cancelled, 0 cached, 0 prefilled, 0 generated, context 0 of 1, seed 0");
    r = (struct face_report){.n_prefilled = 8, .prefill_ms = 59949, .n_ctx = 9};
    status_report(&got, 1000, &r, true);
    is("0 cached, 8 prefilled at 0.13 tok/s in 59.9 s, 0 generated, context 0 of 9, seed 0");
    r.prefill_ms = 59950;
    status_report(&got, 1000, &r, true);
    is("0 cached, 8 prefilled at 0.13 tok/s in 1 min 00 s, 0 generated, context 0 of 9, seed "
       "0");
}

/* Work is shown half a second after it has begun, also where nothing more is heard of it. */
static void progress_is_due(void **state)
{
    (void)state;
    int fds[2];
    char shown[256] = "";
    assert_int_equal(pipe(fds), 0);
    struct progress p = {.term = {.fd = fds[1], .redraw = true}};
    assert_int_equal(progress_due_ms(&p), -1);
    progress_update(&p, FACE_PREFILL, 0, 1000, 0);
    assert_in_range(progress_due_ms(&p), 0, 501);
    p.began_ms -= 1000;
    assert_int_equal(progress_due_ms(&p), 0);
    progress_tick(&p);
    assert_true(read(fds[0], shown, sizeof shown - 1) > 0);
    assert_non_null(strstr(shown, "reading 1,000 tokens"));
    assert_int_equal(progress_due_ms(&p), -1);
    progress_end(&p);
    close(fds[0]), close(fds[1]);
}

static void progress_line(void **state)
{
    (void)state;
    status_progress(&got, 79, FACE_LOAD, 0, 100, 0, 0);
    is("loading the model [...................]   0 %");
    status_progress(&got, 79, FACE_LOAD, 50, 100, 0, 1000);
    is("loading the model [#########..........]  50 %, 1.5 s left");
    /* What does not fit goes as a whole. */
    status_progress(&got, 37, FACE_LOAD, 95, 100, 0, 2812);
    is("loading the model   95 %, 648 ms left");
    status_progress(&got, 36, FACE_LOAD, 95, 100, 0, 2812);
    is("loading the model   95 %");
    status_progress(&got, 42, FACE_PREFILL, 1000, 2000, 0, 1000);
    is("reading 2,000 tokens   50 %, 1,000 tok/s");
    /* Half of the fresh tokens, not half of all, tell the speed. */
    status_progress(&got, 79, FACE_PREFILL, 1500, 2000, 1000, 1000);
    is("reading 1,000 tokens [############....]  75 %, 500 tok/s, 1.5 s left");
    for (int width = 0; width < 100; width++) {
        status_progress(&got, width, FACE_PREFILL, 1, 2000000, 0, 123456);
        assert_true(got.len <= (size_t)width);
        buf_free(&got);
    }
    /* What a disk that gives next to nothing would take is a number, too. */
    status_progress(&got, 79, FACE_LOAD, 1, (uint64_t)1 << 40, 0, 5000);
    is("loading the model [...................]   0 %, 91625968981 min 15 s left");
    /* More than all, and nothing at all, are no bug of the line's. */
    status_progress(&got, 20, FACE_LOAD, 7, 5, 0, 10);
    buf_free(&got);
    status_progress(&got, 20, FACE_PREFILL, 0, 0, 5, 10);
    buf_free(&got);
}

static void json_strings(void **state)
{
    (void)state;
    static const char raw[] = "a\"\\\n\t\033\177\0é\xc2\x9b\xe2\x80\xae😀\xff\xe2\x82";
    json_quote(&got, raw, sizeof raw - 1);
    is("\"a\\\"\\\\\\n\\t\\u001b\\u007f\\u0000é\\u009b\\u202e😀\\ufffd\\ufffd\"");
    /* A tag character, beyond the first plane and not for terminals. */
    json_quote(&got, "\xf3\xa0\x80\x81", 4);
    is("\"\\udb40\\udc01\"");
}

static void json_objects(void **state)
{
    (void)state;
    json_start(&got, 2, "a\"b", "");
    is("{\"type\":\"start\",\"turn\":2,\"model\":\"a\\\"b\"}\n");
    json_text(&got, FACE_REASONING, "hm", 2);
    is("{\"type\":\"reasoning\",\"text\":\"hm\"}\n");
    struct buf reasoning = {0};
    struct face_report r = report;
    r.text = "yes", r.text_len = 3;
    json_end(&got, &(struct json_end){.report = &r, .reasoning = &reasoning});
    is("{\"type\":\"end\",\"stop\":\"end\",\"text\":\"yes\",\"usage\":{\"cached\":12,"
       "\"prefilled\":1234,\"generated\":88,\"drafted\":0,\"accepted\":0},\"timings\":{"
       "\"prefill_ms\":310.000,\"decode_ms\":2000.000},\"context\":{\"used\":1334,\"limit\":"
       "2048},\"seed\":\"18446744073709551615\",\"exit\":0}\n");
    json_end(&got, &(struct json_end){.error = "no", .exit = 1});
    assert_non_null(strstr(buf_str(&got), "\"stop\":\"error\",\"error\":\"no\""));
    assert_null(strstr(buf_str(&got), "\"text\""));
    buf_clear(&got);
    json_end(&got, &(struct json_end){.exit = 128 + SIGTERM});
    assert_non_null(strstr(buf_str(&got), "\"stop\":\"cancelled\",\"usage\""));
    buf_free(&got);
}

static void repair(void **state)
{
    (void)state;
    assert_int_equal(utf8_repair(&got, "plain é", 8), 0);
    is("plain é");
    assert_int_equal(utf8_repair(&got,
                                 "a\xff\xfe"
                                 "b\xe2\x82",
                                 6),
                     3);
    is("a\xef\xbf\xbd\xef\xbf\xbd"
       "b\xef\xbf\xbd");
    assert_int_equal(utf8_repair(&got, "a\0b", 3), 0);
    assert_int_equal(got.len, 3);
    buf_free(&got);
    assert_int_equal(utf8_repair(&got, NULL, 0), 0);
    assert_int_equal(got.len, 0);
    assert_int_equal(utf8_mark("\xef\xbb\xbfx", 4), 3);
    assert_int_equal(utf8_mark("\xef\xbb\xbf", 2), 0);
    assert_int_equal(utf8_mark("\xef\xbb\xbe", 3), 0);
    assert_int_equal(utf8_mark(NULL, 0), 0);
}

static void join(void **state)
{
    (void)state;
    input_join(&got, "one\ntwo\r\n\n", 10);
    input_join(&got, "\n\n", 2);
    input_join(&got, "", 0);
    input_join(&got, "\nthree", 6);
    is("one\ntwo\n\n\nthree");
    struct buf flaws = {0}, line = {0};
    struct err err;
    size_t at = 0;
    assert_true(given_join(&got, "first", "one", 3, &flaws, &err));
    assert_true(given_join(&got, "empty", NULL, 0, &flaws, &err));
    assert_true(given_join(&got, "marked", "\xef\xbb\xbftwo", 6, &flaws, &err));
    assert_false(given_flaw(&flaws, &at, &line));
    assert_true(given_join(&got, "cut", "three\xc3", 6, &flaws, &err));
    is("one\n\ntwo\n\nthree\xef\xbf\xbd");
    assert_true(given_join(&got, "wide", "f\0", 2, &flaws, &err));
    assert_true(given_join(&got, "cut", "f\xc3", 2, &flaws, &err));
    assert_true(given_join(&got, "cut", "f\0", 2, &flaws, &err));
    assert_true(given_flaw(&flaws, &at, &line));
    assert_string_equal(buf_str(&line),
                        "cut is not valid UTF-8: U+FFFD stands for what is not");
    assert_true(given_flaw(&flaws, &at, &line));
    assert_string_equal(buf_str(&line), "wide has NUL bytes: expected UTF-8 text");
    assert_true(given_flaw(&flaws, &at, &line));
    assert_string_equal(buf_str(&line), "cut has NUL bytes: expected UTF-8 text");
    assert_false(given_flaw(&flaws, &at, &line));
    buf_free(&flaws);
    buf_free(&line);
    buf_clear(&got);
    assert_true(ascii_is_blank(" \t\r\n", 4));
    assert_true(ascii_is_blank("", 0));
    assert_false(ascii_is_blank(" x", 2));
    assert_false(ascii_is_blank("\0", 1));
}

static void lines(void **state)
{
    (void)state;
    struct buf raw = {0};
    buf_puts(&raw, "one\r\n\ntwo\nrest");
    size_t at = 0, n;
    const char *line = input_line(&raw, &at, false, &n);
    assert_true(line && n == 3 && memcmp(line, "one", 3) == 0);
    assert_true(input_line(&raw, &at, false, &n) && n == 0);
    line = input_line(&raw, &at, false, &n);
    assert_true(line && n == 3 && memcmp(line, "two", 3) == 0);
    assert_null(input_line(&raw, &at, false, &n));
    line = input_line(&raw, &at, true, &n);
    assert_true(line && n == 4 && memcmp(line, "rest", 4) == 0);
    assert_null(input_line(&raw, &at, true, &n));
    buf_free(&raw);
}

static void history_lines(void **state)
{
    (void)state;
    static const char *const entries[] = {"plain", "a\nb",     "back\\slash", "\\n",
                                          "\n\n",  "#12\n#13", "ends in \\",  "é"};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        struct buf line = {0};
        history_encode(&line, entries[i]);
        assert_null(strchr(buf_str(&line), '\n'));
        history_decode(&got, buf_str(&line), line.len);
        is(entries[i]);
        buf_free(&line);
    }
    /* A line that nobody encoded is taken as it stands. */
    history_decode(&got, "tail\\", 5), is("tail\\");
    history_decode(&got, "\\x", 2), is("x");
}

/* Sets the terminal's character set; false where it cannot be made. */
static bool choose_set(const char *dir, const char *set)
{
    char command[2 * SCRATCH_PATH], name[64];
    snprintf(name, sizeof name, "ja_JP.%s", set);
    snprintf(command, sizeof command, "localedef -i ja_JP -f %s %s/%s >/dev/null 2>&1", set,
             dir, name);
    if (system(command) != 0) return false;
    setenv("LOCPATH", dir, 1);
    if (!setlocale(LC_CTYPE, name)) return false;
    charset_open();
    return true;
}

/* A file that has grown long keeps its newest lines, also what the terminal could not show; the
 * list has what it shows. */
static void history_is_shortened(void **state)
{
    (void)state;
    enum { N_LINES = HISTORY_MAX + HISTORY_MAX / 4 + 1 };
    static const char first[] = "日 ❦ 2502\n", last[] = "日 ❦ 12501\n";
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    struct buf text = {0};
    struct err err;
    scratch_folder(dir, "ui");
    if (!choose_set(dir, "EUC-JP")) {
        scratch_remove(dir);
        skip();
    }
    for (int i = 1; i <= N_LINES; i++)
        buf_printf(&text, "日 ❦ %d\n", i);
    snprintf(path, sizeof path, "%s/history", dir);
    assert_true(file_replace(path, text.data, text.len, &err));
    assert_true(history_open(path, &err));
    assert_string_equal(history_get(history_base)->line, "\xc6\xfc ? 2502");
    history_close();
    buf_clear(&text);
    assert_true(file_read(path, 1 << 20, &text, &err));
    assert_memory_equal(text.data, first, sizeof first - 1);
    assert_string_equal(text.data + text.len - (sizeof last - 1), last);
    buf_free(&text);
    setlocale(LC_CTYPE, "C.UTF-8");
    charset_open();
    scratch_remove(dir);
}

/* Where the history is a link, what it leads to is shortened, and the link stays. */
static void history_behind_a_link(void **state)
{
    (void)state;
    enum { N_LINES = HISTORY_MAX + HISTORY_MAX / 4 + 1 };
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 8], link[SCRATCH_PATH + 8];
    struct buf text = {0};
    struct stat st;
    struct err err;
    scratch_folder(dir, "ui");
    for (int i = 1; i <= N_LINES; i++)
        buf_printf(&text, "%d\n", i);
    snprintf(path, sizeof path, "%s/kept", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    assert_true(file_replace(path, text.data, text.len, &err));
    assert_int_equal(symlink("kept", link), 0);
    assert_true(history_open(link, &err));
    history_close();
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    buf_clear(&text);
    assert_true(file_read(path, 1 << 20, &text, &err));
    assert_memory_equal(text.data, "2502\n", 5);
    buf_free(&text);
    scratch_remove(dir);
}

/* A file that a few messages have made too long keeps its newest lines, and goes on being one:
 * it is not refused at every start. */
static void history_of_long_lines(void **state)
{
    (void)state;
    static const char newest[] = "older\nnewer\n";
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    struct buf text = {0};
    struct err err;
    scratch_folder(dir, "ui");
    snprintf(path, sizeof path, "%s/history", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), 64 << 20),
                     0); /* a line of NULs, which takes no disk */
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    assert_true(fputc('\n', f) != EOF && fputs(newest, f) >= 0 && fclose(f) == 0);
    assert_true(history_open(path, &err));
    assert_int_equal(history_length, 2);
    assert_string_equal(history_get(history_base)->line, "older");
    history_close();
    assert_true(file_read(path, 1 << 20, &text, &err));
    assert_string_equal(buf_str(&text), newest);
    buf_free(&text);
    scratch_remove(dir);
}

/* A line that the disk took in part is taken back: the next one stands alone. */
static void history_on_a_full_disk(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    struct err err;
    struct rlimit limit;
    scratch_folder(dir, "ui");
    snprintf(path, sizeof path, "%s/history", dir);
    assert_true(history_open(path, &err));
    assert_true(history_remember("first", false, &err));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = strlen("first\n") + 3;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const bool is_kept = history_remember("second", false, &err);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_false(is_kept);
    assert_non_null(strstr(err.msg, "cannot be written"));
    history_close();
    assert_true(history_open(path, &err)); /* the next program's, when there is room */
    assert_true(history_remember("third", false, &err));
    history_close();
    assert_true(file_read(path, 1 << 20, &got, &err));
    scratch_remove(dir);
    is("first\nthird\n");
}

/* Behind half a line, which a kill left or an editor, the next one is a line of its own. */
static void history_behind_half_a_line(void **state)
{
    (void)state;
    char dir[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    struct err err;
    scratch_folder(dir, "ui");
    snprintf(path, sizeof path, "%s/history", dir);
    assert_true(file_replace(path, "first\nsec", 9, &err));
    assert_true(history_open(path, &err));
    assert_true(history_remember("third", false, &err));
    assert_true(history_remember("fourth", false, &err));
    history_close();
    assert_true(file_read(path, 1 << 20, &got, &err));
    scratch_remove(dir);
    is("first\nsec\nthird\nfourth\n");
}

/* Readline measures text from anywhere in a row of the screen, which may fill its memory. */
static void memory_of_readline(void **state)
{
    (void)state;
    for (int grown = 0; grown < 2; grown++) {
        volatile char *stale = mem_alloc(1032); /* or the compiler drops what is freed next */
        for (size_t i = 0; i < 1032; i++)
            stale[i] = 1;
        free((char *)stale);
        char *row = xmalloc(grown ? 500 : 1024);
        if (grown) row = xrealloc(row, 1024);
        memset(row, 1, 1024);
        assert_int_equal(strlen(row), 1024);
        xfree(row);
    }
}

#ifndef HEARTH_SANITIZED /* shadow memory knows no limit */
static void too_much_for_readline(void)
{
    const struct rlimit little = {.rlim_cur = 1 << 30, .rlim_max = 1 << 30};
    if (setrlimit(RLIMIT_AS, &little) == 0) rl_copy_text(0, INT_MAX - 1);
}

static void too_much_for_jansson(void)
{
    json_begin();
    json_decref(json_stringn_nocheck("x", INT64_MAX - 1));
}

/* Libraries without memory end the program with our line, which the full screen leaves first.
 */
static void libraries_without_memory(void **state)
{
    (void)state;
    assert_child_ends_with(too_much_for_readline,
                           "hearth: out of memory (2147483648 bytes wanted)\n");
    assert_child_ends_with(too_much_for_jansson,
                           "hearth: out of memory (9223372036854775807 bytes wanted)\n");
}
#endif

static void harmless(void **state)
{
    (void)state;
    term_harmless(&got, "a\033[31m\tb\n\xc2\x9b é\xff", 15);
    is("a\xef\xbf\xbd[31m\tb\n\xef\xbf\xbd é\xef\xbf\xbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates),
        cmocka_unit_test(statistics_line),
        cmocka_unit_test(progress_line),
        cmocka_unit_test(progress_is_due),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(json_objects),
        cmocka_unit_test(repair),
        cmocka_unit_test(join),
        cmocka_unit_test(lines),
        cmocka_unit_test(history_lines),
        cmocka_unit_test(history_is_shortened),
        cmocka_unit_test(history_behind_a_link),
        cmocka_unit_test(history_of_long_lines),
        cmocka_unit_test(history_on_a_full_disk),
        cmocka_unit_test(history_behind_half_a_line),
        cmocka_unit_test(memory_of_readline),
#ifndef HEARTH_SANITIZED
        cmocka_unit_test(libraries_without_memory),
#endif
        cmocka_unit_test(harmless),
    };
    return cmocka_run_group_tests_name("ui", tests, NULL, NULL);
}
