/* test_layers.c - products and the ops of neural networks at their edges, and the composites that a
 * device without fused kernels runs. */
#include "over_logits.h"
#include "structured.h"

/* ---- products */
static void check_matmul_rules(void) {
    static const struct { int na; int64_t a[4]; int nb; int64_t b[4]; int n; int64_t out[4];
    } rules[] = {
        {1, {5}, 1, {5}, 0, {0}},
        {1, {5}, 2, {5, 3}, 1, {3}},
        {2, {2, 5}, 1, {5}, 1, {2}},
        {2, {2, 5}, 2, {5, 3}, 2, {2, 3}},
        {3, {7, 2, 5}, 2, {5, 3}, 3, {7, 2, 3}},
        {2, {2, 5}, 3, {7, 5, 3}, 3, {7, 2, 3}},
        {4, {7, 1, 2, 5}, 3, {3, 5, 1}, 4, {7, 3, 2, 1}},
        {3, {7, 2, 5}, 1, {5}, 2, {7, 2}},
        {1, {5}, 4, {2, 3, 5, 7}, 3, {2, 3, 7}},
        {2, {2, 0}, 2, {0, 3}, 2, {2, 3}},
        {2, {0, 5}, 2, {5, 3}, 2, {0, 3}},
        {3, {0, 2, 5}, 2, {5, 3}, 3, {0, 2, 3}},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        cr_tensor *y = cr_matmul(cr_ones(rules[i].na, rules[i].a, CR_F32, dev),
                                 cr_ones(rules[i].nb, rules[i].b, CR_F32, dev));
        CHECK(has_shape(y, rules[i].n, rules[i].out), "rule %zu: %s", i,
              y ? cr_shape_text(y->ndim, y->shape).s : cr_error());
        if (y && y->numel)
            CHECK(cr_item(cr_max(y, CR_ALL, false)) == (double)rules[i].a[rules[i].na - 1],
                  "rule %zu: K ones add up to K", i);
    }
    cr_tensor *a = cr_ones(CR_LIST(2, 4), CR_F32, dev), *b = cr_ones(CR_LIST(3, 5), CR_F32, dev);
    FAILS(CR_BAD_VALUE, "[matmul] inner dimensions differ: (2, 4) x (3, 5)", cr_matmul(a, b));
    FAILS(CR_BAD_VALUE, "[matmul] shapes (2,) and (3,) do not broadcast",
          cr_matmul(cr_ones(CR_LIST(2, 4, 3), CR_F32, dev), cr_ones(CR_LIST(3, 3, 4), CR_F32, dev)));
    FAILS(CR_BAD_VALUE, "[matmul] both operands need an axis: () x (3, 5)", cr_matmul(cr_ones(CR_ALL, CR_F32, dev), b));
    FAILS(CR_BAD_TYPE, "[matmul] expected both to have the same dtype: float32, float64",
          cr_matmul(a, cr_ones(CR_LIST(4, 2), CR_F64, dev)));
    FAILS(CR_BAD_VALUE, "[matmul] shape (1099511627776, 1099511627776) holds too many",
          cr_matmul(cr_zeros(CR_LIST(INT64_C(1) << 40, 0), CR_F32, dev),
                    cr_zeros(CR_LIST(0, INT64_C(1) << 40), CR_F32, dev)));
    FAILS(CR_BAD_TYPE, "[matmul] takes numbers, not bool",
          cr_matmul(cr_ones(CR_LIST(2), CR_BOOL, dev), cr_ones(CR_LIST(2), CR_BOOL, dev)));
    FAILS(CR_BAD_VALUE, "[matmul] operands on two devices",
          cr_matmul(cr_ones(CR_LIST(2), CR_F32, cr_cpu()), cr_ones(CR_LIST(2), CR_F32, cr_ref())));
    bool old = cr_auto_transfer(true);
    VALUES(cr_matmul(cr_ones(CR_LIST(2), CR_F32, cr_cpu()), cr_ones(CR_LIST(2), CR_F32, cr_ref())), 2);
    cr_auto_transfer(old);
}
TEST(matmul_rules) { EACH_DEVICE SCOPED(check_matmul_rules()); }

