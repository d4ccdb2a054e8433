/* One value of an option as text and as a C value: parsed, checked against its row, stored in a
 * struct options, printed. Pure apart from $HOME, and from looking whether a file that was
 * typed is there; knows no flags. */
#ifndef CONFIG_OPTION_VALUE_H
#define CONFIG_OPTION_VALUE_H

#include "config/options.h"

/* A checked value that is not stored yet. */
struct option_parsed {
    char *text; /* canonical: paths expanded, words as in the table; NULL for lists */
    double number;
    uint64_t bits; /* OPTION_SIZE, OPTION_SEED */
    struct option_list list;
    struct option_biases biases;
};

/* How the text is to be read. */
struct option_reading {
    bool one_item;      /* a list takes the text as one item; else items between commas */
    bool is_typed;      /* a file may be named as a shell writes it; see paths_found */
    const char *folder; /* relative paths are relative to it; NULL: left alone */
};

/* Parses text for row; err says what was expected and found, without a name before it. On
 * success the caller stores or frees *out. */
bool option_parse(const struct option_row *row, const char *text,
                  const struct option_reading *reading, struct option_parsed *out,
                  struct err *err);
void option_parsed_free(struct option_parsed *p);

/* Moves p into o; lists are added to what is there if append, everything else is replaced. */
void option_store(struct options *o, const struct option_row *row, struct option_parsed *p,
                  bool append);
/* Frees the memory of the row's value and zeroes it. */
void option_unset(struct options *o, const struct option_row *row);
/* Copies the value of row from one to another, which has none. */
void option_copy(struct options *to, const struct options *from, const struct option_row *row);
/* Bytes of what --draft says before a ",lookup" at its end, or all. */
size_t option_draft_path_len(const char *text);

#endif
