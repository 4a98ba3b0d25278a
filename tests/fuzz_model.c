/* fuzz_model.c - what is around a model's weights, changed: config.json of several families over weights that fit
 * the good one, PEFT's adapters with their weights, GGUF models and adapters, gpt-oss's blocks of MXFP4, and the files
 * of sentence-transformers.  The first byte of an input says which; a model that is accepted runs. */
#include "fuzz.h"

#include "folder.h"
#include "core/os.h"

enum { FAMILIES = 6, LLAMA = 0, BERT = 3 };
static const char *const configs[FAMILIES] = {
    "{\"model_type\": \"llama\", \"vocab_size\": 19, \"max_position_embeddings\": 24, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"rms_norm_eps\": 1e-6, \"rope_theta\": 100.0, \"rope_scaling\": {\"rope_type\": \"llama3\", "
    "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
    "\"original_max_position_embeddings\": 8}, \"tie_word_embeddings\": false}",
    "{\"model_type\": \"gpt_oss\", \"vocab_size\": 19, \"max_position_embeddings\": 64, \"hidden_size\": 16, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"head_dim\": 4, \"num_local_experts\": 3, \"num_experts_per_tok\": 2, \"sliding_window\": 4, "
    "\"layer_types\": [\"sliding_attention\", \"full_attention\"], \"rope_scaling\": {\"rope_type\": \"yarn\", "
    "\"factor\": 4.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false, "
    "\"original_max_position_embeddings\": 16}, \"rope_theta\": 150000, \"swiglu_limit\": 7.0}",
    "{\"model_type\": \"gemma3_text\", \"vocab_size\": 19, \"max_position_embeddings\": 24, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 3, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"head_dim\": 8, \"sliding_window\": 4, \"sliding_window_pattern\": 2, \"query_pre_attn_scalar\": 8, "
    "\"use_bidirectional_attention\": true, \"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", "
    "\"factor\": 8.0, \"rope_theta\": 1000.0}, \"sliding_attention\": {\"rope_type\": \"default\", "
    "\"rope_theta\": 100.0}}}",
    "{\"model_type\": \"bert\", \"vocab_size\": 19, \"max_position_embeddings\": 24, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"type_vocab_size\": 2, "
    "\"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-12, \"pad_token_id\": 0, "
    "\"sentence_pooling\": \"cls|mean|normalize\", \"sentence_length\": 12}",
    "{\"model_type\": \"mpnet\", \"vocab_size\": 19, \"max_position_embeddings\": 26, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"relative_attention_num_buckets\": 32, \"hidden_dropout_prob\": 0.1}",
    "{\"model_type\": \"qwen2_moe\", \"vocab_size\": 19, \"max_position_embeddings\": 24, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
    "\"num_experts\": 3, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 8, \"decoder_sparse_step\": 2, "
    "\"shared_expert_intermediate_size\": 12, \"norm_topk_prob\": true, \"mlp_only_layers\": [0], "
    "\"use_sliding_window\": true, \"sliding_window\": 4, \"max_window_layers\": 1}"};

static cr_lm *good[FAMILIES];

static void must(bool kept, const char *what) {
    if (kept) return;
    printf("%s: %s\n", what, cr_error() ? cr_error() : "");
    abort();
}

static void make_models(void) {
    cr_generator *g = cr_generator_new(1);
    for (int i = 0; i < FAMILIES && !good[FAMILIES - 1]; i++)
        must((good[i] = cr_lm_new(configs[i], CR_F32, cr_cpu(), g)) != NULL, configs[i]);
    cr_generator_free(g);
}

static void run(const cr_lm *m) {
    static const uint32_t ids[] = {3, 1, 2, 0, 5};
    static const int64_t lengths[] = {2, 3};
    cr_scope_begin();
    const cr_tensor *tokens = cr_to(cr_from(ids, CR_LIST(1, 3), CR_U32, cr_cpu()), CR_I64, cr_cpu());
    const bool fits = cr_lm_context(m) >= 3 && cr_lm_vocabulary(m) > 5;
    const cr_tensor *y = !fits ? tokens : cr_lm_is_encoder(m) ? cr_lm_embed(m, 2, lengths, ids)
                                                               : cr_lm_logits(m, tokens);
    if (!y) fuzz_check(false, "a run");
    cr_scope_end();
}

static void check_config(int family, const char *text) {
    cr_lm *m = cr_lm_of(text, cr_lm_params(good[family]), cr_cpu());
    fuzz_check(m != NULL, "config");
    if (m) run(m);
    cr_lm_free(m);
}

static void check_adapter(const char *path) {
    cr_lm *m = cr_lm_of(configs[LLAMA], cr_lm_params(good[LLAMA]), cr_cpu());
    static unsigned count;
    const bool loaded = cr_lm_load_adapter(m, path, NULL) == CR_OK;
    fuzz_check(loaded, "adapter");
    run(m);
    if (loaded && count++ % 16 == 0) must(!cr_lm_save_adapter(m, folder_path("again")), "an adapter is not saved");
    cr_lm_free(m);
}

