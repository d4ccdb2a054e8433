#include "app/faces.h"

#include "app/command_line.h"

int faces_run(const struct options *o)
{
    (void)o;
    return usage_error(NULL, "the chat itself is not built yet");
}
