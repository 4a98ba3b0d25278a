// conv.wgsl - convolutions as products y (M, N) = a (M, K) b (K, N) for each group, where b is
// read out of the images as it is needed.  One of n and k counts positions, the other taps
// (conv.c): an element of b lies where position and tap meet, and is 0 outside of the image.  Sums
// go along K in order.
//
// TILES: a workgroup of SIDE x SIDE invocations has EDGE x EDGE results, an invocation TILE x TILE
// of them in registers.  DEPTH of K at a time, the workgroup copies its part of a and b to
// workgroup memory, in rows of PITCH elements (matmul.wgsl).  DIRECT: an invocation has ROWS results
// of one column n.  JOIN: y = [bias +] the sum of x over its parts.  WEIGHT: k counts positions.
// BF16: factors are rounded to bf16.
struct walk {                                       // i counts (outer, size.x, size.y, size.z) in row-major order
    size: vec4<u32>,                                // w: outer
    first: vec4<i32>,                               // coordinate: first + step i, of n and k added
    step: vec4<i32>,                                // w: stride of b along outer
    out: vec4<u32>,                                 // strides of a or y; w: along outer
}
struct parameters {
    zero: u32,
    groups: u32,                                    // workgroups; DIRECT, JOIN: invocations
    M: u32,
    N: u32,
    K: u32,
    products: u32,                                  // the groups of the convolution
    down: u32,                                      // tiles in a column of tiles
    across: u32,                                    // tiles in a row of tiles; DIRECT: columns
    part: u32,                                      // of K; JOIN: the number of parts
    first_part: u32,                                // of this dispatch
    a_m: u32,                                       // strides
    y_m: u32,
    a_group: u32,
    b_group: u32,
    y_group: u32,
    y_part: u32,
    a: u32,                                         // offsets
    b: u32,
    y: u32,
    bias: u32,
    axis: vec4<u32>,                                // strides of the images
    size: vec4<u32>,                                // and their sizes; JOIN: channels, elements of one
    n: walk,
    k: walk,
}

#if JOIN
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.groups { return; }
    var sum = 0.0;
#if BIAS
    sum = load_bias(p.bias + i / p.size.y % p.size.x);
#end
    for (var part = 0u; part < p.part; part++) { sum += load_x(part * p.y_part + i); }
    store_y(p.y + i, sum);
}
#else
struct point {                                      // of one n or k
    at: vec4<i32>,                                  // coordinates; w: offset in b
    out: u32,                                       // offset in a or y
}
fn point_at(w: walk, j: vec4<u32>) -> point {
    let at = w.first + vec4<i32>(j) * w.step;
    let b = u32(at.x) * p.axis.x + u32(at.y) * p.axis.y + u32(at.z) * p.axis.z + j.w * u32(w.step.w);
    return point(vec4<i32>(at.xyz, i32(b)), j.x * w.out.x + j.y * w.out.y + j.z * w.out.z + j.w * w.out.w);
}
fn indices_of(w: walk, i: u32) -> vec4<u32> {
    let z = i / w.size.z;
    let y = z / w.size.y;
    return vec4<u32>(y % w.size.x, z % w.size.y, i % w.size.z, y / w.size.x);
}
fn meet(n: vec4<i32>, k: vec4<i32>) -> bool { return all(vec3<u32>((n + k).xyz) < p.size.xyz); }

fn a_term(at: u32) -> f32 {
#if BF16
    return bf16_of(to_bf16(load_a(at)), 0u);
#else
    return load_a(at);
#end
}

fn b_term(at: u32) -> f32 {
#if BF16
    return bf16_of(to_bf16(load_b(at)), 0u);
#else
    return load_b(at);
#end
}

fn store_result(at: u32, channel: u32, sum: f32) {
#if BIAS
    store_y(at, sum + load_bias(p.bias + channel));
#else
    store_y(at, sum);
#end
}
#end

#if DIRECT
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.groups { return; }
    let n = i % p.across;
    var rest = i / p.across;
    let m = rest % p.down * ROWS;
    rest /= p.down;
    let product = rest % p.products;
    let part = rest / p.products;
    let column = point_at(p.n, indices_of(p.n, n));
    let b0 = p.b + product * p.b_group;
    let end = min((part + 1u) * p.part, p.K);
    var j = indices_of(p.k, min(part * p.part, p.K - 1u));
