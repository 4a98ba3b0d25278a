/* chat.c - how a model is asked: the template of its conversations, its special tokens by role, and the tokens that
 * end a text or an answer, as a folder of Hugging Face or a GGUF file says. */
#include <chainrule.h>

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../core/utf8.h"
#include "../io/folder.h"
#include "../io/gguf.h"
#include "../io/json.h"
#include "jinja.h"
#include "pipeline.h"

static const char op[] = "chat_template";

/* ---- built-in templates */
#define CHECKED                                                                                                    \
    "{%- if not messages %}{{ raise_exception('needs at least one message, not 0') }}{% endif %}"                  \
    "{%- for m in messages %}{%- if m.role not in ['system', 'user', 'assistant'] %}"                              \
    "{{ raise_exception('message ' ~ loop.index0 ~ ': the role must be system, user or assistant, not \\''"        \
    " ~ m.role ~ '\\'') }}{% endif %}{%- if m.content is not string %}"                                            \
    "{{ raise_exception('message ' ~ loop.index0 ~ ': the content must be a str') }}{% endif %}{%- endfor %}"
/* The system's message is a part of the first question. */
#define TURNS                                                                                                      \
    CHECKED "{%- set system = messages[0].content if messages[0].role == 'system' else none %}"                    \
    "{%- set turns = messages if system is none else messages[1:] %}"                                              \
    "{%- if not turns %}{{ raise_exception('this template needs a message of the user') }}{% endif %}"             \
    "{%- for m in turns %}{%- if m.role == 'system' %}"                                                            \
    "{{ raise_exception('message ' ~ (loop.index0 + (messages | length) - (turns | length))"                       \
    " ~ ': only the first may be of the system') }}{% endif %}"                                                    \
    "{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                                                       \
    "{{ raise_exception('message ' ~ (loop.index0 + (messages | length) - (turns | length))"                       \
    " ~ ': user and assistant must take turns, not \\'' ~ m.role ~ '\\'') }}{% endif %}{%- endfor %}"
#define ANSWER(text) "{% generation %}{{ " text " }}{% endgeneration %}"

/* sign: a token that only this template has */
static const struct { const char *name, *sign, *text; } forms[] = {
    {"chatml", "<|im_start|>",
     CHECKED "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{%- if m.role == 'assistant' %}"
     ANSWER("m.content + '<|im_end|>'") "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama2", NULL,
     TURNS "{%- for m in turns %}{%- if m.role == 'user' %}"
     "{%- set opening = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' if loop.first and system is not none"
     " else '' %}{{ '<s>[INST] ' + (opening + m.content) | trim + ' [/INST]' }}"
     "{%- else %}" ANSWER("' ' + m.content | trim + ' </s>'") "{% endif %}{%- endfor %}"},
    {"llama3", "<|start_header_id|>",
     CHECKED "{{ '<|begin_of_text|>' }}{%- for m in messages %}"
     "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}{%- if m.role == 'assistant' %}"
     ANSWER("m.content | trim + '<|eot_id|>'") "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{%- endfor %}"
     "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral", "[INST]",
     TURNS "{{ '<s>' }}{%- for m in turns %}{%- if m.role == 'user' %}"
     "{{ '[INST] ' + (system ~ '\\n\\n' if loop.first and system is not none else '') + m.content + ' [/INST]' }}"
     "{%- else %}" ANSWER("m.content + '</s>'") "{% endif %}{%- endfor %}"},
};
enum { FORMS = sizeof forms / sizeof *forms, MAX_ENDS = 64 };

struct cr_chat {
    const char *name;                               /* of a built-in template; NULL: `text` is the model's own */
    char *text;                                     /* of the template; NULL: there is none */
    char *source;                                   /* where it is from */
    char *wrong;                                    /* why the model's own cannot be used; it may never be asked for */
    cr_template *template, *with_tools;             /* with_tools: where tools are given, or NULL */
    cr_json *tokens;                                /* "bos_token": "<s>"... */
    uint32_t end[MAX_ENDS]; int64_t ends;           /* of a text */
    int64_t turn_end;                               /* the token behind an answer; -1: none */
};