static void check_linear(void) {
    cr_tensor *x = counting(CR_LIST(2, 3)), *w = cr_ones(CR_LIST(2, 3), CR_F32, dev),
              *b = cr_from((float[]){10, -20}, CR_LIST(2), CR_F32, dev);
    VALUES(cr_linear(x, w, b), 13, -17, 22, -8);
    VALUES(cr_linear(cr_transpose(counting(CR_LIST(3, 2)), 0, 1), w, CR_NONE), 6, 6, 9, 9);
    VALUES(cr_linear(cr_zeros(CR_LIST(2, 0), CR_F32, dev), cr_zeros(CR_LIST(2, 0), CR_F32, dev), b), 10,
           -20, 10, -20);
    SHAPE(cr_linear(cr_zeros(CR_LIST(5, 0, 3), CR_F32, dev), w, b), 5, 0, 2);
    FAILS(CR_BAD_VALUE, "[linear] the weight must be (outputs, inputs): (2,)", cr_linear(x, b, CR_NONE));
    FAILS(CR_BAD_VALUE, "[linear] the last axis of (2,) must be the 3 inputs of the weight (2, 3)",
          cr_linear(b, w, CR_NONE));
    FAILS(CR_BAD_VALUE, "[linear] the bias must be (2,): (2, 3)", cr_linear(x, w, w));
    FAILS(CR_BAD_TYPE, "[linear] expected both to have the same dtype: float32, float64",
          cr_linear(x, cr_to(w, CR_F64, dev), b));
}
TEST(linear) { EACH_DEVICE SCOPED(check_linear()); }

/* ---- neural network */
static void check_rows(void) {
    const double inf = INFINITY;
    VALUES(cr_softmax(OF(1000, 1000), 0), 0.5, 0.5);
    VALUES(cr_softmax(OF(-inf, 3), -1), 0, 1);
    VALUES(cr_log_softmax(OF(-inf, 3), -1), -inf, 0);
    VALUES(cr_softmax(OF(-inf, -inf), -1), NAN, NAN);
    VALUES(cr_softmax(cr_ones(CR_LIST(2, 2), CR_F16, dev), 0), 0.5, 0.5, 0.5, 0.5);
    VALUES(cr_softmax(cr_ones(CR_ALL, CR_F32, dev), -1), 1);
    SHAPE(cr_softmax(cr_zeros(CR_LIST(2, 0, 3), CR_F32, dev), 1), 2, 0, 3);
    FAILS(CR_BAD_TYPE, "[softmax] needs a floating point tensor: int64",
          cr_softmax(cr_ones(CR_LIST(2), CR_I64, dev), 0));
    FAILS(CR_BAD_INDEX, "[log_softmax] axis 1", cr_log_softmax(OF(1), 1));

    cr_tensor *x = cr_requires_grad_(cr_zeros(CR_LIST(0, 3), CR_F32, dev), true),
              *w = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, dev), true);
    VALUES(gradient_of(cr_layer_norm(x, w, CR_NONE, 1e-5), w), 0, 0, 0);
    VALUES(cr_layer_norm(cr_full(CR_LIST(2), 7, CR_F32, dev), CR_NONE, cr_ones(CR_LIST(2), CR_F32, dev), 1e-5), 1, 1);
    cr_tensor *half = cr_ones(CR_LIST(2), CR_BF16, dev);           /* its weight and bias pass through float32 */
    VALUES(cr_layer_norm(cr_full(CR_LIST(2), 7, CR_BF16, dev), half, half, 1e-5), 1, 1);
    VALUES(cr_rms_norm(OF(3, 4), CR_NONE, 0), 3 / sqrt(12.5), 4 / sqrt(12.5));
    FAILS(CR_BAD_VALUE, "[layer_norm] the weight must be (3,), as the last axis of (0, 3): (0, 3)",
          cr_layer_norm(x, x, CR_NONE, 1e-5));
    FAILS(CR_BAD_VALUE, "[layer_norm] the bias must be (3,)", cr_layer_norm(x, w, x, 1e-5));
    FAILS(CR_BAD_VALUE, "[rms_norm] eps must be 0 or more: -1", cr_rms_norm(x, w, -1));
    FAILS(CR_BAD_VALUE, "[rms_norm] needs a last axis", cr_rms_norm(cr_ones(CR_ALL, CR_F32, dev), CR_NONE, 0));
    FAILS(CR_BAD_TYPE, "[layer_norm] needs a floating point tensor: int32",
          cr_layer_norm(cr_ones(CR_LIST(2), CR_I32, dev), CR_NONE, CR_NONE, 0));
    FAILS(CR_BAD_TYPE, "[layer_norm] expected both to have the same dtype: float32, float64",
          cr_layer_norm(w, OF(1, 1, 1), CR_NONE, 0));
}
TEST(rows) { EACH_DEVICE SCOPED(check_rows()); }

