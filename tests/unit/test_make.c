/* Made models: the writer's files read back, random blocks have the deviation asked for, shapes
 * name the tensors of their families. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "../child.h"
#include "../scratch.h"
#include "app/shapes.h"
#include "base/mem.h"
#include "gguf/gguf_write.h"
#include "gguf/random_blocks.h"

static void writer_reads_back(void **state)
{
    (void)state;
    struct err err;
    char path[SCRATCH_PATH];
    scratch_file(path, "make", "");
    unlink(path);
    struct gguf_writer *w = gguf_write_new(path, &err);
    assert_non_null(w);
    const int32_t list[] = {3, -1, 2};
    const size_t small[] = {5}, blocks[] = {64, 3};
    const float values[5] = {1, 2, 3, 4, 5};
    uint8_t codes[6 * 34];
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)i;
    gguf_write_string(w, "general.architecture", "test");
    gguf_write_u32(w, "a.u32", 7);
    gguf_write_f32(w, "a.f32", 0.5f);
    gguf_write_i32s(w, "a.list", list, 3);
    gguf_write_tensor(w, "small", QTYPE_F32, 1, small);
    gguf_write_tensor(w, "blocks", QTYPE_Q8_0, 2, blocks);
    gguf_write_data(w, values, sizeof values);
    gguf_write_data(w, codes, 100);
    gguf_write_data(w, codes + 100, sizeof codes - 100);
    assert_true(gguf_write_finish(w, &err));
    gguf_write_free(w);

    struct gguf *g = gguf_open(path, &err);
    assert_non_null(g);
    uint64_t u;
    double f;
    assert_true(gguf_u64(g, "a.u32", &u) && u == 7);
    assert_true(gguf_f64(g, "a.f32", &f) && f == 0.5);
    assert_int_equal(gguf_item_int(gguf_find(g, "a.list"), 1), -1);
    assert_memory_equal(gguf_tensor_find(g, "small")->data, values, sizeof values);
    assert_memory_equal(gguf_tensor_find(g, "blocks")->data, codes, sizeof codes);
    assert_int_equal(gguf_tensor_find(g, "blocks")->ne[1], 3);

    /* Copied keys keep their bytes; arrays grow with padding. */
    unlink(path);
    w = gguf_write_new(path, &err);
    assert_non_null(w);
    gguf_write_copy(w, gguf_find(g, "general.architecture"), 0, 0);
    gguf_write_copy(w, gguf_find(g, "a.list"), 5, 9);
    assert_true(gguf_write_finish(w, &err));
    gguf_write_free(w);
    gguf_close(g);
    g = gguf_open(path, &err);
    assert_non_null(g);
    const struct gguf_kv *kv = gguf_find(g, "a.list");
    assert_int_equal(kv->n, 5);
    assert_int_equal(gguf_item_int(kv, 2), 2);
    assert_int_equal(gguf_item_int(kv, 4), 9);
    gguf_close(g);
    unlink(path);
}

static void unfinished_leaves_nothing(void **state)
{
    (void)state;
    struct err err;
    char path[SCRATCH_PATH];
    scratch_file(path, "make", "");
    unlink(path);
    struct gguf_writer *w = gguf_write_new(path, &err);
    assert_non_null(w);
    gguf_write_u32(w, "a", 1);
    gguf_write_free(w);
    assert_int_equal(access(path, F_OK), -1);
    assert_null(gguf_write_new("/nowhere/at/all.gguf", &err));
    assert_int_equal(err.code, ERR_IO);
    assert_non_null(strstr(err.msg, "/nowhere/at/all.gguf"));
}

static char folder[SCRATCH_PATH], target[SCRATCH_PATH + 16];

static bool is_refused(const char *path)
{
    struct err err;
    struct gguf_writer *w = gguf_write_new(path, &err);
    gguf_write_free(w);
    return !w && err.code == ERR_USER && strstr(err.msg, ": is there already; give it another");
}

