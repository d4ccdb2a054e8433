/* Upper and lower case, and what kind of character one is, as Python's str methods see them,
 * but for signs that have a case without a partner (ª, ʰ) and the title form of ŉ. What comes
 * out is ORIGIN_USER and lies in w. Private to this folder. */
#ifndef TEMPLATE_CASE_H
#define TEMPLATE_CASE_H

#include "template/text.h"

enum case_map { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_SWAP, CASE_FOLD };

struct text case_map(struct work *w, struct text t, enum case_map map);
/* The first character in title case, the rest lower: str.capitalize. */
struct text case_capitalize(struct work *w, struct text t);
/* Every letter after a non-letter in title case, the rest lower: str.title. */
struct text case_title(struct work *w, struct text t);

bool char_is_alpha(uint32_t cp);   /* a letter of any script */
bool char_is_decimal(uint32_t cp); /* a decimal digit of any script */
int char_decimal(uint32_t cp);     /* what it counts; -1: it is none */
bool char_is_digit(uint32_t cp);   /* a digit, even a small one or one in a circle */
bool char_is_number(uint32_t cp);  /* these, fractions and numerals, but no Chinese ones */
bool char_is_alnum(uint32_t cp);   /* a letter or such a number */
bool char_is_name(uint32_t cp);    /* what may stand in a name, as Python has it */
/* Whether t has a cased character and none of the other case. */
bool case_is(struct work *w, struct text t, enum case_map map);

#endif
