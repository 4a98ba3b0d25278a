/* memory.c - what a run needs, before any of it is allocated: steps on the device `meta`, whose tensors have no
 * elements, count the bytes of every tensor. */
#include "run.h"

#include <math.h>
#include <string.h>

#include "../core/os.h"

bool run_dry_steps(run *dry, run_memory *m) {
    const cr_params *p = dry->weights.trained;
    m->count = (double)cr_params_numel(p);
    const int64_t before = m->start, made = cr_memory_stats(dry->dev).current;
    for (int64_t i = 0; i < cr_params_count(p) && !dry->s->fuse_step; i++) {
        const cr_tensor *t = cr_params_at(p, i);
        m->gradients += (double)cr_numel(t) * (double)cr_dtype_size(cr_dtype_of(t));
    }
    cr_status status = run_dry_step(dry);           /* makes the moments, when its activations are gone */
    const int64_t stepped = cr_memory_stats(dry->dev).current;
    cr_reset_peak(dry->dev);
    if (status == CR_OK) status = run_dry_step(dry);
    m->parameters = (double)(made - before);
    m->moments = (double)(stepped - made);
    m->activations = (double)(cr_memory_stats(dry->dev).peak - stepped) - m->gradients;
    if (status != CR_OK) cr_error_clear();          /* without an estimate the run may go on */
    return status == CR_OK;
}

run_memory run_memory_between(const run_memory *a, const run_memory *b, double t) {
    return (run_memory){.count = a->count + t * (b->count - a->count),
                        .parameters = a->parameters + t * (b->parameters - a->parameters),
                        .gradients = a->gradients + t * (b->gradients - a->gradients),
                        .moments = a->moments + t * (b->moments - a->moments),
                        .activations = a->activations + t * (b->activations - a->activations)};
}

static const char *bytes_text(double bytes, char out[32]) {
    static const char *const unit[] = {"kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    bytes /= 1e3;
    for (; bytes >= 1000 && i < 4; i++) bytes /= 1000;
    snprintf(out, 32, bytes < 9.95 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return out;
}

bool run_fits(const run *r, const run_memory *m) {
    char all[32], room[32], part[4][32];
    const double need = m->parameters + m->gradients + m->moments + m->activations;
    const char *name = cr_device_name(r->dev);
    const bool host = !strcmp(name, "cpu") || !strcmp(name, "ref");
    const double left = host ? (double)cr_os_free_memory() : INFINITY;
    bytes_text(need, all);
    bytes_text(left, room);
    print_fact(stdout, "memory", "about %s: parameters %s, gradients %s, moments %s, activations %s%s%s", all,
               bytes_text(m->parameters, part[0]), bytes_text(m->gradients, part[1]), bytes_text(m->moments, part[2]),
               bytes_text(m->activations, part[3]), host ? "; free " : "", host ? room : "");
    fflush(stdout);
    if (need <= left) return true;
    return cli_fail("the run needs about %s of memory, and %s are free: make %s smaller", all, room,
                    m->activations > need / 2 ? "--batch or --context" : "the model, --layers or --width"), false;
}
