/* lm.h - shared by the language models: weights by name, text by a cache, configurations. */
#ifndef CR_LM_H
#define CR_LM_H

#include <chainrule.h>
#include "../io/file.h"
#include "../io/json.h"
#include "family.h"

/* y moves to the outer scope, and this one ends; NULL passes through */
static inline cr_tensor *cr_scope_leave(cr_tensor *y) {
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}
/* cap tanh(x / cap); cap 0: x */
static inline cr_tensor *cr_capped(cr_tensor *x, double cap) {
    return cap > 0 ? cr_mul_scalar(cr_tanh(cr_mul_scalar(x, 1 / cap)), cap) : x;
}

/* ---- affine.c: a layer's weights, borrowed from the model's set */
typedef struct cr_lora_mode { double dropout; cr_generator *generator; } cr_lora_mode;
bool cr_lora_train(bool on);                        /* this thread: adapters drop; returns the old setting */
typedef struct cr_affine {
    cr_tensor *weight, *bias;                       /* (OC, C) and (OC); bias NULL: none */
    cr_tensor *packed;                              /* instead of weight: rows of a file, or cr_quantize's, */
    const char *format;                             /* in this format (cr_linear_packed) */
    int64_t paired;                                 /* not 0: each so many rows are a head, whose rows (i, i + half)
                                                     * are neighbours in the file */
    cr_tensor *moments;                             /* while calibrating: (C, C), every apply adds x^T x, or (C), its
                                                     * diagonal; NULL: not */
    cr_tensor *lora_a, *lora_b;                     /* (r, C) and (OC, r); NULL: no adapter */
    double scale;                                   /* of the adapter */
    const cr_lora_mode *lora_mode;                  /* of the model */
} cr_affine;
/* x weight^T + bias + scale (x lora_a^T) lora_b^T : (..., C) -> (..., OC) */
cr_tensor *cr_affine_apply(const cr_affine *p, const cr_tensor *x);
cr_tensor *cr_affine_gelu(const cr_affine *p, const cr_tensor *x);          /* the same with gelu_tanh behind it */
cr_tensor *cr_affine_loss(const cr_affine *head, const cr_tensor *x, const cr_tensor *targets,
                          const cr_cross_entropy_options *o);
                                                    /* the cross-entropy of the logits head(x), f32 in half precision */
bool       cr_affine_is_plain(const cr_affine *p);  /* x weight^T + bias, so that other ops may take both */
/* weight[tokens], the rows of an embedding, of dtype dt where they are quantized : (...) -> (..., C) */
cr_tensor *cr_affine_rows(const cr_affine *p, const cr_tensor *tokens, cr_dtype dt);
bool       cr_affine_exists(const cr_affine *p);
cr_tensor *cr_affine_floats(const cr_affine *p, cr_dtype dt);               /* of packed rows: weight */
int64_t    cr_affine_inputs(const cr_affine *p);    /* C */
int64_t    cr_affine_outputs(const cr_affine *p);   /* OC */
/* visits the linear layers of a model's blocks by name */
typedef cr_status (*cr_named_affine)(void *ctx, const char *name, cr_affine *p);

/* ---- packed.c: samples one after the other in one row, each a text of its own */
typedef struct cr_segments { int64_t n; _Atomic int64_t refs; int64_t length[]; } cr_segments;  /* NULL: every row is
                                                     * one text */
cr_segments *cr_segments_new(int64_t n, const int64_t *length);
const cr_segments *cr_segments_hold(const cr_segments *s);
void         cr_segments_drop(const cr_segments *s);
/* fn's results for each segment, joined along an axis */
typedef cr_tensor *(*cr_segment_fn)(const void *ctx, int64_t start, int64_t length);
cr_tensor *cr_segments_join(const cr_segments *s, int axis, cr_segment_fn fn, const void *ctx);
/* cap: scores become cap tanh(score / cap), 0: none; sinks: NULL, or (H) scores that take part in the softmax only;
 * around: not 0: keys within so many positions on both sides; relative: NULL, or (1, H, M, M), added to scores, of
 * which the first T count */
