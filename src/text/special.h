/* Finding special tokens in text: control, unknown and user-defined ones.
 *
 * The longest token anywhere in the text is taken first, of equally long ones the leftmost;
 * then the next shorter that does not overlap what is taken: the order the reference keeps,
 * at a cost near the length of the text instead of text times tokens. Control tokens only match
 * inside a stretch of markup, user-defined ones anywhere. Immutable after open; private to
 * this folder. */
#ifndef TEXT_SPECIAL_H
#define TEXT_SPECIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vocab;
struct special_node;

struct special_set {
    struct special_node *nodes;
    size_t n_nodes, cap_nodes;
    uint32_t root[256];
    bool has_user_defined;
    bool strip_right; /* phi-3: white space after a special token is dropped */
};

/* A stretch of text: up to end (exclusive), markup or plain. */
struct special_area {
    size_t end;
    bool markup;
};

/* Text, and the areas that cover it in order. */
struct special_text {
    const char *data;
    size_t len;
    const struct special_area *areas;
    size_t n_areas;
};

struct special_match {
    size_t start, end; /* end includes white space that is dropped with the token */
    int32_t id;
};

struct special_matches {
    struct special_match *list;
    size_t n, cap;
};

/* The set of v's special tokens; special_find gets the same v. Free with special_close. */
void special_open(struct special_set *s, const struct vocab *v, bool strip_right);
void special_close(struct special_set *s);

/* The matches in a text, by position. Free found->list. Once *cancel (may be NULL) is true what
 * it finds is only a part. */
void special_find(const struct special_set *s, const struct vocab *v,
                  const struct special_text *text, const atomic_bool *cancel,
                  struct special_matches *found);

#endif
