// order.wgsl - rows of x (M, R) in order, by RANK, or by SORT_TILE, MERGE and TAKE; or one element
// of each row, by SELECT.  ONE: element kth of each row instead of the first K.  VALUES: y is
// wanted.  FLOAT: there may be NaN.  An entry is a position with its key of one word, or WIDE, of
// two.
struct parameters {
    zero: u32,
    M: u32,
    R: u32,
    K: u32,
    x: u32,                                         // offsets
    index: u32,
    y: u32,
    kth: u32,                                       // or MEDIAN, NANMEDIAN
    run: u32,                                       // elements of a run
    kept: u32,                                      // entries kept of a run
    runs: u32,                                      // of a row
    merged: u32,                                    // entries kept of a merged run
}

#if KEYS
fn key(at: u32) -> vec2<u32> { return key_of(load_x(p.x + at)); }
#end

// kth of a row with so many elements that are not NaN
fn chosen(numbers: u32) -> u32 {
    if p.kth == MEDIAN { return select((p.R - 1u) / 2u, numbers, numbers < p.R); }
    if p.kth == NANMEDIAN { return select(0u, (numbers - 1u) / 2u, numbers > 0u); }
    return p.kth;
}

#if RESULTS
// result o is element r of row m
fn store_result(o: u32, m: u32, r: u32) {
    store_index(p.index + o, vec2<u32>(r, 0u));
#if VALUES
    store_y(p.y + o, moved_x(p.x + m * p.R + r));
#end
}
#end

#if RANK
// an invocation for each element: its rank is the number of elements before it
fn kernel(group: u32, lane: u32, i: u32) {
    let m = i / p.R;
    let r = i % p.R;
    if m >= p.M { return; }
    let mine = key(i);
    var rank = 0u;
    var numbers = 0u;
    for (var k = 0u; k < p.R; k++) {
        let other = key(m * p.R + k);
        let later = less_u64(mine, other);
        if !later && (k < r || less_u64(other, mine)) { rank++; }
#if FLOAT
        if other.x != 0xffffffffu { numbers++; }
#else
        numbers++;
#end
    }
#if ONE
    if rank != chosen(numbers) { return; }
    store_result(m, m, r);
#else
    if rank >= p.K { return; }
    store_result(m * p.K + rank, m, r);
#end
}
#end

// ---- entries
#if WIDE
alias entry = vec3<u32>;
fn before(a: entry, b: entry) -> bool { return less_u64(a.yz, b.yz); }
fn entry_of(r: u32, key: vec2<u32>) -> entry { return entry(r, key); }
#else
alias entry = vec2<u32>;
fn before(a: entry, b: entry) -> bool { return a.y < b.y; }
fn entry_of(r: u32, key: vec2<u32>) -> entry { return entry(r, key.x); }
#end

#if MERGES
// How many entries of run a are among the first d of a and b merged; equal entries of a come
// first.  Runs begin at a and b and have la and lb entries (merge path: Odeh and others 2012).
fn split(a: u32, la: u32, b: u32, lb: u32, d: u32) -> u32 {
    var low = select(0u, d - lb, d > lb);
    var high = min(d, la);
    while low < high {
        let middle = (low + high) / 2u;
        let after = before(load_entry(b + d - 1u - middle), load_entry(a + middle));
        if after { high = middle; } else { low = middle + 1u; }
    }
    return low;
}
#end

// Run q of a row lies from element q kept on.  A row has min(R, runs kept) entries, one after
// another, since only the last run may have fewer than `kept`.

#if SORT_TILE
// A workgroup sorts TILE elements of one row, MINE for each invocation; missing elements at the end
// come last.
var<workgroup> tile: array<entry, TILE>;
fn load_entry(i: u32) -> entry { return tile[i]; }

fn kernel(group: u32, lane: u32, i: u32) {
    let m = group / p.runs;
    let t = group % p.runs;
    let first = MINE * lane;
    if m >= p.M { return; }
    var e: array<entry, MINE>;
    for (var k = 0u; k < MINE; k++) {
        let r = t * TILE + first + k;
        if r < p.R { e[k] = entry_of(r, key(m * p.R + r)); } else { e[k] = entry(0xffffffffu); }
    }
    // odd-even transposition sort
    for (var k = 0u; k < MINE; k++) {
        for (var j = k & 1u; j < MINE - 1u; j += 2u) {
            if before(e[j + 1u], e[j]) {
                let x = e[j];
                e[j] = e[j + 1u];
                e[j + 1u] = x;
            }
        }
    }
    for (var half = MINE; half < TILE; half *= 2u) {
        for (var k = 0u; k < MINE; k++) { tile[first + k] = e[k]; }
        workgroupBarrier();
        let a = first / (2u * half) * (2u * half);
        let b = a + half;
        var i = a + split(a, half, b, half, first - a);
        var j = first - i + b;
        for (var k = 0u; k < MINE; k++) {
            if j >= b + half || (i < b && !before(tile[j], tile[i])) {
                e[k] = tile[i];
                i++;
            } else {
                e[k] = tile[j];
                j++;
            }
        }
        workgroupBarrier();
    }
    let row = m * min(p.R, p.runs * p.kept);
    for (var k = 0u; k < MINE; k++) {
        if first + k < min(p.kept, p.R - t * TILE) { store_merged(row + t * p.kept + first + k, e[k]); }
    }
}
#end

