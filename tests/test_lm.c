/* test_lm.c - pretrained language models in C: one model's logits and text from a folder, a GGUF file and
 * a checkpoint, with and without a cache; what is refused. tests/python/test_pretrained.py compares
 * with transformers. */
#include "test.h"

#include "folder.h"
#include "lm_models.h"

enum { T = 9 };
static const uint32_t ids[T] = {3, 18, 0, 7, 7, 1, 12, 5, 9};

static cr_tensor *tokens(int64_t n) {
    int64_t wide[T];
    for (int64_t i = 0; i < n; i++) wide[i] = ids[i];
    return cr_from(wide, CR_LIST(1, n), CR_I64, cr_cpu());
}

static bool collect(uint32_t id, void *ctx) {
    uint32_t **at = ctx;
    *(*at)++ = id;
    return true;
}

static double difference(const cr_lm *a, const cr_lm *b) {
    cr_scope_begin();
    cr_tensor *off = cr_abs(cr_sub(cr_lm_logits(a, tokens(T)), cr_lm_logits(b, tokens(T))));
    const double most = cr_item(cr_max(off, CR_ALL, false));
    cr_scope_end();
    return most;
}

static void put_folder(const char *dir, const cr_params *p, const char *config, int64_t shard) {
    OK(cr_save_folder(dir, p, config, shard));
}

/* Greedy text with the cache is the argmax of logits without. */
static void check_text(const cr_lm *m, const char *kind) {
    uint32_t made[12], *to = made, window[T + 12];
    OK(cr_lm_generate(m, ids, T, 12, &(cr_sampling){.temperature = 0, .top_p = 1}, NULL, collect, &to));
    REQUIRE(to == made + 12, "%s: %d tokens", kind, (int)(to - made));
    memcpy(window, ids, sizeof ids);
    for (int i = 0; i < 12; i++) {
        int64_t wide[T + 12];
        for (int k = 0; k < T + i; k++) wide[k] = window[k];
        cr_scope_begin();
        cr_tensor *x = cr_from(wide, CR_LIST(1, T + i), CR_I64, cr_cpu()), *y = cr_lm_logits(m, x);
        uint32_t id = V;
        OK(cr_sample(cr_slice(y, 1, T + i - 1, T + i, 1), &(cr_sampling){.temperature = 0, .top_p = 1}, NULL, &id));
        CHECK(id == made[i], "%s: token %d is %u with a cache, %u without", kind, i, made[i], id);
        cr_scope_end();
        window[T + i] = made[i];
    }
}

static void files_of(const char *kind, cr_params *weights, const char *config) {
    const char *dir = folder_path("model"), *file = folder_path("model.gguf"), *run = folder_path("run");
    put_folder(dir, weights, config, 3000);
    cr_lm *m = cr_lm_load(dir, cr_cpu());
    REQUIRE(m, "%s: %s", kind, cr_error());
    CHECK(cr_lm_vocabulary(m) == V && cr_lm_context(m) == 24, "%s: sizes", kind);
    check_text(m, kind);
    OK(cr_lm_save(m, file, "gguf", "f32"));
    OK(cr_lm_save(m, run, "checkpoint", NULL));
    OK(cr_lm_save(m, dir, "safetensors", NULL));            /* over the files that it is mapped from */
    const char *const paths[] = {file, run, dir};
    for (int i = 0; i < 3; i++) {
        cr_lm *again = cr_lm_load(paths[i], cr_cpu());
        CHECK(again && difference(m, again) <= 1e-5, "%s: %s: %s", kind, paths[i],
              cr_error() ? cr_error() : "other logits");
        cr_lm_free(again);
    }
    cr_scope_begin();
    cr_tensor *loss = cr_lm_loss(m, tokens(T), tokens(T));
    OK(cr_backward(loss, CR_NONE, NULL));
    for (int64_t i = 0; i < cr_params_count(cr_lm_params(m)); i++)
        CHECK(!cr_is_none(cr_grad(cr_params_at(cr_lm_params(m), i))), "%s: no gradient of %s", kind,
              cr_params_name(cr_lm_params(m), i));
    cr_scope_end();
    cr_lm_free(m);
    cr_params_free(weights);
    (void)cr_os_remove_folder(dir);
    (void)cr_os_remove_folder(run);
    test_ran_on(cr_cpu());
}

