"""Modules as programs extend them: methods that subclasses override, base classes, state dicts of their own, copies.
Where PyTorch is installed the same program runs on both."""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict
from typing import Any

import chainrule as cr
import pytest

nn = cr.nn

try:
    import torch
except ImportError:
    torch: Any = None  # type: ignore[no-redef]
BOTH = [cr] if torch is None else [cr, torch]
both = pytest.mark.parametrize("lib", BOTH, ids=lambda lib: lib.__name__)


def filled(lib: Any, *shape: int) -> Any:
    """Numbers that are all different, in float64"""
    n = 1
    for size in shape:
        n *= size
    return (lib.arange(n, dtype=lib.float64).reshape(shape) * 7 % 11 - 5) / 4


def set_all(lib: Any, module: Any) -> Any:
    """The module in float64 with known parameters."""
    module = module.double()
    with lib.no_grad():
        for p in module.parameters():
            p.copy_(filled(lib, *p.shape))
    return module


# ---- methods that layers call ----


def weight_standardized(lib: Any) -> Any:
    class Standardized(lib.nn.Conv2d):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return self._conv_forward(x, self.weight - self.weight.mean((1, 2, 3), keepdim=True), self.bias)

    return set_all(lib, Standardized(2, 4, 3, padding=1, padding_mode="reflect", groups=2)), [filled(lib, 1, 2, 5, 5)]


def doubled_conv(lib: Any) -> Any:
    class Doubled(lib.nn.Conv1d):  # type: ignore[misc]
        def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
            return super()._conv_forward(input, 2 * weight, bias)

    return set_all(lib, Doubled(2, 3, 3, padding="same")), [filled(lib, 1, 2, 5)]


def own_output_padding(lib: Any) -> Any:
    class Larger(lib.nn.ConvTranspose2d):  # type: ignore[misc]
        def _output_padding(self, *args: Any, **kwargs: Any) -> Any:
            found = super()._output_padding(*args, **kwargs)
            return [n + 1 for n in found]

    return set_all(lib, Larger(2, 3, 3, stride=2)), [filled(lib, 1, 2, 4, 4), [9, 9]]


def conv_of_any(lib: Any) -> Any:
    class Any2d(lib.nn.modules.conv._ConvNd if lib is not cr else nn.conv._ConvNd):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(2, 3, (2, 3), (1, 1), (0, 1), (1, 1), False, (0, 0), 1, True, "circular")

        def forward(self, x: Any) -> Any:
            x = lib.nn.functional.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return lib.nn.functional.conv2d(x, self.weight, self.bias, self.stride)

    return set_all(lib, Any2d()), [filled(lib, 1, 2, 4, 5)]


def batch_norm_of_any(lib: Any) -> Any:
    class AnyNorm(lib.nn.BatchNorm1d):  # type: ignore[misc]
        def _check_input_dim(self, input: Any) -> None:
            if input.dim() != 4:
                raise ValueError("four axes")

    return set_all(lib, AnyNorm(3)), [filled(lib, 2, 3, 4, 5)]


def instance_norm_of_any(lib: Any) -> Any:
    class AnyNorm(lib.nn.InstanceNorm1d):  # type: ignore[misc]
        def _check_input_dim(self, input: Any) -> None:
            pass

        def _apply_instance_norm(self, input: Any) -> Any:
            return 3 * super()._apply_instance_norm(input)

    return set_all(lib, AnyNorm(3)), [filled(lib, 2, 3, 4, 5)]


def encoder_blocks(lib: Any) -> Any:
    class Scaled(lib.nn.TransformerEncoderLayer):  # type: ignore[misc]
        def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
            return 2 * super()._sa_block(x, attn_mask, key_padding_mask, is_causal=is_causal)

        def _ff_block(self, x: Any) -> Any:
            return -super()._ff_block(x)

    return set_all(lib, Scaled(4, 2, 8, dropout=0.0, norm_first=True)), [filled(lib, 3, 2, 4)]


