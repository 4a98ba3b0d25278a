/* gguf.c - a tokenizer as the entries of a GGUF file that llama.cpp reads, and back.
 * llama.cpp runs two kinds that fit the models here: byte-level BPE ("gpt2"), whose splits it knows by a name, and
 * SentencePiece's BPE ("llama"), which merges by the score of the token that results.  Any other tokenizer is
 * refused, because llama.cpp would read the same text as other tokens. */
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../io/folder.h"
#include "../io/gguf.h"
#include "../core/utf8.h"
#include "pipeline.h"
#include "tokenizer.h"

static const char op[] = "tokenizer_gguf", metaspace[] = "\xE2\x96\x81";   /* U+2581 */

typedef struct vocabulary {
    /* rank: of the merges that make it */
    struct { const char *text; size_t bytes; int kind; int64_t rank; } *token;
    int64_t n;
} vocabulary;

static bool type_is(const cr_json *v, const char *type) { return cr_json_is(cr_json_get(v, "type"), type); }

static cr_status refuse_tokenizer(const char *why) {
    return cr_fail(CR_BAD_VALUE, op, "llama.cpp has no tokenizer like this one: %s", why);
}

/* ---- the vocabulary ---- */
static void put_token(vocabulary *v, int64_t id, const char *text, size_t bytes, int kind) {
    if (id < 0 || id >= v->n) return;               /* the pipeline has checked ids */
    v->token[id].text = text;
    v->token[id].bytes = bytes;
    v->token[id].kind = kind;
}

static void put_vocabulary(vocabulary *v, const cr_pipeline *p, const cr_json *root) {
    const cr_json *model = cr_json_get(root, "model"), *words = cr_json_get(model, "vocab"),
                  *added = cr_json_get(root, "added_tokens");
    for (const cr_json *w = words->first; w; w = w->next)
        put_token(v, w->integer, w->key, w->key_bytes, CR_PIECE_NORMAL);
    for (int i = 0; i < 256 && !p->model.byte_level; i++)
        if (p->model.byte_id[i] < v->n) v->token[p->model.byte_id[i]].kind = CR_PIECE_BYTE;
    for (const cr_json *a = added ? added->first : NULL; a; a = a->next) {
        const cr_json *id = cr_json_get(a, "id"), *text = cr_json_get(a, "content");
        const int kind = cr_json_flag(a, "special", false) ? CR_PIECE_CONTROL : CR_PIECE_USER_DEFINED;
        if (id && text) put_token(v, id->integer, text->text, text->bytes, kind);
    }
    if (p->model.unk < v->n && !p->model.byte_level) v->token[p->model.unk].kind = CR_PIECE_UNKNOWN;
}

static void put_merges(cr_out *o, const cr_json *merges) {
    cr_out_format(o, ", \"tokenizer.ggml.merges\": [");
    for (const cr_json *m = merges ? merges->first : NULL; m; m = m->next) {
        cr_out both = {0};
        const char *side[2];
        size_t bytes[2];
        if (!cr_merge_sides(m, side, bytes)) continue;
        cr_out_put(&both, side[0], bytes[0]);
        cr_out_put(&both, " ", 1);
        cr_out_put(&both, side[1], bytes[1]);
        if (m != merges->first) cr_out_put(o, ", ", 2);
        cr_out_string(o, both.text ? both.text : "", both.bytes);
        o->failed |= both.failed;
        cr_out_free(&both);
    }
    cr_out_put(o, "]", 1);
}

/* Tokens of the model's vocabulary; numbers that the tokenizer lacks get a name, since llama.cpp wants one. */
static void put_tokens(cr_out *o, const vocabulary *v, int64_t size) {
    cr_out_format(o, ", \"tokenizer.ggml.tokens\": [");
    for (int64_t i = 0; i < size; i++) {
        char hole[40];
        if (i) cr_out_put(o, ", ", 2);
        const bool named = i < v->n && v->token[i].text;
        const int n = named ? 0 : snprintf(hole, sizeof hole, "[PAD%lld]", (long long)i);
        cr_out_string(o, named ? v->token[i].text : hole, named ? v->token[i].bytes : (size_t)n);
    }
    cr_out_format(o, "], \"tokenizer.ggml.token_type\": [");
    for (int64_t i = 0; i < size; i++)
        cr_out_format(o, "%s%d", i ? ", " : "", i < v->n && v->token[i].text ? v->token[i].kind : CR_PIECE_UNUSED);
    cr_out_put(o, "]", 1);
}

