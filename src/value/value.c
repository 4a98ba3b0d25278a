/* value.c - an autograd engine for single numbers, in one file.
 *
 * A Value is a number and a node of a graph at once.  Computing with Values makes new ones that point
 * back at their inputs:
 *
 *     cr_value *y = cr_value_mul(a, b);            y->data = 6: a and b hold 2 and 3; y->in = {a, b}
 *
 * cr_value_backward(y) then starts at y with a gradient of 1 and goes the other way: each node adds to
 * the gradients of its inputs its own gradient times the derivative of its operation.  This is the
 * chain rule.
 *
 * A node takes 64 bytes.  The walk allocates nothing: Kahn's order, whose lists go through the nodes.  Reference
 * counts are plain numbers, which halves the cost of a multiplication; so a Value belongs to one thread.
 *
 * Vectors are cr_tensor's.  A Value remembers a device but is computed on the host.  pool.c has the
 * memory of nodes.  The idea and the names are from Andrej Karpathy's micrograd. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../core/dtype.h"
#include "pool.h"

/* POWER: by a number, not a Value */
enum op { LEAF, ADD, SUB, MUL, DIV, POW, POWER, NEG, RELU, TANH, EXP, LOG, SIGMOID, TO };

static const struct { const char *name, *symbol; int inputs;
} ops[] = {
    [LEAF] = {"value", "", 0},
    [ADD] = {"add", "+", 2},
    [SUB] = {"sub", "-", 2},
    [MUL] = {"mul", "*", 2},
    [DIV] = {"div", "/", 2},
    [POW] = {"pow", "**", 2},
    [POWER] = {"pow", "**", 1},
    [NEG] = {"neg", "neg", 1},
    [RELU] = {"relu", "ReLU", 1},
    [TANH] = {"tanh", "tanh", 1},
    [EXP] = {"exp", "exp", 1},
    [LOG] = {"log", "log", 1},
    [SIGMOID] = {"sigmoid", "sigmoid", 1},
    [TO] = {"to", "to", 1},
};

/* One cache line; with pointers of 32 bits less. */
struct cr_value {
    double data, grad;                              /* grad: d(root of the last walk) / d(this); a leaf's adds up
                                                     * over walks */
    union {
        cr_value *in[2];                            /* ops[op].inputs of them, owned */
        struct { cr_value *base; double exponent; };           /* of POWER: one input and a number */
    };
    cr_value *next;                                 /* in a list: of a walk, or of nodes to free */
    char *label;                                    /* owned, or NULL */
    int refs;
    int uses;                                       /* in a walk: nodes that have not yet added their gradient; 0
                                                     * otherwise */
    uint32_t thread;                                /* the owner, 0: none */
    uint8_t op, device;                             /* device: its number in cr_device_at */
};
_Static_assert(sizeof(cr_value) <= 64, "a Value fits into a cache line");

/* ---- value and gradient of each op */

/* squares are the most frequent */
static double power(double a, double n) { return n == 2 ? a * a : n == 1 ? a : pow(a, n); }

/* y = op(a, b) */
static inline double compute(enum op op, double a, double b) {
    switch (op) {
        case ADD: return a + b;
        case SUB: return a - b;
        case MUL: return a * b;
        case DIV: return a / b;
        case POW: case POWER: return power(a, b);
        case NEG: return -a;
        case RELU: return a < 0 ? 0 : a;            /* NaN is kept */
        case TANH: return tanh(a);
        case EXP: return exp(a);
        case LOG: return log(a);
        case SIGMOID: return 1 / (1 + exp(-a));
        case LEAF: case TO: break;
    }
    return a;
}

/* The chain rule for one node: each input's gradient grows by y's times dy/d(input). */
static inline void hand_on(const cr_value *y) {
    const double g = y->grad;
    cr_value *a = y->in[0], *b = y->in[1];
    switch ((enum op)y->op) {
        case ADD: a->grad += g; b->grad += g; break;
        case SUB: a->grad += g; b->grad -= g; break;
        case MUL: a->grad += g * b->data; b->grad += g * a->data; break;
        case DIV: a->grad += g / b->data; b->grad -= g * y->data / b->data; break;
        case POW:                                   /* 0 where the product would be 0 * infinity, as in PyTorch */
            if (b->data != 0) a->grad += g * b->data * power(a->data, b->data - 1);
            if (a->data != 0 || !(b->data >= 0)) b->grad += g * y->data * log(a->data);
            break;
        case POWER: if (y->exponent != 0) a->grad += g * y->exponent * power(a->data, y->exponent - 1); break;
        case NEG: a->grad -= g; break;
        case RELU: if (!(y->data <= 0)) a->grad += g; break;
        case TANH: a->grad += g * (1 - y->data * y->data); break;
        case EXP: a->grad += g * y->data; break;
        case LOG: a->grad += g / a->data; break;
        case SIGMOID: a->grad += g * y->data * (1 - y->data); break;
        case TO: a->grad += g; break;
        case LEAF: break;
    }
}