/* ---- what a folder or a file says */
static void add_end(cr_chat *c, int64_t id) {
    for (int64_t i = 0; i < c->ends; i++) if (c->end[i] == id) return;
    if (id >= 0 && id < UINT32_MAX && c->ends < MAX_ENDS) c->end[c->ends++] = (uint32_t)id;
}

static void add_ends(cr_chat *c, const cr_json *v) {
    if (v && v->kind == CR_JSON_NUMBER && v->integral) add_end(c, v->integer);
    for (const cr_json *e = cr_json_elements(v); e; e = e->next)
        if (e->kind == CR_JSON_NUMBER && e->integral) add_end(c, e->integer);
}

/* The file DIR/name, an object; *out NULL: there is no such file. */
static cr_status read_object(const char *dir, const char *name, cr_json **out) {
    cr_path at;
    *out = NULL;
    if (cr_join(op, dir, name, &at) || cr_json_find(op, at.s, out)) return cr_error_status();
    return !*out || (*out)->kind == CR_JSON_OBJECT ? CR_OK : cr_fail(CR_IO, op, "'%s' is not a JSON object", at.s);
}

static cr_status set_template(cr_chat *c, const char *source, const char *text, size_t bytes) {
    free(c->text);
    free(c->source);
    c->text = malloc(bytes + 1);
    c->source = malloc(strlen(source) + 1);
    if (!c->text || !c->source) return cr_fail(CR_NO_MEMORY, op, "no memory for a template of %zu bytes", bytes);
    memcpy(c->text, text, bytes);
    c->text[bytes] = 0;
    strcpy(c->source, source);
    if (strlen(c->text) != bytes) return cr_fail(CR_IO, op, "the template in %s holds a NUL", source);
    cr_template_free(c->template);
    c->template = cr_template_new(text, bytes);
    return c->template ? CR_OK : cr_error_status();
}

static cr_status take_tools(cr_chat *c, const cr_json *text) {
    if (!cr_json_as(text, CR_JSON_STRING)) return CR_OK;
    cr_template_free(c->with_tools);
    c->with_tools = cr_template_new(text->text, text->bytes);
    return c->with_tools ? CR_OK : cr_error_status();
}

/* "chat_template" of tokenizer_config.json: a text, or a list of several with names. */
static cr_status take_said(cr_chat *c, const char *folder, const cr_json *said) {
    const cr_json *text = said;
    if (!said || said->kind == CR_JSON_NULL) return CR_OK;
    if (said->kind == CR_JSON_ARRAY) {
        text = NULL;
        for (const cr_json *v = said->first; v; v = v->next) {
            const cr_json *name = cr_json_get(v, "name");
            if (!cr_json_as(name, CR_JSON_STRING)) continue;
            if (!strcmp(name->text, "default")) text = cr_json_get(v, "template");
            if (strcmp(name->text, "tool_use")) continue;
            const cr_status status = take_tools(c, cr_json_get(v, "template"));
            if (status != CR_OK) return status;
        }
        if (!text) return CR_OK;
    }
    if (cr_json_as(text, CR_JSON_STRING)) return set_template(c, "tokenizer_config.json", text->text, text->bytes);
    cr_out shown = {0};
    cr_put_json(&shown, text);
    const cr_status status = cr_fail(CR_BAD_VALUE, op, "'%s': \"chat_template\" must be text, it is %.60s", folder,
                                     shown.text ? shown.text : "?");
    cr_out_free(&shown);
    return status;
}

