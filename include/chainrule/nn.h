/* nn.h - neural networks: a part of chainrule.h. */
#ifndef CHAINRULE_H
#error "include <chainrule.h>, which includes this part"
#endif
#ifndef CHAINRULE_NN_H
#define CHAINRULE_NN_H

/* ---- layers */
cr_tensor *cr_linear(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b);
                            /* x w^T + b : (..., C), (OC, C), (OC)|CR_NONE -> (..., OC) */
cr_tensor *cr_quantize(const cr_tensor *w, const char *format, const cr_tensor *moments);
                            /* packed rows: (OC, C) of floats -> (OC, bytes of a row) u8, on w's
                               device.  format: "q8_0", "q4_0", "q5_0", "q5_1" (C % 32 == 0),
                               "q4_k", "q5_k", "q6_k" (C % 256 == 0).  moments NULL: to nearest;
                               (C): how much the error of a column counts; (C, C), sums of x^T x
                               over inputs x: their diagonal, and rounding errors of q4_0 are
                               balanced in the columns that follow, as these inputs see them */
cr_tensor *cr_unpack(const cr_tensor *w, const char *format, cr_dtype dt);
                            /* the numbers of packed rows as floats: (OC, bytes of a row) u8 ->
                               (OC, C).  format: of GGUF files, "q8_0", "q4_0", "q4_1", "q5_0",
                               "q5_1", "q2_k" to "q6_k", "iq4_nl", "iq4_xs", "mxfp4" */
cr_tensor *cr_linear_packed(const cr_tensor *x, const cr_tensor *w, const char *format,
                            const cr_tensor *b);
                            /* x w^T + b : (..., C), rows as of cr_unpack, (OC)|CR_NONE ->
                               (..., OC); gradients for x and b.  A row of y does not depend on the
                               other rows of x */
cr_tensor *cr_softmax(const cr_tensor *x, int axis);        /* exp(x) / sum(exp(x)) */
cr_tensor *cr_log_softmax(const cr_tensor *x, int axis);    /* x - logsumexp(x) */
cr_tensor *cr_layer_norm(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, double eps);
                            /* (x - mean) / sqrt(var + eps) * w + b over the last axis; w, b
                               (C)|CR_NONE */
cr_tensor *cr_rms_norm(const cr_tensor *x, const cr_tensor *w, double eps);
                            /* x / sqrt(mean(x^2) + eps) * w over the last axis */
cr_tensor *cr_batch_norm(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, double eps,
                         cr_tensor **mean, cr_tensor **var);
                            /* (x - mean) / sqrt(var + eps) * w + b : (B, C, ...), w, b (C)|CR_NONE;
                               *mean, *var (or NULL): (C), over all axes but the channels', in no
                               graph */
cr_tensor *cr_batch_norm_with(const cr_tensor *x, const cr_tensor *mean, const cr_tensor *var,
                              const cr_tensor *w, const cr_tensor *b, double eps);
                            /* the same with these statistics */
cr_tensor *cr_group_norm(const cr_tensor *x, int64_t groups, const cr_tensor *w, const cr_tensor *b,
                         double eps);
                            /* (x - mean) / sqrt(var + eps) * w + b : (B, C, ...), w, b (C)|CR_NONE;
                               mean and var of each group of C / groups channels of each sample */
cr_tensor *cr_embedding(const cr_tensor *w, const cr_tensor *index);
                            /* w[index] : (V, C), (...) -> (..., C) */
cr_tensor *cr_dropout(const cr_tensor *x, double p, bool train, cr_generator *g);
                            /* x * bernoulli(1 - p) / (1 - p) */

/* pooling and resampling of the last n axes, n = 1, 2 or 3: x (..., *in) -> (..., *out) */
typedef struct cr_pool_options {
    int n;
    int64_t kernel[3], stride[3], pad[3], dilation[3]; /* pad: both sides, at most half a window */
    bool ceil;              /* a last window may reach beyond the padding */
    bool count_pad;         /* cr_avg_pool: padding counts as zeros */
    int64_t divisor;        /* cr_avg_pool: divides each sum; 0: the size of the window */
} cr_pool_options;
cr_pool_options cr_pool_defaults(int n, int64_t kernel);
                            /* stride kernel, pad 0, dilation 1, count_pad */
cr_tensor *cr_max_pool(const cr_tensor *x, const cr_pool_options *o, cr_tensor **index);
                            /* max of x[p stride + t dilation - pad], t < kernel; NaN wins; *index
                               (or NULL): its position in the n axes, flattened, i64 */
cr_tensor *cr_avg_pool(const cr_tensor *x, const cr_pool_options *o); /* the mean instead */
cr_tensor *cr_adaptive_max_pool(const cr_tensor *x, int n, const int64_t *size, cr_tensor **index);
                            /* window s of S: the elements floor(s R / S) .. ceil((s + 1) R / S) - 1
                               of R */
cr_tensor *cr_adaptive_avg_pool(const cr_tensor *x, int n, const int64_t *size);
typedef enum cr_resample_mode {
    CR_RESAMPLE_NEAREST, CR_RESAMPLE_NEAREST_EXACT, CR_RESAMPLE_LINEAR, CR_RESAMPLE_CUBIC
} cr_resample_mode;
typedef struct cr_interpolate_options {
    cr_resample_mode mode;
    bool align_corners;     /* the centers of the corner elements coincide, not their outer edges */
    bool antialias;         /* linear, cubic: a filter as wide as the step where y is smaller */
    double scale[3];        /* size of y / size of x, for positions; 0: from the sizes */
} cr_interpolate_options;
cr_tensor *cr_interpolate(const cr_tensor *x, int n, const int64_t *size,
                          const cr_interpolate_options *o);
                            /* o NULL: nearest */

typedef struct cr_attention_options {
    bool causal;            /* query t sees keys <= t + S - T + shift */
    double scale;           /* 0: 1 / sqrt(D) */
    const cr_tensor *mask;
                            /* NULL, CR_NONE: none; broadcasts to (B, H, T, S); bool: true where
                               t sees s; q's dtype: added to the scores */
    int64_t window;         /* causal: only the last `window` of these keys; 0: all */
    int64_t shift;          /* causal: 0: the last query sees the last key; T - S: the first query
                               sees the first key */
} cr_attention_options;
cr_tensor *cr_attention(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                        const cr_attention_options *o);
                            /* softmax(scale q k^T + mask) v : (B, H, T, D), (B, KV, S, D) x 2 ->
                               (B, H, T, D); head h of q uses head h KV / H of k and v; never
                               stores (T, S); a query without keys gives 0 */
cr_tensor *cr_attention_packed(const cr_tensor *qkv, const cr_attention_options *o);
                            /* of q, k, v = qkv[:, :, i], (B, T, 3, H, D) -> (B, H, T, D); their
                               gradients are one tensor; no mask */

