/* The modes of hearth bench: what each of them measures.
 *
 * bench.c reads the command line by its table of modes and calls one. A mode says what is wrong
 * with its options before it opens the model, which it does itself, prints lines, or one JSON
 * object, to stdout and returns the exit status. It reads the fields of struct bench_args that
 * belong to the options its row of the table takes, and no others. Main thread. */
#ifndef APP_BENCH_MODES_H
#define APP_BENCH_MODES_H

#include <stdbool.h>
#include <stdint.h>

struct options;

/* What was given behind `hearth bench`, or else what the table says of the mode. Strings are
 * borrowed and not NULL, unless said otherwise. */
struct bench_args {
    uint32_t n_prompt, n_gen;  /* tokens */
    bool has_prompt, has_gen;  /* somebody asked for so many */
    const char *text;          /* of --kv-error: a path */
    const char *depths, *rows; /* numbers with commas between */
    const char *threads;       /* the same; NULL: what the options say */
    const char *isas, *models; /* names, paths with commas between; NULL: as the options say,
                                * which have no model if there are models here */
    const char *compare;       /* the path of a CSV that --csv printed earlier, or NULL */
    const char *lengths;       /* of drafts: numbers with commas between */
    const char *workloads;     /* names with commas between; NULL: all */
    const char *repeats;       /* a number */
    bool csv, json;
};

/* Prefill and decode speed on seeded random ids, the bytes decode moves, the read bandwidth of
 * the same threads, a hash of the last logits. Numbers that nobody asked for shrink to the
 * context. */
int bench_speed(const struct options *o, const struct bench_args *a);

/* The time to the first token of turns that share tokens with what was computed before, on a
 * prompt of n_prompt tokens, at least 64. */
int bench_turns(const struct options *o, const struct bench_args *a);

/* After a conversation of n_prompt tokens, at least 64: what saving one more turn writes and
 * how long it takes, there or at each of depths; the first token of a turn warm and after a
 * restart; and the speed of turns of 64 tokens and n_gen decoded ones with a disk and without,
 * in pairs (bench_disk_turns.h). */
int bench_disk(const struct options *o, const struct bench_args *a);

/* Milliseconds of each kind of op, by the device's own clock, of a token at position 512 and of
 * a prefill of 512 (fewer where the context is shorter), every op waiting for the one before.
 */
int bench_ops(const struct options *o, const struct bench_args *a);

/* How fast the tokenizer of the model's file is, over texts of 1 MB. */
int bench_tokenizer(const struct options *o, const struct bench_args *a);

/* What each KV type costs a model in accuracy: perplexity of the text, and the logits of all
 * its tokens against those with f32. The text is cut at the context, and where the logits would
 * take more than 1 GiB. */
int bench_kv_error(const struct options *o, const struct bench_args *a);

/* The speed by depth, rows, threads and instruction set.
 *
 * A line is one step of `rows` rows at position `depth`: rows 1 is decode, a few are what
 * verifies drafts (with the logits of every row), many are prefill (with those of the last).
 * All lines of a machine and the bandwidth beside them are measured in turns, and are medians.
 * Keys and values up to the depth are zeros, which take as long to read as any. */
int bench_table(const struct options *o, const struct bench_args *a);

/* What drafts gain, by workload and length: each length, and the one that hearth chooses by
 * itself, against plain decoding, in turns, as medians. A reply of at most n_gen tokens that
 * ends by itself and one that is kept going are apart; one that only repeats itself proves no
 * gain and is marked. A length that gave other tokens than plain decoding is a failure. */
int bench_spec(const struct options *o, const struct bench_args *a);

#endif
