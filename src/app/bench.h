/* `hearth bench`: how fast a model runs on this machine. Main thread. */
#ifndef APP_BENCH_H
#define APP_BENCH_H

/* [-m FILE] [--prompt N] [--gen N] [--turns] [--disk] [--tokenizer] [--json], argv[0] is
 * "bench": prefill and decode speed on seeded random ids, the bytes decode moves, the read
 * bandwidth of the same threads, a hash of the last logits; or what bench_turns.h, bench_disk.h
 * or bench_tokenizer.h say. Returns the exit status. */
int bench_run(int argc, char **argv);

#endif
