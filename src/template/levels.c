#include "template/parse.h"

void level_begin(struct parser *p, struct nodes *body)
{
    struct level *level = work_zalloc(p->w, 1, sizeof *level);
    level->parent = p->level;
    level->older = p->levels;
    level->body = body;
    level->mentioned = value_make_dict(p->w)->dict;
    p->level = p->levels = level;
}

struct level *level_end(struct parser *p)
{
    struct level *level = p->level;
    p->level = level->parent;
    return level;
}

void level_resume(struct parser *p, struct level *level)
{
    p->level = level;
}

void level_read(struct parser *p, const struct value *name)
{
    dict_set(p->w, p->level->mentioned, name, name);
}

void level_given(struct parser *p, const char *name)
{
    level_read(p, value_make_text(p->w, text_literal(name)));
}

void level_set(struct parser *p, const struct value *name)
{
    struct level *level = p->level;
    if (dict_get(p->w, level->mentioned, name)) return;
    level_read(p, name);
    if (level->n_branches) return;
    struct unset *u = work_alloc(p->w, sizeof *u);
    *u = (struct unset){name, value_undefined_name(p->w, name->text.data), level->own};
    level->own = u;
}

void level_each(struct parser *p, const struct node *target,
                void (*f)(struct parser *p, const struct value *name))
{
    if (target->kind == NODE_NAME) {
        f(p, target->value);
    } else if (target->kind == NODE_ATTR) {
        level_read(p, target->attr.object->value);
    } else {
        for (size_t i = 0; i < target->items.n; i++)
            level_each(p, target->items.at[i], f);
    }
}

static bool is_mentioned_around(struct parser *p, const struct level *level,
                                const struct value *name)
{
    while ((level = level->parent))
        if (dict_get(p->w, level->mentioned, name)) return true;
    return false;
}

void levels_finish(struct parser *p)
{
    for (struct level *l = p->levels; l; l = l->older) {
        for (struct unset *u = l->own, *next; u; u = next) {
            next = u->next;
            if (is_mentioned_around(p, l, u->name)) continue;
            u->next = l->body->unset;
            l->body->unset = u;
        }
    }
}
