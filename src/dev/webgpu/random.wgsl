// random.wgsl - y[i] = element i of a stream of Philox 4x32-10: UNIFORM in [0, 1), NORMAL, or
// INTEGERS in [low, low + span).  BF16, F16: the dtype of y.
struct parameters {
    zero: u32,
    count: u32,
    y: u32,                                         // offset
    seed: vec2<u32>,
    counter: vec2<u32>,
    low: vec2<u32>,
    span: vec2<u32>,                                // 0: 2^64
}

fn uniform01(word: u32) -> f32 { return f32(word >> 8u) * 5.9604644775390625e-08; }

fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
#if INTEGERS
    let word = philox64(i);
    let scaled = select(mul_high64(word, p.span), word, all(p.span == vec2<u32>(0u)));
    let x = add64(scaled, p.low);
#else
    let block = philox(i / 4u);
#end
#if NORMAL
    // Box-Muller on the pair (2j, 2j + 1); the remainder of the angle after whole quarters is exact
    let u = select(block.xy, block.zw, (i & 2u) != 0u);
    let r = sqrt(-2.0 * f_log(1.0 - uniform01(u.x)));
    let angle = uniform01(u.y);
    let n = round(4.0 * angle);
    let x = r * circle((angle - 0.25 * n) * 6.28318531, i32(n) + select(1, 0, (i & 1u) != 0u));
#end
#if UNIFORM
    var x = uniform01(block[i & 3u]);
    // round towards 0: a half never becomes 1
#if BF16
    x = bitcast<f32>(bitcast<u32>(x) & 0xffff0000u);
#end
#if F16
    let h = f16_of(to_f16(x), 0u);
    x = select(h, f16_of(to_f16(x) - 1u, 0u), h > x);
#end
#end
    store_y(p.y + i, result(x));
}
