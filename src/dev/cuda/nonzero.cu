/* nonzero.cu - the positions where x, bool, is true, in order.  A warp has a piece of PIECE elements:
 * `count` counts them, and `write` writes the positions after those of the pieces before. */
/* x, bool, cut into pieces */
typedef struct count_arguments {
    POINTER(unsigned) counts;
    POINTER(const struct b8) x;
    i64 numel, pieces;
} count_arguments;
typedef struct write_arguments {
    POINTER(i64) y;                                 /* (room, ndim) */
    POINTER(const struct b8) x;
    POINTER(const i64) ends;                        /* of each piece: how many elements are true up to its end */
    i64 numel, pieces, room, step, column, ndim;    /* step, column: strides of y */
    i64 shape[8];
} write_arguments;

#ifdef __cplusplus
D i64 piece_of() { return (i64)blockIdx.x * 8 + threadIdx.x / 32; }
D u32 trues(const b8 *x, i64 e, i64 numel) { return __ballot_sync(~0u, e < numel && wide(x[e])); }

KERNEL(256) count(const count_arguments p) {
    const i64 piece = piece_of();
    const int lane = (int)threadIdx.x % 32;
    u32 n = 0;
    for (i64 e = piece * PIECE; e < (piece + 1) * PIECE; e += 32) n += (u32)__popc(trues(p.x, e + lane, p.numel));
    if (piece < p.pieces && lane == 0) p.counts[piece] = n;
}

KERNEL(256) write(const write_arguments p) {
    const i64 piece = piece_of();
    const int lane = (int)threadIdx.x % 32;
    i64 n = piece && piece < p.pieces ? p.ends[piece - 1] : 0;
    for (i64 first = piece * PIECE; first < (piece + 1) * PIECE; first += 32) {
        const u32 all = trues(p.x, first + lane, p.numel);
        const i64 row = n + __popc(all & ((1u << lane) - 1));
        if ((all >> lane & 1) && row < p.room) {    /* x may have changed since it was counted */
            i64 rest = first + lane;
            for (i64 d = p.ndim - 1; d >= 0; d--) {
                p.y[row * p.step + d * p.column] = rest % p.shape[d];
                rest /= p.shape[d];
            }
        }
        n += __popc(all);
    }
}
#endif
