/* data.c - from files to tokens. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

static bool add_file(const char *path, corpus *c) {
    cr_mapping m;
    if (cr_os_is_directory(path)) return cli_fail("'%s' is a folder: give the files in it", path), false;
    if (!cr_os_map(path, &m)) return cli_fail("cannot read '%s': %s", path, cr_os_error()), false;
    char *grown = realloc(c->bytes, c->n + m.bytes + 1);
    if (grown) {
        memcpy(grown + c->n, m.data, m.bytes);
        c->bytes = grown;
        c->n += m.bytes;
    } else {
        cli_fail("no memory for '%s': %zu bytes", path, m.bytes);
    }
    cr_os_unmap(&m);
    return grown != NULL;
}

bool corpus_read(const file_list *files, corpus *c) {
    *c = (corpus){0};
    for (int i = 0; i < files->n; i++)
        if (!add_file(files->path[i], c)) {
            free(c->bytes);
            *c = (corpus){0};
            return false;
        }
    return true;
}

bool is_tokenizer(const char *name) { return !strcmp(name, "chars") || !strcmp(name, "bytes") || cr_os_exists(name); }

cr_tokenizer *tokenizer_named(const char *name, const corpus *c) {
    if (!strcmp(name, "chars")) return cr_tokenizer_chars(c->bytes, c->n);
    return strcmp(name, "bytes") ? cr_tokenizer_load(name) : cr_tokenizer_bytes();
}

uint32_t *encode(const cr_tokenizer *tokenizer, const char *bytes, size_t n, int64_t *count) {
    return cr_tokenizer_encode_special(tokenizer, bytes, n, &(cr_encoding){0}, count);
}

cr_tokens *corpus_tokens(const corpus *c, const cr_tokenizer *tokenizer) {
    int64_t n;
    uint32_t *ids = encode(tokenizer, c->bytes, c->n, &n);
    cr_tokens *t = ids ? cr_tokens_new(ids, n, cr_tokenizer_size(tokenizer)) : NULL;
    cr_free(ids);
    return t;
}

const cr_device *device_named(const char *name) { return name && *name ? cr_device_find(name) : cr_default_device(); }

uint64_t tokens_hash(const cr_tokens *t) {
    const int64_t n = cr_tokens_count(t);
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)n;                 /* FNV-1a */
    for (int64_t i = 0; i < n && !cr_error(); i++) h = (h ^ cr_tokens_at(t, i)) * 0x100000001b3u;
    return h;
}
