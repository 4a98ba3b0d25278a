"""The training programs of examples/torch print the same numbers by ``python -m chainrule.torch`` and by PyTorch,
and the same text with their modules compiled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from compiled import compiled_run
from conftest import FULL, ROOT
from test_torch import PYTORCH, pytorch_prints, run

EXAMPLES = sorted((ROOT / "examples" / "torch").glob("*.py"))
BOTH = {"dcgan", "normalizing_flow", "style_transfer", "text_classifier"}  # compared with PyTorch in `make test`
QUICK = BOTH | {  # run in `make test`
    "cnn_digits", "dqn", "graph_network", "matrix_factorization", "seq2seq_attention", "unet_diffusion", "vit",
}  # fmt: skip
# The texts are equal on AVX2. Other instruction sets add in another order: roundings grow in a
# training, and a count may be off by one.
TOLERANCE, LOOSE = 1e-4, {"cnn_digits": 2e-2, "resnet": 2e-2, "style_transfer": 2e-3, "vit": 2e-2}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def near(a: str, b: str, tolerance: float) -> bool:
    """|a - b| <= tolerance * max(1, |b|), plus one unit in the last printed place of a fraction"""
    unit = 1.5 * 10 ** -len(b.partition(".")[2]) if "." in b else 0.0
    return abs(float(a) - float(b)) <= tolerance * max(1, abs(float(b))) + unit


def differences(ours: str, theirs: str, tolerance: float) -> list[str]:
    """Lines whose words differ, or whose numbers are not near."""
    found = [] if ours.count("\n") == theirs.count("\n") else [f"{ours}has not the number of lines of\n{theirs}"]
    for a, b in zip(ours.splitlines(), theirs.splitlines(), strict=False):
        pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=False)
        if NUMBER.sub("#", a) != NUMBER.sub("#", b) or not all(near(x, y, tolerance) for x, y in pairs):
            found.append(f"chainrule: {a}\nPyTorch:   {b}")
    return found


@pytest.fixture(scope="module")
def theirs() -> dict[str, str]:
    return pytorch_prints([path for path in EXAMPLES if FULL or path.stem in BOTH])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.stem in QUICK else [pytest.mark.full], id=path.stem) for path in EXAMPLES],
)
def test_example(path: Path, theirs: dict[str, str]) -> None:
    ours = run(str(path))
    assert (ours.returncode, ours.stderr) == (0, "")
    losses = [float(loss) for loss in re.findall(r"loss (-?\d+\.\d+)", ours.stdout)]
    assert "nan" not in ours.stdout and len(path.read_text().splitlines()) <= 80
    assert compiled_run(path) == ours.stdout
    assert not losses or path.stem in ("dqn", "gan", "ppo") or losses[-1] < losses[0], ours.stdout
    if FULL or path.stem in BOTH:
        if not PYTORCH:
            pytest.skip("PyTorch is not installed: the example ran, its numbers were not compared")
        assert not differences(ours.stdout, theirs[str(path)], LOOSE.get(path.stem, TOLERANCE))


def test_differences() -> None:
    """The comparison sees another number, another word and a missing line."""
    said = "step 10: loss 0.5000, 7 right\n"
    assert not differences("step 10: loss 0.5001, 7 right\n", said, TOLERANCE)
    for other in (
        "step 10: loss 0.5004, 7 right\n",
        "step 10: loss -0.5000, 7 right\n",
        said.replace("7", "8"),
        said * 2,
    ):
        assert len(differences(other, said, TOLERANCE)) == 1, other
    assert differences("step 10: lost 0.5000, 7 right\n", said, TOLERANCE)
