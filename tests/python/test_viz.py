"""chainrule.viz: what the pictures hold.  How they look is for eyes."""

from __future__ import annotations

import builtins
import io
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import MLP, Value, ValueBatch, nn


def no_such_package(name: str) -> str:
    return f"{name} is not installed (pip install chainrule[viz])"


# ---- graphs


def drawn(root: Any, **options: Any) -> tuple[dict[str, tuple[str, str]], list[tuple[str, str]]]:
    """The text and colour of each node of a picture by its id, and the edges.  dot reads it where it is installed."""
    graphviz = pytest.importorskip("graphviz", reason=no_such_package("graphviz"))
    picture = cr.viz.graph(root, **options)
    try:
        picture.pipe("svg")
    except graphviz.ExecutableNotFound:
        pass
    nodes = {
        name: (re.sub(r"<[^<>]*>", "\n", label), colour)
        for name, label, colour in re.findall(r"^\t(n\d+) \[label=<(.*)> color=\"(\S+)\"", picture.source, re.M)
    }
    return nodes, re.findall(r"^\t(n\d+) -> (n\d+)", picture.source, re.M)


def shown(root: Any, **options: Any) -> set[tuple[str, ...]]:
    return {
        tuple(line.strip() for line in text.split("\n") if line.strip())
        for text, _ in drawn(root, **options)[0].values()
    }


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_graph_of_tensors(device: str) -> None:
    w = cr.tensor([[1.0, -2.0, 0.5]] * 3, requires_grad=True, device=device)
    b = cr.zeros(3, dtype=cr.float64, requires_grad=True, device=device)
    h = (w @ cr.ones(3, device=device)).tanh()
    h.retain_grad()
    y = (h * h + b).sum()
    y.backward()
    nodes, edges = drawn(y, params={"w<1>": w, "b&b": b})
    assert len(nodes) == 7 and len(edges) == 7  # h * h has two edges from h
    found = shown(y, params={"w<1>": w, "b&b": b})
    value, slope = math.tanh(-0.5), 2 * math.tanh(-0.5)
    g = f"{slope / math.cosh(0.5) ** 2:.4g}"
    assert ("w&lt;1&gt;", "(3, 3)", "data -2 .. 1, mean -0.1667", f"grad {g} .. {g}, mean {g}") in found
    assert ("b&amp;b", "(3,) float64", "data [0, 0, 0]", "grad [1, 1, 1]") in found
    assert (
        "Tanh",
        "(3,)",
        f"data [{', '.join([f'{value:.4g}'] * 3)}]",
        f"grad [{', '.join([f'{slope:.4g}'] * 3)}]",
    ) in found
    assert ("Sum", "() float64", f"data {3 * value * value:.4g}") in found and ("Mul", "(3,)") in found
    colours = [colour for _, colour in nodes.values()]
    assert colours.count(cr.viz.COLOURS[0]) == 2 and colours.count(cr.viz.COLOURS[1]) == 1
    several = drawn({"loss": y, "parts": [h, (b,)]})[0]
    assert len(several) == len(nodes) and [colour for _, colour in several.values()].count(cr.viz.COLOURS[1]) == 3


def test_plan() -> None:
    pytest.importorskip("graphviz", reason=no_such_package("graphviz"))
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU())
    opt = cr.optim.AdamW(model.parameters())

    @cr.compile(fullgraph=True)
    def step(x: Any) -> Any:
        loss = model(x).softmax(-1).square().sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        return loss.detach()

    with pytest.raises(ValueError, match="has not been called twice"):
        cr.viz.plan(step)
    for _ in range(2):
        step(cr.randn(100, 64))
    text = cr.viz.plan(step).source
    lines = step.explain().splitlines()
    kernels = [line for line in lines[1:] if "by tiles" not in line]
    assert len(re.findall(r"^  k\d+ \[label", text, re.MULTILINE)) == len(kernels) > 5
    assert text.count("subgraph") == len(lines) - 1 - len(kernels) > 0
    for name in ("linear", "host", "adamw", "f32(100, 512)", "x0 f32(100, 64)"):
        assert name in text, name
    edges = [tuple(edge) for edge in re.findall(r"^  (\w+) -> (k\d+);", text, re.MULTILINE)]
    named = set(re.findall(r"^  (\w+) \[label", text, re.MULTILINE))
    assert edges and {end for edge in edges for end in edge} <= named
    fast = cr.compile(nn.Linear(2, 2))
    for _ in range(2):
        fast(cr.ones(1, 2))
    assert "digraph" in cr.viz.plan(fast).source
    with pytest.raises(ValueError, match="more than 2"):
        cr.viz.plan(step, limit=2)
    with pytest.raises(TypeError, match="what compile returns, not function"):
        cr.viz.plan(lambda x: x)


