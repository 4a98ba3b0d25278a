/* test_einsum.c - einsum and its relatives: random equations against plain loops over every label,
 * first and second derivatives, what is refused. */
#include "test.h"
#include "core/dtype.h"
#include "core/rng.h"


static uint64_t state;
static int below(int n) {
    uint32_t w[4];
    cr_philox(test_seed(), state++, w);
    return (int)(w[0] % (uint32_t)n);
}

/* ---- the definition: for every value of every label the product of what the operands have there,
 * added where the output says */
enum { MOST = 5 };
typedef struct problem {
    char text[80];
    int n;
    char in[MOST][9], out[9];
    const cr_tensor *t[MOST];
    int64_t size[26];
} problem;

static double element(const cr_tensor *t, const char *labels, const int64_t *at) {
    int64_t offset = 0;
    for (int i = 0; labels[i]; i++) offset += cr_size(t, i) == 1 ? 0 : at[labels[i] - 'a'] * cr_strides(t)[i];
    return cr_load_f64((const char *)cr_data(t) + offset * (int64_t)cr_dtype_size(cr_dtype_of(t)), cr_dtype_of(t));
}

static void definition(const problem *p, double *y) {
    int64_t at[26] = {0}, numel = 1;
    for (int i = 0; p->out[i]; i++) numel *= p->size[p->out[i] - 'a'];
    memset(y, 0, sizeof *y * (size_t)numel);
    for (int i = 0; i < 26; i++) if (!p->size[i]) return;
    for (int carry = 0; carry < 26;) {
        int64_t to = 0;
        double v = 1;
        for (int i = 0; p->out[i]; i++) to = to * p->size[p->out[i] - 'a'] + at[p->out[i] - 'a'];
        for (int i = 0; i < p->n; i++) v *= element(p->t[i], p->in[i], at);
        y[to] += v;
        for (carry = 0; carry < 26 && ++at[carry] == p->size[carry]; carry++) at[carry] = 0;
    }
}

static void check(const problem *p) {
    cr_tensor *y = cr_einsum(p->text, p->n, p->t);
    REQUIRE(y, "%s: %s", p->text, cr_error());
    double *want = malloc(sizeof *want * (size_t)(cr_numel(y) + 1)),
           *got = malloc(sizeof *got * (size_t)(cr_numel(y) + 1));
    CHECK(cr_ndim(y) == (int)strlen(p->out), "%s has %d axes", p->text, cr_ndim(y));
    for (int i = 0; i < cr_ndim(y); i++)
        REQUIRE(cr_size(y, i) == p->size[p->out[i] - 'a'], "%s: axis %d is %lld", p->text, i, (long long)cr_size(y, i));
    definition(p, want);
    OK(cr_read(y, CR_F64, got, sizeof *got * (size_t)cr_numel(y)));
    for (int64_t i = 0; i < cr_numel(y); i++)
        CHECK(fabs(got[i] - want[i]) <= 1e-9 * (1 + fabs(want[i])), "%s on %s, element %lld: %g, wanted %g", p->text,
              cr_device_name(cr_device_of(y)), (long long)i, got[i], want[i]);
    test_ran_on(cr_device_of(y));
    free(want);
    free(got);
}

/* Up to five operands over six labels, some twice in one, some of size 1 in one and longer in another; any output. */
static void random_problem(problem *p, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    static const int64_t sizes[] = {2, 3, 5, 1, 4, 0};
    *p = (problem){.n = 1 + below(MOST)};
    bool used[26] = {false};
    for (int i = 0; i < 26; i++) p->size[i] = 1;
    for (int i = 0; i < 6; i++) p->size[i] = sizes[below(below(20) ? 5 : 6)];
    for (int i = 0; i < p->n; i++) {
        int64_t shape[4];
        int axes = below(5);
        for (int k = 0; k < axes; k++) {
            int label = below(6);
            p->in[i][k] = (char)('a' + label);
            shape[k] = below(12) || strchr(p->in[i], 'a' + label) < &p->in[i][k] ? p->size[label] : 1;
            for (int j = 0; j < k; j++) if (p->in[i][j] == p->in[i][k]) shape[k] = shape[j];
            used[label] = true;
        }
        cr_tensor *x = cr_to(cr_randint(-4, 5, axes, shape, CR_I32, dev, g), dt, dev);
        /* another layout */
        if (axes > 1 && below(2)) x = cr_transpose(cr_contiguous(cr_transpose(x, 0, axes - 1)), 0, axes - 1);
        p->t[i] = x;
        strcat(strcat(p->text, i ? "," : ""), p->in[i]);
    }
    for (int i = 0; i < 6; i++) {                   /* what is 1 wherever it stands is 1 */
        int64_t most = 1;
        for (int k = 0; k < p->n; k++)
            for (int j = 0; p->in[k][j]; j++)
                if (p->in[k][j] == 'a' + i && cr_size(p->t[k], j) != 1) most = cr_size(p->t[k], j);
        p->size[i] = most;
    }
    int n = 0;
    for (int label = below(6), i = 0; i < 6; i++, label = (label + 5) % 6)
        if (used[label] && below(2)) p->out[n++] = (char)('a' + label);
    strcat(strcat(p->text, "->"), p->out);
}

