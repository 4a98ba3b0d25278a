// segments.wgsl - dst[m, row, n] += the sum of src[m, k, n] over the k whose index is row.  The k of a
// line are sorted by row; equal rows are a run.
//
// An invocation sums CHUNK entries of a line for one m, n.  It adds each run that lies within its
// chunk to dst.  A run that may go on in a neighbour's chunk becomes an entry of the next level: each
// chunk leaves two, a row and a partial sum.  LATER: a level whose entries are such partial sums; the
// first level reads src through the order of the sort.  LEAVES: there are several chunks.  SHARED: one
// line for every m, n; otherwise line l = m N + n.
struct parameters {
    zero: u32,
    count: u32,                                     // invocations
    bound: u32,                                     // rows of dst
    entries: u32,                                   // of a line
    chunks: u32,                                    // of a line
    N: u32,
    dst: u32,                                       // offsets
    src: u32,
    dst_strides: vec4<u32>,                         // along m, row, n
    src_strides: vec4<u32>,                         // along m, k, n
}

fn add_to(m: u32, row: u32, n: u32, sum: S) {
    if row >= p.bound { return; }                   // an index was out of range
    let at = p.dst + m * p.dst_strides.x + row * p.dst_strides.y + n * p.dst_strides.z;
    store_dst(at, result(plus(widened(load_dst(at)), sum)));
}

fn term(m: u32, line: u32, k: u32, n: u32) -> S {
#if LATER
    return load_partial((m * p.entries + k) * p.N + n);
#else
    let at = load_order(line * p.entries + k).x;
    return widened(load_src(p.src + m * p.src_strides.x + at * p.src_strides.y + n * p.src_strides.z));
#end
}

fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let n = i % p.N;
    let chunk = i / p.N % p.chunks;
    let m = i / p.N / p.chunks;
#if SHARED
    let line = 0u;
    let writes_rows = m == 0u && n == 0u;
#else
    let line = m * p.N + n;
    let writes_rows = true;
#end
    let rows = line * p.entries;
    let first = chunk * CHUNK;
    let end = min(first + CHUNK, p.entries);
    var row = load_rows(rows + first);
    var begins = first == 0u || load_rows(rows + max(first, 1u) - 1u) != row;
    var sum = S();
    var head = S();
    var head_row = 0xffffffffu;
    for (var c = 0u; c < CHUNK; c++) {
        let k = first + c;
        if k >= end { break; }
        let next = load_rows(rows + k);
        if next != row {
            if begins {
                add_to(m, row, n, sum);
            } else {
                head = sum;
                head_row = row;
            }
            row = next;
            begins = true;
            sum = S();
        }
        sum = plus(sum, term(m, line, k, n));
    }
    if begins && (end == p.entries || load_rows(rows + min(end, p.entries - 1u)) != row) {
        add_to(m, row, n, sum);
        sum = S();
    }
#if LEAVES
    // entries without a sum repeat the last row of the chunk, so that rows stay in order
    let at = 2u * (m * p.chunks + chunk) * p.N + n;
    store_left(at, head);
    store_left(at + p.N, sum);
    if writes_rows {
        let two = 2u * (line * p.chunks + chunk);
        store_left_rows(two, select(row, head_row, head_row != 0xffffffffu));
        store_left_rows(two + 1u, row);
    }
#end
}
