/* cusolver.c - the simulated cuSOLVER: the functions of the dense interface that the library uses, in the order of
 * their stream, by plain loops in double over columns.
 *
 * It refuses what the real library refuses by its documentation (handles, leading dimensions, small workspaces, fewer
 * rows than columns for gesvd), and reports memory that is not allocated on the stream's device.  It writes all of a
 * workspace, and reports eigenvalues and SVD of what is not finite as a failure. */
#include "control.h"
#include "numbers.h"
#include "nvidia.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define TRY(call) do { const cusolverStatus_t status_ = (call); if (status_) return status_; } while (0)

struct cusolverDnContext { void *stream; bool bound; };
struct cusolverDnParams { int nothing; };
enum { HOST_ROOM = 96, LEAST_ROOM = 512 };          /* bytes */

API cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *out) {
    if (cudasim_fails("solver")) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (!out || !(*out = calloc(1, sizeof **out))) return CUSOLVER_STATUS_ALLOC_FAILED;
    return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t h) { free(h); return CUSOLVER_STATUS_SUCCESS; }
API cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t h, void *stream) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    h->stream = stream;
    h->bound = true;
    return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t h, cusolverDeterministicMode_t mode) {
    if (!h) return CUSOLVER_STATUS_NOT_INITIALIZED;
    return mode == CUSOLVER_DETERMINISTIC_RESULTS ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}
API cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *out) {
    return out && (*out = calloc(1, sizeof **out)) ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_ALLOC_FAILED;
}
API cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t p) { free(p); return CUSOLVER_STATUS_SUCCESS; }

/* ---- one call */
typedef struct work {
    void (*fn)(void *);
    int type, m, n;
    void *a, *second, *u, *vt, *room;               /* second: tau, w or s */
    int64_t lda, ldu, ldvt, *pivots;
    bool values;                                    /* of syevd: without vectors, a is overwritten */
    size_t bytes;
    int *info;
} work;

static size_t size_of(int type) { return type == CUDA_R_64F ? 8 : 4; }
static double get(const work *w, const void *from, int64_t ld, int64_t i, int64_t j) {
    return load(from, w->type, (uint64_t)(j * ld + i));
}
static void put(const work *w, void *to, int64_t ld, int64_t i, int64_t j, double v) {
    store(to, w->type, (uint64_t)(j * ld + i), v);
}

/* (rows, columns) as doubles, and back */
static double *taken(const work *w, const void *a, int64_t ld, int rows, int columns) {
    double *x = malloc(sizeof *x * (size_t)rows * (size_t)columns + 1);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) x[j * rows + i] = get(w, a, ld, i, j);
    return x;
}
static void given(const work *w, void *a, int64_t ld, int rows, int columns, double *x) {
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) put(w, a, ld, i, j, x[j * rows + i]);
    free(x);
}
static bool is_finite(const double *x, int n) {
    for (int i = 0; i < n; i++) if (!isfinite(x[i])) return false;
    return true;
}

/* The upper triangle becomes U, a = U^T U; the lower one is neither read nor written. */
static void potrf(void *payload) {
    const work *w = payload;
    *w->info = 0;
    for (int j = 0; j < w->n; j++)
        for (int i = 0; i <= j; i++) {
            double sum = get(w, w->a, w->lda, i, j);
            for (int k = 0; k < i; k++) sum -= get(w, w->a, w->lda, k, i) * get(w, w->a, w->lda, k, j);
            if (i == j && !(sum > 0)) { *w->info = j + 1; return; }
            put(w, w->a, w->lda, i, j, i == j ? sqrt(sum) : sum / get(w, w->a, w->lda, i, i));
        }
}

static void getrf(void *payload) {
    const work *w = payload;
    *w->info = 0;
    for (int j = 0; j < w->m && j < w->n; j++) {
        int best = j;
        for (int i = j + 1; i < w->m; i++)
            if (fabs(get(w, w->a, w->lda, i, j)) > fabs(get(w, w->a, w->lda, best, j))) best = i;
        w->pivots[j] = best + 1;
        for (int k = 0; best != j && k < w->n; k++) {
            const double v = get(w, w->a, w->lda, j, k);
            put(w, w->a, w->lda, j, k, get(w, w->a, w->lda, best, k));
            put(w, w->a, w->lda, best, k, v);
        }
        const double pivot = get(w, w->a, w->lda, j, j);
        if (pivot == 0) { if (!*w->info) *w->info = j + 1; continue; }
        for (int i = j + 1; i < w->m; i++) {
            put(w, w->a, w->lda, i, j, get(w, w->a, w->lda, i, j) / pivot);
            const double factor = get(w, w->a, w->lda, i, j);
            for (int k = j + 1; k < w->n; k++)
                put(w, w->a, w->lda, i, k, get(w, w->a, w->lda, i, k) - factor * get(w, w->a, w->lda, j, k));
        }
    }
}

