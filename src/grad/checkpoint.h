/* checkpoint.h - activation checkpointing for other folders. */
#ifndef CR_CHECKPOINT_H
#define CR_CHECKPOINT_H

#include <chainrule.h>

/* cr_checkpoint, which owns ctx: it calls done(ctx) when f is needed no more, also after a failure. */
cr_tensor *cr_checkpoint_owned(cr_function f, void *ctx, void (*done)(void *ctx), int n, const cr_tensor *const *in);

#endif
