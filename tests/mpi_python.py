"""The Python package on many processes: tests/mpi_ranks.py starts this under mpirun, and by itself.

Every rank computes what the collectives and the training must give, and compares bit by bit.

use: python tests/mpi_python.py [NAME of a test]..."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import chainrule as cr
import chainrule.distributed as dist
from chainrule.nn.parallel import DistributedDataParallel
from chainrule.optim import AdamW, ZeroRedundancyOptimizer

MPI: Any = None
try:  # before the world is opened: mpi4py does not find a library of the standard ABI that is open already
    from mpi4py import MPI
except (ImportError, RuntimeError):
    pass


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()


def tree_sum(parts: list[Any]) -> Any:
    """The binary tree: siblings first, level by level; a last one without a sibling rises as it is."""
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


def of_rank(r: int, *shape: int, dtype: Any = cr.float32) -> Any:
    """Numbers whose sum depends on the order of additions."""
    return cr.randn(*shape, generator=cr.Generator().manual_seed(100 + r)).to(dtype) * 10.0**r


def collectives(rank: int, size: int) -> None:
    for dtype in (cr.float32, cr.float64, cr.bfloat16):
        x = of_rank(rank, 1009, 3, dtype=dtype)
        parts = [of_rank(r, 1009, 3, dtype=dtype) for r in range(size)]
        wide = [p.float() for p in parts] if dtype is cr.bfloat16 and size > 1 else parts
        total = tree_sum(wide)
        work = dist.all_reduce(y := x.clone(), async_op=True)
        before = x * 2  # other work beside it
        assert work.wait() and same(y, total.to(dtype)) and before.shape == x.shape, dtype
        dist.all_reduce(y := x.clone(), op=dist.ReduceOp.AVG)
        assert same(y, (total / size).to(dtype)), dtype
    x = of_rank(rank, 5, 7).t()  # not contiguous
    dist.all_reduce(x)
    assert same(x, tree_sum([of_rank(r, 5, 7) for r in range(size)]).t())
    i = cr.tensor([rank + 1, 2, 2**40 + rank])
    for op, f in (
        ("SUM", lambda a, b: a + b),
        ("PRODUCT", lambda a, b: a * b),
        ("MAX", cr.maximum),
        ("BOR", cr.bitwise_or),
    ):
        values = [cr.tensor([r + 1, 2, 2**40 + r]) for r in range(size)]
        expected = values[0]
        for v in values[1:]:
            expected = f(expected, v)  # type: ignore[no-untyped-call]
        dist.all_reduce(y := i.clone(), op=dist.ReduceOp[op])
        assert same(y, expected), op
    dist.broadcast(y := cr.tensor([rank, 5]), src=size - 1)
    assert y.tolist() == [size - 1, 5]
    out = cr.zeros(size, 3, dtype=cr.int32)
    dist.all_gather_into_tensor(out, cr.full((3,), rank, dtype=cr.int32))
    assert out.tolist() == [[r] * 3 for r in range(size)]
    several = [cr.zeros(2) for _ in range(size)]
    dist.all_gather(several, cr.full((2,), float(rank)))
    assert [t.tolist() for t in several] == [[r, r] for r in range(size)]
    part = cr.zeros(5)
    dist.reduce_scatter_tensor(part, of_rank(rank, 5 * size))
    assert same(part, tree_sum([of_rank(r, 5 * size) for r in range(size)])[5 * rank : 5 * rank + 5])
    dist.all_to_all_single(y := cr.zeros(size), cr.arange(size) + 10.0 * rank)
    assert y.tolist() == [10 * r + rank for r in range(size)]
    dist.scatter(y := cr.zeros(2), [cr.full((2,), r + 1.0) for r in range(size)] if rank == 0 else None)
    assert y.tolist() == [rank + 1] * 2
    found: list[Any] = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found == [{"rank": r, "text": "x" * r} for r in range(size)]
    names = [f"of {rank}", rank]
    dist.broadcast_object_list(names, src=size - 1)
    assert names == [f"of {size - 1}", size - 1]
    dist.barrier()
    for bad in (lambda: dist.all_reduce(3), lambda: dist.broadcast(cr.ones(1), src=size)):
        try:
            bad()
        except (TypeError, IndexError):
            continue
        raise AssertionError("accepted")


def model() -> Any:
    cr.manual_seed(7)
    return cr.nn.Sequential(
        cr.nn.Linear(5, 64), cr.nn.BatchNorm1d(64), cr.nn.Tanh(), cr.nn.Linear(64, 7), cr.nn.Linear(7, 1)
    )


def batch(step: int, rank: int) -> tuple[Any, Any]:
    g = cr.Generator().manual_seed(1000 * step + rank)
    return cr.randn(6, 5, generator=g), cr.randn(6, 1, generator=g)


def loss_of(m: Any, step: int, rank: int) -> Any:
    like = next(iter(m.parameters()))
    x, y = (t.to(like.device, like.dtype) for t in batch(step, rank))
    return ((m(x) - y) ** 2).mean()


def devices(rank: int) -> list[str]:
    """The cpu, and this process's GPU where there is one for each."""
    return ["cpu", f"cuda:{rank}"] if cr.cuda.is_available() and cr.cuda.device_count() >= 8 else ["cpu"]


