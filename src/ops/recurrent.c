/* recurrent.c - one layer of a recurrent network in one direction, over all time steps: RNN, GRU (Cho et al. 2014, as
 * cuDNN computes it), LSTM (Hochreiter and Schmidhuber 1997, with projections: Sak et al. 2014).
 *
 *   x (T, B, I), h (B, P), c (B, H), w_ih (G H, I), w_hh (G H, P), b_ih, b_hh (G H), w_hr (P, H) -> y (T, B, P), h, c
 *
 * P = H without w_hr.  Packed: x (N, I) holds the rows of all steps, step t those of its B_t sequences, which are the
 * first of the B; B_t never grows.  The inputs of all steps are one product.  A step is one product with w_hh and one
 * elementwise program over the rows of the step (ops.def).  The states are one array each, which a step reads and
 * writes in place, so the state of a sequence that ended, or has not begun, stays as it is.
 *
 * An op has one result, so that is y, h and c one after the other, (N P + B P + B H); cr_recurrent gives views.
 * aux: gates (N, G H): before their functions; GRU: the part of x.
 *      before: LSTM (N, H): c before each step; GRU (N, 3 H): the part of h. */
#include "compose.h"
#include "programs.h"

#include <stdlib.h>
#include <string.h>

enum { X, H0, C0, W_IH, W_HH, B_IH, B_HH, W_HR, INPUTS };

static const struct { const char *name, *step, *back; int gates; } cells[] = {
    [CR_RNN_TANH] = {"rnn_tanh", "rnn_tanh", "rnn_tanh_back", 1},
    [CR_RNN_RELU] = {"rnn_relu", "rnn_relu", "rnn_relu_back", 1},
    [CR_GRU] = {"gru", "gru", "gru_back", 3},
    [CR_LSTM] = {"lstm", "lstm", "lstm_back", 4},
};

/* The rows of step t are at[t] .. at[t + 1] - 1. */
typedef struct steps { atomic_int refs; int64_t T, at[]; } steps;
typedef struct recurrent_params { cr_cell cell; bool reverse; steps *steps; } recurrent_params;

static void steps_release(steps *s) {
    if (s && cr_unref(&s->refs)) free(s);
}

static void hold_steps(const void *params, bool on) {
    steps *s = ((const recurrent_params *)params)->steps;
    if (on) atomic_fetch_add(&s->refs, 1);
    else steps_release(s);
}

static const char *name_of(const void *params) { return cells[((const recurrent_params *)params)->cell].name; }

/* Sizes, in the letters above; `in`, and for gradients out and aux: the call's. */
typedef struct layer {
    const cr_call *call;
    const cr_kernels *kernels;
    cr_cell cell;
    bool reverse;
    const steps *steps;
    int64_t T, N, B, I, H, P, G;
} layer;

static layer layer_of(const cr_call *c) {
    const recurrent_params *p = c->params;
    const int64_t *x = c->in[X]->shape, *w = c->in[W_HH]->shape;
    const int gates = cells[p->cell].gates;
    return (layer){.call = c,
                   .kernels = c->dev ? c->dev->kernels : NULL,
                   .cell = p->cell,
                   .reverse = p->reverse,
                   .steps = p->steps,
                   .T = p->steps->T,
                   .N = p->steps->at[p->steps->T],
                   .B = p->steps->at[1],
                   .I = x[c->in[X]->ndim - 1],
                   .H = w[0] / gates,
                   .P = w[1],
                   .G = gates};
}

/* ---- checks */

static cr_status check_shape(const layer *l, int input, const char *what, int ndim, const int64_t *shape) {
    const cr_tensor *t = l->call->in[input];
    const char *name = cells[l->cell].name;
    if (t == CR_NONE) return CR_OK;
    cr_status status = cr_want_same_dtype(name, l->call->in[X], t);
    if (status == CR_OK && !cr_shape_equal(t->ndim, t->shape, ndim, shape))
        status = cr_fail(CR_BAD_VALUE, name, "%s must be %s: %s", what, cr_shape_text(ndim, shape).s,
                         cr_shape_text(t->ndim, t->shape).s);
    return status;
}

