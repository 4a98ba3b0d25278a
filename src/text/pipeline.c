/* pipeline.c - reads a tokenizer.json. */
#include "pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../core/utf8.h"
#include "unicode.h"

static const char metaspace_text[] = "\xE2\x96\x81";                       /* U+2581 */
/* Rust's \w, which has the two joiners, and [\w] does not have */
static const char word_split[] = "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+";
static const char word_character[] = "[\\w\\x{200c}\\x{200d}]";
static const char punctuation[] = "[!-/:-@\\[-`{-~]|\\p{P}";
static const char chinese[] = "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B73F}"
                              "\\x{2B740}-\\x{2B81F}\\x{2B920}-\\x{2CEAF}\\x{F900}-\\x{FAFF}\\x{2F800}-\\x{2FA1F}]";

/* pieces: the vocabulary, NULL: the text has it */
typedef struct reader {
    const char *op, *path;
    cr_pipeline *p;
    bool sentencepiece;
    const cr_pieces *pieces;
} reader;

/* ---- fields ---- */
static const cr_json *list_of(const cr_json *object, const char *key) {
    return cr_json_as(cr_json_get(object, key), CR_JSON_ARRAY);
}

static const char *type_of(const cr_json *v) {
    const cr_json *type = cr_json_text(v, "type");
    return type ? type->text : "";
}

static bool is_present(const cr_json *v) { return v && v->kind != CR_JSON_NULL; }

static cr_status refuse_unknown(const reader *r, const char *what, const cr_json *v) {
    return cr_fail(CR_IO, r->op, "'%s': the %s '%.40s' is not supported", r->path, what, type_of(v));
}

static cr_status refuse_lacking(const reader *r, const char *what, const cr_json *v, const char *key) {
    return cr_fail(CR_IO, r->op, "'%s': the %s '%.40s' has no valid \"%s\"", r->path, what, type_of(v), key);
}

