#!/bin/sh
# deps.sh - system packages that let `make test-all` run whole.  `make demo` and `make test` need none of them.
packages="g++ clang musl-tools qemu-user-static wine pkg-config python3-dev libvulkan1 mesa-vulkan-drivers libpcre2-8-0 emscripten nodejs node-acorn chromium"
missing=""
command -v c++ >/dev/null || missing="$missing g++"
command -v clang >/dev/null || missing="$missing clang"
command -v musl-gcc >/dev/null || missing="$missing musl-tools"
command -v qemu-aarch64-static >/dev/null || missing="$missing qemu-user-static"
command -v wine >/dev/null || missing="$missing wine"
command -v pkg-config >/dev/null || missing="$missing pkg-config"
command -v emcc >/dev/null || missing="$missing emscripten"
command -v node >/dev/null || missing="$missing nodejs"
[ -d /usr/share/nodejs/acorn ] || missing="$missing node-acorn"
command -v chromium >/dev/null || missing="$missing chromium"
command -v dot >/dev/null || missing="$missing graphviz"
python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || missing="$missing python3-dev"
find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*.json' 2>/dev/null | grep -q . || missing="$missing libvulkan1 mesa-vulkan-drivers"
find /lib /usr/lib /usr/local/lib -name 'libpcre2-8.so.0*' 2>/dev/null | grep -q . || missing="$missing libpcre2-8-0"
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

# SwiftShader, a second GPU made of software: a file of Debian's chromium-common that needs nothing of the rest.
fetch() { apt-get download -qq chromium-common >/dev/null 2>&1; }
swiftshader() {
    into=$PWD/build/swiftshader
    folder=$(mktemp -d) && cd "$folder" && { fetch || { apt-get update -qq && fetch; }; } &&
        dpkg-deb --fsys-tarfile chromium-common_*.deb | tar -x --wildcards './usr/lib/*/*vk_swiftshader*' && mkdir -p "$into" && cp usr/lib/*/*vk_swiftshader* "$into"
    status=$?
    rm -rf "$folder"
    return $status
}
if [ -f build/swiftshader/vk_swiftshader_icd.json ] || [ -f /usr/lib/chromium/vk_swiftshader_icd.json ]; then
    echo "deps: SwiftShader is there"
elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null && (swiftshader); then
    echo "deps: SwiftShader is in build/swiftshader"
else
    echo "deps: no SwiftShader to be had; the tests on a second driver will say that they were skipped"
fi
