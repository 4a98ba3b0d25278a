/* chainrule.h - tensors, automatic differentiation and neural networks in C17.  This file is the reference card.
 *
 * Ownership   A function that returns a tensor returns a new reference that the caller owns: cr_release it, or call inside a
 *             scope, which owns every new handle of its thread.  Arguments are borrowed.  "borrowed" in a comment: do not release.
 * Errors      A failure returns NULL (or a status, never CR_OK) and leaves a message in cr_error().  NULL in gives NULL out and
 *             keeps the first message until cr_error_clear(), so a chain of calls needs one check at its end.
 *             An absent optional tensor is CR_NONE, never NULL.  The library never prints, exits or aborts.
 * Lists       (int n, const int64_t *list) arguments take CR_LIST(2, 3, 4); CR_ALL means every axis.  Axes may be negative.
 * Threads     Threads may share tensors, and graphs with retain_graph: gradients add up.  Writes need an order of the caller's.
 *             Errors, scopes and the gradient mode belong to the thread.  See docs/howto/threads.md.
 * Letters     B batch, T time, C channels (OC out), V vocabulary, H heads, D head size, M N K a product (M K) x (K N).
 */
#ifndef CHAINRULE_H
#define CHAINRULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define CR_VERSION "0.1.0"
#define CR_MAX_DIMS 8

