"""Pictures: of a graph with values and gradients (graphviz), of the curves of training runs and of
a decision boundary (matplotlib); a progress bar (tqdm).

These packages are imported when they are used: ``pip install chainrule[viz]``.
"""

from __future__ import annotations

from . import _core
from ._core import Node, Tensor, Value
from ._progress import progress
from .autograd import no_grad
from .value_batch import ValueBatch

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    _Points = list[tuple[float, float]]
    _Rows = list[tuple[int, dict[str, Any]]]

__all__ = ["boundary", "curves", "graph", "plan", "progress"]

# Distinct for readers with colour blindness too (Okabe and Ito, 2008); src/cli/curve.c has the same.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7a5ea8")
INK, LINES, GRID = "#1d2939", "#98a2b3", "#e4e7ec"


def _package(name: str) -> Any:
    """A module of a package that may be absent."""
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as problem:
        package = name.partition(".")[0]
        if (problem.name or "").partition(".")[0] != package:
            raise
        raise ModuleNotFoundError(f"[viz] needs {package}: pip install chainrule[viz]", name=package) from None


# ---- graphs


def graph(
    root: Any, format: str = "svg", rankdir: str = "LR", *, params: Mapping[str, Tensor] | None = None, limit: int = 500
) -> Any:
    """The graph that computed ``root``, as a ``graphviz.Digraph``: a Value, a ValueBatch, a Tensor,
    or tensors in lists and dicts.

    Leaves are blue, ``root`` is orange.  Leaves, tensors in ``root`` and results that retain their
    gradients show value and gradient: the numbers where there are few, else smallest, mean and
    largest; a frame is red where they are not finite.  Of other results, the shape is known. params
    names leaves: ``dict(model.named_parameters())``.  A notebook shows the picture; ``.source`` is
    its text; ``.render("file")`` needs the program ``dot``. ValueError: nothing was recorded, or
    there are more than ``limit`` nodes."""
    import re

    graphviz = _package("graphviz")

    roots = {node: x for x in _flat(root) for node in [_node(x)]}
    names = {_core._node(p): name for name, p in (params or {}).items() if p.requires_grad}
    ids = {node: f"n{i}" for i, node in enumerate(_reached(roots, limit))}
    text = {"fontname": "Helvetica,Arial,sans-serif", "fontsize": "11", "fontcolor": INK}
    picture = graphviz.Digraph(format=format, graph_attr={"rankdir": rankdir, "nodesep": "0.15", "ranksep": "0.35"})
    picture.attr("node", shape="box", style="rounded,filled", height="0.3", margin="0.12,0.06", **text)
    picture.attr("edge", color=LINES, arrowsize="0.6")
    for node, name in ids.items():
        title, shape, lines = _described(node, roots.get(node), names.get(node, ""))
        head = (f"<B>{_html(title)}</B> " if title else "") + shape
        label = "<BR/>".join(part for part in (head, *map(_html, lines)) if part)
        line, fill = (
            (COLOURS[1], "#fbe6d9")
            if node in roots
            else (COLOURS[0], "#dcebf6")
            if _is_leaf(node)
            else (LINES, "white")
        )
        odd = re.search(r"\b(nan|inf)\b", " ".join(lines))
        picture.node(name, f"<{label}>", color="#c00000" if odd else line, fillcolor=fill, penwidth="3" if odd else "1")
        picture.edges((ids[before], name) for before in _inputs(node))
    return picture


def plan(step: Any, format: str = "svg", *, limit: int = 500) -> Any:
    """The plan of a compiled function or module for the signature that was called last, as a ``graphviz.Source``.

    A node is a kernel, with its op and what it writes; tensors from outside and inputs are blue, kernels that write
    results or parameters are orange, and a frame holds kernels that run tile by tile.  ValueError: there is no plan,
    or it has more than ``limit`` kernels.  TypeError: ``step`` was not made by ``compile``."""
    graphviz = _package("graphviz")

    compiled = getattr(step, "__dict__", {}).get("_compiled")
    if compiled is None:
        raise TypeError(f"plan(): what compile returns, not {type(step).__name__}")
    if why := compiled.lacks():
        raise ValueError(f"plan(): {why}")
    found = compiled.last.plan
    if (kernels := _core._plan_info(found)[1]) > limit:
        raise ValueError(f"plan(): {kernels} kernels, more than {limit}; compile a part, or give a larger limit")
    return graphviz.Source(_core._plan_dot(found), format=format)


def _flat(x: Any) -> Iterator[Any]:
    if isinstance(x, Value | ValueBatch | Tensor):
        yield x
    elif isinstance(x, list | tuple | dict):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _flat(part)
    else:
        raise TypeError(f"graph(): a Value, a ValueBatch, a Tensor, or lists and dicts of them, not {type(x).__name__}")