/* {"type": "Sequence", KEY: [...]}: each of them, in order; else the object itself. */
static cr_status read_each(const reader *r, const cr_json *v, const char *key, int depth,
                           cr_status (*read)(const reader *, const cr_json *)) {
    if (!is_present(v)) return CR_OK;
    if (strcmp(type_of(v), "Sequence")) return read(r, v);
    const cr_json *parts = list_of(v, key);
    if (!parts) return refuse_lacking(r, "part", v, key);
    if (depth >= CR_STEPS) return cr_fail(CR_IO, r->op, "'%s': sequences nested too deeply", r->path);
    for (const cr_json *part = parts->first; part; part = part->next) {
        cr_status status = read_each(r, part, key, depth + 1, read);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

static bool copy_text(const cr_json *v, char *out, size_t room) {
    if (!v || v->bytes >= room || strlen(v->text) != v->bytes) return false;
    memcpy(out, v->text, v->bytes + 1);
    return true;
}

static cr_regex *new_regex(const reader *r, const char *pattern, size_t bytes) {
    cr_regex *re = cr_regex_new(r->op, r->path, pattern, bytes);
    r->p->expressions |= re && cr_regex_needs_room(re);
    return re;
}

/* ---- normalizers ---- */
static cr_status add_norm(const reader *r, cr_normalizer_kind kind, cr_normalizer **out) {
    if (r->p->n_norms == CR_STEPS)
        return cr_fail(CR_IO, r->op, "'%s': more than %d normalizers", r->path, CR_STEPS);
    *out = &r->p->norm[r->p->n_norms++];
    (*out)->kind = kind;
    return CR_OK;
}

static char *copy_bytes(const char *s, size_t n) {
    char *to = malloc(n + 1);
    if (to) memcpy(to, s, n), to[n] = 0;
    return to;
}

static cr_status add_replace(const reader *r, cr_normalizer_kind kind, const char *pattern, size_t bytes,
                             bool expression,
                             const char *content, size_t content_bytes) {
    cr_normalizer *m = NULL;
    cr_status status = add_norm(r, kind, &m);
    if (status != CR_OK) return status;
    m->content = copy_bytes(content, content_bytes);
    m->content_bytes = content_bytes;
    m->literal = expression ? NULL : copy_bytes(pattern, bytes);
    m->literal_bytes = bytes;
    if (!m->content || (!expression && !m->literal)) return cr_no_memory(r->op);
    if (expression && !(m->regex = new_regex(r, pattern, bytes))) return cr_error_status();
    return CR_OK;
}

static cr_status add_expression(const reader *r, cr_normalizer_kind kind, const char *pattern, const char *content) {
    return add_replace(r, kind, pattern, strlen(pattern), true, content, strlen(content));
}

static cr_status add_form(const reader *r, cr_form form) {
    cr_normalizer *m = NULL;
    cr_status status = add_norm(r, CR_NORM_FORM, &m);
    if (status == CR_OK) m->form = form;
    return status;
}

static int digit_of_base64(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

static cr_status read_charsmap(const reader *r, const cr_json *v) {
    const cr_json *map = cr_json_text(v, "precompiled_charsmap");
    cr_normalizer *m = NULL;
    if (!is_present(cr_json_get(v, "precompiled_charsmap"))) return CR_OK;
    cr_status status = map ? add_norm(r, CR_NORM_CHARSMAP, &m)
                           : refuse_lacking(r, "normalizer", v, "precompiled_charsmap");
    if (status != CR_OK) return status;
    unsigned char *data = malloc(map->bytes + 1);
    size_t n = 0, digits = map->bytes;
    uint32_t bits = 0;
    if (!data) return cr_no_memory(r->op);
    while (digits && map->text[digits - 1] == '=') digits--;
    for (size_t i = 0; i < digits; i++) {
        const int digit = digit_of_base64(map->text[i]);
        if (digit < 0) { free(data); return refuse_lacking(r, "normalizer", v, "precompiled_charsmap"); }
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4) data[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    const bool ok = cr_charsmap_read(m, data, n);
    free(data);
    if (!ok) return refuse_lacking(r, "normalizer", v, "precompiled_charsmap");
    m->longest = r->sentencepiece;
    if (!m->longest && !(m->regex = new_regex(r, "\\X", 2))) return cr_error_status();
    return CR_OK;
}

static cr_status read_bert(const reader *r, const cr_json *v) {
    const bool lower = cr_json_flag(v, "lowercase", true), strip = cr_json_flag(v, "strip_accents", lower);
    cr_status status = CR_OK;
    cr_normalizer *m = NULL;
    if (cr_json_flag(v, "clean_text", true)) {
        status = add_expression(r, CR_NORM_REPLACE, "[\\x{0}\\x{fffd}]|(?![\\t\\n\\r])[\\p{Cc}\\p{Cf}\\p{Co}]", "");
        if (status == CR_OK) status = add_expression(r, CR_NORM_REPLACE, "\\s", " ");
    }
    if (status == CR_OK && cr_json_flag(v, "handle_chinese_chars", true))
        status = add_expression(r, CR_NORM_AROUND, chinese, " ");
    if (status == CR_OK && strip) status = add_form(r, CR_NFD);
    if (status == CR_OK && strip) status = add_expression(r, CR_NORM_REPLACE, "\\p{Mn}", "");
    if (status == CR_OK && lower) status = add_norm(r, CR_NORM_LOWER, &m);
    return status;
}

/* {"String": "a"} or {"Regex": "a+"} */
static const cr_json *pattern_of(const cr_json *v, bool *expression) {
    const cr_json *pattern = cr_json_get(v, "pattern"), *text = cr_json_text(pattern, "Regex");
    *expression = text != NULL;
    return text ? text : cr_json_text(pattern, "String");
}

static cr_status read_norm(const reader *r, const cr_json *v) {
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const char *type = type_of(v);
    const cr_json *text;
    cr_normalizer *m = NULL;
    bool expression;
    for (int i = 0; i < 4; i++) if (!strcmp(type, forms[i])) return add_form(r, (cr_form)i);
    if (!strcmp(type, "Lowercase")) return add_norm(r, CR_NORM_LOWER, &m);
    if (!strcmp(type, "ByteLevel")) return CR_OK;   /* the model takes bytes then */
    if (!strcmp(type, "StripAccents")) return add_expression(r, CR_NORM_REPLACE, "\\p{M}", "");
    if (!strcmp(type, "BertNormalizer")) return read_bert(r, v);
    if (!strcmp(type, "Precompiled")) return read_charsmap(r, v);
    if (!strcmp(type, "Strip")) {
        cr_status status = add_norm(r, CR_NORM_STRIP, &m);
        if (status != CR_OK) return status;
        m->left = cr_json_flag(v, "strip_left", true);
        m->right = cr_json_flag(v, "strip_right", true);
        return CR_OK;
    }
    if (!strcmp(type, "Prepend")) {
        if (!(text = cr_json_text(v, "prepend"))) return refuse_lacking(r, "normalizer", v, "prepend");
        return add_replace(r, CR_NORM_PREPEND, "", 0, false, text->text, text->bytes);
    }
    if (!strcmp(type, "Replace")) {
        const cr_json *pattern = pattern_of(v, &expression);
        text = cr_json_text(v, "content");
        if (!pattern || !text || !pattern->bytes)
            return refuse_lacking(r, "normalizer", v, pattern ? "content" : "pattern");
        return add_replace(r, CR_NORM_REPLACE, pattern->text, pattern->bytes, expression, text->text, text->bytes);
    }
    return refuse_unknown(r, "normalizer", v);
}

/* ---- splits ---- */
static cr_step *add_step(const reader *r, cr_step_kind kind) {              /* NULL: a message */
    if (r->p->n_steps == CR_STEPS)
        return cr_fail(CR_IO, r->op, "'%s': more than %d pre-tokenizers", r->path, CR_STEPS), NULL;
    cr_step *s = &r->p->step[r->p->n_steps++];
    s->kind = kind;
    return s;
}

static cr_status add_split(const reader *r, const char *pattern, cr_behaviour behaviour, bool invert) {
    cr_step *s = add_step(r, CR_STEP_SPLIT);
    if (!s) return cr_error_status();
    s->behaviour = behaviour;
    s->invert = invert;
    s->regex = new_regex(r, pattern, strlen(pattern));
    return s->regex ? CR_OK : cr_error_status();
}

static cr_status add_literal(const reader *r, const cr_json *v, const cr_json *text, cr_behaviour behaviour,
                             bool invert) {
    cr_step *s = add_step(r, CR_STEP_SPLIT);
    if (!s) return cr_error_status();
    s->behaviour = behaviour;
    s->invert = invert;
    if (!copy_text(text, s->literal, sizeof s->literal) || !text->bytes)
        return refuse_lacking(r, "pre-tokenizer", v, "pattern");
    s->literal_bytes = text->bytes;
    return CR_OK;
}

static bool behaviour_of(const cr_json *v, cr_behaviour otherwise, cr_behaviour *out) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const cr_json *text = cr_json_text(v, "behavior");
    *out = otherwise;
    if (!text) return true;
    for (int i = 0; i < 5; i++) if (cr_json_is(text, names[i])) return *out = (cr_behaviour)i, true;
    return false;
}

static cr_prepend prepend_of(const cr_json *v) {
    const cr_json *scheme = cr_json_text(v, "prepend_scheme");
    if (scheme) return cr_json_is(scheme, "never") ? CR_PREPEND_NEVER : cr_json_is(scheme, "first") ? CR_PREPEND_FIRST
        : CR_PREPEND_ALWAYS;
    return cr_json_flag(v, "add_prefix_space", true) ? CR_PREPEND_ALWAYS : CR_PREPEND_NEVER;
}

static const char *replacement_of(const cr_json *v) {
    const cr_json *text = cr_json_text(v, "replacement");
    return text && text->bytes && text->bytes < 8 && strlen(text->text) == text->bytes ? text->text : metaspace_text;
}

static cr_status read_metaspace(const reader *r, const cr_json *v) {
    cr_step *s = add_step(r, CR_STEP_METASPACE);
    if (!s) return cr_error_status();
    strcpy(s->literal, replacement_of(v));
    s->literal_bytes = strlen(s->literal);
    s->prepend = prepend_of(v);
    if (!cr_json_flag(v, "split", true)) return CR_OK;
    const cr_json text = {.kind = CR_JSON_STRING, .text = s->literal, .bytes = s->literal_bytes};
    return add_literal(r, v, &text, CR_SPLIT_WITH_NEXT, false);
}

static cr_status read_split(const reader *r, const cr_json *v) {
    cr_behaviour behaviour;
    bool expression;
    const cr_json *text = pattern_of(v, &expression);
    const bool invert = cr_json_flag(v, "invert", false);
    if (!text || !text->bytes) return refuse_lacking(r, "pre-tokenizer", v, "pattern");
    if (!behaviour_of(v, CR_SPLIT_ISOLATED, &behaviour)) return refuse_lacking(r, "pre-tokenizer", v, "behavior");
    return expression ? add_split(r, text->text, behaviour, invert) : add_literal(r, v, text, behaviour, invert);
}

static cr_status read_step(const reader *r, const cr_json *v) {
    const char *type = type_of(v);
    cr_behaviour behaviour;
    cr_status status = CR_OK;
    if (!strcmp(type, "ByteLevel")) {
        if (cr_json_flag(v, "add_prefix_space", true) && !add_step(r, CR_STEP_PREFIX)) return cr_error_status();
        return cr_json_flag(v, "use_regex", true) ? add_split(r, cr_splitter_gpt2, CR_SPLIT_ISOLATED, false) : CR_OK;
    }
    if (!strcmp(type, "Split")) return read_split(r, v);
    if (!strcmp(type, "Metaspace")) return read_metaspace(r, v);
    if (!strcmp(type, "Whitespace")) return add_split(r, word_split, CR_SPLIT_REMOVED, true);
    if (!strcmp(type, "WhitespaceSplit")) return add_split(r, "\\s", CR_SPLIT_REMOVED, false);
    if (!strcmp(type, "Digits"))
        return add_split(r, cr_json_flag(v, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", CR_SPLIT_ISOLATED,
                         false);
    if (!strcmp(type, "CharDelimiterSplit")) {
        const cr_json *text = cr_json_text(v, "delimiter");
        return text ? add_literal(r, v, text, CR_SPLIT_REMOVED, false)
                    : refuse_lacking(r, "pre-tokenizer", v, "delimiter");
    }
    if (!strcmp(type, "Punctuation")) {
        if (!behaviour_of(v, CR_SPLIT_ISOLATED, &behaviour)) return refuse_lacking(r, "pre-tokenizer", v, "behavior");
        return add_split(r, punctuation, behaviour, false);
    }
    if (!strcmp(type, "BertPreTokenizer")) {
        status = add_split(r, "\\s", CR_SPLIT_REMOVED, false);
        return status == CR_OK ? add_split(r, punctuation, CR_SPLIT_ISOLATED, false) : status;
    }
    return refuse_unknown(r, "pre-tokenizer", v);
}

/* ---- added tokens ---- */
static int by_first_byte(const void *a, const void *b) {
    const cr_added *x = a, *y = b;
    const int first = (int)(unsigned char)x->text[0] - (int)(unsigned char)y->text[0];
    if (first) return first;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    const int text = memcmp(x->text, y->text, x->bytes);
    if (text) return text;
    /* the same text, normalized: special tokens first, then in the order of the file */
    return x->special != y->special ? (x->special ? -1 : 1) : x->order < y->order ? -1 : 1;
}

static void index_added(cr_pipeline *p) {
    if (p->n_added) qsort(p->added, (size_t)p->n_added, sizeof *p->added, by_first_byte);
    int64_t i = 0;
    for (int c = 0; c <= 256; c++) {
        while (i < p->n_added && (unsigned char)p->added[i].text[0] < c) i++;
        p->first_added[c] = i;
    }
}

static cr_status read_added(const reader *r, const cr_json *tokens) {
    cr_pipeline *p = r->p;
    if (!is_present(tokens)) return CR_OK;
    if (tokens->kind != CR_JSON_ARRAY) return cr_fail(CR_IO, r->op, "'%s': its \"added_tokens\" must be a list",
                                                      r->path);
    p->added = calloc((size_t)tokens->count + 1, sizeof *p->added);
    if (!p->added) return cr_no_memory(r->op);
    for (const cr_json *v = tokens->first; v; v = v->next) {
        const cr_json *content = cr_json_text(v, "content"), *id = cr_json_get(v, "id");
        if (!content || !id || !id->integral || id->integer < 0 || id->integer >= CR_MOST_ID)
            return cr_fail(CR_IO, r->op, "'%s': an added token must have a \"content\" and an \"id\" below %d", r->path,
                           CR_MOST_ID);
        if (!content->bytes) continue;
        const uint32_t known = cr_words_find(&p->model.words, content->text, content->bytes);
        cr_added *a = &p->added[p->n_added++];
        *a = (cr_added){.text = copy_bytes(content->text, content->bytes),
                        .bytes = content->bytes,
                        .id = known != CR_NO_ID ? known : (uint32_t)id->integer,
                        .special = cr_json_flag(v, "special", false),
                        .normalized = cr_json_flag(v, "normalized", !cr_json_flag(v, "special", false)),
                        .lstrip = cr_json_flag(v, "lstrip", false),
                        .rstrip = cr_json_flag(v, "rstrip", false),
                        .single_word = cr_json_flag(v, "single_word", false),
                        .order = p->n_added};
        if (a->single_word && !p->word && !(p->word = new_regex(r, word_character, strlen(word_character))))
            return cr_error_status();
        a->name = a->text;
        a->name_bytes = a->bytes;
        if (!a->text) return cr_no_memory(r->op);
        if (a->id >= p->size) p->size = (int64_t)a->id + 1;
    }
    index_added(p);
    return CR_OK;
}

/* Tokens that are found in normalized text are normalized themselves, with the names as they were until then. */
static cr_status normalize_added(const reader *r) {
    cr_pipeline *p = r->p;
    bool any = false;
    for (int64_t i = 0; i < p->n_added; i++) any |= p->added[i].normalized;
    if (!p->n_norms || !any) return CR_OK;          /* a workspace has 2 MB */
    cr_workspace *w = cr_workspace_take(p);
    bool ok = w != NULL;
    for (int64_t i = 0; ok && i < p->n_added; i++) {
        cr_added *a = &p->added[i];
        const char *s = a->text;
        size_t n = a->bytes;
        if (!a->normalized) continue;
        ok = cr_normalize(p, w, &s, &n);
        char *text = ok && n ? copy_bytes(s, n) : NULL;
        if (!text) continue;
        a->text = text;                             /* the name stays */
        a->bytes = n;
    }
    if (w) cr_workspace_give(p, w);
    index_added(p);
    return ok ? CR_OK : cr_no_memory(r->op);
}

/* ---- ids around a text ---- */
static cr_status add_around(const reader *r, const cr_json *id, cr_ids *to) {
    size_t bytes;
    if (!id || !id->integral || id->integer < 0 || id->integer >= r->p->size)
        return cr_fail(CR_IO, r->op, "'%s': an id of the post-processor is not below the vocabulary of %lld", r->path,
                       (long long)r->p->size);
    if (!cr_pipeline_name(r->p, id->integer, &bytes, NULL))
        return cr_fail(CR_IO, r->op, "'%s': the post-processor names token %lld, which the vocabulary skips", r->path,
                       (long long)id->integer);
    return cr_ids_put(to, (uint32_t)id->integer) ? CR_OK : cr_no_memory(r->op);
}

static cr_status read_template(const reader *r, const cr_json *v) {
    const cr_json *single = list_of(v, "single"), *tokens = cr_json_get(v, "special_tokens");
    cr_ids *to = &r->p->before;
    cr_status status = CR_OK;
    if (!single) return refuse_lacking(r, "post-processor", v, "single");
    for (const cr_json *part = single->first; part && status == CR_OK; part = part->next) {
        const cr_json *token = cr_json_get(part, "SpecialToken"), *name = cr_json_text(token, "id");
        if (cr_json_get(part, "Sequence")) to = &r->p->after;
        if (!token) continue;
        const cr_json *ids = name ? list_of(cr_json_get(tokens, name->text), "ids") : NULL;
        if (!ids) return refuse_lacking(r, "post-processor", v, "special_tokens");
        for (const cr_json *id = ids->first; id && status == CR_OK; id = id->next) status = add_around(r, id, to);
    }
    return status;
}

static cr_status read_post(const reader *r, const cr_json *v) {
    const char *type = type_of(v);
    if (!strcmp(type, "ByteLevel")) return CR_OK;   /* offsets, which are not kept here */
    if (!strcmp(type, "TemplateProcessing")) return read_template(r, v);
    if (strcmp(type, "BertProcessing") && strcmp(type, "RobertaProcessing"))
        return refuse_unknown(r, "post-processor", v);
    const cr_json *cls = list_of(v, "cls"), *sep = list_of(v, "sep");
    if (!cls || cls->count != 2 || !sep || sep->count != 2) return refuse_lacking(r, "post-processor", v, "cls");
    cr_status status = add_around(r, cls->first->next, &r->p->before);
    return status == CR_OK ? add_around(r, sep->first->next, &r->p->after) : status;
}

/* ---- decoders ---- */
static cr_status text_of(const reader *r, const cr_json *v, const char *key, char *out, size_t room) {
    return copy_text(cr_json_text(v, key), out, room) ? CR_OK : refuse_lacking(r, "decoder", v, key);
}

static cr_status read_decoder(const reader *r, const cr_json *v) {
    static const char *const known[] = {"ByteLevel", "ByteFallback", "Replace", "Fuse", "Strip", "Metaspace", NULL};
    const char *type = type_of(v);
    cr_decoding *d = &r->p->decoding;
    char none[sizeof d->strip];
    if (!strcmp(type, "WordPiece")) {
        d->joins = true;
        d->cleanup = cr_json_flag(v, "cleanup", true);
        return text_of(r, v, "prefix", d->prefix, sizeof d->prefix);
    }
    if (!strcmp(type, "BPEDecoder"))
        return text_of(r, v, "suffix", d->suffix, sizeof d->suffix);
    if (!strcmp(type, "Metaspace") && prepend_of(v) != CR_PREPEND_NEVER) strcpy(d->metaspace, replacement_of(v));
    if (!strcmp(type, "Fuse") || !strcmp(type, "ByteLevel")) d->fused = true;
    if (!strcmp(type, "Strip")) {
        const cr_json *start = cr_json_get(v, "start"), *stop = cr_json_get(v, "stop");
        if (text_of(r, v, "content", d->fused ? d->strip : none, sizeof d->strip) != CR_OK) return cr_error_status();
        if (!start || !start->integral) return refuse_lacking(r, "decoder", v, "start");
        if (d->fused && stop && stop->integer)
            return cr_fail(CR_IO, r->op, "'%s': the decoder 'Strip' after 'Fuse' has \"stop\" %lld; 0 is supported",
                           r->path, (long long)stop->integer);
        if (d->fused) d->strip_most = start->integer;
    }
    for (int i = 0; known[i]; i++) if (!strcmp(type, known[i])) return CR_OK;
    return refuse_unknown(r, "decoder", v);
}

/* The decoder Strip, before tokens are fused: at most `start` and `stop` of a character at the ends of each. */
static void strip_token(const cr_json *v, const cr_out *text, cr_out *spare) {
    const cr_json *content = cr_json_text(v, "content"), *start = cr_json_get(v, "start"),
                  *stop = cr_json_get(v, "stop");
    const size_t m = content->bytes;
    size_t from = 0, end = text->bytes;
    for (int64_t i = start->integer; m && i > 0 && end - from >= m && !memcmp(text->text + from, content->text, m); i--)
        from += m;
    for (int64_t i = stop && stop->integral ? stop->integer : 0;
         m && i > 0 && end - from >= m && !memcmp(text->text + end - m, content->text, m); i--)
        end -= m;
    if (end > from) cr_out_put(spare, text->text + from, end - from);
}

/* Changes the text of one token as one decoder does; `text` is replaced. */
static cr_status decode_token(const cr_json *v, bool *fused, cr_out *text, cr_out *spare) {
    const char *type = type_of(v);
    const cr_json *content = cr_json_text(v, "content");
    bool expression;
    spare->bytes = 0;
    const bool apart = !*fused;
    if (!strcmp(type, "Fuse") || !strcmp(type, "ByteLevel")) *fused = true;
    if (!strcmp(type, "Strip") && apart) {
        strip_token(v, text, spare);
    } else if (!strcmp(type, "ByteLevel")) {
        uint32_t code = 0;
        for (size_t at = 0; at < text->bytes;) {
            at += (size_t)cr_utf8_decode((const unsigned char *)text->text + at, text->bytes - at, &code);
            const int byte = cr_alphabet_byte(code);
            if (byte < 0) return CR_OK;             /* not in the alphabet: as it is */
            cr_out_put(spare, &(char){(char)byte}, 1);
        }
    } else if (!strcmp(type, "ByteFallback")) {
        unsigned byte;
        char end;
        if (text->bytes != 6 || sscanf(text->text, "<0x%2x%c", &byte, &end) != 2 || end != '>') return CR_OK;
        cr_out_put(spare, &(char){(char)byte}, 1);
    } else if (!strcmp(type, "Replace") || !strcmp(type, "Metaspace")) {
        const bool meta = *type == 'M';
        const cr_json *pattern = meta ? NULL : pattern_of(v, &expression);
        if (!meta && (!pattern || expression || !content || !pattern->bytes)) return CR_BAD_VALUE;
        const char *from = meta ? replacement_of(v) : pattern->text;
        const size_t bytes = meta ? strlen(from) : pattern->bytes;
        for (size_t at = 0; at < text->bytes;) {
            const size_t found = cr_literal_find(from, bytes, text->text, text->bytes, at);
            cr_out_put(spare, text->text + at, found - at);
            if (found < text->bytes) cr_out_put(spare, meta ? " " : content->text, meta ? 1 : content->bytes);
            at = found < text->bytes ? found + bytes : found;
        }
    } else {
        return CR_OK;
    }
    const cr_out swap = *text;
    *text = *spare;
    *spare = swap;
    return CR_OK;
}

/* decoder: one, or a Sequence of Sequences */
static cr_status decode_all(const cr_json *decoder, bool *fused, cr_out *text, cr_out *spare) {
    const cr_json *parts = strcmp(type_of(decoder), "Sequence") ? NULL : list_of(decoder, "decoders");
    if (!parts) return decode_token(decoder, fused, text, spare);
    cr_status status = CR_OK;
    for (const cr_json *v = parts->first; v && status == CR_OK; v = v->next) status = decode_all(v, fused, text, spare);
    return status;
}

static cr_status read_texts(const reader *r, const cr_json *decoder) {
    cr_pipeline *p = r->p;
    cr_decoding *d = &p->decoding;
    const char **name = calloc((size_t)p->size + 1, sizeof *name);
    uint32_t *bytes = calloc((size_t)p->size + 1, sizeof *bytes);
    cr_out text = {0}, spare = {0};
    cr_status status = CR_OK;
    d->at = calloc((size_t)p->size + 1, sizeof *d->at);
    d->known = calloc((size_t)p->size + 1, 1);
    bool ok = name && bytes && d->at && d->known;
    for (uint32_t id = 0; ok && id < p->model.words.size; id++) {
        size_t n = 0;
        name[id] = cr_words_at(&p->model.words, id, &n);
        bytes[id] = (uint32_t)n;
    }
    for (int64_t i = 0; ok && i < p->n_added; i++)
        name[p->added[i].id] = p->added[i].text, bytes[p->added[i].id] = (uint32_t)p->added[i].bytes;
    for (int64_t id = 0; ok && id < p->size; id++) {
        d->at[id] = (uint32_t)d->blob.bytes;
        if (!name[id]) continue;
        d->known[id] = 1;
        text.bytes = 0;
        cr_out_put(&text, name[id], bytes[id]);
        bool fused = false;
        if (is_present(decoder)) status = decode_all(decoder, &fused, &text, &spare);
        if (status != CR_OK) break;
        if (!text.failed) cr_out_put(&d->blob, text.text, text.bytes);
        ok = !text.failed && !spare.failed && !d->blob.failed && d->blob.bytes < UINT32_MAX;
    }
    if (ok) d->at[p->size] = (uint32_t)d->blob.bytes;
    char *fitted = ok && d->blob.bytes ? realloc(d->blob.text, d->blob.bytes) : NULL;
    if (fitted) d->blob.text = fitted, d->blob.room = d->blob.bytes;
    cr_out_free(&text);
    cr_out_free(&spare);
    free(name);
    free(bytes);
    if (status != CR_OK) return cr_fail(CR_IO, r->op,
                                        "'%s': a decoder \"Replace\" needs a \"String\" and a \"content\"", r->path);
    return ok ? CR_OK : cr_no_memory(r->op);
}

/* ---- the whole ---- */

/* Does the alphabet of bytes spell the vocabulary? */
static bool has_type(const cr_json *v, const char *key, const char *type, int depth) {
    if (!strcmp(type_of(v), type)) return true;
    const cr_json *parts = depth < CR_STEPS ? list_of(v, key) : NULL;
    for (const cr_json *part = parts ? parts->first : NULL; part; part = part->next)
        if (has_type(part, key, type, depth + 1)) return true;
    return false;
}

/* A model over a whole text may be cut before a metaspace that follows another character, if no token has one there. */
static bool cuts_at_words(const cr_model *m) {
    const size_t n = sizeof metaspace_text - 1;
    const bool bpe = m->kind == CR_MODEL_BPE;
    if (m->kind == CR_MODEL_WORDPIECE || m->byte_level || m->whole_words || m->prefix[0] || m->suffix[0]) return false;
    if (cr_words_find(&m->words, metaspace_text, n) == CR_NO_ID) return false;
    for (size_t i = 0; i < (bpe ? m->merge_slots : (size_t)m->words.size); i++) {
        const struct cr_merge *merge = bpe ? &m->merges[i] : NULL;
        const uint32_t id = !bpe ? (uint32_t)i : merge->left != CR_NO_ID ? m->made[merge->rank] : CR_NO_ID;
        size_t bytes = 0, at = 0;
        const char *s = cr_words_at(&m->words, id, &bytes);
        while (at + n <= bytes && !memcmp(s + at, metaspace_text, n)) at += n;
        if (s && cr_literal_find(metaspace_text, n, s, bytes, at) < bytes) return false;
    }
    return true;
}

static cr_status read_all(const reader *r, const cr_json *root) {
    cr_pipeline *p = r->p;
    const cr_json *normalizer = cr_json_get(root, "normalizer"), *splits = cr_json_get(root, "pre_tokenizer"),
                  *decoder = cr_json_get(root, "decoder");
    const bool bytes = has_type(splits, "pretokenizers", "ByteLevel", 0) ||
                       has_type(normalizer, "normalizers", "ByteLevel", 0);
    cr_status status =
        r->pieces ? cr_model_of_pieces(r->op, r->path, r->pieces, &p->model)
                  : cr_model_read(r->op, r->path, cr_json_get(root, "model"), bytes, r->sentencepiece, &p->model);
    p->size = p->model.words.size;
    if (status == CR_OK && bytes && !p->model.byte_level)
        status = cr_fail(CR_IO, r->op, "'%s': \"ByteLevel\" needs a BPE model without prefix and suffix", r->path);
    if (status == CR_OK) status = read_added(r, cr_json_get(root, "added_tokens"));
    if (status == CR_OK) status = read_each(r, normalizer, "normalizers", 0, read_norm);
    if (status == CR_OK) status = read_each(r, splits, "pretokenizers", 0, read_step);
    if (status == CR_OK) status = read_each(r, cr_json_get(root, "post_processor"), "processors", 0, read_post);
    if (status == CR_OK) status = read_each(r, decoder, "decoders", 0, read_decoder);
    if (!is_present(decoder)) p->decoding.joins = true;
    if (status == CR_OK) status = normalize_added(r);
    if (status == CR_OK) status = read_texts(r, decoder);
    for (int64_t i = 0; status == CR_OK && r->sentencepiece && i < p->n_added; i++)
        if (p->added[i].special) cr_model_hide(&p->model, p->added[i].id);
    const bool splits_last = p->n_steps && p->step[p->n_steps - 1].kind == CR_STEP_SPLIT;
    if (status == CR_OK && !splits_last && cuts_at_words(&p->model)) {
        cr_step *s = add_step(r, CR_STEP_WORDS);
        if (!s) return cr_error_status();
        memcpy(s->literal, metaspace_text, sizeof metaspace_text);
        s->literal_bytes = sizeof metaspace_text - 1;
    }
    return status;
}

static bool keep_pieces(cr_pipeline *p, const cr_pieces *s) {
    p->piece_score = s->bpe ? malloc((size_t)s->n * sizeof *p->piece_score) : NULL;
    p->piece_type = malloc((size_t)s->n);
    p->piece_unk = s->unk;
    for (int64_t i = 0; p->piece_score && i < s->n; i++) p->piece_score[i] = s->at[i].score;
    for (int64_t i = 0; p->piece_type && i < s->n; i++) p->piece_type[i] = (unsigned char)s->at[i].type;
    return p->piece_type && (p->piece_score || !s->bpe);
}

static cr_pipeline *make_pipeline(reader r, char *text, size_t bytes, size_t head) {
    cr_json *root = cr_json_parse(r.op, r.path, text, bytes);
    cr_pipeline *p = r.p = root ? calloc(1, sizeof *p) : NULL;
    cr_status status = p ? read_all(&r, root) : CR_OK;
    if (root && !p) cr_no_memory(r.op);
    cr_json_free(root);
    if (!p) free(text);
    if (!p) return NULL;
    if (status == CR_OK && r.pieces && !keep_pieces(p, r.pieces)) status = cr_no_memory(r.op);
    char *fitted = realloc(text, head + 1);
    p->json = fitted ? fitted : text;
    p->json_bytes = head;
    if (status == CR_OK) return p;
    cr_pipeline_free(p);
    return NULL;
}

cr_pipeline *cr_pipeline_new(const char *op, const char *path, char *text, size_t bytes, bool sentencepiece) {
    return make_pipeline((reader){.op = op, .path = path, .sentencepiece = sentencepiece}, text, bytes, bytes);
}

cr_pipeline *cr_pipeline_of_pieces(const char *op, const char *path, char *text, size_t bytes, size_t head,
                                   const cr_pieces *pieces) {
    return make_pipeline((reader){.op = op, .path = path, .sentencepiece = true, .pieces = pieces}, text, bytes, head);
}

cr_status cr_pipeline_text(const char *op, const cr_pipeline *p, cr_out *out) {
    cr_out_put(out, p->json, p->json_bytes);
    if (!p->piece_type) return cr_out_check(out, op, "the tokenizer");
    const int64_t n = p->model.words.size;
    cr_pieces s = {.at = calloc((size_t)n, sizeof *s.at), .n = n, .unk = p->piece_unk,
                   .bpe = p->model.kind == CR_MODEL_BPE, .byte_fallback = p->model.byte_fallback};
    for (int64_t i = 0; s.at && i < n; i++) {
        cr_scored *to = &s.at[i];
        *to = (cr_scored){.score = s.bpe ? p->piece_score[i] : (float)p->model.score[i], .type = p->piece_type[i],
                          .id = (uint32_t)i};
        to->text = cr_words_at(&p->model.words, (uint32_t)i, &to->bytes);
    }
    const bool ok = s.at && cr_format_pieces(&s, out);
    free(s.at);
    return ok ? cr_out_check(out, op, "the tokenizer") : cr_no_memory(op);
}

void cr_pipeline_free(cr_pipeline *p) {
    if (!p) return;
    for (cr_workspace *w = p->idle, *next; w; w = next) { next = w->next; cr_workspace_free(w); }
    for (int i = 0; i < p->n_norms; i++) {
        cr_regex_free(p->norm[i].regex);
        free(p->norm[i].literal);
        free(p->norm[i].content);
        free(p->norm[i].units);
        free(p->norm[i].blob);
    }
    for (int i = 0; i < p->n_steps; i++) cr_regex_free(p->step[i].regex);
    for (int64_t i = 0; i < p->n_added; i++) {
        if (p->added[i].name != p->added[i].text) free(p->added[i].name);
        free(p->added[i].text);
    }
    free(p->added);
    cr_regex_free(p->word);
    free(p->decoding.at);
    free(p->decoding.known);
    cr_out_free(&p->decoding.blob);
    cr_model_free(&p->model);
    free(p->before.at);
    free(p->after.at);
    free(p->json);
    free(p->piece_score);
    free(p->piece_type);
    free(p);
}

int64_t cr_pipeline_find(const cr_pipeline *p, const char *token, size_t bytes) {
    for (int64_t i = 0; i < p->n_added; i++)
        if (p->added[i].name_bytes == bytes && !memcmp(p->added[i].name, token, bytes)) return p->added[i].id;
    const uint32_t id = cr_words_find(&p->model.words, token, bytes);
    return id == CR_NO_ID ? -1 : (int64_t)id;
}

const char *cr_pipeline_name(const cr_pipeline *p, int64_t id, size_t *bytes, bool *special) {
    for (int64_t i = 0; i < p->n_added; i++)
        if (p->added[i].id == id) {
            if (special) *special = p->added[i].special;
            *bytes = p->added[i].name_bytes;
            return p->added[i].name;
        }
    return id >= 0 && id < p->size ? cr_words_at(&p->model.words, (uint32_t)id, bytes) : NULL;
}
