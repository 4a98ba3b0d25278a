/* fuzz_gguf.c - the parser of GGUF on changed files, in memory; what it accepts must keep every promise
 * that loading relies on. */
#include "fuzz.h"

#include "folder.h"
#include "io/gguf.h"
#include "io/json.h"

static void promise(bool kept, const char *what) {
    if (!kept) { printf("accepted, but %s\n", what); abort(); }
}

static void check(const cr_gguf *g, const uint8_t *file, size_t bytes) {
    size_t total = 0;
    for (int64_t i = 0; i < g->count; i++) {
        const cr_gguf_tensor *t = &g->tensors[i];
        promise(t->name && *t->name && t->ndim >= 0 && t->ndim <= 4, "a tensor has no name or too many axes");
        for (int d = 0; d < t->ndim; d++) promise(t->shape[d] >= 0, "a size is negative");
        promise(t->data >= file && t->data <= file + bytes && t->bytes <= (size_t)(file + bytes - t->data),
                "a tensor lies outside the file");
        total += t->bytes;
    }
    promise(total <= bytes, "the tensors are more than the file");
    cr_json *root = cr_json_parse("fuzz", "metadata", g->metadata.text, g->metadata.bytes);
    if (!root) cr_error_clear();                    /* a key that comes twice */
    cr_json_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static unsigned count;
    cr_gguf g;
    const bool good = cr_gguf_parse("fuzz", "input", data, bytes, &g) == CR_OK;
    fuzz_check(good, "gguf");
    if (good) check(&g, data, bytes);
    cr_gguf_free(&g);
    if (count++ % (good ? 4 : 16)) return 0;
    file_put(folder_path("fuzz.gguf"), data, bytes);        /* the same through the file, and as a model */
    cr_params *p = cr_load(folder_path("fuzz.gguf"), cr_cpu());
    if (!p) fuzz_check(false, "load");
    promise(good || !p || bytes < 4 || memcmp(data, "GGUF", 4), "only when it is loaded");
    for (int64_t i = 0; i < cr_params_count(p); i++) (void)cr_fill_(cr_params_at(p, i), 1);
    cr_params_free(p);
    cr_error_clear();
    cr_lm *m = cr_lm_load(folder_path("fuzz.gguf"), cr_cpu());
    fuzz_check(m != NULL, "model");
    cr_lm_free(m);
    cr_error_clear();
    cr_tokenizer *t = cr_tokenizer_load(folder_path("fuzz.gguf"));
    fuzz_check(t != NULL, "tokenizer");
    cr_tokenizer_free(t);
    return 0;
}

static size_t put(uint8_t *out, size_t at, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) out[at + i] = (uint8_t)(v >> 8 * i);
    return at + n;
}

static size_t put_text(uint8_t *out, size_t at, const char *s) {
    at = put(out, at, strlen(s), 8);
    memcpy(out + at, s, strlen(s));
    return at + strlen(s);
}

static size_t put_list(uint8_t *out, size_t at, const char *key, uint64_t type, uint64_t n) {
    return put(out, put(out, put(out, put_text(out, at, key), 9, 4), type, 4), n, 8);
}

/* A tokenizer of six tokens, and no tensor. */
static size_t tokenizer_seed(const char *kind, uint8_t *out) {
    static const char *const tokens[][6] = {{"<unk>", "<s>", "a", "b", "ab", "<0x0A>"},
                                            {"[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81" "a", "b", "\xE2\x96\x81"}};
    const bool unigram = !strcmp(kind, "t5"), words = !strcmp(kind, "bert"),
               llama = unigram || !strcmp(kind, "llama");
    memcpy(out, "GGUF", 4);
    size_t at = put(out, put(out, put(out, 4, 3, 4), 0, 8), unigram ? 8 : 6, 8);
    at = put_text(out, put(out, put_text(out, at, "tokenizer.ggml.model"), 8, 4), kind);
    at = put_text(out, put(out, put_text(out, at, "tokenizer.ggml.pre"), 8, 4), llama ? "default" : "llama-bpe");
    at = put_list(out, at, "tokenizer.ggml.tokens", 8, 6);
    for (int i = 0; i < 6; i++) at = put_text(out, at, tokens[words][i]);
    at = put_list(out, at, "tokenizer.ggml.token_type", 5, 6);
    for (uint64_t i = 0; i < 6; i++) at = put(out, at, i == 1 || (words && i < 3) ? 3 : llama && i == 0 ? 2
                       : llama && i == 5 ? 6 : 1, 4);
    at = put(out, put(out, put_text(out, at, "tokenizer.ggml.bos_token_id"), 4, 4), 1, 4);
    if (!llama) return put_text(out, put_list(out, at, "tokenizer.ggml.merges", 8, 1), "a b");
    at = put_list(out, at, "tokenizer.ggml.scores", 6, 6);
    for (uint64_t i = 0; i < 6; i++) at = put(out, at, i == 4 ? 0xBF800000 : 0, 4);
    if (!unigram) return at;
    at = put(out, put(out, put_text(out, at, "tokenizer.ggml.remove_extra_whitespaces"), 7, 4), 1, 1);
    at = put_list(out, at, "tokenizer.ggml.precompiled_charsmap", 0, 12);
    for (uint64_t i = 0; i < 12; i++) at = put(out, at, i == 0 ? 4 : i > 7 ? 0 : 0x40, 1);
    return at;
}

/* One tensor of each type behind an entry of each kind; an empty one, whose file ends with the header; tokenizers. */
static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const struct { uint32_t id; uint64_t n; size_t bytes;
    } types[] = {{0, 3, 12}, {1, 5, 10}, {30, 5, 10}, {8, 64, 68}, {2, 32, 18}, {12, 256, 144}, {14, 256, 210},
                 {0, 0, 0}};
    static const uint64_t sizes[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (i >= 12 || room < 4096) return 0;
    static const char *const tokenizers[] = {"gpt2", "llama", "bert", "t5"};
    if (i >= 8) return tokenizer_seed(tokenizers[i - 8], out);
    memset(out, 1, 4096);
    memcpy(out, "GGUF", 4);
    size_t at = put(out, 4, i % 2 ? 3 : 2, 4);
    at = put(out, at, 1, 8);
    at = put(out, at, 15, 8);
    at = put(out, put_text(out, at, "general.architecture"), 8, 4);
    at = put_text(out, at, i % 3 ? "llama" : "gpt2");
    for (uint64_t k = 0; k < 13; k++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", (int)k);
        at = put(out, put_text(out, at, key), k, 4);
        if (k == 8) at = put_text(out, at, "text \xff");
        else if (k == 9) at = put(out, put(out, put(out, at, 4, 4), 2, 8), 7, 8);
        else at = put(out, at, k == 7, sizes[k]);
    }
    at = put(out, put(out, put_text(out, at, "general.alignment"), 4, 4), 32, 4);
    at = put(out, put_text(out, at, "token_embd.weight"), 2, 4);
    at = put(out, put(out, at, types[i].n, 8), 2, 8);
    at = put(out, put(out, at, types[i].id, 4), 0, 8);
    return types[i].bytes ? (at + 31) / 32 * 32 + 2 * types[i].bytes : at;
}
