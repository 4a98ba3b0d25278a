/* kernels.c - from the arguments of a kernel to a step: a copy of them, and where the arrays are in it. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- each kernel's argument struct: its size, and its arrays with how they are used */
enum { MOST_ARRAYS = 14 };
typedef struct layout {
    const char *name;
    uint32_t bytes;
    struct { uint16_t at; uint8_t use; } arrays[MOST_ARRAYS];
} layout;

#define KERNEL(kernel, ...) [CR_KERNEL_##kernel] = {#kernel, sizeof(cr_##kernel##_args), {__VA_ARGS__}}
#define R(kernel, field) {offsetof(cr_##kernel##_args, field), CR_READS}
#define W(kernel, field) {offsetof(cr_##kernel##_args, field), CR_WRITES}
#define RW(kernel, field) {offsetof(cr_##kernel##_args, field), CR_READS | CR_WRITES}
#define NORM(kernel, statistics)                                                                             \
    KERNEL(kernel, W(kernel, y), statistics(kernel, mean), statistics(kernel, var), R(kernel, x), R(kernel, w), \
           R(kernel, b))
#define NORM_BWD(kernel)                                                                                         \
    KERNEL(kernel, W(kernel, dx), W(kernel, dw), W(kernel, db), R(kernel, x), R(kernel, w), R(kernel, mean),     \
           R(kernel, var), R(kernel, g))

static const layout layouts[CR_KERNEL_COUNT] = {
    KERNEL(copy, W(copy, dst), R(copy, src)),
    KERNEL(fill, W(fill, dst)),
    KERNEL(elementwise, {0}),                       /* see list_walk */
    KERNEL(reduce, W(reduce, y), R(reduce, x)),
    KERNEL(arg_reduce, W(arg_reduce, y), R(arg_reduce, x)),
    KERNEL(scan, W(scan, y), W(scan, index), R(scan, x), R(scan, a)),
    KERNEL(matmul, W(matmul, c), R(matmul, a), R(matmul, b), R(matmul, bias)),
    KERNEL(gather, W(gather, y), R(gather, x), R(gather, index)),
    KERNEL(scatter, RW(scatter, y), R(scatter, index), R(scatter, src)),
    KERNEL(take_rows, W(take_rows, y), R(take_rows, x), R(take_rows, index)),
    KERNEL(put_rows, RW(put_rows, x), R(put_rows, index), R(put_rows, src)),
    KERNEL(ravel, W(ravel, y)),
    KERNEL(nonzero, W(nonzero, y), R(nonzero, x)),
    KERNEL(sort, W(sort, y), W(sort, index), R(sort, x)),
    KERNEL(kth, W(kth, y), W(kth, index), R(kth, x)),
    KERNEL(search, W(search, y), R(search, x), R(search, v)),
    KERNEL(runs, W(runs, run), W(runs, starts), W(runs, count), R(runs, x), R(runs, order)),
    KERNEL(random, W(random, y)),
    KERNEL(random_integers, W(random_integers, y)),
    KERNEL(permutation, W(permutation, y)),
    KERNEL(multinomial, W(multinomial, y), R(multinomial, w)),
    KERNEL(conv, R(conv, y), R(conv, x), R(conv, w), R(conv, bias)),           /* one is written: see use_of */
    KERNEL(max_pool, W(max_pool, y), W(max_pool, index), R(max_pool, x)),
    KERNEL(band, W(band, y), R(band, x), R(band, start), R(band, weights)),
    NORM(channel_norm, W), NORM_BWD(channel_norm_bwd),
    NORM(channel_scale, R), NORM_BWD(channel_scale_bwd),
    NORM(group_norm, W), NORM_BWD(group_norm_bwd),
    KERNEL(dequantize, W(dequantize, y), R(dequantize, codes), R(dequantize, scales)),
    KERNEL(linear_quantized, W(linear_quantized, y), R(linear_quantized, x), R(linear_quantized, codes),
           R(linear_quantized, scales), R(linear_quantized, bias)),
    KERNEL(softmax, W(softmax, y), R(softmax, x)),
    KERNEL(softmax_bwd, W(softmax_bwd, dx), R(softmax_bwd, y), R(softmax_bwd, g)),
    KERNEL(norm, W(norm, y), W(norm, mean), W(norm, rstd), R(norm, x), R(norm, w), R(norm, b)),
    KERNEL(norm_bwd, W(norm_bwd, dx), W(norm_bwd, dw), W(norm_bwd, db), R(norm_bwd, x), R(norm_bwd, w),
           R(norm_bwd, mean), R(norm_bwd, rstd), R(norm_bwd, g)),
    KERNEL(cross_entropy, W(cross_entropy, loss), W(cross_entropy, lse), R(cross_entropy, x), R(cross_entropy, target)),
    KERNEL(cross_entropy_bwd, W(cross_entropy_bwd, dx), R(cross_entropy_bwd, x), R(cross_entropy_bwd, target),
           R(cross_entropy_bwd, lse), R(cross_entropy_bwd, g)),
    KERNEL(attention, W(attention, o), W(attention, lse), R(attention, q), R(attention, k), R(attention, v),
           R(attention, mask)),
    KERNEL(attention_bwd, W(attention_bwd, dq), W(attention_bwd, dk), W(attention_bwd, dv), R(attention_bwd, q),
           R(attention_bwd, k), R(attention_bwd, v), R(attention_bwd, mask), R(attention_bwd, o),
           R(attention_bwd, lse), R(attention_bwd, g)),
    KERNEL(recurrent, W(recurrent, y), RW(recurrent, h), RW(recurrent, c), RW(recurrent, gates),
           W(recurrent, before), R(recurrent, w), R(recurrent, w_hr), W(recurrent, hidden),
           W(recurrent, twin)),                     /* y, before: see use_of */
    KERNEL(recurrent_bwd, W(recurrent_bwd, d), W(recurrent_bwd, d_state), RW(recurrent_bwd, dh), RW(recurrent_bwd, dc),
           W(recurrent_bwd, d_out), W(recurrent_bwd, d_hidden), R(recurrent_bwd, y), R(recurrent_bwd, gates),
           R(recurrent_bwd, before), R(recurrent_bwd, states), R(recurrent_bwd, g), R(recurrent_bwd, w),
           R(recurrent_bwd, w_hr), R(recurrent_bwd, zero)),
    KERNEL(max_pool_values, W(max_pool_values, y), R(max_pool_values, x)),
    KERNEL(scatter_extreme, RW(scatter_extreme, y), R(scatter_extreme, index), R(scatter_extreme, src)),
    KERNEL(nextafter, W(nextafter, y), R(nextafter, a), R(nextafter, b)),
    KERNEL(triangle, W(triangle, y), R(triangle, x)),
    KERNEL(sum_squares, W(sum_squares, y)),
    KERNEL(update_by_product, R(update_by_product, a), R(update_by_product, b)),
    KERNEL(matmul_epilogue, W(matmul_epilogue, c), W(matmul_epilogue, aux), R(matmul_epilogue, a),
           R(matmul_epilogue, b), R(matmul_epilogue, bias)),
};

