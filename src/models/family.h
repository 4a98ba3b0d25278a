/* family.h - what language models have in common is code, what tells them apart is a row: the features of
 * a decoder, filled from config.json by one reader, and the names of its tensors. */
#ifndef CR_FAMILY_H
#define CR_FAMILY_H

#include <chainrule.h>
#include "config.h"

/* A layer of a model, or of one of its blocks.  The order is that of the parameters. */
typedef enum cr_role {
    CR_ROLE_EMBED, CR_ROLE_POSITION, CR_ROLE_KINDS, CR_ROLE_RELATIVE, CR_ROLE_EMBED_NORM,    /* kinds of tokens;
                                                     * what scores get by the distance of two tokens */
    CR_ROLE_NORM_1,                                 /* before attention */
    CR_ROLE_QKV, CR_ROLE_Q, CR_ROLE_K, CR_ROLE_V, CR_ROLE_O, CR_ROLE_Q_NORM, CR_ROLE_K_NORM, CR_ROLE_SINKS,
    CR_ROLE_POST_1,                                 /* the norm of attention's result */
    CR_ROLE_NORM_2,                                 /* before the MLP */
    CR_ROLE_GATE_UP, CR_ROLE_GATE, CR_ROLE_UP, CR_ROLE_DOWN,
    CR_ROLE_ROUTER, CR_ROLE_EXPERT_GATE, CR_ROLE_EXPERT_UP, CR_ROLE_EXPERT_DOWN,
    CR_ROLE_EXPERTS_GATE_UP, CR_ROLE_EXPERTS_DOWN,  /* of all experts: (E, C, 2 N) and (E, N, C) */
    CR_ROLE_SHARED_GATE, CR_ROLE_SHARED_UP, CR_ROLE_SHARED_DOWN, CR_ROLE_SHARED_ROUTER,
    CR_ROLE_POST_2,                                 /* the norm of the MLP's result */
    CR_ROLE_LAST_NORM,
    /* of encoders, where the weights have them: of the first token; before the head; of the classes of a text, of
     * each token */
    CR_ROLE_POOLER, CR_ROLE_HEAD_DENSE, CR_ROLE_HEAD_NORM, CR_ROLE_HEAD_BIAS, CR_ROLE_CLASS_DENSE, CR_ROLE_CLASS,
    CR_ROLE_TOKEN_CLASS, CR_ROLE_DENSE_1, CR_ROLE_DENSE_2,     /* sentence-transformers' layers behind the pooling */
    CR_ROLE_HEAD, CR_ROLES
} cr_role;
/* Is it of each block? */
static inline bool cr_role_of_block(cr_role r) { return r > CR_ROLE_EMBED_NORM && r < CR_ROLE_LAST_NORM; }

static inline bool cr_role_of_expert(cr_role r) { return r >= CR_ROLE_EXPERT_GATE && r <= CR_ROLE_EXPERT_DOWN; }

typedef enum cr_activation { CR_ACT_SILU, CR_ACT_GELU, CR_ACT_GELU_TANH, CR_ACT_RELU, CR_ACT_RELU2 } cr_activation;

/* Which layers have the window of "sliding_window", unless "layer_types" says it */
typedef enum cr_window_rule {
    CR_WINDOW_NONE,
    CR_WINDOW_ALL,
    CR_WINDOW_FROM,                                 /* those from "max_window_layers" on */
    CR_WINDOW_BUT_EVERY,                            /* all but every n-th, n: window_every */
    CR_WINDOW_BUT_FIRST,                            /* all but the first of each n */
    CR_WINDOW_UNROTATED                             /* those without rotation */
} cr_window_rule;

typedef struct cr_layer_features { bool window, rotates, experts; } cr_layer_features;