#ifdef __cplusplus
}                                                          /* C++ has no compound literals; the list lives to the end of the statement */
#include <initializer_list>
template <class... T> char (&cr_list_count(const T &...))[sizeof...(T)];    /* only for sizeof, which evaluates nothing */
inline const int64_t *cr_list_data(std::initializer_list<int64_t> list) { return list.begin(); }
extern "C" {
#define CR_LIST(...) static_cast<int>(sizeof(cr_list_count(__VA_ARGS__))), cr_list_data({__VA_ARGS__})
#else
#define CR_LIST(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#endif
#define CR_ALL 0, (const int64_t *)0                       /* every axis; as a shape: no dimensions, a scalar */

typedef struct cr_tensor cr_tensor;
typedef struct cr_device cr_device;
typedef struct cr_node cr_node;
typedef struct cr_value cr_value;
typedef struct cr_program cr_program;
typedef struct cr_generator cr_generator;
typedef struct cr_params cr_params;
typedef struct cr_optim cr_optim;
typedef struct cr_tokenizer cr_tokenizer;
typedef struct cr_tokens cr_tokens;
typedef struct cr_loader cr_loader;
typedef struct cr_gpt cr_gpt;

extern const cr_tensor cr_none_tensor;
#define CR_NONE (&cr_none_tensor)                          /* "this optional tensor is absent" */

/* ---- errors --------------------------------------------------------------------------------------------- */
typedef enum cr_status { CR_OK, CR_BAD_VALUE, CR_BAD_TYPE, CR_BAD_INDEX, CR_RUNTIME, CR_NO_MEMORY, CR_IO, CR_INTERRUPTED } cr_status;

const char *cr_version(void);                              /* "0.1.0" of the library that runs */
const char *cr_error(void);                                /* this thread's first message since the last clear, or NULL */
cr_status   cr_error_status(void);                         /* its kind; CR_OK when there is none */
void        cr_error_clear(void);

/* ---- dtypes --------------------------------------------------------------------------------------------- */
typedef enum cr_dtype {
    CR_BOOL, CR_U8, CR_U16, CR_U32, CR_U64, CR_I8, CR_I16, CR_I32, CR_I64, CR_F16, CR_BF16, CR_F32, CR_F64, CR_DTYPES
} cr_dtype;

const char *cr_dtype_name(cr_dtype dt);                    /* "float32", "bool"... as PyTorch says it */
size_t      cr_dtype_size(cr_dtype dt);                    /* bytes */
bool        cr_dtype_is_float(cr_dtype dt);
cr_dtype    cr_promote(cr_dtype a, cr_dtype b);            /* PyTorch's table: docs/dtypes.md */
bool        cr_can_cast(cr_dtype from, cr_dtype to);       /* may a result of `from` be written into a tensor of `to`?  Floats not into integers, numbers not into bool */

/* ---- devices and threads -------------------------------------------------------------------------------- */
const cr_device *cr_cpu(void);
const cr_device *cr_ref(void);                             /* the plainest loops, in double: the meaning of every op */
const cr_device *cr_gpu(int i);                            /* the i-th GPU, the fastest first: 0; NULL and a message when there is none */
const cr_device *cr_cuda(int i);                           /* the i-th NVIDIA GPU */
int              cr_cuda_count(void);                      /* how many; 0: cr_cuda(0) says why */
const cr_device *cr_webgpu(int i);                         /* the i-th GPU behind WebGPU: any vendor's */
const cr_device *cr_device_find(const char *name);         /* "cpu", "ref", "gpu", "cuda:0", "webgpu:0"; NULL and a message when there is none
                                                              "auto": CUDA, else another GPU of hardware, else the cpu */
const cr_device *cr_device_at(int i);                      /* i-th device of this process, NULL past the end (no error) */
const cr_device *cr_default_device(void);                  /* cpu, or CHAINRULE_DEVICE */
cr_status        cr_set_default_device(const cr_device *dev);
const char      *cr_device_name(const cr_device *dev);
const char      *cr_device_info(const cr_device *dev);     /* one line: instruction set, engine and its version */
cr_status        cr_synchronize(const cr_device *dev);     /* waits; returns an error that a kernel found */
typedef struct cr_memory { int64_t current, peak, cached; } cr_memory;      /* bytes in use, most ever, kept for reuse */
cr_memory        cr_memory_stats(const cr_device *dev);
void             cr_empty_cache(const cr_device *dev);     /* gives cached blocks back to the system */
bool             cr_auto_transfer(bool on);                /* mixed devices move to the first operand's, in this thread; returns the old setting */
bool             cr_switch_at(int i, const char **name, const char **doc, const char **value);  /* i-th run-time switch (CHAINRULE_...), false past the end; value NULL: not set */
cr_status        cr_switch_set(const char *name, const char *value);        /* "CHAINRULE_ISA" or "ISA"; before the environment's value, which NULL brings back; an error where it is too late */
int              cr_num_threads(void);
cr_status        cr_set_num_threads(int n);                /* >= 1; results have the same bits for any n */
typedef bool (*cr_asked)(void *ctx);
void             cr_set_interrupt(cr_asked asked, void *ctx);               /* process-wide, NULL: off: called now and then on every thread that is in a long call; true: that call
                                                              fails with CR_INTERRUPTED; what it was writing in place is left half written.  Set while no thread works */

/* Every op between the two, of any thread, as an event of a trace that Perfetto and chrome://tracing show: when, how long, shapes, dtypes,
 * bytes of its operands, device, place.  The first 100000 events are kept; the file says how many came after. */
cr_status        cr_profile_begin(void);
cr_status        cr_profile_end(const char *path);         /* writes the file (JSON) */

/* ---- scopes and references ------------------------------------------------------------------------------ */
void       cr_scope_begin(void);                           /* from here this thread's new handles belong to the scope */
void       cr_scope_end(void);                             /* releases what the innermost scope still owns */
cr_tensor *cr_keep(cr_tensor *t);                          /* moves t out to the scope around, or to the caller; returns t */
void       cr_release(const cr_tensor *t);                 /* a handle that a function returned; inside its scope: takes it out early */
cr_tensor *cr_retain(const cr_tensor *t);                  /* one more reference, for an object that stores t; no scope owns it */
void       cr_drop(const cr_tensor *t);                    /* gives back what cr_retain took; NULL and CR_NONE are fine for all three */

/* ---- random numbers: Philox 4x32-10, the same bits on every device ---------------------------------------- */
cr_generator *cr_generator_new(uint64_t seed);
void          cr_generator_free(cr_generator *g);
cr_generator *cr_default_generator(void);                  /* borrowed, shared by the process */
void          cr_manual_seed(uint64_t seed);               /* seeds the default generator */
uint64_t      cr_generator_seed(cr_generator *g);          /* from the system's entropy: another stream each time; returns the seed */
void          cr_generator_get(const cr_generator *g, uint64_t *seed, uint64_t *counter);
void          cr_generator_set(cr_generator *g, uint64_t seed, uint64_t counter);

/* ---- make tensors --------------------------------------------------------------------------------------- */
cr_tensor *cr_empty(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_zeros(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_ones(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_full(int n, const int64_t *shape, double value, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_empty_like(const cr_tensor *x);
cr_tensor *cr_zeros_like(const cr_tensor *x);
cr_tensor *cr_ones_like(const cr_tensor *x);
cr_tensor *cr_scalar(double value);                        /* () that does not promote: x * 2.0 keeps x's dtype; any device */
cr_tensor *cr_scalar_int(int64_t value);                   /* the same, an integer */
cr_tensor *cr_scalar_bool(bool value);                     /* the same, a bool */
cr_tensor *cr_arange(double start, double stop, double step, cr_dtype dt, const cr_device *dev);      /* [start, stop) */
cr_tensor *cr_linspace(double start, double stop, int64_t n, cr_dtype dt, const cr_device *dev);      /* both ends */
cr_tensor *cr_eye(int64_t n, int64_t m, cr_dtype dt, const cr_device *dev);                           /* (n, m) */
cr_tensor *cr_from(const void *data, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev); /* copies host memory */
cr_tensor *cr_borrow(void *data, int n, const int64_t *shape, cr_dtype dt,
                     void (*done)(void *ctx), void *ctx);  /* cpu tensor over the caller's memory; done(ctx) when unused, from any thread; done may be NULL */
cr_tensor *cr_borrow_strided(void *data, int n, const int64_t *shape, const int64_t *strides, cr_dtype dt,
                     void (*done)(void *ctx), void *ctx);  /* the same with strides in elements, >= 0; NULL: in order without gaps */

/* ---- random tensors: no gradients; g is never NULL -------------------------------------------------------- */
cr_tensor *cr_rand(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g);  /* uniform in [0, 1) */
cr_tensor *cr_randn(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g); /* standard normal */
cr_tensor *cr_randint(int64_t low, int64_t high, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g);  /* in [low, high) */
cr_tensor *cr_gumbel(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g);  /* -log(-log(u)): argmax(log(p) + it) is a sample of p */
cr_tensor *cr_bernoulli(double p, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g); /* 1 with chance p, else 0 */
cr_tensor *cr_bernoulli_of(const cr_tensor *p, cr_generator *g);                          /* each with its own chance, in p's dtype */
cr_tensor *cr_normal(const cr_tensor *mean, const cr_tensor *std, cr_generator *g);       /* mean + std randn, broadcast; std >= 0 */
cr_tensor *cr_randperm(int64_t n, cr_dtype dt, const cr_device *dev, cr_generator *g);    /* 0 ... n - 1 in random order */
cr_tensor *cr_multinomial(const cr_tensor *w, int64_t n, bool replacement, cr_generator *g);  /* positions drawn by their weights : (N) or (M, N) -> (n) or (M, n), i64; without replacement in the order drawn */
/* x filled with such numbers; returns x (borrowed) or NULL */
cr_tensor *cr_uniform_(cr_tensor *x, double low, double high, cr_generator *g);           /* in [low, high) */
cr_tensor *cr_normal_(cr_tensor *x, double mean, double std, cr_generator *g);
cr_tensor *cr_log_normal_(cr_tensor *x, double mean, double std, cr_generator *g);        /* exp of a normal number */
cr_tensor *cr_exponential_(cr_tensor *x, double rate, cr_generator *g);                   /* density rate e^(-rate y), y > 0 */
cr_tensor *cr_cauchy_(cr_tensor *x, double median, double sigma, cr_generator *g);        /* density sigma / (pi ((y - median)^2 + sigma^2)) */
cr_tensor *cr_geometric_(cr_tensor *x, double p, cr_generator *g);                        /* trials up to the first success, 1, 2 ..., of chance p; any dtype, as those below */
cr_tensor *cr_bernoulli_(cr_tensor *x, const cr_tensor *p, cr_generator *g);              /* 1 with chance p, which broadcasts (cr_scalar(p): one for all), else 0 */
cr_tensor *cr_random_(cr_tensor *x, int64_t low, int64_t high, cr_generator *g);          /* integers in [low, high) */
cr_tensor *cr_random_all_(cr_tensor *x, cr_generator *g);                                 /* integers from 0 to the dtype's largest, of floats to the largest below which all are exact */

/* ---- look at tensors ------------------------------------------------------------------------------------ */
int              cr_ndim(const cr_tensor *t);
const int64_t   *cr_shape(const cr_tensor *t);             /* borrowed; cr_ndim entries */
const int64_t   *cr_strides(const cr_tensor *t);           /* borrowed; in elements */
int64_t          cr_storage_offset(const cr_tensor *t);    /* elements of its storage before its first one */
int64_t          cr_size(const cr_tensor *t, int axis);
int64_t          cr_numel(const cr_tensor *t);
cr_dtype         cr_dtype_of(const cr_tensor *t);
const cr_device *cr_device_of(const cr_tensor *t);
cr_dtype         cr_result_type(int n, const cr_tensor *const *in);        /* of their sum; CR_DTYPES and a message where it has none */
bool             cr_is_contiguous(const cr_tensor *t);
bool             cr_is_none(const cr_tensor *t);
double           cr_item(const cr_tensor *t);              /* the one element; NaN and a message when there are more */
int64_t          cr_item_int(const cr_tensor *t);          /* the one element of an integer tensor, exactly */
void            *cr_data(const cr_tensor *t);              /* address of the first element (cpu, ref), else NULL */
cr_status        cr_read(const cr_tensor *t, cr_dtype dt, void *dst, size_t bytes);         /* elements in order, cast to dt */
cr_status        cr_write(cr_tensor *t, cr_dtype dt, const void *src, size_t bytes);        /* in place; counts as a write */

/* ---- elementwise: shapes broadcast, dtypes promote; generated from src/ops/ops.def ------------------------- */
/* generated: begin */
/* arithmetic */
cr_tensor *cr_add(const cr_tensor *a, const cr_tensor *b);                        /* a + b */
cr_tensor *cr_sub(const cr_tensor *a, const cr_tensor *b);                        /* a - b */
cr_tensor *cr_mul(const cr_tensor *a, const cr_tensor *b);                        /* a * b */
cr_tensor *cr_div(const cr_tensor *a, const cr_tensor *b);                        /* a / b */
cr_tensor *cr_floor_divide(const cr_tensor *a, const cr_tensor *b);               /* floor(a / b); integers: an error where b is 0 */
cr_tensor *cr_trunc_divide(const cr_tensor *a, const cr_tensor *b);               /* trunc(a / b); integers: an error where b is 0 */
cr_tensor *cr_remainder(const cr_tensor *a, const cr_tensor *b);                  /* a - b floor(a / b): b's sign; integers: an error where b is 0 */
cr_tensor *cr_fmod(const cr_tensor *a, const cr_tensor *b);                       /* a - b trunc(a / b): a's sign; integers: an error where b is 0 */
cr_tensor *cr_pow(const cr_tensor *a, const cr_tensor *b);                        /* a to the b; 0 to the 0 is 1 */
cr_tensor *cr_maximum(const cr_tensor *a, const cr_tensor *b);                    /* the larger; NaN wins, ties share the gradient */
cr_tensor *cr_minimum(const cr_tensor *a, const cr_tensor *b);                    /* the smaller; NaN wins, ties share the gradient */
cr_tensor *cr_fmax(const cr_tensor *a, const cr_tensor *b);                       /* the larger, of a NaN and a number the number; the gradient of a tie is a's */
cr_tensor *cr_fmin(const cr_tensor *a, const cr_tensor *b);                       /* the smaller, of a NaN and a number the number; the gradient of a tie is a's */
cr_tensor *cr_clamp(const cr_tensor *x, double min, double max);                  /* min(max(x, min), max); gradient 1 at the bounds */
cr_tensor *cr_clamp_min(const cr_tensor *x, const cr_tensor *min);                /* max(x, min); at the bound the gradient is x's */
cr_tensor *cr_clamp_max(const cr_tensor *x, const cr_tensor *max);                /* min(x, max); at the bound the gradient is x's */
cr_tensor *cr_neg(const cr_tensor *x);                                            /* -x */
cr_tensor *cr_abs(const cr_tensor *x);                                            /* |x|; gradient 0 at 0 */
cr_tensor *cr_nan_to_num(const cr_tensor *x, double nan, double posinf, double neginf); /* x, but other numbers for NaN and the infinities; their gradient is 0 */
cr_tensor *cr_sign(const cr_tensor *x);                                           /* -1, 0 or 1 */
cr_tensor *cr_copysign(const cr_tensor *a, const cr_tensor *b);                   /* |a| with the sign of b; gradient 0 at 0 */
cr_tensor *cr_square(const cr_tensor *x);                                         /* x^2 */
cr_tensor *cr_hypot(const cr_tensor *a, const cr_tensor *b);                      /* sqrt(a^2 + b^2), no overflow */
cr_tensor *cr_reciprocal(const cr_tensor *x);                                     /* 1 / x */
cr_tensor *cr_sqrt(const cr_tensor *x);                                           /* square root */
cr_tensor *cr_rsqrt(const cr_tensor *x);                                          /* 1 / sqrt(x) */
cr_tensor *cr_where(const cr_tensor *c, const cr_tensor *a, const cr_tensor *b);  /* a where c, else b; c is bool */
cr_tensor *cr_lerp(const cr_tensor *a, const cr_tensor *end, const cr_tensor *weight); /* a + weight (end - a) */
cr_tensor *cr_addcmul(const cr_tensor *x, const cr_tensor *tensor1, const cr_tensor *tensor2, double value); /* x + value tensor1 tensor2 */
cr_tensor *cr_addcdiv(const cr_tensor *x, const cr_tensor *tensor1, const cr_tensor *tensor2, double value); /* x + value tensor1 / tensor2 */
/* exponentials and logarithms */
cr_tensor *cr_exp(const cr_tensor *x);                                            /* e^x */
cr_tensor *cr_exp2(const cr_tensor *x);                                           /* 2^x */
cr_tensor *cr_expm1(const cr_tensor *x);                                          /* e^x - 1, exact near 0 */
cr_tensor *cr_log(const cr_tensor *x);                                            /* natural logarithm */
cr_tensor *cr_log2(const cr_tensor *x);                                           /* logarithm to the base 2 */
cr_tensor *cr_log10(const cr_tensor *x);                                          /* logarithm to the base 10 */
cr_tensor *cr_logaddexp(const cr_tensor *a, const cr_tensor *b);                  /* log(e^a + e^b), no overflow */
cr_tensor *cr_logaddexp2(const cr_tensor *a, const cr_tensor *b);                 /* log2(2^a + 2^b), no overflow */
cr_tensor *cr_xlogy(const cr_tensor *a, const cr_tensor *b);                      /* a log(b); 0 where a is 0 and b is a number */
cr_tensor *cr_logit(const cr_tensor *x, double eps);                              /* log(z / (1 - z)), z = x within [eps, 1 - eps], outside of which its gradient is 0; eps -INFINITY: z = x */
cr_tensor *cr_log1p(const cr_tensor *x);                                          /* log(1 + x), exact near 0 */
/* trigonometry */
cr_tensor *cr_sin(const cr_tensor *x);                                            /* sine */
cr_tensor *cr_cos(const cr_tensor *x);                                            /* cosine */
cr_tensor *cr_tan(const cr_tensor *x);                                            /* tangent */
cr_tensor *cr_asin(const cr_tensor *x);                                           /* inverse sine */
cr_tensor *cr_acos(const cr_tensor *x);                                           /* inverse cosine */
cr_tensor *cr_atan(const cr_tensor *x);                                           /* inverse tangent */
cr_tensor *cr_atan2(const cr_tensor *a, const cr_tensor *b);                      /* angle of the point (b, a); gradient 0 at (0, 0) */
cr_tensor *cr_sinh(const cr_tensor *x);                                           /* hyperbolic sine */
cr_tensor *cr_cosh(const cr_tensor *x);                                           /* hyperbolic cosine */
cr_tensor *cr_tanh(const cr_tensor *x);                                           /* hyperbolic tangent */
cr_tensor *cr_asinh(const cr_tensor *x);                                          /* inverse hyperbolic sine */
cr_tensor *cr_acosh(const cr_tensor *x);                                          /* inverse hyperbolic cosine */
cr_tensor *cr_atanh(const cr_tensor *x);                                          /* inverse hyperbolic tangent */
cr_tensor *cr_deg2rad(const cr_tensor *x);                                        /* degrees as radians */
cr_tensor *cr_rad2deg(const cr_tensor *x);                                        /* radians as degrees */
cr_tensor *cr_sinc(const cr_tensor *x);                                           /* sin(pi x) / (pi x); 1 at 0 */
cr_tensor *cr_erf(const cr_tensor *x);                                            /* error function */
cr_tensor *cr_erfc(const cr_tensor *x);                                           /* 1 - erf(x), exact where that is small */
/* activations */
cr_tensor *cr_sigmoid(const cr_tensor *x);                                        /* 1 / (1 + e^-x) */
cr_tensor *cr_relu(const cr_tensor *x);                                           /* max(x, 0); gradient 0 at 0 */
cr_tensor *cr_leaky_relu(const cr_tensor *x, double negative_slope);              /* x where x > 0, else negative_slope x */
cr_tensor *cr_elu(const cr_tensor *x, double alpha);                              /* x where x > 0, else alpha (e^x - 1) */
cr_tensor *cr_selu(const cr_tensor *x);                                           /* 1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al. 2017) */
cr_tensor *cr_celu(const cr_tensor *x, double alpha);                             /* x where x > 0, else alpha (e^(x / alpha) - 1) */
cr_tensor *cr_gelu(const cr_tensor *x);                                           /* x Phi(x), Phi the normal distribution */
cr_tensor *cr_gelu_tanh(const cr_tensor *x);                                      /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): GPT-2's gelu */
cr_tensor *cr_silu(const cr_tensor *x);                                           /* x sigmoid(x) */
cr_tensor *cr_mish(const cr_tensor *x);                                           /* x tanh(softplus(x)) */
cr_tensor *cr_softplus(const cr_tensor *x, double beta, double threshold);        /* log(1 + e^(beta x)) / beta; x where beta x > threshold */
cr_tensor *cr_softsign(const cr_tensor *x);                                       /* x / (1 + |x|) */
cr_tensor *cr_hardtanh(const cr_tensor *x, double min_val, double max_val);       /* min(max(x, min_val), max_val); gradient 0 at the bounds */
cr_tensor *cr_hardsigmoid(const cr_tensor *x);                                    /* min(max(x + 3, 0), 6) / 6 */
cr_tensor *cr_hardswish(const cr_tensor *x);                                      /* x hardsigmoid(x) */
cr_tensor *cr_relu6(const cr_tensor *x);                                          /* min(max(x, 0), 6) */
cr_tensor *cr_logsigmoid(const cr_tensor *x);                                     /* log(sigmoid(x)) */
/* rounding */
cr_tensor *cr_floor(const cr_tensor *x);                                          /* next integer below */
cr_tensor *cr_ceil(const cr_tensor *x);                                           /* next integer above */
cr_tensor *cr_round(const cr_tensor *x);                                          /* nearest integer, ties to even */
cr_tensor *cr_trunc(const cr_tensor *x);                                          /* next integer towards 0 */
cr_tensor *cr_frac(const cr_tensor *x);                                           /* x - trunc(x) */
/* questions: the result is bool */
cr_tensor *cr_isnan(const cr_tensor *x);                                          /* is x NaN? */
cr_tensor *cr_isinf(const cr_tensor *x);                                          /* is x an infinity? */
cr_tensor *cr_isposinf(const cr_tensor *x);                                       /* is x +infinity? */
cr_tensor *cr_isneginf(const cr_tensor *x);                                       /* is x -infinity? */
cr_tensor *cr_isfinite(const cr_tensor *x);                                       /* is x neither NaN nor an infinity? */
cr_tensor *cr_signbit(const cr_tensor *x);                                        /* is x negative, or -0? */
cr_tensor *cr_eq(const cr_tensor *a, const cr_tensor *b);                         /* a == b */
cr_tensor *cr_ne(const cr_tensor *a, const cr_tensor *b);                         /* a != b */
cr_tensor *cr_lt(const cr_tensor *a, const cr_tensor *b);                         /* a < b */
cr_tensor *cr_le(const cr_tensor *a, const cr_tensor *b);                         /* a <= b */
cr_tensor *cr_gt(const cr_tensor *a, const cr_tensor *b);                         /* a > b */
cr_tensor *cr_ge(const cr_tensor *a, const cr_tensor *b);                         /* a >= b */
cr_tensor *cr_logical_and(const cr_tensor *a, const cr_tensor *b);                /* a and b, true where not 0 */
cr_tensor *cr_logical_or(const cr_tensor *a, const cr_tensor *b);                 /* a or b */
cr_tensor *cr_logical_xor(const cr_tensor *a, const cr_tensor *b);                /* either a or b */
cr_tensor *cr_logical_not(const cr_tensor *x);                                    /* not x */
/* bits: integers and bool */
cr_tensor *cr_bitwise_and(const cr_tensor *a, const cr_tensor *b);                /* a & b */
cr_tensor *cr_bitwise_or(const cr_tensor *a, const cr_tensor *b);                 /* a | b */
cr_tensor *cr_bitwise_xor(const cr_tensor *a, const cr_tensor *b);                /* a ^ b */
cr_tensor *cr_bitwise_not(const cr_tensor *x);                                    /* ~x; bool: not x */
cr_tensor *cr_left_shift(const cr_tensor *a, const cr_tensor *b);                 /* a << b; 0 where b < 0 or b >= the width */
cr_tensor *cr_right_shift(const cr_tensor *a, const cr_tensor *b);                /* a >> b, keeps the sign */
/* generated: end */
cr_tensor *cr_nextafter(const cr_tensor *a, const cr_tensor *b);  /* a's neighbour towards b in the dtype of the result, floats; no gradient */
cr_tensor *cr_add_scalar(const cr_tensor *x, double s);    /* x + s, and so on: like cr_add(x, cr_scalar(s)) */
cr_tensor *cr_sub_scalar(const cr_tensor *x, double s);
cr_tensor *cr_mul_scalar(const cr_tensor *x, double s);
cr_tensor *cr_div_scalar(const cr_tensor *x, double s);
cr_tensor *cr_pow_scalar(const cr_tensor *x, double s);

/* in place: writes into x, whose shape and dtype stay; returns x (borrowed) or NULL */
cr_tensor *cr_add_(cr_tensor *x, const cr_tensor *y);
cr_tensor *cr_sub_(cr_tensor *x, const cr_tensor *y);
cr_tensor *cr_mul_(cr_tensor *x, const cr_tensor *y);
cr_tensor *cr_div_(cr_tensor *x, const cr_tensor *y);
cr_tensor *cr_copy_(cr_tensor *x, const cr_tensor *y);     /* y broadcast and cast */
cr_tensor *cr_fill_(cr_tensor *x, double value);

/* ---- fused elementwise expressions -------------------------------------------------------------------------
 * cr_program_new("silu_mul", "a b", "", "y = a * sigmoid(a) * b; y") - any elementwise name above may be called, plus
 * + - * / **, comparisons, unary -, numbers, and params (numbers given at each run).  Statements end with ';'; the last
 * is the comma-separated list of results.  One pass over memory; differentiable to any order.                      */
cr_program *cr_program_new(const char *name, const char *inputs, const char *params, const char *body);
const cr_program *cr_program_find(const char *name);       /* a function above, or an update of docs/ops.md ("adamw"); not to be freed */
int         cr_program_inputs(const cr_program *p, int *results, int *params);  /* how many inputs; fills in how many results and params (NULL: not asked); -1: p is NULL */
void        cr_program_free(cr_program *p);                /* graphs that use it keep it alive */
cr_tensor  *cr_program_apply(const cr_program *p, int n, const cr_tensor *const *in, const double *params);  /* one result */
cr_tensor *cr_program_apply_(const cr_program *p, cr_tensor *x, int n, const cr_tensor *const *in, const double *params);     /* written into x, which may be an input; returns x (borrowed) */
cr_status   cr_program_update(const cr_program *p, int64_t count, cr_tensor *const *out,
                              const cr_tensor *const *in, const double *params);
                                                           /* count tensors at once, in place, no gradient: out[i * results + r], in[i * inputs + k] */
cr_status   cr_program_params(const cr_program *p, int n, const char *const *names, const double *values, double *params);
                                                           /* an update's params from n named options of an optimizer: "lr", "beta1", "t", ... (docs/ops.md) */
cr_status   cr_program_update_product(const cr_program *p, cr_tensor *const *out, const cr_tensor *const *in, const double *params,
                                      int input, const cr_tensor *a, const cr_tensor *b, bool *taken);
                                                           /* one set, whose input `input` is the product a b, computed piece by piece: in[input] is any tensor of its shape and dtype;
                                                              *taken false, nothing done: the device or a layout has no such way */

/* ---- shape, copies -------------------------------------------------------------------------------------- */
cr_tensor *cr_reshape(const cr_tensor *x, int n, const int64_t *shape);        /* one entry may be -1; a view where possible */
cr_tensor *cr_view(const cr_tensor *x, int n, const int64_t *shape);           /* the same, an error where a copy would be needed */
cr_tensor *cr_transpose(const cr_tensor *x, int a, int b);                     /* view */
cr_tensor *cr_permute(const cr_tensor *x, int n, const int64_t *axes);         /* view */
cr_tensor *cr_slice(const cr_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);  /* view; Python's rules */
cr_tensor *cr_select(const cr_tensor *x, int axis, int64_t index);             /* view without the axis */
typedef struct cr_part { int64_t start, stop, step; } cr_part;                 /* Python's slice; step < 0 goes backwards, to before the first where stop is INT64_MIN; step 0: the one index start, whose axis goes */
cr_tensor *cr_index(const cr_tensor *x, int n, const cr_part *parts);          /* view: a part of each of the first n axes */
cr_tensor *cr_expand(const cr_tensor *x, int n, const int64_t *shape);         /* view; -1 keeps a size */
cr_tensor *cr_squeeze(const cr_tensor *x, int n, const int64_t *axes);         /* view; CR_ALL: every axis of size 1 */
cr_tensor *cr_unsqueeze(const cr_tensor *x, int axis);                         /* view */
cr_tensor *cr_flatten(const cr_tensor *x, int first, int last);
cr_tensor *cr_unflatten(const cr_tensor *x, int axis, int n, const int64_t *sizes);   /* an axis as several; one size may be -1 */
cr_tensor *cr_movedim(const cr_tensor *x, int n, const int64_t *from, const int64_t *to);     /* view; the other axes keep their order */
cr_tensor *cr_narrow(const cr_tensor *x, int axis, int64_t start, int64_t length);    /* view: x[start : start + length] */
cr_tensor *cr_diagonal(const cr_tensor *x, int64_t offset, int axis1, int axis2);     /* view: x[i, i + offset], as the last axis */
cr_tensor *cr_diag_embed(const cr_tensor *x, int64_t offset, int axis1, int axis2);   /* its inverse: x's last axis on that diagonal of two new axes, zeros elsewhere */
cr_tensor *cr_diag(const cr_tensor *x, int64_t offset);                        /* a vector as the diagonal of a matrix; the diagonal of a matrix, copied */
cr_tensor *cr_unfold(const cr_tensor *x, int axis, int64_t size, int64_t step);       /* view: windows x[i step : i step + size], their elements as a new last axis */
cr_tensor *cr_contiguous(const cr_tensor *x);                                  /* a view of x when it is contiguous already */
cr_tensor *cr_clone(const cr_tensor *x);
cr_tensor *cr_to(const cr_tensor *x, cr_dtype dt, const cr_device *dev);       /* cast and move; a view of x when nothing changes */
cr_tensor *cr_cat(int n, const cr_tensor *const *in, int axis);
cr_tensor *cr_stack(int n, const cr_tensor *const *in, int axis);
cr_status  cr_split(const cr_tensor *x, int64_t size, int axis, int n, cr_tensor **out);  /* n = ceil(dim / size) views */
cr_status  cr_split_sizes(const cr_tensor *x, int axis, int n, const int64_t *sizes, cr_tensor **out);        /* n views, which make up the axis */
int        cr_split_chunks(const cr_tensor *x, int chunks, int axis, cr_tensor **out);    /* at most `chunks` views of equal size, the last may be smaller: how many, or -1 */
cr_status  cr_unbind(const cr_tensor *x, int axis, int n, cr_tensor **out);            /* n = the size of the axis: views x[0], x[1]... */
cr_status  cr_meshgrid(int n, const cr_tensor *const *in, bool xy, cr_tensor **out);   /* n vectors as views of one shape, each along its own axis; xy: the first two swapped */
cr_tensor *cr_flip(const cr_tensor *x, int n, const int64_t *axes);                   /* a copy, backwards along the axes (cr_index gives a view) */
cr_tensor *cr_roll(const cr_tensor *x, int n, const int64_t *shifts, const int64_t *axes);    /* y[(i + shift) mod size] = x[i]; axes NULL: one shift of all elements in order */
cr_tensor *cr_repeat(const cr_tensor *x, int n, const int64_t *times);                /* x times[i] times along axis i; n >= its axes */
cr_tensor *cr_tile(const cr_tensor *x, int n, const int64_t *times);                  /* the same; axes not named are not repeated */
cr_tensor *cr_repeat_interleave(const cr_tensor *x, int64_t times, int axis);         /* each position of the axis `times` times */
cr_tensor *cr_repeat_interleave_by(const cr_tensor *x, const cr_tensor *counts, int axis);    /* position i counts[i] times; i32 or i64 (n) or (1) */
typedef enum cr_pad_mode { CR_PAD_CONSTANT, CR_PAD_REFLECT, CR_PAD_REPLICATE, CR_PAD_CIRCULAR } cr_pad_mode;
cr_tensor *cr_pad(const cr_tensor *x, int n, const int64_t *sizes, cr_pad_mode mode, double value);   /* sizes: before and after the last axis, then the one before...; negative ones crop; value: CR_PAD_CONSTANT's */

/* ---- reductions: n axes (CR_ALL: every one), keepdim leaves them as 1 --------------------------------------- */
cr_tensor *cr_sum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);          /* integers and bool sum as i64 */
cr_tensor *cr_sum_squares(const cr_tensor *x);                                            /* of all elements, f16 and bf16 in f32 : (...) -> () */
cr_tensor *cr_nansum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);       /* NaN counts as 0 */
cr_tensor *cr_mean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);         /* floats, as those below but for any, all, counts and positions */
cr_tensor *cr_nanmean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);      /* of what is not NaN */
cr_tensor *cr_prod(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);         /* integers and bool multiply as i64; the gradient is exact at 0 */
cr_tensor *cr_max(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);          /* any dtype; NaN wins; ties share the gradient; of nothing refused */
cr_tensor *cr_min(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
cr_tensor *cr_aminmax(const cr_tensor *x, int n, const int64_t *axes, bool keepdim, cr_tensor **max);      /* the smallest; *max: the largest */
cr_tensor *cr_max_along(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index);   /* the first of equals, which alone has the gradient; *index (NULL: not wanted): where it is, i64 */
cr_tensor *cr_min_along(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index);
cr_tensor *cr_any(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);          /* is one not 0?  bool, u8 for u8; of nothing: no */
cr_tensor *cr_all(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);          /* is none 0?  of nothing: yes */
cr_tensor *cr_count_nonzero(const cr_tensor *x, int n, const int64_t *axes);              /* i64 */
cr_tensor *cr_var(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim);   /* sum((x - mean)^2) / (N - correction) */
cr_tensor *cr_std(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim);   /* sqrt(var); gradient 0 where that is 0 */
cr_status  cr_total_norm(int64_t n, const cr_tensor *const *x, double *norm);             /* the 2-norm of all elements of n float tensors as one vector, on any devices; not recorded, waits for them */
cr_tensor *cr_norm(const cr_tensor *x, double p, int n, const int64_t *axes, bool keepdim);           /* sum(|x|^p)^(1/p); p inf, -inf: the largest, smallest |x|; 0: how many are not 0; gradient 0 at 0 */
cr_tensor *cr_logsumexp(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);    /* log(sum(exp(x))), no overflow */
cr_tensor *cr_argmax(const cr_tensor *x, int axis, bool keepdim);                         /* i64, the first of equals */
cr_tensor *cr_argmin(const cr_tensor *x, int axis, bool keepdim);

/* ---- order: along one axis, stable; NaN is larger than every number.  *index (NULL: not wanted): positions, i64 ---- */
cr_tensor *cr_sort(const cr_tensor *x, int axis, bool descending, cr_tensor **index);
cr_tensor *cr_argsort(const cr_tensor *x, int axis, bool descending);
cr_tensor *cr_topk(const cr_tensor *x, int64_t k, int axis, bool largest, cr_tensor **index);           /* the k largest, else smallest, in order */
cr_tensor *cr_kthvalue(const cr_tensor *x, int64_t k, int axis, bool keepdim, cr_tensor **index);       /* the k-th smallest; k from 1 */
cr_tensor *cr_median(const cr_tensor *x, int n, const int64_t *axis, bool keepdim, cr_tensor **index);  /* n 1, or CR_ALL: the lower of the two middle ones; NaN where there is one; of all, ties share the gradient */
cr_tensor *cr_nanmedian(const cr_tensor *x, int n, const int64_t *axis, bool keepdim, cr_tensor **index);   /* of the numbers alone */
cr_tensor *cr_mode(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index);        /* the most frequent, of those the smallest */
typedef enum cr_interpolation { CR_LINEAR, CR_LOWER, CR_HIGHER, CR_NEAREST, CR_MIDPOINT } cr_interpolation;
cr_tensor *cr_quantile(const cr_tensor *x, const cr_tensor *q, int n, const int64_t *axis, bool keepdim, cr_interpolation how, bool skip_nan);   /* n 1, or CR_ALL; q in [0, 1], () or (Q), whose axis comes first; a NaN is every quantile, unless skipped */
cr_tensor *cr_searchsorted(const cr_tensor *sorted, const cr_tensor *v, bool right, const cr_tensor *sorter);   /* i64: how many of a row are < v (right: <=) : (R) or (..., R), (..., K) -> (..., K); sorter: cr_argsort of what is not sorted, or CR_NONE */
cr_tensor *cr_unique(const cr_tensor *x, int n, const int64_t *axis, cr_tensor **inverse, cr_tensor **counts);  /* all different elements (CR_ALL), or parts along an axis, in order; NULL: not wanted.  NaN is equal to nothing */
cr_tensor *cr_unique_consecutive(const cr_tensor *x, int n, const int64_t *axis, cr_tensor **inverse, cr_tensor **counts);   /* the first of each run of equal ones */
cr_tensor *cr_isclose(const cr_tensor *a, const cr_tensor *b, double rtol, double atol, bool equal_nan);    /* bool: a == b or |a - b| <= atol + rtol |b|; equal_nan: NaN is close to NaN */
cr_tensor *cr_allclose(const cr_tensor *a, const cr_tensor *b, double rtol, double atol, bool equal_nan);   /* bool (): is every element? */
cr_tensor *cr_equal(const cr_tensor *a, const cr_tensor *b);                              /* bool (): the same shape and elements?  NaN is equal to nothing */
cr_tensor *cr_isin(const cr_tensor *x, const cr_tensor *others);                          /* bool: is x equal to one of them? */
cr_tensor *cr_bincount(const cr_tensor *x, const cr_tensor *weights, int64_t minlength);  /* i64: how often 0, 1, 2... occur in (N), or the sum of their weights; weights (N)|CR_NONE */
cr_tensor *cr_histc(const cr_tensor *x, int64_t bins, double low, double high);           /* (bins): how many lie in each of equal parts of [low, high], or of where they lie when low = high; NaN in none */
/* ---- scans along an axis: x's shape ----------------------------------------------------------------------- */
cr_tensor *cr_cumsum(const cr_tensor *x, int axis);                                       /* y[k] = x[0] + ... + x[k]; integers and bool as i64 */
cr_tensor *cr_cumprod(const cr_tensor *x, int axis);                                      /* the same of products; the gradient is exact at 0 */
cr_tensor *cr_logcumsumexp(const cr_tensor *x, int axis);                                 /* floats; no overflow */
cr_tensor *cr_cummax(const cr_tensor *x, int axis, cr_tensor **index);                    /* the largest so far, the last of equals; NaN wins; *index (NULL: not wanted): where it is, i64 */
cr_tensor *cr_cummin(const cr_tensor *x, int axis, cr_tensor **index);
cr_tensor *cr_diff(const cr_tensor *x, int64_t n, int axis);                              /* y[k] = x[k + 1] - x[k], n times; bool: are they different? */

/* ---- products ------------------------------------------------------------------------------------------- */
cr_tensor *cr_matmul(const cr_tensor *a, const cr_tensor *b);                             /* (..., M, K) (..., K, N) -> (..., M, N); 1-D as NumPy */
cr_tensor *cr_mm(const cr_tensor *a, const cr_tensor *b);                                 /* (M, K) (K, N) -> (M, N) */
cr_tensor *cr_bmm(const cr_tensor *a, const cr_tensor *b);                                /* (B, M, K) (B, K, N) -> (B, M, N) */
cr_tensor *cr_mv(const cr_tensor *a, const cr_tensor *v);                                 /* (M, K) (K) -> (M) */
cr_tensor *cr_dot(const cr_tensor *a, const cr_tensor *b);                                /* (K) (K) -> () */
cr_tensor *cr_inner(const cr_tensor *a, const cr_tensor *b);                              /* (..., K) (... ', K) -> (..., ... '); numbers multiply */
cr_tensor *cr_outer(const cr_tensor *a, const cr_tensor *b);                              /* (M) (N) -> (M, N) */
cr_tensor *cr_kron(const cr_tensor *a, const cr_tensor *b);                               /* blocks a[i] b : (M, N) (P, Q) -> (M P, N Q), up to 4 axes */
cr_tensor *cr_trace(const cr_tensor *x);                                                  /* sum of the diagonal : (M, N) -> (); integers as i64 */
cr_tensor *cr_addmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha);      /* beta x + alpha a b; x broadcasts to (M, N); beta 0: not even NaN of x counts, here and below */
cr_tensor *cr_addmv(const cr_tensor *x, const cr_tensor *a, const cr_tensor *v, double beta, double alpha);      /* beta x + alpha a v : (M) */
cr_tensor *cr_addr(const cr_tensor *x, const cr_tensor *u, const cr_tensor *v, double beta, double alpha);       /* beta x + alpha outer(u, v) : (M, N) */
cr_tensor *cr_baddbmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha);    /* beta x + alpha bmm(a, b) : (B, M, N) */
cr_tensor *cr_addbmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha);     /* beta x + alpha sum of bmm(a, b) over B : (M, N) */
cr_tensor *cr_tensordot(const cr_tensor *a, const cr_tensor *b, int n, const int64_t *axes_a, const int64_t *axes_b);   /* products summed over n pairs of axes; a's other axes, then b's */
cr_tensor *cr_einsum(const char *equation, int n, const cr_tensor *const *in);            /* "bhqd,bhkd->bhqk", "ii", "...ij,...jk": NumPy's notation, up to 64 operands of one dtype;
                                                              without "->" the output is "..." and what stands once, by the alphabet; a view where one operand is only rearranged */
