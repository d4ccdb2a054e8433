/* The pipelines of a device on disk: read back as written, private, and a miss where anything
 * is not as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../scratch.h"
#include "base/file.h"
#include "vulkan/pipeline_file.h"

static const struct pipeline_id id = {0x10de, 0x2684, 77, "driver-and-board"};
static const char data[] = "what the driver made of the shaders";

static char root[SCRATCH_PATH], dir[SCRATCH_PATH + 20], *path;

static int setup(void **state)
{
    (void)state;
    struct err err;
    scratch_folder(root, "pipelines");
    snprintf(dir, sizeof dir, "%s/hearth/pipelines", root);
    path = pipeline_file_path(dir, &id);
    if (!pipeline_file_write(path, &id, data, sizeof data, &err)) fail_msg("%s", err.msg);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    free(path);
    rmdir(dir);
    *strrchr(dir, '/') = '\0';
    rmdir(dir);
    return rmdir(root);
}

static void reads_back(void **state)
{
    (void)state;
    struct buf got = {0};
    struct stat st;
    assert_true(pipeline_file_read(path, &id, &got));
    assert_int_equal(got.len, PIPELINE_FILE_HEADER + sizeof data);
    assert_string_equal(got.data + PIPELINE_FILE_HEADER, data);
    assert_true(pipeline_file_is_sound(path));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    buf_free(&got);
}

static void others_do_not_read_it(void **state)
{
    (void)state;
    struct buf got = {0};
    struct pipeline_id other = id;
    other.driver++;
    assert_false(pipeline_file_read(path, &other, &got));
    other = id;
    other.device++;
    assert_false(pipeline_file_read(path, &other, &got));
    other = id;
    other.vendor++;
    assert_false(pipeline_file_read(path, &other, &got));
    other = id;
    other.uuid[15] ^= 1;
    char *theirs = pipeline_file_path(dir, &other);
    assert_string_not_equal(theirs, path);
    assert_false(pipeline_file_read(theirs, &other, &got));
    assert_false(pipeline_file_read(path, &other, &got));
    free(theirs);
    buf_free(&got);
}

/* Any byte of it, and any length but its own; bytes 56 to 63 are not used. */
static void damage_is_a_miss(void **state)
{
    (void)state;
    struct buf good = {0}, got = {0};
    struct err err;
    assert_true(pipeline_file_read(path, &id, &good));
    for (size_t i = 0; i < good.len; i++) {
        if (i >= 56 && i < PIPELINE_FILE_HEADER) continue;
        good.data[i] ^= 4;
        assert_true(file_replace(path, good.data, good.len, &err));
        if (pipeline_file_read(path, &id, &got)) fail_msg("byte %zu is not checked", i);
        good.data[i] ^= 4;
        assert_true(file_replace(path, good.data, i, &err));
        assert_false(pipeline_file_read(path, &id, &got));
        assert_false(pipeline_file_is_sound(path));
    }
    assert_true(file_replace(path, good.data, good.len, &err));
    assert_true(pipeline_file_read(path, &id, &got));
    buf_free(&good);
    buf_free(&got);
}

static void count(void *user, const char *found, uint64_t n_bytes)
{
    size_t *n = user;
    assert_string_equal(found, path);
    assert_int_equal(n_bytes, PIPELINE_FILE_HEADER + sizeof data);
    ++*n;
}

static void walks(void **state)
{
    (void)state;
    struct err err;
    size_t n = 0;
    assert_true(pipeline_file_walk(dir, count, &n, &err));
    assert_int_equal(n, 1); /* nothing temporary is left either */
    assert_true(pipeline_file_walk("/tmp/there/is/none", count, &n, &err));
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(others_do_not_read_it),
        cmocka_unit_test(damage_is_a_miss),
        cmocka_unit_test(walks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
