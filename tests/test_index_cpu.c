/* test_index_cpu.c - the cpu device's gather, scatter, take-rows, put-rows, ravel and nonzero: values,
 * order, refusals, guards, threads. */
#include "box.h"

#include "dev/cpu/cpu.h"

static box dense(cr_dtype dt, int n, const int64_t *shape) {
    int64_t strides[CR_MAX_DIMS];
    cr_strides_contiguous(n, shape, strides);
    return box_make(dt, n, shape, strides);
}

static box indices(cr_dtype dt, int n, const int64_t *shape, int64_t size) {
    box b = dense(dt, n, shape);
    size_t step = cr_dtype_size(dt);
    for (int64_t i = 0; i < b.t.numel; i++)
        /* many alike */
        cr_store_i64((char *)b.s.data + (size_t)(b.t.offset + i) * step, dt,
                     box_draw(3) ? box_draw((uint32_t)size) : (uint32_t)(size - 1));
    memcpy(b.before, b.memory, b.bytes);
    return b;
}

static int64_t index_of(const box *b, int64_t i) {
    cr_dtype dt = b->t.dtype;
    return cr_load_i64((const char *)b->s.data + (size_t)(b->t.offset + i) * cr_dtype_size(dt), dt);
}
static char *item(const box *b, int64_t i) {
    return (char *)b->s.data + (size_t)(b->t.offset + i) * cr_dtype_size(b->t.dtype);
}
static const char *old(const box *b, int64_t i) {
    return (const char *)b->before + (item(b, i) - (const char *)b->memory);
}

/* want[to[i]] += x[i], started from y's old values, in the order of i; then compared with y. */
static void check_sums(const char *what, const box *y, const box *x, const int64_t *to) {
    cr_dtype dt = y->t.dtype;
    size_t size = cr_dtype_size(dt);
    bool half = dt == CR_F16 || dt == CR_BF16;
    double *sum = malloc((size_t)(y->t.numel + 1) * sizeof *sum);
    uint64_t *whole = malloc((size_t)(y->t.numel + 1) * sizeof *whole);
    for (int64_t i = 0; i < y->t.numel; i++) {
        if (cr_dtype_is_float(dt)) sum[i] = cr_load_f64(old(y, i), dt);
        else whole[i] = (uint64_t)cr_load_i64(old(y, i), dt);
    }
    for (int64_t i = 0; i < x->t.numel; i++) {
        if (dt == CR_F64) sum[to[i]] += cr_load_f64(item(x, i), dt);
        else if (cr_dtype_is_float(dt)) sum[to[i]] = (double)((float)sum[to[i]] + (float)cr_load_f64(item(x, i), dt));
        else if (dt == CR_BOOL) whole[to[i]] |= (uint64_t)cr_load_i64(item(x, i), dt);
        else whole[to[i]] += (uint64_t)cr_load_i64(item(x, i), dt);
    }
    for (int64_t i = 0; i < y->t.numel; i++) {
        uint64_t want = 0;
        if (half) {
            uint16_t h = dt == CR_BF16 ? cr_f32_to_bf16((float)sum[i]) : cr_f32_to_f16((float)sum[i]);
            memcpy(&want, &h, 2);
        } else if (cr_dtype_is_float(dt)) cr_store_f64(&want, dt, sum[i]);
        else cr_store_i64(&want, dt, (int64_t)whole[i]);
        CHECK(!memcmp(&want, item(y, i), size), "%s %s: element %lld is %g", what, cr_dtype_name(dt), (long long)i,
              cr_load_f64(item(y, i), dt));
    }
    free(sum); free(whole);
}

/* Runs twice, with two threads and with one: the bits must agree, and nothing be written around. */
#define TWICE(what, y, call)                                                                                        \
    do {                                                                                                            \
        cr_set_num_threads(2);                                                                                      \
        OK(call);                                                                                                   \
        unsigned char *two = malloc((y)->bytes);                                                                    \
        memcpy(two, (y)->memory, (y)->bytes);                                                                       \
        memcpy((y)->memory, (y)->before, (y)->bytes);                                                               \
        cr_set_num_threads(1);                                                                                      \
        OK(call);                                                                                                   \
        CHECK(!memcmp(two, (y)->memory, (y)->bytes), "%s: one thread and two differ", what);                        \
        CHECK(!box_spilled(y), "%s: wrote outside", what);                                                          \
        free(two);                                                                                                  \
        test_ran_on(cr_cpu());                                                                                      \
    } while (0)

