/* extension.h - declarations that the files of the Python extension share.  It includes only
 * chainrule.h and CPython's stable ABI, or, without a GIL, that version's.
 *
 * Every function and method is one row of api.def.  tools/gen_python.py turns the rows into tables of
 * `entry` (api.gen.c, during the build), the type stub and the docstrings; api_call (call.c) binds and
 * converts the arguments of all of them, so that an implementation is a C function over converted
 * arguments: `cr_tensor *api_softmax(const arg *a)`. */
#ifndef CR_EXTENSION_H
#define CR_EXTENSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <chainrule.h>

/* ---- threads.  What the GIL guards is guarded by an object's own lock, and by one lock for what all share, in CPython
 * without a GIL (Py_GIL_DISABLED).  Under the second no Python code may run. */
#ifdef Py_GIL_DISABLED
extern PyMutex shared_mutex;
#define LOCKED(object, ...) do { \
        Py_BEGIN_CRITICAL_SECTION(object); \
        __VA_ARGS__; \
        Py_END_CRITICAL_SECTION(); \
    } while (0)
#define SHARED(...) do { \
        PyMutex_Lock(&shared_mutex); \
        __VA_ARGS__; \
        PyMutex_Unlock(&shared_mutex); \
    } while (0)
/* Without a count, which threads would pass from processor to processor with every Tensor that they make. */
static inline void make_immortal(void *o) { Py_SET_REFCNT((PyObject *)o, (Py_ssize_t)UINT32_MAX + 1); }
#else
#define LOCKED(object, ...) do { __VA_ARGS__; } while (0)
#define SHARED(...) do { __VA_ARGS__; } while (0)
static inline void make_immortal(void *o) { (void)o; }
#endif

/* ---- types */
typedef struct Tensor {
    PyObject_HEAD
    cr_tensor *t;                                   /* owned */
    PyObject *grad;                                 /* the object that the last x.grad returned, so that x.grad is
                                                     * x.grad; or NULL */
    struct Tensor *owner;                           /* whose .grad this object is, borrowed; or NULL */
    PyObject *weak;                                 /* list of weak references */
    PyObject *dict;                                 /* attributes that were set; NULL before the first */
    bool from_data;                                 /* made by Tensor(data): numpy() shows it, read-only, without
                                                     * detach */
} Tensor;
typedef struct Dtype { PyObject_HEAD cr_dtype dt; } Dtype;
typedef struct Device { PyObject_HEAD const cr_device *dev; } Device;
typedef struct Generator { PyObject_HEAD cr_generator *g; const cr_device *dev; bool owned; } Generator;

extern PyTypeObject *tensor_type, *dtype_type, *device_type, *generator_type, *size_type;   /* made once, at import */

/* Of a tuple or a list, whatever a subclass's own __len__ says. */
static inline Py_ssize_t parts_of(PyObject *o) { return PyTuple_Check(o) ? PyTuple_Size(o) : PyList_Size(o); }
static inline PyObject *part_of(PyObject *o, Py_ssize_t i) {
    return PyTuple_Check(o) ? PyTuple_GetItem(o, i) : PyList_GetItem(o, i);
}
static inline bool is_tensor(PyObject *o) {
    return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}
static inline cr_tensor *handle(PyObject *o) { return ((Tensor *)(void *)o)->t; }
/* The same with a reference, for cr_drop.  Other Python code can give the object another handle
 * (x.data = y, detach_()): while the GIL is released, in callbacks, in long calls that check for
 * signals. */
static inline cr_tensor *hold(PyObject *o) {
    cr_tensor *t;
    LOCKED(o, t = cr_retain(handle(o)));
    return t;
}

