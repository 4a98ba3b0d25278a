/* test_text.c - tokenizers, token files, and the loader: what it gives, in which order, and that a
 * seek gives the same again. */
#include "test.h"
#include "posix.h"


#include "folder.h"
#include "text/unicode.h"

/* ---- tokenizers */
static void check_round(const cr_tokenizer *t, const char *text, size_t bytes, int64_t want) {
    uint32_t ids[256];
    char back[256];
    const int64_t n = cr_tokenizer_encode(t, text, bytes, ids, 256);
    CHECK(n == want, "%lld tokens, wanted %lld: %s", (long long)n, (long long)want, cr_error() ? cr_error() : "");
    CHECK(n < 0 || cr_tokenizer_decode(t, ids, n, back, sizeof back) == (int64_t)bytes, "other length back");
    CHECK(n < 0 || !memcmp(back, text, bytes), "other text back");
}

TEST(tokenizer_bytes) {
    cr_tokenizer *t = cr_tokenizer_bytes();
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    CHECK(cr_tokenizer_size(t) == 256, "%lld", (long long)cr_tokenizer_size(t));
    check_round(t, all, sizeof all, 256);
    check_round(t, "", 0, 0);
    cr_tokenizer_free(t);
}

static const char text[] = "na\xc3\xafve \xe2\x88\x9a\x32 \xf0\x9f\x98\x80!\n";     /* "naïve √2 😀!\n" */

TEST(tokenizer_chars) {
    const size_t bytes = sizeof text - 1;
    cr_tokenizer *t = cr_tokenizer_chars(text, bytes);
    uint32_t ids[3];
    CHECK(cr_tokenizer_size(t) == 11, "%lld", (long long)cr_tokenizer_size(t));
    check_round(t, text, bytes, 12);
    CHECK(cr_tokenizer_encode(t, "\n !\xf0\x9f\x98\x80", 7, ids, 3) == 4 && ids[0] == 0 && ids[1] == 1 && ids[2] == 2,
          "not in code-point order: %u %u %u", ids[0], ids[1], ids[2]);
    CHECK(cr_tokenizer_encode(t, text, bytes, NULL, 0) == 12, "counting");
    uint32_t two[3] = {77, 77, 77};
    char little[4] = "....";
    CHECK(cr_tokenizer_encode(t, text, bytes, two, 2) == 12 && two[0] != 77 && two[1] != 77 && two[2] == 77,
          "a third id in room for two");
    CHECK(cr_tokenizer_decode(t, two, 2, little, 1) == 2 && little[0] == 'n' && little[1] == '.',
          "a second byte in room for one");
    FAILS(CR_BAD_VALUE, "U+0078 'x' at byte 4 is not among the 11", cr_tokenizer_encode(t, "nanax", 5, ids, 0));
    FAILS(CR_BAD_VALUE, "U+20AC", cr_tokenizer_encode(t, "\xe2\x82\xac", 3, NULL, 0));
    FAILS(CR_BAD_VALUE, "not UTF-8 at byte 2 of 3", cr_tokenizer_encode(t, "na\xff", 3, NULL, 0));
    FAILS(CR_BAD_INDEX, "token 11 at 1 is not below the vocabulary of 11",
          cr_tokenizer_decode(t, (uint32_t[]){0, 11}, 2, NULL, 0));
    const char *const bad[] = {
        "a\x80", "a\xc0\x80", "a\xed\xa0\x80", "a\xf4\x90\x80\x80", "a\xe2\x88", "a\xf8\x88\x80\x80\x80"};
    for (int i = 0; i < 6; i++) FAILS(CR_BAD_VALUE, "not UTF-8 at byte 1", cr_tokenizer_chars(bad[i], strlen(bad[i])));
    FAILS(CR_BAD_VALUE, "empty", cr_tokenizer_chars("", 0));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_chars(NULL, 3));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_encode(NULL, "a", 1, NULL, 0));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_encode(t, "a", 1, NULL, 5));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_decode(t, NULL, 2, NULL, 0));
    cr_tokenizer_free(t);
}

