#!/bin/sh
# gpu_check.sh - checks chainrule on a machine with an NVIDIA GPU: builds, measures beside PyTorch (eager and compiled),
# runs every suite on the GPU, looks for bad accesses, leaks and races with compute-sanitizer, and reads the counters of a
# step's kernels (ncu).  The suites and the bench of WebGPU run too where wgpu-native and the card's Vulkan driver are
# found.  The figures come first, alone on the GPU.  OUT gets a log of each step and report.md: a line for each step, and
# the tables of bench/run.py; report.json has the same, and gpu_check.tar.gz all of it but the build.  The exit
# status is 0 only if every step has ended well.
# use: [BUILD=folder] [TIMES=1] [QUICK=] [RESUME=] tools/gpu_check.sh OUT
# A C compiler, cmake, ninja, nvcc, compute-sanitizer and python3 with PyTorch are taken from PATH; nothing is
# downloaded.  BUILD: an earlier build; TIMES: multiplies the time limit of each step; RESUME=1: steps of an earlier run
# in OUT that ended well are not run again; QUICK=1: small benches and no compute-sanitizer, for the simulated GPU
# (tests/cudasim), which CHAINRULE_CUDA, CHAINRULE_NVRTC and CHAINRULE_CUBLASLT name.
export LC_ALL=C
[ $# = 1 ] || { echo "use: tools/gpu_check.sh OUT" >&2; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.." || exit 2
build=${BUILD:-$out/build}
[ -n "$RESUME" ] || rm -rf "$out/steps" "$out/bench.json"
mkdir -p "$out/steps"

export CHAINRULE_TEST_CUDA=1 CHAINRULE_WGPU=off CHAINRULE_BUILD="$build"
export CHAINRULE_CACHE="${CHAINRULE_CACHE:-$out/cache}"
export VIRTUAL_ENV="${VIRTUAL_ENV:-$(python3 -c 'import sys; print(sys.prefix)' 2>/dev/null)}"      # where pip puts NVRTC and cuBLASLt
# And where Debian's pip does, whose folder is not of that shape.
LD_LIBRARY_PATH="$(python3 -c 'import nvidia, pathlib; print(*pathlib.Path(nvidia.__path__[0]).glob("*/lib"), sep=":")' 2>/dev/null)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
export PATH="$PATH:/usr/local/cuda/bin"
through_webgpu="env -u CHAINRULE_WGPU CHAINRULE_CUDA=off"
here() { command -v "$1" >/dev/null 2>&1; }

# row NUMBER NAME VERDICT SECONDS WORDS: a line of the report; steps that run at the same time keep their order
row() { echo "| $2 | $3 | $4 | $(echo "$5" | tr '|`' '/ ' | cut -c1-160) |" >"$out/steps/$1"; echo "$2: $3 ($4 s)"; }
without() { row "$1" "$2" "went without" 0 "$3"; }

# step NUMBER NAME SECONDS COMMAND...: its log is OUT/NAME.log, whose last line the report shows.  A step that never ends
# leaves the row "did not end".
step() {
    number=$1 name=$2 limit=$(($3 * ${TIMES:-1})) start=$(date +%s)
    shift 3
    if [ -n "$RESUME" ] && grep -q "^| $name | ok |" "$out/steps/$number" 2>/dev/null; then return; fi
    row "$number" "$name" "did not end" 0 "" >/dev/null
    timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1
    case $? in
        0) verdict=ok ;;
        124 | 137) verdict="out of time ($limit s)" ;;
        *) verdict=FAILED ;;
    esac
    row "$number" "$name" "$verdict" $(($(date +%s) - start)) "$(grep . "$out/$name.log" | tail -n 1)"
}

# ---- what is here
{
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi: card and driver are not known"
    nvcc --version 2>/dev/null | grep release || echo "no nvcc"
    python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "GPU:", torch.cuda.is_available())' 2>/dev/null || echo "no PyTorch"
    echo "chainrule $(git describe --always --dirty 2>/dev/null)"
} >"$out/machine.log"
cat "$out/machine.log"

