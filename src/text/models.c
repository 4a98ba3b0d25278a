/* models.c - the ids of one piece of text: BPE (Sennrich et al. 2016), Unigram (Kudo 2018) and WordPiece.  The rules
 * for ties, unknown characters and bytes are those of Hugging Face's tokenizers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../core/utf8.h"
#include "pipeline.h"

/* ---- reading ---- */
static bool text_field(const cr_json *object, const char *key, const char **text, size_t *bytes) {
    const cr_json *v = cr_json_text(object, key);
    *text = v ? v->text : "";
    *bytes = v ? v->bytes : 0;
    return v;
}

/* {"token": id, ...} */
static cr_status read_words(const char *op, const char *path, const cr_json *vocab, cr_words *words) {
    int64_t most = -1;
    size_t bytes = 0;
    if (!vocab || vocab->kind != CR_JSON_OBJECT || !vocab->count)
        return cr_fail(CR_IO, op, "'%s': its \"vocab\" must be an object that is not empty", path);
    for (const cr_json *v = vocab->first; v; v = v->next) {
        if (v->kind != CR_JSON_NUMBER || !v->integral || v->integer < 0 || v->integer >= CR_MOST_ID)
            return cr_fail(CR_IO, op, "'%s': the id of token '%.40s' must be an integer below %d", path, v->key,
                           CR_MOST_ID);
        if (v->integer > most) most = v->integer;
        bytes += v->key_bytes;
    }
    if (!cr_words_reserve(words, most + 1, vocab->count, bytes)) return cr_no_memory(op);
    for (const cr_json *v = vocab->first; v; v = v->next)
        if (!cr_words_add(words, (uint32_t)v->integer, v->key, v->key_bytes))
            return cr_fail(CR_IO, op, "'%s': two tokens have the id %lld, one of them is '%.40s'", path,
                           (long long)v->integer, v->key);
    return CR_OK;
}

static struct cr_merge *merge_slot(const cr_model *m, uint32_t left, uint32_t right) {
    const uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u >> 32;
    struct cr_merge *slot = m->merges + (hash * m->merge_slots >> 32), *end = m->merges + m->merge_slots;
    while (slot->left != CR_NO_ID && (slot->left != left || slot->right != right))
        if (++slot == end) slot = m->merges;
    return slot;
}

uint32_t cr_merge_find(const cr_model *m, uint32_t left, uint32_t right, uint32_t *id) {
    const struct cr_merge *slot = m->merge_slots ? merge_slot(m, left, right) : NULL;
    const bool found = slot && slot->left != CR_NO_ID;
    *id = found ? m->made[slot->rank] : CR_NO_ID;
    return found ? slot->rank : CR_NO_ID;
}

/* Merges in the order of a file. */
typedef struct merge_list { struct cr_merge *at; int64_t n, room; uint32_t *made; int64_t made_room; } merge_list;

static bool list_merge(merge_list *l, uint32_t left, uint32_t right, uint32_t rank, uint32_t made) {
    if (!cr_grow(&l->at, l->n + 1, &l->room, sizeof *l->at) ||
        !cr_grow(&l->made, l->n + 1, &l->made_room, sizeof *l->made))
        return false;
    l->made[l->n] = made;
    l->at[l->n++] = (struct cr_merge){left, right, rank};
    return true;
}

/* Takes the list over: a table with three slots for two merges. */
static bool index_merges(cr_model *m, merge_list *l, bool ok) {
    const uint64_t slots = (uint64_t)l->n + (uint64_t)l->n / 2 + 1;
    uint32_t *fitted = l->n ? realloc(l->made, (size_t)l->n * sizeof *l->made) : NULL;
    m->made = fitted ? fitted : l->made;
    const size_t bytes = slots < UINT32_MAX / sizeof *m->merges ? (size_t)slots * sizeof *m->merges : 0;
    ok = ok && bytes && (m->merges = malloc(bytes));
    if (ok) memset(m->merges, 0xFF, bytes);                                /* left CR_NO_ID */
    if (ok) m->merge_slots = (uint32_t)slots;
    for (int64_t i = 0; ok && i < l->n; i++) *merge_slot(m, l->at[i].left, l->at[i].right) = l->at[i];
    free(l->at);
    return ok;
}

bool cr_merge_sides(const cr_json *v, const char *side[2], size_t bytes[2]) {
    if (v->kind == CR_JSON_ARRAY && v->count == 2) {
        const cr_json *a = v->first, *b = a->next;
        side[0] = a->text; side[1] = b->text;
        bytes[0] = a->bytes; bytes[1] = b->bytes;
        return a->kind == CR_JSON_STRING && b->kind == CR_JSON_STRING;
    }
    const char *space = v->kind == CR_JSON_STRING ? memchr(v->text, ' ', v->bytes) : NULL;
    if (!space) return false;
    side[0] = v->text; side[1] = space + 1;
    bytes[0] = (size_t)(space - v->text);
    bytes[1] = v->bytes - bytes[0] - 1;
    return !memchr(side[1], ' ', bytes[1]);
}