typedef enum cr_rope_scaling {
    CR_ROPE_PLAIN, CR_ROPE_LINEAR, CR_ROPE_DYNAMIC, CR_ROPE_LLAMA3, CR_ROPE_YARN, CR_ROPE_LONG
} cr_rope_scaling;
typedef struct cr_rope_options {        /* numbers that are 0 have the value in parentheses */
    double base;            /* (10000) pair i turns by position / base^(2 i / R) */
    cr_rope_scaling scaling;
    double factor;          /* of the context; scalings but PLAIN, LONG: at least 1 */
    double original;        /* positions of the training: DYNAMIC, LLAMA3, YARN, LONG */
    double low, high;       /* LLAMA3: turns within original: (1) fewer are slowed down, (4) more
                               are not */
    double beta_fast, beta_slow;        /* YARN: the same, (32) and (1) */
    double attention_factor;            /* YARN: (0.1 log(factor) + 1) times cos and sin; LONG:
                               (sqrt(1 + log(factor) / log(original)), 1 where factor <= 1) */
    double mscale, mscale_all_dim;      /* YARN: both: its quotient of two such terms */
    bool untruncated;       /* YARN: the bounds stay between whole columns */
    int64_t start;          /* position of the first row */
    int64_t length;         /* DYNAMIC, LONG: (start + n) of the whole sequence */
    const double *divisors[2];          /* LONG: of the R / 2 frequencies, where length <= original,
                               and of longer texts */
} cr_rope_options;
cr_tensor *cr_rope_table(int64_t n, int64_t R, const cr_rope_options *o, cr_dtype dt,
                         const cr_device *dev);
                            /* cos, then sin, of R / 2 pairs at n positions : (n, R), f32 or f64;
                               computed in double; the scalings are Hugging Face's; o NULL: PLAIN */
cr_tensor *cr_rope(const cr_tensor *x, const cr_tensor *table, bool interleaved);
                            /* rotary embedding: pairs (a, b) of the first R columns become
                               (a cos - b sin, b cos + a sin) : (..., T, D), (T, R) or any that
                               broadcasts -> (..., T, D); pairs i and i + R / 2, or interleaved: 2 i
                               and 2 i + 1; table: f32, for f64 f64 */

typedef struct cr_conv_options {    /* entry i: spatial axis i */
    int64_t stride[3], dilation[3];
    int64_t padding[3][2];  /* zeros before and behind the axis */
    int64_t output_padding[3];
                            /* cr_conv_transpose: elements behind the result; less than stride or
                               dilation */
    int64_t groups;         /* OC / groups channels read C / groups channels each */
} cr_conv_options;
cr_conv_options cr_conv_defaults(void);                     /* stride, dilation and groups 1 */
cr_tensor *cr_conv(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                   const cr_conv_options *o);
                            /* y[o, p] = b[o] + sum of x[c, p stride + t dilation - padding]
                               w[o, c, t] : (B, C, *in)|(C, *in), (OC, C / groups, *kernel),
                               (OC)|CR_NONE -> (B, OC, *out); 1 to 3 spatial axes; out =
                               (in + padding - dilation (kernel - 1) - 1) / stride + 1, rounded
                               down; o NULL: defaults */
cr_tensor *cr_conv_transpose(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b,
                             const cr_conv_options *o);
                            /* the gradient of cr_conv in its input, as a layer : (B, C, *in),
                               (C, OC / groups, *kernel), (OC)|CR_NONE -> (B, OC, *out); out =
                               (in - 1) stride - padding + dilation (kernel - 1) + 1 +
                               output_padding */

typedef enum cr_cell { CR_RNN_TANH, CR_RNN_RELU, CR_GRU, CR_LSTM } cr_cell;
typedef struct cr_recurrent_options {
    const cr_tensor *x;     /* (T, B, I); with batch_sizes (N, I), the rows of all time steps */
    const cr_tensor *h0, *c0;
                            /* (B, P), (B, H), the states before; NULL, CR_NONE: zeros */
    const cr_tensor *w_ih, *w_hh, *b_ih, *b_hh;
                            /* (G H, I), (G H, P), (G H) x 2 or NULL, CR_NONE; gates: r z n of a
                               GRU, i f g o of an LSTM */
    const cr_tensor *w_hr;  /* LSTM: (P, H), projects h; NULL, CR_NONE: none, P = H */
    bool reverse;           /* from the last time step to the first */
    int64_t steps;          /* of batch_sizes */
    const int64_t *batch_sizes;
                            /* NULL: T steps of B; else at each step the first of the B sequences,
                               B = batch_sizes[0], that are not over; never grows */
} cr_recurrent_options;
cr_tensor *cr_recurrent(cr_cell cell, const cr_recurrent_options *o, cr_tensor **h,
                        cr_tensor **c);
                            /* a layer of cells over all time steps -> (T, B, P) or (N, P); *h
                               (B, P) and *c (B, H), of an LSTM: the last states, or NULL */

/* ---- losses */
typedef enum cr_reduction { CR_MEAN, CR_SUM, CR_EACH } cr_reduction;
typedef struct cr_cross_entropy_options {
    int64_t ignore_index; double label_smoothing; cr_reduction reduction;
} cr_cross_entropy_options;
cr_cross_entropy_options cr_cross_entropy_defaults(void);   /* -100, 0, CR_MEAN */
cr_tensor *cr_cross_entropy(const cr_tensor *logits, const cr_tensor *target,
                            const cr_cross_entropy_options *o);
                            /* -log softmax(logits)[target] : logits (..., V), target (...) of
                               ints -> (), with CR_EACH (...); o NULL: defaults.  The mean is over
                               targets other than ignore_index, NaN if there are none; with
                               CR_EACH their losses are 0.  Other targets outside [0, V) are an
                               error */
cr_tensor *cr_linear_cross_entropy(const cr_tensor *x, const cr_tensor *w,
                                   const cr_tensor *target,
                                   const cr_cross_entropy_options *o);
                            /* the same of logits x w^T, which no tensor holds: x (..., C),
                               w (V, C) */

/* ---- parameters: tensors by name */
typedef struct cr_params cr_params;

cr_params  *cr_params_new(void);
void        cr_params_free(cr_params *p);
cr_status   cr_params_add(cr_params *p, const char *name, cr_tensor *t);
                            /* keep a reference to t; the name must be new */
int64_t     cr_params_count(const cr_params *p);
int64_t     cr_params_numel(const cr_params *p);    /* a tensor with two names counts once */
const char *cr_params_name(const cr_params *p, int64_t i); /* borrowed */
cr_tensor  *cr_params_at(const cr_params *p, int64_t i);
                            /* borrowed, and writable: cr_copy_ or cr_write with gradients off
                               replaces its values; cr_requires_grad_(t, false) and
                               cr_set_grad(t, CR_NONE) freeze it, and optimizers skip it */
cr_tensor  *cr_params_get(const cr_params *p, const char *name);
                            /* borrowed; unknown name: an error */
void        cr_params_zero_grad(cr_params *p);      /* free the gradients */
cr_status   cr_params_clip_grad_norm(cr_params *p, double max_norm, double *norm);
                            /* scale all gradients if their joint 2-norm exceeds max_norm; *norm
                               (or NULL, as a recorded step needs it): that norm */
