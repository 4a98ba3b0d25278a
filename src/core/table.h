/* table.h - a hash table from 64-bit keys to 64-bit values: open addressing, at most half full.
 *
 * Longer keys, such as names: key = hash | 1, and the value is the number of the entry that has the name.  Where that
 * entry has another name, its user tries key + 2, and so on. */
#ifndef CR_TABLE_H
#define CR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CR_TABLE_FEW = 16 };
typedef struct cr_table_slot { uint64_t key, value; } cr_table_slot;    /* key 0: empty */
typedef struct cr_table {
    cr_table_slot *at, *few;                        /* few: the caller's first CR_TABLE_FEW slots, empty; or NULL */
    size_t n, mask;
} cr_table;

uint64_t *cr_table_add(cr_table *t, uint64_t key);  /* the key's value, 0 where it is new; until the next add or take;
                                                     * NULL: out of memory */
uint64_t  cr_table_take(cr_table *t, uint64_t key); /* removes the key; its value, or 0 */
void      cr_table_free(cr_table *t);

uint64_t  cr_hash_bytes(const void *bytes, size_t n);

static inline size_t cr_table_home(const cr_table *t, uint64_t key) {
    return (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & t->mask;
}

/* The key's slot, or the empty one where it would be. */
static inline cr_table_slot *cr_table_probe(const cr_table *t, uint64_t key) {
    size_t i = cr_table_home(t, key);
    while (t->at[i].key && t->at[i].key != key) i = (i + 1) & t->mask;
    return &t->at[i];
}

/* The key's value; NULL: none. */
static inline uint64_t *cr_table_find(const cr_table *t, uint64_t key) {
    cr_table_slot *s = t->at ? cr_table_probe(t, key) : NULL;
    return s && s->key ? &s->value : NULL;
}

#endif
