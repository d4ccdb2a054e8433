/* Rendering a template over JSON variables in a test. */
#ifndef TESTS_TEMPLATE_CASE_H
#define TESTS_TEMPLATE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "template/template.h"

/* 2025-07-04 12:34:56, a Friday. */
static const struct tm test_now = {.tm_year = 125,
                                   .tm_mon = 6,
                                   .tm_mday = 4,
                                   .tm_hour = 12,
                                   .tm_min = 34,
                                   .tm_sec = 56,
                                   .tm_wday = 5,
                                   .tm_yday = 184};

/* Parses and renders; NULL variables mean none, NULL options the defaults with test_now. */
static inline bool render_case(const char *source, const char *variables,
                               const struct template_options *options, struct rendering *out,
                               struct err *err)
{
    const struct template_options now = {.now = &test_now};
    *out = (struct rendering){NULL, 0, NULL, 0};
    struct template *t = template_parse(source, strlen(source), "test", err);
    if (!t) return false;
    if (!variables) variables = "{}";
    struct value_pool *pool = value_pool_new();
    struct value *globals =
        value_from_json_context(pool, variables, strlen(variables), "variables", err);
    bool ok = globals && template_render(t, globals, options ? options : &now, out, err);
    value_pool_free(pool);
    template_free(t);
    return ok;
}

static inline void check_rendering(const char *source, const char *variables,
                                   const char *expected)
{
    struct err err = {0};
    struct rendering out;
    if (!render_case(source, variables, NULL, &out, &err))
        fail_msg("%s\n  %s", source, err.msg);
    if (out.len != strlen(expected) || memcmp(out.text, expected, out.len) != 0)
        fail_msg("%s\n  renders  '%s'\n  expected '%s'", source, out.text, expected);
    rendering_free(&out);
}

/* The template must fail with a message that holds `what`. */
static inline void check_failure(const char *source, const char *variables, const char *what)
{
    struct err err = {0};
    struct rendering out;
    if (render_case(source, variables, NULL, &out, &err))
        fail_msg("%s\n  renders '%s', expected an error: %s", source, out.text, what);
    if (!strstr(err.msg, what)) fail_msg("%s\n  '%s' does not say '%s'", source, err.msg, what);
    assert_null(out.text);
}

#endif
