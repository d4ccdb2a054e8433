/* What an Ollama Modelfile has added to a model: its PARAMETER lines as settings of hearth's,
 * its SYSTEM. Their files are anybody's: how much is read is bounded, and what they say is
 * checked as what a user says. Main thread; knows where they lie (discover.h), no screen. */
#ifndef CHAT_MODELFILE_H
#define CHAT_MODELFILE_H

#include <stddef.h>

#include "base/buf.h"
#include "chat/discover.h"
#include "config/options.h"

/* Replaces *out, which is {0} at first, by what goes with a model, whose name may be NULL. What
 * cannot be read, or has no counterpart here and would make other replies, is told in notes, a
 * line each. */
void modelfile_read(const struct found_model *m, struct option_listed *out, struct buf *notes);

/* Appends the settings that the JSON of a Modelfile's parameters stands for to out, a line
 * "KEY VALUE" each, and the names of those that are left out to left_out, with commas between.
 * What concerns the machine alone (num_ctx, num_gpu, ...) is neither. False if it is no JSON
 * object. Pure. */
bool modelfile_settings(const char *json, size_t n, struct buf *out, struct buf *left_out);

#endif