static cr_status take_file(cr_chat *c, const char *folder) {
    static const char name[] = "chat_template.jinja";
    cr_path at;
    cr_mapping m;
    cr_status status = cr_join(op, folder, name, &at);
    if (status != CR_OK || !cr_os_exists(at.s)) return status;
    status = cr_file_map(op, at.s, false, &m);
    if (status != CR_OK) return status;
    if (cr_utf8_valid((const char *)m.data, m.bytes) != m.bytes) status = cr_fail(CR_IO, op, "'%s' is not UTF-8", at.s);
    else status = set_template(c, name, (const char *)m.data, m.bytes);
    cr_os_unmap(&m);
    return status;
}

/* A template that cannot be used is an error where a conversation needs it. */
static cr_status keep_wrong(cr_chat *c, cr_status status) {
    if (status == CR_OK || status == CR_NO_MEMORY) return status;
    const char *said = cr_error(), *text = said ? strstr(said, "] ") : NULL;
    c->wrong = malloc(strlen(text ? text + 2 : "?") + 1);
    if (c->wrong) strcpy(c->wrong, text ? text + 2 : "?");
    cr_error_clear();
    return c->wrong ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory");
}

/* "bos_token": "<s>" or {"content": "<s>"}; what is in a role already stays. */
static void put_tokens(cr_out *o, const cr_json *entries, const cr_json *before) {
    for (const cr_json *v = entries ? entries->first : NULL; v; v = v->next) {
        const cr_json *text = v->kind == CR_JSON_OBJECT ? cr_json_get(v, "content") : v;
        const size_t n = v->key_bytes;
        if (n < 6 || strcmp(v->key + n - 6, "_token") || !cr_json_as(text, CR_JSON_STRING)) continue;
        if (before && cr_json_get(before, v->key)) continue;
        if (o->bytes > 1) cr_out_put(o, ", ", 2);
        cr_out_string(o, v->key, n);
        cr_out_put(o, ": ", 2);
        cr_out_string(o, text->text, text->bytes);
    }
}

/* Writes the class's token of each role that no file names, where the vocabulary has that token. */
static void put_class_tokens(cr_out *o, const cr_tokenizer *t, cr_json *const said[4]) {
    const cr_json *name;
    const cr_tokenizer_class *c = cr_tokenizer_class_of(said[2], said[0], &name);
    for (int i = 0; c && i < CR_ROLES; i++) {
        const char *token = c->role[i];
        if (!token || cr_json_get(said[2], cr_roles[i]) || cr_json_get(said[3], cr_roles[i])) continue;
        if (cr_tokenizer_find(t, token, strlen(token)) < 0) continue;
        cr_out_format(o, "%s\"%s\": ", o->bytes > 1 ? ", " : "", cr_roles[i]);
        cr_out_string(o, token, strlen(token));
    }
}

static cr_status keep_tokens(cr_chat *c, cr_out *o) {
    cr_out_put(o, "}", 1);
    if (o->failed) return cr_fail(CR_NO_MEMORY, op, "no memory for special tokens");
    c->tokens = cr_json_parse(op, "special tokens", o->text, o->bytes);
    return c->tokens ? CR_OK : cr_error_status();
}

static int64_t id_of(const cr_tokenizer *t, const cr_json *name) {
    return t && cr_json_as(name, CR_JSON_STRING) ? cr_tokenizer_find(t, name->text, name->bytes) : -1;
}

