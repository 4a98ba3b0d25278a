/* random.c - Philox 4x32-10: element i of a stream is a function of seed and counter, as on every device (dev.h).  Integers and uniforms
 * have the same bits; normals pass through a logarithm and a cosine. */
#include "wgsl.h"

/* p[0]: 0, numel, offset of y, -   p[1]: seed, counter (low, high)   p[2]: low, span of integers (low, high) */
static const char uniform[] = "fn uniform01(word: u32) -> f32 { return f32(word >> 8u) * 5.9604644775390625e-08; }\n";

/* Box-Muller on the pair (2j, 2j + 1); what is left of the angle beside whole quarters is exact */
static const char normal[] =
    "    let u = select(block.xy, block.zw, (i & 2u) != 0u);\n"
    "    let r = sqrt(-2.0 * f_log(1.0 - uniform01(u.x))); let turn = uniform01(u.y); let n = round(4.0 * turn);\n"
    "    let x = r * circle((turn - 0.25 * n) * 6.28318531, i32(n) + select(1, 0, (i & 1u) != 0u));\n";

/* floor(word span / 2^64) + low; span 0: 2^64 */
static const char integers[] = "    let word = philox64(i); let x = add64(select(mul_high64(word, p[2].zw), word, all(p[2].zw == vec2<u32>(0u))), p[2].xy);\n";

typedef enum draw { UNIFORM, NORMAL, INTEGERS } draw;

typedef struct kernel { int family; draw draw; cr_dtype dtype; } kernel;

static void write(wgsl *w, const void *how) {
    const kernel *h = how;
    const cr_dtype dt = h->dtype;
    const draw kind = h->draw;
    cr_wgsl_binding(w, 0, true, cr_wgsl_lanes(dt) > 1);
    cr_wgsl_add(w, "%s", uniform);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "    if i >= p[0].y { return; }\n");
    if (kind != INTEGERS) cr_wgsl_add(w, "    let block = philox(i / 4u);\n");
    cr_wgsl_add(w, "%s", kind == NORMAL ? normal : kind == INTEGERS ? integers : "    var x = uniform01(block[i & 3u]);\n");
    /* a half float never becomes 1: what rounding may raise is cut off first */
    if (kind == UNIFORM && dt == CR_BF16) cr_wgsl_add(w, "    x = bitcast<f32>(bitcast<u32>(x) & 0xffff0000u);\n");
    if (kind == UNIFORM && dt == CR_F16) cr_wgsl_add(w, "    let h = f16_of(to_f16(x), 0u); x = select(h, f16_of(to_f16(x) - 1u, 0u), h > x);\n");
    cr_wgsl_add(w, "let o = p[0].z + i;\nlet y = %s;\n", cr_wgsl_cast(dt, kind == INTEGERS ? CR_I64 : CR_F32, "x").s);
    cr_wgsl_store(w, 0, dt, "o", "y");
    cr_wgsl_add(w, "}\n");
}

static cr_status run(const char *op, draw kind, const cr_array *y, uint64_t seed, uint64_t counter, int64_t low, uint64_t span) {
    if (cr_gpu_lacks(op, y)) return cr_error_status();
    gpu *g = cr_gpu_enter(op, y->dev);
    if (!g) return cr_error_status();
    const kernel how = {'p', kind, y->dtype};
    const int64_t most = (int64_t)(g->window / 8) & ~(int64_t)63;      /* elements of a part, which fit wherever they begin; whole blocks of words */
    cr_status status = CR_OK;
    for (int64_t first = 0; first < y->numel && status == CR_OK; first += most) {
        const int64_t n = y->numel - first < most ? y->numel - first : most;
        const uint64_t block = counter + (uint64_t)first / (kind == INTEGERS ? 2 : 4);
        gpu_call c = {
            .op = op, .write = write, .how = &how, .how_bytes = sizeof how, .written = 1, .invocations = (uint64_t)n,
            .q = {.n = 12, .words = {0, (uint32_t)n, 0, 0, (uint32_t)seed, (uint32_t)(seed >> 32), (uint32_t)block, (uint32_t)(block >> 32),
                                     (uint32_t)low, (uint32_t)((uint64_t)low >> 32), (uint32_t)span, (uint32_t)(span >> 32)}}};
        const gpu_span part = {y->offset + first, y->offset + first + n};
        status = cr_gpu_show(g, &c, gpu_buffer_of(y), part, y->dtype, &c.q.words[2]) ? cr_gpu_run(g, &c) : cr_gpu_fail_window(g, op, gpu_buffer_of(y)->bytes);
    }
    return cr_gpu_leave(g, status);
}

cr_status cr_gpu_random(const cr_random_args *args) {
    const cr_array *y = &args->y;
    const cr_random_kind kind = args->kind;
    const uint64_t seed = args->seed, counter = args->counter;
    return run(kind == CR_RANDOM_NORMAL ? "randn" : "rand", kind == CR_RANDOM_NORMAL ? NORMAL : UNIFORM, y, seed, counter, 0, 0);
}

cr_status cr_gpu_random_integers(const cr_random_integers_args *args) {
    const cr_array *y = &args->y;
    const int64_t low = args->low;
    const uint64_t span = args->span, seed = args->seed, counter = args->counter;
    return run("randint", INTEGERS, y, seed, counter, low, span);
}
