/* The command line. getopt_long would do for hearth itself, but not for a table that is also
 * the INI file's and the environment's, nor for subcommands that add options of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "config/options.h"

/* What an option of the command line is: a row of the table or one of the subcommand's own. */
struct found {
    const struct option_row *row;
    const struct option_extra *extra;
};

struct reader {
    struct options *o;
    struct option_args *args;
    int argc, at;
    char *const *argv;
    struct err *err;
};

static bool takes_row(const struct option_args *args, const struct option_row *row)
{
    return !args->engine_only || (row->flags & OPTION_ENGINE);
}

static bool takes_value(const struct found *f)
{
    return f->extra ? f->extra->value != NULL : f->row->type != OPTION_BOOL;
}

static bool find_long(const struct reader *r, const char *name, struct found *f)
{
    *f = (struct found){0};
    for (size_t i = 0; i < r->args->n_extra; i++)
        if (strcmp(r->args->extra[i].name, name) == 0) {
            f->extra = &r->args->extra[i];
            return true;
        }
    f->row = option_find(name);
    if (!f->row) f->row = option_find_foreign(name);
    return f->row && takes_row(r->args, f->row);
}

static bool find_short(const struct reader *r, char letter, struct found *f)
{
    *f = (struct found){0};
    for (size_t i = 0; i < r->args->n_extra; i++)
        if (r->args->extra[i].letter == letter) {
            f->extra = &r->args->extra[i];
            return true;
        }
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->letter == letter && takes_row(r->args, row)) {
            f->row = row;
            return true;
        }
    }
    return false;
}

/* given: the name as it stands on the command line, with its dashes. */
static bool unknown_long(const struct reader *r, const char *name, const char *given)
{
    const char *advice = option_foreign_advice(name);
    if (advice) return err_set(r->err, ERR_USER, "%s: %s", given, advice);
    char shown[80];
    printable(shown, sizeof shown, name, strlen(name));
    const char *command = r->args->command;
    if (option_find(name))
        return err_set(r->err, ERR_USER, "--%s: is no option of hearth %s", shown,
                       command ? command : "");
    struct nearest nearest;
    nearest_begin(&nearest, name);
    for (size_t i = 0; i < r->args->n_extra; i++)
        nearest_offer(&nearest, r->args->extra[i].name);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (takes_row(r->args, row)) nearest_offer(&nearest, row->name);
    }
    if (nearest.best)
        return err_set(r->err, ERR_USER, "--%s: unknown option, did you mean --%s?", shown,
                       nearest.best);
    return err_set(r->err, ERR_USER, "--%s: unknown option", shown);
}

/* given: the option as it stands on the command line, for messages. */
static bool give(struct reader *r, const struct found *f, const char *given, const char *value)
{
    if (f->extra) {
        if (f->extra->flag)
            *f->extra->flag = true;
        else
            *f->extra->value = value;
        return true;
    }
    if (options_give(r->o, option_id(f->row), FROM_FLAG, 0, value, r->err)) return true;
    return err_prefix(r->err, "%s", given);
}

/* The next argument is the value, whatever it looks like: "-n -1", "-p --help". */
static bool next_value(struct reader *r, const struct found *f, const char *given,
                       const char **value)
{
    if (r->at + 1 < r->argc) {
        *value = r->argv[++r->at];
        return true;
    }
    struct buf what = {0};
    if (f->extra)
        buf_puts(&what, f->extra->arg);
    else
        option_takes(f->row, &what);
    err_set(r->err, ERR_USER, "%s: expected %s after it", given, buf_str(&what));
    buf_free(&what);
    return false;
}

/* arg: with its dashes, as it is given. */
static bool read_long(struct reader *r, const char *arg)
{
    const char *equals = strchr(arg, '=');
    char *word = mem_strndup(arg, equals ? (size_t)(equals - arg) : strlen(arg));
    const char *name = word + (word[1] == '-' ? 2 : 1);
    struct found f;
    char given[80];
    snprintf(given, sizeof given, "%.70s", word);
    bool ok = true;
    if (!find_long(r, name, &f)) {
        ok = unknown_long(r, name, given);
    } else if (equals && f.extra && f.extra->flag) {
        ok = err_set(r->err, ERR_USER, "%s: takes no value", given);
    } else {
        const char *value = equals ? equals + 1 : "on";
        if (!equals && takes_value(&f)) ok = next_value(r, &f, given, &value);
        ok = ok && give(r, &f, given, value);
    }
    free(word);
    return ok;
}

/* "-qv", "-n5", "-qn 5", "-q=off": letters up to the first that takes a value. */
static bool read_short(struct reader *r, const char *letters)
{
    for (; *letters; letters++) {
        char given[8] = {'-', *letters, '\0'};
        struct found f;
        if (!find_short(r, *letters, &f)) {
            char shown[80];
            return err_set(r->err, ERR_USER, "-%s: unknown option",
                           printable(shown, sizeof shown, letters,
                                     (unsigned char)*letters < 0x80 ? 1 : strlen(letters)));
        }
        const char *value = "on";
        if (!takes_value(&f)) {
            const bool equals = letters[1] == '=' && f.row; /* -v=off */
            if (!give(r, &f, given, equals ? letters + 2 : value)) return false;
            if (equals) return true;
            continue;
        }
        if (letters[1])
            value = letters + 1;
        else if (!next_value(r, &f, given, &value))
            return false;
        return give(r, &f, given, value);
    }
    return true;
}

/* Words of other programs, -ngl and -hf, are taken as with two dashes. A long name of ours is
 * refused, as letters it would be something else: -private is -p with the prompt "rivate". */
static bool read_one_dash(struct reader *r, const char *arg)
{
    char *word = mem_strndup(arg, strcspn(arg, "="));
    const char *name = word + 1;
    struct found f;
    bool ok;
    if (option_find_foreign(name) || option_foreign_advice(name))
        ok = read_long(r, arg);
    else if (name[0] && name[1] && find_long(r, name, &f))
        ok = err_set(r->err, ERR_USER, "%s: did you mean -%s?", word, word);
    else
        ok = read_short(r, arg + 1);
    free(word);
    return ok;
}

bool options_parse_args(struct options *o, int argc, char *const *argv,
                        struct option_args *args, struct err *err)
{
    struct reader r = {o, args, argc, 1, argv, err};
    args->rest = mem_zalloc((size_t)argc + 1, sizeof *args->rest);
    args->n_rest = 0;
    bool ok = true, only_rest = false;
    for (; ok && r.at < argc; r.at++) {
        const char *arg = argv[r.at];
        if (only_rest || arg[0] != '-' || !arg[1])
            args->rest[args->n_rest++] = arg;
        else if (strcmp(arg, "--") == 0)
            only_rest = true;
        else if (arg[1] == '-')
            ok = read_long(&r, arg);
        else
            ok = read_one_dash(&r, arg);
    }
    if (!ok) {
        free(args->rest);
        args->rest = NULL;
        args->n_rest = 0;
    }
    return ok;
}