TEST(gpt2) { files_of("gpt2", gpt_weights(), gpt_config); }

TEST(llama_and_relatives) {
    static const struct { const char *kind; bool biases, norms, tied;
    } rows[] = {{"llama", 0, 0, 0}, {"mistral", 0, 0, 0}, {"qwen2", 1, 0, 1}, {"qwen3", 0, 1, 0}};
    for (int i = 0; i < 4; i++) {
        char config[600];
        snprintf(config, sizeof config, llama_config, rows[i].kind, rows[i].tied ? "true" : "false");
        files_of(rows[i].kind, llama_weights(rows[i].biases, rows[i].norms, rows[i].tied), config);
    }
}

/* Qwen 2 has biases of queries, keys and values, whatever its files say. */
TEST(biases_of_qwen) {
    cr_params *p = llama_weights(true, false, true);
    const char *dir = folder_path("biases");
    char config[800];
    snprintf(config, sizeof config, llama_config, "qwen2", "true");
    snprintf(strrchr(config, '}'), 60, ", \"attention_bias\": true, \"mlp_bias\": true}");
    put_folder(dir, p, config, 0);
    cr_lm *m = cr_lm_load(dir, cr_cpu());
    CHECK(m, "%s", cr_error());
    cr_lm_free(m);
    cr_params_free(p);
    (void)cr_os_remove_folder(dir);
}

/* The last token's logits of Qwen 2 with a window of 4: in the layers from `from` on; said in two ways. */
TEST(windows_of_layers) {
    static const char *const more[] = {
        ", \"use_sliding_window\": false}", ", \"use_sliding_window\": true, \"max_window_layers\": 2}",
        ", \"use_sliding_window\": true, \"max_window_layers\": 1}",
        ", \"use_sliding_window\": true, \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
        ", \"use_sliding_window\": true, \"max_window_layers\": 0}",
        ", \"use_sliding_window\": true, \"layer_types\": [\"sliding_attention\", \"sliding_attention\"]}"};
    cr_params *p = llama_weights(true, false, true);
    const char *dir = folder_path("windows");
    cr_lm *m[6];
    char config[800];
    snprintf(config, sizeof config, llama_config, "qwen2", "true");
    char *end = strrchr(config, '}');
    for (int i = 0; i < 6; i++) {
        snprintf(end, sizeof config - (size_t)(end - config), "%s", more[i]);
        put_folder(dir, p, config, 0);
        m[i] = cr_lm_load(dir, cr_cpu());
        REQUIRE(m[i], "%s", cr_error());
    }
    for (int i = 1; i < 6; i++) {
        const double off = difference(m[i - 1], m[i]);
        CHECK(i % 2 ? off == 0 : off > 1e-3, "%s and %s: logits differ by %g", more[i - 1], more[i], off);
    }
    for (int i = 0; i < 6; i++) cr_lm_free(m[i]);
    cr_params_free(p);
    (void)cr_os_remove_folder(dir);
}

