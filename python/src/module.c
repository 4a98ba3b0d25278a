/* module.c - chainrule._core: what happens when it is imported. */
#include "extension.h"

#include <string.h>

PyObject *python_function(const char *module, const char *name) {
    static PyObject *known;                          /* "module.name" -> the function */
    if (!known && !(known = PyDict_New())) return NULL;
    PyObject *key = PyUnicode_FromFormat("%s.%s", module, name), *f = key ? PyDict_GetItemWithError(known, key) : NULL;
    if (key && !f && !PyErr_Occurred()) {
        PyObject *full = PyUnicode_FromFormat("chainrule.%s", module), *m = full ? PyImport_Import(full) : NULL;
        f = m ? PyObject_GetAttrString(m, name) : NULL;
        if (f && PyDict_SetItem(known, key, f) < 0) Py_CLEAR(f);
        Py_XDECREF(f);                               /* known holds it */
        Py_XDECREF(full);
        Py_XDECREF(m);
    }
    Py_XDECREF(key);
    return f;
}

/* Long calls ask now and then: Python's signal handlers run here, and Ctrl-C's raises KeyboardInterrupt. */
static bool signals_raise(void *unused) {
    (void)unused;
    if (!Py_IsInitialized()) return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    return raised;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "chainrule._core", .m_size = -1, .m_methods = api_functions,
    .m_doc = "The part of chainrule that is written in C; import chainrule instead."
};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    cr_set_interrupt(signals_raise, NULL);
    if (module && make_types(module) && make_tensor_type(module) && make_autograd_types(module) && PyModule_AddStringConstant(module, "__version__", cr_version()) == 0) return module;
    Py_XDECREF(module);
    return NULL;
}
