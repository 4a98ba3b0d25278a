/* conv.c - convolutions on all threads. */
#include "../../core/pool.h"
#include "cpu.h"

typedef struct job {
    const cr_conv_args *a;
    int64_t C, outs, in[3], kernel[3], out[3];
} job;

static double get(const cr_array *t, int64_t i, int64_t j, const int64_t at[3]) {
    const int64_t o = t->offset + i * t->strides[0] + j * t->strides[1] + at[0] * t->strides[2] +
                      at[1] * t->strides[3] + at[2] * t->strides[4];
    return cr_load_f64((char *)t->storage->data + o * (int64_t)cr_dtype_size(t->dtype), t->dtype);
}
static void put(const cr_array *t, int64_t i, int64_t j, const int64_t at[3], double v) {
    const int64_t o = t->offset + i * t->strides[0] + j * t->strides[1] + at[0] * t->strides[2] +
                      at[1] * t->strides[3] + at[2] * t->strides[4];
    cr_store_f64((char *)t->storage->data + o * (int64_t)cr_dtype_size(t->dtype), t->dtype, v);
}

#define EACH_AT(at, size)                                                                                          \
    for (at[0] = 0; at[0] < (size)[0]; at[0]++)                                                                    \
        for (at[1] = 0; at[1] < (size)[1]; at[1]++)                                                                \
            for (at[2] = 0; at[2] < (size)[2]; at[2]++)

static bool tap(const job *j, const int64_t p[3], const int64_t at[3], int64_t t[3]) {
    for (int i = 0; i < 3; i++) {
        const int64_t from = at[i] + j->a->pad[i] - p[i] * j->a->stride[i];
        if (from < 0 || from % j->a->dilation[i] || from / j->a->dilation[i] >= j->kernel[i]) return false;
        t[i] = from / j->a->dilation[i];
    }
    return true;
}
static bool under(const job *j, const int64_t p[3], const int64_t t[3], int64_t at[3]) {
    for (int i = 0; i < 3; i++) {
        at[i] = p[i] * j->a->stride[i] + t[i] * j->a->dilation[i] - j->a->pad[i];
        if (at[i] < 0 || at[i] >= j->in[i]) return false;
    }
    return true;
}

static void run(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    const cr_conv_args *a = j->a;
    int64_t p[3], t[3], at[3];
    if (a->kind == CR_CONV_FORWARD) {
        const int64_t b = chunk / a->w.shape[0], o = chunk % a->w.shape[0], first = o / j->outs * j->C;
        const cr_array *bias = cr_present(&a->bias);
        EACH_AT(p, j->out) {
            double sum = bias ? cr_load_f64((char *)cr_array_data(bias) + o * (int64_t)cr_dtype_size(bias->dtype),
                                            bias->dtype) : 0;
            for (int64_t c = 0; c < j->C; c++)
                EACH_AT(t, j->kernel)
                if (under(j, p, t, at)) sum += get(&a->x, b, first + c, at) * get(&a->w, o, c, t);
            put(&a->y, b, o, p, sum);
        }
    } else if (a->kind == CR_CONV_INPUT) {
        const int64_t b = chunk / a->x.shape[1], c = chunk % a->x.shape[1], first = c / j->C * j->outs;
        EACH_AT(at, j->in) {
            double sum = 0;
            for (int64_t o = 0; o < j->outs; o++)
                EACH_AT(p, j->out)
                if (tap(j, p, at, t)) sum += get(&a->y, b, first + o, p) * get(&a->w, first + o, c % j->C, t);
            put(&a->x, b, c, at, sum);
        }
    } else {
        const int64_t o = chunk / j->C, c = chunk % j->C, channel = o / j->outs * j->C + c;
        EACH_AT(t, j->kernel) {
            double sum = 0;
            for (int64_t b = 0; b < a->x.shape[0]; b++)
                EACH_AT(p, j->out)
                if (under(j, p, t, at)) sum += get(&a->x, b, channel, at) * get(&a->y, b, o, p);
            put(&a->w, o, c, t, sum);
        }
    }
}

cr_status cr_cpu_conv(const cr_conv_args *a) {
    job j = {.a = a, .C = a->w.shape[1], .outs = a->w.shape[0] / a->groups};
    for (int i = 0; i < 3; i++) j.in[i] = a->x.shape[2 + i], j.kernel[i] = a->w.shape[2 + i], j.out[i] = a->y.shape[2 + i];
    const cr_array *result = a->kind == CR_CONV_FORWARD ? &a->y : a->kind == CR_CONV_INPUT ? &a->x : &a->w;
    cr_pool_run(result->shape[0] * result->shape[1], run, &j);
    return CR_OK;
}