TEST(tokenizer_files) {
    const char *path = folder_path("tokenizer.json");
    cr_tokenizer *made[] = {cr_tokenizer_bytes(), cr_tokenizer_chars(text, sizeof text - 1),
                            cr_tokenizer_chars("\0\x01\"\\/\x7f", 6)};
    for (int i = 0; i < 3; i++) {
        OK(cr_tokenizer_save(made[i], path));
        cr_tokenizer *t = cr_tokenizer_load(path);
        REQUIRE(t, "%s", cr_error());
        CHECK(cr_tokenizer_size(t) == cr_tokenizer_size(made[i]), "size %lld", (long long)cr_tokenizer_size(t));
        for (uint32_t id = 0; id < (uint32_t)cr_tokenizer_size(t); id++) {
            char a[4], b[4];
            const int64_t n = cr_tokenizer_decode(t, &id, 1, a, 4);
            CHECK(n == cr_tokenizer_decode(made[i], &id, 1, b, 4) && !memcmp(a, b, (size_t)n), "token %u", id);
        }
        cr_tokenizer_free(t);
        cr_tokenizer_free(made[i]);
    }
    const struct { const char *json, *message;
    } bad[] = {{"", "at byte 0: expected a value"},
               {"[]", "is not a tokenizer"},
               {"{\"format\": \"other\"}", "is not a tokenizer"},
               {"{\"format\": \"chainrule-tokenizer\", \"kind\": \"bytes\"}", "\"version\" must be 1"},
               {"{\"format\": \"chainrule-tokenizer\", \"version\": 2, \"kind\": \"bytes\"}", "\"version\" must be 1"},
               {"{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"words\"}", "\"kind\" must be"},
               {"{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"chars\"}",
                "\"characters\" must be a string"},
               {"{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"chars\", \"characters\": \"ba\"}",
                "must ascend: U+0061 follows U+0062"},
               {"{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"chars\", \"characters\": \"aa\"}",
                "must ascend"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_put(path, bad[i].json, strlen(bad[i].json));
        FAILS(CR_IO, bad[i].message, cr_tokenizer_load(path));
    }
    FAILS(CR_IO, "No such file", cr_tokenizer_load("/nowhere/tokenizer.json"));
    FAILS(CR_IO, "has no tokenizer.json", cr_tokenizer_load("/"));
    cr_tokenizer *t = cr_tokenizer_bytes();
    FAILS(CR_IO, "cannot create '/nowhere/x'", cr_tokenizer_save(t, "/nowhere/x"));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_save(t, NULL));
    cr_tokenizer_free(t);
}

/* ---- tokens */
static cr_tokens *counting(int64_t n, int64_t vocabulary) {     /* 0, 1, 2 ... */
    uint32_t *ids = malloc((size_t)n * sizeof *ids + 1);
    if (!ids) exit(9);
    for (int64_t i = 0; i < n; i++) ids[i] = (uint32_t)(i % vocabulary);
    cr_tokens *t = cr_tokens_new(ids, n, vocabulary);
    free(ids);
    return t;
}