static void check_cross_entropy(void) {
    cr_tensor *x = cr_requires_grad_(cr_zeros(CR_LIST(3, 4), CR_F32, dev), true),
              *target = of_index(3, (int64_t[]){0, -100, 3});
    cr_cross_entropy_options o = cr_cross_entropy_defaults();
    VALUES(cr_cross_entropy(x, target, NULL), log(4));
    VALUES(gradient_of(cr_cross_entropy(x, target, NULL), x), -.375, .125, .125, .125, 0, 0, 0, 0, .125, .125, .125,
           -.375);
    o.reduction = CR_SUM;
    VALUES(cr_cross_entropy(x, target, &o), 2 * log(4));
    o.reduction = CR_EACH;
    VALUES(cr_cross_entropy(x, target, &o), log(4), 0, log(4));
    VALUES(cr_cross_entropy(x, cr_full(CR_LIST(3), -100, CR_I64, dev), NULL), NAN);
    VALUES(cr_cross_entropy(cr_zeros(CR_LIST(0, 4), CR_F32, dev), cr_zeros(CR_LIST(0), CR_I64, dev), NULL), NAN);
    VALUES(cr_cross_entropy(OF(0, 0), cr_zeros(CR_ALL, CR_I32, dev), NULL), log(2));
    FAILS(CR_BAD_INDEX, "index 4 at position 1", cr_cross_entropy(x, of_index(3, (int64_t[]){0, 4, 3}), NULL));
    FAILS(CR_BAD_VALUE, "[cross_entropy] logits (3, 4) take a target of shape (3,): (2,)",
          cr_cross_entropy(x, of_index(2, (int64_t[]){0, 1}), NULL));
    FAILS(CR_BAD_TYPE, "[cross_entropy] indices must be int32 or int64: float32",
          cr_cross_entropy(x, cr_zeros(CR_LIST(3), CR_F32, dev), NULL));
    FAILS(CR_BAD_TYPE, "[cross_entropy] needs a floating point tensor: int64", cr_cross_entropy(target, target, NULL));
    FAILS(CR_BAD_VALUE, "[cross_entropy] no classes: logits (3, 0)",
          cr_cross_entropy(cr_zeros(CR_LIST(3, 0), CR_F32, dev), target, NULL));
    o.label_smoothing = 1.5;
    FAILS(CR_BAD_VALUE, "label smoothing must be in [0, 1]: 1.5", cr_cross_entropy(x, target, &o));
    o = (cr_cross_entropy_options){.reduction = (cr_reduction)9};
    FAILS(CR_BAD_VALUE, "9 is not a reduction", cr_cross_entropy(x, target, &o));
}
TEST(cross_entropy) { EACH_DEVICE SCOPED(check_cross_entropy()); }