static cr_status read_folder(cr_chat *c, const char *folder, const cr_tokenizer *t, bool template) {
    static const char *const files[] = {"config.json", "generation_config.json", "tokenizer_config.json",
                                        "special_tokens_map.json"};
    cr_json *said[4] = {NULL};
    cr_out o = {0};
    cr_status status = CR_OK;
    for (int i = 0; i < (t ? 4 : 2) && status == CR_OK; i++) status = read_object(folder, files[i], &said[i]);
    cr_out_put(&o, "{", 1);
    put_tokens(&o, said[2], NULL);
    put_tokens(&o, said[3], said[2]);
    if (status == CR_OK && t) put_class_tokens(&o, t, said);
    if (status == CR_OK) status = keep_tokens(c, &o);
    if (status == CR_OK) add_end(c, id_of(t, cr_json_get(c->tokens, "eos_token")));
    for (int i = 2; i >= 0; i--) add_ends(c, cr_json_get(said[i], "eos_token_id"));
    if (status == CR_OK && template) {
        cr_status own = take_said(c, folder, cr_json_get(said[2], "chat_template"));
        if (own == CR_OK) own = take_file(c, folder);
        status = keep_wrong(c, own);
    }
    for (int i = 0; i < 4; i++) cr_json_free(said[i]);
    cr_out_free(&o);
    return status;
}

/* A GGUF file has three end tokens, and llama.cpp knows others by their names. */
static void add_gguf_ends(cr_chat *c, const cr_json *root, const cr_tokenizer *t) {
    static const char *const roles[] = {"eos", "eot", "eom"};
    static const char *const names[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
                                        "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>",
                                        "_<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>"};
    char key[64];
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", roles[i]);
        add_ends(c, cr_json_get(root, key));
    }
    for (size_t i = 0; i < sizeof names / sizeof *names && t; i++) {
        size_t bytes;
        bool special = false;
        const int64_t id = cr_tokenizer_find(t, names[i], strlen(names[i]));
        if (id >= 0 && cr_tokenizer_name(t, id, &bytes, &special) && special) add_end(c, id);
    }
}

static cr_status read_gguf(cr_chat *c, const char *path, const cr_tokenizer *t, bool template) {
    static const char *const roles[] = {"bos", "eos", "unknown", "padding"},
                      *const keys[] = {"bos", "eos", "unk", "pad"};
    cr_mapping m;
    cr_status status = cr_file_map(op, path, false, &m);
    if (status != CR_OK) return status;
    char *text = cr_gguf_is(m.data, m.bytes) ? cr_gguf_section(op, path, &m, "tokenizer.") : NULL;
    if (!text && !cr_error()) cr_fail(CR_IO, op, "'%s' is neither a folder nor a GGUF file", path);
    cr_os_unmap(&m);
    cr_json *root = text ? cr_json_parse(op, path, text, strlen(text)) : NULL;
    status = root ? CR_OK : cr_error_status();
    cr_out o = {0};
    cr_out_put(&o, "{", 1);
    const cr_json *list = cr_json_get(root, "tokenizer.ggml.tokens");
    for (int i = 0; i < 4; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", roles[i]);
        const cr_json *id = cr_json_get(root, key), *name = cr_json_elements(list);
        if (!id || id->kind != CR_JSON_NUMBER || !id->integral || id->integer < 0) continue;
        for (int64_t k = 0; k < id->integer && name; k++) name = name->next;
        if (!cr_json_as(name, CR_JSON_STRING)) continue;
        cr_out_format(&o, "%s\"%s_token\": ", o.bytes > 1 ? ", " : "", keys[i]);
        cr_out_string(&o, name->text, name->bytes);
    }
    if (status == CR_OK) status = keep_tokens(c, &o);
    if (status == CR_OK) add_gguf_ends(c, root, t);
    const cr_json *said = cr_json_get(root, "tokenizer.chat_template");
    if (status == CR_OK && template && cr_json_as(said, CR_JSON_STRING)) {
        cr_status own = set_template(c, "the GGUF file", said->text, said->bytes);
        if (own == CR_OK) own = take_tools(c, cr_json_get(root, "tokenizer.chat_template.tool_use"));
        status = keep_wrong(c, own);
    }
    cr_out_free(&o);
    cr_json_free(root);
    cr_free(text);
    return status;
}

static cr_status take_form(cr_chat *c, int form, const char *source) {
    c->name = forms[form].name;
    return set_template(c, source, forms[form].text, strlen(forms[form].text));
}

