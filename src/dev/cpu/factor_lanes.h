/* factor_lanes.h - Jacobi rotations of CR_FACTOR_LANES small matrices side by side: element (i, j) of matrix l lies at
 * (i columns + j) CR_FACTOR_LANES + l.  factor_isa.c includes this file for each element type T.  Each matrix has the
 * bits that factor_kernels.h gives it alone. */
#define FOR_LANES for (int l = 0; l < CR_FACTOR_LANES; l++)

/* Where on[l] is set: (x, y) = (c x - s y, s x + c y) */
static void NAME(rotate_rows)(T *restrict x, T *restrict y, const T *c, const T *s, const int *on, int64_t n) {
    T turns[CR_FACTOR_LANES];
    FOR_LANES turns[l] = (T)on[l];
    for (int l = 0; l < CR_FACTOR_LANES; l += LANES) {
        const VEC cosine = NAME(load)(c + l), sine = NAME(load)(s + l);
        const MASK off = EQUAL(NAME(load)(turns + l), (VEC){0});
        for (int64_t i = l; i < n * CR_FACTOR_LANES; i += CR_FACTOR_LANES) {
            const VEC u = NAME(load)(x + i), v = NAME(load)(y + i);
            NAME(store)(x + i, BLEND(off, u, cosine * u - sine * v));
            NAME(store)(y + i, BLEND(off, v, sine * u + cosine * v));
        }
    }
}

/* a (n, n) symmetric becomes diagonal, up to least[l]; v (n, n): its rows turn with those of a */
static void NAME(eigh)(T *a, T *v, const double *least, int64_t n) {
    const int64_t row = n * CR_FACTOR_LANES;
    bool turned = true;
    for (int sweep = 0; turned && sweep < CR_FACTOR_SWEEPS; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                T c[CR_FACTOR_LANES], s[CR_FACTOR_LANES], first[CR_FACTOR_LANES], second[CR_FACTOR_LANES];
                int on[CR_FACTOR_LANES], any = 0;
                T *pp = a + p * row + p * CR_FACTOR_LANES, *pq = a + p * row + q * CR_FACTOR_LANES,
                  *qp = a + q * row + p * CR_FACTOR_LANES, *qq = a + q * row + q * CR_FACTOR_LANES;
                FOR_LANES {
                    on[l] = fabs((double)pq[l]) > least[l];
                    any |= on[l];
                }
                if (!any) continue;
                turned = true;
                FOR_LANES {
                    const double off = (double)pq[l], theta = ((double)qq[l] - (double)pp[l]) / (2 * off),
                                 t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)),
                                 cosine = 1 / sqrt(t * t + 1);
                    c[l] = (T)cosine;
                    s[l] = (T)(t * cosine);
                    first[l] = on[l] ? (T)((double)pp[l] - t * off) : pp[l];
                    second[l] = on[l] ? (T)((double)qq[l] + t * off) : qq[l];
                }
                NAME(rotate_rows)(a + p * row, a + q * row, c, s, on, n);
                NAME(rotate_rows)(v + p * row, v + q * row, c, s, on, n);
                for (int64_t k = 0; k < n; k++) {
                    memcpy(a + k * row + p * CR_FACTOR_LANES, a + p * row + k * CR_FACTOR_LANES, sizeof c);
                    memcpy(a + k * row + q * CR_FACTOR_LANES, a + q * row + k * CR_FACTOR_LANES, sizeof c);
                }
                FOR_LANES {
                    pp[l] = first[l];
                    qq[l] = second[l];
                    pq[l] = qp[l] = on[l] ? 0 : pq[l];
                }
            }
    }
}

static void NAME(dots)(double *sum, const T *x, const T *y, int64_t n) {
    double s[4][CR_FACTOR_LANES] = {{0}};
    const int64_t whole = n / 4 * 4;
    for (int64_t i = 0; i < n; i++) {
        double *to = s[i < whole ? i % 4 : 0];
        FOR_LANES to[l] += (double)x[i * CR_FACTOR_LANES + l] * (double)y[i * CR_FACTOR_LANES + l];
    }
    FOR_LANES sum[l] = (s[0][l] + s[1][l]) + (s[2][l] + s[3][l]);
}

/* a (n, m): the rows, columns of a matrix, become orthogonal; v (n, n) turns with them */
static void NAME(svd)(T *a, T *v, int64_t m, int64_t n) {
    const int64_t row = m * CR_FACTOR_LANES, turn = n * CR_FACTOR_LANES;
    bool turned = true;
    for (int sweep = 0; turned && sweep < CR_FACTOR_SWEEPS; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double pp[CR_FACTOR_LANES], qq[CR_FACTOR_LANES], pq[CR_FACTOR_LANES];
                T c[CR_FACTOR_LANES], s[CR_FACTOR_LANES];
                int on[CR_FACTOR_LANES], any = 0;
                NAME(dots)(pp, a + p * row, a + p * row, m);
                NAME(dots)(qq, a + q * row, a + q * row, m);
                NAME(dots)(pq, a + p * row, a + q * row, m);
                FOR_LANES {
                    on[l] = fabs(pq[l]) > EPSILON * sqrt(pp[l]) * sqrt(qq[l]) && fabs(pq[l]) >= FLOOR;
                    any |= on[l];
                }
                if (!any) continue;
                turned = true;
                FOR_LANES {
                    const double zeta = (qq[l] - pp[l]) / (2 * pq[l]),
                                 t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(zeta * zeta + 1)),
                                 cosine = 1 / sqrt(t * t + 1);
                    c[l] = (T)cosine;
                    s[l] = (T)(t * cosine);
                }
                NAME(rotate_rows)(a + p * row, a + q * row, c, s, on, m);
                NAME(rotate_rows)(v + p * turn, v + q * turn, c, s, on, n);
            }
    }
}
