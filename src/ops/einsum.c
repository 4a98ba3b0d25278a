/* einsum.c - sums of products over named axes: einsum, tensordot.  Two operands at a time become one
 * batched matmul over views, or one elementwise product where nothing is summed; gradients are those
 * of these ops.
 *
 * A label is a number, an operand a term: a tensor and the label of each of its axes.  In einsum axes
 * of size 1 have none, so that they broadcast. */
#include "compose.h"

#include <math.h>
#include <string.h>

/* A-Z, a-z, then the axes under "...", the last of them LABELS - 1 */
enum { LETTERS = 52, LABELS = LETTERS + CR_MAX_DIMS,
       /* up to EXACT terms every order of contraction is looked at */
       MOST_TERMS = 64, EXACT = 4 };

typedef struct labels { int n; int8_t at[CR_MAX_DIMS]; } labels;
typedef struct term { const cr_tensor *t; labels is; uint64_t set; } term;

static bool has(uint64_t set, int label) { return set >> label & 1; }
static int count(uint64_t set) { return __builtin_popcountll(set); }

static uint64_t set_of(const labels *l) {
    uint64_t set = 0;
    for (int i = 0; i < l->n; i++) set |= (uint64_t)1 << l->at[i];
    return set;
}

/* Those of `set`, in the order of l. */
static labels picked(const labels *l, uint64_t set) {
    labels p = {0};
    for (int i = 0; i < l->n; i++) if (has(set, l->at[i])) p.at[p.n++] = l->at[i];
    return p;
}

static labels joined(const labels *a, const labels *b) {
    labels l = *a;
    for (int i = 0; i < b->n; i++) l.at[l.n++] = b->at[i];
    return l;
}

static int axis_of(const labels *l, int label) {    /* -1: nowhere */
    for (int i = 0; i < l->n; i++) if (l->at[i] == label) return i;
    return -1;
}

/* ---- views */

/* x's axes in another order of its labels. */
static const cr_tensor *permuted(const term *x, const labels *order) {
    int64_t axes[CR_MAX_DIMS];
    bool moved = false;
    for (int i = 0; i < order->n; i++) {
        axes[i] = axis_of(&x->is, order->at[i]);
        moved |= axes[i] != i;
    }
    return moved ? cr_permute(x->t, order->n, axes) : x->t;
}

/* x with one axis for each label of `order`, of size 1 where x has no such axis. */
static const cr_tensor *spread(const term *x, const labels *order) {
    int64_t shape[CR_MAX_DIMS];
    const labels own = picked(order, x->set);
    const cr_tensor *y = permuted(x, &own);
    if (!y || own.n == order->n) return y;
    for (int i = 0, k = 0; i < order->n; i++) shape[i] = has(x->set, order->at[i]) ? y->shape[k++] : 1;
    return cr_reshape(y, order->n, shape);
}

/* x as (batch..., rows, columns), either a group of labels as one axis; of more batch axes than matmul takes, one. */
static const cr_tensor *as_matrices(const term *x, const labels *batch, const labels *rows, const labels *columns) {
    int64_t shape[CR_MAX_DIMS];
    const labels matrix = joined(rows, columns), order = joined(batch, &matrix);
    const cr_tensor *y = permuted(x, &order);
    int n = 0, axis = 0;
    if (!y || (rows->n == 1 && columns->n == 1)) return y;
    for (int i = 0; i < batch->n; i++) {
        if (i == 0 || batch->n <= CR_MAX_DIMS - 2) shape[n++] = 1;
        shape[n - 1] *= y->shape[axis++];
    }
    shape[n] = shape[n + 1] = 1;
    for (int i = 0; i < matrix.n; i++) shape[n + (i >= rows->n)] *= y->shape[axis++];
    return cr_reshape(y, n + 2, shape);
}

/* ---- contraction; all of it inside the caller's scope, a failure is a NULL tensor */

/* Sums over the labels that are not to stay. */
static void sum_others(term *x, uint64_t stay) {
    int64_t axes[CR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < x->is.n; i++) if (!has(stay, x->is.at[i])) axes[n++] = i;
    if (!n || !x->t) return;
    x->t = cast_to(cr_sum(x->t, n, axes, false), x->t->dtype);
    x->is = picked(&x->is, stay);
    x->set &= stay;
}

