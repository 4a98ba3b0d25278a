"""chainrule.torch: scripts that PyTorch runs print the same by ``python -m chainrule.torch``, names, messages."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import chainrule as cr
import numpy as np
import pytest

SCRIPTS = sorted((Path(__file__).parent / "torch_scripts").glob("*.py"))
PYTORCH = find_spec("torch") is not None
NEEDS = {"einops_attention": "einops"}
PRINTS = {"processes": "tensor([2., 2., 0.]) True\nTrue\n"}  # not run by PyTorch, which takes long to import in each


@pytest.fixture
def torch() -> Any:
    """Imported late: it adds methods to chainrule.Tensor, which other tests list."""
    import chainrule.torch

    return chainrule.torch


def run(*args: str, alone: bool = False, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """A process with chainrule in the place of PyTorch, or alone, with PyTorch."""
    package = [] if alone else ["-m", "chainrule.torch"]
    path = str(Path(cr.__file__).resolve().parents[1])
    env = {**os.environ, "PYTHONPATH": "" if alone else path, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *package, *args], env=env, capture_output=True, text=True, input=text, timeout=120
    )


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(text)
    return str(path)


ORACLE = """
import os, runpy, sys
import torch, torch._dynamo
for path in sys.argv[1:]:
    read, write = os.pipe()
    sys.stdout.flush()
    if not os.fork():
        os.dup2(write, 1)
        os.close(read), os.close(write)
        sys.argv = [path]
        runpy.run_path(path, run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    text = open(read).read()
    os.wait()
    print(repr((path, text)))
"""


def pytorch_prints(paths: list[Path]) -> dict[str, str]:
    """What PyTorch prints for each script: one process imports it once, with what optimizers import late, and forks."""
    found = run("-c", ORACLE, *map(str, paths), alone=True).stdout if PYTORCH and paths else ""
    return dict(ast.literal_eval(line) for line in found.splitlines())


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A script of what failed when public scripts were tried."""
    folder = tmp_path_factory.mktemp("found")
    return script(folder, FOUND.replace("net.pt", str(folder / "net.pt")))


@pytest.fixture(scope="session")
def theirs(found: str) -> dict[str, str]:
    return pytorch_prints([*(path for path in SCRIPTS if path.stem not in PRINTS), Path(found)])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(path: Path, theirs: dict[str, str]) -> None:
    """The same lines as PyTorch's, or at least no error where it is not installed."""
    if path.stem in NEEDS and not find_spec(NEEDS[path.stem]):
        pytest.skip(f"{NEEDS[path.stem]} is not installed")
    ours = run(str(path))
    assert ours.returncode == 0, ours.stderr
    if not PYTORCH and path.stem not in PRINTS:
        pytest.skip("PyTorch is not installed: the script ran, its lines were not compared")
    assert ours.stdout == (PRINTS[path.stem] if path.stem in PRINTS else theirs[str(path)])


def test_arguments_and_exit(tmp_path: Path) -> None:
    """sys.argv, __main__, pickles of its classes, and the exit status are those of a normal run."""
    path = script(
        tmp_path,
        "import sys, pickle, torch\n"
        "class A: pass\n"
        "assert isinstance(pickle.loads(pickle.dumps(A())), A) and __name__ == '__main__' and __file__ == sys.argv[0]\n"
        "print(sys.argv[1:], torch.__name__, sys.path[0])\n"
        "sys.exit(3)\n",
    )
    found = run(path, "--lr", "0.1", "-v")
    assert (found.returncode, found.stderr) == (3, "")
    assert found.stdout == f"['--lr', '0.1', '-v'] torch {tmp_path}\n"
    assert run("-m", "json.tool", text="[1]").stdout == "[\n    1\n]\n"
    assert run(str(tmp_path / "none.py")).returncode == 2
    assert "SCRIPT" in run("--help").stdout


BAD = [  # a line of a script, and what the last lines of its error say
    ("torch.fft.fft(x)", "NotImplementedError: torch.fft.fft is not in chainrule", "complex numbers come later"),
    ("from torch import polar; polar(x, x)", "NotImplementedError: torch.polar is not in chainrule", "r * cos(angle)"),
    ("torch.lstsq(x, x)", "NotImplementedError: torch.lstsq is not in chainrule", "use torch.linalg.lstsq(A, B)"),
    ("from torch import no_such", "ImportError: torch.no_such is not in chainrule", "docs/differences.md"),
    ("from torch.linalg import no_such", "ImportError: torch.linalg.no_such is not in chainrule", "numpy.linalg"),
    ("torch.zeros(2, dtype=torch.complex64)", "TypeError: zeros(): argument 'dtype'", "complex numbers come later"),
    (
        "import torch.onnx; torch.onnx.export(x)",
        "NotImplementedError: torch.onnx.export is not in chainrule",
        "not exported",
    ),
    (
        "from torch.fx import symbolic_trace; symbolic_trace(x)",
        "NotImplementedError: torch.fx.symbolic_trace is not in chainrule",
        "viz",
    ),
    ("import torch.no_such", "ModuleNotFoundError: torch.no_such is not in chainrule", "docs/differences.md"),
    ("x.crow_indices()", "AttributeError: 'chainrule.Tensor' object has no attribute", "docs/differences.md"),
    ("from torch.utils.cpp_extension import load; load('a', ['a.cpp'])", "NotImplementedError:", "cannot be loaded"),
    ("torch.jit.load('m.pt')", "NotImplementedError: torch.jit.load", "load_state_dict"),
    ("torch.hub.load('a/b', 'c')", "RuntimeError: torch.hub downloads nothing", "source='local'"),
    ("x.to(torch.device('cuda:7'))", "Error: [to] no CUDA device 'cuda:7'", "there are: cpu"),
    (
        "torch.distributed.init_process_group('gloo', world_size=2, rank=0)",
        "RuntimeError: init_process_group",
        "a world of 2",
    ),
    ("1 / 0", "ZeroDivisionError", "division by zero"),
]


@pytest.mark.parametrize("line, kind, advice", BAD, ids=[line for line, _, _ in BAD])
def test_messages(tmp_path: Path, line: str, kind: str, advice: str) -> None:
    """The exception names what is missing, its line and what to use; the script's line is the traceback's last."""
    path = script(tmp_path, f"import torch\nx = torch.ones(2)\n\n{line}\n")
    found = run(path)
    assert found.returncode == 1 and kind in found.stderr and advice in found.stderr, found.stderr
    assert f'File "{path}", line 4, in <module>' in found.stderr
    assert "runpy" not in found.stderr and "__main__.py" not in found.stderr
    if " is not in chainrule" in kind:
        assert f"({path}:4)" in found.stderr and "_names.py" not in found.stderr


FOUND = """
import torch, torch.nn as nn, torch.onnx, torch.utils.data as data
from torch.sparse import FloatTensor

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.drop, self.buffer = nn.Linear(2, 2), nn.Dropout(0.1), nn.Buffer(torch.ones(2))

net = Net()
print(list(net.state_dict()), net.__getattr__("buffer"))
torch.save(net, "net.pt")
try:
    torch.load("net.pt")
except Exception as e:
    print(type(e).__name__)
with torch.serialization.safe_globals([Net, nn.modules.linear.Linear, nn.modules.dropout.Dropout, nn.Buffer]):
    again = torch.load("net.pt")
print(all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), again.state_dict().values())))
net._modules.update(act=nn.ReLU())
net._modules.pop("drop")
print(net, net._modules.get("drop"))
endless = data.RandomSampler([1, 2], replacement=True, num_samples=10**10)
it = iter(data.DataLoader([[1], [2]], batch_size=2, sampler=endless))
print(len(it), next(it)[0].shape)
print(torch.tensor([[torch.tensor([0.5])], [torch.tensor([[0.25]])]]), torch.tensor([torch.ones(1), 3]))
try:
    torch.tensor([torch.ones(2), torch.zeros(2)])
except ValueError as e:
    print(e)
at = torch.tensor([[0, 1, 1, 1], [2, 0, 0, 1]])
a = torch.sparse_coo_tensor(at, torch.tensor([3.0, 4.0, 5.0, 0.5]), (2, 3), check_invariants=False)
print(torch.spmm(a, torch.ones(3, 2)), torch.sparse.mm(a, torch.ones(3, 1)), a.coalesce().to_dense())
"""


@pytest.mark.skipif(not PYTORCH, reason="PyTorch is not installed")
def test_found_in_public_scripts(found: str, theirs: dict[str, str]) -> None:
    """The same lines as PyTorch's."""
    ours = run(found)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == theirs[found]


def test_tensorboard_takes_tensors(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    found = run(script(
        tmp_path,
        "import torch\nfrom torch.utils.tensorboard import SummaryWriter\n"
        f"w = SummaryWriter({str(tmp_path)!r})\nx = torch.ones(3, requires_grad=True)\n"
        "w.add_scalar('a', x.sum(), 1)\nw.add_scalars('b', {'c': x.sum()}, 1)\nw.add_histogram('h', x, 1)\n"
        "w.add_image('i', torch.zeros(3, 4, 4), 1)\nw.close()\n",
    ))  # fmt: skip
    assert found.returncode == 0, found.stderr


REFUSED = [  # of the names of PyTorch: a call that a user gets wrong, the exception's kind, and a part of its message
    ("F.conv2d(x, torch.ones(2, 3, 7, 7))", RuntimeError, "larger than the padded input along spatial axis 0: 7"),
    ("F.conv2d(x, torch.ones(4, 1, 3, 3), groups=2)", RuntimeError, "takes 2 channels, the input (1, 3, 4, 4) has 3"),
    ("nn.Conv2d(3, 4, 3, groups=2)", ValueError, "in_channels must be divisible by groups"),
    ("nn.Conv2d(3, 2, 3, stride=0)(x)", RuntimeError, "stride must be at least 1: 0"),
    ("nn.ConvTranspose2d(3, 2, 3, stride=0)(x)", RuntimeError, "stride must be at least 1: 0"),
    ("F.max_pool2d(x, 2, stride=0)", RuntimeError, "stride must be 1 or more: 0"),
    ("F.avg_pool2d(x, 9)", RuntimeError, "kernel is larger than the padded input (1, 3, 4, 4)"),
    ("rnn.pack_padded_sequence(torch.ones(5, 3, 2), [2, 5, 3])", RuntimeError, "sorted in decreasing order"),
    ("rnn.pack_padded_sequence(torch.ones(5, 3, 2), [7, 2, 1])", RuntimeError, "at most 5 steps"),
    ("torch.empty((2.5, 3))", TypeError, "must be ints, not float"),
    ("torch.sparse_coo_tensor([[0, 1]], [1.0], (3,))", ValueError, "indices are (axes, n)"),
    ("torch.view_as_real(x)", NotImplementedError, "complex numbers come later"),
    ("torch.utils.cpp_extension.load('a', ['a.cpp'])", NotImplementedError, "C++ extensions of PyTorch"),
    ("torch.utils.cpp_extension.CUDAExtension('a', ['a.cu'])", NotImplementedError, "C++ extensions of PyTorch"),
]


def test_refused(torch: Any) -> None:
    import chainrule.torch.nn.utils.rnn as rnn

    nan = torch.ones(1, 1, 2, 2)
    nan[0, 0, 1, 0] = float("nan")
    assert torch.nn.functional.max_pool2d(nan, 2).isnan().all(), "a NaN wins, as PyTorch has it"
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "rnn": rnn, "x": torch.ones(1, 3, 4, 4)}
    for call, kind, said in REFUSED:
        with pytest.raises(kind) as caught:
            eval(call, names)
        assert said in str(caught.value), call


COMPOSED = [  # of x (2, 3, 4) with a gradient, i: ints
    "torch.gradient(x)",
    "torch.gradient(x, spacing=0.5, dim=(0, -1))",
    "torch.gradient(x, spacing=(torch.tensor([0.0, 1, 3, 4]),), dim=2, edge_order=2)",
    "torch.gradient(i, dim=1, edge_order=2)",
    "torch.unravel_index(i, (5, 4, 6))",
    "torch.chain_matmul(x[0], x[0].t(), x[1])",
    "x.put(i[0, 0], torch.tensor([1.0, 2, 3, 4]))",
    "torch.put(x, i[0, 0], torch.tensor([1.0, 2, 3, 4]), True)",
    "(x * 1).put_(torch.tensor([0, -1]), torch.tensor([5.0, 6]))",
    "torch.scalar_tensor(3), torch.scalar_tensor(True, dtype=torch.bool)",
    "torch.empty_strided((2, 3), (4, 1)).stride(), x.new_empty_strided((0, 3), (9, 1)).shape",
    "x.detach().as_strided_scatter(torch.ones(2, 2), (2, 2), (1, 5), 3)",  # PyTorch's gradient is that of the rest
    "(x.narrow_copy(1, 1, 2), *torch.unsafe_split(x, 3, 2), *x.unsafe_chunk(2, 1))",
    "torch.nonzero_static(x > 0.5, size=40), (x > 0.5).nonzero_static(size=2, fill_value=7)",
    "x.isreal(), x.angle(), torch.angle(torch.tensor([-1.0, 0.0, -0.0, float('nan')])), x.sgn()",
    "torch.igamma(x.abs().detach(), x.abs() + 1), torch.igammac(x.abs().detach(), x.abs())",
    "(x.abs() + 1).mvlgamma(2), x.abs().polygamma(1), (x - 2.3).polygamma(2)",
    "torch.bartlett_window(7), torch.bartlett_window(6, periodic=False), torch.kaiser_window(1)",
    "torch.kaiser_window(7), torch.kaiser_window(6, False, beta=5.0, dtype=torch.float64)",
    "torch.inference_mode(False).__enter__() or torch.is_grad_enabled()",
]
COMPOSED_REFUSED = [
    "torch.gradient(x, edge_order=3)",
    "torch.gradient(x, dim=(0, 0))",
    "torch.gradient(x[:1], dim=0)",
    "torch.gradient(x, spacing=(1.0, 2.0))",
    "torch.unravel_index(i, (-1, 3))",
    "x.put(i[0, 0], torch.ones(3))",
    "torch.empty_strided((2, 3), (1,))",
    "int(x)",
    "float(x)",
]


@pytest.mark.skipif(not PYTORCH, reason="PyTorch is not installed")
def test_composed(torch: Any) -> None:
    theirs = import_module("torch")
    data = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)

    def results(lib: Any, call: str) -> list[Any]:
        """Values, then the gradient of x."""
        x, i = lib.tensor(data, requires_grad=True), lib.arange(24).view(2, 3, 4)
        y = eval(call, {"torch": lib, "x": x, "i": i})
        flat = [*y] if isinstance(y, tuple | list) else [y]
        total = sum(t.sum() for t in flat if isinstance(t, lib.Tensor) and t.requires_grad)
        if isinstance(total, lib.Tensor):
            total.backward()
        return [t.tolist() if hasattr(t, "tolist") else t for t in [*flat, *([x.grad] if x.grad is not None else [])]]

    for call in COMPOSED:
        got, want = results(torch, call), results(theirs, call)
        assert len(got) == len(want), call
        for a, b in zip(got, want, strict=True):
            assert np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True), (call, a, b)
    for call in COMPOSED_REFUSED:
        kinds = []
        for lib in (torch, theirs):
            with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
                results(lib, call)
            kinds.append([kind for kind in (ValueError, IndexError) if issubclass(caught.type, kind)])
        assert kinds[0] == kinds[1], call
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_names_of_nodes(torch: Any) -> None:
    """grad_fn.name() of the ops that most scripts use, as PyTorch has it."""
    x, b, F = torch.ones(3, 4, requires_grad=True), torch.ones(2, 3, 4, requires_grad=True), torch.nn.functional
    found = {
        "Mm": x @ x.t(), "Mv": x @ x[0], "Dot": x[0] @ x[1], "Bmm": b @ b.transpose(1, 2), "Slice": x[0:2],
        "Addmm": F.linear(x, x, torch.ones(3)), "Convolution": F.conv1d(b, torch.ones(5, 3, 2)), "ToCopy": x.double(),
        "NativeLayerNorm": F.layer_norm(x, (4,)), "Pow": x**2, "Elu": F.selu(x), "Log1P": x.log1p(),
        "LinalgVectorNorm": x.norm(), "ConstantPadNd": F.pad(x, (1, 1)), "LogSigmoid": F.logsigmoid(x),
        "Relu": x.relu(), "Add": x + x, "Mul": x * x, "LogSoftmax": F.log_softmax(x, 1), "Cat": torch.cat([x, x]),
        "NativeBatchNorm": F.batch_norm(b, None, None, training=True),
    }  # fmt: skip
    names = {name: y.grad_fn.name() for name, y in found.items()}
    assert names == {name: f"{name}Backward0" for name in names}


