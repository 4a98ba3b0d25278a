/* tree.h - the order of all additions: a binary tree over n leaves (microbatches, or ranks).
 *
 * Node i of level l is the sum of nodes 2 i and 2 i + 1 of level l - 1; the last node of a level of odd
 * length has no sibling and rises as it is.  A stack takes nodes from left to right and merges what it
 * can, so any cut of the leaves into consecutive runs gives the same additions in the same order. */
#ifndef CR_TREE_H
#define CR_TREE_H

#include <stdint.h>

typedef struct cr_tree_node { int level; int64_t index; } cr_tree_node;

enum { CR_TREE_DEPTH = 2 * 41 };                    /* entries of a stack over at most 2^40 leaves */

typedef struct cr_tree {
    int64_t leaves;
    int n;
    struct { cr_tree_node node; int64_t value; } at[CR_TREE_DEPTH];     /* value: the caller's name for the sum */
} cr_tree;

/* Appends the next node.  merges[0 .. count): values of the stack that are to be added to `value`, in this order;
 * the sum keeps the name `value`.  Returns count. */
int cr_tree_push(cr_tree *t, cr_tree_node node, int64_t value, int64_t merges[CR_TREE_DEPTH]);

/* The leaves of a part: [part * leaves / parts, (part + 1) * leaves / parts). */
int64_t cr_tree_first(int64_t leaves, int part, int parts);

/* The nodes that a part's leaves make; returns how many. */
int cr_tree_cover(int64_t leaves, int part, int parts, cr_tree_node out[CR_TREE_DEPTH]);

#endif