def decoder_blocks(lib: Any) -> Any:
    class Scaled(lib.nn.TransformerDecoderLayer):  # type: ignore[misc]
        def _sa_block(self, *args: Any, **kwargs: Any) -> Any:
            return 2 * super()._sa_block(*args, **kwargs)

        def _mha_block(self, x: Any, mem: Any, *args: Any, **kwargs: Any) -> Any:
            return super()._mha_block(x, mem * 3, *args, **kwargs)

        def _ff_block(self, x: Any) -> Any:
            return x * 0

    return set_all(lib, Scaled(4, 2, 8, dropout=0.0)), [filled(lib, 3, 2, 4), filled(lib, 5, 2, 4)]


def circular_of_any(lib: Any) -> Any:
    class AnyPad(lib.nn.CircularPad1d):  # type: ignore[misc]
        def _check_input_dim(self, input: Any) -> None:
            self.seen = input.dim()

    return AnyPad(1), [filled(lib, 2, 3, 4)]


def own_pool(lib: Any) -> Any:
    base = nn.pooling._MaxPoolNd if lib is cr else lib.nn.modules.pooling._MaxPoolNd

    class Pool(base):  # type: ignore[misc, valid-type]
        def forward(self, x: Any) -> Any:
            return lib.nn.functional.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation)

    return Pool((2, 1)), [filled(lib, 1, 2, 4, 5)]


def own_loss(lib: Any) -> Any:
    base = nn.loss._WeightedLoss if lib is cr else lib.nn.modules.loss._WeightedLoss

    class Loss(base):  # type: ignore[misc, valid-type]
        def forward(self, x: Any, y: Any) -> Any:
            loss = (x - y).abs() * self.weight
            return loss.sum() if self.reduction == "sum" else loss.mean()

    return Loss(filled(lib, 4), reduction="sum"), [filled(lib, 3, 4), filled(lib, 4)]


def checked_states(lib: Any) -> Any:
    class Lenient(lib.nn.LSTM):  # type: ignore[misc]
        def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
            self.seen = tuple(input.shape), [tuple(h.shape) for h in hidden], batch_sizes
            super().check_forward_args(input, hidden, batch_sizes)

        def get_expected_hidden_size(self, input: Any, batch_sizes: Any) -> Any:
            found = super().get_expected_hidden_size(input, batch_sizes)
            self.expected = tuple(found)
            return found

    return set_all(lib, Lenient(2, 3, 2)), [filled(lib, 4, 2, 2)]


EXTENDED = [
    weight_standardized,
    doubled_conv,
    own_output_padding,
    conv_of_any,
    batch_norm_of_any,
    instance_norm_of_any,
    encoder_blocks,
    decoder_blocks,
    circular_of_any,
    own_pool,
    own_loss,
    checked_states,
]


@pytest.mark.parametrize("make", EXTENDED, ids=lambda make: make.__name__)
def test_overrides_are_called(make: Any) -> None:
    shown = []
    for lib in BOTH:
        module, args = make(lib)
        y = module(*args)
        y = y[0] if isinstance(y, tuple) else y
        plain = {k: v for k, v in vars(module).items() if k in ("seen", "expected")}
        shown.append((y.detach().flatten().tolist(), tuple(y.shape), list(module.state_dict()), plain))
    for values, *rest in shown:
        assert values == pytest.approx(shown[-1][0], rel=1e-9, abs=1e-12) and rest == list(shown[-1][1:])
    assert len(shown[0][0]) > 0


def test_kinds_of_norms() -> None:
    assert not isinstance(nn.InstanceNorm2d(2), nn.norm._BatchNorm) and isinstance(
        nn.InstanceNorm2d(2), nn.norm._NormBase
    )
    both_kinds = nn.Sequential(nn.BatchNorm2d(2), nn.InstanceNorm2d(2)).eval()
    found = nn.SyncBatchNorm.convert_sync_batchnorm(both_kinds)
    assert [type(m).__name__ for m in found.children()] == ["SyncBatchNorm", "InstanceNorm2d"]
    assert not any(m.training for m in found.modules())