def test_classes_of_nodes(torch: Any) -> None:
    """type(grad_fn) has the name of the node: one class for each name, a subclass of Node."""
    x = torch.ones(3, requires_grad=True)
    first, second = (x + 1).grad_fn, (x + x).grad_fn
    assert type(first).__name__ == first.name() == "AddBackward0" and type(first) is type(second)
    assert isinstance(first, torch.autograd.graph.Node)
    leaf = first.next_functions[0][0]
    assert type(leaf).__name__ == "AccumulateGrad" and leaf.variable.data_ptr() == x.data_ptr()
    with pytest.raises(TypeError):
        type(first)()
    with pytest.raises(TypeError):
        object.__new__(type(first))

    class Twice(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, y: Any) -> Any:
            return y * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    assert type(Twice.apply(x).grad_fn).__name__ == "TwiceBackward"


FOREACH: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("add", [1.5], {}),
    ("add", ["T"], {"alpha": 2}),
    ("sub", [[1.0, 2.0]], {}),
    ("mul", ["T"], {}),
    ("div", [2.0], {}),
    ("copy_", ["T"], {}),
    ("mul_", [0.5], {}),
    ("add_", ["T"], {"alpha": -1}),
    ("addcmul_", ["T", "U", 0.5], {}),
    ("addcdiv", ["T", "U"], {"value": 3.0}),
    ("addcmul", ["T", "U", [1.0, 2.0]], {}),
    ("addcmul", ["T", "U"], {"scalars": [1.0, 2.0]}),
    ("lerp", ["T", 0.25], {}),
    ("sqrt", [], {}),
    ("neg_", [], {}),
    ("zero_", [], {}),
    ("norm", [2], {}),
    ("pow", [2.0], {}),
    ("clamp_max_", [0.75], {}),
    ("maximum", ["T"], {}),
    ("exp", [], {}),
    ("max", [], {}),
]


