/* folder.h - a folder of its own for the files that a test writes, removed at the end. */
#ifndef CR_FOLDER_H
#define CR_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os.h"

static char folder_name[512];

__attribute__((unused)) static void folder_remove(void) { (void)cr_os_remove_folder(folder_name); }

/* The path of a file in it; sixteen may be in use at once. */
__attribute__((unused)) static const char *folder_path(const char *name) {
    static char paths[16][640];
    static int next;
    char *path = paths[next++ % 16];
    if (!*folder_name) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder_name, sizeof folder_name, "%.400s/chainrule-test-%lld", tmp && *tmp ? tmp : "/tmp",
                 (long long)cr_os_process_id());
        if (!cr_os_make_directory(folder_name)) {
            printf("cannot create %s: %s\n", folder_name, cr_os_error());
            exit(9);
        }
        atexit(folder_remove);
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder_name, name);
    return path;
}

__attribute__((unused)) static void file_put(const char *path, const void *from, size_t bytes) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(from, 1, bytes, f) != bytes || fclose(f)) { printf("cannot write %s\n", path); exit(9); }
}

/* The whole file, ended by a NUL that is not counted; freed by the caller. */
__attribute__((unused)) static char *file_get(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);
    if (!text) exit(9);
    size_t n = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
    text[n] = 0;
    if (bytes) *bytes = n;
    if (f) fclose(f);
    return text;
}

#endif
