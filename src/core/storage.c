/* storage.c - bytes on one device, shared by every view of them. */
#include "core.h"

#include <stdlib.h>

cr_storage *cr_storage_new(void *data, size_t bytes, const cr_device *dev, void (*free_data)(cr_storage *)) {
    cr_storage temporary = {.data = data, .bytes = bytes, .dev = dev, .free = free_data};
    cr_storage *s = malloc(sizeof *s);
    if (!s) {
        if (free_data) free_data(&temporary);
        return cr_fail(CR_NO_MEMORY, "storage", "out of memory"), NULL;
    }
    *s = temporary;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    atomic_init(&s->rewrites, 0);
    return s;
}

cr_storage *cr_storage_retain(cr_storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void cr_storage_release(cr_storage *s) {
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    if (s->free) s->free(s);
    if (s->done) s->done(s->ctx);
    free(s);
}
