/* without.c - what no module of the browser edition has: other processes (src/dist is not linked), and a C compiler. */
#include "../src/cli/run.h"
#include "../src/core/status.h"
#include "../src/dev/cpu/cpu.h"
#include "../src/dev/cpu/onednn.h"

struct cr_world { int rank; };
static cr_world alone;

cr_world *cr_world_open(const cr_world_options *o) { return (void)o, &alone; }
void      cr_world_close(cr_world *w) { (void)w; }
void      cr_world_abort(cr_world *w, int code) { (void)w, (void)code; }
int       cr_world_rank(const cr_world *w) { return w->rank; }
int       cr_world_size(const cr_world *w) { return (void)w, 1; }
int       cr_world_local(const cr_world *w) { return (void)w, 0; }
const char *cr_world_host(const cr_world *w) { return (void)w, "browser"; }
const char *cr_world_engine(const cr_world *w) { return (void)w, "none"; }

cr_parallel *cr_parallel_new(cr_world *w, cr_optim *opt, const cr_parallel_options *o) {
    (void)w, (void)opt, (void)o;
    return cr_fail(CR_BAD_VALUE, "parallel", "there is one process here: microbatches are for many"), NULL;
}
void cr_parallel_free(cr_parallel *p) { (void)p; }

/* Not reached: there is no cr_parallel, and who is alone asks nobody. */
cr_status    cr_barrier(cr_world *w) { return (void)w, CR_OK; }
cr_status    cr_broadcast_from(cr_world *w, cr_tensor *x, int root) { return (void)w, (void)x, (void)root, CR_OK; }
cr_status    cr_all_reduce(cr_world *w, cr_tensor *x) { return (void)w, (void)x, CR_OK; }
cr_work     *cr_all_reduce_start(cr_world *w, cr_tensor *x) { return (void)w, (void)x, NULL; }
cr_status    cr_work_wait(cr_work *work) { return (void)work, CR_OK; }
cr_status    cr_all_gather(cr_world *w, const cr_tensor *x, cr_tensor *out) {
    return (void)w, (void)x, (void)out, CR_OK;
}
bool         cr_parallel_next(cr_parallel *p, cr_loader *l, cr_generator *g) {
    return (void)p, (void)l, (void)g, false;
}
cr_status    cr_parallel_backward(cr_parallel *p, const cr_tensor *loss) { return (void)p, (void)loss, CR_OK; }
cr_status    cr_parallel_meet(cr_parallel *p) { return (void)p, CR_OK; }
cr_status    cr_parallel_recover(cr_parallel *p, bool *reload) { return (void)p, (void)reload, CR_RUNTIME; }
cr_world    *cr_parallel_world(const cr_parallel *p) { return (void)p, &alone; }
cr_params   *cr_parallel_moments(cr_parallel *p) { return (void)p, NULL; }
cr_status    cr_parallel_step(cr_parallel *p, double max_norm, double *loss, double *norm) {
    return (void)p, (void)max_norm, (void)loss, (void)norm, CR_OK;
}
cr_parallel_stats cr_parallel_look(const cr_parallel *p) { return (void)p, (cr_parallel_stats){.bad = -1}; }

/* ---- the compiler of loops, and oneDNN */
char       *cr_cpu_loops_text(int n, cr_program *const *programs) { return (void)n, (void)programs, NULL; }
bool        cr_cpu_loops_make(const char *text, int n, cr_program *const *programs) {
    return (void)text, (void)n, (void)programs, false;
}
const char *cr_cpu_engine_info(void) { return "own kernels"; }
bool        cr_onednn_ready(void) { return false; }
bool        cr_onednn_sgemm(const cr_onednn_product *p) { return (void)p, false; }

bool run_gpus(const command *c, settings *s, int *code) {
    (void)s;
    *code = usage_error(c, "there is one process here: --gpus is for many");
    return false;
}
