/* A command line for tests of options.
 *
 * No include guard: one includer per program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/options.h"

enum { MAX_ARGS = 16 };

/* Splits words at spaces into argv[1..]. */
static bool parse(struct options *o, struct option_args *args, const char *words,
                  struct err *err)
{
    static char copy[512];
    static char *argv[MAX_ARGS];
    snprintf(copy, sizeof copy, "%s", words);
    int argc = 0;
    argv[argc++] = copy;
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) {
        assert_true(argc < MAX_ARGS);
        argv[argc++] = w;
    }
    free(args->rest);
    return options_parse_args(o, argc, argv, args, err);
}
