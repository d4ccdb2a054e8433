/* `hearth inspect WHAT ...`: what the parts below make of a file or of input, for people,
 * scripts and conformance tests. One function per WHAT, main thread only.
 *
 * Each takes what follows "inspect" (argv[0] is WHAT itself; self its row), writes results to
 * stdout and errors to stderr, and returns the exit status: 0 done, 1 runtime, 2 usage, 141
 * broken pipe.
 */
#ifndef APP_INSPECT_H
#define APP_INSPECT_H

struct subcommand;

/* gguf FILE: header, keys (long values shortened), tensors. Foreign text is made printable. */
int inspect_gguf(int argc, char **argv);
/* families: the names of all families that a model file may have, a line each. */
int inspect_families(int argc, char **argv);
/* dequant --type T: blocks of weight type T on stdin, their values as little-endian f32 on
 * stdout; bytes that do not fill a block are an error after the last whole one. */
int inspect_dequant(int argc, char **argv);
/* prompt (-m FILE | --template FILE) --context FILE.json [--now 2025-07-04T12:34:56]: what the
 * chat template makes of the variables in the JSON object. */
int inspect_prompt(const struct subcommand *self, int argc, char **argv);
/* tokens -m FILE [--special]: the ids of the text on stdin, on one line; --special recognises
 * control tokens. With --jsonl: one line of ids per object
 * {"text": string, "special": bool, "add_special": bool}; only add_special adds a BOS. */
int inspect_tokens(const struct subcommand *self, int argc, char **argv);
/* text -m FILE IDS...: the text of token ids, control tokens spelled out, nothing added. */
int inspect_text(const struct subcommand *self, int argc, char **argv);
/* logits -m FILE --ids IDS [--rows all|last]: little-endian f32 [rows][vocabulary] on stdout.
 */
int inspect_logits(const struct subcommand *self, int argc, char **argv);
/* greedy -m FILE --ids IDS [-n N]: the N most likely ids, one after another, on one line. */
int inspect_greedy(const struct subcommand *self, int argc, char **argv);
/* plan -m FILE [--ids | --jsonl]: for each prompt on stdin, one per line, how many of its
 * tokens would be kept from the prompt before, restored from another branch, and computed, and
 * why. Text is a rendered prompt; with --jsonl {"prompt": text or ids, "reply": text or ids} in
 * and objects out. Nothing is computed. */
int inspect_plan(const struct subcommand *self, int argc, char **argv);
/* make --shape SHAPE --type TYPE OUT.gguf: a model file with random weights. */
int inspect_make(const struct subcommand *self, int argc, char **argv);

#endif