TEST(einsum_random) {
    static const cr_dtype dtypes[] = {CR_F64, CR_F64, CR_F32, CR_I64};
    cr_generator *g = cr_generator_new(test_seed());
    for (int i = 0; i < (test_full() ? 20000 : 2000); i++) {
        problem p;
        cr_scope_begin();
        random_problem(&p, dtypes[i % 4], i % 3 ? cr_cpu() : cr_ref(), g);
        check(&p);
        cr_scope_end();
    }
    cr_generator_free(g);
}

/* ---- what is written differently and means the same */
static void same_as(const char *text, const char *plain, int n, const cr_tensor *const *in) {
    cr_tensor *x = cr_einsum(text, n, in), *y = cr_einsum(plain, n, in);
    REQUIRE(x && y && cr_ndim(x) == cr_ndim(y), "'%s', '%s': %s", text, plain, cr_error());
    CHECK(cr_numel(x) == 0 || cr_item(cr_max(cr_abs(cr_sub(x, y)), CR_ALL, false)) < 1e-12, "'%s' is not '%s'", text,
          plain);
}

TEST(einsum_notation) {
    cr_scope_begin();
    cr_generator *g = cr_generator_new(test_seed());
    const cr_tensor *a = cr_randn(CR_LIST(2, 3, 5), CR_F64, cr_cpu(), g),
                    *b = cr_randn(CR_LIST(2, 5, 3), CR_F64, cr_cpu(), g),
                    *c = cr_randn(CR_LIST(5, 3), CR_F64, cr_cpu(), g);
    same_as(" ab c, acd ", "abc,acd->bd", 2, (const cr_tensor *[]){a, b});
    same_as("...ij,...jk", "bij,bjk->bik", 2, (const cr_tensor *[]){a, b});
    same_as("...ij,jk->...ik", "bij,jk->bik", 2, (const cr_tensor *[]){a, c});
    same_as("i...,i...", "ijk,ijk->jk", 2, (const cr_tensor *[]){a, a});
    same_as("ij...->...", "ijk->k", 1, &a);
    same_as("...->", "ijk->", 1, &a);
    same_as("ba", "ij->ji", 1, &c);
    same_as("aB", "ij->ji", 1, &c);
    same_as("ji...,...", "abc,->cba", 2, (const cr_tensor *[]){a, cr_full(CR_ALL, 1, CR_F64, cr_cpu())});
    CHECK(cr_data(cr_einsum("ijk->kji", 1, &a)) == cr_data(a), "a rearrangement is a view");
    const cr_tensor *all8[] = {cr_randn(CR_LIST(2, 1, 2, 1, 2, 1, 2, 3), CR_F64, cr_cpu(), g),
                               cr_randn(CR_LIST(2, 1, 2, 1, 2, 1, 2, 3), CR_F64, cr_cpu(), g)};
    same_as("abcdefgh,abcdefgh->hgfedcba", "...,...->...", 2,
            (const cr_tensor *[]){cr_ones(CR_LIST(2, 2, 2, 2, 2, 2, 2, 2), CR_F64, cr_cpu()),
                                  cr_ones(CR_LIST(2, 2, 2, 2, 2, 2, 2, 2), CR_F64, cr_cpu())});
    same_as("abcdefgh,abcdefgh", "...h,...h->", 2, all8);
    cr_generator_free(g);
    cr_scope_end();
}

/* ---- derivatives */
static cr_tensor *equation(int n, const cr_tensor *const *in, void *ctx) { return cr_einsum(ctx, n, in); }

