/* plan.c - the cost of a replay on the host: plans of many kernels that have next to nothing to compute.
 *
 *     plan [--json]      the least of many runs, in turn with the same ops one by one */
#include <chainrule.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { KERNELS = 1000, RUNS = 300 };
typedef cr_tensor *(*op)(const cr_tensor *a, const cr_tensor *b);
typedef struct { double eager, replayed; } cost;   /* ns a kernel */

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cr_tensor *many(op f, const cr_tensor *x) {
    cr_scope_begin();
    cr_tensor *y = f(x, x);
    for (int i = 1; y && i < KERNELS; i++) y = f(y, x);
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

static cost measure(op f) {
    cr_tensor *x = cr_ones(CR_LIST(1, 1), CR_F32, cr_cpu());
    const cr_tensor *input = x;
    double eager = 1e9, replayed = 1e9, start;
    cr_release(many(f, x));
    cr_record_begin(1, &input);
    cr_tensor *y = many(f, x);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    cr_release(y);
    for (int i = 0; p && i < RUNS; i++) {
        start = now();
        cr_release(many(f, x));
        if (now() - start < eager) eager = now() - start;
        start = now();
        if (cr_plan_run(p, &input, &y) != CR_OK) break;
        if (now() - start < replayed) replayed = now() - start;
        cr_release(y);
    }
    cr_plan_free(p);
    cr_release(x);
    return (cost){eager * 1e9 / KERNELS, replayed * 1e9 / KERNELS};
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && !strcmp(argv[1], "--json");
    cr_switch_set("PLAN", "none");                 /* each op stays a kernel */
    const cost sum = measure(cr_add), product = measure(cr_matmul);
    if (cr_error()) { fprintf(stderr, "%s\n", cr_error()); return 1; }
    printf(json ? "{\"kernels\": %d, \"eager_ns\": {\"sums\": %.1f, \"products of 1 x 1\": %.1f}, "
                  "\"plan_ns\": {\"sums\": %.1f, \"products of 1 x 1\": %.1f}}\n"
                : "%d kernels, ns each: sums %.1f, products of 1 x 1 %.1f; of a plan: sums %.1f, products %.1f\n",
           KERNELS, sum.eager, product.eager, sum.replayed, product.replayed);
    return 0;
}