static cr_status read_merge(const char *op, const char *path, const cr_json *v, uint32_t rank, cr_model *m,
                            cr_out *joined, uint32_t *rank_of, merge_list *list) {
    const char *side[2];
    size_t bytes[2];
    uint32_t id[2];
    if (!cr_merge_sides(v, side, bytes))
        return cr_fail(CR_IO, op, "'%s': merge %u must be two tokens, \"a b\" or [\"a\", \"b\"]", path, rank);
    for (int i = 0; i < 2; i++) {
        id[i] = cr_words_find(&m->words, side[i], bytes[i]);
        if (id[i] == CR_NO_ID)
            return cr_fail(CR_IO, op, "'%s': merge %u has '%.*s', which is not in the vocabulary", path, rank,
                           (int)(bytes[i] < 80 ? bytes[i] : 80), side[i]);
    }
    const size_t skipped = bytes[1] < strlen(m->prefix) ? bytes[1] : strlen(m->prefix);
    joined->bytes = 0;
    cr_out_put(joined, side[0], bytes[0]);
    cr_out_put(joined, side[1] + skipped, bytes[1] - skipped);
    if (joined->failed) return cr_no_memory(op);
    const uint32_t made = cr_words_find(&m->words, joined->text, joined->bytes);
    if (made == CR_NO_ID)
        return cr_fail(CR_IO, op, "'%s': merge %u makes '%.80s', which is not in the vocabulary", path, rank,
                       joined->text);
    if (rank_of && rank_of[made] == CR_NO_ID) rank_of[made] = rank;
    return list_merge(list, id[0], id[1], rank_of ? rank_of[made] : rank, made) ? CR_OK : cr_no_memory(op);
}

static cr_status read_merges(const char *op, const char *path, const cr_json *list, bool sentencepiece, cr_model *m) {
    if (!list || list->kind != CR_JSON_ARRAY) return cr_fail(CR_IO, op, "'%s': its \"merges\" must be a list", path);
    uint32_t *rank_of = sentencepiece ? malloc((size_t)m->words.size * sizeof *rank_of) : NULL;
    if (sentencepiece && !rank_of) return cr_no_memory(op);
    for (int64_t i = 0; rank_of && i < m->words.size; i++) rank_of[i] = CR_NO_ID;
    cr_out joined = {0};
    merge_list merges = {0};
    cr_status status = CR_OK;
    uint32_t rank = 0;
    for (const cr_json *v = list->first; v && status == CR_OK; v = v->next, rank++)
        status = read_merge(op, path, v, rank, m, &joined, rank_of, &merges);
    cr_out_free(&joined);
    free(rank_of);
    const bool indexed = index_merges(m, &merges, status == CR_OK);
    return status != CR_OK || indexed ? status : cr_no_memory(op);
}

/* Byte-level: the symbol of each byte.  Else the tokens of bytes, <0x00> to <0xFF>. */
static void find_bytes(cr_model *m) {
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        const int n = m->byte_level ? cr_utf8_encode(cr_alphabet_of((unsigned char)b), name)
                                    : snprintf(name, sizeof name, "<0x%02X>", b);
        m->byte_id[b] = cr_words_find(&m->words, name, (size_t)n);
    }
}

/* The bytes of each word of a byte-level vocabulary. */
static bool read_raw(cr_model *m) {
    cr_out raw = {0};
    if (!cr_words_reserve(&m->raw, m->words.size, m->words.size, m->words.used)) return false;
    for (uint32_t id = 0; id < m->words.size; id++) {
        size_t n = 0;
        const char *s = cr_words_at(&m->words, id, &n);
        uint32_t code = 0;
        int byte = s ? 0 : -1;
        raw.bytes = 0;
        for (size_t at = 0; at < n && byte >= 0;) {
            at += (size_t)cr_utf8_decode((const unsigned char *)s + at, n - at, &code);
            byte = cr_alphabet_byte(code);
            cr_out_put(&raw, &(char){(char)byte}, 1);
        }
        if (byte >= 0 && n && !raw.failed) cr_words_add(&m->raw, id, raw.text, raw.bytes);
    }
    const bool ok = !raw.failed;
    cr_out_free(&raw);
    return ok;
}

static cr_status short_text(const char *op, const char *path, const cr_json *model, const char *key, char out[64]) {
    const char *s;
    size_t n;
    text_field(model, key, &s, &n);
    if (n >= 64 || strlen(s) != n) return cr_fail(CR_IO, op, "'%s': its \"%s\" is longer than 63 bytes", path, key);
    memcpy(out, s, n + 1);
    return CR_OK;
}

