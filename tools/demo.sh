#!/bin/sh
# demo.sh - trains a small GPT on this repository's own text for half a minute, then it writes.  A demo that was
# stopped goes on; the next one after its end starts anew.
export LC_ALL=C
demo=build/demo
chainrule=build/release/chainrule
mkdir -p $demo
if [ -d $demo/checkpoint ] && ! tail -n 1 $demo/run.jsonl | grep -q '"event":"finish"'; then
    echo "the last demo was stopped: this one resumes it (rm -r $demo: to start anew)"
    exec $chainrule train --resume $demo "$@"
fi
files=$(find README.md CONTRIBUTING.md docs src -name '*.md' -o -name '*.c' ! -name '*.gen.*' | sort)
# Without rulers and columns, which would teach it to draw them.
grep -hv -e '----' $files | sed 's/\([^ ]\)   */\1 /g' > $demo/text.txt
exec $chainrule train --out $demo --overwrite --context 128 --minutes 0.5 --eval-every 500 --data $demo/text.txt "$@"
