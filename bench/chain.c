/* chain.c - a graph of 10 million operations in one chain: built, differentiated, freed; neither walk may recurse.
 * use: chain [operations] [--json] */
#include <chainrule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os.h"

int main(int argc, char **argv) {
    bool json = false;
    long long n = 10000000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) json = true;
        else n = atoll(argv[i]);
    }
    /* y_0 = x, y_i = y_(i-1) + x: dy_n/dx = n + 1.  f64 counts that far exactly. */
    cr_tensor *x = cr_requires_grad_(cr_full(CR_ALL, 1, CR_F64, cr_cpu()), true), *y = cr_retain(x);
    const double start = cr_os_seconds();
    for (long long i = 0; y && i < n; i++) {
        cr_tensor *next = cr_add(y, x);
        cr_release(y);
        y = next;
    }
    const double built = cr_os_seconds();
    const cr_status status = cr_backward(y, CR_NONE, &(cr_backward_options){.retain_graph = true});
    const double walked = cr_os_seconds();
    cr_release(y);
    const double freed = cr_os_seconds();
    if (status) return fprintf(stderr, "%s\n", cr_error()), 1;
    const double dx = cr_item(cr_grad(x));
    const bool right = dx == (double)(n + 1);
    printf(json ? "{\"operations\":%lld,\"build_s\":%.4f,\"backward_s\":%.4f,\"free_s\":%.4f,\"peak_rss\":%lld,"
                  "\"gradient\":%.0f,\"right\":%s}\n"
                : "%lld operations: built in %.2f s, differentiated in %.2f s, freed in %.2f s; peak memory %lld "
                  "bytes; gradient %.0f (right: %s)\n",
           n, built - start, walked - built, freed - walked, (long long)cr_os_peak_rss(), dx, right ? "true" : "false");
    cr_release(x);
    return !right;
}
