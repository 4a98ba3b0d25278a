/* test_lora.c - adapters and packed samples of pretrained models in C: values and gradients against the
 * formula written with other ops, merging, PEFT's files, packed against separate losses, what is refused. */
#include "test.h"

#include "folder.h"

enum { V = 19, C = 16, N = 24 };

static void add(cr_params *p, cr_generator *g, const char *name, int n, const int64_t *shape, double mean) {
    cr_scope_begin();
    cr_tensor *t = cr_empty(n, shape, CR_F32, cr_cpu());
    OK(cr_init_normal(t, mean, 0.3, g));
    OK(cr_params_add(p, name, t));
    cr_scope_end();
}

static const char gpt_config[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 19, \"n_positions\": 24, \"n_embd\": 16,"
                                 " \"n_layer\": 2, \"n_head\": 4, \"resid_pdrop\": 0.0}",
                  llama_config[] = "{\"model_type\": \"mistral\", \"vocab_size\": 19, \"max_position_embeddings\": 24,"
                                   " \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 2,"
                                   " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"sliding_window\": 3,"
                                   " \"rope_theta\": 100.0}";

typedef struct row { const char *name; int64_t out, in; } row;  /* in 0: a norm */
static const row gpt_rows[] = {{"ln_1", C, 0}, {"attn.c_attn", 3 * C, C}, {"attn.c_proj", C, C}, {"ln_2", C, 0},
                               {"mlp.c_fc", 4 * C, C}, {"mlp.c_proj", C, 4 * C}},
                 llama_rows[] = {{"self_attn.q_proj", C, C}, {"self_attn.k_proj", C / 2, C},
                                 {"self_attn.v_proj", C / 2, C}, {"self_attn.o_proj", C, C}, {"mlp.gate_proj", N, C},
                                 {"mlp.up_proj", N, C}, {"mlp.down_proj", C, N}, {"input_layernorm", C, 0},
                                 {"post_attention_layernorm", C, 0}};

static cr_lm *model(bool gpt) {
    cr_params *p = cr_params_new();
    cr_generator *g = cr_generator_new(7);
    const char *dir = folder_path(gpt ? "gpt" : "llama");
    add(p, g, gpt ? "transformer.wte.weight" : "model.embed_tokens.weight", CR_LIST(V, C), 0);
    if (gpt) add(p, g, "transformer.wpe.weight", CR_LIST(24, C), 0);
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < (gpt ? 6 : 9); i++) {
            const row *r = gpt ? &gpt_rows[i] : &llama_rows[i];
            char name[96];
            snprintf(name, sizeof name, "%s.%d.%s.weight", gpt ? "transformer.h" : "model.layers", l, r->name);
            if (!r->in) add(p, g, name, CR_LIST(r->out), 1);
            else if (gpt) add(p, g, name, CR_LIST(r->in, r->out), 0);
            else add(p, g, name, CR_LIST(r->out, r->in), 0);
            snprintf(name, sizeof name, "%s.%d.%s.bias", gpt ? "transformer.h" : "model.layers", l, r->name);
            if (gpt) add(p, g, name, CR_LIST(r->out), 0);
        }
    add(p, g, gpt ? "transformer.ln_f.weight" : "model.norm.weight", CR_LIST(C), 1);
    if (gpt) add(p, g, "transformer.ln_f.bias", CR_LIST(C), 0);
    else add(p, g, "lm_head.weight", CR_LIST(V, C), 0);
    OK(cr_save_folder(dir, p, gpt ? gpt_config : llama_config, 0));
    cr_params_free(p);
    cr_generator_free(g);
    cr_lm *m = cr_lm_load(dir, cr_cpu());
    CHECK(m, "%s: %s", dir, cr_error());
    return m;
}

/* Numbers that are not 0 in all of B, so that the adapter does something. */
static void fill_adapter(const cr_lm *m, uint64_t seed) {
    cr_generator *g = cr_generator_new(seed);
    const bool on = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(cr_lm_adapter(m)); i++)
        OK(cr_init_normal(cr_params_at(cr_lm_adapter(m), i), 0, 0.2, g));
    cr_set_grad_enabled(on);
    cr_generator_free(g);
}