static void check_linear_cross_entropy(void) {
    cr_tensor *x = cr_zeros(CR_LIST(2, 5), CR_F32, dev), *w = cr_zeros(CR_LIST(4, 5), CR_F32, dev),
              *target = of_index(2, (int64_t[]){1, 3});
    VALUES(cr_linear_cross_entropy(x, w, target, NULL), log(4));
    VALUES(cr_linear_cross_entropy(cr_zeros(CR_LIST(2, 0), CR_F32, dev), cr_zeros(CR_LIST(4, 0), CR_F32, dev), target,
                                   NULL), log(4));
    FAILS(CR_BAD_INDEX, "index 4 at position 1",
          cr_linear_cross_entropy(x, w, of_index(2, (int64_t[]){0, 4}), NULL));
    FAILS(CR_BAD_VALUE, "the last axis of (2, 5) must be the 3 inputs of the weight (4, 3)",
          cr_linear_cross_entropy(x, cr_zeros(CR_LIST(4, 3), CR_F32, dev), target, NULL));
    FAILS(CR_BAD_VALUE, "logits (2, 4) take a target of shape (2,): (3,)",
          cr_linear_cross_entropy(x, w, of_index(3, (int64_t[]){0, 1, 2}), NULL));
    FAILS(CR_BAD_TYPE, "same dtype", cr_linear_cross_entropy(x, cr_zeros(CR_LIST(4, 5), CR_F64, dev), target, NULL));
    FAILS(CR_BAD_VALUE, "[linear_cross_entropy] 9 is not a reduction",
          cr_linear_cross_entropy(x, w, target, &(cr_cross_entropy_options){.reduction = (cr_reduction)9}));
}
TEST(linear_cross_entropy) { EACH_DEVICE SCOPED(check_linear_cross_entropy()); }

/* Logits in memory of the caller's, which the library may not write. */
static void check_borrowed_logits(void) {
    static float data[2 * 700];
    const int64_t shape[] = {2, 700}, at[] = {3, 4};
    cr_scope_begin();
    for (int i = 0; i < 2 * 700; i++) data[i] = 1;
    cr_tensor *x = cr_requires_grad_(cr_borrow(data, 2, shape, CR_F32, NULL, NULL), true);
    cr_tensor *loss = cr_cross_entropy(x, cr_from(at, CR_LIST(2), CR_I64, cr_cpu()), NULL);
    cr_release(x);
    OK(cr_backward(loss, CR_NONE, NULL));
    for (int i = 0; i < 2 * 700; i++) REQUIRE(data[i] == 1, "logit %d is %g now", i, (double)data[i]);
    cr_scope_end();
}

TEST(over_logits) {
    check_borrowed_logits();
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_F16, CR_BF16};
    for (int i = 0; i < 4; i++) {
        check_over_logits(cr_cpu(), dtypes[i], true);
        check_over_logits(cr_ref(), dtypes[i], true);
    }
}

static void check_dropout(void) {
    cr_generator *g = cr_generator_new(3);
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(5000), CR_F32, dev), true), *y = cr_dropout(x, 0.2, true, g);
    double kept = cr_item(cr_sum(cr_gt(y, cr_scalar(0)), CR_ALL, false)) / 5000;
    CHECK(fabs(kept - 0.8) < 0.02 && cr_item(cr_max(y, CR_ALL, false)) == 1.25, "dropout(0.2) kept a share of %g",
          kept);
    cr_tensor *d = gradient_of(y, x);
    CHECK(cr_item(cr_sum(cr_ne(d, y), CR_ALL, false)) == 0, "the gradient of ones is the mask and scale itself");
    CHECK(cr_dropout(x, 0.5, false, NULL)->storage == x->storage && cr_dropout(x, 0, true, g)->storage == x->storage,
          "nothing is dropped: x itself");
    CHECK(cr_item(cr_sum(cr_dropout(x, 1, true, g), CR_ALL, false)) == 0, "p = 1 drops everything");
    SHAPE(cr_dropout(cr_zeros(CR_LIST(0, 2), CR_F32, dev), 0.5, true, g), 0, 2);
    FAILS(CR_BAD_VALUE, "[dropout] the chance must be in [0, 1]: -0.1", cr_dropout(x, -0.1, true, g));
    FAILS(CR_BAD_TYPE, "[dropout] needs a floating point tensor",
          cr_dropout(cr_ones(CR_LIST(2), CR_I64, dev), 0.5, true, g));
    FAILS(CR_BAD_VALUE, "[dropout]", cr_dropout(x, 0.5, true, NULL));
    cr_generator_free(g);
}
TEST(dropout) { EACH_DEVICE SCOPED(check_dropout()); }

