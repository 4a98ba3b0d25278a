"""Names, letter by letter: a table of pairs, an MLP that sees three letters, and a GPT, trained by one loop (after Karpathy's makemore).

use: python examples/names.py [FILE]        one name a line; without: ../shared/data/names.txt beside this repository, or the few below
"""

import sys
from itertools import chain, repeat
from pathlib import Path

import chainrule as cr
from chainrule import Tensor, nn, optim
from chainrule.data import DataLoader, TensorDataset

STEPS, BATCH, CONTEXT, SEEN, IGNORED = 1000, 64, 16, 3, -100
LETTERS = ".abcdefghijklmnopqrstuvwxyz"  # the point begins and ends a name
FEW = "ada albert anna arthur bella clara daniel ella emma erik felix frieda greta hugo ida jonas karl lara leo marie max nora otto paula rosa theo vera"


def table(names: list[str]) -> TensorDataset:
    """Letters (N, CONTEXT), and those that follow each; what is behind a name's end is not learned."""
    ids = [[LETTERS.index(c) for c in name[: CONTEXT - 1]] for name in names]
    ends = [[*name, 0] + [IGNORED] * (CONTEXT - 1 - len(name)) for name in ids]
    return TensorDataset(cr.tensor([[0, *row[:-1]] for row in ends]).clamp(min=0), cr.tensor(ends))


class MLP(nn.Module):
    """(B, T) -> (B, T, V), from the last SEEN letters."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.hidden, self.out = nn.Embedding(27, 16), nn.Linear(16 * SEEN, 128), nn.Linear(128, 27)

    def forward(self, x: Tensor) -> Tensor:
        letters = self.letters(cr.pad(x, (SEEN - 1, 0)))
        return self.out(self.hidden(cr.cat([letters[:, i : i + x.size(1)] for i in range(SEEN)], dim=-1)).tanh())  # type: ignore[no-any-return]


def main() -> None:
    cr.manual_seed(1337)
    file = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).resolve().parents[2] / "shared" / "data" / "names.txt"
    names = file.read_text().lower().split() if sys.argv[1:] or file.exists() else FEW.split()
    data, losses = table(names), []
    gpt = cr.models.GPT(len(LETTERS), CONTEXT, layers=2, heads=4, width=48)
    for model, lr in ((nn.Embedding(27, 27), 0.1), (MLP(), 0.02), (gpt, 3e-3)):
        optimizer = optim.AdamW(model.parameters(), lr)
        batches, mean = chain.from_iterable(repeat(DataLoader(data, BATCH, shuffle=True))), 0.0
        for step, (x, y) in zip(cr.viz.progress(range(STEPS), type(model).__name__), batches, strict=False):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=IGNORED)
            loss.backward()
            optimizer.step()
            mean += (loss.item() - mean) / min(step + 1, 50)
        losses.append(mean)
        print(f"{type(model).__name__:10} {mean:.3f} nats a letter")
    print(", ".join("".join(LETTERS[i] for i in gpt.generate([0], CONTEXT)).split(".")[0] for _ in range(10)))
    sys.exit(losses[-1] >= losses[0])


if __name__ == "__main__":
    main()
