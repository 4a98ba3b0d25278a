/* fuzz.h - one harness for every parser.  A program defines LLVMFuzzerTestOneInput, which libFuzzer
 * calls when it is built so:
 *   clang -DCR_LIBFUZZER -fsanitize=fuzzer,address,undefined ...
 * Built as an ordinary program it reads the inputs in tests/corpus, which libFuzzer has found, and then
 * changes a few good inputs (fuzz_seed) at random:
 *   fuzz_json                       5,000 inputs from seed 1; with CHAINRULE_TEST_FULL=1 100,000 from a fresh seed
 *   fuzz_json FILE...               those files
 *   fuzz_json --pack FILE...        writes them to tests/corpus/json: the length of each (8 digits of base 16), then it
 * CHAINRULE_TEST_SEED=n repeats the inputs of a run, CHAINRULE_FUZZ_RUNS=n sets their number; the seed is
 * printed first.  Each input lies in memory of exactly its size, so that the address sanitizer sees every
 * byte read too far. */
#ifndef CR_FUZZ_H
#define CR_FUZZ_H

#include <chainrule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
/* Good input number i: fills out (at most room bytes) and returns its length, or 0 behind the last. */
__attribute__((unused)) static size_t fuzz_seed(int i, uint8_t *out, size_t room);

/* The error that a refused input left must be a message of its own; a good input must leave none. */
static void fuzz_check(bool good, const char *what) {
    if (good == (cr_error() == NULL) && (good || strlen(cr_error()) > 8)) { cr_error_clear(); return; }
    printf("%s: %s, and the error is '%s'\n", what, good ? "accepted" : "refused", cr_error() ? cr_error() : "(none)");
    abort();
}

#ifndef CR_LIBFUZZER
static uint64_t fuzz_state;
static uint32_t fuzz_next(uint32_t below) {         /* splitmix64 */
    uint64_t x = fuzz_state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ x >> 31) >> 33) % below;
}

enum { FUZZ_ROOM = 1 << 14 };

/* One change; the new length. */
static size_t fuzz_change(uint8_t *b, size_t n) {
    static const char *const bits[] = {"-1",
                                       "0",
                                       "9223372036854775807",
                                       "18446744073709551616",
                                       "1e999",
                                       "\"",
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       ":",
                                       "null",
                                       "\\u0000",
                                       "\\ud800",
                                       "\xff",
                                       "\xf0\x9f\x98\x80",
                                       "4294967296",
                                       ".5",
                                       "\\"};
    static const uint8_t bytes[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '9'};
    const size_t at = n ? fuzz_next((uint32_t)n) : 0, left = n - at;
    switch (fuzz_next(8)) {
    case 0: if (n) b[at] ^= (uint8_t)(1u << fuzz_next(8)); return n;
    case 1: if (n) b[at] = (uint8_t)fuzz_next(256); return n;
    case 2: if (n) b[at] = bytes[fuzz_next(sizeof bytes)]; return n;
    case 3: return at;                              /* cut short */
    case 4: {                                       /* a piece is missing */
        const size_t gone = left ? 1 + fuzz_next((uint32_t)(left < 16 ? left : 16)) : 0;
        memmove(b + at, b + at + gone, left - gone);
        return n - gone;
    }
    case 5: {                                       /* a piece comes twice */
        const size_t more = left < 32 ? left : 32;
        if (n + more > FUZZ_ROOM) return n;
        memmove(b + at + more, b + at, left);
        return n + more;
    }
    default: {                                      /* a word of the formats is inserted or written over */
        const char *word = bits[fuzz_next(sizeof bits / sizeof *bits)];
        const size_t more = strlen(word);
        if (n + more > FUZZ_ROOM) return n;
        if (fuzz_next(2)) { memmove(b + at + more, b + at, left); n += more; }
        else if (at + more > n) n = at + more;
        memcpy(b + at, word, more);
        return n;
    }
    }
}

