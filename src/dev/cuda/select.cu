/* select.cu - what running counts of a condition are for: where it is true, and runs of equal rows. */

/* number[i]: in how many runs rows 0 .. i are */
KERNEL(256) runs(i64 *run, i64 *starts, i64 *count, const i64 *number, const i64 *order, i64 R) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= R) return;
    if (i == 0 || number[i] != number[i - 1]) starts[number[i] - 1] = i;
    if (run) run[order ? order[i] : i] = number[i] - 1;
    if (i == R - 1) *count = number[i];
}

struct grid { i64 *y; const b8 *x; const i64 *number; i64 numel, row, column, ndim, shape[8]; };      /* row, column: strides of y */
KERNEL(256) nonzero(const grid p) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.numel; i += step) {
        if (!p.x[i].bits) continue;
        i64 rest = i;
        for (int d = (int)p.ndim - 1; d >= 0; d--) {
            p.y[(p.number[i] - 1) * p.row + d * p.column] = rest % p.shape[d];
            rest /= p.shape[d];
        }
    }
}