const char *cr_kernel_name(int kernel) { return layouts[kernel].name; }

/* ---- the multiplications and additions of products, two for each pair of factors */
static double of_product(const cr_array *c, const cr_array *a) {
    return 2.0 * (double)c->numel * (double)a->shape[a->ndim - 1];
}

static double of_conv(const cr_conv_args *a) {
    return 2.0 * (double)a->y.numel * (double)a->w.numel / (double)a->w.shape[0];
}

/* each: of a query, a key that it sees and a channel */
static double of_attention(const cr_array *q, const cr_array *k, int64_t first, int64_t last, double each) {
    const int64_t T = q->shape[2], S = k->shape[2];
    double pairs = 0;
    for (int64_t t = 0; t < T; t++) {
        const int64_t from = cr_imax(t + first, 0), to = cr_imin(t + last, S - 1);
        pairs += to < from ? 0 : (double)(to - from + 1);
    }
    return each * pairs * (double)(q->shape[0] * q->shape[1] * q->shape[3]);
}

double cr_step_flops(const cr_step *s) {
    const void *args = s->args;
    const cr_matmul_args *product = args;
    const cr_matmul_epilogue_args *epilogue = args;
    const cr_update_by_product_args *update = args;
    const cr_linear_quantized_args *quantized = args;
    const cr_attention_args *attention = args;
    const cr_attention_bwd_args *back = args;
    if (s->kind != CR_STEP_KERNEL) return 0;
    switch (s->kernel) {
    case CR_KERNEL_matmul: return of_product(&product->c, &product->a);
    case CR_KERNEL_matmul_epilogue: return of_product(&epilogue->c, &epilogue->a);
    case CR_KERNEL_update_by_product: return 2.0 * (double)update->a.numel * (double)update->b.shape[1];
    case CR_KERNEL_linear_quantized: return of_product(&quantized->y, &quantized->x);
    case CR_KERNEL_conv: return of_conv(args);
    case CR_KERNEL_attention: return of_attention(&attention->q, &attention->k, attention->first, attention->last, 4);
    case CR_KERNEL_attention_bwd: return of_attention(&back->q, &back->k, back->first, back->last, 10);
    default: return 0;
    }
}

