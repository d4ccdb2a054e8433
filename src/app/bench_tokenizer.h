/* hearth bench --tokenizer: how fast the tokenizer of a model's file is, over texts of 1 MB. */
#ifndef APP_BENCH_TOKENIZER_H
#define APP_BENCH_TOKENIZER_H

#include <stdbool.h>

/* Prints a line per text, or one JSON object. Returns the exit status. */
int bench_tokenizer(const char *model_path, bool json);

#endif