typedef enum cr_act { CR_ACT_NONE, CR_ACT_RELU, CR_ACT_GELU, CR_ACT_GELU_TANH, CR_ACT_SILU, CR_ACT_TANH, CR_ACT_SIGMOID } cr_act;
cr_tensor *cr_linear(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, cr_act act);   /* act(x w^T + b) : (..., C), (OC, C), (OC)|CR_NONE -> (..., OC) */
cr_tensor *cr_mlp(const cr_tensor *x, const cr_tensor *w1, const cr_tensor *b1, const cr_tensor *w2, const cr_tensor *b2, cr_act act);
                                                           /* act(x w1^T + b1) w2^T + b2, two cr_linear, in fewer passes where the device can : (..., C), (N, C), (N), (OC, N), (OC) -> (..., OC) */
typedef enum cr_precision { CR_HIGHEST, CR_HIGH, CR_MEDIUM } cr_precision;
cr_precision cr_set_f32_products(cr_precision p);                                         /* for this thread: f32 products (cr_matmul, cr_linear, those of their gradients) add in f32, and of their operands take all bits,
                                                              the 10 of TF32 where a GPU has that, or those of bf16, to which they are rounded; returns the old setting */

/* ---- indexing: index tensors are i32 or i64; every index is checked; what is written to one place twice stays as the last, with a
 * gradient for both as in PyTorch.  Names that end in _ write into x and return it (borrowed). ------------------------ */
