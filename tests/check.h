/* check.h - what the tests of ops share: numbers from a seed, tensors in every layout, devices with
 * guard words around each buffer, one tolerance and one comparison.
 *
 * The truth for floats is `ref` in float64 over the same inputs, rounded to the dtype under test
 * first; integers must be equal. */
#ifndef CR_CHECK_H
#define CR_CHECK_H

#include "test.h"
#include "core/os.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "dev/dev.h"

/* ---- where we are, for messages and for the command that repeats a failure */
static struct { const char *op, *what, *device; cr_dtype dtype; int layout; uint64_t seed; } now;

/* ---- numbers: a Philox stream that starts again for every case */
typedef struct stream { uint64_t seed, counter; } stream;

static uint64_t test_round;                         /* CHAINRULE_TEST_FULL=1 goes over the tables more than once,
                                                     * with other numbers */
#if defined CR_TEST_GPU || defined CR_TEST_CUDA
static uint64_t test_rounds(void) { return 1; }     /* on GPUs made of software one takes minutes */
#else
static uint64_t test_rounds(void) { return test_full() ? 4 : 1; }
#endif

/* CHAINRULE_TEST_OPS=softmax,norm checks only these ops. */
__attribute__((unused)) static bool test_wants(const char *op) {
    const char *list = getenv("CHAINRULE_TEST_OPS");
    const size_t n = strlen(op);
    for (const char *at = list; at && (at = strstr(at, op)); at += n)
        if ((at == list || at[-1] == ',') && (at[n] == ',' || !at[n])) return true;
    return !list;
}

static stream stream_of(const char *op, int64_t number) {
    uint64_t h = test_seed() * 0x9E3779B97F4A7C15u + (uint64_t)number + (test_round << 40);
    for (; *op; op++) h = (h ^ (unsigned char)*op) * 0x100000001B3u;
    return (stream){.seed = h};
}

static double stream_next(stream *s) {              /* [0, 1) */
    uint32_t w[4];
    cr_philox(s->seed, s->counter++, w);
    return ((double)w[0] * 0x1p32 + (double)w[1]) * 0x1p-64;
}

/* ---- data: elements of one dtype in row-major order, on the host */
/* STEPS: whole numbers, many of them equal; INDEX: i64 below hi */
typedef enum fill { REALS, STEPS, INDEX, MASK } fill;
typedef struct spec { int ndim; int64_t shape[5]; fill fill; double lo, hi; } spec;     /* lo = hi = 0: -2 .. 2 */
typedef struct data { cr_dtype dtype; int ndim; int64_t shape[CR_MAX_DIMS], numel; unsigned char *bytes; } data;

static data data_new(cr_dtype dt, int ndim, const int64_t *shape) {
    data d = {.dtype = dt, .ndim = ndim, .numel = 1};
    for (int i = 0; i < ndim; i++) d.numel *= d.shape[i] = shape[i];
    d.bytes = calloc((size_t)d.numel + 1, cr_dtype_size(dt));
    if (!d.bytes) exit(fputs("check.h: out of memory\n", stderr) ? 9 : 9);
    return d;
}
static void data_free(data *d) { free(d->bytes); d->bytes = NULL; }
static void *data_at(const data *d, int64_t i) { return d->bytes + i * (int64_t)cr_dtype_size(d->dtype); }
static double data_f64(const data *d, int64_t i) { return cr_load_f64(data_at(d, i), d->dtype); }

static data data_fill(const spec *s, cr_dtype dt, stream *r) {
    if (s->fill == INDEX) dt = CR_I64;
    if (s->fill == MASK) dt = CR_BOOL;
    data d = data_new(dt, s->ndim, s->shape);
    bool whole = !cr_dtype_is_float(dt) || s->fill == STEPS;
    double lo = s->lo, hi = s->hi;
    if (lo == 0 && hi == 0) { lo = whole ? -9 : -2; hi = -lo; }
    if (s->fill == MASK) { lo = 0; hi = 1; }
    if (s->fill == INDEX) hi = s->hi - 1;
    if (cr_dtype_kind(dt) <= CR_KIND_UNSIGNED && lo < 0) lo = 0;
    for (int64_t i = 0; i < d.numel; i++) {
        double u = stream_next(r);
        cr_store_f64(data_at(&d, i), dt, whole ? floor(lo + u * (floor(hi) - lo + 1)) : lo + u * (hi - lo));
    }
    return d;
}

/* The same numbers in another dtype, as C and the library convert them. */
static data data_as(const data *d, cr_dtype dt) {
    data w = data_new(dt, d->ndim, d->shape);
    for (int64_t i = 0; i < d->numel; i++) cr_convert(data_at(&w, i), dt, data_at(d, i), d->dtype);
    return w;
}