def _node(x: Value | ValueBatch | Tensor) -> Value | ValueBatch | Node:
    node = _core._node(x) if isinstance(x, Tensor) else x  # a Value is its node
    if node is None:
        raise ValueError("graph(): the tensor does not require gradients, so that nothing was recorded")
    return node


def _inputs(node: Any) -> list[Any]:
    return [before for before, _ in node.next_functions if before] if isinstance(node, Node) else list(node._prev)


def _is_leaf(node: Any) -> bool:
    return hasattr(node, "variable") if isinstance(node, Node) else not node._op


def _reached(roots: Iterable[Any], limit: int) -> dict[Any, None]:
    found: dict[Any, None] = {}
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = None
            todo += _inputs(node)
        if len(found) > limit:
            raise ValueError(
                f"graph(): more than {limit} nodes; draw a part or a smaller model, or give a larger limit"
            )
    if not found:
        raise ValueError("graph(): there is nothing to draw")
    return found


def _described(node: Any, root: Any, name: str) -> tuple[str, str, list[str]]:
    """Title, shape and lines of a node."""
    if not isinstance(node, Node):
        return (
            " = ".join(filter(None, (node.label, node._op))),
            "",
            [f"data {_numbers(node.data)}", f"grad {_numbers(node.grad)}"],
        )
    tensor = node._tensor if root is None else root
    title = name or ("" if _is_leaf(node) else node.name().removesuffix("0").removesuffix("Backward"))
    shape = str(tuple(node.shape)) + ("" if node.dtype is _core.float32 else f" {node.dtype}".replace("chainrule.", ""))
    known = () if tensor is None else (("data", tensor), ("grad", tensor.grad))
    return title, shape, [f"{what} {_summary(t)}" for what, t in known if t is not None]


def _numbers(x: Any) -> str:
    """Nested lists of numbers, at most six of a list."""
    if isinstance(x, list):
        return "[" + ", ".join([_numbers(v) for v in x[:6]] + ["..."] * (len(x) > 6)) + "]"
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def _summary(t: Tensor) -> str:
    t = t.detach()
    if t.numel() <= 6:
        return _numbers(t.tolist())
    return f"{_numbers(t.min().item())} .. {_numbers(t.max().item())}, mean {_numbers(t.mean().item())}"


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ---- the look of all plots


def _figure(width: float, height: float) -> Any:
    """A figure of that many inches.  A notebook shows it with and without pyplot."""
    import io

    Figure = _package("matplotlib.figure").Figure

    figure = Figure(figsize=(width, height), layout="constrained")

    def png() -> bytes:
        file = io.BytesIO()
        figure.savefig(file, format="png")
        return file.getvalue()

    figure._repr_png_ = png  # type: ignore[attr-defined,unused-ignore]
    return figure


def _axes(plot: Any, x: str, y: str) -> Any:
    """With names at its sides."""
    plot.set_xlabel(x, color=INK)
    plot.set_ylabel(y, color=INK)
    plot.grid(color=GRID, linewidth=0.8)
    plot.set_axisbelow(True)
    plot.tick_params(colors=INK, labelsize="small", length=0)
    for side, spine in plot.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LINES)
    return plot


# ---- curves

UNITS = {"lr": "learning rate", "norm": "gradient norm", "tokens/s": "tokens a second"}


def curves(
    *runs: str | os.PathLike[str], y: str | Sequence[str] = "loss", smooth: float = 0.05, log: str = "none"
) -> Any:
    """Training runs over their steps, as a matplotlib figure.  runs: files with a JSON object a
    line, as ``chainrule train`` writes ``run.jsonl``, or folders with such a file; at most eight.

    y: the quantity, or a list of quantities, one above the other: "loss" (with the validation
    loss), "lr", "norm", "tokens/s", or any number that the lines hold. smooth: the share of the
    points that a running mean is taken over; the points themselves are faint.  log: "x", "y" or
    "xy" for logarithmic axes. NaN, and null, leave a gap.  OSError: no such file.  ValueError, with
    the line: it is not a JSON object, or not of numbers; or a run has nothing to draw."""
    if not 1 <= len(runs) <= len(COLOURS):
        raise ValueError(f"curves(): {len(runs)} runs in one picture: 1 to {len(COLOURS)} can be distinguished")
    if not 0 <= smooth <= 1 or log not in ("none", "x", "y", "xy"):
        raise ValueError(
            f"curves(): smooth is a share from 0 to 1, log one of none, x, y, xy; not {smooth} and {log!r}"
        )
    keys = [y] if isinstance(y, str) else list(y)
    read = [_rows(run) for run in runs]
    figure = _figure(7.6, 1.2 + 3 * len(keys))
    for plot, key in zip(figure.subplots(len(keys), 1, sharex=True, squeeze=False)[:, 0], keys, strict=True):
        _axes(plot, "", UNITS.get(key, key))
        for k, (name, rows) in enumerate(read):
            train, validation = _series(name, rows, key), _series(name, rows, f"val_{key}")
            if not train and not validation:
                raise ValueError(f"curves(): '{name}' has no {key!r}")
            _draw(plot, train, validation, 0 if key == "lr" else smooth, k, f"{name}: " if len(read) > 1 else "")
        plot.set_xscale("log" if "x" in log else "linear")
        plot.set_yscale("log" if log.endswith("y") else "linear")
    figure.axes[0].legend(frameon=False, fontsize="small", labelcolor=INK)
    plot.set_xlabel("step", color=INK)
    return figure


