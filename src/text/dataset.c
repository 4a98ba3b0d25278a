/* dataset.c - samples of files for fine-tuning and evaluation: tokens, and which of them count as targets.
 * A sample's text becomes tokens as a whole; an answer's are those behind the tokens that the text up to it has too. */
#include <chainrule.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../io/file.h"
#include "../io/json.h"

static const char op[] = "dataset";

typedef struct entry { int64_t at, n, counted, bytes; } entry;
struct cr_dataset {
    uint32_t *id; bool *counts; int64_t ids, id_room, counts_room;
    entry *of; int64_t n, room;
    cr_question *asked; int64_t questions, asked_room;
};
typedef struct job { const cr_dataset_options *o; cr_dataset *d; const char *where; } job;      /* where: a line */

static bool wrong(const job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(const job *j, const char *format, ...) {
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return cr_fail(CR_BAD_VALUE, op, "%s: %s", j->where, what), false;
}

/* The pending failure is one of this line. */
static bool tell(const job *j) {
    cr_saved_error e;
    cr_error_take(&e);
    const char *end = *e.message == '[' ? strchr(e.message, ']') : NULL, *what = end && end[1] ? end + 2 : e.message;
    return cr_fail(e.status == CR_IO ? CR_BAD_VALUE : e.status, op, "%s: %s", j->where, what), false;
}

static bool grow(void *p, int64_t need, int64_t *room, size_t size) {
    return cr_grow(p, need, room, size) || (cr_no_memory(op), false);
}

/* ---- one sample: ids at the end of all, then its entry */
static bool add_ids(cr_dataset *d, const uint32_t *id, int64_t n, bool counts) {
    if (!grow(&d->id, d->ids + n, &d->id_room, sizeof *d->id) ||
        !grow(&d->counts, d->ids + n, &d->counts_room, sizeof *d->counts))
        return false;
    for (int64_t i = 0; i < n; i++, d->ids++) {
        d->id[d->ids] = id[i];
        d->counts[d->ids] = counts;
    }
    return true;
}

/* The text's bytes in a token; 0: of a special one. */
static int64_t bytes_of(const job *j, cr_decoder *decoder, uint32_t id) {
    size_t n = 0, name;
    bool special = false;
    (void)cr_decoder_next(decoder, id, &n);
    (void)cr_tokenizer_name(j->o->tokenizer, id, &name, &special);
    return special ? 0 : (int64_t)n;
}

/* The ids from `at` on are a sample. */
static bool end_sample(const job *j, int64_t at) {
    cr_dataset *d = j->d;
    cr_decoder *decoder = cr_decoder_new(j->o->tokenizer);
    if (!decoder || !grow(&d->of, d->n + 1, &d->room, sizeof *d->of)) return cr_decoder_free(decoder), false;
    entry it = {.at = at, .n = d->ids - at};
    for (int64_t i = at; i < d->ids; i++) {
        const int64_t bytes = bytes_of(j, decoder, d->id[i]);
        if (i == at || !d->counts[i]) continue;
        it.counted++;
        it.bytes += bytes;
    }
    cr_decoder_free(decoder);
    d->of[d->n++] = it;
    return true;
}

static bool check_sample(const job *j, int64_t at) {
    cr_dataset *d = j->d;
    const int64_t n = d->ids - at, most = j->o->context + 1;
    if (n < 2) return wrong(j, "the sample has %lld tokens: nothing to predict", (long long)n);
    if (n > most && !j->o->truncate)
        return wrong(j, "the sample has %lld tokens, the context takes %lld and one to predict: take a larger context, "
                        "or truncate", (long long)n, (long long)j->o->context);
    if (n > most) d->ids = at + most;
    return true;
}

/* A chat's special tokens are in its text; other texts get those that the tokenizer adds, and TEXT the end token.
 * counts: n pairs of bytes, from where to where tokens count. */
typedef enum sample_kind { CHAT, TEXT, CHOICE } sample_kind;
static bool add_sample(const job *j, const char *text, size_t bytes, int64_t n, const int64_t *counts,
                       sample_kind kind) {
    cr_dataset *d = j->d;
    int64_t count = 0, done = 0, *at = malloc((size_t)(2 * n + 1) * sizeof *at);
    if (!at) return cr_no_memory(op), false;
    const int64_t start = d->ids, eos = j->o->eos;
    const cr_encoding how = {.all_special = true, .add_special = kind != CHAT};
    uint32_t *id = cr_tokenizer_encode_parts(j->o->tokenizer, text, bytes, &how, 2 * n, counts, at, &count);
    bool good = id || tell(j);
    for (int64_t i = 0; i < 2 * n && good; i++) {
        good = add_ids(d, id + done, at[i] - done, i % 2);
        done = at[i];
    }
    if (good) good = add_ids(d, id + done, count - done, false);
    const bool ended = good && count && id[count - 1] == eos;
    if (good && kind == TEXT && eos >= 0 && !ended) good = add_ids(d, &(uint32_t){(uint32_t)eos}, 1, true);
    cr_free(id);
    free(at);
    if (!good || !check_sample(j, start) || !end_sample(j, start)) return false;
    return d->of[d->n - 1].counted ||
           wrong(j, "no token of the answer is within the context of %lld", (long long)j->o->context);
}

/* ---- JSON lines */
/* A string that is not empty, or NULL with a message. */
static const cr_json *text_of(const job *j, const cr_json *line, const char *key) {
    const cr_json *v = cr_json_text(line, key);
    if (v && v->bytes) return v;
    return wrong(j, v ? "\"%s\" is empty" : "\"%s\" must be a string", key), NULL;
}

/* One text after another, of which the second counts. */
static bool add_answer(const job *j, const cr_json *asked, const char *between, const cr_json *answer,
                       sample_kind kind) {
    cr_out o = {0};
    cr_out_put(&o, asked->text, asked->bytes);
    cr_out_put(&o, between, strlen(between));
    cr_out_put(&o, answer->text, answer->bytes);
    const int64_t counts[] = {(int64_t)asked->bytes, (int64_t)o.bytes};
    const bool good = o.failed ? (cr_no_memory(op), false) : add_sample(j, o.text, o.bytes, 1, counts, kind);
    cr_out_free(&o);
    return good;
}

static bool read_completion(const job *j, const cr_json *line) {
    const cr_json *prompt = text_of(j, line, "prompt"), *answer = prompt ? text_of(j, line, "completion") : NULL;
    return answer && add_answer(j, prompt, "", answer, TEXT);
}

static bool check_messages(const job *j, const cr_json *list) {
    long long n = 0, answers = 0;
    if (!cr_json_elements(list)) return wrong(j, "\"messages\" must be an array of messages");
    for (const cr_json *v = list->first; v; v = v->next) {
        const cr_json *role = cr_json_text(v, "role"), *content = cr_json_text(v, "content");
        n++;
        if (!role || !content) return wrong(j, "message %lld must have strings \"role\" and \"content\"", n);
        if (!cr_json_is(role, "assistant")) continue;
        answers++;
        if (!content->bytes) return wrong(j, "message %lld is an empty answer", n);
    }
    return answers || wrong(j, "no message has the role assistant: nothing to learn");
}

/* The line is given to the template: its messages, and what else is there, such as tools.  What follows the last answer
 * is left out. */
static bool read_chat(const job *j, const cr_json *line) {
    if (!check_messages(j, cr_json_get(line, "messages"))) return false;
    if (!j->o->chat) return wrong(j, "\"messages\" need a chat template");
    cr_out o = {0};
    cr_marks answers;
    cr_put_json(&o, line);
    if (o.failed) return cr_out_free(&o), cr_no_memory(op), false;
    char *text = cr_chat_answers(j->o->chat, o.text, o.bytes, &answers);
    const bool good = text ? add_sample(j, text, (size_t)answers.at[2 * answers.n - 1], answers.n, answers.at, CHAT)
                           : tell(j);
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

static bool read_question(const job *j, const cr_json *line) {
    cr_dataset *d = j->d;
    const cr_json *asked = text_of(j, line, "question"), *choices = cr_json_get(line, "choices");
    if (!asked) return false;
    if (choices->kind != CR_JSON_ARRAY || choices->count < 2)
        return wrong(j, "\"choices\" must be an array of two strings or more");
    const cr_question q = {d->n, choices->count, answer_of(cr_json_get(line, "answer"), choices)};
    if (q.answer < 0)
        return wrong(j, "\"answer\" must be one of the choices, its letter, or its number from 0 to %lld",
                     (long long)choices->count - 1);
    const char last = asked->text[asked->bytes - 1];
    for (const cr_json *c = choices->first; c; c = c->next) {
        if (c->kind != CR_JSON_STRING || !c->bytes) return wrong(j, "a choice is not a string");
        const bool space = last != ' ' && last != '\n' && c->text[0] != ' ';
        if (!add_answer(j, asked, space ? " " : "", c, CHOICE)) return false;
    }
    if (!grow(&d->asked, d->questions + 1, &d->asked_room, sizeof *d->asked)) return false;
    d->asked[d->questions++] = q;
    return true;
}

static bool read_kind(const job *j, const cr_json *line) {
    if (cr_json_get(line, "messages")) return read_chat(j, line);
    if (cr_json_get(line, "prompt")) return read_completion(j, line);
    if (j->o->questions && cr_json_get(line, "choices")) return read_question(j, line);
    if (!cr_json_get(line, "text"))
        return wrong(j, "needs \"messages\", \"prompt\" and \"completion\", %s\"text\"",
                     j->o->questions ? "\"question\" and \"choices\", or " : "or ");
    const cr_json *text = text_of(j, line, "text");
    return text && add_sample(j, text->text, text->bytes, 1, (int64_t[]){0, (int64_t)text->bytes}, TEXT);
}

static bool read_lines(const job *file, const cr_mapping *m) {
    bool good = true;
    long long number = 1;
    size_t n;
    const size_t mark = m->bytes >= 3 && !memcmp(m->data, "\xEF\xBB\xBF", 3) ? 3 : 0;       /* of byte order */
    for (size_t at = mark; at < m->bytes && good; at += n + 1, number++) {
        const char *text = (const char *)m->data + at, *newline = memchr(text, '\n', m->bytes - at);
        n = newline ? (size_t)(newline - text) : m->bytes - at;
        size_t blank = 0;
        while (blank < n && (text[blank] == ' ' || text[blank] == '\r' || text[blank] == '\t')) blank++;
        if (blank == n) continue;
        char where[200];
        snprintf(where, sizeof where, "%s line %lld", file->where, number);
        const job j = {file->o, file->d, where};
        cr_json *line = cr_json_parse(op, where, text, n);
        good = line ? read_kind(&j, line) : tell(&j);
        cr_json_free(line);
    }
    return good;
}

/* ---- files */
/* Windows of the context; each but the last shares a token with the next. */
static bool read_text(const job *j, const cr_mapping *m) {
    int64_t n, left;
    const int64_t context = j->o->context;
    const cr_encoding how = {.all_special = true, .add_special = true};
    uint32_t *id = cr_tokenizer_encode_special(j->o->tokenizer, (const char *)m->data, m->bytes, &how, &n);
    if (!id) return tell(j);
    bool good = n >= 2 || wrong(j, "there are %lld tokens: nothing to predict", (long long)n);
    for (int64_t at = 0; (left = n - 1 - at) > 0 && good; at += context) {
        const int64_t start = j->d->ids;
        good = add_ids(j->d, id + at, (left < context ? left : context) + 1, true) && end_sample(j, start);
    }
    cr_free(id);
    return good;
}

static bool read_file(const cr_dataset_options *o, cr_dataset *d, const char *path) {
    enum { ROOM = 150 };                            /* of a message, for the end of a path */
    const size_t n = strlen(path);
    const int64_t before = d->n;
    const char *end = n > ROOM ? path + n - ROOM : path;
    while ((*end & 0xc0) == 0x80) end++;            /* in a character */
    const job j = {o, d, end};
    cr_mapping m;
    if (cr_os_is_directory(path)) return cr_fail(CR_IO, op, "'%s' is a folder: give the files in it", path), false;
    if (cr_file_map(op, path, false, &m) != CR_OK) return false;
    const bool good = n > 6 && !strcmp(path + n - 6, ".jsonl") ? read_lines(&j, &m) : read_text(&j, &m);
    cr_os_unmap(&m);
    return good && (d->n > before || (cr_fail(CR_BAD_VALUE, op, "'%s' has no samples", end), false));
}

cr_dataset *cr_dataset_read(const cr_dataset_options *o, int n, const char *const *paths) {
    if (cr_lacks(op, "the options", o) || cr_lacks(op, "the tokenizer", o->tokenizer)) return NULL;
    if (o->context < 1) return cr_fail(CR_BAD_VALUE, op, "the context is %lld", (long long)o->context), NULL;
    cr_dataset *d = calloc(1, sizeof *d);
    if (!d) return cr_no_memory(op), NULL;
    for (int i = 0; i < n; i++) {
        if (!read_file(o, d, paths[i])) return cr_dataset_free(d), NULL;
    }
    return d;
}

void cr_dataset_free(cr_dataset *d) {
    if (!d) return;
    free(d->id);
    free(d->counts);
    free(d->of);
    free(d->asked);
    free(d);
}

int64_t cr_dataset_count(const cr_dataset *d) { return d->n; }
int64_t cr_dataset_questions(const cr_dataset *d) { return d->questions; }
cr_question cr_dataset_question(const cr_dataset *d, int64_t i) { return d->asked[i]; }

cr_example cr_dataset_at(const cr_dataset *d, int64_t i) {
    const entry *it = &d->of[i];
    return (cr_example){d->id + it->at, d->counts + it->at, it->n, it->counted, it->bytes};
}

/* ---- how good a model is */
/* The likeliest choice; by_length: of the bytes' mean. */
static int64_t chosen(const cr_dataset *d, const cr_question *q, const double *loss, bool by_length) {
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < q->choices; i++) {
        const int64_t bytes = d->of[q->first + i].bytes;
        const double one = loss[q->first + i] / (by_length && bytes ? (double)bytes : 1);
        if (one < least) { least = one; best = i; }
    }
    return best;
}

static double part(double a, int64_t n) { return n ? a / (double)n : NAN; }

cr_score cr_dataset_score(const cr_dataset *d, const double *loss) {
    cr_score r = {.questions = d->questions};
    int64_t right = 0, right_by_length = 0;
    double sum = 0;
    for (int64_t i = 0, q = 0; i < d->n;) {
        const cr_question *asked = q < d->questions ? &d->asked[q] : NULL;
        if (asked && asked->first == i) {
            right += chosen(d, asked, loss, false) == asked->answer;
            right_by_length += chosen(d, asked, loss, true) == asked->answer;
            i += asked->choices;
            q++;
            continue;
        }
        r.samples++;
        r.tokens += d->of[i].counted;
        r.bytes += d->of[i].bytes;
        sum += loss[i++];
    }
    r.loss = part(sum, r.tokens);
    r.perplexity = exp(r.loss);
    r.bits_per_byte = part(sum / log(2), r.bytes);
    r.accuracy = part((double)right, r.questions);
    r.accuracy_by_length = part((double)right_by_length, r.questions);
    return r;
}
