/* library.h - where the shared libraries of others are looked for, beside the system's own places. */
#ifndef CR_LIBRARY_H
#define CR_LIBRARY_H

/* Opens the first of names[] in the first of places[] that has one, then in `more` (NULL: none), then in the system's; NULL: nowhere.  Both
 * lists end with NULL.  A place begins with "self", the folder of this library or program, or with "env", the active virtual environment;
 * "lib/python/" in it stands for lib/python3.x/site-packages/ of any x. */
void *cr_library_search(const char *const *names, const char *const *places, const char *more);

#endif