/* ---- byte-level BPE ---- */
/* Appends the expression of a pre-tokenizer that isolates its matches; false: another one. */
static bool put_pattern(const cr_json *step, const char *pattern[CR_SPLITS], int *n) {
    const cr_json *text = cr_json_get(cr_json_get(step, "pattern"), "Regex");
    const char *own = NULL;
    if (type_is(step, "Split") && cr_json_is(cr_json_get(step, "behavior"), "Isolated") &&
        !cr_json_flag(step, "invert", false))
        own = text && text->kind == CR_JSON_STRING ? text->text : NULL;
    else if (type_is(step, "Digits") && cr_json_flag(step, "individual_digits", false)) own = "\\p{N}";
    else if (type_is(step, "ByteLevel") && cr_json_flag(step, "use_regex", true)) own = cr_splitter_gpt2;
    if (!own || *n == CR_SPLITS) return false;
    pattern[(*n)++] = own;
    return true;
}

/* The splits of a byte-level BPE; NULL: llama.cpp has no name for them. */
static const cr_named_splits *splits_of(const cr_json *root) {
    const cr_json *step = cr_json_get(root, "pre_tokenizer"), *parts = cr_json_get(step, "pretokenizers");
    const char *pattern[CR_SPLITS] = {NULL};
    int n = 0;
    if (type_is(step, "Sequence")) step = parts ? parts->first : NULL;
    else parts = NULL;
    for (; parts && step && step->next; step = step->next) if (!put_pattern(step, pattern, &n)) return NULL;
    if (!type_is(step, "ByteLevel") || cr_json_flag(step, "add_prefix_space", true)) return NULL;
    if (cr_json_flag(step, "use_regex", true) && !put_pattern(step, pattern, &n)) return NULL;
    return cr_named_splits_of(pattern, cr_json_flag(cr_json_get(root, "model"), "ignore_merges", false));
}

static cr_status put_byte_level(cr_out *o, const cr_pipeline *p, const cr_json *root) {
    const cr_named_splits *splits = splits_of(root);
    if (!splits) return refuse_tokenizer("it splits text in a way that has no name there (tokenizer.ggml.pre)");
    for (int i = 0; i < p->n_norms; i++)            /* llama.cpp leaves out NFC, which changes few texts */
        if (p->norm[i].kind != CR_NORM_FORM || p->norm[i].form != CR_NFC)
            return refuse_tokenizer("it changes text before it splits it (\"normalizer\")");
    cr_out_format(o, "\"tokenizer.ggml.model\": \"gpt2\", \"tokenizer.ggml.pre\": \"%.*s\"",
                  (int)strcspn(splits->names, " "), splits->names);
    put_merges(o, cr_json_get(cr_json_get(root, "model"), "merges"));
    return CR_OK;
}

/* ---- SentencePiece's BPE ---- */
/* Spaces become U+2581, one may be put in front, and nothing is split. */
static bool is_spaced_as_sentencepiece(const cr_pipeline *p, bool *prefix) {
    bool spaces = false;
    *prefix = false;
    for (int i = 0; i < p->n_norms; i++) {
        const cr_normalizer *m = &p->norm[i];
        const bool mark = m->content_bytes == 3 && !memcmp(m->content, metaspace, 3);
        if (m->kind == CR_NORM_PREPEND && mark) *prefix = true;
        else if (m->kind == CR_NORM_REPLACE && mark && m->literal && m->literal_bytes == 1 && *m->literal == ' ')
            spaces = true;
        else return false;
    }
    for (int i = 0; i < p->n_steps; i++) {
        const cr_step *s = &p->step[i];
        if (s->kind == CR_STEP_WORDS) continue;     /* cuts where no merge crosses */
        if (s->kind != CR_STEP_METASPACE || strcmp(s->literal, metaspace)) return false;
        spaces = true;
        *prefix |= s->prepend != CR_PREPEND_NEVER;
    }
    return spaces;
}

