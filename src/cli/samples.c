/* samples.c - data for finetune and eval: text files in windows of the context, and JSON lines with
 *   {"text": "..."}                                     every token counts
 *   {"prompt": "...", "completion": "..."}              the completion counts
 *   {"messages": [{"role": "user", "content": "..."}]}  the assistant's messages count
 *   {"question": "...", "choices": ["...", "..."], "answer": 1}    eval: each choice is a sample
 * A sample's text becomes tokens as a whole; an answer's are those behind the tokens that the text up to it has too. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../io/json.h"

/* At least `more` elements of room behind n; p: the address of the array's pointer. */
static bool grow(void *p, int64_t n, int64_t *room, int64_t more, size_t size) {
    return cr_grow(p, n + more, room, size) || cli_fail("no memory for %lld tokens", (long long)(n + more)) == CLI_OK;
}

/* Both arrays of tokens have one room. */
static bool grow_both(int64_t **token, int64_t **target, int64_t n, int64_t *room, int64_t more) {
    int64_t first = *room;
    return grow(token, n, &first, more, sizeof **token) && grow(target, n, room, more, sizeof **target);
}

/* ---- one sample */
typedef struct ids { uint32_t *id; bool *counts; int64_t n, room; } ids;

static bool ids_add(ids *all, const uint32_t *id, int64_t n, bool counts) {
    int64_t room = all->room;
    if (!grow(&all->id, all->n, &room, n, sizeof *all->id) ||
        !grow(&all->counts, all->n, &all->room, n, sizeof *all->counts))
        return false;
    for (int64_t i = 0; i < n; i++, all->n++) {
        all->id[all->n] = id[i];
        all->counts[all->n] = counts;
    }
    return true;
}

static void ids_free(ids *all) {
    free(all->id);
    free(all->counts);
}

/* The text's bytes in a token; 0: of a special one. */
static int64_t bytes_of(const reader *r, cr_decoder *d, uint32_t id) {
    size_t n = 0, name;
    bool special = false;
    (void)cr_decoder_next(d, id, &n);
    (void)cr_tokenizer_name(r->tokenizer, id, &name, &special);
    return special ? 0 : (int64_t)n;
}

/* Tokens from .. from + length, each with the next as its target. */
static bool add_window(const reader *r, samples *s, const ids *all, int64_t from, int64_t length) {
    if (!grow_both(&s->token, &s->target, s->tokens, &s->room, length) ||
        !grow(&s->of, s->n, &s->of_room, 1, sizeof *s->of))
        return false;
    sample *it = &s->of[s->n];
    *it = (sample){.at = s->tokens, .length = length};
    cr_decoder *d = cr_decoder_new(r->tokenizer);
    if (!d) return cli_fail_library(), false;
    (void)bytes_of(r, d, all->id[from]);
    for (int64_t i = from; i < from + length; i++, s->tokens++) {
        const bool counts = all->counts[i + 1];
        const int64_t bytes = bytes_of(r, d, all->id[i + 1]);
        s->token[s->tokens] = all->id[i];
        s->target[s->tokens] = counts ? (int64_t)all->id[i + 1] : -1;
        it->counted += counts;
        it->bytes += counts ? bytes : 0;
    }
    cr_decoder_free(d);
    s->n++;
    return true;
}

static bool finish_sample(const reader *r, samples *s, const char *where, const ids *all) {
    int64_t length = all->n - 1;
    if (length < 1)
        return cli_fail("%s: the sample has %lld tokens: nothing to predict", where, (long long)all->n), false;
    if (length > r->context && !r->truncate)
        return cli_fail("%s: the sample has %lld tokens, the context takes %lld and one to predict: give a larger "
                        "--context, or --truncate", where, (long long)all->n, (long long)r->context), false;
    if (length > r->context) length = r->context;
    if (!add_window(r, s, all, 0, length)) return false;
    if (s->of[s->n - 1].counted) return true;
    return cli_fail("%s: no token of the answer is within the context of %lld", where, (long long)r->context), false;
}

/* A chat's special tokens are in its text; other texts get those that the tokenizer adds, and TEXT the end token.
 * counts: n pairs of bytes, from where to where tokens count. */
