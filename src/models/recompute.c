/* recompute.c - gradient checkpointing (Chen et al. 2016): of a block, the graph keeps the input x only, and the
 * backward pass runs the block again.  One forward pass more; the same bits. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../grad/checkpoint.h"

typedef struct kept {
    cr_block_run run;                               /* pass: a copy of what the caller has */
    bool lora_trains;
    const cr_tensor *table[];                       /* retained */
} kept;

static void drop_kept(void *ctx) {
    kept *k = ctx;
    for (int i = 0; i < k->run.tables; i++) cr_drop(k->table[i]);
    cr_segments_drop(k->run.segments);
    if (k->run.hold) k->run.hold(k->run.owner, false);
    free((void *)(uintptr_t)k->run.pass);
    free(k);
}

static cr_tensor *run_kept(int n, const cr_tensor *const *in, void *ctx) {
    const kept *k = ctx;
    (void)n;
    const bool before = cr_lora_train(k->lora_trains);
    cr_tensor *y = k->run.forward(k->run.pass, k->run.layer, in[0]);
    cr_lora_train(before);
    return y;
}

cr_tensor *cr_block_recomputed(const cr_block_run *b, const cr_tensor *x) {
    if (!x) return NULL;
    kept *k = calloc(1, sizeof *k + (size_t)b->tables * sizeof *k->table);
    void *pass = malloc(b->bytes);
    if (!k || !pass) return free(k), free(pass), cr_no_memory("gradient_checkpointing"), NULL;
    memcpy(pass, b->pass, b->bytes);
    k->run = *b;
    k->run.pass = pass;
    k->run.segments = cr_segments_hold(b->segments);
    if (b->hold) b->hold(b->owner, true);
    k->lora_trains = cr_lora_train(false);
    cr_lora_train(k->lora_trains);
    for (int i = 0; i < b->tables; i++) k->table[i] = cr_retain(b->table[i]);
    return cr_checkpoint_owned(run_kept, k, drop_kept, 1, &x);
}
