/* plan.c - the cost of a replay on the host: a plan of many kernels that have next to nothing to compute.
 *
 *     plan [--json]      the least of many runs, in turn with the same ops one by one */
#include <chainrule.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KERNELS = 1000, RUNS = 300 };

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Products of 1 x 1, each of the last: no pass joins them or leaves one out. */
static cr_tensor *products(const cr_tensor *x) {
    cr_scope_begin();
    cr_tensor *y = cr_matmul(x, x);
    for (int i = 1; y && i < KERNELS; i++) y = cr_matmul(y, x);
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && !strcmp(argv[1], "--json");
    const cr_tensor *x = cr_ones(CR_LIST(1, 1), CR_F32, cr_cpu());
    double eager = 1e9, replayed = 1e9, start;
    cr_release(products(x));
    cr_record_begin(1, &x);
    cr_tensor *y = products(x);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    cr_release(y);
    for (int i = 0; p && i < RUNS; i++) {
        start = now();
        cr_release(products(x));
        if (now() - start < eager) eager = now() - start;
        start = now();
        if (cr_plan_run(p, &x, &y) != CR_OK) break;
        if (now() - start < replayed) replayed = now() - start;
        cr_release(y);
    }
    if (cr_error()) { fprintf(stderr, "%s\n", cr_error()); return 1; }
    eager *= 1e9 / KERNELS;
    replayed *= 1e9 / KERNELS;
    if (json) printf("{\"kernels\": %d, \"eager_ns\": %.1f, \"plan_ns\": %.1f}\n", KERNELS, eager, replayed);
    else printf("%d products of 1 x 1: %.1f ns each, of a plan %.1f ns each\n", KERNELS, eager, replayed);
    if (getenv("SHOW")) { char *text = cr_plan_text(p); printf("%.400s\n", text); cr_free(text); }
    cr_plan_free(p);
    cr_release((cr_tensor *)(uintptr_t)x);
    return 0;
}
