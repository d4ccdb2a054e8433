/* A conversation as Markdown: what was said on the current branch, without reasoning. Pure. */
#ifndef CHAT_EXPORT_H
#define CHAT_EXPORT_H

#include "base/buf.h"

struct conversation;

void export_markdown(struct conversation *c, struct buf *out);

#endif