static const struct { int64_t M, R, N, K;
} shapes[] = {
    {1, 1, 1, 1},      {1, 5, 1, 7},    {3, 5, 1, 4}, {2, 7, 3, 5}, {1, 11, 13, 40}, {700, 3, 1, 90},
    {1, 50, 300, 200}, {5, 4, 70, 600}, {2, 3, 0, 4}, {0, 3, 2, 4}, {2, 3, 4, 0},    {1, 4, 50000, 2},
};

TEST(gather_every_dtype) {
    box_state = test_seed();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int dt = 0; dt < CR_DTYPES; dt++) {
            int64_t M = shapes[s].M, R = shapes[s].R, N = shapes[s].N, K = shapes[s].K;
            box x = dense((cr_dtype)dt, 3, (int64_t[]){M, R, N}), y = dense((cr_dtype)dt, 3, (int64_t[]){M, K, N});
            box index = indices(box_draw(2) ? CR_I64 : CR_I32, 3, (int64_t[]){M, K, N}, R);
            TWICE("gather", &y,
                  cr_cpu_gather(&(cr_gather_args){cr_array_as(box_array(&y), CR_LIST(M, K, N)),
                                                  cr_array_as(box_array(&x), CR_LIST(M, R, N)),
                                                  cr_array_as(box_array(&index), CR_LIST(M, K, N))}));
            for (int64_t i = 0; i < y.t.numel; i++) {
                int64_t m = i / N / K, n = i % N, from = (m * R + index_of(&index, i)) * N + n;
                CHECK(!memcmp(item(&y, i), item(&x, from), cr_dtype_size((cr_dtype)dt)), "gather %s: element %lld",
                      cr_dtype_name((cr_dtype)dt), (long long)i);
            }
            box_drop(&x); box_drop(&y); box_drop(&index);
        }
}

TEST(scatter_add_every_dtype) {
    box_state = test_seed();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int dt = 0; dt < CR_DTYPES; dt++) {
            int64_t M = shapes[s].M, R = shapes[s].R, N = shapes[s].N, K = shapes[s].K;
            box y = dense((cr_dtype)dt, 3, (int64_t[]){M, R, N}), src = dense((cr_dtype)dt, 3, (int64_t[]){M, K, N});
            box index = indices(box_draw(2) ? CR_I64 : CR_I32, 3, (int64_t[]){M, K, N}, R);
            TWICE("scatter_add", &y,
                  cr_cpu_scatter(&(cr_scatter_args){cr_array_as(box_array(&y), CR_LIST(M, R, N)),
                                                    cr_array_as(box_array(&index), CR_LIST(M, K, N)),
                                                    cr_array_as(box_array(&src), CR_LIST(M, K, N)), true}));
            int64_t *to = malloc((size_t)(src.t.numel + 1) * sizeof *to);
            for (int64_t i = 0; i < src.t.numel; i++) to[i] = (i / N / K * R + index_of(&index, i)) * N + i % N;
            check_sums("scatter_add", &y, &src, to);
            free(to);
            box_drop(&y); box_drop(&src); box_drop(&index);
        }
}

/* Contiguous, or with gaps, turned, and backwards along axis 1. */
static box strided(cr_dtype dt, int64_t M, int64_t K, int64_t N, bool odd) {
    const int64_t plain[] = {K * N, N, 1}, gaps[] = {1, 3 * M, M * (3 * K + 1)};
    box b = box_make(dt, 3, (int64_t[]){M, K, N}, odd ? gaps : plain);
    if (!odd || !b.t.numel) return b;
    b.t.offset += (K - 1) * gaps[1];
    b.t.strides[1] = -gaps[1];
    return b;
}
static int64_t offset_of(const box *b, int64_t m, int64_t k, int64_t n) {
    return m * b->t.strides[0] + k * b->t.strides[1] + n * b->t.strides[2];
}

