/* hearth bench --kv-error TEXT: what each KV type costs a model in accuracy, over a text. */
#ifndef APP_BENCH_KV_H
#define APP_BENCH_KV_H

#include <stdbool.h>

struct options;

/* Prints a line per KV type, or one JSON object: perplexity of the text, and the logits of all
 * its tokens against those with f32. The text is cut at the context, and where the logits would
 * take more than 1 GiB. Returns the exit status. */
int bench_kv_error(const struct options *o, const char *text_path, bool json);

#endif
