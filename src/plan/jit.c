/* jit.c - the programs that fuse.c made become loops of the system's C compiler, in the background, once a plan has
 * run a few times.  Until then, and where there is no compiler, they run by instructions; the bits are the same. */
#include "../core/os.h"
#include "plan.h"

#include <stdlib.h>

enum { LEAST = 16 << 10, MOST = 64 };               /* elements of a program worth a loop; programs of a plan */

struct cr_loop_job {
    atomic_int refs;                                /* the plan's, and the thread's */
    volatile int done;
    int64_t process;                                /* whose thread it is: after a fork the child has none */
    char *text;
    int n; cr_program *programs[MOST];              /* retained */
};

void cr_loop_job_release(cr_loop_job *j) {
    if (!j || !cr_unref(&j->refs)) return;
    for (int i = 0; i < j->n; i++) cr_program_free(j->programs[i]);
    free(j->text);
    free(j);
}

static void publish_loop(cr_loop_job *j) {
    __atomic_store_n(&j->done, 1, __ATOMIC_RELEASE);
    cr_os_wake_all(&j->done);
    cr_loop_job_release(j);
}

static void compile_loop(void *ctx) {
    cr_loop_job *j = ctx;
    static volatile int one;                        /* one compiler at a time */
    cr_word_lock(&one);
    cr_cpu_loops_make(j->text, j->n, j->programs);
    cr_word_unlock(&one);
    publish_loop(j);
}

static void collect_programs(cr_loop_job *j, const cr_step *s) {
    if (s->kind != CR_STEP_KERNEL || s->kernel != CR_KERNEL_elementwise) return;
    if (s->run != cr_cpu()->kernels->raw[CR_KERNEL_elementwise]) return;
    const cr_walk *w = cr_step_walks(s)->walks;
    if (!w->program->chain || w->compute != CR_F32 || w->numel < LEAST || j->n == MOST) return;
    for (int i = 0; i < j->n; i++)
        if (j->programs[i] == w->program) return;
    j->programs[j->n] = cr_program_retain(w->program);
    j->programs[j->n++]->chain->loop.held = cr_cpu_held(w);
}

static cr_loop_job *job_of(const cr_plan *p) {
    cr_loop_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    atomic_init(&j->refs, 2);
    j->process = cr_os_process_id();
    for (int i = 0; i < p->n_steps && cr_pass_on("jit"); i++) {
        const cr_group *g = p->steps[i].group;
        for (int k = 0; k < (g ? g->n : 1); k++) collect_programs(j, g ? &g->steps[k] : &p->steps[i]);
    }
    j->text = j->n ? cr_cpu_loops_text(j->n, j->programs) : NULL;
    return j;
}

void cr_plan_start_loops(cr_plan *p) {
    cr_loop_job *none = NULL, *j = atomic_load(&p->loops) ? NULL : job_of(p);
    if (!j) return;
    if (!atomic_compare_exchange_strong(&p->loops, &none, j)) {        /* another thread began */
        cr_loop_job_release(j);
        cr_loop_job_release(j);
    } else if (!j->text || !cr_thread_detached(compile_loop, j)) {
        publish_loop(j);
    }
}

void cr_plan_wait(cr_plan *p) {
    if (!p) return;
    cr_plan_start_loops(p);
    cr_loop_job *j = atomic_load(&p->loops);
    while (j && !__atomic_load_n(&j->done, __ATOMIC_ACQUIRE) && j->process == cr_os_process_id())
        cr_os_sleep_on(&j->done, 0, 1);
}

bool cr_runs_as_loop(const cr_step *s) {
    if (s->kind != CR_STEP_KERNEL || s->kernel != CR_KERNEL_elementwise) return false;
    const cr_program *p = cr_step_walks(s)->walks->program;
    return p->chain && atomic_load(&p->chain->loop.run);
}
