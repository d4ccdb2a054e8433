#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"

static void check(uint64_t key, const uint32_t counter[4], const uint32_t want[4])
{
    struct philox_block b = philox(key, counter[0], counter[1], counter[2], counter[3]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(b.word[i], want[i]);
}

/* The known answers that the authors publish with Random123 (kat_vectors, philox4x32 10). */
static void test_known_answers(void **state)
{
    (void)state;
    check(0, (uint32_t[]){0, 0, 0, 0},
          (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    check(0xffffffffffffffffu, (uint32_t[]){0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
          (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    check(0x299f31d0a4093822u, (uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
          (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