/* How a call uses an array, where that depends on the call. */
static int use_of(const cr_step *s, uint16_t at, int use) {
    if (s->kernel == CR_KERNEL_conv) {
        const cr_conv_kind kind = ((const cr_conv_args *)(const void *)s->args)->kind;
        const size_t written = kind == CR_CONV_FORWARD ? offsetof(cr_conv_args, y)
                             : kind == CR_CONV_INPUT   ? offsetof(cr_conv_args, x)
                                                       : offsetof(cr_conv_args, w);
        return at == written ? CR_WRITES : CR_READS;
    }
    if (s->kernel == CR_KERNEL_matmul && at == offsetof(cr_matmul_args, c) &&
        ((const cr_matmul_args *)(const void *)s->args)->how & CR_MATMUL_ADD)
        return CR_READS | CR_WRITES;
    if (s->kernel == CR_KERNEL_norm_bwd && at == offsetof(cr_norm_bwd_args, dx) &&
        ((const cr_norm_bwd_args *)(const void *)s->args)->add)
        return CR_READS | CR_WRITES;
    if (s->kernel == CR_KERNEL_recurrent) {
        const cr_cell cell = ((const cr_recurrent_args *)(const void *)s->args)->steps.cell;
        const bool adds = at == offsetof(cr_recurrent_args, y)        ? cell == CR_RNN_TANH || cell == CR_RNN_RELU
                          : at == offsetof(cr_recurrent_args, before) ? cell == CR_GRU
                                                                      : false;
        return adds ? CR_READS | CR_WRITES : use;
    }
    return use;
}

uint64_t *cr_step_seed(const cr_step *s) {
    switch (s->kernel) {
        case CR_KERNEL_random: return &((cr_random_args *)(void *)s->args)->seed;
        case CR_KERNEL_random_integers: return &((cr_random_integers_args *)(void *)s->args)->seed;
        case CR_KERNEL_permutation: return &((cr_permutation_args *)(void *)s->args)->seed;
        case CR_KERNEL_multinomial: return &((cr_multinomial_args *)(void *)s->args)->seed;
        default: return NULL;
    }
}

/* ---- the copy of the arguments */
static uint32_t line(size_t bytes) { return (uint32_t)((bytes + 15) & ~(size_t)15); }

static size_t bytes_of_steps(const cr_recurrent_steps *s) { return sizeof *s->at * (size_t)(s->T + 1); }

/* Bytes behind the struct: what it points to.  Programs of recurrent layers are static. */
static size_t bytes_behind(int kernel, const void *args) {
    switch (kernel) {
        case CR_KERNEL_elementwise: return sizeof(cr_walk) * (size_t)((const cr_elementwise_args *)args)->count;
        case CR_KERNEL_update_by_product: return sizeof(cr_walk);
        case CR_KERNEL_fill: return 16;
        case CR_KERNEL_recurrent: return bytes_of_steps(&((const cr_recurrent_args *)args)->steps);
        case CR_KERNEL_recurrent_bwd: return bytes_of_steps(&((const cr_recurrent_bwd_args *)args)->steps);
        case CR_KERNEL_ravel: {
            const size_t n = (size_t)((const cr_ravel_args *)args)->n;
            return n * (sizeof(cr_array *) + sizeof(cr_array)) + line(n * sizeof(int64_t));
        }
        case CR_KERNEL_sum_squares:
            return (size_t)((const cr_sum_squares_args *)args)->n * (sizeof(cr_array *) + sizeof(cr_array));
        default: return 0;
    }
}

/* *to becomes a pointer to `bytes` at `from`, copied into the block at *at. */
static void move_in(cr_step *s, const void **to, const void *from, size_t bytes, char **at) {
    memcpy(*at, from, bytes);
    *to = *at;
    s->inside[s->n_inside++] = (uint32_t)((char *)(void *)to - s->args);
    *at += bytes;
}

/* A list of n pointers to arrays: first the pointers, then the arrays. */
static void move_list(cr_step *s, const cr_array *const **list, int64_t n, char **at) {
    const cr_array *const *from = *list;
    const cr_array **to = (const cr_array **)(void *)*at;
    move_in(s, (const void **)(void *)list, from, (size_t)n * sizeof *from, at);
    for (int64_t i = 0; i < n; i++) move_in(s, (const void **)(void *)&to[i], from[i], sizeof **from, at);
}

