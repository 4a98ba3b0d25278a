/* random_isa.c - Philox 4x32-10 on vectors of counters, and the Box-Muller transform in f64.  random.c
 * assigns words to elements. */
#include "isa.h"
#include "vmath.h"

/* VD blocks from counter `first` on.  Each word is the low half of a 64-bit lane; the high halves never
 * affect the low ones. */
static void philox_lanes(uint64_t seed, uint64_t first, uint64_t words[2][VD]) {
    vulong c0, c1, c2 = {0}, c3 = {0}, k0 = c2 + (seed & 0xffffffff), k1 = c2 + (seed >> 32), low;
    uint64_t counter[VD];
    for (int i = 0; i < VD; i++) counter[i] = first + (uint64_t)i;
    memcpy(&c0, counter, sizeof c0);
    c1 = c0 >> 32;
    for (int round = 0; round < 10; round++) {
        vulong p0 = d_mul32(c0, (vulong){0} + 0xD2511F53u), p1 = d_mul32(c2, (vulong){0} + 0xCD9E8D57u);
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    low = (c0 & 0xffffffff) | c1 << 32;
    memcpy(words[0], &low, sizeof low);
    low = (c2 & 0xffffffff) | c3 << 32;
    memcpy(words[1], &low, sizeof low);
}

/* words[4 i .. 4 i + 3] = Philox block first + i */
static void philox(uint64_t seed, uint64_t first, uint32_t *words, int64_t blocks) {
    uint64_t w[2][VD];
    for (int64_t at = 0; at < blocks; at += VD) {
        philox_lanes(seed, first + (uint64_t)at, w);
        for (int64_t i = 0; i < VD && at + i < blocks; i++)
            for (int h = 0; h < 2; h++) {
                words[4 * (at + i) + 2 * h] = (uint32_t)w[h][i];
                words[4 * (at + i) + 2 * h + 1] = (uint32_t)(w[h][i] >> 32);
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

/* n normals (n even) of f32 precision from n words */
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
