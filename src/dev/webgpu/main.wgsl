// main.wgsl - the entry point of every kernel: calls kernel(group, lane, i), the number of the
// workgroup, the number of the invocation in it, and the number among all invocations.
//
// SUBGROUPS: lane follows from the place in the subgroup, as tree.wgsl needs it.  `width` is the
// size of a subgroup, or 0 where subgroups are not full or too small to be faster.
@compute @workgroup_size(SIZE)
fn main(
#if SUBGROUPS
    @builtin(subgroup_size) subgroup_size: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) member: u32,
#end
    @builtin(local_invocation_index) invocation: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    var lane = invocation;
#if SUBGROUPS
    width = select(0u, subgroup_size, subgroup_size >= 4u && subgroup_size * subgroups == SIZE);
    lane = select(invocation, subgroup * subgroup_size + member, width > 0u);
#end
    let group = workgroup.y * workgroups.x + workgroup.x;
    kernel(group, lane, group * SIZE + lane);
}
