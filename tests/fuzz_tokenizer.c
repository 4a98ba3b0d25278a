/* fuzz_tokenizer.c - tokenizers from files and from texts: what one makes of a text must come back as that text. */
#include "fuzz.h"

#include "folder.h"

static void round_trip(const cr_tokenizer *t, const uint8_t *text, size_t bytes) {
    const int64_t n = cr_tokenizer_encode(t, (const char *)text, bytes, NULL, 0);
    fuzz_check(n >= 0, "encode");
    if (n < 0) return;
    uint32_t *ids = malloc((size_t)n * sizeof *ids + 1);
    char *back = malloc(bytes + 1);
    if (!ids || !back) exit(9);
    const bool same = cr_tokenizer_encode(t, (const char *)text, bytes, ids, n) == n &&
                      cr_tokenizer_decode(t, ids, n, back, bytes) == (int64_t)bytes && !memcmp(back, text, bytes);
    if (!same) { printf("a text of %zu bytes did not come back from %lld tokens\n", bytes, (long long)n); abort(); }
    fuzz_check(true, "decode");
    free(ids);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static unsigned count;
    cr_tokenizer *byte = cr_tokenizer_bytes(), *of_text = cr_tokenizer_chars((const char *)data, bytes);
    fuzz_check(of_text != NULL, "chars");
    round_trip(byte, data, bytes);
    if (of_text) round_trip(of_text, data, bytes);
    file_put(folder_path("fuzz.json"), data, bytes);
    cr_tokenizer *loaded = cr_tokenizer_load(folder_path("fuzz.json"));
    fuzz_check(loaded != NULL, "load");
    if (loaded) round_trip(loaded, data, bytes);
    if (loaded && count++ % 64 == 0) {              /* waits for the disk */
        const int64_t size = cr_tokenizer_size(loaded);
        if (cr_tokenizer_save(loaded, folder_path("again.json"))) abort();
        cr_tokenizer_free(loaded);
        loaded = cr_tokenizer_load(folder_path("again.json"));
        if (!loaded || cr_tokenizer_size(loaded) != size) {
            printf("a saved tokenizer did not come back: %s\n", cr_error());
            abort();
        }
    }
    cr_tokenizer_free(loaded);
    cr_tokenizer_free(of_text);
    cr_tokenizer_free(byte);
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const char *const seeds[] = {("{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"chars\", "
                                        "\"characters\": \"\\n !\\\"\\\\abc\xc3\xa9\xe2\x88\x9a\xf0\x9f\x98\x80\"}\n"),
                                        "{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"bytes\"}",
                                        "First Citizen:\nBefore we proceed any further, hear me speak.",
                                        "\xc3\xa9t\xc3\xa9 \xe2\x88\x9a\xf0\x9f\x98\x80\xef\xbf\xbf"};
    if (i >= (int)(sizeof seeds / sizeof *seeds)) return 0;
    const size_t n = strlen(seeds[i]);
    if (n > room) return 0;
    memcpy(out, seeds[i], n);
    return n;
}