/* Ranks of tokens by the merges that make them, one token after the other; false: a token's merges are apart. */
static bool rank_tokens(vocabulary *v, const cr_pipeline *p, const cr_json *merges) {
    int64_t rank = 0, last = -1;
    for (const cr_json *m = merges ? merges->first : NULL; m; m = m->next) {
        const char *side[2];
        size_t bytes[2];
        uint32_t id;
        if (!cr_merge_sides(m, side, bytes)) return false;
        const uint32_t l = cr_words_find(&p->model.words, side[0], bytes[0]),
                       r = cr_words_find(&p->model.words, side[1], bytes[1]);
        if (l == CR_NO_ID || r == CR_NO_ID || cr_merge_find(&p->model, l, r, &id) == CR_NO_ID || id >= v->n)
            return false;
        if ((int64_t)id == last) continue;
        if (v->token[id].rank) return false;
        v->token[id].rank = ++rank;
        last = id;
    }
    return true;
}

/* llama.cpp merges any two tokens whose text together is a token: are these the merges? */
static bool merges_by_text(const vocabulary *v, const cr_pipeline *p) {
    for (int64_t id = 0; id < v->n; id++) {
        const char *s = v->token[id].text;
        if (!s || v->token[id].kind != CR_PIECE_NORMAL) continue;
        for (size_t cut = 1; cut < v->token[id].bytes; cut++) {
            if (((unsigned char)s[cut] & 0xC0) == 0x80) continue;
            const uint32_t l = cr_words_find(&p->model.words, s, cut),
                           r = cr_words_find(&p->model.words, s + cut, v->token[id].bytes - cut);
            uint32_t made;
            if (l >= v->n || r >= v->n || v->token[l].kind != CR_PIECE_NORMAL || v->token[r].kind != CR_PIECE_NORMAL)
                continue;
            if (cr_merge_find(&p->model, l, r, &made) == CR_NO_ID) return false;
        }
    }
    return true;
}

static cr_status put_sentencepiece(cr_out *o, const cr_pipeline *p, const cr_json *root, vocabulary *v, int64_t size) {
    bool prefix, bytes = p->model.byte_fallback;
    for (int i = 0; i < 256; i++) bytes &= p->model.byte_id[i] != CR_NO_ID;
    if (!bytes) return refuse_tokenizer("it is not a byte-level BPE and has no token for each byte");
    if (!is_spaced_as_sentencepiece(p, &prefix))
        return refuse_tokenizer("it does not write spaces as SentencePiece does");
    if (!rank_tokens(v, p, cr_json_get(cr_json_get(root, "model"), "merges")) || !merges_by_text(v, p))
        return refuse_tokenizer("its merges do not follow from an order of its tokens");
    cr_out_format(o, "\"tokenizer.ggml.model\": \"llama\", \"tokenizer.ggml.pre\": \"default\", "
                     "\"tokenizer.ggml.add_space_prefix\": %s, \"tokenizer.ggml.scores\": [",
                  prefix ? "true" : "false");
    for (int64_t i = 0; i < size; i++)
        cr_out_format(o, "%s-%lld.0", i ? ", " : "", i < v->n ? (long long)v->token[i].rank : 0LL);
    cr_out_put(o, "]", 1);
    return CR_OK;
}

/* ---- what the folder says: special tokens and the template of conversations ---- */
typedef struct files { cr_json *tokenizer, *model; } files;

static cr_status read_beside(const char *folder, const char *name, cr_json **out) {
    cr_path at;
    *out = NULL;
    if (!folder || cr_join(op, folder, name, &at)) return folder ? cr_error_status() : CR_OK;
    return cr_json_find(op, at.s, out);
}

/* The id of a special token: by its name in tokenizer_config.json, or its number in config.json; -1: none. */
static int64_t special_id(const files *f, const cr_tokenizer *t, const char *role) {
    char key[64];
    const cr_json *name = cr_json_get(f->tokenizer, role);
    if (name && name->kind == CR_JSON_OBJECT) name = cr_json_get(name, "content");
    const int64_t named = name && name->kind == CR_JSON_STRING ? cr_tokenizer_find(t, name->text, name->bytes) : -1;
    if (named >= 0) return named;
    snprintf(key, sizeof key, "%s_id", role);
    const cr_json *id = cr_json_get(f->model, key);
    if (id && id->kind == CR_JSON_ARRAY) id = id->first;
    return id && id->kind == CR_JSON_NUMBER && id->integral && id->integer >= 0 ? id->integer : -1;
}

