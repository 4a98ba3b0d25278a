/* check.c - CHAINRULE_CHECK: released handles wait in a bounded quarantine, so that the use of a stale
 * handle is detected. Tensors are marked (refs < 0); other objects are recognised by their address. */
#include "config.h"
#include "small.h"
#include "tensor.h"
#include "os.h"

#include <stdlib.h>
#include <string.h>

enum { TENSORS = 4096, OBJECTS = 256 };             /* the last that were released: about 1 MB */

#if defined(CR_DEBUG) && !defined(__SANITIZE_ADDRESS__)
#define BY_DEFAULT true
#else
#define BY_DEFAULT false
#endif
bool cr_checking = BY_DEFAULT;

static struct {
    cr_spinlock lock;
    cr_tensor *tensors[TENSORS];
    void *objects[OBJECTS];
    uint64_t released, freed;
} quarantine;

void cr_quarantine(cr_tensor *t) {
    atomic_store(&t->refs, CR_RELEASED);
    atomic_store(&t->held, 0);
    t->storage = NULL;
    t->node = NULL;
    t->grad = NULL;
    t->counter = NULL;
    atomic_init(&t->base, NULL);
    t->ndim = 1;
    t->flags = 0;
    t->contiguous = false;
    t->offset = t->numel = t->shape[0] = 0;
    t->strides[0] = 1;
    cr_spin_lock(&quarantine.lock);
    cr_tensor **slot = &quarantine.tensors[quarantine.released++ % TENSORS], *oldest = *slot;
    *slot = t;
    cr_spin_unlock(&quarantine.lock);
    if (oldest) cr_small_give(oldest, sizeof *oldest);
}

void cr_retire(void *object) {
    if (!cr_checking) { free(object); return; }
    cr_spin_lock(&quarantine.lock);
    void **slot = &quarantine.objects[quarantine.freed++ % OBJECTS], *oldest = *slot;
    *slot = object;
    cr_spin_unlock(&quarantine.lock);
    free(oldest);
}

static bool is_retired(const void *object) {
    bool found = false;
    cr_spin_lock(&quarantine.lock);
    for (int i = 0; i < OBJECTS && !found; i++) found = quarantine.objects[i] == object;
    cr_spin_unlock(&quarantine.lock);
    return found;
}

static cr_status stale(const char *op, const char *what) {
    return cr_fail(CR_RUNTIME, op, "%s: this handle was released before", what);
}

bool cr_stale(const char *op, const char *what, const void *object) {
    return cr_checking && object && is_retired(object) && stale(op, what);
}

bool cr_lacks(const char *op, const char *what, const void *object) {
    return object ? cr_stale(op, what, object) : cr_fail_null(op, what) != CR_OK;
}

bool cr_lacks_tensor(const char *op, const char *what, const cr_tensor *t) {
    if (!t) return cr_fail_null(op, what) != CR_OK;
    return cr_released(t) && stale(op, what);
}

/* ---- the switch */
static cr_status check_switch(const char *text) {
    if (!text || !*text || !strcmp(text, "0") || !strcmp(text, "1")) return CR_OK;
    return cr_fail(CR_BAD_VALUE, "switch_set", "CHECK is 0 or 1, not '%.40s'", text);
}

static void changed(void) {
    const char *text = cr_config("CHECK");
    cr_checking = text ? *text == '1' : BY_DEFAULT;
}

__attribute__((constructor)) static void own_switch(void) {
    cr_switch_owner("CHECK", check_switch, changed);
    changed();
}