TEST(tokens_files) {
    const char *path = folder_path("a.tokens");
    const int64_t vocabularies[] = {1, 2, 256, 257, 65536, 65537, INT64_C(1) << 32};
    const size_t width[] = {1, 1, 1, 2, 2, 4, 4};
    for (int v = 0; v < 7; v++) {
        cr_tokens *made = counting(10007, vocabularies[v]);
        OK(cr_tokens_save(made, path));
        size_t bytes;
        free(file_get(path, &bytes));
        CHECK(bytes == 32 + 10007 * width[v], "vocabulary %lld: %zu bytes", (long long)vocabularies[v], bytes);
        cr_tokens *t = cr_tokens_open(path);
        REQUIRE(t, "%s", cr_error());
        CHECK(cr_tokens_count(t) == 10007 && cr_tokens_vocabulary(t) == vocabularies[v], "%lld of %lld",
              (long long)cr_tokens_count(t), (long long)cr_tokens_vocabulary(t));
        for (int64_t i = 0; i < 10007; i += 13)
            CHECK(cr_tokens_at(t, i) == (uint32_t)(i % vocabularies[v]), "token %lld is %u", (long long)i,
                  cr_tokens_at(t, i));
        cr_tokens *part = cr_tokens_slice(t, 5000, 10000), *deep = cr_tokens_slice(part, 1000, 1007);
        cr_tokens_free(t);                          /* slices keep the mapping */
        cr_tokens_free(part);
        CHECK(cr_tokens_count(deep) == 7 && cr_tokens_at(deep, 6) == (uint32_t)(6006 % vocabularies[v]), "slice: %u",
              cr_tokens_at(deep, 6));
        OK(cr_tokens_save(deep, path));             /* over the file it comes from */
        t = cr_tokens_open(path);
        CHECK(cr_tokens_count(t) == 7 && cr_tokens_at(t, 0) == (uint32_t)(6000 % vocabularies[v]), "saved slice: %u",
              cr_tokens_at(t, 0));
        cr_tokens_free(t);
        cr_tokens_free(deep);
        cr_tokens_free(made);
    }
}

static cr_loader *loader_of(const cr_tokens *t) {
    const cr_loader_options o = {.batch = 3, .context = 8, .seed = 5, .shuffle = true, .device = cr_cpu()};
    return cr_loader_new(t, &o);
}

/* Three files as one sequence: read, cut, saved and in batches as one file is. */
TEST(tokens_joined) {
    cr_tokens *whole = counting(1009, 5000);
    const int64_t at[] = {0, 100, 100, 107, 1009};          /* one is empty, one is shorter than a window */
    const cr_tokens *part[4];
    for (int i = 0; i < 4; i++) part[i] = cr_tokens_slice(whole, at[i], at[i + 1]);
    cr_tokens *t = cr_tokens_join(4, part), *cut = cr_tokens_slice(t, 95, 120), *deep = cr_tokens_slice(cut, 3, 20);
    REQUIRE(deep, "%s", cr_error());
    CHECK(cr_tokens_count(t) == 1009 && cr_tokens_vocabulary(t) == 5000 && cr_tokens_count(deep) == 17, "sizes");
    for (int64_t i = 0; i < 1009; i++) CHECK((int64_t)cr_tokens_at(t, i) == i, "token %lld", (long long)i);
    for (int64_t i = 0; i < 17; i++) CHECK((int64_t)cr_tokens_at(deep, i) == 98 + i, "cut %lld", (long long)i);
    FAILS(CR_BAD_INDEX, "index 1009 is not in [0, 1009)", cr_tokens_at(t, 1009) == UINT32_MAX ? NULL : t);
    cr_loader *a = loader_of(whole), *b = loader_of(t);
    for (int i = 0; i < 40 && a && b; i++) {
        cr_tensor *x[2], *y[2];
        cr_scope_begin();
        OK(cr_loader_next(a, &x[0], &y[0]));
        OK(cr_loader_next(b, &x[1], &y[1]));
        CHECK(!memcmp(cr_data(x[0]), cr_data(x[1]), 24 * 8), "inputs of batch %d", i);
        CHECK(!memcmp(cr_data(y[0]), cr_data(y[1]), 24 * 8), "targets of batch %d", i);
        cr_scope_end();
    }
    OK(cr_tokens_save(t, folder_path("joined.tokens")));
    cr_tokens *again = cr_tokens_open(folder_path("joined.tokens")), *other = counting(10, 10);
    CHECK(again && cr_tokens_at(again, 106) == 106 && cr_tokens_count(again) == 1009, "saved");
    const cr_tokens *two[] = {whole, other};
    FAILS(CR_BAD_VALUE, "sequence 1 has a vocabulary of 10, the first one of 5000", cr_tokens_join(2, two));
    FAILS(CR_BAD_VALUE, "[tokens_join] 0 sequences", cr_tokens_join(0, two));
    cr_loader_free(a);
    cr_loader_free(b);
    for (int i = 0; i < 4; i++) cr_tokens_free((cr_tokens *)(uintptr_t)part[i]);
    cr_tokens_free(whole);
    cr_tokens_free(t);
    cr_tokens_free(cut);
    cr_tokens_free(deep);
    cr_tokens_free(again);
    cr_tokens_free(other);
}