def foreach(torch: Any, name: str, arguments: list[Any], options: dict[str, Any]) -> list[Any]:
    """What a function of lists returns, and what its lists hold afterwards; in place it returns the list."""

    def make(*low: float) -> list[Any]:
        return [torch.arange(6.0).reshape(2, 3) / 4 + low[0], torch.arange(4.0) / 3 + low[1]]

    lists = {"S": make(0.5, 1.0), "T": make(1.0, 0.25), "U": make(2.0, 3.0)}
    given = [lists.get(x, x) if isinstance(x, str) else x for x in arguments]
    result = getattr(torch, f"_foreach_{name}")(lists["S"], *given, **options)
    assert (result is lists["S"]) == name.endswith("_"), name
    return [[y.tolist() for y in result], *[[t.tolist() for t in ts] for ts in lists.values()]]


def test_foreach(torch: Any) -> None:
    """The functions of lists of tensors."""

    def flat(x: Any) -> list[Any]:
        return [v for y in x for v in flat(y)] if isinstance(x, list) else [x]

    for name, arguments, options in FOREACH:
        got = foreach(torch, name, arguments, options)
        if PYTORCH:
            want = foreach(import_module("torch"), name, arguments, options)
            assert flat(got) == pytest.approx(flat(want), rel=1e-6), (name, arguments, options)
    x = [torch.ones(2), torch.ones(3)]
    assert [y.tolist() for y in torch._foreach_add(x, 1)] == [[2, 2], [2, 2, 2]]
    assert torch._foreach_mul_(x, [2.0, 3.0]) is x and x[1].tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(x, [torch.ones(2)])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_sqrt([])
    with pytest.raises(TypeError, match="list or tuple of Tensors, not Tensor"):
        torch._foreach_sqrt(x[0])
    with pytest.raises(TypeError, match="element 1 of argument 'self' must be Tensor, not int"):
        torch._foreach_sqrt([x[0], 3])
    with pytest.raises(AttributeError, match="_foreach_no_such"):
        _ = torch._foreach_no_such


