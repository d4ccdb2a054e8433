/* Real numbers in decimal. Pure, any thread. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

enum { DECIMAL_BYTES = 64 };

/* The shortest decimal that reads back as f, laid out as Python's repr of a float: "0.1",
 * "3.0", "1e-05", as JSON has it; "inf", "-inf" and "nan", which JSON has not. */
void decimal_shortest(char out[DECIMAL_BYTES], double f);

#endif
