/* storage.c - bytes on one device, shared by all views. */
#include "watch.h"

#include <stdlib.h>

cr_watch cr_watch_table;
atomic_int cr_slow_path;

static cr_storage *begin(cr_storage *s, void *data, size_t bytes, const cr_device *dev, void (*free_data)(cr_storage *),
                         bool inside) {
    *s = (cr_storage){.data = data, .bytes = bytes, .dev = dev, .free = free_data, .inside = inside};
    atomic_init(&s->refs, 1);
    if (cr_is_unusual()) s->born = cr_modes.recording ? cr_modes.recording : cr_watch_table.elsewhere();
    return s;
}

cr_storage *cr_storage_place(void *memory, void *data, size_t bytes, const cr_device *dev,
                             void (*free_all)(cr_storage *)) {
    return begin(memory, data, bytes, dev, free_all, true);
}

cr_storage *cr_storage_new(void *data, size_t bytes, const cr_device *dev, void (*free_data)(cr_storage *)) {
    cr_storage *s = malloc(sizeof *s);
    if (s) return begin(s, data, bytes, dev, free_data, false);
    cr_storage temporary;
    if (free_data) free_data(begin(&temporary, data, bytes, dev, free_data, true));
    return cr_no_memory("storage"), NULL;
}

cr_storage *cr_storage_retain(cr_storage *s) {
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void cr_storage_release(cr_storage *s) {
    if (!s || !cr_unref(&s->refs)) return;
    const bool inside = s->inside;
    if (s->born) cr_watch_table.ends(s);
    if (s->done) s->done(s->ctx);
    if (s->free) s->free(s);
    if (!inside) free(s);
}
