/* conv.c - y[b, o, p] = bias[o] + sum over c, t of x[b, q C + c, p stride + t dilation - pad] w[o, c, t], and its
 * derivatives in x and w; q is the group of channel o, C the channels of a group. */
#include "ref.h"

typedef struct sizes { int64_t B, OC, C, groups, in[3], kernel[3], out[3]; } sizes;

static sizes sizes_of(const cr_conv_args *a) {
    sizes s = {.B = a->x.shape[0], .OC = a->w.shape[0], .C = a->w.shape[1], .groups = a->groups};
    for (int i = 0; i < 3; i++) {
        s.in[i] = a->x.shape[2 + i];
        s.kernel[i] = a->w.shape[2 + i];
        s.out[i] = a->y.shape[2 + i];
    }
    return s;
}

static double factor(const cr_array *t, int64_t at, int how) {
    double x = get(t, at);
    return how & CR_MATMUL_BF16 && t->dtype == CR_F32 ? (double)cr_bf16_to_f32(cr_f32_to_bf16((float)x)) : x;
}

static int64_t offset(const cr_array *t, int64_t i, int64_t j, const int64_t at[3]) {
    return i * t->strides[0] + j * t->strides[1] + at[0] * t->strides[2] + at[1] * t->strides[3] +
           at[2] * t->strides[4];
}

/* The position of x under tap t of output p; false: outside of x. */
static bool under(const cr_conv_args *a, const sizes *s, const int64_t p[3], const int64_t t[3], int64_t at[3]) {
    bool inside = true;
    for (int i = 0; i < 3; i++) {
        at[i] = p[i] * a->stride[i] + t[i] * a->dilation[i] - a->pad[i];
        inside &= at[i] >= 0 && at[i] < s->in[i];
    }
    return inside;
}

/* The output whose tap t lies on position `at` of x; false: none. */
static bool over(const cr_conv_args *a, const sizes *s, const int64_t at[3], const int64_t t[3], int64_t p[3]) {
    bool inside = true;
    for (int i = 0; i < 3; i++) {
        const int64_t from = at[i] + a->pad[i] - t[i] * a->dilation[i];
        p[i] = from / a->stride[i];
        inside &= from >= 0 && from % a->stride[i] == 0 && p[i] < s->out[i];
    }
    return inside;
}

#define EACH_AT(at, size)                                                                                          \
    for (at[0] = 0; at[0] < (size)[0]; at[0]++)                                                                    \
        for (at[1] = 0; at[1] < (size)[1]; at[1]++)                                                                \
            for (at[2] = 0; at[2] < (size)[2]; at[2]++)

static void forward(const cr_conv_args *a, const sizes *s, int64_t b, int64_t o) {
    const cr_array *bias = cr_present(&a->bias);
    const int64_t first = o / (s->OC / s->groups) * s->C;
    int64_t p[3], t[3], at[3];
    EACH_AT(p, s->out) {
        double sum = bias ? get(bias, o) : 0;
        EACH(c, s->C)
            EACH_AT(t, s->kernel)
            if (under(a, s, p, t, at))
                sum += factor(&a->x, offset(&a->x, b, first + c, at), a->how) *
                       factor(&a->w, offset(&a->w, o, c, t), a->how);
        put(&a->y, offset(&a->y, b, o, p), sum);
    }
}

static void input(const cr_conv_args *a, const sizes *s, int64_t b, int64_t c) {
    const int64_t outs = s->OC / s->groups, first = c / s->C * outs;
    int64_t p[3], t[3], at[3];
    EACH_AT(at, s->in) {
        double sum = 0;
        EACH(o, outs)
            EACH_AT(t, s->kernel)
            if (over(a, s, at, t, p))
                sum += factor(&a->y, offset(&a->y, b, first + o, p), a->how) *
                       factor(&a->w, offset(&a->w, first + o, c % s->C, t), a->how);
        put(&a->x, offset(&a->x, b, c, at), sum);
    }
}

static void weight(const cr_conv_args *a, const sizes *s, int64_t o, int64_t c) {
    const int64_t channel = o / (s->OC / s->groups) * s->C + c;
    int64_t p[3], t[3], at[3];
    EACH_AT(t, s->kernel) {
        double sum = 0;
        EACH(b, s->B)
            EACH_AT(p, s->out)
            if (under(a, s, p, t, at))
                sum += factor(&a->x, offset(&a->x, b, channel, at), a->how) *
                       factor(&a->y, offset(&a->y, b, o, p), a->how);
        put(&a->w, offset(&a->w, o, c, t), sum);
    }
}

cr_status cr_ref_conv(const cr_conv_args *a) {
    static void (*const kinds[])(const cr_conv_args *, const sizes *, int64_t, int64_t) = {
        [CR_CONV_FORWARD] = forward, [CR_CONV_INPUT] = input, [CR_CONV_WEIGHT] = weight};
    const sizes s = sizes_of(a);
    const cr_array *result = a->kind == CR_CONV_FORWARD ? &a->y : a->kind == CR_CONV_INPUT ? &a->x : &a->w;
    EACH(i, result->shape[0])
        EACH(j, result->shape[1]) kinds[a->kind](a, &s, i, j);
    return CR_OK;
}