typedef struct cr_features {
    int64_t vocabulary, context, layers, heads, kv_heads, head_dim, width, inner;
    /* norms: RMS's, or with layer_norm the layer's; unit_offset: times 1 + weight */
    double eps;
    bool layer_norm, norm_bias, unit_offset;
    /* positions: rotary columns of each head; rope[1]: of layers with a window, where they have their own */
    double rotary_share;                            /* of the columns; 0: all, and the file may not say another one */
    int64_t rotary, every_unrotated;                /* each n-th layer has no rotation; 0: none */
    bool interleaved, two_ropes, long_only;         /* long_only: no other scaling than longrope */
    cr_rope_options rope[2];
    double position_scale, position_scale_from;     /* queries times 1 + scale log(1 + floor(position / from)) */
    /* attention */
    bool qkv_bias, out_bias, out_unbiased;          /* out_unbiased: "attention_bias" is not of the output */
    bool qk_norm, qk_norm_whole, qkv_by_head;          /* by head: each head's q, k, v in turn */
    double attention_scale, attention_cap, qkv_clip;
    double query_scalar;                            /* attention_scale = query_scalar^-0.5; 0: head_dim */
    cr_window_rule windows;
    bool types_ignored;                             /* "layer_types" has no effect */
    int64_t window, window_from, window_every;
    bool window_used;                               /* "use_sliding_window" */
    /* MLP and experts */
    cr_activation activation;
    bool gelu_is_tanh;                              /* "gelu" in its files means the approximation */
    bool up_first;                                  /* in the product of gate and up */
    /* parallel: attention and MLP add to the same stream; one_norm: and then have one norm */
    bool mlp_bias, down_bias, parallel, one_norm;
    int64_t experts, experts_used, expert_inner, shared_inner, expert_step;
    bool router_bias, normalize_experts, softmax_used;           /* softmax of the chosen ones' logits, not of all */
    double glu_alpha, glu_limit;                    /* gpt-oss: (up + 1) gate sigmoid(alpha gate), clamped */
    /* embedding and head */
    bool tied, head_bias, embed_root;               /* embed_root: rows times sqrt(width) */
    double embed_scale, residual_scale, logit_scale, logit_divisor, logit_cap;
    double dropout;                                 /* GPT-2's and BERT's, in training */
    /* encoders: each token sees all, or those within window / 2 on both sides; post_norm: norms are behind the sums */
    bool encoder, post_norm, first_unnormed;        /* first_unnormed: no norm before attention in layer 0 */
    bool positions_skip;                            /* padding has no position; the first one is pad + 1 */
    bool head_gelu, head_dense_bias, class_relu, class_mean, class_each;     /* class_each: of each token */
    int64_t kinds, pad, labels;                     /* labels: by the weights */
    int64_t buckets;                                /* of distances, T5's */
    cr_layer_features *layer;                       /* (layers), owned */
    double *divisors;                               /* of rope[0], owned */
} cr_features;

typedef struct cr_family {
    const char *kind, *class;                       /* "model_type"; the class in transformers */
    const char *gguf;                               /* llama.cpp's architecture; NULL: no GGUF files */
    bool gguf_written, gguf_paired;                 /* files are written too; rows of q and k are paired there */
    const char *prefix;                             /* of all names but the head's */
    const char *const *names;                       /* of roles; "%": the layer, "#": the expert */
    const char *own[CR_ROLES];                      /* names that differ; "": it has none */
    const char *keys;                               /* of config.json that it reads, beside the usual ones */
    const char *only;                               /* "key=number|...": keys that may have no other value */
    const char *masks;                              /* ends of tensors that are no weights */
    const char *turned;                             /* ends of matrices that are stored (in, out) */
    const char *lora;                               /* PEFT's targets */
    bool gpt_keys, distil_keys;                     /* sizes by the keys of GPT-2, DistilBERT */
    const char *bare;                               /* starts of names without the prefix, beside the head */
    cr_features features;                           /* what holds where config.json does not say it */
} cr_family;

const cr_family *cr_family_of(cr_entries *e);       /* by "model_type"; NULL: an error, or not known, which is one */
const cr_family *cr_family_named(const char *kind); /* NULL: not known */
const cr_family *cr_family_of_gguf(const char *kind);      /* the first of an architecture; NULL: not known */
const cr_family *cr_family_at(int i);               /* NULL: no more */
const char      *cr_family_name(const cr_family *f, cr_role r);    /* NULL: it has none */
bool             cr_family_reads(const cr_family *f, const char *key);     /* is it one of its keys? */
bool             cr_family_masks(const cr_family *f, const char *name);
bool             cr_family_turns(const cr_family *f, const char *name, const cr_tensor *t);
int64_t          cr_family_depth(const cr_family *f, const cr_params *p);  /* how many layers the weights are of */
/* By config.json; depth: the layers that the weights are of, so that no false number takes memory; -1: no weights. */
cr_status        cr_features_read(const cr_family *f, cr_entries *e, int64_t depth, cr_features *out);
static inline bool cr_features_grow(const cr_features *f) {         /* do angles depend on the length of a text? */
    return f->rotary && (f->rope[0].scaling == CR_ROPE_DYNAMIC || f->rope[0].scaling == CR_ROPE_LONG);
}
void             cr_features_end(cr_features *f);
cr_layer_features *cr_layers_new(const char *op, const cr_features *f); /* every layer: rotates if any does */

#endif