TEST(refused) {
    const char *dir = folder_path("bad");
    cr_params *p = gpt_weights();
    static const struct { const char *config, *says;
    } rows[] = {{"{}", "\"model_type\" must be one of gpt2|llama|mistral|qwen2|qwen3|"},
                {"{\"model_type\": \"gpt2\", \"vocab_size\": 19, \"n_positions\": 24, "
                 "\"n_embd\": 20, \"n_layer\": 2, \"n_head\": 4}",
                 "'wte.weight' is (19, 16), not (19, 20)"},
                {"{\"model_type\": \"gpt2\", \"vocab_size\": 19, \"n_positions\": 24, "
                 "\"n_embd\": 16, \"n_layer\": 900000000, \"n_head\": 4}",
                 "\"n_layer\" is 900000000, the weights are of 2 layers"},
                {"{\"model_type\": \"gpt2\", \"vocab_size\": 19, \"n_positions\": 24, "
                 "\"n_embd\": 16, \"n_layer\": 2, \"n_head\": 0}",
                 "\"n_head\" must be a whole number from 1"},
                {"{\"model_type\": \"llama\"}", "\"vocab_size\" must be a whole number"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_folder(dir, p, rows[i].config, 0);
        FAILS(CR_BAD_VALUE, rows[i].says, cr_lm_load(dir, cr_cpu()));
    }
    FAILS(CR_IO, "config.json", cr_save_folder(dir, p, "{", 0));
    FAILS(CR_BAD_VALUE, "must be a JSON object", cr_save_folder(dir, p, "[]", 0));
    add(p, "stray", CR_LIST(2), 0);
    put_folder(dir, p, gpt_config, 0);
    FAILS(CR_BAD_VALUE, "'stray' is not wanted", cr_lm_load(dir, cr_cpu()));
    cr_params_free(p);
    p = gpt_weights();
    add(p, "lm_head.weight", CR_LIST(V, C), 0);
    put_folder(dir, p, gpt_config, 0);
    FAILS(CR_BAD_VALUE, "ties the head to the embedding, 'lm_head.weight' and 'wte.weight' differ",
          cr_lm_load(dir, cr_cpu()));
    cr_params_free(p);
    FAILS(CR_IO, "cannot read", cr_lm_load(folder_path("nothing"), cr_cpu()));
    char weights[600];
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    CHECK(!remove(weights), "%s is not there", weights);
    FAILS(CR_IO, "has no weights", cr_lm_load(dir, cr_cpu()));
    FAILS(CR_BAD_VALUE, "path", cr_lm_load(NULL, cr_cpu()));
    p = gpt_weights();
    put_folder(dir, p, gpt_config, 0);
    cr_params_free(p);
    cr_lm *m = cr_lm_load(dir, cr_cpu());
    REQUIRE(m, "%s", cr_error());
    uint32_t *to = NULL;
    cr_scope_begin();
    FAILS(CR_BAD_INDEX, "the vocabulary has 19", cr_lm_generate(m, (uint32_t[]){19}, 1, 1, NULL, NULL, collect, &to));
    FAILS(CR_BAD_VALUE, "the model takes 1 to 24", cr_lm_logits(m, cr_zeros(CR_LIST(1, 25), CR_I64, cr_cpu())));
    FAILS(CR_BAD_VALUE, "format must be", cr_lm_save(m, dir, "onnx", NULL));
    FAILS(CR_BAD_VALUE, "type must be", cr_lm_save(m, dir, "safetensors", "q8_0"));
    FAILS(CR_BAD_VALUE, "type must be", cr_lm_save(m, folder_path("x.gguf"), "gguf", "q5_0"));
    OK(cr_lm_save_gguf(m, folder_path("x.gguf"), "f32", "{\"tokenizer.x\": [1, 2], \"other\": 3}", NULL, 0));
    char *entries = cr_gguf_entries(folder_path("x.gguf"), "tokenizer.");
    CHECK(entries && !strcmp(entries, "{\"tokenizer.x\": [1, 2]}"), "entries %s", entries ? entries : cr_error());
    cr_free(entries);
    CHECK(!cr_gguf_entries(folder_path("x.gguf"), "nothing.") && !cr_error(), "entries that are not there");
    file_put(folder_path("plain"), "plain", 5);
    FAILS(CR_IO, "is not a GGUF file", cr_gguf_entries(folder_path("plain"), ""));
    FAILS(CR_BAD_VALUE, "the prefix", cr_gguf_entries(folder_path("x.gguf"), NULL));
    FAILS(CR_IO, "tokenizer", cr_lm_save_gguf(m, folder_path("x.gguf"), "f32", "{", NULL, 0));
    cr_scope_end();
    cr_lm_free(m);
    (void)cr_os_remove_folder(dir);
}