#if MERGE
// Runs 2q and 2q + 1 of a row become run q.  An invocation writes MERGED entries.
fn size(run: u32) -> u32 {
    let start = run * p.run;
    return min(min(p.run, p.R - min(start, p.R)), p.kept);
}

fn kernel(group: u32, lane: u32, i: u32) {
    let parts = (p.merged + MERGED - 1u) / MERGED;
    let runs = (p.runs + 1u) / 2u;
    let d = i % parts * MERGED;
    let q = i / parts % runs;
    let m = i / parts / runs;
    if m >= p.M { return; }
    let la = size(2u * q);
    let lb = size(2u * q + 1u);
    let end = min(min(d + MERGED, la + lb), p.merged);
    if d >= end { return; }
    let a = m * min(p.R, p.runs * p.kept) + 2u * q * p.kept;
    let b = a + p.kept;
    let first = m * min(p.R, runs * p.merged) + q * p.merged;
    let taken = split(a, la, b, lb, d);
    var j = a + taken;
    var k = b + d - taken;
    for (var o = d; o < end; o++) {
        if k >= b + lb || (j < a + la && !before(load_entry(k), load_entry(j))) {
            store_merged(first + o, load_entry(j));
            j++;
        } else {
            store_merged(first + o, load_entry(k));
            k++;
        }
    }
}
#end

#if TAKE
// the results from the entries of sorted rows
fn kernel(group: u32, lane: u32, i: u32) {
#if ONE
    let m = i;
    if m >= p.M { return; }
    var low = 0u;
    var high = p.K;
#if FLOAT
    while low < high {                              // NaN are last
        let middle = (low + high) / 2u;
        if load_entry(m * p.K + middle).y == 0xffffffffu { high = middle; } else { low = middle + 1u; }
    }
#end
    store_result(i, m, load_entry(m * p.K + chosen(high)).x);
#else
    let m = i / p.K;
    if m >= p.M { return; }
    store_result(i, m, load_entry(i).x);
#end
}
#end

#if SELECT
// A workgroup finds the digits of the key of a row's kth element, DIGITS of 8 bits from the highest
// on, by counting the digits of the keys that agree so far.  Equal keys are in the order of their
// positions.
var<workgroup> bins: array<atomic<u32>, 256>;
var<workgroup> digit: u32;
var<workgroup> left: u32;

fn kernel(group: u32, lane: u32, i: u32) {
    let m = group;
    let R = p.R;
    let row = m * R;
    if m >= p.M { return; }
    var numbers = R;
#if FLOAT
    var n = 0u;
    for (var r = lane; r < R; r += 256u) {
        if key(row + r).x != 0xffffffffu { n++; }
    }
    if lane == 0u { atomicStore(&bins[0], 0u); }
    workgroupBarrier();
    atomicAdd(&bins[0], n);
    workgroupBarrier();
    numbers = atomicLoad(&bins[0]);
    workgroupBarrier();
#end
    var rank = chosen(numbers);
    var known = vec2<u32>();
    var mask = vec2<u32>();
    for (var d = DIGITS; d > 0u; d--) {
        let shift = 8u * ((d - 1u) & 3u);
        let half = select(vec2<u32>(1u, 0u), vec2<u32>(0u, 1u), d > 4u);
        atomicStore(&bins[lane], 0u);
        workgroupBarrier();
        for (var r = lane; r < R; r += 256u) {
            let k = key(row + r);
            if all((k & mask) == known) { atomicAdd(&bins[(select(k.x, k.y, d > 4u) >> shift) & 255u], 1u); }
        }
        workgroupBarrier();
        if lane == 0u {
            var b = 0u;
            var rest = rank;
            for (; b < 255u; b++) {
                let n = atomicLoad(&bins[b]);
                if rest < n { break; }
                rest -= n;
            }
            digit = b;
            left = rest;
        }
        workgroupBarrier();
        known |= half * (digit << shift);
        mask |= half * (255u << shift);
        rank = left;
        workgroupBarrier();
    }
    // each invocation counts the key in a part of the row; the parts before it tell whether it has
    // the wanted one
    let each = (R + 255u) / 256u;
    let first = min(lane * each, R);
    let end = min(first + each, R);
    var mine = 0u;
    for (var r = first; r < end; r++) {
        if all(key(row + r) == known) { mine++; }
    }
    atomicStore(&bins[lane], mine);
    workgroupBarrier();
    var earlier = 0u;
    for (var l = 0u; l < lane; l++) { earlier += atomicLoad(&bins[l]); }
    if rank < earlier || rank - earlier >= mine { return; }
    rank -= earlier;
    var r = first;
    for (; r < end; r++) {
        if all(key(row + r) == known) {
            if rank == 0u { break; }
            rank--;
        }
    }
    store_result(m, m, r);
}
#end
