/* family.c - the families of language models, a row each, and the reader of their config.json. */
#include "family.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

/* ---- names of tensors ---- */
static const char *const llama_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embed_tokens",
    [CR_ROLE_NORM_1] = "layers.%.input_layernorm",
    [CR_ROLE_Q] = "layers.%.self_attn.q_proj",
    [CR_ROLE_K] = "layers.%.self_attn.k_proj",
    [CR_ROLE_V] = "layers.%.self_attn.v_proj",
    [CR_ROLE_O] = "layers.%.self_attn.o_proj",
    [CR_ROLE_Q_NORM] = "layers.%.self_attn.q_norm",
    [CR_ROLE_K_NORM] = "layers.%.self_attn.k_norm",
    [CR_ROLE_NORM_2] = "layers.%.post_attention_layernorm",
    [CR_ROLE_GATE] = "layers.%.mlp.gate_proj",
    [CR_ROLE_UP] = "layers.%.mlp.up_proj",
    [CR_ROLE_DOWN] = "layers.%.mlp.down_proj",
    [CR_ROLE_ROUTER] = "layers.%.mlp.gate",
    [CR_ROLE_EXPERT_GATE] = "layers.%.mlp.experts.#.gate_proj",
    [CR_ROLE_EXPERT_UP] = "layers.%.mlp.experts.#.up_proj",
    [CR_ROLE_EXPERT_DOWN] = "layers.%.mlp.experts.#.down_proj",
    [CR_ROLE_SHARED_GATE] = "layers.%.mlp.shared_expert.gate_proj",
    [CR_ROLE_SHARED_UP] = "layers.%.mlp.shared_expert.up_proj",
    [CR_ROLE_SHARED_DOWN] = "layers.%.mlp.shared_expert.down_proj",
    [CR_ROLE_SHARED_ROUTER] = "layers.%.mlp.shared_expert_gate",
    [CR_ROLE_LAST_NORM] = "norm",
    [CR_ROLE_HEAD] = "lm_head",
};

static const char *const gpt2_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "wte",
    [CR_ROLE_POSITION] = "wpe",
    [CR_ROLE_NORM_1] = "h.%.ln_1",
    [CR_ROLE_QKV] = "h.%.attn.c_attn",
    [CR_ROLE_O] = "h.%.attn.c_proj",
    [CR_ROLE_NORM_2] = "h.%.ln_2",
    [CR_ROLE_UP] = "h.%.mlp.c_fc",
    [CR_ROLE_DOWN] = "h.%.mlp.c_proj",
    [CR_ROLE_LAST_NORM] = "ln_f",
    [CR_ROLE_HEAD] = "lm_head",
};

static const char *const neox_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embed_in",
    [CR_ROLE_NORM_1] = "layers.%.input_layernorm",
    [CR_ROLE_QKV] = "layers.%.attention.query_key_value",
    [CR_ROLE_O] = "layers.%.attention.dense",
    [CR_ROLE_NORM_2] = "layers.%.post_attention_layernorm",
    [CR_ROLE_UP] = "layers.%.mlp.dense_h_to_4h",
    [CR_ROLE_DOWN] = "layers.%.mlp.dense_4h_to_h",
    [CR_ROLE_LAST_NORM] = "final_layer_norm",
    [CR_ROLE_HEAD] = "embed_out",
};

static const char *const bert_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embeddings.word_embeddings",
    [CR_ROLE_POSITION] = "embeddings.position_embeddings",
    [CR_ROLE_KINDS] = "embeddings.token_type_embeddings",
    [CR_ROLE_EMBED_NORM] = "embeddings.LayerNorm",
    [CR_ROLE_Q] = "encoder.layer.%.attention.self.query",
    [CR_ROLE_K] = "encoder.layer.%.attention.self.key",
    [CR_ROLE_V] = "encoder.layer.%.attention.self.value",
    [CR_ROLE_O] = "encoder.layer.%.attention.output.dense",
    [CR_ROLE_POST_1] = "encoder.layer.%.attention.output.LayerNorm",
    [CR_ROLE_UP] = "encoder.layer.%.intermediate.dense",
    [CR_ROLE_DOWN] = "encoder.layer.%.output.dense",
    [CR_ROLE_POST_2] = "encoder.layer.%.output.LayerNorm",
    [CR_ROLE_POOLER] = "pooler.dense",
    [CR_ROLE_HEAD_DENSE] = "cls.predictions.transform.dense",
    [CR_ROLE_HEAD_NORM] = "cls.predictions.transform.LayerNorm",
    [CR_ROLE_HEAD_BIAS] = "cls.predictions.bias",
    [CR_ROLE_CLASS] = "classifier",
    [CR_ROLE_TOKEN_CLASS] = "classifier",
    [CR_ROLE_HEAD] = "cls.predictions.decoder",
};

static const char *const distil_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embeddings.word_embeddings",
    [CR_ROLE_POSITION] = "embeddings.position_embeddings",
    [CR_ROLE_EMBED_NORM] = "embeddings.LayerNorm",
    [CR_ROLE_Q] = "transformer.layer.%.attention.q_lin",
    [CR_ROLE_K] = "transformer.layer.%.attention.k_lin",
    [CR_ROLE_V] = "transformer.layer.%.attention.v_lin",
    [CR_ROLE_O] = "transformer.layer.%.attention.out_lin",
    [CR_ROLE_POST_1] = "transformer.layer.%.sa_layer_norm",
    [CR_ROLE_UP] = "transformer.layer.%.ffn.lin1",
    [CR_ROLE_DOWN] = "transformer.layer.%.ffn.lin2",
    [CR_ROLE_POST_2] = "transformer.layer.%.output_layer_norm",
    [CR_ROLE_HEAD_DENSE] = "vocab_transform",
    [CR_ROLE_HEAD_NORM] = "vocab_layer_norm",
    [CR_ROLE_HEAD_BIAS] = "vocab_projector.bias",
    [CR_ROLE_CLASS_DENSE] = "pre_classifier",
    [CR_ROLE_CLASS] = "classifier",
    [CR_ROLE_TOKEN_CLASS] = "classifier",
    [CR_ROLE_HEAD] = "vocab_projector",
};

static const char *const modernbert_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embeddings.tok_embeddings",
    [CR_ROLE_EMBED_NORM] = "embeddings.norm",
    [CR_ROLE_NORM_1] = "layers.%.attn_norm",
    [CR_ROLE_QKV] = "layers.%.attn.Wqkv",
    [CR_ROLE_O] = "layers.%.attn.Wo",
    [CR_ROLE_NORM_2] = "layers.%.mlp_norm",
    [CR_ROLE_GATE_UP] = "layers.%.mlp.Wi",
    [CR_ROLE_DOWN] = "layers.%.mlp.Wo",
    [CR_ROLE_LAST_NORM] = "final_norm",
    [CR_ROLE_HEAD_DENSE] = "head.dense",
    [CR_ROLE_HEAD_NORM] = "head.norm",
    [CR_ROLE_HEAD_BIAS] = "decoder.bias",
    [CR_ROLE_CLASS] = "classifier",
    [CR_ROLE_TOKEN_CLASS] = "classifier",
    [CR_ROLE_HEAD] = "decoder",
};

static const char *const nomic_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embeddings.word_embeddings",
    [CR_ROLE_KINDS] = "embeddings.token_type_embeddings",
    [CR_ROLE_EMBED_NORM] = "emb_ln",
    [CR_ROLE_QKV] = "encoder.layers.%.attn.Wqkv",
    [CR_ROLE_O] = "encoder.layers.%.attn.out_proj",
    [CR_ROLE_POST_1] = "encoder.layers.%.norm1",
    [CR_ROLE_GATE] = "encoder.layers.%.mlp.fc12",
    [CR_ROLE_UP] = "encoder.layers.%.mlp.fc11",
    [CR_ROLE_DOWN] = "encoder.layers.%.mlp.fc2",
    [CR_ROLE_POST_2] = "encoder.layers.%.norm2",
    [CR_ROLE_POOLER] = "pooler.dense",
    [CR_ROLE_HEAD_DENSE] = "cls.predictions.transform.dense",
    [CR_ROLE_HEAD_NORM] = "cls.predictions.transform.layer_norm",
    [CR_ROLE_HEAD_BIAS] = "cls.predictions.bias",
    [CR_ROLE_CLASS] = "classifier",
    [CR_ROLE_TOKEN_CLASS] = "classifier",
    [CR_ROLE_HEAD] = "cls.predictions.decoder",
};

