/* settings.c - threads, devices, memory, switches, the profiler. */
#include "extension.h"

#include <string.h>

PyObject *done(cr_status status) {
    if (status != CR_OK) return raise_error();
    Py_RETURN_NONE;
}
PyObject *api_get_num_threads(const arg *a) { (void)a; return PyLong_FromLong(cr_num_threads()); }
PyObject *api_set_num_threads(const arg *a) {
    return done(cr_set_num_threads(axis(a[0].i)));
}

static const char *const precisions[] = {[CR_HIGHEST] = "highest", [CR_HIGH] = "high", [CR_MEDIUM] = "medium"};
PyObject *api_set_float32_matmul_precision(const arg *a) {
    int p = CR_HIGHEST;
    while (p <= CR_MEDIUM && strcmp(a[0].s, precisions[p])) p++;
    if (p > CR_MEDIUM)
        return PyErr_Format(PyExc_RuntimeError,
                            "[set_float32_matmul_precision] precision must be 'highest', 'high' or 'medium', not '%s'",
                            a[0].s);
    cr_set_f32_products((cr_precision)p);
    Py_RETURN_NONE;
}

PyObject *api_get_float32_matmul_precision(const arg *a) {
    (void)a;
    const cr_precision p = cr_set_f32_products(CR_HIGHEST);
    cr_set_f32_products(p);
    return PyUnicode_FromString(precisions[p]);
}

PyObject *api_get_default_dtype(const arg *a) { (void)a; return dtype_object(cr_default_dtype()); }
PyObject *api_set_default_dtype(const arg *a) { return done(cr_set_default_dtype(a[0].dt)); }
PyObject *api_set_default_device(const arg *a) { return done(cr_set_default_device(a[0].dev)); }
PyObject *api__set_auto_transfer(const arg *a) { return PyBool_FromLong(cr_auto_transfer(a[0].b)); }
PyObject *api_get_default_device(const arg *a) { (void)a; return device_object(cr_default_device()); }
PyObject *api_synchronize(const arg *a) {
    cr_status status;
    WITHOUT_GIL(status = cr_synchronize(a[0].dev));
    return done(status);
}
PyObject *api_memory_stats(const arg *a) {
    cr_memory m = cr_memory_stats(a[0].dev);
    return int_tuple(3, (int64_t[]){m.current, m.peak, m.cached});
}
PyObject *api_reset_peak_memory_stats(const arg *a) {
    cr_reset_peak(a[0].dev);
    Py_RETURN_NONE;
}
PyObject *api_empty_cache(const arg *a) {
    cr_empty_cache(a[0].dev);
    Py_RETURN_NONE;
}
PyObject *api__devices(const arg *a) {
    (void)a;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && cr_device_at(i); i++) {
        PyObject *name = PyUnicode_FromString(cr_device_name(cr_device_at(i)));
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* CHAINRULE_NUM_THREADS as num_threads */
static PyObject *switch_name(const char *name) {
    PyObject *whole = PyUnicode_FromString(strchr(name, '_') + 1),
             *lower = whole ? PyObject_CallMethod(whole, "lower", NULL) : NULL;
    Py_XDECREF(whole);
    return lower;
}
PyObject *api__switches(const arg *a) {
    (void)a;
    PyObject *list = PyList_New(0);
    const char *name, *doc, *value;
    for (int i = 0; list && cr_switch_at(i, &name, &doc, &value); i++) {
        PyObject *row = Py_BuildValue("Nsz", switch_name(name), doc, value);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
PyObject *api__switch_set(const arg *a) { return done(cr_switch_set(a[0].s, a[1].given ? a[1].s : NULL)); }
PyObject *api__profile_begin(const arg *a) { (void)a; return done(cr_profile_begin()); }
PyObject *api__profile_end(const arg *a) {
    cr_status status;
    WITHOUT_GIL(status = cr_profile_end(a[0].s));
    return done(status);
}
