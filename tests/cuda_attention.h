/* cuda_attention.h - attention of a trial on an NVIDIA GPU. */
#ifndef CR_CUDA_ATTENTION_H
#define CR_CUDA_ATTENTION_H

#include "attention_trial.h"

/* The bytes of a box on the GPU, between guards. */
static cr_array *up(const box *b, cr_array *t, const cr_device *d) {
    *t = b->t;
    t->dev = d;
    t->storage = d->allocate(d, b->bytes - GUARD / 2);
    CHECK(t->storage, "%s", cr_error());
    if (t->storage) OK(d->upload(d, t->storage, 0, b->s.data, b->bytes - GUARD / 2));
    return t;
}
static void down(box *b, const cr_array *t) {
    OK(t->dev->download(t->dev, b->s.data, t->storage, 0, b->bytes - GUARD / 2));
    cr_storage_release(t->storage);
}

static void run(const trial *t, set *s, const cr_device *d) {
    const cr_kernels *kernels = d->kernels;
    cr_array of[BOXES], none = {0}; const cr_array *x[BOXES];
    for (int i = 0; i < BOXES; i++) x[i] = up(&s->b[i], &of[i], d);
    const cr_array *mask = t->mask ? x[MASK] : &none;
    OK(kernels->attention(
        &(cr_attention_args){*x[O], *x[LSE], *x[Q], *x[K], *x[W], *mask, t->scale, first(t), last(t)}));
    OK(kernels->attention_bwd(&(cr_attention_bwd_args){*x[DQ], *x[DK], *x[DV], *x[Q], *x[K], *x[W], *mask, *x[O],
                                                       *x[LSE], *x[G], t->scale, first(t), last(t)}));
    const char *(*message)(void);
    if (d->synchronize(d) != CR_OK)
        CHECK(false, "%s: %s", cr_error(), test_simulator("cudasim_message", &message) ? message() : "");
    for (int i = 0; i < BOXES; i++) down(&s->b[i], x[i]);
}

static void try_attention(trial t) {
    if (t.scale == 0) t.scale = 1 / sqrt((double)t.D);
    t.rough = rounding(t.dt);                       /* tensor cores multiply rounded weights */
    set s = make_set(&t);
    run(&t, &s, cr_cuda(0));
    for (int i = 0; i < BOXES; i++)
        CHECK(!box_spilled(&s.b[i]), "operand %d, T %lld S %lld D %lld: wrote outside of it", i, (long long)t.T,
              (long long)t.S, (long long)t.D);
    check_all(&t, &s);
    drop_set(&s);
    test_ran_on(cr_cuda(0));
}

#endif