static const char *const gte_names[CR_ROLES] = {
    [CR_ROLE_EMBED] = "embeddings.word_embeddings",
    [CR_ROLE_KINDS] = "embeddings.token_type_embeddings",
    [CR_ROLE_EMBED_NORM] = "embeddings.LayerNorm",
    [CR_ROLE_QKV] = "encoder.layer.%.attention.qkv_proj",
    [CR_ROLE_O] = "encoder.layer.%.attention.o_proj",
    [CR_ROLE_POST_1] = "encoder.layer.%.attn_ln",
    [CR_ROLE_GATE_UP] = "encoder.layer.%.mlp.up_gate_proj",
    [CR_ROLE_DOWN] = "encoder.layer.%.mlp.down_proj",
    [CR_ROLE_POST_2] = "encoder.layer.%.mlp_ln",
    [CR_ROLE_POOLER] = "pooler.dense",
    [CR_ROLE_HEAD_DENSE] = "lm_head.dense",
    [CR_ROLE_HEAD_NORM] = "lm_head.norm",
    [CR_ROLE_HEAD_BIAS] = "lm_head.decoder.bias",
    [CR_ROLE_CLASS] = "classifier",
    [CR_ROLE_TOKEN_CLASS] = "classifier",
    [CR_ROLE_HEAD] = "lm_head.decoder",
};

/* ---- families ---- */
static const char rotary_masks[] = "rotary_emb.inv_freq";
#define LLAMA_LIKE .prefix = "model.", .names = llama_names, .masks = rotary_masks, .lora = "q_proj,v_proj"
/* norms before and behind: Gemma 2 and 3 */
#define GEMMA_NORMS                                                                                                  \
    .own = {[CR_ROLE_POST_1] = "layers.%.post_attention_layernorm",                                                 \
            [CR_ROLE_NORM_2] = "layers.%.pre_feedforward_layernorm",                                                \
            [CR_ROLE_POST_2] = "layers.%.post_feedforward_layernorm"}
#define GEMMA3_KEYS                                                                                                  \
    "attention_bias|hidden_activation|query_pre_attn_scalar|final_logit_softcapping|sliding_window|"                \
    "sliding_window_pattern|_sliding_window_pattern"
#define GEMMA3_FEATURES                                                                                              \
    .eps = 1e-6, .head_dim = 256, .unit_offset = true, .activation = CR_ACT_GELU_TANH, .tied = true,                \
    .embed_root = true, .query_scalar = 256, .qk_norm = true, .two_ropes = true,                                    \
    .rope = {{.base = 1e6}, {.base = 1e4}}, .windows = CR_WINDOW_BUT_EVERY, .window = 4096, .window_every = 6
/* norms behind only: OLMo 2 and 3, EXAONE 4 */
#define POST_NORMS                                                                                                   \
    .own = {[CR_ROLE_NORM_1] = "",                                                                                  \
            [CR_ROLE_NORM_2] = "",                                                                                  \
            [CR_ROLE_POST_1] = "layers.%.post_attention_layernorm",                                                 \
            [CR_ROLE_POST_2] = "layers.%.post_feedforward_layernorm"}

#define BERT_KEYS .lora = "query,value", .keys = "layer_norm_eps|type_vocab_size|pad_token_id|hidden_dropout_prob"
#define BERT_MASKS "embeddings.position_ids"
#define BERT_FEATURES                                                                                                \
    .layer_norm = true, .norm_bias = true, .encoder = true, .post_norm = true, .qkv_bias = true, .out_bias = true,  \
    .mlp_bias = true, .tied = true, .head_dense_bias = true, .activation = CR_ACT_GELU, .dropout = 0.1, .kinds = 2
#define ROBERTA_HEADS                                                                                                \
    [CR_ROLE_HEAD_DENSE] = "lm_head.dense", [CR_ROLE_HEAD_NORM] = "lm_head.layer_norm",                             \
    [CR_ROLE_HEAD_BIAS] = "lm_head.bias", [CR_ROLE_HEAD] = "lm_head.decoder",                                       \
    [CR_ROLE_CLASS_DENSE] = "classifier.dense", [CR_ROLE_CLASS] = "classifier.out_proj"
#define ROBERTA                                                                                                      \
    .names = bert_names, .bare = "lm_head.|classifier.", .masks = BERT_MASKS "|lm_head.decoder.bias",               \
    .own = {ROBERTA_HEADS}

