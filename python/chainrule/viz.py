"""Pictures: of a graph of Values (needs the Python package graphviz), of a decision boundary (matplotlib); a progress bar (tqdm).

These packages are imported when they are used: ``pip install chainrule[viz]``.
"""

from __future__ import annotations

from ._core import Value
from ._progress import progress
from .value_batch import ValueBatch

TYPE_CHECKING = False  # as typing's, whose import takes longer than ours
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["boundary", "graph", "progress"]


def _text(x: float | list[float]) -> str:
    if isinstance(x, float):
        return f"{x:.4f}"
    return "[" + ", ".join(f"{v:.4f}" for v in x[:3]) + (", ..." if len(x) > 3 else "") + "]"


def graph(root: Value | ValueBatch, format: str = "svg", rankdir: str = "LR") -> Any:
    """The graph that computed ``root``, as a ``graphviz.Digraph``: label, data and gradient in each node, ops in circles.

    A notebook shows it; ``.source`` is its text; ``.render("file")`` needs the program ``dot``.
    """
    import graphviz  # type: ignore[import-not-found,import-untyped,unused-ignore]

    picture = graphviz.Digraph(format=format, graph_attr={"rankdir": rankdir}, node_attr={"shape": "record"})
    ids: dict[Value | ValueBatch, str] = {}  # hashed by the node of the graph, not by the object
    todo: list[Value | ValueBatch] = [root]
    while todo:
        v = todo.pop()
        if v in ids:
            continue
        ids[v] = f"v{len(ids)}"
        todo += v._prev
    for v, name in ids.items():
        label = v.label.replace("\\", "\\\\")
        for special in "{}|<> ":
            label = label.replace(special, "\\" + special)
        picture.node(name, f"{{ {label + ' | ' if label else ''}data {_text(v.data)} | grad {_text(v.grad)} }}")
        if v._op:
            picture.node(name + "op", v._op, shape="circle")
            picture.edge(name + "op", name)
        for p in v._prev:
            picture.edge(ids[p], name + "op")
    return picture


def boundary(model: Callable[..., Any], X: Any, y: Any, steps: int = 50) -> Any:
    """Where ``model`` changes sign over the plane, and the points ``X`` (n, 2) with labels ``y``, as a matplotlib figure.

    The model takes one point, a list of two numbers, and gives a Value (as an MLP of Values does), a Tensor or a number.
    """
    from matplotlib.figure import Figure  # type: ignore[import-not-found,import-untyped,unused-ignore]

    points, labels = _lists(X), [float(label) for label in _lists(y)]
    low, high = ([f(p[i] for p in points) + s for i in (0, 1)] for f, s in ((min, -0.5), (max, 0.5)))
    axes = [[low[i] + (high[i] - low[i]) * k / (steps - 1) for k in range(steps)] for i in (0, 1)]
    grid = [[u, v] for v in axes[1] for u in axes[0]]
    scores = [_number(model(point)) for point in grid]
    figure = Figure(figsize=(5, 4), layout="constrained")
    plot = figure.add_subplot()
    plot.contourf(axes[0], axes[1], [scores[r * steps : (r + 1) * steps] for r in range(steps)], levels=[-1e300, 0, 1e300], colors=["#c9d8f0", "#f6d5c5"])
    plot.scatter([p[0] for p in points], [p[1] for p in points], c=["#1f4e9c" if label <= 0 else "#c4501b" for label in labels], s=14)
    plot.set_xlim(low[0], high[0])
    plot.set_ylim(low[1], high[1])
    return figure


def _lists(x: Any) -> Sequence[Any]:
    return x.tolist() if hasattr(x, "tolist") else list(x)


def _number(x: Any) -> float:
    return x.data if isinstance(x, Value) else float(x)