typedef enum sample_kind { CHAT, TEXT, CHOICE } sample_kind;
static bool add_sample(const reader *r, samples *s, const char *where, const char *text, size_t bytes, int64_t n,
                       const int64_t *counts, sample_kind kind) {
    ids all = {0};
    int64_t count, *at = malloc((size_t)(2 * n + 1) * sizeof *at);
    if (!at) return cli_fail("%s: no memory", where), false;
    const cr_encoding how = {.all_special = true, .add_special = kind != CHAT};
    uint32_t *id = cr_tokenizer_encode_parts(r->tokenizer, text, bytes, &how, 2 * n, counts, at, &count);
    bool good = id || (cli_fail("%s: %s", where, cr_error()), false);
    int64_t done = 0;
    for (int64_t i = 0; i < 2 * n && good; i++) {
        good = ids_add(&all, id + done, at[i] - done, i % 2);
        done = at[i];
    }
    if (good) good = ids_add(&all, id + done, count - done, false);
    const bool ended = good && count && id[count - 1] == r->eos;
    if (good && kind == TEXT && r->eos >= 0 && !ended) good = ids_add(&all, &(uint32_t){(uint32_t)r->eos}, 1, true);
    good = good && finish_sample(r, s, where, &all);
    ids_free(&all);
    cr_free(id);
    free(at);
    return good;
}

/* ---- JSON lines */
/* A string that is not empty, or NULL with a message. */
static const cr_json *text_of(const cr_json *line, const char *key, const char *where) {
    const cr_json *v = cr_json_get(line, key);
    if (v && v->kind == CR_JSON_STRING && v->bytes) return v;
    if (v && v->kind == CR_JSON_STRING) cli_fail("%s: \"%s\" is empty", where, key);
    else cli_fail("%s: \"%s\" must be a string", where, key);
    return NULL;
}

/* One text after another, of which the second counts. */
static bool add_answer(const reader *r, samples *s, const char *where, const cr_json *asked, const char *between,
                       const cr_json *answer, sample_kind kind) {
    cr_out o = {0};
    cr_out_put(&o, asked->text, asked->bytes);
    cr_out_put(&o, between, strlen(between));
    cr_out_put(&o, answer->text, answer->bytes);
    const int64_t counts[] = {(int64_t)asked->bytes, (int64_t)o.bytes};
    const bool good = o.failed ? cli_fail("%s: no memory", where) == CLI_OK
                               : add_sample(r, s, where, o.text, o.bytes, 1, counts, kind);
    cr_out_free(&o);
    return good;
}

static bool read_completion(const reader *r, samples *s, const char *where, const cr_json *line) {
    const cr_json *prompt = text_of(line, "prompt", where);
    const cr_json *answer = prompt ? text_of(line, "completion", where) : NULL;
    return answer && add_answer(r, s, where, prompt, "", answer, TEXT);
}

static bool check_messages(const cr_json *list, const char *where) {
    int64_t n = 0, answers = 0;
    if (list->kind != CR_JSON_ARRAY || !list->count)
        return cli_fail("%s: \"messages\" must be an array of messages", where), false;
    for (const cr_json *v = list->first; v; v = v->next, n++) {
        const cr_json *role = cr_json_get(v, "role"), *content = cr_json_get(v, "content");
        if (!role || role->kind != CR_JSON_STRING || !content || content->kind != CR_JSON_STRING)
            return cli_fail("%s: message %lld must have strings \"role\" and \"content\"", where, (long long)n + 1),
                   false;
        if (strcmp(role->text, "assistant")) continue;
        answers++;
        if (!content->bytes) return cli_fail("%s: message %lld is an empty answer", where, (long long)n + 1), false;
    }
    return answers || (cli_fail("%s: no message has the role assistant: nothing to learn", where), false);
}

/* The line is given to the template: its messages, and what else is there, such as tools.  What follows the last answer
 * is left out. */
static bool read_chat(const reader *r, samples *s, const char *where, const cr_json *line) {
    if (!check_messages(cr_json_get(line, "messages"), where)) return false;
    if (!cr_chat_template(r->chat))
        return cli_fail("%s: the model has no chat template for \"messages\": give --template chatml, llama2, llama3, "
                        "mistral, or a file in Jinja", where), false;
    cr_out o = {0};
    cr_marks answers;
    cr_put_json(&o, line);
    char *text = o.failed ? NULL : cr_chat_answers(r->chat, o.text, o.bytes, &answers);
    const bool good = text ? add_sample(r, s, where, text, (size_t)answers.at[2 * answers.n - 1], answers.n, answers.at,
                                        CHAT)
                           : (cli_fail("%s: %s", where, o.failed ? "no memory" : cr_error()), false);
    cr_out_free(&o);
    if (text) cr_free(answers.at);
    cr_free(text);
    return good;
}

