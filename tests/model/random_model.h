/* Small models of random weights, for tests that want a draft, recurrent layers or windows and
 * no sense in what is said: one shape gives the same weights every time. The file is the test's
 * to unlink. What goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_RANDOM_MODEL_H
#define TESTS_RANDOM_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../scratch.h"
#include "app/subcommands.h"

/* All have the guide's vocabulary, padded, and so a tokenizer that is the guide's. What follows
 * after a comma stands above what is in here: RANDOM_DENSE ",n_ctx=256". */
#define RANDOM_SIZE "n_embd=64,n_head=2,n_head_kv=1,head_dim=32,n_ff=64,n_vocab=2080"
#define RANDOM_DENSE "family=qwen3,n_layer=1," RANDOM_SIZE
#define RANDOM_WINDOWED "family=gemma3,n_layer=6,window=16," RANDOM_SIZE
#define RANDOM_RECURRENT \
    "family=mamba2,n_layer=4,n_embd=64,ssm_heads=8,ssm_groups=2,ssm_dim=16,n_vocab=2080"
#define RANDOM_PLACED "family=gpt2,n_layer=3," RANDOM_SIZE
#define RANDOM_HYBRID "family=qwen35,n_layer=4,ssm_dim=32," RANDOM_SIZE

/* shape and type as `hearth inspect make` takes them. */
static inline void random_model_make(char path[SCRATCH_PATH], const char *shape,
                                     const char *type)
{
    scratch_file(path, "random", "");
    unlink(path); /* nothing is replaced */
    char *argv[] = {"hearth", "inspect",    "make", "--shape", (char *)shape,
                    "--type", (char *)type, path,   NULL};
    int status = -1;
    assert_true(subcommand_run(8, argv, &status));
    assert_int_equal(status, 0);
}

#endif
