/* squares.cu - the sums of the squares of pieces of many tensors: a block for each piece, in order.  T
 * elements, A the type of computation (f32; f64 for f64).  Limited by bytes read. */
/* tensors, cut into pieces */
enum { SQUARES_PIECE = 16384, SQUARES_TENSORS = 199 };      /* elements of a piece; tensors of a launch */
typedef struct squares_arguments {
    POINTER(f64) sums;                              /* one of each piece */
    i64 first;                                      /* the number of the first piece */
    struct { POINTER(const T) x; i64 numel; } tensor[SQUARES_TENSORS];
} squares_arguments;

#ifdef __cplusplus
KERNEL(256) squares(const squares_arguments p) {
    enum { V = 16 / sizeof(T), PIECE = SQUARES_PIECE };
    __shared__ A shared[256];
    const int t = (int)threadIdx.x;
    i64 block = (i64)blockIdx.x;
    int at = 0;                                     /* the tensor that this piece belongs to */
    for (i64 pieces; block >= (pieces = (p.tensor[at].numel + PIECE - 1) / PIECE); at++) block -= pieces;
    const i64 left = p.tensor[at].numel - block * PIECE, n = left < PIECE ? left : PIECE;
    const T *x = p.tensor[at].x + block * PIECE;
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
    if (t == 0) p.sums[p.first + (i64)blockIdx.x] = (f64)sum;
}
#endif