static cr_status check_weight(const cr_call *c, const char *name) {
    const cr_tensor *w = c->in[W_HH];
    const int gates = cells[((const recurrent_params *)c->params)->cell].gates;
    if (w->ndim == 2 && w->shape[0] > 0 && w->shape[1] > 0 && w->shape[0] % gates == 0) return CR_OK;
    return cr_fail(CR_BAD_VALUE, name, "the weight of the state must be (%d hidden, hidden): %s", gates,
                   cr_shape_text(w->ndim, w->shape).s);
}

static cr_status check_inputs(const layer *l) {
    const int64_t rows = l->G * l->H;
    const char *name = cells[l->cell].name;
    const bool lstm = l->cell == CR_LSTM, projected = l->call->in[W_HR] != CR_NONE;
    if (!lstm && (projected || l->call->in[C0] != CR_NONE))
        return cr_fail(CR_BAD_VALUE, name, "only lstm takes cells and projections");
    if (lstm && l->call->in[C0] == CR_NONE) return cr_fail(CR_BAD_VALUE, name, "the cells are CR_NONE");
    if (!projected && l->P != l->H)
        return cr_fail(CR_BAD_VALUE, name, "the weight of the state must be %s: %s",
                       cr_shape_text(2, (int64_t[]){rows, l->H}).s,
                       cr_shape_text(2, l->call->in[W_HH]->shape).s);
    cr_status status = cr_want_float(name, l->call->in[X]);
    if (status == CR_OK) status = check_shape(l, W_IH, "the weight of the input", 2, (int64_t[]){rows, l->I});
    if (status == CR_OK) status = check_shape(l, W_HH, "the weight of the state", 2, (int64_t[]){rows, l->P});
    if (status == CR_OK) status = check_shape(l, B_IH, "the bias of the input", 1, &rows);
    if (status == CR_OK) status = check_shape(l, B_HH, "the bias of the state", 1, &rows);
    if (status == CR_OK) status = check_shape(l, W_HR, "the projection", 2, (int64_t[]){l->P, l->H});
    if (status == CR_OK) status = check_shape(l, H0, "the state", 2, (int64_t[]){l->B, l->P});
    if (status == CR_OK) status = check_shape(l, C0, "the cells", 2, (int64_t[]){l->B, l->H});
    return status;
}

static int64_t result_size(const layer *l) { return (l->N + l->B) * l->P + (l->cell == CR_LSTM ? l->B * l->H : 0); }

static cr_status recurrent_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    if (check_weight(c, name_of(c->params)) != CR_OK) return cr_error_status();
    const layer l = layer_of(c);
    if (check_inputs(&l) != CR_OK) return cr_error_status();
    const cr_dtype dt = c->in[X]->dtype;
    *out = (cr_meta){.dtype = dt, .ndim = 1, .shape = {result_size(&l)}};
    aux[0] = (cr_meta){.dtype = dt, .ndim = 2, .shape = {l.G > 1 ? l.N : 0, l.G * l.H}};
    aux[1] = (cr_meta){.dtype = dt, .ndim = 2, .shape = {l.G > 1 ? l.N : 0, l.G == 3 ? l.G * l.H : l.H}};
    return cr_shape_check(name_of(c->params), 2, (int64_t[]){l.N, l.G * l.H}, dt, NULL);
}

/* ---- arrays of a step */

/* A matrix inside the flat result, or its gradient. */
static cr_array matrix_at(const cr_array *flat, int64_t at, int64_t rows, int64_t columns) {
    return cr_array_strided(flat, 2, (int64_t[]){rows, columns}, (int64_t[]){columns, 1}, flat->offset + at);
}
static cr_array outputs_of(const layer *l, const cr_array *flat) { return matrix_at(flat, 0, l->N, l->P); }
static cr_array state_of(const layer *l, const cr_array *flat) { return matrix_at(flat, l->N * l->P, l->B, l->P); }
static cr_array cells_of(const layer *l, const cr_array *flat) {
    return matrix_at(flat, (l->N + l->B) * l->P, l->B, l->H);
}

