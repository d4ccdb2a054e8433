/* The last code block of a reply, as /copy code takes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "chat/code_block.h"

/* want NULL: there is none. */
static void last(const char *text, const char *want)
{
    struct buf out = {0};
    bool found = code_block_last(text, strlen(text), &out);
    assert_int_equal(found, want != NULL);
    if (want) assert_int_equal(out.len, strlen(want));
    if (want) assert_memory_equal(buf_str(&out), want, out.len);
    buf_free(&out);
}

static void blocks(void **state)
{
    (void)state;
    last("", NULL);
    last("no code\n", NULL);
    last("```\na\n```\n", "a\n");
    last("```python\na\nb\n```", "a\nb\n");
    last("```\na\n```\ntext\n~~~ c\nb\n~~~\nmore\n", "b\n");
    last("```\n```\n", "");
    last("```\na\n```\n```\n```\n", "");
    last("```\na", "a");
    last("```\na\n", "a\n");
    last("```\r\na\r\n```\r\n", "a\r\n");
}

/* What looks like a fence and is none. */
static void no_fences(void **state)
{
    (void)state;
    last("``\na\n``\n", NULL);
    last("```a``` and ```b``` are code\n", NULL);
    last("```x```\n\n```\na\n```\n", "a\n");
    /* One with a language closes nothing. */
    last("```markdown\n# t\n```python\nx = 1\n```\nend\n", "# t\n```python\nx = 1\n");
    last("````\n```\na\n```\n````\n", "```\na\n```\n");
    last("```\na\n~~~\nb\n```\n", "a\n~~~\nb\n");
    last("~~~ `a`\nb\n~~~\n", "b\n");
    last("~~~\na\n~~~~ \t\n", "a\n");
}

/* A block in a list stands as far in as the list. */
static void indented(void **state)
{
    (void)state;
    last("1. do\n\n    ```sh\n    a\n      b\n\n  c\n    ```\n", "a\n  b\n\nc\n");
    last("- x\n\t```\n\ta\n\t\tb\n\t```\n", "a\n\tb\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),
        cmocka_unit_test(no_fences),
        cmocka_unit_test(indented),
    };
    return cmocka_run_group_tests_name("code block", tests, NULL, NULL);
}