PyObject *wrap(cr_tensor *t);                       /* takes the reference; NULL: raises cr_error() */
/* first, then the others, taken; first NULL: raises cr_error() */
PyObject *tuple_with(cr_tensor *first, int n, cr_tensor **more);
PyObject *wrap_as(cr_tensor *t, PyTypeObject *type);   /* as an instance of a subclass */
PyObject *leaf_as(cr_tensor *t, PyTypeObject *type, bool requires_grad, bool from_data);   /* wrap_as as a leaf */
PyObject *retyped(PyObject *o, PyTypeObject *type); /* another object of the same tensor */
PyObject *wrap_borrowed(const cr_tensor *t);        /* CR_NONE and NULL become None */
void forget_grad(PyObject *self);                   /* after the gradient of a Tensor changed */
/* the object is t, taken, from now on; t NULL: raises cr_error().  The second keeps its gradient. */
bool become(PyObject *self, cr_tensor *t);
bool become_data(PyObject *self, const cr_tensor *data);
PyObject *done(cr_status status);                   /* None, or raises cr_error() */
extern PyObject *bad_value, *bad_type;              /* Error, DtypeError */
PyObject *raise_error(void);                        /* the library's message as an exception of its kind; returns
                                                     * NULL */
void name_error(const char *name);                  /* the exception that is set, "[op] ...", names the call that the
                                                     * user made */
/* from a compute function, which may run without the GIL; raise_error keeps it */
void set_error(PyObject *type, const char *format, ...);
/* TypeError: "<format> <name of got's type>"; returns NULL */
PyObject *raise_type(PyObject *got, const char *format, ...);
PyObject *dtype_object(cr_dtype dt);                /* new reference, as all of these */
PyObject *device_object(const cr_device *dev);
PyObject *size_object(int n, const int64_t *shape); /* a tuple that also equals a list */
PyObject *int_tuple(int n, const int64_t *v);
extern const char *namespace;                       /* what printed names begin with: "chainrule", "torch" */
PyObject *node_object(cr_node *n);                  /* takes the reference; NULL: None, or raises cr_error() */
/* takes both; type_name: "chainrule.return_types.max" */
PyObject *named_pair(const char *type_name, cr_tensor *first, cr_tensor *second);

PyObject *run_program(PyObject *self, PyObject *words);         /* program.c */
int cli_main(int argc, char **argv, bool of_process);           /* src/cli/main.c */

/* ---- arguments (call.c) */
typedef enum kind {
    TENSOR, OPERAND, NUMBER, INT, FLOAT, BOOL, STR, DTYPE, DEVICE, SIZE, TENSORS, GENERATOR, OBJECT
} kind;
enum { OPTIONAL = 1, KEYWORD = 2, VARIADIC = 4 };   /* None or absent; only by name; the other positional arguments */
enum { MAX_ARGS = 10 };

/* huge: from 2^63 on; i holds the bits of the uint64 */
typedef struct number { double d; int64_t i; bool integral, boolean, huge; } number;
typedef struct arg {                                /* one converted argument; `given` is false for None and for
                                                     * absent ones without default */
    bool given, owned;                              /* owned: t was made for a number */
    PyObject *from;                                 /* the object that was converted, borrowed; NULL where there is
                                                     * none */
    union {
        cr_tensor *t;                               /* TENSOR, OPERAND: held until the call ends */
        number x;                                   /* NUMBER */
        int64_t i;                                  /* INT */
        double d;                                   /* FLOAT */
        bool b;                                     /* BOOL */
        const char *s;                              /* STR */
        cr_dtype dt;                                /* DTYPE */
        const cr_device *dev;                       /* DEVICE */
        cr_generator *g;                            /* GENERATOR; never NULL: the default one */
        PyObject *o;                                /* OBJECT: borrowed, as given */
        struct { int n; int64_t v[CR_MAX_DIMS]; } size;                         /* SIZE */
        struct { int n; const cr_tensor **v; } list;                            /* TENSORS */
    };
} arg;

