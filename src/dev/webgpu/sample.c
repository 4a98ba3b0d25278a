/* sample.c - permutations and weighted samples, as dev.h defines them, out of kernels that are there: random words, scans, sorted rows.
 *
 * What decides as doubles do takes their place.  With replacement weights are whole numbers of 62 - log2 N bits, in units of a share of their row's largest,
 * whose sums are exact; a draw is one of these units.  Without, the times are wide (wgsl_library.c), 2^-40 and less from true, and sorted as integers.  So
 * positions are those of the other devices, unless a draw comes so near to a boundary, or two times to each other. */
#include "wgsl.h"

typedef enum sample_task { UNITS, PICK, TIMES } sample_task;
typedef struct kernel { int family; sample_task task; } kernel;

/* p[0]: 0, invocations, N, S or bits   p[1]: seed, counter   p[2]: offset of y or w */

/* units[i] = floor(w[i] 2^bits / 2^(1 + log2 the row's largest)) */
static const char units[] =
    "let w = whole_split(bitcast<f32>(words1(p[2].x + i))); let top = whole_split(bitcast<f32>(words2(i / p[0].z)));\n"
    "let shift = i32(p[0].w) - 24 + i32(w.y) - i32(top.y);\n"
    "let n = select(vec2<u32>(select(0u, w.x >> u32(-shift), shift > -32), 0u), shl64(vec2<u32>(w.x, 0u), vec2<u32>(u32(shift), 0u)), shift >= 0);\n"
    "set0(2u * i, n.x); set0(2u * i + 1u, n.y);\n";

/* the first position of sums above U of their last */
static const char pick[] =
    "let row = i / p[0].w * p[0].z; let last = row + p[0].z - 1u;\n"
    "let drawn = mul_high64(philox64(i) & vec2<u32>(0xfffff800u, ~0u), vec2<u32>(words1(2u * last), words1(2u * last + 1u)));\n"
    "var low = row; var high = last;\n"
    "while low < high { let k = (low + high) / 2u; if less_u64(drawn, vec2<u32>(words1(2u * k), words1(2u * k + 1u))) { high = k; } else { low = k + 1u; } }\n"
    "let o = 2u * (p[2].x + i); set0(o, low - row); set0(o + 1u, 0u);\n";

/* -log(1 - U), U = n 2^-53: where U is small from U itself.  1 - U = m 2^e, m in [sqrt(1/2), sqrt(2)], and log m = 2 artanh s, s = (m - 1) / (m + 1) */
static const char wait[] =
    "fn wide_whole(n: vec2<u32>, e: f32) -> vec3<f32> {\n"
    "    let v = wide_add(wide_add(wide_of(f32(n.y) * 4294967296.0), wide_of(f32(n.x >> 16u) * 65536.0)), wide_of(f32(n.x & 0xffffu)));\n"
    "    return select(v, vec3<f32>(v.xy, v.z + e), ordinary(v.x));\n}\n"
    "fn negated(v: vec3<f32>) -> vec3<f32> { return vec3<f32>(-v.xy, v.z); }\n"
    "fn wait(n: vec2<u32>) -> vec3<f32> {\n"
    "    var f = negated(wide_whole(n, -53.0)); var e = 0.0;\n"
    "    if n.y >= 0x94000u {\n"
    "        let v = wide_whole(sub64(vec2<u32>(0u, 0x200000u), n), -53.0); let over = select(0.0, 1.0, v.x > 1.4142135);\n"
    "        e = v.z + over; f = wide_add(vec3<f32>(v.xy, -over), wide_of(-1.0));\n    }\n"
    "    let s = wide_div(f, wide_add(wide_of(2.0), f)); let z = wide_mul(s, s); let y = wide_round(z);\n"
    "    var q = wide_of((((y / 19.0 + 0.05882352941) * y + 0.06666666667) * y + 0.07692307692) * y + 0.09090909091);\n"
    "    for (var k = 9.0; k > 0.0; k -= 2.0) { q = wide_add(wide_mul(q, z), wide_div(wide_of(1.0), wide_of(k))); }\n"
    "    let half = wide_mul(s, q);\n"
    "    return wide_add(wide_mul(wide_of(-e), vec3<f32>(1.38629436492919921875, -3.809308599915536e-09, -1.0)), wide_mul(wide_of(-2.0), half));\n}\n";

/* the time as an integer in whose order they are: (x + y) 2^47, which is 2^47 and more, and the exponent above that */
static const char times[] =
    "let w = bitcast<f32>(words1(p[2].x + i)); let word = philox64(i); let t = wide_div(wait(vec2<u32>((word.x >> 11u) | (word.y << 21u), word.y >> 11u)), wide_of(w));\n"
    "let rest = i32(round(t.y * 140737488355328.0)); let high = u32(t.x * 8388608.0);\n"
    "let m = add64(vec2<u32>(high << 24u, high >> 8u), vec2<u32>(bitcast<u32>(rest), bitcast<u32>(rest >> 31u)));\n"
    "var key = add64(m, vec2<u32>(0u, u32(i32(t.z) + 511) << 15u));\nif !ordinary(t.x) { key = vec2<u32>(0u); }\nif (bitcast<u32>(w) & 0x7fffffffu) == 0u { key = vec2<u32>(~0u); }\n"
    "set0(2u * i, key.x); set0(2u * i + 1u, key.y);\n";

