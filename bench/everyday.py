#!/usr/bin/env python3
"""Every op that a user types, beside PyTorch: the same line of Python in both, on about 100, 64
thousand and 4 million elements.

use: python bench/everyday.py [--quick] [--threads 2] [--only PART-OF-A-CALL]        prints JSON

CALLS is the list; tests/python/test_bench.py demands that every name is in it, or in UNTIMED with
the reason, and that every line runs. Each library has a process of its own, and they take turns:
threads of one that wait for work in a loop would slow down the other (OpenMP's do so for some
milliseconds).  A ratio is the median of those of the rounds, each of two neighbouring turns: a
virtual machine's processors are moved from a cache in common to one each and back, which changes
copies of 16 MB by half for seconds."""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import re
import statistics
import sys
import time
import timeit
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SIZES = {"small": 10, "medium": 256, "large": 2048}  # n: operands are (n, n)
SORT, SUM = 10**6, 10**8  # elements
TURN = 16  # calls in one library before it is the other's turn
SPIN = 0.03  # seconds: for longer than this no thread of the other waits for work in a loop
BATCHES = {10: (4, 5), 256: (16, 64), 2048: (64, 256)}  # n -> (B, M): as many elements in B matrices (M, M)


# What the letters are: operands(), below.  A call is timed as it stands, in a loop; nothing is recorded for gradients.
EACH = {  # the same call of many names
    "f(n, n)": "zeros ones empty rand randn",
    "f(x)": (
        "zeros_like ones_like empty_like rand_like randn_like neg abs sign square relu exp exp2 expm1 sin cos tan atan"
        " sinh cosh tanh asinh erf erfc sigmoid ceil floor round trunc frac selu silu mish softsign hardsigmoid"
        " hardswish relu6 logsigmoid leaky_relu elu celu softplus hardtanh gelu deg2rad rad2deg sinc isnan isinf"
        " lgamma digamma i0 i0e i1 i1e ndtr log_ndtr erfcx"
        " isposinf isneginf isfinite logical_not sum mean amax amin prod any all count_nonzero norm var std max min"
        " argmax argmin median"
    ),
    "f(p)": "entr log log2 log10 sqrt rsqrt reciprocal log1p",
    "f(u)": "asin acos atanh erfinv ndtri bernoulli",
    "f(p, q)": "add sub mul div pow floor_divide remainder fmod maximum minimum atan2",
    "f(x, y)": "clamp_min clamp_max eq ne lt le gt ge logical_and mm rsub",
    "f(m, o)": "logical_and logical_or logical_xor",
    "f(i, s)": "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift",
    "f(x, 0)": (
        "sum mean amax amin prod any all count_nonzero var std max min argmax argmin median logsumexp softmax"
        " log_softmax cumsum cumprod sort"
    ),
    "f(x, 1)": (
        "sum mean amax amin prod any all count_nonzero var std max min argmax argmin median logsumexp softmax"
        " log_softmax cumsum cumprod sort argsort"
    ),
    "x.f()": "double half bfloat16 int long short bool",
    "x.f(n, n)": "new_zeros new_ones new_empty",
    "f([x, y])": "cat stack hstack vstack",
    "f(x, (0,))": "flip",
}
CALLS = [call.replace("f(", f"{name}(", 1) for call, names in EACH.items() for name in names.split()]
CALLS += (
    """
tensor(numbers); as_tensor(numbers); asarray(numbers); full((n, n), 3.0); arange(n * n); linspace(0, 1, n * n);
eye(n); randint(0, 9, (n, n));
full_like(x, 3.0); randint_like(x, 9); x.new_full((n, n), 3.0); x.new_tensor(numbers);
d.float(); h.float(); i.float(); m.float(); m.long(); i.int(); x.to(float64); x.type_as(d); x.clone();
x.T.contiguous();
batch.permute(2, 0, 1).contiguous(); a.copy_(y); a.copy_(y.T); a.copy_(v); a.fill_(1.0); a.zero_(); x.detach();
v.tolist(); one.item();
reshape(x, (-1,)); x.view(-1); x.T.reshape(-1); transpose(x, 0, 1); x.t(); x.permute(1, 0); flatten(x);
x.unflatten(0, (-1, 2)); x.squeeze();
x.unsqueeze(0); v.expand(n, n); broadcast_to(v, (n, n)); v.expand_as(x); x.view_as(y); x.reshape_as(y);
x.narrow(0, 1, 2); x.select(0, 1);
split(x, 4); chunk(x, 3); unbind(batch); movedim(batch, 0, 2); x[1:, 2]; x[3]; x[:, None]; x[:, ::2] + 1;
x + y; x + 1; 2 * x; x / 3; x ** 2; p ** 2.5; x + v; x * c; x.T + y; x - one; h + h; h * x; d + d; i + j; i * 3;
i // s; i % s; k + k; m + i;
add(x, y, alpha=2); div(x, q, rounding_mode='floor'); a.add_(y); a.mul_(one); a.sub_(y, alpha=0.01); a.div_(one);
lerp(x, y, 0.3); lerp(x, y, u);
addcmul(x, y, z); addcdiv(x, y, q); clamp(x, -1, 1); clamp(x, y, q); clamp(x, min=0); i.clamp(2, 9); where(m, x, y);
where(m, x, 0.0); where(m, i, j);
masked_fill(x, m, 0.0); a.masked_fill_(m, 0.0);
acosh(q + 1); gelu(x, approximate='tanh'); exp(d); exp(h); neg(i); abs(i); relu(h); a.relu_(); sigmoid(d); x > 0;
i == j; m == o; ~m; m & o;
bitwise_not(i);
x.T.sum(0); batch.sum((0, 2)); h.sum(); h.sum(0); d.sum(); i.sum(); i.sum(0); i.sum(1); m.sum(); m.any(); m.all();
any(m, 0); any(m, 1); i.max();
norm(x, 1, 1); norm(x, dim=0); norm(x, dim=1); cumsum(i, 1);
sort(v); sort(i, 1); topk(x, 5); topk(v, 3); unique(s); unique(i); searchsorted(w, x);
x @ y; x @ y.T; x @ v; matmul(batch, batch); bmm(batch, batch); mv(x, v); dot(v, w); outer(v, w); addmm(v, x, y);
baddbmm(batch, batch, batch);
einsum('ij,jk->ik', x, y); einsum('bij,bjk->bik', batch, batch); einsum('ij,ij->i', x, y); einsum('ij->ji', x);
einsum('i,ij,j->', v, x, w);
cat([x, y], 1); cat([i, j]); stack([x, y], -1); gather(x, 0, i); gather(x, 1, i); gather(j, 1, i);
index_select(x, 0, r); index_select(x, 1, r);
scatter_add(x, 0, i, y); scatter_add(x, 1, i, y); scatter(x, 1, i, y);
scatter_reduce(x, 1, i, y, 'mean'); scatter_reduce(x, 1, i, y, 'amax'); index_add(x, 0, r, y); masked_select(x, m);
take_along_dim(x, i, 1);
nonzero(m); one_hot(s[0], 9);
x[r]; x[:, r]; x[m]; x[r, r]; v[i]; x[i[:3]]; a[r] = y; a[m] = 0.0; a[0] = v; a[:, 1] = v; tril(x); triu(x); tril(m);
a.tril_(); diagonal(x); flip(x, (1,));
roll(x, 3, 0); roll(x, 3, 1); x.repeat(2, 1); tile(v, (n, 1)); repeat_interleave(v, 3); repeat_interleave(x, 2, 0);
v.unfold(0, 3, 1).contiguous();
pad(x, (1, 2)); pad(x, (1, 2, 3, 4), value=1.0); pad(batch, (1, 2), mode='reflect');
pad(batch, (1, 2), mode='replicate');
pad(batch, (1, 2), mode='circular'); meshgrid(v, w, indexing='ij');
multinomial(p, 3, replacement=True); multinomial(p[0], 3); randperm(n * n); a.normal_(); a.uniform_();
a.exponential_();
a.log_normal_(); a.cauchy_(); a.geometric_(0.5); a.random_();
normal(x, p);
copysign(x, y); hypot(x, y); logaddexp(x, y); nextafter(x, y); signbit(x); fmax(x, y); fmin(x, y); logaddexp2(x, y);
xlogy(p, q); xlog1py(p, q); zeta(p + 1, q); logit(u);
logit(u, 0.1); nan_to_num(x); isclose(x, y); allclose(x, x); equal(x, x); diag(v); diag(x); diag_embed(v); ravel(x);
broadcast_tensors(x, v);
aminmax(x); nansum(x); nanmean(x); var_mean(x); std_mean(x); cummax(x, 1);
cummin(x, 1); logcumsumexp(x, 1); diff(x); msort(x); kthvalue(x, 3); mode(s, 1); nanmedian(x); quantile(v, 0.3);
nanquantile(v, 0.3);
unique_consecutive(s); bucketize(x, w); isin(i, r); bincount(s[0]); histc(x);
histogram(x, 10); histogramdd(x[:, :2], [5, 5]);
inner(v, w); vdot(v, w); kron(v, w); trace(x); addmv(v, x, w); addr(x, v, w); addbmm(batch[0], batch, batch);
tensordot(x, y, 1);
take(x, i); index_copy(x, 0, r, y); index_fill(x, 0, r, 1.0); index_put(x, (r,), y); masked_scatter(x, m, y);
argwhere(m); fliplr(x); flipud(x);
atleast_1d(x); atleast_2d(v); atleast_3d(x);
logspace(0, 1, n * n); tril_indices(n, n); triu_indices(n, n); fill(x, 2.0); dstack([x, y]); column_stack([x, y]);
block_diag(x, y); cartesian_prod(v, w); combinations(v); tensor_split(x, 3); hsplit(x, 1); vsplit(x, 1);
dsplit(batch, 1); split_with_sizes(x, [1, n - 1]); rot90(x); diagflat(v); select_scatter(x, v, 0, 1);
slice_scatter(x, y); diagonal_scatter(x, v); positive(x); float_power(p, 2.5); heaviside(x, y); dist(x, y);
cdist(x, y); trapezoid(x); cumulative_trapezoid(x); cross(x[:3], y[:3], 0); cov(x); corrcoef(x); vander(v, 4);
as_strided(x, (n, 2), (2, 1)); gcd(s, r); lcm(s, r); ldexp(x, y); frexp(x); renorm(x, 2, 0, 1);
index_reduce(x, 0, r, y, "amax"); x.clone().fill_diagonal_(1.0)
""".strip()
    .replace(";\n", "; ")
    .split("; ")
)