cr_tensor *cr_gather(const cr_tensor *x, int axis, const cr_tensor *index);               /* out[i][j] = x[index[i][j]][j] (axis 0) */
cr_tensor *cr_scatter(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);      /* a copy of x with x[index[i][j]][j] = src[i][j]; src (): one value for all */
cr_tensor *cr_scatter_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_scatter_add(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);  /* a copy of x with x[index[i][j]][j] += src[i][j] */
cr_tensor *cr_scatter_add_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_scatter_multiply(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);    /* the same, multiplied; the gradient is exact at 0 */
typedef enum cr_scatter_kind { CR_SCATTER_SUM, CR_SCATTER_PROD, CR_SCATTER_MEAN, CR_SCATTER_AMAX, CR_SCATTER_AMIN } cr_scatter_kind;
cr_tensor *cr_scatter_reduce(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src, cr_scatter_kind kind, bool self);   /* x[index[i][j]][j] with all of src for it; self: and with itself; equal extremes share the gradient, integers' mean is floored */
cr_tensor *cr_take_along_axis(const cr_tensor *x, int axis, const cr_tensor *index);      /* cr_gather, the other axes of x and index broadcast */
cr_tensor *cr_take(const cr_tensor *x, const cr_tensor *index);                           /* elements of x in order : (...), (I) -> (I); negative indices count from the end */
cr_tensor *cr_index_select(const cr_tensor *x, int axis, const cr_tensor *index);         /* (..., R, ...), (K) -> (..., K, ...) */
cr_tensor *cr_index_add(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);    /* a copy of x with src[..., k, ...] added at index[k] : src (..., K, ...) */
cr_tensor *cr_index_add_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_index_copy(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);   /* the same, written instead of added */
cr_tensor *cr_index_copy_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_index_fill(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *value); /* the same with one value, () */
cr_tensor *cr_index_fill_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *value);
cr_tensor *cr_index_get(const cr_tensor *x, int n, const cr_tensor *const *index);        /* x[index[0], index[1], ...] : each CR_NONE, a whole axis; integers of any dtype but u64, positions along an axis,
                                                              negative ones from the end; or a bool mask of d axes of x.  They broadcast to (I), which stands where the axes
                                                              indexed stood, or in front where those are not neighbours */
