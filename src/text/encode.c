/* encode.c - from text to ids: added tokens, normalizers, splits, model.
 *
 * A long text is cut for several threads at any character.  The next piece depends only on the place where it begins,
 * so each thread divides its part from the cut on and notes where its first pieces begin.  Then the thread before goes
 * on into that part until it comes to a place that is among them: from there on both would find the same pieces. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../core/utf8.h"
#include "pipeline.h"

enum { PART = 1 << 18, STARTS = 1 << 12, MOST_THREADS = 64 };

/* ---- workspaces ---- */
void cr_workspace_free(cr_workspace *w) {
    for (size_t i = 0; i < sizeof w->text / sizeof *w->text; i++) cr_out_free(&w->text[i]);
    cr_regex_room_free(w->regex);
    free(w->cache);
    free(w->symbols);
    free(w);
}

cr_workspace *cr_workspace_take(cr_pipeline *p) {
    cr_word_lock(&p->lock);
    cr_workspace *w = p->idle;
    if (w) p->idle = w->next;
    cr_word_unlock(&p->lock);
    if (w) return w->wrong = NULL, w;
    w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->cache = cr_pieces_new();
    w->regex = p->expressions ? cr_regex_room_new() : NULL;
    if (w->cache && (w->regex || !p->expressions)) return w;
    cr_workspace_free(w);
    return NULL;
}

void cr_workspace_give(cr_pipeline *p, cr_workspace *w) {
    cr_word_lock(&p->lock);
    w->next = p->idle;
    p->idle = w;
    cr_word_unlock(&p->lock);
}

/* ---- one text ---- */
typedef struct job {
    cr_pipeline *p;
    cr_workspace *w;
    const char *op;
    const cr_encoding *o;
    cr_ids *out;
    int64_t last;                                   /* where the ids of the last piece start in out */
    int threads;
    bool main;                                      /* runs on the caller's thread, which may be interrupted */
    atomic_bool *stop;
    int64_t pieces;
} job;

static bool refuse_text(job *j, const char *why) {
    if (!j->w->wrong) j->w->wrong = why;
    return false;
}

/* ---- splits ---- */
typedef struct cursor {
    size_t at;
    bool known, none;                               /* the next match from `at` on is known; there is none */
    size_t start, end;
} cursor;
typedef struct range { size_t start, end; bool match; } range;

/* The next match that is not empty, or an empty one behind `from`.  1: found, 0: none, -1: failed. */
static int find_match(const cr_step *step, job *j, const char *s, size_t n, size_t from, size_t *start, size_t *end) {
    if (!step->regex) {
        *start = cr_literal_find(step->literal, step->literal_bytes, s, n, from);
        *end = *start + step->literal_bytes;
        return *start < n;
    }
    for (size_t at = from;;) {
        const int found = cr_regex_find(step->regex, j->w->regex, s, n, at, start, end);
        if (found < 1 || *end > *start || *start > from) return found;
        do at++;
        while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80);
        if (at > n) return 0;
    }
}

/* The next match or what is before it; false: the end, or a failure. */
static bool next_range(const cr_step *step, job *j, const char *s, size_t n, cursor *c, range *r) {
    if (c->at >= n) return false;
    if (!c->known) {
        const int found = find_match(step, j, s, n, c->at, &c->start, &c->end);
        if (found < 0) return refuse_text(j, "a regular expression of a pre-tokenizer exceeds PCRE2's limits");
        c->none = !found || c->start >= n;
        c->known = true;
    }
    const bool match = !c->none && c->start == c->at;
    *r = (range){c->at, c->none ? n : match ? c->end : c->start, match != step->invert};
    c->at = r->end;
    c->known = !match && (c->none || c->end > c->start);
    return true;
}