static const cr_family families[] = {
    {.kind = "gpt2", .class = "GPT2LMHeadModel", .gguf = "gpt2", .gguf_written = true,
     .prefix = "transformer.", .names = gpt2_names, .gpt_keys = true,
     .keys = "layer_norm_epsilon|activation_function|n_inner|resid_pdrop",
     .only = "scale_attn_weights=1|scale_attn_by_inverse_layer_idx=0|add_cross_attention=0|tie_word_embeddings=1",
     .masks = ".attn.bias|.attn.masked_bias", .turned = ".c_attn.weight|.c_proj.weight|.c_fc.weight", .lora = "c_attn",
     .features = {.eps = 1e-5, .layer_norm = true, .norm_bias = true, .qkv_bias = true, .out_bias = true,
                  .mlp_bias = true, .activation = CR_ACT_GELU_TANH, .tied = true, .dropout = 0.1}},
#ifndef CR_WEB_SMALL                                /* which has GPTs of its own only */
    {.kind = "llama", .class = "LlamaForCausalLM", .gguf = "llama", .gguf_written = true,
     .gguf_paired = true, LLAMA_LIKE, .keys = "attention_bias|mlp_bias", .features = {.eps = 1e-6}},
    {.kind = "mistral", .class = "MistralForCausalLM", .gguf = "llama", .gguf_written = true,
     .gguf_paired = true, LLAMA_LIKE, .keys = "attention_bias|mlp_bias|sliding_window",
     .features = {.eps = 1e-6, .windows = CR_WINDOW_ALL, .window = 4096}},
    {.kind = "qwen2", .class = "Qwen2ForCausalLM", .gguf = "qwen2", .gguf_written = true, LLAMA_LIKE,
     .keys = "sliding_window|use_sliding_window|max_window_layers",
     .features = {.eps = 1e-6, .qkv_bias = true, .windows = CR_WINDOW_FROM, .window = 4096,
                  .window_from = 28}},
    {.kind = "qwen3", .class = "Qwen3ForCausalLM", .gguf = "qwen3", .gguf_written = true, LLAMA_LIKE,
     .keys = "attention_bias|sliding_window|use_sliding_window|max_window_layers",
     .features = {.eps = 1e-6, .head_dim = 128, .qk_norm = true, .windows = CR_WINDOW_FROM, .window = 4096,
                  .window_from = 28}},
    {.kind = "ministral", .class = "MinistralForCausalLM", LLAMA_LIKE, .keys = "sliding_window",
     .features = {.eps = 1e-6, .windows = CR_WINDOW_ALL, .window = 4096}},
    {.kind = "ministral3", .class = "Ministral3ForCausalLM", .gguf = "mistral3", .gguf_paired = true, LLAMA_LIKE,
     .keys = "sliding_window",
     .features = {.eps = 1e-5, .head_dim = 128, .windows = CR_WINDOW_ALL, .position_scale = 0.1,
                  .rope = {{.base = 1e6, .scaling = CR_ROPE_YARN, .factor = 16, .original = 16384, .beta_fast = 32,
                            .beta_slow = 1, .mscale = 1, .mscale_all_dim = 1}}}},
    {.kind = "gemma", .class = "GemmaForCausalLM", .gguf = "gemma", LLAMA_LIKE, .keys = "attention_bias",
     .only = "use_bidirectional_attention=0",
     .features = {.eps = 1e-6, .head_dim = 256, .unit_offset = true, .activation = CR_ACT_GELU_TANH, .tied = true,
                  .gelu_is_tanh = true, .embed_root = true}},
    {.kind = "gemma2", .class = "Gemma2ForCausalLM", .gguf = "gemma2", LLAMA_LIKE, GEMMA_NORMS,
     .keys = "attention_bias|hidden_activation|query_pre_attn_scalar|attn_logit_softcapping|final_logit_softcapping|"
             "sliding_window",
     .only = "use_bidirectional_attention=0",
     .features = {.eps = 1e-6, .head_dim = 256, .unit_offset = true, .activation = CR_ACT_GELU_TANH, .tied = true,
                  .embed_root = true, .query_scalar = 256, .attention_cap = 50, .logit_cap = 30,
                  .windows = CR_WINDOW_BUT_EVERY, .window = 4096, .window_every = 2}},
    {.kind = "gemma3_text", .class = "Gemma3ForCausalLM", .gguf = "gemma3", LLAMA_LIKE, GEMMA_NORMS,
     .keys = GEMMA3_KEYS, .only = "use_bidirectional_attention=0", .features = {GEMMA3_FEATURES}},
    /* EmbeddingGemma, by "use_bidirectional_attention" */
    {.kind = "gemma3_text", .class = "Gemma3TextModel", .gguf = "gemma-embedding", LLAMA_LIKE, GEMMA_NORMS,
     .bare = "lm_head.", .keys = GEMMA3_KEYS "|num_key_value_heads|head_dim|use_bidirectional_attention",
     .features = {GEMMA3_FEATURES, .encoder = true}},
    {.kind = "phi3", .class = "Phi3ForCausalLM", .gguf = "phi3", .prefix = "model.", .names = llama_names,
     .masks = rotary_masks,
     .own = {[CR_ROLE_Q] = "", [CR_ROLE_K] = "", [CR_ROLE_V] = "", [CR_ROLE_GATE] = "", [CR_ROLE_UP] = "",
             [CR_ROLE_QKV] = "layers.%.self_attn.qkv_proj", [CR_ROLE_GATE_UP] = "layers.%.mlp.gate_up_proj"},
     .keys = "sliding_window", .lora = "qkv_proj",
     .features = {.eps = 1e-5, .rotary_share = 1, .long_only = true, .windows = CR_WINDOW_ALL,
                  .types_ignored = true}},
    {.kind = "qwen3_moe", .class = "Qwen3MoeForCausalLM", .gguf = "qwen3moe", LLAMA_LIKE,
     .keys = "attention_bias|sliding_window|use_sliding_window|num_experts|num_local_experts|num_experts_per_tok|"
             "moe_intermediate_size|norm_topk_prob|decoder_sparse_step",
     .features = {.eps = 1e-6, .qk_norm = true, .windows = CR_WINDOW_ALL, .window = 4096, .experts = 128,
                  .experts_used = 8, .expert_inner = 768, .expert_step = 1}},
    {.kind = "qwen2_moe", .class = "Qwen2MoeForCausalLM", .gguf = "qwen2moe", LLAMA_LIKE,
     .keys = "qkv_bias|sliding_window|use_sliding_window|max_window_layers|num_experts|num_local_experts|"
             "num_experts_per_tok|moe_intermediate_size|shared_expert_intermediate_size|norm_topk_prob|"
             "decoder_sparse_step",
     .features = {.eps = 1e-6, .qkv_bias = true, .windows = CR_WINDOW_FROM, .window = 4096,
                  .window_from = 28, .experts = 60,
                  .experts_used = 4, .expert_inner = 1408, .shared_inner = 5632, .expert_step = 1}},
    {.kind = "mixtral", .class = "MixtralForCausalLM", .gguf = "llama", .gguf_paired = true, LLAMA_LIKE,
     .own = {[CR_ROLE_ROUTER] = "layers.%.block_sparse_moe.gate",
             [CR_ROLE_EXPERT_GATE] = "layers.%.block_sparse_moe.experts.#.w1",
             [CR_ROLE_EXPERT_UP] = "layers.%.block_sparse_moe.experts.#.w3",
             [CR_ROLE_EXPERT_DOWN] = "layers.%.block_sparse_moe.experts.#.w2"},
     .keys = "sliding_window|num_local_experts|num_experts_per_tok",
     .features = {.eps = 1e-5, .windows = CR_WINDOW_ALL, .types_ignored = true, .experts = 8, .experts_used = 2,
                  .normalize_experts = true,
                  .expert_step = 1, .rope = {{.base = 1e6}}}},
    {.kind = "olmo2", .class = "Olmo2ForCausalLM", .gguf = "olmo2", LLAMA_LIKE, POST_NORMS, .keys = "attention_bias",
     .features = {.eps = 1e-5, .qk_norm = true, .qk_norm_whole = true}},
    {.kind = "olmo3", .class = "Olmo3ForCausalLM", .gguf = "olmo2", LLAMA_LIKE, POST_NORMS,
     .keys = "attention_bias|sliding_window",
     .features = {.eps = 1e-5, .qk_norm = true, .qk_norm_whole = true, .two_ropes = true,
                  .rope = {{.base = 5e5}, {.base = 5e5}}, .windows = CR_WINDOW_BUT_EVERY, .window = 4096,
                  .window_every = 4}},
    {.kind = "olmoe", .class = "OlmoeForCausalLM", .gguf = "olmoe", LLAMA_LIKE,
     .keys = "attention_bias|clip_qkv|num_experts|num_local_experts|num_experts_per_tok|norm_topk_prob",
     .features = {.eps = 1e-5, .qk_norm = true, .qk_norm_whole = true, .experts = 64, .experts_used = 8,
                  .expert_step = 1}},
    {.kind = "granite", .class = "GraniteForCausalLM", .gguf = "granite", .gguf_paired = true, LLAMA_LIKE,
     .keys = "attention_bias|mlp_bias|embedding_multiplier|residual_multiplier|attention_multiplier|logits_scaling",
     .features = {.eps = 1e-6, .embed_scale = 1, .residual_scale = 1, .attention_scale = 1, .logit_divisor = 1}},
    {.kind = "gpt_neox", .class = "GPTNeoXForCausalLM", .gguf = "gptneox", .prefix = "gpt_neox.", .names = neox_names,
     .keys = "attention_bias|layer_norm_eps|use_parallel_residual", .lora = "query_key_value",
     .masks = ".attention.bias|.attention.masked_bias|rotary_emb.inv_freq",
     .features = {.eps = 1e-5, .layer_norm = true, .norm_bias = true, .qkv_bias = true, .out_bias = true,
                  .mlp_bias = true, .activation = CR_ACT_GELU, .qkv_by_head = true, .rotary_share = 0.25,
                  .parallel = true}},
    {.kind = "stablelm", .class = "StableLmForCausalLM", .gguf = "stablelm", LLAMA_LIKE,
     .keys = "use_qkv_bias|layer_norm_eps|use_parallel_residual", .only = "qk_layernorm=0",
     .features = {.eps = 1e-5, .layer_norm = true, .norm_bias = true, .one_norm = true, .rotary_share = 0.25}},
    {.kind = "phi", .class = "PhiForCausalLM", .gguf = "phi2", LLAMA_LIKE,
     .own = {[CR_ROLE_NORM_2] = "", [CR_ROLE_O] = "layers.%.self_attn.dense", [CR_ROLE_GATE] = "",
             [CR_ROLE_UP] = "layers.%.mlp.fc1", [CR_ROLE_DOWN] = "layers.%.mlp.fc2",
             [CR_ROLE_LAST_NORM] = "final_layernorm"},
     .keys = "layer_norm_eps", .only = "qk_layernorm=0",
     .features = {.eps = 1e-5, .layer_norm = true, .norm_bias = true, .qkv_bias = true, .out_bias = true,
                  .mlp_bias = true, .head_bias = true, .activation = CR_ACT_GELU_TANH, .rotary_share = 0.5,
                  .parallel = true}},
    {.kind = "smollm3", .class = "SmolLM3ForCausalLM", .gguf = "smollm3", .gguf_paired = true, LLAMA_LIKE,
     .keys = "attention_bias|mlp_bias|sliding_window|use_sliding_window|no_rope_layer_interval",
     .features = {.eps = 1e-6, .tied = true, .every_unrotated = 4, .windows = CR_WINDOW_UNROTATED,
                  .rope = {{.base = 2e6}}}},
    {.kind = "glm", .class = "GlmForCausalLM", .gguf = "chatglm", LLAMA_LIKE,
     .own = {[CR_ROLE_GATE] = "", [CR_ROLE_UP] = "", [CR_ROLE_GATE_UP] = "layers.%.mlp.gate_up_proj"},
     .keys = "attention_bias",
     .features = {.eps = 1.5625e-7, .head_dim = 128, .qkv_bias = true, .out_unbiased = true,
                  .rotary_share = 0.5, .interleaved = true}},
    {.kind = "glm4", .class = "Glm4ForCausalLM", .gguf = "glm4", LLAMA_LIKE,
     .own = {[CR_ROLE_GATE] = "", [CR_ROLE_UP] = "", [CR_ROLE_GATE_UP] = "layers.%.mlp.gate_up_proj",
             [CR_ROLE_POST_1] = "layers.%.post_self_attn_layernorm", [CR_ROLE_POST_2] = "layers.%.post_mlp_layernorm"},
     .keys = "attention_bias",
     .features = {.eps = 1.5625e-7, .head_dim = 128, .qkv_bias = true, .out_unbiased = true,
                  .rotary_share = 0.5, .interleaved = true}},
    {.kind = "gpt_oss", .class = "GptOssForCausalLM", .gguf = "gpt-oss", LLAMA_LIKE,
     .own = {[CR_ROLE_SINKS] = "layers.%.self_attn.sinks", [CR_ROLE_ROUTER] = "layers.%.mlp.router",
             [CR_ROLE_EXPERTS_GATE_UP] = "layers.%.mlp.experts.gate_up_proj",
             [CR_ROLE_EXPERTS_DOWN] = "layers.%.mlp.experts.down_proj"},
     .keys = "attention_bias|sliding_window|num_experts|num_local_experts|num_experts_per_tok|swiglu_alpha|"
             "swiglu_limit",
     .features = {.eps = 1e-5, .head_dim = 64, .qkv_bias = true, .out_bias = true, .windows = CR_WINDOW_BUT_EVERY,
                  .window = 128, .window_every = 2, .experts = 128, .experts_used = 4, .expert_step = 1,
                  .softmax_used = true, .router_bias = true, .glu_alpha = 1.702, .glu_limit = 7,
                  .rope = {{.base = 150000, .scaling = CR_ROPE_YARN, .factor = 32, .original = 4096, .beta_fast = 32,
                            .beta_slow = 1, .untruncated = true}}}},
    {.kind = "cohere", .class = "CohereForCausalLM", .gguf = "command-r", LLAMA_LIKE, .own = {[CR_ROLE_NORM_2] = ""},
     .keys = "attention_bias|layer_norm_eps|logit_scale", .only = "use_qk_norm=0",
     .features = {.eps = 1e-5, .layer_norm = true, .interleaved = true, .parallel = true, .tied = true,
                  .logit_scale = 0.0625, .rope = {{.base = 5e5}}}},
    {.kind = "starcoder2", .class = "Starcoder2ForCausalLM", .gguf = "starcoder2", LLAMA_LIKE,
     .own = {[CR_ROLE_GATE] = "", [CR_ROLE_UP] = "layers.%.mlp.c_fc", [CR_ROLE_DOWN] = "layers.%.mlp.c_proj"},
     .keys = "norm_epsilon|sliding_window|use_bias",
     .features = {.eps = 1e-5, .layer_norm = true, .norm_bias = true, .qkv_bias = true, .out_bias = true,
                  .mlp_bias = true, .activation = CR_ACT_GELU_TANH, .tied = true, .windows = CR_WINDOW_ALL,
                  .types_ignored = true}},
    {.kind = "arcee", .class = "ArceeForCausalLM", .gguf = "arcee", .gguf_paired = true, LLAMA_LIKE,
     .own = {[CR_ROLE_GATE] = ""}, .keys = "attention_bias|mlp_bias",
     .features = {.eps = 1e-5, .activation = CR_ACT_RELU2}},
    {.kind = "bert", .class = "BertModel", .gguf = "bert", .prefix = "bert.", .names = bert_names, BERT_KEYS,
     .bare = "cls.|classifier.", .masks = BERT_MASKS "|cls.predictions.decoder.bias|cls.seq_relationship.weight|"
                                          "cls.seq_relationship.bias",
     .features = {BERT_FEATURES, .eps = 1e-12}},
    {.kind = "roberta", .class = "RobertaModel", .prefix = "roberta.", ROBERTA, BERT_KEYS,
     .features = {BERT_FEATURES, .eps = 1e-12, .positions_skip = true, .head_gelu = true, .pad = 1}},
    {.kind = "xlm-roberta", .class = "XLMRobertaModel", .prefix = "roberta.", ROBERTA, BERT_KEYS,
     .features = {BERT_FEATURES, .eps = 1e-12, .positions_skip = true, .head_gelu = true, .pad = 1}},
    {.kind = "camembert", .class = "CamembertModel", .prefix = "roberta.", ROBERTA, BERT_KEYS,
     .features = {BERT_FEATURES, .eps = 1e-12, .positions_skip = true, .head_gelu = true, .pad = 1}},
    {.kind = "mpnet", .class = "MPNetModel", .prefix = "mpnet.", .names = bert_names, .lora = "q,v",
     .bare = "lm_head.|classifier.", .masks = BERT_MASKS "|lm_head.decoder.bias",
     .own = {[CR_ROLE_KINDS] = "", [CR_ROLE_RELATIVE] = "encoder.relative_attention_bias",
             [CR_ROLE_Q] = "encoder.layer.%.attention.attn.q", [CR_ROLE_K] = "encoder.layer.%.attention.attn.k",
             [CR_ROLE_V] = "encoder.layer.%.attention.attn.v", [CR_ROLE_O] = "encoder.layer.%.attention.attn.o",
             [CR_ROLE_POST_1] = "encoder.layer.%.attention.LayerNorm", ROBERTA_HEADS},
     .keys = "layer_norm_eps|hidden_dropout_prob", .only = "relative_attention_num_buckets=32",
     .features = {BERT_FEATURES, .eps = 1e-12, .positions_skip = true, .head_gelu = true, .pad = 1, .buckets = 32}},
    {.kind = "distilbert", .class = "DistilBertModel", .prefix = "distilbert.", .names = distil_names,
     .bare = "vocab_|pre_classifier.|classifier.", .masks = BERT_MASKS, .lora = "q_lin,v_lin", .distil_keys = true,
     .keys = "activation|dropout", .features = {BERT_FEATURES, .eps = 1e-12, .class_relu = true}},
    {.kind = "modernbert", .class = "ModernBertModel", .gguf = "modern-bert", .prefix = "model.",
     .names = modernbert_names,
     .bare = "head.|decoder.|classifier.", .masks = rotary_masks, .lora = "Wqkv",
     .keys = "norm_eps|hidden_activation|attention_bias|mlp_bias|norm_bias|classifier_bias|local_attention|"
             "global_attn_every_n_layers|classifier_pooling",
     .features = {.eps = 1e-5, .layer_norm = true, .encoder = true, .tied = true, .activation = CR_ACT_GELU,
                  .first_unnormed = true, .two_ropes = true,
                  .rope = {{.base = 160000}, {.base = 1e4}}, .windows = CR_WINDOW_BUT_FIRST, .window = 128,
                  .window_every = 3}},
    {.kind = "nomic_bert", .class = "NomicBertModel", .gguf = "nomic-bert", .prefix = "nomic_bert.",
     .names = nomic_names, .lora = "Wqkv", .bare = "cls.|classifier.",
     .masks = BERT_MASKS "|cls.predictions.decoder.bias",
     .keys = "layer_norm_eps|type_vocab_size|hidden_dropout_prob|head_dim",
     .features = {.eps = 1e-12, .layer_norm = true, .norm_bias = true, .encoder = true, .post_norm = true,
                  .tied = true, .head_dense_bias = true, .kinds = 2, .rope = {{.base = 1000}}}},
    {.kind = "gte", .class = "GteModel", .prefix = "gte.", .names = gte_names, .lora = "qkv_proj",
     .bare = "lm_head.|classifier.", .masks = BERT_MASKS,
     .keys = "layer_norm_eps|type_vocab_size|hidden_dropout_prob",
     .features = {.eps = 1e-12, .layer_norm = true, .norm_bias = true, .encoder = true, .post_norm = true,
                  .qkv_bias = true, .out_bias = true, .down_bias = true, .tied = true, .head_dense_bias = true,
                  .activation = CR_ACT_GELU, .head_gelu = true, .up_first = true, .dropout = 0.1, .kinds = 1,
                  .rope = {{.base = 160000}}}},
    {.kind = "eurobert", .class = "EuroBertModel", .gguf = "eurobert", LLAMA_LIKE,
     .bare = "lm_head.|dense.|classifier.",
     .own = {[CR_ROLE_TOKEN_CLASS] = "classifier"},
     .keys = "attention_bias|mlp_bias|num_key_value_heads|head_dim",
     .features = {.eps = 1e-5, .encoder = true}},
    {.kind = "seed_oss", .class = "SeedOssForCausalLM", .gguf = "seed_oss", LLAMA_LIKE,
     .keys = "attention_bias|attention_out_bias|mlp_bias",
     .features = {.eps = 1e-6, .head_dim = 128, .qkv_bias = true}},
#endif
};
enum { FAMILIES = sizeof families / sizeof *families };