static const int64_t ids[] = {3, 18, 0, 7, 7, 1, 12, 5, 9, 2, 2, 16, 4};
static cr_tensor *tokens(int64_t n) { return cr_from(ids, CR_LIST(1, n), CR_I64, cr_cpu()); }

static double apart(const cr_tensor *a, const cr_tensor *b) {
    cr_scope_begin();
    const double most = a && b ? cr_item(cr_max(cr_abs(cr_sub(a, b)), CR_ALL, false)) : INFINITY;
    cr_scope_end();
    return most;
}

/* The same model whose weights are W + scale B A, computed here: its logits, and its gradients dW, from which dA =
 * scale B^T dW and dB = scale dW A^T. */
static void check_reference(bool gpt) {
    const char *kind = gpt ? "gpt2" : "mistral";
    cr_lm *m = model(gpt), *plain = model(gpt);
    const double scale = gpt ? 6.0 / 3 : 6.0 / sqrt(3);
    OK(cr_lm_lora(m, &(cr_lora_options){.rank = 3, .alpha = 6, .targets = "all-linear", .rank_stabilized = !gpt},
                  NULL));
    cr_scope_begin();
    CHECK(apart(cr_lm_logits(m, tokens(9)), cr_lm_logits(plain, tokens(9))) == 0, "%s: B is not 0 at first", kind);
    fill_adapter(m, 3);
    cr_params *a = cr_lm_adapter(m);
    CHECK(cr_params_count(a) == (gpt ? 16 : 28), "%s: %lld matrices", kind, (long long)cr_params_count(a));
    const bool on = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(a); i += 2) {
        char name[100];
        const char *at = cr_params_name(a, i);
        snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(at) - strlen(".lora_A.weight")), at);
        cr_tensor *w = cr_params_get(cr_lm_params(plain), name);
        cr_tensor *delta = cr_mul_scalar(cr_matmul(cr_params_at(a, i + 1), cr_params_at(a, i)), scale);
        CHECK(cr_add_(w, delta), "%s", cr_error());
    }
    cr_set_grad_enabled(on);
    const double off = apart(cr_lm_logits(m, tokens(9)), cr_lm_logits(plain, tokens(9)));
    CHECK(off < 2e-5, "%s: logits differ by %g", kind, off);
    OK(cr_backward(cr_lm_loss(m, tokens(12), cr_from(ids + 1, CR_LIST(1, 12), CR_I64, cr_cpu())), CR_NONE, NULL));
    OK(cr_backward(cr_lm_loss(plain, tokens(12), cr_from(ids + 1, CR_LIST(1, 12), CR_I64, cr_cpu())), CR_NONE, NULL));
    for (int64_t i = 0; i < cr_params_count(a); i += 2) {
        char name[100];
        const char *at = cr_params_name(a, i);
        snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(at) - strlen(".lora_A.weight")), at);
        const cr_tensor *dw = cr_grad(cr_params_get(cr_lm_params(plain), name)), *A = cr_detach(cr_params_at(a, i)),
                        *B = cr_detach(cr_params_at(a, i + 1));
        const double da = apart(cr_grad(cr_params_at(a, i)),
                                cr_mul_scalar(cr_matmul(cr_transpose(B, 0, 1), dw), scale)),
                     db = apart(cr_grad(cr_params_at(a, i + 1)),
                                cr_mul_scalar(cr_matmul(dw, cr_transpose(A, 0, 1)), scale));
        CHECK(da < 1e-5 && db < 1e-5, "%s: %s: gradients differ by %g and %g", kind, at, da, db);
    }
    for (int64_t i = 0; i < cr_params_count(cr_lm_params(m)); i++)
        CHECK(cr_is_none(cr_grad(cr_params_at(cr_lm_params(m), i))), "%s: a gradient of the frozen %s", kind,
              cr_params_name(cr_lm_params(m), i));
    cr_scope_end();
    cr_lm_free(m);
    cr_lm_free(plain);
    test_ran_on(cr_cpu());
}

TEST(is_the_formula_with_its_gradients) { check_reference(true); check_reference(false); }

