/* template.c - messages as the text that a model was trained on: ChatML (Qwen, SmolLM), Llama 3's, Llama 2's. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct text { char *s; size_t n, room; } text;

static bool put(text *t, const char *s) {
    const size_t n = strlen(s);
    if (t->n + n + 1 > t->room) {
        const size_t room = 2 * t->room + n + 256;
        char *grown = realloc(t->s, room);
        if (!grown) return cli_fail("no memory for a chat of %zu bytes", t->n + n), false;
        t->s = grown;
        t->room = room;
    }
    memcpy(t->s + t->n, s, n + 1);
    t->n += n;
    return true;
}

static bool put_all(text *t, const char *a, const char *b, const char *c, const char *d) {
    return put(t, a) && put(t, b) && put(t, c) && put(t, d);
}

static bool has(const cr_tokenizer *t, const char *name) { return cr_tokenizer_find(t, name, strlen(name)) >= 0; }

const char *chat_format(const cr_tokenizer *t) {
    if (has(t, "<|im_start|>") && has(t, "<|im_end|>")) return "chatml";
    if (has(t, "<|start_header_id|>") && has(t, "<|eot_id|>")) return "llama3";
    return has(t, "<s>") && has(t, "</s>") ? "llama2" : NULL;
}

/* <|im_start|>role\ntext<|im_end|>\n */
static bool chatml(int64_t n, const message *m, bool ask, text *out) {
    bool good = put(out, "");
    for (int64_t i = 0; i < n && good; i++)
        good = put_all(out, "<|im_start|>", m[i].role, "\n", m[i].content) && put(out, "<|im_end|>\n");
    return good && (!ask || put(out, "<|im_start|>assistant\n"));
}

static bool llama3(int64_t n, const message *m, bool ask, text *out) {
    bool good = put(out, "<|begin_of_text|>");
    for (int64_t i = 0; i < n && good; i++)
        good = put_all(out, "<|start_header_id|>", m[i].role, "<|end_header_id|>\n\n", m[i].content) &&
               put(out, "<|eot_id|>");
    return good && (!ask || put(out, "<|start_header_id|>assistant<|end_header_id|>\n\n"));
}

/* <s>[INST] question [/INST] answer</s>; the system's message stands before the first question. */
static bool llama2(int64_t n, const message *m, text *out) {
    const char *system = NULL;
    bool good = put(out, "");
    for (int64_t i = 0; i < n && good; i++) {
        if (!strcmp(m[i].role, "system")) system = m[i].content;
        else if (!strcmp(m[i].role, "assistant")) good = put_all(out, " ", m[i].content, " </s>", "");
        else {
            good = put_all(out, "<s>[INST] ", system ? "<<SYS>>\n" : "", system ? system : "",
                           system ? "\n<</SYS>>\n\n" : "") && put_all(out, m[i].content, " [/INST]", "", "");
            system = NULL;
        }
    }
    return good;
}

static bool plain(int64_t n, const message *m, bool ask, text *out) {
    bool good = put(out, "");
    for (int64_t i = 0; i < n && good; i++) good = put_all(out, m[i].role, ": ", m[i].content, "\n");
    return good && (!ask || put(out, "assistant:"));
}

char *chat_text(const char *format, int64_t n, const message *m, bool ask) {
    text out = {0};
    const bool good = !format                     ? plain(n, m, ask, &out)
                      : !strcmp(format, "chatml") ? chatml(n, m, ask, &out)
                      : !strcmp(format, "llama3") ? llama3(n, m, ask, &out)
                                                  : llama2(n, m, &out);
    if (good) return out.s;
    free(out.s);
    return NULL;
}
