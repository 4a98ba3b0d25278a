// quantized.wgsl - weights of 4 or 8 bits (kernels.def has their layout): BITS.
//
// LINEAR: y (M, N) = x (M, K) w^T [+ bias], 32 neighbouring invocations for a row of w, which they read by words.
// Otherwise y (N, K) = w, an invocation for each element.
struct parameters {
    zero: u32,
    M: u32,
    N: u32,
    K: u32,
    G: u32,                                         // columns that share a scale
    y: u32,                                         // offsets, and of matrices the distance of rows
    y_row: u32,
    x: u32,
    codes: u32,                                     // in bytes
    codes_row: u32,
    scales: u32,
    scales_row: u32,
    bias: u32,
}

#if LINEAR
var<workgroup> sums: array<f32, SIZE>;

// the products of the codes in word t of a row with x from `at` on
fn term(t: u32, word: u32, at: u32) -> f32 {
    var sum = 0.0;
#if EIGHT
    let k = at + 4u * t;
    for (var j = 0u; j < 4u; j++) { sum += load_x(k + j) * f32(i8_of(word, j)); }
#else
    let k = at + t / 4u * 32u + t % 4u * 4u;
    for (var j = 0u; j < 4u; j++) {
        let byte = u8_of(word, j);
        sum += load_x(k + j) * (f32(byte & 15u) - 8.0);
        sum += load_x(k + 16u + j) * (f32(byte >> 4u) - 8.0);
    }
#end
    return sum;
}

fn kernel(group: u32, lane: u32, i: u32) {
    let n = group * (SIZE / 32u) + lane / 32u;
#if EIGHT
    let per = 4u;
#else
    let per = 8u;
#end
    for (var m = 0u; m < p.M; m++) {
        var sum = 0.0;
        if n < p.N {
            let row = (p.codes + n * p.codes_row) / 4u;
            for (var t = lane % 32u; t < p.K / per; t += 32u) {
                // a word of 4 bits has columns of one block of 32, so of one group
                let scale = load_scales(p.scales + n * p.scales_row + t * per / 32u * 32u / p.G);
                sum += scale * term(t, codes_word(row + t), p.x + m * p.K);
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
    let n = i / p.K;
    let k = i % p.K;
    let scale = load_scales(p.scales + n * p.scales_row + k / p.G);
#if EIGHT
    let code = f32(load_codes(p.codes + n * p.codes_row + k));
#else
    let byte = load_codes(p.codes + n * p.codes_row + k / 32u * 16u + k % 16u);
    let code = f32(select(byte >> 4u, byte & 15u, k % 32u < 16u)) - 8.0;
#end
    store_y(p.y + i, scale * code);
}
#end