static cr_status read_unk(const char *op, const char *path, const cr_json *model, cr_model *m) {
    const char *s;
    size_t n;
    m->unk = CR_NO_ID;
    if (!text_field(model, "unk_token", &s, &n)) return CR_OK;
    m->unk = cr_words_find(&m->words, s, n);
    m->unk_needed = true;
    /* BPE: it is an error only when it is needed */
    if (m->unk != CR_NO_ID || m->kind == CR_MODEL_BPE) return CR_OK;
    return cr_fail(CR_IO, op, "'%s': its \"unk_token\" '%.40s' is not in the vocabulary", path, s);
}

static cr_status read_bpe(const char *op, const char *path, const cr_json *model, bool sentencepiece, cr_model *m) {
    const cr_json *dropout = cr_json_get(model, "dropout");
    if (dropout && dropout->kind == CR_JSON_NUMBER && dropout->number != 0)
        return cr_fail(CR_IO, op, "'%s': its \"dropout\" is %g: random merges are not supported", path,
                       dropout->number);
    cr_status status = read_words(op, path, cr_json_get(model, "vocab"), &m->words);
    if (status == CR_OK) status = short_text(op, path, model, "continuing_subword_prefix", m->prefix);
    if (status == CR_OK) status = short_text(op, path, model, "end_of_word_suffix", m->suffix);
    if (status == CR_OK) status = read_unk(op, path, model, m);
    if (status == CR_OK) status = read_merges(op, path, cr_json_get(model, "merges"), sentencepiece, m);
    m->byte_fallback = cr_json_flag(model, "byte_fallback", false);
    m->fuse_unk = cr_json_flag(model, "fuse_unk", false);
    m->whole_words = cr_json_flag(model, "ignore_merges", false);
    if (m->prefix[0] || m->suffix[0]) m->byte_level = false;
    if (status == CR_OK && m->byte_level && m->whole_words && !read_raw(m)) return cr_no_memory(op);
    return status;
}

/* ---- Unigram: a trie ---- */
static uint32_t trie_next(const cr_model *m, uint32_t node, unsigned char byte) {       /* 0: none */
    const uint32_t first = m->children[node], n = m->children[node + 1] - first;
    if (n > 8) {
        const unsigned char *found = memchr(m->byte + first, byte, n);
        return found ? (uint32_t)(found - m->byte) : 0;
    }
    for (uint32_t i = first; i < first + n; i++) if (m->byte[i] == byte) return i;
    return 0;
}

typedef struct entry { const char *s; uint32_t bytes, id; } entry;

static int by_bytes(const void *a, const void *b) { /* of twins the last one has the string */
    const entry *x = a, *y = b;
    const int order = memcmp(x->s, y->s, x->bytes < y->bytes ? x->bytes : y->bytes);
    if (order) return order;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The nodes of sorted words: their prefixes, each once. */
static size_t count_nodes(const entry *sorted, uint32_t n) {
    size_t nodes = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t same = 0;
        while (i && same < sorted[i].bytes && same < sorted[i - 1].bytes && sorted[i].s[same] == sorted[i - 1].s[same])
            same++;
        nodes += sorted[i].bytes - same;
    }
    return nodes;
}

/* from, to: room for the words of each node. */
static void fill_trie(cr_model *m, const entry *sorted, uint32_t n, uint32_t *from, uint32_t *to) {
    uint32_t next = 1, level = 1, depth = 0;        /* `level`: the first node of the next level */
    from[0] = 0;
    to[0] = n;
    for (uint32_t node = 0; node < m->nodes; node++) {
        if (node == level) level = next, depth++;
        uint32_t at = from[node];
        m->children[node] = next;
        m->ends[node] = CR_NO_ID;
        while (at < to[node] && sorted[at].bytes == depth) m->ends[node] = sorted[at++].id;
        while (at < to[node]) {
            const char c = sorted[at].s[depth];
            m->byte[next] = (unsigned char)c;
            from[next] = at;
            while (at < to[node] && sorted[at].s[depth] == c) at++;
            to[next++] = at;
        }
    }
    m->children[m->nodes] = next;
}

static bool make_trie(cr_model *m) {
    entry *sorted = malloc(((size_t)m->words.size + 1) * sizeof *sorted);
    uint32_t n = 0, *room = NULL;
    for (uint32_t id = 0; sorted && id < m->words.size; id++) {
        size_t bytes;
        const char *s = cr_words_at(&m->words, id, &bytes);
        if (s && bytes) sorted[n++] = (entry){s, (uint32_t)bytes, id};
    }
    if (sorted) qsort(sorted, n, sizeof *sorted, by_bytes);
    const size_t nodes = sorted ? count_nodes(sorted, n) : 0;
    if (nodes && nodes < UINT32_MAX) {
        m->nodes = (uint32_t)nodes;
        m->children = malloc((nodes + 1) * sizeof *m->children);
        m->byte = malloc(nodes);
        m->ends = malloc(nodes * sizeof *m->ends);
        room = malloc(2 * nodes * sizeof *room);
    }
    const bool ok = room && m->children && m->byte && m->ends;
    if (ok) fill_trie(m, sorted, n, room, room + nodes);
    free(room);
    free(sorted);
    return ok;
}