cr_tensor  *cr_clip_grad_norm(int64_t n, cr_tensor *const *grads, double max_norm);
                            /* the same of n gradients; their norm: (), f64, on the cpu */
cr_status   cr_scale_grads(int64_t n, cr_tensor *const *grads, double by);
                            /* grads[i] *= by, outside any graph, for each i in turn */

/* ---- initialisers: in place */
cr_status   cr_init_uniform(cr_tensor *t, double low, double high, cr_generator *g);
                            /* U[low, high) */
cr_status   cr_init_normal(cr_tensor *t, double mean, double std, cr_generator *g);
cr_status   cr_init_trunc_normal(cr_tensor *t, double mean, double std, double low, double high,
                                 cr_generator *g);
cr_status   cr_init_xavier_uniform(cr_tensor *t, double gain, cr_generator *g);
                            /* (OC, C); U(+-gain sqrt(6 / (C + OC))) */
cr_status   cr_init_xavier_normal(cr_tensor *t, double gain, cr_generator *g);
                            /* std gain sqrt(2 / (C + OC)) */
cr_status   cr_init_kaiming_uniform(cr_tensor *t, double a, cr_generator *g);
                            /* U(+-sqrt(6 / ((1 + a^2) C))); nn.Linear: a = sqrt(5) */
cr_status   cr_init_kaiming_normal(cr_tensor *t, double a, cr_generator *g);
                            /* std sqrt(2 / ((1 + a^2) C)) */
cr_status   cr_init_orthogonal(cr_tensor *t, double gain, cr_generator *g);

/* ---- mixed precision: docs/training.md has the policy of each op */
typedef enum cr_cast_policy {
    CR_CAST_UNLISTED,       /* runs in the dtypes of its operands */
    CR_CAST_NONE,           /* the same for all ops that it is made of */
    CR_CAST_LOW, CR_CAST_F32, /* the region's dtype; f32 */
    CR_CAST_FIRST, CR_CAST_WIDEST /* the dtype of the first input; the widest of all inputs */
} cr_cast_policy;
cr_cast_policy cr_autocast_policy(const char *op);
                            /* float inputs of an op under autocast; f64 is never cast */
cr_status   cr_autocast_begin(const cr_device *dev, cr_dtype dt, bool cache);
                            /* this thread, devices of dev's type, until cr_autocast_end; bf16, f16,
                               or f32: none; nests; cache: an f32 leaf is cast once for all ops
                               until the outermost region ends; backward passes are not affected */
cr_status   cr_autocast_end(void);
cr_dtype    cr_autocast_dtype(const cr_device *dev); /* of the innermost region; f32: none */
bool        cr_autocasting(void);   /* is this thread inside a region of any device? */
cr_tensor  *cr_autocast_cast(const cr_tensor *x, cr_dtype dt);
                            /* x as cr_to gives it; the cast of an f32 leaf is kept, as above */
bool        cr_set_autocast(bool on);
                            /* this thread; false: as if no region had begun; returns the old
                               setting */
void        cr_autocast_clear(void);        /* free this thread's casts of leaves */
cr_status   cr_autocast_copy(const cr_tensor *leaf, cr_tensor *copy);
                            /* this thread: the cast of an f32 leaf is copy, kept by
                               cr_optim_mirror, in place of a new tensor; CR_NONE: forget it */

/* ---- optimizers and schedules */
typedef struct cr_optim cr_optim;
typedef enum cr_optim_kind { CR_SGD, CR_ADAM, CR_ADAMW, CR_LION, CR_MUON, CR_ADAMAX } cr_optim_kind;
typedef struct cr_optim_options {
    cr_optim_kind kind;
    double lr, beta1, beta2, eps, momentum, weight_decay;
    bool   nesterov, offload;   /* offload: moments and masters in host memory
                                   (cr_zeros_offloaded) */
    bool   master_weights;  /* f16 and bf16 parameters: the first step makes an f32 copy, the
                               master ("wte.w" in the state); steps change the master, and the
                               parameter is its rounded value.  The master does not see what else
                               writes the parameter */
    int    decay_min_ndim;
                            /* weight decay only for parameters with this many axes or more (2:
                               matrices) */
} cr_optim_options;
const char *cr_optim_name(cr_optim_kind kind); /* "sgd", "adamw"...; NULL: no such kind */
cr_optim_options cr_optim_defaults(cr_optim_kind kind);
                            /* PyTorch's; CR_LION: lr 1e-4, betas 0.9, 0.99; CR_MUON: (M, N)
                               parameters use lr 0.2 sqrt(max(M, N)), others use AdamW */
cr_tensor  *cr_zeros_offloaded(const cr_tensor *like, cr_dtype dt);
                            /* like's shape and device, in host memory that CUDA kernels access
                               (slowly); host devices: cr_zeros; other devices: an error */
cr_optim   *cr_optim_new(const cr_params *p, const cr_optim_options *o);
                            /* keeps the parameters, not p: p may be freed before it; a parameter
                               that joins p later is not trained */
cr_status   cr_optim_add(cr_optim *opt, const cr_params *p, const cr_optim_options *o);
                            /* add a parameter group, with options of its own */
void        cr_optim_free(cr_optim *opt);
cr_status   cr_optim_step(cr_optim *opt); /* skips parameters without a gradient */
cr_status   cr_optim_step_clipped(cr_optim *opt, double max_norm, double *norm);
                            /* cr_params_clip_grad_norm and cr_optim_step in one pass; reads
                               scaled gradients and does not change them.  A recorded step takes
                               NULL for norm, and asks cr_optim_norm after its runs */
double      cr_optim_norm(const cr_optim *opt);
                            /* of the gradients of the last cr_optim_step_clipped; NaN: none yet */
cr_status   cr_optim_mirror(cr_optim *opt, const cr_tensor *p, cr_tensor *mirror);
                            /* keep a copy of p in another float dtype: written now and in the
                               pass of every step; CR_NONE: stop; not of a parameter with a
                               master */
cr_status   cr_optim_backward(cr_optim *opt, const cr_tensor *loss);
                            /* cr_backward and cr_optim_step in one: a parameter steps when its
                               gradient is complete, and the gradient is freed; after a failure
                               some have stepped */
cr_status   cr_optim_set_lr(cr_optim *opt, double lr); /* every group */
cr_status   cr_optim_set_group_lr(cr_optim *opt, int64_t group, double lr);
                            /* group 0: of cr_optim_new; 1, 2...: of cr_optim_add, in order */
double      cr_optim_lr(const cr_optim *opt);       /* of group 0 */
int64_t     cr_optim_steps(const cr_optim *opt);
cr_params  *cr_optim_state(const cr_optim *opt);
                            /* moments and masters by name ("wte.m", "wte.v", "wte.w"); owned,
                               shares their storage */