static void put_template(cr_out *o, const char *folder, const files *f) {
    cr_path at;
    cr_mapping m;
    const cr_json *said = cr_json_get(f->tokenizer, "chat_template");
    for (const cr_json *v = cr_json_elements(said); v; v = v->next)
        if (cr_json_is(cr_json_get(v, "name"), "default")) said = cr_json_get(v, "template");
    if (folder && !cr_join(op, folder, "chat_template.jinja", &at) && cr_os_exists(at.s) && cr_os_map(at.s, &m)) {
        if (cr_utf8_valid((const char *)m.data, m.bytes) == m.bytes) {
            cr_out_format(o, ", \"tokenizer.chat_template\": ");
            cr_out_string(o, (const char *)m.data, m.bytes);
        }
        cr_os_unmap(&m);
    } else if (said && said->kind == CR_JSON_STRING) {
        cr_out_format(o, ", \"tokenizer.chat_template\": ");
        cr_out_string(o, said->text, said->bytes);
    }
}

/* around: ids before and after a text, by the post-processor. */
static void put_special(cr_out *o, const files *f, const cr_tokenizer *t, const cr_ids *before, const cr_ids *after,
                        int64_t size) {
    static const char *const roles[][2] = {{"bos_token", "bos_token_id"},
                                           {"eos_token", "eos_token_id"},
                                           {"unk_token", "unknown_token_id"},
                                           {"pad_token", "padding_token_id"}};
    for (int i = 0; i < 4; i++) {
        int64_t id = special_id(f, t, roles[i][0]);
        if (i == 0 && before->n) id = before->at[0];
        if (i == 1 && id < 0 && after->n) id = after->at[0];
        if (id >= 0 && id < size) cr_out_format(o, ", \"tokenizer.ggml.%s\": %lld", roles[i][1], (long long)id);
    }
    cr_out_format(o, ", \"tokenizer.ggml.add_bos_token\": %s, \"tokenizer.ggml.add_eos_token\": %s",
                  before->n ? "true" : "false", after->n ? "true" : "false");
}

/* ---- the whole ---- */
/* 256 tokens, one for each byte: a byte-level BPE without merges. */
static void put_bytes(cr_out *o, int64_t size) {
    cr_out_format(o, "\"tokenizer.ggml.model\": \"gpt2\", \"tokenizer.ggml.pre\": \"gpt-2\", "
                     "\"tokenizer.ggml.merges\": [], \"tokenizer.ggml.tokens\": [");
    for (int64_t i = 0; i < size; i++) {
        char c[40];
        const int n = i < 256 ? cr_utf8_encode(cr_alphabet_of((unsigned char)i), c)
                              : snprintf(c, sizeof c, "[PAD%lld]", (long long)i);
        if (i) cr_out_put(o, ", ", 2);
        cr_out_string(o, c, (size_t)n);
    }
    cr_out_format(o, "], \"tokenizer.ggml.token_type\": [");
    for (int64_t i = 0; i < size; i++)
        cr_out_format(o, "%s%d", i ? ", " : "", i < 256 ? CR_PIECE_NORMAL : CR_PIECE_UNUSED);
    cr_out_put(o, "]", 1);
}

static cr_status put_pipeline(cr_out *o, const cr_pipeline *p, int64_t size) {
    if (p->model.kind != CR_MODEL_BPE)
        return refuse_tokenizer(p->model.kind == CR_MODEL_UNIGRAM ? "it is a Unigram" : "it is a WordPiece");
    if (p->model.prefix[0] || p->model.suffix[0])
        return refuse_tokenizer("its tokens mark the inside or the end of a word");
    if (p->before.n > 1 || p->after.n > 1) return refuse_tokenizer("it puts several tokens around a text");
    cr_out text = {0};
    cr_json *root = cr_pipeline_text(op, p, &text) == CR_OK ? cr_json_parse(op, "the tokenizer", text.text, text.bytes)
                                                            : NULL;
    cr_out_free(&text);
    vocabulary v = {.n = p->size};
    v.token = calloc((size_t)p->size + 1, sizeof *v.token);
    cr_status status = !root ? cr_error_status() : v.token ? CR_OK : cr_no_memory(op);
    if (status == CR_OK) put_vocabulary(&v, p, root);
    if (status == CR_OK)
        status = p->model.byte_level ? put_byte_level(o, p, root) : put_sentencepiece(o, p, root, &v, size);
    if (status == CR_OK) put_tokens(o, &v, size);
    free(v.token);
    cr_json_free(root);
    return status;
}

