/* numbers.h - elements in memory as double: for the simulated libraries.  type: of nvidia.h's cudaDataType. */
#ifndef CUDASIM_NUMBERS_H
#define CUDASIM_NUMBERS_H

#include "nvidia.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float half_value(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float v = exponent == 31 ? (fraction ? NAN : INFINITY)
                    : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                   : ldexpf((float)fraction, -24);
    return h & 0x8000 ? -v : v;
}

static inline uint16_t half_of(float x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const float v = fabsf(x);
    if (isnan(x)) return 0x7e00;
    if (v >= 65520) return sign | 0x7c00;
    if (v == 0) return sign;                        /* frexpf returns the exponent 0, that of 0.5 */
    int exponent;
    frexpf(v, &exponent);                           /* v = 0.1... 2^exponent; 11 bits are kept, fewer below 2^-14 */
    const int last = exponent > -13 ? exponent - 11 : -24;
    const uint16_t kept = (uint16_t)rintf(ldexpf(v, -last));
    return (uint16_t)(sign | (last == -24 ? kept : ((last + 24) << 10) + kept));
}

static inline double load(const void *from, int type, uint64_t i) {
    uint32_t bits;
    float f;
    switch (type) {
    case CUDA_R_64F: return ((const double *)from)[i];
    case CUDA_R_32F: return (double)((const float *)from)[i];
    case CUDA_R_16F: return (double)half_value(((const uint16_t *)from)[i]);
    default:
        bits = (uint32_t)((const uint16_t *)from)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
}

static inline void store(void *to, int type, uint64_t i, double v) {
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == CUDA_R_64F) ((double *)to)[i] = v;
    else if (type == CUDA_R_32F) ((float *)to)[i] = f;
    else if (type == CUDA_R_16F) ((uint16_t *)to)[i] = half_of(f);
    else ((uint16_t *)to)[i] = isnan(f) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline double rounded(int type, double v) {
    unsigned char bytes[8];
    store(bytes, type, 0, v);
    return load(bytes, type, 0);
}

/* TF32 rounds to nearest, ties away from 0 (cvt.rna.tf32.f32). */
static inline double tf32(double v) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

#endif
