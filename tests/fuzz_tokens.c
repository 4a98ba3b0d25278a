/* fuzz_tokens.c - token files: opened, looked at, cut, loaded from and saved, whatever they hold. */
#include "fuzz.h"

#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static unsigned count;
    file_put(folder_path("fuzz.tokens"), data, bytes);
    cr_tokens *t = cr_tokens_open(folder_path("fuzz.tokens"));
    fuzz_check(t != NULL, "tokens");
    if (!t) return 0;
    const int64_t n = cr_tokens_count(t);
    for (int64_t i = -1; i <= n; i++) {
        const uint32_t id = cr_tokens_at(t, i);
        const bool good = i >= 0 && i < n && !cr_error();
        fuzz_check(good, "token");
        if (good && id >= cr_tokens_vocabulary(t)) {
            printf("token %u of %lld\n", id, (long long)cr_tokens_vocabulary(t));
            abort();
        }
    }
    cr_tokens *half = cr_tokens_slice(t, n / 2, n);
    fuzz_check(half != NULL, "slice");
    cr_tokens_free(t);
    /* waits for the disk */
    if (count++ % 64 == 0) fuzz_check(cr_tokens_save(half, folder_path("again.tokens")) == CR_OK, "save");
    cr_loader *l = count % 8
                       ? NULL
                       : cr_loader_new(half,
                                       &(cr_loader_options){
                                           .batch = 2, .context = 3, .seed = 1, .shuffle = n & 1, .device = cr_cpu()});
    if (count % 8 == 0) fuzz_check(l != NULL, "loader");       /* starts a thread */
    for (int i = 0; l && i < 3; i++) {
        cr_tensor *x, *y;
        fuzz_check(cr_loader_next(l, &x, &y) == CR_OK, "batch");
        cr_release(x);
        cr_release(y);
    }
    cr_loader_free(l);
    cr_tokens_free(half);
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const struct {
        uint8_t width;
        int vocabulary, count;
    } seeds[] = {{1, 65, 40}, {2, 50257 & 0xffff, 33}, {4, 300, 21}, {1, 256, 0}};
    if (i >= (int)(sizeof seeds / sizeof *seeds)) return 0;
    const size_t n = 32 + (size_t)seeds[i].width * (size_t)seeds[i].count;
    if (n > room) return 0;
    memset(out, 0, n);
    memcpy(out, "CRTOKENS\1", 9);
    out[12] = seeds[i].width;
    out[16] = (uint8_t)seeds[i].vocabulary; out[17] = (uint8_t)(seeds[i].vocabulary >> 8);
    out[24] = (uint8_t)seeds[i].count;
    for (int k = 0; k < seeds[i].count; k++) out[32 + k * seeds[i].width] = (uint8_t)(k * 7 % 60);
    return n;
}
