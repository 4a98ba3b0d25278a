/* value.c - what Values cost from C: nanoseconds a node to multiply and record, to walk backward and
 * to free; bytes a node. use: value [nodes] [--json]
 *
 * Each round makes a chain of products, y_i = y_(i-1) * x, goes back through it and frees it.  The default,
 * 10000 nodes, lies in the second-level cache; 10000000 shows the memory. */
#include <chainrule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os.h"
#include "value/pool.h"

int main(int argc, char **argv) {
    bool json = false;
    long nodes = 10000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else nodes = atol(argv[i]);
    }
    if (nodes < 1) return fprintf(stderr, "use: value [nodes] [--json]\n"), 2;
    const int rounds = nodes < 1000000 ? 200 : 3;
    double best[3] = {1e9, 1e9, 1e9};
    bool right = true;
    cr_value *x = cr_value_new(1, cr_cpu());
    for (int round = 0; round < rounds; round++) {
        cr_value_set_grad(x, 0);
        const double start = cr_os_seconds();
        cr_value *y = cr_value_retain(x);
        for (long i = 0; i < nodes; i++) {
            cr_value *next = cr_value_mul(y, x);
            cr_value_release(y);
            y = next;
        }
        const double made = cr_os_seconds();
        if (cr_value_backward(y) != CR_OK) return fprintf(stderr, "%s\n", cr_error()), 1;
        const double walked = cr_os_seconds();
        cr_value_release(y);
        const double freed = cr_os_seconds(), took[3] = {made - start, walked - made, freed - walked};
        for (int k = 0; k < 3; k++) if (took[k] < best[k]) best[k] = took[k];
        right = right && cr_value_grad(x) == (double)(nodes + 1);      /* d(x^(n + 1))/dx at 1 */
    }
    cr_value_release(x);
    const double ns = 1e9 / (double)nodes, bytes = (double)cr_cell_memory() / (double)nodes;
    printf(
        json ? "{\"nodes\":%ld,\"record_ns\":%.2f,\"backward_ns\":%.2f,\"free_ns\":%.2f,\"bytes\":%.1f,\"right\":%s}\n"
             : "%ld products: recorded in %.2f ns each, backward %.2f ns, freed %.2f ns; %.1f bytes a node; gradient "
               "right: %s\n",
        nodes, best[0] * ns, best[1] * ns, best[2] * ns, bytes, right ? "true" : "false");
    return !right;
}
