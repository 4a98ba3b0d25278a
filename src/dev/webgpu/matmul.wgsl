// matmul.wgsl - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)].  Sums go along K in
// order.
//
// ROWS 0: a workgroup of SIDE x SIDE invocations has EDGE x EDGE results, an invocation TILE x TILE
// of them in registers.  DEPTH of K at a time, the workgroup copies its part of a and b
// to workgroup memory, one element a store: a store to a component may access its whole vector.  An
// invocation loads 2 TILE elements for TILE x TILE products.  Rows of PITCH elements keep neighbours
// in different banks, along K too (tests/python/test_wgsl.py).
//
// Otherwise, a workgroup of SIDE invocations has ROWS x EDGE results and reads a and b directly, in
// blocks of 2 x 2; an invocation has TILE columns.
//
// An invocation's columns are pairs of neighbours, so that it stores words of 16-bit elements: IN_PAIRS.
// ALONG_K_A, ALONG_K_B: neighbours along K are neighbours in memory.  A_PAIRS_K, A_PAIRS_M, B_PAIRS_K,
// B_PAIRS_N: two 16-bit elements along that axis are a word.  BF16: terms are rounded to bf16.  WIDE:
// 64-bit integers.
struct parameters {
    zero: u32,
    M: u32,
    N: u32,
    K: u32,
    groups: u32,                                    // workgroups
    across: u32,                                    // tiles in a row
    tiles: u32,                                     // in a matrix
    bias: u32,                                      // offset, then stride
    bias_stride: u32,
    a: u32,                                         // offsets, then strides of the two axes
    a_row: u32,
    a_column: u32,
    b: u32,
    b_row: u32,
    b_column: u32,
    c: u32,
    c_row: u32,
    c_column: u32,
    batch: array<vec4<u32>, 8>,                     // of each axis: size, strides of a, b, c
}

#if WIDE
alias four = array<vec2<u32>, 4>;
fn plus(a: T, b: T) -> T { return add64(a, b); }
#else
alias four = vec4<T>;
fn plus(a: T, b: T) -> T { return a + b; }
#end

fn a_term(at: u32) -> T {
#if BF16
    return bf16_of(to_bf16(widened(load_a(at))), 0u);
#else
    return widened(load_a(at));
#end
}

fn b_term(at: u32) -> T {
#if BF16
    return bf16_of(to_bf16(widened(load_b(at))), 0u);
#else
    return widened(load_b(at));
#end
}

#if ROWS
// (m, k), (m, k + 1), (m + 1, k), (m + 1, k + 1) of a, whose rows m and m + 1 begin at row0 and row1
fn a_block(row0: u32, row1: u32, k: u32) -> four {
    let at = k * p.a_column;
#if A_PAIRS_K
    return four(load2_a(row0 + at), load2_a(row1 + at));
#else
#if A_PAIRS_M
    let x = load2_a(row0 + at);
    let y = load2_a(row0 + at + p.a_column);
    return four(x.x, y.x, x.y, y.y);
#else
    return four(a_term(row0 + at), a_term(row0 + at + p.a_column), a_term(row1 + at), a_term(row1 + at + p.a_column));
#end
#end
}

// (k, n), (k, n + 1), (k + 1, n), (k + 1, n + 1) of b, whose columns n and n + 1 begin at column0 and column1
fn b_block(column0: u32, column1: u32, k: u32) -> four {
    let at = k * p.b_row;
#if B_PAIRS_N
    return four(load2_b(column0 + at), load2_b(column0 + at + p.b_row));
#else
#if B_PAIRS_K
    let x = load2_b(column0 + at);
    let y = load2_b(column1 + at);
    return four(x.x, y.x, x.y, y.y);
#else
    return four(b_term(column0 + at), b_term(column1 + at), b_term(column0 + at + p.b_row),
                b_term(column1 + at + p.b_row));
#end
#end
}
#end

fn finished(at: u32, n: u32, sum: T) -> T {
    var v = sum;
#if BIAS
    v = plus(v, widened_c(load_bias(p.bias + min(n, p.N - 1u) * p.bias_stride)));
#end
#if ADD
    v = plus(v, widened_c(load_c(at)));
#end
    return v;
}

// columns n and n + 1 of a row of c
fn store_results(at: u32, n: u32, x: T, y: T) {
#if IN_PAIRS
    store2_c(at, result(finished(at, n, x)), result(finished(at + 1u, n + 1u, y)));
#else
    store_c(at, result(finished(at, n, x)));
    if n + 1u < p.N { store_c(at + p.c_column, result(finished(at + p.c_column, n + 1u, y))); }
#end
}

#if ROWS
#else
var<workgroup> part_a: array<T, DEPTH * PITCH>;
var<workgroup> part_b: array<T, DEPTH * PITCH>;
#end