cr_tensor *cr_index_put(const cr_tensor *x, int n, const cr_tensor *const *index, const cr_tensor *values, bool accumulate);   /* a copy of x whose part cr_index_get sees is values, cast and broadcast; accumulate: += */
cr_tensor *cr_index_put_(cr_tensor *x, int n, const cr_tensor *const *index, const cr_tensor *values, bool accumulate);
cr_tensor *cr_masked_fill(const cr_tensor *x, const cr_tensor *mask, double value);       /* value where mask, else x */
cr_tensor *cr_masked_fill_(cr_tensor *x, const cr_tensor *mask, double value);
cr_tensor *cr_masked_select(const cr_tensor *x, const cr_tensor *mask);                   /* the elements where mask, in order : both broadcast -> (K) */
cr_tensor *cr_masked_scatter(const cr_tensor *x, const cr_tensor *mask, const cr_tensor *src);          /* the k-th place where mask gets the k-th element of src, else x */
cr_tensor *cr_masked_scatter_(cr_tensor *x, const cr_tensor *mask, const cr_tensor *src);
cr_tensor *cr_nonzero(const cr_tensor *x);                                                /* where x is not 0, in order : i64 (K, ndim) */
cr_tensor *cr_one_hot(const cr_tensor *index, int64_t classes);                           /* 1 at index, else 0 : (...) -> i64 (..., classes); -1: one more than the largest index */
cr_tensor *cr_tril(const cr_tensor *x, int64_t diagonal);                                 /* (..., M, N); zero above the diagonal */
cr_tensor *cr_triu(const cr_tensor *x, int64_t diagonal);
cr_tensor *cr_tril_(cr_tensor *x, int64_t diagonal);                                      /* in place */
cr_tensor *cr_triu_(cr_tensor *x, int64_t diagonal);