def test_graph_of_a_module_names_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    text = shown(model(cr.randn(5, 4)), params=dict(model.named_parameters()))
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= {part[0] for part in text} and ("Relu", "(5, 3)") in text


def test_graph_marks_what_is_not_finite_and_says_what_is_gone() -> None:
    x = cr.tensor([1.0, math.inf], requires_grad=True)
    nodes, _ = drawn(x.exp().sum())
    assert [colour for _, colour in nodes.values()].count(
        "#c00000"
    ) == 2  # the leaf and the sum, whose values are known
    y = (cr.ones(2, 3, requires_grad=True) * 2).sum()
    assert ("(2, 3)",) in shown(y)  # nobody holds the leaf
    assert ("(0, 2)", "data []") in shown(cr.zeros(0, 2, requires_grad=True))


def test_graph_after_backward_in_place_and_of_gradients() -> None:
    class Pair(cr.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2, a + 1

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return 2 * g + h

    x = cr.ones(3, requires_grad=True)
    y = x * 2
    y[1:].mul_(3)
    u, v = Pair.apply(y)
    out = (u * v).sum()
    assert {"Pair", "ReplacePart"} <= {part[0] for part in shown(out)}
    out.backward()
    assert len(drawn(out)[0]) == len(drawn((u * v).sum())[0])
    g: Any = cr.autograd.grad((x * x).exp().sum(), x, create_graph=True)[0]
    assert len(drawn(g)[0]) > 4 and len(drawn(g * x)[0]) == len(drawn(g)[0]) + 1


def test_graph_of_values() -> None:
    a, b = Value(2), Value(-3)
    a.label, b.label = "a", "{b|c} & <d>"
    y = (a * b + a).relu()
    y.backward()
    leaves = {("a", "data 2", "grad 0"), ("{b|c} &amp; &lt;d&gt;", "data -3", "grad 0")}
    assert shown(y) == leaves | {("*", "data -6", "grad 0"), ("+", "data -4", "grad 0"), ("ReLU", "data 0", "grad 1")}
    assert len(drawn(y)[1]) == 5
    assert ("*", "data [2, 4, 6, 8, 10, 12, ...]", "grad [0, 0, 0, 0, 0, 0, ...]") in shown(ValueBatch(range(1, 9)) * 2)


def test_graph_refuses() -> None:
    pytest.importorskip("graphviz", reason=no_such_package("graphviz"))
    y = cr.ones((), requires_grad=True)
    for _ in range(600):
        y = y * 1
    with pytest.raises(ValueError, match="more than 500 nodes"):
        cr.viz.graph(y)
    assert cr.viz.graph(y, limit=2000).source.count("label=") > 600
    with pytest.raises(ValueError, match="nothing was recorded"):
        cr.viz.graph(cr.ones(2))
    with pytest.raises(ValueError, match="nothing to draw"):
        cr.viz.graph([])
    with pytest.raises(TypeError, match="not str"):
        cr.viz.graph({"a": "b"})


# ---- curves


def write(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def lines(plot: Any) -> list[tuple[list[float], list[float]]]:
    return [([float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()]) for line in plot.lines]


def test_curves_of_one_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason=no_such_package("matplotlib"))
    rows: list[Any] = [{"event": "start", "step": 0, "batch": 4, "context": 8, "lr": 7}]
    rows += [{"step": i, "loss": 100.0 - i, "lr": i / 10, "seconds": i / 2} for i in range(1, 101)] + [
        {"step": 100, "val_loss": 5}
    ]
    write(tmp_path / "run.jsonl", *rows)
    figure = cr.viz.curves(tmp_path, y=["loss", "lr", "tokens/s"], smooth=0.1)
    loss, lr, speed = figure.axes
    raw, mean, validation = lines(loss)
    assert raw == ([*range(1, 101)], [100.0 - i for i in range(1, 101)]) and validation == ([100.0], [5.0])
    assert mean[1][:95] == pytest.approx(
        raw[1][:95]
    )  # the mean of a straight line around each point, until the end cuts it off
    assert mean[1][99] == pytest.approx(sum(range(6)) / 6)
    assert (
        lines(lr)[1] == lines(lr)[0] == ([*range(1, 101)], [i / 10 for i in range(1, 101)])
    )  # never smoothed; the setting is no step's
    assert set(lines(speed)[0][1]) == {64.0}
    assert [plot.get_ylabel() for plot in figure.axes] == [
        "loss",
        "learning rate",
        "tokens a second",
    ] and speed.get_xlabel() == "step"
    assert [text.get_text() for text in loss.get_legend().get_texts()] == ["training", "validation"]
    figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000 and figure._repr_png_().startswith(
        b"\x89PNG"
    )  # what notebooks ask for


def test_curves_of_several_runs_with_gaps(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason=no_such_package("matplotlib"))
    a = write(
        tmp_path / "a" / "run.jsonl", *({"step": i, "loss": v} for i, v in enumerate([4, 2, None, 1, math.nan], 1))
    )
    b = write(tmp_path / "b.jsonl", {"step": 1, "val_loss": 3, "extra": "text"}, "", {"event": "finish"})
    figure = cr.viz.curves(a, str(b), smooth=0, log="xy")
    (plot,) = figure.axes
    (steps, raw), mean, _ = lines(plot)
    assert (
        steps == [1, 2, 3, 4, 5]
        and [v for v in raw if v == v] == [4, 2, 1]
        and math.isnan(raw[2])
        and math.isnan(raw[4])
    )
    assert str(mean) == str((steps, raw)) and (plot.get_xscale(), plot.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in plot.get_legend().get_texts()] == [
        f"{tmp_path / 'a'}: training",
        f"{b}: validation",
    ]
    colours = [line.get_color() for line in plot.lines]
    assert colours == [cr.viz.COLOURS[0]] * 2 + [cr.viz.COLOURS[1]]


def test_curves_refuses(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason=no_such_package("matplotlib"))
    good = write(tmp_path / "good.jsonl", {"step": 1, "loss": 2, "seconds": 1})
    cases: list[tuple[list[Any], str]] = [
        ([], "has no 'loss'"),
        ([{"step": 1, "val": 2}], "has no 'loss'"),
        ([{"step": 1, "loss": 2}, '{"step": 2, "lo'], "line 2 is not valid JSON"),
        (["[1]"], "line 1 is not a JSON object"),
        (["", {"loss": 2}], "line 2: a step and 'loss' are numbers, not None and 2"),
        ([{"step": 1, "loss": "2"}], "not 1 and '2'"),
        ([{"step": True, "loss": 2}], "not True and 2"),
        ([{"step": 1, "val_loss": [2]}], r"a step and 'val_loss' are numbers"),
        ([{"step": 10**400, "loss": 2}], "line 1"),
    ]
    for rows, message in cases:
        bad = write(tmp_path / "bad.jsonl", *rows)
        with pytest.raises(ValueError, match=message) as problem:
            cr.viz.curves(good, bad)
        assert "bad.jsonl" in str(problem.value)
    (tmp_path / "bytes.jsonl").write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="bytes.jsonl"):
        cr.viz.curves(tmp_path / "bytes.jsonl")
    with pytest.raises(FileNotFoundError):
        cr.viz.curves(tmp_path / "missing.jsonl")
    with pytest.raises(FileNotFoundError):
        cr.viz.curves(tmp_path)
    with pytest.raises(ValueError, match="batch and context"):
        cr.viz.curves(good, y="tokens/s")
    for bad_call in ({"smooth": -1}, {"smooth": math.nan}, {"log": "yx"}):
        with pytest.raises(ValueError, match="share from 0 to 1"):
            cr.viz.curves(good, **bad_call)
    for runs in ([], [good] * 9):
        with pytest.raises(ValueError, match="can be distinguished"):
            cr.viz.curves(*runs)