fn kernel(group: u32, lane: u32, i: u32) {
    if group >= p.groups { return; }
    var a0 = p.a;
    var b0 = p.b;
    var c0 = p.c;
    var rest = group / p.tiles;
    for (var d = BATCH; d > 0u; d--) {
        let axis = p.batch[d - 1u];
        let at = rest % axis.x;
        rest /= axis.x;
        a0 += at * axis.y;
        b0 += at * axis.z;
        c0 += at * axis.w;
    }
    let tile = group % p.tiles;
    let top = tile / p.across * HEIGHT;
    let left = tile % p.across * EDGE;
#for y ROW_PAIRS
    var s$y_0 = four();
    var s$y_1 = four();
#end
#if ROWS
    // beyond the edges the last rows and columns are read again, the first of a pair of even number, the second
    // of any; those sums are not stored
#for y ROW_PAIRS
    let m$y_0 = top + 2u * $yu;
    let m$y_1 = m$y_0 + 1u;
    let a_of$y_0 = a0 + min(m$y_0, (p.M - 1u) & 0xfffffffeu) * p.a_row;
    let a_of$y_1 = a0 + min(m$y_1, p.M - 1u) * p.a_row;
#end
#for x TILE
    let n$x = left + 2u * lane + $xu / 2u * 2u * SIDE + $xu % 2u;
    let b_of$x = b0 + min(n$x, (p.N - 1u) & (0xfffffffeu | $xu)) * p.b_column;
#end
    var k = 0u;
    for (; k + 2u * BLOCKS <= p.K; k += 2u * BLOCKS) {
#for u BLOCKS
        {
            let b01 = b_block(b_of0, b_of1, k + 2u * $uu);
            let b23 = b_block(b_of2, b_of3, k + 2u * $uu);
            let y0 = four(b01.xy, b23.xy);
            let y1 = four(b01.zw, b23.zw);
#for y ROW_PAIRS
            {
                let a = a_block(a_of$y_0, a_of$y_1, k + 2u * $uu);
                s$y_0 = s$y_0 + a.x * y0 + a.y * y1;
                s$y_1 = s$y_1 + a.z * y0 + a.w * y1;
            }
#end
        }
#end
    }
    for (; k < p.K; k++) {
        let a_at = k * p.a_column;
        let b_at = k * p.b_row;
        let y = four(b_term(b_at + b_of0), b_term(b_at + b_of1), b_term(b_at + b_of2), b_term(b_at + b_of3));
#for y ROW_PAIRS
        s$y_0 += a_term(a_at + a_of$y_0) * y;
        s$y_1 += a_term(a_at + a_of$y_1) * y;
#end
    }
#else
    let row = lane / SIDE;
    let column = lane % SIDE;
#for y ROW_PAIRS
    let m$y_0 = top + row + 2u * $yu * SIDE;
    let m$y_1 = m$y_0 + SIDE;
#end
#for x TILE
    let n$x = left + 2u * column + $xu / 2u * 2u * SIDE + $xu % 2u;
#end
    for (var k0 = 0u; k0 < p.K; k0 += DEPTH) {
        // DEPTH x EDGE elements of a and of b, zeros beyond the edges
#for i COPIES
        {
            let t = lane + $iu * SIZE;
#if ALONG_K_A
            let d = t % DEPTH;
            let e = t / DEPTH;
#else
            let e = t % EDGE;
            let d = t / EDGE;
#end
            let inside = k0 + d < p.K && top + e < p.M;
            let x = a_term(select(a0, a0 + (top + e) * p.a_row + (k0 + d) * p.a_column, inside));
            part_a[d * PITCH + e] = select(T(), x, inside);
        }
        {
            let t = lane + $iu * SIZE;
#if ALONG_K_B
            let d = t % DEPTH;
            let e = t / DEPTH;
#else
            let e = t % EDGE;
            let d = t / EDGE;
#end
            let inside = k0 + d < p.K && left + e < p.N;
            let x = b_term(select(b0, b0 + (left + e) * p.b_column + (k0 + d) * p.b_row, inside));
            part_b[d * PITCH + e] = select(T(), x, inside);
        }
#end
        workgroupBarrier();
        for (var d = 0u; d < DEPTH; d += UNROLLED) {
#for u UNROLLED
            {
                let at = (d + $uu) * PITCH;
#for x TILE
                let b$x = part_b[at + 2u * column + $xu / 2u * 2u * SIDE + $xu % 2u];
#end
                let y = four(b0, b1, b2, b3);
#for y ROW_PAIRS
#for z TWO
                let a$y_$z = part_a[at + row + (2u * $yu + $zu) * SIDE];
#if WIDE
#for x TILE
                s$y_$z[$x] = add64(s$y_$z[$x], mul64(a$y_$z, y[$x]));
#end
#else
                s$y_$z += a$y_$z * y;
#end
#end
#end
            }
#end
        }
        workgroupBarrier();
    }
#end
#for y ROW_PAIRS
#for z TWO
    if m$y_$z < p.M {
        let at = c0 + m$y_$z * p.c_row;
        if n0 < p.N { store_results(at + n0 * p.c_column, n0, s$y_$z[0], s$y_$z[1]); }
        if n2 < p.N { store_results(at + n2 * p.c_column, n2, s$y_$z[2], s$y_$z[3]); }
    }
#end
#end
}