void cr_model_hide(cr_model *m, uint32_t id) {
    size_t n = 0;
    const char *s = m->kind == CR_MODEL_UNIGRAM ? cr_words_at(&m->words, id, &n) : NULL;
    uint32_t node = 0;
    for (size_t i = 0; s && i < n && (node || !i); i++) node = trie_next(m, node, (unsigned char)s[i]);
    if (s && n && node) m->ends[node] = CR_NO_ID;
}

static cr_status read_unigram(const char *op, const char *path, const cr_json *model, cr_model *m) {
    const cr_json *vocab = cr_json_get(model, "vocab"), *unk = cr_json_get(model, "unk_id");
    size_t bytes = 0;
    if (!vocab || vocab->kind != CR_JSON_ARRAY || !vocab->count || vocab->count > CR_MOST_ID)
        return cr_fail(CR_IO, op, "'%s': its \"vocab\" must be a list of 1 to %d pairs", path, CR_MOST_ID);
    for (const cr_json *v = vocab->first; v; v = v->next) {
        const bool pair = v->kind == CR_JSON_ARRAY && v->count == 2 && v->first->kind == CR_JSON_STRING &&
                          v->first->next->kind == CR_JSON_NUMBER;
        if (!pair) return cr_fail(CR_IO, op, "'%s': an entry of its \"vocab\" is not [token, score]", path);
        bytes += v->first->bytes;
    }
    if (unk && unk->kind == CR_JSON_NUMBER && (!unk->integral || unk->integer < 0 || unk->integer >= vocab->count))
        return cr_fail(CR_IO, op, "'%s': its \"unk_id\" %g is not below the vocabulary of %lld", path, unk->number,
                       (long long)vocab->count);
    m->unk = unk && unk->kind == CR_JSON_NUMBER ? (uint32_t)unk->integer : CR_NO_ID;
    m->unk_needed = true;
    m->byte_fallback = cr_json_flag(model, "byte_fallback", false);
    m->score = malloc((size_t)vocab->count * sizeof *m->score);
    if (!m->score || !cr_words_reserve(&m->words, vocab->count, vocab->count, bytes)) return cr_no_memory(op);
    uint32_t id = 0;
    double least = INFINITY;
    for (const cr_json *v = vocab->first; v; v = v->next, id++) {
        const cr_json *word = v->first;
        m->score[id] = word->next->number;
        if (m->score[id] < least) least = m->score[id];
        cr_words_add(&m->words, id, word->text, word->bytes);               /* of twins the first has the string */
    }
    m->unk_score = least - 10;
    return make_trie(m) ? CR_OK : cr_no_memory(op);
}