def _draw(plot: Any, train: _Points, validation: _Points, smooth: float, k: int, name: str) -> None:
    """The k-th run; name: where there are several."""
    colour, other, style = (COLOURS[k], COLOURS[k], "--") if name else (*COLOURS[:2], "-")
    if train:
        steps, values = zip(*train, strict=True)
        plot.plot(steps, values, color=colour, linewidth=0.8, alpha=0.3)
        plot.plot(
            *zip(*((steps[i], mean) for i, mean in _mean(values, smooth)), strict=True),
            color=colour,
            linewidth=1.8,
            label=name + "training",
        )
    if validation:
        plot.plot(
            *zip(*validation, strict=True),
            style,
            color=other,
            linewidth=1.5,
            marker="o",
            markersize=3.5,
            label=name + "validation",
        )


def _mean(values: Sequence[float], share: float) -> list[tuple[int, float]]:
    """(position, mean) at up to 1000 positions, over that share of the points around each; over fewer at the start."""
    import numpy

    finite = numpy.where(numpy.isfinite(values), values, numpy.nan)
    positions = numpy.unique(numpy.linspace(0, len(values) - 1, 1000).round().astype(int)).tolist()
    reach = int(len(values) * share / 2)
    return [
        (
            i,
            float(
                numpy.nanmean(finite[max(0, i - reach) : i + min(i, reach) + 1])
                if finite[i] == finite[i]
                else numpy.nan
            ),
        )
        for i in positions
    ]