TEST(tokens_bad) {
    const char *path = folder_path("bad.tokens");
    cr_tokens *t = counting(20, 300);
    OK(cr_tokens_save(t, path));
    size_t bytes;
    char *good = file_get(path, &bytes);
    const struct { size_t at; char value; size_t bytes; const char *message;
    } bad[] = {{0, 'X', bytes, "is not a token file"},
               {8, 2, bytes, "has version 2, this library reads 1"},
               {12, 3, bytes, "says 3 bytes a token"},
               {12, 1, bytes, "says a vocabulary of 300, with 1 bytes a token"},
               {12, 4, bytes, "says 20 tokens of 4 bytes, it holds 40"},
               {18, 1, bytes, "says a vocabulary of 65836"},
               {17, 0, bytes, NULL},
               {24, 21, bytes, "says 21 tokens of 2 bytes, it holds 40"},
               {31, 127, bytes, "tokens of 2 bytes"},
               {0, 'C', bytes + 1, "it holds 41 bytes"},
               {0, 'C', bytes + 2, "says 20 tokens of 2 bytes, it holds 42"},
               {0, 'C', 31, "is not a token file"},
               {0, 'C', bytes - 1, "it holds 39 bytes"},
               {0, 'C', 0, "is not a token file"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *copy = calloc(bytes + 2, 1);          /* some have bytes after the last token */
        if (!copy) exit(9);
        memcpy(copy, good, bytes);
        copy[bad[i].at] = bad[i].value;
        file_put(path, copy, bad[i].bytes);
        free(copy);
        if (bad[i].message) { FAILS(CR_IO, bad[i].message, cr_tokens_open(path)); continue; }
        cr_tokens *damaged = cr_tokens_open(path), *one;        /* vocabulary 44: found when it is used */
        CHECK(damaged && cr_tokens_vocabulary(damaged) == 44, "%s", cr_error());
        CHECK(cr_tokens_at(damaged, 19) == 19, "%u", cr_tokens_at(damaged, 19));
        cr_tokens_free(damaged);
        copy = malloc(bytes);
        if (!copy) exit(9);
        memcpy(copy, good, bytes);
        copy[32 + 2 * 13] = (char)0xff; copy[32 + 2 * 13 + 1] = 1;      /* 511 of 300 */
        file_put(path, copy, bytes);
        free(copy);
        damaged = cr_tokens_open(path);
        FAILS(CR_BAD_VALUE, "token 511 at 13 is not below the vocabulary of 300", cr_tokens_at(damaged, 13));
        FAILS(CR_BAD_VALUE, "token 511 at 13", cr_tokens_save(damaged, folder_path("b.tokens")));
        CHECK(!cr_os_exists(folder_path("b.tokens")), "half a file stays");
        one = cr_tokens_slice(damaged, 10, 20);
        cr_loader *l = cr_loader_new(one, &(cr_loader_options){.batch = 1, .context = 3, .device = cr_cpu()});
        cr_tensor *x, *y;
        FAILS(CR_BAD_VALUE, "the token at 3 is not below the vocabulary of 300", cr_loader_next(l, &x, &y));
        FAILS(CR_BAD_VALUE, "the token at 3", cr_loader_next(l, &x, &y));
        CHECK(cr_loader_cursor(l) == 0, "the cursor moved on");
        cr_loader_free(l);
        cr_tokens *joined = cr_tokens_join(2, (const cr_tokens *[]){t, one});
        l = cr_loader_new(joined, &(cr_loader_options){.batch = 1, .context = 3, .device = cr_cpu()});
        OK(cr_loader_seek(l, 7));
        FAILS(CR_BAD_VALUE, "the token at 23 is not below the vocabulary of 300", cr_loader_next(l, &x, &y));
        cr_loader_free(l);
        cr_tokens_free(joined);
        cr_tokens_free(one);
        cr_tokens_free(damaged);
    }
    good[32 + 2 * 13] = 300 - 256;
    good[32 + 2 * 13 + 1] = 1;                      /* the vocabulary is 300: the first token that is too large */
    file_put(path, good, bytes);
    free(good);
    cr_tokens *first = cr_tokens_open(path);
    FAILS(CR_BAD_VALUE, "token 300 at 13 is not below", cr_tokens_at(first, 13));
    FAILS(CR_BAD_VALUE, "token 300 at 13 is not below", cr_tokens_save(first, folder_path("b.tokens")));
    cr_loader *refuses = cr_loader_new(first, &(cr_loader_options){.batch = 1, .context = 19, .device = cr_cpu()});
    FAILS(CR_BAD_VALUE, "the token at 13 is not below",
          cr_loader_next(refuses, &(cr_tensor *){NULL}, &(cr_tensor *){NULL}));
    cr_loader_free(refuses);
    cr_tokens_free(first);
    FAILS(CR_BAD_INDEX, "index 20 is not in [0, 20)", cr_tokens_at(t, 20));
    FAILS(CR_BAD_INDEX, "[5, 21) does not lie in [0, 20)", cr_tokens_slice(t, 5, 21));
    FAILS(CR_BAD_INDEX, "[5, 4)", cr_tokens_slice(t, 5, 4));
    FAILS(CR_BAD_VALUE, "token 7 at 1 is not below the vocabulary of 7", cr_tokens_new((uint32_t[]){6, 7}, 2, 7));
    FAILS(CR_BAD_VALUE, "between 1 and 2^32, not 0", cr_tokens_new(NULL, 0, 0));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokens_new(NULL, 1, 5));
    FAILS(CR_BAD_VALUE, "not -1", cr_tokens_new(NULL, -1, 5));
    FAILS(CR_IO, "No such file", cr_tokens_open("/nowhere/a.tokens"));
    FAILS(CR_IO, "cannot create", cr_tokens_save(t, "/nowhere/a.tokens"));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokens_open(NULL));
    cr_tokens_free(t);
}

