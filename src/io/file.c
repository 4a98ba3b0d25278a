/* file.c - see file.h. */
#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

/* ---- texts ---- */
cr_status cr_out_check(const cr_out *o, const char *op, const char *path) {
    return o->failed ? cr_fail(CR_NO_MEMORY, op, "no memory for the text of '%s'", path) : CR_OK;
}

/* ---- files ---- */
cr_status cr_file_create(cr_file *f, const char *op, const char *path) {
    f->op = op;
    f->path = path;
    f->f = cr_os_create_beside(path, f->temporary, sizeof f->temporary);
    return f->f ? CR_OK : cr_fail(CR_IO, op, "cannot create '%s': %s", path, cr_os_error());
}

cr_status cr_file_write(cr_file *f, const void *data, size_t bytes) {
    const size_t piece = (size_t)16 << 20;          /* between pieces it may be interrupted */
    errno = 0;
    cr_status status = CR_OK;
    for (const char *from = data; bytes;) {
        if (status != CR_OK) break;
        const size_t n = bytes < piece ? bytes : piece;
        if (fwrite(from, 1, n, f->f) != n) break;
        from += n;
        bytes -= n;
        if (bytes) status = cr_check_interrupt(f->op);
    }
    if (!bytes) return CR_OK;
    if (status == CR_OK)
        status = cr_fail(CR_IO, f->op, "cannot write '%s': %s", f->path, errno ? strerror(errno) : "write error");
    cr_file_abandon(f);
    return status;
}

cr_status cr_file_commit(cr_file *f) {
    FILE *open = f->f;
    f->f = NULL;
    if (cr_os_commit(open, f->temporary, f->path)) return CR_OK;
    return cr_fail(CR_IO, f->op, "cannot write '%s': %s", f->path, cr_os_error());
}

void cr_file_abandon(cr_file *f) {
    if (f->f) cr_os_abandon(f->f, f->temporary);
    f->f = NULL;
}

cr_status cr_file_save(const char *op, const char *path, const void *data, size_t bytes) {
    cr_file f;
    cr_status status = cr_file_create(&f, op, path);
    if (status == CR_OK) status = cr_file_write(&f, data, bytes);
    return status != CR_OK ? status : cr_file_commit(&f);
}

cr_status cr_file_map(const char *op, const char *path, bool writable, cr_mapping *m) {
    if (writable ? cr_os_map_private(path, m) : cr_os_map(path, m)) return CR_OK;
    return cr_fail(CR_IO, op, "cannot read '%s': %s", path, cr_os_error());
}

/* ---- a mapping that tensors keep alive ---- */
cr_shared_mapping *cr_mapping_share(const char *op, const char *path, cr_mapping *m) {
    cr_shared_mapping *s = calloc(1, sizeof *s);
    if (!s) return cr_os_unmap(m), cr_fail(CR_NO_MEMORY, op, "no memory for '%s'", path), NULL;
    atomic_init(&s->refs, 1);
    s->m = *m;
    *m = (cr_mapping){0};
    return s;
}

void cr_mapping_release(void *shared) {
    cr_shared_mapping *s = shared;
    if (atomic_fetch_sub(&s->refs, 1) != 1) return;
    cr_os_unmap(&s->m);
    free(s);
}

cr_tensor *cr_mapping_tensor(cr_shared_mapping *s, const void *at, int ndim, const int64_t *shape, cr_dtype dt) {
    if ((uintptr_t)at % cr_dtype_size(dt)) return cr_from(at, ndim, shape, dt, cr_cpu());
    atomic_fetch_add(&s->refs, 1);
    cr_tensor *view = cr_borrow((void *)(uintptr_t)at, ndim, shape, dt, cr_mapping_release, s);
    if (!view) cr_mapping_release(s);
    return view;
}