static data data_of(const cr_tensor *t) {
    data d = data_new(cr_dtype_of(t), cr_ndim(t), cr_shape(t));
    OK(cr_read(t, d.dtype, d.bytes, (size_t)d.numel * cr_dtype_size(d.dtype)));
    return d;
}

/* ---- layouts: the same elements, differently placed in memory */
/* axes in reverse order; steps of 2 from 1 on every axis; every axis backwards */
typedef enum layout { DENSE, REVERSED, SPACED, BACKWARDS, LAYOUTS } layout;
static const char *const layout_names[LAYOUTS] = {"dense", "reversed", "spaced", "backwards"};

static int64_t spaced(layout how, int64_t n) { return how == SPACED ? 2 * n + 1 : n; }

/* Where element i of d lies in the base of that layout. */
static int64_t placed(const data *d, layout how, int64_t i) {
    int64_t stride[CR_MAX_DIMS], step = 1, at = 0;
    if (how == BACKWARDS) return d->numel - 1 - i;
    for (int k = 0; k < d->ndim; k++) {
        int axis = how == REVERSED ? k : d->ndim - 1 - k;              /* fastest first */
        stride[axis] = step;
        step *= spaced(how, d->shape[axis]);
    }
    for (int axis = d->ndim - 1; axis >= 0; axis--) {
        at += spaced(how, i % d->shape[axis]) * stride[axis];
        i /= d->shape[axis];
    }
    return at;
}

/* The elements on a device; what lies between them is all ones (NaN, -1), so that reading it shows. */
static cr_tensor *data_put(const data *d, layout how, const cr_device *dev) {
    int64_t shape[CR_MAX_DIMS], axes[CR_MAX_DIMS], size = (int64_t)cr_dtype_size(d->dtype);
    for (int k = 0; k < d->ndim; k++) {
        shape[k] = spaced(how, d->shape[how == REVERSED ? d->ndim - 1 - k : k]);
        axes[k] = d->ndim - 1 - k;
    }
    data base = data_new(d->dtype, d->ndim, shape);
    memset(base.bytes, 0xff, (size_t)(base.numel * size));
    for (int64_t i = 0; i < d->numel; i++) memcpy(data_at(&base, placed(d, how, i)), data_at(d, i), (size_t)size);
    cr_tensor *t = cr_from(base.bytes, d->ndim, shape, d->dtype, dev);
    data_free(&base);
    if (how == REVERSED && d->ndim > 1) t = cr_permute(t, d->ndim, axes);
    for (int k = 0; k < d->ndim && how == SPACED; k++) t = cr_slice(t, k, 1, 2 * d->shape[k] + 1, 2);
    for (int k = 0; k < d->ndim && how == BACKWARDS; k++) t = cr_slice(t, k, INT64_MAX, INT64_MIN, -1);
    return t;
}

/* ---- guarded devices: a twin of each host device whose buffers begin as all ones and lie between guard words */
enum { GUARD = 64, GUARD_BYTE = 0xa5, MOST_DEVICES = 8 };
static long guards_broken, guards_checked, buffers_alive;

static void guarded_free(cr_storage *s) {
    unsigned char *base = (unsigned char *)s->data - GUARD;
    bool broken = false;
    for (size_t i = 0; i < GUARD; i++) broken |= base[i] != GUARD_BYTE || base[GUARD + s->bytes + i] != GUARD_BYTE;
    guards_broken += broken;
    guards_checked++;
    buffers_alive--;
    cr_os_aligned_free(base);
}

static cr_storage *guarded_allocate(const cr_device *d, size_t bytes) {
    size_t room = (bytes + 2 * GUARD + 63) / 64 * 64;
    unsigned char *base = cr_os_aligned(64, room);
    if (!base) return cr_fail(CR_NO_MEMORY, d->name, "out of memory"), NULL;
    memset(base, GUARD_BYTE, room);
    memset(base + GUARD, 0xff, bytes);
    buffers_alive++;
    return cr_storage_new(base + GUARD, bytes, d, guarded_free);
}

/* ---- counted kernels: the twins of cpu and ref count the runs of every kernel in dev/kernels.def */
#define COUNTED(device, name)                                                                       \
    static atomic_long device##_ran_##name;                                                         \
    static cr_status device##_counted_##name(const cr_##name##_args *args) {                        \
        atomic_fetch_add(&device##_ran_##name, 1);                                                  \
        return cr_device_##device.kernels->name(args);                                              \
    }