def test_import_stays_apart() -> None:
    """``import chainrule`` does not import the drop-in, and the drop-in brings in only what is used."""
    code = (
        "import sys, chainrule; assert 'chainrule.torch' not in sys.modules;"
        "import chainrule.torch as torch; assert 'chainrule.torch.distributed' not in sys.modules;"
        "assert not hasattr(torch, 'no_such_name') and torch.nn.Linear is chainrule.nn.Linear;"
        "assert torch.relu is chainrule.relu and {'Adam', 'SGD'} <= set(dir(torch.optim))"
    )
    path = str(Path(cr.__file__).resolve().parents[1])
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_tensor_type(torch: Any) -> None:
    """torch.Tensor is a name for every tensor, makes them of sizes or data, and can have subclasses and methods."""
    x = torch.ones(2)
    assert isinstance(x, torch.Tensor) and (torch.Tensor == cr.Tensor) and issubclass(torch.nn.Parameter, torch.Tensor)
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor([1, 2]).tolist() == [1, 2]
    assert not torch.Tensor([1.0]).requires_grad and cr.Tensor([1.0]).requires_grad

    class Mine(torch.Tensor):  # type: ignore[misc]
        pass

    assert type(Mine([1.0])) is Mine and not isinstance(x, Mine) and isinstance(Mine([1.0]), torch.Tensor)
    torch.Tensor.twice = lambda self: self * 2
    assert x.twice().tolist() == [2, 2]
    del cr.Tensor.twice  # type: ignore[attr-defined]


