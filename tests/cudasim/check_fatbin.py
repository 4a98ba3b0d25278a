"""src/dev/cuda/fatbin.gen.txt names the kernels that -DCHAINRULE_CUDA_FATBIN=ON precompiles: those
that the training of a GPT needs, except elementwise programs, which are written at run time.  The
list comes from a run on the simulated GPU.

use: python tests/cudasim/check_fatbin.py [--write]        CHAINRULE_BUILD: where simulator and
package are (build/release)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import simulated

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve()
LIST = ROOT / "src/dev/cuda/fatbin.gen.txt"
HEAD = (
    "# The file of each text and the definitions before it (cmake/fatbin.cmake).  Written by"
    " tests/cudasim/check_fatbin.py --write.\n"
)
# Heads of 64 as in GPT-2, and of 128 in attention only, with gradients and without (as in
# generation).  As many tokens as a large batch has.
WORK = """
import chainrule as cr
for dtype in (cr.float32, cr.bfloat16, cr.float16):
    model = cr.models.GPT(65, 16, 1, 1, 64, dropout=0.1, device="cuda", dtype=dtype)
    optimizer = cr.optim.AdamW(model.parameters(), lr=1e-3)
    x = cr.randint(0, 65, (2, 16), device="cuda")
    for _ in range(2):
        model.loss(x, x).backward()
        optimizer.step_clipped(1.0)
        optimizer.zero_grad()
    q = cr.randn(1, 1, 16, 128, device="cuda").to(dtype).requires_grad_()
    cr.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    tokens = cr.randint(0, 50257, (1 << 16,), device="cuda")
    w = cr.randn(50257, 2, device="cuda").to(dtype).requires_grad_()
    cr.nn.functional.embedding(tokens, w).sum().backward()
cr.synchronize("cuda")
"""


def needed() -> list[str]:
    """Lines of the list, from the compiled texts."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            **simulated(BUILD),
            "CHAINRULE_CACHE": "off",
            "CUDASIM_KEEP": folder,
            "PYTHONPATH": str(BUILD / "python"),
        }
        subprocess.run([sys.executable, "-c", WORK], env=environment, check=True)
        texts = [path.read_text(encoding="utf-8") for path in Path(folder).glob("*.cu")]
    found = [re.search(r'((?:#define \w+ \w+\n)+)#line 1 "(\w+)\.cu"\n', text) for text in texts]
    return sorted(" ".join([f[2], *re.sub(r"#define (\w+) (\w+)\n", r"\1=\2 ", f[1]).split()]) for f in found if f)


def main() -> int:
    if not simulated(BUILD) or not list((BUILD / "python/chainrule").glob("_core*.so")):
        print("skipped: no simulated GPU or no Python extension in this build")
        return 77
    text = HEAD + "".join(f"{line}\n" for line in needed())
    if sys.argv[1:] == ["--write"]:
        LIST.write_text(text, encoding="utf-8")
    elif LIST.read_text(encoding="utf-8") != text:
        print(f"{LIST.relative_to(ROOT)} is not what a GPT needs now: python tests/cudasim/check_fatbin.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
