// attention.wgsl - o = softmax(scale q k^T + mask) v for every head: FORWARD, and the gradients DQ
// and DKV.  q, o (B, H, T, D), k, v (B, H / shared, S, D), lse, delta (B, H, T).
//
// An invocation keeps one query (FORWARD, DQ) or one key (DKV), row `kept`, and goes over the
// others, FOUR at a time.  All invocations of a workgroup read the same others, of one head.  Sums
// over them, rows of D, lie in workgroup memory.  The order of additions is that of the others.
// MASK: there is a mask.
struct place {                                      // of an operand
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
    H: u32,                                         // heads of the rows `kept`
    groups: u32,                                    // workgroups
    head_groups: u32,                               // of a head
    shared_by: u32,                                 // heads of q for each of k and v
    scale: f32,
    D: u32,
    fours: u32,                                     // D / 4, rounded up
    first: i32,                                     // query t sees the keys t + first .. t + last
    last: i32,
    @align(16) o: place,
    @align(16) lse: place,
    @align(16) q: place,
    @align(16) k: place,
    @align(16) v: place,
    @align(16) g: place,
    @align(16) delta: place,
    @align(16) dq: place,
    @align(16) dk: place,
    @align(16) dv: place,
    @align(16) mask: place,
}

fn row_of(x: place, b: u32, h: u32, r: u32) -> u32 { return x.offset + b * x.b + h * x.h + r * x.row; }

// query t sees the keys unseen .. seen - 1
fn seen(t: u32) -> u32 { return u32(clamp(i32(t) + p.last + 1, 0, i32(p.S))); }
fn unseen(t: u32) -> u32 { return u32(clamp(i32(t) + p.first, 0, i32(p.S))); }

// the queries earliest .. latest - 1 see key s
fn earliest(s: u32) -> u32 { return u32(max(0, i32(s) - p.last)); }
fn latest(s: u32) -> u32 { return u32(clamp(i32(s) - p.first + 1, 0, i32(p.T))); }

#if MASK
fn mask_of(b: u32, h: u32, t: u32, s: u32) -> f32 { return load_mask(row_of(p.mask, b, h, t) + s * p.mask.column); }
#end

fn exp4(x: vec4<f32>) -> vec4<f32> { return vec4<f32>(f_exp(x.x), f_exp(x.y), f_exp(x.z), f_exp(x.w)); }

var<workgroup> s: array<vec4<f32>, LENGTH>;         // vector d of an invocation: s[d * SIZE + lane]
#if DKV
var<workgroup> r: array<vec4<f32>, LENGTH>;
#end

