/* Which built-in chat template a vocabulary is for: told by the tokens of its turns.
 *
 * For models whose files bring no template. Immutable data, any thread; knows no conversation.
 */
#ifndef TEXT_TURN_TEMPLATE_H
#define TEXT_TURN_TEMPLATE_H

struct builtin_template;
struct tokenizer;

/* The first of the table (template/builtin_templates.h) whose tokens are all there, each as one
 * token; NULL: none's are, as in the vocabulary of a model that was never taught to chat, or
 * that is taught turns in plain words. */
const struct builtin_template *turn_template(const struct tokenizer *tok);

#endif
