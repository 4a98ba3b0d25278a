/* data.c - from files to tokens. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/utf8.h"

/* Remembers the first position that is not UTF-8. */
static void note_odd(const char *path, const char *text, size_t n, corpus *c) {
    const size_t good = cr_utf8_valid(text, n);
    int64_t line = 1;
    if (good == n || *c->odd) return;
    if (n > 1 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2))) {
        snprintf(c->odd, sizeof c->odd, "'%.400s' is UTF-16, not UTF-8: convert it (iconv -f utf-16)", path);
        return;
    }
    for (size_t i = 0; i < good; i++) line += text[i] == '\n';
    snprintf(c->odd, sizeof c->odd, "'%.400s' line %lld: the byte 0x%02x is not UTF-8: convert the file (iconv)", path,
             (long long)line, (unsigned char)text[good]);
}

/* Without a byte-order mark at its beginning, as an editor shows it. */
static bool add_text(const char *path, const char *text, size_t n, corpus *c) {
    static const char mark[] = "\xef\xbb\xbf";
    if (n >= 3 && !memcmp(text, mark, 3)) {
        fprintf(stderr, "chainrule: '%s' begins with a byte-order mark, which is left out\n", path);
        text += 3;
        n -= 3;
    }
    char *grown = realloc(c->bytes, c->n + n + 1);
    if (!grown) return cli_fail("no memory for '%s': %zu bytes", path, n), false;
    memcpy(grown + c->n, text, n);
    c->bytes = grown;
    c->n += n;
    note_odd(path, text, n, c);
    return true;
}

static bool add_file(const char *path, corpus *c) {
    cr_mapping m;
    if (cr_os_is_directory(path)) return cli_fail("'%s' is a folder: give the files in it", path), false;
    if (!cr_os_map(path, &m)) return cli_fail("cannot read '%s': %s", path, cr_os_error()), false;
    const bool added = add_text(path, (const char *)m.data, m.bytes, c);
    cr_os_unmap(&m);
    return added;
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

bool corpus_input(corpus *c) {
    size_t room = 0, got = 1;
    while (got) {
        if (c->n + 1 >= room) {
            room = room ? 2 * room : 4096;
            char *grown = realloc(c->bytes, room);
            if (!grown) return free(c->bytes), cli_fail("no memory for standard input: %zu bytes", room), false;
            c->bytes = grown;
        }
        got = fread(c->bytes + c->n, 1, room - c->n - 1, stdin);
        c->n += got;
    }
    return !ferror(stdin) || (free(c->bytes), cli_fail("cannot read standard input"), false);
}

bool corpus_fits(const corpus *c, const char *tokenizer) {
    if (!*c->odd || !strcmp(tokenizer, "bytes")) return true;
    return cli_fail("%s, or give --tokenizer bytes", c->odd), false;
}

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