def derived() -> list[str]:
    """A call of every row of ops.def that no call above names; PyTorch may lack it."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
    gen_ops, gen_python = map(importlib.import_module, ("gen_ops", "gen_python"))
    named = {name for call in CALLS for name in re.findall(r"\b([a-z]\w*)\(", call)} | gen_python.NOT_IN_PYTHON
    rows = {
        gen_python.PYTHON_NAMES.get(r.name, r.name): r
        for r in gen_ops.read_source((gen_ops.ROOT / gen_ops.SOURCE).read_text())[1]
    }
    letters = {name: "isj" if r.rule == "BITS" else "pqu" for name, r in rows.items()}
    return [f"{name}({', '.join(letters[name][: len(r.inputs)])})" for name, r in rows.items() if name not in named]


DERIVED = derived()
CALLS += DERIVED

UNTIMED = {
    "tells what is known": (
        "can_cast promote_types result_type numel nelement is_tensor is_floating_point dim size stride storage_offset"
        " is_contiguous element_size data_ptr is_grad_enabled get_num_threads get_float32_matmul_precision"
        " get_default_device memory_stats get_default_dtype as_subclass"
    ),
    "gives out memory that is there": "to_device numpy from_numpy from_dlpack cpu",
    "sets something": (
        "requires_grad_ manual_seed set_num_threads set_float32_matmul_precision set_default_device empty_cache"
        " reset_peak_memory_stats"
        " synchronize set_printoptions detach_ set_default_dtype unsqueeze_ squeeze_ transpose_ t_"
    ),
    "gradients, timed in the parts python and value": (
        "retain_grad backward register_hook register_post_accumulate_grad_hook"
    ),
    "files": "save load",
    "nothing to compare with": "cuda gpu slice",
}

BEYOND_CACHES = (
    "three streams of 16 MB around a last-level cache of 32: limited by memory; PyTorch cuts the work into longer"
    " pieces"
)
COLUMN = (
    "the number of each row is spread over a block in the first-level cache before the product, one store per vector"
)
# why a call takes more than 1.5 times PyTorch's time, where it does
REASONS = {
    "unique_consecutive(s)": (
        "the runs are counted before they are written, so that all threads can write; PyTorch makes one pass"
    ),
    "sigmoid(d)": "two corrections make it 1.5 ulp instead of 2",
    "scatter(x, 1, i, y)": "every index is checked before the first write, so an index out of range leaves x unchanged",
    "scatter_add(x, 1, i, y)": (
        "every index is checked before the first write, so an index out of range leaves x unchanged"
    ),
    "a.sub_(y, alpha=0.01)": BEYOND_CACHES,
    "clamp(x, y, q)": BEYOND_CACHES,
    "lerp(x, y, 0.3)": BEYOND_CACHES,
    "diff(x)": (
        "rows one element shorter than in memory are processed one by one; large: three streams around the last-level"
        " cache"
    ),
    "linspace(0, 1, n * n)": "every element is computed in double and rounded once; PyTorch stays in f32",
    "mode(s, 1)": (
        "sorts and counts in several small steps, where PyTorch has one loop over a row; larger sizes take half of"
        " PyTorch's time"
    ),
    "x * c": COLUMN,
    "kron(v, w)": COLUMN,
    "addr(x, v, w)": "it is a product that adds, with one term: x is copied before it is added to",
    "isin(i, r)": "sorts and searches, at any size; PyTorch compares all pairs where there are few",
    "stack([x, y], -1)": "writes every second element through blocks",
    "pad(batch, (1, 2), mode='circular')": (
        "joins three pieces, two of them one or two columns wide: most lines of the result are written twice"
    ),
    "equal(x, x)": "three small steps, comparison, reduction and reading, where PyTorch has one loop",
}

Libraries = tuple[tuple[str, str], tuple[str, str]]  # (name, folder to import it from; "": where Python finds it)


def functions(lib: Any) -> dict[str, Any]:
    """What a call may name: the module, and PyTorch's functions that are elsewhere."""
    functional = getattr(getattr(lib, "nn", None), "functional", lib)
    return {**vars(getattr(lib, "special", lib)), **vars(functional), **vars(lib)}


