/* recurrent.c - recurrent layers: threads split the sequences.  Each part goes through all steps by itself, so no
 * thread waits for another between steps, and the gates of a step are still in the cache when its program reads them.
 * Limited by the product with the weight of the state, whose columns come from the second-level cache.
 *
 * Half precision packs that weight for each product, so its steps have all sequences, and threads split the products.
 */
#include "cpu.h"
#include "../program.h"
#include "../../core/pool.h"

enum { SEQUENCES = 8 };                             /* of a part: the fewest rows of a product at almost full speed */

typedef struct job {
    const cr_recurrent_args *forward;
    const cr_recurrent_bwd_args *backward;          /* NULL: forward */
    int64_t sequences, each;
    atomic_int failed;
} job;

static const cr_kernels inside = {.matmul = cr_cpu_matmul, .elementwise = cr_cpu_elementwise, .copy = cr_cpu_copy};

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t first = chunk * j->each, end = cr_imin(j->sequences, first + j->each);
    const cr_status status = j->backward ? cr_recurrent_bwd_part(j->backward, &inside, first, end)
                                         : cr_recurrent_part(j->forward, &inside, first, end);
    if (status != CR_OK) atomic_store(&j->failed, true);
}

static cr_status run_steps(job *j, const cr_recurrent_steps *s, cr_dtype dt) {
    j->sequences = s->at[1];
    const bool whole = cr_dtype_is_half(dt) || s->how & CR_MATMUL_BF16;
    j->each = cr_pieces(j->sequences, whole ? 1 : cr_pieces(j->sequences, SEQUENCES));
    cr_run_chunks(cr_pieces(j->sequences, j->each), run_chunk, j);
    return j->failed ? cr_fail(CR_NO_MEMORY, s->program->name, "out of memory for a time step") : CR_OK;
}

cr_status cr_cpu_recurrent(const cr_recurrent_args *args) {
    return run_steps(&(job){.forward = args}, &args->steps, args->y.dtype);
}

cr_status cr_cpu_recurrent_bwd(const cr_recurrent_bwd_args *args) {
    return run_steps(&(job){.backward = args}, &args->steps, args->d.dtype);
}