static void take_in(cr_step *s, const void *args) {
    char *at = s->args + line(layouts[s->kernel].bytes);
    memcpy(s->args, args, layouts[s->kernel].bytes);
    switch (s->kernel) {
        case CR_KERNEL_elementwise: {
            cr_elementwise_args *a = (void *)s->args;
            move_in(s, (const void **)(void *)&a->walks, a->walks, sizeof(cr_walk) * (size_t)a->count, &at);
            break;
        }
        case CR_KERNEL_update_by_product: {
            cr_update_by_product_args *a = (void *)s->args;
            move_in(s, (const void **)(void *)&a->update, a->update, sizeof(cr_walk), &at);
            break;
        }
        case CR_KERNEL_fill: {
            cr_fill_args *a = (void *)s->args;
            move_in(s, &a->value, a->value, cr_dtype_size(a->dst.dtype), &at);
            break;
        }
        case CR_KERNEL_recurrent:
        case CR_KERNEL_recurrent_bwd: {
            const size_t steps = s->kernel == CR_KERNEL_recurrent ? offsetof(cr_recurrent_args, steps)
                                                                  : offsetof(cr_recurrent_bwd_args, steps);
            cr_recurrent_steps *a = (void *)(s->args + steps);
            move_in(s, (const void **)(void *)&a->at, a->at, bytes_of_steps(a), &at);
            break;
        }
        case CR_KERNEL_ravel: {
            cr_ravel_args *a = (void *)s->args;
            move_list(s, &a->index, a->n, &at);
            move_in(s, (const void **)(void *)&a->sizes, a->sizes, sizeof *a->sizes * (size_t)a->n, &at);
            break;
        }
        case CR_KERNEL_sum_squares: {
            cr_sum_squares_args *a = (void *)s->args;
            move_list(s, &a->x, a->n, &at);
            break;
        }
        default: break;
    }
}

static int most_pointers(int kernel, const void *args) {
    if (kernel == CR_KERNEL_ravel) return 2 + ((const cr_ravel_args *)args)->n;
    if (kernel == CR_KERNEL_sum_squares) return 1 + (int)((const cr_sum_squares_args *)args)->n;
    return 1;
}

/* ---- operands */
void cr_reach(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, cr_dtype dt, cr_operand *o) {
    int64_t low = offset, high = offset + 1;
    for (int i = 0; i < ndim; i++) {
        const int64_t end = (shape[i] - 1) * strides[i];
        if (shape[i] == 0) { high = low; break; }
        if (end < 0) low += end;
        else high += end;
    }
    o->low = low * (int64_t)cr_dtype_size(dt);
    o->high = high * (int64_t)cr_dtype_size(dt);
}

typedef struct lister {
    cr_step *s;
    int room;
    cr_number_buffer number; void *ctx;
} lister;

/* The array's storage becomes the number of its buffer, from 1: the storage itself may end before the plan runs. */
static bool append(lister *l, cr_storage **storage, cr_operand o) {
    cr_step *s = l->s;
    if (s->n_operands == l->room) {
        l->room = l->room ? 2 * l->room : 6;
        cr_operand *more = realloc(s->operands, sizeof *more * (size_t)l->room);
        if (!more) return false;
        s->operands = more;
    }
    o.buffer = l->number(l->ctx, *storage, o.use);
    *storage = (cr_storage *)(intptr_t)(o.buffer + 1);
    s->operands[s->n_operands++] = o;
    return o.buffer >= 0;
}

static bool list_array(lister *l, cr_array *a, int use) {
    if (!a->storage) return true;
    cr_operand o = {.use = (uint8_t)use, .at = (uint32_t)((char *)(void *)a - l->s->args)};
    cr_reach(a->ndim, a->shape, a->strides, a->offset, a->dtype, &o);
    return append(l, &a->storage, o);
}

static bool list_arg(lister *l, const cr_walk *w, cr_arg *a, int use) {
    cr_operand o = {.use = (uint8_t)use, .walk = true, .at = (uint32_t)((char *)(void *)a - l->s->args)};
    cr_reach(w->ndim, w->shape, a->strides, a->offset, a->dtype, &o);
    return append(l, &a->storage, o);
}

static bool list_walk(lister *l, cr_walk *w, int left_out) {
    bool ok = true;
    for (int i = 0; i < w->n_in && ok; i++)
        if (i != left_out) ok = list_arg(l, w, &w->in[i], CR_READS);
    for (int i = 0; i < w->n_out && ok; i++) ok = list_arg(l, w, &w->out[i], CR_WRITES);
    return ok;
}

