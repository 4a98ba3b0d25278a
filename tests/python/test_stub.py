"""The type stub, the docstrings and the list of names say what the extension does."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
import table

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import gen_python  # noqa: E402

PACKAGE = Path(cr.__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "MYPYPATH": str(PACKAGE.parent)}
NAMES = [
    n
    for n in dir(cr)
    if not n.startswith("_") and callable(getattr(cr, n)) and not isinstance(getattr(cr, n), cr.dtype)
]
METHODS = [
    f"Tensor.{n}"
    for n in dir(cr.Tensor)
    if not n.startswith("_")
    and callable(getattr(cr.Tensor, n))
    and not str(getattr(getattr(cr.Tensor, n), "__module__", "")).startswith("chainrule.torch")  # another test's import
]


@pytest.mark.full  # 44 s of mypy; `make test` checks that the stub is current, by gen_python.py --check
def test_stub_agrees_with_the_extension(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    overloaded = sorted({row.name for row in gen_python.read_all() if row.overload})
    exempt = tmp_path / "exempt"  # one signature at run time cannot say what several overloads do
    overloaded.append("__buffer__")  # what memoryview() asks of a type; the method itself is there from Python 3.12 on
    late = "chainrule\\.TYPE_CHECKING\n"  # the package deletes it: no name of ours
    late += "chainrule\\.((data|nn|nn\\.functional|nn\\.utils|optim|vision\\.models)\\.)?__all__\n"  # of their parts
    late += "chainrule\\.nn\\.(lazy\\.)?Lazy\\w+\n"  # made from a table
    late += "chainrule\\._transformed\\.Mapped@\\d+\n"  # made by each call of a function
    late += "chainrule\\.data\\.chat\\.compiled\n"  # functools.lru_cache has another signature for mypy
    exempt.write_text(late + "".join(f"chainrule\\._core\\.(Tensor\\.)?{name}\n" for name in overloaded))
    (tmp_path / "chainrule").mkdir()
    for path in PACKAGE.iterdir():
        if path.name != "torch":  # which takes its names from tables and adds methods to Tensor
            (tmp_path / "chainrule" / path.name).symlink_to(path)
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path), "MYPYPATH": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        "--ignore-disjoint-bases",
        "--ignore-unused-allowlist",
        "--allowlist",
        str(exempt),
        "chainrule",
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_public_names() -> None:
    modules = {n for n, value in vars(cr).items() if inspect.ismodule(value)}
    late = set(cr._FROM)  # functions of modules that are imported when they are first used
    assert set(cr.__all__) - late == {n for n in vars(cr) if not n.startswith("_")} - modules - late
    assert all(callable(getattr(cr, n)) for n in late)
    assert len(cr.__all__) == len(set(cr.__all__)) > 200
    assert {m for m in modules if not m.startswith("_")} <= {path.stem for path in PACKAGE.iterdir()}, (
        "a module of someone else's is among the names"
    )


@pytest.mark.parametrize("name", NAMES + METHODS)
def test_docstring_and_signature(name: str) -> None:
    found: Any = cr
    for part in name.split("."):
        found = getattr(found, part)
    assert (found.__doc__ or "").strip(), "no docstring"
    if not (inspect.isclass(found) and issubclass(found, Exception)):
        parameters = inspect.signature(found).parameters
        assert next(iter(parameters), None) == "self" or not name.startswith("Tensor.") or inspect.isbuiltin(found)


@pytest.mark.parametrize(
    "name", [r.name for r in gen_python.elementwise_rows({r.name for r in gen_python.read_rows()}) if r.function]
)
def test_forms_of_an_elementwise_row(name: str) -> None:
    """One row of ops.def gives the function, the method and the method in place."""
    whole = table.ELEMENTWISE[name].rule == "BITS"
    args, kwargs = next(
        call
        for call in table.ROWS[name]()
        if not whole or {x.dtype for x in call[0] if isinstance(x, table.X)} == {"int64"}
    )
    operands = [x.make(cr) if isinstance(x, table.X) else x for x in args]
    value = getattr(cr, name)(*operands, **kwargs)
    found = [getattr(cr.Tensor, name)(*operands, **kwargs)]
    if hasattr(cr.Tensor, name + "_") and value.dtype == operands[0].dtype:
        found.append(getattr(operands[0].clone(), name + "_")(*operands[1:], **kwargs))
    assert all(cr.equal(cr.nan_to_num(value), cr.nan_to_num(y)) for y in found)


def test_help_says_formula_shapes_and_errors() -> None:
    text = inspect.getdoc(cr.Tensor.softmax)
    assert text is not None
    assert "exp(x) / sum(exp(x))" in text and "the same shape" in text and "IndexError" in text
    assert str(inspect.signature(cr.Tensor.softmax)) == "(self, /, dim, *, dtype=None)"
    text = inspect.getdoc(cr.maximum)
    assert text is not None
    assert "Shapes broadcast" in text and "RuntimeError" in text


def test_properties_have_docstrings() -> None:
    for kind in (cr.Tensor, cr.dtype, cr.Device, cr.Generator):
        for name, value in vars(kind).items():
            if inspect.isgetsetdescriptor(value) and not name.startswith("__"):
                assert value.__doc__, f"{kind.__name__}.{name}"


def test_user_script_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "user_script.py")], env=ENVIRONMENT, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_takes_nothing_along() -> None:
    """Only the extension: no NumPy, no typing, nothing that bare Python has not loaded."""
    code = "import sys; before = set(sys.modules); import chainrule; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, text=True, capture_output=True, check=True
    ).stdout.split()
    assert [m for m in found if not m.startswith("chainrule") and m != "__future__"] == []
