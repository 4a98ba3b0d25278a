/* chat.c - chainrule chat: a conversation with a pretrained model, in a terminal or over a pipe. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../io/json.h"

enum { MAX_ENDS = 32 };
typedef struct chat {
    generation g;
    const char *system, *format;
    cr_cache *cache;                                /* of the whole conversation */
    uint32_t ends[MAX_ENDS]; int64_t n_ends;        /* tokens that end an answer */
    cr_message *messages; int64_t n, room;          /* contents: owned */
} chat;

/* ---- what ends an answer: the template's token, and "eos_token_id" */
static void add_end(chat *c, int64_t id) {
    if (id < 0 || id >= cr_lm_vocabulary(c->g.main.model) || c->n_ends == MAX_ENDS) return;
    c->ends[c->n_ends++] = (uint32_t)id;
}

static void ends_in(chat *c, const char *path, const void *text, size_t bytes) {
    cr_json *root = cr_json_parse("chat", path, text, bytes);
    const cr_json *v = root ? cr_json_get(root, "eos_token_id") : NULL;
    if (v && v->kind == CR_JSON_NUMBER && v->integral) add_end(c, v->integer);
    for (const cr_json *e = v && v->kind == CR_JSON_ARRAY ? v->first : NULL; e; e = e->next)
        if (e->kind == CR_JSON_NUMBER && e->integral) add_end(c, e->integer);
    cr_json_free(root);
}

static bool find_ends(chat *c) {
    char path[4200];
    cr_mapping m;
    const char *end = cr_chat_end(c->format), *config = cr_lm_config(c->g.main.model);
    if (!end) return cli_fail_library(), false;
    add_end(c, cr_tokenizer_find(c->g.main.tokenizer, end, strlen(end)));
    ends_in(c, "config.json", config, strlen(config));
    snprintf(path, sizeof path, "%s/generation_config.json", c->g.main.home);
    if (cr_os_exists(path) && cr_os_map(path, &m)) {
        ends_in(c, path, m.data, m.bytes);
        cr_os_unmap(&m);
    }
    return !cr_error() || (cli_fail_library(), false);
}

/* ---- the conversation */
static bool add_message(chat *c, const char *role, const char *content, size_t bytes) {
    if (!cr_grow(&c->messages, c->n + 1, &c->room, sizeof *c->messages)) return false;
    char *copy = malloc(bytes + 1);
    if (!copy) return false;
    size_t kept = 0;
    for (size_t i = 0; i < bytes; i++) if (content[i]) copy[kept++] = content[i];
    copy[kept] = 0;
    c->messages[c->n++] = (cr_message){role, copy};
    return true;
}

/* Removes n messages from the i-th on. */
static void forget(chat *c, int64_t i, int64_t n) {
    for (int64_t k = i; k < i + n; k++) free((char *)(uintptr_t)c->messages[k].content);
    memmove(c->messages + i, c->messages + i + n, (size_t)(c->n - i - n) * sizeof *c->messages);
    c->n -= n;
}

static uint32_t *conversation(const chat *c, int64_t *n) {
    char *text = cr_chat_text(c->format, c->n, c->messages, true);
    uint32_t *ids = NULL;
    if (text)
        ids = cr_tokenizer_encode_special(c->g.main.tokenizer, text, strlen(text), &(cr_encoding){.all_special = true},
                                          n);
    cr_free(text);
    return ids;
}

/* The conversation with room for an answer: its oldest turns go first.  NULL: the question is too long, or a message
 * is pending. */
static uint32_t *fitted(chat *c, int64_t *n) {
    const int64_t context = cr_lm_context(c->g.main.model), first = c->system != NULL,
                  wanted = c->g.o.tokens < context / 4 ? c->g.o.tokens : context / 4;
    for (int64_t dropped = 0;;) {
        uint32_t *ids = conversation(c, n);
        const bool fits = ids && *n + wanted <= context;
        if (dropped && (fits || !ids || c->n <= first + 2))
            fprintf(stderr, "(the context of %lld tokens is full: %lld messages are forgotten)\n", (long long)context,
                    (long long)dropped);
        if (!ids || fits || (c->n <= first + 2 && *n < context)) return ids;
        cr_free(ids);
        if (c->n <= first + 2) {
            fprintf(stderr, "chainrule: the message has %lld tokens with its template, the context %lld\n",
                    (long long)*n, (long long)context);
            return NULL;
        }
        forget(c, first, 2);
        dropped += 2;
    }
}