typedef struct cr_attend_options {
    cr_attention_options plain;
    double cap; const cr_tensor *sinks; int64_t around; const cr_tensor *relative;
} cr_attend_options;
/* attend.c: cr_attention with these; causal: the last query sees the last key */
cr_tensor *cr_attend(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_attend_options *o);
/* attention within each segment : (1, H, N, D), (1, KV, N, D) x 2 -> (1, H, N, D) */
cr_tensor *cr_segments_attention(const cr_segments *s, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                                 const cr_attend_options *o);

/* ---- recompute.c: gradient checkpointing */
typedef struct cr_block_run {
    cr_tensor *(*forward)(const void *pass, int64_t layer, const cr_tensor *x);
    const void *pass; size_t bytes;                 /* what the blocks of a forward pass share; copied */
    int64_t layer;
    const cr_segments *segments;                    /* that pass points to, and tensors: kept with the copy */
    void *owner; void (*hold)(void *owner, bool on);        /* of the model and its callbacks; hold NULL: the caller */
    const cr_tensor *const *table; int tables;
} cr_block_run;
cr_tensor *cr_block_recomputed(const cr_block_run *b, const cr_tensor *x);

/* ---- any model that text is made with */
typedef struct cr_caches {
    int64_t n;
    cr_cache *const *row;                           /* one for each row of the tokens */
    /* NULL, or i64 (1) on the device: the position of the only token of the only row.  The stores are used whole, what
     * lies behind it unseen, so shapes do not depend on it and a plan serves all positions */
    const cr_tensor *at;
} cr_caches;
typedef struct cr_decoder {
    const void *model;
    /* tokens (B, T) -> the residual stream after the last norm (B, T, C).  caches NULL: from position 0; else row b
     * follows what its cache holds, and its keys and values are written there. */
    cr_tensor *(*hidden)(const void *model, const cr_tensor *tokens, const cr_caches *caches);
    /* the same of samples (1, N) */
    cr_tensor *(*packed)(const void *model, const cr_tensor *tokens, const cr_segments *s);
    cr_affine head;                                 /* the residual stream -> logits */
    int64_t vocabulary, context, layers, kv_heads, head_dim;
    cr_dtype dtype;
    const cr_device *dev;
    bool steady;                                    /* a step of one token has the same kernels at each position */
    double logit_cap;                               /* logits become cap tanh(logit / cap); 0: none */
    const cr_text_model *caller;                    /* NULL, or who runs it, instead of hidden and packed */
} cr_decoder;
cr_tensor *cr_decoder_logits(const cr_decoder *d, const cr_tensor *x);     /* of the residual stream : (..., V) */
cr_tensor *cr_decoder_loss(const cr_decoder *d, const cr_tensor *x, const cr_tensor *targets,
                           const cr_cross_entropy_options *o);
const cr_decoder *cr_lm_decoder(const cr_lm *m);    /* borrowed */
/* tokens must be (B, T), T at most context */
cr_status cr_check_tokens(const char *op, const cr_tensor *tokens, int64_t context);

/* ---- cache.c: keys and values of one text */
typedef struct cr_kv { cr_tensor *k, *v, *k_scale, *v_scale; } cr_kv;      /* of one layer, (1, KV, room, D); scales of
                                                     * int8 (1, KV, room, 1) */
struct cr_cache {
    cr_decoder d;                                   /* of the model that it is for */
    cr_dtype dtype;                                 /* a float type, or CR_I8 with a scale a head and position */
    int64_t room, past;                             /* positions: allocated, filled */
    uint32_t *ids;                                  /* (room): the token at each position */
    cr_kv layer[];
};
/* dt CR_BOOL: the model's */
cr_cache *cr_cache_for(const char *op, const cr_decoder *d, cr_dtype dt);
cr_status cr_cache_reserve(cr_cache *c, int64_t positions);                /* keeps what it holds */
cr_status cr_cache_assign(cr_cache *to, const cr_cache *from);             /* of one model and dtype */
int64_t cr_cache_start(const cr_caches *c);         /* the position of the first new token, of one row */
cr_tensor *cr_cache_positions(const cr_caches *c, int64_t T, const cr_device *dev); /* (B, T), i64 */
/* Attention over the new keys and values and, with caches, those before: q (B, H, T, D), k, v (B, KV, T, D) -> q's */
cr_tensor *cr_cached_attention(const cr_caches *c, int64_t layer, const cr_tensor *q, const cr_tensor *k,
                               const cr_tensor *v, const cr_attend_options *o);
