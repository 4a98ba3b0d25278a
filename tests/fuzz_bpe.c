/* fuzz_bpe.c - tokenizer.json, vocab.txt and SentencePiece's models: a damaged file is refused, and what another one
 * makes of a text can be decoded. */
#include "fuzz.h"

#include "folder.h"

static void use(cr_tokenizer *t, const uint8_t *text, size_t bytes) {
    static const cr_encoding all = {.all_special = true, .add_special = true};
    int64_t n;
    if (bytes > 2000) bytes = 2000;
    uint32_t *ids = cr_tokenizer_encode_special(t, (const char *)text, bytes, &all, &n);
    if (ids) {
        const int64_t length = cr_tokenizer_decode(t, ids, n, NULL, 0);
        if (length < 0) { printf("its own tokens are refused: %s\n", cr_error()); abort(); }
        cr_decoder *d = cr_decoder_new(t);
        int64_t streamed = 0;
        size_t some = 0;
        for (int64_t i = 0; d && i < n; i++) { cr_decoder_next(d, ids[i], &some); streamed += (int64_t)some; }
        if (d) cr_decoder_end(d, &some);
        if (d && streamed + (int64_t)some != length) {
            printf("a stream of %lld bytes, decoded %lld\n", (long long)streamed, (long long)length);
            abort();
        }
        cr_decoder_free(d);
    }
    fuzz_check(ids != NULL, "encode");
    cr_free(ids);
    cr_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[] = {"fuzz.json", "fuzz.model", "vocab.txt"};
    for (int i = 0; i < 3; i++) {
        const char *path = folder_path(names[i]);
        file_put(path, data, bytes);
        cr_tokenizer *t = cr_tokenizer_load(path);
        fuzz_check(t != NULL, names[i]);
        if (t) use(t, data, bytes);
    }
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const struct { const char *text; size_t bytes; } seeds[] = {
#define SEED(text) {text, sizeof text - 1}
        SEED("{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true,\"lstrip\":true}],"
             "\"pre_tokenizer\":{\"type\":"
             "\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
             "\"model\":{"
             "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3},\"merges\":[\"a b\"]}}"),
        SEED("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{"
             "\"type\":\"Lowercase\"},{\"type\":"
             "\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
             "\"},\"content\":\"_\"}]},"
             "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",1],\"cls\":[\"a\",0]},\"decoder\":{"
             "\"type\":"
             "\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
             "\"content\":\" \","
             "\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"byte_fallback\":true,"
             "\"vocab\":{"
             "\"a\":0,\"b\":1,\"<0x7B>\":2},\"merges\":[]}}"),
        SEED("{\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"decoder\":{\"type\":\"Metaspace\"},\"model\":{"
             "\"type\":\"Unigram\","
             "\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"\xe2\x96\x81\",-1.5],[\"ab\",-2]]}}"),
        SEED("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
             "\"behavior\":\"MergedWithNext\"},\"decoder\":{"
             "\"type\":\"WordPiece\",\"prefix\":\"##\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\","
             "\"continuing_subword_prefix\":\"##\",\"vocab\":{\"u\":0,\"a\":1,\"##b\":2}}}"),
        SEED("\x0a\x0c\x0a\x05<unk>\x15\0\0\0\0\x18\x02\x0a\x0a\x0a\x03\xe2\x96\x81\x15\0\0\x80\xbf\x0a\x08\x0a\x01"
             "a\x15\0\0\0\xc0"
             "\x12\x02\x18\x01\x1a\x04\x18\x01\x20\x00"),
        SEED("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n"),
#undef SEED
    };
    if (i >= (int)(sizeof seeds / sizeof *seeds) || seeds[i].bytes > room) return 0;
    memcpy(out, seeds[i].text, seeds[i].bytes);
    return seeds[i].bytes;
}
