/* anomaly.c - finds the first op whose result or gradient has a NaN or an infinity.  Slow: every
 * result is read back. */
#include "graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Position of the first NaN or infinity, or -1; -2 when the elements cannot be read. */
static int64_t first_bad(const cr_tensor *t, double *value) {
    if (!cr_dtype_is_float(t->dtype) || !t->storage || t->numel == 0) return -1;
    double *x = malloc((size_t)t->numel * sizeof *x);
    if (!x) return cr_no_memory("anomaly"), -2;
    int64_t at = cr_read(t, CR_F64, x, (size_t)t->numel * sizeof *x) == CR_OK ? -1 : -2;
    for (int64_t i = 0; at == -1 && i < t->numel; i++)
        if (!isfinite(x[i])) { at = i; *value = x[i]; }
    free(x);
    return at;
}

cr_status cr_check_finite(const char *op, const char *where, const cr_call *c, const cr_tensor *t) {
    double value, ignored;
    int64_t at = first_bad(t, &value);
    if (at == -2) return cr_error_status();
    if (at < 0) return CR_OK;
    char inputs[256] = "";
    bool came_in = false;
    for (int i = 0, n = 0; c && i < c->n && n < 200; i++) {
        if (c->in[i] == CR_NONE) continue;
        came_in |= first_bad(c->in[i], &ignored) >= 0;
        n += snprintf(inputs + n, sizeof inputs - (size_t)n, "%s%s", i ? ", " : " from ",
                      cr_shape_text(c->in[i]->ndim, c->in[i]->shape).s);
    }
    const cr_node *walked = cr_walk_node();
    char origin[256] = "";
    if (walked) {
        cr_call made = {.op = walked->op, .params = walked->params};
        snprintf(origin, sizeof origin, "; in the gradient of %s%s%s", cr_call_name(&made),
                 walked->source ? ", made at " : "", walked->source ? walked->source : "");
    }
    return cr_fail(CR_RUNTIME, op, "anomaly: %s made %g at position %lld of %s%s%s%s", where,
                   isnan(value) ? NAN : value, (long long)at, cr_shape_text(t->ndim, t->shape).s, inputs,
                   came_in ? "; an input held one already" : "", origin);
}