#for y ROWS
    var s$y = 0.0;
    let a$y = p.a + product * p.a_group + min(m + $yu, p.M - 1u) * p.a_m;
#end
    for (var k = part * p.part; k < end; k++) {
        let q = point_at(p.k, j);
        if meet(column.at, q.at) {
            let x = b_term(b0 + u32(column.at.w + q.at.w));
#for y ROWS
            s$y += a_term(a$y + q.out) * x;
#end
        }
        j.z++;
        if j.z == p.k.size.z {
            j.z = 0u;
            j.y++;
            if j.y == p.k.size.y {
                j.y = 0u;
                j.x++;
                if j.x == p.k.size.x {
                    j.x = 0u;
                    j.w++;
                }
            }
        }
    }
    let y0 = p.y + (p.first_part + part) * p.y_part + product * p.y_group + column.out;
#for y ROWS
    if m + $yu < p.M { store_result(y0 + (m + $yu) * p.y_m, product * p.M + m + $yu, s$y); }
#end
}
#end

#if TILES
var<workgroup> part_a: array<f32, DEPTH * PITCH>;
var<workgroup> part_b: array<f32, DEPTH * PITCH>;
var<workgroup> n_at: array<vec4<i32>, EDGE>;
var<workgroup> n_out: array<u32, EDGE>;
var<workgroup> k_at: array<vec4<i32>, DEPTH>;
var<workgroup> k_out: array<u32, DEPTH>;

fn kernel(group: u32, lane: u32, i: u32) {
    if group >= p.groups { return; }
    var rest = group / p.down;
    let top = group % p.down * EDGE;
    let left = rest % p.across * EDGE;
    rest /= p.across;
    let product = rest % p.products;
    let part = rest / p.products;
    let a0 = p.a + product * p.a_group;
    let b0 = p.b + product * p.b_group;
    let y0 = p.y + (p.first_part + part) * p.y_part + product * p.y_group;
    let begin = part * p.part;
    let end = min(begin + p.part, p.K);
    let row = lane / SIDE;
    let column = lane % SIDE;
    if lane < EDGE {
        // columns beyond the edge read the last one again; those sums are not stored
        let q = point_at(p.n, indices_of(p.n, min(left + lane, p.N - 1u)));
        n_at[lane] = q.at;
        n_out[lane] = q.out;
    }
#for y TILE
    var s$y = vec4<f32>();
#end
    for (var k0 = begin; k0 < end; k0 += DEPTH) {
        if lane < DEPTH {
            let q = point_at(p.k, indices_of(p.k, min(k0 + lane, p.K - 1u)));
            k_at[lane] = q.at;
            k_out[lane] = q.out;
        }
        workgroupBarrier();
        // DEPTH x EDGE elements of a and of b, zeros beyond the end of the part
#for i COPIES
        {
            let t = lane + $iu * SIZE;
            let d = t % DEPTH;
            let e = t / DEPTH;
            let inside = k0 + d < end && top + e < p.M;
            let x = a_term(select(a0, a0 + (top + e) * p.a_m + k_out[d], inside));
            part_a[d * PITCH + e] = select(0.0, x, inside);
        }
        {
            let t = lane + $iu * SIZE;
#if WEIGHT
            let d = t % DEPTH;
            let e = t / DEPTH;
#else
            let e = t % EDGE;
            let d = t / EDGE;
#end
            let n = n_at[e];
            let k = k_at[d];
            let inside = k0 + d < end && meet(n, k);
            let x = b_term(select(b0, b0 + u32(n.w + k.w), inside));
            part_b[d * PITCH + e] = select(0.0, x, inside);
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
                let y = vec4(b0, b1, b2, b3);
#for y TILE
                s$y += part_a[at + row + $yu * SIDE] * y;
#end
            }
#end
        }
        workgroupBarrier();
    }
#for y TILE
#for x TILE
    {
        let m = top + row + $yu * SIDE;
        let e = column + $xu * SIDE;
        if m < p.M && left + e < p.N { store_result(y0 + m * p.y_m + n_out[e], product * p.M + m, s$y[$x]); }
    }
#end
#end
}
#end
