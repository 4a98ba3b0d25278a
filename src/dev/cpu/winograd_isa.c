/* winograd_isa.c - the transforms of winograd.h for one instruction set: CR_ISA 2, 3, 4 (x86-64-v2, v3, v4) or 0
 * (whatever the compiler has). */
#if defined(__SANITIZE_ADDRESS__)
#pragma GCC optimize("O1")
#endif
#include "product_vec.h"
#include "winograd.h"
#include "../../core/ints.h"

enum { WIDTH = VECTORS * V, POINTS = CR_TILE_POINTS, ALL = POINTS * POINTS };

/* ---- one axis of each transform, for n points of n - 1 taps: a constant at every call */

typedef void axis_fn(int n, vec to[POINTS], const vec from[POINTS]);

static ALWAYS_INLINE void by_g(int n, vec u[POINTS], const vec w[POINTS]) {
    if (n == 3) { u[0] = w[0], u[1] = w[0] + w[1], u[2] = w[1]; return; }
    const vec ends = (w[0] + w[2]) * 0.5f, middle = w[1] * 0.5f;
    u[0] = w[0], u[1] = ends + middle, u[2] = ends - middle, u[3] = w[2];
}
static ALWAYS_INLINE void by_b(int n, vec v[POINTS], const vec x[POINTS]) {
    if (n == 3) { v[0] = x[0] - x[1], v[1] = x[1], v[2] = x[2] - x[1]; return; }
    v[0] = x[0] - x[2], v[1] = x[1] + x[2], v[2] = x[2] - x[1], v[3] = x[1] - x[3];
}
static ALWAYS_INLINE void by_a(int n, vec v[POINTS], const vec g[POINTS]) {
    v[0] = g[0], v[1] = g[0] + g[1];
    if (n == 3) { v[2] = g[1]; return; }
    v[2] = g[0] - g[1], v[3] = -g[1];
}
static ALWAYS_INLINE void by_at(int n, vec y[POINTS], const vec m[POINTS]) {
    if (n == 3) { y[0] = m[0] + m[1], y[1] = m[1] + m[2]; return; }
    y[0] = m[0] + m[1] + m[2], y[1] = m[1] - m[2] - m[3];
}
static ALWAYS_INLINE void by_gt(int n, vec w[POINTS], const vec u[POINTS]) {
    if (n == 3) { w[0] = u[0] + u[1], w[1] = u[1] + u[2]; return; }
    const vec sum = (u[1] + u[2]) * 0.5f;
    w[0] = u[0] + sum, w[1] = (u[1] - u[2]) * 0.5f, w[2] = sum + u[3];
}

/* to (outs, outs) = one axis after the other of from (ins, ins) */
static ALWAYS_INLINE void both_axes(axis_fn *axis, int n, int ins, int outs, vec *to, const vec *from) {
    vec rows[POINTS][POINTS], in[POINTS], out[POINTS];
CR_UNROLL(4)
    for (int k = 0; k < ins; k++) {
CR_UNROLL(4)
        for (int i = 0; i < ins; i++) in[i] = from[i * ins + k];
        axis(n, out, in);
CR_UNROLL(4)
        for (int r = 0; r < outs; r++) rows[r][k] = out[r];
    }
CR_UNROLL(4)
    for (int r = 0; r < outs; r++) axis(n, to + r * outs, rows[r]);
}

/* ---- lanes are rows of the weights */

static ALWAYS_INLINE void weights_of(int n, float *u, int64_t step, const float *w, int64_t taps, const int64_t *tap,
                                     int64_t panel, int64_t count) {
    for (int64_t i = 0; i < count * panel; i += panel, w += taps * panel)
        for (int64_t lane = 0; lane < panel; lane += V) {
            vec x[ALL], out[ALL];
CR_UNROLL(9)
            for (int t = 0; t < (n - 1) * (n - 1); t++) x[t] = LOAD(w + tap[t] * panel + lane);
            both_axes(by_g, n, n - 1, n, out, x);
CR_UNROLL(16)
            for (int p = 0; p < n * n; p++) STORE(u + p * step + i + lane, out[p]);
        }
}

/* ---- lanes are tiles */

