#include <stdio.h>
#include <string.h>

#include "app/inspect.h"

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "inspect") == 0) {
        if (strcmp(argv[2], "gguf") == 0) return inspect_gguf(argc - 2, argv + 2);
        if (strcmp(argv[2], "dequant") == 0) return inspect_dequant(argc - 2, argv + 2);
        if (strcmp(argv[2], "prompt") == 0) return inspect_prompt(argc - 2, argv + 2);
        if (strcmp(argv[2], "tokens") == 0) return inspect_tokens(argc - 2, argv + 2);
        if (strcmp(argv[2], "text") == 0) return inspect_text(argc - 2, argv + 2);
    }
    printf("hearth %s\n", HEARTH_VERSION);
    return 0;
}
