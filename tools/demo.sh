#!/bin/sh
# demo.sh - trains a small GPT on this repository's own text: one to two minutes on two cores, then it writes.
export LC_ALL=C
mkdir -p build/demo
files=$(find README.md CONTRIBUTING.md docs src -name '*.md' -o -name '*.c' ! -name '*.gen.*' | sort)
grep -hv -e '----' $files > build/demo/text.txt       # rulers would teach it to draw rulers
exec build/release/chainrule train --out build/demo --overwrite --context 128 --data build/demo/text.txt "$@"
