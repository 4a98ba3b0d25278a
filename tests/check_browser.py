"""The op suite in a headless Chromium: what the WebGPU device does in the C tests, repeated by the browser.

    check_browser.py                    the programs below
    check_browser.py PROGRAM [TEST]     one of them, and of its tests those whose name holds TEST

Each program runs on SwiftShader's Vulkan driver and keeps its calls (tests/keep_calls.h): data written, kernels,
dispatches, and all that the host read.  The page tests/replay.html repeats them on Chromium's own device, through
Chrome's compiler and checks, and compares every word that was read.  All bits must be the same.  A bit that is
changed in the calls must be found."""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path

from browser import ROOT, SKIPPED, WITHOUT, find_browser, in_browser, test_program

RUNS = [["test_webgpu_ops"], ["test_webgpu_grad"], ["test_webgpu", "gpt"]]
PLANTED = ("test_webgpu_ops", "made")
READ = 10  # the kind of record


def driver() -> dict[str, str] | None:
    """The browser's own: tools/deps.sh, or Debian's package chromium-common."""
    for folder in (ROOT / "build" / "swiftshader", Path("/usr/lib/chromium")):
        path = folder / "vk_swiftshader_icd.json"
        if path.is_file():
            return {"VK_DRIVER_FILES": str(path), "VK_ICD_FILENAMES": str(path)}
    return None


def change_a_bit(calls: bytes) -> bytes:
    """In the data of the first read."""
    at = 0
    while at < len(calls):
        kind, numbers, size, _ = struct.unpack_from("<4I", calls, at)
        at += 16 + 8 * numbers
        if kind == READ and size:
            return calls[:at] + bytes([calls[at] ^ 1]) + calls[at + 1 :]
        at += (size + 7) // 8 * 8
    return calls


def counts(found: dict[str, object], *names: str) -> str:
    return ", ".join(f"{found.get(name, 0)} {name}" for name in names)


def problems_of(found: dict[str, object]) -> list[str]:
    """What the page found, a line each."""
    if "reads" not in found:
        return [str(found.get("problem"))]
    different = found["different"]
    assert isinstance(different, list) and isinstance(found["problems"], list)
    lines = [str(problem) for problem in found["problems"]]
    for one in different:
        place = f"{one['count']} of {one['of']} words, the first at {one['first']}"
        lines.append(f"{one['test']}: {place}: {one['got']:#010x}, wanted {one['want']:#010x}\n{one['text']}")
    if found["more"]:
        lines.append(f"{found['more']} more reads differ")
    return lines


def main() -> int:
    browser, vulkan = find_browser(), driver()
    if browser is None or vulkan is None:
        print(f"the op suite in a browser: {WITHOUT if browser is None else 'no SwiftShader here (make deps)'}")
        return SKIPPED
    page, failed = (ROOT / "tests" / "replay.html").read_text(), 0
    runs = [sys.argv[1:]] if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory(prefix="chainrule-calls-") as folder:
        calls = Path(folder) / "calls"
        for words in runs:
            problem = test_program(*words, CHAINRULE_TEST_CALLS=str(calls), **vulkan)
            found = in_browser(browser, page, {"calls": calls})
            problems = ([problem] if problem else []) + problems_of(found)
            failed += bool(problems)
            for line in problems:
                print(f"FAILED {' '.join(words)}: {line}")
            print(f"report {' '.join(words)} in Chromium: {counts(found, 'pipelines', 'dispatches', 'reads', 'words')}")
        test_program(*PLANTED, CHAINRULE_TEST_CALLS=str(calls), **vulkan)
        found = in_browser(browser, page, {"calls": change_a_bit(calls.read_bytes())})
        if len(problems_of(found)) != 1:
            failed += 1
            print(f"FAILED a changed bit was not found: {found}")
    print(f"result: {len(runs) + 1 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