/* The next piece: a function of c->at, whatever came before. */
static bool next_piece(const cr_step *step, job *j, const char *s, size_t n, cursor *c, range *r) {
    range then;
    if (step->kind == CR_STEP_WORDS) {
        size_t at = c->at;
        if (at >= n) return false;
        while (n - at >= step->literal_bytes && !memcmp(s + at, step->literal, step->literal_bytes))
            at += step->literal_bytes;
        *r = (range){c->at, cr_literal_find(step->literal, step->literal_bytes, s, n, at), false};
        c->at = r->end;
        return true;
    }
    do
        if (!next_range(step, j, s, n, c, r)) return false;
    while (step->behaviour == CR_SPLIT_REMOVED && r->match);
    switch (step->behaviour) {
    case CR_SPLIT_ISOLATED:
    case CR_SPLIT_REMOVED: return true;
    case CR_SPLIT_CONTIGUOUS:
        /* between two ranges without a match is an empty match, which divides them */
        if (r->match == step->invert) return true;
        for (cursor ahead = *c; next_range(step, j, s, n, &ahead, &then) && then.match == r->match; *c = ahead)
            r->end = then.end;
        break;
    case CR_SPLIT_WITH_PREVIOUS:
    case CR_SPLIT_WITH_NEXT: {
        cursor ahead = *c;
        if (r->match != (step->behaviour == CR_SPLIT_WITH_NEXT)) return true;
        if (next_range(step, j, s, n, &ahead, &then) && then.match != r->match) r->end = then.end, *c = ahead;
        break;
    }
    }
    return !j->w->wrong;
}

/* Text that a step changes, in place of s. */
static bool change_text(const cr_step *step, job *j, int k, bool first, const char **s, size_t *n) {
    cr_out *to = &j->w->text[k];
    to->bytes = 0;
    if (step->kind == CR_STEP_PREFIX) {
        if (*n && **s == ' ') return true;
        cr_out_put(to, " ", 1);
        cr_out_put(to, *s, *n);
    } else {
        const bool has = (*n && **s == ' ') || (*n >= step->literal_bytes && !memcmp(*s, step->literal,
            step->literal_bytes));
        if (!has && (step->prepend == CR_PREPEND_ALWAYS || (step->prepend == CR_PREPEND_FIRST && first)))
            cr_out_put(to, step->literal, step->literal_bytes);
        for (size_t at = 0, end; at < *n; at = end + 1) {
            const char *space = memchr(*s + at, ' ', *n - at);
            end = space ? (size_t)(space - *s) : *n;
            cr_out_put(to, *s + at, end - at);
            if (space) cr_out_put(to, step->literal, step->literal_bytes);
        }
    }
    if (to->failed) return refuse_text(j, "no memory");
    *s = to->text;
    *n = to->bytes;
    return true;
}

/* Every 4096 pieces: may it go on? */
static bool goes_on(job *j) {
    if (++j->pieces % 4096) return true;
    if (j->main && cr_check_interrupt(j->op)) atomic_store(j->stop, true);
    return !atomic_load_explicit(j->stop, memory_order_relaxed) || refuse_text(j, "interrupted");
}

static bool encode_from(job *j, int k, const char *s, size_t n, bool first) {
    while (k < j->p->n_steps && (j->p->step[k].kind == CR_STEP_PREFIX || j->p->step[k].kind == CR_STEP_METASPACE))
        if (!change_text(&j->p->step[k], j, k, first, &s, &n)) return false;
        else k++;
    if (k == j->p->n_steps) {
        j->last = j->out->n;
        return cr_model_encode(&j->p->model, j->w, s, n, j->out) || refuse_text(j, "no memory");
    }
    cursor c = {0};
    range r;
    while (next_piece(&j->p->step[k], j, s, n, &c, &r))
        if (!goes_on(j) || !encode_from(j, k + 1, s + r.start, r.end - r.start, first && !r.start)) return false;
    return !j->w->wrong;
}

/* ---- several threads ---- */
typedef struct part {
    job j;
    cr_ids ids;
    const char *s; size_t n;
    int step;
    bool first;
    size_t from, until, stop;
    /* where pieces start, and their ids in ids */
    int64_t n_starts; size_t start[STARTS]; int64_t index[STARTS];
} part;