const cr_family *cr_family_at(int i) { return i < FAMILIES ? &families[i] : NULL; }

const cr_family *cr_family_named(const char *kind) {
    for (int i = 0; i < FAMILIES; i++) if (!strcmp(families[i].kind, kind)) return &families[i];
    return NULL;
}

const cr_family *cr_family_of_gguf(const char *kind) {
    for (int i = 0; i < FAMILIES; i++) if (families[i].gguf && !strcmp(families[i].gguf, kind)) return &families[i];
    return NULL;
}

/* Weights that another program has quantized have other tensors than the names of the family, but gpt-oss's own. */
static void check_quantizer(cr_entries *e, const cr_family *f) {
    const cr_json *q = cr_entry_at(e, "quantization_config");
    const cr_json *method = q ? cr_json_get(q, "quant_method") : NULL;
    if (!q || e->status != CR_OK) return;
    if (cr_json_is(method, "chainrule") && cr_json_get(q, "group_size")) {
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': an older version quantized these weights: quantize the model "
                            "again", e->path);
        return;
    }
    if (cr_json_is(method, "chainrule") || (cr_json_is(method, "mxfp4") && f->features.glu_alpha > 0)) return;
    e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"quantization_config\": the weights are quantized by \"%.40s\", "
                        "whose format is not read", e->path,
                        method && method->kind == CR_JSON_STRING ? method->text : "an unknown method");
}

