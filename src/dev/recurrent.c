/* recurrent.c - the time steps of a recurrent layer by a device's products, programs and copies, for some of its
 * sequences.  Sequences do not depend on each other.  A step is one product with the weight of the state, in place of
 * its rows, and one program over the gates (ops.def); ops/recurrent.c has the rest of the layer. */
#include "dev.h"
#include "program.h"
#include "../core/layout.h"
#include "../core/pool.h"

#include <string.h>

/* One step over sequences first .. first + n - 1: its rows of the arrays of all steps begin at `at`. */
typedef struct part {
    const cr_recurrent_steps *s;
    const cr_kernels *kernels;
    int64_t first, n, at, H, P, G;
} part;

static cr_array rows(const cr_array *a, int64_t first, int64_t n) { return cr_array_narrowed(a, 0, first, n); }
static cr_array of_step(const part *p, const cr_array *a) { return rows(a, p->at, p->n); }
static cr_array of_state(const part *p, const cr_array *a) { return rows(a, p->first, p->n); }
static cr_array gate(const part *p, const cr_array *a, int64_t k) { return cr_array_narrowed(a, 1, k * p->H, p->H); }

static void fill_arg(cr_arg *to, const cr_array *a) {
    *to = (cr_arg){.data = a->dev->host ? cr_array_data(a) : NULL, .storage = a->storage, .offset = a->offset,
                   .dtype = a->dtype};
    memcpy(to->strides, a->strides, sizeof *a->strides * 2);
}

cr_status cr_run_matrices(const cr_kernels *kernels, const cr_program *p, const cr_array *x) {
    cr_walk w = {.program = p, .compute = cr_dtype_wide(x->dtype), .ndim = 2, .numel = x->numel, .n_out = p->n_out,
                 .n_in = p->n_in};
    int64_t *strides[CR_MAX_OUTPUTS + CR_MAX_INPUTS];
    int n = 0;
    for (int i = 0; i < p->n_out; i++, n++) fill_arg(&w.out[i], &x[n]), strides[n] = w.out[i].strides;
    for (int i = 0; i < p->n_in; i++, n++) fill_arg(&w.in[i], &x[n]), strides[n] = w.in[i].strides;
    memcpy(w.shape, x->shape, sizeof *x->shape * 2);
    w.ndim = cr_merge_axes(2, w.shape, n, strides);
    if (!w.ndim) w.ndim = 1, w.shape[0] = 1;
    return kernels->elementwise(&(cr_elementwise_args){&w, 1});
}
static cr_status run_program(const part *p, const cr_array *x) { return cr_run_matrices(p->kernels, p->s->program, x); }

/* c = [c +] a b */
static cr_status multiply(const part *p, cr_array c, cr_array a, cr_array b, int how) {
    return p->kernels->matmul(&(cr_matmul_args){.c = c, .a = a, .b = b, .how = how | p->s->how});
}

/* For sequences first .. first + n - 1; G, P and H follow from w, which has a gate after the other. */
static part part_of(const cr_recurrent_steps *s, const cr_kernels *kernels, int64_t first, int64_t G, int64_t H,
                    int64_t P) {
    return (part){.s = s, .kernels = kernels, .first = first, .G = G, .H = H, .P = P};
}

/* The k-th step of a pass that begins with the last one (backwards) or the first one; false: none of the sequences is
 * in it. */
static bool go_to(part *p, int64_t k, bool backwards, int64_t end) {
    const int64_t t = p->s->reverse != backwards ? p->s->T - 1 - k : k, *at = p->s->at;
    p->n = cr_imin(at[t + 1] - at[t], end) - p->first;
    p->at = at[t] + p->first;
    return p->n > 0;
}

/* ---- forward */

/* to (n, G H) = to + h w, a batch of the gates: a block of one gate stays in the cache of a core, and its rows need no
 * packing. */
static cr_status multiply_state(const part *p, const cr_array *w, const cr_array *to, const cr_array *h) {
    const int64_t steps_of_c[] = {p->H, p->G * p->H, 1}, steps_of_a[] = {0, p->P, 1};
    return multiply(p, cr_array_strided(to, 3, (int64_t[]){p->G, p->n, p->H}, steps_of_c, to->offset),
                    cr_array_strided(h, 3, (int64_t[]){p->G, p->n, p->P}, steps_of_a, h->offset), *w, CR_MATMUL_ADD);
}

static cr_status step_rnn(const part *p, const cr_recurrent_args *a) {
    const cr_array y = of_step(p, &a->y), h = of_state(p, &a->h);
    const cr_status status = multiply_state(p, &a->w, &y, &h);
    return status == CR_OK ? run_program(p, (const cr_array[]){y, h, y}) : status;
}

static cr_status step_gru(const part *p, const cr_recurrent_args *a) {
    const cr_array y = of_step(p, &a->y), h = of_state(p, &a->h), x = of_step(p, &a->gates), s = of_step(p, &a->before);
    const cr_status status = multiply_state(p, &a->w, &s, &h);
    if (status != CR_OK) return status;
    return run_program(p, (const cr_array[]){y, h, gate(p, &x, 0), gate(p, &x, 1), gate(p, &x, 2), gate(p, &s, 0),
                                             gate(p, &s, 1), gate(p, &s, 2), h});
}

