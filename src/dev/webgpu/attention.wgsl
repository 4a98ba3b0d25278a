// attention.wgsl - o = softmax(scale q k^T + mask) v for every head: FORWARD, and the gradients DQ
// and DKV.  q, o (B, H, T, D), k, v (B, H / shared, S, D), lse, delta (B, H, T).
//
// A workgroup keeps EDGE rows, queries or (DKV) keys, and goes over tiles of EDGE columns, the
// others.  In each tile, x0 = a0 b0^T and x1 = a1 b1^T become weights w0 and w1, and y0 += w0 c0,
// y1 += w1 c1:
//
//     kind      rows   a0 b0   a1 b1   w0     c0   y0   w1   c1   y1
//     FORWARD   q      q  k            share  v    o
//     DQ        q      q  k    g  v    ds     k    dq
//     DKV       k      k  q    v  g    share  g    dv   ds   q    dk
//
// with share = exp(x0 - lse), ds = share (x1 - delta), delta = g . o.
//
// An invocation has FOUR rows, the components of its vectors, every ACROSS-th column of a tile, and
// PAIRS pairs of each row of y, all in registers.  Parts of a and b, then w and parts of c, pass
// through workgroup memory: an element of a serves EDGE columns, one of b or c EDGE rows.  The order of
// additions is that of the columns.  MASK: there is a mask.
struct operand {                                    // of an operand
    offset: u32,
    b: u32,                                         // strides
    h: u32,
    row: u32,
    column: u32,
}

struct parameters {
    zero: u32,
    T: u32,
    S: u32,
    H: u32,                                         // heads of the rows
    groups: u32,                                    // workgroups
    head_groups: u32,                               // of a head
    shared_by: u32,                                 // heads of q for each of k and v
    scale: f32,
    D: u32,
    first: i32,                                     // query t sees the keys t + first .. t + last
    last: i32,
    @align(16) o: operand,
    @align(16) lse: operand,
    @align(16) q: operand,
    @align(16) k: operand,
    @align(16) v: operand,
    @align(16) g: operand,
    @align(16) delta: operand,
    @align(16) dq: operand,
    @align(16) dk: operand,
    @align(16) dv: operand,
    @align(16) mask: operand,
}

fn at_of(x: operand, b: u32, h: u32, r: u32) -> u32 { return x.offset + b * x.b + h * x.h + r * x.row; }
fn least4(x: vec4<f32>) -> vec4<bool> { return bitcast<vec4<u32>>(x) == vec4<u32>(0xff800000u); }
fn exp4(x: vec4<f32>) -> vec4<f32> { return vec4<f32>(f_exp(x.x), f_exp(x.y), f_exp(x.z), f_exp(x.w)); }
fn max4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(f_max(a.x, b.x), f_max(a.y, b.y), f_max(a.z, b.z), f_max(a.w, b.w));
}

// row r meets the columns begin_of(r) .. end_of(r) - 1; both grow with r
#if DKV
fn begin_of(r: u32) -> u32 { return u32(max(0, i32(r) - p.last)); }
fn end_of(r: u32) -> u32 { return u32(clamp(i32(r) - p.first + 1, 0, i32(p.T))); }
#else
fn begin_of(r: u32) -> u32 { return u32(clamp(i32(r) + p.first, 0, i32(p.S))); }
fn end_of(r: u32) -> u32 { return u32(clamp(i32(r) + p.last + 1, 0, i32(p.S))); }
#end

var<workgroup> rows_part: array<vec4<f32>, EDGE * PITCH4>;            // a, FOUR rows a vector; rows in common
var<workgroup> columns_part: array<f32, EDGE * PITCH>;                // b (d, column); c (column, d)
var<workgroup> weights: array<vec4<f32>, EDGE * PITCH4>;              // w (column, FOUR rows a vector)