static bool encode_part(part *x) {
    cursor c = {.at = x->from};
    range r;
    bool ok = true;
    while (ok && (x->stop = c.at) < x->until) {
        if (x->n_starts < STARTS) {
            x->start[x->n_starts] = c.at;
            x->index[x->n_starts++] = x->ids.n;
        }
        if (!next_piece(&x->j.p->step[x->step], &x->j, x->s, x->n, &c, &r)) break;
        ok = goes_on(&x->j) &&
             encode_from(&x->j, x->step + 1, x->s + r.start, r.end - r.start, x->first && !r.start);
    }
    return ok && !x->j.w->wrong;
}

static void run_part(void *arg) { encode_part(arg); }

static int64_t find_start(const part *x, size_t at) {                      /* -1: none */
    int64_t low = 0, high = x->n_starts;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (x->start[middle] < at) low = middle + 1;
        else high = middle;
    }
    return low < x->n_starts && x->start[low] == at ? low : -1;
}

/* Appends the ids of a part to those that end at *at, from the first common start on. */
static bool join_part(job *j, part *x, size_t *at) {
    cursor c = {.at = *at};
    range r;
    int64_t common = -1;
    while (c.at < x->until && (common = find_start(x, c.at)) < 0) {
        if (!next_piece(&j->p->step[x->step], j, x->s, x->n, &c, &r)) break;
        if (!goes_on(j) || !encode_from(j, x->step + 1, x->s + r.start, r.end - r.start, false)) return false;
    }
    *at = c.at;
    if (j->w->wrong) return false;
    if (common < 0) return true;
    const int64_t skipped = x->index[common];
    if (x->ids.n > skipped) j->last = j->out->n + (x->j.last - skipped);
    *at = x->stop;
    return cr_ids_append(j->out, x->ids.at + skipped, x->ids.n - skipped) || refuse_text(j, "no memory");
}

static bool encode_parts(job *j, int parts, int step, const char *s, size_t n, bool first) {
    part *x = calloc((size_t)parts, sizeof *x);
    cr_thread *thread[MOST_THREADS] = {NULL};
    if (!x) return refuse_text(j, "no memory");
    bool ok = true;
    for (int i = 0; i < parts && ok; i++) {
        part *q = &x[i];
        q->s = s; q->n = n; q->step = step; q->first = first;
        q->from = n / (size_t)parts * (size_t)i;
        while (i && ((unsigned char)s[q->from] & 0xC0) == 0x80) q->from++;
        if (i) x[i - 1].until = q->from;
        q->until = n;
        q->j = *j;
        q->j.out = &q->ids;
        q->j.main = !i;
        q->j.w = i ? cr_workspace_take(j->p) : j->w;
        ok = q->j.w != NULL;
    }
    for (int i = 1; ok && i < parts; i++) thread[i] = cr_thread_start(run_part, &x[i]);
    if (ok) encode_part(&x[0]);
    for (int i = 1; i < parts; i++) {
        if (thread[i]) cr_thread_join(thread[i]);
        else if (ok) encode_part(&x[i]);            /* no thread could be made */
    }
    if (!ok) refuse_text(j, "no memory");
    for (int i = 0; i < parts; i++) if (x[i].j.w && x[i].j.w->wrong) refuse_text(j, x[i].j.w->wrong);
    size_t at = 0;
    for (int i = 0; i < parts && !j->w->wrong; i++) join_part(j, &x[i], &at);
    for (int i = 0; i < parts; i++) {
        if (i && x[i].j.w) cr_workspace_give(j->p, x[i].j.w);
        free(x[i].ids.at);
    }
    free(x);
    return !j->w->wrong;
}