def operands(lib: Any, n: int) -> dict[str, Any]:
    """By letter.  Floats are uniform: f32 in (-3, 3), p and q in (0.3, 3), u in (0, 0.9); integers
    in [0, n), s in [1, 9).  a is written to."""
    lib.manual_seed(1)
    between = lambda low, high, *shape: lib.rand(*shape) * (high - low) + low
    B, M = BATCHES[n]
    x = between(-3, 3, n, n)
    i = lib.randint(0, n, (n, n))
    return {
        "n": n,
        "numbers": between(-3, 3, n).tolist(),
        "one": lib.ones(()),
        "batch": between(-3, 3, B, M, M),
        "a": x.clone(),
        "x": x,
        "y": between(-3, 3, n, n),
        "z": between(-3, 3, n, n),
        "h": x.bfloat16(),
        "d": x.double(),
        "p": between(0.3, 3, n, n),
        "q": between(0.3, 3, n, n),
        "u": between(0, 0.9, n, n),
        "v": between(-3, 3, n),
        "w": lib.linspace(-3, 3, n),
        "c": between(-3, 3, n, 1),
        "i": i,
        "j": lib.randint(0, n, (n, n)),
        "k": i.int(),
        "r": lib.randint(0, n, (n,)),
        "s": lib.randint(1, 9, (n, n)),
        "m": x > 0,
        "o": i > n // 2,
    }


