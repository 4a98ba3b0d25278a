/* attention.cuh - what the kernels of attention.cu and hopper.cu share: which rows a block has, and which
 * keys a query attends to.  T: the elements; A: the type of computation; PASS: the kernel. */
/* q, o, g, dq (B, H, queries, D), k, v, dk, dv (B, H / shared, keys, D), D contiguous */
typedef struct attention_heads { POINTER(T) at; i64 batch, head, row; } attention_heads;
typedef struct attention_arguments {
    attention_heads q, k, v, o, g, dq, dk, dv;      /* g: the cotangent of o */
    POINTER(const A) mask;
    i64 mask_batch, mask_head, mask_query, mask_key;
    POINTER(A) lse, delta;                          /* (B, H, queries); delta: the sums of g o over D */
    i64 H, shared, queries, keys, head_size;        /* shared: heads of q that share one of k and v */
    i64 first, last;                                /* query t attends to the keys t + first .. t + last */
    f64 scale;
    i64 tiles, parts;                               /* blocks of a head: tiles of rows, and parts of the columns of D */
} attention_arguments;

#ifdef __cplusplus
typedef attention_arguments arguments;
typedef attention_heads heads;
struct rows { T *at; i64 stride, count; };          /* of one head */
struct slice {                                      /* the part of the result that a block computes */
    int b, h, part;                                 /* head; part of the columns of D */
    i64 first;                                      /* row */
    D rows of(const heads &x, i64 count) const { return rows{x.at + b * x.batch + h * x.head, x.row, count}; }
};
/* Where the keys of a head are; the i-th head of those that share keys (PASS 2). */
D slice keys_of(const arguments &a, const slice &p) {
    return slice{p.b, (int)(p.h / (int)a.shared), p.part, p.first};
}
D slice sharer(const arguments &a, const slice &p, int i) {
    return slice{p.b, p.h * (int)a.shared + i, p.part, p.first};
}
/* The longest rows go first: late queries attend to the most keys, early keys are attended to by the most queries. */
D slice slice_of(const arguments &a, int rows_of_block, bool late_first, u32 i = blockIdx.x) {
    const u32 parts = (u32)a.parts, tiles = (u32)a.tiles, tile = i / parts % tiles,
              H = (u32)(PASS == 2 ? a.H / a.shared : a.H), head = i / parts / tiles;
    return slice{(int)(head / H), (int)(head % H), (int)(i % parts),
                 (i64)(late_first ? tiles - 1 - tile : tile) * rows_of_block};
}

/* Query t attends to the keys unseen .. visible - 1: visible may be negative, and is 0 after the last
 * query.  The queries first_query .. end_of_queries - 1 attend to key s.  I: i64, or int where int is
 * enough. */
template <class I> D I visible(const arguments &a, I t) {
    const I keys = (I)a.keys, n = t + 1 + (I)a.last;
    return t >= (I)a.queries ? 0 : n < keys ? n : keys;
}
template <class I> D I unseen(const arguments &a, I t) {
    const I n = t + (I)a.first;
    return n < 0 ? 0 : n;
}
template <class I> D bool attends(const arguments &a, I t, I s) { return s < visible(a, t) && s >= unseen(a, t); }
template <class I> D I first_query(const arguments &a, I s) {
    const I t = s - (I)a.last;
    return t < 0 ? 0 : t;
}
template <class I> D I end_of_queries(const arguments &a, I s) {
    const I t = s - (I)a.first + 1;
    return t < (I)a.queries ? t : (I)a.queries;
}
/* The end of the keys that any of the n queries from t on attends to. */
template <class I> D I visible_to_any(const arguments &a, I t, int n) {
    return visible<I>(a, t + n <= (I)a.queries ? t + n - 1 : (I)a.queries - 1);
}

/* The mask of query t and key s */
D const A *mask_at(const arguments &a, const slice &p, i64 t, i64 s) {
    return a.mask + p.b * a.mask_batch + p.h * a.mask_head + t * a.mask_query + s * a.mask_key;
}
/* unit (scale x + mask), x = q . k */
D A score(const A *mask, A x, A scale, A unit) { return MASKED ? x * scale + unit * *mask : x * scale; }

/* lse of query t as PASS 3 wrote it, for exp(score - lse); +Inf after the last query. */
D A lse_of(const arguments &a, const slice &p, i64 t) {
    return t < a.queries ? a.lse[(p.b * a.H + p.h) * a.queries + t] : infinity<A>();
}
D A delta_of(const arguments &a, const slice &p, i64 t) {
    return t < a.queries ? a.delta[(p.b * a.H + p.h) * a.queries + t] : (A)0;
}

#if defined HEAD && (!defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800)
/* ---- for tensor cores */
#ifdef __CUDA_ARCH__
/* opaque to the compiler, which would keep derived values in registers from one tile to the next */
D int opaque(int x) { asm volatile("" : "+r"(x)); return x; }
D u32 pair(f32 low, f32 high) {
    u32 y;
    if constexpr (same<T, f16>) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
#else
D int opaque(int x) { return x; }
D u32 pair(f32 low, f32 high) { return cast<T>(low).bits | (u32)cast<T>(high).bits << 16; }
#endif

/* Weights are powers of 2: 2^(outer s - base), one multiply-add, where s is the plain product and
 * inner is 1.  With a mask, or a scale that is not positive (it would reverse the order of the
 * products), each tile is an edge tile, where s becomes the score. */
struct scaling {
    f32 inner, outer;
    bool always;
    D scaling(const arguments &a) {
        const f32 scale = (f32)a.scale * LOG2E;
        always = MASKED || !(scale > 0), inner = always ? scale : 1, outer = always ? 1 : scale;
    }
};
#endif
#endif