static cr_tensor *masked(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask) {
    return cr_attention(q, k, v, &(cr_attention_options){.mask = mask});
}

/* q (2, 3, 5, 7), k and v (2, 3, 4, 7) */
static void check_attention_mask(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v) {
    cr_tensor *plain = cr_attention(q, k, v, NULL), *all = cr_ones(CR_LIST(5, 4), CR_BOOL, dev),
              *none = cr_zeros(CR_LIST(4), CR_BOOL, dev);
    CHECK(cr_item(cr_max(cr_abs(cr_sub(masked(q, k, v, CR_NONE), plain)), CR_ALL, false)) == 0, "CR_NONE is no mask");
    CHECK(cr_item(cr_max(cr_abs(cr_sub(masked(q, k, v, all), plain)), CR_ALL, false)) == 0,
          "a mask of true hides nothing");
    CHECK(cr_item(cr_max(cr_abs(masked(q, k, v, none)), CR_ALL, false)) == 0, "queries that see nothing give 0");
    cr_tensor *low = cr_tril(cr_ones(CR_LIST(5, 4), CR_BOOL, dev), -1),
              *causal = cr_attention(q, k, v, &(cr_attention_options){.causal = true});
    CHECK(cr_item(cr_max(cr_abs(cr_sub(masked(q, k, v, low), causal)), CR_ALL, false)) < 1e-12,
          "causal is a mask that is true below the diagonal");
    cr_tensor *lost = cr_requires_grad_(cr_full(CR_LIST(5, 4), -INFINITY, CR_F64, dev), true),
              *x = cr_requires_grad_(cr_clone(q), true);
    cr_tensor *y = masked(x, k, v, lost), *grads[2];
    OK(cr_gradients(1, (const cr_tensor *[]){y}, (const cr_tensor *[]){q}, 2, (const cr_tensor *[]){x, lost}, grads,
                    NULL));
    for (int i = 0; i < 2; i++)
        CHECK(cr_item(cr_sum(cr_abs(grads[i]), CR_ALL, false)) == 0,
              "no gradient where nothing is seen, and no NaN: input %d", i);
    FAILS(CR_BAD_TYPE, "[attention] the mask must be bool or float64, as q is: float32",
          masked(q, k, v, cr_ones(CR_LIST(5, 4), CR_F32, dev)));
    FAILS(CR_BAD_TYPE, "[attention] the mask must be bool or float64, as q is: int64",
          masked(q, k, v, cr_ones(CR_LIST(5, 4), CR_I64, dev)));
    FAILS(CR_BAD_VALUE, "[attention] the mask does not broadcast to the scores (B, H, T, S): (5, 5), (2, 3, 5, 4)",
          masked(q, k, v, cr_ones(CR_LIST(5, 5), CR_BOOL, dev)));
    FAILS(CR_BAD_VALUE, "[attention] the mask does not broadcast",
          masked(q, k, v, cr_ones(CR_LIST(1, 1, 1, 5, 4), CR_BOOL, dev)));
    FAILS(CR_BAD_VALUE, "[attention] operands on two devices",
          masked(q, k, v, cr_ones(CR_LIST(5, 4), CR_BOOL, dev == cr_cpu() ? cr_ref() : cr_cpu())));
}