def _rows(run: str | os.PathLike[str]) -> tuple[str, _Rows]:
    """The name of a run, and the lines of its log with their numbers."""
    import json
    from pathlib import Path

    path = Path(run)
    file = path / "run.jsonl" if path.is_dir() else path
    rows: _Rows = []
    with open(file, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as problem:
                raise ValueError(f"curves(): {file} line {number} is not valid JSON: {problem}") from None
            if not isinstance(row, dict):
                raise ValueError(f"curves(): {file} line {number} is not a JSON object")
            rows.append((number, row))
    return str(file.parent if file.name == "run.jsonl" and file.parent.name else file), rows


def _series(name: str, rows: _Rows, key: str) -> _Points:
    """(step, value) of each line with that key."""
    if key == "tokens/s":
        return _speed(name, rows)
    found = []
    for number, row in rows:
        if key in row and "event" not in row:
            step, value = _float(row.get("step")), float("nan") if row[key] is None else _float(row[key])
            if step is None or value is None:
                raise ValueError(
                    f"curves(): '{name}' line {number}: a step and {key!r} are numbers, not {row.get('step')!r} and"
                    f" {row[key]!r}"
                )
            found.append((step, value))
    return found


def _float(x: Any) -> float | None:
    """None: it is not a number, or too large for one."""
    try:
        return None if isinstance(x, bool | str) else float(x)
    except (TypeError, OverflowError):
        return None


def _speed(name: str, rows: _Rows) -> _Points:
    """Tokens a second between a line of a step and the next, from their seconds and from the
    settings that the run's first line holds."""
    settings = next((row for _, row in rows if "batch" in row), {})
    batch, context, accumulate = (_float(settings.get(key)) for key in ("batch", "context", "accumulate"))
    if not batch or not context:
        raise ValueError(f"curves(): '{name}' has no line with batch and context: tokens a second cannot be known")
    tokens = batch * context * (accumulate or 1)
    at = _series(name, rows, "seconds")
    return [
        (s1, tokens * (s1 - s0) / (t1 - t0))
        for (s0, t0), (s1, t1) in zip(at, at[1:], strict=False)
        if t1 > t0 and s1 > s0
    ]


# ---- decision boundaries


def boundary(model: Callable[..., Any], X: Any, y: Any, steps: int | None = None) -> Any:
    """What ``model`` makes of the plane around the points ``X`` (n, 2) with labels ``y`` (n), as a matplotlib figure.

    An nn.Module takes many points at once, (N, 2) in the dtype and on the device of its parameters,
    and gives a score for each, (N) or (N, 1), or one for each of K classes, (N, K); it is in eval
    mode meanwhile.  Anything else takes one point, a list of two numbers, and gives a score or a
    list of them: Values (as an MLP of Values does), a Tensor, numbers.  One score is positive for
    labels above 0, of K scores the largest says the label, 0 to K - 1. steps: of the grid along
    each axis, at most 1000; 200 for an nn.Module, else 50. ValueError: the points are not (n, 2),
    the labels not n, or not among those that the scores tell apart."""
    from .nn import Module

    points, labels = [[float(v) for v in point] for point in _list(X)], [float(label) for label in _list(y)]
    steps = (200 if isinstance(model, Module) else 50) if steps is None else steps
    if not points or any(len(point) != 2 for point in points) or len(points) != len(labels) or not 2 <= steps <= 1000:
        raise ValueError(
            f"boundary(): n points of two numbers, n labels and 2 to 1000 steps are needed, not {len(points)},"
            f" {len(labels)} and {steps}"
        )
    sides = [_range(coordinates, steps) for coordinates in zip(*points, strict=True)]
    scores = (_scores_at_once if isinstance(model, Module) else _scores_one_by_one)(
        model, [[u, v] for v in sides[1] for u in sides[0]] + points
    )
    single, classes = len(scores[0]) == 1, max(2, len(scores[0]))
    kinds = [int(label > 0) if single else int(label) for label in labels]
    if not single and not all(0 <= kind < classes and kind == label for kind, label in zip(kinds, labels, strict=True)):
        raise ValueError(
            f"boundary(): {classes} scores are for the labels 0 to {classes - 1}, not {sorted(set(labels))}"
        )
    if classes > len(COLOURS):
        raise ValueError(f"boundary(): {classes} classes in one picture: {len(COLOURS)} can be distinguished")
    leads = [_leads([-s[0], s[0]] if single else s) for s in scores]
    figure = _figure(5.4, 4.4)
    plot = _axes(figure.add_subplot(), "x[0]", "x[1]")
    plot.grid(False)
    for k in range(classes):
        rows = [[lead[k] for lead in leads[i : i + steps]] for i in range(0, steps * steps, steps)]
        plot.contourf(*sides, rows, levels=[0, 1e300], colors=[COLOURS[k]], alpha=0.22)
        plot.contour(*sides, rows, levels=[0], colors=[INK], linewidths=0.7)
    for label, kind in sorted(set(zip(labels, kinds, strict=True))):
        mine = [point for point, other in zip(points, labels, strict=True) if other == label]
        plot.scatter(
            *zip(*mine, strict=True),
            c=COLOURS[kind],
            marker="osD^vP*X"[kind],
            s=22,
            edgecolors="white",
            linewidths=0.6,
            label=f"{label:g}",
        )
    right = sum(
        max(range(classes), key=lead.__getitem__) == kind
        for lead, kind in zip(leads[steps * steps :], kinds, strict=True)
    )
    plot.set_title(f"{right} of {len(points)} right", color=INK, fontsize="medium", loc="left")
    figure.legend(title="label", frameon=False, fontsize="small", labelcolor=INK, loc="outside right upper")
    return figure


def _range(values: Sequence[float], steps: int) -> list[float]:
    """Over the values, with a margin."""
    low, high = min(values), max(values)
    margin = 0.1 * (high - low) or 0.5
    return [low - margin + (high - low + 2 * margin) * k / (steps - 1) for k in range(steps)]


def _leads(scores: list[float]) -> list[float]:
    """By how much each score is above all others."""
    return [score - max(scores[:k] + scores[k + 1 :]) for k, score in enumerate(scores)]


def _scores_at_once(model: Any, points: list[list[float]]) -> list[list[float]]:
    from .nn.evaluating import evaluating

    like = next(iter(model.parameters()), _core.zeros(0))
    with evaluating(model), no_grad():
        out = model(_core.tensor(points, dtype=like.dtype, device=like.device))
    if out.ndim not in (1, 2) or len(out) != len(points):
        raise ValueError(
            f"boundary(): for {len(points)} points a model gives ({len(points)}) scores or ({len(points)}, K), not"
            f" {tuple(out.shape)}"
        )
    return out.reshape(len(points), -1).tolist()  # type: ignore[no-any-return]


def _scores_one_by_one(model: Any, points: list[list[float]]) -> list[list[float]]:
    out = [model(point) for point in points]
    out = [x.flatten().tolist() if isinstance(x, Tensor) else x if isinstance(x, list) else [x] for x in out]
    return [[float(v.data if isinstance(v, Value) else v) for v in x] for x in out]


def _list(x: Any) -> Sequence[Any]:
    return x.tolist() if hasattr(x, "tolist") else list(x)
