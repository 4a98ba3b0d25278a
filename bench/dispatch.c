/* dispatch.c - what one small op costs from C: nanoseconds a call, the least of several rounds.
 * use: dispatch [--json] */
#include <chainrule.h>
#include <stdio.h>
#include <string.h>

#include "core/os.h"

enum { CALLS = 20000, ROUNDS = 50 };

static cr_tensor *x, *y, *w, *a, *b;                /* (1); (1); (1) that requires a gradient; (4, 4); (64) */

static void add(void) { cr_release(cr_add(x, y)); }
static void add_number(void) { cr_release(cr_add_scalar(x, 2)); }
static void add_in_place(void) { cr_add_(x, y); }
static void add_matrix(void) { cr_release(cr_add(a, a)); }
static void add_64(void) { cr_release(cr_add(b, b)); }
static void tanh_64(void) { cr_release(cr_tanh(b)); }
static void matmul(void) { cr_release(cr_matmul(a, a)); }
static void sum(void) { cr_release(cr_sum(a, CR_ALL, false)); }
static void transpose(void) { cr_release(cr_transpose(a, 0, 1)); }
static void recorded(void) { cr_release(cr_mul(w, y)); }
static void recorded_and_backward(void) {
    cr_tensor *z = cr_mul(w, y);
    cr_backward(z, CR_NONE, NULL);
    cr_release(z);
}

static const struct { const char *name; void (*call)(void);
} rows[] = {
    {"add, 1 element", add},
    {"add of a number", add_number},
    {"add in place", add_in_place},
    {"add, 4 x 4", add_matrix},
    {"add, 64 elements", add_64},
    {"tanh, 64 elements", tanh_64},
    {"matmul, 4 x 4", matmul},
    {"sum, 4 x 4", sum},
    {"transpose (a view)", transpose},
    {"mul, recorded", recorded},
    {"mul, recorded, backward", recorded_and_backward},
};

static double least_ns(void (*call)(void)) {
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = cr_os_seconds();
        for (int i = 0; i < CALLS / ROUNDS; i++) call();
        const double ns = (cr_os_seconds() - start) * 1e9 * ROUNDS / CALLS;
        if (ns < least) least = ns;
    }
    return least;
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && !strcmp(argv[1], "--json");
    cr_scope_begin();
    x = cr_ones(CR_LIST(1), CR_F32, cr_cpu());
    y = cr_zeros(CR_LIST(1), CR_F32, cr_cpu());
    w = cr_requires_grad_(cr_ones(CR_LIST(1), CR_F32, cr_cpu()), true);
    a = cr_ones(CR_LIST(4, 4), CR_F32, cr_cpu());
    b = cr_ones(CR_LIST(64), CR_F32, cr_cpu());
    const int n = sizeof rows / sizeof *rows;
    if (json) printf("{\"rows\":[");
    for (int i = 0; i < n; i++)
        printf(json ? "%s{\"name\":\"%s\",\"ns\":%.1f}" : "%s%-26s %8.1f ns\n", json && i ? "," : "", rows[i].name,
               least_ns(rows[i].call));
    if (json) printf("]}\n");
    cr_scope_end();
    return cr_error() ? fprintf(stderr, "%s\n", cr_error()), 1 : 0;
}
