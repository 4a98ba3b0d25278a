/* program.c - the program chainrule, for the script of an installed package: _core._program([b"chainrule", ...]). */
#include "extension.h"

#include <stdlib.h>

PyObject *run_program(PyObject *self, PyObject *words) {
    (void)self;
    const Py_ssize_t n = PyList_Check(words) ? PyList_Size(words) : 0;
    char **argv = n > 0 ? calloc((size_t)n + 1, sizeof *argv) : NULL;
    if (!argv) return PyErr_SetString(PyExc_TypeError, "_program() takes a list of bytes"), NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(argv[i] = PyBytes_AsString(PyList_GetItem(words, i)))) {
            free(argv);
            return NULL;
        }
    cr_set_interrupt(NULL, NULL);                   /* signals are the program's from now on */
    cr_set_source(NULL, NULL);
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = cli_main((int)n, argv, false);
    Py_END_ALLOW_THREADS
    free(argv);
    return PyLong_FromLong(code);
}