static void check_attention(void) {
    cr_tensor *q = normal(CR_LIST(2, 3, 5, 7), 1), *k = normal(CR_LIST(2, 3, 4, 7), 2),
              *v = normal(CR_LIST(2, 3, 4, 7), 3);
    const cr_attention_options causal = {.causal = true};
    cr_tensor *y = cr_attention(q, k, v, &causal);
    SHAPE(y, 2, 3, 5, 7);
    CHECK(cr_is_contiguous(cr_transpose(y, 1, 2)), "heads side by side need no copy");
    cr_tensor *blind = cr_select(y, 2, 0);          /* T = S + 1: the first query sees no key */
    CHECK(cr_item(cr_max(cr_abs(blind), CR_ALL, false)) == 0, "a query that sees nothing gives 0");
    cr_tensor *first = cr_sub(cr_select(y, 2, 1), cr_select(v, 2, 0));
    CHECK(cr_item(cr_max(cr_abs(first), CR_ALL, false)) < 1e-12, "a query that sees one key gives its value");
    /* D not contiguous */
    cr_tensor *spread = cr_permute(cr_contiguous(cr_permute(q, CR_LIST(3, 2, 1, 0))), CR_LIST(3, 2, 1, 0));
    cr_tensor *apart = cr_sub(cr_attention(spread, k, v, &causal), y);
    CHECK(cr_item(cr_max(cr_abs(apart), CR_ALL, false)) < 1e-12, "strides do not matter");
    cr_tensor *nothing = cr_zeros(CR_LIST(2, 3, 0, 7), CR_F64, dev), *zero = cr_attention(q, nothing, nothing, NULL);
    CHECK(cr_item(cr_max(cr_abs(zero), CR_ALL, false)) == 0, "no keys at all give 0");
    SHAPE(cr_attention(nothing, k, v, &causal), 2, 3, 0, 7);
    FAILS(CR_BAD_VALUE,
          "[attention] takes q (B, H, T, D) and k, v (B, KV, S, D), KV divides H: (2, 3, 5, 7), (2, 3, 4, 7), (2, 3, "
          "5, 7)",
          cr_attention(q, k, q, NULL));
    FAILS(CR_BAD_VALUE, "[attention] takes q", cr_attention(cr_select(q, 0, 0), k, v, NULL));
    FAILS(CR_BAD_VALUE, "[attention] takes q", cr_attention(q, cr_slice(k, 1, 0, 2, 1), cr_slice(v, 1, 0, 2, 1), NULL));
    FAILS(CR_BAD_VALUE,
          "[attention] window must be >= 0, and window and shift are for causal attention: window 3, shift 0, not "
          "causal",
          cr_attention(q, k, v, &(cr_attention_options){.window = 3}));
    FAILS(CR_BAD_VALUE, "[attention] window must be >= 0",
          cr_attention(q, k, v, &(cr_attention_options){.causal = true, .window = -1}));
    FAILS(CR_BAD_TYPE, "[attention] expected both to have the same dtype: float64, float32",
          cr_attention(q, k, cr_to(v, CR_F32, dev), NULL));
    check_attention_mask(q, k, v);
    FAILS(CR_BAD_VALUE, "[attention] the scale must be finite: nan",
          cr_attention(q, k, v, &(cr_attention_options){.scale = NAN}));
}
TEST(attention) { EACH_DEVICE SCOPED(check_attention()); }

static void check_attention_packed(void) {
    cr_tensor *qkv = cr_ones(CR_LIST(1, 4, 3, 2, 8), CR_F32, dev);
    CHECK(cr_item(cr_sum(cr_attention_packed(qkv, NULL), CR_ALL, false)) == 64, "%s", cr_error());
    CHECK(cr_numel(cr_attention_packed(cr_ones(CR_LIST(1, 0, 3, 2, 8), CR_F32, dev), NULL)) == 0, "%s", cr_error());
    FAILS(CR_BAD_VALUE, "takes q, k and v as (B, T, 3, H, D): (1, 4, 2, 2, 8)",
          cr_attention_packed(cr_ones(CR_LIST(1, 4, 2, 2, 8), CR_F32, dev), NULL));
    FAILS(CR_BAD_VALUE, "[attention_packed] takes no mask",
          cr_attention_packed(qkv, &(cr_attention_options){.mask = qkv}));
    FAILS(CR_BAD_VALUE, "the scale must be finite", cr_attention_packed(qkv, &(cr_attention_options){.scale = NAN}));
}
TEST(attention_packed) { EACH_DEVICE SCOPED(check_attention_packed()); }

