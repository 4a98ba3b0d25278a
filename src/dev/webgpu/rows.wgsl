// rows.wgsl - softmax, normalisation and cross-entropy over rows of N elements.  A workgroup has a
// row, in f32; sums and maxima are trees over its invocations (tree.wgsl).
//
// get_x(i): element i of an operand, from the first row of this dispatch on.  put_y(i, v) writes the
// EACH elements from i on: two of 16 bits, which are a word of no other invocation, or one.  HAS_...: the
// operand is there.
struct parameters {
    zero: u32,
    rows: u32,                                      // of this dispatch
    N: u32,
    fault: u32,
    number: f32,                                    // eps, or the smoothing
    length: f32,                                    // N
    ignore: vec2<u32>,                              // the target of rows that do not count (low, high)
    first: u32,                                     // row of this dispatch
    total: u32,                                     // rows of all dispatches
    offsets: array<vec4<u32>, 2>,                   // of the operands
}

alias V = f32;
fn join0(a: f32, b: f32) -> f32 { return a + b; }
fn join1(a: f32, b: f32) -> f32 { return f_max(a, b); }
fn sum_of(lane: u32, v: f32) -> f32 { return tree0(lane, v); }
fn max_of(lane: u32, v: f32) -> f32 { return tree1(lane, v); }

#if SOFTMAX
// y = exp(x - max) / sum(exp(x - max)), or LOG, its logarithm
fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    var a = -inf();
    for (var n = lane; n < p.N; n += SIZE) { a = f_max(a, get_x(m * p.N + n)); }
    let most = max_of(lane, a);
    a = 0.0;
    for (var n = lane; n < p.N; n += SIZE) { a += f_exp(get_x(m * p.N + n) - most); }
    let total = sum_of(lane, a);
    for (var n = EACH * lane; n < p.N; n += EACH * SIZE) {
        let first = m * p.N + n;
        var v: vec2<f32>;
#for e EACH
#if LOG
        v[$e] = (get_x(first + $eu) - most) - f_log(total);
#else
        v[$e] = f_exp(get_x(first + $eu) - most) / total;
#end
#end
        put_y(first, v);
    }
}
#end

#if SOFTMAX_BWD
// dx = y (g - sum(g y)), or LOG, g - exp(y) sum(g)
fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    var a = 0.0;
    for (var n = lane; n < p.N; n += SIZE) {
        let at = m * p.N + n;
#if LOG
        a += get_g(at);
#else
        a += get_g(at) * get_y(at);
#end
    }
    let total = sum_of(lane, a);
    for (var n = EACH * lane; n < p.N; n += EACH * SIZE) {
        let first = m * p.N + n;
        var v: vec2<f32>;
#for e EACH
        let at$e = first + $eu;
#if LOG
        v[$e] = get_g(at$e) - f_exp(get_y(at$e)) * total;
#else
        v[$e] = get_y(at$e) * (get_g(at$e) - total);
#end
#end
        put_dx(first, v);
    }
}
#end

#if NORM
// y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); without a mean operand,
// mean is 0
fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    var a = 0.0;
#if HAS_MEAN
    for (var n = lane; n < p.N; n += SIZE) { a += get_x(m * p.N + n); }
    let mean = sum_of(lane, a) / p.length;
    a = 0.0;
#else
    let mean = 0.0;
#end
    for (var n = lane; n < p.N; n += SIZE) {
        let d = get_x(m * p.N + n) - mean;
        a += d * d;
    }
    let rstd = 1.0 / sqrt(sum_of(lane, a) / p.length + p.number);
    for (var n = EACH * lane; n < p.N; n += EACH * SIZE) {
        let first = m * p.N + n;
        var v: vec2<f32>;
#for e EACH
        v[$e] = (get_x(first + $eu) - mean) * rstd;
#if HAS_W
        v[$e] *= get_w(n + $eu);
#end
#if HAS_B
        v[$e] += get_b(n + $eu);
#end
#end
        put_y(first, v);
    }
    if lane == 0u {
        set_rstd(m, rstd);
#if HAS_MEAN
        set_mean(m, mean);
#end
    }
}
#end

#if NORM_DX
// with dh = g w, h = (x - mean) rstd:  dx = rstd (dh - mean(dh) - h mean(dh h)), without mean(dh)
// for the RMS norm; ADD: += instead of =
fn dh_of(at: u32, n: u32) -> f32 {
#if HAS_W
    return get_g(at) * get_w(n);
#else
    return get_g(at);
#end
}

fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    let r = get_rstd(m);
#if HAS_MEAN
    let mean = get_mean(m);
#else
    let mean = 0.0;
#end
    var a = 0.0;
    var b = 0.0;
    for (var n = lane; n < p.N; n += SIZE) {
        let at = m * p.N + n;
        let dh = dh_of(at, n);
        a += dh * ((get_x(at) - mean) * r);
        b += dh;
    }
    let along = sum_of(lane, a) / p.length;
#if HAS_MEAN
    let level = sum_of(lane, b) / p.length;
#else
    let level = 0.0;
#end
    for (var n = EACH * lane; n < p.N; n += EACH * SIZE) {
        let first = m * p.N + n;
        var v: vec2<f32>;
#for e EACH
        v[$e] = r * (dh_of(first + $eu, n + $eu) - level - (get_x(first + $eu) - mean) * r * along);
#if ADD
        v[$e] += get_dx(first + $eu);
#end
#end
        put_dx(first, v);
    }
}
#end

#if NORM_PARTS
// dw (parts, N) = the sum of g h over PART rows, db (parts, N) = the sum of g.  A "row" of the
// dispatch is a part.
fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    let rows = min(PART, p.total - (m + p.first) * PART);
    for (var n = lane; n < p.N; n += SIZE) {
        var a = 0.0;
        var b = 0.0;
        for (var k = m * PART; k < m * PART + rows; k++) {
            let at = k * p.N + n;
            let d = get_g(at);
            b += d;
#if HAS_MEAN
            a += d * ((get_x(at) - get_mean(k)) * get_rstd(k));
#else
            a += d * ((get_x(at) - 0.0) * get_rstd(k));
#end
        }
#if HAS_DW
        set_dw(m * p.N + n, a);
#end
#if HAS_DB
        set_db(m * p.N + n, b);
#end
    }
}
#end

#if CROSS_ENTROPIES
// the target of row m as a column: N where the row is ignored, ~0u where the target is out of range
fn label_of(m: u32) -> u32 {
    let wide = get_labels(m);
    if all(wide == p.ignore) { return p.N; }
    return select(0xffffffffu, wide.x, wide.y == 0u && wide.x < p.N);
}
#end

#if CROSS_ENTROPY
// loss = lse - (1 - s) x[target] - s mean(x), for smoothing s
fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    let label = label_of(m);
    var a = -inf();
    for (var n = lane; n < p.N; n += SIZE) { a = f_max(a, get_x(m * p.N + n)); }
    let most = max_of(lane, a);
    a = 0.0;
    for (var n = lane; n < p.N; n += SIZE) { a += f_exp(get_x(m * p.N + n) - most); }
    let sum = sum_of(lane, a);
    let l = select(most + f_log(sum), most, is_inf(most));
    var mean = 0.0;
#if SMOOTHING
    a = 0.0;
    for (var n = lane; n < p.N; n += SIZE) { a += get_x(m * p.N + n); }
    mean = p.number * (sum_of(lane, a) / p.length);
#end
    if lane == 0u {
        set_lse(m, l);
        if label < p.N {
            set_loss(m, l - (1.0 - p.number) * get_x(m * p.N + label) - mean);
        } else {
            set_loss(m, 0.0);
        }
        if label == 0xffffffffu { atomicMin(&faults[4u * p.fault], m + p.first); }
    }
}
#end

#if CROSS_ENTROPY_BWD
// dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows.  SCALAR: g has one
// element.  OVER_X: dx is x.
fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    if m >= p.rows { return; }
    let label = label_of(m);
    let l = get_lse(m);
#if SCALAR
    let c = get_g(0u);
#else
    let c = get_g(m);
#end
    for (var n = EACH * lane; n < p.N; n += EACH * SIZE) {
        let first = m * p.N + n;
        var v: vec2<f32>;
#for e EACH
        let wanted$e = select(0.0, 1.0 - p.number, n + $eu == label) + p.number / p.length;
#if OVER_X
        let x$e = get_dx(first + $eu);
#else
        let x$e = get_x(first + $eu);
#end
        v[$e] = select(c * (f_exp(x$e - l) - wanted$e), 0.0, label == p.N);
#end
        put_dx(first, v);
    }
}
#end