/* ---- loader */
static cr_loader *loader(const cr_tokens *t, int64_t batch, int64_t context, uint64_t seed, bool shuffle) {
    return cr_loader_new(
        t,
        &(cr_loader_options){.batch = batch, .context = context, .seed = seed, .shuffle = shuffle, .device = cr_cpu()});
}

/* The first token of each window of the next batch; checks the windows, whose tokens count up. */
static bool next_starts(cr_loader *l, int64_t B, int64_t T, int64_t *starts) {
    cr_tensor *x = NULL, *y = NULL;
    OK(cr_loader_next(l, &x, &y));
    if (!x || !y) return false;
    CHECK(cr_ndim(x) == 2 && cr_size(x, 0) == B && cr_size(x, 1) == T && cr_dtype_of(x) == CR_I64 && cr_size(y, 1) == T,
          "shape (%lld, %lld)", (long long)cr_size(x, 0), (long long)cr_size(x, 1));
    int64_t *a = malloc((size_t)(2 * B * T) * sizeof *a), *b = a + B * T;
    if (!a) exit(9);
    OK(cr_read(x, CR_I64, a, (size_t)(B * T) * sizeof *a));
    OK(cr_read(y, CR_I64, b, (size_t)(B * T) * sizeof *b));
    for (int64_t i = 0; i < B; i++) {
        starts[i] = a[i * T];
        for (int64_t k = 0; k < T; k++)
            CHECK(a[i * T + k] == starts[i] + k && b[i * T + k] == starts[i] + k + 1, "window %lld at %lld",
                  (long long)i, (long long)k);
    }
    free(a);
    cr_release(x);
    cr_release(y);
    return true;
}