TEST(einsum_gradients) {
    static const struct { const char *text; int n; int64_t shape[3][4];
    } cases[] = {
        {"ij,jk->ik", 2, {{3, 5}, {5, 2}}},
        {"ij,jk->ki", 2, {{3, 5}, {5, 2}}},
        {"bij,bjk->bik", 2, {{2, 3, 2}, {2, 2, 3}}},
        {"bqhd,bkhd->bhqk", 2, {{1, 2, 2, 3}, {1, 3, 2, 3}}},
        {"i,j->ij", 2, {{3}, {2}}},
        {"ii->i", 1, {{3, 3}}},
        {"ii", 1, {{3, 3}}},
        {"iji->j", 1, {{3, 2, 3}}},
        {"ijk->kj", 1, {{2, 3, 2}}},
        {"ij,ij,jk->k", 3, {{2, 3}, {2, 3}, {3, 2}}},
        {"...i,...i", 2, {{2, 3}, {2, 3}}},
        {"ij,kl->ik", 2, {{2, 3}, {2, 2}}},
        {"i,i->", 2, {{5}, {5}}},
        {"ij,jk->", 2, {{2, 1}, {3, 2}}},
    };
    for (int d = 0; d < 2; d++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            cr_generator *g = cr_generator_new(test_seed() + c);
            const cr_device *dev = d ? cr_ref() : cr_cpu();
            const cr_tensor *in[3];
            cr_scope_begin();
            for (int i = 0; i < cases[c].n; i++) {
                int n = 0;
                while (n < 4 && cases[c].shape[i][n]) n++;
                in[i] = cr_requires_grad_(cr_randn(n, cases[c].shape[i], CR_F64, dev, g), true);
            }
            OK(cr_gradcheck(equation, (void *)(uintptr_t)cases[c].text, cases[c].n, in, NULL));
            OK(cr_gradgradcheck(equation, (void *)(uintptr_t)cases[c].text, cases[c].n, in, NULL));
            test_ran_on(dev);
            cr_scope_end();
            cr_generator_free(g);
        }
}

