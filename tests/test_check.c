/* test_check.c - CHAINRULE_CHECK: a handle that was released is refused by name, whatever is done with
 * it; and what is borrowed is not released. */
#include "test.h"
#include "core/tensor.h"

enum { MANY = 20000 };                              /* more than the quarantine holds */
#define IS_STALE(name, x) FAILS(CR_RUNTIME, "[" name "] the tensor: this handle was released before", x)
#define IS_REFUSED(x) FAILS(CR_RUNTIME, "this handle was released before", x)

static void check(bool on) { cr_switch_set("CHECK", on ? "1" : "0"); }
static cr_tensor *ones(void) { return cr_ones(CR_LIST(2, 3), CR_F32, cr_cpu()); }
static cr_tensor *released(void) {
    cr_tensor *x = ones();
    cr_release(x);
    return x;
}

TEST(released_twice) {
    check(true);
    cr_tensor *x = released();
    IS_STALE("release", cr_release(x));
    IS_STALE("drop", cr_drop(x));
    IS_STALE("retain", cr_retain(x));
    IS_STALE("keep", cr_keep(x));
    cr_tensor *y = ones();
    CHECK(x != y, "the next tensor has the memory of the one before");
    cr_tensor *sum = cr_sum(y, CR_ALL, false);
    CHECK(cr_item(sum) == 6, "a stale handle reached another tensor");
    cr_release(sum);
    cr_release(y);
    check(false);
}

/* Each kind of way into the library, with the stale handle in each place. */
TEST(use_after_release) {
    check(true);
    cr_scope_begin();
    cr_tensor *x = released(), *y = ones(), *many[3];
    double norm;
    float values[6];
    IS_STALE("shape", cr_shape(x));
    IS_STALE("ndim", cr_ndim(x));
    IS_STALE("numel", cr_numel(x));
    IS_STALE("size", cr_size(x, 0));
    IS_STALE("device_of", cr_device_of(x));
    IS_STALE("data", cr_data(x));
    IS_STALE("item", cr_item(x));
    IS_STALE("read", cr_read(x, CR_F32, values, sizeof values));
    FAILS(CR_RUNTIME, "[write] the tensor: this handle was released before",
          cr_write(x, CR_F32, values, sizeof values));
    FAILS(CR_RUNTIME, "[add] input 0: this handle was released before", cr_add(x, y));
    FAILS(CR_RUNTIME, "[add] input 1: this handle was released before", cr_add(y, x));
    FAILS(CR_RUNTIME, "[relu] input 0: this handle was released before", cr_relu(x));
    FAILS(CR_RUNTIME, "[mul] x: this handle was released before", cr_mul_scalar(x, 2));
    FAILS(CR_RUNTIME, "[matmul]", cr_matmul(x, y));
    FAILS(CR_RUNTIME, "[matmul]", cr_matmul(y, x));
    IS_REFUSED(cr_add_(x, y));
    IS_REFUSED(cr_add_(y, x));
    IS_REFUSED(cr_fill_(x, 1));
    IS_REFUSED(cr_copy_(y, x));
    IS_REFUSED(cr_sum(x, CR_ALL, false));
    IS_REFUSED(cr_mean(x, CR_LIST(1), true));
    IS_REFUSED(cr_max(x, CR_LIST(0), false));
    IS_REFUSED(cr_reshape(x, CR_LIST(3, 2)));
    IS_REFUSED(cr_transpose(x, 0, 1));
    IS_REFUSED(cr_slice(x, 0, 0, 1, 1));
    IS_REFUSED(cr_split(x, 1, 0, 2, many));
    IS_REFUSED(cr_expand(x, CR_LIST(2, 2, 3)));
    IS_REFUSED(cr_clone(x));
    IS_REFUSED(cr_detach(x));
    IS_REFUSED(cr_to(x, CR_F64, cr_cpu()));
    IS_REFUSED(cr_softmax(x, 1));
    IS_REFUSED(cr_layer_norm(x, CR_NONE, CR_NONE, 1e-5));
    IS_REFUSED(cr_linear(y, x, CR_NONE));
    IS_REFUSED(cr_linear(y, y, x));
    IS_REFUSED(cr_cat(2, (const cr_tensor *[]){y, x}, 0));
    IS_REFUSED(cr_einsum("ij,kj->ik", 2, (const cr_tensor *[]){y, x}));
    IS_REFUSED(cr_gather(y, 0, x));
    IS_REFUSED(cr_sort(x, 0, false, NULL));
    IS_REFUSED(cr_total_norm(1, (const cr_tensor *[]){x}, &norm));
    IS_REFUSED(cr_requires_grad_(x, true));
    IS_REFUSED(cr_grad(x));
    IS_REFUSED(cr_set_grad(x, y));
    IS_REFUSED(cr_set_grad(y, x));
    IS_REFUSED(cr_backward(x, CR_NONE, NULL));
    IS_REFUSED(cr_node_of(x));
    IS_REFUSED(cr_init_normal(x, 0, 1, cr_default_generator()));
    IS_REFUSED(cr_zeros_like(x));
    cr_scope_end();
    FAILS(CR_RUNTIME, "[relu] input 0: this handle was released before", cr_relu(y));          /* by the scope */
    check(false);
}