/* By the name of a built-in template, or its text. */
static cr_status take_named(cr_chat *c, const char *form) {
    for (int i = 0; i < FORMS; i++) if (!strcmp(form, forms[i].name)) return take_form(c, i, "the option");
    if (strstr(form, "{{") || strstr(form, "{%")) return set_template(c, "the option", form, strlen(form));
    return cr_fail(CR_BAD_VALUE, op, "the template must be chatml, llama2, llama3, mistral, or a text in Jinja, not "
                   "'%.40s'", form);
}

/* ---- rendering */
enum { MARK = 3 };
static const char mark[] = "\xEE\x80\x80";           /* U+E000: where a message's content is in the text */

/* The special token that the template puts behind an answer. */
static int64_t find_turn_end(const cr_chat *c, const cr_tokenizer *t) {
    char asked[256];
    snprintf(asked, sizeof asked, "{\"messages\": [{\"role\": \"user\", \"content\": \"?\"}, "
             "{\"role\": \"assistant\", \"content\": \"%s\"}]}", mark);
    int64_t found = -1, n = 0;
    char *text = cr_chat_text(c, asked, strlen(asked), NULL), *answer = text ? strstr(text, mark) : NULL;
    const cr_encoding how = {.all_special = true};
    uint32_t *ids = NULL;
    if (answer) {
        answer += MARK;
        ids = cr_tokenizer_encode_special(t, answer, strlen(answer), &how, &n);
    }
    for (int64_t i = 0; i < n && found < 0; i++) {
        size_t bytes;
        bool special = false;
        if (cr_tokenizer_name(t, ids[i], &bytes, &special) && special) found = ids[i];
    }
    cr_free(ids);
    cr_free(text);
    cr_error_clear();                               /* a template that refuses these messages has none */
    return found;
}

static cr_json *parse_variables(const cr_chat *c, const char *variables, size_t bytes) {
    if (!c || !variables) return cr_fail_null(op, c ? "the variables" : "the chat"), NULL;
    if (c->wrong) return cr_fail(CR_BAD_VALUE, op, "%s", c->wrong), NULL;
    if (!c->template)
        return cr_fail(CR_BAD_VALUE, op, "the model has no chat_template: give one, or the name of one: chatml, "
                       "llama2, llama3 or mistral"), NULL;
    cr_json *root = cr_json_parse(op, "the variables", variables, bytes);
    if (root && root->kind != CR_JSON_OBJECT) {
        cr_fail(CR_BAD_VALUE, op, "the variables must be a JSON object");
        cr_json_free(root);
        return NULL;
    }
    const cr_json *messages = root ? cr_json_get(root, "messages") : NULL;
    const char *wrong = !root ? NULL : !messages || messages->kind != CR_JSON_ARRAY ? "\"messages\" must be a list"
                                     : !messages->count ? "needs at least one message, not 0" : NULL;
    if (wrong) {
        cr_fail(CR_BAD_VALUE, op, "%s", wrong);
        cr_json_free(root);
        return NULL;
    }
    return root;
}

/* The first n messages; ask: up to the start of an answer. */
static char *render_messages(const cr_chat *c, cr_json *root, int64_t n, const bool *ask, cr_marks *marks) {
    cr_json none[3] = {{.key = "tools", .key_bytes = 5}, {.key = "documents", .key_bytes = 9},
                       {.kind = CR_JSON_BOOL, .key = "add_generation_prompt", .key_bytes = 21}};
    cr_json defaults = {.kind = CR_JSON_OBJECT, .count = 3, .first = none}, last = none[2],
            more = {.kind = CR_JSON_OBJECT, .count = 1, .first = &last};
    none[0].next = &none[1];
    none[1].next = &none[2];
    if (ask) last.truth = *ask;
    const cr_json *tools = cr_json_get(root, "tools");
    const bool with = c->with_tools && tools && tools->kind != CR_JSON_NULL;
    const cr_json *given[] = {&defaults, c->tokens ? c->tokens : &defaults, root, &more};
    cr_json *messages = (cr_json *)(uintptr_t)cr_json_get(root, "messages"), *end = messages->first;
    const int64_t all = messages->count;
    for (int64_t i = 1; i < n; i++) end = end->next;
    cr_json *rest = end->next;
    end->next = NULL;                               /* for the time of the call: the tree is ours */
    messages->count = n;
    char *text = cr_template_render_json(with ? c->with_tools : c->template, ask ? 4 : 3, given, marks);
    messages->count = all;
    end->next = rest;
    return text;
}

