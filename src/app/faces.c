#include "app/faces.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/command_line.h"
#include "config/paths.h"
#include "ui/charset.h"
#include "ui/exit_status.h"
#include "ui/given.h"
#include "ui/line.h"
#include "ui/pipe.h"
#include "ui/screen.h"
#include "ui/tui.h"

/* A standard descriptor that is closed would be taken by the next file that is opened, say the
 * model, and replies written over it. What is opened here instead fails on use. */
static void fill_closed(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            return;
}

/* What a configuration or the environment asks for holds where it can; a flag holds or fails.
 */
static bool is_flag(const struct options *o, enum option_id id)
{
    return o->source[id].from == FROM_FLAG;
}

static bool goes_on(const struct options *o)
{
    return o->interactive && (is_flag(o, OPT_INTERACTIVE) || isatty(STDIN_FILENO));
}

/* Whether nothing but the terminal says what is to be answered. */
static bool only_terminal(const struct options *o)
{
    return isatty(STDIN_FILENO) && !o->prompt && o->files.n == 0 && !o->prompts &&
           o->stdin_mode == STDIN_AS_TEXT;
}

bool faces_talk(const struct options *o)
{
    return goes_on(o) || (only_terminal(o) && !o->json && !o->jsonl);
}

/* Whether this terminal is filled where that is asked for; tui_run tells a flag why not. */
static bool can_fill(const struct options *o)
{
    struct err ignored;
    return isatty(STDOUT_FILENO) && (is_flag(o, OPT_TUI) || screen_can_open(&ignored));
}

/* Why there is no full screen, prompt being what faces_talk says. */
static int no_full_screen(const struct options *o, bool prompt)
{
    const char *answers = o->jsonl         ? "--jsonl"
                          : o->json        ? "--json"
                          : o->prompts     ? "--prompts"
                          : o->prompt      ? "--prompt"
                          : o->files.n > 0 ? "--file"
                                           : "--stdin";
    const bool may_go_on = strcmp(answers, "--prompt") == 0 || strcmp(answers, "--file") == 0;
    if (prompt)
        return usage_error(NULL, "--tui: needs a terminal, and standard output is none");
    if (!isatty(STDIN_FILENO) && !o->interactive)
        return usage_error(NULL, "--tui: needs a terminal, and standard input is none (after a "
                                 "pipe, -i goes on at the terminal)");
    return usage_error(NULL, "--tui: cannot be together with %s, which answers and exits%s",
                       answers, may_go_on ? " (-i goes on)" : "");
}

int faces_run(const struct options *o)
{
    fill_closed();
    charset_open();
    const bool prompt = faces_talk(o);
    if (!prompt && only_terminal(o))
        return usage_error(NULL, "--json%s: takes a prompt from -p, -f or a pipe",
                           o->jsonl ? "l" : "");
    const bool fills = o->tui && prompt && can_fill(o);
    if (o->tui && !fills && is_flag(o, OPT_TUI)) return no_full_screen(o, prompt);
    struct given given = {0};
    struct err err;
    if (goes_on(o) && !given_read(&given, o, &err)) {
        const bool is_too_long = given.is_too_long;
        given_free(&given);
        if (err.code == ERR_USER) return usage_error(NULL, "%s", err.msg);
        const int status = runtime_error(&err);
        return is_too_long ? EXIT_TOO_LONG : status;
    }
    struct engine_config engine = command_line_engine(o);
    char *cache = o->private_mode ? NULL : paths_in(PATHS_CACHE, NULL);
    engine.cache_dir = cache;
    int status = fills    ? tui_run(o, &engine, &given)
                 : prompt ? line_run(o, &engine, &given)
                          : pipe_run(o, &engine);
    free(cache);
    given_free(&given);
    return status;
}