def test_out() -> None:
    lib: Any = cr  # the stub does not name out=
    x, out = cr.ones(2, 3), cr.empty(2, 3)
    assert lib.add(x, 1, out=out) is out and out.tolist() == [[2] * 3] * 2
    assert lib.sum(x, 0, out=cr.empty(0)).tolist() == [2, 2, 2]
    values, indices = cr.empty(2), cr.empty(2, dtype=cr.int64)
    lib.max(x, 1, out=(values, indices))
    assert values.tolist() == [1, 1] and indices.tolist() == [0, 0]
    bad: list[tuple[Any, str]] = [
        (lambda: lib.add(x, 1.5, out=cr.empty(2, 3, dtype=cr.int64)), "cannot be written into out"),
        (lambda: lib.add(x.requires_grad_(), 1, out=out), "don't support automatic differentiation"),
        (lambda: lib.add(out, 1, out=3), "must be Tensor, not int"),
        (lambda: lib.max(out, 1, out=out), "one Tensor for each result"),
    ]
    for f, message in bad:
        with pytest.raises((RuntimeError, TypeError), match=message):
            f()


def test_default_dtype() -> None:
    try:
        cr.set_default_dtype(cr.float64)
        made = [
            cr.ones(1),
            cr.tensor(1.5),
            cr.arange(3) * 1.5,
            cr.arange(3) / 2,
            cr.arange(3).sqrt(),
            cr.rand(2),
            cr.tensor([]),
        ]
        assert all(x.dtype is cr.float64 for x in made)
        assert (cr.ones(2, dtype=cr.float32) * 1.5).dtype is cr.float32 and repr(cr.ones(1)) == "tensor([1.])"
        with pytest.raises(TypeError, match="only a float dtype"):
            cr.set_default_dtype(cr.int64)
    finally:
        cr.set_default_dtype(cr.float32)


