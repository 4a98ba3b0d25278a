/* channel_norm.c - batch normalization of x (B, C, S): threads split the channels; group normalization of rows.
 *
 * A channel is read once from memory where its B S numbers fit the caches: the statistics, then the results.  The mean
 * and the sum of squares of pieces are put together in double (Chan, Golub and LeVeque 1979), so that nothing cancels.
 * Short planes (S < SHORT) are worked on several channels at a time, as rows of lanes. */
#include "isa.h"
#include "windows.h"
#include "../../core/pool.h"

#include <math.h>

enum { PIECE = 2048, SHORT = 32, LANES = 256 };

typedef struct channels {
    const cr_array *x, *g, *out;                    /* out: y, or dx (NULL: not wanted); g NULL: forward */
    const cr_array *mean, *var;                     /* forward: written */
    const cr_array *w, *b, *dw, *db;                /* NULL: absent */
    double eps;
    int64_t B, C, S, width;                         /* width: channels of a chunk */
    cr_lane lane;
    bool converts, given;                           /* given: mean and var do not follow from x */
} channels;

static double number(const cr_array *t, int64_t c, double absent) {
    return t ? cr_load_f64((char *)cr_array_data(t) + c * (int64_t)cr_dtype_size(t->dtype), t->dtype) : absent;
}
static void set_number(const cr_array *t, int64_t c, double v) {
    if (t) cr_store_f64((char *)cr_array_data(t) + c * (int64_t)cr_dtype_size(t->dtype), t->dtype, v);
}

/* n elements of t from `at` on as lanes: in place, or converted. */
static const void *lanes_in(const channels *s, const cr_array *t, int64_t at, int64_t n, void *scratch) {
    const char *from = (const char *)cr_array_data(t) + at * (int64_t)cr_dtype_size(t->dtype);
    if (!s->converts) return from;
    cr_block_load(s->lane, scratch, t->dtype, from, 1, n);
    return scratch;
}
static void *lanes_out(const channels *s, int64_t at, void *scratch) {
    return s->converts ? scratch : (char *)cr_array_data(s->out) + at * (int64_t)cr_dtype_size(s->out->dtype);
}
static void lanes_done(const channels *s, int64_t at, int64_t n, const void *lanes) {
    char *to = (char *)cr_array_data(s->out) + at * (int64_t)cr_dtype_size(s->out->dtype);
    if (s->converts) cr_block_store(s->lane, lanes, s->out->dtype, to, 1, n);
}

/* The numbers of one channel: what the results are made of. */
typedef struct statistics { double mean, scale, shift, a, b, c; } statistics;

/* mean as the lanes hold it */
static double rounded(const channels *s, double mean) { return s->lane == CR_LANE_F64 ? mean : (double)(float)mean; }

/* y = (x - mean) scale + shift */
static statistics of_forward(const channels *s, int64_t c, double mean, double var) {
    statistics t = {.mean = rounded(s, mean), .scale = number(s->w, c, 1) / sqrt(var + s->eps)};
    t.shift = number(s->b, c, 0) + (t.mean - mean) * t.scale;
    if (s->given) return t;
    set_number(s->mean, c, mean);
    set_number(s->var, c, var);
    return t;
}

/* dx = a g + b (x - mean) + c, or a g;  sum: of g, dot: of g (x - t.mean) */
static statistics of_backward(const channels *s, int64_t c, double sum, double dot) {
    const double count = (double)(s->B * s->S), mean = number(s->mean, c, 0);
    const double r = 1 / sqrt(number(s->var, c, 0) + s->eps), w = number(s->w, c, 1);
    statistics t = {.mean = rounded(s, mean)};
    dot += (t.mean - mean) * sum;
    t.a = w * r;
    if (!s->given) {
        t.b = -w * r * r * r * dot / count;
        t.c = -w * r * sum / count + t.b * (t.mean - mean);
    }
    set_number(s->dw, c, dot * r);
    set_number(s->db, c, sum);
    return t;
}

/* ---- one channel */
static void channel_sums(const channels *s, int64_t c, double *first, double *second) {
    const struct cr_windows *k = cr_cpu_vec()->windows;
    const bool is_f64 = s->lane == CR_LANE_F64;
    const double shift = s->g ? rounded(s, number(s->mean, c, 0)) : 0;
    double seen = 0, mean = 0, squares = 0, sum = 0, dot = 0, part[2];
    float x_lanes[PIECE], g_lanes[PIECE];
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0, n; i < s->S; i += n) {
            const int64_t at = (b * s->C + c) * s->S + i;
            n = cr_imin(PIECE, s->S - i);
            const void *x = lanes_in(s, s->x, at, n, x_lanes);
            if (s->g) {
                k->dots[is_f64](part, x, lanes_in(s, s->g, at, n, g_lanes), shift, n);
                sum += part[0];
                dot += part[1];
                continue;
            }
            k->moments[is_f64](part, x, n);
            const double delta = part[0] / (double)n - mean, all = seen + (double)n;
            squares += part[1] + delta * delta * seen * (double)n / all;
            mean += delta * (double)n / all;
            seen = all;
        }
    *first = s->g ? sum : mean;
    *second = s->g ? dot : squares / seen;
}

