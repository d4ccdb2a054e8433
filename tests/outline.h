/* The programs of all small models below tests/data/models, without weights or backend. What
 * goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_OUTLINE_H
#define TESTS_OUTLINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>

#include "gguf/gguf.h"
#include "model/model.h"

/* Calls look for each with the path of its file as user, KV of type f16; returns how many there
 * are, at least one. */
static inline size_t outline_each(model_look_fn *look)
{
    glob_t all;
    assert_int_equal(glob("tests/data/models/*.gguf", 0, NULL, &all), 0);
    const size_t n = all.gl_pathc;
    for (size_t i = 0; i < n; i++) {
        struct err err;
        char *path = all.gl_pathv[i];
        struct gguf *g = gguf_open(path, &err);
        const struct model_params params = {.kv_type = KV_F16};
        if (!g || !model_outline(g, &params, look, path, &err))
            fail_msg("%s: %s", path, err.msg);
        gguf_close(g);
    }
    globfree(&all);
    return n;
}

#endif
