"""Writes optim.h: where PyTorch's optimizers and schedules go, in float64, for tests/test_optim.c.

use: python tests/golden/optim.py    (needs torch; the header is committed, so the tests do not)

Two parameters, a (5, 3) and b (7), start at cos of their index; the gradient at step t is  c p +
sin(0.7 i + 0.3 t), c = 0.5 + 0.1 (i mod 5), i counting through a and b.  Lion, and Muon in float64,
are written out here: torch has no Lion and rounds Muon's iteration to bfloat16 (the formula is
checked against torch.optim.Muon to that precision below)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

STEPS = (1, 10, 100)
SHAPES = ((5, 3), (7,))
Step = Callable[[list[torch.Tensor], int], None]


def start() -> list[torch.Tensor]:
    n = 0
    tensors = []
    for shape in SHAPES:
        size = math.prod(shape)
        tensors.append(
            torch.tensor([math.cos(n + i) for i in range(size)], dtype=torch.float64).reshape(shape).requires_grad_()
        )
        n += size
    return tensors


def set_gradients(tensors: list[torch.Tensor], step: int) -> None:
    n = 0
    for p in tensors:
        i = range(n, n + p.numel())
        c = torch.tensor([0.5 + 0.1 * (k % 5) for k in i], dtype=torch.float64).reshape(p.shape)
        wave = torch.tensor([math.sin(0.7 * k + 0.3 * step) for k in i], dtype=torch.float64).reshape(p.shape)
        p.grad = c * p.detach() + wave
        n += p.numel()


def by_torch(kind: type, **options: Any) -> Callable[[list[torch.Tensor]], Step]:
    def make(tensors: list[torch.Tensor]) -> Step:
        optimizer = kind(tensors, **options)
        return lambda _tensors, _step: optimizer.step()

    return make


def lion(lr: float, b1: float, b2: float, decay: float) -> Callable[[list[torch.Tensor]], Step]:
    def make(tensors: list[torch.Tensor]) -> Step:
        moments = [torch.zeros_like(p) for p in tensors]

        @torch.no_grad()
        def step(tensors: list[torch.Tensor], _step: int) -> None:
            for p, m in zip(tensors, moments, strict=True):
                p.mul_(1 - lr * decay).sub_(lr * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)

        return step

    return make


def orthogonal(u: torch.Tensor) -> torch.Tensor:
    x = u.T if u.shape[0] > u.shape[1] else u
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if u.shape[0] > u.shape[1] else x


def muon(lr: float, momentum: float, nesterov: bool, decay: float) -> Callable[[list[torch.Tensor]], Step]:
    def make(tensors: list[torch.Tensor]) -> Step:
        matrix, vector = tensors
        moment = torch.zeros_like(matrix)
        other = torch.optim.AdamW([vector], lr=lr, weight_decay=decay)

        @torch.no_grad()
        def step(_tensors: list[torch.Tensor], _step: int) -> None:
            grad = matrix.grad
            moment.lerp_(grad, 1 - momentum)
            u = grad.lerp(moment, momentum) if nesterov else moment
            matrix.mul_(1 - lr * decay).sub_(lr * 0.2 * math.sqrt(max(matrix.shape)) * orthogonal(u))
            other.step()

        return step

    return make


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
CASES: list[tuple[str, str, Callable[[list[torch.Tensor]], Step]]] = [
    ("sgd", ".kind = CR_SGD, .lr = 0.05", by_torch(SGD, lr=0.05)),
    ("sgd with decay", ".kind = CR_SGD, .lr = 0.05, .weight_decay = 0.1", by_torch(SGD, lr=0.05, weight_decay=0.1)),
    ("momentum", ".kind = CR_SGD, .lr = 0.02, .momentum = 0.9", by_torch(SGD, lr=0.02, momentum=0.9)),
    (
        "nesterov",
        ".kind = CR_SGD, .lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01",
        by_torch(SGD, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    ("adam", ".kind = CR_ADAM, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8", by_torch(ADAM, lr=0.01)),
    (
        "adam with decay",
        ".kind = CR_ADAM, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1",
        by_torch(ADAM, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
    (
        "adamw",
        ".kind = CR_ADAMW, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01",
        by_torch(ADAMW, lr=0.01),
    ),
    (
        "adamw as for gpt",
        ".kind = CR_ADAMW, .lr = 0.003, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1",
        by_torch(ADAMW, lr=0.003, betas=(0.9, 0.95), weight_decay=0.1),
    ),
    (
        "adamax",
        ".kind = CR_ADAMAX, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1",
        by_torch(torch.optim.Adamax, lr=0.01, weight_decay=0.1),
    ),
    (
        "lion",
        ".kind = CR_LION, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1",
        lion(0.001, 0.9, 0.99, 0.1),
    ),
    (
        "muon",
        (
            ".kind = CR_MUON, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.95, .nesterov ="
            " true, .weight_decay = 0.1"
        ),
        muon(0.01, 0.95, True, 0.1),
    ),
    (
        "muon without nesterov",
        ".kind = CR_MUON, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.9",
        muon(0.01, 0.9, False, 0.0),
    ),
]


def run(make: Callable[[list[torch.Tensor]], Step]) -> list[list[float]]:
    tensors, seen = start(), []
    step = make(tensors)
    for t in range(1, max(STEPS) + 1):
        set_gradients(tensors, t)
        step(tensors, t)
        if t in STEPS:
            seen.append([v for p in tensors for v in p.detach().flatten().tolist()])
    return seen


def check_muon() -> None:
    """One step of torch.optim.Muon against ours, to bfloat16."""
    (ours, _), (theirs, _) = start(), start()
    optimizer = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    step = muon(0.1, 0.95, True, 0.1)([ours, torch.zeros(1, dtype=torch.float64)])
    set_gradients([ours], 1)
    set_gradients([theirs], 1)
    step([ours], 1)
    optimizer.step()
    error = float((ours - theirs).detach().abs().max())
    size = float((ours - start()[0]).detach().abs().max())
    assert error < 0.02 * size, f"muon: {error} of {size}"


def one_cycle(total: int, **options: Any) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=total, cycle_momentum=False, **options
    )
    seen = []
    for _ in range(total):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(seen) < total:
            schedule.step()
    return seen


def nano_gpt(step: int, lr: float, min_lr: float, warmup: int, total: int) -> float:
    """get_lr of nanoGPT's train.py."""
    if step < warmup:
        return lr * (step + 1) / (warmup + 1)
    if step > total:
        return min_lr
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (total - warmup))) * (lr - min_lr)