#define KERNEL(name, on_cpu, on_ref, ...) CR_IF_##on_cpu(COUNTED(cpu, name)) CR_IF_##on_ref(COUNTED(ref, name))
#include "dev/kernels.def"
static const cr_kernels counted_cpu = {
#define KERNEL(name, on_cpu, on_ref, ...) CR_IF_##on_cpu(.name = cpu_counted_##name, )
#include "dev/kernels.def"
};
static const cr_kernels counted_ref = {
#define KERNEL(name, on_cpu, on_ref, ...) CR_IF_##on_ref(.name = ref_counted_##name, )
#include "dev/kernels.def"
};

/* How many kernels in the list have not run on a device that has them.  gradients: those of gradients,
 * which test_grad runs; else all others but two, which need optimizers (test_update) and bits of
 * floats (test_random). */
static long idle_kernel(const char *device, const char *name, long runs, bool gradients) {
    const char *end = strstr(name, "_bwd");
    if (runs || !end == gradients || !strcmp(name, "update_by_product") || !strcmp(name, "nextafter")) return 0;
    printf("  no test ran %s on %s\n", name, device);
    return 1;
}
__attribute__((unused)) static long idle_kernels(bool gradients) {
    long idle = 0;
#define IDLE(device, name) idle += idle_kernel(#device, #name, device##_ran_##name, gradients);
#define KERNEL(name, on_cpu, on_ref, ...) CR_IF_##on_cpu(IDLE(cpu, name)) CR_IF_##on_ref(IDLE(ref, name))
#include "dev/kernels.def"
    return idle;
}

/* The i-th device to test: the guarded twin where the host can see its memory; NULL past the end. */
static const cr_device *guarded_device(int i) {
    static cr_device twins[MOST_DEVICES];
    const cr_device *dev = i < MOST_DEVICES ? cr_device_at(i) : NULL;
    if (!dev || !dev->host) return dev;
    if (!twins[i].name) {
        twins[i] = *dev;
        twins[i].allocate = guarded_allocate;
        if (dev == &cr_device_cpu) twins[i].kernels = &counted_cpu;
        if (dev == &cr_device_ref) twins[i].kernels = &counted_ref;
    }
    return &twins[i];
}

#ifdef CR_TEST_CUDA
#define FLUSHED 0
static const cr_device *test_device(int i) { return i ? NULL : cr_cuda_at(0); }
static const cr_device *test_variant(int i) { return test_device(i); }
static const cr_device *test_ref(void) { return guarded_device(1); }
#elif defined CR_TEST_GPU
#define FLUSHED 0x1p-126                            /* WebGPU lets a driver take denormals, of what is computed on
                                                     * the way too, for 0 */
static const cr_device *test_device(int i) { return i ? NULL : cr_webgpu_at(0); }
static const cr_device *test_variant(int i) { return test_device(i); }
static const cr_device *test_ref(void) { return guarded_device(1); }
#else
#define FLUSHED 0
static const cr_device *test_device(int i) { return guarded_device(i); }

/* The same devices, then the first once more without its optional kernels: composites run in their place. */
static const cr_device *test_variant(int i) {
    static struct { cr_device dev; cr_kernels kernels; } bare;
    if (test_device(i)) return test_device(i);
    if (i == 0 || !test_device(i - 1)) return NULL;
    if (!bare.dev.name) {
        bare.kernels = *test_device(0)->kernels;
        memset((char *)&bare.kernels + offsetof(cr_kernels, softmax), 0,
               sizeof bare.kernels - offsetof(cr_kernels, softmax));
        bare.dev = *test_device(0);
        bare.dev.name = "cpu without fused kernels";
        bare.dev.kernels = &bare.kernels;
    }
    return &bare.dev;
}

static const cr_device *test_ref(void) {
    for (int i = 0; test_device(i); i++) if (!strcmp(cr_device_name(test_device(i)), "ref")) return test_device(i);
    return cr_ref();
}
#endif

/* A GPU takes a sample of a table, the processor all of it. */
__attribute__((unused)) static bool test_takes(const cr_device *dev, int64_t number, int every) {
    return dev->host || test_sampled(number, every);
}

/* WebGPU has no float64: it is only stored */
__attribute__((unused)) static bool test_offers(const cr_device *dev, cr_dtype dt) {
    return dt != CR_F64 || strncmp(dev->name, "webgpu", 6);
}

/* That a GPU has no float64 is counted and no failure; the error is cleared. */
__attribute__((unused)) static long declined;
__attribute__((unused)) static bool test_declines(const cr_device *dev) {
    char text[64];
    snprintf(text, sizeof text, "%s cannot compute in float64", dev->name);
    if (dev->host || !cr_error() || !strstr(cr_error(), text)) return false;
    cr_error_clear();
    declined++;
    return true;
}

