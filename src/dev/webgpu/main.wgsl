// main.wgsl - the entry point of every kernel: calls kernel(group, lane, i), the number of the
// workgroup, the number of the invocation in it, and the number among all invocations.
//
// SUBGROUPS, the size of all subgroups: lane follows from the index in the subgroup, as tree.wgsl
// needs it.
#if MEASURE
var<private> subgroup_size: u32;
var<private> subgroups: u32;
#end
@compute @workgroup_size(SIZE)
fn main(
#if MEASURE
    @builtin(subgroup_size) one_size: u32,
    @builtin(num_subgroups) count: u32,
#end
#if SUBGROUPS
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) member: u32,
#end
    @builtin(local_invocation_index) invocation: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
#if SUBGROUPS
    let lane = subgroup * SUBGROUPS + member;
#else
    let lane = invocation;
#end
#if MEASURE
    subgroup_size = one_size;
    subgroups = count;
#end
    let group = workgroup.y * workgroups.x + workgroup.x;
    kernel(group, lane, group * SIZE + lane);
}