def on_gpus(rank: int, size: int) -> None:
    """Collectives of tensors on GPUs: the bits of the cpu."""
    for device in devices(rank)[1:]:
        x = of_rank(rank, 1009, 3)
        y = x.to(device)
        dist.all_reduce(y)
        assert str(y.device) == device and same(y.cpu(), tree_sum([of_rank(r, 1009, 3) for r in range(size)]))
        out = cr.zeros(size, 3, device=device)
        dist.all_gather_into_tensor(out, cr.full((3,), float(rank), device=device))
        assert out.tolist() == [[r] * 3 for r in range(size)]


def ddp(rank: int, size: int) -> None:
    """Gradients are the mean over processes, bit by bit: in small buckets, as views of them, and after no_sync."""
    for device in devices(rank):
        ddp_on(device, rank, size)


def ddp_on(device: str, rank: int, size: int) -> None:
    for options in ({}, {"bucket_cap_mb": 0.0001}, {"gradient_as_bucket_view": True}):
        m = model().to(device)
        if rank:
            for p in m.parameters():
                p.data.add_(rank)  # rank 0's win
        wrapped = DistributedDataParallel(m, **options)  # type: ignore[arg-type]
        for step in range(3):
            wrapped.zero_grad()
            with wrapped.no_sync():
                loss_of(wrapped, 10 + step, rank).backward()
            loss_of(wrapped, step, rank).backward()
            grads = []
            for r in range(size):
                other = model().to(device)
                with cr.no_grad():
                    for p, q in zip(other.parameters(), m.parameters(), strict=True):
                        p.copy_(q)
                loss_of(other, 10 + step, r).backward()
                loss_of(other, step, r).backward()
                grads.append([p.grad / size for p in other.parameters()])
            for k, p in enumerate(m.parameters()):
                expected = tree_sum([g[k] for g in grads])
                assert same(p.grad, expected), f"{options}, step {step}, parameter {k}: {p.grad} != {expected}"
            with cr.no_grad():
                for p in m.parameters():
                    p -= 0.1 * p.grad