/* text, value: a default */
typedef struct param { const char *name; kind kind; int flags; const char *text; double value; } param;
typedef struct entry {
    const char *name;
    const char *called;                             /* what errors say: the name, or that of the public function which
                                                     * calls a row with an underscore; NULL: they stay as they are */
    const char *node[2];                            /* the name of the result's node, where several ops make it up, or
                                                     * NULL; then where `dim` is given, or NULL: the same */
    cr_tensor *(*compute)(const arg *a);            /* touches no Python object: may run without the GIL */
    PyObject *(*run)(const arg *a);                 /* the others */
    const param *params;
    int count;
    bool inplace;                                   /* compute returns its first argument */
    const struct entry *numpys;                     /* the function that NumPy calls by this name (amax for max); its
                                                     * parameters are the first of the same */
} entry;

PyObject *api_call(const entry *e, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* a row of ops.def, written into its first input */
cr_tensor *api_in_place(const char *row, const arg *a, int n, const double *params);
/* y, taken, into the first argument by the rule of in-place forms: no float into integers, no number
 * into bool */
cr_tensor *written(const char *name, const arg *a, cr_tensor *y);
/* is_number: y was one, so that x^2 is a multiplication */
cr_tensor *power(const cr_tensor *x, const cr_tensor *y, bool is_number);
bool fits_double(const arg *value);                 /* an operand that was a number, and no integer beyond 2^53 */
cr_tensor *no_tensor(const char *name);             /* NULL and a TypeError: two numbers were given */
PyObject *api_item(const arg *a);
extern PyMethodDef api_functions[], api_methods[];  /* api.gen.c */

/* Around a call while autocast is on (mixed.c): casts the tensors of a as the policy of e's name says, and suspends
 * autocast for the ops inside.  False: an exception is set. */
bool mixed_begin(const entry *e, arg *a, bool *suspended);
void mixed_end(bool suspended);

/* Conversions that other files need; false with an exception set. */
bool to_int64(PyObject *o, int64_t *v);
bool to_number(PyObject *o, number *x);             /* bool, int, float or an object that converts to one; false
                                                     * without an exception for other objects */
bool to_dtype(PyObject *o, cr_dtype *dt);
bool to_device(PyObject *o, const cr_device **dev);
bool to_size(PyObject *o, int *n, int64_t *v);      /* an int or a sequence of at most CR_MAX_DIMS */
bool to_seed(PyObject *o, uint64_t *seed);
/* beyond the range of int it stays out of range */
static inline int axis(int64_t i) { return i > INT32_MAX ? INT32_MAX : i < INT32_MIN ? INT32_MIN : (int)i; }
cr_dtype dtype_of(const number *x);                 /* a number's own: float32, int64 or bool */
cr_tensor *scalar_of(const number *x);              /* (): keeps the other operand's dtype */

static inline cr_tensor *cast(const cr_tensor *x, cr_dtype dt) { return cr_to(x, dt, cr_device_of(x)); }
static inline cr_tensor *leave(cr_tensor *y) {      /* ends the scope of a composite; its result moves out */
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

/* ---- subclasses of Tensor (subclass.c) */
enum { MOST_TYPES = 8 };
/* types among the arguments that decide about the result, subclasses first, and an object of each */
typedef struct overloads {
    PyTypeObject *type[MOST_TYPES];
    PyObject *object[MOST_TYPES];
    int count;
    bool asked;                                     /* one of them has a __torch_function__ of its own */
} overloads;
extern bool seen_subclass;                          /* an argument was of a type that may be one of these */
extern PyTypeObject *plain_type;                    /* one that is none: Parameter, once it was met */
static inline bool is_plain(PyObject *o) { return Py_TYPE(o) == tensor_type || Py_TYPE(o) == plain_type; }
static inline void notice(PyObject *o) {
    if (!is_plain(o)) seen_subclass = true;
}
void consider(overloads *s, PyObject *o);             /* adds the type of an object that is not exactly a Tensor */
/* The call for which objects were bound to the parameters, if a subclass among them decides, or with `other` another
 * class that has a __torch_function__; else false. */
bool call_special(const entry *e, PyObject *const *from, bool other, PyObject *self, PyObject *const *args,
                  Py_ssize_t n, PyObject *names, PyObject **result);
PyObject *as_class(PyObject *result, PyTypeObject *type);       /* the result, taken, its tensors of a subclass */
PyObject *as_special(const overloads *s, const char *name, PyObject *result);    /* as_class of the common type */
PyObject *ask_types(const overloads *s, PyObject *function, PyObject *args, PyObject *kwargs);
PyObject *answered(const overloads *s, const char *name, PyObject *answer);    /* TypeError for NotImplemented */
PyObject *ask_method(const overloads *s, const char *name, PyObject *a, PyObject *b);    /* b NULL: of one argument */
void plain_begin(void);                             /* until plain_end results are Tensors */
void plain_end(void);
PyObject *api__alias(const arg *a);

/* ---- memory of other libraries (interop.c, dlpack.c) */
typedef enum copying { COPY_IF_NEEDED, COPY_NEVER, COPY_ALWAYS } copying;
typedef struct foreign {                            /* opened: `done` has to be called, or is left to take_foreign */
    char *data;
    int ndim;
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS];   /* strides in bytes */
    cr_dtype dt;
    bool read_only, is_copy;                        /* is_copy: made for us by the exporter */
    void (*done)(void *ctx);                        /* gives the memory back; from any thread, with or without the
                                                     * GIL */
    void *ctx;
    PyObject *refusal;                              /* the kind of exception where COPY_NEVER cannot be */
} foreign;

void release_foreign(void (*release)(void *), void *ctx);
bool open_dlpack(PyObject *o, foreign *f);          /* a capsule, or an object with __dlpack__ */
/* over the memory or a copy; dt, dev NULL: as they are */
cr_tensor *take_foreign(foreign *f, copying mode, const cr_dtype *dt, const cr_device *dev);
/* false: o is no array (or, with an exception, asked in vain); else *t, or NULL with an exception */
bool from_array(PyObject *o, copying mode, const cr_dtype *dt, const cr_device *dev, cr_tensor **t);
bool is_ndarray(PyObject *o);                       /* of NumPy */
/* a buffer without axes: a scalar of NumPy; false without an exception when it is something else */
bool scalar_of_array(PyObject *o, number *x, cr_dtype *dt);
int  tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void tensor_release_buffer(PyObject *self, Py_buffer *view);

/* ---- the rest */
/* data.c: numbers, nested sequences, buffers; copies */
cr_tensor *tensor_from(PyObject *data, const cr_dtype *dt, const cr_device *dev);
/* text.c: of a capsule; NULL with an exception for anything else */
cr_loader *loader_of(const arg *a);
cr_plan *plan_of(PyObject *o);                      /* plan.c: the same */
cr_tensor *get_item(PyObject *self, PyObject *key);                                          /* index.c */
int        set_item(PyObject *self, PyObject *key, PyObject *value);
/* a uint8 tensor as bool, with a warning; NULL where that is an error */
cr_tensor *mask_of(const cr_tensor *bytes, const char *what);
bool       make_types(PyObject *module);            /* types.c: Size, dtype, Device, Generator and their constants */
bool       make_tensor_type(PyObject *module);      /* tensor.c */
bool       make_autograd_types(PyObject *module);   /* autograd.c */
bool       make_value_type(PyObject *module);       /* value.c */
/* chainrule.<module>.<name>, imported when first used; borrowed */
PyObject  *python_function(const char *module, const char *name);

/* Runs long work without the GIL. */
#define WITHOUT_GIL(statement) do { Py_BEGIN_ALLOW_THREADS statement; Py_END_ALLOW_THREADS } while (0)

/* Returns both results of a call that gives the first and leaves the other in `second`. */
#define PAIR(name, call) do {                                                                      \
        cr_tensor *first, *second;                                                                 \
        WITHOUT_GIL(first = call);                                                                 \
        if (!first) return raise_error();                                                          \
        return named_pair("chainrule.return_types." name, first, second);                          \
    } while (0)

#endif