/* ---- owning threads */

static atomic_uint threads;                         /* that have used Values */
static _Thread_local uint32_t me;                   /* this thread's number; 0: none yet, and in Values that belong
                                                     * to no thread */

cr_status cr_value_serial(void) {
    if (threads) return cr_fail(CR_RUNTIME, "value_serial", "there are Values already");
    cr_cells_serial = true;
    return CR_OK;
}

/* CHAINRULE_CHECK: released cells wait in a queue before they are reused. */
enum { CELLS = 256 };
static const uint32_t RELEASED = UINT32_MAX;        /* in place of the thread */
static _Thread_local struct { cr_value *first, *last; int count; } quarantine;

static void retire(cr_value *v) {
    v->thread = RELEASED;
    v->next = NULL;
    if (quarantine.last) quarantine.last->next = v;
    else quarantine.first = v;
    quarantine.last = v;
    if (quarantine.count++ < CELLS) return;
    v = quarantine.first;
    quarantine.first = v->next;
    quarantine.count--;
    cr_cell_give(v);
}

static bool refuse(const cr_value *v, const char *op) {
    if (!v) return cr_fail_null(op, "the Value"), false;
    if (v->thread == RELEASED) return cr_fail(CR_RUNTIME, op, "the Value: this handle was released before"), false;
    return cr_fail(CR_RUNTIME, op, "a Value of another thread: each thread has its own (but see cr_value_serial)"),
           false;
}
static inline bool is_ours(const cr_value *v, const char *op) {
    return (v && (!v->thread || v->thread == me)) || refuse(v, op);
}

/* ---- making and freeing */

static inline cr_value *make_value(enum op op, double data, int device) {
    cr_value *v = cr_cell_take();
    if (!v) return cr_fail(CR_NO_MEMORY, ops[op].name, "out of memory for Values"), NULL;
    v->data = data;
    v->grad = 0;
    v->label = NULL;
    v->refs = 1;
    v->uses = 0;
    v->thread = cr_cells_serial ? 0 : me;
    v->op = (uint8_t)op;
    v->device = (uint8_t)device;
    return v;
}

static inline cr_value *retain_value(cr_value *v) { v->refs++; return v; }

cr_value *cr_value_retain(cr_value *v) { return is_ours(v, "retain") ? retain_value(v) : NULL; }

/* Freeing a result may free its inputs, and so on.  The nodes to free wait in a list, because
 * recursion would overflow the stack for a chain of ten million. */
void cr_value_release(cr_value *v) {
    if (!v || !is_ours(v, "release") || --v->refs) return;
    v->next = NULL;
    for (cr_value *dead = v; dead; ) {
        v = dead;
        dead = v->next;
        for (int i = 0; i < ops[v->op].inputs; i++) {
            cr_value *x = v->in[i];
            if (--x->refs) continue;
            x->next = dead;
            dead = x;
        }
        if (v->label) free(v->label);
        if (cr_checking) retire(v);
        else cr_cell_give(v);
    }
}

/* The device's number, or -1. */
static int number_of(const char *op, const cr_device *dev) {
    if (!dev) return cr_fail_null(op, "the device"), -1;
    int i = 0;
    while (i < UINT8_MAX && cr_device_at(i) && cr_device_at(i) != dev) i++;
    return cr_device_at(i) == dev ? i : (cr_fail(CR_BAD_VALUE, op, "no such device in this process"), -1);
}

cr_value *cr_value_new(double data, const cr_device *dev) {
    const int device = number_of("value", dev);
    if (device < 0) return NULL;
    if (!me && !cr_cells_serial) me = 1 + atomic_fetch_add(&threads, 1);
    return make_value(LEAF, data, device);
}

/* ---- anomaly mode: the first Value that is NaN or infinite is an error that names it */

typedef struct described { char text[160]; } described;