/* Lanes that follow one another are loaded at once. */
static ALWAYS_INLINE vec lanes_at(const float *x, const int64_t *at, bool run) {
    if (run) return LOAD(x + at[0]);
    vec v = {0};
CR_UNROLL(16)
    for (int l = 0; l < V; l++) v[l] = x[at[l]];
    return v;
}
static bool is_run(const int64_t *at) {
    bool run = true;
    for (int l = 1; l < V; l++) run &= at[l] == at[0] + l;
    return run;
}

static ALWAYS_INLINE void channels_of(int n, float *v, int64_t step, int64_t each, const cr_tiles *t, const int64_t *at,
                                      bool run, int64_t channels) {
    const float *x = t->buffer;
    for (int64_t c = 0; c < channels; c++, x += t->channel, v += each) {
        vec in[ALL], out[ALL];
CR_UNROLL(4)
        for (int i = 0; i < n; i++)
CR_UNROLL(4)
            for (int k = 0; k < n; k++) in[i * n + k] = lanes_at(x + i * t->row + t->column[k], at, run);
        both_axes(by_b, n, n, n, out, in);
CR_UNROLL(16)
        for (int p = 0; p < n * n; p++) STORE(v + p * step, out[p]);
    }
}

static ALWAYS_INLINE void input_of(int n, float *v, int64_t step, int64_t each, const cr_tiles *t, int64_t channels) {
    for (int64_t j = 0; j < t->n; j += V) {
        const int64_t *at = t->at + j;
        if (is_run(at)) channels_of(n, v + j, step, each, t, at, true, channels);
        else channels_of(n, v + j, step, each, t, at, false, channels);
    }
}

/* y[phase][r * 2 + k] of the tiles of one vector */
static ALWAYS_INLINE void outputs(int n, int phases, vec y[CR_TILE_PHASES][POINTS], const float *m, int64_t step,
                                  vec bias) {
CR_UNROLL(2)
    for (int f = 0; f < phases; f++) {
        vec x[ALL];
CR_UNROLL(16)
        for (int p = 0; p < n * n; p++) x[p] = LOAD(m + (f * n * n + p) * step);
        both_axes(by_at, n, n, CR_TILE, y[f], x);
CR_UNROLL(4)
        for (int i = 0; i < POINTS; i++) y[f][i] += bias;
    }
}

/* One row of results: the outputs of tiles and phases take turns. */
static ALWAYS_INLINE void store_run(int phases, float *to, vec y[CR_TILE_PHASES][POINTS], int r) {
    const vec a = y[0][2 * r], b = y[0][2 * r + 1];
    vec row[CR_TILE_PHASES][2] = {{interleave_low_f32(a, b), interleave_high_f32(a, b)}};
    if (phases == 2) {
        const vec c = y[1][2 * r], d = y[1][2 * r + 1];
        row[1][0] = interleave_low_f32(c, d);
        row[1][1] = interleave_high_f32(c, d);
    }
CR_UNROLL(2)
    for (int h = 0; h < 2; h++) {
        if (phases == 1) { STORE(to + h * V, row[0][h]); continue; }
        STORE(to + 2 * h * V, interleave_low_f32(row[0][h], row[1][h]));
        STORE(to + (2 * h + 1) * V, interleave_high_f32(row[0][h], row[1][h]));
    }
}

static ALWAYS_INLINE void results_of(int n, int phases, const cr_tiles_out *t, int row, const float *m, int64_t step,
                                     int64_t each, const float *bias, int64_t channels, int j) {
    const int64_t *to = t->to + j;
    const int32_t *rows = t->rows + j, *columns = t->columns + j;
    const int all = CR_TILE * phases;
    bool run = true;
    for (int l = 0; l < V; l++) run &= to[l] == to[0] + all * l && rows[l] >= all && columns[l] >= all;
    for (int64_t c = 0; c < channels; c++) {
        vec y[CR_TILE_PHASES][POINTS];
        float *out = t->y + c * t->channel + row * t->line;
        outputs(n, phases, y, m + c * each + j, step, v_k(bias ? bias[c] : 0));
        for (int r = 0; r < CR_TILE && run; r++) store_run(phases, out + to[0] + r * phases * t->line, y, r);
        for (int l = 0; l < V && !run; l++)
            for (int r = 0; r < CR_TILE && row + r * phases < rows[l]; r++)
                for (int k = 0; k < all && k < columns[l]; k++)
                    out[to[l] + r * phases * t->line + k] = y[k % phases][2 * r + k / phases][l];
    }
}

