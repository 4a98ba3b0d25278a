// tree.wgsl - tree<t>(lane, v): the v of all invocations of a workgroup of SIZE, joined by
// join<t>(a, b); t < TREES.
//
// The order is fixed: neighbours first, then pairs of neighbours, and so on.  It is the same with
// subgroups of any size and without, so the bits are the same.  Values have the type V.  The kernel
// defines V, TREES and the functions join<t>.
var<workgroup> tree: array<V, SIZE>;
#if SUBGROUPS
var<private> offset: u32;                           // of the half of `tree` that the next exchange uses
#end

#for t TREES
fn tree$t(lane: u32, v: V) -> V {
#if SUBGROUPS
    // Each subgroup joins its values and leaves the result in workgroup memory; its first
    // invocations join these, and so on.  Exchanges alternate between the halves of `tree`, so that
    // one barrier each is enough.
    var x = v;
    var n = SIZE;
    loop {
        let count = min(n, SUBGROUPS);
        n /= count;
        for (var half = 1u; half < count; half *= 2u) {
            let y = subgroupShuffleXor(x, half);
            let low = (lane & half) == 0u;
            x = join$t(select(y, x, low), select(x, y, low));
        }
        if n == 1u { break; }
        offset ^= SIZE / 2u;
        if lane < n * count && lane % count == 0u { tree[offset + lane / count] = x; }
        workgroupBarrier();
        x = tree[offset + lane % n];
    }
    return x;
#else
    // The same pairs: with bit-reversed positions, neighbours lie half the workgroup apart.
    tree[reverseBits(lane) >> 24u] = v;
    for (var half = SIZE / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if lane < half { tree[lane] = join$t(tree[lane], tree[lane + half]); }
    }
    workgroupBarrier();
    let all = tree[0];
    workgroupBarrier();
    return all;
#end
}
#end
