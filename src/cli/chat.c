/* chat.c - chainrule chat: a conversation with a pretrained model, in a terminal or over a pipe. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../core/utf8.h"
#include "../io/json.h"

typedef struct turn { const char *role; char *content; } turn;
typedef struct chat {
    generation g;
    const char *system, *form;
    cr_cache *cache;                                /* of the whole conversation */
    turn *turns; int64_t n, room;                   /* contents: owned */
} chat;

/* ---- the conversation */
static bool add_message(chat *c, const char *role, const char *content, size_t bytes) {
    if (!cr_grow(&c->turns, c->n + 1, &c->room, sizeof *c->turns)) return false;
    char *copy = malloc(bytes + 1);
    if (!copy) return false;
    if (bytes) memcpy(copy, content, bytes);
    copy[bytes] = 0;
    c->turns[c->n++] = (turn){role, copy};
    return true;
}

/* Removes n messages from the i-th on. */
static void forget(chat *c, int64_t i, int64_t n) {
    for (int64_t k = i; k < i + n; k++) free(c->turns[k].content);
    memmove(c->turns + i, c->turns + i + n, (size_t)(c->n - i - n) * sizeof *c->turns);
    c->n -= n;
}

/* A JSON string; bytes that are not UTF-8 become U+FFFD. */
static void put_text(cr_out *o, const char *text) {
    cr_out valid = {0};
    for (size_t n = strlen(text); n;) {
        const size_t good = cr_utf8_valid(text, n), bad = good < n;
        cr_out_put(&valid, text, good);
        if (bad) cr_out_put(&valid, "\xEF\xBF\xBD", 3);
        text += good + bad;
        n -= good + bad;
    }
    cr_out_string(o, valid.text ? valid.text : "", valid.bytes);
    o->failed |= valid.failed;
    cr_out_free(&valid);
}

static uint32_t *conversation(const chat *c, int64_t *n) {
    cr_out o = {0};
    cr_out_format(&o, "{\"add_generation_prompt\": true, \"messages\": [");
    for (int64_t i = 0; i < c->n; i++) {
        cr_out_format(&o, "%s{\"role\": \"%s\", \"content\": ", i ? ", " : "", c->turns[i].role);
        put_text(&o, c->turns[i].content);
        cr_out_put(&o, "}", 1);
    }
    cr_out_put(&o, "]}", 2);
    size_t bytes;
    char *text = o.failed ? NULL : cr_chat_text(c->g.main.chat, o.text, o.bytes, &bytes);
    cr_out_free(&o);
    if (!text) return NULL;
    const cr_encoding how = {.all_special = true};
    uint32_t *ids = cr_tokenizer_encode_special(c->g.main.tokenizer, text, bytes, &how, n);
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
    o.stop = c->g.main.end;
    o.n_stop = c->g.main.ends;
    writer w = {.decoder = cr_decoder_new(c->g.main.tokenizer), .silent = o.stop, .n_silent = o.n_stop};
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
    if (!generation_open(&c->g) || !open_chat(&c->g.main, c->g.adapter, c->form, true)) return CLI_FAILED;
    if (!cr_chat_template(c->g.main.chat))
        return cli_fail("'%s' has no chat template: give --template chatml, llama2, llama3, mistral, or a file in "
                        "Jinja", c->g.model);
    if (cr_chat_name(c->g.main.chat) && !c->form)
        fprintf(stderr, "(the model has no template: %s, by %s)\n", cr_chat_name(c->g.main.chat),
                cr_chat_source(c->g.main.chat));
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
        .name = "system", .text = &c.system, .what = "TEXT", .help = "the system message: how to answer"};
    options[n++] = option_template(&c.form);
    const command about = {"chat",  "--model DIR [options]", "Chats with a model that was trained for conversations.",
                           options, n,                       NULL, NULL,
                           "chat --model SmolLM2-135M-Instruct\n"
                           "chat --model chat.gguf --system \"You answer in one sentence.\"\n"};
    int code;
    if (!options_parse(&about, argc, argv, &code)) return code;
    if (!c.g.model) return usage_error(&about, "--model is needed: the folder of a pretrained model");
    cr_os_catch_interrupt();
    code = chat_with(&c);
    if (c.n) forget(&c, 0, c.n);
    free(c.turns);
    cr_cache_free(c.cache);
    generation_close(&c.g);
    return code;
}
