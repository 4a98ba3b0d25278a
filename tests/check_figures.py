"""docs/benchmarks.md is what bench/results.json gives, and has the figures of README.md and docs/performance.md.

FIGURES has a text of a page with fields, each a figure of results.json: {name} in the format that the page uses. Every
number in the parts of the pages that FIGURES guards is inside one of these texts, or is no figure (NO_FIGURES)."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MOST = 200  # lines of the page
RESULTS = json.loads((ROOT / "bench" / "results.json").read_text())
GUARDED = {  # page -> from where to where each number is a figure
    "README.md": ("| two cores", "* **PyTorch scripts run"),
    "docs/performance.md": ("## Bounds", "## Pitfalls"),
}
NO_FIGURES = (
    r"x86-64-v4|GPT-2|124M|135M|bf16|f32|4 x 64|AVX2|4 bits|8 bits|1,000 tokens|6 x 384|4 layers x 128|T = \d+"
    r"|1, 2 and 3 threads PyTorch gave three|after the same 20 steps"
)


def row(part: str, what: str, unit: str, isa: str = "") -> dict[str, Any]:
    """The first that matches: of a step the median, which the least time follows."""
    rows: list[dict[str, Any]] = RESULTS[part]["rows"]
    return next(r for r in rows if (r["what"], r["unit"], r.get("isa", "")) == (what, unit, isa))


def ours(part: str, what: str, unit: str, isa: str = "") -> float:
    return float(row(part, what, unit, isa)["ours"])


def peer(name: str, part: str, what: str, unit: str, isa: str = "") -> float:
    return float(row(part, what, unit, isa)["peers"][name])


def share(part: str, what: str, unit: str, isa: str = "") -> float:
    return 100 * float(row(part, what, unit, isa)["share"])


def squares(dtype: str) -> tuple[float, float]:
    """Geometric mean and least share of the peak in percent."""
    group = f"products: squares and GPT-2's shapes, {dtype}"
    shares = [100 * r["share"] for r in RESULTS["products"]["rows"] if r.get("group") == group]
    return statistics.geometric_mean(shares), min(shares)


def replay(case: str) -> float:
    which = ("replays", f"{case}, replay", "ms", "AVX-512")
    return peer("op by op", *which) / ours(*which)


STEP = ("step", "GPT-2 124M, 4 x 64, f32", "ms")
MEMORY = ("step", "GPT-2 124M, 4 x 64, f32, memory", "MB")
PROMPT = ("llm-124m", "a prompt of 1,000 tokens, bf16", "ms", "AVX2")
LLAMA = ("llm-135m", "Llama of 135M, int4", "tokens/s", "AVX2")
FAMILIES = (ROOT / "src" / "models" / "family.c").read_text(encoding="utf-8").count('    {.kind = "')  # rows
BUSY = ("step", "GPT-2 124M, 4 x 64, 2 threads by a busy process", "ms")
F32, BF16 = squares("f32"), squares("bf16")
LAYERS, WIDTH, VOCABULARY, ROWS, TIME, PARAMETERS = 12, 768, 50257, 4, 64, 124.4e6
PRODUCTS = 6 * (12 * LAYERS * WIDTH**2 + VOCABULARY * WIDTH) * ROWS * TIME + 12 * LAYERS * ROWS * TIME**2 * WIDTH

FIGURES: dict[str, list[str]] = {
    "README.md": [
        f"| **{ours(*STEP):,.0f} ms** | PyTorch compiled {peer('PyTorch compiled', *STEP):,.0f},"
        f" JAX {peer('JAX', *STEP):,.0f} |",
        f"| **{ours(*MEMORY):,.0f} MB** | PyTorch compiled {peer('PyTorch compiled', *MEMORY):,.0f},"
        f" JAX {peer('JAX', *MEMORY):,.0f} |",
        f"| **{ours('python', 'x * y', 'ns'):.0f} ns** | PyTorch {peer('PyTorch', 'python', 'x * y', 'ns'):,.0f},"
        f" NumPy {peer('NumPy', 'python', 'x * y', 'ns'):,.0f} |",
        f"| **{ours('python', 'import', 'ms'):.1f} ms**, {ours('python', 'import', 'MB'):.1f} MB"
        f" | PyTorch {peer('PyTorch', 'python', 'import', 'ms'):,.0f} ms,"
        f" {peer('PyTorch', 'python', 'import', 'MB'):,.0f} MB |",
        f"| **{ours(*LLAMA):.0f}** | llama.cpp {peer('llama.cpp', *LLAMA):.0f} |",
        f"| **{ours(*PROMPT) / 1e3:.1f} s** | transformers on PyTorch {peer('transformers', *PROMPT) / 1e3:.0f} s |",
        f"GPT-2 takes {ours(*BUSY) / peer('one quiet thread', *BUSY):.2f} times that of one thread",
        f"[{len(list((ROOT / 'examples' / 'torch').glob('*.py')))} programs](examples/torch)",
        f"[{FAMILIES} model families](src/models/transformer.c)",
    ],
    "docs/performance.md": [
        f"reach {F32[0]:.0f} % of the peak in geometric mean in f32 (least {F32[1]:.0f} %),"
        f" and {BF16[0]:.0f} % of twice the peak in bf16 (least {BF16[1]:.0f} %)",
        f"is {PRODUCTS / 1e9:.0f} GFLOP in products, and AdamW reads and writes {28 * PARAMETERS / 1e9:.1f} GB",
        f"at {share('replays', 'GPT-2 124M, 4 x 64, replay', 'ms', 'AVX-512'):.0f} % of the products' bound,"
        f" and at {share('replays', 'GPT-2 124M, 4 x 64, replay', 'ms', 'AVX2'):.0f} % on AVX2",
        f"({replay('char GPT, 12 x 64'):.2f} and {replay('char GPT 6 x 384, 16 x 128'):.2f} times as fast",
        f"reaches {share('attention', 'attention T=64 forward', 'ms'):.0f} % of the peak at T = 64, where the diagonal"
        f" costs 1.23 times the visible pairs, and {share('attention', 'attention T=2048 forward', 'ms'):.0f} %",
        f"reach {share('operations', 'gelu', 'GB/s'):.0f} and {share('operations', 'tanh', 'GB/s'):.0f} % of it",
        f"{share('llm-124m', 'GPT-2 124M, int8', 'tokens/s', 'AVX-512'):.0f} % of a plain loop over their bytes, those"
        f" of 4 bits {share('llm-124m', 'GPT-2 124M, int4', 'tokens/s', 'AVX-512'):.0f} %",
        f"{share('conv', '3x3 depthwise, 128, 56x56', 'ms', 'AVX-512'):.0f} % of the peak. The LSTM's step is at"
        f" {share('rnn', 'LSTM, step', 'ms', 'AVX-512'):.0f} %",
    ],
}


def of_page(name: str) -> list[str]:
    text = (ROOT / name).read_text()
    flat = re.sub(r"\s+", " ", text)
    wrong = [f"{name} lacks: {figure}" for figure in FIGURES[name] if figure not in flat]
    start, end = GUARDED[name]
    part = re.sub(r"\s+", " ", text[text.index(start) : text.index(end)])
    for figure in FIGURES[name]:
        part = part.replace(figure, "")
    left = re.findall(r"\d[\d.,]*", re.sub(NO_FIGURES, "", part))
    return wrong + [f"{name}: {number} is no figure of results.json" for number in left]


def broken_links(name: str) -> list[str]:
    """Relative links of a page to files, and to headings of pages, that are not there."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text()):
        path, _, anchor = target.partition("#")
        file = ROOT / name if not path else (ROOT / name).parent / path
        if "://" in target:
            continue
        heading = lambda line: re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        if not file.exists():
            wrong.append(f"{name}: {path} is not there")
        elif anchor and anchor not in map(heading, file.read_text().splitlines()):
            wrong.append(f"{name}: {path} has no heading #{anchor}")
    return wrong


def main() -> int:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "results.py"), "--check"], capture_output=True, text=True
    )
    wrong = (checked.stdout + checked.stderr).splitlines()
    page = (ROOT / "docs" / "benchmarks.md").read_text().splitlines()
    if len(page) > MOST:
        wrong.append(f"docs/benchmarks.md has {len(page)} lines, more than {MOST}")
    for name in FIGURES:
        wrong += of_page(name) + broken_links(name)
    print("\n".join(wrong))
    count = 2 + sum(map(len, FIGURES.values()))
    print(f"result: {count - min(count, len(wrong))} passed, {len(wrong)} failed, 0 skipped")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