TEST(merge_files_and_the_way_back) {
    for (int gpt = 0; gpt < 2; gpt++) {
        cr_lm *m = model(gpt), *other = model(gpt);
        const char *dir = folder_path("adapter");
        OK(cr_lm_lora(m, &(cr_lora_options){.rank = 2, .alpha = 3, .rank_stabilized = true}, NULL));
        CHECK(cr_params_count(cr_lm_adapter(m)) == (gpt ? 4 : 8), "the default targets");
        fill_adapter(m, 5);
        OK(cr_lm_save_adapter(m, dir));
        OK(cr_lm_load_adapter(other, dir, NULL));
        cr_scope_begin();
        cr_tensor *before = cr_lm_logits(m, tokens(9));
        CHECK(apart(before, cr_lm_logits(other, tokens(9))) == 0, "the file changes the adapter");
        cr_params *file = cr_load(folder_path("adapter/adapter_model.safetensors"), cr_cpu());
        REQUIRE(file, "%s", cr_error());
        const char *wanted = gpt ? "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"
                                 : "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight";
        cr_tensor *b = cr_params_get(file, wanted);
        CHECK(b && cr_size(b, 0) == (gpt ? 3 * C : C / 2) && cr_size(b, 1) == 2, "%s: %s", wanted, cr_error());
        cr_params_free(file);
        char *config = file_get(folder_path("adapter/adapter_config.json"), NULL);
        const char *const says[] = {"\"peft_type\": \"LORA\"", "\"r\": 2", "\"lora_alpha\": 3", "\"use_rslora\": true",
                                    gpt ? "\"fan_in_fan_out\": true" : "\"fan_in_fan_out\": false",
                                    gpt ? "\"target_modules\": [\"c_attn\"]"
                                        : "\"target_modules\": [\"q_proj\", \"v_proj\"]"};
        for (int i = 0; i < 6; i++) CHECK(strstr(config, says[i]), "the config lacks %s:\n%s", says[i], config);
        free(config);
        FAILS(CR_BAD_VALUE, "has an adapter", cr_lm_save(m, folder_path("x"), "safetensors", NULL));
        FAILS(CR_BAD_VALUE, "has an adapter", cr_lm_lora(m, NULL, NULL));
        OK(cr_lm_merge(m));
        CHECK(!cr_lm_adapter(m) && cr_requires_grad(cr_params_at(cr_lm_params(m), 0)), "merged, yet not plain");
        const double off = apart(before, cr_lm_logits(m, tokens(9)));
        CHECK(off > 0 && off < 2e-5, "merged, the logits differ by %g", off);
        FAILS(CR_BAD_VALUE, "no adapter", cr_lm_merge(m));
        cr_scope_end();
        cr_lm_free(m);
        cr_lm_free(other);
    }
}

/* The losses of samples in one row are those of each alone, and so is the gradient of their mean. */
TEST(packed_is_separate) {
    static const int64_t lengths[] = {5, 1, 4, 2};
    const int64_t targets[] = {-1, 0, 7, -1, 1, 12, -1, 9, 2, -1, 16, 4};
    for (int gpt = 0; gpt < 2; gpt++) {
        cr_lm *m = model(gpt), *one = model(gpt);
        cr_scope_begin();
        const cr_samples all = {ids, targets, 4, lengths};
        cr_tensor *each = cr_lm_losses(m, &all, false);
        REQUIRE(each && cr_numel(each) == 8, "%lld losses: %s", (long long)(each ? cr_numel(each) : -1), cr_error());
        double host[8];
        OK(cr_read(each, CR_F64, host, sizeof host));
        OK(cr_backward(cr_mean(each, CR_ALL, false), CR_NONE, NULL));
        for (int64_t s = 0, at = 0, k = 0; s < 4; at += lengths[s++]) {
            const int64_t T = lengths[s];
            cr_tensor *logits = cr_lm_logits(one, cr_from(ids + at, CR_LIST(1, T), CR_I64, cr_cpu()));
            cr_cross_entropy_options o = cr_cross_entropy_defaults();
            o.reduction = CR_EACH;
            for (int64_t t = 0; t < T; t++) {
                if (targets[at + t] < 0) continue;
                cr_tensor *loss = cr_cross_entropy(cr_slice(logits, 1, t, t + 1, 1),
                                                   cr_from(targets + at + t, CR_LIST(1, 1), CR_I64, cr_cpu()), &o);
                CHECK(fabs(cr_item(loss) - host[k]) < 1e-5, "sample %d, token %d: %.7g in a row, %.7g alone", (int)s,
                      (int)t, host[k], cr_item(loss));
                k++;
                OK(cr_backward(cr_mul_scalar(cr_sum(loss, CR_ALL, false), 1.0 / 8), CR_NONE,
                               &(cr_backward_options){.retain_graph = true}));
            }
        }
        for (int64_t i = 0; i < cr_params_count(cr_lm_params(m)); i++) {
            const double off = apart(cr_grad(cr_params_at(cr_lm_params(m), i)),
                                     cr_grad(cr_params_at(cr_lm_params(one), i)));
            CHECK(off < 1e-5, "%s: the gradient differs by %g", cr_params_name(cr_lm_params(m), i), off);
        }
        cr_scope_end();
        cr_lm_free(m);
        cr_lm_free(one);
    }
}