/* The product of a and b, summed over the labels that are not in `stay`.  wanted: the preferred order
 * of the result's labels, or NULL. */
static term contract(term a, term b, uint64_t stay, const labels *wanted) {
    sum_others(&a, stay | b.set);
    sum_others(&b, stay | a.set);
    if (!a.t || !b.t) return (term){0};
    const uint64_t both = a.set & b.set, summed = both & ~stay;
    const labels own = picked(&a.is, stay), more = picked(&b.is, stay & ~a.set),
                 order = wanted ? picked(wanted, a.set | b.set) : joined(&own, &more);
    for (int i = 0; i < order.n; i++) {             /* rows of the result first, then its columns */
        if (has(both, order.at[i])) continue;
        if (has(b.set, order.at[i])) { term t = a; a = b; b = t; }
        break;
    }
    const labels batch = picked(&order, both), rows = picked(&a.is, ~both), columns = picked(&b.is, ~both);
    const labels inner = picked(a.t->numel >= b.t->numel ? &a.is : &b.is, summed), matrix = joined(&rows, &columns),
                 is = joined(&batch, &matrix);
    const bool outer = !both && (a.t->dtype == CR_F32 || a.t->dtype == CR_F64) &&
                       !memcmp(is.at, order.at, (size_t)is.n);
    if (!summed && !outer) return (term){cr_mul(spread(&a, &order), spread(&b, &order)), order, a.set | b.set};
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < is.n; i++) {
        const term *from = has(a.set, is.at[i]) ? &a : &b;
        shape[i] = from->t->shape[axis_of(&from->is, is.at[i])];
    }
    const cr_tensor *x = as_matrices(&a, &batch, &rows, &inner), *y = as_matrices(&b, &batch, &inner, &columns),
                    *z = x && y ? cr_matmul(x, y) : NULL;
    return (term){z && (rows.n != 1 || columns.n != 1) ? cr_reshape(z, is.n, shape) : z, is, set_of(&is)};
}

/* ---- the order of contractions */
static double volume(const int64_t *size, uint64_t set) {
    double v = 1;
    for (; set; set &= set - 1) v *= (double)size[__builtin_ctzll(set)];
    return v;
}

/* The pair to contract first, of n sets of labels: by the multiply-adds of the whole where every order
 * is looked at, beyond that by how much less is left.  Infinite: every product has too many axes. */
static double cheapest(const int64_t *size, int n, const uint64_t *set, uint64_t out, int pair[2]) {
    double best = INFINITY;
    if (n < 2) return 0;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            uint64_t left[MOST_TERMS], others = out;
            int m = 0, next[2];
            for (int j = 0; j < n; j++) if (j != i && j != k) others |= left[m++] = set[j];
            left[m] = (set[i] | set[k]) & others;
            if (count(left[m]) > CR_MAX_DIMS) continue;
            double cost = n > EXACT ? volume(size, left[m]) - volume(size, set[i]) - volume(size, set[k])
                                    : volume(size, set[i] | set[k]) + cheapest(size, m + 1, left, out, next);
            if (cost >= best) continue;
            best = cost;
            pair[0] = i;
            pair[1] = k;
        }
    return best;
}

static term contract_all(const int64_t *size, int n, term *terms, const labels *out) {
    const uint64_t stay = set_of(out);
    for (int pair[2] = {0, 1}; n > 1; n--, pair[0] = 0, pair[1] = 1) {
        uint64_t set[MOST_TERMS], others = stay, once = 0, twice = 0;
        for (int i = 0; i < n; i++) twice |= once & terms[i].set, once |= terms[i].set;
        for (int i = 0; i < n; i++) set[i] = terms[i].set & (twice | stay);         /* the rest is summed first */
        if (n > 2 && isinf(cheapest(size, n, set, stay, pair)))
            return cr_fail(CR_BAD_VALUE, "einsum", "every order of multiplying %d operands needs more than %d axes", n,
                           CR_MAX_DIMS),
                   (term){0};
        for (int i = 0; i < n; i++) if (i != pair[0] && i != pair[1]) others |= set[i];
        terms[pair[0]] = contract(terms[pair[0]], terms[pair[1]], others, n == 2 ? out : NULL);
        if (!terms[pair[0]].t) return (term){0};
        terms[pair[1]] = terms[n - 1];
    }
    sum_others(&terms[0], stay);
    return terms[0];
}