def least(call: str, names: dict[str, Any], seconds: float) -> float:
    """Nanoseconds of one call, the least of several loops: each long enough for the clock, all
    together about `seconds` long."""
    stop = time.perf_counter() + seconds
    timer = timeit.Timer(call, globals=names)
    timer.timeit(1)
    best = timer.timeit(1)
    loop = max(1, int(50e-6 / max(best, 1e-8)))
    while time.perf_counter() < stop:
        best = min(best, timer.timeit(loop) / loop)
    return best * 1e9


def sum_error(lib: Any, count: int) -> float:
    """Of a sum of f32 against double, a part of the sum of magnitudes."""
    x = lib.rand(count) * 6 - 2
    parts = [
        (part.sum().item(), part.abs().sum().item())
        for part in (x[k : k + (1 << 20)].double() for k in range(0, count, 1 << 20))
    ]
    return abs(x.sum().item() - sum(p for p, _ in parts)) / sum(m for _, m in parts)


def work(library: str, folder: str, threads: int, pipe: Connection) -> None:
    """A process of one library: for each (calls, n, seconds) the nanoseconds of each, or in words why it fails."""
    sys.path.insert(0, folder)
    lib = importlib.import_module(library)
    lib.set_num_threads(threads)
    names, made = functions(lib), 0

    def answer(call: str, n: int, seconds: float) -> float | str:
        try:
            return sum_error(lib, SUM) if call == "sum error" else least(call, names, seconds)
        except Exception as e:
            return f"{type(e).__name__}: {e}"[:200]

    pipe.send(f"{library} {lib.__version__}")
    with lib.no_grad():
        while request := pipe.recv():
            calls, n, seconds = request
            if n != made:
                names.update(operands(lib, n) if n in BATCHES else {"v": lib.randn(n)})
                made = n
            time.sleep(SPIN)
            pipe.send([answer(call, n, seconds) for call in calls])