/* A normalized text between added tokens. */
static bool encode_between(job *j, const char *s, size_t n, bool first) {
    int k = 0;
    const size_t most = n / PART;
    const int parts = most < (size_t)j->threads ? (int)most : j->threads;
    if (!n) return true;
    if (parts < 2) return encode_from(j, 0, s, n, first);
    while (k < j->p->n_steps && (j->p->step[k].kind == CR_STEP_PREFIX || j->p->step[k].kind == CR_STEP_METASPACE))
        if (!change_text(&j->p->step[k], j, k, first, &s, &n)) return false;
        else k++;
    return k < j->p->n_steps ? encode_parts(j, parts, k, s, n, first) : encode_from(j, k, s, n, first);
}

/* ---- added tokens ---- */
static bool is_allowed(const job *j, const cr_added *a) {
    if (!a->special || j->o->all_special) return true;
    for (int64_t i = 0; i < j->o->n_special; i++) if (j->o->special[i] == a->id) return true;
    return false;
}

/* The first one in s from `from` on, the longest at its place, allowed or not; NULL: none. */
static const cr_added *find_added(const job *j, bool normalized, const bool begins[256], const char *s, size_t n,
                                  size_t from, size_t *at) {
    const cr_pipeline *p = j->p;
    for (*at = from; *at < n; ++*at) {
        const unsigned char c = (unsigned char)s[*at];
        if (!begins[c]) continue;
        for (int64_t i = p->first_added[c]; i < p->first_added[c + 1]; i++) {
            const cr_added *a = &p->added[i];
            if (a->normalized == normalized && a->bytes <= n - *at && !memcmp(s + *at, a->text, a->bytes)) return a;
        }
    }
    return NULL;
}

static bool is_word(const job *j, const char *s, size_t n) {
    size_t start, end;
    return cr_regex_find(j->p->word, j->w->regex, s, n, 0, &start, &end) == 1;
}

/* Does s[at, end) end at other characters than those of words? */
static bool stands_alone(const job *j, const char *s, size_t n, size_t at, size_t end) {
    size_t before = at, after = end;
    if (before) do before--; while (before && ((unsigned char)s[before] & 0xC0) == 0x80);
    if (after < n) do after++; while (after < n && ((unsigned char)s[after] & 0xC0) == 0x80);
    return !(at && is_word(j, s + before, at - before)) && !(end < n && is_word(j, s + end, after - end));
}

static bool encode_text(job *j, bool normalized, const char *s, size_t n, bool first);

/* Between added tokens: the normalizers and then the tokens of normalized text, or the pieces. */
static bool encode_rest(job *j, bool normalized, const char *s, size_t n, bool first) {
    if (!n) return true;
    if (normalized) return encode_between(j, s, n, first);
    if (!cr_normalize(j->p, j->w, &s, &n)) return false;
    return encode_text(j, true, s, n, first);
}

/* As in tokenizers, a token that is not allowed, or no single word, hides those that begin inside of it. */
static bool encode_text(job *j, bool normalized, const char *s, size_t n, bool first) {
    bool begins[256] = {false}, any = false;
    for (int64_t i = 0; i < j->p->n_added; i++) {
        const cr_added *a = &j->p->added[i];
        if (a->normalized != normalized) continue;
        begins[(unsigned char)a->text[0]] = true;
        any |= is_allowed(j, a);
    }
    size_t kept = 0, at;
    const cr_added *a;
    for (size_t from = 0; any && (a = find_added(j, normalized, begins, s, n, from, &at));) {
        size_t end = from = at + a->bytes, space;
        if (!is_allowed(j, a) || (a->single_word && !stands_alone(j, s, n, at, end))) continue;
        while (a->rstrip && (space = cr_space_at(s + end, n - end))) end += space;
        if (a->lstrip && end <= kept) continue;     /* the token before took it as a space */
        if (at < kept) at = kept;                   /* the spaces of the token before reach into this one */
        while (a->lstrip && at > kept && (space = cr_space_before(s + kept, at - kept))) at -= space;
        if (!encode_rest(j, normalized, s + kept, at - kept, first && !kept)) return false;
        if (!cr_ids_put(j->out, a->id)) return refuse_text(j, "no memory");
        j->last = j->out->n;
        if (end > kept) kept = end;
    }
    return encode_rest(j, normalized, s + kept, n - kept, first && !kept);
}

