// argreduce.wgsl - where the first best element of each part of R lies in x (M, R, N): y (M, parts,
// N).  A workgroup has a part.  FIRST: every position of R is a candidate; otherwise before (M,
// candidates, N) holds the candidates.
struct parameters {
    zero: u32,
    R: u32,
    N: u32,
    candidates: u32,
    x: u32,                                         // offset, then strides
    stride_m: u32,
    stride_r: u32,
    stride_n: u32,
    parts: u32,
    part_size: u32,                                 // candidates of a part
    y: u32,                                         // offset
    results: u32,
}

// a candidate: its key (low, high), of which the largest wins, and its position; ~0u: no candidate
alias V = vec3<u32>;
fn join0(a: V, b: V) -> V {
    return select(b, a, less_u64(b.xy, a.xy) || (all(a.xy == b.xy) && a.z < b.z));
}

fn key(at: u32) -> vec2<u32> {
    let x = load_x(at);
#if MIN_OF_FLOATS
    if is_nan(x) { return vec2<u32>(~0u); }
#end
    return key_of(x);
}

fn kernel(group: u32, lane: u32, i: u32) {
    let mine = group < p.results;
    let n = group % p.N;
    let part = (group / p.N) % p.parts;
    let m = group / p.N / p.parts;
    let start = p.x + m * p.stride_m + n * p.stride_n;
    let end = select(0u, min((part + 1u) * p.part_size, p.candidates), mine);
    var best = V(0u, 0u, ~0u);
    for (var c = part * p.part_size + lane; c < end; c += SIZE) {
#if FIRST
        let r = c;
#else
        let r = load_before((m * p.candidates + c) * p.N + n);
#end
        if r != ~0u { best = join0(best, V(key(start + r * p.stride_r), r)); }
    }
    best = tree0(lane, best);
#if LAST
    if mine && lane == 0u { store_y(p.y + group, vec2<u32>(best.z, 0u)); }
#else
    if mine && lane == 0u { store_y(p.y + group, best.z); }
#end
}
