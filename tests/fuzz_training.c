/* fuzz_training.c - state.json of a checkpoint: either everything is taken from it or nothing. */
#include "fuzz.h"

#include "folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint64_t seed, counter;
    cr_generator *g = cr_generator_new(1);
    cr_training t = {.generator = g, .step = -5};
    file_put(folder_path("state.json"), data, bytes);
    const char *dir = folder_path("");
    const bool good = cr_training_load(dir, &t) == CR_OK;
    fuzz_check(good, "training_load");
    cr_generator_get(g, &seed, &counter);
    if (good ? t.step < 0 : t.step != -5 || seed != 1 || counter != 0) {
        printf("%s, and step is %lld, seed %llu\n", good ? "accepted" : "refused", (long long)t.step,
               (unsigned long long)seed);
        abort();
    }
    cr_generator_free(g);
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const char *const seeds[] = {
        "{\"format\": \"chainrule-training\", \"version\": 1,\n \"step\": 2000,\n \"weights\": true,\n \"optimizer\": "
        "{\"steps\": 2000},\n"
        " \"generator\": {\"seed\": \"18446744073709551615\", \"counter\": \"42\"},\n \"loader\": {\"cursor\": 2000, "
        "\"batches\": 1000},\n \"metadata\": null}\n",
        "{\"format\": \"chainrule-training\", \"version\": 1, \"step\": 0, \"weights\": null, \"optimizer\": null,"
        " \"generator\": {\"seed\": \"0\", \"counter\": \"0\"}, \"loader\": null, \"metadata\": {\"a\": \"b\"}}"};
    if (i >= (int)(sizeof seeds / sizeof *seeds)) return 0;
    const size_t n = strlen(seeds[i]);
    if (n > room) return 0;
    memcpy(out, seeds[i], n);
    return n;
}
