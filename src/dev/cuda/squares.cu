/* squares.cu - the sums of the squares of pieces of many tensors, T elements, A what is computed in (f32; f64 for f64): a block each, in order.
 * p: where the sums go, the number of the first; of each tensor its address and how many elements it has.  Limited by bytes read. */
struct words { u64 w[WORDS]; };

KERNEL(256) squares(const words p) {
    enum { V = 16 / sizeof(T) };
    __shared__ A shared[256];
    const int t = (int)threadIdx.x;
    i64 block = (i64)blockIdx.x;
    int at = 2;                                     /* the tensor whose piece this is */
    for (i64 pieces; block >= (pieces = ((i64)p.w[at + 1] + PIECE - 1) / PIECE); at += 2) block -= pieces;
    const i64 left = (i64)p.w[at + 1] - block * PIECE, n = left < PIECE ? left : PIECE;
    const T *x = (const T *)p.w[at] + block * PIECE;
    const bool aligned = (u64)x % 16 == 0;
    A sum = 0;
#pragma unroll 4
    for (i64 i = (i64)t * V; i < n; i += 256 * V) {
        pack<T, V> v = {};
        if (aligned && i + V <= n) v = *(const pack<T, V> *)(x + i);
        else for (int k = 0; k < V; k++) if (i + k < n) v.v[k] = x[i + k];
        for (int k = 0; k < V; k++) sum += cast<A>(v.v[k]) * cast<A>(v.v[k]);
    }
    sum = tree<sum_of>(sum, shared, share_of(256, 1));
    if (t == 0) ((f64 *)p.w[0])[(i64)p.w[1] + (i64)blockIdx.x] = (f64)sum;
}