/* ---- the equation */
/* dots: the labels in front of "..."; -1: it has none */
typedef struct subscripts { labels is; int dots; } subscripts;
typedef struct equation {
    int n; subscripts in[MOST_TERMS], out;
    bool explicit_out;
    int dots;                                       /* axes under "...", at most */
    int64_t size[LABELS];
} equation;

static cr_text label_text(int label) {
    cr_text text = {"'...'"};
    if (label < LETTERS) text = (cr_text){{'\'', (char)(label < 26 ? 'A' + label : 'a' + label - 26), '\'', 0}};
    return text;
}

static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }

/* Reads labels up to a ',', "->" or the end, which is returned; NULL and a message where they are wrong. */
static const char *read_subscripts(const char *text, const char *at, subscripts *s) {
    *s = (subscripts){.dots = -1};
    for (;; at++) {
        if (*at == ' ') continue;
        if (!*at || *at == ',' || (*at == '-' && at[1] == '>')) return at;
        int label = label_of(*at);
        if (s->dots < 0 && !strncmp(at, "...", 3)) { s->dots = s->is.n; at += 2; }
        else if (label < 0)
            return cr_fail(
                       CR_BAD_VALUE, "einsum",
                       "character %d of the equation is neither a letter, the first '...' of its operand, ',' nor '->'",
                       (int)(at - text) + 1),
                   NULL;
        else if (s->is.n == CR_MAX_DIMS)
            return cr_fail(CR_BAD_VALUE, "einsum", "more than %d labels in a row, up to character %d of the equation",
                           CR_MAX_DIMS, (int)(at - text) + 1),
                   NULL;
        else s->is.at[s->is.n++] = (int8_t)label;
    }
}

static bool read_equation(equation *e, const char *text, int n) {
    const char *at = text;
    for (e->n = 0;; at++) {
        if (e->n == MOST_TERMS) return cr_fail(CR_BAD_VALUE, "einsum", "more than %d operands", MOST_TERMS), false;
        if (!(at = read_subscripts(text, at, &e->in[e->n++]))) return false;
        if (*at != ',') break;
    }
    if (e->n != n)
        return cr_fail(CR_BAD_VALUE, "einsum", "subscripts for %d operands, but %d operands", e->n, n), false;
    e->explicit_out = *at;
    if (!*at) return true;
    if (!(at = read_subscripts(text, at + 2, &e->out))) return false;
    return !*at || (cr_fail(CR_BAD_VALUE, "einsum", "the equation goes on after its output, at character %d",
                            (int)(at - text) + 1),
                    false);
}

/* The labels of operand i's axes, and their sizes. */
static bool name_axes(equation *e, int i, const cr_tensor *x, labels *is) {
    const subscripts *s = &e->in[i];
    const int more = s->dots < 0 ? 0 : x->ndim - s->is.n;
    if (more < 0 || s->is.n + more != x->ndim)
        return cr_fail(CR_BAD_VALUE, "einsum", "operand %d has %d axes, %s, and subscripts for %d", i, x->ndim,
                       cr_shape_text(x->ndim, x->shape).s, s->is.n),
               false;
    if (more > e->dots) e->dots = more;
    is->n = x->ndim;
    for (int k = 0; k < x->ndim; k++) {
        const bool under = s->dots >= 0 && k >= s->dots && k < s->dots + more;
        const int label = under ? LABELS - more + k - s->dots : s->is.at[s->dots >= 0 && k >= s->dots ? k - more : k];
        int64_t *size = &e->size[label];
        for (int j = 0; j < k; j++)
            if (is->at[j] == label && x->shape[j] != x->shape[k])
                return cr_fail(CR_BAD_VALUE, "einsum", "label %s stands for sizes %lld and %lld in operand %d, %s",
                               label_text(label).s, (long long)x->shape[j], (long long)x->shape[k], i,
                               cr_shape_text(x->ndim, x->shape).s),
                       false;
        if (*size != 1 && x->shape[k] != 1 && *size != x->shape[k])
            return cr_fail(CR_BAD_VALUE, "einsum", "label %s is %lld in operand %d, %s, and %lld before",
                           label_text(label).s, (long long)x->shape[k], i, cr_shape_text(x->ndim, x->shape).s,
                           (long long)*size),
                   false;
        if (*size == 1) *size = x->shape[k];
        is->at[k] = (int8_t)label;
    }
    return true;
}

