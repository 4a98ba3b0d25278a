/* lm_models.h - tiny language models with random weights, as folders of Hugging Face have them. */
#ifndef CR_LM_MODELS_H
#define CR_LM_MODELS_H

#include "test.h"

enum { V = 19, C = 16, N = 24 };

static void add(cr_params *p, const char *name, int n, const int64_t *shape, double mean) {
    static cr_generator *g;
    if (!g) g = cr_generator_new(7);
    cr_scope_begin();
    cr_tensor *t = cr_empty(n, shape, CR_F32, cr_cpu());
    OK(cr_init_normal(t, mean, 0.3, g));
    OK(cr_params_add(p, name, t));
    cr_scope_end();
}

static const char gpt_config[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 19, \"n_positions\": 24, \"n_embd\": 16,"
                                 " \"n_layer\": 2, \"n_head\": 4, \"resid_pdrop\": 0.0, \"note\": [1, 2.5, null]}",
                  llama_config[] =
                      "{\"model_type\": \"%s\", \"vocab_size\": 19, \"max_position_embeddings\": 24, "
                      "\"hidden_size\": 16,"
                      " \"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
                      " \"num_key_value_heads\": 2, \"head_dim\": 4, \"rms_norm_eps\": 1e-6, \"sliding_window\": 4,"
                      " \"rope_theta\": 100.0, \"tie_word_embeddings\": %s}";

/* Weights as a folder has them. */
__attribute__((unused)) static cr_params *gpt_weights(void) {
    cr_params *p = cr_params_new();
    add(p, "transformer.wte.weight", CR_LIST(V, C), 0);
    add(p, "transformer.wpe.weight", CR_LIST(24, C), 0);
    for (int l = 0; l < 2; l++) {
        static const struct { const char *name; int64_t in, out;
        } rows[] = {{"ln_1", 0, C}, {"attn.c_attn", C, 3 * C}, {"attn.c_proj", C, C}, {"ln_2", 0, C},
                    {"mlp.c_fc", C, 4 * C}, {"mlp.c_proj", 4 * C, C}};
        for (int i = 0; i < 6; i++) {
            char name[80];
            snprintf(name, sizeof name, "transformer.h.%d.%s.weight", l, rows[i].name);
            if (rows[i].in) add(p, name, CR_LIST(rows[i].in, rows[i].out), 0);
            else add(p, name, CR_LIST(rows[i].out), 1);
            snprintf(name, sizeof name, "transformer.h.%d.%s.bias", l, rows[i].name);
            add(p, name, CR_LIST(rows[i].out), 0);
        }
    }
    add(p, "transformer.ln_f.weight", CR_LIST(C), 1);
    add(p, "transformer.ln_f.bias", CR_LIST(C), 0);
    return p;
}

__attribute__((unused)) static cr_params *llama_weights(bool biases, bool norms, bool tied) {
    cr_params *p = cr_params_new();
    add(p, "model.embed_tokens.weight", CR_LIST(V, C), 0);
    for (int l = 0; l < 2; l++) {
        static const struct { const char *name; int64_t out, in;
        } rows[] = {{"self_attn.q_proj", C, C}, {"self_attn.k_proj", C / 2, C}, {"self_attn.v_proj", C / 2, C},
                    {"self_attn.o_proj", C, C}, {"mlp.gate_proj", N, C}, {"mlp.up_proj", N, C},
                    {"mlp.down_proj", C, N}, {"input_layernorm", C, 0}, {"post_attention_layernorm", C, 0},
                    {"self_attn.q_norm", 4, 0}, {"self_attn.k_norm", 4, 0}};
        for (int i = 0; i < (norms ? 11 : 9); i++) {
            char name[80];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", l, rows[i].name);
            if (rows[i].in) add(p, name, CR_LIST(rows[i].out, rows[i].in), 0);
            else add(p, name, CR_LIST(rows[i].out), 1);
            snprintf(name, sizeof name, "model.layers.%d.%s.bias", l, rows[i].name);
            if (biases && i < 3) add(p, name, CR_LIST(rows[i].out), 0);
        }
    }
    add(p, "model.norm.weight", CR_LIST(C), 1);
    if (!tied) add(p, "lm_head.weight", CR_LIST(V, C), 0);
    return p;
}

#endif