static cr_array rows(const cr_array *a, int64_t first, int64_t n) { return cr_array_narrowed(a, 0, first, n); }
static cr_array gate(const layer *l, const cr_array *a, int64_t k) { return cr_array_narrowed(a, 1, k * l->H, l->H); }
/* the rows of step t */
static int64_t step_rows(const layer *l, int64_t t) { return l->steps->at[t + 1] - l->steps->at[t]; }

static cr_status run_program(const layer *l, const cr_program *p, const cr_array *x) {
    return cr_run_matrices(l->kernels, p, x);
}

/* Uninitialised; the scope around owns it. */
static cr_status new_matrix(const layer *l, int64_t m, int64_t n, cr_array *a, cr_tensor **t) {
    cr_meta meta = {.dtype = l->call->in[X]->dtype, .ndim = 2, .shape = {m, n}};
    cr_tensor *made = cr_new_like(&meta, l->call->dev);
    if (made) *a = made->array;
    if (t) *t = made;
    return made ? CR_OK : cr_error_status();
}

/* ---- forward */

static cr_recurrent_steps steps_of_call(const layer *l, const char *program) {
    return (cr_recurrent_steps){.cell = l->cell, .reverse = l->reverse, .how = cr_product_how(),
                                .program = cr_program_find(program), .T = l->T, .at = l->steps->at};
}

/* the bias in every row; zeros without one */
static cr_status repeat_bias(const cr_array *to, const cr_array *bias) {
    if (!bias->storage) return cr_fill_array(to, 0);
    const cr_array repeated = cr_array_strided(bias, 2, to->shape, (int64_t[]){0, 1}, bias->offset);
    return cr_copy_array(to, &repeated);
}

/* The bias of all inputs: b_ih + b_hh, but of a GRU, whose b_hh stays with the part of h. */
static cr_status sum_biases(const layer *l, cr_array *bias) {
    const cr_array of_x = array_of(l->call->in[B_IH]), of_h = array_of(l->call->in[B_HH]);
    const int64_t shape[] = {1, l->G * l->H};
    *bias = of_x.storage || l->cell == CR_GRU ? of_x : of_h;
    if (!of_x.storage || !of_h.storage || l->cell == CR_GRU) return CR_OK;
    cr_array sum;
    cr_status status = new_matrix(l, 1, shape[1], &sum, NULL);
    if (status == CR_OK)
        status = run_program(l, cr_program_find("add"),
                             (const cr_array[]){sum, cr_array_as(&of_x, 2, shape), cr_array_as(&of_h, 2, shape)});
    *bias = cr_array_as(&sum, 1, shape + 1);
    return status;
}

/* x w_ih^T and the biases of all steps: into the gates, or y where those are one */
static cr_status multiply_inputs(const layer *l, const cr_recurrent_args *p) {
    const cr_array *to = l->G == 1 ? &p->y : &p->gates,
                   x = cr_array_as(&l->call->in[X]->array, 2, (int64_t[]){l->N, l->I}),
                   of_h = array_of(l->call->in[B_HH]);
    cr_array bias;
    cr_status status = sum_biases(l, &bias);
    if (status == CR_OK && l->cell == CR_GRU) status = repeat_bias(&p->before, &of_h);
    if (status != CR_OK) return status;
    if (!l->I) return repeat_bias(to, &bias);
    return l->kernels->matmul(&(cr_matmul_args){.c = *to, .a = x, .b = cr_array_transposed(&l->call->in[W_IH]->array),
                                                .bias = bias, .how = p->steps.how});
}

/* w_hh^T, gate by gate: (G, P, H) */
static cr_status fill_blocks(const layer *l, cr_array *blocks) {
    const cr_array *w = &l->call->in[W_HH]->array;
    const int64_t shape[] = {l->G, l->P, l->H};
    const cr_array turned = cr_array_strided(w, 3, shape, (int64_t[]){l->H * l->P, 1, l->P}, w->offset);
    cr_array made;
    const cr_status status = new_matrix(l, l->G * l->P, l->H, &made, NULL);
    if (status != CR_OK) return status;
    *blocks = cr_array_as(&made, 3, shape);
    return cr_copy_array(blocks, &turned);
}