/* The term of an operand: diagonals where a label stands twice, axes of size 1 left out. */
static term term_of(const cr_tensor *x, labels is) {
    for (int k = 1; k < is.n; k++) {
        const int label = is.at[k], i = axis_of(&is, label);
        if (i == k) continue;
        x = cr_diagonal(x, 0, i, k);
        for (int from = 0, to = 0; from < is.n; from++) if (from != i && from != k) is.at[to++] = is.at[from];
        is.at[--is.n - 1] = (int8_t)label;
        k = 0;
        if (!x) return (term){0};
    }
    labels long_ones = {0};
    for (int k = 0; k < is.n; k++) if (x->shape[k] != 1) long_ones.at[long_ones.n++] = is.at[k];
    return (term){long_ones.n < is.n ? cr_squeeze(x, CR_ALL) : x, long_ones, set_of(&long_ones)};
}

/* The result's axes: as written, or "..." and then, by the alphabet, the labels that occur only once. */
static bool name_result(const equation *e, labels *out) {
    int times[LABELS] = {0}, n = 0;
    int8_t all[LABELS + CR_MAX_DIMS];
    for (int i = 0; i < e->n; i++) for (int k = 0; k < e->in[i].is.n; k++) times[e->in[i].is.at[k]]++;
    const labels *written = &e->out.is;
    const int dots = e->explicit_out ? e->out.dots : 0;
    for (int k = 0; e->explicit_out && k < written->n; k++)
        if (!times[written->at[k]] || axis_of(written, written->at[k]) < k)
            return cr_fail(CR_BAD_VALUE, "einsum", "label %s of the output %s", label_text(written->at[k]).s,
                           times[written->at[k]] ? "appears twice" : "is in no operand"),
                   false;
    for (int k = 0; k <= (e->explicit_out ? written->n : LETTERS); k++) {
        if (k == dots) for (int j = 0; j < e->dots; j++) all[n++] = (int8_t)(LABELS - e->dots + j);
        if (e->explicit_out && k < written->n) all[n++] = written->at[k];
        if (!e->explicit_out && k < LETTERS && times[k] == 1) all[n++] = (int8_t)k;
    }
    if (n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "einsum", "the result would have %d axes: %d are the most supported", n,
                       CR_MAX_DIMS),
               false;
    out->n = n;
    memcpy(out->at, all, (size_t)n);
    return true;
}

/* The operands as autocast wants them, in `cast`; the scope around owns casts.  NULL: failed. */
static const cr_tensor *const *autocast(const char *op, int n, const cr_tensor *const *in,
                                        const cr_tensor *cast[MOST_TERMS]) {
    if (!cr_modes.casting) return in;
    memcpy(cast, in, sizeof *cast * (size_t)n);
    const cr_cast_state casts = cr_casts_off();
    const cr_status status = cr_autocast_inputs(op, in[0]->dev, n, cast);
    cr_set_casts(casts);
    return status == CR_OK ? cast : NULL;
}

cr_tensor *cr_einsum(const char *text, int n, const cr_tensor *const *in) {
    equation e = {.out.dots = -1};
    labels is[MOST_TERMS], out;
    term terms[MOST_TERMS];
    const cr_tensor *cast[MOST_TERMS];
    if (!text) return cr_fail_null("einsum", "the equation"), NULL;
    if (n < 1) return cr_fail(CR_BAD_VALUE, "einsum", "needs at least one operand"), NULL;
    if (!in) return cr_fail_null("einsum", "the operands"), NULL;
    if (!read_equation(&e, text, n)) return NULL;
    for (int k = 0; k < LABELS; k++) e.size[k] = 1;
    for (int i = 0; i < n; i++)
        if (!cr_given("einsum", "an operand", in[i])) return NULL;
    cr_scope_begin();
    if (!(in = autocast("einsum", n, in, cast))) return cr_leave(NULL);
    for (int i = 0; i < n; i++)
        if (cr_want_same_dtype("einsum", in[0], in[i]) != CR_OK || !name_axes(&e, i, in[i], &is[i]))
            return cr_leave(NULL);
    if (!name_result(&e, &out)) return cr_leave(NULL);
    for (int i = 0; i < n; i++)
        if (!(terms[i] = term_of(in[i], is[i])).t) return cr_leave(NULL);
    term y = contract_all(e.size, n, terms, &out);
    const cr_tensor *result = y.t ? spread(&y, &out) : NULL;
    return cr_leave(result == in[0] ? cr_alias(result) : same(result));
}