/* Reads first: an array of the host that an update overwrites must be known as such before. */
static bool list_arrays(lister *l) {
    cr_step *s = l->s;
    const layout *k = &layouts[s->kernel];
    bool ok = true;
    for (int writes = 0; writes < 2; writes++)
        for (int i = 0; i < MOST_ARRAYS && k->arrays[i].use && ok; i++) {
            const int use = use_of(s, k->arrays[i].at, k->arrays[i].use);
            if ((use == CR_WRITES) == writes) ok = list_array(l, (void *)(s->args + k->arrays[i].at), use);
        }
    return ok;
}

static bool list_all(lister *l) {
    cr_step *s = l->s;
    bool ok = list_arrays(l);
    if (s->kernel == CR_KERNEL_elementwise) {
        cr_elementwise_args *a = cr_step_walks(s);
        for (int64_t i = 0; i < a->count && ok; i++) ok = list_walk(l, (cr_walk *)(uintptr_t)&a->walks[i], -1);
    } else if (s->kernel == CR_KERNEL_update_by_product) {
        cr_update_by_product_args *a = (void *)s->args;
        ok = ok && list_walk(l, (cr_walk *)(uintptr_t)a->update, a->input);
    } else if (s->kernel == CR_KERNEL_ravel) {
        cr_ravel_args *a = (void *)s->args;
        for (int i = 0; i < a->n && ok; i++) ok = list_array(l, (cr_array *)(uintptr_t)a->index[i], CR_READS);
    } else if (s->kernel == CR_KERNEL_sum_squares) {
        cr_sum_squares_args *a = (void *)s->args;
        for (int64_t i = 0; i < a->n && ok; i++) ok = list_array(l, (cr_array *)(uintptr_t)a->x[i], CR_READS);
    }
    return ok;
}

static cr_program *program_of(const cr_walk *w) { return (cr_program *)(uintptr_t)w->program; }

/* The step holds the programs of its walks. */
static void hold_programs(cr_step *s, bool hold) {
    const cr_walk *walks = NULL;
    int64_t n = 0;
    if (s->kernel == CR_KERNEL_elementwise) walks = cr_step_walks(s)->walks, n = cr_step_walks(s)->count;
    else if (s->kernel == CR_KERNEL_update_by_product)
        walks = ((const cr_update_by_product_args *)(const void *)s->args)->update, n = 1;
    for (int64_t i = 0; i < n; i++) {
        cr_program *p = program_of(&walks[i]);
        if (!hold) cr_program_free(p);
        else cr_program_retain(p);
    }
}

static cr_status no_memory(void) { return cr_fail(CR_NO_MEMORY, "plan", "out of memory for a step"); }

cr_status cr_step_fill(cr_step *s, int kernel, const void *args, cr_number_buffer number, void *ctx) {
    const size_t bytes = line(layouts[kernel].bytes) + line(bytes_behind(kernel, args));
    s->kernel = kernel;
    s->bytes = (uint32_t)bytes;
    s->draw = s->update = -1;
    s->args = calloc(1, bytes);
    s->inside = malloc(sizeof *s->inside * (size_t)most_pointers(kernel, args));
    if (bytes > UINT32_MAX || !s->args || !s->inside) return no_memory();
    take_in(s, args);
    hold_programs(s, true);
    lister l = {.s = s, .number = number, .ctx = ctx};
    return list_all(&l) ? CR_OK : no_memory();
}

int cr_same_number(void *ctx, cr_storage *s, int use) { (void)ctx; (void)use; return (int)(intptr_t)s - 1; }

cr_status cr_step_relist(cr_step *s) {
    lister l = {.s = s, .number = cr_same_number};
    free(s->operands);
    s->operands = NULL;
    s->n_operands = 0;
    return list_all(&l) ? CR_OK : no_memory();
}

char *cr_joined(const char *a, const char *b) {
    char *text = malloc(strlen(a) + strlen(b) + 1);
    return text ? strcat(strcpy(text, a), b) : NULL;
}

static void end_host(const cr_host_work *w) { if (w->done) w->done(w->ctx); }

void cr_step_free(cr_step *s) {
    if (s->args && s->kind == CR_STEP_HOST) end_host((const void *)s->args);
    if (s->args && s->kernel >= 0) hold_programs(s, false);
    if (s->group) cr_group_free(s->group);
    free(s->args);
    free(s->inside);
    free(s->operands);
    free(s->name);
}
