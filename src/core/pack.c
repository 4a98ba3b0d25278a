/* pack.c - numbers as blocks of a packed format: the scales and offsets that make the weighted squared error of a group
 * least, found by trying roundings and solving for the best scale and offset of each (least squares).
 *
 * A group of n numbers x with weights h, codes q: w = d q + low.
 * For given q the error sum h (x - d q - low)^2 is least where
 *     d = (H sum h x q - sum h x sum h q) / (H sum h q^2 - (sum h q)^2),  low = (sum h x - d sum h q) / H,  H = sum h,
 * and without an offset where d = sum h x q / sum h q^2. */
#include "pack.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "dtype.h"
#include "ints.h"
#include "pool.h"

enum { MOST = 32, TRIES = 9 };                      /* numbers of a group; roundings on each side of the plain one */

typedef struct group { const float *x, *h; int n; } group;
typedef struct fit { float d, low; } fit;

/* 0 for steps that f16 rounds to 0 */
static inline float inverse_of(float d) { return fabsf(d) > 1e-30f ? 1 / d : 0; }

/* x / d to the nearest whole number from `least` to `most` */
static inline float code(float x, float inverse, float least, float most) {
    const float q = x * inverse, in = q < least ? least : q > most ? most : q;
    return (in + 0x1.8p23f) - 0x1.8p23f;            /* rounds to even, without a call */
}

static float error_of(const group *g, fit f, float least, float most) {
    const float inverse = inverse_of(f.d);
    float sum = 0;
    for (int i = 0; i < g->n; i++) {
        const float e = g->x[i] - f.low - f.d * code(g->x[i] - f.low, inverse, least, most);
        sum += g->h[i] * e * e;
    }
    return sum;
}

/* Codes from `least`, which is -`most` - 1, to `most`. */
static fit fit_scale(const group *g, float least, float most) {
    float largest = 0, best = INFINITY;
    for (int i = 0; i < g->n; i++) if (fabsf(g->x[i]) > fabsf(largest)) largest = g->x[i];
    fit found = {0};
    for (int t = -TRIES; t <= TRIES && fabsf(largest) > 1e-30f; t++) {
        const float inverse = (least + 0.1f * (float)t) / largest;
        float xq = 0, qq = 0;
        for (int i = 0; i < g->n; i++) {
            const float q = code(g->x[i], inverse, least, most);
            xq += g->h[i] * g->x[i] * q;
            qq += g->h[i] * q * q;
        }
        const fit f = {qq > 0 ? xq / qq : 0, 0};
        const float error = error_of(g, f, least, most);
        if (error < best) best = error, found = f;
    }
    return found;
}

/* Codes from 0 to `most`; low <= 0. */
static fit fit_offset(const group *g, float most) {
    float least = 0, largest = g->x[0], best = INFINITY, H = 0, hx = 0;
    for (int i = 0; i < g->n; i++) {
        least = fminf(least, g->x[i]);
        largest = fmaxf(largest, g->x[i]);
        H += g->h[i];
        hx += g->h[i] * g->x[i];
    }
    fit found = {0, least};
    for (int t = -TRIES; t <= TRIES && largest - least > 1e-30f; t++) {
        const float inverse = (most + 0.1f * (float)t) / (largest - least);
        float hq = 0, qq = 0, xq = 0;
        for (int i = 0; i < g->n; i++) {
            const float q = code(g->x[i] - least, inverse, 0, most);
            hq += g->h[i] * q;
            qq += g->h[i] * q * q;
            xq += g->h[i] * g->x[i] * q;
        }
        const float divisor = H * qq - hq * hq;
        fit f = {divisor > 0 ? (H * xq - hx * hq) / divisor : 0, 0};
        f.low = (hx - f.d * hq) / H;
        if (f.low > 0) f = (fit){qq > 0 ? xq / qq : 0, 0};
        const float error = f.d >= 0 ? error_of(g, f, 0, most) : INFINITY;
        if (error < best) best = error, found = f;
    }
    return found;
}

/* ---- blocks of 32 */
static void put_half(uint8_t *out, float x) {
    const uint16_t half = cr_f32_to_f16(x);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}