static ALWAYS_INLINE void output_of(int n, const cr_tiles_out *t, int row, const float *m, int64_t step, int64_t each,
                                    const float *bias, int64_t channels) {
    for (int j = 0; j < WIDTH; j += V) {
        if (t->phases == 1) results_of(n, 1, t, row, m, step, each, bias, channels, j);
        else results_of(n, CR_TILE_PHASES, t, row, m, step, each, bias, channels, j);
    }
}

/* ---- lanes are channels */

static ALWAYS_INLINE void groups_of(axis_fn *axis, int n, int ins, float *v, const cr_tile_groups *to,
                                    const float *from, int64_t row, int64_t column, int64_t channels) {
    const int64_t step = to->step, group = to->group, each = to->channels, lanes = to->lanes;
    for (int64_t c = 0; c < channels; c += each, v += group)
        for (int64_t lane = 0; lane < lanes; lane += V) {
            vec x[ALL], out[ALL];
CR_UNROLL(4)
            for (int i = 0; i < ins; i++)
CR_UNROLL(4)
                for (int k = 0; k < ins; k++) x[i * ins + k] = LOAD(from + i * row + k * column + c + lane);
            both_axes(axis, n, ins, n, out, x);
CR_UNROLL(16)
            for (int p = 0; p < n * n; p++) STORE(v + p * step + lane, out[p]);
        }
}

static ALWAYS_INLINE void gradient_of(int n, float *dw, int64_t taps, const int64_t *tap, const float *du, int64_t step,
                                      int64_t count) {
    const int all = (n - 1) * (n - 1);
    for (int64_t i = 0; i < count; i += V) {
        const int lanes = (int)cr_imin(V, count - i);
        vec x[ALL], w[ALL];
CR_UNROLL(16)
        for (int p = 0; p < n * n; p++) x[p] = part_load_f32(du + p * step + i, lanes);
        both_axes(by_gt, n, n, n - 1, w, x);
        for (int l = 0; l < lanes; l++, dw += taps)
            for (int t = 0; t < all; t++) dw[tap[t]] = w[t][l];
    }
}

#define TRANSFORMS(name, n)                                                                                            \
    static void weights_##name(float *u, int64_t step, const float *w, int64_t taps, const int64_t *tap,               \
                               int64_t panel, int64_t count) {                                                         \
        weights_of(n, u, step, w, taps, tap, panel, count);                                                            \
    }                                                                                                                  \
    static void input_##name(float *v, int64_t step, int64_t each, const cr_tiles *t, int64_t channels) {              \
        input_of(n, v, step, each, t, channels);                                                                       \
    }                                                                                                                  \
    static void pixels_##name(float *v, const cr_tile_groups *to, const float *x, int64_t row, int64_t column,         \
                              int64_t channels) {                                                                      \
        groups_of(by_b, n, n, v, to, x, row, column, channels);                                                        \
    }                                                                                                                  \
    static void cotangents_##name(float *v, const cr_tile_groups *to, const float *x, int64_t row, int64_t column,     \
                                  int64_t channels) {                                                                  \
        groups_of(by_a, n, CR_TILE, v, to, x, row, column, channels);                                                  \
    }                                                                                                                  \
    static void output_##name(const cr_tiles_out *t, int row, const float *m, int64_t step, int64_t each,              \
                              const float *bias, int64_t channels) {                                                   \
        output_of(n, t, row, m, step, each, bias, channels);                                                           \
    }                                                                                                                  \
    static void gradient_##name(float *dw, int64_t taps, const int64_t *tap, const float *du, int64_t step,            \
                                int64_t count) {                                                                       \
        gradient_of(n, dw, taps, tap, du, step, count);                                                                \
    }
TRANSFORMS(three, 4)
TRANSFORMS(two, 3)

#define TABLE(name) {weights_##name, input_##name, pixels_##name, cotangents_##name, output_##name, gradient_##name}
const struct cr_winograds CR_ISA_NAME(cr_winograds) = {TABLE(three), TABLE(two)};
