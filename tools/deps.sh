
# SwiftShader, a second GPU made of software: a file of Debian's chromium-common that needs nothing of the rest.
swiftshader() {
    into=$PWD/build/swiftshader
    folder=$(mktemp -d) && cd "$folder" && apt-get download -qq chromium-common >/dev/null 2>&1 &&
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
