// search.wgsl - y[i] = the position of v[i] in its sorted row of x (or in the only row): the first
// element that is not less, or RIGHT, the first that is greater.
struct parameters {
    zero: u32,
    count: u32,                                     // results
    R: u32,
    K: u32,                                         // results of a row
    y: u32,                                         // offsets
    x: u32,
    v: u32,
    row: u32,                                       // elements from one row of x to the next; 0: there is one row
}

fn kernel(group: u32, lane: u32, i: u32) {
    if i >= p.count { return; }
    let wanted = key_of(load_v(p.v + i));
    let row = p.x + i / p.K * p.row;
    var low = 0u;
    var high = p.R;
    while low < high {
        let middle = (low + high) / 2u;
        let key = key_of(load_x(row + middle));
#if RIGHT
        let after = !less_u64(wanted, key);
#else
        let after = less_u64(key, wanted);
#end
        if after { low = middle + 1u; } else { high = middle; }
    }
    store_y(p.y + i, vec2<u32>(low, 0u));
}