def test_scaler(torch: Any) -> None:
    """A step with an infinite gradient is left out and halves the scale; after two good ones the scale grows."""
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (1.0, float("inf"), 1.0, 1.0):
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        before = w.tolist()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        assert w.tolist() == (before if factor > 1 else [v - 1 for v in before])
    assert scales == [8.0, 4.0, 4.0, 8.0]


def test_einops_alone() -> None:
    """einops takes chainrule's tensors where chainrule.torch was imported, before or after einops."""
    pytest.importorskip("einops")
    path = str(Path(cr.__file__).resolve().parents[1])
    for order in ("import chainrule.torch, einops", "import einops, chainrule.torch"):
        code = (
            f"{order}; y = einops.rearrange(chainrule.ones(2, 6), 'a (b c) -> (a b) c', c=2); assert y.shape == (6, 2)"
        )
        found = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
        )
        assert found.returncode == 0, found.stderr


def test_names(tmp_path: Path) -> None:
    """``tools/torch_names.py`` finds what is there, with arguments, and counts."""
    path = tmp_path / "names.txt"
    path.write_text("# a list\n  3  2  torch.nn.Linear\n  1  1  torch.add(out=)\n  4  4  torch.fft.fft\nTensor.type\n")
    found = run(str(Path(__file__).resolve().parents[2] / "tools/torch_names.py"), str(path))
    assert found.returncode == 0 and "torch.fft.fft" in found.stdout and "Linear" not in found.stdout
    assert "3 of 4 names are there" in found.stdout, found.stdout
    assert "1 of the missing names can be imported" in found.stdout, found.stdout


