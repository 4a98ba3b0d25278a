"""Recurrent layers RNN, LSTM and GRU, and their cells.

Letters in shapes: T time steps, B batch, I inputs, H hidden, P = ``proj_size`` or H, D = 2 directions or 1, L layers.
Parameters of layer k are weight_ih_lk (G H, I, or D P from the layer below), weight_hh_lk (G H, P), bias_ih_lk and
bias_hh_lk (G H), weight_hr_lk (P, H), with G = 4 gates i, f, g, o of an LSTM, 3 gates r, z, n of a GRU, 1 of an RNN;
the second direction's names end in ``_reverse``.  All start in U(-b, b), b = 1 / sqrt(H)."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .. import _core
from .._core import Device, Tensor
from .functional import dropout as _dropout
from .linear import draw, new
from .module import Module
from .parameter import Parameter
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}
NONLINEARITIES = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}

States = tuple[Tensor, ...]  # h (L D, B, P), and an LSTM's c (L D, B, H)


def _check_size(name: str, value: Any) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero")


def _check_dropout(dropout: Any, num_layers: int) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers"
            f" greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )


class RNNBase(Module):
    """L layers of recurrent cells in D directions; ``mode``: "RNN_TANH", "RNN_RELU", "GRU" or "LSTM".

    forward(input, hx): input (T, B, I), (B, T, I) with ``batch_first``, (T, I) or a ``PackedSequence``; hx: the states
    before, (L D, B, P), zeros where it is None -> outputs (T, B, D P) of the last layer, and the last states."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_dropout(dropout, num_layers)
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        _check_size("input_size", input_size)
        _check_size("hidden_size", hidden_size)
        _check_size("num_layers", num_layers)
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._add_parameters(device, dtype)
        self.reset_parameters()

    def _add_parameters(self, device: Device | str | None, dtype: _core.dtype | None) -> None:
        rows, state = GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        directions = ("", "_reverse") if self.bidirectional else ("",)
        self._all_weights: list[list[str]] = []
        for layer in range(self.num_layers):
            width = state * len(directions) if layer else self.input_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, state)}
            if self.bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if self.proj_size:
                shapes["weight_hr"] = (self.proj_size, self.hidden_size)
            for direction in directions:
                names = {f"{name}_l{layer}{direction}": shape for name, shape in shapes.items()}
                for name, shape in names.items():
                    self.register_parameter(name, new(*shape, device=device, dtype=dtype))
                self._all_weights.append(list(names))

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        draw(1 / math.sqrt(self.hidden_size), *self.parameters())

    def flatten_parameters(self) -> None:
        """Does nothing: here for programs that call it."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises for an input that does not fit: (T, B, I), or (N, I) with ``batch_sizes``."""
        axes = 3 if batch_sizes is None else 2
        weight = self.weight_ih_l0
        if input.dtype is not weight.dtype and not _core._autocasting():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input:"
                f" input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        if input.ndim != axes:
            raise RuntimeError(f"input must have {axes} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def _expected_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        batch = input.shape[1] if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (1 + self.bidirectional), batch, width

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of h, (L D, B, P)."""
        return self._expected_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raises for a state that has another shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises for an input and a state, an LSTM's are (h, c), that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in another order of the batch."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _sizes(self, input: Tensor, batch_sizes: Tensor | None) -> list[tuple[int, int, int]]:
        """The shapes of the states."""
        return [self.get_expected_hidden_size(input, batch_sizes)]

    def _check_args(self, input: Tensor, states: States, batch_sizes: Tensor | None) -> None:
        """``check_forward_args``; a subclass that defines it gets zeros for states that are not given."""
        if not states and type(self).check_forward_args in (RNNBase.check_forward_args, LSTM.check_forward_args):
            self.check_input(input, batch_sizes)
            return
        given = states or [
            _core.zeros(size, dtype=input.dtype, device=input.device) for size in self._sizes(input, batch_sizes)
        ]
        self.check_forward_args(input, self._hidden(given), batch_sizes)

    def _hidden(self, states: Any) -> Any:
        """The states as ``forward`` takes and gives them."""
        return states[0]

    def _permuted(self, states: States, order: Tensor | None) -> States:
        if not states or order is None:
            return states
        found = self.permute_hidden(self._hidden(states), order)
        return tuple(found) if self.mode == "LSTM" else (found,)

    def _layers(self, x: Tensor, states: States, batch_sizes: Tensor | None) -> tuple[Tensor, States]:
        """All layers over (T, B, I), or (N, I) with batch sizes."""
        directions = 1 + self.bidirectional
        last: list[States] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = _dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(directions):
                at = layer * directions + direction
                weights = [getattr(self, name) for name in self._all_weights[at]]
                h, c = (*(state[at] for state in states), None, None)[:2]
                y, *after = _core._recurrent(self.mode, x, weights, h, c, batch_sizes, direction == 1)
                outputs.append(y)
                last.append(tuple(after))
            x = outputs[0] if directions == 1 else _core.cat(outputs, -1)
        return x, tuple(_core.stack(each) for each in zip(*last, strict=True))

    def _packed(self, input: PackedSequence, states: States) -> tuple[PackedSequence, States]:
        data, batch_sizes, order, back = input
        states = self._permuted(states, order)
        self._check_args(data, states, batch_sizes)
        y, last = self._layers(data, states, batch_sizes)
        return PackedSequence(y, batch_sizes, order, back), self._permuted(last, back)

    def _run(self, input: Tensor | PackedSequence, states: States) -> tuple[Tensor | PackedSequence, States]:
        if isinstance(input, PackedSequence):
            return self._packed(input, states)
        if input.ndim not in (2, 3):
            name = type(self).__name__
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        batched = input.ndim == 3
        for state in states:
            if state.ndim != input.ndim:
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, hx should also be {input.ndim}-D but"
                    f" got {state.ndim}-D tensor"
                )
        if not batched:
            y, last = self._times_first(input.unsqueeze(1), tuple(state.unsqueeze(1) for state in states))
            return y.squeeze(1), tuple(state.squeeze(1) for state in last)
        if not self.batch_first:
            return self._times_first(input, states)
        y, last = self._times_first(input.transpose(0, 1), states)
        return y.transpose(0, 1), last

    def _times_first(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        self._check_args(x, states, None)
        if not len(x):
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        return self._layers(x, states, None)

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        y, (h,) = self._run(input, () if hx is None else (hx,))
        return y, h

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


def _without_projection(proj_size: int | None) -> None:
    if proj_size is not None:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


def _mode(nonlinearity: str) -> str:
    if nonlinearity not in NONLINEARITIES:
        raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return NONLINEARITIES[nonlinearity]


class RNN(RNNBase):
    """h = tanh(x w_ih^T + b_ih + h w_hh^T + b_hh) (Elman 1990), or max(..., 0) for the nonlinearity "relu"."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        *,
        proj_size: int | None = None,  # LSTM's
    ) -> None:
        _without_projection(proj_size)
        options = bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__(_mode(nonlinearity), input_size, hidden_size, num_layers, *options)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """r = s(x w_r^T + h u_r^T), z = s(x w_z^T + h u_z^T), n = tanh(x w_n^T + r (h u_n^T)), h = (1 - z) n + z h, with
    biases in each product and s = sigmoid (Cho et al. 2014)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
        *,
        proj_size: int | None = None,  # LSTM's
    ) -> None:
        _without_projection(proj_size)
        options = bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__("GRU", input_size, hidden_size, num_layers, *options)


class LSTM(RNNBase):
    """c = s(f) c + s(i) tanh(g), h = s(o) tanh(c), gates i, f, g, o = x w_ih^T + b_ih + h w_hh^T + b_hh and s = sigmoid
    (Hochreiter and Schmidhuber 1997); ``proj_size`` P: h = (s(o) tanh(c)) w_hr^T (Sak et al. 2014).  hx is (h, c)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        options = bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        super().__init__("LSTM", input_size, hidden_size, num_layers, *options)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of c, (L D, B, H)."""
        return self._expected_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        for k, size in enumerate(self._sizes(input, batch_sizes)):
            self.check_hidden_size(hidden[k], size, f"Expected hidden[{k}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        if permutation is None:
            return hx
        return tuple(state.index_select(1, permutation) for state in hx)

    def _sizes(self, input: Tensor, batch_sizes: Tensor | None) -> list[tuple[int, int, int]]:
        return [
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        ]

    def _hidden(self, states: Any) -> Any:
        return tuple(states)

    def forward(
        self, input: Tensor | PackedSequence, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        y, (h, c) = self._run(input, () if hx is None else tuple(hx))
        return y, (h, c)


class RNNCellBase(Module):
    """One step of a cell: input (B, I) or (I), hx (B, H) or (H), zeros where it is None."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = new(rows, input_size, device=device, dtype=dtype)
        self.weight_hh = new(rows, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new(rows, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        draw(1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0, *self.parameters())

    def _check(self, input: Tensor, states: States) -> None:
        name = type(self).__name__
        for what, x in (
            ("input", input),
            *((f"hx[{k}]" if name == "LSTMCell" else "hidden", s) for k, s in enumerate(states)),
        ):
            if x.ndim not in (1, 2):
                raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {x.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        for k, state in enumerate(states):
            if state.shape[:-1] != input.shape[:-1]:
                raise RuntimeError(
                    f"Input batch size {list(input.shape[:-1])} doesn't match hidden{k} batch size"
                    f" {list(state.shape[:-1])}"
                )
            if state.shape[-1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {state.shape[-1]}, expected {self.hidden_size}"
                )

    def _step(self, mode: str, input: Tensor, *states: Tensor) -> States:
        """The states after one step."""
        self._check(input, states)
        weights = [w for w in (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh) if w is not None]
        batched = input.ndim == 2
        x, h, c, *_ = (*(v if batched else v.unsqueeze(0) for v in (input, *states)), None, None)
        assert x is not None
        _, *after = _core._recurrent(mode, x.unsqueeze(0), weights, h, c)
        return tuple(after) if batched else tuple(state.squeeze(0) for state in after)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of ``RNN`` : (B, I), (B, H) -> (B, H)"""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in NONLINEARITIES:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        (h,) = self._step(NONLINEARITIES[self.nonlinearity], input, *(() if hx is None else (hx,)))
        return h


class GRUCell(RNNCellBase):
    """One step of ``GRU`` : (B, I), (B, H) -> (B, H)"""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (h,) = self._step("GRU", input, *(() if hx is None else (hx,)))
        return h


class LSTMCell(RNNCellBase):
    """One step of ``LSTM`` : (B, I), ((B, H), (B, H)) -> (B, H), (B, H)"""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = self._step("LSTM", input, *(() if hx is None else hx))
        return h, c