static void fuzz_run(const uint8_t *data, size_t bytes) {
    uint8_t *exact = malloc(bytes ? bytes : 1);
    if (!exact) exit(9);
    memcpy(exact, data, bytes);
    LLVMFuzzerTestOneInput(bytes ? exact : exact + 1, bytes);
    free(exact);
}

/* Calls fn with the bytes of each file; 0, or 1 where one cannot be read. */
static int fuzz_files(int n, char **paths, void (*fn)(const uint8_t *data, size_t bytes)) {
    for (int i = 0; i < n; i++) {
        static uint8_t data[1 << 20];
        FILE *f = fopen(paths[i], "rb");
        if (!f) { printf("cannot read %s\n", paths[i]); return 1; }
        fn(data, fread(data, 1, sizeof data, f));
        fclose(f);
    }
    return 0;
}

static FILE *fuzz_corpus(const char *program, const char *mode) {
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    char path[300];
    snprintf(path, sizeof path, "tests/corpus/%s", name + strlen("fuzz_"));
    return fopen(path, mode);
}

static FILE *fuzz_packed;
static void fuzz_pack(const uint8_t *data, size_t bytes) {
    fprintf(fuzz_packed, "%08x", (unsigned)bytes);
    fwrite(data, 1, bytes, fuzz_packed);
}

/* How many inputs the corpus has; -1: it is not there, or damaged. */
static int fuzz_unpack(const char *program) {
    static uint8_t data[1 << 20];
    FILE *f = fuzz_corpus(program, "rb");
    unsigned bytes;
    int n = 0;
    for (char length[9] = ""; f && fread(length, 1, 8, f) == 8; n++) {
        if (sscanf(length, "%8x", &bytes) != 1 || bytes > sizeof data || fread(data, 1, bytes, f) != bytes) n = -2;
        if (n < 0) break;
        fuzz_run(data, bytes);
    }
    if (f) fclose(f);
    return f && n >= 0 ? n : -1;
}

static uint64_t fuzz_start(bool fresh) {
    const char *asked = getenv("CHAINRULE_TEST_SEED");
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return asked ? strtoull(asked, NULL, 0) : fresh ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec : 1;
}

#ifndef FUZZ_MAIN
#define FUZZ_MAIN main
#endif
int FUZZ_MAIN(int argc, char **argv) {
    static uint8_t input[FUZZ_ROOM];
    setvbuf(stdout, NULL, _IONBF, 0);               /* what is printed before a crash arrives */
    if (argc > 2 && !strcmp(argv[1], "--pack")) {
        if (!(fuzz_packed = fuzz_corpus(argv[0], "wb")) || fuzz_files(argc - 2, argv + 2, fuzz_pack)) return 1;
        return fclose(fuzz_packed) != 0;
    }
    if (argc > 1) {
        const int failed = fuzz_files(argc - 1, argv + 1, fuzz_run);
        if (!failed) printf("result: %d passed, 0 failed, 0 skipped\n", argc - 1);
        return failed;
    }
    const char *asked = getenv("CHAINRULE_FUZZ_RUNS"), *full = getenv("CHAINRULE_TEST_FULL");
    const bool whole = full && *full != '0';
    const long runs = asked ? atol(asked) : whole ? 100000 : 5000;
    fuzz_state = fuzz_start(whole);
    printf("%s: CHAINRULE_TEST_SEED=%llu repeats its inputs\n", argv[0], (unsigned long long)fuzz_state);
    if (fuzz_unpack(argv[0]) < 1) { printf("tests/corpus has no inputs for %s\n", argv[0]); return 1; }
    int seeds = 0;
    while (fuzz_seed(seeds, input, FUZZ_ROOM)) fuzz_run(input, fuzz_seed(seeds, input, FUZZ_ROOM)), seeds++;
    for (long run = 0; run < runs; run++) {
        size_t n = fuzz_seed((int)fuzz_next((uint32_t)seeds), input, FUZZ_ROOM);
        for (uint32_t changes = 1 + fuzz_next(6); changes; changes--) n = fuzz_change(input, n);
        fuzz_run(input, n);
    }
    printf("result: 1 passed, 0 failed, 0 skipped\n");
    return 0;
}
#endif
#endif