static cr_status run_steps(const layer *l, const cr_recurrent_args *p) {
    cr_status status = multiply_inputs(l, p);
    if (status == CR_OK) status = cr_copy_array(&p->h, &l->call->in[H0]->array);
    if (status == CR_OK && l->cell == CR_LSTM) status = cr_copy_array(&p->c, &l->call->in[C0]->array);
    if (status != CR_OK) return status;
    return l->kernels->recurrent ? l->kernels->recurrent(p) : cr_recurrent_part(p, l->kernels, 0, l->B);
}

static cr_status recurrent_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const layer l = layer_of(c);
    cr_recurrent_args p = {.steps = steps_of_call(&l, cells[l.cell].step), .w_hr = array_of(c->in[W_HR])};
    const bool projected = p.w_hr.storage;
    cr_status status = CR_OK;
    if (!l.B) return CR_OK;
    const cr_array last = state_of(&l, &out->array);
    p.y = outputs_of(&l, &out->array);
    if (l.G > 1) p.gates = aux[0]->array, p.before = aux[1]->array;
    if (l.cell == CR_LSTM) p.c = cells_of(&l, &out->array);
    cr_scope_begin();
    /* not in out, because WebGPU's products write no memory that they read */
    status = new_matrix(&l, l.B, l.P, &p.h, NULL);
    if (status == CR_OK && projected) status = new_matrix(&l, l.B, l.H, &p.hidden, NULL);
    if (status == CR_OK && projected) status = new_matrix(&l, l.B, l.H, &p.twin, NULL);
    if (status == CR_OK) status = fill_blocks(&l, &p.w);
    if (status == CR_OK) status = run_steps(&l, &p);
    if (status == CR_OK) status = cr_copy_array(&last, &p.h);
    cr_scope_end();
    return status;
}

/* ---- gradients */

/* The step before t, and how many rows of t have one: others begin with h0. */
static int64_t step_before(const layer *l, int64_t t) { return l->reverse ? t + 1 : t - 1; }
static int64_t known_rows(const layer *l, int64_t t) {
    const int64_t before = step_before(l, t);
    return before < 0 || before >= l->T ? 0 : cr_imin(step_rows(l, t), step_rows(l, before));
}

/* Do the states before step t + 1 lie in y right behind those before step t? */
static bool goes_on(const layer *l, int64_t t) {
    const int64_t n = step_rows(l, t), *at = l->steps->at;
    return t + 1 < l->T && step_rows(l, t + 1) == n && known_rows(l, t) == n && known_rows(l, t + 1) == n &&
           at[step_before(l, t + 1)] == at[step_before(l, t)] + n;
}

/* The state before each step: steps of one size that follow one another are one copy. */
static cr_status fill_states(const layer *l, const cr_array *y, const cr_array *states) {
    const int64_t *at = l->steps->at;
    const cr_array *h0 = &l->call->in[H0]->array;
    cr_status status = CR_OK;
    for (int64_t t = 0, end; t < l->T && status == CR_OK; t = end) {
        const int64_t n = step_rows(l, t), known = known_rows(l, t);
        for (end = t + 1; goes_on(l, end - 1);) end++;
        const int64_t count = known == n ? at[end] - at[t] : known;
        const cr_array later = rows(states, at[t], count), first = rows(states, at[t] + known, n - known),
                       from = rows(h0, known, n - known);
        if (count) {
            const cr_array earlier = rows(y, at[step_before(l, t)], count);
            status = cr_copy_array(&later, &earlier);
        }
        if (status == CR_OK && known < n) status = cr_copy_array(&first, &from);
    }
    return status;
}

static cr_status back_steps(const layer *l, const cr_recurrent_bwd_args *b) {
    const cr_kernels *k = l->kernels;
    const cr_status status = k->recurrent_bwd ? k->recurrent_bwd(b) : cr_recurrent_bwd_part(b, k, 0, l->B);
    if (status != CR_OK || l->cell != CR_GRU) return status;
    const cr_array to = cr_array_narrowed(&b->d, 1, 0, 2 * l->H), from = cr_array_narrowed(&b->d_state, 1, 0, 2 * l->H);
    return cr_copy_array(&to, &from);
}

