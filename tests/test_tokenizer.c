/* test_tokenizer.c - learned vocabularies without a regular expression, which need no PCRE2: merges, fallbacks,
 * streams, several texts, and what is refused. */
#include "test.h"

#include "folder.h"

static cr_tokenizer *from_text(const char *text) {
    file_put(folder_path("tokenizer.json"), text, strlen(text));
    return cr_tokenizer_load(folder_path("tokenizer.json"));
}

static void check_ids(const cr_tokenizer *t, const char *text, const cr_encoding *o, int64_t n, const uint32_t *want) {
    int64_t got = -1;
    uint32_t *ids = cr_tokenizer_encode_special(t, text, strlen(text), o, &got);
    CHECK(ids && got == n, "'%s': %lld tokens, wanted %lld: %s", text, (long long)got, (long long)n,
          cr_error() ? cr_error() : "");
    for (int64_t i = 0; ids && i < n && i < got; i++)
        CHECK(ids[i] == want[i], "'%s': token %lld is %u, wanted %u", text, (long long)i, ids[i], want[i]);
    cr_free(ids);
}
#define IDS(...) (int64_t)(sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t)), (const uint32_t[]){__VA_ARGS__}

#define LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}," \
              "\"decoder\":{\"type\":\"ByteLevel\"},"

TEST(a_missing_pcre2_is_a_message) {                /* first: a library that was opened stays */
    OK(cr_switch_set("PCRE2", "/nowhere/libpcre2-8.so.0"));
    FAILS(CR_RUNTIME, "PCRE2 (/nowhere/libpcre2-8.so.0) cannot be opened",
          from_text("{\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
                    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}"));
    OK(cr_switch_set("PCRE2", NULL));
}

TEST(merges_by_rank) {
    /* "bc" comes before "ab", so a b c is a + bc; "\u00c3\u00a9" are the bytes of an e with an acute accent */
    cr_tokenizer *t = from_text(
        "{\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true}]," LEVEL
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abab\":5,\"\\u00c3\":6,"
        "\"\\u00a9\":7,\"\\u00c3\\u00a9\":8},\"merges\":[\"b c\",\"a b\",[\"ab\",\"ab\"],\"\\u00c3 \\u00a9\"]}}");
    const cr_encoding plain = {0}, all = {.all_special = true}, none = {.special = (uint32_t[]){3}, .n_special = 1};
    REQUIRE(t, "%s", cr_error());
    CHECK(cr_tokenizer_size(t) == 10, "%lld tokens", (long long)cr_tokenizer_size(t));
    check_ids(t, "abc", &plain, IDS(0, 4));
    check_ids(t, "ababab", &plain, IDS(5, 3));
    check_ids(t, "a\xc3\xa9", &plain, IDS(0, 8));
    check_ids(t, "a\xc3", &plain, IDS(0, 6));       /* cut in the middle of a character */
    check_ids(t, "a<s>b", &all, IDS(0, 9, 1));
    check_ids(t, "a<s>b", &none, IDS(3));           /* '<', 's' and '>' are not in this vocabulary */
    char text[200];
    for (int i = 0; i < 199; i++) text[i] = "ab"[i % 2];
    text[199] = 0;
    int64_t n = 0;
    uint32_t *ids = cr_tokenizer_encode_special(t, text, 199, &plain, &n);         /* by the heap */
    CHECK(n == 51 && ids[48] == 5 && ids[49] == 3 && ids[50] == 0, "%lld tokens", (long long)n);
    uint32_t few[3] = {77, 77, 77};
    CHECK(cr_tokenizer_encode(t, text, 199, few, 2) == 51 && few[1] == 5 && few[2] == 77, "a third id in room for two");
    cr_free(ids);
    size_t bytes;
    bool special = false;
    CHECK(cr_tokenizer_find(t, "<s>", 3) == 9 && cr_tokenizer_find(t, "zz", 2) == -1 && !cr_error(), "names");
    CHECK(!memcmp(cr_tokenizer_name(t, 9, &bytes, &special), "<s>", 3) && bytes == 3 && special, "name of 9");
    CHECK(!cr_tokenizer_name(t, 10, &bytes, NULL) && !cr_error(), "name of 10");
    FAILS(CR_BAD_INDEX, "token 10 at 1 is not below the vocabulary of 10",
          cr_tokenizer_decode(t, (uint32_t[]){0, 10}, 2, NULL, 0));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_encode_special(t, "a", 1, NULL, &n));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_encode_special(t, "a", 1, &plain, NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_find(NULL, "a", 1));
    cr_tokenizer_free(t);
}

TEST(a_stream_gives_whole_characters) {
    cr_tokenizer *t = from_text("{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u00c3\":0,\"\\u00a9\":1,\"a\":2},"
                                "\"merges\":[]}}");
    REQUIRE(t, "%s", cr_error());
    cr_decoder *d = cr_decoder_new(t);
    const struct { uint32_t id; const char *text; } steps[] = {
        {2, "a"}, {0, ""}, {1, "\xc3\xa9"}, {0, ""}, {0, "\xc3"}, {2, "\xc3""a"}, {1, "\xa9"}, {0, ""}};
    size_t n;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *text = cr_decoder_next(d, steps[i].id, &n);
        CHECK(text && n == strlen(steps[i].text) && !memcmp(text, steps[i].text, n), "step %zu gave %zu bytes", i, n);
    }
    const char *left = cr_decoder_end(d, &n);
    CHECK(n == 1 && *left == '\xc3', "%zu bytes are left", n);
    FAILS(CR_BAD_INDEX, "token 3 at 0 is not below", cr_decoder_next(d, 3, &n));
    FAILS(CR_BAD_VALUE, "NULL", cr_decoder_next(NULL, 3, &n));
    FAILS(CR_BAD_VALUE, "NULL", cr_decoder_new(NULL));
    cr_decoder_free(d);
    cr_tokenizer_free(t);
}