static cr_status step_lstm(const part *p, const cr_recurrent_args *a) {
    const cr_array y = of_step(p, &a->y), h = of_state(p, &a->h), c = of_state(p, &a->c),
                   gates = of_step(p, &a->gates), before = of_step(p, &a->before);
    const bool projected = a->w_hr.storage;
    const cr_array hidden = projected ? of_state(p, &a->hidden) : y, twin = projected ? of_state(p, &a->twin) : h;
    cr_status status = multiply_state(p, &a->w, &gates, &h);
    if (status == CR_OK)
        status = run_program(p, (const cr_array[]){before, c, hidden, twin, gate(p, &gates, 0), gate(p, &gates, 1),
                                                   gate(p, &gates, 2), gate(p, &gates, 3), c});
    if (status == CR_OK && projected) status = multiply(p, y, hidden, cr_array_transposed(&a->w_hr), 0);
    return status == CR_OK && projected ? p->kernels->copy(&(cr_copy_args){h, y}) : status;
}

static cr_status (*const step[])(const part *, const cr_recurrent_args *) = {
    [CR_RNN_TANH] = step_rnn, [CR_RNN_RELU] = step_rnn, [CR_GRU] = step_gru, [CR_LSTM] = step_lstm};

cr_status cr_recurrent_part(const cr_recurrent_args *a, const cr_kernels *kernels, int64_t first, int64_t end) {
    part p = part_of(&a->steps, kernels, first, a->w.shape[0], a->w.shape[2], a->w.shape[1]);
    cr_status status = CR_OK;
    for (int64_t k = 0; k < a->steps.T && status == CR_OK && !cr_pool_stopped(); k++)
        if (go_to(&p, k, false, end)) status = step[a->steps.cell](&p, a);
    return status;
}

/* ---- backward */

/* dh = [dh +] d w; on a host gate by gate, as forward */
static cr_status multiply_back(const part *p, const cr_array *w, cr_array dh, const cr_array *d, int how) {
    if (!w->dev->host) return multiply(p, dh, *d, *w, how);
    cr_status status = CR_OK;
    for (int64_t k = 0; k < p->G && status == CR_OK; k++, how = CR_MATMUL_ADD)
        status = multiply(p, dh, gate(p, d, k), rows(w, k * p->H, p->H), how);
    return status;
}

static cr_status back_rnn(const part *p, const cr_recurrent_bwd_args *b) {
    const cr_array d = of_step(p, &b->d), dh = of_state(p, &b->dh);
    const cr_status status = run_program(p, (const cr_array[]){d, of_step(p, &b->y), of_step(p, &b->g), dh});
    return status == CR_OK ? multiply_back(p, &b->w, dh, &d, 0) : status;
}

static cr_status back_gru(const part *p, const cr_recurrent_bwd_args *b) {
    const cr_array x = of_step(p, &b->gates), s = of_step(p, &b->before), d = of_step(p, &b->d),
                   ds = of_step(p, &b->d_state), dh = of_state(p, &b->dh);
    const cr_status status =
        run_program(p, (const cr_array[]){gate(p, &ds, 0), gate(p, &ds, 1), gate(p, &d, 2), gate(p, &ds, 2), dh,
                                          gate(p, &x, 0),
                                          gate(p, &x, 1), gate(p, &x, 2), gate(p, &s, 0), gate(p, &s, 1),
                                          gate(p, &s, 2), of_step(p, &b->states), of_step(p, &b->g), dh});
    return status == CR_OK ? multiply_back(p, &b->w, dh, &ds, CR_MATMUL_ADD) : status;
}

/* y = hidden w_hr^T:  d_out = g + dh,  d_hidden = d_out w_hr */
static cr_status back_projection(const part *p, const cr_recurrent_bwd_args *b, const cr_array *dh,
                                 const cr_array *to) {
    const cr_array d_out = of_step(p, &b->d_out);
    const cr_status status = cr_run_matrices(p->kernels, b->sum, (const cr_array[]){d_out, of_step(p, &b->g), *dh});
    return status == CR_OK ? multiply(p, *to, d_out, b->w_hr, 0) : status;
}

static cr_status back_lstm(const part *p, const cr_recurrent_bwd_args *b) {
    const cr_array gates = of_step(p, &b->gates), d = of_step(p, &b->d), dh = of_state(p, &b->dh),
                   dc = of_state(p, &b->dc);
    cr_array g = of_step(p, &b->g), u = dh;
    cr_status status = CR_OK;
    if (b->w_hr.storage) {
        g = of_state(p, &b->d_hidden);
        status = back_projection(p, b, &dh, &g);
        u = cr_array_strided(&b->zero, 2, g.shape, (int64_t[]){0, 0}, b->zero.offset);
    }
    if (status == CR_OK)
        status = run_program(p, (const cr_array[]){gate(p, &d, 0), gate(p, &d, 1), gate(p, &d, 2), gate(p, &d, 3), dc,
                                                   gate(p, &gates, 0), gate(p, &gates, 1), gate(p, &gates, 2),
                                                   gate(p, &gates, 3), of_step(p, &b->before), g, u, dc});
    return status == CR_OK ? multiply_back(p, &b->w, dh, &d, 0) : status;
}

static cr_status (*const back_step[])(const part *, const cr_recurrent_bwd_args *) = {
    [CR_RNN_TANH] = back_rnn, [CR_RNN_RELU] = back_rnn, [CR_GRU] = back_gru, [CR_LSTM] = back_lstm};

cr_status cr_recurrent_bwd_part(const cr_recurrent_bwd_args *b, const cr_kernels *kernels, int64_t first, int64_t end) {
    const int64_t columns = b->d.shape[1], H = b->steps.cell == CR_LSTM ? b->dc.shape[1] : b->dh.shape[1];
    part p = part_of(&b->steps, kernels, first, columns / H, H, b->w.shape[1]);
    cr_status status = CR_OK;
    for (int64_t k = 0; k < b->steps.T && status == CR_OK && !cr_pool_stopped(); k++)
        if (go_to(&p, k, true, end)) status = back_step[b->steps.cell](&p, b);
    return status;
}