/* The same of texts in one row (1, N), text i behind what row[i] holds. */
cr_tensor *cr_cached_segments(const cr_caches *c, const cr_segments *s, int64_t layer, const cr_tensor *q,
                              const cr_tensor *k, const cr_tensor *v, const cr_attend_options *o);
/* fn(ctx, past, length) of each text, joined along axis 0 */
cr_tensor *cr_segments_rows(const cr_caches *c, const cr_segments *s, cr_segment_fn fn, const void *ctx);
/* Runs T more tokens of each of B texts, ids (B, T) -> logits of their last `last` positions (B, last, V). */
cr_tensor *cr_forward(const cr_decoder *d, int64_t B, cr_cache *const *row, const uint32_t *ids, int64_t T,
                      int64_t last);
/* The steps of one more token of a text at a time: the second is recorded, later ones replay its kernels. */
typedef struct cr_token_step { cr_plan *plan; int64_t made; } cr_token_step;   /* zeros to begin with; not while the
                                                     * weights change; its plan is freed by cr_plan_free */
/* logits (1, 1, V) after one more token */
cr_tensor *cr_forward_token(const cr_decoder *d, cr_cache *row, uint32_t id, cr_token_step *step);

/* ---- sample.c */
typedef struct cr_choice { double p; uint32_t id; } cr_choice;
typedef struct cr_sampler {                         /* the distribution of one token after another */
    const char *op;
    const cr_sampling *s;
    int64_t V, n;
    double *row;                                    /* (V) logits */
    cr_choice *choice; double sum;                  /* (n) what may be drawn, with weights and their sum */
    uint8_t *seen;                                  /* (V) zeros */
} cr_sampler;
cr_status cr_sampler_new(cr_sampler *m, const char *op, const cr_sampling *s, int64_t V);   /* s NULL: plain */
void      cr_sampler_free(cr_sampler *m);
/* row = the logits after n tokens, or their log_softmax, with adjust and the repetition penalty */
cr_status cr_sampler_row(cr_sampler *m, const cr_tensor *logits, const uint32_t *ids, int64_t n, bool log_softmax);
cr_status cr_sampler_read(cr_sampler *m, const cr_tensor *logits, const uint32_t *ids, int64_t n); /* row, choice */
cr_status cr_sampler_draw(const cr_sampler *m, cr_generator *g, uint32_t *id);
/* cr_sample_verify with a sampler */
cr_status cr_sampler_verify(cr_sampler *m, const cr_tensor *logits, const cr_tensor *draft, const uint32_t *ids,
                            int64_t n, cr_generator *g, int64_t *taken, uint32_t *id);

/* ---- generate.c: one text or several; beam.c, speculative.c */
typedef struct cr_text {
    cr_cache *cache;
    bool owned, over;                               /* owned: the cache is freed with it */
    struct cr_speculation *speculation;             /* speculative.c */
    uint32_t *ids;                                  /* (n) all tokens; the model sees those from `start` on */
    int64_t n, room, start, made;
    cr_token_step step;
    cr_generator *g;
} cr_text;
typedef struct cr_job {
    const char *op;
    const cr_decoder *d, *draft;                    /* draft: NULL: none */
    const cr_generate_options *o;
    int64_t texts, first;                           /* first: the number of text[0] in the call */
    cr_text *text;
    cr_sampler sampler;
    cr_on_row on_token; void *ctx;
} cr_job;
/* Delivers one more token of text i, which may end it. */
cr_status cr_job_push(cr_job *j, int64_t i, uint32_t id);
cr_status cr_job_step(cr_job *j);                   /* one token of each text that goes on */
bool      cr_job_stops(const cr_job *j, uint32_t id);
cr_status cr_beam_search(cr_job *j);                /* of one text: all of it */
cr_status cr_speculate(cr_job *j);                  /* of one text: at least one more token */
void      cr_speculation_free(struct cr_speculation *s);
cr_status cr_decode(const char *op, const cr_decoder *d, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                    const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx);