/* c (rows i >= j, column k) -= tau v (v^T c), v: column j of a below its diagonal */
static void reflect(const double *a, int m, int j, double tau, double *c) {
    double sum = c[j];
    for (int i = j + 1; i < m; i++) sum += a[j * m + i] * c[i];
    c[j] -= tau * sum;
    for (int i = j + 1; i < m; i++) c[i] -= tau * sum * a[j * m + i];
}

static void geqrf(void *payload) {
    const work *w = payload;
    const int m = w->m;
    double *a = taken(w, w->a, w->lda, m, w->n);
    *w->info = 0;
    for (int j = 0; j < w->n; j++) {
        double below = 0, tau = 0, *x = a + j * m;
        for (int i = j + 1; i < m; i++) below += x[i] * x[i];
        if (below != 0) {
            const double length = sqrt(below + x[j] * x[j]), beta = x[j] > 0 ? -length : length;
            tau = (beta - x[j]) / beta;
            for (int i = j + 1; i < m; i++) x[i] /= x[j] - beta;
            x[j] = beta;
        }
        store(w->second, w->type, (uint64_t)j, tau);
        for (int k = j + 1; k < w->n; k++) reflect(a, m, j, tau, a + k * m);
    }
    given(w, w->a, w->lda, m, w->n, a);
}

static void orgqr(void *payload) {
    const work *w = payload;
    const int m = w->m, n = w->n;
    double *a = taken(w, w->a, w->lda, m, n), *q = calloc((size_t)m * (size_t)n + 1, sizeof *q);
    *w->info = 0;
    for (int k = 0; k < n; k++) {
        q[k * m + k] = 1;
        for (int j = n - 1; j >= 0; j--) reflect(a, m, j, load(w->second, w->type, (uint64_t)j), q + k * m);
    }
    free(a);
    given(w, w->a, w->lda, m, n, q);
}

/* The rotation that makes x and y orthogonal, of the squared lengths p, q and the product pq. */
static bool rotation(double p, double q, double pq, double *c, double *s) {
    if (fabs(pq) <= 1e-17 * sqrt(p) * sqrt(q) || pq == 0) return false;
    const double zeta = (q - p) / (2 * pq), t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(zeta * zeta + 1));
    *c = 1 / sqrt(t * t + 1);
    *s = t * *c;
    return true;
}
static void rotate(double *x, double *y, int n, double c, double s) {
    for (int i = 0; i < n; i++) {
        const double u = x[i], v = y[i];
        x[i] = c * u - s * v;
        y[i] = s * u + c * v;
    }
}
/* a (m, n) by columns: its columns become orthogonal, v (n, n) turns with them (Hestenes) */
static void orthogonalize(double *a, double *v, int m, int n) {
    bool turned = true;
    for (int sweep = 0; turned && sweep < 60; sweep++) {
        turned = false;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double pp = 0, qq = 0, pq = 0, c, s;
                for (int i = 0; i < m; i++) {
                    pp += a[p * m + i] * a[p * m + i];
                    qq += a[q * m + i] * a[q * m + i];
                    pq += a[p * m + i] * a[q * m + i];
                }
                if (!rotation(pp, qq, pq, &c, &s)) continue;
                turned = true;
                rotate(a + p * m, a + q * m, m, c, s);
                rotate(v + p * n, v + q * n, n, c, s);
            }
    }
}
static double *identity(int n) {
    double *v = calloc((size_t)n * (size_t)n + 1, sizeof *v);
    for (int i = 0; i < n; i++) v[i * n + i] = 1;
    return v;
}