TEST(fallbacks_and_templates) {
    cr_tokenizer *t = from_text(
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}]},"
        "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"e\",4],\"cls\":[\"u\",0]},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\\u2581\"},"
        "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{"
        "\"u\":0,\"a\":1,"
        "\"\\u2581\":2,\"\\u2581a\":3,\"e\":4,\"<0xC3>\":5,\"<0xA9>\":6},\"merges\":[\"\\u2581 a\"]}}");
    REQUIRE(t, "%s", cr_error());
    const cr_encoding plain = {0}, around = {.add_special = true};
    check_ids(t, "A A", &plain, IDS(1, 3));
    check_ids(t, "ae\xcc\x81", &plain, IDS(1, 5, 6));           /* composed, then in bytes */
    check_ids(t, "azz a", &plain, IDS(1, 0, 3));    /* two unknown characters are one token */
    check_ids(t, "a", &around, IDS(0, 1, 4));
    char back[16];
    const int64_t n = cr_tokenizer_decode(t, (uint32_t[]){1, 3, 5, 6}, 4, back, sizeof back);
    CHECK(n == 5 && !memcmp(back, "a a\xc3\xa9", 5), "%lld bytes back", (long long)n);
    const char *texts[3] = {"a a", "", "azz"};
    const size_t bytes[3] = {3, 0, 3};
    uint32_t *ids[3];
    int64_t count[3];
    OK(cr_tokenizer_encode_batch(t, 3, texts, bytes, &plain, ids, count));
    CHECK(count[0] == 2 && count[1] == 0 && count[2] == 2, "%lld, %lld, %lld tokens", (long long)count[0],
          (long long)count[1], (long long)count[2]);
    for (int i = 0; i < 3; i++) cr_free(ids[i]);
    FAILS(CR_BAD_VALUE, "NULL", cr_tokenizer_encode_batch(t, 3, NULL, bytes, &plain, ids, count));
    cr_tokenizer_free(t);
    t = cr_tokenizer_chars("ab", 2);
    texts[1] = "x";
    FAILS(CR_BAD_VALUE, "U+0061 'a'", (cr_tokenizer_free(t), t = cr_tokenizer_chars("b", 1),
                                       cr_tokenizer_encode_batch(t, 3, texts, bytes, &plain, ids, count)));
    CHECK(!ids[0] && !ids[2], "ids after a failure");
    cr_tokenizer_free(t);
}

/* tiktoken's rule: bytes that are not UTF-8 make one piece with the last one, and with white space before that. */
TEST(invalid_bytes) {
    cr_tokenizer *t = from_text(
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"Split\",\"pattern\":{\"String\":\"\\n\"},\"behavior\":\"Isolated\",\"invert\":false},"
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"\u010a\":0,\"\u0120\":1,"
        "\"a\":2,\"\u010a\u0120\":3,\"\u00ff\":4,\"a\u010a\":5},"
        "\"merges\":[\"\u010a \u0120\",\"a \u010a\"]}}");
    REQUIRE(t, "%s", cr_error());
    const cr_encoding plain = {0};
    check_ids(t, "a\n a", &plain, IDS(2, 0, 1, 2));
    check_ids(t, "a\n \xff", &plain, IDS(2, 3, 4));
    check_ids(t, "a\na\xff", &plain, IDS(2, 0, 2, 4));
    cr_tokenizer_free(t);
}

static bool says(const cr_tokenizer *t, int64_t size, const char *part) {
    char *entries = cr_tokenizer_gguf(t, NULL, size);
    const bool found = entries && strstr(entries, part);
    CHECK(found, "no %s in %.300s", part, entries ? entries : cr_error());
    cr_free(entries);
    return found;
}

TEST(entries_of_a_gguf_file) {
    cr_tokenizer *t = cr_tokenizer_bytes();
    says(t, 256, "{\"tokenizer.ggml.model\": \"gpt2\", \"tokenizer.ggml.pre\": \"gpt-2\", ");
    says(t, 256, "\"tokenizer.ggml.merges\": [], \"tokenizer.ggml.tokens\": [\"\u0100\", ");
    says(t, 258, "\"[PAD256]\", \"[PAD257]\"]");
    says(t, 257, ", 1, 5], \"tokenizer.ggml.add_bos_token\": false");
    FAILS(CR_BAD_VALUE, "256 tokens, the model 255", cr_tokenizer_gguf(t, NULL, 255));
    FAILS(CR_BAD_VALUE, "the tokenizer", cr_tokenizer_gguf(NULL, NULL, 256));
    file_put(folder_path("config.json"), "{\"eos_token_id\": [7, 8]}", 24);
    char *entries = cr_tokenizer_gguf(t, folder_path("."), 256);
    CHECK(entries && strstr(entries, "\"tokenizer.ggml.eos_token_id\": 7,"), "no end of text");
    cr_free(entries);
    file_put(folder_path("config.json"), "{", 1);
    FAILS(CR_IO, "config.json", cr_tokenizer_gguf(t, folder_path("."), 256));
    (void)cr_os_remove(folder_path("config.json"));
    cr_tokenizer_free(t);
    t = from_text("{" LEVEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}");
    if (t) FAILS(CR_BAD_VALUE, "tokenizer.ggml.pre", cr_tokenizer_gguf(t, NULL, 3));
    cr_tokenizer_free(t);
}
