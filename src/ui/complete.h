/* TAB at the prompt: what the chat knows of its commands, and file names where it wants one.
 * Installs itself into readline. Main thread. */
#ifndef UI_COMPLETE_H
#define UI_COMPLETE_H

struct chat;

/* c is asked from now on; NULL: nobody is. show gets what there is to choose from, n words of
 * up to `longest` bytes from shown[1] on, in the terminal's character set; NULL: readline lists
 * them on the terminal. */
void complete_install(const struct chat *c, void (*show)(char **shown, int n, int longest));

#endif
