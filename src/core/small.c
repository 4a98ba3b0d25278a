/* small.c - memory for handles and nodes.  Each thread keeps a free list, longer than malloc's,
 * because a training step frees and makes chains of hundreds of recorded ops. */
#include "small.h"
#include "os.h"

#include <stdlib.h>

/* bytes; classes of 64, 128 ... 1024 bytes; bytes kept per class */
enum { LINE = 64, CLASSES = 17, AT_HAND = 64 << 10 };

typedef struct block { struct block *next; } block;
typedef struct lists { block *first[CLASSES]; int bytes[CLASSES]; bool watched; } lists;
static _Thread_local lists mine;

#if defined(__SANITIZE_ADDRESS__)
enum { KEEPS = 0 };                                 /* the sanitizer checks the end of every block */
#else
enum { KEEPS = 1 };
#endif

static void give_all(void) {
    for (int c = 0; c < CLASSES; c++)
        for (block *b; (b = mine.first[c]); ) {
            mine.first[c] = b->next;
            mine.bytes[c] -= c * LINE;
            free(b);
        }
    mine.watched = false;
}

void *cr_small_take(size_t bytes) {
    const size_t c = (bytes + LINE - 1) / LINE;
    if (c >= CLASSES) return malloc(bytes);
    lists *l = &mine;
    block *b = l->first[c];
    if (!b) return malloc(c * LINE);
    l->first[c] = b->next;
    l->bytes[c] -= (int)c * LINE;
    return b;
}

void cr_small_give(void *p, size_t bytes) {
    const size_t c = (bytes + LINE - 1) / LINE;
    if (!KEEPS || !p || c >= CLASSES) { free(p); return; }
    lists *l = &mine;
    if (l->bytes[c] >= AT_HAND) { free(p); return; }
    if (!l->watched) cr_os_at_thread_exit(give_all);
    l->watched = true;
    block *b = p;
    b->next = l->first[c];
    l->first[c] = b;
    l->bytes[c] += (int)c * LINE;
}