fn kernel(group: u32, lane: u32, i: u32) {
    if group >= p.groups { return; }
    let head = group / p.head_groups;
    let h = head % p.H;
    let b = head / p.H;
    let row = lane / ACROSS;
    let column = lane % ACROSS;
    let first = group % p.head_groups * EDGE;
    let own = first + FOUR * row;                   // the invocation's first row
#if DKV
    let rows = p.S;
    let columns = p.T;
    let sharers = p.shared_by;
#else
    let rows = p.T;
    let columns = p.S;
    let sharers = 1u;
#end
    // rows beyond the end repeat the last one; they are not stored
#for y FOUR
    let r$y = min(own + $yu, rows - 1u);
#end
    let begin = vec4<u32>(begin_of(r0), begin_of(r1), begin_of(r2), begin_of(r3));
    var end = vec4<u32>(end_of(r0), end_of(r1), end_of(r2), end_of(r3));
    let last = min(first + EDGE, rows) - 1u;
#for n SUMS
#for x PAIRS
    var y$n_$x_0 = vec4<f32>();
    var y$n_$x_1 = vec4<f32>();
#end
#end

#if FORWARD
    // m: the largest score of each row so far; l: of the invocation's columns, the sum of exp(score - m)
    var m = vec4<f32>(-inf());
    var l = vec4<f32>();
#end
#if DQ
    var product = vec4<f32>();
    for (var d = column; d < p.D; d += ACROSS) {
#for y FOUR
        product[$y] += load_g(at_of(p.g, b, h, r$y) + d) * load_o(at_of(p.o, b, h, r$y) + d);
#end
    }
    rows_part[lane] = product;
    workgroupBarrier();
    var delta = vec4<f32>();
    for (var c = 0u; c < ACROSS; c++) {
        delta += rows_part[row * ACROSS + c];
    }
    workgroupBarrier();
    var lse: vec4<f32>;
#for y FOUR
    lse[$y] = load_lse(at_of(p.lse, b, h, r$y));
    if own + $yu < rows && column == 0u { store_delta(at_of(p.delta, b, h, r$y), delta[$y]); }
#end
    end = select(end, vec4<u32>(), least4(lse));    // a query that sees no key
#end

    for (var sharer = 0u; sharer < sharers; sharer++) {
#if DKV
        let other = h * p.shared_by + sharer;           // the head of the columns
#else
        let other = h / p.shared_by;
#end
        let stop = end_of(last);
        for (var tile = begin_of(first) / EDGE * EDGE; tile < stop; tile += EDGE) {
#for n PRODUCTS
#for x X
            var x$n_$x = vec4<f32>();
#end
            for (var d0 = 0u; d0 < p.D; d0 += EDGE) {
                for (var t = lane; t < EDGE * EDGE / FOUR; t += SIZE) {
                    let d = t % EDGE;
                    let r = first + FOUR * (t / EDGE);
                    let at = min(d0 + d, p.D - 1u);
                    let x = vec4<f32>(a$n(at_a$n(b, h, min(r, rows - 1u)) + at),
                                      a$n(at_a$n(b, h, min(r + 1u, rows - 1u)) + at),
                                      a$n(at_a$n(b, h, min(r + 2u, rows - 1u)) + at),
                                      a$n(at_a$n(b, h, min(r + 3u, rows - 1u)) + at));
                    rows_part[d * PITCH4 + t / EDGE] = select(vec4<f32>(), x, d0 + d < p.D);
                }
                for (var t = lane; t < EDGE * EDGE; t += SIZE) {
                    let d = t % EDGE;
                    let at = at_b$n(b, other, min(tile + t / EDGE, columns - 1u)) + min(d0 + d, p.D - 1u);
                    columns_part[d * PITCH + t / EDGE] = select(0.0, b$n(at), d0 + d < p.D);
                }
                workgroupBarrier();
                for (var d = 0u; d < min(EDGE, p.D - d0); d += UNROLLED) {
#for u UNROLLED
                    {
                        let a = rows_part[(d + $uu) * PITCH4 + row];
#for x X
                        x$n_$x += a * columns_part[(d + $uu) * PITCH + column + $xu * ACROSS];
#end
                    }
#end
                }
                workgroupBarrier();
            }
#end

            // the scores, or -inf, and the weights, 0 where a row does not meet a column
#for x X
            let at$x = tile + column + $xu * ACROSS;
            let meet$x = (vec4<u32>(at$x) >= begin) & (vec4<u32>(at$x) < end);
            x0_$x *= p.scale;
#if MASK
#for y FOUR
#if DKV
            x0_$x[$y] += load_mask(at_of(p.mask, b, other, min(at$x, columns - 1u)) + r$y * p.mask.column);
#else
            x0_$x[$y] += load_mask(at_of(p.mask, b, h, r$y) + min(at$x, columns - 1u) * p.mask.column);
#end
#end
#end
#end
#if FORWARD
            var most = m;
#for x X
            x0_$x = select(vec4<f32>(-inf()), x0_$x, meet$x);
            most = max4(most, x0_$x);
#end
            rows_part[lane] = most;
            workgroupBarrier();
            for (var c = 0u; c < ACROSS; c++) {
                most = max4(most, rows_part[row * ACROSS + c]);
            }
            let base = select(most, vec4<f32>(), least4(most));
            let keep = exp4(m - base);
            m = most;
            l *= keep;
#for x X
            let w0_$x = exp4(x0_$x - base);
            l += w0_$x;
#end
#for x PAIRS
            y0_$x_0 *= keep;
            y0_$x_1 *= keep;
#end
#end
#if DQ
#for x X
            let w0_$x = select(vec4<f32>(), exp4(x0_$x - lse) * (x1_$x - delta), meet$x);
#end
#end
#if DKV
#for x X
            let t$x = min(at$x, columns - 1u);
            let lse$x = load_lse(at_of(p.lse, b, other, t$x));
            let w0_$x = select(vec4<f32>(), exp4(x0_$x - lse$x), meet$x & vec4<bool>(!is_least(lse$x)));
            let w1_$x = select(vec4<f32>(), w0_$x * (x1_$x - load_delta(at_of(p.delta, b, other, t$x))), meet$x);
#end
#end

            // rows that a column does not meet may not add its 0 times NaN
            let whole = tile >= begin_of(last) && tile + EDGE <= end_of(first);
#for n SUMS
#for x X
            weights[(column + $xu * ACROSS) * PITCH4 + row] = w$n_$x;
#end
            for (var part = 0u; part < min(EDGE, stop - tile); part += HEIGHT) {
                for (var t = lane; t < HEIGHT * WIDTH; t += SIZE) {
                    let d = t % WIDTH;
                    let at = at_c$n(b, other, min(tile + part + t / WIDTH, columns - 1u)) + min(d, p.D - 1u);
                    columns_part[t] = select(0.0, c$n(at), d < p.D);
                }
                workgroupBarrier();
                let count = min(HEIGHT, stop - tile - part);
                if whole {
                    for (var c = 0u; c < count; c++) {
                        let w = weights[(part + c) * PITCH4 + row];
                        let at = c * WIDTH + 2u * column;
#for x PAIRS
                        y$n_$x_0 += w * columns_part[at + $xu * 2u * ACROSS];
                        y$n_$x_1 += w * columns_part[at + $xu * 2u * ACROSS + 1u];
#end
                    }
                } else {
                    for (var c = 0u; c < count; c++) {
                        let w = weights[(part + c) * PITCH4 + row];
                        let at = c * WIDTH + 2u * column;
                        let meet = (vec4<u32>(tile + part + c) >= begin) & (vec4<u32>(tile + part + c) < end);
#for x PAIRS
                        y$n_$x_0 += select(vec4<f32>(), w * columns_part[at + $xu * 2u * ACROSS], meet);
                        y$n_$x_1 += select(vec4<f32>(), w * columns_part[at + $xu * 2u * ACROSS + 1u], meet);
#end
                    }
                }
                workgroupBarrier();
            }
#end
        }
    }

#if FORWARD
    rows_part[lane] = l;
    workgroupBarrier();
    l = vec4<f32>();
    for (var c = 0u; c < ACROSS; c++) {
        l += rows_part[row * ACROSS + c];
    }
    let blind = least4(m);                          // the query sees no key
    let factor0 = select(1.0 / l, vec4<f32>(), blind);
#for y FOUR
    if own + $yu < rows && column == 0u {
        store_lse(at_of(p.lse, b, h, r$y), select(m[$y] + f_log(l[$y]), m[$y], blind[$y]));
    }
#end
#end
#if DQ
    let factor0 = p.scale;
#end
#if DKV
    let factor0 = 1.0;
    let factor1 = p.scale;
#end
#for n SUMS
#for x PAIRS
    y$n_$x_0 *= factor$n;
    y$n_$x_1 *= factor$n;
#end
#for y FOUR
    if own + $yu < rows {
        let at = at_y$n(b, h, r$y);
#for x PAIRS
        {
            let d = 2u * column + $xu * 2u * ACROSS;
            if d < p.D { put_y$n(at + d, y$n_$x_0[$y], y$n_$x_1[$y], d + 1u < p.D); }
        }
#end
    }
#end
#end
}
