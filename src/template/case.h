/* Upper and lower case, as Python's str methods see them (simple mappings, and ß). What comes
 * out is ORIGIN_USER and lies in w. Private to this folder. */
#ifndef TEMPLATE_CASE_H
#define TEMPLATE_CASE_H

#include "template/text.h"

enum case_map { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_SWAP };

struct text case_map(struct work *w, struct text t, enum case_map map);
/* The first character as asked, the rest lower. */
struct text case_first(struct work *w, struct text t, enum case_map first);
/* Every letter after a non-letter in title case, the rest lower: str.title. */
struct text case_title(struct work *w, struct text t);

bool char_is_alpha(uint32_t cp); /* a letter of any script */
bool char_is_digit(uint32_t cp); /* a decimal digit of any script */
bool char_is_name(uint32_t cp);  /* what may stand in a name, as Python has it */
/* Whether t has a cased character and none of the other case. */
bool case_is(struct work *w, struct text t, enum case_map map);

#endif