/* The upper triangle is read; the columns of a become the vectors (Jacobi). */
static void syevd(void *payload) {
    const work *w = payload;
    const int n = w->n;
    double *a = taken(w, w->a, w->lda, n, n), *v = identity(n);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < j; i++) a[i * n + j] = a[j * n + i];
    *w->info = is_finite(a, n * n) ? 0 : n;
    bool turned = !*w->info;
    for (int sweep = 0; turned && sweep < 60; sweep++) {
        turned = false;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                const double off = a[q * n + p], size = fabs(a[p * n + p]) + fabs(a[q * n + q]);
                double c, s;
                if (fabs(off) <= 1e-18 * size || !rotation(a[p * n + p], a[q * n + q], off, &c, &s)) continue;
                turned = true;
                for (int k = 0; k < n; k++) rotate(&a[k * n + p], &a[k * n + q], 1, c, s);
                rotate(a + p * n, a + q * n, n, c, s);
                rotate(v + p * n, v + q * n, n, c, s);
            }
    }
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++) if (a[i * n + i] < a[best * n + best]) best = i;
        const double least = a[best * n + best];
        a[best * n + best] = a[k * n + k];
        a[k * n + k] = least;
        for (int i = 0; i < n && best != k; i++) {
            const double x = v[k * n + i];
            v[k * n + i] = v[best * n + i];
            v[best * n + i] = x;
        }
        store(w->second, w->type, (uint64_t)k, least);
    }
    for (int i = 0; w->values && i < n * n; i++) v[i] = NAN;
    free(a);
    given(w, w->a, w->lda, n, n, v);
}

static void gesvd(void *payload) {
    const work *w = payload;
    const int m = w->m, n = w->n;
    double *a = taken(w, w->a, w->lda, m, n), *v = identity(n), *u = calloc((size_t)m * (size_t)n + 1, sizeof *u);
    bool *used = calloc((size_t)n + 1, sizeof *used);
    *w->info = is_finite(a, m * n) ? 0 : n;
    if (!*w->info) orthogonalize(a, v, m, n);
    for (int k = 0; k < n; k++) {
        double most = -1;
        int best = 0;
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int i = 0; i < m; i++) sum += a[j * m + i] * a[j * m + i];
            if (!used[j] && sum > most) most = sum, best = j;
        }
        used[best] = true;
        const double length = sqrt(most);
        store(w->second, w->type, (uint64_t)k, length);
        for (int i = 0; w->vt && i < n; i++) put(w, w->vt, w->ldvt, k, i, v[best * n + i]);
        for (int i = 0; i < m; i++) u[k * m + i] = length > 0 ? a[best * m + i] / length : 0;
        for (int axis = 0; length <= 0 && axis < m; axis++) {       /* a vector beside those before: of a unit vector */
            double left = 0, *x = u + k * m;
            for (int i = 0; i < m; i++) x[i] = i == axis;
            for (int before = 0; before < 2 * k; before++) {
                double dot = 0, *y = u + before % k * m;
                for (int i = 0; i < m; i++) dot += x[i] * y[i];
                for (int i = 0; i < m; i++) x[i] -= dot * y[i];
            }
            for (int i = 0; i < m; i++) left += x[i] * x[i];
            for (int i = 0; i < m; i++) x[i] /= sqrt(left);
            if (left > 1e-2 / m) break;
        }
    }
    free(a), free(v), free(used);
    memset(w->a, 0xff, ((size_t)(n - 1) * (size_t)w->lda + (size_t)m) * size_of(w->type));      /* is overwritten */
    if (w->u) given(w, w->u, w->ldu, m, n, u);
    else free(u);
}

/* ---- checks */
typedef struct call { const char *name; void (*fn)(void *); cusolverDnHandle_t h; work w; } call;

static bool there(const call *c, const void *at, int64_t elements, size_t size) {
    return at && (uintptr_t)at % size == 0 && cudasim_allocated(c->h->stream, at, (size_t)elements * size);
}

static size_t device_room(int type, int64_t m, int64_t n) { return LEAST_ROOM + (size_t)(m + n) * size_of(type); }

static void perform(void *payload) {
    const work *w = payload;
    memset(w->room, 0xff, w->bytes);
    w->fn(payload);
}

