/* naive.c - three plain loops on one thread: c = a b, f32, (N, N) by (N, N), as the compiler makes
 * them.  Rows of the result take equally long, so the loops stop at the first row after so many
 * seconds; the rate is of the rows that were computed. use: naive N [seconds]        prints JSON */
#include <stdio.h>
#include <stdlib.h>

#include "core/os.h"

static void row_of(float *c, const float *a, const float *b, long n) {
    for (long j = 0; j < n; j++) {
        float sum = 0;
        for (long k = 0; k < n; k++) sum += a[k] * b[k * n + j];
        c[j] = sum;
    }
}

int main(int argc, char **argv) {
    const long n = argc > 1 ? atol(argv[1]) : 0;
    const double seconds = argc > 2 ? atof(argv[2]) : 1;
    if (n < 1 || n > 32768) return fprintf(stderr, "use: naive N [seconds]\n"), 2;
    const size_t size = (size_t)n * (size_t)n;
    float *a = malloc(sizeof *a * size), *b = malloc(sizeof *b * size), *c = calloc(size, sizeof *c);
    if (!a || !b || !c) return fprintf(stderr, "naive: no memory\n"), 1;
    for (size_t i = 0; i < size; i++) a[i] = (float)(i * 7919 % 101) / 101, b[i] = (float)(i * 104729 % 103) / 103;
    long rows = 0;
    double spent = 0;
    const double start = cr_os_seconds();
    while (rows < n && spent < seconds) {
        row_of(c + rows * n, a + rows * n, b, n);
        rows++;
        spent = cr_os_seconds() - start;
    }
    double last = 0;                                /* so that no row is left out */
    for (long k = 0; k < n; k++) last += (double)a[(rows - 1) * n + k] * (double)b[k * n + n - 1];
    const bool right = (double)c[rows * n - 1] - last < 1e-3 * last && last - (double)c[rows * n - 1] < 1e-3 * last;
    printf("{\"n\":%ld,\"rows\":%ld,\"ms\":%.4f,\"rate\":%.4g,\"right\":%s}\n", n, rows, spent * 1e3,
           2e-9 * (double)rows * (double)n * (double)n / spent, right ? "true" : "false");
    free(a);
    free(b);
    free(c);
    return !right;
}
