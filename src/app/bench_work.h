/* The workloads of hearth bench --spec: conversations that a reply is asked for. The owner
 * embeds a struct bench_work. Main thread. */
#ifndef APP_BENCH_WORK_H
#define APP_BENCH_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/ids.h"

struct tokenizer;

struct bench_work {
    const char *name;
    struct ids prompt;
    /* What is drawn whatever the model says: the recorded edit of a text; none elsewhere. */
    struct ids forced;
};

/* The i-th workload's name; NULL past the last. */
const char *bench_work_name(size_t i);
/* Makes it for a model: rendered by its own template (ChatML if it has none), in its tokens.
 * Free with bench_work_free whatever it returned. */
bool bench_work_make(struct bench_work *w, size_t i, const struct tokenizer *tok,
                     struct err *err);
void bench_work_free(struct bench_work *w);

#endif
