/* random_isa.c - Philox 4x32-10 by vectors of counters, and the Box-Muller transform in f64.  random.c says which word is whose. */
#include "isa.h"
#include "vmath.h"

enum { COUNTERS = 16 };                             /* at once */

/* words[4 i .. 4 i + 3] = Philox block first + i.  The lanes' loops are what the compiler vectorises. */
static void philox(uint64_t seed, uint64_t first, uint32_t *words, int64_t blocks) {
    for (int64_t at = 0; at < blocks; at += COUNTERS) {
        uint32_t c0[COUNTERS], c1[COUNTERS], c2[COUNTERS] = {0}, c3[COUNTERS] = {0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int i = 0; i < COUNTERS; i++) {
            uint64_t counter = first + (uint64_t)(at + i);
            c0[i] = (uint32_t)counter;
            c1[i] = (uint32_t)(counter >> 32);
        }
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
            for (int i = 0; i < COUNTERS; i++) {
                uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
                c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
                c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
                c1[i] = (uint32_t)p1;
                c3[i] = (uint32_t)p0;
            }
        uint32_t *w = words + 4 * at;
        for (int i = 0; i < COUNTERS && at + i < blocks; i++) {
            w[4 * i] = c0[i];
            w[4 * i + 1] = c1[i];
            w[4 * i + 2] = c2[i];
            w[4 * i + 3] = c3[i];
        }
    }
}

static void uniforms(float *y, const uint32_t *words, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)(int32_t)(words[i] >> 8) * 0x1p-24f;
}

/* r = sqrt(-2 log(1 - u0)); (r cos(2 pi u1), r sin(2 pi u1)) with 4 u1 = quarter + f, |f| <= 1/2, all exact */
static void box_muller(vecd u0, vecd u1, vecd *a, vecd *b) {
    vecd r = d_sqrt(d_log(1.0 - u0) * -2.0), t = u1 * 4.0 + D_SHIFT, f = u1 * 4.0 - (t - D_SHIFT);
    vecd s = d_sin_core(f * half_pi), c = d_cos_core(f * half_pi);
    vlong quarter = (vlong)t;
    dmask odd = md_bit0(quarter);
    vecd cosine = d_blend(odd, -s, c), sine = d_blend(odd, c, s);
    vecd sign = (vecd)(((vulong)quarter & 2) << 62);
    *a = r * (vecd)((vlong)cosine ^ (vlong)sign);
    *b = r * (vecd)((vlong)sine ^ (vlong)sign);
}

/* n, even, normals of f32 quality from as many words */
static void normals(double *y, const uint32_t *words, int64_t n) {
    for (int64_t at = 0; at < n; at += 2 * VD) {
        double u[2][VD] = {{0}}, v[2][VD];
        int64_t pairs = (n - at) / 2 < VD ? (n - at) / 2 : VD;
        for (int64_t i = 0; i < pairs; i++) {
            u[0][i] = (double)(int32_t)(words[at + 2 * i] >> 8) * 0x1p-24;
            u[1][i] = (double)(int32_t)(words[at + 2 * i + 1] >> 8) * 0x1p-24;
        }
        vecd u0, u1, a, b;
        memcpy(&u0, u[0], sizeof u0);
        memcpy(&u1, u[1], sizeof u1);
        box_muller(u0, u1, &a, &b);
        memcpy(v[0], &a, sizeof a);
        memcpy(v[1], &b, sizeof b);
        for (int64_t i = 0; i < pairs; i++) {
            y[at + 2 * i] = v[0][i];
            y[at + 2 * i + 1] = v[1][i];
        }
    }
}

const struct cr_randoms CR_ISA_NAME(cr_randoms) = {philox, uniforms, normals};
