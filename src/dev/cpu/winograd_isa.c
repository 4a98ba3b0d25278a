/* winograd_isa.c - the transforms of winograd.h for one instruction set: CR_ISA 2, 3, 4 (x86-64-v2, v3, v4) or 0
 * (whatever the compiler has). */
#if defined(__SANITIZE_ADDRESS__)
#pragma GCC optimize("O1")
#endif
#include "product_vec.h"
#include "winograd.h"
#include "../../core/ints.h"

enum { WIDTH = VECTORS * V, KERNEL = 3 };

/* One axis of each transform. */
static ALWAYS_INLINE void by_g(vec u[4], vec a, vec b, vec c) {
    const vec ends = (a + c) * 0.5f, middle = b * 0.5f;
    u[0] = a;
    u[1] = ends + middle;
    u[2] = ends - middle;
    u[3] = c;
}
static ALWAYS_INLINE void by_b(vec v[4], vec a, vec b, vec c, vec d) {
    v[0] = a - c;
    v[1] = b + c;
    v[2] = c - b;
    v[3] = b - d;
}
static ALWAYS_INLINE void by_a(vec v[4], vec a, vec b) {
    v[0] = a;
    v[1] = a + b;
    v[2] = a - b;
    v[3] = -b;
}

static void weights(float *u, int64_t step, const float *w, int64_t panel, int64_t n, bool flip) {
    for (int64_t i = 0; i < n * panel; i += panel, w += KERNEL * KERNEL * panel)
        for (int64_t lane = 0; lane < panel; lane += V) {
            vec x[KERNEL * KERNEL], rows[4][KERNEL], out[4];
CR_UNROLL(9)
            for (int t = 0; t < KERNEL * KERNEL; t++) x[t] = LOAD(w + (flip ? 8 - t : t) * panel + lane);
CR_UNROLL(3)
            for (int k = 0; k < KERNEL; k++) {
                by_g(out, x[k], x[3 + k], x[6 + k]);
CR_UNROLL(4)
                for (int r = 0; r < 4; r++) rows[r][k] = out[r];
            }
CR_UNROLL(4)
            for (int r = 0; r < 4; r++) {
                by_g(out, rows[r][0], rows[r][1], rows[r][2]);
CR_UNROLL(4)
                for (int k = 0; k < 4; k++) STORE(u + (4 * r + k) * step + i + lane, out[k]);
            }
        }
}

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

static ALWAYS_INLINE void one_input(float *v, int64_t step, const float *x, const cr_tiles *t, const int64_t *at,
                                    bool run) {
    vec rows[4][4], out[4];
CR_UNROLL(4)
    for (int k = 0; k < 4; k++) {
        const float *from = x + k % 2 * t->phase + k / 2;
        by_b(out, lanes_at(from, at, run), lanes_at(from + t->line, at, run), lanes_at(from + 2 * t->line, at, run),
             lanes_at(from + 3 * t->line, at, run));
CR_UNROLL(4)
        for (int r = 0; r < 4; r++) rows[r][k] = out[r];
    }
CR_UNROLL(4)
    for (int r = 0; r < 4; r++) {
        by_b(out, rows[r][0], rows[r][1], rows[r][2], rows[r][3]);
CR_UNROLL(4)
        for (int k = 0; k < 4; k++) STORE(v + (4 * r + k) * step, out[k]);
    }
}

static ALWAYS_INLINE void one_cotangent(float *v, int64_t step, const float *x, const cr_tiles *t, const int64_t *at,
                                        bool run) {
    vec rows[4][2], out[4];
CR_UNROLL(2)
    for (int k = 0; k < 2; k++) {
        by_a(out, lanes_at(x + k * t->phase, at, run), lanes_at(x + k * t->phase + t->line, at, run));
CR_UNROLL(4)
        for (int r = 0; r < 4; r++) rows[r][k] = out[r];
    }
CR_UNROLL(4)
    for (int r = 0; r < 4; r++) {
        by_a(out, rows[r][0], rows[r][1]);
CR_UNROLL(4)
        for (int k = 0; k < 4; k++) STORE(v + (4 * r + k) * step, out[k]);
    }
}

