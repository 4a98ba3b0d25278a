/* module.c - the import of chainrule._core. */
#include "extension.h"

#include <stdlib.h>
#include <string.h>

#ifdef Py_GIL_DISABLED
PyMutex shared_mutex;
#endif
static PyObject *known;                              /* "module.name" -> the function */

PyObject *python_function(const char *module, const char *name) {
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

/* Is the file part of this package?  Its lines say nothing to a user. */
static bool is_ours(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash && slash - file >= 10 && !strncmp(slash - 10, "/chainrule", 10);
}

/* "train.py:12": the innermost line of Python outside this package; "" where no Python runs. */
static const char *source_of_call(void *unused) {
    static _Thread_local char text[256];
    (void)unused;
    text[0] = 0;
    if (!Py_IsInitialized()) return text;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame && frame != Py_None) {
        PyObject *code = PyObject_GetAttrString(frame, "f_code"),
                 *name = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
        const char *file = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        bool found = file && !is_ours(file);
        if (found)
            PyOS_snprintf(text, sizeof text, "%s:%d", file, PyFrame_GetLineNumber((PyFrameObject *)(void *)frame));
        Py_XDECREF(code);
        Py_XDECREF(name);
        PyObject *outer = found ? NULL : PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = outer;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    PyGILState_Release(state);
    return text;
}

static PyMethodDef program[] = {{"_program", run_program, METH_O, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "chainrule._core", .m_methods = api_functions,
    .m_doc = "The part of chainrule that is written in C; import chainrule instead."
};

/* Types and caches are the process's, and hold objects of the interpreter that made them: the main
 * one, which lives longest. */
PyMODINIT_FUNC PyInit__core(void) {
    static PyObject *made;
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(
            PyExc_ImportError,
            "chainrule cannot be imported in a subinterpreter: import it in the main one, or use threads or processes");
        return NULL;
    }
    if (made) return Py_NewRef(made);                /* removed from sys.modules and imported again */
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
#ifndef _WIN32
    /* Mesa's Vulkan layer asks the desktop for its GPU, and complains on stderr where there is none */
    if (!getenv("XDG_RUNTIME_DIR")) (void)setenv("NODEVICE_SELECT", "1", 0);
#endif
    cr_set_interrupt(signals_raise, NULL);
    cr_set_source(source_of_call, NULL);
    if (module && (known = PyDict_New()) && PyModule_AddFunctions(module, program) == 0 &&
        make_types(module) && make_tensor_type(module) && make_autograd_types(module) &&
        make_value_type(module) && PyModule_AddStringConstant(module, "__version__", cr_version()) == 0)
        return made = Py_NewRef(module);
    Py_XDECREF(module);
    return NULL;
}