/* A folder of its own for each kind of file, with good ones beside the changed one. */
static const char *sentence_folder(void) {
    static bool made;
    const char *dir = folder_path("sentence");
    if (made) return dir;
    must(!cr_lm_save(good[BERT], dir, "safetensors", "f32"), "a model is not saved");
    made = cr_os_make_directory(folder_path("sentence/1_Pooling")) &&
           cr_os_make_directory(folder_path("sentence/2_Dense"));
    must(made, "a folder");
    return dir;
}

static const char modules[] = "[{\"idx\": 0, \"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}, "
                              "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}, "
                              "{\"path\": \"2_Dense\", \"type\": \"sentence_transformers.models.Dense\"}]",
                  pooling[] = "{\"word_embedding_dimension\": 16, \"pooling_mode_cls_token\": false, "
                              "\"pooling_mode_mean_tokens\": true, \"include_prompt\": true}",
                  dense[] = "{\"in_features\": 16, \"out_features\": 4, \"bias\": true, \"activation_function\": "
                            "\"torch.nn.modules.activation.Tanh\"}",
                  limits[] = "{\"max_seq_length\": 12, \"do_lower_case\": false}";
static const struct { char kind; const char *name, *text; } files[] = {
    {'m', "sentence/modules.json", modules},
    {'p', "sentence/1_Pooling/config.json", pooling},
    {'d', "sentence/2_Dense/config.json", dense},
    {'l', "sentence/sentence_bert_config.json", limits}};

static void check_sentence(char kind, const uint8_t *data, size_t bytes) {
    const char *dir = sentence_folder();
    const size_t size = strlen(configs[BERT]) - strlen(strstr(configs[BERT], ", \"sentence_pooling"));
    char config[1024];
    snprintf(config, sizeof config, "%.*s}", (int)size, configs[BERT]);     /* by the files instead */
    file_put(folder_path("sentence/config.json"), config, strlen(config));
    for (int i = 0; i < 4; i++) {
        const bool changed = files[i].kind == kind;
        file_put(folder_path(files[i].name), changed ? (const char *)data : files[i].text,
                 changed ? bytes : strlen(files[i].text));
    }
    static bool good_dense;
    cr_params *p = cr_params_new();
    cr_scope_begin();
    must(good_dense || (!cr_params_add(p, "linear.weight", cr_ones(CR_LIST(4, 16), CR_F32, cr_cpu())) &&
             !cr_params_add(p, "linear.bias", cr_ones(CR_LIST(4), CR_F32, cr_cpu())) &&
             !cr_save(folder_path("sentence/2_Dense/model.safetensors"), p, NULL)), "a layer is not saved");
    cr_scope_end();
    cr_params_free(p);
    good_dense = kind != 'w';
    if (kind == 'w') file_put(folder_path("sentence/2_Dense/model.safetensors"), data, bytes);
    cr_lm *m = cr_lm_load(dir, cr_cpu());
    fuzz_check(m != NULL, "sentence model");
    if (m) run(m);
    cr_lm_free(m);
}

static const char small_llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 7, \"max_position_embeddings\": 24, \"hidden_size\": 8, "
    "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1}";
static const char small_oss[] =
    "{\"model_type\": \"gpt_oss\", \"vocab_size\": 7, \"max_position_embeddings\": 64, \"hidden_size\": 32, "
    "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"num_key_value_heads\": 1, "
    "\"head_dim\": 4, \"num_local_experts\": 2, \"num_experts_per_tok\": 1, \"sliding_window\": 4, "
    "\"quantization_config\": {\"quant_method\": \"mxfp4\"}}";

static void make_gguf(void) {
    cr_generator *g = cr_generator_new(1);
    cr_lm *m = cr_lm_new(small_llama, CR_F32, cr_cpu(), g);
    must(m && !cr_lm_save(m, folder_path("model.gguf"), "gguf", "f16"), "a model is not written");
    cr_lm_free(m);
    cr_generator_free(g);
}

