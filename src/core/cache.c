/* cache.c - files of compiled code, named by a hash of what they depend on. */
#include "cache.h"
#include "config.h"
#include "os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cr_hash cr_hash_start = (cr_hash)0x6c62272e07bb0142u << 64 | 0x62b821756295c58du;

/* FNV-1a of 128 bits */
cr_hash cr_hash_of(cr_hash h, const void *bytes, size_t n) {
    const cr_hash prime = (cr_hash)1 << 88 | 0x13b;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * prime;
    return h;
}

static bool make_folder(const char *path) {
    char folder[1024];
    const int n = snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    return n > 0 && (size_t)n < sizeof folder && cr_os_make_directory(folder);
}

bool cr_cache_path(char *path, size_t room, cr_hash key, const char *ending) {
    const char *setting = cr_config("CACHE"), *folder = setting ? setting : getenv("XDG_CACHE_HOME"),
               *more = setting ? "" : "/chainrule";
    if (setting && !strcmp(setting, "off")) return false;
    if (!folder || !*folder) folder = getenv("HOME"), more = "/.cache/chainrule";
    const int n = folder && *folder ? snprintf(path, room, "%s%s/%016llx%016llx%s", folder, more,
                                               (unsigned long long)(key >> 64), (unsigned long long)key, ending)
                                    : -1;
    return n > 0 && (size_t)n < room && make_folder(path);
}

/* ---- the end of a file */
typedef struct trailer { char magic[16]; cr_hash key, contents; } trailer;
static const char magic[16] = "chainrule cache";

static trailer trailer_of(cr_hash key, const void *data, size_t bytes) {
    trailer t = {.key = key, .contents = cr_hash_of(cr_hash_start, data, bytes)};
    memcpy(t.magic, magic, sizeof magic);
    return t;
}

char *cr_cache_read(const char *path, cr_hash key, size_t *bytes) {
    cr_mapping m;
    char *data = NULL;
    if (!cr_os_map(path, &m)) return NULL;
    if (m.bytes > sizeof(trailer)) {
        *bytes = m.bytes - sizeof(trailer);
        const trailer expected = trailer_of(key, m.data, *bytes);
        if (!memcmp(m.data + *bytes, &expected, sizeof expected) && (data = malloc(*bytes)))
            memcpy(data, m.data, *bytes);
    }
    cr_os_unmap(&m);
    return data;
}

bool cr_cache_keep(const char *path, cr_hash key, const void *data, size_t bytes) {
    char temporary[1100];
    FILE *f = cr_os_create_beside(path, temporary, sizeof temporary);
    if (!f) return false;
    const trailer t = trailer_of(key, data, bytes);
    if (fwrite(data, 1, bytes, f) == bytes && fwrite(&t, sizeof t, 1, f) == 1) return cr_os_commit(f, temporary, path);
    cr_os_abandon(f, temporary);
    return false;
}