def test_curves_reads_back_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason=no_such_package("matplotlib"))
    hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
    st = hypothesis.strategies
    numbers = st.none() | st.floats(-1e30, 1e30) | st.integers(-(2**40), 2**40) | st.just(math.nan)

    @hypothesis.settings(max_examples=60, deadline=None)
    @hypothesis.given(
        st.lists(st.tuples(st.integers(0, 2**50), numbers), min_size=1, max_size=40),
        st.sampled_from(["loss", "val_loss"]),
        st.floats(0, 1),
    )
    def check(points: list[tuple[int, float | None]], key: str, smooth: float) -> None:
        path = write(tmp_path / "run.jsonl", *({"step": step, key: value} for step, value in points))
        found = lines(cr.viz.curves(path, smooth=smooth).axes[0])
        assert str(found[0]) == str(
            ([float(s) for s, _ in points], [math.nan if v is None else float(v) for _, v in points])
        )
        finite = [v for _, v in points if v is not None and v == v]
        bound = 1e-9 * max(map(abs, finite), default=0)
        for v in found[-1][1]:
            assert math.isnan(v) or min(finite) - bound <= v <= max(finite) + bound

    check()


# ---- boundaries


def test_boundary_of_modules_and_functions(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason=no_such_package("matplotlib"))
    X = cr.tensor([[-1.0, 0.0], [-2.0, 1.0], [1.0, 0.5], [2.0, 3.0]])
    model = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.9)).double()
    layer: Any = model[0]
    with cr.no_grad():
        layer.weight.copy_(cr.tensor([[1.0, 0.0]]))
        layer.bias.zero_()
    models: list[Any] = [model, lambda p: p[0], lambda p: Value(p[0]), lambda p: cr.tensor([p])[:, 0]]
    for which in models:
        figure = cr.viz.boundary(which, X, [-1, -1, 1, 1])
        plot = figure.axes[0]
        assert plot.get_title(loc="left") == "4 of 4 right" and [
            t.get_text() for t in figure.legends[0].get_texts()
        ] == ["-1", "1"]
    assert model.training and model[1].training
    assert cr.viz.boundary(model, X, [1, 0, 0, 1]).axes[0].get_title(loc="left") == "2 of 4 right"
    classes: Any = nn.Linear(2, 3)
    figure = cr.viz.boundary(classes, X, cr.tensor([0, 1, 2, 2]), steps=20)
    figure.savefig(tmp_path / "classes.png")
    right = int((classes(X).argmax(-1) == cr.tensor([0, 1, 2, 2])).sum())
    assert (
        figure.axes[0].get_title(loc="left") == f"{right} of 4 right"
        and (tmp_path / "classes.png").stat().st_size > 5000
    )
    assert cr.viz.boundary(MLP(2, [4, 1]), X.tolist(), [0, 0, 1, 1], steps=10).axes[0].get_xlabel() == "x[0]"
    assert cr.viz.boundary(lambda p: math.nan, X[:1], [1], steps=5)  # one point, and a model that knows nothing


