/* train.c - a byte-level BPE from a text (Sennrich et al. 2016), with the merges that Hugging Face's trainer finds: the
 * most frequent pair first, and of equal ones that of the smaller ids.  The counts of pairs are kept up to date; a pair
 * knows the words that have it. */
#include <stdlib.h>
#include <string.h>

#include "../core/out.h"
#include "../core/status.h"
#include "../core/table.h"
#include "../core/utf8.h"
#include "pipeline.h"
#include "tokenizer.h"

static const char op[] = "tokenizer_train_bpe", from[] = "a new vocabulary";

typedef struct word { size_t at; uint32_t bytes, n; int64_t count; } word;  /* n symbols at symbols[at] */
/* key: left << 32 | right; queued: it is or was in the heap */
typedef struct pair { uint64_t key; int64_t count; uint32_t *word; int64_t n, room; bool queued; } pair;
typedef struct entry { int64_t count; uint64_t key; } entry;
typedef struct trainer {
    const char *text;
    word *words; uint32_t n_words; int64_t words_room;
    cr_table word_numbers;                          /* by their texts */
    uint32_t *symbols;
    pair *pairs; int64_t n_pairs, pairs_room;
    cr_table pair_numbers;                          /* by key + 1 */
    entry *heap; int64_t n_heap, heap_room;
    uint32_t *left, *right; uint32_t n_merges;      /* the result */
    uint32_t first;                                 /* id of the first byte in the alphabet */
    uint32_t id_of_byte[256];
    bool failed;
} trainer;

/* ---- words ---- */
/* Counts s[at, at + n); until the symbols are made, `at` is the offset in the text. */
static void count_word(trainer *t, size_t at, size_t n) {
    if (t->failed || !n || n > UINT32_MAX) return;
    uint64_t key = cr_hash_bytes(t->text + at, n) | 1, *number = NULL;
    for (const uint64_t *i; (i = cr_table_find(&t->word_numbers, key)); key += 2) {
        word *w = &t->words[*i];
        if (w->bytes == n && !memcmp(t->text + w->at, t->text + at, n)) { w->count++; return; }
    }
    if (cr_grow(&t->words, (int64_t)t->n_words + 1, &t->words_room, sizeof *t->words))
        number = cr_table_add(&t->word_numbers, key);
    if (!number) { t->failed = true; return; }
    *number = t->n_words;
    t->words[t->n_words++] = (word){.at = at, .bytes = (uint32_t)n, .count = 1};
}

/* The pieces of s[at, at + n), valid UTF-8. */
static cr_status count_pieces(trainer *t, const cr_regex *re, cr_regex_room *room, size_t base, size_t n) {
    const char *s = t->text + base;
    size_t start, end, kept = 0;
    int64_t pieces = 0;
    for (size_t at = 0; at < n && !t->failed;) {
        const int found = cr_regex_find(re, room, s, n, at, &start, &end);
        if (found < 0) return cr_fail(CR_RUNTIME, op, "the split of the text exceeds PCRE2's limits");
        if (!found) break;
        count_word(t, base + kept, start - kept);
        count_word(t, base + start, end - start);
        kept = at = end;
        if (start == end) do at++; while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80);
        if (++pieces % 4096 == 0) {
            cr_status status = cr_check_interrupt(op);
            if (status != CR_OK) return status;
        }
    }
    count_word(t, base + kept, n - kept);
    return CR_OK;
}

static cr_status count_words(trainer *t, size_t bytes, const char *split) {
    cr_regex *re = cr_regex_new(op, from, split, strlen(split));
    const bool needs = re && cr_regex_needs_room(re);
    cr_regex_room *room = needs ? cr_regex_room_new() : NULL;
    cr_status status = re ? CR_OK : cr_error_status();
    if (needs && !room) t->failed = true;
    for (size_t at = 0; status == CR_OK && !t->failed && at < bytes;) {
        const size_t valid = cr_utf8_valid(t->text + at, bytes - at);
        status = count_pieces(t, re, room, at, valid);
        at += valid + 1;                            /* a byte that is not UTF-8 divides the text */
    }
    cr_regex_room_free(room);
    cr_regex_free(re);
    return status;
}

