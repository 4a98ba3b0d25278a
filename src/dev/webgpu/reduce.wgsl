// reduce.wgsl - each part of R of x (M, R, N), reduced: y (M, parts, N).  SINGLE: an invocation for
// each result, otherwise a workgroup.  DEVIATION: elements are (x - mean)^2, from sums (M, N) of
// the rows.
struct parameters {
    zero: u32,
    R: u32,
    N: u32,
    x: u32,                                         // offset, then strides
    stride_m: u32,
    stride_r: u32,
    stride_n: u32,
    parts: u32,
    part_size: u32,                                 // elements of a part
    y: u32,                                         // offset
    results: u32,
    sums: u32,                                      // offset
    length: f32,                                    // of a row of the whole reduction
    power: f32,                                     // p of a p-norm
}

fn kernel(group: u32, lane: u32, i: u32) {
#if SINGLE
    let result_index = i;
#else
    let result_index = group;
#end
    let mine = result_index < p.results;
    let n = result_index % p.N;
    let part = (result_index / p.N) % p.parts;
    let m = result_index / p.N / p.parts;
    let start = p.x + m * p.stride_m + n * p.stride_n;
    let first = part * p.part_size;
    let end = select(0u, min(first + p.part_size, p.R), mine);
#if DEVIATION
    let mean = load_sums(select(0u, p.sums + m * p.N + n, mine)) / p.length;
#else
    let mean = 0.0;
#end
    var a = identity();
#if SINGLE
    for (var r = first; r < end; r++) { a = join0(a, mapped(load_x(start + r * p.stride_r), mean)); }
    if mine { store_y(p.y + result_index, result(a)); }
#else
    for (var r = first + lane; r < end; r += SIZE) { a = join0(a, mapped(load_x(start + r * p.stride_r), mean)); }
    a = tree0(lane, a);
    if mine && lane == 0u { store_y(p.y + result_index, result(a)); }
#end
}