/* The last reference of what an object lends is that object's. */
TEST(borrowed) {
    cr_params *p = cr_params_new();
    cr_tensor *w = ones();
    CHECK(cr_requires_grad_(w, true) && cr_params_add(p, "w", w) == CR_OK, "%s", cr_error());
    cr_release(w);
    FAILS(CR_RUNTIME, "[release] the tensor is borrowed", cr_release(w));
    cr_optim_options o = cr_optim_defaults(CR_SGD);
    cr_optim *opt = cr_optim_new(p, &o);
    FAILS(CR_RUNTIME, "[release] the tensor is borrowed", cr_release(cr_params_at(p, 0)));
    FAILS(CR_RUNTIME, "[drop] the tensor is borrowed", cr_drop(cr_params_get(p, "w")));
    for (int i = 0; i < 2; i++) {                   /* the first gradient is kept, the second added to it */
        cr_scope_begin();
        CHECK(cr_backward(cr_sum(cr_square(w), CR_ALL, false), CR_NONE, NULL) == CR_OK, "%s", cr_error());
        cr_scope_end();
        FAILS(CR_RUNTIME, "[release] the tensor is borrowed", cr_release(cr_grad(w)));
    }
    cr_tensor *g = cr_retain(cr_grad(w));
    cr_release(g);
    CHECK(!cr_error() && cr_optim_step(opt) == CR_OK && cr_params_numel(p) == 6, "%s", cr_error());
    cr_tensor *given = ones();
    CHECK(cr_set_grad(w, given) == CR_OK, "%s", cr_error());
    cr_release(given);
    FAILS(CR_RUNTIME, "[release] the tensor is borrowed", cr_release(given));
    CHECK(cr_set_grad(w, CR_NONE) == CR_OK && cr_is_none(cr_grad(w)), "%s", cr_error());
    cr_optim_free(opt);
    cr_params_free(p);
    CHECK(!cr_error(), "%s", cr_error());
}

TEST(other_objects) {
    check(true);
    cr_generator *g = cr_generator_new(1);
    cr_generator_free(g);
    FAILS(CR_RUNTIME, "[generator_free] the generator: this handle was released before", cr_generator_free(g));
    FAILS(CR_RUNTIME, "[generator_set] the generator: this handle was released before", cr_generator_set(g, 1, 0));
    FAILS(CR_RUNTIME, "the generator: this handle was released before", cr_randn(CR_LIST(2), CR_F32, cr_cpu(), g));
    cr_params *p = cr_params_new();
    cr_optim_options o = cr_optim_defaults(CR_SGD);
    cr_optim *opt = cr_optim_new(p, &o);
    cr_optim_free(opt);
    FAILS(CR_RUNTIME, "[optim_free] the optimizer: this handle was released before", cr_optim_free(opt));
    FAILS(CR_RUNTIME, "[optim_step] the optimizer: this handle was released before", cr_optim_step(opt));
    cr_params_free(p);
    FAILS(CR_RUNTIME, "[params_free] the parameter set: this handle was released before", cr_params_free(p));
    FAILS(CR_RUNTIME, "[params_count] the parameter set: this handle was released before", cr_params_count(p));
    cr_tokens *t = cr_tokens_new((uint32_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 8, 9);
    cr_loader_options lo = cr_loader_defaults();
    lo.batch = 1, lo.context = 2, lo.device = cr_cpu();
    cr_loader *l = cr_loader_new(t, &lo);
    CHECK(l != NULL, "%s", cr_error());
    cr_loader_free(l);
    cr_tokens_free(t);
    FAILS(CR_RUNTIME, "[loader_cursor] the loader: this handle was released before", cr_loader_cursor(l));
    FAILS(CR_RUNTIME, "[loader_free] the loader: this handle was released before", cr_loader_free(l));
    FAILS(CR_RUNTIME, "[tokens_count] the tokens: this handle was released before", cr_tokens_count(t));
    cr_tokenizer *k = cr_tokenizer_bytes();
    cr_tokenizer_free(k);
    FAILS(CR_RUNTIME, "[tokenizer_size] the tokenizer: this handle was released before", cr_tokenizer_size(k));
    cr_value *v = cr_value_new(2, cr_cpu()), *w = cr_value_new(3, cr_cpu());
    cr_value_release(v);
    FAILS(CR_RUNTIME, "the Value: this handle was released before", cr_value_release(v));
    FAILS(CR_RUNTIME, "the Value: this handle was released before", cr_value_mul(w, v));
    cr_value_release(w);
    check(false);
}

/* Memory goes round: of many released handles some have the address of the first. */
TEST(quarantine_is_bounded) {
#if defined(__SANITIZE_ADDRESS__)
    SKIP("the address sanitizer uses no memory again");
#else
    check(true);
    const cr_tensor *first = released();
    bool again = false;
    for (int i = 0; i < MANY && !again; i++) again = released() == first;
    CHECK(again, "%d released handles, and the memory of none was used again", MANY);
    const cr_value *cell = NULL;
    again = false;
    for (int i = 0; i < MANY && !again; i++) {
        cr_value *v = cr_value_new(1, cr_cpu());
        if (!cell) cell = v;
        else again = v == cell;
        cr_value_release(v);
    }
    CHECK(again, "%d released Values, and the memory of none was used again", MANY);
    check(false);
#endif
}

TEST(the_switch) {
    FAILS(CR_BAD_VALUE, "CHECK is 0 or 1, not 'yes'", cr_switch_set("CHECK", "yes"));
    check(true);
    CHECK(cr_checking, "not on");
    check(false);
    CHECK(!cr_checking, "not off");
}