class Pair:
    """chainrule and PyTorch, or two builds of chainrule, each in its process."""

    def __init__(self, threads: int, libraries: Libraries = (("chainrule", ""), ("torch", ""))) -> None:
        context = multiprocessing.get_context("spawn")  # no threads in it yet
        self.pipes = []
        for library, folder in libraries:
            ours, theirs = context.Pipe()
            context.Process(target=work, args=(library, folder or sys.path[0], threads, theirs), daemon=True).start()
            self.pipes.append(ours)
        self.versions = [p.recv() for p in self.pipes]

    def close(self) -> None:
        """Ends the two processes."""
        for pipe in self.pipes:
            pipe.send(None)

    def ask(self, which: int, calls: list[str], n: int, seconds: float) -> Any:
        self.pipes[which].send((calls, n, seconds))
        return self.pipes[which].recv()

    def times(self, calls: list[str], n: int, rounds: int, seconds: float) -> list[Any]:
        """Of each call [ours, theirs, ratio]: the least nanoseconds, the median ratio of the
        rounds; words where one fails."""
        order = [(0, 1), (1, 0)]  # who comes second finds the machine as the other left it
        turns = [{which: self.ask(which, calls, n, seconds) for which in order[k % 2]} for k in range(rounds)]
        found: list[Any] = []
        for k in range(len(calls)):
            ours, theirs = ([turn[which][k] for turn in turns] for which in (0, 1))
            failed = [
                f"{version}: {got[0]}"
                for version, got in zip(self.versions, (ours, theirs), strict=True)
                if isinstance(got[0], str)
            ]
            found.append(
                failed[0]
                if failed
                else [min(ours), min(theirs), statistics.median(a / b for a, b in zip(ours, theirs, strict=True))]
            )
        return found


def rows(pair: Pair, calls: list[str], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """One size after the other, so that each process makes its operands once."""
    found: dict[str, dict[str, Any]] = {call: {"call": call} for call in calls}
    for size, n in SIZES.items():
        for part in (calls[k : k + TURN] for k in range(0, len(calls), TURN)):
            for call, times in zip(
                part, pair.times(part, n, rounds, seconds if size == "large" else seconds / 2), strict=True
            ):
                found[call][size] = times
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="calls with this in them")
    o = parser.parse_args()
    pair = Pair(o.threads)
    rounds, seconds = (3, 0.01) if o.quick else (5, 0.03)
    result = {
        "versions": pair.versions,
        "reasons": REASONS,
        "rows": rows(pair, [c for c in CALLS if o.only in c], rounds, seconds),
    }
    result["sort"] = pair.times(["sort(v)"], SORT, rounds, 10 * seconds)[0]
    result["sum_error"] = pair.ask(0, ["sum error"], SORT, 0)[0]
    pair.close()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