TEST(loader_covers_an_epoch) {
    const struct {
        int64_t n, batch, context;
    } cases[] = {{1000, 3, 7}, {101, 1, 100}, {150, 1, 100}, {12, 1, 1}, {5003, 11, 64}, {199, 1, 100}, {200, 1, 100}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            const int64_t n = cases[c].n, B = cases[c].batch, T = cases[c].context;
            cr_tokens *t = counting(n, n);
            cr_loader *l = loader(t, B, T, 42, shuffle);
            REQUIRE(l, "%s", cr_error());
            const int64_t batches = cr_loader_batches(l);
            const double least = shuffle ? (double)(n - 1 - 2 * T) / (double)T / (double)B - 1
                                         : (double)(n - 1) / (double)T / (double)B - 1;
            CHECK(batches >= 1 && (double)batches >= least && batches <= (n - 1) / T / B, "%lld batches of %lld tokens",
                  (long long)batches, (long long)n);
            for (int epoch = 0; epoch < 3; epoch++) {
                unsigned char *seen = calloc((size_t)n, 1);
                int64_t starts[16], offset = -1, ordered = 0, before = -1;
                if (!seen) exit(9);
                for (int64_t b = 0; b < batches; b++) {
                    if (!next_starts(l, B, T, starts)) break;
                    for (int64_t i = 0; i < B; i++) {
                        if (offset < 0) offset = starts[i] % T;
                        CHECK(starts[i] >= 0 && starts[i] + T < n && starts[i] % T == offset % T,
                              "start %lld, offset %lld", (long long)starts[i], (long long)offset);
                        CHECK(!seen[starts[i]]++, "case %zu: window %lld twice in epoch %d", c, (long long)starts[i],
                              epoch);
                        ordered += starts[i] == (before < 0 ? 0 : before + T);
                        before = starts[i];
                    }
                }
                CHECK(shuffle ? batches * B < 10 || ordered < batches * B : ordered == batches * B,
                      "%lld of %lld windows in order", (long long)ordered, (long long)(batches * B));
                free(seen);
            }
            CHECK(cr_loader_cursor(l) == 3 * batches, "cursor %lld", (long long)cr_loader_cursor(l));
            cr_loader_free(l);
            cr_tokens_free(t);
        }
}

TEST(loader_offsets_differ_and_windows_are_even) {  /* every offset occurs, and every window is as likely first as
                                                     * last */
    enum { T = 8, N = 1 + 8 * 20 + 3, EPOCHS = 400 };
    cr_tokens *t = counting(N, N);
    cr_loader *l = loader(t, 1, T, 7, true);
    int offsets[T] = {0};
    int64_t start, places[21] = {0};
    const int64_t batches = cr_loader_batches(l);
    REQUIRE(batches == 19, "%lld batches", (long long)batches);
    for (int e = 0; e < EPOCHS; e++) {
        OK(cr_loader_seek(l, e * batches));         /* the first window of each epoch */
        if (!next_starts(l, 1, T, &start)) return;
        offsets[start % T]++;
        places[start / T]++;
    }
    for (int e = 0; e < 40; e++) {                  /* and no epoch begins behind the first window */
        int64_t least = N;
        OK(cr_loader_seek(l, e * batches));
        for (int64_t b = 0; b < batches; b++) {
            if (!next_starts(l, 1, T, &start)) return;
            if (start < least) least = start;
        }
        CHECK(least < T, "epoch %d begins at token %lld", e, (long long)least);
    }
    for (int i = 0; i < T; i++)
        CHECK(offsets[i] > 20 && offsets[i] < 90, "offset %d in %d of %d epochs", i, offsets[i], EPOCHS);
    for (int i = 0; i < 19; i++)
        CHECK(places[i] > 3 && places[i] < 45, "window %d first in %lld of %d epochs", i, (long long)places[i], EPOCHS);
    cr_loader_free(l);
    cr_tokens_free(t);
}