/* Which choice "answer" is: its number from 0, its letter, or its text; -1: none. */
static int64_t answer_of(const cr_json *answer, const cr_json *choices) {
    if (!answer) return -1;
    if (answer->integral && answer->integer >= 0 && answer->integer < choices->count) return answer->integer;
    if (answer->kind != CR_JSON_STRING) return -1;
    int64_t i = 0;
    for (const cr_json *c = choices->first; c; c = c->next, i++)
        if (c->kind == CR_JSON_STRING && c->bytes == answer->bytes && !memcmp(c->text, answer->text, c->bytes))
            return i;
    const int64_t letter = answer->bytes == 1 ? (answer->text[0] | 32) - 'a' : -1;
    return letter >= 0 && letter < choices->count ? letter : -1;
}

static bool read_question(const reader *r, samples *s, const char *where, const cr_json *line) {
    const cr_json *asked = text_of(line, "question", where), *choices = cr_json_get(line, "choices");
    if (!asked) return false;
    if (choices->kind != CR_JSON_ARRAY || choices->count < 2)
        return cli_fail("%s: \"choices\" must be an array of two strings or more", where), false;
    const question q = {s->n, choices->count, answer_of(cr_json_get(line, "answer"), choices)};
    if (q.answer < 0)
        return cli_fail("%s: \"answer\" must be one of the choices, its letter, or its number from 0 to %lld", where,
                        (long long)choices->count - 1), false;
    const char last = asked->text[asked->bytes - 1];
    for (const cr_json *c = choices->first; c; c = c->next) {
        if (c->kind != CR_JSON_STRING || !c->bytes) return cli_fail("%s: a choice is not a string", where), false;
        const bool space = last != ' ' && last != '\n' && c->text[0] != ' ';
        if (!add_answer(r, s, where, asked, space ? " " : "", c, CHOICE)) return false;
    }
    if (!grow(&s->asked, s->questions, &s->asked_room, 1, sizeof *s->asked)) return false;
    s->asked[s->questions++] = q;
    return true;
}

static bool read_line(const reader *r, samples *s, const char *where, const char *text, size_t n) {
    cr_json *line = cr_json_parse("data", where, text, n);
    if (!line) return cli_fail_library(), false;
    const cr_json *messages = cr_json_get(line, "messages"), *plain = cr_json_get(line, "text");
    bool good;
    if (messages) good = read_chat(r, s, where, line);
    else if (cr_json_get(line, "prompt")) good = read_completion(r, s, where, line);
    else if (r->questions && cr_json_get(line, "choices")) good = read_question(r, s, where, line);
    else if (plain) {
        plain = text_of(line, "text", where);
        good = plain && add_sample(r, s, where, plain->text, plain->bytes, 1, (int64_t[]){0, (int64_t)plain->bytes},
                                   TEXT);
    } else
        good = (cli_fail("%s: needs \"messages\", \"prompt\" and \"completion\", %s\"text\"", where,
                         r->questions ? "\"question\" and \"choices\", or " : "or "), false);
    cr_json_free(line);
    return good;
}

static bool read_lines(const reader *r, samples *s, const char *path, const cr_mapping *m) {
    bool good = true;
    int64_t number = 1;
    size_t n;
    const size_t mark = m->bytes >= 3 && !memcmp(m->data, "\xEF\xBB\xBF", 3) ? 3 : 0;       /* of byte order */
    for (size_t at = mark; at < m->bytes && good; at += n + 1, number++) {
        const char *text = (const char *)m->data + at, *newline = memchr(text, '\n', m->bytes - at);
        n = newline ? (size_t)(newline - text) : m->bytes - at;
        char where[4200];
        snprintf(where, sizeof where, "%s line %lld", path, (long long)number);
        size_t blank = 0;
        while (blank < n && (text[blank] == ' ' || text[blank] == '\r' || text[blank] == '\t')) blank++;
        if (blank < n) good = read_line(r, s, where, text, n);
    }
    return good;
}