static float half_at(const uint8_t *p) { return cr_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

/* d = max |x| / 127 */
static void pack_q8_0(const group *g, uint8_t *out) {
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(g->x[i]));
    put_half(out, most / 127);
    const float inverse = inverse_of(half_at(out));
    for (int i = 0; i < 32; i++) out[2 + i] = (uint8_t)(int8_t)fmaxf(-127, fminf(roundf(g->x[i] * inverse), 127));
}

/* The low four bits of 32 codes at `out`, the fifth ones in the word before it. */
static void put_codes(const int q[32], bool fifth, uint8_t *out) {
    if (fifth) memset(out - 4, 0, 4);
    for (int i = 0; i < 32; i++) {
        uint8_t *at = &out[i % 16];
        *at = (uint8_t)(i < 16 ? q[i] & 15 : *at | (q[i] & 15) << 4);
        if (fifth) out[i / 8 - 4] |= (uint8_t)((q[i] >> 4) << i % 8);
    }
}

/* Q4_0 without weights: d = x / -8, where |x| is largest. */
static void pack_symmetric(const group *g, bool fifth, bool searched, uint8_t *out) {
    const float least = fifth ? -16 : -8, most = -least - 1;
    float largest = 0;
    for (int i = 0; i < 32; i++) if (fabsf(g->x[i]) > fabsf(largest)) largest = g->x[i];
    const float d = searched ? fit_scale(g, least, most).d : largest / least, inverse = inverse_of(d);
    int q[32];
    put_half(out, d);
    for (int i = 0; i < 32; i++) q[i] = (int)fmaxf(0, fminf(roundf(g->x[i] * inverse), most) - least);
    put_codes(q, fifth, out + (fifth ? 6 : 2));
}

static void pack_q5_1(const group *g, uint8_t *out) {
    const fit f = fit_offset(g, 31);
    int q[32];
    put_half(out, f.d);
    put_half(out + 2, f.low);
    const float d = half_at(out), low = half_at(out + 2);
    for (int i = 0; i < 32; i++) q[i] = (int)code(g->x[i] - low, inverse_of(d), 0, 31);
    put_codes(q, true, out + 8);
}

/* ---- blocks of 256 */

/* The whole scale and offset of a group, near those of its fit, that make its error least. */
static void choose(const group *g, fit f, float d, float m, float most, int *scale, int *offset) {
    const int s = (int)code(f.d, inverse_of(d), 0, 63), o = (int)code(-f.low, inverse_of(m), 0, 63);
    float best = INFINITY;
    for (int i = s - 1; i <= s + 1; i++)
        for (int k = o - 1; k <= o + 1; k++) {
            if (i < 0 || i > 63 || k < 0 || k > 63) continue;
            const float error = error_of(g, (fit){d * (float)i, -(m * (float)k)}, 0, most);
            if (error < best) best = error, *scale = i, *offset = k;
        }
}

/* Q4_K, Q5_K: d, dmin f16; 8 scales and 8 offsets of 6 bits; the fifth bits; codes of 64 numbers in 32 bytes. */
static void pack_offsets(const float *x, const float *h, bool fifth, uint8_t *out) {
    const float most = fifth ? 31 : 15;
    fit f[8];
    float d = 0, m = 0;
    for (int g = 0; g < 8; g++) {
        f[g] = fit_offset(&(group){x + 32 * g, h + 32 * g, 32}, most);
        d = fmaxf(d, f[g].d / 63);
        m = fmaxf(m, -f[g].low / 63);
    }
    memset(out, 0, fifth ? 48 : 16);
    put_half(out, d);
    put_half(out + 2, m);
    d = half_at(out), m = half_at(out + 2);
    uint8_t *six = out + 4, *codes = out + (fifth ? 48 : 16);
    for (int g = 0; g < 8; g++) {
        int s = 0, o = 0;
        choose(&(group){x + 32 * g, h + 32 * g, 32}, f[g], d, m, most, &s, &o);
        if (g < 4) six[g] |= (uint8_t)s, six[4 + g] |= (uint8_t)o;
        else {
            six[4 + g] = (uint8_t)((s & 15) | (o & 15) << 4);
            six[g - 4] |= (uint8_t)(s >> 4 << 6);
            six[g] |= (uint8_t)(o >> 4 << 6);
        }
        const float scale = d * (float)s, low = -(m * (float)o), inverse = inverse_of(scale);
        for (int i = 0; i < 32; i++) {
            const int q = (int)code(x[32 * g + i] - low, inverse, 0, most);
            uint8_t *at = &codes[g / 2 * 32 + i];
            *at = (uint8_t)(g % 2 ? *at | (q & 15) << 4 : q & 15);
            if (fifth) out[16 + i] |= (uint8_t)((q >> 4) << g);
        }
    }
}

