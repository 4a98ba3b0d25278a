/* generate.c - chainrule generate: text from a trained model. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

bool print_token(uint32_t id, void *decoder) {
    size_t n;
    const char *text = cr_decoder_next(decoder, id, &n);
    if (text) fwrite(text, 1, n, stdout);
    if (cr_os_is_terminal(stdout)) fflush(stdout);
    return text && !ferror(stdout) && !cr_os_interrupted();
}

void print_rest(cr_decoder *decoder) {
    size_t n;
    const char *text = cr_decoder_end(decoder, &n);
    if (text) fwrite(text, 1, n, stdout);
    cr_decoder_free(decoder);
}

/* A folder of Hugging Face has config.json, a GGUF file is beside its tokenizer's files. */
static bool foreign(const char *path, char model[4096], char tokenizer[4096]) {
    char config[4096];
    const int n = snprintf(config, sizeof config, "%s/config.json", path);
    const bool folder = n > 0 && n < (int)sizeof config && cr_os_exists(config);
    if (!folder && (cr_os_is_directory(path) || !cr_os_exists(path))) return false;
    snprintf(model, 4096, "%s", path);
    snprintf(tokenizer, 4096, "%s", path);
    char *slash = strrchr(tokenizer, '/');
    if (!folder && slash) *slash = 0;
    else if (!folder) snprintf(tokenizer, 4096, ".");
    return true;
}

bool open_model(const char *dir, const char *device, cr_lm **m, cr_tokenizer **t) {
    char model[4096], tokenizer[4096];
    const cr_device *dev = device_named(device);
    if (!dev) return cli_fail_library(), false;
    const bool pretrained = foreign(dir, model, tokenizer);
    if (!pretrained && !run_model(dir, model, tokenizer)) return false;
    if (!pretrained && !cr_os_is_directory(model))
        return cli_fail("'%s' holds no trained model (no %s): chainrule train makes one", dir, model), false;
    *t = cr_tokenizer_load(tokenizer);
    *m = *t ? cr_lm_load(model, dev) : NULL;
    if (!*m) return cli_fail_library(), false;
    if (cr_tokenizer_size(*t) > cr_lm_vocabulary(*m))
        return cli_fail("'%s' has %lld tokens, the model %lld: they are not of one run", tokenizer,
                        (long long)cr_tokenizer_size(*t), (long long)cr_lm_vocabulary(*m)),
               false;
    return true;
}

static int generate(cr_lm *m, cr_tokenizer *t, const char *prompt, int64_t tokens, const cr_sampling *s,
                    int64_t seed) {
    int64_t n;
    uint32_t *ids = encode(t, prompt, strlen(prompt), &n);
    cr_generator *g = ids ? cr_generator_new((uint64_t)seed) : NULL;
    cr_decoder *decoder = g ? cr_decoder_new(t) : NULL;
    cr_status status = decoder ? CR_OK : cr_error_status();
    if (decoder) {
        size_t bytes;
        fputs(prompt, stdout);
        /* the prompt is written already */
        for (int64_t i = 0; i < n; i++) cr_decoder_next(decoder, ids[i], &bytes);
        status = cr_lm_generate(m, ids, n, tokens, s, g, print_token, decoder);
        print_rest(decoder);
        printf("\n");
    }
    cr_generator_free(g);
    cr_free(ids);
    if (cr_os_interrupted()) return CLI_STOPPED;
    return status != CR_OK ? cli_fail_library() : CLI_OK;
}

int cli_generate(int argc, char **argv) {
    const char *model = NULL, *adapter = NULL, *prompt = "\n", *device = NULL;
    cr_sampling s = {.temperature = 0.8, .top_p = 1};
    int64_t tokens = 300, seed = 1337, threads = 0;
    option options[] = {
        {.name = "model", .text = &model, .what = "DIR",
         .help = "the folder of a run of chainrule train (its best, if it has one) or of a checkpoint in it, a"
                 " folder of Hugging Face, or a GGUF file"},
        {.name = "adapter", .text = &adapter, .what = "DIR", .help = "an adapter of finetune --lora, or of PEFT"},
        {.name = "prompt", .text = &prompt, .what = "TEXT", .help = "what to go on from"},
        {.name = "tokens", .integer = &tokens, .help = "how many to write"},
        {.name = "temperature", .real = &s.temperature, .help = "0: always the likeliest token", .max = 1e6},
        {.name = "top-k", .integer = &s.top_k, .help = "only the N likeliest tokens; 0: all", .max = 0x1p31},
        {.name = "top-p", .real = &s.top_p, .what = "P",
         .help = "only the likeliest tokens that hold P of the probability", .min = 1e-12, .max = 1},
        {.name = "seed", .integer = &seed, .help = "the same seed gives the same text"},
        option_device(&device),
        option_threads(&threads),
    };
    const command c = {"generate", "--model DIR [--prompt TEXT] [options]", "Writes text with a trained model.",
                       options,    sizeof options / sizeof *options,        NULL};
    cr_lm *m = NULL;
    cr_tokenizer *t = NULL;
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!model) return usage_error(&c, "--model is needed: the folder of a run");
    if (threads && cr_set_num_threads((int)threads)) return cli_fail_library();
    cr_os_catch_interrupt();
    if (!open_model(model, device, &m, &t)) code = CLI_FAILED;
    else if (adapter && cr_lm_load_adapter(m, adapter, NULL)) code = cli_fail_library();
    else code = generate(m, t, prompt, tokens, &s, seed);
    cr_lm_free(m);
    cr_tokenizer_free(t);
    return code;
}
