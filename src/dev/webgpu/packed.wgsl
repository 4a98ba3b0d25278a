// packed.wgsl - weights in a packed format (core/formats.h), of which one name is defined: Q8_0, Q4_0 ...  The layouts
// are those of ggml-common.h.
//
// LINEAR: y (M, N) = x (M, K) w^T [+ bias], 32 neighbouring invocations for a row of w, 8 numbers each at a time.
// Otherwise y (N, K) = w, an invocation for each number.
struct parameters {
    zero: u32,
    M: u32,
    N: u32,
    K: u32,
    y: u32,                                         // offsets, and of matrices the distance of rows
    y_row: u32,
    x: u32,
    w: u32,                                         // in bytes
    w_row: u32,
    bias: u32,
}

fn half_at(b: u32) -> f32 { return f16_of(load_w(b) | (load_w(b + 1u) << 8u), 0u); }
fn nibble(b: u32, k: u32) -> i32 { return i32((load_w(b + k % 16u) >> (k / 16u * 4u)) & 15u); }
fn fifth(b: u32, k: u32) -> i32 { return i32((load_w(b + k / 8u) >> (k % 8u)) & 1u) << 4u; }
fn signed_at(b: u32) -> i32 { return i8_of(load_w(b), 0u); }
fn iq4_value(q: i32) -> i32 {
    var v = array<i32, 16>(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    return v[q];
}
// Q4_K, Q5_K: a scale and an offset of 6 bits for each 32
fn line_6(b: u32, i: u32) -> vec2<f32> {
    let s = b + 4u + i;
    var scale = load_w(s) & 63u;
    var low = load_w(s + 4u);
    if i < 4u { low &= 63u; }
    else {
        scale = (low & 15u) | ((load_w(s - 4u) >> 6u) << 4u);
        low = (low >> 4u) | ((load_w(s) >> 6u) << 4u);
    }
    return vec2<f32>(half_at(b) * f32(scale), -(half_at(b + 2u) * f32(low)));
}

// Number k of the block at b is .x code_of(b, k) + .y; both are those of 8 neighbours.
fn line_of(b: u32, k: u32) -> vec2<f32> {
#if Q4_1
    return vec2<f32>(half_at(b), half_at(b + 2u));
#end
#if Q5_1
    return vec2<f32>(half_at(b), half_at(b + 2u));
#end
#if MXFP4
    let e = load_w(b);                              // 2^(e - 128)
    return vec2<f32>(bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e < 2u)), 0.0);
#end
#if Q2_K
    let s = load_w(b + k / 16u);
    return vec2<f32>(half_at(b + 80u) * f32(s & 15u), -(half_at(b + 82u) * f32(s >> 4u)));
#end
#if Q3_K
    let g = k / 16u;
    let low = (load_w(b + 96u + g % 8u) >> (g / 8u * 4u)) & 15u;
    let high = (load_w(b + 104u + g % 4u) >> (g / 4u * 2u)) & 3u;
    return vec2<f32>(half_at(b + 108u) * (f32(low | (high << 4u)) - 32.0), 0.0);
#end
#if Q4_K
    return line_6(b, k / 32u);
#end
#if Q5_K
    return line_6(b, k / 32u);
#end
#if Q6_K
    return vec2<f32>(half_at(b + 208u) * f32(signed_at(b + 192u + k / 16u)), 0.0);
#end
#if IQ4_XS
    let g = k / 32u;
    let low = (load_w(b + 4u + g / 2u) >> (g % 2u * 4u)) & 15u;
    let high = ((load_w(b + 2u) | (load_w(b + 3u) << 8u)) >> (2u * g)) & 3u;
    return vec2<f32>(half_at(b) * (f32(low | (high << 4u)) - 32.0), 0.0);
#end
#if PLAIN
    return vec2<f32>(half_at(b), 0.0);
#end
}

fn code_of(b: u32, k: u32) -> i32 {
#if Q8_0
    return signed_at(b + 2u + k);
#end
#if Q4_0
    return nibble(b + 2u, k) - 8;
#end
#if Q4_1
    return nibble(b + 4u, k);
#end
#if Q5_0
    return (nibble(b + 6u, k) | fifth(b + 2u, k)) - 16;
#end
#if Q5_1
    return nibble(b + 8u, k) | fifth(b + 4u, k);
#end
#if IQ4_NL
    return iq4_value(nibble(b + 2u, k));
#end
#if MXFP4
    let q = nibble(b + 1u, k);
    let size = q & 7;
    let twice = select(select(12, 2 * size - 4, size < 7), size, size < 5);
    return select(twice, -twice, q > 7);
#end
#if Q2_K
    return i32((load_w(b + 16u + k / 128u * 32u + k % 32u) >> (k / 32u % 4u * 2u)) & 3u);
#end
#if Q3_K
    let low = i32((load_w(b + 32u + k / 128u * 32u + k % 32u) >> (k / 32u % 4u * 2u)) & 3u);
    return low - select(4, 0, ((load_w(b + k % 32u) >> (k / 32u)) & 1u) == 1u);
#end
#if Q4_K
    return i32((load_w(b + 16u + k / 64u * 32u + k % 32u) >> (k / 32u % 2u * 4u)) & 15u);
#end
#if Q5_K
    let low = (load_w(b + 48u + k / 64u * 32u + k % 32u) >> (k / 32u % 2u * 4u)) & 15u;
    return i32(low | (((load_w(b + 16u + k % 32u) >> (k / 32u)) & 1u) << 4u));
#end
#if Q6_K
    let part = k / 128u;
    let row = k / 32u % 4u;
    let low = (load_w(b + part * 64u + row % 2u * 32u + k % 32u) >> (row / 2u * 4u)) & 15u;
    let high = (load_w(b + 128u + part * 32u + k % 32u) >> (row * 2u)) & 3u;
    return i32(low | (high << 4u)) - 32;
#end
#if IQ4_XS
    return iq4_value(nibble(b + 8u + k / 32u * 16u, k % 32u));
#end
}

#if LINEAR
var<workgroup> sums: array<f32, SIZE>;

// 8 numbers of w times those of x at `at`
fn term(b: u32, k: u32, at: u32) -> f32 {
    let l = line_of(b, k);
    var sum = 0.0;
    for (var j = 0u; j < 8u; j++) { sum += load_x(at + j) * (l.x * f32(code_of(b, k + j)) + l.y); }
    return sum;
}

fn kernel(group: u32, lane: u32, i: u32) {
    let n = group * (SIZE / 32u) + lane / 32u;
    for (var m = 0u; m < p.M; m++) {
        var sum = 0.0;
        if n < p.N {
            for (var k = lane % 32u * 8u; k < p.K; k += 256u) {
                sum += term(p.w + n * p.w_row + k / BLOCK * BYTES, k % BLOCK, p.x + m * p.K + k);
            }
        }
        sums[lane] = sum;
        for (var half = 16u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if lane % 32u < half { sums[lane] += sums[lane + half]; }
        }
        if n < p.N && lane % 32u == 0u {
            var all = sums[lane];
#if BIAS
            all += load_bias(p.bias + n);
#end
            store_y(p.y + m * p.y_row + n, all);
        }
        workgroupBarrier();
    }
}
#else
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.N * p.K { return; }
    let k = i % p.K;
    let b = p.w + i / p.K * p.w_row + k / BLOCK * BYTES;
    let l = line_of(b, k % BLOCK);
    store_y(p.y + i, l.x * f32(code_of(b, k % BLOCK)) + l.y);
}
#end