/* ---- neural network ------------------------------------------------------------------------------------- */
cr_tensor *cr_softmax(const cr_tensor *x, int axis);                                      /* exp(x) / sum(exp(x)) */
cr_tensor *cr_log_softmax(const cr_tensor *x, int axis);                                  /* x - logsumexp(x) */
cr_tensor *cr_layer_norm(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, double eps);  /* (x - mean) / sqrt(var + eps) * w + b over the last axis; (C)|CR_NONE */
cr_tensor *cr_rms_norm(const cr_tensor *x, const cr_tensor *w, double eps);               /* x / sqrt(mean(x^2) + eps) * w */
cr_tensor *cr_embedding(const cr_tensor *w, const cr_tensor *index);                      /* (V, C), (...) -> (..., C) */
typedef enum cr_reduction { CR_MEAN, CR_SUM, CR_EACH } cr_reduction;
typedef struct cr_cross_entropy_options { int64_t ignore_index; double label_smoothing; cr_reduction reduction; } cr_cross_entropy_options;
cr_cross_entropy_options cr_cross_entropy_defaults(void);                                 /* -100, 0, CR_MEAN */
cr_tensor *cr_cross_entropy(const cr_tensor *logits, const cr_tensor *target, const cr_cross_entropy_options *o);  /* -log softmax(logits)[target] : (..., V), (...) -> () or (...); o NULL: defaults */
cr_tensor *cr_dropout(const cr_tensor *x, double p, bool train, cr_generator *g);         /* x * bernoulli(1 - p) / (1 - p) */
typedef struct cr_attention_options {
    bool causal;                                           /* query t sees keys <= t + S - T */
    double scale;                                          /* 0: 1 / sqrt(D) */
    const cr_tensor *mask;                                 /* NULL, CR_NONE: none; broadcasts to (B, H, T, S): bool, true where t sees s, or q's dtype, added to the scores */
} cr_attention_options;
cr_tensor *cr_attention(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_attention_options *o);
                                                           /* softmax(scale q k^T + mask) v : (B, H, T, D), (B, H, S, D) x 2 -> (B, H, T, D); a query that sees no key gives 0; no T x S matrix */

/* ---- autograd ------------------------------------------------------------------------------------------- */
cr_tensor *cr_requires_grad_(cr_tensor *t, bool on);       /* a leaf that collects a gradient; returns t (borrowed) */
bool       cr_requires_grad(const cr_tensor *t);
bool       cr_is_leaf(const cr_tensor *t);
const char *cr_op_name(const cr_tensor *t);                /* of the op that made it, borrowed from t; "": a leaf, or outside any graph */
cr_tensor *cr_grad(const cr_tensor *t);                    /* borrowed; CR_NONE before the first backward */
cr_tensor *cr_grad_retain(const cr_tensor *t);             /* the same with a reference for cr_drop, taken while no other thread can free it */
cr_status  cr_set_grad(cr_tensor *t, const cr_tensor *g);  /* g may be CR_NONE: the gradient is freed */
cr_status  cr_retain_grad(cr_tensor *t);                   /* a non-leaf keeps its gradient too */
cr_tensor *cr_detach(const cr_tensor *t);                  /* the same storage, outside the graph */
bool       cr_grad_enabled(void);
bool       cr_set_grad_enabled(bool on);                   /* for this thread; returns the old setting */
typedef cr_status (*cr_on_grad)(cr_tensor *leaf, const cr_tensor *grad, void *ctx);   /* takes a leaf's gradient, complete and borrowed, the moment no op needs the leaf any more; may write to it */
typedef cr_status (*cr_on_product)(cr_tensor *leaf, const cr_tensor *a, const cr_tensor *b, void *ctx, bool *taken);   /* may take a leaf's gradient as the operands of the product a b that it is */
typedef struct cr_backward_options {
    bool retain_graph, create_graph;
    cr_on_grad on_grad; void *ctx;                         /* called instead of adding to leaves' gradients; excludes the other two */
    cr_on_product on_product;                              /* with on_grad; asked first where a weight's only gradient is one product; *taken false: on_grad comes */
    int n_inputs; const cr_tensor *const *inputs;          /* cr_backward adds to these only, leaves or not; 0: to all leaves */
} cr_backward_options;
cr_status  cr_backward(const cr_tensor *y, const cr_tensor *cotangent, const cr_backward_options *o);    /* adds to leaves' gradients; cotangent CR_NONE: 1 for a scalar; o NULL: false, false */
cr_status  cr_gradients(int n_out, const cr_tensor *const *out, const cr_tensor *const *cotangents, int n_in,
                        const cr_tensor *const *in, cr_tensor **grads, const cr_backward_options *o);    /* torch.autograd.grad; cotangents NULL: all CR_NONE; grads[i] CR_NONE where out does not depend on in[i] */
typedef cr_tensor *(*cr_hook)(const cr_tensor *grad, void *ctx);        /* a new gradient (owned), or CR_NONE: unchanged; NULL: failure */
int64_t    cr_add_hook(cr_tensor *t, cr_hook hook, void *ctx, void (*done)(void *ctx));   /* id >= 1, or 0; done (or NULL) is called once: when the hook is removed, or what carries it is freed */
cr_status  cr_remove_hook(cr_tensor *t, int64_t id);                    /* also from inside a hook */
bool       cr_set_anomaly(bool on);                        /* for this thread: name the first op that makes NaN or Inf; returns the old setting */
typedef const char *(*cr_locate)(void *ctx);                /* where the calling thread is in the user's program, "train.py:12"; NULL or "": unknown; copied at once */
void       cr_set_place(cr_locate place, void *ctx);        /* process-wide, NULL: off: asked for each op in anomaly mode, whose messages about gradients then say where the op was made */
typedef cr_tensor *(*cr_function)(int n, const cr_tensor *const *in, void *ctx);   /* returns a new tensor (owned) */
cr_tensor *cr_checkpoint(cr_function f, void *ctx, int n, const cr_tensor *const *in);    /* f(in) without keeping activations: recomputed in the backward pass; ctx must live until then */
typedef struct cr_gradcheck_options { double eps, atol, rtol; uint64_t seed; } cr_gradcheck_options;     /* 1e-6, 1e-5, 1e-3 */
cr_gradcheck_options cr_gradcheck_defaults(void);
cr_status  cr_gradcheck(cr_function f, void *ctx, int n, const cr_tensor *const *in, const cr_gradcheck_options *o);      /* f64 inputs that require grad; central differences, random cotangent; message: input, position, both values */
cr_status  cr_gradgradcheck(cr_function f, void *ctx, int n, const cr_tensor *const *in, const cr_gradcheck_options *o);  /* gradients of the gradients that create_graph gives; run cr_gradcheck too: these are not compared with f */