# ---- build: by this machine's own tools
# shellcheck disable=SC2016  # the inner shell's variables
step 10 build 120 sh -c 'cmake -S . -B "$CHAINRULE_BUILD" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCHAINRULE_PYTHON=ON -DPython_EXECUTABLE="$(command -v python3)" &&
    ninja -C "$CHAINRULE_BUILD" --quiet'

# ---- does it live, and the figures, alone on the GPU: tables that run.py prints, which the report takes from its log
step 18 cuda_demo 60 "$build/examples/cuda_demo" ${QUICK:+64}
model="--layers 12 --heads 12 --width 768 --context 1024 --batch 8"
[ -z "$QUICK" ] || model="--layers 1 --heads 2 --width 32 --context 32 --batch 2"
# shellcheck disable=SC2086  # words
step 20 train 60 "$build/chainrule" train --data docs/howto/*.md --device cuda --dtype bf16 --steps 20 --sample 0 $model \
    --out "$out/trained" --overwrite
step 21 bench 260 python3 bench/run.py ${QUICK:+--quick} --only gpu cuda --write "$out/bench.json" \
    --cuda --rounds 2 --seconds $((170 * ${TIMES:-1}))

adapter=$($through_webgpu "$build/bench/webgpu" --only adapter 2>&1 | head -n 1)
case $adapter in
    *"(discrete)"* | *"(integrated)"* | *"(virtual)"*)
        webgpu=1
        # shellcheck disable=SC2086  # words
        step 22 bench_webgpu 120 $through_webgpu "$build/bench/webgpu" ${QUICK:+--quick} ;;
    *)
        webgpu=
        without 22 webgpu "$adapter" ;;
esac

# ---- the suites, all at once
number=30 full=1
[ -z "$QUICK" ] || full=0
for source in tests/test_cuda*.c tests/test_tiny.c; do
    name=$(basename "$source" .c)
    number=$((number + 1))
    case $name in
        test_cuda_ops | test_cuda_grad) # some 2000 kernels, and exact gradients: as many processes as processors
            step $number "$name" 200 env CHAINRULE_TEST_FULL=$full tools/gpu_shards.sh "$build/tests/$name" \
                cases_exact rows_exact row_mutants & ;;
        *) step $number "$name" 140 "$build/tests/$name" & ;;
    esac
done
step 50 check_gpu 140 python3 tests/check_gpu.py cuda &
number=51
for source in ${webgpu:+tests/test_webgpu*.c}; do
    name=$(basename "$source" .c)
    number=$((number + 1))
    # shellcheck disable=SC2086
    step $number "$name" 140 $through_webgpu CHAINRULE_TEST_GPU=1 "$build/tests/$name" &
done
if here nvcc; then step 51 nvcc 140 python3 tests/cudasim/check_cuda.py & else without 51 nvcc "no nvcc in PATH"; fi
wait

# ---- compute-sanitizer, one test for each kernel family
number=60
for tool in memcheck racecheck synccheck; do
    number=$((number + 1))
    if [ -n "$QUICK" ]; then without $number $tool "QUICK"; else step $number $tool 200 tools/gpu_sanitize.sh $tool "$build" & fi
done
wait

# ---- counters: the share of the GPU's speed and bandwidth that each kernel of a warm training step reaches
if [ -n "$QUICK" ]; then without 70 counters "QUICK"
elif here ncu; then
    step 70 counters 120 ncu --target-processes all --section SpeedOfLight --launch-skip 1500 --launch-count 150 --csv \
        python3 bench/cuda.py --only train --eager --rounds 1 --batch 8
else without 70 counters "no ncu in PATH"; fi

{
    echo "# $(head -n 1 "$out/machine.log")"
    echo
    echo "$(date +%F), made by \`tools/gpu_check.sh\`."
    echo
    sed 's/^/* /' "$out/machine.log"
    echo
    echo "| step | verdict | seconds | the last it said |"
    echo "|---|---|--:|---|"
    cat "$out"/steps/*
    echo
    sed -n '/^## /,$p' "$out/bench.log" 2>/dev/null
} >"$out/report.md"
echo "$out/report.md"
python3 tools/gpu_report.py "$out" || exit 1
! grep -q "FAILED\|out of time\|did not end" "$out"/steps/*
