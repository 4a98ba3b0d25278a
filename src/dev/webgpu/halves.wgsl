// halves.wgsl - do the GPU's native conversions of f16 agree with those of library.wgsl?  wrong[0]
// becomes 1 if they do not.  i: an f16 x; the f32 half-way to the next f16, the neighbours of that
// f32, and the f32 whose upper half is i.
struct parameters { zero: u32 }

fn check(x: f32) {
    if to_f16(x) != native_to_f16(x) { atomicOr(&wrong[0], 1u); }
}

fn kernel(group: u32, lane: u32, i: u32) {
    if i >= 65536u { return; }
    let x = f16_of(i, 0u);
    let y = native_f16_of(i);
    let next = select(f16_of(i + 1u, 0u), f_copysign(65536.0, x), (i & 0x7fffu) == 0x7bffu);
    if bitcast<u32>(x) != bitcast<u32>(y) && !(is_nan(x) && is_nan(y)) { atomicOr(&wrong[0], 1u); }
    let middle = bitcast<u32>(0.5 * x + 0.5 * next);
    check(x);
    check(bitcast<f32>(middle));
    check(bitcast<f32>(middle + 1u));
    check(bitcast<f32>(middle - 1u));
    check(bitcast<f32>(i << 16u));
}
