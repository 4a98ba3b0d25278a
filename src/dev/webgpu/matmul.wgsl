// matmul.wgsl - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)].  Sums go along K in
// order.
//
// ROWS 0: a workgroup of SIDE x SIDE invocations has EDGE x EDGE results, an invocation TILE x TILE
// of them in registers, SIDE apart.  DEPTH of K at a time, the workgroup copies its part of a and b
// to workgroup memory, one element a store: a store to a component may access its whole vector.  An
// invocation loads 2 TILE elements for TILE x TILE products.  Rows of PITCH elements keep neighbours
// in different banks, along K too (tests/python/test_wgsl.py).
//
// Otherwise, a workgroup of SIDE invocations has ROWS x EDGE results and reads a and b directly; an
// invocation has TILE columns, SIDE apart.  ALONG_K_A, ALONG_K_B: neighbours along K are neighbours
// in memory.  BF16: terms are rounded to bf16.  WIDE: 64-bit integers.
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

fn store_result(at: u32, n: u32, sum: T) {
    var v = sum;
#if BIAS
    v = plus(v, widened(load_bias(p.bias + n * p.bias_stride)));
#end
#if ADD
    v = plus(v, widened(load_c(at)));
#end
    store_c(at, result(v));
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
#for y SUMS
    var s$y = four();
#end
#if ROWS
    // beyond the edges the last row and column are read again; those sums are not stored
#for y ROWS
    let m$y = top + $yu;
    let a_of$y = a0 + min(m$y, p.M - 1u) * p.a_row;
#end
#for x TILE
    let n$x = left + lane + $xu * SIDE;
    let b_of$x = b0 + min(n$x, p.N - 1u) * p.b_column;
#end
    var k = 0u;
    for (; k + UNROLLED <= p.K; k += UNROLLED) {
#for u UNROLLED
        {
            let a_at = (k + $uu) * p.a_column;
            let b_at = (k + $uu) * p.b_row;
            let y = four(b_term(b_at + b_of0), b_term(b_at + b_of1), b_term(b_at + b_of2), b_term(b_at + b_of3));
#for y ROWS
            s$y += a_term(a_at + a_of$y) * y;
#end
        }
#end
    }
    for (; k < p.K; k++) {
        let a_at = k * p.a_column;
        let b_at = k * p.b_row;
        let y = four(b_term(b_at + b_of0), b_term(b_at + b_of1), b_term(b_at + b_of2), b_term(b_at + b_of3));
#for y ROWS
        s$y += a_term(a_at + a_of$y) * y;
#end
    }
#else
    let row = lane / SIDE;
    let column = lane % SIDE;
#for i TILE
    let m$i = top + row + $iu * SIDE;
    let n$i = left + column + $iu * SIDE;
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
                let b$x = part_b[at + column + $xu * SIDE];
#end
                let y = four(b0, b1, b2, b3);
#for y TILE
                let a$y = part_a[at + row + $yu * SIDE];
#if WIDE
#for x TILE
                s$y[$x] = add64(s$y[$x], mul64(a$y, y[$x]));
#end
#else
                s$y += a$y * y;
#end
#end
            }
#end
        }
        workgroupBarrier();
    }
#end
#for y SUMS
#for x TILE
    if m$y < p.M && n$x < p.N { store_result(c0 + m$y * p.c_row + n$x * p.c_column, n$x, s$y[$x]); }
#end
#end
}
