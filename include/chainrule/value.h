/* value.h - Values: single numbers with gradients, after micrograd: a part of chainrule.h. */
#ifndef CHAINRULE_H
#error "include <chainrule.h>, which includes this part"
#endif
#ifndef CHAINRULE_VALUE_H
#define CHAINRULE_VALUE_H

/* ---- Values: single numbers with gradients, after micrograd */
/* A Value is an f64 number, computed on the host for every device: a kernel launch costs as much as
 * a thousand multiplications.  Every result is owned (cr_value_release); scopes do not own Values.
 * NULL in gives NULL out.  A Value belongs to the thread that made it; elsewhere it is an error. */
typedef struct cr_value cr_value;

cr_status   cr_value_serial(void);
                            /* call before the first Value: any thread may use Values, one thread
                               at a time */
cr_value   *cr_value_new(double data, const cr_device *dev); /* a leaf; results keep its device */
cr_value   *cr_value_retain(cr_value *v);   /* one more reference; returns v */
void        cr_value_release(cr_value *v);  /* NULL is accepted */

cr_value   *cr_value_add(cr_value *a, cr_value *b);     /* a + b; one device, here and below */
cr_value   *cr_value_sub(cr_value *a, cr_value *b);     /* a - b */
cr_value   *cr_value_mul(cr_value *a, cr_value *b);     /* a b */
cr_value   *cr_value_div(cr_value *a, cr_value *b);     /* a / b */
cr_value   *cr_value_pow(cr_value *a, cr_value *b);     /* a^b, as C's pow */
cr_value   *cr_value_pow_scalar(cr_value *a, double n); /* a^n: one node, no gradient for n */
cr_value   *cr_value_neg(cr_value *a);                  /* -a */
cr_value   *cr_value_relu(cr_value *a);                 /* max(a, 0); gradient 0 at 0 */
cr_value   *cr_value_tanh(cr_value *a);                 /* hyperbolic tangent */
cr_value   *cr_value_exp(cr_value *a);                  /* e^a */
cr_value   *cr_value_log(cr_value *a);                  /* natural logarithm */
cr_value   *cr_value_sigmoid(cr_value *a);              /* 1 / (1 + e^-a) */
cr_value   *cr_value_to(cr_value *a, const cr_device *dev);
                            /* a if already on dev, else a recorded copy */
cr_value   *cr_value_neuron(int64_t n, cr_value *const *w, cr_value *const *x, cr_value *b,
                            bool relu);
                            /* b + sum w[i] x[i], then relu: the same nodes as the operators, in
                               one call */

cr_status   cr_value_backward(cr_value *v);
                            /* from dv = 1: set the gradients of results, add to those of leaves */
double      cr_value_data(const cr_value *v);
double      cr_value_grad(const cr_value *v);
void        cr_value_set_data(cr_value *v, double data);
void        cr_value_set_grad(cr_value *v, double grad);
const cr_device *cr_value_device(const cr_value *v);
const char *cr_value_op(const cr_value *v);     /* "+", "*", "**", "ReLU", "tanh"...; "": a leaf */
int         cr_value_inputs(const cr_value *v, cr_value *in[2], double *exponent);
                            /* returns the number of inputs; in: the inputs, borrowed; *exponent
                               (or NULL): n of cr_value_pow_scalar, else NaN */
const char *cr_value_label(const cr_value *v);  /* borrowed; NULL: none */
cr_status   cr_value_set_label(cr_value *v, const char *label);
                            /* copied, for messages and pictures; NULL: none */

#endif
