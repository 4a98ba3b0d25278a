/* sample.c - permutations and weighted samples, as dev.h defines them, from kernels that exist:
 * random words, scans, sorted rows.
 *
 * The other devices decide in double precision, which WebGPU lacks.  With replacement, weights
 * become integers of 62 - log2 N bits, in units of a fraction of their row's largest; their sums
 * are exact, and a draw is one of these units.  Without replacement, waiting times have extended
 * precision (library.wgsl), with an error of at most 2^-40, and are sorted as integers.  So
 * positions equal those of the other devices, unless a draw lies that close to a boundary, or two
 * times lie that close together. */
#include "wgsl.gen.h"
#include "wgsl.h"

typedef enum sample_task { UNITS, PICK, TIMES } sample_task;
typedef struct kernel { int id; sample_task task; } kernel;

static void write_kernel(wgsl *w, const void *how) {
    const sample_task task = ((const kernel *)how)->task;
    static const char *const names[] = {"UNITS", "PICK", "TIMES"};
    cr_wgsl_const(w, names[task], 1);
    cr_wgsl_array(w, task == UNITS ? "units" : task == PICK ? "y" : "times", CR_I64, true);
    cr_wgsl_array(w, task == PICK ? "sums" : "weights", task == PICK ? CR_I64 : CR_F32, false);
    if (task == UNITS) cr_wgsl_array(w, "top", CR_F32, false);
    cr_wgsl_file(w, cr_wgsl_sample);
    cr_wgsl_end(w, GPU_GROUP);
}

typedef struct draw { const char *op; int64_t M, N, S; uint64_t seed, counter; } draw;

static cr_status dispatch_task(const draw *d, sample_task task, const cr_array *y, const cr_array *a,
                               const cr_array *b, int bits, int64_t offset) {
    gpu *g = cr_gpu_enter(d->op, y->dev);
    const int64_t n = d->M * (task == PICK ? d->S : d->N);
    const kernel how = {'w', task};
    const sample_parameters q = {.count = (uint32_t)n,
                                 .N = (uint32_t)d->N,
                                 .draws = (uint32_t)d->S,
                                 .seed = d->seed,
                                 .counter = d->counter,
                                 .offset = (uint32_t)offset,
                                 .bits = (uint32_t)bits};
    const gpu_call c = {
        .op = d->op, .write = write_kernel, .how = &how, .how_bytes = sizeof how,
        .buffers = b ? 3 : 2, .buffer = {gpu_buffer_of(y), gpu_buffer_of(a), b ? gpu_buffer_of(b) : NULL},
        .parameters = &q, .parameters_bytes = sizeof q, .groups = gpu_groups(n)};
    return g ? cr_gpu_leave(g, cr_gpu_run(g, &c)) : cr_error_status();
}

/* ---- permutations: positions in the order of random words */
cr_status cr_gpu_permutation(const cr_permutation_args *args) {
    const cr_array *y = &args->y;
    const uint64_t seed = args->seed, counter = args->counter;
    if (!y->numel) return CR_OK;
    const cr_array words = cr_gpu_array(y->dev, CR_U64, CR_LIST(1, y->numel)),
                   positions = cr_array_as(y, CR_LIST(1, y->numel));
    cr_status status = words.storage ? cr_gpu_random_integers(
                                           &(cr_random_integers_args){.y = words, .seed = seed, .counter = counter})
                                     : cr_error_status();
    if (status == CR_OK) status = cr_gpu_sort(&(cr_sort_args){.index = positions, .x = words});
    cr_gpu_array_give(&words);
    return status;
}

/* ---- samples by weights */
static cr_status with_replacement(const draw *d, const cr_array *y, const cr_array *w) {
    int bits = 62;                                  /* of the largest, so that N of it stay below 2^63 */
    while (INT64_C(1) << (62 - bits) < d->N) bits--;
    const cr_array rows = cr_array_as(w, CR_LIST(d->M, d->N, 1)), top = cr_gpu_array(w->dev, CR_F32, CR_LIST(d->M, 1));
    const cr_array whole = cr_gpu_array(w->dev, CR_I64, CR_LIST(d->M, d->N, 1)),
                   sums = cr_gpu_array(w->dev, CR_I64, CR_LIST(d->M, d->N, 1));
    const bool ready = top.storage && whole.storage && sums.storage;
    cr_status status = ready ? cr_gpu_reduce(&(cr_reduce_args){.y = top, .x = rows, .how = {.kind = CR_REDUCE_MAX}})
                             : cr_error_status();
    if (status == CR_OK) status = dispatch_task(d, UNITS, &whole, w, &top, bits, w->offset);
    if (status == CR_OK) status = cr_gpu_scan(&(cr_scan_args){.y = sums, .x = whole, .kind = CR_SCAN_SUM});
    if (status == CR_OK) status = dispatch_task(d, PICK, y, &sums, NULL, 0, y->offset);
    cr_gpu_array_give(&sums);
    cr_gpu_array_give(&whole);
    cr_gpu_array_give(&top);
    return status;
}

static cr_status without_replacement(const draw *d, const cr_array *y, const cr_array *w) {
    const cr_array waited = cr_gpu_array(w->dev, CR_U64, CR_LIST(d->M, d->N));
    cr_status status = waited.storage ? dispatch_task(d, TIMES, &waited, w, NULL, 0, w->offset) : cr_error_status();
    if (status == CR_OK) status = cr_gpu_sort(&(cr_sort_args){.index = *y, .x = waited});
    cr_gpu_array_give(&waited);
    return status;
}

cr_status cr_gpu_multinomial(const cr_multinomial_args *args) {
    const cr_array *y = &args->y, *w = &args->w;
    const int64_t M = args->w.shape[0], N = args->w.shape[1], S = args->y.shape[1];
    const bool replacement = args->replacement;
    const uint64_t seed = args->seed, counter = args->counter;
    const draw d = {"multinomial", M, N, S, seed, counter};
    if (cr_gpu_lacks(d.op, w)) return cr_error_status();
    return replacement ? with_replacement(&d, y, w) : without_replacement(&d, y, w);
}