/* the recorded graph, to look at: a node is one result of one op, or a leaf.  It, and all below it, stays as long as a reference to it */
typedef struct cr_node_info {                              /* all borrowed from the node */
    const char *op;                                        /* as cr_op_name says it; "": a leaf */
    bool function;                                         /* the op is cr_function_record's, and has the caller's name */
    int inputs;
    cr_dtype dtype; int ndim; const int64_t *shape;        /* of the result */
} cr_node_info;
cr_node    *cr_node_of(const cr_tensor *t);                /* what made t, or the leaf that t is: a reference to give back; NULL without a message: t is outside any graph */
cr_node_info cr_node_look(const cr_node *n);
cr_tensor  *cr_node_tensor(const cr_node *n);              /* the leaf, or the result if it retains its gradient: a reference for cr_drop; NULL without a message: nothing else holds it any more */
cr_node    *cr_node_input(const cr_node *n, int i);        /* what made input i: a reference to give back; NULL without a message: no gradient goes there */
void        cr_node_release(cr_node *n);                   /* NULL is fine */

/* a function of your own, computed with recording off, whose gradient is a closure (torch.autograd.Function) */
typedef struct cr_function_call {                          /* all borrowed */
    int n_out; const cr_tensor *const *grads;              /* the cotangent of each result; CR_NONE where none arrived */
    int n_in;  const bool *needs;                          /* is a gradient for in[i] wanted? */
    int n_saved; const cr_tensor *const *saved;            /* as they were: one that was written to since is an error */
    void *ctx;
} cr_function_call;
typedef cr_status (*cr_function_grad)(const cr_function_call *c, cr_tensor **dx);     /* fills dx[i] (owned; starts as CR_NONE: no gradient); called once a walk, recorded under create_graph */
typedef struct cr_function_use {
    const char *name;                                      /* copied, for messages */
    int n_in;    const cr_tensor *const *in;               /* CR_NONE is fine */
    int n_out;   const cr_tensor *const *out;
    int n_saved; const cr_tensor *const *saved;            /* what the gradient reads: inputs, results, others; freed as the walk passes unless retain_graph */
    cr_function_grad backward;
    void *ctx; void (*done)(void *ctx);                    /* done (or NULL) is called once, when the graph no longer needs ctx; a failure leaves ctx to the caller */
} cr_function_use;
cr_status  cr_function_record(const cr_function_use *u, cr_tensor **results);         /* results[k]: a new handle of out[k], now a result of the function where it is a float and an input requires grad */

/* an op of your own, written with the functions above */
typedef struct cr_custom_call {
    int n; const cr_tensor *const *in;                     /* borrowed; in backward: the inputs as they were */
    const cr_tensor *out;                                  /* backward: the result */
    const void *params;                                    /* a copy of what was given to cr_custom_apply */
} cr_custom_call;
typedef struct cr_custom_op {
    const char *name; int arity;                           /* arity -1: any number of inputs */
    size_t params_bytes;                                   /* <= 128 */
    cr_tensor *(*forward)(const cr_custom_call *c);        /* a new tensor (owned) */
    cr_status (*backward)(const cr_custom_call *c, const cr_tensor *g, cr_tensor **dx);   /* fills dx[i] (owned; CR_NONE: no gradient); NULL: not differentiable */
} cr_custom_op;
cr_status  cr_custom_register(const cr_custom_op *op);     /* copied; the name must be new */
cr_tensor *cr_custom_apply(const char *name, int n, const cr_tensor *const *in, const void *params);

/* ---- Values: single numbers with gradients, after micrograd ------------------------------------------------ */
/* f64, computed on the host whatever the device, for one kernel launch costs a thousand multiplications.  A result is a reference to give back,
   for Values know no scopes; NULL in gives NULL out.  A Value belongs to the thread that made it and is an error in any other. */
cr_status   cr_value_serial(void);                                            /* before the first Value: they belong to no thread, and the caller lets one at a time touch them */
cr_value   *cr_value_new(double data, const cr_device *dev);                  /* a leaf; dev is kept by what is computed from it */
cr_value   *cr_value_retain(cr_value *v);                                     /* one more reference; returns v */
void        cr_value_release(cr_value *v);                                    /* NULL is fine */
cr_value   *cr_value_add(cr_value *a, cr_value *b);                           /* a + b; two devices are an error, here and below */
cr_value   *cr_value_sub(cr_value *a, cr_value *b);                           /* a - b */
cr_value   *cr_value_mul(cr_value *a, cr_value *b);                           /* a b */
cr_value   *cr_value_div(cr_value *a, cr_value *b);                           /* a / b */
cr_value   *cr_value_pow(cr_value *a, cr_value *b);                           /* a^b, as C's pow */
cr_value   *cr_value_pow_scalar(cr_value *a, double n);                       /* a^n: one node, no gradient for n */
cr_value   *cr_value_neg(cr_value *a);                                        /* -a */
cr_value   *cr_value_relu(cr_value *a);                                       /* max(a, 0); gradient 0 at 0 */
cr_value   *cr_value_tanh(cr_value *a);
cr_value   *cr_value_exp(cr_value *a);
cr_value   *cr_value_log(cr_value *a);                                        /* natural */
cr_value   *cr_value_sigmoid(cr_value *a);                                    /* 1 / (1 + e^-a) */
cr_value   *cr_value_to(cr_value *a, const cr_device *dev);                   /* a itself where it is there; else recorded */
cr_value   *cr_value_neuron(int64_t n, cr_value *const *w, cr_value *const *x, cr_value *b, bool relu);   /* b + sum w[i] x[i], then relu: the nodes of the operators in one call */
cr_status   cr_value_backward(cr_value *v);                                   /* from v with 1: results' gradients are set, leaves' are added to */
double      cr_value_data(const cr_value *v);
double      cr_value_grad(const cr_value *v);
void        cr_value_set_data(cr_value *v, double data);
void        cr_value_set_grad(cr_value *v, double grad);
const cr_device *cr_value_device(const cr_value *v);
const char *cr_value_op(const cr_value *v);                                   /* "+", "*", "**", "ReLU", "tanh"...; "": a leaf */
int         cr_value_inputs(const cr_value *v, cr_value *in[2], double *exponent);       /* how many; fills in, borrowed; exponent (or NULL): cr_value_pow_scalar's n, else NaN */
const char *cr_value_label(const cr_value *v);                                /* borrowed; NULL: none */
cr_status   cr_value_set_label(cr_value *v, const char *label);               /* copied; for messages and pictures; NULL: none */

/* ---- parameters and initialisers ------------------------------------------------------------------------- */
cr_params  *cr_params_new(void);
void        cr_params_free(cr_params *p);
cr_status   cr_params_add(cr_params *p, const char *name, cr_tensor *t);      /* keeps a reference; a name is used once */
int64_t     cr_params_count(const cr_params *p);
int64_t     cr_params_numel(const cr_params *p);                              /* a tensor under two names counts once */
const char *cr_params_name(const cr_params *p, int64_t i);                    /* borrowed */
cr_tensor  *cr_params_at(const cr_params *p, int64_t i);                      /* borrowed */
cr_tensor  *cr_params_get(const cr_params *p, const char *name);              /* borrowed; NULL and a message when absent */
void        cr_params_zero_grad(cr_params *p);                                /* frees the gradients */
cr_status   cr_params_clip_grad_norm(cr_params *p, double max_norm, double *norm);   /* scales all gradients when their joint 2-norm exceeds max_norm; norm may be NULL */
cr_status   cr_init_uniform(cr_tensor *t, double low, double high, cr_generator *g);
cr_status   cr_init_normal(cr_tensor *t, double mean, double std, cr_generator *g);
cr_status   cr_init_trunc_normal(cr_tensor *t, double mean, double std, double low, double high, cr_generator *g);
cr_status   cr_init_xavier_uniform(cr_tensor *t, double gain, cr_generator *g);     /* (OC, C); U(+-gain sqrt(6 / (C + OC))) */
cr_status   cr_init_xavier_normal(cr_tensor *t, double gain, cr_generator *g);
cr_status   cr_init_kaiming_uniform(cr_tensor *t, double a, cr_generator *g);       /* U(+-sqrt(6 / ((1 + a^2) C))), as nn.Linear with a = sqrt(5) */
cr_status   cr_init_kaiming_normal(cr_tensor *t, double a, cr_generator *g);
cr_status   cr_init_orthogonal(cr_tensor *t, double gain, cr_generator *g);