/* ---- invalid UTF-8 ---- */
static bool all_space(const cr_pipeline *p, uint32_t id) {
    const cr_decoding *d = &p->decoding;
    for (int64_t i = 0; i < p->n_added; i++) if (p->added[i].id == id) return false;
    for (uint32_t at = d->at[id]; at < d->at[id + 1]; at++) {
        const char c = d->blob.text[at];
        if (c != ' ' && c != '\n' && c != '\t') return false;
    }
    return true;
}

/* tiktoken's rule: from the last piece before the first invalid byte on, all bytes are one piece. */
static bool encode_invalid(job *j, const char *s, size_t n) {
    const cr_decoding *d = &j->p->decoding;
    cr_out *rest = &j->w->text[CR_STEPS + 2];
    int64_t last = j->last < j->out->n ? j->last : j->out->n;
    if (last < j->out->n && all_space(j->p, j->out->at[last]))
        while (last && all_space(j->p, j->out->at[last - 1])) last--;
    rest->bytes = 0;
    for (int64_t i = last; i < j->out->n; i++) {
        const uint32_t id = j->out->at[i];
        cr_out_put(rest, d->blob.text + d->at[id], d->at[id + 1] - d->at[id]);
    }
    cr_out_put(rest, s, n);
    j->out->n = last;
    return (!rest->failed && cr_model_encode(&j->p->model, j->w, rest->text, rest->bytes, j->out)) || refuse_text(j,
        "no memory");
}

/* Other models than those of bytes: U+FFFD for each invalid byte. */
static bool make_valid(job *j, const char **s, size_t *n) {
    cr_out *to = &j->w->text[CR_STEPS + 2];
    to->bytes = 0;
    for (size_t at = 0; at < *n;) {
        const size_t valid = cr_utf8_valid(*s + at, *n - at);
        cr_out_put(to, *s + at, valid);
        at += valid;
        if (at < *n) cr_out_put(to, "\xEF\xBF\xBD", 3), at++;
    }
    if (to->failed) return refuse_text(j, "no memory");
    *s = to->text;
    *n = to->bytes;
    return true;
}

static bool encode_all(job *j, const char *s, size_t n) {
    size_t valid = cr_utf8_valid(s, n);
    if (valid < n && !j->p->model.byte_level) {
        if (!make_valid(j, &s, &n)) return false;
        valid = n;
    }
    return encode_text(j, false, s, valid, true) && (valid == n || encode_invalid(j, s + valid, n - valid));
}

int64_t cr_pipeline_behind(const cr_pipeline *p) { return p->after.n; }

bool cr_pipeline_encode(cr_pipeline *p, const char *op, const char *text, size_t bytes, const cr_encoding *o,
                        int threads,
                        cr_ids *out) {
    atomic_bool stop = false;
    job j = {.p = p, .op = op, .o = o, .out = out, .threads = threads < MOST_THREADS ? threads : MOST_THREADS,
             .main = threads > 0, .stop = &stop, .w = cr_workspace_take(p)};
    if (!j.w) return cr_fail(CR_NO_MEMORY, op, "no memory for a text of %zu bytes", bytes), false;
    bool ok = !o->add_special || cr_ids_append(out, p->before.at, p->before.n);
    j.last = out->n;
    ok = ok && encode_all(&j, text ? text : "", bytes);
    ok = ok && (!o->add_special || cr_ids_append(out, p->after.at, p->after.n));
    const char *why = ok ? NULL : j.w->wrong ? j.w->wrong : "no memory";
    cr_workspace_give(p, j.w);
    if (why) cr_fail(strcmp(why, "no memory") ? CR_RUNTIME : CR_NO_MEMORY, op, "a text of %zu bytes: %s", bytes, why);
    return !why;
}