def numbers(values: list[float]) -> str:
    lines, line = [], "   "
    for v in values:
        text = f" {v:.17g},"
        if len(line) + len(text) > 130:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join([*lines, line])


def main() -> None:
    check_muon()
    out = [
        "/* optim.h - numbers of PyTorch "
        + torch.__version__.split("+")[0]
        + " for test_optim.c.  Written by optim.py, which says what they are: edit that. */",
        "static const int golden_steps[] = {" + ", ".join(map(str, STEPS)) + "};",
        "static const struct { const char *name; cr_optim_options o; double p[3][22]; } golden_optim[] = {",
    ]
    for name, options, make in CASES:
        rows = ",\n".join("    {\n" + numbers(row) + "}" for row in run(make))
        out.append(f'{{"{name}", {{{options}}}, {{\n{rows}}}}},')
    out.append("};")
    cosine = [nano_gpt(t, 0.01, 0.001, 5, 40) for t in range(45)]
    schedules = [
        ("cosine", ".kind = CR_COSINE, .lr = 0.01, .min_lr = 0.001, .warmup = 5, .total = 40", cosine),
        ("one cycle", ".kind = CR_ONE_CYCLE, .lr = 0.01, .total = 41", one_cycle(41)),
        (
            "one cycle, rise 10, final",
            ".kind = CR_ONE_CYCLE, .lr = 0.01, .min_lr = 1e-5, .warmup = 10, .total = 40",
            one_cycle(40, pct_start=0.25, final_div_factor=40),
        ),
    ]
    out.append("static const struct { const char *name; cr_schedule s; int n; double lr[45]; } golden_schedule[] = {")
    for name, options, values in schedules:
        out.append(f'{{"{name}", {{{options}}}, {len(values)}, {{\n{numbers(values)}}}}},')
    out.append("};")
    Path(__file__).with_suffix(".h").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