/* ---- pairs ---- */
static pair *find_pair(const trainer *t, uint64_t key) {
    const uint64_t *number = cr_table_find(&t->pair_numbers, key + 1);
    return number ? &t->pairs[*number] : NULL;
}

static pair *new_pair(trainer *t, uint64_t key) {
    uint64_t *number = NULL;
    if (cr_grow(&t->pairs, t->n_pairs + 1, &t->pairs_room, sizeof *t->pairs))
        number = cr_table_add(&t->pair_numbers, key + 1);
    if (!number) return NULL;
    *number = (uint64_t)t->n_pairs;
    t->pairs[t->n_pairs] = (pair){.key = key};
    return &t->pairs[t->n_pairs++];
}

static void add_pair(trainer *t, uint32_t left, uint32_t right, int64_t count, uint32_t number) {
    const uint64_t key = (uint64_t)left << 32 | right;
    pair *p = find_pair(t, key);
    if (!p && !(p = new_pair(t, key))) { t->failed = true; return; }
    p->count += count;
    if (count < 0 || (p->n && p->word[p->n - 1] == number)) return;
    if (cr_grow(&p->word, p->n + 1, &p->room, sizeof *p->word)) p->word[p->n++] = number;
    else t->failed = true;
}

/* ---- the heap: the largest count, then the smallest key ---- */
static bool comes_before(entry a, entry b) { return a.count != b.count ? a.count > b.count : a.key < b.key; }

static void push_entry(trainer *t, entry e) {
    if (!cr_grow(&t->heap, t->n_heap + 1, &t->heap_room, sizeof *t->heap)) { t->failed = true; return; }
    int64_t i = t->n_heap++;
    for (; i && comes_before(e, t->heap[(i - 1) / 2]); i = (i - 1) / 2) t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = e;
}

static entry pop_pair(trainer *t) {
    const entry top = t->heap[0], last = t->heap[--t->n_heap];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < t->n_heap; i = child) {
        if (child + 1 < t->n_heap && comes_before(t->heap[child + 1], t->heap[child])) child++;
        if (!comes_before(t->heap[child], last)) break;
        t->heap[i] = t->heap[child];
    }
    if (t->n_heap) t->heap[i] = last;
    return top;
}

/* ---- training ---- */
static void make_symbols(trainer *t) {
    size_t total = 0;
    for (uint32_t i = 0; i < t->n_words; i++) total += t->words[i].bytes;
    t->symbols = malloc((total + 1) * sizeof *t->symbols);
    if (!t->symbols) { t->failed = true; return; }
    size_t at = 0;
    for (uint32_t i = 0; i < t->n_words; i++) {
        word *w = &t->words[i];
        for (uint32_t k = 0; k < w->bytes; k++) t->symbols[at + k] = t->id_of_byte[(unsigned char)t->text[w->at + k]];
        w->at = at;
        w->n = w->bytes;
        at += w->bytes;
        for (uint32_t k = 0; k + 1 < w->n; k++)
            add_pair(t, t->symbols[w->at + k], t->symbols[w->at + k + 1], w->count, i);
    }
    for (int64_t i = 0; !t->failed && i < t->n_pairs; i++) {
        t->pairs[i].queued = true;
        push_entry(t, (entry){t->pairs[i].count, t->pairs[i].key});
    }
}

/* Replaces left right by `made` in one word, from the left, and counts the pairs anew that change. */
static void merge_word(trainer *t, uint32_t number, uint32_t left, uint32_t right, uint32_t made) {
    word *w = &t->words[number];
    uint32_t *s = t->symbols + w->at;
    for (uint32_t i = 0; i + 1 < w->n; i++) {
        if (s[i] != left || s[i + 1] != right) continue;
        if (i) {
            add_pair(t, s[i - 1], left, -w->count, number);
            add_pair(t, s[i - 1], made, w->count, number);
        }
        if (i + 2 < w->n) {
            add_pair(t, right, s[i + 2], -w->count, number);
            add_pair(t, made, s[i + 2], w->count, number);
        }
        s[i] = made;
        memmove(s + i + 1, s + i + 2, (w->n - i - 2) * sizeof *s);
        w->n--;
    }
}

