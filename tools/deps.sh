#!/bin/sh
# deps.sh - system packages that let `make test-all` run whole.  `make demo` and `make test` need none of them.
packages="g++ pkg-config python3-dev libvulkan1 mesa-vulkan-drivers"
missing=""
command -v c++ >/dev/null || missing="$missing g++"
command -v pkg-config >/dev/null || missing="$missing pkg-config"
command -v dot >/dev/null || missing="$missing graphviz"
python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || missing="$missing python3-dev"
find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*.json' 2>/dev/null | grep -q . || missing="$missing libvulkan1 mesa-vulkan-drivers"
if [ -z "$missing" ]; then
    echo "deps: nothing to install ($packages are there)"
elif ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; the tests that need$missing will say that they were skipped"
elif [ "$(id -u)" != 0 ]; then
    echo "deps: not root; run 'sudo apt-get install$missing', or the tests that need them will say that they were skipped"
else
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null &&
        echo "deps: installed$missing" || echo "deps: could not install$missing; the tests that need them will say that they were skipped"
fi
