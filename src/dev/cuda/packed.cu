/* packed.cu - weights in a packed format (core/formats.h): T floats, A the type of computation, FORMAT its name, BLOCK
 * numbers in BYTES.
 *
 * unpack: a thread for 8 neighbouring numbers.  linear: a warp for a row of w, which it reads once for up to
 * PACKED_ROWS rows of x, 8 numbers a lane at a time.  Limited by the bytes of w. */
enum { PACKED_ROWS = 8 };                           /* of x, for which a row of w is read once */
typedef struct unpack_arguments {
    POINTER(T) y;                                   /* (N, K) */
    POINTER(const u8) w;
    i64 numel, K, line;                             /* line: bytes from row to row of w */
} unpack_arguments;
typedef struct linear_packed_arguments {
    POINTER(T) y;                                   /* (M, N) */
    POINTER(const T) x;                             /* (M, K) */
    POINTER(const u8) w;
    POINTER(const T) bias;                          /* (N): optional */
    i64 M, N, K, line;
} linear_packed_arguments;

#ifdef __cplusplus
/* ---- number k of the block at b is scale code + low; scale and low are those of 8 neighbours.  The layouts are those
 * of ggml-common.h. */
struct line_of { f32 scale, low; };

D f32 half_at(const u8 *b) { return wide(f16{(u16)(b[0] | b[1] << 8)}); }
D int nibble(const u8 *b, int k) { return b[k % 16] >> k / 16 * 4 & 15; }
D int bit(const u8 *b, int k) { return b[k / 8] >> k % 8 & 1; }
D int iq4_value(int q) {
    const signed char v[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return v[q];
}

struct q8_0 {
    static D line_of line(const u8 *b, int) { return {half_at(b), 0}; }
    static D int code(const u8 *b, int k) { return (signed char)b[2 + k]; }
};
struct q4_0 {
    static D line_of line(const u8 *b, int) { return {half_at(b), 0}; }
    static D int code(const u8 *b, int k) { return nibble(b + 2, k) - 8; }
};
struct q4_1 {
    static D line_of line(const u8 *b, int) { return {half_at(b), half_at(b + 2)}; }
    static D int code(const u8 *b, int k) { return nibble(b + 4, k); }
};
struct q5_0 {
    static D line_of line(const u8 *b, int) { return {half_at(b), 0}; }
    static D int code(const u8 *b, int k) { return (nibble(b + 6, k) | bit(b + 2, k) << 4) - 16; }
};
struct q5_1 {
    static D line_of line(const u8 *b, int) { return {half_at(b), half_at(b + 2)}; }
    static D int code(const u8 *b, int k) { return nibble(b + 8, k) | bit(b + 4, k) << 4; }
};
struct iq4_nl {
    static D line_of line(const u8 *b, int) { return {half_at(b), 0}; }
    static D int code(const u8 *b, int k) { return iq4_value(nibble(b + 2, k)); }
};
struct mxfp4 {
    static D line_of line(const u8 *b, int) {       /* 2^(e - 128) */
        return {f32_of(b[0] < 2 ? 0x00200000u << b[0] : (u32)(b[0] - 1) << 23), 0};
    }
    static D int code(const u8 *b, int k) {
        const int q = nibble(b + 1, k), size = q & 7, twice = size < 5 ? size : size < 7 ? 2 * size - 4 : 12;
        return q & 8 ? -twice : twice;
    }
};
struct q2_k {
    static D line_of line(const u8 *b, int k) {
        const int s = b[k / 16];
        return {half_at(b + 80) * (f32)(s & 15), -(half_at(b + 82) * (f32)(s >> 4))};
    }
    static D int code(const u8 *b, int k) { return b[16 + k / 128 * 32 + k % 32] >> k / 32 % 4 * 2 & 3; }
};
struct q3_k {
    static D line_of line(const u8 *b, int k) {
        const int g = k / 16, low = b[96 + g % 8] >> g / 8 * 4 & 15, high = b[104 + g % 4] >> g / 4 * 2 & 3;
        return {half_at(b + 108) * (f32)((low | high << 4) - 32), 0};
    }
    static D int code(const u8 *b, int k) {
        return (b[32 + k / 128 * 32 + k % 32] >> k / 32 % 4 * 2 & 3) - (b[k % 32] >> k / 32 & 1 ? 0 : 4);
    }
};
/* q4_k, q5_k: a scale and an offset of 6 bits for each 32 */
D line_of line_6(const u8 *b, int k) {
    const u8 *s = b + 4;
    const int i = k / 32;
    const int scale = i < 4 ? s[i] & 63 : (s[i + 4] & 15) | s[i - 4] >> 6 << 4;
    const int low = i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | s[i] >> 6 << 4;
    return {half_at(b) * (f32)scale, -(half_at(b + 2) * (f32)low)};
}
struct q4_k {
    static D line_of line(const u8 *b, int k) { return line_6(b, k); }
    static D int code(const u8 *b, int k) { return b[16 + k / 64 * 32 + k % 32] >> k / 32 % 2 * 4 & 15; }
};
struct q5_k {
    static D line_of line(const u8 *b, int k) { return line_6(b, k); }
    static D int code(const u8 *b, int k) {
        return (b[48 + k / 64 * 32 + k % 32] >> k / 32 % 2 * 4 & 15) | (b[16 + k % 32] >> k / 32 & 1) << 4;
    }
};
struct q6_k {
    static D line_of line(const u8 *b, int k) { return {half_at(b + 208) * (f32)(signed char)b[192 + k / 16], 0}; }
    static D int code(const u8 *b, int k) {
        const int part = k / 128, row = k / 32 % 4, in = k % 32;
        const int low = b[part * 64 + row % 2 * 32 + in] >> row / 2 * 4 & 15;
        return (low | (b[128 + part * 32 + in] >> row * 2 & 3) << 4) - 32;
    }
};
struct iq4_xs {
    static D line_of line(const u8 *b, int k) {
        const int g = k / 32, high = (b[2] | b[3] << 8) >> 2 * g & 3, low = b[4 + g / 2] >> g % 2 * 4 & 15;
        return {half_at(b) * (f32)((low | high << 4) - 32), 0};
    }
    static D int code(const u8 *b, int k) { return iq4_value(nibble(b + 8 + k / 32 * 16, k % 32)); }
};

KERNEL(256) unpack(const unpack_arguments p) {
    const i64 i = ((i64)blockIdx.x * 256 + threadIdx.x) * 8, k = i % p.K;
    if (i >= p.numel) return;
    const u8 *b = p.w + i / p.K * p.line + k / BLOCK * BYTES;
    const int in = (int)(k % BLOCK);
    const line_of l = FORMAT::line(b, in);
    for (int j = 0; j < 8; j++) p.y[i + j] = cast<T>(cast<A>(l.scale * (f32)FORMAT::code(b, in + j) + l.low));
}

/* y (M, N) = x (M, K) w^T [+ bias] for M <= PACKED_ROWS */
KERNEL(256) linear_packed(const linear_packed_arguments p) {
    __shared__ A shared[256];
    const share s = share_of(32, 1);
    const i64 n = (i64)blockIdx.x * s.columns + s.column;
    const bool mine = n < p.N;
    A sum[PACKED_ROWS] = {};
    for (i64 k = (i64)s.lane * 8; mine && k < p.K; k += (i64)s.width * 8) {
        const u8 *b = p.w + n * p.line + k / BLOCK * BYTES;
        const int in = (int)(k % BLOCK);
        const line_of l = FORMAT::line(b, in);
        A w[8];
        for (int j = 0; j < 8; j++) w[j] = cast<A>(l.scale * (f32)FORMAT::code(b, in + j) + l.low);
#pragma unroll
        for (int m = 0; m < PACKED_ROWS; m++) {
            if (m >= p.M) break;
            for (int j = 0; j < 8; j++) sum[m] += cast<A>(p.x[m * p.K + k + j]) * w[j];
        }
    }
#pragma unroll
    for (int m = 0; m < PACKED_ROWS; m++) {
        if (m >= p.M) break;
        const A all = tree<sum_of>(sum[m], shared, s);
        if (mine && s.lane == 0) p.y[m * p.N + n] = cast<T>(all + (p.bias ? cast<A>(p.bias[n]) : (A)0));
    }
}
#endif