/* A slip of the name costs no model; as root even a device would give way to a rename. */
static void nothing_is_replaced(void **state)
{
    (void)state;
    struct err err;
    struct stat st;
    char link[sizeof target];
    scratch_folder(folder, "make");
    assert_true(is_refused(folder));
    snprintf(target, sizeof target, "%s/fifo", folder);
    assert_int_equal(mkfifo(target, 0600), 0);
    assert_true(is_refused(target));
    assert_true(stat(target, &st) == 0 && S_ISFIFO(st.st_mode));

    snprintf(target, sizeof target, "%s/old.gguf", folder);
    snprintf(link, sizeof link, "%s/link.gguf", folder);
    assert_int_equal(symlink("old.gguf", link), 0);
    assert_true(is_refused(link));
    FILE *f = fopen(target, "w");
    assert_true(f && fclose(f) == 0);
    assert_true(is_refused(link) && is_refused(target));

    /* Nor what comes while it is written. */
    assert_int_equal(unlink(target), 0);
    struct gguf_writer *w = gguf_write_new(target, &err);
    assert_non_null(w);
    f = fopen(target, "w");
    assert_true(f && fputs("old", f) >= 0 && fclose(f) == 0);
    const int fd = open(folder, O_TMPFILE | O_WRONLY, 0600);
    if (fd >= 0) {
        close(fd);
        assert_false(gguf_write_finish(w, &err));
        assert_true(stat(target, &st) == 0 && st.st_size == 3);
    }
    gguf_write_free(w);
    scratch_remove(folder);
}

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    const struct dirent *entry;
    while (d && (entry = readdir(d)))
        n += entry->d_name[0] != '.';
    if (d) closedir(d);
    return d ? n : -1;
}

/* A file of more than 512 KiB that is not finished. */
static struct gguf_writer *write_much(struct err *err)
{
    static const float zeros[1 << 17];
    const size_t ne[] = {sizeof zeros / sizeof *zeros};
    struct gguf_writer *w = gguf_write_new(target, err);
    if (!w) return NULL;
    gguf_write_tensor(w, "zeros", QTYPE_F32, 1, ne);
    gguf_write_data(w, zeros, sizeof zeros);
    return w;
}

/* Makes a file, seen from outside: 0, or the line that went wrong. */
static int make(int n_files_meanwhile)
{
    struct err err;
    struct stat st;
    const mode_t mask = umask(027);
    struct gguf_writer *w = write_much(&err);
    umask(mask);
    if (!w) return __LINE__;
    if (n_files() != n_files_meanwhile || stat(target, &st) == 0) return __LINE__;
    gguf_write_free(w);
    if (n_files() != 0) return __LINE__;
    umask(027);
    w = write_much(&err);
    umask(mask);
    if (!w || !gguf_write_finish(w, &err)) return __LINE__;
    gguf_write_free(w);
    if (n_files() != 1 || stat(target, &st) != 0) return __LINE__;
    return st.st_size > 1 << 19 && (st.st_mode & 07777) == 0640 ? 0 : __LINE__;
}

enum { CANNOT_TRY = -1 };

static int make_without_name(void)
{
    int fd = open(folder, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0) return CANNOT_TRY;
    close(fd);
    return make(0);
}

/* A file without a name cannot get one where there is no /proc. */
static int make_with_temporary(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("hearth", "/proc", "tmpfs", 0, NULL) != 0)
        return CANNOT_TRY;
    return make(1);
}

static int meet_full_disk(void)
{
    struct err err;
    char expected[sizeof target + 64];
    if (!child_small_disk(folder)) return CANNOT_TRY;
    struct gguf_writer *w = write_much(&err);
    if (!w) return __LINE__;
    bool ok = gguf_write_finish(w, &err);
    gguf_write_free(w);
    snprintf(expected, sizeof expected, "%s: No space left on device", target);
    if (ok || err.code != ERR_IO || strcmp(err.msg, expected) != 0) return __LINE__;
    return n_files() == 0 ? 0 : __LINE__;
}