/* Tensors that the gradients of inputs are, or are products of. */
typedef struct parts { cr_tensor *dh, *dc, *d, *d_state, *states, *d_out; } parts;

static cr_status new_parts(const layer *l, cr_recurrent_bwd_args *b, parts *t) {
    const bool gru = l->cell == CR_GRU, projected = l->call->in[W_HR] != CR_NONE, lstm = l->cell == CR_LSTM;
    cr_status status = new_matrix(l, l->N, l->G * l->H, &b->d, &t->d);
    if (status == CR_OK) status = new_matrix(l, l->B, l->P, &b->dh, &t->dh);
    if (status == CR_OK && lstm) status = new_matrix(l, l->B, l->H, &b->dc, &t->dc);
    t->d_state = t->d;
    if (status == CR_OK && gru) status = new_matrix(l, l->N, l->G * l->H, &b->d_state, &t->d_state);
    if (status == CR_OK && (gru || l->call->needs[W_HH])) status = new_matrix(l, l->N, l->P, &b->states, &t->states);
    if (status != CR_OK || !projected) return status;
    status = new_matrix(l, l->N, l->P, &b->d_out, &t->d_out);
    if (status == CR_OK) status = new_matrix(l, l->B, l->H, &b->d_hidden, NULL);
    if (status == CR_OK) status = new_matrix(l, 1, 1, &b->zero, NULL);
    return status == CR_OK ? cr_fill_array(&b->zero, 0) : status;
}

/* d of all steps.  g: of the flat result */
static cr_status run_back(const layer *l, const cr_array *g, cr_recurrent_bwd_args *b) {
    const cr_array *out = &l->call->out->array, dh = state_of(l, g);
    b->steps = steps_of_call(l, cells[l->cell].back);
    b->sum = cr_program_find("add");
    b->y = outputs_of(l, out);
    b->g = outputs_of(l, g);
    if (l->G > 1) b->gates = l->call->aux[0]->array, b->before = l->call->aux[1]->array;
    b->w = l->call->in[W_HH]->array;
    b->w_hr = array_of(l->call->in[W_HR]);
    cr_status status = cr_copy_array(&b->dh, &dh);
    if (status == CR_OK && l->cell == CR_LSTM) {
        const cr_array dc = cells_of(l, g);
        status = cr_copy_array(&b->dc, &dc);
    }
    if (status == CR_OK && b->states.storage) status = fill_states(l, &b->y, &b->states);
    return status == CR_OK ? back_steps(l, b) : status;
}

/* y = hidden w_hr^T:  dw_hr = d_out^T hidden, where hidden is computed again, of all steps at once */
static cr_tensor *projection_grad(const layer *l, const cr_recurrent_bwd_args *b, const parts *t) {
    cr_array hidden;
    cr_tensor *made;
    cr_status status = new_matrix(l, l->N, l->H, &hidden, &made);
    if (status == CR_OK)
        status = run_program(l, cr_program_find("lstm_hidden"),
                             (const cr_array[]){hidden, gate(l, &b->gates, 0), gate(l, &b->gates, 1),
                                                gate(l, &b->gates, 2), gate(l, &b->gates, 3), b->before});
    return status == CR_OK ? l->call->product(W_HR, transposed(t->d_out), made) : NULL;
}

/* gates = x w_ih^T + b_ih + h w_hh^T + b_hh, and d their gradient:
 *   dx = d w_ih,  dw_ih = d^T x,  dw_hh = d^T h,  db_ih = db_hh = the sum of d's rows
 * GRU: d_state in place of d for what h meets */