static int answer(chat *c) {
    int64_t n;
    uint32_t *ids = fitted(c, &n);
    if (!ids) {
        forget(c, c->n - 1, 1);
        return cr_error() ? cli_fail_library() : CLI_OK;
    }
    const int64_t left = cr_lm_context(c->g.main.model) - n;
    cr_generate_options o = c->g.o;
    if (o.tokens > left) o.tokens = left;
    o.stop = c->ends;
    o.n_stop = c->n_ends;
    writer w = {.decoder = cr_decoder_new(c->g.main.tokenizer), .silent = c->ends, .n_silent = c->n_ends};
    const cr_prompt p = {.ids = ids, .n = n, .generator = c->g.generator, .cache = c->cache};
    cr_status status = w.decoder ? cr_lm_generate_batch(c->g.main.model, 1, &p, &o, write_row, &w) : cr_error_status();
    if (w.decoder) write_end(&w);
    printf("\n");
    fflush(stdout);
    const bool kept = status == CR_OK && add_message(c, "assistant", w.made.text ? w.made.text : "", w.made.bytes);
    cr_decoder_free(w.decoder);
    cr_free(ids);
    cr_out_free(&w.made);
    if (status != CR_OK) return cli_fail_library();
    if (!cr_os_forget_ctrl_c()) return CLI_STOPPED;
    return kept ? CLI_OK : cli_fail("no memory for the conversation");
}

/* A line of any length without its end, owned; NULL: the end of the input. */
static char *read_line(void) {
    cr_out line = {0};
    int c;
    while ((c = getchar()) != EOF && c != '\n') if (c) cr_out_put(&line, &(char){(char)c}, 1);
    if (!line.text && c == EOF) return NULL;
    cr_out_put(&line, "", 0);
    while (line.bytes && line.text[line.bytes - 1] == '\r') line.text[--line.bytes] = 0;
    return line.text;
}

static int talk(chat *c) {
    const bool terminal = cr_os_is_terminal(stdin) && cr_os_is_terminal(stdout);
    if (terminal) printf("/reset forgets the conversation, /exit ends it, Ctrl-C stops an answer.\n");
    int code = CLI_OK;
    while (code == CLI_OK) {
        if (terminal) printf("> ");
        fflush(stdout);
        char *line = read_line();
        if (!line || !strcmp(line, "/exit") || !cr_os_forget_ctrl_c()) {
            free(line);
            break;
        }
        const int64_t first = c->system != NULL;
        if (!strcmp(line, "/reset")) forget(c, first, c->n - first);
        else if (line[0] == '/') fprintf(stderr, "chainrule: there is no %.40s, only /reset and /exit\n", line);
        else if (line[strspn(line, " \t")])
            code = add_message(c, "user", line, strlen(line)) ? answer(c) : cli_fail("no memory for the conversation");
        free(line);
    }
    return code;
}

static int chat_with(chat *c) {
    if (!generation_open(&c->g)) return CLI_FAILED;
    if (!c->format) c->format = cr_chat_format(c->g.main.home, c->g.main.tokenizer);
    if (!c->format && cr_error()) return cli_fail_library();
    if (!c->format)
        return cli_fail("'%s' does not say how it was trained to talk: --template chatml, llama2, llama3 or mistral",
                        c->g.model);
    if (!find_ends(c)) return CLI_FAILED;
    c->cache = cr_cache_new(c->g.main.model, c->g.o.cache);
    if (!c->cache || (c->system && !add_message(c, "system", c->system, strlen(c->system)))) return cli_fail_library();
    return talk(c);
}

int cli_chat(int argc, char **argv) {
    chat c = {.g = {.s = {.temperature = 0.8, .top_p = 0.95, .repetition_penalty = 1}, .o = {.tokens = 512},
                    .seed = 1337}};
    option options[GENERATION_OPTIONS + 2];
    int n = generation_options(&c.g, options);
    options[n++] = (option){
        .name = "system", .text = &c.system, .what = "TEXT", .help = "how to answer: a first message"};
    options[n++] = (option){.name = "template", .text = &c.format, .words = "chatml|llama2|llama3|mistral",
                            .help = "the form of the conversation; the model's folder says it when absent"};
    const command about = {"chat",  "--model DIR [options]", "Talks with a model that was trained to.",
                           options, n,                       NULL, NULL,
                           "chat --model SmolLM2-135M-Instruct\n"
                           "chat --model chat.gguf --system \"You answer in one sentence.\"\n"};
    int code;
    if (!options_parse(&about, argc, argv, &code)) return code;
    if (!c.g.model) return usage_error(&about, "--model is needed: the folder of a pretrained model");
    cr_os_catch_interrupt();
    code = chat_with(&c);
    if (c.n) forget(&c, 0, c.n);
    free(c.messages);
    cr_cache_free(c.cache);
    generation_close(&c.g);
    return code;
}
