/* chat.c - messages of a conversation as the text that a model was trained on: four built-in templates,
 * chosen by name or by what a model's folder says. */
#include <chainrule.h>

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/file.h"
#include "../io/folder.h"
#include "../io/gguf.h"

enum { CHATML, LLAMA2, LLAMA3, MISTRAL, FORMATS };
static const char *const names[FORMATS] = {"chatml", "llama2", "llama3", "mistral"};
/* what ends an answer; what only this template has */
static const char *const ends[FORMATS] = {"<|im_end|>", "</s>", "<|eot_id|>", "</s>"};
static const char *const signs[FORMATS] = {"<|im_start|>", "<<SYS>>", "<|start_header_id|>", "[INST]"};

static int format_named(const char *op, const char *name) {
    for (int i = 0; i < FORMATS; i++) if (!strcmp(name, names[i])) return i;
    return cr_fail(CR_BAD_VALUE, op, "the template must be chatml, llama2, llama3 or mistral, not '%.40s'", name), -1;
}

/* ---- which one */
/* The format whose sign text holds, the first of several; FORMATS: none. */
static int format_of(const char *text) {
    for (int i = 0; i < FORMATS && text; i++) if (strstr(text, signs[i])) return i;
    return FORMATS;
}

/* The format that the file DIR/name points to; FORMATS: none, or there is no such file. */
static int format_in(const char *dir, const char *name) {
    cr_path at;
    cr_mapping m;
    if (cr_join("chat_format", dir, name, &at) || !cr_os_exists(at.s) || !cr_os_map(at.s, &m)) return FORMATS;
    char *text = malloc(m.bytes + 1);
    if (text) {
        memcpy(text, m.data, m.bytes);
        text[m.bytes] = 0;
    }
    /* "chat_template" in JSON, where the signs are spelled as they are; tokens come later in the file */
    const int found = format_of(text && strstr(name, ".json") ? strstr(text, "\"chat_template\"") : text);
    free(text);
    cr_os_unmap(&m);
    return found;
}

/* The format that the template in a GGUF file points to; FORMATS: none. */
static int format_of_gguf(const char *path) {
    cr_mapping m;
    if (!cr_os_map(path, &m)) return FORMATS;
    char *said = cr_gguf_is(m.data, m.bytes) ? cr_gguf_metadata("chat_format", path, &m, "tokenizer.chat_template")
                                             : NULL;
    const int found = format_of(said);
    free(said);
    cr_os_unmap(&m);
    return found;
}

const char *cr_chat_format(const char *folder, const cr_tokenizer *t) {
    static const char *const files[] = {"chat_template.jinja", "tokenizer_config.json"};
    if (!folder) return cr_fail_null("chat_format", "the folder"), NULL;
    int found = FORMATS;
    if (!cr_os_is_directory(folder)) found = format_of_gguf(folder);
    else for (int i = 0; i < 2 && found == FORMATS; i++) found = format_in(folder, files[i]);
    if (found != FORMATS) return names[found];
    for (int i = 0; i < FORMATS && t; i++)
        if (i != LLAMA2 && cr_tokenizer_find(t, signs[i], strlen(signs[i])) >= 0) return names[i];
    return NULL;
}

const char *cr_chat_end(const char *format) {
    if (!format) return cr_fail_null("chat_end", "the template"), NULL;
    const int i = format_named("chat_end", format);
    return i < 0 ? NULL : ends[i];
}

/* ---- messages to text */
static bool is(const cr_message *m, const char *role) { return !strcmp(m->role, role); }

static void put(cr_out *o, const char *text) { cr_out_put(o, text, strlen(text)); }

/* The text without white space at both ends. */
static void put_stripped(cr_out *o, const char *text) {
    static const char space[] = " \t\n\r\v\f";
    text += strspn(text, space);
    size_t n = strlen(text);
    while (n && strchr(space, text[n - 1])) n--;
    cr_out_put(o, text, n);
}

