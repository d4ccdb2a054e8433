#include <stdio.h>

int main(void)
{
    printf("hearth %s\n", HEARTH_VERSION);
    return 0;
}
