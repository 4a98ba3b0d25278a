/* table.c - see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

static bool grow(cr_table *t) {
    const size_t slots = t->at ? 2 * (t->mask + 1) : CR_TABLE_FEW;
    cr_table wider = {.at = t->at ? NULL : t->few, .few = t->few, .n = t->n, .mask = slots - 1};
    if (!wider.at && !(wider.at = calloc(slots, sizeof *wider.at))) return false;
    for (size_t i = 0; t->at && i <= t->mask; i++)
        if (t->at[i].key) *cr_table_probe(&wider, t->at[i].key) = t->at[i];
    if (t->at != t->few) free(t->at);
    *t = wider;
    return true;
}

uint64_t *cr_table_add(cr_table *t, uint64_t key) {
    if (2 * t->n >= t->mask && !grow(t)) return NULL;
    cr_table_slot *s = cr_table_probe(t, key);
    if (!s->key) {
        *s = (cr_table_slot){.key = key};
        t->n++;
    }
    return &s->value;
}

/* Later slots move into the gap where their probe sequence passes it. */
uint64_t cr_table_take(cr_table *t, uint64_t key) {
    const uint64_t *found = cr_table_find(t, key);
    if (!found) return 0;
    const uint64_t value = *found;
    size_t gap = (size_t)(cr_table_probe(t, key) - t->at);
    for (size_t i = (gap + 1) & t->mask; t->at[i].key; i = (i + 1) & t->mask) {
        if (((i - cr_table_home(t, t->at[i].key)) & t->mask) < ((i - gap) & t->mask)) continue;
        t->at[gap] = t->at[i];
        gap = i;
    }
    t->at[gap].key = 0;
    t->n--;
    return value;
}

void cr_table_free(cr_table *t) {
    if (t->at != t->few) free(t->at);
    *t = (cr_table){0};
}

static uint64_t load8(const char *s) {
    uint64_t v;
    memcpy(&v, s, sizeof v);
    return v;
}

uint64_t cr_hash_bytes(const void *bytes, size_t n) {
    const char *s = bytes;
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (; n >= 8; s += 8, n -= 8) h = (h ^ load8(s)) * 0xbf58476d1ce4e5b9u, h ^= h >> 29;
    for (; n; s++, n--) h = (h ^ (unsigned char)*s) * 0x94d049bb133111ebu;
    h = (h ^ h >> 32) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}