cr_status   cr_optim_load(cr_optim *opt, const cr_params *state, int64_t steps);
/* loss scaling for f16: scale, cr_backward, (unscale,) step, update; doc of torch.amp.GradScaler */
typedef struct cr_scaler cr_scaler;
typedef struct cr_scaler_options {
    double init_scale, growth_factor, backoff_factor; int64_t growth_interval; bool enabled;
} cr_scaler_options;
typedef struct cr_scaler_state {
    double scale, growth_factor, backoff_factor; int64_t growth_interval;
    int64_t growth_tracker; /* steps in a row without Inf and NaN */
} cr_scaler_state;
cr_scaler_options cr_scaler_defaults(void);         /* 65536, 2, 0.5, 2000, true */
cr_scaler  *cr_scaler_new(const cr_scaler_options *o); /* o NULL: defaults */
void        cr_scaler_free(cr_scaler *s);
double      cr_scaler_scale_of(const cr_scaler *s); /* 1: not enabled */
cr_tensor  *cr_scaler_scale(const cr_scaler *s, const cr_tensor *loss); /* loss scale */
cr_status   cr_scaler_unscale(cr_scaler *s, cr_optim *opt);
                            /* divide opt's gradients by the scale now; optional, once an update */
cr_status   cr_scaler_step(cr_scaler *s, cr_optim *opt, double max_norm, double *norm,
                           bool *stepped);
                            /* cr_optim_step_clipped of the unscaled gradients, in its one pass;
                               skipped if one is Inf or NaN; max_norm INFINITY: no limit; *norm and
                               *stepped or NULL */
cr_status   cr_scaler_update(cr_scaler *s);
                            /* scale *= backoff_factor after a skipped step, *= growth_factor after
                               growth_interval others */
cr_scaler_state cr_scaler_get(const cr_scaler *s);
cr_status   cr_scaler_set(cr_scaler *s, const cr_scaler_state *state);
typedef enum cr_schedule_kind { CR_CONSTANT, CR_COSINE, CR_ONE_CYCLE } cr_schedule_kind;
typedef struct cr_schedule {
    cr_schedule_kind kind; double lr, min_lr; int64_t warmup, total;
} cr_schedule;
double      cr_schedule_lr(const cr_schedule *s, int64_t step);
                            /* linear warm-up, then the kind's curve to min_lr at total;
                               CR_ONE_CYCLE: PyTorch's, starting at lr / 25; warmup 0: 0.3 total;
                               min_lr 0: lr / 250000 */

/* ---- text and token files */
typedef struct cr_tokenizer cr_tokenizer;
typedef struct cr_tokens cr_tokens;
typedef struct cr_loader cr_loader;

cr_tokenizer *cr_tokenizer_bytes(void);                 /* 256 tokens, one for each byte */
cr_tokenizer *cr_tokenizer_chars(const char *text, size_t bytes);
                            /* one token for each code point of this UTF-8 text, in code-point
                               order */
cr_tokenizer *cr_tokenizer_load(const char *path);
                            /* path: a file, or a folder that has one: what cr_tokenizer_save wrote,
                               tokenizer.json, vocab.json with merges.txt, encoder.json with
                               vocab.bpe, SentencePiece's .model, BERT's vocab.txt, or GGUF */
typedef struct cr_bpe_training {
    int64_t vocabulary;     /* tokens in all: 256 bytes, special ones, and merges */
    int64_t min_frequency;  /* a pair that is rarer is not merged */
    const char *split;      /* expression whose matches are the pieces; NULL: GPT-2's */
    const char *const *special; int64_t n_special; /* names of special tokens; they come first */
} cr_bpe_training;
cr_tokenizer *cr_tokenizer_train_bpe(const char *text, size_t bytes, const cr_bpe_training *o);
                            /* byte-level BPE; ties go to the pair of the smaller tokens */
cr_status     cr_tokenizer_save(const cr_tokenizer *t, const char *path); /* JSON; learned
                               vocabularies as a tokenizer.json */
char         *cr_tokenizer_gguf(const cr_tokenizer *t, const char *folder, int64_t size);
                            /* entries of a GGUF file as a JSON object, owned (cr_free), for a
                               vocabulary of this size; folder: of the model, for special tokens and
                               the chat template, or NULL; CR_BAD_VALUE: llama.cpp would read text
                               as other tokens */
void          cr_tokenizer_free(cr_tokenizer *t);
int64_t       cr_tokenizer_size(const cr_tokenizer *t); /* number of tokens: the largest id + 1 */
int64_t       cr_tokenizer_encode(const cr_tokenizer *t, const char *text, size_t bytes,
                                  uint32_t *ids, int64_t room);
                            /* returns the number of ids needed or -1; writes at most room; names of
                               special tokens are text */
typedef struct cr_encoding {
    bool all_special;                             /* special tokens are recognized in the text */
    const uint32_t *special; int64_t n_special;   /* or only these */
    /* the ids around a text, such as <s>, are added */
    bool add_special;
    int64_t max_length;                           /* longer texts are cut, before the ids that the
                                                     tokenizer puts behind them; 0: no limit */
} cr_encoding;
uint32_t     *cr_tokenizer_encode_special(const cr_tokenizer *t, const char *text, size_t bytes,
                                          const cr_encoding *o, int64_t *n);
                            /* n ids, owned (cr_free) */
uint32_t     *cr_tokenizer_encode_parts(const cr_tokenizer *t, const char *text, size_t bytes,
                                        const cr_encoding *o, int64_t parts, const int64_t *end,
                                        int64_t *at, int64_t *n);
                            /* the ids of the whole text; at[i]: how many of them its first end[i]
                               bytes begin with too; end ascends */
cr_status     cr_tokenizer_encode_batch(const cr_tokenizer *t, int64_t texts,
                                        const char *const *text, const size_t *bytes,
                                        const cr_encoding *o, uint32_t **ids, int64_t *n);
                            /* ids[i] as of encode_special; all NULL after a failure */
int64_t       cr_tokenizer_decode(const cr_tokenizer *t, const uint32_t *ids, int64_t n, char *text,
                                  size_t room);
                            /* returns the number of bytes needed or -1; writes at most room, no
                               terminator */
int64_t       cr_tokenizer_find(const cr_tokenizer *t, const char *token, size_t bytes);
                            /* id of a token by its name in the file, or -1 without an error */
const char   *cr_tokenizer_name(const cr_tokenizer *t, int64_t id, size_t *bytes, bool *special);
                            /* borrowed; NULL without an error: no such token, or it has no name */

typedef struct cr_decoder cr_decoder;                   /* decodes one text token by token */
cr_decoder   *cr_decoder_new(const cr_tokenizer *t);    /* borrows t */
void          cr_decoder_free(cr_decoder *d);
const char   *cr_decoder_next(cr_decoder *d, uint32_t id, size_t *bytes);
                            /* text that this token completes, in whole characters; borrowed until
                               the next call; NULL: no such token */
const char   *cr_decoder_end(cr_decoder *d, size_t *bytes);
                            /* bytes that are left; the next token starts a new text */

/* a chat template in Jinja, as transformers sets it up; it reaches nothing but its variables */
typedef struct cr_template cr_template;
typedef struct cr_marks { size_t bytes; int64_t n, *at; } cr_marks;
                            /* of a rendered text; {% generation %} i is bytes [at[2i], at[2i + 1]);
                               at: owned (cr_free) */
