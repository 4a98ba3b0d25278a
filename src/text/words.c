/* words.c - the small containers of pipeline.h: lists of ids, and strings with ids. */
#include <stdlib.h>
#include <string.h>

#include "../core/table.h"
#include "pipeline.h"

bool cr_ids_reserve(cr_ids *ids, int64_t more) {
    if (ids->room - ids->n >= more) return !ids->failed;
    ids->failed = ids->failed || !cr_grow(&ids->at, ids->n + more, &ids->room, sizeof *ids->at);
    return !ids->failed;
}

bool cr_ids_put(cr_ids *ids, uint32_t id) {
    if (ids->n == ids->room && !cr_ids_reserve(ids, 1)) return false;
    ids->at[ids->n++] = id;
    return true;
}

bool cr_ids_append(cr_ids *ids, const uint32_t *from, int64_t n) {
    if (!cr_ids_reserve(ids, n)) return false;
    if (n) memcpy(ids->at + ids->n, from, (size_t)n * sizeof *from);
    ids->n += n;
    return true;
}

/* ---- words ---- */
bool cr_words_reserve(cr_words *w, int64_t size, int64_t count, size_t bytes) {
    uint64_t slots = 16;
    while (3 * slots < 4 * (uint64_t)count + 4) slots *= 2;
    if (bytes >= CR_NO_ID || slots > UINT32_MAX) return false;
    w->size = size;
    w->word = malloc(((size_t)size + 1) * sizeof *w->word);
    w->text = malloc(bytes + 1);
    w->slots = calloc((size_t)slots, sizeof *w->slots);
    w->mask = (uint32_t)slots - 1;
    for (int64_t i = 0; w->word && i < size; i++) w->word[i].bytes = CR_NO_ID;
    return w->word && w->text && w->slots;
}

static uint32_t *slot_of(const cr_words *w, const char *s, size_t n) {
    uint32_t i = (uint32_t)cr_hash_bytes(s, n) & w->mask;
    for (; w->slots[i]; i = (i + 1) & w->mask) {
        const uint32_t id = w->slots[i] - 1;
        if (w->word[id].bytes == n && !memcmp(w->text + w->word[id].at, s, n)) break;
    }
    return &w->slots[i];
}

bool cr_words_add(cr_words *w, uint32_t id, const char *s, size_t n) {
    uint32_t *slot = slot_of(w, s, n);
    if (id >= w->size || w->word[id].bytes != CR_NO_ID) return false;
    memcpy(w->text + w->used, s, n);
    w->word[id].at = (uint32_t)w->used;
    w->word[id].bytes = (uint32_t)n;
    w->used += n;
    if (*slot) return false;                        /* the string stays that of the first id */
    *slot = id + 1;
    return true;
}

uint32_t cr_words_find(const cr_words *w, const char *s, size_t n) {
    return w->slots ? *slot_of(w, s, n) - 1 : CR_NO_ID;
}

const char *cr_words_at(const cr_words *w, uint32_t id, size_t *n) {
    if (id >= w->size || w->word[id].bytes == CR_NO_ID) return NULL;
    *n = w->word[id].bytes;
    return w->text + w->word[id].at;
}

void cr_words_free(cr_words *w) {
    free(w->word);
    free(w->text);
    free(w->slots);
    *w = (cr_words){0};
}

/* ---- GPT-2's alphabet: printable bytes stand for themselves, the others for the characters from U+0100 on ---- */
static bool is_printable(unsigned c) {
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

uint32_t cr_alphabet_of(unsigned char byte) {
    uint32_t others = 0;
    if (is_printable(byte)) return byte;
    for (unsigned c = 0; c < byte; c++) others += !is_printable(c);
    return 256 + others;
}

int cr_alphabet_byte(uint32_t code) {
    if (code < 256) return is_printable(code) ? (int)code : -1;
    uint32_t others = 256;
    for (unsigned c = 0; c < 256; c++) if (!is_printable(c) && others++ == code) return (int)c;
    return -1;
}
