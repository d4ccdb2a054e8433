/* `hearth bench`: how fast a model runs on this machine. Main thread. */
#ifndef APP_BENCH_H
#define APP_BENCH_H

/* Prefill and decode speed on seeded random ids, the bytes decode moves, the read bandwidth of
 * the same threads, a hash of the last logits; or what one of the other bench_*.h says. argv[0]
 * is "bench"; returns the exit status. */
int bench_run(int argc, char **argv);

#endif
