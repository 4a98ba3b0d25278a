/* max_pool.c - the largest element of each window, and its position: threads split the planes. */
#include "blocks.h"
#include "../../core/pool.h"

typedef struct pooling {
    const cr_max_pool_args *args;
    int64_t in, out;                                /* elements of a plane of x and of y */
    cr_lane lane;
    atomic_bool failed;
} pooling;

/* The part of the kernel that lies inside of an axis of R, from `first` on: taps *t .. *end - 1. */
static void taps(const cr_max_pool_args *args, int axis, int64_t p, int64_t *first, int64_t *t, int64_t *end) {
    const int64_t dilation = args->dilation[axis], R = args->x.shape[1 + axis];
    *first = p * args->stride[axis] - args->pad[axis];
    *t = *first < 0 ? (dilation - 1 - *first) / dilation : 0;
    *end = cr_imin(args->kernel[axis], (R - 1 - *first) / dilation + 1);
}

#define PLANE(T)                                                                                    \
static void plane_##T(const cr_max_pool_args *args, T *y, int64_t *index, const T *x) {             \
    const int64_t *in = args->x.shape, *out = args->y.shape, *dilation = args->dilation;            \
    int64_t first[3], t[3], end[3];                                                                 \
    for (int64_t a = 0; a < out[1]; a++)                                                            \
        for (int64_t b = 0; b < out[2]; b++)                                                        \
            for (int64_t c = 0; c < out[3]; c++) {                                                  \
                taps(args, 0, a, &first[0], &t[0], &end[0]);                                        \
                taps(args, 1, b, &first[1], &t[1], &end[1]);                                        \
                taps(args, 2, c, &first[2], &t[2], &end[2]);                                        \
                int64_t best = -1;                                                                  \
                for (int64_t i = t[0]; i < end[0]; i++)                                             \
                    for (int64_t j = t[1]; j < end[1]; j++)                                         \
                        for (int64_t k = t[2]; k < end[2]; k++) {                                   \
                            const int64_t at = ((first[0] + i * dilation[0]) * in[2] + first[1] + j * dilation[1]) \
                                               * in[3] + first[2] + k * dilation[2];                \
                            if (best < 0 || x[at] > x[best] || x[at] != x[at]) best = at;           \
                        }                                                                           \
                *y++ = x[best];                                                                     \
                *index++ = best;                                                                    \
            }                                                                                       \
}
PLANE(float)
PLANE(double)

static void pool_plane(void *ctx, int64_t n, int worker) {
    (void)worker;
    pooling *p = ctx;
    const cr_max_pool_args *args = p->args;
    const cr_dtype dt = args->x.dtype;
    const size_t size = cr_dtype_size(dt), lane = cr_lane_size(p->lane), bytes = (size_t)(p->in + p->out) * lane;
    const bool converts = lane != size;
    char *x = (char *)cr_array_data(&args->x) + (size_t)(n * p->in) * size;
    char *y = (char *)cr_array_data(&args->y) + (size_t)(n * p->out) * size;
    int64_t *index = (int64_t *)cr_array_data(&args->index) + n * p->out;
    char *scratch = converts ? cr_cpu_try_take(bytes) : NULL;
    if (converts && !scratch) { atomic_store(&p->failed, true); return; }
    if (converts) cr_block_load(p->lane, scratch, dt, x, 1, p->in);
    char *from = converts ? scratch : x, *to = converts ? scratch + (size_t)p->in * lane : y;
    if (p->lane == CR_LANE_F64) plane_double(args, (double *)(void *)to, index, (const double *)(const void *)from);
    else plane_float(args, (float *)(void *)to, index, (const float *)(const void *)from);
    if (converts) cr_block_store(p->lane, to, dt, y, 1, p->out);
    cr_cpu_give(scratch, bytes);
}

cr_status cr_cpu_max_pool(const cr_max_pool_args *args) {
    const int64_t planes = args->x.shape[0];
    pooling p = {.args = args, .in = args->x.numel / planes, .out = args->y.numel / planes,
                 .lane = cr_lane_of(args->x.dtype)};
    cr_run_chunks(planes, pool_plane, &p);
    return p.failed ? cr_fail(CR_NO_MEMORY, "max_pool", "out of memory for planes of %lld numbers", (long long)p.in)
                    : CR_OK;
}