const cr_family *cr_family_of(cr_entries *e) {
    char words[40 * FAMILIES];
    size_t at = 0;
    for (int i = 0; i < FAMILIES; i++)
        if (cr_family_named(families[i].kind) == &families[i])
            at += (size_t)snprintf(words + at, sizeof words - at, "%s%s", i ? "|" : "", families[i].kind);
    (void)cr_entry_word(e, "model_type", words, -1);
    if (e->status != CR_OK) return NULL;
    const cr_family *f = cr_family_named(cr_entry_at(e, "model_type")->text);
    const bool twin = f + 1 < families + FAMILIES && !strcmp(f->kind, f[1].kind);      /* which is an encoder */
    if (twin && cr_entry_flag(e, "use_bidirectional_attention", false)) f++;
    check_quantizer(e, f);
    return e->status == CR_OK ? f : NULL;
}

const char *cr_family_name(const cr_family *f, cr_role r) {
    if (r == CR_ROLE_DENSE_1) return "2_Dense.linear";
    if (r == CR_ROLE_DENSE_2) return "3_Dense.linear";
    const char *name = f->own[r] ? f->own[r] : f->names[r];
    return name && *name ? name : NULL;
}

/* The key of this name in a row's list "a|b". */
static bool has_word(const char *words, const char *name) {
    const size_t n = strlen(name);
    for (const char *w = words; w && *w;) {
        const size_t k = strcspn(w, "|");
        if (k == n && !memcmp(w, name, n)) return true;
        w += k + (w[k] == '|');
    }
    return false;
}

bool cr_family_reads(const cr_family *f, const char *key) { return has_word(f->keys, key); }

/* Is one of the words "a|b" what a name ends with? */
static bool ends_with_one(const char *name, const char *words) {
    const size_t n = strlen(name);
    for (const char *w = words; w && *w;) {
        const size_t k = strcspn(w, "|");
        if (n >= k && !memcmp(name + n - k, w, k)) return true;
        w += k + (w[k] == '|');
    }
    return false;
}

bool cr_family_masks(const cr_family *f, const char *name) { return ends_with_one(name, f->masks); }

bool cr_family_turns(const cr_family *f, const char *name, const cr_tensor *t) {
    return f->turned && cr_ndim(t) == 2 && ends_with_one(name, f->turned);
}

int64_t cr_family_depth(const cr_family *f, const cr_params *p) {
    const char *pattern = cr_family_name(f, CR_ROLE_O);
    const size_t start = strcspn(pattern, "%");
    int64_t depth = 0;
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const char *name = cr_params_name(p, i);
        if (strncmp(name, pattern, start)) continue;
        const int64_t at = strtoll(name + start, NULL, 10);
        if (at >= depth && at < INT32_MAX) depth = at + 1;
    }
    return depth;
}

/* ---- the reader ---- */
/* of values; SIZE_0 and POSITIVE: null means none */
typedef enum value { SIZE, SIZE_0, NUMBER, SHARE, EPS, POSITIVE, FLAG, ACTIVATION } value;
typedef struct entry { const char *name; value kind; size_t at; } entry;
#define AT(member) offsetof(cr_features, member)

/* sizes that every family has; a feature that is 0 in the row has to be there */
static const entry usual[] = {
    {"vocab_size", SIZE, AT(vocabulary)},
    {"max_position_embeddings", SIZE, AT(context)},
    {"num_hidden_layers", SIZE, AT(layers)},
    {"num_attention_heads", SIZE, AT(heads)},
    {"hidden_size", SIZE, AT(width)},
    {"intermediate_size", SIZE, AT(inner)},
}, gpt_sizes[] = {
    {"vocab_size", SIZE, AT(vocabulary)},
    {"n_positions", SIZE, AT(context)},
    {"n_layer", SIZE, AT(layers)},
    {"n_head", SIZE, AT(heads)},
    {"n_embd", SIZE, AT(width)},
}, distil_sizes[] = {
    {"vocab_size", SIZE, AT(vocabulary)},
    {"max_position_embeddings", SIZE, AT(context)},
    {"n_layers", SIZE, AT(layers)},
    {"n_heads", SIZE, AT(heads)},
    {"dim", SIZE, AT(width)},
    {"hidden_dim", SIZE, AT(inner)},
};

/* vocabulary, context, layers, heads, width in this order */
static const entry *sizes_of(const cr_family *f) {
    return f->gpt_keys ? gpt_sizes : f->distil_keys ? distil_sizes : usual;
}