static void one_channel(const channels *s, int64_t c) {
    const struct cr_windows *k = cr_cpu_vec()->windows;
    const bool is_f64 = s->lane == CR_LANE_F64;
    double first = number(s->mean, c, 0), second = number(s->var, c, 1);
    float x_lanes[PIECE], g_lanes[PIECE];
    if (!s->given || s->dw || s->db) channel_sums(s, c, &first, &second);
    const statistics t = s->g ? of_backward(s, c, first, second) : of_forward(s, c, first, second);
    for (int64_t b = 0; b < s->B && s->out; b++)
        for (int64_t i = 0, n; i < s->S; i += n) {
            const int64_t at = (b * s->C + c) * s->S + i;
            n = cr_imin(PIECE, s->S - i);
            const void *x = lanes_in(s, s->g && s->given ? s->g : s->x, at, n, x_lanes);
            void *y = lanes_out(s, at, g_lanes);
            if (s->g && s->given) k->scale[is_f64](y, x, 0, t.a, 0, n);
            else if (s->g) k->scale_two[is_f64](y, x, lanes_in(s, s->g, at, n, g_lanes), t.mean, t.a, t.b, t.c, n);
            else k->scale[is_f64](y, x, t.mean, t.scale, t.shift, n);
            lanes_done(s, at, n, y);
        }
}

/* ---- several channels of short planes: n lanes, S for each channel */
static void fill_lanes(const channels *s, void *lanes, int64_t channel, double v) {
    for (int64_t i = channel * s->S; i < (channel + 1) * s->S; i++) {
        if (s->lane == CR_LANE_F64) ((double *)lanes)[i] = v;
        else ((float *)lanes)[i] = (float)v;
    }
}

static double sum_of(const channels *s, const double *lanes, int64_t channel) {
    double sum = 0;
    for (int64_t i = channel * s->S; i < (channel + 1) * s->S; i++) sum += lanes[i];
    return sum;
}

static void short_given(const channels *s, int64_t first, int64_t count, double *mean, double *scale,
                        double *shift) {
    for (int64_t c = 0; c < count; c++) {
        const statistics t = of_forward(s, first + c, number(s->mean, first + c, 0), number(s->var, first + c, 1));
        fill_lanes(s, mean, c, s->g ? 0 : t.mean);
        fill_lanes(s, scale, c, t.scale);
        fill_lanes(s, shift, c, s->g ? 0 : t.shift);
    }
}

static void short_planes(const channels *s, int64_t first, int64_t count) {
    const struct cr_windows *k = cr_cpu_vec()->windows;
    const bool is_f64 = s->lane == CR_LANE_F64;
    const int64_t n = count * s->S, row = s->C * s->S, from = first * s->S;
    double sum[LANES] = {0}, dot[LANES] = {0}, mean[LANES], scale[LANES], shift[LANES], third[LANES];
    float x_lanes[LANES], g_lanes[LANES];
    if (s->g) {
        for (int64_t c = 0; c < count; c++) fill_lanes(s, mean, c, rounded(s, number(s->mean, first + c, 0)));
        for (int64_t b = 0; b < s->B; b++)
            k->add_dots[is_f64](sum, dot, lanes_in(s, s->x, b * row + from, n, x_lanes),
                                lanes_in(s, s->g, b * row + from, n, g_lanes), mean, n);
    } else if (!s->given) {
        for (int64_t b = 0; b < s->B; b++) k->add_lanes[is_f64](sum, lanes_in(s, s->x, b * row + from, n, x_lanes), n);
        for (int64_t c = 0; c < count; c++) fill_lanes(s, mean, c, sum_of(s, sum, c) / (double)(s->B * s->S));
        for (int64_t b = 0; b < s->B; b++)
            k->add_squares[is_f64](dot, lanes_in(s, s->x, b * row + from, n, x_lanes), mean, n);
    }
    for (int64_t c = 0; c < count && (s->g || !s->given); c++) {
        const double total = sum_of(s, sum, c), elements = (double)(s->B * s->S), second = sum_of(s, dot, c);
        const statistics t = s->g ? of_backward(s, first + c, total, second)
                                  : of_forward(s, first + c, total / elements, second / elements);
        fill_lanes(s, scale, c, s->g ? t.a : t.scale);
        fill_lanes(s, shift, c, s->g ? t.b : t.shift);
        fill_lanes(s, third, c, t.c);
    }
    if (s->given) short_given(s, first, count, mean, scale, shift);
    for (int64_t b = 0; b < s->B && s->out; b++) {
        const int64_t at = b * row + from;
        const void *x = lanes_in(s, s->g && s->given ? s->g : s->x, at, n, x_lanes);
        void *y = lanes_out(s, at, g_lanes);
        if (s->g && !s->given)
            k->scale_two_lanes[is_f64](y, x, lanes_in(s, s->g, at, n, g_lanes), mean, scale, shift, third, n);
        else k->scale_lanes[is_f64](y, x, mean, scale, shift, n);
        lanes_done(s, at, n, y);
    }
}

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const channels *s = ctx;
    const int64_t first = chunk * s->width;
    if (s->S >= SHORT) one_channel(s, first);
    else short_planes(s, first, cr_imin(s->width, s->C - first));
}