/* ---- tensordot: a's axes that stay, then b's */
static int named_axis(const cr_tensor *x, int64_t axis, uint64_t *seen) {
    int a = cr_axis("tensordot", axis, x->ndim);
    if (a >= 0 && has(*seen, a))
        return cr_fail(CR_BAD_VALUE, "tensordot", "axis %d of %s is named twice", a,
                       cr_shape_text(x->ndim, x->shape).s),
               -1;
    if (a >= 0) *seen |= (uint64_t)1 << a;
    return a;
}

/* x's axes with their labels, without axes of size 1 that broadcast. */
static term dot_term(const cr_tensor *x, labels is, uint64_t repeats) {
    int64_t axes[CR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < is.n; i++) if (has(repeats, i)) axes[n++] = i;
    const cr_tensor *t = n ? cr_squeeze(x, n, axes) : x;
    labels left = {0};
    for (int i = 0; i < is.n; i++) if (!has(repeats, i)) left.at[left.n++] = is.at[i];
    return (term){t, left, set_of(&left)};
}

static cr_tensor *contract_axes(const cr_tensor *a, const cr_tensor *b, int n, const int64_t *axes_a,
                                const int64_t *axes_b) {
    uint64_t seen_a = 0, seen_b = 0, short_a = 0, short_b = 0;
    if (cr_want_same_dtype("tensordot", a, b) != CR_OK) return NULL;
    if (n < 0 || n > a->ndim || n > b->ndim)
        return cr_fail(CR_BAD_VALUE, "tensordot", "cannot sum over %d axes of %s and %s", n,
                       cr_shape_text(a->ndim, a->shape).s, cr_shape_text(b->ndim, b->shape).s),
               NULL;
    if (n && (!axes_a || !axes_b)) return cr_fail_null("tensordot", "axes"), NULL;
    if (a->ndim + b->ndim - 2 * n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "tensordot", "the result would have %d axes: %d are the most supported",
                       a->ndim + b->ndim - 2 * n, CR_MAX_DIMS),
               NULL;
    labels is_a = {a->ndim, {0, 1, 2, 3, 4, 5, 6, 7}}, is_b = {b->ndim, {8, 9, 10, 11, 12, 13, 14, 15}};
    for (int i = 0; i < n; i++) {
        int x = named_axis(a, axes_a[i], &seen_a), y = x < 0 ? -1 : named_axis(b, axes_b[i], &seen_b);
        if (y < 0) return NULL;
        const int64_t p = a->shape[x], q = b->shape[y];
        if (p != q && p != 1 && q != 1)
            return cr_fail(CR_BAD_VALUE, "tensordot", "axis %d of %s is %lld, axis %d of %s is %lld", x,
                           cr_shape_text(a->ndim, a->shape).s, (long long)p, y, cr_shape_text(b->ndim, b->shape).s,
                           (long long)q),
                   NULL;
        is_b.at[y] = (int8_t)x;
        if (p != q) *(p == 1 ? &short_a : &short_b) |= (uint64_t)1 << (p == 1 ? x : y);
    }
    cr_scope_begin();
    term x = dot_term(a, is_a, short_a), y = dot_term(b, is_b, short_b);
    uint64_t stay = (set_of(&is_a) & ~seen_a) | (set_of(&is_b) >> 8 << 8);
    return cr_leave(x.t && y.t ? same(contract(x, y, stay, NULL).t) : NULL);
}

cr_tensor *cr_tensordot(const cr_tensor *a, const cr_tensor *b, int n, const int64_t *axes_a, const int64_t *axes_b) {
    const cr_tensor *cast[MOST_TERMS], *const *in;
    if (!cr_given("tensordot", "a", a) || !cr_given("tensordot", "b", b)) return NULL;
    cr_scope_begin();
    in = autocast("tensordot", 2, (const cr_tensor *const[]){a, b}, cast);
    return cr_leave(in ? contract_axes(in[0], in[1], n, axes_a, axes_b) : NULL);
}