static void weights_grad(const layer *l, const cr_recurrent_bwd_args *b, const parts *t, cr_tensor *dx[]) {
    const cr_call *c = l->call;
    const bool *needs = c->needs;
    if (needs[X]) dx[X] = reshaped_like(cr_matmul(t->d, c->in[W_IH]), c->in[X]);
    if (needs[W_IH]) dx[W_IH] = c->product(W_IH, transposed(t->d), rows_of(c->in[X]));
    if (needs[W_HH]) dx[W_HH] = c->product(W_HH, transposed(t->d_state), t->states);
    if (needs[B_IH]) dx[B_IH] = cr_sum(t->d, CR_LIST(0), false);
    if (needs[B_HH])
        dx[B_HH] = t->d == t->d_state && needs[B_IH] ? dx[B_IH] : cr_sum(t->d_state, CR_LIST(0), false);
    if (needs[W_HR]) dx[W_HR] = projection_grad(l, b, t);
    if (needs[H0]) dx[H0] = t->dh;
    if (needs[C0]) dx[C0] = t->dc;
}

static cr_tensor *recurrent_composite(const cr_call *c);

static void recurrent_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const layer l = layer_of(c);
    cr_recurrent_bwd_args b = {0};
    parts t = {0};
    cr_status status = CR_OK;
    if (!l.B) return;                               /* no gradient: none of the inputs is read */
    if (c->differentiable) {
        const cr_tensor *y = recurrent_composite(c);
        status = y ? c->backward_through(y, g) : cr_error_status();
    } else {
        const cr_tensor *dense = cr_contiguous(g);
        status = dense ? new_parts(&l, &b, &t) : cr_error_status();
        if (status == CR_OK) status = run_back(&l, &dense->array, &b);
        if (status == CR_OK) weights_grad(&l, &b, &t, dx);
    }
    for (int i = 0; i < INPUTS && status != CR_OK; i++)
        if (c->needs[i]) dx[i] = NULL;
}

/* ---- the same over other ops: what gradients of a higher order go through */

static cr_tensor *part_of(const layer *l, const cr_tensor *gates, int64_t k) {
    return cr_slice(gates, 1, k * l->H, (k + 1) * l->H, 1);
}

/* The k-th part of the sum x + s. */
static cr_tensor *part_of_sum(const layer *l, const cr_tensor *x, const cr_tensor *s, int64_t k) {
    const cr_tensor *of_x = part_of(l, x, k), *of_s = part_of(l, s, k);
    return add(of_x, of_s);
}

/* The state of a step's rows and, for LSTM, their cells: c becomes the new ones.  Calls follow one another, none is an
 * argument beside another, because gradients of a higher order are added in the order of calls. */
static cr_tensor *composed_step(const layer *l, const cr_tensor *x, const cr_tensor *h, const cr_tensor **c) {
    const cr_tensor *const *in = l->call->in;
    const cr_tensor *s = cr_linear(h, in[W_HH], in[B_HH]);
    if (l->cell == CR_RNN_TANH) return cr_tanh(add(x, s));
    if (l->cell == CR_RNN_RELU) return cr_relu(add(x, s));
    if (l->cell == CR_GRU) {
        const cr_tensor *r = cr_sigmoid(part_of_sum(l, x, s, 0)), *z = cr_sigmoid(part_of_sum(l, x, s, 1)),
                        *of_x = part_of(l, x, 2), *of_s = mul(r, part_of(l, s, 2)), *n = cr_tanh(add(of_x, of_s));
        return add(n, mul(z, sub(h, n)));
    }
    const cr_tensor *a = add(x, s), *i = cr_sigmoid(part_of(l, a, 0)), *f = cr_sigmoid(part_of(l, a, 1)),
                    *j = cr_tanh(part_of(l, a, 2)), *o = cr_sigmoid(part_of(l, a, 3));
    const cr_tensor *kept = mul(f, *c), *added = mul(i, j);
    *c = add(kept, added);
    cr_tensor *hidden = mul(o, cr_tanh(*c));
    return in[W_HR] == CR_NONE ? hidden : cr_linear(hidden, in[W_HR], CR_NONE);
}

/* state with its first n rows replaced */
static const cr_tensor *with_rows(const cr_tensor *state, const cr_tensor *first, int64_t n, int64_t B) {
    return n == B ? first : cr_cat(2, (const cr_tensor *const[]){first, cr_slice(state, 0, n, B, 1)}, 0);
}

