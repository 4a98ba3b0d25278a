#!/bin/sh
# demo.sh - trains a small GPT on this repository's own text: one to two minutes on two cores, then it writes.
export LC_ALL=C
files=$(find README.md CONTRIBUTING.md docs src -name '*.md' -o -name '*.c' ! -name '*.gen.*' | sort)
exec build/release/chainrule train --out build/demo --overwrite --context 128 --data $files "$@"
