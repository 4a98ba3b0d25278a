/* embed.c - chainrule embed: an embedding of each line of text, by an encoder or another language model. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../io/json.h"

typedef struct embedding {
    opened o;
    int64_t longest;                                /* of a text, in ids */
    uint32_t *ids; int64_t n, room;                 /* of the texts that run together */
    int64_t *length, texts, batch;
} embedding;

/* The texts so far, a line of JSON each. */
static bool write_texts(embedding *e) {
    if (!e->texts) return true;
    cr_scope_begin();
    const cr_tensor *y = cr_lm_embed(e->o.model, e->texts, e->length, e->ids);
    const int64_t C = y ? cr_size(y, 1) : 0;
    double *row = y ? malloc((size_t)(e->texts * C) * sizeof *row) : NULL;
    const bool ok = row && cr_read(y, CR_F64, row, (size_t)(e->texts * C) * sizeof *row) == CR_OK;
    for (int64_t i = 0; ok && i < e->texts * C; i++)
        printf("%s%.9g%s", i % C ? ", " : "[", row[i], i % C == C - 1 ? "]\n" : "");
    if (!ok) cli_fail_library();
    free(row);
    cr_scope_end();
    e->n = e->texts = 0;
    return ok && !ferror(stdout) && !cr_os_interrupted();
}

/* One more text, cut as sentence-transformers does. */
static bool add_text(embedding *e, const char *text, size_t bytes) {
    int64_t n = 0;
    uint32_t *ids = cr_tokenizer_encode_special(
        e->o.tokenizer, text, bytes,
        &(cr_encoding){.all_special = true, .add_special = true, .max_length = e->longest}, &n);
    if (!ids) return cli_fail_library(), false;
    bool ok = n > 0 && cr_grow(&e->ids, e->n + n, &e->room, sizeof *e->ids);
    if (!n) cli_fail("an empty text has no embedding: the tokenizer adds no tokens to a text");
    else if (!ok) cli_fail("no memory for %lld tokens", (long long)(e->n + n));
    else memcpy(e->ids + e->n, ids, (size_t)n * sizeof *ids);
    cr_free(ids);
    e->n += n;
    e->length[e->texts++] = n;
    return ok && (e->texts < e->batch || write_texts(e));
}

static bool add_lines(embedding *e, const corpus *c) {
    bool ok = true;
    for (size_t at = 0; at < c->n && ok;) {
        const char *end = memchr(c->bytes + at, '\n', c->n - at);
        const size_t n = end ? (size_t)(end - c->bytes) - at : c->n - at;
        ok = add_text(e, c->bytes + at, n && c->bytes[at + n - 1] == '\r' ? n - 1 : n);
        at += n + 1;
    }
    return ok && write_texts(e);
}

static bool embed(embedding *e, const char *model, const char *device, const char *text, const corpus *c) {
    if (!open_model(model, device, &e->o)) return false;
    const char *rules = cr_lm_pooling(e->o.model, &e->longest);
    fprintf(stderr, "pooled by %s, of at most %lld tokens\n", rules, (long long)e->longest);
    e->length = calloc((size_t)e->batch, sizeof *e->length);
    if (!e->length) return cli_fail("no memory for %lld texts", (long long)e->batch), false;
    return text ? add_text(e, text, strlen(text)) && write_texts(e) : add_lines(e, c);
}

int cli_embed(int argc, char **argv) {
    file_list data = {0};
    const char *model = NULL, *text = NULL, *device = NULL;
    int64_t threads = 0;
    embedding e = {.batch = 16};
    option options[] = {
        {.name = "model", .text = &model, .what = "DIR", .help = "the model: a Hugging Face folder, or a GGUF file"},
        {.name = "text", .text = &text, .what = "TEXT", .help = "the text; else lines of --data or standard input"},
        {.name = "data", .files = &data, .what = "FILE...", .help = "files with a text in each line"},
        {.name = "batch", .integer = &e.batch, .min = 1, .max = 4096, .help = "texts that run together"},
        option_device(&device),
        option_threads(&threads),
    };
    const command c = {"embed", "--model DIR [--text TEXT | --data FILE...]",
                       "Writes an embedding of each line of text: a JSON array in a line, pooled and normalized as the "
                       "model's folder says, else the mean of its tokens.  Longer texts are cut.",
                       options, sizeof options / sizeof *options, NULL, NULL,
                       "embed --model bge-small-en-v1.5 --text \"The sea\"\n"
                       "embed --model all-MiniLM-L6-v2 --data lines.txt > embeddings.jsonl\n"};
    corpus lines = {0};
    int code;
    if (!options_parse(&c, argc, argv, &code)) goto done;
    code = CLI_FAILED;
    if (!model) code = usage_error(&c, "--model is needed: a folder or a GGUF file");
    else if (text && data.n) code = usage_error(&c, "--text and --data exclude each other");
    else if (threads && cr_set_num_threads((int)threads)) cli_fail_library();
    else if (text || (data.n ? corpus_read(&data, &lines) : corpus_input(&lines))) {
        cr_os_catch_interrupt();
        if (embed(&e, model, device, text, &lines)) code = CLI_OK;
        if (cr_os_interrupted()) code = CLI_STOPPED;
    }
done:
    close_model(&e.o);
    free(e.ids);
    free(e.length);
    free(lines.bytes);
    free(data.path);
    return code;
}
