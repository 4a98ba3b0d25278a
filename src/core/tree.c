/* tree.c - see tree.h. */
#include "tree.h"

#include <stdbool.h>

static int64_t nodes_of(const cr_tree *t, int level) {
    const int64_t one = INT64_C(1) << level;
    return (t->leaves + one - 1) >> level;
}

int cr_tree_push(cr_tree *t, cr_tree_node node, int64_t value, int64_t merges[CR_TREE_DEPTH]) {
    int count = 0;
    for (;;) {
        const int64_t nodes = nodes_of(t, node.level);
        const bool odd = node.index & 1, alone = !odd && node.index == nodes - 1 && nodes > 1;
        const cr_tree_node top = t->n ? t->at[t->n - 1].node : (cr_tree_node){-1, -1};
        const bool sibling = odd && top.level == node.level && top.index == node.index - 1;
        if (!sibling && !alone) break;
        if (sibling) merges[count++] = t->at[--t->n].value;
        node = (cr_tree_node){node.level + 1, node.index >> 1};
    }
    t->at[t->n].node = node;
    t->at[t->n++].value = value;
    return count;
}

int64_t cr_tree_first(int64_t leaves, int part, int parts) {
    return leaves / parts * part + leaves % parts * part / parts;
}

int cr_tree_cover(int64_t leaves, int part, int parts, cr_tree_node out[CR_TREE_DEPTH]) {
    cr_tree t = {.leaves = leaves};
    int64_t ignored[CR_TREE_DEPTH];
    const int64_t last = cr_tree_first(leaves, part + 1, parts);
    for (int64_t i = cr_tree_first(leaves, part, parts); i < last; i++)
        (void)cr_tree_push(&t, (cr_tree_node){0, i}, i, ignored);
    for (int i = 0; i < t.n; i++) out[i] = t.at[i].node;
    return t.n;
}