/* elements: those of the second result; 0: none */
static cusolverStatus_t run(const call *c, void *host_room, size_t host_bytes, size_t least, int64_t elements) {
    const work *w = &c->w;
    const int64_t size = (int64_t)size_of(w->type);
    if (w->bytes < least || (host_room == NULL) != (host_bytes == 0) || !w->info) return CUSOLVER_STATUS_INVALID_VALUE;
    if (!there(c, w->a, (w->n - 1) * w->lda + w->m, (size_t)size) || !there(c, w->info, 1, sizeof *w->info) ||
        !there(c, w->room, (int64_t)w->bytes / 8, 8) || (elements && !there(c, w->second, elements, (size_t)size)) ||
        (w->u && !there(c, w->u, (w->n - 1) * w->ldu + w->m, (size_t)size)) ||
        (w->vt && !there(c, w->vt, (w->n - 1) * w->ldvt + w->n, (size_t)size)) ||
        (w->pivots && !there(c, w->pivots, w->m < w->n ? w->m : w->n, sizeof *w->pivots)))
        return CUSOLVER_STATUS_EXECUTION_FAILED;
    if (cudasim_fails("solver")) return CUSOLVER_STATUS_ALLOC_FAILED;
    if (host_bytes) memset(host_room, 0xff, host_bytes);
    const long long all = (long long)w->m * w->n * size;
    work of = *w;
    of.fn = c->fn;
    return cudasim_call(c->h->stream, c->name, perform, &of, sizeof of, (cudasim_bytes){.read = all, .written = all})
               ? CUSOLVER_STATUS_EXECUTION_FAILED
               : CUSOLVER_STATUS_SUCCESS;
}

/* What a query and its call have in common. */
static cusolverStatus_t check(cusolverDnHandle_t h, cusolverDnParams_t params, int type, int compute, int64_t m,
                              int64_t n, int64_t lda) {
    if (!h || !h->bound || !params) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (type != compute || (type != CUDA_R_32F && type != CUDA_R_64F)) return CUSOLVER_STATUS_NOT_SUPPORTED;
    return m < 0 || n < 0 || lda < (m > 1 ? m : 1) ? CUSOLVER_STATUS_INVALID_VALUE : CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t answer(size_t *bytes, size_t *host_bytes, int type, int64_t m, int64_t n) {
    if (!bytes || !host_bytes) return CUSOLVER_STATUS_INVALID_VALUE;
    *bytes = device_room(type, m, n);
    *host_bytes = HOST_ROOM;
    return CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t generic(const char *name, void (*fn)(void *), cusolverDnHandle_t h, work w, void *host_room,
                                size_t host_bytes, int64_t elements) {
    if (host_bytes < HOST_ROOM) return CUSOLVER_STATUS_INVALID_VALUE;
    return run(&(call){name, fn, h, w}, host_room, host_bytes, device_room(w.type, w.m, w.n), elements);
}

/* ---- the interface */
API cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t params, cublasFillMode_t uplo,
                                                 int64_t n, cudaDataType type, const void *a, int64_t lda,
                                                 cudaDataType compute, size_t *bytes, size_t *host_bytes) {
    (void)a;
    TRY(check(h, params, (int)type, (int)compute, n, n, lda));
    if (uplo != CUBLAS_FILL_MODE_UPPER) return CUSOLVER_STATUS_NOT_SUPPORTED;
    return answer(bytes, host_bytes, (int)type, n, n);
}
API cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t h, cusolverDnParams_t params, cublasFillMode_t uplo, int64_t n,
                                      cudaDataType type, void *a, int64_t lda, cudaDataType compute, void *room,
                                      size_t bytes, void *host_room, size_t host_bytes, int *info) {
    TRY(check(h, params, (int)type, (int)compute, n, n, lda));
    if (uplo != CUBLAS_FILL_MODE_UPPER) return CUSOLVER_STATUS_NOT_SUPPORTED;
    const work w = {.type = (int)type, .m = (int)n, .n = (int)n, .a = a, .lda = lda, .room = room, .bytes = bytes,
                    .info = info};
    return generic("cusolverDnXpotrf", potrf, h, w, host_room, host_bytes, 0);
}

API cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t params, int64_t m, int64_t n,
                                                 cudaDataType type, const void *a, int64_t lda, cudaDataType compute,
                                                 size_t *bytes, size_t *host_bytes) {
    (void)a;
    TRY(check(h, params, (int)type, (int)compute, m, n, lda));
    return answer(bytes, host_bytes, (int)type, m, n);
}
API cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t h, cusolverDnParams_t params, int64_t m, int64_t n,
                                      cudaDataType type, void *a, int64_t lda, int64_t *pivots, cudaDataType compute,
                                      void *room, size_t bytes, void *host_room, size_t host_bytes, int *info) {
    TRY(check(h, params, (int)type, (int)compute, m, n, lda));
    const work w = {.type = (int)type, .m = (int)m, .n = (int)n, .a = a, .lda = lda, .pivots = pivots, .room = room,
                    .bytes = bytes, .info = info};
    return generic("cusolverDnXgetrf", getrf, h, w, host_room, host_bytes, 0);
}

API cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t params, int64_t m, int64_t n,
                                                 cudaDataType type, const void *a, int64_t lda, cudaDataType tau_type,
                                                 const void *tau, cudaDataType compute, size_t *bytes,
                                                 size_t *host_bytes) {
    (void)a, (void)tau;
    TRY(check(h, params, (int)type, (int)compute, m, n, lda));
    if (tau_type != type) return CUSOLVER_STATUS_INVALID_VALUE;
    return answer(bytes, host_bytes, (int)type, m, n);
}
API cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t h, cusolverDnParams_t params, int64_t m, int64_t n,
                                      cudaDataType type, void *a, int64_t lda, cudaDataType tau_type, void *tau,
                                      cudaDataType compute, void *room, size_t bytes, void *host_room,
                                      size_t host_bytes, int *info) {
    TRY(check(h, params, (int)type, (int)compute, m, n, lda));
    if (tau_type != type) return CUSOLVER_STATUS_INVALID_VALUE;
    const work w = {.type = (int)type, .m = (int)m, .n = (int)n, .a = a, .lda = lda, .second = tau, .room = room,
                    .bytes = bytes, .info = info};
    return generic("cusolverDnXgeqrf", geqrf, h, w, host_room, host_bytes, m < n ? m : n);
}

static cusolverStatus_t make_q(cusolverDnHandle_t h, int type, int m, int n, int k, void *a, int lda, const void *tau,
                               void *room, int elements, int *info) {
    if (!h || !h->bound) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (m < n || k != n || n < 0 || lda < m) return CUSOLVER_STATUS_INVALID_VALUE;
    const call c = {type == CUDA_R_64F ? "cusolverDnDorgqr" : "cusolverDnSorgqr", orgqr, h,
                    {.type = type, .m = m, .n = n, .a = a, .lda = lda, .second = (void *)(uintptr_t)tau, .room = room,
                     .bytes = (size_t)elements * size_of(type), .info = info}};
    return run(&c, NULL, 0, 2 * device_room(type, m, n), k);
}
static cusolverStatus_t ask_q(cusolverDnHandle_t h, int type, int m, int n, int k, int lda, int *elements) {
    if (!h || !h->bound) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (m < n || k != n || n < 0 || lda < m || !elements) return CUSOLVER_STATUS_INVALID_VALUE;
    *elements = (int)(2 * device_room(type, m, n) / size_of(type));  /* more than geqrf asks for */
    return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t h, int m, int n, int k, const float *a, int lda,
                                                 const float *tau, int *elements) {
    (void)a, (void)tau;
    return ask_q(h, CUDA_R_32F, m, n, k, lda, elements);
}
API cusolverStatus_t cusolverDnDorgqr_bufferSize(cusolverDnHandle_t h, int m, int n, int k, const double *a, int lda,
                                                 const double *tau, int *elements) {
    (void)a, (void)tau;
    return ask_q(h, CUDA_R_64F, m, n, k, lda, elements);
}
API cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t h, int m, int n, int k, float *a, int lda, const float *tau,
                                      float *room, int elements, int *info) {
    return make_q(h, CUDA_R_32F, m, n, k, a, lda, tau, room, elements, info);
}
API cusolverStatus_t cusolverDnDorgqr(cusolverDnHandle_t h, int m, int n, int k, double *a, int lda, const double *tau,
                                      double *room, int elements, int *info) {
    return make_q(h, CUDA_R_64F, m, n, k, a, lda, tau, room, elements, info);
}

