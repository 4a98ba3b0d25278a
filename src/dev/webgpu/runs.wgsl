// runs.wgsl - runs of equal rows of x (R, C).  BEGINS: begins[r] = 1 where row r differs from the
// row before.  Otherwise, from begun, the running sum of these: where each run starts, how many
// there are, and (RUN) the run of each row, (ORDERED) of each row before it was sorted.
struct parameters {
    zero: u32,
    count: u32,                                     // invocations: R C, or R
    C: u32,
    x: u32,                                         // offsets
    starts: u32,
    number: u32,
    run: u32,
    order: u32,
}

#if BEGINS
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let x = load_x(p.x + i);
    let above = load_x(p.x + max(i, p.C) - p.C);
    var differs = i < p.C || any(key_of(x) != key_of(above));
#if FLOAT
    differs |= is_nan(x);
#end
    if differs { begins_set(2u * (i / p.C), 1u); }  // several invocations may write the same 1
}
#else
fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let n = load_begun(i).x;
    if i == 0u || load_begun(max(i, 1u) - 1u).x != n { store_starts(p.starts + n - 1u, vec2<u32>(i, 0u)); }
    if i + 1u == p.count { store_number(p.number, vec2<u32>(n, 0u)); }
#if RUN
#if ORDERED
    let row = load_order(p.order + i).x;
#else
    let row = i;
#end
    store_run(p.run + row, vec2<u32>(n - 1u, 0u));
#end
}
#end