/* ---- optimizers and schedules ---------------------------------------------------------------------------- */
typedef enum cr_optim_kind { CR_SGD, CR_ADAM, CR_ADAMW, CR_LION, CR_MUON } cr_optim_kind;
typedef struct cr_optim_options {
    cr_optim_kind kind;
    double lr, beta1, beta2, eps, momentum, weight_decay;
    bool   nesterov, offload;                              /* offload: moments in the host's memory (cr_zeros_offloaded) */
    int    decay_min_ndim;                                 /* weight decay only for parameters of at least this many axes (2: matrices) */
} cr_optim_options;
const char *cr_optim_name(cr_optim_kind kind);             /* "sgd", "adamw"...; NULL: there is no such kind */
cr_optim_options cr_optim_defaults(cr_optim_kind kind);    /* PyTorch's for each kind; Lion: lr 1e-4, betas 0.9, 0.99 */
                                                           /* CR_MUON: for (M, N) parameters, lr times 0.2 sqrt(max(M, N)); AdamW for the others */
cr_tensor  *cr_newton_schulz(const cr_tensor *x, const double abc[3], double eps, int steps);   /* (M, N): its singular vectors, singular values near 1 */
                                                           /* x / max(|x|, eps), then x <- a x + (b A + c A A) x, A = x x^T: Muon's step */
cr_tensor  *cr_zeros_offloaded(const cr_tensor *like, cr_dtype dt);      /* of its shape, for its device, in host memory that the device's kernels reach, slowly (CUDA); devices of the host: cr_zeros; others refuse */
cr_optim   *cr_optim_new(const cr_params *p, const cr_optim_options *o);
cr_status   cr_optim_add(cr_optim *opt, const cr_params *p, const cr_optim_options *o);     /* one more parameter group */
void        cr_optim_free(cr_optim *opt);
cr_status   cr_optim_step(cr_optim *opt);                  /* parameters without gradient are left alone */
cr_status   cr_optim_step_clipped(cr_optim *opt, double max_norm, double *norm);            /* cr_params_clip_grad_norm over its parameters and cr_optim_step in one: gradients are scaled where they are read and stay as they are */
cr_status   cr_optim_mirror(cr_optim *opt, const cr_tensor *p, cr_tensor *mirror);          /* p's value in another float dtype: written
                                                              now and by every step, in the same pass; CR_NONE: no more */
cr_status   cr_optim_backward(cr_optim *opt, const cr_tensor *loss);          /* cr_backward and cr_optim_step in one: each parameter steps as soon as its gradient is complete, which is not kept; after a failure some have stepped */
cr_status   cr_optim_set_lr(cr_optim *opt, double lr);     /* every group */
double      cr_optim_lr(const cr_optim *opt);
int64_t     cr_optim_steps(const cr_optim *opt);
cr_params  *cr_optim_state(const cr_optim *opt);           /* owned: moments by name ("wte.m", "wte.v"), sharing storage */
cr_status   cr_optim_load(cr_optim *opt, const cr_params *state, int64_t steps);
typedef enum cr_schedule_kind { CR_CONSTANT, CR_COSINE, CR_ONE_CYCLE } cr_schedule_kind;
typedef struct cr_schedule { cr_schedule_kind kind; double lr, min_lr; int64_t warmup, total; } cr_schedule;
double      cr_schedule_lr(const cr_schedule *s, int64_t step);               /* linear warm-up, then the kind's curve down to min_lr at total */
                                                           /* CR_ONE_CYCLE: PyTorch's, from lr / 25 up; warmup 0: 0.3 total; min_lr 0: lr / 250000 */

/* ---- text and token files -------------------------------------------------------------------------------- */
cr_tokenizer *cr_tokenizer_bytes(void);                                       /* 256 tokens */
cr_tokenizer *cr_tokenizer_chars(const char *text, size_t bytes);             /* one token a code point of this UTF-8 text, in code-point order */
cr_tokenizer *cr_tokenizer_load(const char *path);
cr_status     cr_tokenizer_save(const cr_tokenizer *t, const char *path);     /* JSON */
void          cr_tokenizer_free(cr_tokenizer *t);
int64_t       cr_tokenizer_size(const cr_tokenizer *t);
int64_t       cr_tokenizer_encode(const cr_tokenizer *t, const char *text, size_t bytes, uint32_t *ids, int64_t room);  /* how many tokens there are, or -1; writes at most room */
int64_t       cr_tokenizer_decode(const cr_tokenizer *t, const uint32_t *ids, int64_t n, char *text, size_t room);      /* how many bytes there are, or -1; writes at most room, no terminator */

cr_tokens    *cr_tokens_new(const uint32_t *ids, int64_t n, int64_t vocabulary);            /* copies */
cr_tokens    *cr_tokens_open(const char *path);                               /* memory-mapped */
cr_status     cr_tokens_save(const cr_tokens *t, const char *path);           /* u8, u16 or u32, the narrowest that holds the vocabulary */
cr_tokens    *cr_tokens_slice(const cr_tokens *t, int64_t start, int64_t stop);             /* shares the tokens */
void          cr_tokens_free(cr_tokens *t);
int64_t       cr_tokens_count(const cr_tokens *t);
int64_t       cr_tokens_vocabulary(const cr_tokens *t);
uint32_t      cr_tokens_at(const cr_tokens *t, int64_t i);
typedef struct cr_loader_options { int64_t batch, context; uint64_t seed; bool shuffle; const cr_device *device; } cr_loader_options;
cr_loader_options cr_loader_defaults(void);
cr_loader    *cr_loader_new(const cr_tokens *t, const cr_loader_options *o);  /* windows of context + 1 tokens; a thread prepares the next batch */
void          cr_loader_free(cr_loader *l);
cr_status     cr_loader_next(cr_loader *l, cr_tensor **x, cr_tensor **y);     /* i64 (B, T) twice, y one token later; new tensors; starts a new epoch by itself */
int64_t       cr_loader_cursor(const cr_loader *l);                           /* batches given so far */
cr_status     cr_loader_seek(cr_loader *l, int64_t cursor);
int64_t       cr_loader_batches(const cr_loader *l);                          /* in one epoch */

/* ---- files: written beside and renamed -------------------------------------------------------------------- */
cr_status   cr_save(const char *path, const cr_params *tensors, const char *metadata);      /* safetensors; metadata: JSON object of strings, or NULL */
cr_params  *cr_load(const char *path, const cr_device *dev);                  /* every tensor of a safetensors file, memory-mapped on the cpu; of a checkpoint's folder: its weights */
char       *cr_load_metadata(const char *path, const char *key);              /* owned (cr_free); NULL without an error when there is no such key; key NULL: all, as a JSON object */
void        cr_free(void *memory);                                            /* what the library handed out as plain memory */
cr_status   cr_params_copy(cr_params *dst, const cr_params *src);             /* by name; all missing, extra and mis-shaped ones named at once */
typedef struct cr_training {                                                  /* all that a run needs to go on bit-exactly; any may be NULL */
    cr_params *params; cr_optim *optim; cr_generator *generator; cr_loader *loader; int64_t step; const char *metadata;
} cr_training;
cr_status   cr_training_save(const char *dir, const cr_training *t);
cr_status   cr_training_load(const char *dir, cr_training *t);                /* fills the objects given, and step, all from one save, whoever saves meanwhile */
cr_status   cr_training_copy(const char *from, const char *to);               /* a checkpoint that later saves into `from` leave alone; takes no room where files can have two names; onto itself: completes a save that was cut off */
char       *cr_training_weights(const char *dir);                             /* owned (cr_free): the path of its safetensors file of weights, also after a save that was cut off */

/* ---- GPT-2: an example of using the library ---------------------------------------------------------------- */
typedef struct cr_gpt_config { int64_t vocabulary, context, layers, heads, width; double dropout; } cr_gpt_config;
cr_gpt     *cr_gpt_new(const cr_gpt_config *c, cr_dtype dt, const cr_device *dev, cr_generator *g);   /* GPT-2's initialisation; g also draws the dropout */
void        cr_gpt_free(cr_gpt *m);
cr_gpt_config cr_gpt_configuration(const cr_gpt *m);
cr_params  *cr_gpt_params(const cr_gpt *m);                                   /* borrowed */
cr_tensor  *cr_gpt_logits(const cr_gpt *m, const cr_tensor *tokens, bool train);            /* (B, T) -> (B, T, V) */
cr_tensor  *cr_gpt_loss(const cr_gpt *m, const cr_tensor *tokens, const cr_tensor *targets, bool train);   /* mean cross-entropy, nats a token */
cr_status   cr_gpt_save(const cr_gpt *m, const char *path);                   /* safetensors, the configuration in its metadata */
cr_gpt     *cr_gpt_load(const char *path, const cr_device *dev);              /* a file, or a checkpoint's folder */
typedef struct cr_sampling { double temperature, top_p; int64_t top_k; } cr_sampling;       /* 0: greedy; top_p 1 and top_k 0: everything */
cr_status   cr_sample(const cr_tensor *logits, const cr_sampling *s, cr_generator *g, uint32_t *id);          /* (V): one token drawn from softmax(logits / temperature), on the host in double */
typedef bool (*cr_on_token)(uint32_t id, void *ctx);                          /* false stops */
cr_status   cr_gpt_generate(const cr_gpt *m, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                            const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx);  /* with a key-value cache */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