static void normalize_channels(channels *s) {
    s->B = s->x->shape[0];
    s->C = s->x->shape[1];
    s->S = s->x->shape[2];
    s->lane = cr_lane_of(s->x->dtype);
    s->converts = cr_lane_size(s->lane) != cr_dtype_size(s->x->dtype);
    s->width = s->S >= SHORT ? 1 : LANES / s->S;
    cr_run_chunks(cr_pieces(s->C, s->width), run_chunk, s);
}

cr_status cr_cpu_channel_norm(const cr_channel_norm_args *args) {
    channels s = {.x = &args->x, .out = &args->y, .mean = &args->mean, .var = &args->var, .w = cr_present(&args->w),
                  .b = cr_present(&args->b), .eps = args->eps};
    normalize_channels(&s);
    return CR_OK;
}

cr_status cr_cpu_channel_norm_bwd(const cr_channel_norm_bwd_args *args) {
    channels s = {.x = &args->x, .g = &args->g, .out = cr_present(&args->dx), .mean = &args->mean, .var = &args->var,
                  .w = cr_present(&args->w), .dw = cr_present(&args->dw), .db = cr_present(&args->db),
                  .eps = args->eps};
    normalize_channels(&s);
    return CR_OK;
}

cr_status cr_cpu_channel_scale(const cr_channel_scale_args *args) {
    channels s = {.x = &args->x, .out = &args->y, .mean = &args->mean, .var = &args->var, .w = cr_present(&args->w),
                  .b = cr_present(&args->b), .eps = args->eps, .given = true};
    normalize_channels(&s);
    return CR_OK;
}

cr_status cr_cpu_channel_scale_bwd(const cr_channel_scale_bwd_args *args) {
    channels s = {.x = &args->x, .g = &args->g, .out = cr_present(&args->dx), .mean = &args->mean, .var = &args->var,
                  .w = cr_present(&args->w), .dw = cr_present(&args->dw), .db = cr_present(&args->db),
                  .eps = args->eps, .given = true};
    normalize_channels(&s);
    return CR_OK;
}

/* ---- groups: rows of C channels of S elements.  The row is read once for its statistics, as one long channel. */
typedef struct groups { channels rows; int64_t C, S, each; } groups;        /* each: rows of a chunk */