static described describe(const cr_value *v) {
    described d;
    if (v->label) snprintf(d.text, sizeof d.text, "Value '%.100s' (data=%g)", v->label, v->data);
    else snprintf(d.text, sizeof d.text, "Value(data=%g, op='%s')", v->data, ops[v->op].symbol);
    return d;
}

static void refuse_result(const cr_value *y) {
    const char *name = ops[y->op].name;
    const double made = isnan(y->data) ? NAN : y->data;        /* x86 sets the sign of NaN */
    if (ops[y->op].inputs == 2)
        cr_fail(CR_RUNTIME, name, "anomaly: made %g from %s and %s", made, describe(y->in[0]).text,
                describe(y->in[1]).text);
    else if (y->op == POWER)
        cr_fail(CR_RUNTIME, name, "anomaly: made %g from %s to the power of %g", made, describe(y->base).text,
                y->exponent);
    else cr_fail(CR_RUNTIME, name, "anomaly: made %g from %s", made, describe(y->in[0]).text);
}

static cr_status check_gradients(const cr_value *y) {
    for (int i = 0; i < ops[y->op].inputs; i++)
        if (!isfinite(y->in[i]->grad))
            return cr_fail(CR_RUNTIME, ops[y->op].name, "anomaly: backward made the gradient of %s %g",
                           describe(y->in[i]).text, y->in[i]->grad);
    return CR_OK;
}

/* ---- computing */

static cr_value *checked(cr_value *y) {
    if (!y || !cr_modes.anomaly || isfinite(y->data)) return y;
    refuse_result(y);
    cr_value_release(y);
    return NULL;
}

/* Both take the references to their inputs, which are not NULL. */
static inline cr_value *of_one(enum op op, cr_value *a) {
    cr_value *y = make_value(op, compute(op, a->data, 0), a->device);
    if (!y) { cr_value_release(a); return NULL; }
    y->in[0] = a;
    return isfinite(y->data) ? y : checked(y);
}

static inline cr_value *of_two(enum op op, cr_value *a, cr_value *b) {
    cr_value *y = make_value(op, compute(op, a->data, b->data), a->device);
    if (!y) { cr_value_release(a); cr_value_release(b); return NULL; }
    y->in[0] = a;
    y->in[1] = b;
    return isfinite(y->data) ? y : checked(y);
}

static bool agree(enum op op, const cr_value *a, const cr_value *b) {
    if (!is_ours(a, ops[op].name) || !is_ours(b, ops[op].name)) return false;
    if (a->device == b->device) return true;
    cr_fail(CR_BAD_VALUE, ops[op].name, "one Value is on %s, the other on %s: move one with to()",
            cr_device_name(cr_device_at(a->device)), cr_device_name(cr_device_at(b->device)));
    return false;
}

static inline cr_value *unary(enum op op, cr_value *a) {
    return is_ours(a, ops[op].name) ? of_one(op, retain_value(a)) : NULL;
}

static inline cr_value *binary(enum op op, cr_value *a, cr_value *b) {
    return agree(op, a, b) ? of_two(op, retain_value(a), retain_value(b)) : NULL;
}

cr_value *cr_value_add(cr_value *a, cr_value *b) { return binary(ADD, a, b); }
cr_value *cr_value_sub(cr_value *a, cr_value *b) { return binary(SUB, a, b); }
cr_value *cr_value_mul(cr_value *a, cr_value *b) { return binary(MUL, a, b); }
cr_value *cr_value_div(cr_value *a, cr_value *b) { return binary(DIV, a, b); }
cr_value *cr_value_pow(cr_value *a, cr_value *b) { return binary(POW, a, b); }
cr_value *cr_value_neg(cr_value *a) { return unary(NEG, a); }
cr_value *cr_value_relu(cr_value *a) { return unary(RELU, a); }
cr_value *cr_value_tanh(cr_value *a) { return unary(TANH, a); }
cr_value *cr_value_exp(cr_value *a) { return unary(EXP, a); }
cr_value *cr_value_log(cr_value *a) { return unary(LOG, a); }
cr_value *cr_value_sigmoid(cr_value *a) { return unary(SIGMOID, a); }

cr_value *cr_value_pow_scalar(cr_value *a, double n) {
    if (!is_ours(a, ops[POWER].name)) return NULL;
    cr_value *y = make_value(POWER, compute(POWER, a->data, n), a->device);
    if (!y) return NULL;
    y->base = retain_value(a);
    y->exponent = n;
    return checked(y);
}