/* ---- what is refused */
TEST(einsum_errors) {
    cr_scope_begin();
    const cr_tensor *a = cr_ones(CR_LIST(2, 3), CR_F32, cr_cpu()), *b = cr_ones(CR_LIST(4, 3), CR_F32, cr_cpu()),
                    *ab[] = {a, b};
    const cr_tensor *wide[] = {cr_ones(CR_LIST(2, 2, 2, 2, 2, 2, 2, 2), CR_F32, cr_cpu()),
                               cr_ones(CR_LIST(2), CR_F32, cr_cpu())};
    FAILS(CR_BAD_VALUE, "label 'i' is 4 in operand 1, (4, 3), and 2 before", cr_einsum("ij,ij", 2, ab));
    FAILS(CR_BAD_VALUE, "label '...' is 4 in operand 1, (4, 3), and 2 before", cr_einsum("...,...", 2, ab));
    FAILS(CR_BAD_VALUE, "label 'i' stands for sizes 2 and 3 in operand 0, (2, 3)", cr_einsum("ii", 1, &a));
    FAILS(CR_BAD_VALUE, "label 'k' of the output is in no operand", cr_einsum("ij->k", 1, &a));
    FAILS(CR_BAD_VALUE, "label 'i' of the output appears twice", cr_einsum("ij->ii", 1, &a));
    FAILS(CR_BAD_VALUE, "operand 0 has 2 axes, (2, 3), and subscripts for 3", cr_einsum("ijk", 1, &a));
    FAILS(CR_BAD_VALUE, "operand 0 has 2 axes, (2, 3), and subscripts for 3", cr_einsum("ijk...", 1, &a));
    FAILS(CR_BAD_VALUE, "subscripts for 1 operands, but 2 operands", cr_einsum("ij", 2, ab));
    FAILS(CR_BAD_VALUE, "character 3 of the equation", cr_einsum("ij;", 1, &a));
    FAILS(CR_BAD_VALUE, "character 4 of the equation", cr_einsum("...", 1, &a) ? cr_einsum("....", 1, &a) : NULL);
    FAILS(CR_BAD_VALUE, "character 3 of the equation", cr_einsum("ij-", 1, &a));
    FAILS(CR_BAD_VALUE, "goes on after its output, at character 5", cr_einsum("ij->,", 1, &a));
    FAILS(CR_BAD_VALUE, "more than 8 labels", cr_einsum("abcdefghi", 1, &a));
    FAILS(CR_BAD_VALUE, "the result would have 9 axes", cr_einsum("abcdefgh,i", 2, wide));
    FAILS(CR_BAD_VALUE, "at least one operand", cr_einsum("", 0, NULL));
    FAILS(CR_BAD_TYPE, "[einsum]",
          cr_einsum("ij,ij", 2, (const cr_tensor *[]){a, cr_ones(CR_LIST(2, 3), CR_F64, cr_cpu())}));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_einsum("ij", 1, (const cr_tensor *[]){CR_NONE}));
    char many[140] = "";
    for (int i = 0; i < 65; i++) strcat(many, i ? ",a" : "a");
    const cr_tensor *line[65];
    for (int i = 0; i < 65; i++) line[i] = wide[1];
    FAILS(CR_BAD_VALUE, "more than 64 operands", cr_einsum(many, 65, line));
    many[127] = 0;                                  /* 64 of them are fine */
    CHECK(cr_item(cr_sum(cr_einsum(strcat(many, "->a"), 64, line), CR_ALL, false)) == 2, "64 operands: %s", cr_error());
    /* every pair keeps two labels of what it shares and all eight that the third operand has */
    FAILS(CR_BAD_VALUE, "needs more than 8 axes",
          cr_einsum("abcdefgh,abcdijkl,efghijkl->abefij", 3, (const cr_tensor *[]){wide[0], wide[0], wide[0]}));
    FAILS(CR_BAD_VALUE, "[tensordot] axis 1 of (2, 3) is 3, axis 0 of (4, 3) is 4",
          cr_tensordot(a, b, 1, (const int64_t[]){1}, (const int64_t[]){0}));
    FAILS(CR_BAD_VALUE, "named twice", cr_tensordot(a, a, 2, (const int64_t[]){1, -1}, (const int64_t[]){1, 0}));
    FAILS(CR_BAD_VALUE, "cannot sum over 3 axes",
          cr_tensordot(a, b, 3, (const int64_t[]){0, 1, 2}, (const int64_t[]){0, 1, 2}));
    FAILS(CR_BAD_INDEX, "[tensordot]", cr_tensordot(a, b, 1, (const int64_t[]){INT64_MIN}, (const int64_t[]){0}));
    FAILS(CR_BAD_VALUE, "result would have 9 axes", cr_tensordot(wide[0], wide[1], 0, NULL, NULL));
    FAILS(CR_BAD_VALUE, "[inner] the last axes differ", cr_inner(a, wide[1]));
    FAILS(CR_BAD_VALUE, "[kron]", cr_kron(wide[0], a));
    FAILS(CR_BAD_VALUE, "[trace] needs a matrix", cr_trace(wide[1]));
    FAILS(CR_BAD_VALUE, "[addmm] shapes (4, 3) and (2, 2) do not broadcast",
          cr_addmm(b, a, cr_transpose(a, 0, 1), 1, 1));
    FAILS(CR_BAD_VALUE, "[addmm] (2, 1, 2) does not broadcast to the product's shape (2, 2)",
          cr_addmm(cr_ones(CR_LIST(2, 1, 2), CR_F32, cr_cpu()), a, cr_transpose(a, 0, 1), 1, 1));
    const cr_tensor *whole = cr_ones(CR_LIST(2, 2), CR_I64, cr_cpu());
    FAILS(CR_BAD_TYPE, "[addmm] a factor of int64 must be an integer of 64 bits: 0.5",
          cr_addmm(whole, whole, whole, 0.5, 1));
    FAILS(CR_BAD_TYPE, "[addmm]", cr_addmm(whole, whole, whole, 1, NAN));
    cr_scope_end();
}

/* ---- relatives: what they are as equations */
static void agrees(const char *what, const cr_tensor *x, const cr_tensor *y) {
    REQUIRE(x && y, "%s: %s", what, cr_error());
    bool same = cr_ndim(x) == cr_ndim(y);
    for (int i = 0; same && i < cr_ndim(x); i++) same = cr_size(x, i) == cr_size(y, i);
    REQUIRE(same, "%s: another shape", what);
    CHECK(cr_item(cr_max(cr_abs(cr_sub(x, y)), CR_ALL, false)) < 1e-12, "%s on %s", what,
          cr_device_name(cr_device_of(x)));
    test_ran_on(cr_device_of(x));
}
#define EINSUM(text, ...) cr_einsum(text, (int)(sizeof((const cr_tensor *[]){__VA_ARGS__}) / sizeof(cr_tensor *)), \
    (const cr_tensor *[]){__VA_ARGS__})

