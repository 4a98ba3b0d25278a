// pool.wgsl - maxima of windows (MAX_POOL), and products with a banded matrix (BAND).  An
// invocation has a result; WIDE: a workgroup has it, where its terms would be too many for one
// invocation.
#if MAX_POOL
// y[n, o] = max over t of x[n, o stride + t dilation - pad] and its position: the first of equals, but the last NaN
alias parameters = max_parameters;
struct max_parameters {
    zero: u32,
    count: u32,                                     // results
    y: u32,                                         // offsets
    index: u32,
    x: u32,
    terms: u32,                                     // elements of a window
    size: vec4<u32>,                                // of the input
    out: vec4<u32>,
    window: vec4<u32>,
    stride: vec4<i32>,
    pad: vec4<i32>,
    dilation: vec4<i32>,
}

// the key of the largest element so far (0: none, as no number has that key), its position
struct best { key: u32, at: u32 }
fn is_better(a: best, b: best) -> bool {
    return a.key > b.key || (a.key == b.key && (a.at > b.at) == (a.key == 0xffffffffu));
}
fn at_tap(x: u32, first: vec3<i32>, t: vec3<u32>, so_far: best) -> best {
    let c = vec3<u32>(first + vec3<i32>(t) * p.dilation.xyz);
    if !all(c < p.size.xyz) { return so_far; }
    let at = (c.x * p.size.y + c.y) * p.size.z + c.z;
    let v = load_x(x + at);
    let found = best(select(float_key(v), 0xffffffffu, is_nan(v)), at);
    if is_better(found, so_far) { return found; }
    return so_far;
}

#if WIDE
var<workgroup> shared_best: array<best, SIZE>;
#end

fn kernel(group: u32, lane: u32, i: u32) {
#if WIDE
    let result = group;
#else
    let result = i;
#end
    if result >= p.count { return; }
    let z = result / p.out.z;
    let y = z / p.out.y;
    let o = vec3<u32>(y % p.out.x, z % p.out.y, result % p.out.z);
    let first = vec3<i32>(o) * p.stride.xyz - p.pad.xyz;
    let x = p.x + y / p.out.x * p.size.x * p.size.y * p.size.z;
    var b = best(0u, 0xffffffffu);
#if WIDE
    for (var t = lane; t < p.terms; t += SIZE) {
        let r = t / p.window.z;
        b = at_tap(x, first, vec3<u32>(r / p.window.y, r % p.window.y, t % p.window.z), b);
    }
    shared_best[lane] = b;
    for (var half = SIZE / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half && is_better(shared_best[lane + half], shared_best[lane]) {
            shared_best[lane] = shared_best[lane + half];
        }
    }
    if lane > 0u { return; }
    b = shared_best[0];
#else
    for (var t0 = 0u; t0 < p.window.x; t0++) {
        for (var t1 = 0u; t1 < p.window.y; t1++) {
            for (var t2 = 0u; t2 < p.window.z; t2++) { b = at_tap(x, first, vec3<u32>(t0, t1, t2), b); }
        }
    }
#end
    store_y(p.y + result, load_x(x + b.at));
    store_index(p.index + result, vec2<u32>(b.at, 0u));
}
#end

#if BAND
// y[m, s, n] = sum over k of weights[s, k] x[m, start[s] + k, n]; a weight of 0 adds nothing
alias parameters = band_parameters;
struct band_parameters {
    zero: u32,
    count: u32,                                     // results
    S: u32,
    N: u32,
    K: u32,
    y: u32,                                         // offsets
    x: u32,
    start: u32,
    weights: u32,
    x_m: u32,                                       // strides
    x_r: u32,
    x_n: u32,
}

#if WIDE
alias V = f32;
fn join0(a: f32, b: f32) -> f32 { return a + b; }
#end

fn kernel(group: u32, lane: u32, i: u32) {
#if WIDE
    let result = group;
    let begin = lane;
    let step = SIZE;
#else
    let result = i;
    let begin = 0u;
    let step = 1u;
#end
    if result >= p.count { return; }
    let row = result / p.N;
    let s = row % p.S;
    let x = p.x + row / p.S * p.x_m + load_start(p.start + s).x * p.x_r + result % p.N * p.x_n;
    var sum = 0.0;
    for (var k = begin; k < p.K; k += step) {
        let w = load_weights(p.weights + s * p.K + k);
        if w != 0.0 { sum += w * load_x(x + k * p.x_r); }
    }
#if WIDE
    sum = tree0(lane, sum);
    if lane > 0u { return; }
#end
    store_y(p.y + result, sum);
}
#end
