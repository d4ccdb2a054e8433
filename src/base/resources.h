/* What this process may use of the machine: cores and memory, as affinity, control groups
 * (version 2 and 1) and limits leave them. Reads /proc and /sys; any thread. */
#ifndef BASE_RESOURCES_H
#define BASE_RESOURCES_H

#include <stdint.h>

/* In both, root stands for "/" in front of every path read, for tests; NULL: the machine's
 * own. What cannot be read says nothing. */

/* Cores that this process may run on at once, at least 1: its affinity, or a control group's
 * share of time (rounded up) if that is less. */
int resources_cores(const char *root);

/* Bytes of memory that can still be had without the system or the process's group running out;
 * UINT64_MAX if nothing says. */
uint64_t resources_memory(const char *root);

#endif
