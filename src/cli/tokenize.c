/* tokenize.c - chainrule tokenize: text files to a token file, which chainrule train --tokens maps into memory. */
#include "cli.h"

#include <stdlib.h>

static bool tokenize(const corpus *c, const char *kind, int64_t bpe, const char *out, const char *beside) {
    const cr_bpe_training training = {.vocabulary = bpe, .min_frequency = 2,
                                      .special = (const char *[]){"<|endoftext|>"},
                                      .n_special = 1};
    cr_tokenizer *tokenizer = bpe ? cr_tokenizer_train_bpe(c->bytes, c->n, &training) : tokenizer_named(kind, c);
    cr_tokens *tokens = tokenizer ? corpus_tokens(c, tokenizer) : NULL;
    bool ok = tokens && cr_tokens_save(tokens, out) == CR_OK && cr_tokenizer_save(tokenizer, beside) == CR_OK;
    if (ok)
        printf("%s: %lld tokens from %zu bytes, vocabulary %lld; tokenizer in %s\n", out,
               (long long)cr_tokens_count(tokens), c->n, (long long)cr_tokens_vocabulary(tokens), beside);
    else cli_fail_library();
    cr_tokens_free(tokens);
    cr_tokenizer_free(tokenizer);
    return ok;
}

int cli_tokenize(int argc, char **argv) {
    file_list data = {0};
    const char *out = NULL, *kind = "chars";
    int64_t bpe = 0, threads = 0;
    option options[] = {
        {.name = "data", .files = &data, .what = "FILE...", .help = "text files, in this order"},
        {.name = "out", .text = &out, .what = "FILE",
         .help = "the token file; the tokenizer goes to FILE.tokenizer.json"},
        {.name = "tokenizer", .text = &kind, .what = "chars|bytes|PATH",
         .help = "what a token is; PATH: a tokenizer.json, a GGUF file, or a folder with GPT-2's or SentencePiece's "
                 "files"},
        {.name = "train-bpe", .integer = &bpe,
         .help = "learn a byte-level BPE of N tokens from the text: <|endoftext|>, 256 bytes, merges", .max = 1 << 24},
        option_threads(&threads),
    };
    const command c = {"tokenize",
                       "--data FILE... --out FILE [--tokenizer chars|bytes|PATH | --train-bpe N]",
                       "Turns text into a token file for chainrule train --tokens.",
                       options,
                       sizeof options / sizeof *options,
                       NULL, NULL,
                       "tokenize --data book.txt --train-bpe 4096 --out book.bin\n"
                       "tokenize --data *.txt --tokenizer gpt2 --out all.bin\n"};
    char beside[4096];
    corpus text = {0};
    int code;
    if (!options_parse(&c, argc, argv, &code)) goto done;
    if (!data.n || !out) code = usage_error(&c, "%s is needed", data.n ? "--out" : "--data");
    else if (!bpe && !is_tokenizer(kind))
        code = usage_error(&c, "--tokenizer is one of chars|bytes or the path of a tokenizer, not '%s'", kind);
    else if (bpe && option_find(&c, "tokenizer")->given)
        code = usage_error(&c, "--tokenizer and --train-bpe exclude each other");
    else if (threads && cr_set_num_threads((int)threads)) code = cli_fail_library();
    else if (snprintf(beside, sizeof beside, "%s.tokenizer.json", out) >= (int)sizeof beside)
        code = cli_fail("the path of --out is too long");
    else if (!corpus_read(&data, &text) || !corpus_fits(&text, bpe ? "" : kind)) code = CLI_FAILED;
    else code = tokenize(&text, kind, bpe, out, beside) ? CLI_OK : CLI_FAILED;
done:
    free(text.bytes);
    free(data.path);
    return code;
}