TEST(loader_resumes) {
    cr_tokens *t = counting(3001, 3001);
    int64_t all[60][4], again[4];
    cr_loader *l = loader(t, 4, 37, 3, true), *other = loader(t, 4, 37, 3, true), *seeded = loader(t, 4, 37, 4, true);
    for (int i = 0; i < 60; i++) if (!next_starts(l, 4, 37, all[i])) return;
    const int order[] = {59, 0, 31, 30, 19, 20, 21, 5, 58};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        OK(cr_loader_seek(other, order[i]));
        if (!next_starts(other, 4, 37, again)) return;
        CHECK(!memcmp(again, all[order[i]], sizeof again), "batch %d after a seek differs", order[i]);
        CHECK(cr_loader_cursor(other) == order[i] + 1, "cursor %lld", (long long)cr_loader_cursor(other));
    }
    if (!next_starts(seeded, 4, 37, again)) return;
    CHECK(memcmp(again, all[0], sizeof again), "another seed, the same batch");
    FAILS(CR_BAD_INDEX, "at least 0, not -1", cr_loader_seek(l, -1));
    cr_loader_free(l); cr_loader_free(other); cr_loader_free(seeded);
    cr_tokens_free(t);
}

TEST(loader_lives) {                                /* freed at any moment; outlives the tokens it was made from;
                                                     * inside a scope */
    cr_tokens *t = counting(1000, 1000);
    for (int i = 0; i < 50; i++) {
        cr_loader *l = loader(t, 8, 16, (uint64_t)i, true);
        cr_tensor *x, *y;
        cr_scope_begin();
        for (int k = 0; k < i % 4; k++) OK(cr_loader_next(l, &x, &y));
        cr_scope_end();
        cr_loader_free(l);
    }
    cr_loader *l = loader(t, 8, 16, 1, false);
    cr_tokens_free(t);
    int64_t starts[8];
    if (!next_starts(l, 8, 16, starts)) return;
    CHECK(starts[7] == 7 * 16, "%lld", (long long)starts[7]);
    cr_loader_free(l);
}

