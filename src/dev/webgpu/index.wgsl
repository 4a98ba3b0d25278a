// index.wgsl - elements read and written by index: (M, K, N) elements of `index`, a row of a table
// each.
//
// CHECK notes the first index that is out of range in the faults; the other tasks do nothing if
// there is one, except that NOTE and they write which index it is.  TAKE: dst[m, k, n] = src[m,
// index, n].  PUT: dst[m, index, n] = src[m, k, n], or SUM, += it; an invocation for each m, n, in
// the order of k.  ROWS: dst[l, k] = the row of index[m, k, n], line l = m N + n; ~0 everywhere if an
// index is out of range.  RAVEL: dst = dst bound + index, or FIRST, index.
struct parameters {
    zero: u32,
    count: u32,                                     // invocations
    fault: u32,
    bound: u32,                                     // rows of the table
    M: u32,
    K: u32,
    N: u32,
    first_k: u32,
    end_k: u32,
    index: u32,                                     // offsets
    dst: u32,
    src: u32,
    first_row: u32,                                 // of the table that is in the window
    rows: u32,                                      // of the table in the window
    before: u32,                                    // indices before this part
    indices: u32,                                   // of this part
    index_strides: vec4<u32>,                       // along M, K, N
    dst_strides: vec4<u32>,
    src_strides: vec4<u32>,
}

fn element_at(offset: u32, strides: vec4<u32>, m: u32, k: u32, n: u32) -> u32 {
    return offset + m * strides.x + k * strides.y + n * strides.z;
}

// the index as a row; ~0u where it is out of range
fn row(at: u32) -> u32 {
    let x = integer(load_index(at));
    if x.y == 0u && x.x < p.bound { return x.x; }
#if WRAP
    if x.y == 0xffffffffu && ~x.x < p.bound { return x.x + p.bound; }
#end
    return 0xffffffffu;
}

#if CHECK
fn kernel(group: u32, lane: u32, i: u32) {
    if i < p.count && row(p.index + i) == 0xffffffffu { atomicMin(&faults[4u * p.fault], p.before + i); }
}
#else
// is some index out of range?  The first invocation then writes which.
fn failed(i: u32) -> bool {
    let bad = faults_word(4u * p.fault);
    if bad == 0xffffffffu { return false; }
    if i == 0u && bad - p.before < p.indices {
        let x = integer(load_index(p.index + bad - p.before));
        faults_set(4u * p.fault + 1u, x.x);
        faults_set(4u * p.fault + 2u, x.y);
    }
    return true;
}
#end

#if NOTE
fn kernel(group: u32, lane: u32, i: u32) { _ = failed(i); }
#end

#if TAKE
fn kernel(group: u32, lane: u32, i: u32) {
    if failed(i) || i >= p.count { return; }
    let n = i % p.N;
    let k = i / p.N % p.K;
    let m = i / p.N / p.K;
    let r = row(element_at(p.index, p.index_strides, m, k, n)) - p.first_row;
    if r >= p.rows { return; }
    store_dst(element_at(p.dst, p.dst_strides, m, k, n), load_src(element_at(p.src, p.src_strides, m, r, n)));
}
#end

#if PUT
fn kernel(group: u32, lane: u32, i: u32) {
    if failed(i) || i >= p.count { return; }
    let n = i % p.N;
    let m = i / p.N;
    for (var k = p.first_k; k < p.end_k; k++) {
        let r = row(element_at(p.index, p.index_strides, m, k, n)) - p.first_row;
        if r < p.rows {
            let at = element_at(p.dst, p.dst_strides, m, r, n);
            let x = load_src(element_at(p.src, p.src_strides, m, k, n));
#if SUM
            store_dst(at, plus(load_dst(at), x));
#else
            store_dst(at, x);
#end
        }
    }
}
#end

#if ROWS
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let line = i / p.K;
    let at = element_at(p.index, p.index_strides, line / p.N, i % p.K, line % p.N);
    store_dst(p.dst + i, select(row(at), 0xffffffffu, failed(i)));
}
#end

#if RAVEL
// in 32 bits: no tensor here has more elements
fn kernel(group: u32, lane: u32, i: u32) {
    if failed(i) || i >= p.count { return; }
    var y = row(p.index + i);
#if FIRST
#else
    y += load_dst(p.dst + i).x * p.bound;
#end
    store_dst(p.dst + i, vec2<u32>(y, 0u));
}
#end