/* ---- weights by name: each is taken from a set and checked; all problems make one message */
typedef struct cr_binder {
    const cr_params *from;
    cr_params *into;
    cr_dtype dtype;
    const cr_device *dev;                           /* NULL, or: all tensors are new ones, not initialised */
    cr_status status;                               /* of making them */
    bool shared;                                    /* the very tensors of `from`, in their dtypes */
    uint32_t formats;                               /* bit i: `from` has weights in this packed format */
    int64_t head_dim;                               /* of packed rows whose heads are paired */
    cr_out problems;
    int64_t listed, unlisted;
} cr_binder;
cr_tensor *cr_params_if(const cr_params *p, const char *name);             /* NULL: there is none, no error */
void cr_binder_problem(cr_binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Borrowed from `into`; NULL: missing or of another shape, which is a problem. */
cr_tensor *cr_bind(cr_binder *b, const char *name, int n, const int64_t *shape);
/* name.weight, or name.FORMAT (packed), name.FORMAT_paired; with bias name.bias */
cr_affine  cr_bind_affine(cr_binder *b, const char *name, int64_t OC, int64_t C, bool bias);

/* the format of packed weights of this name, -1: they are none; paired: NULL, or whether they are */
int cr_packed_format(const char *name, bool *paired);
uint32_t cr_packed_formats(const cr_params *p);     /* bit i: some have it */

/* ---- transformer.c: the decoder of every family */
typedef struct cr_transformer cr_transformer;
/* Takes f->layer; the tensors stay the binder's.  NULL: no memory */
cr_transformer *cr_transformer_over(const char *op, const cr_family *family, cr_features *f, const cr_device *dev,
                                    cr_binder *b);
void       cr_transformer_free(cr_transformer *m);
void       cr_transformer_recompute(cr_transformer *m, bool on);           /* gradient checkpointing */
cr_decoder cr_transformer_decoder(const cr_transformer *m);
const cr_features *cr_transformer_features(const cr_transformer *m);       /* borrowed */
/* tokens (B, T) -> the residual stream after the last norm; drop: draws the dropout of a training, NULL: none */
cr_tensor *cr_transformer_hidden(const cr_transformer *m, const cr_tensor *tokens, cr_generator *drop);
/* caches, s, p: each may be NULL; caches and s: one cache for each segment; p: train, parts, mask and kinds */
cr_tensor *cr_transformer_pass(const cr_transformer *m, const cr_tensor *tokens, const cr_caches *caches,
                               const cr_segments *s, const cr_lm_reading *p);
bool       cr_transformer_gives(const cr_transformer *m, cr_lm_output what);           /* but a sentence */
cr_tensor *cr_transformer_output(const cr_transformer *m, cr_lm_output what, const cr_tensor *x, const cr_tensor *mask,
                                 const cr_lm_parts *parts);
/* layers behind the pooling, i: 0 or 1; NULL: there is none */
const cr_affine *cr_transformer_dense_at(const cr_transformer *m, int i);
cr_tensor *cr_transformer_dense(const cr_transformer *m, int i, const cr_tensor *x, const cr_lm_parts *parts);
/* the mean of the positions of x (B, T, C) that a mask (B, T) has : (B, C) */
cr_tensor *cr_mean_seen(const cr_tensor *x, const cr_tensor *mask);
cr_tensor *cr_transformer_part(const cr_transformer *m, int64_t part, const cr_tensor *x);    /* as cr_lm_part_run */
int64_t    cr_transformer_parts(const cr_transformer *m);                  /* their numbers are below this */
cr_status  cr_transformer_visit(const cr_transformer *m, cr_lm_visit fn, void *ctx);
/* Has it experts that files of the family have in one tensor?  Adds those to `into`, by their names behind a prefix. */
bool       cr_transformer_joins(const cr_transformer *m);
cr_status  cr_transformer_join(const cr_transformer *m, cr_dtype dt, const char *prefix, cr_params *into);
cr_tensor *cr_transformer_capped(const cr_transformer *m, cr_tensor *logits);
/* the linear layers of all blocks by name, but no routers */
cr_status  cr_transformer_each(cr_transformer *m, cr_named_affine fn, void *ctx);
cr_status  cr_transformer_all(cr_transformer *m, cr_named_affine fn, void *ctx);       /* routers and tables too */
/* GPT-2's initial values: norms 1, biases 0, weights N(0, 0.02), projections into the residual stream
 * N(0, 0.02 / sqrt(2 L)), because 2 L of them are added up */
cr_status  cr_transformer_initialise(const cr_transformer *m, const cr_params *p, cr_generator *g);
cr_affine *cr_transformer_head(cr_transformer *m);  /* the matrix of the logits, which may be the embedding too */

/* ---- lm.c */
struct cr_lm {
    char *config, *path;                            /* the text of config.json; what it was loaded from */
    const cr_family *family;
    char *pooling; int64_t longest;                 /* encoder.c: cr_lm_pooling */
    cr_params *params;
    cr_transformer *net;                            /* over params */
    cr_decoder d;
    cr_params *adapter;                             /* lora.c: NULL: none */
    cr_lora_options lora;
    char *lora_targets;                             /* lora.targets, as a JSON array */
    cr_lora_mode lora_mode;
};
/* encoder.c: adds what modules.json says to the text of config.json, and its layers to the weights of a folder; takes
 * it from there; refuses an encoder */
cr_status cr_pooling_read(const char *op, const char *dir, const cr_json *config, cr_out *text);
cr_status cr_pooling_weights(const char *op, const char *dir, const cr_json *config, const cr_family *f,
                             const cr_device *dev, cr_params *into);
cr_status cr_pooling_take(cr_lm *m, cr_entries *e);
cr_status cr_lm_check_decoder(const char *op, const cr_lm *m);
/* gguf_model.c: cr_load_gguf; packed: weights in blocks stay as they lie, as cr_bind_affine reads them */
/* How much each column of the matrices counts, by their names: mean squares of their inputs in a text.  The head, whose
 * input is not of a layer, has none. */
cr_params *cr_lm_importance(const cr_lm *m, const uint32_t *tokens, int64_t n);
/* cr_save_gguf with an importance, or NULL */
cr_status cr_gguf_write(const char *path, const cr_params *tensors, const char *config, const char *tokenizer,
                        const char *type, const cr_params *importance);
cr_params *cr_gguf_weights(const char *path, const cr_device *dev, bool packed, char **config);
/* adapters, by PEFT's names behind "base_model.model."; alpha 0: the scale is 1 */
bool       cr_file_is_gguf(const char *path);
cr_params *cr_gguf_adapter(const char *op, const char *path, const cr_adapter_base *base, const cr_device *dev,
                           double *alpha);
cr_status  cr_gguf_save_adapter(const char *op, const char *path, const cr_family *f, const cr_adapter_base *base,
                                const cr_params *adapter, double alpha);
/* mxfp4.c: adds to `into` the tensor of gpt-oss's experts in blocks that this name, `skip` bytes on, has in a folder;
 * taken: it was one, or belongs to one */
cr_status  cr_mxfp4_take(const char *name, size_t skip, const cr_tensor *t, const cr_params *from, cr_params *into,
                         bool *taken);
/* of Hugging Face's names */
const char *cr_lm_prefix(const cr_lm *m);
/* The model over weights that have its names; takes config, the text. */
cr_lm *cr_lm_over(const char *op, const char *path, char *config, const cr_params *weights, const cr_device *dev);

#endif