cr_value *cr_value_to(cr_value *a, const cr_device *dev) {
    if (!is_ours(a, ops[TO].name)) return NULL;
    const int device = number_of(ops[TO].name, dev);
    if (device < 0) return NULL;
    if (device == a->device) return retain_value(a);
    cr_value *y = unary(TO, a);
    if (y) y->device = (uint8_t)device;
    return y;
}

/* b + w[0] x[0] + w[1] x[1] + ..., then relu: the same nodes as by the operators, in the same order. */
cr_value *cr_value_neuron(int64_t n, cr_value *const *w, cr_value *const *x, cr_value *b, bool relu) {
    if (!is_ours(b, "neuron")) return NULL;
    cr_value *y = retain_value(b);
    for (int64_t i = 0; y && i < n; i++) {
        cr_value *product = agree(ADD, w[i], b) ? binary(MUL, w[i], x[i]) : NULL;
        if (product) y = of_two(ADD, y, product);
        else { cr_value_release(y); y = NULL; }
    }
    return y && relu ? of_one(RELU, y) : y;
}

/* ---- the walk */

/* Adds 1 or -1 to the uses of v's inputs.  Inputs with a first use, or without a use left, go to the
 * head of the list. */
static inline cr_value *count_uses(const cr_value *v, int change, cr_value *todo) {
    for (int i = 0; i < ops[v->op].inputs; i++) {
        cr_value *x = v->in[i];
        if (x->op == LEAF) continue;                /* a leaf has no inputs, so the walk skips it */
        x->uses += change;
        if (x->uses != (change > 0)) continue;
        x->next = todo;
        todo = x;
    }
    return todo;
}

/* A node passes its gradient on after every node that uses it has added its share.  The first pass
 * counts the uses of each node under the root; the second pass decrements them, and a node follows
 * when none is left (Kahn's topological order).  In both passes the pending nodes are a list through
 * the nodes themselves.  The second pass returns the counts to zero, so a walk allocates nothing.  A
 * failure skips the arithmetic of the remaining nodes, not the counting. */
cr_status cr_value_backward(cr_value *root) {
    if (!is_ours(root, "backward")) return cr_error_status();
    root->next = NULL;
    for (cr_value *v = root, *todo; v; v = todo) {
        if (v->op != LEAF) v->grad = 0;
        todo = count_uses(v, 1, v->next);
    }
    root->grad += 1;
    root->next = NULL;
    cr_status status = CR_OK;
    for (cr_value *v = root, *todo; v; v = todo) {
        if (status == CR_OK) hand_on(v);
        if (status == CR_OK && cr_modes.anomaly) status = check_gradients(v);
        todo = count_uses(v, -1, v->next);
    }
    return status;
}

/* ---- reading */

double cr_value_data(const cr_value *v) { return is_ours(v, "data") ? v->data : NAN; }
double cr_value_grad(const cr_value *v) { return is_ours(v, "grad") ? v->grad : NAN; }
void cr_value_set_data(cr_value *v, double data) { if (is_ours(v, "set_data")) v->data = data; }
void cr_value_set_grad(cr_value *v, double grad) { if (is_ours(v, "set_grad")) v->grad = grad; }
const cr_device *cr_value_device(const cr_value *v) { return is_ours(v, "device") ? cr_device_at(v->device) : NULL; }
const char *cr_value_op(const cr_value *v) { return is_ours(v, "op") ? ops[v->op].symbol : NULL; }
const char *cr_value_label(const cr_value *v) { return is_ours(v, "label") ? v->label : NULL; }

int cr_value_inputs(const cr_value *v, cr_value *in[2], double *exponent) {
    if (!is_ours(v, "inputs")) return 0;
    for (int i = 0; i < ops[v->op].inputs; i++) in[i] = v->in[i];
    if (exponent) *exponent = v->op == POWER ? v->exponent : NAN;
    return ops[v->op].inputs;
}

cr_status cr_value_set_label(cr_value *v, const char *label) {
    if (!is_ours(v, "set_label")) return cr_error_status();
    char *copy = label ? malloc(strlen(label) + 1) : NULL;
    if (label && !copy) return cr_no_memory("set_label");
    if (copy) strcpy(copy, label);
    char *before = v->label;
    v->label = copy;
    free(before);
    return CR_OK;
}