char *cr_tokenizer_gguf(const cr_tokenizer *t, const char *folder, int64_t size) {
    if (cr_lacks(op, "the tokenizer", t)) return NULL;
    const cr_pipeline *p = cr_tokenizer_pipeline(t);
    const int64_t own = cr_tokenizer_size(t);
    if (size < own)
        return cr_fail(CR_BAD_VALUE, op, "the tokenizer has %lld tokens, the model %lld", (long long)own,
                       (long long)size), NULL;
    cr_out o = {0};
    cr_out_put(&o, "{", 1);
    cr_status status = CR_OK;
    if (p) status = put_pipeline(&o, p, size);
    else if (cr_tokenizer_is_bytes(t)) put_bytes(&o, size);
    else status = refuse_tokenizer("its tokens are the characters of one text");
    files f = {0};
    if (status == CR_OK) status = read_beside(folder, "tokenizer_config.json", &f.tokenizer);
    if (status == CR_OK) status = read_beside(folder, "config.json", &f.model);
    static const cr_ids none;
    if (status == CR_OK) put_special(&o, &f, t, p ? &p->before : &none, p ? &p->after : &none, size);
    if (status == CR_OK) put_template(&o, folder, &f);
    cr_json_free(f.tokenizer);
    cr_json_free(f.model);
    cr_out_put(&o, "}", 2);                         /* with the end of the string */
    if (status == CR_OK) status = cr_out_check(&o, op, "the tokenizer");
    if (status == CR_OK) return o.text;
    cr_out_free(&o);
    return NULL;
}

/* ---- reading ---- */
static const char load[] = "tokenizer_load";

static const cr_json *entry_of(const cr_json *root, const char *key) {
    char name[80];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    return cr_json_get(root, name);
}

/* A list of one number for each of n tokens; NULL: there is none, or it is not that. */
static const cr_json *numbers_of(const cr_json *root, const char *key, int64_t n) {
    const cr_json *list = entry_of(root, key);
    bool ok = list && list->kind == CR_JSON_ARRAY && list->count == n;
    for (const cr_json *v = ok ? list->first : NULL; v; v = v->next) ok &= v->kind == CR_JSON_NUMBER;
    return ok ? list : NULL;
}

static cr_status read_pieces(const char *path, const cr_json *root, cr_scored **pieces, int64_t *n, bool scored) {
    const cr_json *tokens = entry_of(root, "tokens");
    *n = tokens && tokens->kind == CR_JSON_ARRAY ? tokens->count : 0;
    const cr_json *scores = numbers_of(root, "scores", *n), *types = numbers_of(root, "token_type", *n);
    if (!*n || *n > CR_MOST_ID || (scored && !scores) || (entry_of(root, "token_type") && !types))
        return cr_fail(CR_IO, load, "'%s': tokenizer.ggml.%s must be a list, with an entry for each token",
                       path, !*n || *n > CR_MOST_ID ? "tokens" : scored && !scores ? "scores" : "token_type");
    if (!(*pieces = calloc((size_t)*n, sizeof **pieces)))
        return cr_fail(CR_NO_MEMORY, load, "no memory for the %lld tokens of '%s'", (long long)*n, path);
    const cr_json *score = scored ? scores->first : NULL, *type = types ? types->first : NULL;
    cr_scored *p = *pieces;
    for (const cr_json *v = tokens->first; v; v = v->next, p++) {
        if (v->kind != CR_JSON_STRING)
            return cr_fail(CR_IO, load, "'%s': token %lld is not a string", path, (long long)(p - *pieces));
        *p = (cr_scored){v->text, v->bytes, score ? (float)score->number : 0, CR_PIECE_NORMAL, (uint32_t)(p - *pieces)};
        if (type && type->integral && type->integer >= CR_PIECE_NORMAL && type->integer <= CR_PIECE_BYTE)
            p->type = (int)type->integer;
        if (score) score = score->next;
        if (type) type = type->next;
    }
    return CR_OK;
}

/* The post-processor that puts special tokens around a text; "" where there are none.  Entries overrule `usual`,
 * what llama.cpp does by itself. */