static cr_tensor *composed_steps(const layer *l, const cr_tensor **y) {
    const cr_tensor *const *in = l->call->in;
    const cr_tensor *x = cr_linear(rows_of(in[X]), in[W_IH], in[B_IH]), *h = in[H0], *c = in[C0];
    for (int64_t k = 0; k < l->T && x && h; k++) {
        const int64_t t = l->reverse ? l->T - 1 - k : k, n = step_rows(l, t), *at = l->steps->at;
        const cr_tensor *cell = c == CR_NONE ? c : cr_slice(c, 0, 0, n, 1);
        const cr_tensor *input = cr_slice(x, 0, at[t], at[t + 1], 1), *state = cr_slice(h, 0, 0, n, 1);
        y[t] = composed_step(l, input, state, &cell);
        if (c != CR_NONE) c = with_rows(c, cell, n, l->B);
        h = with_rows(h, y[t], n, l->B);
    }
    if (!x || !h) return NULL;
    const cr_tensor *all = cr_cat((int)l->T, y, 0);
    if (!all || !h || !c) return NULL;
    const cr_tensor *outputs = cr_reshape(all, CR_LIST(-1)), *last = cr_reshape(h, CR_LIST(-1));
    const cr_tensor *flat[] = {outputs, last, c == CR_NONE ? c : cr_reshape(c, CR_LIST(-1))};
    return cr_cat(c == CR_NONE ? 2 : 3, flat, 0);
}

static cr_tensor *recurrent_composite(const cr_call *c) {
    const layer l = layer_of(c);
    const cr_tensor **y = malloc(sizeof *y * (size_t)l.T);
    cr_tensor *flat = y ? composed_steps(&l, y) : NULL;
    if (!y) cr_no_memory(name_of(c->params));
    free(y);
    return flat;
}

const cr_op cr_op_recurrent = {
    .name = "recurrent",
    .name_of = name_of,
    .arity = INPUTS,
    .optional = 1u << C0 | 1u << B_IH | 1u << B_HH | 1u << W_HR,
    .params_bytes = sizeof(recurrent_params),
    .contiguous = true,
    .saves = CR_SAVE_INS | CR_SAVE_OUT | CR_SAVE_AUX,
    .n_aux = 2,
    .infer = recurrent_infer,
    .forward = recurrent_forward,
    .composite = recurrent_composite,
    .grad = recurrent_grad,
    .hold = hold_steps,
};

/* ---- the public function */

static steps *new_steps(const char *name, int64_t T, const int64_t *sizes, int64_t size) {
    steps *s = malloc(sizeof *s + sizeof *s->at * (size_t)(T + 1));
    if (!s) return cr_no_memory(name), NULL;
    atomic_init(&s->refs, 1);
    s->T = T;
    s->at[0] = 0;
    for (int64_t t = 0; t < T; t++) {
        const int64_t n = sizes ? sizes[t] : size;
        if (sizes && (n < 1 || (t && n > sizes[t - 1]))) {
            cr_fail(CR_BAD_VALUE, name, "batch sizes are at least 1 and never grow: step %lld has %lld", (long long)t,
                    (long long)n);
            free(s);
            return NULL;
        }
        s->at[t + 1] = s->at[t] + n;
    }
    return s;
}

static steps *steps_of(const char *name, const cr_recurrent_options *o) {
    const cr_tensor *x = o->x;
    const bool packed = o->batch_sizes != NULL;
    if (x->ndim != (packed ? 2 : 3))
        return cr_fail(CR_BAD_VALUE, name, "takes x %s: %s",
                       packed ? "(rows, inputs) with batch sizes" : "(T, B, inputs)",
                       cr_shape_text(x->ndim, x->shape).s), NULL;
    const int64_t T = packed ? o->steps : x->shape[0];
    if (T < 1) return cr_fail(CR_BAD_VALUE, name, "%lld time steps: at least 1 is needed", (long long)T), NULL;
    if (T >= INT32_MAX) return cr_fail(CR_BAD_VALUE, name, "%lld time steps are too many", (long long)T), NULL;
    steps *s = new_steps(name, T, o->batch_sizes, x->shape[1]);
    if (s && s->at[T] != x->shape[0] && packed) {
        cr_fail(CR_BAD_VALUE, name, "%lld rows, but the batch sizes add up to %lld", (long long)x->shape[0],
                (long long)s->at[T]);
        free(s);
        return NULL;
    }
    return s;
}

