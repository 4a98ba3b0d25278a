/* library.c - see library.h. */
#include "library.h"
#include "os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096, OLDEST = 8, NEWEST = 30 };            /* minors of Python 3 */

static void *open_in(const char *folder, const char *below, const char *const *names) {
    char path[PATH_ROOM];
    for (; *names; names++) {
        const int n = snprintf(path, sizeof path, "%s%s/%s", folder, below, *names);
        void *library = n > 0 && n < PATH_ROOM ? cr_os_open_library(path) : NULL;
        if (library) return library;
    }
    return NULL;
}

/* below: "/lib/python/x": in the folder of each Python. */
static void *open_in_pythons(const char *folder, const char *below, const char *const *names) {
    static const char python[] = "/lib/python/";
    const char *found = strstr(below, python);
    char path[PATH_ROOM];
    if (!found) return open_in(folder, below, names);
    for (int minor = NEWEST; minor >= OLDEST; minor--) {
        const int n = snprintf(path, sizeof path, "%s%.*s/lib/python3.%d/site-packages", folder, (int)(found - below),
                               below, minor);
        void *library = n > 0 && n < PATH_ROOM && cr_os_is_directory(path)
                            ? open_in(path, found + sizeof python - 2, names)
                            : NULL;
        if (library) return library;
    }
    return NULL;
}

void *cr_library_search(const char *const *names, const char *const *folders, const char *more) {
    char self[PATH_ROOM];
    const bool known = cr_os_directory_of(NULL, self, sizeof self) > 0;
    const char *environment = getenv("VIRTUAL_ENV");
    void *library = NULL;
    for (; *folders && !library; folders++) {
        const bool ours = !strncmp(*folders, "self", 4);
        const char *folder = ours ? (known ? self : NULL) : environment;
        if (folder) library = open_in_pythons(folder, *folders + (ours ? 4 : 3), names);
    }
    if (!library && more) library = open_in(more, "", names);
    for (; *names && !library; names++) library = cr_os_open_library(*names);
    return library;
}