static void make_oss(void) {
    cr_generator *g = cr_generator_new(1);
    cr_lm *m = cr_lm_new(small_oss, CR_F32, cr_cpu(), g);
    cr_params *p = cr_params_new();
    must(m && p, "a model");
    cr_scope_begin();
    for (int64_t i = 0; i < cr_params_count(cr_lm_params(m)); i++) {
        const char *name = cr_params_name(cr_lm_params(m), i);
        cr_tensor *t = cr_detach(cr_params_at(cr_lm_params(m), i));
        const bool blocks = cr_ndim(t) == 3;
        char full[140];
        snprintf(full, sizeof full, "model.%s%s", name, blocks ? "_blocks" : "");
        const int64_t rows = blocks ? cr_size(t, 2) : 0;
        cr_tensor *kept = blocks ? cr_full(CR_LIST(2, rows, 1, 16), 17, CR_U8, cr_cpu())
                                       : cr_to(t, CR_F16, cr_cpu());
        must(!cr_params_add(p, full, kept), "a tensor");
        snprintf(full, sizeof full, "model.%s_scales", name);
        must(!blocks || !cr_params_add(p, full, cr_full(CR_LIST(2, rows, 1), 120, CR_U8, cr_cpu())), "scales");
    }
    must(!cr_save_folder(folder_path("oss"), p, small_oss, 0), "a folder");
    cr_scope_end();
    cr_params_free(p);
    cr_lm_free(m);
    cr_generator_free(g);
}

static void check_file(bool gguf, const uint8_t *data, size_t bytes) {
    static bool made;
    if (!made) make_oss(), made = true;
    file_put(folder_path(gguf ? "changed.gguf" : "oss/model.safetensors"), data, bytes);
    cr_lm *m = cr_lm_load(folder_path(gguf ? "changed.gguf" : "oss"), cr_cpu());
    fuzz_check(m != NULL, "model");
    if (m) run(m);
    cr_lm_free(m);
}

/* The good adapter, in a folder and in a GGUF file. */
static void make_adapter(void) {
    cr_lm *m = cr_lm_of(configs[LLAMA], cr_lm_params(good[LLAMA]), cr_cpu());
    const cr_lora_options o = {.rank = 2, .alpha = 4, .targets = "q_proj,down_proj"};
    must(m && !cr_lm_lora(m, &o, NULL) && !cr_lm_save_adapter(m, folder_path("adapter")) &&
             !cr_lm_save_adapter(m, folder_path("adapter.gguf")), "an adapter");
    cr_lm_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static char text[FUZZ_ROOM + 1], config[4096], weights[1 << 16];
    static size_t config_bytes, weights_bytes;
    if (!bytes || bytes > FUZZ_ROOM) return 0;
    make_models();
    const char kind = (char)data[0];
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    if (kind >= '0' && kind < '0' + FAMILIES) return check_config(kind - '0', text), 0;
    if (kind == 'G' || kind == 'x') return check_file(kind == 'G', data + 1, bytes - 1), 0;
    if (strchr("mpdlw", kind)) return check_sentence(kind, data + 1, bytes - 1), 0;
    if (!config_bytes) {
        make_adapter();
        char *a = file_get(folder_path("adapter/adapter_config.json"), &config_bytes);
        char *b = file_get(folder_path("adapter/adapter_model.safetensors"), &weights_bytes);
        must(config_bytes < sizeof config && weights_bytes < sizeof weights, "an adapter is large");
        memcpy(config, a, config_bytes);
        memcpy(weights, b, weights_bytes);
        free(a);
        free(b);
    }
    if (kind == 'g') {
        file_put(folder_path("changed.gguf"), data + 1, bytes - 1);
        check_adapter(folder_path("changed.gguf"));
        return 0;
    }
    const bool is_config = kind == 'a';
    file_put(folder_path("adapter/adapter_config.json"), is_config ? text : config,
             is_config ? bytes - 1 : config_bytes);
    file_put(folder_path("adapter/adapter_model.safetensors"), is_config ? weights : text,
             is_config ? weights_bytes : bytes - 1);
    check_adapter(folder_path("adapter"));
    return 0;
}

static size_t seed_of(char kind, const char *from, size_t n, uint8_t *out, size_t room) {
    if (n + 1 > room) return 0;
    out[0] = (uint8_t)kind;
    memcpy(out + 1, from, n);
    return n + 1;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const struct { char kind; const char *path; } written[] = {
        {'a', "adapter/adapter_config.json"},
        {'t', "adapter/adapter_model.safetensors"},
        {'g', "adapter.gguf"},
        {'w', "sentence/2_Dense/model.safetensors"},
        {'G', "model.gguf"},
        {'x', "oss/model.safetensors"}};
    if (i < FAMILIES) return seed_of((char)('0' + i), configs[i], strlen(configs[i]), out, room);
    i -= FAMILIES;
    if (i < 4) return seed_of(files[i].kind, files[i].text, strlen(files[i].text), out, room);
    i -= 4;
    if (i >= 6) return 0;
    static char *texts[6];
    static size_t bytes[6];
    if (!texts[i]) {
        make_models();
        if (i < 3) make_adapter();
        else if (i == 3) check_sentence('m', (const uint8_t *)modules, strlen(modules));
        else if (i == 4) make_gguf();
        else make_oss();
        texts[i] = file_get(folder_path(written[i].path), &bytes[i]);
    }
    return seed_of(written[i].kind, texts[i], bytes[i], out, room);
}
