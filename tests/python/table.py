"""Every function and method by name, with a generator of calls.  A call is (args, kwargs) where an
X stands for a tensor, so that it can be made in chainrule and in PyTorch from the same numbers.
test_names.py walks it; a name without a row fails there."""

import sys
from importlib import import_module

from cases import ANY, FLOATS, LAYOUTS, ROWS, WHOLES, Call, Cases, Dtype, X, binary, call, unary
from conftest import ROOT
from table_elementwise import ternary

sys.path.insert(0, str(ROOT / "tools"))
import gen_ops  # noqa: E402
import gen_python  # noqa: E402

__all__ = ["ANY", "CONSTANT", "ELSEWHERE", "FLOATS", "LAYOUTS", "ROWS", "Call", "Dtype", "X", "call"]

for subject in ("make", "views", "elementwise", "reductions", "products", "indexing", "order", "composites"):
    import_module(f"table_{subject}")  # fills ROWS

# Names whose gradients are not compared here: PyTorch's digamma is good to 9 digits (test_special.py compares ours
# with SciPy), and its vander has no gradient that runs.
ELSEWHERE = {"digamma", "vander"}

# Names whose results have no gradient; of every other one test_names.py wants gradients compared.
CONSTANT = set(
    """
    all allclose any arange argmax argmin argsort argwhere bernoulli bincount bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
    bitwise_xor bool bucketize can_cast cauchy count_nonzero detach dim element_size empty
    empty_like eq equal exponential eye floor_divide full
    full_like ge geometric get_num_threads greater greater_equal gt histc histogram histogramdd int is_contiguous
    is_floating_point is_grad_enabled is_tensor isclose isfinite
    isin isinf isnan isneginf isposinf item le less less_equal linspace log_normal logical_and
    logical_not logical_or logical_xor long lt manual_seed multinomial ne
    gcd lcm new_empty new_full new_ones new_tensor new_zeros nextafter nonzero normal not_equal nelement numel
    one_hot ones ones_like promote_types rand rand_like
    randint randint_like randn randn_like random randperm requires_grad result_type searchsorted
    short signbit size storage_offset stride tensor tolist uniform
    unique unique_consecutive zero zeros zeros_like logspace tril_indices triu_indices heaviside
    get_default_dtype set_default_dtype
    """.split()
)


def of_row(row: gen_ops.Row) -> Cases:
    """Calls of an elementwise row, drawn where the tests of the C library draw."""
    if len(row.inputs) == 3:
        return ternary(row.low, row.high, value="value" in row.params)
    dtypes = [*WHOLES, "bool"] if row.rule == "BITS" else ANY
    return (unary, binary)[len(row.inputs) - 1](
        row.low, row.high, dtypes, **{name: [1.5 * value] for name, value in row.params.items()}
    )


ELEMENTWISE = {
    gen_python.PYTHON_NAMES.get(r.name, r.name): r for r in gen_ops.read_source((ROOT / gen_ops.SOURCE).read_text())[1]
}
DERIVED = set(ELEMENTWISE) - set(ROWS) - gen_python.NOT_IN_PYTHON  # rows of ops.def without calls of their own here
ROWS.update({name: of_row(ELEMENTWISE[name]) for name in DERIVED})
CONSTANT |= {name for name in DERIVED if not any(ELEMENTWISE[name].grads)}