fn kernel(group: u32, lane: u32, i: u32) {
    if group >= p.groups { return; }
    let head = group / p.head_groups;
    let h = head % p.H;
    let b = head / p.H;
    let first = group % p.head_groups * SIZE;
    let hk = h / p.shared_by;                       // the head of k and v, but for DKV
#if DKV
    let rows = p.S;
#else
    let rows = p.T;
#end
    let mine = first + lane < rows;
    let kept = min(first + lane, rows - 1u);
    for (var d = 0u; d < p.fours; d++) { s[d * SIZE + lane] = vec4<f32>(); }

#if FORWARD
    // m: the largest score so far; l: the sum of exp(score - m)
    let q_at = row_of(p.q, b, h, kept);
    var m = -inf();
    var l = 0.0;
    let begin = unseen(kept);
    let n = seen(kept);
    for (var other = unseen(first); other < seen(min(first + SIZE - 1u, p.T - 1u)); other += FOUR) {
        let at4 = vec4<u32>(other, other + 1u, other + 2u, other + 3u);
        let see = (at4 >= vec4<u32>(begin)) & (at4 < vec4<u32>(n));
#for i FOUR
        let k_at$i = row_of(p.k, b, hk, min(other + $iu, p.S - 1u));
        let v_at$i = row_of(p.v, b, hk, min(other + $iu, p.S - 1u));
#end
        var x = vec4<f32>();
        for (var d = 0u; d < p.fours; d++) {
            let q = load4_q(q_at, 4u * d);
            x += vec4<f32>(dot(q, load4_k(k_at0, 4u * d)), dot(q, load4_k(k_at1, 4u * d)),
                           dot(q, load4_k(k_at2, 4u * d)), dot(q, load4_k(k_at3, 4u * d)));
        }
        x *= p.scale;
#if MASK
#for i FOUR
        x[$i] += mask_of(b, h, kept, min(other + $iu, p.S - 1u));
#end
#end
        x = select(vec4<f32>(-inf()), x, see);
        let most = f_max(m, f_max(f_max(x.x, x.y), f_max(x.z, x.w)));
        let base = select(most, 0.0, is_least(most));
        let keep = f_exp(m - base);
        let share = vec4<f32>(f_exp(x.x - base), f_exp(x.y - base), f_exp(x.z - base), f_exp(x.w - base));
        l = l * keep + ((share.x + share.y) + (share.z + share.w));
        m = most;
        // rows that are not seen may hold NaN, so their products are not added
        for (var d = 0u; d < p.fours; d++) {
            let at = d * SIZE + lane;
            s[at] = s[at] * keep
#for i FOUR
                + select(vec4<f32>(), share[$i] * load4_v(v_at$i, 4u * d), see[$i])
#end
            ;
        }
    }
    if !mine { return; }
    let blind = is_least(m);                        // the query sees no key
    let whole = select(1.0 / l, 0.0, blind);
    store_lse(row_of(p.lse, b, h, kept), select(m + f_log(l), m, blind));
    let o_at = row_of(p.o, b, h, kept);
    for (var d = 0u; d < p.fours; d++) {
        let o = s[d * SIZE + lane] * whole;
        for (var e = 0u; e < min(4u, p.D - 4u * d); e++) { store_o(o_at + 4u * d + e, o[e]); }
    }
#end

#if DQ
    // with share = exp(x - lse), delta = g . o, y = g . v:  ds = share (y - delta),  dq = scale ds
    // k
    let q_at = row_of(p.q, b, h, kept);
    let g_at = row_of(p.g, b, h, kept);
    let o_at = row_of(p.o, b, h, kept);
    var sum = 0.0;
    for (var d = 0u; d < p.fours; d++) { sum += dot(load4_g(g_at, 4u * d), load4_o(o_at, 4u * d)); }
    let delta = vec4<f32>(sum);
    let lse = load_lse(row_of(p.lse, b, h, kept));
    let begin = unseen(kept);
    let n = select(seen(kept), 0u, is_least(lse));
    for (var other = unseen(first); other < seen(min(first + SIZE - 1u, p.T - 1u)); other += FOUR) {
        let at4 = vec4<u32>(other, other + 1u, other + 2u, other + 3u);
        let see = (at4 >= vec4<u32>(begin)) & (at4 < vec4<u32>(n));
#for i FOUR
        let k_at$i = row_of(p.k, b, hk, min(other + $iu, p.S - 1u));
        let v_at$i = row_of(p.v, b, hk, min(other + $iu, p.S - 1u));
#end
        var x = vec4<f32>();
        var y = vec4<f32>();
        for (var d = 0u; d < p.fours; d++) {
            let q = load4_q(q_at, 4u * d);
            x += vec4<f32>(dot(q, load4_k(k_at0, 4u * d)), dot(q, load4_k(k_at1, 4u * d)),
                           dot(q, load4_k(k_at2, 4u * d)), dot(q, load4_k(k_at3, 4u * d)));
            let g = load4_g(g_at, 4u * d);
            y += vec4<f32>(dot(g, load4_v(v_at0, 4u * d)), dot(g, load4_v(v_at1, 4u * d)),
                           dot(g, load4_v(v_at2, 4u * d)), dot(g, load4_v(v_at3, 4u * d)));
        }
        x *= p.scale;
#if MASK
#for i FOUR
        x[$i] += mask_of(b, h, kept, min(other + $iu, p.S - 1u));
#end
#end
        x -= vec4<f32>(lse);
        let share = select(vec4<f32>(), exp4(x), see);
        let ds = share * (y - delta);
        for (var d = 0u; d < p.fours; d++) {
            let at = d * SIZE + lane;
            s[at] = s[at]
#for i FOUR
                + select(vec4<f32>(), ds[$i] * load4_k(k_at$i, 4u * d), see[$i])
#end
            ;
        }
    }
    if !mine { return; }
    store_delta(row_of(p.delta, b, h, kept), sum);
    let dq_at = row_of(p.dq, b, h, kept);
    for (var d = 0u; d < p.fours; d++) {
        let dq = s[d * SIZE + lane] * p.scale;
        for (var e = 0u; e < min(4u, p.D - 4u * d); e++) { store_dq(dq_at + 4u * d + e, dq[e]); }
    }
#end

#if DKV
    // over the queries that see the key:  dv = share g,  dk = scale ds q
    for (var d = 0u; d < p.fours; d++) { r[d * SIZE + lane] = vec4<f32>(); }
    let k_at = row_of(p.k, b, h, kept);
    let v_at = row_of(p.v, b, h, kept);
    for (var sharer = 0u; sharer < p.shared_by; sharer++) {
        let hq = h * p.shared_by + sharer;
        for (var other = earliest(first); other < latest(min(first + SIZE - 1u, p.S - 1u)); other += FOUR) {
            var lse: vec4<f32>;
            var delta: vec4<f32>;
            var see: vec4<bool>;
#for i FOUR
            let t$i = min(other + $iu, p.T - 1u);
            lse[$i] = load_lse(row_of(p.lse, b, hq, t$i));
            delta[$i] = load_delta(row_of(p.delta, b, hq, t$i));
            see[$i] = other + $iu < p.T && kept < seen(t$i) && kept >= unseen(t$i) && !is_least(lse[$i]);
            let q_at$i = row_of(p.q, b, hq, t$i);
            let g_at$i = row_of(p.g, b, hq, t$i);
#end
            var x = vec4<f32>();
            var y = vec4<f32>();
            for (var d = 0u; d < p.fours; d++) {
                let k = load4_k(k_at, 4u * d);
                x += vec4<f32>(dot(k, load4_q(q_at0, 4u * d)), dot(k, load4_q(q_at1, 4u * d)),
                               dot(k, load4_q(q_at2, 4u * d)), dot(k, load4_q(q_at3, 4u * d)));
                let v = load4_v(v_at, 4u * d);
                y += vec4<f32>(dot(v, load4_g(g_at0, 4u * d)), dot(v, load4_g(g_at1, 4u * d)),
                               dot(v, load4_g(g_at2, 4u * d)), dot(v, load4_g(g_at3, 4u * d)));
            }
            x *= p.scale;
#if MASK
#for i FOUR
            x[$i] += mask_of(b, hq, t$i, kept);
#end
#end
            x -= lse;
            let share = select(vec4<f32>(), exp4(x), see);
            let ds = share * (y - delta);
            for (var d = 0u; d < p.fours; d++) {
                let at = d * SIZE + lane;
                s[at] = s[at]
#for i FOUR
                    + select(vec4<f32>(), ds[$i] * load4_q(q_at$i, 4u * d), see[$i])
#end
                ;
                r[at] = r[at]
#for i FOUR
                    + select(vec4<f32>(), share[$i] * load4_g(g_at$i, 4u * d), see[$i])
#end
                ;
            }
        }
    }
    if !mine { return; }
    let dk_at = row_of(p.dk, b, h, kept);
    let dv_at = row_of(p.dv, b, h, kept);
    for (var d = 0u; d < p.fours; d++) {
        let dk = s[d * SIZE + lane] * p.scale;
        let dv = r[d * SIZE + lane];
        for (var e = 0u; e < min(4u, p.D - 4u * d); e++) {
            store_dk(dk_at + 4u * d + e, dk[e]);
            store_dv(dv_at + 4u * d + e, dv[e]);
        }
    }
#end
}