def test_boundary_refuses() -> None:
    pytest.importorskip("matplotlib", reason=no_such_package("matplotlib"))
    X = [[0.0, 1.0], [2.0, 3.0]]
    score = lambda p: p[0]
    cases: list[tuple[Any, Any, Any, dict[str, Any], str]] = [
        (score, X, [1], {}, "not 2, 1 and 50"),
        (score, [], [], {}, "n points of two numbers"),
        (score, [[1.0, 2.0, 3.0]], [1], {}, "n points of two numbers"),
        (score, X, [0, 1], {"steps": 1}, "2 to 1000 steps"),
        (score, X, [0, 1], {"steps": 10**9}, "2 to 1000 steps"),
        (nn.Linear(2, 3), X, [0, 3], {"steps": 5}, "labels 0 to 2, not"),
        (nn.Linear(2, 3), X, [0, 0.5], {"steps": 5}, "labels 0 to 2, not"),
        (nn.Linear(2, 9), X, [0, 1], {"steps": 5}, "9 classes in one picture"),
        (nn.Unflatten(1, (2, 1)), X, [0, 1], {"steps": 5}, "scores or"),
    ]
    for model, points, labels, options, message in cases:
        with pytest.raises(ValueError, match=message):
            cr.viz.boundary(model, points, labels, **options)


# ---- progress


def test_progress_changes_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*cr.viz.progress(range(5), "steps")] == [0, 1, 2, 3, 4] and [*cr.viz.progress(iter("ab"), total=2)] == [
        "a",
        "b",
    ]
    real = builtins.__import__

    def without_tqdm(name: str, *rest: Any, **named: Any) -> Any:
        if name == "tqdm":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_tqdm)
    steps = range(3)
    assert cr.viz.progress(steps) is steps


def test_progress_shows_a_bar_to_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm", reason=no_such_package("tqdm"))
    for watched in (False, True):
        stderr = io.StringIO()
        stderr.isatty = lambda watched=watched: watched  # type: ignore[method-assign,misc]
        monkeypatch.setattr(sys, "stderr", stderr)
        assert sum(cr.viz.progress(range(4), "training")) == 6
        assert ("training" in stderr.getvalue()) == watched


def test_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    for package in ("graphviz", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
    model, labels = nn.Linear(2, 1), cr.tensor([0, 1, 0, 1, 0, 1])
    draws: dict[str, Callable[[], Any]] = {
        "graphviz": lambda: cr.viz.graph(Value(2.0) * 3),
        "matplotlib": lambda: cr.viz.boundary(model, cr.randn(6, 2), labels),
    }
    for package, draw in draws.items():
        with pytest.raises(ModuleNotFoundError, match=rf"^\[viz\] needs {package}: pip install chainrule\[viz\]$"):
            draw()