cr_template  *cr_template_new(const char *text, size_t bytes); /* an error names the line */
char         *cr_template_render(const cr_template *t, const char *variables, size_t bytes,
                                 cr_marks *marks);
                            /* variables: a JSON object; marks: may be NULL; owned; any thread */
void          cr_template_free(cr_template *t);

/* how a model is asked, as its folder or GGUF file says */
typedef struct cr_chat cr_chat;
cr_chat      *cr_chat_open(const char *path, const cr_tokenizer *t, const char *form);
                            /* path: a folder or GGUF file, or NULL; t: its tokenizer, or NULL:
                               only end tokens are read; form: in place of its template, the text of
                               one or "chatml", "llama2", "llama3", "mistral"; NULL: its own, else
                               the one of these whose tokens t has */
void          cr_chat_free(cr_chat *c);
char         *cr_chat_text(const cr_chat *c, const char *variables, size_t bytes,
                           size_t *length);
                            /* variables: a JSON object with "messages", "add_generation_prompt",
                               "continue_final_message", "tools"...; owned; length: or NULL; any
                               thread */
char         *cr_chat_answers(const cr_chat *c, const char *variables, size_t bytes,
                              cr_marks *answers);
                            /* the same, with where the assistant's messages and their end tokens
                               are */
const char   *cr_chat_template(const cr_chat *c); /* the template; borrowed; NULL: there is none */
const char   *cr_chat_name(const cr_chat *c);       /* of a built-in template; NULL: another */
const char   *cr_chat_source(const cr_chat *c); /* where it is from: "chat_template.jinja" */
const char   *cr_chat_token(const cr_chat *c, const char *role);
                            /* "bos_token", "eos_token"...; borrowed; NULL: there is none */
int64_t       cr_chat_ends(const cr_chat *c, bool answer, uint32_t *ids, int64_t room);
                            /* the tokens that end a text; answer: also what the template puts
                               behind an answer; returns how many, writes at most room */

cr_tokens    *cr_tokens_new(const uint32_t *ids, int64_t n, int64_t vocabulary); /* copies ids */
cr_tokens    *cr_tokens_open(const char *path); /* memory-mapped: as cr_load's */
cr_tokens    *cr_tokens_join(int n, const cr_tokens *const *parts);
                            /* one sequence, over their memory; of one vocabulary */
cr_status     cr_tokens_save(const cr_tokens *t, const char *path);
                            /* smallest of u8, u16, u32 for the vocabulary */
cr_tokens    *cr_tokens_slice(const cr_tokens *t, int64_t start, int64_t stop);
                            /* shares the data */
void          cr_tokens_free(cr_tokens *t);
int64_t       cr_tokens_count(const cr_tokens *t);
int64_t       cr_tokens_vocabulary(const cr_tokens *t);
uint32_t      cr_tokens_at(const cr_tokens *t, int64_t i);

typedef struct cr_loader_options {
    int64_t batch, context; uint64_t seed; bool shuffle; const cr_device *device;
} cr_loader_options;
cr_loader_options cr_loader_defaults(void);
cr_loader    *cr_loader_new(const cr_tokens *t, const cr_loader_options *o);
                            /* windows of context + 1 tokens; a thread prepares the next batch */
void          cr_loader_free(cr_loader *l);
cr_status     cr_loader_next(cr_loader *l, cr_tensor **x, cr_tensor **y);
                            /* new tensors (owned), i64 (B, T); y is one token later than x; a
                               new epoch starts automatically */
int64_t       cr_loader_cursor(const cr_loader *l);     /* batches delivered so far */
cr_status     cr_loader_seek(cr_loader *l, int64_t cursor);
int64_t       cr_loader_batches(const cr_loader *l);    /* in one epoch */

/* ---- files: written under another name, then renamed */
cr_status   cr_save(const char *path, const cr_params *tensors, const char *metadata);
                            /* safetensors; metadata: JSON object of strings, or NULL */
cr_params  *cr_load(const char *path, const cr_device *dev);
                            /* all tensors of a safetensors file (memory-mapped on cpu), of a
                               GGUF file (packed ones as f32), of a Hugging Face folder, or of
                               a checkpoint's weights.  The map lives as long as a tensor over it;
                               writes to a tensor do not reach the file.  Meanwhile the file may be
                               replaced or removed, but not written in place or cut short */
cr_status   cr_save_folder(const char *dir, const cr_params *tensors, const char *config,
                           int64_t shard_bytes);
                            /* Hugging Face's layout: model.safetensors, or shards of at most so
                               many bytes (0: 5 GB) and their index; config.json, a JSON object; a
                               failure leaves the files that were there */
cr_status   cr_complete_folder(const char *dir);
                            /* moves the files of a save that ended before it did so; the readers
                               of folders do this too */
char       *cr_load_metadata(const char *path, const char *key);
                            /* owned (cr_free); NULL without an error: no such key; key NULL: the
                               whole JSON object */
cr_params  *cr_load_gguf(const char *path, const cr_device *dev, char **config);
                            /* a model of GGUF by the names of Hugging Face, linear weights (OC, C);
                               *config: the text of its config.json, owned (cr_free) */
char       *cr_gguf_entries(const char *path, const char *prefix);
                            /* entries of a GGUF file whose keys begin so, a JSON object, owned
                               (cr_free); NULL without an error: none */
cr_status   cr_save_gguf(const char *path, const cr_params *tensors, const char *config,
                         const char *tokenizer, const char *type);
                            /* the other way; tokenizer: JSON object of more entries, or NULL;
                               type of matrices: "f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m",
                               "q5_k_m" or "q6_k" */
void        cr_free(void *memory);  /* free plain memory that the library returned */
cr_status   cr_params_copy(cr_params *dst, const cr_params *src);
                            /* by name; one error lists all missing, extra and mis-shaped tensors */
typedef struct cr_training {        /* all state that a bit-exact restart needs; each may be NULL */
    cr_params *params; cr_optim *optim; cr_generator *generator; cr_loader *loader;
    int64_t step; const char *metadata;
    cr_scaler *scaler;
    struct cr_parallel *parallel; /* of dist.h, with optim: all ranks call cr_training_save; with
                               shard each writes a part of the weights and its moments, else rank 0
                               writes everything */
} cr_training;
cr_status   cr_training_save(const char *dir, const cr_training *t);
cr_status   cr_training_load(const char *dir, cr_training *t);
                            /* fill the given objects and step, all from one save, even while
                               another process saves */
cr_status   cr_training_copy(const char *from, const char *to);
                            /* later saves into `from` do not change the copy; hard links where
                               possible; from = to: completes an interrupted save */
cr_status   cr_training_check(const char *dir);
                            /* CR_IO names the first thing in it that no save of a checkpoint wrote;
                               CR_OK where it is not there, or empty */
cr_status   cr_training_remove(const char *dir);
                            /* the files of a checkpoint and the folder; CR_IO names what is not of
                               one, which stays */
cr_status   cr_training_merge(const char *dir); /* parts that ranks wrote become single files */
char       *cr_training_weights(const char *dir);
                            /* path of the safetensors file of weights, or of the index of the
                               ranks' files, even after an interrupted save; owned (cr_free) */