static bool is_answer(const cr_json *message) {
    return cr_json_is(cr_json_get(message, "role"), "assistant");
}

/* An answer and its end are what the text up to it has more than the request for it. */
static cr_status find_answers(const cr_chat *c, cr_json *root, const char *whole, cr_marks *marks) {
    const cr_json *messages = cr_json_get(root, "messages");
    size_t at = 0;
    int64_t i = 0;
    marks->at = malloc((size_t)messages->count * 2 * sizeof *marks->at);
    if (!marks->at) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld messages", (long long)messages->count);
    for (const cr_json *m = messages->first; m; m = m->next, i++) {
        if (!is_answer(m)) continue;
        for (int side = 0; side < 2; side++) {
            if (!i && !side) { marks->at[2 * marks->n] = 0; continue; }      /* it begins the conversation */
            cr_marks part = {0};
            char *text = render_messages(c, root, i + side, &(bool){!side}, &part);
            if (!text) return cr_error_status();
            const bool fits = part.bytes >= at && part.bytes <= marks->bytes && !memcmp(text, whole, part.bytes);
            cr_free(text);
            cr_free(part.at);
            if (!fits)
                return cr_fail(CR_BAD_VALUE, op, "the chat template changes earlier text at message %lld",
                               (long long)i);
            at = part.bytes;
            /* the line break behind the end token is no part of the answer */
            marks->at[2 * marks->n + side] = (int64_t)at - (side && at > 1 && !memcmp(whole + at - 2, ">\n", 2));
        }
        marks->n++;
    }
    return CR_OK;
}

/* The text ends behind the last message's content: a mark in the content says where that is in the text. */
static char *render_continued(const cr_chat *c, cr_json *root, size_t *length) {
    cr_json *last = cr_json_get(root, "messages")->first;
    while (last->next) last = last->next;
    cr_json *content = (cr_json *)(uintptr_t)cr_json_get(last, "content");
    const cr_json *ask = cr_json_get(root, "add_generation_prompt");
    if (ask && ask->truth)
        return cr_fail(CR_BAD_VALUE, op, "continue_final_message and add_generation_prompt exclude each other"), NULL;
    if (!cr_json_as(content, CR_JSON_STRING))
        return cr_fail(CR_BAD_VALUE, op, "continue_final_message: the last message's content must be a str"), NULL;
    cr_out longer = {0};
    cr_marks marks = {0};
    cr_out_put(&longer, content->text, content->bytes);
    cr_out_put(&longer, mark, MARK);
    cr_out_put(&longer, " ", 1);
    if (longer.failed) return cr_fail(CR_NO_MEMORY, op, "no memory for %zu bytes", content->bytes), NULL;
    content->text = longer.text;                     /* for the time of the call */
    content->bytes = longer.bytes;
    char *text = render_messages(c, root, cr_json_get(root, "messages")->count, NULL, &marks);
    cr_out_free(&longer);
    cr_free(marks.at);
    if (!text) return NULL;
    size_t at = marks.bytes;
    while (at >= MARK && memcmp(text + at - MARK, mark, MARK)) at--;
    if (at < MARK) {
        cr_free(text);
        return cr_fail(CR_BAD_VALUE, op, "continue_final_message: the template leaves the last message out"), NULL;
    }
    const bool trimmed = text[at] != ' ';
    for (at -= MARK; trimmed && at && strchr(" \t\n\r\v\f", text[at - 1]);) at--;
    text[at] = 0;
    *length = at;
    return text;
}