/* what the rows name in `keys` */
static const entry others[] = {
    {"layer_norm_epsilon", SHARE, AT(eps)},
    {"layer_norm_eps", SHARE, AT(eps)},
    {"norm_epsilon", SHARE, AT(eps)},
    {"norm_eps", SHARE, AT(eps)},
    {"norm_bias", FLAG, AT(norm_bias)},
    {"activation", ACTIVATION, AT(activation)},
    {"dropout", SHARE, AT(dropout)},
    {"hidden_dropout_prob", SHARE, AT(dropout)},
    {"type_vocab_size", SIZE_0, AT(kinds)},
    {"pad_token_id", SIZE_0, AT(pad)},
    {"classifier_bias", FLAG, AT(head_dense_bias)},
    {"local_attention", SIZE, AT(window)},
    {"global_attn_every_n_layers", SIZE, AT(window_every)},
    {"activation_function", ACTIVATION, AT(activation)},
    {"hidden_activation", ACTIVATION, AT(activation)},
    {"n_inner", SIZE, AT(inner)},
    {"resid_pdrop", SHARE, AT(dropout)},
    {"attention_bias", FLAG, AT(qkv_bias)},
    {"use_qkv_bias", FLAG, AT(qkv_bias)},
    {"qkv_bias", FLAG, AT(qkv_bias)},
    {"use_bias", FLAG, AT(qkv_bias)},
    {"mlp_bias", FLAG, AT(mlp_bias)},
    {"use_parallel_residual", FLAG, AT(parallel)},
    {"query_pre_attn_scalar", POSITIVE, AT(query_scalar)},
    {"attn_logit_softcapping", POSITIVE, AT(attention_cap)},
    {"final_logit_softcapping", POSITIVE, AT(logit_cap)},
    {"clip_qkv", POSITIVE, AT(qkv_clip)},
    {"embedding_multiplier", POSITIVE, AT(embed_scale)},
    {"residual_multiplier", POSITIVE, AT(residual_scale)},
    {"attention_multiplier", POSITIVE, AT(attention_scale)},
    {"logit_scale", POSITIVE, AT(logit_scale)},
    {"logits_scaling", POSITIVE, AT(logit_divisor)},
    {"sliding_window", SIZE_0, AT(window)},
    {"use_sliding_window", FLAG, AT(window_used)},
    {"max_window_layers", SIZE_0, AT(window_from)},
    {"sliding_window_pattern", SIZE, AT(window_every)},
    {"_sliding_window_pattern", SIZE, AT(window_every)},
    {"no_rope_layer_interval", SIZE, AT(every_unrotated)},
    {"num_experts", SIZE, AT(experts)},
    {"num_local_experts", SIZE, AT(experts)},
    {"num_experts_per_tok", SIZE, AT(experts_used)},
    {"moe_intermediate_size", SIZE, AT(expert_inner)},
    {"shared_expert_intermediate_size", SIZE, AT(shared_inner)},
    {"decoder_sparse_step", SIZE, AT(expert_step)},
    {"norm_topk_prob", FLAG, AT(normalize_experts)},
    {"swiglu_alpha", NUMBER, AT(glu_alpha)},
    {"swiglu_limit", POSITIVE, AT(glu_limit)},
};

/* Where null is no value of an entry, transformers refuses it too. */
static bool is_null(cr_entries *e, const char *key) {
    const cr_json *v = cr_json_get(e->json, key);
    const bool null = v && v->kind == CR_JSON_NULL;
    if (null && e->status == CR_OK)
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"%s\" must not be null", e->path, key);
    return null;
}

static bool flag_of(cr_entries *e, const char *key, bool absent) {
    return is_null(e, key) ? absent : cr_entry_flag(e, key, absent);
}

static void read_key(cr_entries *e, const entry *k, cr_features *f) {
    static const char may_be_null[] = "n_inner|attn_logit_softcapping|final_logit_softcapping|clip_qkv|swiglu_limit";
    const bool nullable = k->kind == SIZE_0 || has_word(may_be_null, k->name);
    if (!nullable && is_null(e, k->name)) return;
    char *at = (char *)f + k->at;
    int64_t *size = (int64_t *)(void *)at;
    double *number = (double *)(void *)at;
    bool *flag = (bool *)(void *)at;
    switch (k->kind) {
    case SIZE: *size = cr_entry_size(e, k->name, *size ? *size : -1, 1); break;
    case SIZE_0: *size = cr_entry_size(e, k->name, cr_json_get(e->json, k->name) ? 0 : *size, 0); break;
    case NUMBER: *number = cr_entry_number(e, k->name, *number, -1e30, 1e30); break;
    case EPS: *number = cr_entry_number(e, k->name, *number, 0, 1); break;
    case SHARE: *number = cr_entry_number(e, k->name, *number, 0, 0.999); break;
    case POSITIVE:
        if (!cr_json_get(e->json, k->name)) break;
        *number = cr_entry_at(e, k->name) ? cr_entry_number(e, k->name, 0, 1e-30, 1e30) : 0;
        break;
    case FLAG: *flag = cr_entry_flag(e, k->name, *flag); break;
    case ACTIVATION: {
        static const char words[] = "silu|swish|gelu|gelu_pytorch_tanh|gelu_new|gelu_fast|relu|relu2";
        static const int8_t acts[] = {CR_ACT_SILU, CR_ACT_SILU, CR_ACT_GELU, CR_ACT_GELU_TANH, CR_ACT_GELU_TANH,
                                      CR_ACT_GELU_TANH, CR_ACT_RELU, CR_ACT_RELU2};
        cr_activation *act = (cr_activation *)(void *)at;
        if (cr_entry_at(e, k->name)) *act = (cr_activation)acts[cr_entry_word(e, k->name, words, -1)];
        break;
    }
    }
}

static void check_only(cr_entries *e, const char *only) {
    for (const char *w = only; w && *w;) {
        char name[64];
        const size_t n = strcspn(w, "=");
        snprintf(name, sizeof name, "%.*s", (int)n, w);
        cr_entry_only(e, name, strtod(w + n + 1, NULL));
        w += strcspn(w, "|");
        w += *w == '|';
    }
}

/* ---- rotation ---- */
static const char ropes[] = "default|linear|dynamic|llama3|yarn|longrope|su";     /* the last: an older name */

/* One rotation; `in`: its object, or an empty one; outer: the file's other entries. */
static cr_rope_options rope_of(cr_entries *in, cr_entries *outer, const char *base_key, double base,
                               const cr_features *f) {
    const int64_t context = f->context, first = f->long_only ? 4096 : context;     /* where the file does not say it */
    cr_entries *has_base = cr_json_get(in->json, "rope_theta") ? in : outer;
    cr_rope_options r = {0};
    const int kind = cr_entry_word(in, cr_json_get(in->json, "rope_type") ? "rope_type" : "type", ropes, 0);
    r.scaling = (cr_rope_scaling)(kind > CR_ROPE_LONG ? CR_ROPE_LONG : kind);
    r.base = cr_entry_number(has_base, has_base == in ? "rope_theta" : base_key, base, 1.001, 1e30);
    r.original = (double)context;
    if (r.scaling > CR_ROPE_DYNAMIC) {               /* beside the object it prevails */
        const char *key = "original_max_position_embeddings";
        r.original = (double)cr_entry_size(cr_entry_at(outer, key) || f->long_only ? outer : in, key, first, 1);
    }
    const bool is_long = r.scaling == CR_ROPE_LONG;
    if (kind != CR_ROPE_PLAIN)
        r.factor = cr_entry_number(in, "factor", is_long ? (double)context / r.original : 0, is_long ? 1e-6 : 1, 1e6);
    if (is_long) r.attention_factor = cr_entry_number(in, "attention_factor", 0, 0, 1e30);
    if (kind == CR_ROPE_LLAMA3) {
        r.low = cr_entry_number(in, "low_freq_factor", 0, 1e-6, 1e30);
        r.high = cr_entry_number(in, "high_freq_factor", 0, r.low * (1 + 1e-6), 1e30);
    }
    if (kind == CR_ROPE_YARN) {
        r.beta_fast = cr_entry_number(in, "beta_fast", 0, 0, 1e30);
        r.beta_slow = cr_entry_number(in, "beta_slow", 0, 0, 1e30);
        r.untruncated = !cr_entry_flag(in, "truncate", true);
        r.mscale = cr_entry_number(in, "mscale", 0, 0, 1e30);
        r.mscale_all_dim = cr_entry_number(in, "mscale_all_dim", 0, 0, 1e30);
        r.attention_factor = cr_entry_number(in, "attention_factor", 0, 0, 1e30);
    }
    return r;
}

