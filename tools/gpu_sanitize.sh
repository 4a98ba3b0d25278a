#!/bin/sh
# gpu_sanitize.sh - runs tests of each kernel family under one tool of compute-sanitizer.  Fails unless every program
# ends with status 0 and the tool's own summary is there and counts nothing.
# use: tools/gpu_sanitize.sh memcheck|racecheck|synccheck|initcheck BUILD
export LC_ALL=C
[ $# = 2 ] || { echo "use: tools/gpu_sanitize.sh TOOL BUILD" >&2; exit 2; }
tool=$1 build=$2 options= clean="ERROR SUMMARY: 0 errors"
case $tool in
    memcheck) # each tensor is an allocation of its own: in a segment of the pool the next one would hide an overrun
        options="--leak-check full"
        export CHAINRULE_GPU_POOL=off
        ;;
    racecheck) clean="RACECHECK SUMMARY: 0 hazards" ;;
    synccheck | initcheck) ;;
    *) echo "unknown tool: $tool" >&2; exit 2 ;;
esac
command -v compute-sanitizer >/dev/null 2>&1 || { echo "compute-sanitizer is not in PATH" >&2; exit 1; }
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT

# variables with ; between them or -, a test program, and words of the names of its tests; none: all.
# tests/cudasim/check_families.py counts that every kernel of every .cu file runs.
families="- test_tiny
- test_cuda_kernels rows norm_gradients selection first_of_many many_indices batch_norms tiles total_norm precision linear_gelu
CHAINRULE_CUBLASLT=off test_cuda_kernels linear_gelu
- test_cuda_kernels convolutions
- test_cuda_hopper hopper_attention
- test_cuda_attention attention_plain attention_tensor_cores attention_split attention_groups
- test_cuda_factor factors bad_matrices
- test_cuda_order sorts searches exact_scans float_scans samples runs_and_masks
CHAINRULE_TEST_FULL=1;CHAINRULE_TEST_OPS=max_pool,linear_packed,unpack,band,nonzero,argmax,index_add,index_put,put,index_get test_cuda_ops cases
- test_cuda_ops random_functions"

bad=0
while read -r variables program tests; do
    [ "$variables" != - ] || variables=
    # shellcheck disable=SC2046,SC2086  # words of their own
    env $(echo "$variables" | tr ';' ' ') compute-sanitizer --tool "$tool" $options --error-exitcode 9 "$build/tests/$program" $tests >"$log" 2>&1 </dev/null
    status=$? said=$(grep "SUMMARY" "$log" | sed 's/^=* *//' | tr '\n' ';')
    [ $status = 0 ] && grep -q "$clean" "$log" && ! grep -q "LEAK SUMMARY: [1-9]" "$log" && continue
    cat "$log"
    bad=$((bad + 1)) last="$program: exit status $status, ${said:-no summary}"
done <<EOF
$families
EOF
[ $bad = 0 ] && { echo "$tool: clean"; exit 0; }
echo "$tool: $bad of the programs: $last"
exit 1