@both
def test_names_and_methods(lib: Any) -> None:
    """A submodule with the name of a method does not take its place; ``_get_name`` is what repr says."""

    class Net(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.type = lib.nn.Linear(2, 2)
            self.shown = lib.nn.ReLU()

        def _get_name(self) -> str:
            return "Renamed"

        def shown(self) -> str:  # type: ignore[no-redef]
            return "method"

        def weight_of(self) -> Any:
            return self._modules["type"] if lib is torch else self._value_of("type")

    net = Net()
    assert net.shown() == "method" and net.half().type(lib.float64) is net
    assert list(net.state_dict()) == ["type.weight", "type.bias"]
    assert [name for name, _ in net.named_children()] == ["type", "shown"]
    assert net.weight_of().weight.dtype == lib.float64
    assert repr(net).startswith("Renamed(\n  (type): Linear(")
    twin = copy.deepcopy(net)
    net.type = lib.nn.Linear(1, 1)
    assert [tuple(p.shape) for p in net.parameters()] == [(1, 1), (1,)]
    assert [tuple(p.shape) for p in twin.parameters()] == [(2, 2), (2,)]
    net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()})
    del net.shown
    assert [name for name, _ in net.named_children()] == ["type"] and net.shown() == "method"
    with pytest.raises(KeyError, match="already exists"):
        net.half = lib.nn.Parameter(lib.ones(2))
    with pytest.raises(KeyError, match="already exists"):
        net.add_module("state_dict", lib.nn.ReLU())


@both
def test_dicts_of_modules(lib: Any) -> None:
    a = lib.nn.ModuleDict({"x": lib.nn.ReLU(), "y": lib.nn.Linear(1, 2)})
    b = lib.nn.ModuleDict(a)
    assert list(b.keys()) == ["x", "y"] and b["y"] is a["y"]
    c = lib.nn.ModuleDict([("z", lib.nn.Tanh())])
    c.update(a)
    c.update(OrderedDict(x=lib.nn.Tanh()))
    assert list(c) == ["z", "x", "y"] and type(c["x"]).__name__ == "Tanh" and "y" in c and len(c) == 3
    c.update(lib.nn.ModuleDict(dict(c.items())))
    outer = lib.nn.ModuleDict({"inner": c})
    assert list(outer.state_dict()) == ["inner.y.weight", "inner.y.bias"]
    for wrong, kind in ((3, TypeError), ([3], TypeError), ([("a",)], ValueError), ([("a", 3)], TypeError)):
        with pytest.raises(kind):
            c.update(wrong)


# ---- state dicts ----


@both
def test_own_loading(lib: Any) -> None:
    seen: list[Any] = []

    class Old(lib.nn.Linear):  # type: ignore[misc]
        _version = 3

        def _load_from_state_dict(
            self, state_dict: Any, prefix: str, local_metadata: Any, strict: Any, *rest: Any
        ) -> None:
            seen.append((prefix, local_metadata.get("version"), strict))
            if prefix + "w" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *rest)
            seen.append(self.bias.tolist())

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "made"] = lib.tensor(7.0)

    net = lib.nn.Sequential(Old(2, 2), lib.nn.ReLU())
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "0.made"]
    assert state._metadata["0"] == {"version": 3} and state._metadata[""] == {"version": 1}
    state["0.w"] = state.pop("0.weight") * 0 + 5
    state["0.bias"] = lib.ones(2)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        net.load_state_dict(state)
    assert seen == [("0.", 3, True), [1, 1]] and net[0].weight.tolist() == [[5, 5], [5, 5]], "it takes entries at once"
    del state["0.made"]
    assert net.load_state_dict(dict(state)).missing_keys == [] and seen[2] == ("0.", None, True)
    assert list(state) == ["0.bias", "0.w"], "the given dict is as it was"