TEST(loader_after_a_fork) {                         /* the child has no thread of its own, and gives the same batches */
    POSIX_ONLY("no fork");
    cr_tokens *t = counting(1000, 1000);
    cr_loader *l = loader(t, 2, 16, 9, true), *other = loader(t, 2, 16, 9, true);
    int64_t starts[2], want[2], after[2];
    int status = -1;
    for (int i = 0; i < 3; i++) if (!next_starts(l, 2, 16, starts)) return;
    OK(cr_loader_seek(other, 3));
    if (!next_starts(other, 2, 16, want) || !next_starts(other, 2, 16, after)) return;
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        alarm(60);                                  /* a child that waits for the thread of its parent waits for ever */
        const bool same = next_starts(l, 2, 16, starts) && !memcmp(starts, want, sizeof want) &&
                          next_starts(l, 2, 16, starts) && !memcmp(starts, after, sizeof after);
        cr_loader_free(l);
        _exit(same && !test_failures ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %d", status);
    if (!next_starts(l, 2, 16, starts)) return;
    CHECK(!memcmp(starts, want, sizeof want), "the parent goes on otherwise");
    cr_loader_free(l);
    cr_loader_free(other);
    cr_tokens_free(t);
}

TEST(loader_bad) {
    cr_tokens *t = counting(65, 65);
    const cr_loader_options good = {.batch = 1, .context = 64, .device = cr_cpu()};
    cr_loader_options o = good;
    cr_tensor *x, *y;
    o.context = 65;
    FAILS(CR_BAD_VALUE, "65 tokens are too few: a window of context 65 takes 66", cr_loader_new(t, &o));
    o.context = 16; o.batch = 5;
    FAILS(CR_BAD_VALUE, "65 tokens are too few: they give 4 windows of context 16, and a batch takes 5",
          cr_loader_new(t, &o));
    o.batch = 0;
    FAILS(CR_BAD_VALUE, "batch must be at least 1, not 0", cr_loader_new(t, &o));
    o = good; o.context = -3;
    FAILS(CR_BAD_VALUE, "context must be at least 1, not -3", cr_loader_new(t, &o));
    o.context = INT64_MAX; o.batch = 1;
    FAILS(CR_BAD_VALUE, "beyond memory", cr_loader_new(t, &o));
    o = good; o.device = NULL;
    FAILS(CR_BAD_VALUE, "NULL", cr_loader_new(t, &o));
    FAILS(CR_BAD_VALUE, "NULL", cr_loader_new(NULL, &good));
    FAILS(CR_BAD_VALUE, "NULL", cr_loader_new(t, NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_loader_next(NULL, &x, &y));
    cr_loader *l = cr_loader_new(t, &good);
    FAILS(CR_BAD_VALUE, "NULL", cr_loader_next(l, &x, NULL));
    OK(cr_loader_next(l, &x, &y));                  /* exactly one window fits */
    cr_release(x);
    cr_release(y);
    cr_loader_free(l);
    cr_tokens_free(t);
    o = cr_loader_defaults();
    CHECK(o.device == cr_default_device() && o.shuffle && o.batch > 0 && o.context > 0, "defaults");
}

/* The tables of Unicode, which are packed: values of the standard's own database. */
TEST(unicode) {
    static const struct { cr_form form; const char *in, *out; } forms[] = {
        {CR_NFC, "s\xcc\x87\xcc\xa3", "\xe1\xb9\xa9"},
        {CR_NFD, "\xe1\xb9\xa9", "s\xcc\xa3\xcc\x87"},
        {CR_NFD, "\xe1\xbe\x82", "\xce\xb1\xcc\x93\xcc\x80\xcd\x85"},          /* three levels */
        {CR_NFC, "\xf0\xaf\xa0\x80", "\xe4\xb8\xbd"},                               /* the last entries */
        {CR_NFC, "\xf0\x9d\x85\x9e", "\xf0\x9d\x85\x97\xf0\x9d\x85\xa5"},      /* never composed again */
        {CR_NFKC, "\xef\xac\x81\xe2\x84\xa6", "fi\xce\xa9"},
        {CR_NFC, "\xef\xac\x81", "\xef\xac\x81"},
        {CR_NFKC, "\xe3\x8e\x92", "MHz"},
        {CR_NFD, "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"},      /* Hangul */
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        cr_out o = {0};
        cr_unicode_normalize(forms[i].form, forms[i].in, strlen(forms[i].in), &o);
        CHECK(!o.failed && !strcmp(o.text, forms[i].out), "form %d of %s is %s", (int)forms[i].form, forms[i].in,
              o.text);
        cr_out_free(&o);
    }
    cr_out o = {0};
    const char upper[] = "A\xc4\xb0\xce\xa3\xe1\x82\xa0\xf0\x9e\xa4\xa1";
    cr_unicode_lower(upper, sizeof upper - 1, &o);
    CHECK(!strcmp(o.text, "ai\xcc\x87\xcf\x83\xe2\xb4\x80\xf0\x9e\xa5\x83"), "lower case: %s", o.text);
    cr_out_free(&o);
}