/* ---- a device without fused kernels: every composite against the kernel of ref, and its gradients */
static cr_kernels plain_kernels;
static cr_device plain;

static void make_plain_device(void) {
    plain_kernels = *cr_device_ref.kernels;
    plain_kernels.softmax = NULL; plain_kernels.softmax_bwd = NULL;
    plain_kernels.norm = NULL; plain_kernels.norm_bwd = NULL;
    plain_kernels.cross_entropy = NULL; plain_kernels.cross_entropy_bwd = NULL;
    plain_kernels.attention = NULL; plain_kernels.attention_bwd = NULL;
    plain = cr_device_ref;
    plain.name = "plain"; plain.type = "plain"; plain.kernels = &plain_kernels;
}

typedef cr_tensor *(*fused_fn)(const cr_tensor *const *in, const cr_tensor *index);
static cr_tensor *run_softmax(const cr_tensor *const *in, const cr_tensor *i) { (void)i; return cr_softmax(in[0], 1); }
static cr_tensor *run_log_softmax(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    return cr_log_softmax(in[0], -1);
}
static cr_tensor *run_layer_norm(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    return cr_layer_norm(in[0], in[1], in[2], 1e-5);
}
static cr_tensor *run_bare_norm(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    return cr_layer_norm(in[0], CR_NONE, CR_NONE, 1e-5);
}
static cr_tensor *run_rms_norm(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    return cr_rms_norm(in[0], in[1], 1e-6);
}
static cr_tensor *run_cross_entropy(const cr_tensor *const *in, const cr_tensor *i) {
    return cr_cross_entropy(in[0], i, &(cr_cross_entropy_options){.ignore_index = 2, .label_smoothing = 0.1});
}
static cr_tensor *run_attention(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    const cr_tensor *x = cr_unsqueeze(in[0], 0);    /* T 3, S 2 of 3: the first query sees nothing */
    return cr_attention(x, cr_slice(x, 2, 0, 2, 1), cr_slice(cr_mul(x, x), 2, 1, 3, 1),
                        &(cr_attention_options){.causal = true, .scale = 0.7});
}

static cr_tensor *run_attention_mask(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    const cr_tensor *x = cr_unsqueeze(in[0], 0);    /* the mask (1, 3, 3) hides some keys, and all of them from the
                                                     * second query */
    cr_tensor *sees = cr_gt(cr_reshape(of_index(9, (int64_t[]){1, 0, 1, 0, 0, 0, 1, 1, 0}), CR_LIST(3, 3)),
                            cr_scalar_int(0));
    return cr_attention(x, x, cr_mul(x, x), &(cr_attention_options){.mask = sees});
}
static cr_tensor *run_attention_bias(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    const cr_tensor *x = cr_unsqueeze(in[0], 0);    /* the mask's gradient is wanted, over 3 queries */
    return cr_attention(x, x, cr_mul(x, x),
                        &(cr_attention_options){.mask = cr_slice(in[1], 0, 0, 3, 1), .causal = true});
}

