/* distributed.c - the world of processes, one for the interpreter, and its collectives: chainrule/distributed. */
#include "extension.h"

static cr_world *world;                             /* NULL: not open */

static bool lacks_world(void) {
    if (world) return false;
    PyErr_SetString(PyExc_ValueError, "Default process group has not been initialized, please make sure to call "
                                      "init_process_group.");
    return true;
}

PyObject *api__world_open(const arg *a) {
    (void)a;
    if (world) Py_RETURN_NONE;
    WITHOUT_GIL(world = cr_world_open(NULL));
    return world ? Py_NewRef(Py_None) : raise_error();
}

PyObject *api__world_close(const arg *a) {
    (void)a;
    cr_world *w = world;
    world = NULL;
    WITHOUT_GIL(cr_world_close(w));
    Py_RETURN_NONE;
}

PyObject *api__world_abort(const arg *a) {
    cr_world *w = world;
    world = NULL;
    WITHOUT_GIL(cr_world_abort(w, (int)a[0].i));
    Py_RETURN_NONE;
}

PyObject *api__world_info(const arg *a) {
    (void)a;
    if (!world) Py_RETURN_NONE;
    return Py_BuildValue("iiss", cr_world_rank(world), cr_world_size(world), cr_world_host(world),
                         cr_world_engine(world));
}

/* A collective of the world; the call may wait for other processes. */
#define COLLECTIVE(call) do {                                                                      \
        if (lacks_world()) return NULL;                                                            \
        cr_status status;                                                                          \
        WITHOUT_GIL(status = call);                                                                \
        return done(status);                                                                       \
    } while (0)

PyObject *api__world_barrier(const arg *a) { (void)a; COLLECTIVE(cr_barrier(world)); }
PyObject *api__world_broadcast(const arg *a) { COLLECTIVE(cr_broadcast_from(world, a[0].t, axis(a[1].i))); }
PyObject *api__world_all_gather(const arg *a) { COLLECTIVE(cr_all_gather(world, a[0].t, a[1].t)); }
PyObject *api__world_reduce_scatter(const arg *a) { COLLECTIVE(cr_reduce_scatter(world, a[0].t, a[1].t)); }

/* ---- a sum beside other work */
static const char work_name[] = "chainrule.work";

static void drop_work(PyObject *capsule) {
    cr_work *k = PyCapsule_GetContext(capsule) ? NULL : PyCapsule_GetPointer(capsule, work_name);
    if (!k) return;
    WITHOUT_GIL((void)cr_work_wait(k));
    cr_error_clear();
}

PyObject *api__world_all_reduce(const arg *a) {
    if (lacks_world()) return NULL;
    cr_work *k = cr_all_reduce_start(world, a[0].t);
    PyObject *capsule = k ? PyCapsule_New(k, work_name, drop_work) : raise_error();
    if (k && !capsule) WITHOUT_GIL((void)cr_work_wait(k));
    return capsule;
}

PyObject *api__world_wait(const arg *a) {
    cr_work *k = PyCapsule_GetPointer(a[0].o, work_name);
    if (!k) return NULL;
    if (PyCapsule_GetContext(a[0].o)) Py_RETURN_NONE;       /* the context marks a work that was waited for */
    if (PyCapsule_SetContext(a[0].o, k)) return NULL;
    cr_status status;
    WITHOUT_GIL(status = cr_work_wait(k));
    return done(status);
}