def test_gradients_under_autocast_do_not_depend_on_the_place_of_backward(torch: Any) -> None:
    """backward inside a region and outside, and of a checkpointed function, give the same bits."""
    x, w = torch.rand(4, 6), torch.nn.Parameter(torch.rand(6, 5))

    def f(x: Any) -> Any:
        return torch.nn.functional.mse_loss((x @ w).tanh(), torch.zeros(4, 5))

    found: list[Any] = []
    checkpoint = torch.utils.checkpoint.checkpoint
    functions: list[Any] = [f, *(partial(checkpoint, f, use_reentrant=reentrant) for reentrant in (False, True))]
    for inside in (False, True):
        for function in functions:
            w.grad = None
            with torch.autocast("cpu"):
                y = function(x.clone().requires_grad_())
                if inside:
                    y.backward()
            if not inside:
                y.backward()
            assert w.grad is not None and w.grad.dtype is torch.float32
            found.append(w.grad.tolist())
    assert all(g == found[0] for g in found)


def test_install(tmp_path: Path) -> None:
    """`import torch` is chainrule's from then on, also in processes that are spawned; refused after PyTorch's."""
    program = tmp_path / "program.py"
    program.write_text(
        "import chainrule.torch, multiprocessing\n"
        "def work(queue):\n    import torch\n    queue.put(torch is chainrule.torch)\n"
        "if __name__ == '__main__':\n"
        "    chainrule.torch.install()\n"
        "    chainrule.torch.install()\n"
        "    import torch, torch.nn.functional as F\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    context.Process(target=work, args=(queue,)).start()\n"
        "    print(torch is chainrule.torch, queue.get(timeout=60), F.relu(torch.ones(2)))\n"
    )
    words = [sys.executable, str(program)]
    environment = {**os.environ, "PYTHONPATH": str(Path(cr.__file__).resolve().parents[1])}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.stdout == "True True tensor([1., 1.])\n", done.stdout + done.stderr
    (tmp_path / "torch.py").write_text("")
    program.write_text("import torch, chainrule.torch\nchainrule.torch.install()\n")
    refused = subprocess.run(words, env=environment, capture_output=True, text=True)
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: [install] PyTorch is imported already: ") and "torch.py; call" in last, last