/* Number i of a weight, f32 or f64; many rows are short, so it is read in place. */
static double affine(const cr_array *t, int64_t i, double absent) {
    if (!t) return absent;
    const void *data = cr_array_data(t);
    return t->dtype == CR_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* The weight of a row's first channel. */
static int64_t first_weight(const groups *g, int64_t row) {
    const cr_array *t = g->rows.w ? g->rows.w : g->rows.b;
    return t ? row * g->C % t->numel : 0;
}

/* Channels that are worked on at a time: short ones together, long ones in pieces. */
static int64_t at_once(const groups *g) { return cr_iclamp(PIECE / cr_imax(1, g->S), 1, LANES); }

static void group_forward(const groups *g, int64_t row) {
    const channels *s = &g->rows;
    const bool is_f64 = s->lane == CR_LANE_F64;
    double mean, var, scale[LANES], bias[LANES];
    float x_lanes[PIECE], y_lanes[PIECE];
    channel_sums(s, row, &mean, &var);
    set_number(s->mean, row, mean);
    set_number(s->var, row, var);
    const double shift = rounded(s, mean), r = 1 / sqrt(var + s->eps);
    const int64_t end = (row + 1) * g->C, first = first_weight(g, row) - row * g->C;
    for (int64_t c = row * g->C, count; c < end; c += count) {
        count = cr_imin(at_once(g), end - c);
        for (int64_t k = 0; k < count; k++) {
            scale[k] = affine(s->w, first + c + k, 1) * r;
            bias[k] = affine(s->b, first + c + k, 0) + (shift - mean) * scale[k];
        }
        for (int64_t at = c * g->S, n; at < (c + count) * g->S; at += n) {
            n = cr_imin(PIECE, (c + count) * g->S - at);
            void *y = lanes_out(s, at, y_lanes);
            cr_cpu_vec()->windows->scale_planes[is_f64](y, lanes_in(s, s->x, at, n, x_lanes), shift, scale, bias, count,
                                                        n / count);
            lanes_done(s, at, n, y);
        }
    }
}

/* dx = w r g + b (x - mean) + c */
static void group_backward(const groups *g, int64_t row) {
    const channels *s = &g->rows;
    const struct cr_windows *kernels = cr_cpu_vec()->windows;
    const bool is_f64 = s->lane == CR_LANE_F64;
    const double mean = number(s->mean, row, 0), shift = rounded(s, mean), elements = (double)(g->C * g->S);
    const double r = 1 / sqrt(number(s->var, row, 0) + s->eps);
    double all = 0, all_dots = 0, a[LANES], part[2][LANES];
    float x_lanes[PIECE], g_lanes[PIECE];
    const int64_t end = (row + 1) * g->C, first = first_weight(g, row) - row * g->C;
    for (int64_t c = row * g->C, count; c < end; c += count) {
        double sums[2][LANES] = {{0}};
        count = cr_imin(at_once(g), end - c);
        for (int64_t at = c * g->S, n; at < (c + count) * g->S; at += n) {
            n = cr_imin(PIECE, (c + count) * g->S - at);
            kernels->dots_planes[is_f64](part[0], part[1], lanes_in(s, s->x, at, n, x_lanes),
                                         lanes_in(s, s->g, at, n, g_lanes), shift, count, n / count);
            for (int64_t k = 0; k < count; k++) sums[0][k] += part[0][k], sums[1][k] += part[1][k];
        }
        for (int64_t k = 0; k < count; k++) {
            const double sum = sums[0][k], dot = sums[1][k] + (shift - mean) * sum, w = affine(s->w, first + c + k, 1);
            set_number(s->dw, c + k, dot * r);
            set_number(s->db, c + k, sum);
            all += w * sum;
            all_dots += w * dot;
        }
    }
    const double b = -r * r * r * all_dots / elements, constant = -r * all / elements + b * (shift - mean);
    for (int64_t c = row * g->C, count; c < end && s->out; c += count) {
        count = cr_imin(at_once(g), end - c);
        for (int64_t k = 0; k < count; k++) a[k] = affine(s->w, first + c + k, 1) * r;
        for (int64_t at = c * g->S, n; at < (c + count) * g->S; at += n) {
            n = cr_imin(PIECE, (c + count) * g->S - at);
            const void *x = lanes_in(s, s->x, at, n, x_lanes);
            void *dx = lanes_out(s, at, g_lanes);
            kernels->scale_two_planes[is_f64](dx, x, lanes_in(s, s->g, at, n, g_lanes), shift, a, b, constant, count,
                                              n / count);
            lanes_done(s, at, n, dx);
        }
    }
}

static void group_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const groups *g = ctx;
    const int64_t end = cr_imin((chunk + 1) * g->each, g->rows.C);
    for (int64_t row = chunk * g->each; row < end; row++) (g->rows.g ? group_backward : group_forward)(g, row);
}

static cr_status run_groups(channels s) {
    groups g = {.rows = s, .C = s.x->shape[1], .S = s.x->shape[2]};
    g.rows.B = 1;
    g.rows.C = s.x->shape[0];
    g.rows.S = g.C * g.S;
    g.rows.lane = cr_lane_of(s.x->dtype);
    g.rows.converts = cr_lane_size(g.rows.lane) != cr_dtype_size(s.x->dtype);
    g.each = cr_pieces(cr_chunk(s.x->numel), g.rows.S);
    cr_run_chunks(cr_pieces(g.rows.C, g.each), group_chunk, &g);
    return CR_OK;
}

cr_status cr_cpu_group_norm(const cr_group_norm_args *args) {
    return run_groups((channels){.x = &args->x, .out = &args->y, .mean = &args->mean, .var = &args->var,
                                 .w = cr_present(&args->w), .b = cr_present(&args->b), .eps = args->eps});
}

cr_status cr_cpu_group_norm_bwd(const cr_group_norm_bwd_args *args) {
    return run_groups((channels){.x = &args->x, .g = &args->g, .out = cr_present(&args->dx), .mean = &args->mean,
                                 .var = &args->var, .w = cr_present(&args->w), .dw = cr_present(&args->dw),
                                 .db = cr_present(&args->db), .eps = args->eps});
}