class Choice(cr.nn.Module):
    """The second layer is used where ``deep`` is set, the third one nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (cr.nn.Linear(3, 3) for _ in range(3))
        self.deep = False

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)) if self.deep else self.first(x)


def unused(rank: int, size: int) -> None:
    """A parameter that only rank 0 uses, then only the last rank, and one that nobody uses."""
    m = Choice()
    wrapped = DistributedDataParallel(m)
    for user in (0, size - 1):
        wrapped.zero_grad()
        m.deep = rank == user
        wrapped(cr.ones(2, 3)).sum().backward()
        assert m.first.weight.grad is not None and m.third.weight.grad is None
        assert same(m.second.bias.grad, cr.full((3,), 2.0) / size), m.second.bias.grad


def train(m: Any, optimizer: Any, steps: range, rank: int, clip: bool = False) -> None:
    for step in steps:
        optimizer.zero_grad()
        loss_of(m, step, rank).backward()
        if clip:
            optimizer.step_clipped(0.5)
        else:
            optimizer.step()


def zero(rank: int, size: int) -> None:
    """The weights and the state of AdamW itself, also from a state dict; with bfloat16 weights, their masters too."""
    for dtype in (cr.float32, cr.bfloat16):
        zero_of(dtype, rank, size)


def zero_of(dtype: Any, rank: int, size: int) -> None:
    plain, sharded = DistributedDataParallel(model().to(dtype)), DistributedDataParallel(model().to(dtype))
    groups = [
        [{"params": list(m.module[0].parameters()), "lr": 0.1}, {"params": list(m.module[1:].parameters())}]
        for m in (plain, sharded)
    ]
    one = AdamW(groups[0], lr=0.01, master_weights=True)
    parts = ZeroRedundancyOptimizer(groups[1], AdamW, lr=0.01, master_weights=True)
    schedules = [cr.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (one, parts)]
    for m, o, schedule in ((plain, one, schedules[0]), (sharded, parts, schedules[1])):
        train(m, o, range(2), rank)
        schedule.step()
        train(m, o, range(2, 4), rank, clip=True)
    for p, q in zip(plain.parameters(), sharded.parameters(), strict=True):
        assert same(p, q)
    assert all(("master" in s) == (dtype is cr.bfloat16) for s in parts.optim.state.values())
    held = sum(s["exp_avg"].numel() for s in parts.optim.state.values())
    assert held < sum(p.numel() for p in plain.parameters()) / size + 64 * 7 + 64, held
    try:
        parts.state_dict()
        raise AssertionError("not consolidated")
    except RuntimeError as e:
        assert "consolidate_state_dict" in str(e)
    parts.consolidate_state_dict(to=0)
    state = [parts.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(state)
    whole = one.state_dict()
    assert state[0] is not None and [g["lr"] for g in state[0]["param_groups"]] == [
        g["lr"] for g in whole["param_groups"]
    ]
    for i, entries in whole["state"].items():
        assert all(same(value, state[0]["state"][i][k]) for k, value in entries.items()), i
    again = ZeroRedundancyOptimizer(groups[1], AdamW, lr=0.5, master_weights=True)
    again.load_state_dict(state[0])
    train(plain, one, range(4, 6), rank)
    train(sharded, again, range(4, 6), rank)
    for p, q in zip(plain.parameters(), sharded.parameters(), strict=True):
        assert same(p, q)


def other_parameters(rank: int, size: int) -> None:
    if size == 1:
        return
    try:
        DistributedDataParallel(cr.nn.Linear(3, 3 if rank == 0 else 4))
        raise AssertionError("accepted")
    except RuntimeError as e:
        assert "have other parameters: ('weight', (3, 3), 'float32')" in str(e).replace("chainrule.", ""), e


def drop_in(rank: int, size: int) -> None:
    """PyTorch's names in ``chainrule.torch``."""
    import chainrule.torch as torch

    assert torch.distributed.get_rank() == rank and torch.distributed.group.WORLD.size() == size
    assert torch.nn.parallel.DistributedDataParallel is DistributedDataParallel
    from chainrule.torch.distributed.optim import ZeroRedundancyOptimizer as Same

    assert Same is ZeroRedundancyOptimizer
    x = torch.full((3,), float(rank))
    torch.distributed.all_reduce(x, op=torch.distributed.ReduceOp.SUM)
    assert x.tolist() == [size * (size - 1) / 2] * 3
    assert torch.utils.data.DistributedSampler(range(10)).num_replicas == size


def mpi4py(rank: int, size: int) -> None:
    """Tensors are buffers to mpi4py, which shares the library that is open."""
    if MPI is None:
        if rank == 0:
            print("skipped mpi4py: not installed")
        return
    x = cr.arange(5.0) + rank
    total = cr.empty(5)
    MPI.COMM_WORLD.Allreduce(x, total)
    assert total.tolist() == [size * i + size * (size - 1) / 2 for i in range(5)]
    MPI.COMM_WORLD.Bcast(x, root=size - 1)
    assert x.tolist() == [i + size - 1 for i in range(5)]


TESTS: tuple[Callable[[int, int], None], ...] = (
    collectives, on_gpus, ddp, unused, zero, other_parameters, drop_in, mpi4py,
)  # fmt: skip


def main() -> None:
    if "fails" in sys.argv[1:]:
        dist.init_process_group()
        if dist.get_rank() == 1:
            raise ZeroDivisionError("on rank 1")
        dist.barrier()
        return
    cr.set_num_threads(1)
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    for test in TESTS:
        if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
            test(rank, size)
    print(f"passed on rank {rank} of {size}", flush=True)


if __name__ == "__main__":
    main()