/* Q6_K: the low four bits, the high two, 16 scales of 8 bits, d f16 */
static void pack_q6_k(const float *x, const float *h, uint8_t *out) {
    float scale[16], largest = 0;
    for (int g = 0; g < 16; g++) {
        scale[g] = fit_scale(&(group){x + 16 * g, h + 16 * g, 16}, -32, 31).d;
        if (fabsf(scale[g]) > fabsf(largest)) largest = scale[g];
    }
    memset(out, 0, 208);
    put_half(out + 208, largest / -128);
    const float d = half_at(out + 208), inverse = inverse_of(d);
    for (int g = 0; g < 16; g++) {
        const group all = {x + 16 * g, h + 16 * g, 16};
        const int near = (int)code(scale[g], inverse, -128, 127);
        int s = near;
        float best = INFINITY;
        for (int i = near - 1; i <= near + 1; i++) {
            const float error = i < -128 || i > 127 ? INFINITY : error_of(&all, (fit){d * (float)i, 0}, -32, 31);
            if (error < best) best = error, s = i;
        }
        out[192 + g] = (uint8_t)(int8_t)s;
        for (int i = 0; i < 16; i++) {
            const int at = 16 * g + i, half = at / 128, in = at % 128;
            const int q = (int)code(all.x[i], inverse_of(d * (float)s), -32, 31) + 32;
            out[64 * half + in % 64] |= (uint8_t)((q & 15) << in / 64 * 4);
            out[128 + 32 * half + in % 32] |= (uint8_t)((q >> 4) << in / 32 * 2);
        }
    }
}

/* ---- rows */
typedef struct job {
    cr_block_format format;
    const float *x, *importance;
    int64_t K;
    uint8_t *out;
    atomic_bool failed;
} job;

static void pack_block(const job *j, const float *x, const float *h, uint8_t *out) {
    const group g = {x, h, 32};
    switch (j->format) {
    case CR_FORMAT_Q8_0: pack_q8_0(&g, out); return;
    case CR_FORMAT_Q4_0: case CR_FORMAT_Q5_0:
        pack_symmetric(&g, j->format == CR_FORMAT_Q5_0, j->importance || j->format == CR_FORMAT_Q5_0, out);
        return;
    case CR_FORMAT_Q5_1: pack_q5_1(&g, out); return;
    case CR_FORMAT_Q6_K: pack_q6_k(x, h, out); return;
    default: pack_offsets(x, h, j->format == CR_FORMAT_Q5_K, out);
    }
}

/* Are all numbers of a block within f16, which scales and offsets are? */
static bool fits(const float *x, int n) {
    for (int i = 0; i < n; i++) if (!(fabsf(x[i]) <= 65504)) return false;
    return true;
}

static void pack_row(void *ctx, int64_t row, int worker) {
    (void)worker;
    job *j = ctx;
    const cr_format_traits *f = &cr_formats[j->format];
    uint8_t *out = j->out + row * (j->K / f->block * f->bytes);
    for (int64_t k = 0; k < j->K; k += f->block, out += f->bytes) {
        const float *x = j->x + row * j->K + k;
        float h[256], sum = 0;
        for (int i = 0; i < f->block; i++) sum += j->importance ? j->importance[k + i] : 0;
        /* columns that no text reached count a little */
        for (int i = 0; i < f->block; i++)
            h[i] = sum > 0 ? j->importance[k + i] / sum * (float)f->block + 1e-4f : 1;
        if (!fits(x, f->block)) { atomic_store(&j->failed, true); return; }
        pack_block(j, x, h, out);
    }
}

bool cr_format_pack(cr_block_format format, const float *x, int64_t rows, int64_t K, const float *importance,
                    uint8_t *out) {
    job j = {.format = format, .x = x, .importance = importance, .K = K, .out = out};
    cr_run_chunks(rows, pack_row, &j);
    return !atomic_load(&j.failed);
}