static void put_around(cr_out *o, const cr_json *root, const cr_scored *pieces, int64_t n,
                       const bool usual[2]) {
    static const char *const roles[2][2] = {{"add_bos_token", "bos_token_id"}, {"add_eos_token", "eos_token_id"}};
    const cr_scored *around[2] = {0};
    for (int i = 0; i < 2; i++) {
        const cr_json *adds = entry_of(root, roles[i][0]), *id = entry_of(root, roles[i][1]);
        const bool add = adds && adds->kind == CR_JSON_BOOL ? adds->truth : usual[i];
        if (add && id && id->integral && id->integer >= 0 && id->integer < n) around[i] = &pieces[id->integer];
    }
    cr_format_around(o, around);
}

/* false: a name that is not known here */
static bool byte_level_of(const cr_json *pre, cr_byte_level *b) {
    const cr_named_splits *known = pre && pre->kind == CR_JSON_STRING ? cr_named_splits_find(pre->text) : NULL;
    if (!known) return false;
    memcpy(b->split, known->pattern, sizeof b->split);
    b->whole = known->whole;
    return true;
}

static cr_status byte_level_entries(const char *path, const cr_json *root, const cr_scored *pieces, int64_t n,
                                    const cr_byte_level *b, cr_out *out) {
    const cr_json *merges = entry_of(root, "merges");
    bool any = false, joined = false;
    for (int64_t i = 0; i < n; i++) {
        uint32_t c;
        const size_t first = (size_t)cr_utf8_decode((const unsigned char *)pieces[i].text, pieces[i].bytes, &c);
        joined |= pieces[i].type == CR_PIECE_NORMAL && first < pieces[i].bytes;
    }
    /* a writer may leave an empty list out */
    if (merges ? merges->kind != CR_JSON_ARRAY : joined)
        return cr_fail(CR_IO, load, "'%s': tokenizer.ggml.merges must be a list", path);
    cr_format_begin(out);
    for (int64_t i = 0; i < n; i++)
        if (pieces[i].type == CR_PIECE_CONTROL || pieces[i].type == CR_PIECE_USER_DEFINED)
            cr_format_added(out, pieces[i].text, pieces[i].bytes, pieces[i].id, pieces[i].type == CR_PIECE_CONTROL,
                            false);
    cr_format_byte_level(out, b);
    cr_out_put(out, "{", 1);
    for (int64_t i = 0; i < n; i++) {
        if (pieces[i].type != CR_PIECE_NORMAL) continue;
        cr_out_put(out, any ? ",\n" : "\n", any ? 2 : 1);
        cr_out_string(out, pieces[i].text, pieces[i].bytes);
        cr_out_format(out, ":%lld", (long long)i);
        any = true;
    }
    cr_out_format(out, "},\n\"merges\":[");
    for (const cr_json *m = merges ? merges->first : NULL; m; m = m->next) {
        if (m->kind != CR_JSON_STRING)
            return cr_fail(CR_IO, load, "'%s': a merge of tokenizer.ggml.merges is not a string", path);
        cr_out_put(out, m == merges->first ? "\n" : ",\n", m == merges->first ? 1 : 2);
        cr_out_string(out, m->text, m->bytes);
    }
    cr_out_format(out, "]}}\n");
    return CR_OK;
}

/* WordPiece: a token that begins a word has U+2581 in front, one inside of it has nothing there, for "##". */
static cr_status wordpiece_entries(const char *path, const cr_scored *pieces, int64_t n, cr_out *out) {
    cr_out text = {0};
    bool lowers = true;                             /* a file does not say it: are there capital letters? */
    for (int64_t i = 0; i < n; i++) {
        const char *s = pieces[i].text;
        size_t bytes = pieces[i].bytes;
        const bool named = bytes > 1 && *s == '[' && s[bytes - 1] == ']',
                   begins = bytes >= 3 && !memcmp(s, metaspace, 3);
        if (begins) s += 3, bytes -= 3;
        if (i) cr_out_put(&text, "\n", 1);
        if (!named && !begins && pieces[i].type != CR_PIECE_CONTROL) cr_out_put(&text, "##", 2);
        cr_out_put(&text, s, bytes);
        for (size_t k = 0; k < bytes && !named && s[0] != '['; k++) lowers &= s[k] < 'A' || s[k] > 'Z';
    }
    cr_status status = cr_out_check(&text, load, path);
    if (status == CR_OK) status = cr_format_wordpiece(load, path, text.text, text.bytes, lowers, out);
    cr_out_free(&text);
    return status;
}