/* The rotary columns of a head, by "partial_rotary_factor", or "rotary_pct". */
static void read_share(cr_entries *in, cr_entries *e, cr_features *f) {
    const char *key = "partial_rotary_factor";
    cr_entries *at = cr_entry_at(in, key) ? in : e;
    if (!cr_entry_at(at, key) && f->rotary_share > 0) key = "rotary_pct";
    f->rotary = f->head_dim;
    if (f->rotary_share > 0)
        f->rotary = (int64_t)((double)f->head_dim * cr_entry_number(at, key, f->rotary_share, 1e-6, 1));
    else {
        cr_entry_only(in, key, 1);
        cr_entry_only(e, key, 1);
    }
}

/* An array of n positive numbers, into `to`. */
static void read_divisors(cr_entries *in, const char *key, int64_t n, double *to) {
    const cr_json *v = cr_entry_at(in, key);
    const bool fits = v && v->kind == CR_JSON_ARRAY && v->count == n;
    int64_t i = 0;
    for (const cr_json *x = fits ? v->first : NULL; x && x->kind == CR_JSON_NUMBER && x->number > 0; x = x->next)
        to[i++] = x->number;
    if (i < n && in->status == CR_OK)
        in->status = cr_fail(CR_BAD_VALUE, in->op, "'%s': \"%s\" must be an array of %lld numbers above 0", in->path,
                             key, (long long)n);
}

static void read_long(cr_entries *in, cr_features *f) {
    const int64_t n = f->rotary / 2;
    if (in->status != CR_OK) return;
    f->divisors = calloc((size_t)(2 * n) + 1, sizeof *f->divisors);
    if (!f->divisors) { in->status = cr_fail(CR_NO_MEMORY, in->op, "no memory for a configuration"); return; }
    for (int i = 0; i < 2; i++) f->rope[0].divisors[i] = f->divisors + i * n;
    read_divisors(in, "short_factor", n, f->divisors);
    read_divisors(in, "long_factor", n, f->divisors + n);
}

/* "rope_parameters", for all layers or those of each type, or "rope_theta" and "rope_scaling" of older files */
static void read_rope(cr_entries *e, cr_features *f) {
    static const cr_json none = {.kind = CR_JSON_OBJECT};
    static const char *const keys[] = {"rope_parameters", "rope_scaling"},
                      *const types[] = {"full_attention", "sliding_attention"};
    const cr_json *found = NULL;
    for (int i = 0; i < 2; i++) {                   /* rope_scaling prevails */
        const cr_json *v = cr_entry_at(e, keys[i]);
        if (v && v->kind == CR_JSON_OBJECT) found = v;
        else if (v) cr_entry_refuse(e, keys[i], "an object");
    }
    if (f->two_ropes && cr_entry_at(e, keys[0]) && cr_entry_at(e, keys[1]))
        cr_entry_refuse(e, keys[1], "absent beside \"rope_parameters\"");
    if (f->two_ropes && found && found == cr_entry_at(e, keys[0]) && found->count && !cr_json_get(found, types[0]) &&
        !cr_json_get(found, types[1]))
        cr_entry_refuse(e, keys[0], "an object with full_attention and sliding_attention");
    const double base = f->rope[0].base > 0 ? f->rope[0].base : 1e4;
    const double second = f->rope[1].base > 0 ? f->rope[1].base : base;
    cr_entries in = {e->op, e->path, found ? found : &none, e->status};
    if (f->two_ropes && cr_json_get(in.json, types[0])) {
        for (int i = 0; i < 2; i++) {
            const cr_json *one = cr_entry_at(&in, types[i]);
            cr_entries each = {e->op, e->path, one && one->kind == CR_JSON_OBJECT ? one : &none, in.status};
            f->rope[i] = rope_of(&each, e, "rope_theta", i ? second : base, f);
            in.status = each.status;
        }
    } else {                                        /* scalings are of layers without a window */
        const bool modern = f->windows == CR_WINDOW_BUT_FIRST;     /* ModernBERT's names */
        const char *local = modern ? "local_rope_theta" : "rope_local_base_freq";
        const char *key = modern                                                       ? "global_rope_theta"
                          : cr_entry_at(e, "rotary_emb_base") && f->rotary_share > 0 ? "rotary_emb_base"
                                                                                       : "rope_theta";
        if (found || f->rope[0].scaling == CR_ROPE_PLAIN) f->rope[0] = rope_of(&in, e, key, base, f);
        f->rope[1] = (cr_rope_options){.original = (double)f->context};
        f->rope[1].base = cr_entry_number(e, local, second == base ? f->rope[0].base : second, 1.001, 1e30);
    }
    read_share(&in, e, f);
    if (f->rope[1].scaling == CR_ROPE_LONG) cr_entry_word(&in, "rope_type", "default|linear|dynamic|llama3|yarn", -1);
    if (f->rope[0].scaling == CR_ROPE_LONG) read_long(&in, f);
    const bool scales = f->position_scale > 0;
    const double absent = !found ? f->position_scale : scales ? -1 : 0;
    f->position_scale = cr_entry_number(&in, "llama_4_scaling_beta", absent, 0, 1e6);
    if (f->long_only && f->rope[0].scaling != CR_ROPE_PLAIN && f->rope[0].scaling != CR_ROPE_LONG)
        cr_entry_refuse(&in, "rope_type", "default or longrope");
    f->position_scale_from = f->rope[0].original;
    if (in.status != CR_OK) e->status = in.status;
    if (f->rope[0].scaling == CR_ROPE_DYNAMIC) f->context = (int64_t)((double)f->context * f->rope[0].factor);
}

/* ---- layers ---- */
cr_layer_features *cr_layers_new(const char *op, const cr_features *f) {
    cr_layer_features *layer = calloc((size_t)f->layers, sizeof *layer);
    if (!layer) cr_fail(CR_NO_MEMORY, op, "no memory for %lld layers", (long long)f->layers);
    for (int64_t l = 0; layer && l < f->layers; l++) layer[l].rotates = f->rotary > 0;
    return layer;
}

void cr_features_end(cr_features *f) {
    free(f->layer);
    free(f->divisors);
    f->layer = NULL;
    f->divisors = NULL;
}

/* An array of one element for each layer; NULL: absent. */
static const cr_json *per_layer(cr_entries *e, const char *key, int64_t layers) {
    const cr_json *v = cr_entry_at(e, key);
    if (!v || e->status != CR_OK) return NULL;
    if (v->kind == CR_JSON_ARRAY && v->count == layers) return v->first;
    e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"%s\" must be an array of %lld, one for each layer", e->path, key,
                        (long long)layers);
    return NULL;
}

static void read_windows(cr_entries *e, cr_features *f) {
    const bool said = f->windows == CR_WINDOW_UNROTATED && cr_entry_at(e, "layer_types");   /* prevails there */
    if (f->windows == CR_WINDOW_NONE || (!f->window_used && !said)) f->window = 0;
    for (int64_t l = 0; l < f->layers && f->window; l++)
        f->layer[l].window = f->windows == CR_WINDOW_ALL || (f->windows == CR_WINDOW_FROM && l >= f->window_from) ||
                             (f->windows == CR_WINDOW_BUT_EVERY && (l + 1) % f->window_every) ||
                             (f->windows == CR_WINDOW_BUT_FIRST && l % f->window_every) ||
                             (f->windows == CR_WINDOW_UNROTATED && !f->layer[l].rotates);
    const cr_json *window = cr_entry_at(e, "sliding_window"), *t = per_layer(e, "layer_types", f->layers);
    if (window && window->number < 1 && f->window_used && f->windows != CR_WINDOW_NONE)
        cr_entry_refuse(e, "sliding_window", "null or a whole number from 1");
    for (int64_t l = 0; t; t = t->next, l++) {
        const bool slides = t->kind == CR_JSON_STRING && !strcmp(t->text, "sliding_attention");
        if (!slides && (t->kind != CR_JSON_STRING || strcmp(t->text, "full_attention")) && e->status == CR_OK)
            e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"layer_types\" must be full_attention or "
                                "sliding_attention; the one of layer %lld is another", e->path, (long long)l);
        if (slides && !f->window)
            cr_entry_refuse(e, "layer_types", "full_attention where there is no sliding_window");
        if (!f->types_ignored) f->layer[l].window = slides && f->window;
    }
}

