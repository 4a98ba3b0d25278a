// channels.wgsl - batch normalization of x (B, C, S) by channel: y = (x - mean) / sqrt(var + eps)
// w + b, and its gradient.  A channel is cut into parts, `rows` of B and `length` elements of S; a
// workgroup has a part.
//
// MOMENTS: sums (parts, C, 2) = the sum of x, and of its squared deviations from the mean of the part
// PRODUCTS: sums (parts, C, 2) = the sums of g and of g h, h = (x - mean) / sqrt(var + eps)
// STATISTICS: mean and variance, from the moments of the parts joined in order (Chan, Golub and LeVeque 1979)
// JOIN: db, dw and all (C, 2) = the sums over the parts
// NORM: y;  NORM_DX: dx = w (g - (sum(g) + h sum(g h)) / count) / sqrt(var + eps)
//
// get_x(i), put_y(i, v): element i of an operand from its offset on.
struct parameters {
    zero: u32,
    groups: u32,                                    // workgroups, or invocations
    B: u32,
    C: u32,
    S: u32,
    rows: u32,
    length: u32,
    across: u32,                                    // parts along S
    parts: u32,
    first_part: u32,                                // of this dispatch
    first_row: u32,                                 // of x's window: of B; NORM: of B C
    first_channel: u32,
    channels: u32,                                  // of this dispatch
    eps: f32,
    count: f32,                                     // B S
    offsets: array<vec4<u32>, 2>,                   // of the operands
}

#if OF_PARTS
alias V = f32;
fn join0(a: f32, b: f32) -> f32 { return a + b; }

fn kernel(group: u32, lane: u32, i: u32) {
    if group >= p.groups { return; }
    let channel = p.first_channel + group % p.channels;
    let number = p.first_part + group / p.channels;
    let row = number / p.across * p.rows;
    let first = number % p.across * p.length;
    let length = min(p.length, p.S - first);
    let count = min(p.rows, p.B - row) * length;
    let at = ((row - p.first_row) * p.C + (channel - p.first_channel)) * p.S + first;
    let to = 2u * (number * p.C + channel);
#if MOMENTS
    var a = 0.0;
    for (var k = lane; k < count; k += SIZE) { a += get_x(at + k / length * (p.C * p.S) + k % length); }
    let sum = tree0(lane, a);
    let mean = sum / f32(count);
    a = 0.0;
    for (var k = lane; k < count; k += SIZE) {
        let d = get_x(at + k / length * (p.C * p.S) + k % length) - mean;
        a += d * d;
    }
    let second = tree0(lane, a);
#else
    let mean = get_mean(channel);
    let scale = 1.0 / sqrt(get_variance(channel) + p.eps);
    var a = 0.0;
    var b = 0.0;
    for (var k = lane; k < count; k += SIZE) {
        let position = at + k / length * (p.C * p.S) + k % length;
        let g = get_g(position);
        a += g;
        b += g * ((get_x(position) - mean) * scale);
    }
    let sum = tree0(lane, a);
    let second = tree0(lane, b);
#end
    if lane == 0u {
        put_sums(to, sum);
        put_sums(to + 1u, second);
    }
}
#end

#if STATISTICS
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.groups { return; }
    var count = 0.0;
    var mean = 0.0;
    var squares = 0.0;
    for (var number = 0u; number < p.parts; number++) {
        let rows = min(p.rows, p.B - number / p.across * p.rows);
        let n = f32(rows * min(p.length, p.S - number % p.across * p.length));
        let at = 2u * (number * p.C + i);
        let d = get_sums(at) / n - mean;
        count += n;
        mean += d * (n / count);
        squares += get_sums(at + 1u) + d * d * (n * ((count - n) / count));
    }
    put_mean(i, mean);
    put_variance(i, squares / count);
}
#end

#if JOIN
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.groups { return; }
    var a = 0.0;
    var b = 0.0;
    for (var number = 0u; number < p.parts; number++) {
        let at = 2u * (number * p.C + i);
        a += get_sums(at);
        b += get_sums(at + 1u);
    }
    put_all(2u * i, a);
    put_all(2u * i + 1u, b);
#if HAS_DB
    put_db(i, a);
#end
#if HAS_DW
    put_dw(i, b);
#end
}
#end

#if EACH
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.groups { return; }
    let c = (p.first_row + i / p.S) % p.C;
    let scale = 1.0 / sqrt(get_variance(c) + p.eps);
    let h = (get_x(i) - get_mean(c)) * scale;
#if HAS_W
    let w = get_w(c);
#else
    let w = 1.0;
#end
#if NORM_DX
    put_y(i, w * scale * (get_g(i) - (get_all(2u * c) + h * get_all(2u * c + 1u)) / p.count));
#else
    var y = h * w;
#if HAS_B
    y += get_b(c);
#end
    put_y(i, y);
#end
}
#end