static bool flag_of(const cr_json *root, const char *key, bool absent) {
    const cr_json *v = entry_of(root, key);
    return v && v->kind == CR_JSON_BOOL ? v->truth : absent;
}

/* The bytes of a list of numbers; NULL: there is none.  *bytes -1: no memory. */
static unsigned char *bytes_of(const cr_json *list, int64_t *bytes) {
    *bytes = list && list->kind == CR_JSON_ARRAY ? list->count : 0;
    unsigned char *all = *bytes ? malloc((size_t)*bytes) : NULL;
    if (*bytes && !all) *bytes = -1;
    int64_t i = 0;
    for (const cr_json *v = all ? list->first : NULL; v; v = v->next) all[i++] = (unsigned char)(v->integer & 255);
    return all;
}

static cr_status scored_entries(const char *path, const cr_json *root, cr_scored *pieces, int64_t n, bool unigram,
                                const char *post, cr_out *out) {
    cr_scored_model m = {.pieces = pieces, .n = n, .unigram = unigram, .post = post,
                         .prefix = flag_of(root, "add_space_prefix", true),
                         .squeeze = unigram && flag_of(root, "remove_extra_whitespaces", true)};
    int64_t bytes = 0;
    unsigned char *charsmap = unigram ? bytes_of(entry_of(root, "precompiled_charsmap"), &bytes) : NULL;
    if (bytes < 0) return cr_no_memory(load);
    m.charsmap = charsmap;
    m.charsmap_bytes = (size_t)bytes;
    const cr_status status = cr_format_scored(load, path, &m, out);
    free(charsmap);
    return status;
}

static cr_status put_entries(const char *path, const cr_json *root, cr_scored *pieces, int64_t n, bool scored,
                             cr_out *out) {
    const cr_json *pre = entry_of(root, "pre");
    cr_byte_level b = {0};
    cr_out post = {0};
    if (!scored && !byte_level_of(pre, &b))
        return cr_fail(CR_IO, load,
                       "'%s': a text is split as '%.40s' names it (tokenizer.ggml.pre), which is not known here", path,
                       pre && pre->kind == CR_JSON_STRING ? pre->text : "default");
    const bool unigram = cr_json_is(entry_of(root, "model"), "t5");
    put_around(&post, root, pieces, n, (const bool[2]){(scored && !unigram) || b.whole, unigram});
    const bool any = post.bytes;
    cr_out_put(&post, "", 1);
    cr_status status = cr_out_check(&post, load, path);
    b.post = any ? post.text : NULL;
    if (status == CR_OK && scored)
        status = scored_entries(path, root, pieces, n, unigram, b.post, out);
    else if (status == CR_OK) status = byte_level_entries(path, root, pieces, n, &b, out);
    cr_out_free(&post);
    return status;
}

cr_status cr_format_gguf(const char *path, const cr_mapping *m, cr_out *out, bool *sentencepiece) {
    char *text = cr_gguf_section(load, path, m, "tokenizer.");
    cr_json *root = text ? cr_json_parse(load, path, text, strlen(text)) : NULL;
    const cr_json *model = entry_of(root, "model");
    const bool scored = *sentencepiece = cr_json_is(model, "llama") || cr_json_is(model, "t5"),
               words = cr_json_is(model, "bert");
    cr_scored *pieces = NULL;
    int64_t n;
    cr_status status = root ? CR_OK : cr_error_status();
    if (status == CR_OK && !model)
        status = cr_fail(CR_IO, load, "'%s' holds no tokenizer (tokenizer.ggml.model)", path);
    else if (status == CR_OK && !scored && !words && !cr_json_is(model, "gpt2"))
        status = cr_fail(CR_IO, load, "'%s': a tokenizer of the kind '%.40s'; llama, gpt2, bert and t5 are known", path,
                         model->kind == CR_JSON_STRING ? model->text : "?");
    if (status == CR_OK) status = read_pieces(path, root, &pieces, &n, scored);
    if (status == CR_OK)
        status = words ? wordpiece_entries(path, pieces, n, out) : put_entries(path, root, pieces, n, scored, out);
    free(pieces);
    cr_json_free(root);
    free(text);
    return status;
}
