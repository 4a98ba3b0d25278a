#!/bin/sh
# gpu_shards.sh - runs each test of a program in a process of its own, as many at a time as there are processors; the
# tests that are named after it are divided into as many parts (CHAINRULE_TEST_SHARD).  Ends with the sum of the result
# lines; fails where a process fails or says no result.
# use: tools/gpu_shards.sh PROGRAM [TEST ...]
export LC_ALL=C
[ $# -ge 1 ] || { echo "use: tools/gpu_shards.sh PROGRAM [TEST ...]" >&2; exit 2; }
program=$1
shift
parts=$(nproc 2>/dev/null || echo 2)
logs=$(mktemp -d) || exit 2
trap 'rm -rf "$logs"' EXIT
tests=$("$program" -l) || { echo "$program -l fails"; exit 1; }
export program logs

# lines of "part/parts test"
for test in $tests; do
    long=
    for name; do [ "$name" = "$test" ] && long=yes; done
    if [ -n "$long" ]; then i=0; while [ $i -lt "$parts" ]; do echo "$i/$parts $test"; i=$((i + 1)); done
    else echo "0/1 $test"
    fi
done >"$logs/work"
# shellcheck disable=SC2016  # the inner shell's variables
xargs -n 2 -P "$parts" sh -c '
    log=$logs/$1.$(echo "$0" | tr / -).log
    [ "$0" = 0/1 ] || export CHAINRULE_TEST_SHARD="$0"
    "$program" "$1" >"$log" 2>&1 && grep -q "^result: " "$log" || echo "$1 $0" >>"$logs/failed"' <"$logs/work"

# a name may be a part of others: what a process ran counts once for each process, which does no harm
if [ -s "$logs/failed" ]; then
    while read -r test part; do
        echo "==== $test, part $part"
        tail -n 20 "$logs/$test.$(echo "$part" | tr / -).log"
    done <"$logs/failed"
fi
cat "$logs"/*.log | awk -v bad="$(cat "$logs/failed" 2>/dev/null | wc -l)" '/^result: / { p += $2; f += $4; s += $6 }
    END { if (bad > f) f = bad; printf "result: %d passed, %d failed, %d skipped\n", p, f, s; exit !(p && !f) }'
