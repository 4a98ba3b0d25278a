/* attention.h - one block of attention in f32: attention.c cuts the work, attention_isa.c computes it. */
#ifndef CR_ATTENTION_H
#define CR_ATTENTION_H

#include "product.h"

/* A (B, H, rows, D) array, D contiguous; strides in elements. */
typedef struct cr_heads { float *at; int64_t batch, head, row; } cr_heads;

typedef struct cr_attention_job {
    int64_t B, H, KV, T, S, D;
    cr_heads q, k, v, o, g, dq, dk, dv;             /* g: the cotangent of o; operands that a pass does not use are
                                                     * not set */
    cr_heads mask; int64_t mask_key;                /* (B, H, T, S), added to the scores; mask_key: the stride of S;
                                                     * mask.at may be NULL */
    float *lse;                                     /* (B, H, T) */
    float scale;
    int64_t first, last;                            /* query t sees the keys t + first .. t + last */
    const cr_product_kernels *product;
    void (*half)(float *y, const uint16_t *x, int64_t n);           /* k and v of few queries are f16 or bf16; NULL:
                                                                     * f32 */
} cr_attention_job;

enum { CR_ATTENTION_BLOCK = 64, CR_ATTENTION_PART = 256 };     /* queries, and keys, of a block; keys of a part */

struct cr_attentions {                              /* attention_isa.c */
    /* o and lse of queries t .. t + n of head number `head` (b H + h), n <= CR_ATTENTION_BLOCK */
    void (*forward)(const cr_attention_job *a, int64_t head, int64_t t, int64_t n, float *scratch);
    /* With few queries: n <= CR_ATTENTION_PART keys from key j on, and all queries of the heads that
     * share the keys of head number `group` (b KV + kv), rows in all.  out: o (rows, D), not divided
     * by the sums; the maxima (rows); the sums (rows). */
    void (*part)(const cr_attention_job *a, int64_t group, int64_t j, int64_t n, float *out, float *scratch);
    void (*join)(const cr_attention_job *a, int64_t group, int64_t parts, const float *from);
    /* With keys j .. j_end and queries t .. t_end, neither empty.  want_q: dq is written; every key
     * that is seen must be in the range.  want_kv: the first of the heads that share keys
     * writes dk and dv, the others add to them; every query must be in the range. */
    void (*backward)(const cr_attention_job *a, int64_t head, int64_t j, int64_t j_end, int64_t t, int64_t t_end,
                     bool want_q, bool want_kv, float *scratch);
};
CR_ISA_TABLE(cr_attentions);

/* Bytes of scratch memory of one call, 64-byte aligned: blocks, and one number per query; of part. */
static inline size_t cr_attention_scratch(const cr_attention_job *a) {
    enum { N = CR_ATTENTION_BLOCK };
    return (size_t)(2 * a->D * N + 3 * N * N + 3 * N + (a->T + N - 1) / N * N) * sizeof(float);
}
static inline size_t cr_attention_part_scratch(const cr_attention_job *a) {
    const int64_t rows = a->H / a->KV * a->T;
    return (size_t)(rows * (CR_ATTENTION_PART + a->D) + CR_ATTENTION_BLOCK * a->D) * sizeof(float);
}

#endif