static cr_status find_merges(trainer *t, uint32_t first_id, int64_t most, int64_t least) {
    t->left = malloc(((size_t)most + 1) * sizeof *t->left);
    t->right = malloc(((size_t)most + 1) * sizeof *t->right);
    if (!t->left || !t->right) t->failed = true;
    while (!t->failed && t->n_merges < most && t->n_heap) {
        entry e = pop_pair(t);
        pair *p = find_pair(t, e.key);
        if (p->count != e.count) { e.count = p->count; if (e.count > 0) push_entry(t, e); continue; }
        if (e.count < 1 || e.count < least) break;
        const uint32_t left = (uint32_t)(e.key >> 32), right = (uint32_t)e.key, made = first_id + t->n_merges;
        uint32_t *list = p->word;
        const int64_t n = p->n;
        p->word = NULL;
        p->n = p->room = 0;
        t->left[t->n_merges] = left;
        t->right[t->n_merges++] = right;
        for (int64_t i = 0; i < n && !t->failed; i++) merge_word(t, list[i], left, right, made);
        find_pair(t, e.key)->count = 0;
        /* the new pairs are those with `made` */
        for (int64_t i = 0; i < n && !t->failed; i++) {
            const word *w = &t->words[list[i]];
            const uint32_t *s = t->symbols + w->at;
            for (uint32_t k = 0; k + 1 < w->n; k++) {
                if (s[k] != made && s[k + 1] != made) continue;
                pair *q = find_pair(t, (uint64_t)s[k] << 32 | s[k + 1]);
                if (!q || q->queued) continue;
                q->queued = true;
                push_entry(t, (entry){q->count, q->key});
            }
        }
        free(list);
        cr_status status = cr_check_interrupt(op);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

/* ---- the result as a tokenizer.json ---- */
static void put_token(const cr_out *names, const size_t *at, uint32_t id, cr_out *out) {
    cr_out_string(out, names->text + at[id], at[id + 1] - at[id]);
}

static cr_status write_json(trainer *t, const cr_bpe_training *o, uint32_t first_id, cr_out *out) {
    cr_out names = {0};                             /* all tokens in the alphabet, one after the other */
    const uint32_t size = first_id + t->n_merges;
    size_t *at = malloc(((size_t)size + 1) * sizeof *at);
    if (!at) return cr_fail(CR_NO_MEMORY, op, "no memory for %u tokens", size);
    uint32_t id = 0;
    cr_format_begin(out);
    for (; id < o->n_special; id++) {
        at[id] = names.bytes;
        cr_out_put(&names, o->special[id], strlen(o->special[id]));
        cr_format_added(out, o->special[id], strlen(o->special[id]), id, true, false);
    }
    for (uint32_t code = 0; code < 0x200; code++) {
        char utf8[4];
        if (cr_alphabet_byte(code) < 0) continue;
        at[id++] = names.bytes;
        cr_out_put(&names, utf8, (size_t)cr_utf8_encode(code, utf8));
    }
    for (uint32_t i = 0; i < t->n_merges; i++) {
        const uint32_t side[2] = {t->left[i], t->right[i]};
        at[id] = names.bytes;
        for (int k = 0; k < 2 && !names.failed; k++) {
            const size_t n = at[side[k] + 1] - at[side[k]];
            char *copy = malloc(n + 1);             /* names may move */
            if (!copy) { names.failed = true; break; }
            memcpy(copy, names.text + at[side[k]], n);
            cr_out_put(&names, copy, n);
            free(copy);
        }
        id++;
    }
    at[id] = names.bytes;
    cr_format_byte_level(out, &(cr_byte_level){.split = {o->split}});
    cr_out_put(out, "{", 1);
    for (uint32_t i = 0; i < size && !names.failed; i++) {
        cr_out_put(out, i ? ",\n" : "\n", i ? 2 : 1);
        put_token(&names, at, i, out);
        cr_out_format(out, ":%u", i);
    }
    cr_out_format(out, "},\n\"merges\":[");
    for (uint32_t i = 0; i < t->n_merges && !names.failed; i++) {
        cr_out_put(out, i ? ",\n[" : "\n[", i ? 3 : 2);
        put_token(&names, at, t->left[i], out);
        cr_out_put(out, ",", 1);
        put_token(&names, at, t->right[i], out);
        cr_out_put(out, "]", 1);
    }
    cr_out_format(out, "]}}\n");
    out->failed |= names.failed;
    cr_out_free(&names);
    free(at);
    return cr_out_check(out, op, from);
}

static cr_status check_options(const char *text, size_t bytes, const cr_bpe_training *o) {
    if (!text && bytes) return cr_fail_null(op, "the text");
    if (!o) return cr_fail_null(op, "the options");
    if (o->n_special < 0 || (o->n_special && !o->special)) return cr_fail_null(op, "the special tokens");
    if (o->vocabulary < 256 + o->n_special || o->vocabulary > CR_MOST_ID)
        return cr_fail(CR_BAD_VALUE, op,
                       "the vocabulary must be between %lld (the bytes and %lld special tokens) and %d, "
                                         "not %lld",
                       256 + (long long)o->n_special, (long long)o->n_special, CR_MOST_ID, (long long)o->vocabulary);
    for (int64_t i = 0; i < o->n_special; i++) {
        if (!o->special[i]) return cr_fail_null(op, "a special token");
        if (!*o->special[i] || !o->special[i][1] || cr_utf8_valid(o->special[i],
                                                                  strlen(o->special[i])) < strlen(o->special[i]))
            return cr_fail(CR_BAD_VALUE, op, "special token %lld is shorter than two bytes or not UTF-8", (long long)i);
        for (int64_t k = 0; k < i; k++)
            if (!strcmp(o->special[i], o->special[k]))
                return cr_fail(CR_BAD_VALUE, op, "special token '%.40s' is listed twice", o->special[i]);
    }
    return CR_OK;
}

cr_tokenizer *cr_tokenizer_train_bpe(const char *text, size_t bytes, const cr_bpe_training *o) {
    if (check_options(text, bytes, o)) return NULL;
    trainer t = {.text = text};
    const uint32_t first_id = (uint32_t)o->n_special + 256;
    uint32_t id = (uint32_t)o->n_special;
    for (uint32_t code = 0; code < 0x200; code++)
        if (cr_alphabet_byte(code) >= 0) t.id_of_byte[cr_alphabet_byte(code)] = id++;
    cr_status status = count_words(&t, bytes, o->split ? o->split : cr_splitter_gpt2);
    if (status == CR_OK && !t.failed) make_symbols(&t);
    if (status == CR_OK && !t.failed) status = find_merges(&t, first_id, o->vocabulary - first_id, o->min_frequency);
    cr_out json = {0};
    if (status == CR_OK && t.failed) status = cr_fail(CR_NO_MEMORY, op, "no memory to train on %zu bytes", bytes);
    if (status == CR_OK) status = write_json(&t, o, first_id, &json);
    for (int64_t i = 0; i < t.n_pairs; i++) free(t.pairs[i].word);
    cr_table_free(&t.pair_numbers);
    free(t.pairs);
    free(t.words);
    cr_table_free(&t.word_numbers);
    free(t.symbols);
    free(t.heap);
    free(t.left);
    free(t.right);
    if (status == CR_OK) return cr_tokenizer_of(op, from, json.text, json.bytes, false);
    cr_out_free(&json);
    return NULL;
}