/* ---- GPT-2: an example of using the library */
typedef struct cr_gpt cr_gpt;
typedef struct cr_gpt_config {
    int64_t vocabulary, context, layers, heads, width; double dropout;
} cr_gpt_config;
cr_gpt     *cr_gpt_new(const cr_gpt_config *c, cr_dtype dt, const cr_device *dev, cr_generator *g);
                            /* GPT-2's initialisation; g also draws the dropout */
void        cr_gpt_free(cr_gpt *m);
cr_gpt_config cr_gpt_configuration(const cr_gpt *m);
cr_params  *cr_gpt_params(const cr_gpt *m); /* borrowed */
void        cr_gpt_gradient_checkpointing(cr_gpt *m, bool on);
                            /* on: the graph keeps the input of each block, and the backward pass
                               runs the block again; the same bits, less memory, more time */
cr_tensor  *cr_gpt_logits(const cr_gpt *m, const cr_tensor *tokens, bool train);
                            /* (B, T) -> (B, T, V) */
cr_tensor  *cr_gpt_loss(const cr_gpt *m, const cr_tensor *tokens, const cr_tensor *targets,
                        bool train);        /* mean cross-entropy in nats per token */
cr_status   cr_gpt_save(const cr_gpt *m, const char *path);
                            /* safetensors with the configuration in its metadata */
cr_gpt     *cr_gpt_load(const char *path, const cr_device *dev);
                            /* a file, or a checkpoint's folder */

typedef bool (*cr_adjust)(const uint32_t *ids, int64_t n, double *logits, int64_t V, void *ctx);
                            /* changes the logits after n tokens; -INFINITY forbids one; false:
                               failure */
typedef struct cr_sampling {
    double temperature, top_p;  /* 0: greedy; 1: all tokens */
    int64_t top_k;              /* only the likeliest; 0: all */
    double min_p;               /* only tokens with this share of the likeliest's probability */
    double repetition_penalty;
                            /* divides positive logits of tokens that occurred, multiplies negative
                               ones; 0, 1: none */
    cr_adjust adjust; void *adjust_ctx; /* before the others; NULL: none */
} cr_sampling;
typedef struct cr_logit_bias { uint32_t id; double add; } cr_logit_bias;
typedef struct cr_penalties {   /* OpenAI's; zeros: none */
    double presence, frequency; /* tokens that occurred behind the prompt lose the first, and the
                                   second as often as they did */
    int64_t prompt;             /* how many of the tokens before it are the prompt's */
    const cr_logit_bias *bias; int64_t biases; /* added to logits */
} cr_penalties;
bool        cr_penalize(const uint32_t *ids, int64_t n, double *logits, int64_t V, void *ctx);
                            /* an adjust; ctx: its cr_penalties */
cr_status   cr_sample(const cr_tensor *logits, const cr_sampling *s, cr_generator *g, uint32_t *id);
                            /* (V): one token from softmax(logits / temperature), in double on
                               the host */
cr_status   cr_sample_next(const cr_tensor *logits, const cr_sampling *s, const uint32_t *ids,
                           int64_t n, cr_generator *g, uint32_t *id);
                            /* the same after n tokens, for repetition_penalty and adjust */
cr_status   cr_sample_verify(const cr_tensor *logits, const cr_tensor *draft, const cr_sampling *s,
                             const uint32_t *ids, int64_t n, cr_generator *g, int64_t *taken,
                             uint32_t *id);
                            /* ids: n tokens, then K that cr_sample_next drew from the draft model's
                               logits (K, V); logits (K + 1, V) of a model after the same tokens:
                               *taken of the K and then *id have the model's distribution */
typedef bool (*cr_on_token)(uint32_t id, void *ctx);            /* false: stop */
cr_status   cr_gpt_generate(const cr_gpt *m, const uint32_t *prompt, int64_t n_prompt,
                            int64_t n_new, const cr_sampling *s, cr_generator *g,
                            cr_on_token on_token, void *ctx);   /* with a key-value cache */

/* ---- pretrained language models: the families of src/models/family.c */
typedef struct cr_lm cr_lm;
cr_lm      *cr_lm_load(const char *path, const cr_device *dev);
                            /* a Hugging Face folder, a GGUF file, or a checkpoint's folder; on
                               cpu over the mapped files.  One error lists all weights that are
                               missing, not wanted or of another shape than config.json says */
void        cr_lm_free(cr_lm *m);
cr_params  *cr_lm_params(const cr_lm *m);
                            /* borrowed; Hugging Face's names, linear weights (OC, C) */
const char *cr_lm_config(const cr_lm *m); /* borrowed; the text of config.json */
int64_t     cr_lm_vocabulary(const cr_lm *m);
int64_t     cr_lm_context(const cr_lm *m); /* the most tokens that it sees */
void        cr_lm_gradient_checkpointing(cr_lm *m, bool on);    /* as cr_gpt_... */
cr_tensor  *cr_lm_logits(const cr_lm *m, const cr_tensor *tokens); /* (B, T) -> (B, T, V) */
cr_tensor  *cr_lm_loss(const cr_lm *m, const cr_tensor *tokens, const cr_tensor *targets);
                            /* mean cross-entropy in nats per token */
/* the same in parts, for a caller that keeps weights, keys and values itself */
cr_lm      *cr_lm_of(const char *config, const cr_params *weights, const cr_device *dev);
                            /* over these very tensors, by the names of cr_lm_params */
bool        cr_lm_is_of(const cr_lm *m, int64_t n, const cr_tensor *const *weights);
                            /* are these its tensors, in the order of cr_lm_params? */
cr_lm      *cr_lm_of_files(const char *path, const char *config, const cr_params *weights,
                           const cr_device *dev);
                            /* the names and layouts are those of Hugging Face's files; path: of
                               config.json, for messages */
cr_lm      *cr_lm_new(const char *config, cr_dtype dt, const cr_device *dev, cr_generator *g);
                            /* with new weights, as cr_gpt_new's; g NULL: not initialised */
typedef enum cr_lm_part {   /* what a part is; a group has no weights of its own */
    CR_PART_GROUP, CR_PART_LINEAR, CR_PART_ROWS, CR_PART_TABLE, CR_PART_LAYER_NORM,
    CR_PART_RMS_NORM, CR_PART_NORM  /* the last: RMS, times 1 + weight */
} cr_lm_part;
typedef cr_status (*cr_lm_visit)(void *ctx, const char *name, int64_t part, cr_lm_part kind);
cr_status   cr_lm_parts_visit(const cr_lm *m, cr_lm_visit fn, void *ctx);
                            /* embeddings, norms, linear layers; groups: blocks, their attention
                               and MLP */
int64_t     cr_lm_parts_count(const cr_lm *m);  /* the numbers of parts are below this */
typedef struct cr_lm_parts {        /* parts that the caller computes */
    const uint8_t *own;             /* (cr_lm_parts_count): 1: these */
    cr_tensor *(*call)(int64_t part, const cr_tensor *x, void *ctx);
                            /* a reference (cr_retain); NULL: an error */
    void *ctx;
    void (*hold)(void *ctx, bool on);   /* a backward pass that runs blocks again keeps ctx */
} cr_lm_parts;
cr_tensor  *cr_lm_part_run(const cr_lm *m, int64_t part, const cr_tensor *x);
                            /* what the model computes there, in a call of cr_lm_parts only */
