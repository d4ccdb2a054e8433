/* A conversation as a text for others: what was said on the current branch, every byte as it
 * was said; a terminal gets it through printable. Pure; knows no file. */
#ifndef CHAT_EXPORT_H
#define CHAT_EXPORT_H

#include "base/buf.h"

struct conversation;

enum export_format {
    EXPORT_MARKDOWN, /* a heading for each message, without reasoning */
    EXPORT_PLAIN,    /* a label before each message, without reasoning */
    EXPORT_JSON, /* one object: system, messages with role, content, reasoning, seed, stop */
};

/* By the end of a file's name: .json, .txt or .text; Markdown otherwise. */
enum export_format export_format_of(const char *path);
/* "Markdown", "plain text", "JSON". Static. */
const char *export_format_name(enum export_format format);

/* Appends it. */
void export_conversation(struct conversation *c, enum export_format format, struct buf *out);

#endif