static void in_child(int (*fn)(void))
{
    scratch_folder(folder, "make");
    snprintf(target, sizeof target, "%s/x.gguf", folder);
    int found = 0, ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        found = fn();
        _exit(write(ends[1], &found, sizeof found) != sizeof found);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &found, sizeof found), sizeof found);
    close(ends[0]);
    close(ends[1]);
    scratch_remove(folder);
    if (found == CANNOT_TRY) skip();
    assert_int_equal(found, 0);
}

static void no_name_until_finished(void **state)
{
    (void)state;
    in_child(make_without_name);
}

static void a_temporary_name_else(void **state)
{
    (void)state;
    in_child(make_with_temporary);
}

static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    in_child(meet_full_disk);
}

static void blocks_have_their_deviation(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    const float sigma = 1.0f / 32;
    uint8_t *blocks = mem_alloc(N * 4);
    float *values = mem_alloc(N * sizeof *values);
    const struct qtype_info *info;
    for (size_t row = 0; (info = qtype_at(row)); row++) {
        struct random_blocks r = random_blocks_new(info->type, sigma, 99);
        random_blocks_fill(&r, blocks, N);
        qtype_dequant(info->type, blocks, N, values);
        double sum = 0, mean = 0;
        for (size_t i = 0; i < N; i++) {
            mean += (double)values[i] / N;
            sum += (double)values[i] * (double)values[i] / N;
        }
        /* MXFP4 scales by powers of two, so it may be off by half an octave, NVFP4 by
         * numbers of four bits or fewer. The codes of a type without a minimum lie around -1/2,
         * which is a ninth of the deviation in Q4_0. */
        double ratio = sqrt(sum) / (double)sigma, slack = info->type == QTYPE_MXFP4   ? 0.42
                                                          : info->type == QTYPE_NVFP4 ? 0.13
                                                                                      : 0.05;
        if (fabs(ratio - 1) > slack || fabs(mean) > 0.15 * (double)sigma)
            fail_msg("%s: deviation %g of what was asked, mean %g", info->name, ratio, mean);
    }
    free(values);
    free(blocks);
}

static const struct shape_tensor *tensor(const struct shape_tensor *list, size_t n,
                                         const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

static void shapes_name_their_tensors(void **state)
{
    (void)state;
    struct err err;
    struct shape s;
    size_t n;
    for (size_t i = 0; shape_preset(i); i++) {
        assert_true(shape_parse(shape_preset(i), &s, &err));
        struct shape_tensor *list = shape_tensors(&s, &n);
        const struct shape_tensor *embed = tensor(list, n, "token_embd.weight");
        assert_non_null(embed);
        assert_int_equal(embed->ne[1], s.n_vocab);
        free(list);
    }
    assert_true(shape_parse("qwen35-0.8b,n_layer=4", &s, &err));
    struct shape_tensor *list = shape_tensors(&s, &n);
    assert_non_null(tensor(list, n, "blk.2.ssm_conv1d.weight"));
    assert_null(tensor(list, n, "blk.3.ssm_conv1d.weight"));
    assert_int_equal(tensor(list, n, "blk.3.attn_q.weight")->ne[1], 2 * 8 * 256);
    assert_null(tensor(list, n, "blk.4.attn_norm.weight"));
    free(list);
}

static void shapes_refuse(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"qwen9", "qwen3-0.6b"},
        {"qwen3-0.6b,n_layer=x", "n_layer"},
        {"n_head=3,n_head_kv=2", "n_head_kv"},
        {"n_embd=100", "multiples of 32"},
        {"family=bert", "gemma3"},
        {"n_expert=4", "go together"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct shape s;
        struct err err;
        assert_false(shape_parse(bad[i][0], &s, &err));
        assert_int_equal(err.code, ERR_USER);
        assert_non_null(strstr(err.msg, bad[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writer_reads_back),
        cmocka_unit_test(unfinished_leaves_nothing),
        cmocka_unit_test(nothing_is_replaced),
        cmocka_unit_test(no_name_until_finished),
        cmocka_unit_test(a_temporary_name_else),
        cmocka_unit_test(a_full_disk_leaves_nothing),
        cmocka_unit_test(blocks_have_their_deviation),
        cmocka_unit_test(shapes_name_their_tensors),
        cmocka_unit_test(shapes_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