typedef struct cr_lm_train { double dropout; cr_generator *generator; } cr_lm_train;
typedef struct cr_lm_reading {      /* zeros: texts (B, T) from their first token on */
    int64_t n; const int64_t *length;
                            /* texts one after the other in (1, T); 0: rows of equal length */
    cr_tensor *const *stores;
                            /* of each layer and text keys, values (B, KV, room, D), and of int8 the
                               scales of both (B, KV, room, 1), which get the new ones */
    const int64_t *past;    /* positions that the stores hold, of each text or of all rows */
    const cr_tensor *at;    /* instead: i64 (1), the position of the one token of each row, which a
                               plan may be given anew */
    cr_lm_train train;      /* generator NULL: no dropout */
    const cr_lm_parts *parts;       /* NULL: none */
    const cr_tensor *mask;  /* of an encoder: (B, T), 0: padding, which no token sees; NULL: none */
    const cr_tensor *kinds; /* of an encoder: (B, T) i64, token_type_ids; NULL: zeros */
} cr_lm_reading;
cr_tensor  *cr_lm_hidden(const cr_lm *m, const cr_tensor *tokens, const cr_lm_reading *p);
                            /* the residual stream after the last norm : (B, T) -> (B, T, C) */
cr_tensor  *cr_lm_head(const cr_lm *m, const cr_tensor *x);     /* (..., C) -> (..., V) */
cr_tensor  *cr_lm_head_loss(const cr_lm *m, const cr_tensor *x, const cr_tensor *targets,
                            cr_reduction reduction);
                            /* the cross-entropy of these logits : (N, C), (N) -> () or (N) */
typedef enum cr_lm_output { /* what is made of the residual stream x (B, T, C) */
    CR_OUTPUT_POOLED,       /* of an encoder with a pooler: (B, C), of the first token */
    CR_OUTPUT_LOGITS,       /* of an encoder: (B, T, V) of masked tokens, (B, labels), or
                               (B, T, labels) */
    CR_OUTPUT_SENTENCE      /* of any model: the embedding of each text (B, n C), pooled as
                               modules.json of sentence-transformers says, else the mean */
} cr_lm_output;
bool        cr_lm_is_encoder(const cr_lm *m);
bool        cr_lm_gives(const cr_lm *m, cr_lm_output what);
cr_tensor  *cr_lm_output_of(const cr_lm *m, cr_lm_output what, const cr_tensor *x,
                            const cr_tensor *mask, const cr_lm_parts *parts);
                            /* mask, parts: as in cr_lm_reading */
cr_tensor  *cr_lm_embed(const cr_lm *m, int64_t n, const int64_t *length, const uint32_t *ids);
                            /* the sentence output of n texts, whose tokens lie one behind the
                               other, without padding : (n, n C) */
const char *cr_lm_pooling(const cr_lm *m, int64_t *length);
                            /* its rules, "mean|normalize"; the most tokens of a text */
cr_tensor  *cr_lm_capped(const cr_lm *m, const cr_tensor *logits);
                            /* logits of another head, with the model's cap */
const char *cr_lm_family(const cr_lm *m, const char **hf_class, const char **turned,
                         const char **lora);
                            /* the prefix of names in files; transformers' class, ends "a|b" of
                               matrices that are stored (in, out), PEFT's targets "a,b" */
double      cr_lm_numbers(const cr_lm *m, double *dropout, bool *length_dependent);
                            /* eps of the norms; dropout of config.json; do angles depend on the
                               length of the text? */
bool        cr_lm_steady(const cr_lm *m);   /* may a plan serve the steps with `at`? */
void        cr_lm_cache_shape(const cr_lm *m, int64_t shape[3]);    /* layers, KV, D */
cr_status   cr_lm_generate(const cr_lm *m, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                           const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx);
                            /* with a key-value cache */
typedef struct cr_cache cr_cache;
                            /* keys and values of a text, for texts that begin as it does */
cr_cache   *cr_cache_new(const cr_lm *m, cr_dtype dt);
                            /* empty; borrows m; dt: a float type, CR_I8 (a scale for each head and
                               position), or CR_BOOL: the dtype of the weights */
void        cr_cache_free(cr_cache *c);
const uint32_t *cr_cache_tokens(const cr_cache *c, int64_t *n); /* the text; borrowed */
cr_status   cr_cache_save(const cr_cache *c, const cr_lm *m, const char *path);
cr_cache   *cr_cache_load(const cr_lm *m, const char *path, cr_dtype dt);
                            /* refuses a cache of another model or another dt, as in cr_cache_new */
typedef struct cr_prompt {
    const uint32_t *ids; int64_t n;
    cr_generator *generator;    /* NULL: the default one */
    cr_cache *cache;
                            /* NULL: none is kept; else the prompt's first tokens that it holds are
                               not computed again; in the end it holds the text that the model
                               has read, all but the last token */
} cr_prompt;
typedef struct cr_generate_options {    /* numbers that are 0 have the value in parentheses */
    int64_t tokens;             /* at most, for each prompt */
    const cr_sampling *sampling;        /* NULL: temperature 1 */
    const uint32_t *stop; int64_t n_stop;       /* a text ends with one of these tokens */
    cr_dtype cache;             /* of prompts without cache: as in cr_cache_new */
    int64_t beams;              /* (1) more: the text with the best sum of log-probabilities /
                                   length^length_penalty that beam search finds, delivered when it
                                   is complete; of the sampling, adjust and repetition_penalty
                                   apply, to log-probabilities */
    double length_penalty;
    bool early_stopping;        /* beams: stop when as many texts are complete */
    const cr_lm *draft;
                            /* a smaller model of the same vocabulary proposes draft_tokens (4) at a
                               time: the distribution does not change; adjust may see proposals */
    int64_t draft_tokens;
} cr_generate_options;
typedef bool (*cr_on_row)(int64_t row, uint32_t id, void *ctx); /* false: this text stops */
cr_status   cr_lm_generate_batch(const cr_lm *m, int64_t n, const cr_prompt *prompts,
                                 const cr_generate_options *o, cr_on_row on_token, void *ctx);
                            /* n prompts of any lengths, each as it would go alone */
typedef struct cr_text_model {  /* a model that the caller runs */
    int64_t vocabulary, context, layers, kv_heads, head_dim;
    int64_t room;           /* of a store: a power of two, at least so many; 0: as many
                               as are needed */
    cr_dtype dtype; const cr_device *dev;           /* of keys and values */
    cr_tensor *(*run)(void *ctx, int64_t B, int64_t T, const uint32_t *ids, int64_t last,
                      cr_tensor *const *stores, const int64_t *past);
                            /* ids (B, T) behind `past` (B) positions of the stores, which are
                               those of cr_lm_reading -> the logits of the last positions
                               (B, last, V), a reference (cr_retain); NULL: an error */
    void *ctx;
} cr_text_model;
typedef struct cr_text_stream cr_text_stream;       /* a text, token by token */
cr_text_stream *cr_text_stream_new(const cr_text_model *m, const cr_text_model *draft,
                                   const cr_prompt *p, const cr_generate_options *o);
                            /* draft: NULL, or in the place of o->draft; ids and o are copied, but
                               not what o->sampling points to */