TEST(rows_every_dtype) {
    static const struct {
        int64_t M, R, N, K;
    } cases
        [] =
            {
                {1, 1, 1, 1},        {1, 5, 3, 7},        {3, 5, 1, 11}, {1, 65, 128, 768},
                {2, 300, 1000, 50},  {1, 4, 7, 0},        {1, 3, 0, 5},  {5, 7, 20, 900},
                {1, 1000, 1, 70000}, {1, 5000, 1, 131200}}; /* the last: sorted by ranges of places first (buckets.c) */
    box_state = test_seed();
    for (size_t s = 0; s < 2 * sizeof cases / sizeof *cases; s++)
        for (int dt = 0; dt < CR_DTYPES; dt++) {
            const int64_t M = cases[s / 2].M, R = cases[s / 2].R, N = cases[s / 2].N, K = cases[s / 2].K;
            box x = strided((cr_dtype)dt, M, R, N, s % 2), y = dense((cr_dtype)dt, 3, (int64_t[]){M, K, N}),
                src = strided((cr_dtype)dt, M, K, N, s % 2);
            box index = indices(box_draw(2) ? CR_I64 : CR_I32, 1, (int64_t[]){K}, R);
            for (int64_t i = 0; i < K; i += 3) cr_store_i64(item(&index, i), index.t.dtype, index_of(&index, i) - R);
            TWICE("take_rows", &y,
                  cr_cpu_take_rows(
                      &(cr_take_rows_args){"take", *box_array(&y), *box_array(&x), *box_array(&index), true}));
            const cr_array *last = box_array(&x);
            /* the memory of x after a put, then after an addition in order */
            unsigned char *want = malloc(x.bytes);
            memcpy(want, x.before, x.bytes);
            for (int64_t i = 0; i < y.t.numel; i++) {
                int64_t m = i / N / K, k = i / N % K, n = i % N, at = index_of(&index, k),
                        from = offset_of(&x, m, at < 0 ? at + R : at, n);
                CHECK(!memcmp(item(&y, i), item(&x, from), cr_dtype_size((cr_dtype)dt)), "take_rows %s: element %lld",
                      cr_dtype_name((cr_dtype)dt), (long long)i);
            }
            for (int64_t m = 0; m < M; m++)
                for (int64_t k = 0; k < K; k++)
                    for (int64_t n = 0; n < N; n++) {
                        int64_t at = index_of(&index, k);
                        memcpy(want + (item(&x, offset_of(&x, m, at < 0 ? at + R : at, n)) - (char *)x.memory),
                               item(&src, offset_of(&src, m, k, n)), cr_dtype_size((cr_dtype)dt));
                    }
            TWICE(
                "put_rows", &x,
                cr_cpu_put_rows(&(cr_put_rows_args){"put", *last, *box_array(&index), *box_array(&src), false, true}));
            CHECK(!memcmp(want, x.memory, x.bytes), "put_rows %s: the last does not stay", cr_dtype_name((cr_dtype)dt));
            memcpy(x.memory, x.before, x.bytes);
            TWICE("put_rows, added", &x,
                  cr_cpu_put_rows(&(cr_put_rows_args){"put", *last, *box_array(&index), *box_array(&src), true, true}));
            if (s % 2 == 0) {
                int64_t *to = malloc((size_t)(src.t.numel + 1) * sizeof *to);
                for (int64_t i = 0; i < src.t.numel; i++) {
                    int64_t at = index_of(&index, i / N % K);
                    to[i] = (i / N / K * R + (at < 0 ? at + R : at)) * N + i % N;
                }
                check_sums("put_rows", &x, &src, to);
                free(to);
            }
            free(want);
            box_drop(&x); box_drop(&y); box_drop(&src); box_drop(&index);
        }
}

TEST(nonzero_in_order) {
    static const int64_t shapes_[][3] = {{0, 3, 5}, {1, 1, 1}, {3, 5, 7}, {16384, 1, 1}, {2, 8192, 3}, {5, 7, 9001}};
    box_state = test_seed();
    for (size_t s = 0; s < sizeof shapes_ / sizeof *shapes_; s++)
        for (uint32_t rare = 1; rare < 2000; rare *= 11) {
            box x = dense(CR_BOOL, 3, shapes_[s]);
            int64_t count = 0, got = -1;
            for (int64_t i = 0; i < x.t.numel; i++) count += *(bool *)item(&x, i) = !box_draw(rare);
            memcpy(x.before, x.memory, x.bytes);
            OK(cr_cpu_nonzero(&(cr_nonzero_args){.x = *box_array(&x), .count = &got}));
            CHECK(got == count, "counted %lld of %lld", (long long)got, (long long)count);
            box y = box_make(CR_I64, 2, (int64_t[]){count, 3}, (int64_t[]){1, count});
            TWICE("nonzero", &y, cr_cpu_nonzero(&(cr_nonzero_args){*box_array(&y), *box_array(&x), &got}));
            for (int64_t i = 0, k = 0; i < x.t.numel; i++) {
                if (!*(bool *)item(&x, i)) continue;
                int64_t at = 0;
                for (int d = 0; d < 3; d++) at = at * shapes_[s][d] + *(int64_t *)(void *)item(&y, k + d * count);
                CHECK(at == i, "position %lld is %lld, not %lld", (long long)k, (long long)at, (long long)i);
                k++;
            }
            box_drop(&x); box_drop(&y);
        }
}