static void write(wgsl *w, const void *how) {
    static const char *const bodies[] = {units, pick, times};
    const kernel *h = how;
    cr_wgsl_binding(w, 0, true, false);
    cr_wgsl_binding(w, 1, false, false);
    if (h->task == UNITS) cr_wgsl_binding(w, 2, false, false);
    if (h->task == TIMES) cr_wgsl_add(w, "%s", wait);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "if i >= p[0].y { return; }\n%s}\n", bodies[h->task]);
}

typedef struct draw { const char *op; int64_t M, N, S; uint64_t seed, counter; } draw;

static cr_status run(const draw *d, sample_task task, const cr_array *y, const cr_array *a, const cr_array *b, int64_t more, int64_t offset) {
    gpu *g = cr_gpu_enter(d->op, y->dev);
    const uint32_t n = (uint32_t)(d->M * (task == PICK ? d->S : d->N));
    const kernel how = {'w', task};
    const gpu_call c = {
        .op = d->op, .write = write, .how = &how, .how_bytes = sizeof how, .buffers = b ? 3 : 2, .buffer = {gpu_buffer_of(y), gpu_buffer_of(a), b ? gpu_buffer_of(b) : NULL}, .written = 1,
        .q = {.n = 12, .words = {0, n, (uint32_t)d->N, (uint32_t)more, (uint32_t)d->seed, (uint32_t)(d->seed >> 32), (uint32_t)d->counter, (uint32_t)(d->counter >> 32),
                                 (uint32_t)offset}}, .invocations = n};
    return g ? cr_gpu_leave(g, cr_gpu_run(g, &c)) : cr_error_status();
}

/* ---- permutations: positions in the order of random words */
cr_status cr_gpu_permutation(const cr_permutation_args *args) {
    const cr_array *y = &args->y;
    const uint64_t seed = args->seed, counter = args->counter;
    if (!y->numel) return CR_OK;
    const cr_array words = cr_gpu_array(y->dev, CR_U64, CR_LIST(1, y->numel)), places = cr_array_as(y, CR_LIST(1, y->numel));
    cr_status status = words.storage ? cr_gpu_random_integers(&(cr_random_integers_args){.y = words, .seed = seed, .counter = counter}) : cr_error_status();
    if (status == CR_OK) status = cr_gpu_sort(&(cr_sort_args){.index = places, .x = words});
    cr_gpu_array_give(&words);
    return status;
}

/* ---- samples by weights */
static cr_status with_replacement(const draw *d, const cr_array *y, const cr_array *w) {
    int bits = 62;                                  /* of the largest, so that N of it stay below 2^63 */
    while (INT64_C(1) << (62 - bits) < d->N) bits--;
    const cr_array rows = cr_array_as(w, CR_LIST(d->M, d->N, 1)), top = cr_gpu_array(w->dev, CR_F32, CR_LIST(d->M, 1));
    const cr_array whole = cr_gpu_array(w->dev, CR_I64, CR_LIST(d->M, d->N, 1)), sums = cr_gpu_array(w->dev, CR_I64, CR_LIST(d->M, d->N, 1));
    const bool ready = top.storage && whole.storage && sums.storage;
    cr_status status = ready ? cr_gpu_reduce(&(cr_reduce_args){.y = top, .x = rows, .how = {.kind = CR_REDUCE_MAX}}) : cr_error_status();
    if (status == CR_OK) status = run(d, UNITS, &whole, w, &top, bits, w->offset);
    if (status == CR_OK) status = cr_gpu_scan(&(cr_scan_args){.y = sums, .x = whole, .kind = CR_SCAN_SUM});
    if (status == CR_OK) status = run(d, PICK, y, &sums, NULL, d->S, y->offset);
    cr_gpu_array_give(&sums);
    cr_gpu_array_give(&whole);
    cr_gpu_array_give(&top);
    return status;
}

static cr_status without_replacement(const draw *d, const cr_array *y, const cr_array *w) {
    const cr_array waited = cr_gpu_array(w->dev, CR_U64, CR_LIST(d->M, d->N));
    cr_status status = waited.storage ? run(d, TIMES, &waited, w, NULL, 0, w->offset) : cr_error_status();
    if (status == CR_OK) status = cr_gpu_sort(&(cr_sort_args){.index = *y, .x = waited});
    cr_gpu_array_give(&waited);
    return status;
}

cr_status cr_gpu_multinomial(const cr_multinomial_args *args) {
    const cr_array *y = &args->y, *w = &args->w;
    const int64_t M = args->w.shape[0], N = args->w.shape[1], S = args->y.shape[1];
    const bool replacement = args->replacement;
    const uint64_t seed = args->seed, counter = args->counter;
    const draw d = {"multinomial", M, N, S, seed, counter};
    if (cr_gpu_lacks(d.op, w)) return cr_error_status();
    return replacement ? with_replacement(&d, y, w) : without_replacement(&d, y, w);
}