static void train(cr_lm *m, int steps, double *first, double *last) {
    static const int64_t lengths[] = {6, 6};
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 0.02;
    o.weight_decay = 0;
    cr_optim *opt = cr_optim_new(cr_lm_adapter(m), &o);
    for (int i = 0; i < steps; i++) {
        cr_scope_begin();
        cr_tensor *loss = cr_mean(cr_lm_losses(m, &(cr_samples){ids, ids + 1, 2, lengths}, true), CR_ALL, false);
        *last = cr_item(loss);
        if (!i) *first = *last;
        OK(cr_backward(loss, CR_NONE, NULL));
        OK(cr_optim_step(opt));
        cr_params_zero_grad(cr_lm_adapter(m));
        cr_scope_end();
    }
    cr_optim_free(opt);
}

/* An adapter learns two samples by heart; the weights below keep their bits; dropout is drawn from the generator. */
TEST(learns_and_leaves_the_base_alone) {
    cr_lm *m = model(true), *fresh = model(true);
    double first, last;
    OK(cr_lm_lora(m, &(cr_lora_options){.rank = 4, .alpha = 8, .targets = "all-linear"}, NULL));
    train(m, 150, &first, &last);
    CHECK(last < 0.1 * first, "the loss went from %g to %g", first, last);
    for (int64_t i = 0; i < cr_params_count(cr_lm_params(m)); i++)
        CHECK(apart(cr_params_at(cr_lm_params(m), i), cr_params_at(cr_lm_params(fresh), i)) == 0, "%s changed",
              cr_params_name(cr_lm_params(m), i));
    cr_lm_free(m);
    double losses[3];
    static const int64_t lengths[] = {12};
    const cr_samples p = {ids, ids + 1, 1, lengths};
    for (int i = 0; i < 3; i++) {                   /* twice from one seed, and without dropout */
        cr_generator *g = cr_generator_new(11);
        cr_lm *d = model(true);
        OK(cr_lm_lora(d, &(cr_lora_options){.rank = 2, .alpha = 4, .dropout = 0.5}, g));
        fill_adapter(d, 9);
        cr_scope_begin();
        const cr_tensor *before = cr_lm_logits(d, tokens(9));
        losses[i] = cr_item(cr_mean(cr_lm_losses(d, &p, i < 2), CR_ALL, false));
        CHECK(apart(before, cr_lm_logits(d, tokens(9))) == 0, "dropout stays on after a loss");
        cr_scope_end();
        cr_lm_free(d);
        cr_generator_free(g);
    }
    CHECK(losses[0] == losses[1] && losses[0] != losses[2], "dropout: %g, %g, without %g", losses[0], losses[1],
          losses[2]);
    cr_lm_free(fresh);
}