@both
def test_hooks_before_errors(lib: Any) -> None:
    """A hook behind a load may take missing keys back; one before it may add entries."""
    net = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.Sequential(lib.nn.Linear(1, 1)))
    said: list[Any] = []

    def forgive(module: Any, keys: Any) -> None:
        said.append((type(module).__name__, sorted(keys.missing_keys), sorted(keys.unexpected_keys)))
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    def add(module: Any, state_dict: Any, prefix: str, metadata: Any, strict: Any, missing: Any, *rest: Any) -> None:
        said.append((prefix, strict, [*missing]))
        state_dict[prefix + "bias"] = lib.full((1,), 3.0)

    net[1][0].register_load_state_dict_pre_hook(add)
    net.register_load_state_dict_post_hook(forgive)
    assert net.load_state_dict({"0.weight": lib.ones(1, 1), "1.0.weight": lib.ones(1, 1), "x": lib.ones(1)}) is not None
    assert said == [("1.0.", True, ["0.bias"]), ("Sequential", ["0.bias"], ["x"])]
    assert net[1][0].bias.item() == 3 and net[0].weight.item() == 1
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError):
        net.load_state_dict(net.state_dict())


@both
def test_hooks_of_saving(lib: Any) -> None:
    net = lib.nn.Sequential(lib.nn.Linear(1, 1))
    net[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop(prefix + "bias") and None)
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep_vars: m.weight.data.fill_(4))
    assert [(k, v.item()) for k, v in net.state_dict().items()] == [("0.weight", 4)]
    handle = net._register_state_dict_hook(lambda m, state, prefix, meta: {"only": 1})
    assert net.state_dict() == {"only": 1}
    handle.remove()
    net[0].register_state_dict_post_hook(lambda m, state, prefix, meta: state)
    with pytest.raises(RuntimeError, match="must return None"):
        net.state_dict()
    into: Any = OrderedDict()
    other = lib.nn.Linear(1, 1)
    assert other.state_dict(into, "a.") is into and list(into) == ["a.weight", "a.bias"], "an older form"


@both
def test_batch_norm_before_it_counted(lib: Any) -> None:
    for make in (lib.nn.BatchNorm2d, lambda n: lib.nn.InstanceNorm1d(n, track_running_stats=True)):
        net = lib.nn.Sequential(make(2))
        new = net.state_dict()
        old = {k: v for k, v in new.items() if "num_batches" not in k}
        net[0].num_batches_tracked.fill_(5)
        net.load_state_dict(old)
        assert net[0].num_batches_tracked.item() == 5
        del new["0.num_batches_tracked"]
        with pytest.raises(RuntimeError, match="num_batches_tracked"):
            net.load_state_dict(new)  # its metadata says a version that has the entry


@both
def test_assigned_entries(lib: Any) -> None:
    net = lib.nn.Sequential(lib.nn.Linear(2, 1), lib.nn.BatchNorm1d(1))
    net[0].bias.requires_grad_(False)
    given = {k: v.clone() for k, v in net.state_dict().items()}
    given["0.weight"] = lib.nn.Parameter(lib.ones(1, 2, dtype=lib.float64))
    net.load_state_dict(given, assign=True)
    assert net[0].weight is given["0.weight"] and net[0].weight.dtype == lib.float64
    assert isinstance(net[0].bias, lib.nn.Parameter) and not net[0].bias.requires_grad
    assert net[1].running_mean is given["1.running_mean"] and net[0].bias.data_ptr() == given["0.bias"].data_ptr()


def test_state_dict_goes_through_files(tmp_path: Any) -> None:
    net = nn.Sequential(nn.BatchNorm1d(2))
    cr.save(net.state_dict(), tmp_path / "state.pt")
    found: Any
    for found in (
        cr.load(tmp_path / "state.pt"),
        pickle.loads(pickle.dumps(net.state_dict())),
        copy.copy(net.state_dict()),
    ):
        assert found._metadata["0"]["version"] == 2 and list(found) == list(net.state_dict())
        net.load_state_dict(found)


