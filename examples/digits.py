"""Handwritten digits told apart by an MLP: scikit-learn's 1797 pictures of 8 x 8 where it is installed, else glyphs, moved about and noisy.

use: python examples/digits.py        the progress bar needs tqdm
"""

import sys

import chainrule as cr
from chainrule import Tensor, nn, optim
from chainrule.data import DataLoader, TensorDataset

EPOCHS = 30
# 7 rows of 5 pixels, a row as a number of 5 bits, in hexadecimal
GLYPHS = "0e11131519110e 040c040404040e 0e11010204081f 1f02040201110e 02060a121f0202 1f101e0101110e 0608101e11110e 1f010204080808 0e11110e11110e 0e11110f01020c"


def glyphs(n: int) -> tuple[Tensor, Tensor]:
    """(n, 64) pictures in [0, 1], each a glyph somewhere in the square with noise on it; (n) digits."""
    rows = cr.tensor([[*bytes.fromhex(glyph)] for glyph in GLYPHS.split()])
    glyph = (rows.unsqueeze(-1) >> cr.arange(5).flip(0)) % 2  # (10, 7, 5)
    places = cr.stack([cr.pad(glyph, (left, 3 - left, top, 1 - top)) for left in range(4) for top in range(2)])  # (8, 10, 8, 8)
    digits = cr.arange(n) % 10
    return (places[cr.randint(8, (n,)), digits].float() + 0.3 * cr.randn(n, 8, 8)).clamp(0, 1).flatten(1), digits


def pictures() -> tuple[Tensor, Tensor]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return glyphs(1797)
    bunch = load_digits()
    return cr.tensor(bunch.data, dtype=cr.float32) / 16, cr.tensor(bunch.target)


def main() -> None:
    cr.manual_seed(1337)
    x, y = pictures()
    order = cr.randperm(len(x))
    known, unseen = (TensorDataset(x[part], y[part]) for part in (order[360:], order[:360]))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    for _ in cr.viz.progress(range(EPOCHS), "epochs"):
        for pixels, digits in DataLoader(known, 32, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pixels), digits).backward()
            optimizer.step()
    model.eval()
    pixels, digits = unseen.tensors
    right = int((model(pixels).argmax(1) == digits).sum())
    print(f"{right} of {len(digits)} unseen digits right")
    sys.exit(right < 0.95 * len(digits))


if __name__ == "__main__":
    main()