/* A bad index anywhere is found before the first byte is written. */
TEST(indices_out_of_range) {
    static const int64_t bad[] = {5, -1, INT32_MAX, INT32_MIN};
    static const char *const said[] = {"index 5 at position 23 is out of range for size 5", "index -1 at position 23",
                                       "index 2147483647", "index -2147483648"};
    box_state = test_seed();
    for (int i = 0; i < 8; i++) {
        cr_dtype dt = i % 2 ? CR_I32 : CR_I64;
        box x = dense(CR_F32, 3, (int64_t[]){3, 5, 2}), y = dense(CR_F32, 3, (int64_t[]){3, 4, 2}),
            index = indices(dt, 3, (int64_t[]){3, 4, 2}, 5);
        cr_store_i64(item(&index, 23), dt, bad[i / 2]);
        FAILS(CR_BAD_INDEX, said[i / 2],
              cr_cpu_gather(&(cr_gather_args){*box_array(&y), *box_array(&x), *box_array(&index)}));
        FAILS(CR_BAD_INDEX, said[i / 2],
              cr_cpu_scatter(&(cr_scatter_args){*box_array(&x), *box_array(&index), *box_array(&y), i % 3}));
        FAILS(CR_BAD_INDEX, "[gather]",
              cr_cpu_gather(&(cr_gather_args){*box_array(&y), *box_array(&x), *box_array(&index)}));
        CHECK(!memcmp(x.memory, x.before, x.bytes), "something was written");
        box w = dense(CR_BF16, 3, (int64_t[]){1, 5, 3}), g = dense(CR_BF16, 3, (int64_t[]){1, 24, 3});
        const bool wrap = bad[i / 2] != -1 && i % 2;
        FAILS(CR_BAD_INDEX, "out of range for size 5",
              cr_cpu_put_rows(
                  &(cr_put_rows_args){"put", *box_array(&w), *box_array(&index), *box_array(&g), i % 3, wrap}));
        FAILS(CR_BAD_INDEX, "[embedding]",
              cr_cpu_take_rows(
                  &(cr_take_rows_args){"embedding", *box_array(&g), *box_array(&w), *box_array(&index), wrap}));
        const cr_array sum = {.dtype = CR_I64, .numel = 24, .ndim = 1, .storage = g.t.storage}, *of = box_array(&index);
        if (bad[i / 2] != -1)
            FAILS(CR_BAD_INDEX, said[i / 2], cr_cpu_ravel(&(cr_ravel_args){"ravel", sum, 1, &of, (int64_t[]){5}}));
        CHECK(!memcmp(w.memory, w.before, w.bytes), "something was written");
        box_drop(&x); box_drop(&y); box_drop(&index); box_drop(&w); box_drop(&g);
    }
    box big = indices(CR_I32, 1, (int64_t[]){100000}, 5), w = dense(CR_U8, 3, (int64_t[]){1, 5, 1}),
        y = dense(CR_U8, 3, (int64_t[]){1, 100000, 1});
    cr_store_i64(item(&big, 77777), CR_I32, 9);
    FAILS(CR_BAD_INDEX, "index 9 at position 77777 is out of range for size 5",
          cr_cpu_take_rows(&(cr_take_rows_args){"take", *box_array(&y), *box_array(&w), *box_array(&big), false}));
    big.t.dtype = CR_F32;
    FAILS(CR_BAD_TYPE, "float32",
          cr_cpu_take_rows(&(cr_take_rows_args){"take", *box_array(&y), *box_array(&w), *box_array(&big), false}));
    box_drop(&big); box_drop(&w); box_drop(&y);
}
