/* lm.h - shared by the language models: weights by name, text by a cache, configurations. */
#ifndef CR_LM_H
#define CR_LM_H

#include <chainrule.h>
#include "../io/file.h"
#include "../io/json.h"

/* ---- affine.c: a layer's weights, borrowed from the model's set */
typedef struct cr_affine {
    cr_tensor *weight, *bias;                       /* (OC, C) and (OC); bias NULL: none */
    cr_tensor *codes, *scales;                      /* instead of weight: cr_quantize's */
    cr_tensor *moments;                             /* while calibrating: (C, C), every apply adds x^T x; NULL: not */
} cr_affine;
/* act(x weight^T + bias) : (..., C) -> (..., OC) */
cr_tensor *cr_affine_apply(const cr_affine *p, const cr_tensor *x, cr_act act);
/* weight[tokens], the rows of an embedding, of dtype dt where they are quantized : (...) -> (..., C) */
cr_tensor *cr_affine_rows(const cr_affine *p, const cr_tensor *tokens, cr_dtype dt);
int64_t    cr_affine_inputs(const cr_affine *p);    /* C */

/* ---- generate.c: text from any decoder */
typedef struct cr_kv { cr_tensor *k, *v; } cr_kv;   /* of one layer, (1, KV, room, D): the first `past` positions
                                                     * are filled */
typedef struct cr_decoder {
    const void *model;
    /* tokens (1, T) that follow `past` cached ones -> the residual stream after the last norm (1, T, C) */
    cr_tensor *(*hidden)(const void *model, const cr_tensor *tokens, cr_kv *kv, int64_t past);
    cr_affine head;                                 /* the residual stream -> logits */
    int64_t vocabulary, context, layers, kv_heads, head_dim;
    cr_dtype dtype;
    const cr_device *dev;
} cr_decoder;
cr_status cr_decode(const char *op, const cr_decoder *d, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                    const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx);
/* Writes new (1, KV, T, D) after `past` positions of store; returns the view of all past + T positions. */
cr_tensor *cr_kv_append(cr_tensor *store, const cr_tensor *fresh, int64_t past);
/* tokens must be (B, T), T at most context */
cr_status cr_check_tokens(const char *op, const cr_tensor *tokens, int64_t context);

/* ---- config.c: config.json, read strictly */
typedef struct cr_entries { const char *op, *path; const cr_json *json; cr_status status; } cr_entries;
/* After a failure each returns its default. */
int64_t cr_entry_size(cr_entries *e, const char *key, int64_t absent, int64_t least);  /* absent -1: it must be there */
double  cr_entry_number(cr_entries *e, const char *key, double absent, double least, double most);
bool    cr_entry_flag(cr_entries *e, const char *key, bool absent);
/* the index of one of these words, "a|b"; absent: an index */
int     cr_entry_word(cr_entries *e, const char *key, const char *words, int absent);
/* refuses everything but this value, where the key is there */
void    cr_entry_only(cr_entries *e, const char *key, double value);

/* ---- weights by name: each is taken from a set and checked; all problems make one message */
typedef struct cr_binder {
    const cr_params *from;
    cr_params *into;
    cr_dtype dtype;
    cr_out problems;
    int64_t listed, unlisted;
} cr_binder;
void cr_binder_problem(cr_binder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Borrowed from `into`; NULL: missing or of another shape, which is a problem. */
cr_tensor *cr_bind(cr_binder *b, const char *name, int n, const int64_t *shape);
/* name.weight, or name.codes and name.scales; with bias name.bias */
cr_affine  cr_bind_affine(cr_binder *b, const char *name, int64_t OC, int64_t C, bool bias);

/* ---- gpt.c and llama.c: models over given weights; NULL: no memory, or an error of the configuration */
/* A matrix of a model; head: the logits', which may be the embedding too.  False: no more are wanted. */
typedef bool (*cr_on_affine)(cr_affine *p, bool head, void *ctx);
cr_gpt    *cr_gpt_over(const cr_gpt_config *c, const cr_device *dev, cr_binder *b);     /* takes b->into */
cr_decoder cr_gpt_decoder(const cr_gpt *m);
void       cr_gpt_matrices(cr_gpt *m, cr_on_affine visit, void *ctx);

typedef struct cr_llama cr_llama;
cr_llama  *cr_llama_over(const char *op, const char *path, const cr_json *config, const cr_device *dev, cr_binder *b);
void       cr_llama_free(cr_llama *m);
cr_decoder cr_llama_decoder(const cr_llama *m);
void       cr_llama_matrices(cr_llama *m, cr_on_affine visit, void *ctx);

/* ---- lm.c */
struct cr_lm {
    char *config;                                   /* the text of config.json */
    bool gpt2;
    cr_params *params;                              /* borrowed from gpt, owned with llama */
    cr_gpt *gpt;                                    /* one of these two */
    cr_llama *llama;
    cr_decoder d;
};
/* The model over weights that have its names; takes config, the text. */
cr_lm *cr_lm_over(const char *op, const char *path, char *config, const cr_params *weights, const cr_device *dev);

#endif
