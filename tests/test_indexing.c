/* test_indexing.c - elements picked and written by index and by mask, at the edges: duplicates, in
 * place, parts of other tensors, refusals. */
#include "structured.h"

/* ---- indexing */
static void check_indexing(void) {
    cr_tensor *x = counting(CR_LIST(3, 4)), *index = cr_reshape(of_index(4, (int64_t[]){2, 0, 1, 1}), CR_LIST(2, 2));
    VALUES(cr_gather(x, 0, index), 8, 1, 4, 5);
    VALUES(cr_gather(x, -1, cr_to(index, CR_I32, dev)), 2, 0, 5, 5);
    VALUES(cr_scatter_add(x, 0, index, cr_full(CR_LIST(2, 3), 100, CR_F32, dev)), 0, 101, 2, 3, 104, 105, 6, 7, 108, 9,
           10, 11);
    VALUES(x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    FAILS(CR_BAD_INDEX, "index 3 at position 1 is out of range for size 3",
          cr_gather(x, 0, cr_reshape(of_index(2, (int64_t[]){2, 3}), CR_LIST(1, 2))));
    FAILS(CR_BAD_INDEX, "index -1", cr_scatter_add(x, 0, cr_reshape(of_index(1, (int64_t[]){-1}), CR_LIST(1, 1)), x));
    FAILS(CR_BAD_TYPE, "[gather] indices must be int32 or int64: float32", cr_gather(x, 0, x));
    FAILS(CR_BAD_VALUE, "[gather] the index (4,) must have the axes of (3, 4)",
          cr_gather(x, 0, of_index(4, (int64_t[]){0, 0, 0, 0})));
    FAILS(CR_BAD_VALUE, "[scatter_add] the source (2, 1) does not cover the index (2, 2)",
          cr_scatter_add(x, 0, index, cr_ones(CR_LIST(2, 1), CR_F32, dev)));
    FAILS(CR_BAD_TYPE, "[scatter_add] expected both to have the same dtype",
          cr_scatter_add(x, 0, index, cr_ones(CR_LIST(2, 2), CR_F64, dev)));

    cr_tensor *own = cr_requires_grad_(OF(2, 3, 1, 7), true), *src = cr_requires_grad_(OF(2, 2, 0, 1, 1), true),
              *at = of_index(5, (int64_t[]){0, 0, 1, 2, 2});
    /* equal extremes share: PyTorch's own example */
    static const struct { cr_scatter_kind kind; bool self; double y[4], down[4], dsrc[5]; } reduced[] = {
        {CR_SCATTER_SUM, false, {4, 0, 2, 7}, {0, 0, 0, 1}, {1, 1, 1, 1, 1}},
        {CR_SCATTER_PROD, true, {8, 0, 1, 7}, {4, 0, 1, 1}, {4, 4, 3, 1, 1}},
        {CR_SCATTER_MEAN, true, {2, 1.5, 1, 7}, {1. / 3, 0.5, 1. / 3, 1}, {1. / 3, 1. / 3, 0.5, 1. / 3, 1. / 3}},
        {CR_SCATTER_MEAN, false, {2, 0, 1, 7}, {0, 0, 0, 1}, {0.5, 0.5, 1, 0.5, 0.5}},
        {CR_SCATTER_AMAX, true, {2, 3, 1, 7}, {1. / 3, 1, 1. / 3, 1}, {1. / 3, 1. / 3, 0, 1. / 3, 1. / 3}},
        {CR_SCATTER_AMAX, false, {2, 0, 1, 7}, {0, 0, 0, 1}, {0.5, 0.5, 1, 0.5, 0.5}},
        {CR_SCATTER_AMIN, true, {2, 0, 1, 7}, {1. / 3, 0, 1. / 3, 1}, {1. / 3, 1. / 3, 1, 1. / 3, 1. / 3}},
    };
    for (size_t k = 0; k < sizeof reduced / sizeof *reduced; k++) {
        cr_tensor *y = cr_scatter_reduce(own, 0, at, src, reduced[k].kind, reduced[k].self);
        check_values(__FILE__, __LINE__, y, 4, reduced[k].y, 1e-12);
        OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
        check_values(__FILE__, __LINE__, cr_grad(own), 4, reduced[k].down, 1e-12);
        check_values(__FILE__, __LINE__, cr_grad(src), 5, reduced[k].dsrc, 1e-12);
        OK(cr_set_grad(own, CR_NONE));
        OK(cr_set_grad(src, CR_NONE));
    }
    cr_tensor *ends = of_index(3, (int64_t[]){0, 1, 1}), *nan = OF(1, NAN, -INFINITY),
              *whole = cr_to(OF(1, -4, 6), CR_I8, dev);
    VALUES(cr_scatter_reduce(OF(0, 0), 0, ends, nan, CR_SCATTER_AMIN, true), 0, NAN);
    VALUES(cr_scatter_reduce(OF(0, 0), 0, ends, nan, CR_SCATTER_AMAX, false), 1, NAN);
    /* floored */
    VALUES(cr_scatter_reduce(cr_to(OF(-4, -5), CR_I8, dev), 0, ends, whole, CR_SCATTER_MEAN, true), -2, -1);
    VALUES(cr_scatter_reduce(cr_to(OF(-128, -5), CR_I8, dev), 0, ends, whole, CR_SCATTER_AMIN, false), 1, -4);
    for (int k = CR_F16; k <= CR_F64; k++) {        /* the bits of a bfloat16 above 2^121 are those of a NaN of
                                                     * float16 */
        const cr_dtype dt = (cr_dtype)k;
        const double large = dt == CR_F16 ? 0x1p15 : 0x1p126, inf = INFINITY;
        cr_tensor *each = of_index(3, (int64_t[]){0, 1, 2});
        cr_tensor *low = cr_to(OF(large / 2, large, -inf), dt, dev),
                  *above = cr_to(OF(large, large / 2, -large), dt, dev);
        cr_tensor *high = cr_to(OF(-large / 2, -large, inf), dt, dev), *below = cr_to(OF(-large, -inf, large), dt, dev);
        VALUES(cr_scatter_reduce(low, 0, each, above, CR_SCATTER_AMAX, true), large, large, -large);
        VALUES(cr_scatter_reduce(high, 0, each, below, CR_SCATTER_AMIN, true), -large, -inf, large);
    }
    FAILS(CR_BAD_INDEX, "[scatter_reduce] index 1 at position 1 is out of range for size 1",
          cr_scatter_reduce(OF(0), 0, ends, nan, CR_SCATTER_AMAX, true));
    FAILS(CR_BAD_INDEX, "[scatter_reduce] index 1 at position 1 is out of range for size 1",
          cr_scatter_reduce(OF(0), 0, ends, nan, CR_SCATTER_MEAN, true));
    FAILS(CR_BAD_VALUE, "[scatter_reduce] the source (2,) does not cover the index (3,)",
          cr_scatter_reduce(OF(0), 0, ends, OF(0, 0), CR_SCATTER_SUM, true));
    FAILS(CR_BAD_VALUE, "[scatter_reduce] there is no kind 5",
          cr_scatter_reduce(OF(0), 0, ends, nan, (cr_scatter_kind)5, true));
    FAILS(CR_BAD_TYPE, "[scatter_reduce] adds and multiplies numbers, not bool",
          cr_scatter_reduce(cr_gt(nan, nan), 0, ends, cr_gt(nan, nan), CR_SCATTER_PROD, true));
    FAILS(CR_BAD_TYPE, "[scatter_reduce] expected both to have the same dtype",
          cr_scatter_reduce(x, 0, index, cr_ones(CR_LIST(2, 2), CR_F64, dev), CR_SCATTER_AMIN, true));
    FAILS(CR_BAD_INDEX, "[scatter_reduce]", cr_scatter_reduce(x, 2, index, x, CR_SCATTER_AMIN, true));

    cr_tensor *w = cr_requires_grad_(counting(CR_LIST(3, 2)), true), *rows = of_index(3, (int64_t[]){2, 0, 2});
    VALUES(cr_embedding(w, rows), 4, 5, 0, 1, 4, 5);
    VALUES(gradient_of(cr_embedding(w, rows), w), 1, 1, 0, 0, 2, 2);
    SHAPE(cr_embedding(w, cr_zeros(CR_LIST(2, 0), CR_I64, dev)), 2, 0, 2);
    FAILS(CR_BAD_INDEX, "index 3 at position 0", cr_embedding(w, of_index(1, (int64_t[]){3})));
    FAILS(CR_BAD_TYPE, "[embedding] indices must be int32 or int64: uint8",
          cr_embedding(w, cr_zeros(CR_LIST(2), CR_U8, dev)));
    FAILS(CR_BAD_VALUE, "[embedding] the table must be (rows, columns): (3,)", cr_embedding(rows, rows));

    cr_tensor *mask = cr_gt(x, cr_scalar(9));
    VALUES(cr_masked_fill(x, mask, -1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1);
    FAILS(CR_BAD_TYPE, "[masked_fill] the mask must be bool: float32", cr_masked_fill(x, x, 0));
    FAILS(CR_BAD_VALUE, "[masked_fill] shapes (3,) and (3, 4) do not broadcast",
          cr_masked_fill(x, cr_ones(CR_LIST(3), CR_BOOL, dev), 0));
    FAILS(CR_BAD_VALUE, "[masked_fill_] a result of shape (2, 3, 4)",
          cr_masked_fill_(x, cr_ones(CR_LIST(2, 3, 4), CR_BOOL, dev), 0));
    FAILS(CR_BAD_VALUE, "[masked_fill] 300 does not fit uint8",
          cr_masked_fill(cr_zeros(CR_LIST(1), CR_U8, dev), cr_ones(CR_LIST(1), CR_BOOL, dev), 300));
    VALUES(cr_tril(cr_full(CR_LIST(2, 3), NAN, CR_F32, dev), -1), 0, 0, 0, NAN, 0, 0);
    VALUES(cr_triu(x, 2), 0, 0, 2, 3, 0, 0, 0, 7, 0, 0, 0, 0);
    SHAPE(cr_tril(cr_zeros(CR_LIST(2, 0, 3), CR_F32, dev), 0), 2, 0, 3);
    FAILS(CR_BAD_VALUE, "[tril] needs a matrix: (3,)", cr_tril(rows, 0));
}
TEST(indexing) { EACH_DEVICE SCOPED(check_indexing()); }

/* Cases that rows of ops_cases.h cannot express: duplicates, in place, parts of other tensors, refusals. */
static void check_places(void) {
    cr_tensor *x = counting(CR_LIST(3, 4)), *twice = of_index(3, (int64_t[]){2, 0, 2}), *rows = counting(CR_LIST(3, 4)),
              *ten = cr_full(CR_ALL, 10, CR_F32, dev);
    VALUES(cr_index_copy(x, 0, twice, rows), 4, 5, 6, 7, 4, 5, 6, 7, 8, 9, 10, 11);
    VALUES(cr_index_add(x, 0, twice, rows), 4, 6, 8, 10, 4, 5, 6, 7, 16, 19, 22, 25);
    VALUES(cr_index_fill(x, 1, twice, cr_scalar(-1)), -1, 1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11);
    VALUES(x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);

    /* (2, 3): columns 1 and 3 of x */
    cr_tensor *turned = cr_transpose(cr_clone(x), 0, 1), *part = cr_slice(turned, 0, 1, 4, 2);
    CHECK(cr_index_add_(part, 1, twice, cr_ones(CR_LIST(2, 3), CR_F32, dev)) == part, "%s: %s", dev->name, cr_error());
    CHECK(cr_index_fill_(part, 0, of_index(1, (int64_t[]){1}), ten) == part, "%s: %s", dev->name, cr_error());
    CHECK(cr_scatter_(part, 1, cr_zeros(CR_LIST(1, 1), CR_I32, dev), cr_scalar(7)) == part, "%s: %s", dev->name,
          cr_error());
    CHECK(cr_scatter_add_(part, 0, cr_zeros(CR_LIST(1, 3), CR_I64, dev), cr_ones(CR_LIST(1, 3), CR_F32, dev)) == part,
          "%s: %s", dev->name, cr_error());
    VALUES(cr_transpose(turned, 0, 1), 0, 8, 2, 10, 4, 6, 6, 10, 8, 12, 10, 10);
    const cr_tensor *pair[] = {twice, cr_reshape(of_index(2, (int64_t[]){-1, 0}), CR_LIST(2, 1))},
                    *apart[] = {twice, CR_NONE, twice};
    cr_tensor *deep = cr_clone(cr_reshape(counting(CR_LIST(3, 1, 4)), CR_LIST(3, 1, 4)));
    VALUES(cr_index_get(x, 2, pair), 11, 3, 11, 8, 0, 8);
    SHAPE(cr_index_get(deep, 3, apart), 3, 1);
    CHECK(cr_index_put_(deep, 3, apart, ten, true) == deep, "%s: %s", dev->name, cr_error());
    VALUES(deep, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 11);
    CHECK(cr_index_put_(deep, 3, apart, cr_slice(cr_reshape(deep, CR_LIST(12)), 0, 0, 1, 1), false) == deep, "%s: %s",
          dev->name, cr_error());
    VALUES(deep, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    /* from the end */
    const cr_tensor *ends = of_index(2, (int64_t[]){-1, 0}), *last[] = {ends}, *narrow[] = {cr_to(ends, CR_I32, dev)},
                    *columns[] = {CR_NONE, ends};
    VALUES(cr_index_get(x, 1, last), 8, 9, 10, 11, 0, 1, 2, 3);
    VALUES(cr_index_get(x, 1, narrow), 8, 9, 10, 11, 0, 1, 2, 3);
    VALUES(cr_index_get(x, 2, columns), 3, 0, 7, 4, 11, 8);
    VALUES(cr_index_put(x, 2, columns, ten, true), 10, 1, 2, 13, 14, 5, 6, 17, 18, 9, 10, 21);
    cr_tensor *written = cr_clone(x);
    CHECK(cr_index_put_(written, 1, narrow, ten, false) == written, "%s: %s", dev->name, cr_error());
    VALUES(written, 10, 10, 10, 10, 4, 5, 6, 7, 10, 10, 10, 10);
    cr_tensor *own = cr_clone(x);
    CHECK(cr_index_copy_(own, 0, of_index(2, (int64_t[]){0, 1}), cr_slice(own, 0, 1, 3, 1)) == own, "%s: %s", dev->name,
          cr_error());
    VALUES(own, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11);

    cr_tensor *mask = cr_gt(x, cr_scalar(8)), *yes = cr_ones(CR_ALL, CR_BOOL, dev);
    VALUES(cr_masked_select(x, mask), 9, 10, 11);
    VALUES(cr_masked_scatter(x, mask, cr_neg(cr_arange(1, 5, 1, CR_F32, dev))), 0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3);
    VALUES(cr_nonzero(mask), 2, 1, 2, 2, 2, 3);
    VALUES(cr_nonzero(OF(0, -0.0, NAN, 2)), 2, 3);
    SHAPE(cr_nonzero(cr_zeros(CR_LIST(3, 0), CR_F32, dev)), 0, 2);
    SHAPE(cr_nonzero(yes), 1, 0);
    SHAPE(cr_index_get(x, 1, (const cr_tensor *[]){yes}), 1, 3, 4);
    SHAPE(cr_index_get(x, 2, (const cr_tensor *[]){CR_NONE, CR_NONE}), 3, 4);
    VALUES(cr_one_hot(of_index(2, (int64_t[]){2, 0}), -1), 0, 0, 1, 1, 0, 0);
    VALUES(cr_take(x, of_index(2, (int64_t[]){-1, 3})), 11, 3);
    SHAPE(cr_index_get(cr_zeros(CR_LIST(3, 0), CR_F32, dev), 1, pair), 3, 0);

#define LEAF(t) cr_requires_grad_(t, true)
    cr_tensor *w[4], *v = LEAF(cr_ones(CR_LIST(3), CR_F32, dev));
    for (int i = 0; i < 4; i++) w[i] = LEAF(counting(CR_LIST(3)));
    VALUES(gradient_of(cr_index_put(w[0], 1, pair, cr_ones(CR_LIST(3), CR_F32, dev), true), w[0]), 1, 1, 1);
    VALUES(gradient_of(cr_index_put(w[1], 1, pair, cr_ones(CR_LIST(3), CR_F32, dev), false), w[1]), 0, 1, 0);
    VALUES(gradient_of(cr_index_put(w[2], 1, pair, v, false), v), 1, 1, 1);
    VALUES(gradient_of(cr_mul(cr_index_get(w[3], 1, pair), OF(1, 2, 4)), w[3]), 2, 0, 5);

    FAILS(CR_BAD_INDEX, "index 3 at position 0 is out of range for size 0",
          cr_index_get(cr_zeros(CR_LIST(0, 2), CR_F32, dev), 1, (const cr_tensor *[]){of_index(1, (int64_t[]){3})}));
    FAILS(CR_BAD_INDEX, "[index] index -4 at position 1 is out of range for size 3",
          cr_index_get(x, 1, (const cr_tensor *[]){of_index(2, (int64_t[]){-3, -4})}));
    FAILS(CR_BAD_INDEX, "[index_put] index 4 at position 0 is out of range for size 4",
          cr_index_put(x, 2, (const cr_tensor *[]){CR_NONE, of_index(1, (int64_t[]){4})}, ten, true));
    FAILS(CR_BAD_INDEX, "[index] too many indices for a tensor of 2 axes", cr_index_get(x, 3, apart));
    FAILS(CR_BAD_INDEX, "[index] a mask of shape (3, 4) for the axes of shape (3, 1)",
          cr_index_get(deep, 1, (const cr_tensor *const *)&mask));
    FAILS(CR_BAD_INDEX,
          "[index] an index tensor holds signed integers, unsigned ones of at most 32 bits, or bool: float32",
          cr_index_get(x, 1, (const cr_tensor *const *)&x));
    FAILS(CR_BAD_VALUE, "[index_put] shapes (2,) and (3, 4) do not broadcast",
          cr_index_put(x, 1, pair, OF(1, 2), false));
    FAILS(CR_BAD_VALUE, "[index_add] a source of shape (2,) for positions of shape (3, 4)",
          cr_index_add(x, 0, twice, counting(CR_LIST(2))));
    FAILS(CR_BAD_TYPE, "[index_copy] expected both to have the same dtype: float32, int64",
          cr_index_copy(x, 0, twice, cr_zeros(CR_LIST(3, 4), CR_I64, dev)));
    FAILS(CR_BAD_VALUE, "[masked_scatter] 2 elements for a mask that is true in 3 positions",
          cr_masked_scatter(x, mask, OF(1, 2)));
    FAILS(CR_BAD_VALUE, "[one_hot] 0 classes", cr_one_hot(twice, 0));
    FAILS(CR_BAD_INDEX, "[scatter] index 2 at position 0", cr_one_hot(twice, 2));
    FAILS(CR_RUNTIME, "leaf that requires grad", cr_index_put_(w[0], 1, pair, v, true));
    FAILS(CR_BAD_VALUE, "axis 0 of (3, 4) is expanded",
          cr_index_fill_(cr_expand(OF(1, 2, 3, 4), CR_LIST(3, 4)), 0, twice, ten));
}
TEST(places) { EACH_DEVICE SCOPED(check_places()); }

TEST(nothing_leaks) { CHECK_LEAKS(check_indexing, check_places); }