static void read_layers(cr_entries *e, cr_features *f) {
    const cr_json *t = f->every_unrotated ? per_layer(e, "no_rope_layers", f->layers) : NULL;
    for (int64_t l = 0; l < f->layers; l++) {
        f->layer[l].experts = f->experts && (l + 1) % f->expert_step == 0;
        if (f->every_unrotated) f->layer[l].rotates = t ? t->number != 0 : (l + 1) % f->every_unrotated != 0;
        if (t) t = t->next;
    }
    read_windows(e, f);
    const cr_json *plain = f->experts ? cr_entry_at(e, "mlp_only_layers") : NULL;
    if (plain && plain->kind != CR_JSON_ARRAY) cr_entry_refuse(e, "mlp_only_layers", "an array");
    for (const cr_json *v = plain ? plain->first : NULL; v; v = v->next)
        if (v->integral && v->integer >= 0 && v->integer < f->layers) f->layer[v->integer].experts = false;
}

/* ---- all of it ---- */
static void check_features(cr_entries *e, const cr_family *family, const cr_features *f) {
    const entry *sizes = sizes_of(family);
    if (e->status != CR_OK) return;
    if (f->heads % f->kv_heads)
        e->status = cr_fail(CR_BAD_VALUE, e->op,
                            "'%s': \"num_key_value_heads\" must divide \"num_attention_heads\": %lld and %lld", e->path,
                            (long long)f->kv_heads, (long long)f->heads);
    else if (f->rotary && f->head_dim % 2)
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"head_dim\" must be even, it is %lld (\"hidden_size\" / "
                            "\"num_attention_heads\" where it is absent)", e->path, (long long)f->head_dim);
    else if (!f->rotary && f->width % f->heads)
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"%s\" must divide \"%s\": %lld and %lld", e->path,
                            sizes[3].name, sizes[4].name, (long long)f->heads, (long long)f->width);
    else if (f->rotary % 2 || f->rotary > f->head_dim)
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"partial_rotary_factor\" gives %lld rotary columns of %lld, "
                            "which must be even", e->path, (long long)f->rotary, (long long)f->head_dim);
    else if (f->experts && f->experts_used > f->experts)
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"num_experts_per_tok\" is %lld of %lld experts", e->path,
                            (long long)f->experts_used, (long long)f->experts);
}

static void read_sizes(cr_entries *e, const cr_family *family, cr_features *f) {
    const bool gpt = family->gpt_keys;
    const entry *sizes = sizes_of(family);
    const size_t n = gpt ? sizeof gpt_sizes / sizeof *gpt_sizes : sizeof usual / sizeof *usual;
    for (size_t i = 0; i < n; i++) read_key(e, &sizes[i], f);
    if (e->status != CR_OK) return;
    if (gpt) f->inner = 4 * f->width;
    const char *head_key = "head_dim", *kv_key = "num_key_value_heads";
    const bool own_kv = !gpt && !f->qkv_by_head && (!f->encoder || has_word(family->keys, kv_key));
    const bool own_dim = !gpt && (!f->encoder || has_word(family->keys, head_key));
    f->kv_heads = own_kv ? cr_entry_size(e, kv_key, f->heads, 1) : f->heads;
    const bool said = cr_json_get(e->json, head_key) != NULL;
    const int64_t D = f->head_dim && !said ? f->head_dim : f->width / f->heads;
    f->head_dim = own_dim ? cr_entry_size(e, head_key, D ? D : 1, 1) : f->width / f->heads;
    if (!family->gpt_keys && !f->layer_norm) read_key(e, &(entry){"rms_norm_eps", EPS, AT(eps)}, f);
    if (!gpt) f->tied = flag_of(e, "tie_word_embeddings", f->tied);
    if (!gpt && !has_word(family->keys, "hidden_activation") && !family->distil_keys)
        read_key(e, &(entry){"hidden_act", ACTIVATION, AT(activation)}, f);
    if (f->gelu_is_tanh && f->activation == CR_ACT_GELU) f->activation = CR_ACT_GELU_TANH;
}

/* Reads the entries that only encoders have. */
static void read_encoder(cr_entries *e, const cr_family *family, cr_features *f) {
    static const char each[] = "ForTokenClassification";
    const cr_json *a = cr_entry_at(e, "architectures");
    const cr_json *first = cr_json_elements(a);
    f->class_each = first && first->kind == CR_JSON_STRING && strstr(first->text, each);
    if (has_word(family->keys, "classifier_pooling"))
        f->class_mean = cr_entry_word(e, "classifier_pooling", "cls|mean", 0) == 1;
    cr_entry_word(e, "position_embedding_type", "absolute", 0);
    check_only(e, "is_decoder=0|add_cross_attention=0|sinusoidal_pos_embds=0");
    cr_entry_word(e, "classifier_activation", "gelu", 0);
}

cr_status cr_features_read(const cr_family *family, cr_entries *e, int64_t depth, cr_features *f) {
    *f = family->features;
    read_sizes(e, family, f);
    if (e->status != CR_OK) return e->status;
    f->window_used = !has_word(family->keys, "use_sliding_window");
    if (f->encoder) read_encoder(e, family, f);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_word(family->keys, others[i].name)) read_key(e, &others[i], f);
    if (has_word(family->keys, "attention_bias") && !f->out_unbiased) f->out_bias = f->qkv_bias;
    if (has_word(family->keys, "use_bias")) f->out_bias = f->mlp_bias = f->qkv_bias;
    if (has_word(family->keys, "attention_out_bias")) f->out_bias = flag_of(e, "attention_out_bias", false);
    if (f->encoder && !f->layer_norm) f->head_bias = f->mlp_bias;      /* EuroBERT's */
    if (f->windows == CR_WINDOW_BUT_FIRST) f->window = 2 * cr_entry_size(e, "sliding_window", f->window / 2, 1);
    check_only(e, family->only);
    for (size_t i = 0; family->gpt_keys && i < sizeof gpt_sizes / sizeof *gpt_sizes; i++) {   /* other names of them */
        const cr_json *a = cr_entry_at(e, usual[i].name), *b = cr_entry_at(e, gpt_sizes[i].name);
        if (a && b && a->number != b->number) cr_entry_refuse(e, usual[i].name, "equal to its name of GPT-2");
    }
    const cr_json *all = cr_entry_at(e, "num_experts"), *local = cr_entry_at(e, "num_local_experts");
    if (f->experts && all && local && all->number != local->number)
        cr_entry_refuse(e, "num_experts", "equal to \"num_local_experts\"");
    if (e->status == CR_OK && depth >= 0 && f->layers != depth)
        e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"%s\" is %lld, the weights are of %lld layers", e->path,
                            sizes_of(family)[2].name, (long long)f->layers, (long long)depth);
    if (e->status == CR_OK && !cr_family_name(family, CR_ROLE_POSITION)) read_rope(e, f);
    if (f->positions_skip) {                        /* the rows of the first positions are of no token */
        f->context -= f->pad + 1;
        if (f->context < 1) cr_entry_refuse(e, "max_position_embeddings", "more than pad_token_id + 1");
    }
    check_features(e, family, f);
    if (e->status != CR_OK) return cr_features_end(f), e->status;
    if (!f->expert_inner) f->expert_inner = f->inner;
    if (f->query_scalar > 0) f->attention_scale = 1 / sqrt(f->query_scalar);
    if (f->logit_divisor > 0) f->logit_scale = 1 / f->logit_divisor;
    f->layer = cr_layers_new(e->op, f);
    if (!f->layer) e->status = cr_error_status();
    else read_layers(e, f);
    if (e->status != CR_OK) cr_features_end(f);
    return e->status;
}
