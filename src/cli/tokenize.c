/* tokenize.c - chainrule tokenize: text files to a token file, which chainrule train --tokens maps into memory. */
#include "cli.h"

#include <stdlib.h>

static bool tokenize(const corpus *c, const char *kind, const char *out, const char *beside) {
    cr_tokenizer *tokenizer = tokenizer_named(kind, c);
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
    option options[] = {
        {.name = "data", .files = &data, .what = "FILE...", .help = "text, one file after the other"},
        {.name = "out", .text = &out, .what = "FILE",
         .help = "the token file; the tokenizer goes to FILE.tokenizer.json"},
        {.name = "tokenizer", .text = &kind, .words = "chars|bytes", .help = "what a token is"},
    };
    const command c = {"tokenize",
                       "--data FILE... --out FILE [--tokenizer chars|bytes]",
                       "Turns text into a token file for chainrule train --tokens.",
                       options,
                       sizeof options / sizeof *options,
                       NULL};
    char beside[4096];
    corpus text = {0};
    int code;
    if (!options_parse(&c, argc, argv, &code)) goto done;
    if (!data.n || !out) code = usage_error(&c, "%s is needed", data.n ? "--out" : "--data");
    else if (snprintf(beside, sizeof beside, "%s.tokenizer.json", out) >= (int)sizeof beside)
        code = cli_fail("the path of --out is too long");
    else code = corpus_read(&data, &text) && tokenize(&text, kind, out, beside) ? CLI_OK : CLI_FAILED;
done:
    free(text.bytes);
    free(data.path);
    return code;
}
