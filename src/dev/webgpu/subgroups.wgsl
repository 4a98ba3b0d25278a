// subgroups.wgsl - the size of the subgroups: found[0] becomes the largest, found[1] SIZE minus the
// smallest; found[2] becomes 1 where a workgroup is not made of whole subgroups.
struct parameters { zero: u32 }

fn kernel(group: u32, lane: u32, i: u32) {
    atomicMax(&found[0], subgroup_size);
    atomicMax(&found[1], SIZE - subgroup_size);
    if subgroup_size * subgroups != SIZE { atomicOr(&found[2], 1u); }
}