static cusolverStatus_t check_syevd(cusolverDnHandle_t h, cusolverDnParams_t params, cusolverEigMode_t job,
                                    cublasFillMode_t uplo, int64_t n, cudaDataType type, int64_t lda,
                                    cudaDataType w_type, cudaDataType compute) {
    TRY(check(h, params, (int)type, (int)compute, n, n, lda));
    if (w_type != type) return CUSOLVER_STATUS_INVALID_VALUE;
    return (int)job >= 0 && (int)job <= 1 && uplo == CUBLAS_FILL_MODE_UPPER ? CUSOLVER_STATUS_SUCCESS
                                                                              : CUSOLVER_STATUS_NOT_SUPPORTED;
}
API cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t params, cusolverEigMode_t job,
                                                 cublasFillMode_t uplo, int64_t n, cudaDataType type, const void *a,
                                                 int64_t lda, cudaDataType w_type, const void *values,
                                                 cudaDataType compute, size_t *bytes, size_t *host_bytes) {
    (void)a, (void)values;
    TRY(check_syevd(h, params, job, uplo, n, type, lda, w_type, compute));
    return answer(bytes, host_bytes, (int)type, n, n);
}
API cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t h, cusolverDnParams_t params, cusolverEigMode_t job,
                                      cublasFillMode_t uplo, int64_t n, cudaDataType type, void *a, int64_t lda,
                                      cudaDataType w_type, void *values, cudaDataType compute, void *room, size_t bytes,
                                      void *host_room, size_t host_bytes, int *info) {
    TRY(check_syevd(h, params, job, uplo, n, type, lda, w_type, compute));
    const work w = {.type = (int)type, .m = (int)n, .n = (int)n, .a = a, .lda = lda, .second = values, .room = room,
                    .bytes = bytes, .info = info, .values = job == CUSOLVER_EIG_MODE_NOVECTOR};
    return generic("cusolverDnXsyevd", syevd, h, w, host_room, host_bytes, n);
}

static cusolverStatus_t check_gesvd(cusolverDnHandle_t h, cusolverDnParams_t params, signed char job_u,
                                    signed char job_vt, int64_t m, int64_t n, cudaDataType type, int64_t lda,
                                    cudaDataType s_type, cudaDataType u_type, int64_t ldu, cudaDataType vt_type,
                                    int64_t ldvt, cudaDataType compute) {
    TRY(check(h, params, (int)type, (int)compute, m, n, lda));
    if (s_type != type || u_type != type || vt_type != type || m < n || ldu < m || ldvt < n)
        return CUSOLVER_STATUS_INVALID_VALUE;
    return job_u == job_vt && (job_u == 'S' || job_u == 'N') ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_SUPPORTED;
}
API cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t params, signed char job_u,
                                                 signed char job_vt, int64_t m, int64_t n, cudaDataType type,
                                                 const void *a, int64_t lda, cudaDataType s_type, const void *s,
                                                 cudaDataType u_type, const void *u, int64_t ldu, cudaDataType vt_type,
                                                 const void *vt, int64_t ldvt, cudaDataType compute, size_t *bytes,
                                                 size_t *host_bytes) {
    (void)a, (void)s, (void)u, (void)vt;
    TRY(check_gesvd(h, params, job_u, job_vt, m, n, type, lda, s_type, u_type, ldu, vt_type, ldvt, compute));
    return answer(bytes, host_bytes, (int)type, m, n);
}
API cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t h, cusolverDnParams_t params, signed char job_u,
                                      signed char job_vt, int64_t m, int64_t n, cudaDataType type, void *a, int64_t lda,
                                      cudaDataType s_type, void *s, cudaDataType u_type, void *u, int64_t ldu,
                                      cudaDataType vt_type, void *vt, int64_t ldvt, cudaDataType compute, void *room,
                                      size_t bytes, void *host_room, size_t host_bytes, int *info) {
    TRY(check_gesvd(h, params, job_u, job_vt, m, n, type, lda, s_type, u_type, ldu, vt_type, ldvt, compute));
    if (job_u == 'N') u = vt = NULL;
    else if (!u || !vt) return CUSOLVER_STATUS_INVALID_VALUE;
    const work w = {.type = (int)type, .m = (int)m, .n = (int)n, .a = a, .lda = lda, .second = s, .u = u, .ldu = ldu,
                    .vt = vt, .ldvt = ldvt, .room = room, .bytes = bytes, .info = info};
    return generic("cusolverDnXgesvd", gesvd, h, w, host_room, host_bytes, n);
}