@both
def test_scalars_of_old_files(lib: Any) -> None:
    class Scalar(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = lib.nn.Parameter(lib.tensor(1.0))

    net = Scalar()
    net.load_state_dict({"scale": lib.tensor([3.0])})
    assert net.scale.item() == 3 and net.scale.shape == ()


# ---- copies ----


@both
def test_zeros_in_place_of_a_graph(lib: Any) -> None:
    layer = lib.nn.Linear(2, 1)
    (layer(lib.ones(1, 2)) ** 2).sum().backward(create_graph=True)
    held = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    assert not layer.weight.grad.requires_grad
    assert layer.weight.grad.tolist() == held.tolist() == [[0, 0]]


@both
def test_order_of_hooks(lib: Any) -> None:
    said: list[str] = []
    layer = lib.nn.Identity()
    everywhere = (lib.nn if lib is cr else lib.nn.modules).module.register_module_forward_hook(
        lambda *_: said.append("all")
    )
    handles = [
        layer.register_forward_hook(lambda *_, name=name: said.append(name), prepend=first)
        for name, first in (("a", False), ("b", False), ("c", False), ("d", True), ("e", True))
    ]
    layer(lib.ones(1))
    everywhere.remove()
    for _ in range(2):  # the second time there is nothing to remove
        handles[0].remove()
    layer(lib.ones(1))
    assert "".join(said) == "alledabc" + "edbc"


@both
def test_rows_of_modules(lib: Any) -> None:
    named = lib.nn.Sequential(OrderedDict((name, lib.nn.Identity()) for name in "abcd"))
    assert [name for name, _ in named[1:3].named_children()] == ["b", "c"]
    row, last = lib.nn.ModuleList([lib.nn.ReLU()] * 2), lib.nn.Tanh()
    row.insert(2, last)
    row.insert(2, lib.nn.GELU())
    assert [type(m).__name__ for m in row] == ["ReLU", "ReLU", "GELU", "Tanh"]
    assert lib.nn.Sequential(last).insert(1, lib.nn.ReLU())[1] is not last
    assert repr(lib.nn.ModuleList([lib.nn.ReLU()] * 3)).splitlines()[1] == "  (0-2): 3 x ReLU()"


@both
def test_shallow_copies(lib: Any) -> None:
    net = lib.nn.Sequential(lib.nn.Linear(1, 1))
    twin = copy.copy(net)
    assert twin[0] is net[0] and type(twin) is type(net)
    twin.eval()
    twin.extra = 3
    assert net.training and not hasattr(net, "extra") and not net[0].training


def test_a_shallow_copy_has_parts_of_its_own() -> None:
    net = nn.Sequential(nn.Linear(1, 1))
    twin = copy.copy(net)
    twin.append(nn.ReLU())
    assert len(net) == 1 and len(twin) == 2 and len(net.state_dict()) == 2
    del twin[0]
    assert len(net) == 1 and len(twin) == 1 and list(net.state_dict()) == ["0.weight", "0.bias"]


@both
def test_pickled_modules(lib: Any) -> None:
    net = lib.nn.Sequential(lib.nn.Conv2d(1, 2, 3), lib.nn.BatchNorm2d(2), lib.nn.Dropout(0.2))
    twin = pickle.loads(pickle.dumps(net))
    assert repr(twin) == repr(net) and list(twin.state_dict()) == list(net.state_dict())
    file = io.BytesIO()
    lib.save(net.state_dict(), file)
    file.seek(0)
    twin.load_state_dict(lib.load(file))


# ---- functions of modules ----


def test_functional_call_of_tied_weights() -> None:
    import chainrule.torch as drop_in

    for lib, call in [(cr, drop_in.func.functional_call), *([(torch, torch.func.functional_call)] if torch else [])]:
        net = lib.nn.Sequential(*(lib.nn.Linear(2, 2, bias=False) for _ in range(2)))
        net[1].weight = net[0].weight
        before = net[0].weight
        assert call(net, {"0.weight": lib.eye(2) * 2}, (lib.ones(1, 2),)).tolist() == [[4, 4]]
        assert call(net, {"1.weight": lib.eye(2) * 3}, lib.ones(1, 2)).tolist() == [[9, 9]]
        one = call(net, {"1.weight": lib.zeros(2, 2)}, lib.ones(1, 2), tie_weights=False)
        assert one.tolist() == [[0, 0]] and net[1].weight is net[0].weight is before


def test_randomness_of_vmap() -> None:
    import chainrule.torch as drop_in

    for lib, vmap in [(cr, drop_in.vmap), *([(torch, torch.vmap)] if torch else [])]:
        draw = lambda x, lib=lib: x + lib.rand(2)
        x = lib.zeros(3, 2)
        for randomness, rows in (("same", 1), ("different", 3)):
            lib.manual_seed(3)
            y = vmap(draw, randomness=randomness)(x)
            assert len({tuple(row) for row in y.tolist()}) == rows, randomness
            following = lib.rand(1).item()
            assert following not in y.tolist()[0]
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(draw)(x)
        with pytest.raises(RuntimeError, match="Only allowed values"):
            vmap(draw, randomness="some")(x)
        assert vmap(lambda x: x * 2)(x).tolist() == x.tolist()


@both
def test_deep_copies(lib: Any) -> None:
    """A copy of a parameter has memory of its own and no gradient; that of a tensor has its gradient."""
    p, x = lib.nn.Parameter(lib.ones(2)), lib.ones(2, requires_grad=True)
    p.grad = lib.ones(2)
    (3 * x).sum().backward()
    q, y = copy.deepcopy((p, x))
    assert q.grad is None and y.grad.tolist() == [3, 3] and y.requires_grad and q.requires_grad
    net = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net[0].register_buffer("again", net[0].weight.detach())
    twin = copy.deepcopy(net)
    assert twin[0].weight is twin[1].weight and twin[0].weight is not net[0].weight
    assert twin[0].again.data_ptr() != net[0].again.data_ptr() and type(twin[0].weight) is lib.nn.Parameter
    frozen = copy.deepcopy(lib.nn.Parameter(lib.ones(2), requires_grad=False))
    assert not frozen.requires_grad


SHOWN: list[tuple[str, tuple[Any, ...]]] = [
    ("MultiheadAttention", (4, 2)),
    ("TransformerEncoderLayer", (4, 2)),
    ("Transformer", (4, 2, 1, 1, 8)),
    ("ReLU6", (True,)),
    ("Upsample", (2,)),
    ("FractionalMaxPool2d", (2, 2)),
    ("Conv2d", (2, 4, 3, 2, 1)),
    ("ConvTranspose1d", (2, 4, 3)),
    ("InstanceNorm2d", (3,)),
    ("LSTM", (2, 3, 2)),
]


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name, args", SHOWN, ids=lambda x: x if isinstance(x, str) else "")
def test_reprs_versions_and_bases(name: str, args: tuple[Any, ...]) -> None:
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    assert repr(ours) == repr(theirs) and ours.state_dict()._metadata == theirs.state_dict()._metadata
    known = {kind.__name__ for kind in type(ours).__mro__}
    wanted = {kind.__name__ for kind in type(theirs).__mro__ if hasattr(nn, kind.__name__)}
    assert wanted <= known
    for attribute in (
        "kernel_size",
        "output_size",
        "name",
        "min_val",
        "transposed",
        "_reversed_padding_repeated_twice",
    ):
        if hasattr(theirs, attribute):
            assert getattr(ours, attribute) == getattr(theirs, attribute), attribute
