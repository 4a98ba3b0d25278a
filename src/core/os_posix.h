/* os_posix.h - what os_posix.c wants of Linux and macOS, beside what os.h has and it leaves to them. */
#ifndef CR_OS_POSIX_H
#define CR_OS_POSIX_H

#define _GNU_SOURCE
#include "os.h"

#include <limits.h>

size_t cr_posix_round(size_t bytes);                                    /* up to whole pages; 0: too many */
/* The file that code was loaded from: a shared library, or the program it is linked into. */
bool   cr_posix_path_of(const void *code, char out[PATH_MAX]);
void   cr_posix_end_with_parent(void);                                  /* this process, if the system can */
char **cr_posix_environment(void);
int    cr_posix_socket(int family);                                     /* TCP; closed by exec; -1: errno */
int    cr_posix_accept(int listener);
void   cr_posix_follow(int folder);                                     /* before *at(), of one that may be renamed */

#endif