cr_status   cr_text_stream_next(cr_text_stream *s, uint32_t *id, bool *over);
                            /* the next token; over: there is none */
void        cr_text_stream_free(cr_text_stream *s);
cr_status   cr_lm_unpack(cr_lm *m); /* packed weights become floats */
cr_status   cr_lm_quantize(cr_lm *m, int bits, const uint32_t *tokens, int64_t n);
                            /* bits 8: its matrices become cr_quantize's q8_0, 4: q4_0, but the head
                               (and an embedding that it is tied to) q8_0; borrowed parts of m are
                               others afterwards.  tokens: n of a text that calibrates 4 bits, or
                               NULL */
cr_status   cr_lm_save(const cr_lm *m, const char *path, const char *format, const char *type);
                            /* format: "safetensors", a Hugging Face folder; "gguf", a file;
                               "checkpoint", a folder of cr_training_save.  type: "f32", "f16",
                               "bf16", those of cr_save_gguf (gguf); NULL: as they are */
cr_status   cr_lm_save_folder(const cr_lm *m, const char *path, int64_t shard_bytes);
                            /* safetensors files of at most so many bytes; 0: 5 GB */
cr_status   cr_lm_save_gguf(const cr_lm *m, const char *path, const char *type,
                            const char *tokenizer, const uint32_t *tokens, int64_t n);
                            /* with more entries, a JSON object such as cr_tokenizer_gguf's, or
                               NULL.  tokens: n of a text whose inputs of each matrix weigh the
                               errors of packed types; NULL: none */
typedef struct cr_samples {  /* samples one after the other, without padding */
    const int64_t *tokens;  /* of all samples */
    const int64_t *targets; /* as many: the token after each; negative: it does not count */
    int64_t n; const int64_t *length; /* samples, and the tokens of each */
} cr_samples;
cr_tensor  *cr_lm_losses(const cr_lm *m, const cr_samples *p, bool train);
                            /* (K): cross-entropy in nats of each target that counts, in order.  A
                               sample sees itself only, from position 0.  train: with the
                               adapter's dropout */

/* ---- samples of files, for fine-tuning and evaluation.  In a *.jsonl each line is one:
 *   {"text": "..."}                                     every token counts as a target
 *   {"prompt": "...", "completion": "..."}              the completion counts
 *   {"messages": [{"role": "user", "content": "..."}]}  the assistant's messages count
 *   {"question": "...", "choices": ["...", "..."], "answer": 1}       a sample for each choice
 * Other files are windows of the context. */
typedef struct cr_dataset cr_dataset;
typedef struct cr_dataset_options {
    const cr_tokenizer *tokenizer;
    const cr_chat *chat;            /* for "messages"; NULL: they are refused */
    int64_t context;                /* a sample has at most one token more */
    int64_t eos;                    /* ends texts and completions; -1: nothing does */
    bool truncate, questions;       /* longer samples are cut; questions are accepted */
} cr_dataset_options;
typedef struct cr_example {         /* counts[i]: ids[i] is a target; counted: without the first */
    const uint32_t *ids; const bool *counts; int64_t n, counted;
    int64_t bytes;                  /* of the text of those; special tokens have none */
} cr_example;
typedef struct cr_question { int64_t first, choices, answer; } cr_question;
                            /* its choices are samples from `first` on; answer: the right one */
cr_dataset *cr_dataset_read(const cr_dataset_options *o, int n, const char *const *paths);
                            /* a message names the file and the line */
void        cr_dataset_free(cr_dataset *d);
int64_t     cr_dataset_count(const cr_dataset *d);                     /* samples */
cr_example  cr_dataset_at(const cr_dataset *d, int64_t i);             /* borrowed */
int64_t     cr_dataset_questions(const cr_dataset *d);
cr_question cr_dataset_question(const cr_dataset *d, int64_t i);
typedef struct cr_score {           /* NAN: of nothing */
    int64_t samples, tokens, bytes, questions;      /* without the choices; those that count */
    double loss, perplexity, bits_per_byte;         /* loss: nats a token */
    double accuracy, accuracy_by_length;            /* the likeliest choice: by the sum, by the
                                                       mean of a byte */
} cr_score;
cr_score    cr_dataset_score(const cr_dataset *d, const double *loss);
                            /* loss[i]: of sample i, the sum over its targets (cr_lm_losses) */

/* ---- low-rank adapters: y = base(x) + scale (x A^T) B^T, A (r, C), B (OC, r); base frozen */
typedef struct cr_lora_options {
    int64_t rank; double alpha;     /* scale = alpha / rank */
    double dropout;                 /* of x, in cr_lm_losses with train */
    const char *targets;    /* ends of names, "c_attn,c_proj"; "all-linear"; NULL: c_attn of
                               GPT-2, q_proj,v_proj of the others */
    bool rank_stabilized;           /* scale = alpha / sqrt(rank) */
} cr_lora_options;
cr_lora_options cr_lora_defaults(void); /* 8, 16, 0, NULL, false */
cr_status   cr_lm_lora(cr_lm *m, const cr_lora_options *o, cr_generator *g);
                            /* A as nn.Linear's weights, B 0, in f32 (f64 if the model is); g draws
                               A, and then the dropout */
cr_params  *cr_lm_adapter(const cr_lm *m); /* borrowed, all that trains; NULL, no error: none */
cr_status   cr_lm_merge(cr_lm *m); /* weight += scale B A; the adapter is gone, the weights train */
cr_status   cr_lm_load_adapter(cr_lm *m, const char *path, cr_generator *g);
                            /* a folder of PEFT's format, adapter_config.json and
                               adapter_model.safetensors, or a GGUF file of llama.cpp's */
cr_status   cr_lm_save_adapter(const cr_lm *m, const char *path);
                            /* in these formats: a file where path ends in .gguf */
typedef struct cr_adapter_base { const char *prefix; int64_t head_dim; } cr_adapter_base;
                            /* of a model: before the names of its weights; GGUF has another
                               order of a head's rows */
typedef struct cr_adapter_notes {
    const char *targets, *base; /* a JSON array; the model's name, NULL: none */
    bool turned, causal;        /* weights are (in, out) in files; a decoder */
} cr_adapter_notes;
cr_status   cr_save_adapter(const char *dir, const cr_params *weights, const cr_lora_options *o,
                            const cr_adapter_notes *n); /* PEFT's folder; o->targets is ignored */
cr_params  *cr_load_adapter(const char *path, const cr_adapter_base *base, const cr_device *dev,
                            cr_lora_options *o, char **targets);
                            /* its weights by PEFT's names; *targets: JSON, owned (cr_free);
                               o->targets NULL */

#endif
