"""``ZeroRedundancyOptimizer``: an optimizer whose state is spread over many processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import distributed
from .._core import Tensor
from ..autograd import enable_grad, no_grad
from .optimizer import Group, Optimizer, Params

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer):
    """Each process keeps the moments of a part of the parameters and updates these; then it sends them to the others
    (ZeRO's stage 1: Rajbhandari et al. 2020).  The weights have the bits of ``optimizer_class`` itself.

    Gradients must be equal on all processes, as ``nn.parallel.DistributedDataParallel`` makes them.  A parameter
    belongs to one process as a whole; the largest go first, each to the process that has fewest elements.  Before
    ``state_dict()`` all processes call ``consolidate_state_dict()``."""

    def __init__(
        self,
        params: Params,
        optimizer_class: Callable[..., Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise ValueError("ZeroRedundancyOptimizer: overlap_with_ddp is not supported")
        self._processes, self._rank = distributed.get_world_size(process_group), distributed.get_rank(process_group)
        self._loads = [0] * self._processes
        self._owner: dict[int, int] = {}
        self._class, self._options = optimizer_class, defaults
        self._whole: dict[str, Any] | None = None
        self._local: Optimizer | None = None
        super().__init__(params, defaults)

    def _check(self, group: Group) -> None:
        """The optimizer of each process checks its options."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group of parameters, shared out to the processes."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=Tensor.numel, reverse=True):
            owner = self._loads.index(min(self._loads))
            self._loads[owner] += p.numel()
            self._owner[id(p)] = owner
        mine = self._mine(group)
        full = self._class([{**group, "params": group["params"]}], **self._options)  # checks options and parameters
        self.defaults = full.defaults
        group.update({k: v for k, v in full.param_groups[0].items() if k not in ("params", "param_names")})
        part = {**group, "params": mine}
        part.pop("param_names", None)
        if self._local is None:
            self._local = full
            full.param_groups.clear()
        self._local.param_groups.append(part)

    def _mine(self, group: Group) -> list[Tensor]:
        return [p for p in group["params"] if self._owner[id(p)] == self._rank]

    @property
    def optim(self) -> Optimizer:
        """The optimizer of this process's parameters."""
        assert self._local is not None
        for theirs, group in zip(self._local.param_groups, self.param_groups, strict=True):
            theirs.update({k: v for k, v in group.items() if k not in ("params", "param_names")})
        return self._local

    @Optimizer.profile_hook_step
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of this process's parameters, which all processes then receive."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        local = self.optim
        local._scale = self._scale
        try:
            local.step()
        finally:
            local._scale = 1.0
        self._share()
        return loss

    @property
    def _scales(self) -> bool:  # type: ignore[override]
        return bool(self._local and self._local._scales)

    @no_grad
    def _share(self) -> None:
        if self._processes == 1:
            return
        everything = [p for group in self.param_groups for p in group["params"]]
        for owner in range(self._processes):
            changed = [p.data for p in everything if self._owner[id(p)] == owner and p.grad is not None]
            if changed:
                distributed._broadcast_all(changed, owner)

    # ---- state dicts ----

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects the state of all processes on the process ``to``; all call it."""
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        local = self.optim
        order = [numbers[id(p)] for group in local.param_groups for p in group["params"]]
        mine = {order[i]: entries for i, entries in local.state_dict()["state"].items()}
        states = distributed._objects(mine)
        if self._rank != to:
            return
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        state = dict(sorted((i, entries) for part in states for i, entries in part.items()))
        self._whole = {"state": state, "param_groups": groups}

    def state_dict(self) -> dict[str, Any]:
        """What ``consolidate_state_dict`` has collected here, in the layout of ``optimizer_class``."""
        if self._whole is None:
            raise RuntimeError(
                f"Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self._rank})` on all ranks beforehand if you meant to save the global state."
            )
        return self._whole

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the state of the whole, also one of ``optimizer_class`` or of another number of processes."""
        groups = state_dict["param_groups"]
        flat = [p for group in self.param_groups for p in group["params"]]
        numbers = [n for group in groups for n in group["params"]]
        if len(groups) != len(self.param_groups) or len(numbers) != len(flat):
            raise ValueError("loaded state dict has a different number of parameter groups or parameters")
        mine = [n for n, p in zip(numbers, flat, strict=True) if self._owner[id(p)] == self._rank]
        state = {n: state_dict["state"][n] for n in mine if n in state_dict["state"]}
        cut = [{**group, "params": [n for n in group["params"] if n in set(mine)]} for group in groups]
        self.optim.load_state_dict({"state": state, "param_groups": cut})
        for group, theirs in zip(self.param_groups, groups, strict=True):
            group.update({k: v for k, v in theirs.items() if k not in ("params", "param_names")})
        self._whole = None