/* ---- files */
static bool read_text(const reader *r, samples *s, const char *path, const cr_mapping *m) {
    int64_t n;
    const cr_encoding how = {.all_special = true, .add_special = true};
    uint32_t *id = cr_tokenizer_encode_special(r->tokenizer, (const char *)m->data, m->bytes, &how, &n);
    if (!id) return cli_fail("'%s': %s", path, cr_error()), false;
    ids all = {0};
    bool good = ids_add(&all, id, n, true);
    cr_free(id);
    if (good && n < 2) good = (cli_fail("'%s' has %lld tokens: nothing to predict", path, (long long)n), false);
    for (int64_t at = 0; at < n - 1 && good; at += r->context) {
        const int64_t left = n - 1 - at;
        good = add_window(r, s, &all, at, left < r->context ? left : r->context);
    }
    ids_free(&all);
    return good;
}

static bool is_lines(const char *path) {
    const size_t n = strlen(path);
    return n > 6 && !strcmp(path + n - 6, ".jsonl");
}

bool samples_read(const reader *r, const file_list *files, samples *s) {
    for (int i = 0; i < files->n; i++) {
        const char *path = files->path[i];
        cr_mapping m;
        if (cr_os_is_directory(path)) return cli_fail("'%s' is a folder: give the files in it", path), false;
        if (!cr_os_map(path, &m)) return cli_fail("cannot read '%s': %s", path, cr_os_error()), false;
        const int64_t before = s->n;
        const bool good = is_lines(path) ? read_lines(r, s, path, &m) : read_text(r, s, path, &m);
        cr_os_unmap(&m);
        if (!good) return cr_error_clear(), false;
        if (s->n == before) return cli_fail("'%s' has no samples", path), false;
    }
    return true;
}

void samples_free(samples *s) {
    free(s->token);
    free(s->target);
    free(s->of);
    free(s->asked);
    *s = (samples){0};
}

uint64_t samples_hash(const samples *s, uint64_t seed) {
    uint64_t h = 0xcbf29ce484222325u ^ seed ^ (uint64_t)s->n;      /* FNV-1a */
    for (int64_t i = 0; i < s->n; i++) h = (h ^ (uint64_t)s->of[i].length) * 0x100000001b3u;
    for (int64_t i = 0; i < s->tokens; i++)
        h = ((h ^ (uint64_t)s->token[i]) * 0x100000001b3u ^ (uint64_t)s->target[i]) * 0x100000001b3u;
    return h;
}

reader reader_of(const opened *o, int64_t context) {
    return (reader){.tokenizer = o->tokenizer, .chat = o->chat, .context = context,
                    .eos = o->ends ? (int64_t)o->end[0] : -1};
}

/* ---- packing */
static uint64_t mixed(uint64_t x) {                 /* splitmix64 (Steele, Lea, Flood 2014) */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A new order for the next epoch (Fisher and Yates). */
static bool shuffle(packer *p) {
    const int64_t n = p->s->n;
    if (!p->order && !(p->order = malloc((size_t)n * sizeof *p->order)))
        return cli_fail("no memory for %lld samples", (long long)n), false;
    const uint64_t key = mixed(mixed(p->seed) + (uint64_t)p->epoch++);
    for (int64_t i = 0; i < n; i++) p->order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(mixed(key + (uint64_t)i) % (uint64_t)(i + 1)), other = p->order[k];
        p->order[k] = p->order[i];
        p->order[i] = other;
    }
    p->at = 0;
    return true;
}

bool packing_add(packing *out, const samples *s, int64_t i) {
    const sample *it = &s->of[i];
    if (!grow_both(&out->token, &out->target, out->tokens, &out->room, it->length) ||
        !grow(&out->length, out->samples, &out->length_room, 1, sizeof *out->length))
        return false;
    memcpy(out->token + out->tokens, s->token + it->at, (size_t)it->length * sizeof *out->token);
    memcpy(out->target + out->tokens, s->target + it->at, (size_t)it->length * sizeof *out->target);
    out->tokens += it->length;
    out->length[out->samples++] = it->length;
    return true;
}

bool packer_row(packer *p, packing *out) {
    if ((!p->order || p->at == p->s->n) && !shuffle(p)) return false;
    for (int64_t used = 0; p->at < p->s->n; p->at++) {
        const int64_t i = p->order[p->at], length = p->s->of[i].length;
        if (used + length > p->context && used) break;
        if (out && !packing_add(out, p->s, i)) return false;
        used += length;
    }
    return true;
}

void packing_free(packing *p) {
    free(p->token);
    free(p->target);
    free(p->length);
    *p = (packing){0};
}

cr_samples packing_of(const packing *p) { return (cr_samples){p->token, p->target, p->samples, p->length}; }