/* Value and gradients of f at the same numbers on one device; with create_graph the gradients of a gradient too. */
static void run_on(const cr_device *d, fused_fn f, cr_dtype dt, bool second, double *out, int *n) {
    dev = d;
    const cr_tensor *in[3] = {normal(CR_LIST(2, 3, 5), 11), normal(CR_LIST(5), 12), normal(CR_LIST(5), 13)};
    for (int i = 0; i < 3; i++) in[i] = cr_requires_grad_(cr_to(in[i], dt, d), true);
    cr_tensor *index = cr_reshape(of_index(6, (int64_t[]){0, 4, 2, 1, 2, 3}), CR_LIST(2, 3)), *y = f(in, index),
              *grads[3];
    *n = 0;
    if (!y) { CHECK(false, "%s: %s", d->name, cr_error()); return; }
    cr_tensor *loss = cr_sum(
        cr_mul(y, cr_to(cr_reshape(cr_arange(1, 1 + (double)y->numel, 1, CR_F32, d), y->ndim, y->shape), dt, d)),
        CR_ALL, false);
    OK(cr_gradients(1, (const cr_tensor *const[]){loss}, NULL, 3, in, grads,
                    &(cr_backward_options){.create_graph = second}));
    if (second) {
        cr_tensor *square = cr_sum(cr_mul(grads[0], grads[0]), CR_ALL, false);
        OK(cr_gradients(1, (const cr_tensor *const[]){square}, NULL, 3, in, grads, NULL));
    }
    OK(cr_read(y, CR_F64, out, sizeof *out * (size_t)y->numel));
    *n = (int)y->numel;
    for (int i = 0; i < 3; i++) {
        if (!grads[i] || cr_is_none(grads[i])) continue;
        OK(cr_read(grads[i], CR_F64, out + *n, sizeof *out * (size_t)grads[i]->numel));
        *n += (int)grads[i]->numel;
    }
}

static void compare_composite(const char *name, fused_fn f, cr_dtype dt, bool second, double tolerance) {
    double want[256], got[256];
    int n_want, n_got;
    cr_scope_begin();
    run_on(cr_ref(), f, dt, second, want, &n_want);
    run_on(&plain, f, dt, second, got, &n_got);
    CHECK(n_want == n_got && n_got, "%s: %d numbers, wanted %d", name, n_got, n_want);
    double scale = 1;
    for (int i = 0; i < n_want; i++) scale = fmax(scale, fabs(want[i]));
    for (int i = 0; i < n_got && n_got == n_want; i++)
        CHECK(fabs(got[i] - want[i]) <= tolerance * scale, "%s %s%s: number %d is %.17g, wanted %.17g", name,
              cr_dtype_name(dt), second ? " second" : "", i, got[i], want[i]);
    cr_scope_end();
}

TEST(composites) {
    static const struct { const char *name; fused_fn f;
    } all[] = {
        {"softmax", run_softmax},           {"log_softmax", run_log_softmax},  {"layer_norm", run_layer_norm},
        {"bare layer_norm", run_bare_norm}, {"rms_norm", run_rms_norm},        {"cross_entropy", run_cross_entropy},
        {"attention", run_attention},       {"attention", run_attention_mask}, {"attention", run_attention_bias}};
    make_plain_device();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        compare_composite(all[i].name, all[i].f, CR_F64, false, 1e-12);
        compare_composite(all[i].name, all[i].f, CR_F64, true, 1e-11);
        compare_composite(all[i].name, all[i].f, CR_F32, false, 1e-5);
        compare_composite(all[i].name, all[i].f, CR_BF16, false, 0.03);
    }
}

/* Where only the fused gradient is missing, the gradient of the fused forward pass is the composed one. */
TEST(composed_gradients) {
    make_plain_device();
    plain_kernels.softmax = cr_device_ref.kernels->softmax;
    plain_kernels.norm = cr_device_ref.kernels->norm;
    plain_kernels.cross_entropy = cr_device_ref.kernels->cross_entropy;
    plain_kernels.attention = cr_device_ref.kernels->attention;
    compare_composite("softmax", run_softmax, CR_F64, false, 1e-12);
    compare_composite("layer_norm", run_layer_norm, CR_F64, false, 1e-12);
    compare_composite("cross_entropy", run_cross_entropy, CR_F64, false, 1e-12);
    compare_composite("attention", run_attention, CR_F64, false, 1e-12);
    compare_composite("attention", run_attention_mask, CR_F64, false, 1e-12);
}

TEST(nothing_leaks) { CHECK_LEAKS(check_linear, check_rows, check_cross_entropy, check_dropout, check_attention); }
