/* library.h - search for the shared libraries of engines (oneDNN, CUDA, WebGPU). */
#ifndef CR_LIBRARY_H
#define CR_LIBRARY_H

/* Opens the first of names[] that exists, in the first folder that has one: of folders[], then `more` (NULL: none),
 * then the system's search path.  Returns NULL if there is none.  Both lists end with NULL.
 * A folder begins with "self" (the folder of this library or program) or "env" (the active virtual environment);
 * "lib/python/" in it stands for lib/python3.x/site-packages/, for any x. */
void *cr_library_search(const char *const *names, const char *const *folders, const char *more);

#endif