char *cr_chat_text(const cr_chat *c, const char *variables, size_t bytes, size_t *length) {
    cr_marks marks = {0};
    cr_json *root = parse_variables(c, variables, bytes);
    if (!root) return NULL;
    const cr_json *on = cr_json_get(root, "continue_final_message");
    size_t n = 0;
    const bool goes_on = on && on->kind == CR_JSON_BOOL && on->truth;
    char *text = goes_on ? render_continued(c, root, &n)
                         : render_messages(c, root, cr_json_get(root, "messages")->count, NULL, &marks);
    if (length) *length = goes_on ? n : marks.bytes;
    cr_free(marks.at);
    cr_json_free(root);
    return text;
}

char *cr_chat_answers(const cr_chat *c, const char *variables, size_t bytes, cr_marks *answers) {
    if (!answers) return cr_fail_null(op, "the answers"), NULL;
    *answers = (cr_marks){0};
    cr_json *root = parse_variables(c, variables, bytes);
    char *text = root ? render_messages(c, root, cr_json_get(root, "messages")->count, NULL, answers) : NULL;
    if (text && !answers->n && find_answers(c, root, text, answers) != CR_OK) {
        cr_free(text);
        text = NULL;
    }
    if (!text) {
        cr_free(answers->at);
        *answers = (cr_marks){0};
    }
    cr_json_free(root);
    return text;
}

/* ---- public */
cr_chat *cr_chat_open(const char *path, const cr_tokenizer *t, const char *form) {
    cr_chat *c = calloc(1, sizeof *c);
    if (!c) return cr_fail(CR_NO_MEMORY, op, "no memory"), NULL;
    c->turn_end = -1;
    cr_status status = CR_OK;
    if (path) status = (cr_os_is_directory(path) ? read_folder : read_gguf)(c, path, t, t && !form);
    if (status == CR_OK && form) status = take_named(c, form);
    for (int i = 0; i < FORMS && t && !c->text && !c->wrong && status == CR_OK; i++)
        if (forms[i].sign && cr_tokenizer_find(t, forms[i].sign, strlen(forms[i].sign)) >= 0)
            status = take_form(c, i, "its special tokens");
    if (status != CR_OK) {
        cr_chat_free(c);
        return NULL;
    }
    if (c->template && t) c->turn_end = find_turn_end(c, t);
    return c;
}

void cr_chat_free(cr_chat *c) {
    if (!c) return;
    cr_template_free(c->template);
    cr_template_free(c->with_tools);
    cr_json_free(c->tokens);
    free(c->text);
    free(c->source);
    free(c->wrong);
    free(c);
}

const char *cr_chat_name(const cr_chat *c) { return c ? c->name : NULL; }
const char *cr_chat_template(const cr_chat *c) { return c ? c->text : NULL; }
const char *cr_chat_source(const cr_chat *c) { return c ? c->source : NULL; }

const char *cr_chat_token(const cr_chat *c, const char *role) {
    const cr_json *found = c && role ? cr_json_get(c->tokens, role) : NULL;
    return found ? found->text : NULL;
}

int64_t cr_chat_ends(const cr_chat *c, bool answer, uint32_t *ids, int64_t room) {
    int64_t n = 0;
    for (int64_t i = 0; c && i < c->ends; i++, n++) if (n < room) ids[n] = c->end[i];
    bool known = !c || !answer || c->turn_end < 0;
    for (int64_t i = 0; !known && i < c->ends; i++) known = c->end[i] == (uint32_t)c->turn_end;
    if (!known && n < room) ids[n] = (uint32_t)c->turn_end;
    return n + !known;
}