static void put_headed(cr_out *o, int format, const cr_message *m) {
    put(o, format == CHATML ? "<|im_start|>" : "<|start_header_id|>");
    put(o, m->role);
    put(o, format == CHATML ? "\n" : "<|end_header_id|>\n\n");
    if (format == CHATML) put(o, m->content);
    else put_stripped(o, m->content);
    put(o, format == CHATML ? "<|im_end|>\n" : "<|eot_id|>");
}

/* Llama 2 and Mistral: the system's message is a part of the first question. */
static void put_turn(cr_out *o, int format, const cr_message *m, const char *system) {
    const bool llama = format == LLAMA2;
    if (is(m, "assistant")) {
        if (llama) put(o, " ");
        if (llama) put_stripped(o, m->content);
        else put(o, m->content);
        put(o, llama ? " </s>" : "</s>");
        return;
    }
    put(o, llama ? "<s>[INST] " : "[INST] ");
    if (llama && system) {
        cr_out whole = {0};
        put(&whole, "<<SYS>>\n");
        put(&whole, system);
        put(&whole, "\n<</SYS>>\n\n");
        put(&whole, m->content);
        cr_out_put(&whole, "", 1);
        if (!whole.failed) put_stripped(o, whole.text);
        else o->failed = true;
        cr_out_free(&whole);
    } else if (llama) put_stripped(o, m->content);
    else {
        if (system) put(o, system);
        if (system) put(o, "\n\n");
        put(o, m->content);
    }
    put(o, " [/INST]");
}

static cr_status check(const char *op, int64_t n, const cr_message *m, bool turns) {
    if (n < 1) return cr_fail(CR_BAD_VALUE, op, "needs at least one message, not %lld", (long long)n);
    if (!m) return cr_fail_null(op, "the messages");
    int64_t questions = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!m[i].role || !m[i].content) return cr_fail_null(op, "the role or the content of a message");
        const bool system = is(&m[i], "system");
        if (!system && !is(&m[i], "user") && !is(&m[i], "assistant"))
            return cr_fail(CR_BAD_VALUE, op, "message %lld: the role must be system, user or assistant, not '%.40s'",
                           (long long)i, m[i].role);
        if (!turns) continue;
        if (system && i) return cr_fail(CR_BAD_VALUE, op, "message %lld: only the first may be of the system",
                                        (long long)i);
        if (!system && is(&m[i], questions++ % 2 ? "user" : "assistant"))
            return cr_fail(CR_BAD_VALUE, op, "message %lld: user and assistant must take turns, not '%s'",
                           (long long)i, m[i].role);
    }
    if (turns && !questions) return cr_fail(CR_BAD_VALUE, op, "this template needs a message of the user");
    return CR_OK;
}

char *cr_chat_text(const char *format, int64_t n, const cr_message *messages, bool ask) {
    static const char op[] = "chat_text";
    if (!format) return cr_fail_null(op, "the template"), NULL;
    const int f = format_named(op, format);
    const bool turns = f == LLAMA2 || f == MISTRAL;
    if (f < 0 || check(op, n, messages, turns) != CR_OK) return NULL;
    cr_out o = {0};
    if (f == LLAMA3) put(&o, "<|begin_of_text|>");
    if (f == MISTRAL) put(&o, "<s>");
    const char *system = turns && is(&messages[0], "system") ? messages[0].content : NULL;
    for (int64_t i = system ? 1 : 0; i < n; i++) {
        if (turns) put_turn(&o, f, &messages[i], i < 2 && is(&messages[i], "user") ? system : NULL);
        else put_headed(&o, f, &messages[i]);
    }
    if (ask && f == CHATML) put(&o, "<|im_start|>assistant\n");
    if (ask && f == LLAMA3) put(&o, "<|start_header_id|>assistant<|end_header_id|>\n\n");
    cr_out_put(&o, "", 1);
    if (cr_out_check(&o, op, "the text") == CR_OK) return o.text;
    cr_out_free(&o);
    return NULL;
}