TEST(refused) {
    cr_lm *m = model(true), *llama = model(false);
    FAILS(CR_BAD_VALUE, "named 'c_atn': there are c_attn,c_proj,c_fc",
          cr_lm_lora(m, &(cr_lora_options){.rank = 2, .alpha = 1, .targets = "c_fc,c_atn"}, NULL));
    FAILS(CR_BAD_VALUE, "named ''", cr_lm_lora(m, &(cr_lora_options){.rank = 2, .alpha = 1, .targets = "c_fc,"}, NULL));
    FAILS(CR_BAD_VALUE, "rank must be at least 1, not 0", cr_lm_lora(m, &(cr_lora_options){.alpha = 1}, NULL));
    FAILS(CR_BAD_VALUE, "alpha", cr_lm_lora(m, &(cr_lora_options){.rank = 1, .alpha = NAN}, NULL));
    FAILS(CR_BAD_VALUE, "dropout", cr_lm_lora(m, &(cr_lora_options){.rank = 1, .alpha = 1, .dropout = 1}, NULL));
    CHECK(!cr_lm_adapter(m) && cr_requires_grad(cr_params_at(cr_lm_params(m), 0)), "a refused adapter stays");
    const char *dir = folder_path("other"), *config = folder_path("other/adapter_config.json");
    OK(cr_lm_lora(llama, NULL, NULL));
    OK(cr_lm_save_adapter(llama, dir));
    FAILS(CR_BAD_VALUE, "self_attn.q_proj.lora_A.weight' is not wanted", cr_lm_load_adapter(m, dir, NULL));
    static const struct { const char *text, *says; } rows[] = {
        {"{\"peft_type\": \"LORA\", \"r\": 5}", "'layers.0.self_attn.q_proj.lora_A.weight' is (8, 16), not (5, 16)"},
        {"{\"peft_type\": \"LOHA\", \"r\": 8}", "\"peft_type\" must be one of LORA, it is \"LOHA\""},
        {"{\"peft_type\": \"LORA\", \"r\": 0}", "\"r\" must be a whole number from 1"},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"use_dora\": true}", "\"use_dora\" must be false, it is true"},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"use_qalora\": true}", "\"use_qalora\" must be false, it is true"},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"init_lora_weights\": \"pissa\"}",
         "\"init_lora_weights\" must be one of gaussian|eva|orthogonal, it is \"pissa\""},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"init_lora_weights\": \"olora\"}", "it is \"olora\""},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"alora_invocation_tokens\": [5]}",
         "\"alora_invocation_tokens\" must be empty"},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"bias\": \"all\"}", "\"bias\" must be one of none"},
        {"{\"peft_type\": \"LORA\", \"r\": 8, \"rank_pattern\": {\"a\": 4}}", "\"rank_pattern\" must be empty"},
    };
    cr_lm_free(llama);
    llama = model(false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        file_put(config, rows[i].text, strlen(rows[i].text));
        FAILS(CR_BAD_VALUE, rows[i].says, cr_lm_load_adapter(llama, dir, NULL));
        CHECK(!cr_lm_adapter(llama), "a refused adapter stays");
    }
    file_put(config, "{", 1);
    FAILS(CR_IO, "adapter_config.json", cr_lm_load_adapter(llama, dir, NULL));
    FAILS(CR_IO, "cannot read", cr_lm_load_adapter(llama, folder_path("nothing"), NULL));
    FAILS(CR_BAD_VALUE, "no adapter", cr_lm_save_adapter(llama, dir));
    static const int64_t long_one[] = {25}, one[] = {3}, none[] = {-1, -1, -1}, outside[] = {0, V, 0};
    int64_t many[25] = {0};
    FAILS(CR_BAD_VALUE, "sample 0 has 25 tokens: the model takes 1 to 24",
          cr_lm_losses(m, &(cr_samples){many, many, 1, long_one}, false));
    FAILS(CR_BAD_VALUE, "none of the 3 targets counts", cr_lm_losses(m, &(cr_samples){many, none, 1, one}, false));
    FAILS(CR_BAD_INDEX, "token 1 is 19: the vocabulary has 19",
          cr_lm_losses(m, &(cr_samples){outside, many, 1, one}, false));
    FAILS(CR_BAD_INDEX, "token 1 is 19", cr_lm_losses(m, &(cr_samples){many, outside, 1, one}, false));
    FAILS(CR_BAD_VALUE, "at least one sample", cr_lm_losses(m, &(cr_samples){many, many, 0, one}, false));
    cr_lm_free(m);
    cr_lm_free(llama);
}