/* ---- SentencePiece's pieces ---- */
static int by_score(const void *a, const void *b) {
    const cr_scored *x = *(const cr_scored *const *)a, *y = *(const cr_scored *const *)b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool reserve_pieces(cr_words *words, const cr_pieces *s) {
    size_t bytes = 0;
    for (int64_t i = 0; i < s->n; i++) bytes += s->at[i].bytes;
    return cr_words_reserve(words, s->n, s->n, bytes);
}

bool cr_pieces_merges(const cr_pieces *s, bool (*merge)(void *to, const cr_scored *piece, size_t cut), void *to) {
    cr_words words = {0};
    const cr_scored **sorted = malloc((size_t)s->n * sizeof *sorted);
    bool ok = reserve_pieces(&words, s) && sorted;
    for (int64_t i = 0; ok && i < s->n; i++) {
        const cr_scored *p = &s->at[i];
        if (p->type == CR_PIECE_NORMAL)             /* a user's piece is cut out of the text before */
            cr_words_add(&words, p->id, p->text, p->bytes);
        sorted[i] = p;
    }
    if (ok) qsort(sorted, (size_t)s->n, sizeof *sorted, by_score);
    for (int64_t i = 0; ok && i < s->n; i++) {
        const cr_scored *p = sorted[i];
        for (size_t cut = 1; ok && p->type == CR_PIECE_NORMAL && cut < p->bytes; cut++)
            if (((unsigned char)p->text[cut] & 0xC0) != 0x80 && cr_words_find(&words, p->text, cut) != CR_NO_ID &&
                cr_words_find(&words, p->text + cut, p->bytes - cut) != CR_NO_ID)
                ok = merge(to, p, cut);
    }
    cr_words_free(&words);
    free(sorted);
    return ok;
}

typedef struct ranking { const cr_words *words; merge_list list; uint32_t first; const cr_scored *last; } ranking;

/* Merges that give the same piece rank as its first one. */
static bool add_merge(void *to, const cr_scored *p, size_t cut) {
    ranking *r = to;
    if (r->last != p) r->last = p, r->first = (uint32_t)r->list.n;
    return list_merge(&r->list, cr_words_find(r->words, p->text, cut),
                      cr_words_find(r->words, p->text + cut, p->bytes - cut), r->first,
                      cr_words_find(r->words, p->text, p->bytes));
}

cr_status cr_model_of_pieces(const char *op, const char *path, const cr_pieces *s, cr_model *m) {
    double least = INFINITY;
    m->kind = s->bpe ? CR_MODEL_BPE : CR_MODEL_UNIGRAM;
    m->byte_fallback = s->byte_fallback;
    m->fuse_unk = s->bpe && s->unk >= 0;
    m->unk = s->unk >= 0 ? (uint32_t)s->unk : CR_NO_ID;
    m->unk_needed = !s->bpe || s->unk >= 0;
    m->score = s->bpe ? NULL : malloc((size_t)s->n * sizeof *m->score);
    if (!reserve_pieces(&m->words, s) || (!s->bpe && !m->score)) return cr_no_memory(op);
    for (int64_t i = 0; i < s->n; i++) {
        const cr_scored *p = &s->at[i];
        if (!cr_words_add(&m->words, p->id, p->text, p->bytes) && s->bpe)
            return cr_fail(CR_IO, op, "'%s': two pieces are '%.*s'", path, (int)(p->bytes < 40 ? p->bytes : 40),
                           p->text);
        if (p->score < least) least = p->score;
        if (!s->bpe) m->score[i] = p->score;
    }
    m->unk_score = least - 10;
    find_bytes(m);
    ranking r = {.words = &m->words};
    const bool ok = s->bpe ? index_merges(m, &r.list, cr_pieces_merges(s, add_merge, &r)) : make_trie(m);
    return ok ? CR_OK : cr_no_memory(op);
}

static cr_status read_wordpiece(const char *op, const char *path, const cr_json *model, cr_model *m) {
    const cr_json *longest = cr_json_get(model, "max_input_chars_per_word");
    m->longest = longest && longest->integral ? longest->integer : 100;
    cr_status status = read_words(op, path, cr_json_get(model, "vocab"), &m->words);
    if (status == CR_OK) status = short_text(op, path, model, "continuing_subword_prefix", m->prefix);
    if (status == CR_OK) status = read_unk(op, path, model, m);
    if (status == CR_OK && m->unk == CR_NO_ID)
        return cr_fail(CR_IO, op, "'%s': a WordPiece model needs an \"unk_token\"", path);
    return status;
}

cr_status cr_model_read(const char *op, const char *path, const cr_json *model, bool byte_level, bool sentencepiece,
                        cr_model *m) {
    static const char *const kinds[] = {"BPE", "Unigram", "WordPiece"};
    const char *type;
    size_t n;
    if (!text_field(model, "type", &type, &n)) type = cr_json_get(model, "merges") ? "BPE" : "";
    int kind = 0;
    while (kind < 3 && strcmp(type, kinds[kind])) kind++;
    if (kind == 3)
        return cr_fail(CR_IO, op, "'%s': its model is '%.40s'; BPE, Unigram and WordPiece are known", path, type);
    m->kind = (cr_model_kind)kind;
    m->byte_level = byte_level && kind == CR_MODEL_BPE;
    cr_status status = kind == CR_MODEL_BPE       ? read_bpe(op, path, model, sentencepiece, m)
                       : kind == CR_MODEL_UNIGRAM ? read_unigram(op, path, model, m)
                                                  : read_wordpiece(op, path, model, m);
    if (status == CR_OK) find_bytes(m);
    return status;
}

void cr_model_free(cr_model *m) {
    cr_words_free(&m->words);
    cr_words_free(&m->raw);
    free(m->merges);
    free(m->made);
    free(m->score);
    free(m->children);
    free(m->byte);
    free(m->ends);
}

/* ---- BPE ---- */
enum { FEW = 32 };                                  /* symbols that are merged without a heap */

static size_t merge_few(const cr_model *m, uint32_t *id, size_t n) {
    uint32_t rank[FEW], made[FEW];
    for (size_t i = 0; i + 1 < n; i++) rank[i] = cr_merge_find(m, id[i], id[i + 1], &made[i]);
    while (n > 1) {
        size_t best = 0;
        uint32_t least = CR_NO_ID;
        for (size_t i = 0; i + 1 < n; i++) if (rank[i] < least) least = rank[i], best = i;
        if (least == CR_NO_ID) break;
        id[best] = made[best];
        n--;
        for (size_t i = best + 1; i < n; i++) id[i] = id[i + 1], rank[i - 1] = rank[i], made[i - 1] = made[i];
        if (best) rank[best - 1] = cr_merge_find(m, id[best - 1], id[best], &made[best - 1]);
        if (best + 1 < n) rank[best] = cr_merge_find(m, id[best], id[best + 1], &made[best]);
    }
    return n;
}

typedef struct heap { uint64_t *at; size_t n; int64_t room; } heap;     /* rank << 32 | position, least first */

static bool heap_push(heap *h, uint64_t v) {
    if (!cr_grow(&h->at, (int64_t)h->n + 1, &h->room, sizeof *h->at)) return false;
    size_t i = h->n++;
    for (; i && h->at[(i - 1) / 2] > v; i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = v;
    return true;
}

static uint64_t heap_pop(heap *h) {
    const uint64_t top = h->at[0], last = h->at[--h->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && h->at[child + 1] < h->at[child]) child++;
        if (h->at[child] >= last) break;
        h->at[i] = h->at[child];
    }
    if (h->n) h->at[i] = last;
    return top;
}

/* Symbols as a list in arrays: next and before of n symbols follow id[], then the rank of each pair by its left one. 
 * An entry of the heap is stale when its rank is no longer that of its pair. */
static bool merge_many(const cr_model *m, uint32_t *id, size_t *count) {
    const uint32_t n = (uint32_t)*count;
    uint32_t *next = id + n, *before = id + 2 * (size_t)n, *rank = id + 3 * (size_t)n, made;
    heap h = {0};
    bool ok = true;
    for (uint32_t i = 0; i < n; i++) next[i] = i + 1, before[i] = i - 1, rank[i] = CR_NO_ID;
    for (uint32_t i = 0; ok && i + 1 < n; i++) {
        rank[i] = cr_merge_find(m, id[i], id[i + 1], &made);
        if (rank[i] != CR_NO_ID) ok = heap_push(&h, (uint64_t)rank[i] << 32 | i);
    }
    while (ok && h.n) {
        const uint64_t top = heap_pop(&h);
        const uint32_t i = (uint32_t)top;
        if (rank[i] != top >> 32) continue;
        const uint32_t gone = next[i], then = next[gone];
        cr_merge_find(m, id[i], id[gone], &id[i]);
        rank[gone] = CR_NO_ID;
        id[gone] = CR_NO_ID;
        next[i] = then;
        rank[i] = then < n ? cr_merge_find(m, id[i], id[then], &made) : CR_NO_ID;
        if (then < n) before[then] = i;
        if (rank[i] != CR_NO_ID) ok = heap_push(&h, (uint64_t)rank[i] << 32 | i);
        if (!i) continue;
        const uint32_t p = before[i];
        rank[p] = cr_merge_find(m, id[p], id[i], &made);
        if (rank[p] != CR_NO_ID) ok &= heap_push(&h, (uint64_t)rank[p] << 32 | p);
    }
    free(h.at);
    *count = 0;
    for (uint32_t i = 0; i < n; i = next[i]) id[(*count)++] = id[i];
    return ok;
}

static bool reserve_symbols(cr_workspace *w, size_t symbols) {
    return cr_grow(&w->symbols, (int64_t)symbols, &w->symbol_room, sizeof *w->symbols);
}

static bool lacks_unk(const cr_model *m, cr_workspace *w) {
    if (m->unk != CR_NO_ID || !m->unk_needed) return false;
    w->wrong = "it has a character that is not in the vocabulary, which has no token for unknown ones";
    return true;
}

/* The symbols of a byte-level piece.  Neighbours that are unknown are one where they fuse. */
static size_t spell_bytes(const cr_model *m, cr_workspace *w, const char *s, size_t n, uint32_t *id) {
    size_t count = 0;
    bool unknown = false;
    for (size_t i = 0; i < n; i++) {
        const uint32_t known = m->byte_id[(unsigned char)s[i]], now = known != CR_NO_ID ? known : m->unk;
        if (known == CR_NO_ID && lacks_unk(m, w)) return 0;
        if (now != CR_NO_ID && !(known == CR_NO_ID && unknown && m->fuse_unk)) id[count++] = now;
        unknown = known == CR_NO_ID;
    }
    return count;
}

/* The symbols of a piece of characters; a pending unknown one waits for its neighbours where they fuse. */
static size_t spell_piece(const cr_model *m, cr_workspace *w, const char *s, size_t n, uint32_t *id) {
    const size_t prefix = strlen(m->prefix), suffix = strlen(m->suffix);
    size_t count = 0;
    bool unknown = false;
    for (size_t at = 0; at < n;) {
        char name[4 + 2 * 64];
        uint32_t code = 0;
        const size_t step = (size_t)cr_utf8_decode((const unsigned char *)s + at, n - at, &code);
        size_t length = 0;
        if (at) memcpy(name, m->prefix, prefix), length = prefix;
        memcpy(name + length, s + at, step), length += step;
        if (at + step == n) memcpy(name + length, m->suffix, suffix), length += suffix;
        const uint32_t known = cr_words_find(&m->words, name, length);
        bool bytes = known == CR_NO_ID && m->byte_fallback;
        for (size_t i = 0; bytes && i < length; i++) bytes = m->byte_id[(unsigned char)name[i]] != CR_NO_ID;
        if (known != CR_NO_ID) {
            if (unknown) id[count++] = m->unk;
            unknown = false;
            id[count++] = known;
        } else if (bytes) {
            for (size_t i = 0; i < length; i++) id[count++] = m->byte_id[(unsigned char)name[i]];
        } else if (lacks_unk(m, w)) {
            return 0;
        } else if (m->unk != CR_NO_ID) {
            if (unknown && !m->fuse_unk) id[count++] = m->unk;
            unknown = true;
        }
        at += step;
    }
    if (unknown) id[count++] = m->unk;
    return count;
}

static bool encode_bpe(const cr_model *m, cr_workspace *w, const char *s, size_t n, cr_ids *out) {
    if (m->whole_words) {
        const uint32_t whole = cr_words_find(m->byte_level ? &m->raw : &m->words, s, n);
        if (whole != CR_NO_ID) return cr_ids_put(out, whole);
    }
    const size_t most = n + strlen(m->prefix) * n + strlen(m->suffix) + 2;
    if (most >= UINT32_MAX / 2 || !reserve_symbols(w, most > FEW ? 4 * most : most)) return false;
    uint32_t *id = w->symbols;
    size_t count = m->byte_level ? spell_bytes(m, w, s, n, id) : spell_piece(m, w, s, n, id);
    if (w->wrong) return false;
    if (count <= FEW) count = merge_few(m, id, count);
    else if (!merge_many(m, id, &count)) return false;
    return cr_ids_append(out, id, (int64_t)count);
}

/* ---- Unigram: the best path through the lattice of all words ---- */
static bool put_bytes(const cr_model *m, const char *s, size_t n, cr_ids *out) {
    for (size_t i = 0; i < n; i++) if (m->byte_id[(unsigned char)s[i]] == CR_NO_ID) return false;
    for (size_t i = 0; i < n; i++) cr_ids_put(out, m->byte_id[(unsigned char)s[i]]);
    return true;
}

typedef struct path { double score; uint32_t from, id; } path;             /* the best one that ends at a position */

static bool encode_unigram(const cr_model *m, cr_workspace *w, const char *s, size_t n, cr_ids *out) {
    const size_t each = sizeof(path) / sizeof(uint32_t);
    if (n >= UINT32_MAX / 4 || !reserve_symbols(w, (n + 2) * each)) return false;
    path *best = (path *)(void *)w->symbols;
    for (size_t i = 0; i <= n; i++) best[i] = (path){0, CR_NO_ID, CR_NO_ID};
    for (size_t at = 0; at < n;) {
        uint32_t code = 0, node = 0;
        const size_t step = (size_t)cr_utf8_decode((const unsigned char *)s + at, n - at, &code);
        bool single = false;
        for (size_t to = at; to < n && (node = trie_next(m, node, (unsigned char)s[to]));) {
            const uint32_t id = m->ends[node];
            to++;
            if (id == CR_NO_ID) continue;
            const double score = m->score[id] + best[at].score;
            if (best[to].from == CR_NO_ID || score > best[to].score) best[to] = (path){score, (uint32_t)at, id};
            single |= to == at + step;
        }
        if (!single && lacks_unk(m, w)) return false;
        path *then = &best[at + step];
        const double score = m->unk_score + best[at].score;
        if (!single && (then->from == CR_NO_ID || score > then->score)) *then = (path){score, (uint32_t)at, m->unk};
        at += step;
    }
    const int64_t first = out->n;
    for (size_t end = n; end;) {                    /* backwards, with unknown neighbours as one */
        size_t from = best[end].from;
        const uint32_t id = best[end].id;
        while (id == m->unk && from && best[from].id == m->unk) from = best[from].from;
        const int64_t before = out->n;
        const bool bytes = id == m->unk && m->byte_fallback &&
                           cr_words_find(&m->words, s + from, end - from) == CR_NO_ID &&
                           cr_ids_reserve(out, (int64_t)(end - from)) && put_bytes(m, s + from, end - from, out);
        for (int64_t a = before, b = out->n - 1; a < b; a++, b--) {         /* reversed twice */
            const uint32_t swap = out->at[a];
            out->at[a] = out->at[b];
            out->at[b] = swap;
        }
        if (!bytes && id != CR_NO_ID && !cr_ids_put(out, id)) return false;
        end = from;
    }
    for (int64_t a = first, b = out->n - 1; a < b; a++, b--) {
        const uint32_t swap = out->at[a];
        out->at[a] = out->at[b];
        out->at[b] = swap;
    }
    return !out->failed;
}

/* ---- WordPiece: the longest word from the left ---- */
static bool encode_wordpiece(const cr_model *m, const char *s, size_t n, cr_ids *out) {
    const int64_t first = out->n;
    const size_t prefix = strlen(m->prefix);
    cr_out name = {0};
    int64_t characters = 0;
    for (size_t i = 0; i < n; i++) characters += ((unsigned char)s[i] & 0xC0) != 0x80;
    bool known = characters <= m->longest;
    for (size_t at = 0, end; known && at < n; at = end) {
        uint32_t id = CR_NO_ID;
        name.bytes = 0;
        if (at) cr_out_put(&name, m->prefix, prefix);
        cr_out_put(&name, s + at, n - at);
        for (end = n; end > at && id == CR_NO_ID && !name.failed;) {
            id = cr_words_find(&m->words, name.text, (at ? prefix : 0) + (end - at));
            if (id != CR_NO_ID) break;
            do end--;
            while (end > at && ((unsigned char)s[end] & 0xC0) == 0x80);
        }
        known = id != CR_NO_ID;
        if (known) cr_ids_put(out, id);
    }
    const bool ok = !name.failed;
    cr_out_free(&name);
    if (!known) out->n = first;
    return ok && (known || cr_ids_put(out, m->unk)) && !out->failed;
}

/* ---- pieces that were encoded before ---- */
enum { CACHE_BITS = 15, CACHE_IDS = 9, CACHE_BYTES = 24 };
/* one cache line */
typedef struct cr_piece { uint64_t key[3]; uint8_t bytes, n; uint32_t id[CACHE_IDS]; } cr_piece;

static uint64_t load_bytes(const char *s, size_t n) {
    uint64_t v = 0;
    uint32_t half;
    if (n == 8) return memcpy(&v, s, 8), v;
    return memcpy(&half, s, 4), half;
}

/* With its length, the key is the piece. */
static void key_of(const char *s, size_t n, uint64_t key[3]) {
    key[0] = key[1] = key[2] = 0;
    if (n > 16) key[0] = load_bytes(s, 8), key[1] = load_bytes(s + 8, 8), key[2] = load_bytes(s + n - 8, 8);
    else if (n > 8) key[0] = load_bytes(s, 8), key[1] = load_bytes(s + n - 8, 8);
    else if (n >= 4) key[0] = load_bytes(s, 4) | load_bytes(s + n - 4, 4) << 32;
    else for (size_t i = 0; i < n; i++) key[0] |= (uint64_t)(unsigned char)s[i] << 8 * i;
}

static bool encode_new(const cr_model *m, cr_workspace *w, const char *s, size_t n, cr_ids *out) {
    return m->kind == CR_MODEL_BPE       ? encode_bpe(m, w, s, n, out)
           : m->kind == CR_MODEL_UNIGRAM ? encode_unigram(m, w, s, n, out)
                                         : encode_wordpiece(m, s, n, out);
}

bool cr_model_encode(const cr_model *m, cr_workspace *w, const char *s, size_t n, cr_ids *out) {
    if (!n) return true;
    if (n > CACHE_BYTES || !w->cache) return encode_new(m, w, s, n, out);
    uint64_t key[3];
    key_of(s, n, key);
    uint64_t h = (key[0] ^ n) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ key[1]) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 29 ^ key[2]) * 0x94d049bb133111ebu;
    cr_piece *p = &w->cache[h >> (64 - CACHE_BITS)];
    if (p->bytes == n && p->key[0] == key[0] && p->key[1] == key[1] && p->key[2] == key[2]) {
        if (!cr_ids_reserve(out, CACHE_IDS)) return false;
        memcpy(out->at + out->n, p->id, sizeof p->id);                      /* all: a fixed length is quicker */
        out->n += p->n;
        return true;
    }
    const int64_t first = out->n;
    if (!encode_new(m, w, s, n, out)) return false;
    if (out->n - first > CACHE_IDS) return true;
    memcpy(p->key, key, sizeof p->key);
    p->bytes = (uint8_t)n;
    p->n = (uint8_t)(out->n - first);
    if (p->n) memcpy(p->id, out->at + first, p->n * sizeof *p->id);
    return true;
}

struct cr_piece *cr_pieces_new(void) { return calloc((size_t)1 << CACHE_BITS, sizeof(cr_piece)); }