TEST(relatives) {
    for (int d = 0; d < 2; d++) {
        const cr_device *dev = d ? cr_ref() : cr_cpu();
        cr_generator *g = cr_generator_new(test_seed());
        cr_scope_begin();
        const cr_tensor *a = cr_randn(CR_LIST(2, 3, 5), CR_F64, dev, g),
                        *b = cr_randn(CR_LIST(5, 2, 7), CR_F64, dev, g), *m = cr_randn(CR_LIST(3, 5), CR_F64, dev, g),
                        *n = cr_randn(CR_LIST(5, 4), CR_F64, dev, g);
        const cr_tensor *u = cr_randn(CR_LIST(3), CR_F64, dev, g), *v = cr_randn(CR_LIST(5), CR_F64, dev, g),
                        *c = cr_randn(CR_LIST(2, 5, 4), CR_F64, dev, g), *x = cr_randn(CR_LIST(3, 4), CR_F64, dev, g);
        const cr_tensor *two = cr_scalar(2), *three = cr_scalar(3);
        agrees("tensordot", cr_tensordot(a, b, 2, (const int64_t[]){-1, 0}, (const int64_t[]){0, 1}),
               EINSUM("abc,cad->bd", a, b));
        agrees("tensordot without axes", cr_tensordot(m, u, 0, NULL, NULL), EINSUM("ab,c->abc", m, u));
        agrees("tensordot of all", cr_tensordot(m, m, 2, (const int64_t[]){1, 0}, (const int64_t[]){1, 0}),
               EINSUM("ab,ab", m, m));
        agrees("inner", cr_inner(a, m), EINSUM("abc,dc->abd", a, m));
        agrees("inner with a number", cr_inner(a, cr_select(u, 0, 1)), cr_mul(a, cr_select(u, 0, 1)));
        agrees("outer", cr_outer(u, v), EINSUM("i,j->ij", u, v));
        agrees("dot", cr_dot(v, v), EINSUM("i,i", v, v));
        agrees("mv", cr_mv(m, v), EINSUM("ij,j->i", m, v));
        agrees("kron", cr_kron(m, n), cr_reshape(EINSUM("ij,kl->ikjl", m, n), CR_LIST(15, 20)));
        agrees("kron of fewer axes", cr_kron(u, n), cr_reshape(EINSUM("j,kl->kjl", u, n), CR_LIST(5, 12)));
        agrees("trace", cr_trace(m), EINSUM("ii", cr_slice(m, 1, 0, 3, 1)));
        agrees("trace of a transposed matrix", cr_trace(cr_transpose(m, 0, 1)), cr_trace(m));
        agrees("addmm", cr_addmm(x, m, n, 2, 3), cr_add(cr_mul(two, x), cr_mul(three, EINSUM("ij,jk", m, n))));
        agrees("addmm of a column", cr_addmm(cr_unsqueeze(u, 1), m, n, 1, 1), cr_add(cr_unsqueeze(u, 1), cr_mm(m, n)));
        agrees("addmv", cr_addmv(u, m, v, 1, 3), cr_add(u, cr_mul(three, cr_mv(m, v))));
        agrees("addr", cr_addr(m, u, v, 2, 3), cr_add(cr_mul(two, m), cr_mul(three, cr_outer(u, v))));
        agrees("baddbmm", cr_baddbmm(x, a, c, 1, 1), cr_add(x, cr_bmm(a, c)));
        agrees("addbmm", cr_addbmm(x, a, c, 2, 3), cr_add(cr_mul(two, x), cr_mul(three, EINSUM("bij,bjk->ik", a, c))));
        cr_scope_end();
        cr_generator_free(g);
    }
}

TEST(beta_zero_ignores_nan) {
    for (int d = 0; d < 2; d++) {
        cr_scope_begin();
        const cr_device *dev = d ? cr_ref() : cr_cpu();
        const cr_tensor *nan = cr_full(CR_LIST(3, 3), NAN, CR_F32, dev), *m = cr_ones(CR_LIST(3, 3), CR_F32, dev),
                        *v = cr_ones(CR_LIST(3), CR_F32, dev);
        const cr_tensor *b = cr_ones(CR_LIST(2, 3, 3), CR_F32, dev);
        const cr_tensor *y[] = {cr_addmm(nan, m, m, 0, 2), cr_addmv(cr_select(nan, 0, 0), m, v, 0, 2),
                                cr_addr(nan, v, v, 0, 6), cr_baddbmm(nan, b, b, 0, 2), cr_addbmm(nan, b, b, 0, 1)};
        for (int i = 0; i < 5; i++)
            CHECK(y[i] && cr_item(cr_min(y[i], CR_ALL, false)) == 6 && cr_item(cr_max(y[i], CR_ALL, false)) == 6,
                  "number %d: %s", i, cr_error());
        test_ran_on(dev);
        cr_scope_end();
    }
}