#define STRIPS(name)                                                                                             \
    static void name(float *v, int64_t step, int64_t each, const cr_tiles *t, int64_t channels) {                \
        for (int64_t j = 0; j < t->n; j += V) {                                                                  \
            const int64_t *at = t->at + j;                                                                       \
            const bool run = is_run(at);                                                                         \
            const float *x = t->buffer;                                                                          \
            if (run) for (int64_t c = 0; c < channels; c++, x += t->channel)                                     \
                    one_##name(v + c * each + j, step, x, t, at, true);                                          \
            else for (int64_t c = 0; c < channels; c++, x += t->channel)                                         \
                    one_##name(v + c * each + j, step, x, t, at, false);                                         \
        }                                                                                                        \
    }
STRIPS(input)
STRIPS(cotangent)

/* y[r][k] of the tiles of one vector. */
static ALWAYS_INLINE void one_output(vec y[2][2], const float *m, int64_t step, vec bias) {
    vec rows[2][4];
CR_UNROLL(4)
    for (int k = 0; k < 4; k++) {
        const vec a = LOAD(m + k * step), b = LOAD(m + (4 + k) * step), c = LOAD(m + (8 + k) * step),
                  d = LOAD(m + (12 + k) * step);
        rows[0][k] = a + b + c;
        rows[1][k] = b - c - d;
    }
CR_UNROLL(2)
    for (int r = 0; r < 2; r++) {
        y[r][0] = rows[r][0] + rows[r][1] + rows[r][2] + bias;
        y[r][1] = rows[r][1] - rows[r][2] - rows[r][3] + bias;
    }
}

static void output(const cr_tiles_out *t, const float *m, int64_t step, int64_t each, const float *bias,
                   int64_t channels) {
    for (int j = 0; j < WIDTH; j += V) {
        const int64_t *to = t->to + j;
        const bool *rows = t->rows + j, *columns = t->columns + j;
        bool run = to[0] >= 0;
        for (int l = 0; l < V; l++) run &= to[l] == to[0] + CR_TILE * l && rows[l] && columns[l];
        for (int64_t c = 0; c < channels; c++) {
            vec y[2][2];
            float *out = t->y + c * t->channel;
            one_output(y, m + c * each + j, step, v_k(bias ? bias[c] : 0));
            for (int r = 0; r < 2 && run; r++) {
                STORE(out + to[0] + r * t->line, interleave_low_f32(y[r][0], y[r][1]));
                STORE(out + to[0] + r * t->line + V, interleave_high_f32(y[r][0], y[r][1]));
            }
            for (int l = 0; l < V && !run; l++) {
                if (to[l] < 0) continue;
                float *p = out + to[l];
                p[0] = y[0][0][l];
                if (columns[l]) p[1] = y[0][1][l];
                if (rows[l]) p[t->line] = y[1][0][l];
                if (rows[l] && columns[l]) p[t->line + 1] = y[1][1][l];
            }
        }
    }
}

/* The rows of G^T. */
static ALWAYS_INLINE void by_gt(vec w[3], vec a, vec b, vec c, vec d) {
    const vec sum = (b + c) * 0.5f;
    w[0] = a + sum;
    w[1] = (b - c) * 0.5f;
    w[2] = d + sum;
}

static void gradient(float *dw, const float *du, int64_t step, int64_t all, int64_t parts, int64_t n) {
    for (int64_t i = 0; i < n; i += V) {
        const int lanes = (int)cr_imin(V, n - i);
        vec rows[3][4], out[3], x[4];
        float w[KERNEL * KERNEL][V];
        for (int k = 0; k < 4; k++) {
            for (int r = 0; r < 4; r++) {
                const float *from = du + (4 * r + k) * step + i;
                x[r] = part_load_f32(from, lanes);
                for (int64_t p = 1; p < parts; p++) x[r] += part_load_f32(from + p * all, lanes);
            }
            by_gt(out, x[0], x[1], x[2], x[3]);
            for (int r = 0; r < 3; r++) rows[r][k] = out[r];
        }
        for (int r = 0; r < 3; r++) {
            by_gt(out, rows[r][0], rows[r][1], rows[r][2], rows[r][3]);
            for (int k = 0; k < 3; k++) STORE(w[3 * r + k], out[k]);
        }
        for (int l = 0; l < lanes; l++)
            for (int t = 0; t < KERNEL * KERNEL; t++) *dw++ = w[t][l];
    }
}

const struct cr_winograds CR_ISA_NAME(cr_winograds) = {weights, input, cotangent, output, gradient};