static const cr_tensor *or_none(const cr_tensor *t) { return t ? t : CR_NONE; }

/* zeros, where there is no state to begin with */
static const cr_tensor *state_or_zeros(const cr_tensor *given, const cr_tensor *x, int64_t B, int64_t n) {
    return given && given != CR_NONE ? given : cr_zeros(CR_LIST(B, n), x->dtype, x->dev);
}

static cr_tensor *view_at(const cr_tensor *flat, int64_t at, int n, const int64_t *shape) {
    int64_t numel = 1;
    for (int i = 0; i < n; i++) numel *= shape[i];
    return cr_reshape(cr_slice(flat, 0, at, at + numel, 1), n, shape);
}

static cr_tensor *split(const cr_recurrent_options *o, const cr_tensor *flat, const steps *s, int64_t P, int64_t H,
                        cr_tensor **h, cr_tensor **c) {
    const int64_t T = s->T, N = s->at[T], B = s->at[1];
    cr_tensor *y = o->batch_sizes ? view_at(flat, 0, CR_LIST(N, P)) : view_at(flat, 0, CR_LIST(T, B, P));
    cr_tensor *last = h && y ? view_at(flat, N * P, CR_LIST(B, P)) : NULL,
              *cells_last = c && y ? view_at(flat, (N + B) * P, CR_LIST(B, H)) : NULL;
    if (!y || (h && !last) || (c && !cells_last)) return NULL;
    if (h) *h = cr_keep(last);
    if (c) *c = cr_keep(cells_last);
    return y;
}

cr_tensor *cr_recurrent(cr_cell cell, const cr_recurrent_options *o, cr_tensor **h, cr_tensor **c) {
    if (h) *h = NULL;
    if (c) *c = NULL;
    if ((int)cell < 0 || cell > CR_LSTM)
        return cr_fail(CR_BAD_VALUE, "recurrent", "%d is not a cell", (int)cell), NULL;
    const char *name = cells[cell].name;
    const bool lstm = cell == CR_LSTM;
    if (!o) return cr_fail_null(name, "the options"), NULL;
    if (!cr_given(name, "x", o->x) || !cr_given(name, "w_ih", o->w_ih) || !cr_given(name, "w_hh", o->w_hh)) return NULL;
    if (c && !lstm) return cr_fail(CR_BAD_VALUE, name, "only lstm has cells"), NULL;
    if (o->w_hh->ndim != 2)
        return cr_fail(CR_BAD_VALUE, name, "the weight of the state must have two axes: %s",
                       cr_shape_text(o->w_hh->ndim, o->w_hh->shape).s), NULL;
    steps *s = steps_of(name, o);
    if (!s) return NULL;
    const int64_t P = o->w_hh->shape[1], H = o->w_hh->shape[0] / cells[cell].gates, B = s->at[1];
    cr_scope_begin();
    const cr_tensor *in[INPUTS] = {[X] = o->x,
                                   [H0] = state_or_zeros(o->h0, o->x, B, P),
                                   [C0] = lstm ? state_or_zeros(o->c0, o->x, B, H) : or_none(o->c0),
                                   [W_IH] = o->w_ih,
                                   [W_HH] = o->w_hh,
                                   [B_IH] = or_none(o->b_ih),
                                   [B_HH] = or_none(o->b_hh),
                                   [W_HR] = or_none(o->w_hr)};
    const cr_tensor *flat = cr_apply(&cr_op_recurrent, INPUTS, in, &(recurrent_params){cell, o->reverse, s});
    cr_tensor *y = flat ? split(o, flat, s, P, H, h, c) : NULL;
    steps_release(s);
    return cr_leave(y);
}