/* ---- tolerance: u is the rounding unit of the dtype; sums of n terms are formed in float32 for the halves.
 * Relative to |truth| plus, for all but single elementwise instructions, a norm of the whole result. */
static double unit_of(cr_dtype dt) {
    switch (dt) {
        case CR_F16: return 0x1p-11;
        case CR_BF16: return 0x1p-8;
        case CR_F32: return 0x1p-24;
        case CR_F64: return 0x1p-53;
        default: return 0;
    }
}
static double tolerance(cr_dtype dt, int64_t n) {
    double sums = unit_of(dt == CR_F64 ? CR_F64 : CR_F32);
    return 8 * unit_of(dt) + 3 * sums * sqrt((double)n);
}
static double smallest_normal(cr_dtype dt) {
    return dt == CR_F16 ? 0x1p-14 : dt == CR_F64 ? 0x1p-1022 : 0x1p-126;
}
static double largest(cr_dtype dt) {
    return dt == CR_F16 ? 65504 : dt == CR_F64 ? 0x1.fffffffffffffp1023 : dt == CR_BF16 ? 0x1.fep127 : 0x1.fffffep127;
}

static double data_largest(const data *d) {
    double most = 0;
    for (int64_t i = 0; i < d->numel; i++) if (isfinite(data_f64(d, i))) most = fmax(most, fabs(data_f64(d, i)));
    return most;
}

/* Is `got` as good as dtype dt can be, for the truth `want`? */
static bool close_enough(double got, double want, cr_dtype dt, double relative, double floor_) {
    if (isnan(want)) return isnan(got);
    double allowed = relative * (fabs(want) + floor_) + 4 * unit_of(dt) * smallest_normal(dt) + FLUSHED,
           most = largest(dt);
    if (isinf(got)) return (got > 0) == (want > 0) && fabs(want) >= most - most * unit_of(dt) - fmin(allowed, most / 2);
    if (isinf(want)) return (got > 0) == (want > 0) && fabs(got) >= most * (1 - relative);
    return fabs(got - want) <= allowed;
}

static void complain(const char *part, const data *got, int64_t at, double g, double w, double tol) {
    test_fail("check.h", __LINE__,
              "%s [%s] %s: %s%s %s on %s, inputs %s, position %lld: got %.17g, wanted %.17g, error %g, tolerance %g; "
              "repeat: CHAINRULE_TEST_SEED=%llu",
              now.op, now.what, part, cr_dtype_name(got->dtype), cr_shape_text(got->ndim, got->shape).s,
              now.dtype == got->dtype ? "" : cr_dtype_name(now.dtype), now.device, layout_names[now.layout],
              (long long)at, g, w, fabs(g - w), tol, (unsigned long long)test_seed());
}

/* got: from the device under test; want: the truth, float64 or got's own dtype.  n: terms in the
 * longest sum behind an element. scale: what errors are relative to besides |truth|; 0: nothing.  True
 * when all is well. */
static bool compare(const char *part, const data *got, const data *want, int64_t n, double scale) {
    bool floats = cr_dtype_is_float(got->dtype), same = got->ndim == want->ndim && got->numel == want->numel;
    for (int i = 0; same && i < got->ndim; i++) same = got->shape[i] == want->shape[i];
    if (!same) {
        CHECK(false, "%s [%s] %s on %s: shape %s, wanted %s", now.op, now.what, part, now.device,
              cr_shape_text(got->ndim, got->shape).s, cr_shape_text(want->ndim, want->shape).s);
        return false;
    }
    double relative = tolerance(got->dtype, n);
    for (int64_t i = 0; i < got->numel; i++) {
        double g = data_f64(got, i), w = data_f64(want, i);
        bool fine = floats ? close_enough(g, w, got->dtype, relative, scale)
                           : got->dtype == want->dtype &&
                                 !memcmp(data_at(got, i), data_at(want, i), cr_dtype_size(got->dtype));
        if (fine) continue;
        complain(part, got, i, g, w, floats ? relative * (fabs(w) + scale) : 0);
        return false;
    }
    return true;
}

/* Around a group of cases: nothing may stay allocated, no guard word may be touched. */
static long guard_start(void) { guards_broken = 0; return buffers_alive; }
static void guard_end(long alive) {
    CHECK(!guards_broken, "%s: %ld of %ld buffers were written outside their bounds", now.op, guards_broken,
          guards_checked);
    CHECK(buffers_alive == alive, "%s: %ld buffers leaked", now.op, buffers_alive - alive);
}

#endif
