// sample.wgsl - the steps of multinomial: weights as integers (UNITS), draws with replacement
// (PICK), waiting times (TIMES).
struct parameters {
    zero: u32,
    count: u32,                                     // invocations
    N: u32,                                         // weights of a row
    draws: u32,                                     // of a row
    seed: vec2<u32>,
    counter: vec2<u32>,
    offset: u32,                                    // of weights, or of y in PICK
    bits: u32,                                      // of the largest unit
}

#if UNITS
// units[i] = floor(weights[i] 2^bits / 2^(1 + log2 of the row's largest))
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let w = whole_split(load_weights(p.offset + i));
    let top = whole_split(load_top(i / p.N));
    let shift = i32(p.bits) - 24 + i32(w.y) - i32(top.y);
    let right = vec2<u32>(select(0u, w.x >> u32(-shift), shift > -32), 0u);
    let left = shl64(vec2<u32>(w.x, 0u), vec2<u32>(u32(shift), 0u));
    store_units(i, select(right, left, shift >= 0));
}
#end

#if PICK
// y[i] = the first position of the row whose running sum exceeds U times the total
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let row = i / p.draws * p.N;
    let last = row + p.N - 1u;
    let drawn = mul_high64(philox64(i) & vec2<u32>(0xfffff800u, ~0u), load_sums(last));
    var low = row;
    var high = last;
    while low < high {
        let k = (low + high) / 2u;
        if less_u64(drawn, load_sums(k)) { high = k; } else { low = k + 1u; }
    }
    store_y(p.offset + i, vec2<u32>(low - row, 0u));
}
#end

#if TIMES
// n 2^e in extended precision
fn wide_whole(n: vec2<u32>, e: f32) -> vec3<f32> {
    let v = wide_add(wide_add(wide_of(f32(n.y) * 4294967296.0), wide_of(f32(n.x >> 16u) * 65536.0)),
            wide_of(f32(n.x & 0xffffu)));
    return select(v, vec3<f32>(v.xy, v.z + e), ordinary(v.x));
}
fn negated(v: vec3<f32>) -> vec3<f32> { return vec3<f32>(-v.xy, v.z); }

// -log(1 - U), U = n 2^-53; where U is small, from U itself.  1 - U = m 2^e with m in [sqrt(1/2),
// sqrt(2)], and log m = 2 artanh s, s = (m - 1) / (m + 1)
fn wait(n: vec2<u32>) -> vec3<f32> {
    var f = negated(wide_whole(n, -53.0));
    var e = 0.0;
    if n.y >= 0x94000u {
        let v = wide_whole(sub64(vec2<u32>(0u, 0x200000u), n), -53.0);
        let over = select(0.0, 1.0, v.x > 1.4142135);
        e = v.z + over;
        f = wide_add(vec3<f32>(v.xy, -over), wide_of(-1.0));
    }
    let s = wide_div(f, wide_add(wide_of(2.0), f));
    let z = wide_mul(s, s);
    let y = wide_round(z);
    var q = wide_of((((y / 19.0 + 0.05882352941) * y + 0.06666666667) * y + 0.07692307692) * y + 0.09090909091);
    for (var k = 9.0; k > 0.0; k -= 2.0) { q = wide_add(wide_mul(q, z), wide_div(wide_of(1.0), wide_of(k))); }
    let half = wide_mul(s, q);
    return wide_add(wide_mul(wide_of(-e), vec3<f32>(1.38629436492919921875, -3.809308599915536e-09, -1.0)),
            wide_mul(wide_of(-2.0), half));
}

// times[i]: an integer key in the order of the waiting times -log(1 - U) / weight: (x + y) 2^47,
// which is at least 2^47, with the exponent above it
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let w = load_weights(p.offset + i);
    let word = philox64(i);
    let t = wide_div(wait(vec2<u32>((word.x >> 11u) | (word.y << 21u), word.y >> 11u)), wide_of(w));
    let rest = i32(round(t.y * 140737488355328.0));
    let high = u32(t.x * 8388608.0);
    let m = add64(vec2<u32>(high << 24u, high >> 8u), vec2<u32>(bitcast<u32>(rest), bitcast<u32>(rest >> 31u)));
    var key = add64(m, vec2<u32>(0u, u32(i32(t.z) + 511) << 15u));
    if !ordinary(t.x) { key = vec2<u32>(0u); }
    if (bitcast<u32>(w) & 0x7fffffffu) == 0u { key = vec2<u32>(~0u); }
    store_times(i, key);
}
#end
