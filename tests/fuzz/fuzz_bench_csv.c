/* A table that --compare names is anybody's: what is taken of it has figures that can be
 * compared, and is the same after --csv and back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/bench_csv.h"
#include "base/mem.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct err err;
    struct bench_lines *t = mem_zalloc(1, sizeof *t), *again = mem_zalloc(1, sizeof *again);
    const char name[] = "fuzz";
    if (bench_csv_read((const char *)data, n_bytes, name, t, &err)) {
        struct buf text = {0};
        for (size_t i = 0; i < t->n; i++) {
            const double ratio = bench_csv_ratio(&t->lines[i], t);
            must(ratio > 0 && t->lines[i].model[0]);
            /* Figures that --csv rounds to nothing are none that it prints. */
            if (t->lines[i].tok_s < 0.01) t->lines[i].tok_s = 0.01;
            if (t->lines[i].read_gb_s < 0.001) t->lines[i].read_gb_s = 0.001;
        }
        bench_csv_print(t, &text);
        must(bench_csv_read(buf_str(&text), text.len, name, again, &err));
        must(again->n == t->n);
        for (size_t i = 0; i < t->n; i++)
            must(strcmp(t->lines[i].model, again->lines[i].model) == 0 &&
                 t->lines[i].n_rows == again->lines[i].n_rows);
        buf_free(&text);
    } else {
        must_be_refusal(&err);
    }
    free(t);
    free(again);
    return 0;
}
