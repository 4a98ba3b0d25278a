// nonzero.wgsl - where a bool tensor x is true.  Each invocation has a piece of PIECE elements.
// COUNT: counts[i] is how many are true in piece i.  Otherwise counts holds the running sums of
// these, and the rows of y, the coordinates, are written.
struct parameters {
    zero: u32,
    count: u32,                                     // elements of x
    x: u32,                                         // offset
    rows: u32,                                      // of y
    y: u32,                                         // offset, then strides
    y_row: u32,
    y_column: u32,
    shape: array<vec4<u32>, 2>,                     // of x
}

fn kernel(group: u32, lane: u32, i: u32) {
    let first = i * PIECE;
    if first >= p.count { return; }
    var n = 0u;
#if COUNT
#else
    if i > 0u { n = load_counts(i - 1u).x; }
#end
    for (var e = first; e < min(first + PIECE, p.count); e++) {
        if load_x(p.x + e) == 0u { continue; }
#if COUNT
#else
        if n >= p.rows { return; }                  // another thread may have changed x since the count
        var rest = e;
        for (var d = NDIM; d > 0u; d--) {
            let size = p.shape[(d - 1u) / 4u][(d - 1u) % 4u];
            store_y(p.y + n * p.y_row + (d - 1u) * p.y_column, vec2<u32>(rest % size, 0u));
            rest /= size;
        }
#end
        n++;
    }
#if COUNT
    store_counts(i, vec2<u32>(n, 0u));
#end
}
