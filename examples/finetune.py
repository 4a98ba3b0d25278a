"""Fine-tuning with an adapter: a small GPT learns to count, then LoRA teaches it to answer questions about that,
while its own weights stay as they are.

use: python examples/finetune.py"""

import sys

import chainrule as cr
from chainrule import models, optim
from chainrule.data import Packing, Sample, Tokenizer
from chainrule.nn import lora

WORDS = "one two three four five six seven eight nine ten".split()
tokenizer = Tokenizer.bytes()


def train(model: models.GPT, samples: list[Sample], parameters: list[cr.nn.Parameter], epochs: int, lr: float) -> None:
    """AdamW over rows of whole samples, each of which sees only itself."""
    optimizer = optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    for epoch in range(epochs):
        for tokens, targets, lengths in Packing(samples, context=64, batch_size=4, seed=epoch):
            optimizer.zero_grad()
            loss = model.loss(tokens, targets, lengths)
            loss.backward()
            optimizer.step_clipped(1.0)
    print(f"loss {loss.item():.4f}")


def counting(first: int) -> Sample:
    tokens = tokenizer.encode(" ".join([*WORDS[first:], *WORDS[:first]]) + "\n")
    return Sample(tokens, [True] * len(tokens))


def question(i: int) -> Sample:
    """Only the answer counts."""
    asked, answer = (tokenizer.encode(text) for text in (f"after {WORDS[i]}:", f" {WORDS[i + 1]}\n"))
    return Sample(asked + answer, [False] * len(asked) + [True] * len(answer))


def main() -> None:
    cr.manual_seed(1)
    model = models.GPT(len(tokenizer), context=64, layers=2, heads=4, width=64)
    train(model, [counting(i) for i in range(len(WORDS))], list(model.parameters()), epochs=60, lr=3e-3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lora.apply(model, r=8, alpha=16, targets="all-linear")
    learning = lora.parameters(model)
    print("learning", sum(p.numel() for p in learning), "of", sum(p.numel() for p in model.parameters()))
    train(model, [question(i) for i in range(len(WORDS) - 1)], learning, epochs=120, lr=1e-2)
    right = 0
    for i in range(len(WORDS) - 1):
        answer = model.generate(tokenizer.encode(f"after {WORDS[i]}:"), 8, temperature=0)
        right += tokenizer.decode(answer).split("\n")[0] == f" {WORDS[i + 1]}"
    lora.remove(model)
    same = all(cr.equal(before[name], value) for name, value in model.state_dict().items())
    print(f"{right} of {len(WORDS) - 1} answers right; the weights below the adapter are the same: {same}")
    sys.exit(right < len(WORDS) - 1 or not same)


if __name__ == "__main__":
    main()
