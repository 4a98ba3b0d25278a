/* test_structured.c - every structured op with NULL and CR_NONE: NULL, a message with its name, and no crash. */
#include "structured.h"

#define REFUSES(name, call)                                                                            \
    do {                                                                                               \
        for (int none = 0; none < 2; none++) {                                                         \
            const cr_tensor *n = none ? CR_NONE : NULL;                                                \
            cr_error_clear();                                                                          \
            CHECK(!(call) && cr_error() && strstr(cr_error(), "[" name "]"), "%s of %s: message '%s'", \
                  #call, none ? "CR_NONE" : "NULL", cr_error() ? cr_error() : "");                     \
        }                                                                                              \
        cr_error_clear();                                                                              \
    } while (0)

static void check_null(void) {
    cr_tensor *x = cr_ones(CR_LIST(2, 2), CR_F32, dev), *i = cr_zeros(CR_LIST(2, 2), CR_I64, dev);
    cr_generator *g = cr_default_generator();
    REFUSES("empty_like", cr_empty_like(n));
    REFUSES("zeros_like", cr_zeros_like(n));
    REFUSES("ones_like", cr_ones_like(n));
    REFUSES("reshape", cr_reshape(n, CR_LIST(1)));
    REFUSES("view", cr_view(n, CR_LIST(1)));
    REFUSES("transpose", cr_transpose(n, 0, 1));
    REFUSES("permute", cr_permute(n, CR_LIST(0)));
    REFUSES("slice", cr_slice(n, 0, 0, 1, 1));
    REFUSES("select", cr_select(n, 0, 0));
    REFUSES("expand", cr_expand(n, CR_LIST(1)));
    REFUSES("squeeze", cr_squeeze(n, CR_ALL));
    REFUSES("unsqueeze", cr_unsqueeze(n, 0));
    REFUSES("flatten", cr_flatten(n, 0, -1));
    REFUSES("contiguous", cr_contiguous(n));
    REFUSES("clone", cr_clone(n));
    REFUSES("to", cr_to(n, CR_F32, dev));
    REFUSES("cat", cr_cat(1, &n, 0)); REFUSES("stack", cr_stack(1, &n, 0));
    REFUSES("sum", cr_sum(n, CR_ALL, false));
    REFUSES("mean", cr_mean(n, CR_ALL, false));
    REFUSES("max", cr_max(n, CR_ALL, false));
    REFUSES("min", cr_min(n, CR_ALL, false));
    REFUSES("var", cr_var(n, CR_ALL, 1, false));
    REFUSES("logsumexp", cr_logsumexp(n, CR_ALL, false));
    REFUSES("prod", cr_prod(n, CR_ALL, false));
    REFUSES("nansum", cr_nansum(n, CR_ALL, false));
    REFUSES("nanmean", cr_nanmean(n, CR_ALL, false));
    REFUSES("any", cr_any(n, CR_ALL, false));
    REFUSES("all", cr_all(n, CR_ALL, false));
    REFUSES("count_nonzero", cr_count_nonzero(n, CR_ALL));
    REFUSES("std", cr_std(n, CR_ALL, 1, false)); REFUSES("norm", cr_norm(n, 2, CR_ALL, false));
    REFUSES("cumsum", cr_cumsum(n, 0));
    REFUSES("cumprod", cr_cumprod(n, 0));
    REFUSES("logcumsumexp", cr_logcumsumexp(n, 0));
    REFUSES("diff", cr_diff(n, 1, 0));
    REFUSES("argmax", cr_argmax(n, 0, false)); REFUSES("argmin", cr_argmin(n, 0, false));
    REFUSES("matmul", cr_matmul(n, x)); REFUSES("matmul", cr_matmul(x, n));
    REFUSES("linear", cr_linear(n, x, CR_NONE)); REFUSES("linear", cr_linear(x, n, CR_NONE));
    REFUSES("gather", cr_gather(n, 0, i));
    REFUSES("gather", cr_gather(x, 0, n));
    REFUSES("scatter_add", cr_scatter_add(n, 0, i, x));
    REFUSES("scatter_reduce", cr_scatter_reduce(n, 0, i, x, CR_SCATTER_SUM, true));
    REFUSES("scatter_reduce", cr_scatter_reduce(x, 0, n, x, CR_SCATTER_SUM, true));
    REFUSES("scatter_reduce", cr_scatter_reduce(x, 0, i, n, CR_SCATTER_SUM, true));
    REFUSES("scatter_add", cr_scatter_add(x, 0, n, x)); REFUSES("scatter_add", cr_scatter_add(x, 0, i, n));
    REFUSES("scatter", cr_scatter(x, 0, n, x));
    REFUSES("take", cr_take(n, i));
    REFUSES("index_select", cr_index_select(x, 0, n));
    REFUSES("index_add", cr_index_add(x, 0, i, n));
    REFUSES("index_fill", cr_index_fill(n, 0, i, x)); REFUSES("index", cr_index_get(n, 0, NULL));
    REFUSES("index_put", cr_index_put(x, 1, (const cr_tensor *const *)&i, n, false));
    REFUSES("masked_select", cr_masked_select(x, n));
    REFUSES("nonzero", cr_nonzero(n));
    REFUSES("masked_scatter", cr_masked_scatter(x, n, x));
    REFUSES("one_hot", cr_one_hot(n, 3));
    REFUSES("take_along_axis", cr_take_along_axis(x, 0, n));
    REFUSES("masked_fill", cr_masked_fill(n, x, 0));
    REFUSES("masked_fill", cr_masked_fill(x, n, 0));
    REFUSES("tril", cr_tril(n, 0));
    REFUSES("triu", cr_triu(n, 0));
    REFUSES("softmax", cr_softmax(n, 0));
    REFUSES("log_softmax", cr_log_softmax(n, 0));
    REFUSES("layer_norm", cr_layer_norm(n, CR_NONE, CR_NONE, 1e-5));
    REFUSES("rms_norm", cr_rms_norm(n, CR_NONE, 1e-5));
    REFUSES("embedding", cr_embedding(n, i));
    REFUSES("embedding", cr_embedding(x, n));
    REFUSES("cross_entropy", cr_cross_entropy(n, i, NULL)); REFUSES("cross_entropy", cr_cross_entropy(x, n, NULL));
    REFUSES("dropout", cr_dropout(n, 0.5, true, g));
    REFUSES("attention", cr_attention(n, x, x, NULL));
    REFUSES("attention", cr_attention(x, n, x, NULL));
    REFUSES("copy_", cr_copy_(x, n)); REFUSES("copy_", cr_copy_(same(n), x)); REFUSES("fill_", cr_fill_(same(n), 0));
    /* a bias that failed is not "no bias" */
    FAILS(CR_BAD_VALUE, "[linear]", cr_linear(x, x, NULL));
    FAILS(CR_BAD_VALUE, "[layer_norm]", cr_layer_norm(x, NULL, CR_NONE, 1e-5));
    FAILS(CR_BAD_VALUE, "[item]", cr_item(NULL));
    FAILS(CR_BAD_VALUE, "[item_int]", cr_item_int(CR_NONE));
    FAILS(CR_BAD_VALUE, "[read]", cr_read(NULL, CR_F32, NULL, 0));
    FAILS(CR_BAD_VALUE, "[write]", cr_write(same(CR_NONE), CR_F32, NULL, 0));
    FAILS(CR_BAD_VALUE, "[split]", cr_split(NULL, 1, 0, 1, NULL));
}
TEST(null) { EACH_DEVICE SCOPED(check_null()); }

/* The message of a composite names the call, not the op inside that failed. */
static void check_names(void) {
    cr_tensor *x = cr_ones(CR_LIST(2, 3), CR_F32, dev), *whole = cr_ones(CR_LIST(3, 2), CR_I64, dev),
              *row = cr_ones(CR_LIST(3), CR_F32, dev);
    cr_tensor *whole_row = cr_ones(CR_LIST(3), CR_I64, dev), *mask = cr_ones(CR_LIST(2), CR_BOOL, dev),
              *cube = cr_reshape(x, CR_LIST(1, 2, 3));
    FAILS(CR_BAD_TYPE, "[mm]", cr_mm(x, whole));
    FAILS(CR_BAD_TYPE, "[mv]", cr_mv(x, whole_row));
    FAILS(CR_BAD_TYPE, "[dot]", cr_dot(row, whole_row));
    FAILS(CR_BAD_VALUE, "[bmm]", cr_bmm(cube, cube));
    FAILS(CR_BAD_VALUE, "[addmm]", cr_addmm(x, x, x, 0, 1));
    FAILS(CR_BAD_TYPE, "[addmv]", cr_addmv(row, x, whole_row, 1, 1));
    FAILS(CR_BAD_TYPE, "[addr]", cr_addr(x, row, whole_row, 1, 1));
    FAILS(CR_BAD_VALUE, "[baddbmm]", cr_baddbmm(cube, cube, cube, 1, 1));
    FAILS(CR_BAD_VALUE, "[isclose]", cr_isclose(x, whole, 0, 0, false));
    FAILS(CR_BAD_VALUE, "[allclose]", cr_allclose(x, whole, 0, 0, false));
    FAILS(CR_BAD_INDEX, "[argsort]", cr_argsort(x, 2, false));
    FAILS(CR_BAD_INDEX, "[aminmax]", cr_aminmax(x, CR_LIST(2), false, NULL));
    FAILS(CR_BAD_VALUE, "[masked_scatter]", cr_masked_scatter(x, mask, x));
}
TEST(names) { EACH_DEVICE SCOPED(check_names()); }

/* The first failure of a chain is the one that is told. */
TEST(first_message) {
    dev = cr_cpu();
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(2, 3), CR_F32, dev), *bad = cr_matmul(x, x);
    CHECK(!cr_softmax(cr_layer_norm(cr_mean(bad, CR_ALL, false), CR_NONE, CR_NONE, 1e-5), 0), "NULL in gives NULL out");
    CHECK(cr_error() && strstr(cr_error(), "[matmul] inner dimensions differ"), "'%s'", cr_error());
    cr_error_clear();
    cr_scope_end();
}
