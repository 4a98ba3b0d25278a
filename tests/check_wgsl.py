"""Every WGSL text of the op suite, compiled by Chrome's compiler in a headless Chromium.

    check_wgsl.py                runs the C tests of the WebGPU device, with subgroups and without, keeps each text
                                 that they compile, and gives all to Chromium
    check_wgsl.py FOLDER         compiles the *.wgsl of a folder

Chromium makes a module and a compute pipeline of each text, so the checks of its WebGPU apply too: uniform
control flow, workgroup memory, bindings.  A text must pass without an error, on a device with the adapter's
limits and on one with WebGPU's default limits, unless it binds more buffers than those allow: the library makes such
texts only where the adapter binds as many (cr_gpu_attention_takes).  Two planted texts must fail."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from browser import DIRECTIVE, SKIPPED, WITHOUT, find_browser, in_browser, test_program

PROGRAMS = "test_webgpu_ops test_webgpu_grad test_webgpu_order test_webgpu_chain test_webgpu_packed test_webgpu".split()

# What Chrome must reject: a barrier behind control flow that depends on a private variable; a mistake of syntax.
PLANTED = {
    "a barrier that is not uniform": """
var<private> width: u32;
var<workgroup> x: array<u32, 64>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
    width = y[i];
    for (var n = 64u; n > width; n /= 2u) { x[i] = n; workgroupBarrier(); }
    y[i] = x[63u - i];
}""",
    "a mistake": "@compute @workgroup_size(64) fn main() { let x = ; }",
}

PAGE = """<!doctype html><meta charset="utf-8"><script>
const post = (what) => fetch("/result", {method: "POST", body: JSON.stringify(what)});
async function compile(device, text) {
    device.pushErrorScope("validation");
    const module = device.createShaderModule({code: text});
    const messages = (await module.getCompilationInfo()).messages.filter((m) => m.type === "error");
    let error = messages.length ? `${messages[0].lineNum}:${messages[0].linePos} ${messages[0].message}` : "";
    if (!error) {
        try {
            await device.createComputePipelineAsync({layout: "auto", compute: {module}});
        } catch (problem) {
            error = String(problem.message);
        }
    }
    const scope = await device.popErrorScope();
    return error || (scope ? scope.message : "");
}
(async () => {
    if (!navigator.gpu) return post({problem: "this browser has no WebGPU"});
    const adapter = await navigator.gpu.requestAdapter();
    if (!adapter) return post({problem: "this browser has no adapter"});
    const subgroups = adapter.features.has("subgroups");
    const names = ["maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize"];
    const limits = Object.fromEntries(names.map((name) => [name, adapter.limits[name]]));
    const requiredFeatures = subgroups ? ["subgroups"] : [];
    const device = await adapter.requestDevice({requiredFeatures, requiredLimits: limits});
    const plain = await (await navigator.gpu.requestAdapter()).requestDevice({requiredFeatures});
    const texts = await (await fetch("/texts")).json();
    const errors = {};
    for (const [name, text] of Object.entries(texts)) {
        errors[name] = await compile(device, text);
        const buffers = (text.match(/var<storage/g) || []).length;
        const fits = !errors[name] && buffers <= plain.limits.maxStorageBuffersPerShaderStage;
        const usual = fits ? await compile(plain, text) : "";
        if (usual) errors[name] = `with the default limits: ${usual}`;
    }
    await post({info: `${adapter.info.vendor} ${adapter.info.architecture}`, subgroups, errors});
})().catch((problem) => post({problem: String(problem)}));
</script>"""


def kept_texts(folder: str) -> list[str]:
    """Runs the C tests, whose texts are kept in the folder; the problems."""
    runs = [("1", program) for program in PROGRAMS] + [("0", PROGRAMS[0])]
    problems = (
        test_program(program, CHAINRULE_TEST_WGSL=folder, CHAINRULE_TEST_WGSL_SUBGROUPS=subgroups)
        for subgroups, program in runs
    )
    return [problem for problem in problems if problem]


def read(folder: Path) -> dict[str, str]:
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.wgsl"))}
    return {name: (DIRECTIVE if "subgroup" in text else "") + text for name, text in texts.items()}


def report(found: dict[str, object], texts: dict[str, str], problems: list[str]) -> int:
    errors = found.get("errors")
    if not isinstance(errors, dict):
        problems.append(str(found.get("problem")))
        errors = {}
    failed = 0
    for name in texts:
        error = errors.get(name, "no answer")
        if name in PLANTED:
            if not error:
                problems.append(f"the planted text '{name}' was accepted")
        elif error:
            failed += 1
            lines = texts[name].splitlines()
            at = error.split(":")[0]
            line = lines[int(at) - 1].strip() if at.isdigit() and 0 < int(at) <= len(lines) else ""
            print(f"FAILED {name}: {error}\n    {line}" if failed <= 20 else "", end="\n" if failed <= 20 else "")
    for problem in problems:
        print(f"FAILED {problem}")
    kept = len(texts) - len(PLANTED)
    if not kept:
        problems.append("no text")
    print(f"report {kept - failed} of {kept} WGSL texts pass Chrome's compiler ({found.get('info', '')})")
    print(f"result: {kept - failed} passed, {failed + len(problems)} failed, 0 skipped")
    return 1 if failed or problems else 0


def main() -> int:
    browser = find_browser()
    if browser is None:
        print(f"kernels by Chrome's compiler: {WITHOUT}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="chainrule-wgsl-") as folder:
        problems = [] if len(sys.argv) > 1 else kept_texts(folder)
        texts = {**read(Path(sys.argv[1] if len(sys.argv) > 1 else folder)), **PLANTED}
        return report(in_browser(browser, PAGE, {"texts": json.dumps(texts).encode()}), texts, problems)


if __name__ == "__main__":
    sys.exit(main())
