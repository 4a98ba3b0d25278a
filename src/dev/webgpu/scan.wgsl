// scan.wgsl - running sums, products, log-sum-exps and extremes of x (M, R, N) along R.  An
// invocation has a chunk of a line.
//
// SUM: sums[i] = chunk i of x.  SUM_STATES: the same of a chunk of states.  CARRY: each state
// becomes the sum of those before it.  RESULTS: the results, where each chunk starts from before[i]
// (CARRIED).  WEIGHTED: y[k] = x[k] + a[k] y[k - 1].
struct parameters {
    zero: u32,
    count: u32,                                     // invocations
    R: u32,
    N: u32,
    y: u32,                                         // offsets
    x: u32,
    other: u32,                                     // of a, or of index
    chunk: u32,                                     // elements of a chunk
    chunks: u32,
    first: u32,                                     // the first chunk
}

// ---- a state of four words; join(a, b): a comes before b.  Extremes: a key (low, high),
// position.  Integers: (low, high).  Floats: three words of extended precision (library.wgsl).
// LOGSUMEXP: (m, s, s2), which is m + log(s + s2).
#if EXTREME
fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return select(b, a, less_u64(b.xy, a.xy)); }

#if OF_X
fn element(at: u32, k: u32) -> vec4<u32> {
    let x = load_x(p.x + at);
#if MIN_OF_FLOATS
    if is_nan(x) { return vec4<u32>(vec2<u32>(~0u), k, 0u); }
#end
    return vec4<u32>(key_of(x), k, 0u);
}
#end
#end

#if LOGSUMEXP
fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {
    let m = bitcast<f32>(a.x);
    let n = bitcast<f32>(b.x);
    if is_nan(m) || b.x == 0xff800000u || (a.x == 0x7f800000u && !is_nan(n)) { return a; }
    if is_nan(n) || a.x == 0xff800000u || b.x == 0x7f800000u { return b; }
    let d = two_sum(n, -m);
    let stay = d.x <= 8.0;
    let u = select(-d, d, stay);
    var f = f_exp(u.x);
    if f > 0.0 { f += f * u.y; }
    let kept = bitcast<vec3<f32>>(select(b.xyz, a.xyz, stay));
    let scaled = bitcast<vec3<f32>>(select(a.xyz, b.xyz, stay));
    let s = two_sum(kept.y, scaled.y * f);
    let y = two_sum(s.x, s.y + kept.z);
    return bitcast<vec4<u32>>(vec4<f32>(kept.x, y, 0.0));
}

#if OF_X
fn element(at: u32, k: u32) -> vec4<u32> { return vec4<u32>(bitcast<u32>(load_x(p.x + at)), 0x3f800000u, 0u, 0u); }
#end

fn value(s: vec4<u32>) -> f32 {
    let t = bitcast<vec3<f32>>(s.xyz);
    var y = t.x;
    if (s.x & 0x7f800000u) != 0x7f800000u { y += f_log(t.y) + t.z / t.y; }
    return y;
}
#end

#if FLOAT
fn wide(s: vec4<u32>) -> vec3<f32> { return bitcast<vec3<f32>>(s.xyz); }
fn state(v: vec3<f32>) -> vec4<u32> { return vec4<u32>(bitcast<vec3<u32>>(v), 0u); }

#if PRODUCT
fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return state(wide_mul(wide(a), wide(b))); }
#else
fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return state(wide_add(wide(a), wide(b))); }
#end

#if OF_X
fn element(at: u32, k: u32) -> vec4<u32> { return state(wide_of(load_x(p.x + at))); }
#end
fn value(s: vec4<u32>) -> f32 { return wide_round(wide(s)); }
#end

#if INTEGER
#if PRODUCT
fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return vec4<u32>(mul64(a.xy, b.xy), 0u, 0u); }
#else
fn join(a: vec4<u32>, b: vec4<u32>) -> vec4<u32> { return vec4<u32>(add64(a.xy, b.xy), 0u, 0u); }
#end

#if OF_X
fn element(at: u32, k: u32) -> vec4<u32> { return vec4<u32>(integer(load_x(p.x + at)), 0u, 0u); }
#end
fn value(s: vec4<u32>) -> vec2<u32> { return s.xy; }
#end

// ---- the kernel
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let n = i % p.N;
    let c = i / p.N % p.chunks + p.first;
    let m = i / p.N / p.chunks;
    let start = m * p.R * p.N + n;
    let first = c * p.chunk;
    let end = min(first + p.chunk, p.R);
    var s: vec4<u32>;
#if CARRIED
    let origin = 0u;
    if c > 0u { s = before[i]; }
#else
    let origin = first;
#end
    for (var k = first; k < end; k++) {
#if REVERSE
        let at = start + (p.R - 1u - k) * p.N;
#else
        let at = start + k * p.N;
#end
#if OF_X
        let v = element(at, k);
#else
        let v = states[at];
#end
#if CARRY
        states[at] = s;
#end
#if WEIGHTED
        if k == 0u {
            s = v;
        } else {
#if REVERSE
            let a = load_a(p.other + at + p.N);     // the weight of the element before, which lies behind in memory
#else
            let a = load_a(p.other + at);
#end
            s = state(wide_add(wide(v), wide_mul(wide_of(a), wide(s))));
        }
#else
        if k == origin { s = v; } else { s = join(s, v); }
#end
#if RESULTS
#if EXTREME
        store_y(p.y + at, moved_x(p.x + start + s.z * p.N));
#else
        store_y(p.y + at, value(s));
#end
#if INDEX
        store_index(p.other + at, vec2<u32>(s.z, 0u));
#end
#end
    }
#if SUMS
    sums[i] = s;
#end
#if WEIGHTED
    before[i] = s;
#end
}
