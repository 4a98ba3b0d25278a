"""chainrule.distributions: values, gradients and errors beside PyTorch, values beside SciPy, samples of a fixed
seed beside the distribution functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import chainrule as cr
import chainrule.distributions as D
import numpy as np
import pytest

try:
    import torch as _torch
except ImportError:
    _torch = None
try:
    import scipy.stats as _stats
except ImportError:
    _stats = None
torch: Any = _torch
stats: Any = _stats
needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed: distributions are tested by themselves"
)
needs_scipy = pytest.mark.skipif(stats is None, reason="SciPy is not installed: samples are tested by their moments")

RNG = np.random.default_rng(3)


def drawn(low: float, high: float, *shape: int) -> np.ndarray:
    return RNG.uniform(low, high, shape or (3, 4))


def simplex(*shape: int) -> np.ndarray:
    x = RNG.uniform(0.1, 1, shape)
    return x / x.sum(-1, keepdims=True)


def factor(*batch: int) -> np.ndarray:
    x = np.tril(RNG.uniform(-0.5, 0.5, (*batch, 3, 3)))
    x[..., range(3), range(3)] = RNG.uniform(0.5, 1.5, (*batch, 3))
    return x


LOWER = factor(4)
LOC, SCALE, A, B = drawn(-2, 2), drawn(0.3, 2), drawn(0.4, 5), drawn(0.4, 5)
P, REAL, POSITIVE, UNIT = drawn(0.05, 0.95), drawn(-3, 3), drawn(0.05, 4), drawn(0.02, 0.98)
COUNT = RNG.integers(0, 6, (3, 4)).astype(float)
HOT = np.eye(5)[RNG.integers(0, 5, (3,))]
COUNTS = RNG.multinomial(6, np.full(5, 0.2), 3).astype(float)

MATRICES = factor(4) @ LOWER.swapaxes(1, 2) @ LOWER @ LOWER.swapaxes(1, 2)
MATRICES = MATRICES @ MATRICES.swapaxes(1, 2) + 0.1 * np.eye(3)
ROWS = np.tril(drawn(-1, 1, 2, 4, 4), -1) + np.eye(4)

# name, parameters, values
CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("Normal", {"loc": LOC, "scale": SCALE}, REAL),
    ("LogNormal", {"loc": LOC, "scale": SCALE}, POSITIVE),
    ("HalfNormal", {"scale": SCALE}, POSITIVE),
    ("Uniform", {"low": LOC, "high": LOC + SCALE}, LOC + SCALE * UNIT),
    ("Exponential", {"rate": SCALE}, POSITIVE),
    ("Laplace", {"loc": LOC, "scale": SCALE}, REAL),
    ("Cauchy", {"loc": LOC, "scale": SCALE}, REAL),
    ("HalfCauchy", {"scale": SCALE}, POSITIVE),
    ("Gumbel", {"loc": LOC, "scale": SCALE}, REAL),
    ("Gamma", {"concentration": A, "rate": B}, POSITIVE),
    ("Chi2", {"df": A}, POSITIVE),
    ("InverseGamma", {"concentration": A, "rate": B}, POSITIVE),
    ("Beta", {"concentration1": A, "concentration0": B}, UNIT),
    ("Dirichlet", {"concentration": drawn(0.4, 5, 3, 5)}, simplex(3, 5)),
    ("StudentT", {"df": A, "loc": LOC, "scale": SCALE}, REAL),
    ("FisherSnedecor", {"df1": A, "df2": B + 4}, POSITIVE),
    ("Pareto", {"scale": SCALE, "alpha": A}, SCALE + POSITIVE),
    ("Weibull", {"scale": SCALE, "concentration": A}, POSITIVE),
    ("Kumaraswamy", {"concentration1": A, "concentration0": B}, UNIT),
    ("VonMises", {"loc": LOC, "concentration": A}, REAL),
    ("Bernoulli", {"probs": P}, (UNIT > 0.5).astype(float)),
    ("Bernoulli", {"logits": LOC}, (UNIT > 0.5).astype(float)),
    ("ContinuousBernoulli", {"probs": P}, UNIT),
    ("ContinuousBernoulli", {"logits": LOC}, UNIT),
    ("Binomial", {"total_count": 6, "probs": P}, COUNT),
    ("Binomial", {"total_count": 6, "logits": LOC}, COUNT),
    ("NegativeBinomial", {"total_count": A, "probs": P}, COUNT),
    ("NegativeBinomial", {"total_count": A, "logits": LOC}, COUNT),
    ("Geometric", {"probs": P}, COUNT),
    ("Geometric", {"logits": LOC}, COUNT),
    ("Poisson", {"rate": SCALE}, COUNT),
    ("Categorical", {"probs": simplex(3, 5)}, np.array([[0, 4, 2], [1, 1, 3]])),
    ("Categorical", {"logits": drawn(-2, 2, 3, 5)}, np.array([0, 4, 2])),
    ("OneHotCategorical", {"probs": simplex(3, 5)}, HOT),
    ("OneHotCategoricalStraightThrough", {"logits": drawn(-2, 2, 3, 5)}, HOT),
    ("Multinomial", {"total_count": 6, "probs": simplex(3, 5)}, COUNTS),
    ("Multinomial", {"total_count": 6, "logits": drawn(-2, 2, 3, 5)}, COUNTS),
    ("MultivariateNormal", {"loc": drawn(-1, 1, 4, 3), "scale_tril": LOWER}, drawn(-2, 2, 4, 3)),
    (
        "MultivariateNormal",
        {"loc": drawn(-1, 1, 3), "covariance_matrix": LOWER @ LOWER.swapaxes(1, 2)},
        drawn(-2, 2, 4, 3),
    ),
    (
        "MultivariateNormal",
        {"loc": drawn(-1, 1, 3), "precision_matrix": LOWER @ LOWER.swapaxes(1, 2)},
        drawn(-2, 2, 4, 3),
    ),
    (
        "LowRankMultivariateNormal",
        {"loc": drawn(-1, 1, 4, 3), "cov_factor": drawn(-1, 1, 3, 2), "cov_diag": drawn(0.2, 1, 3)},
        drawn(-2, 2, 4, 3),
    ),
    ("RelaxedBernoulli", {"temperature": np.array(0.7), "probs": P}, UNIT),
    ("RelaxedBernoulli", {"temperature": np.array(0.7), "logits": LOC}, UNIT),
    ("RelaxedOneHotCategorical", {"temperature": np.array(0.7), "probs": simplex(3, 5)}, simplex(3, 5)),
    ("Wishart", {"df": drawn(2.5, 9, 4), "covariance_matrix": LOWER @ LOWER.swapaxes(1, 2)}, MATRICES),
    ("Wishart", {"df": np.array(7.5), "covariance_matrix": MATRICES[::-1].copy()}, MATRICES),
    ("Wishart", {"df": np.array(3.5), "precision_matrix": MATRICES[1]}, MATRICES[0]),
    ("LKJCholesky", {"dim": 4, "concentration": drawn(0.5, 3, 2)}, ROWS / np.linalg.norm(ROWS, axis=-1, keepdims=True)),
    ("LogisticNormal", {"loc": drawn(-1, 1, 3, 4), "scale": drawn(0.3, 2, 3, 4)}, simplex(3, 5)),
]
IDS = [f"{name}-{'-'.join(p)}" for name, p, _ in CASES]
MOMENTS = ("mean", "variance", "stddev", "mode")


def module(lib: Any) -> Any:
    return lib.distributions


def made(lib: Any, name: str, parameters: dict[str, Any], **more: Any) -> tuple[Any, list[Any]]:
    """The distribution of a library, and its parameters that are tensors."""
    tensors = {
        k: lib.tensor(v, dtype=lib.float64).requires_grad_() if isinstance(v, np.ndarray) else v
        for k, v in parameters.items()
    }
    return getattr(module(lib), name)(**tensors, **more), [t for t in tensors.values() if hasattr(t, "grad")]


def close(a: Any, b: Any, what: str, tolerance: float = 1e-8) -> None:
    x, y = np.array(a.detach().tolist(), float), np.array(b.detach().tolist(), float)
    assert x.shape == y.shape, f"{what}: shape {x.shape}, PyTorch's {y.shape}"
    good = np.isclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert good.all(), f"{what}: {x[~good]}, PyTorch's {y[~good]}"


def compare(
    what: str, f: Callable[[Any, Any], Any], name: str, parameters: dict[str, Any], tolerance: float = 1e-8
) -> None:
    """f of both libraries: the value and the gradients of its sum, or the same exception."""
    results: list[Any] = []
    for lib in (cr, torch):
        distribution, tensors = made(lib, name, parameters)
        try:
            y = f(lib, distribution)
        except (NotImplementedError, ValueError, AttributeError) as e:
            results.append((type(e), [], tensors))
            continue
        grads = []
        if getattr(y, "requires_grad", False):
            finite = y[lib.isfinite(y)]
            try:
                finite.sum().backward()
            except NotImplementedError:  # PyTorch's gammainc
                results.append((y, [], tensors))
                continue
            grads = [t.grad if t.grad is not None else lib.zeros_like(t) for t in tensors]
        results.append((y, grads, tensors))
    (ours, mine, _), (theirs, others, _) = results
    if (name, what) in WRONG:
        return
    if isinstance(theirs, type) or isinstance(ours, type):
        assert isinstance(theirs, type) or what in MORE, f"{name}.{what}: {ours}"
        return
    close(ours, theirs, f"{name}.{what}", tolerance)
    assert not others or mine, f"{name}.{what}: no gradient"
    for i, (a, b) in enumerate(zip(mine, others if others else mine, strict=True)):
        close(a, b, f"gradient {i} of {name}.{what}", 10 * tolerance)


WRONG = {("Kumaraswamy", "mode")}  # NaN in PyTorch
MORE = ("mode", "entropy")  # may be here where PyTorch has none


@needs_torch
@pytest.mark.parametrize("name, parameters, value", CASES, ids=IDS)
def test_is_pytorchs(name: str, parameters: dict[str, Any], value: Any) -> None:
    loose = (
        1e-5 if name in ("ContinuousBernoulli", "VonMises") else 1e-8
    )  # cancellation beside p = 1/2; PyTorch's Bessel fits
    loose = 1e-7 if name == "Multinomial" else loose  # log(n!) in float32
    ours, theirs = made(cr, name, parameters)[0], made(torch, name, parameters)[0]
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape) and tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample and ours.has_enumerate_support == theirs.has_enumerate_support
    at = value if value.dtype.kind == "i" else value.astype(float)
    compare("log_prob", lambda lib, d: d.log_prob(lib.tensor(at)), name, parameters, loose)
    compare("cdf", lambda lib, d: d.cdf(lib.tensor(at)), name, parameters, loose)
    compare("icdf", lambda lib, d: d.icdf(lib.tensor(UNIT)), name, parameters, loose)
    compare("entropy", lambda lib, d: d.entropy(), name, parameters, loose)
    for moment in MOMENTS:
        read = lambda lib, d, m=moment: getattr(d, m)
        compare(moment, read, name, parameters, loose)
    if ours.has_enumerate_support and not (name == "Multinomial"):
        for expand in (False, True):
            close(ours.enumerate_support(expand), theirs.enumerate_support(expand), f"{name}.enumerate_support")
    batch = (2, *theirs.batch_shape)
    a, b = ours.expand(batch), theirs.expand(batch)
    assert tuple(a.batch_shape) == batch and type(a) is type(ours)
    close(a.log_prob(cr.tensor(at)), b.log_prob(torch.tensor(at)), f"expanded {name}", loose)
    for shape in ((), (2,), (2, 3)):
        cr.manual_seed(0)
        x = ours.sample(shape)
        assert tuple(x.shape) == tuple(theirs.sample(shape).shape) and not x.requires_grad
        assert str(x.dtype).split(".")[1] == str(theirs.sample(shape).dtype).split(".")[1]
        ours.log_prob(x)  # lies in the support
        cr.manual_seed(0)
        assert x.tolist() == ours.sample(shape).tolist()
    if ours.has_rsample:
        d, tensors = made(cr, name, parameters)
        x = d.rsample((5,))
        weights = cr.arange(x.shape[-1], dtype=cr.float64) + 1
        (x * weights).sum().backward()
        assert all(t.grad is not None and bool(cr.isfinite(t.grad).all()) for t in tensors)


SCIPY: list[tuple[Any, str, tuple[Any, ...]]] = [
    (lambda: D.Normal(0.7, 1.3), "norm", (0.7, 1.3)),
    (lambda: D.LogNormal(0.2, 0.5), "lognorm", (0.5, 0, math.exp(0.2))),
    (lambda: D.HalfNormal(1.7), "halfnorm", (0, 1.7)),
    (lambda: D.Uniform(-1.0, 2.5), "uniform", (-1.0, 3.5)),
    (lambda: D.Exponential(1.6), "expon", (0, 1 / 1.6)),
    (lambda: D.Laplace(0.3, 1.2), "laplace", (0.3, 1.2)),
    (lambda: D.Cauchy(0.3, 1.2), "cauchy", (0.3, 1.2)),
    (lambda: D.HalfCauchy(1.2), "halfcauchy", (0, 1.2)),
    (lambda: D.Gumbel(0.4, 1.5), "gumbel_r", (0.4, 1.5)),
    (lambda: D.Gamma(0.1, 1.0), "gamma", (0.1, 0, 1)),
    (lambda: D.Gamma(0.7, 2.0), "gamma", (0.7, 0, 0.5)),
    (lambda: D.Gamma(1.0, 2.0), "gamma", (1.0, 0, 0.5)),
    (lambda: D.Gamma(25.0, 0.5), "gamma", (25.0, 0, 2.0)),
    (lambda: D.InverseGamma(3.0, 2.0), "invgamma", (3.0, 0, 2.0)),
    (lambda: D.Chi2(3.5), "chi2", (3.5,)),
    (lambda: D.Beta(0.5, 0.7), "beta", (0.5, 0.7)),
    (lambda: D.Beta(3.0, 1.5), "beta", (3.0, 1.5)),
    (lambda: D.StudentT(4.5, 0.3, 1.2), "t", (4.5, 0.3, 1.2)),
    (lambda: D.FisherSnedecor(3.5, 5.0), "f", (3.5, 5.0)),
    (lambda: D.Pareto(1.5, 2.5), "pareto", (2.5, 0, 1.5)),
    *[(lambda k=k: D.GeneralizedPareto(0.5, 1.5, k), "genpareto", (k, 0.5, 1.5)) for k in (0.3, 0.0, -0.4)],
    (lambda: D.Weibull(1.5, 0.8), "weibull_min", (0.8, 0, 1.5)),
    (lambda: D.VonMises(0.0, 2.5), "vonmises", (2.5,)),
    (lambda: D.Bernoulli(0.3), "bernoulli", (0.3,)),
    (lambda: D.Binomial(5, cr.tensor(0.3)), "binom", (5, 0.3)),
    (lambda: D.Binomial(100, cr.tensor(0.35)), "binom", (100, 0.35)),
    (lambda: D.Binomial(1000, cr.tensor(0.8)), "binom", (1000, 0.8)),
    (lambda: D.NegativeBinomial(3.0, 0.4), "nbinom", (3.0, 0.6)),
    (lambda: D.Geometric(0.3), "geom", (0.3, -1)),
    (lambda: D.Poisson(0.5), "poisson", (0.5,)),
    (lambda: D.Poisson(9.5), "poisson", (9.5,)),
    (lambda: D.Poisson(12.0), "poisson", (12.0,)),
    (lambda: D.Poisson(300.0), "poisson", (300.0,)),
]


@needs_scipy
@pytest.mark.parametrize("make, name, arguments", SCIPY, ids=[f"{n}{a}" for _, n, a in SCIPY])
def test_is_scipys(make: Callable[[], D.Distribution], name: str, arguments: tuple[Any, ...]) -> None:
    """log_prob, cdf and moments in float32; the largest distance of the distribution functions of 20000 samples."""
    ours, theirs = make(), getattr(stats, name)(*arguments)
    cr.manual_seed(11)
    x = np.array(ours.sample((20000,)).tolist())
    discrete = hasattr(theirs.dist, "pmf")
    some = x[:50]
    want = theirs.logpmf(some) if discrete else theirs.logpdf(some)
    assert np.allclose(
        ours.log_prob(cr.tensor(some, dtype=cr.float32)).tolist(), want, rtol=1e-4, atol=1e-4 + 2e-6 * abs(some).max()
    )
    try:
        cdf = ours.cdf(cr.tensor(some, dtype=cr.float32)).tolist()
    except NotImplementedError:
        pass
    else:
        assert np.allclose(cdf, theirs.cdf(some), rtol=2e-5, atol=2e-6)
    if name not in ("cauchy", "halfcauchy", "vonmises"):
        assert np.allclose([ours.mean.item(), ours.variance.item()], theirs.stats("mv"), rtol=1e-5)
    try:
        assert np.allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-3, atol=1e-5)
    except NotImplementedError:
        pass
    points = np.unique(x)
    if discrete:
        distance = max(abs(np.searchsorted(np.sort(x), points, "right") / x.size - theirs.cdf(points)))
    else:
        distance = stats.kstest(x, theirs.cdf).statistic
    assert distance < 1.63 / math.sqrt(x.size), f"{name}{arguments}: {distance}"  # 1 % level; the seed is fixed


@needs_scipy
def test_vectors_have_their_marginals() -> None:
    cr.manual_seed(5)
    a = cr.tensor([0.3, 1.5, 4.0])
    x = np.array(D.Dirichlet(a).sample((20000,)).tolist())
    for i in range(3):
        marginal = stats.beta(a[i].item(), 5.8 - a[i].item())
        assert stats.kstest(x[:, i], marginal.cdf).statistic < 1.63 / math.sqrt(20000)
    lower = cr.tensor(LOWER[0])
    normal = D.MultivariateNormal(cr.zeros(3, dtype=cr.float64), scale_tril=lower)
    y = np.array(D.Independent(D.Normal(cr.zeros(3), cr.ones(3)), 1).sample((20000,)).tolist()) @ LOWER[0].T
    for z in (np.array(normal.sample((20000,)).tolist()), y):
        assert np.allclose(np.cov(z.T), LOWER[0] @ LOWER[0].T, atol=0.06)
    low = D.LowRankMultivariateNormal(cr.zeros(3), cr.tensor([[1.0], [0.5], [0.0]]), cr.ones(3))
    z = np.array(low.sample((20000,)).tolist())
    assert np.allclose(np.cov(z.T), np.array(low.covariance_matrix.tolist()), atol=0.06)
    counts = D.Multinomial(10, cr.tensor([0.2, 0.3, 0.5])).sample((20000,))
    assert bool((counts.sum(-1) == 10).all())
    assert np.allclose(counts.mean(0).tolist(), [2, 3, 5], atol=0.05)


@needs_torch
@pytest.mark.parametrize("a", [0.05, 0.3, 0.9, 1.0, 1.7, 8.0, 90.0, 2000.0])
def test_gamma_samples_slope(a: float) -> None:
    """d x / d a against differences of the quantile, x at fixed P(a, x)."""
    scipy_special = pytest.importorskip("scipy.special")
    for q in (0.02, 0.3, 0.5, 0.8, 0.99):
        x = scipy_special.gammaincinv(a, q)
        if x < 1e-200:
            continue
        h = 1e-5 * a
        want = (scipy_special.gammaincinv(a + h, q) - scipy_special.gammaincinv(a - h, q)) / (2 * h)
        from chainrule.special import shape_slope

        got = shape_slope(cr.tensor([a], dtype=cr.float64), cr.tensor([x], dtype=cr.float64)).item()
        assert abs(got - want) <= 1e-5 * abs(want) + 1e-12, f"a {a}, q {q}: {got}, differences {want}"


def test_reparameterised_means() -> None:
    """Gradients of means over samples are those of the formulas: d E[x] and d E[x^2] by the parameters."""
    cr.manual_seed(2)
    for make, start in (
        (lambda a, b: D.Gamma(a, b), (0.7, 1.3)),
        (lambda a, b: D.Beta(a, b), (1.5, 0.8)),
        (lambda a, b: D.StudentT(a + 6, b), (1.0, 0.5)),
        (lambda a, b: D.Kumaraswamy(a, b), (1.5, 2.0)),
    ):
        a, b = (cr.tensor(v, dtype=cr.float64, requires_grad=True) for v in start)
        d = make(a, b)
        x = d.rsample((40000,))
        for sampled, exact in ((x.mean(), d.mean), ((x * x).mean(), d.variance + d.mean**2)):
            ours = cr.autograd.grad(sampled, [a, b], retain_graph=True, allow_unused=True)
            want: Any = cr.autograd.grad(exact + 0 * a + 0 * b, [a, b], retain_graph=True)
            for o, w in zip(ours, want, strict=True):
                assert abs((o.item() if o is not None else 0) - w.item()) < 0.05 * (1 + abs(w.item())), type(d).__name__


KL = [
    ("Bernoulli", {"probs": P}, {"probs": UNIT}),
    ("Binomial", {"total_count": 4, "probs": P}, {"total_count": 4, "probs": UNIT}),
    ("Categorical", {"probs": simplex(3, 5)}, {"probs": simplex(3, 5)}),
    ("OneHotCategorical", {"probs": simplex(3, 5)}, {"probs": simplex(3, 5)}),
    ("Geometric", {"probs": P}, {"probs": UNIT}),
    ("Poisson", {"rate": A}, {"rate": B}),
    ("ContinuousBernoulli", {"probs": P}, {"probs": UNIT}),
    ("Dirichlet", {"concentration": drawn(0.4, 5, 3, 5)}, {"concentration": drawn(0.4, 5, 3, 5)}),
    ("Beta", {"concentration1": A, "concentration0": B}, {"concentration1": B, "concentration0": SCALE}),
    ("Gamma", {"concentration": A, "rate": B}, {"concentration": B, "rate": SCALE}),
    ("Chi2", {"df": A}, {"df": B}),
    ("Exponential", {"rate": A}, {"rate": B}),
    ("Normal", {"loc": LOC, "scale": SCALE}, {"loc": REAL, "scale": A}),
    ("LogNormal", {"loc": LOC, "scale": SCALE}, {"loc": REAL, "scale": A}),
    ("HalfNormal", {"scale": SCALE}, {"scale": A}),
    ("Laplace", {"loc": LOC, "scale": SCALE}, {"loc": REAL, "scale": A}),
    ("Cauchy", {"loc": LOC, "scale": SCALE}, {"loc": REAL, "scale": A}),
    ("Gumbel", {"loc": LOC, "scale": SCALE}, {"loc": REAL, "scale": A}),
    ("Pareto", {"scale": SCALE + 1, "alpha": A + 2.1}, {"scale": SCALE, "alpha": B}),
    ("Uniform", {"low": UNIT / 2, "high": UNIT}, {"low": UNIT / 4, "high": UNIT + 0.5}),
    (
        "MultivariateNormal",
        {"loc": drawn(-1, 1, 4, 3), "scale_tril": LOWER},
        {"loc": drawn(-1, 1, 3), "scale_tril": factor(4)},
    ),
    (
        "LowRankMultivariateNormal",
        {"loc": drawn(-1, 1, 3), "cov_factor": drawn(-1, 1, 3, 2), "cov_diag": drawn(0.2, 1, 3)},
        {"loc": drawn(-1, 1, 3), "cov_factor": drawn(-1, 1, 3, 1), "cov_diag": drawn(0.2, 1, 3)},
    ),
]


@needs_torch
def test_divergence_of_wisharts() -> None:
    """Element by element: PyTorch 2.13 sums its digamma terms over a batch, and gives df no gradient."""
    df = drawn(2.5, 9, 4)

    def value(lib: Any, at: Any, other: Any) -> Any:
        make, real = lib.distributions.Wishart, {"dtype": lib.float64}
        p = make(lib.tensor(df[at].tolist(), **real), scale_tril=lib.tensor(LOWER[at].tolist(), **real))
        q = make(lib.tensor(4.5, **real), scale_tril=lib.tensor(LOWER[other].tolist(), **real))
        return lib.distributions.kl_divergence(p, q)

    every = value(cr, slice(None), slice(None, None, -1))
    for i in range(4):
        close(every[i], value(torch, i, 3 - i), f"KL of element {i}")


@needs_torch
def test_divergences_are_pytorchs() -> None:
    """Of all pairs of classes: the value, or that there is none."""
    seen = 0
    for p_name, p, _ in KL:
        for q_name, _, q in KL:
            results: list[Any] = []
            for lib in (cr, torch):
                a, tensors = made(lib, p_name, p)
                b, others = made(lib, q_name, q)
                try:
                    y = module(lib).kl_divergence(a, b)
                except (NotImplementedError, RuntimeError, ValueError) as e:
                    results.append(e)
                    continue
                finite = y[lib.isfinite(y)]
                if finite.numel() and finite.requires_grad:
                    finite.sum().backward()
                results.append((y, [lib.zeros_like(t) if t.grad is None else t.grad for t in [*tensors, *others]]))
            ours, theirs = results
            if isinstance(theirs, Exception):
                assert isinstance(ours, (Exception, tuple)), f"KL({p_name}, {q_name}): {ours}"
                continue
            assert not isinstance(ours, Exception), f"KL({p_name}, {q_name}): {ours!r}"
            tolerance = 1e-5 if "ContinuousBernoulli" in (p_name, q_name) else 1e-8
            close(ours[0], theirs[0], f"KL({p_name}, {q_name})", tolerance)
            if p_name == q_name:
                for i, (g, h) in enumerate(zip(ours[1], theirs[1], strict=True)):
                    close(g, h, f"gradient {i} of KL({p_name}, {q_name})", 10 * tolerance)
            seen += 1
    assert seen > 80, seen


def test_register_kl() -> None:
    class Mine(D.Normal):
        """A subclass takes its parent's formula until it has its own."""

    p, q = Mine(0.0, 1.0), D.Normal(1.0, 1.0)
    assert D.kl_divergence(p, q).item() == 0.5

    @D.register_kl(Mine, D.Normal)
    def formula(p: Any, q: Any) -> Any:
        return p.loc + 7

    assert D.kl_divergence(p, q).item() == 7 and D.kl_divergence(q, q).item() == 0
    with pytest.raises(TypeError):
        D.register_kl(int, D.Normal)
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.VonMises(0.0, 1.0), q)


X23 = drawn(-1.5, 1.5, 2, 3)
TRANSFORMS: list[tuple[str, Callable[[Any, Any], Any], Any]] = [
    ("exp", lambda T, t: T.ExpTransform(), X23),
    ("power", lambda T, t: T.PowerTransform(t(1.7)), np.abs(X23) + 0.1),
    ("sigmoid", lambda T, t: T.SigmoidTransform(), X23),
    ("softplus", lambda T, t: T.SoftplusTransform(), X23),
    ("tanh", lambda T, t: T.TanhTransform(), X23),
    ("affine", lambda T, t: T.AffineTransform(t([1.0, 2.0, 3.0]), t(-0.5)), X23),
    ("affine event", lambda T, t: T.AffineTransform(0.5, 2.0, event_dim=1), X23),
    ("stick breaking", lambda T, t: T.StickBreakingTransform(), X23),
    ("correlation", lambda T, t: T.CorrCholeskyTransform(), X23),
    ("compose", lambda T, t: T.ComposeTransform([T.AffineTransform(0.1, 2.0), T.SigmoidTransform()]), X23),
    ("mixed", lambda T, t: T.ComposeTransform([T.TanhTransform(), T.StickBreakingTransform()]), X23),
    ("independent", lambda T, t: T.IndependentTransform(T.ExpTransform(), 1), X23),
    ("reshape", lambda T, t: T.ReshapeTransform((3,), (3, 1)), X23),
    (
        "stack",
        lambda T, t: T.StackTransform([T.ExpTransform(), T.TanhTransform(), T.AffineTransform(1.0, 2.0)], 1),
        X23,
    ),
    ("cat", lambda T, t: T.CatTransform([T.ExpTransform(), T.TanhTransform()], 1, [2, 1]), X23),
    ("inverse", lambda T, t: T.ExpTransform().inv, np.abs(X23) + 0.1),
    ("cdf", lambda T, t: T.CumulativeDistributionTransform(T.Normal(t(0.0), t(1.0))), X23),
]


@needs_torch
@pytest.mark.parametrize("name, make, x", TRANSFORMS, ids=[n for n, _, _ in TRANSFORMS])
def test_transforms_are_pytorchs(name: str, make: Callable[[Any, Any], Any], x: np.ndarray) -> None:
    ours, theirs = (make(module(lib), lambda v, lib=lib: lib.tensor(v, dtype=lib.float64)) for lib in (cr, torch))
    a, b = cr.tensor(x), torch.tensor(x)
    y, z = ours(a), theirs(b)
    close(y, z, name)
    close(ours.log_abs_det_jacobian(a, y), theirs.log_abs_det_jacobian(b, z), f"{name}: determinant")
    close(ours.inv(y), a, f"{name}: inverse", 1e-7)
    assert ours.bijective == theirs.bijective and ours.domain.event_dim == theirs.domain.event_dim
    assert ours.codomain.event_dim == theirs.codomain.event_dim and ours.inv.inv == ours
    assert tuple(ours.forward_shape((2, 3))) == tuple(theirs.forward_shape((2, 3)))
    assert tuple(ours.inverse_shape(y.shape)) == (2, 3)
    cached = ours.with_cache()
    if not isinstance(ours, (D.ComposeTransform, type(D.ExpTransform().inv))):
        assert cached.inv(cached(a)) is a


@needs_torch
def test_transforms_into_sets_are_pytorchs() -> None:
    sets: list[Callable[[Any], Any]] = [
        lambda c: c.real,
        lambda c: c.positive,
        lambda c: c.greater_than_eq(2.0),
        lambda c: c.less_than(-1.0),
        lambda c: c.unit_interval,
        lambda c: c.interval(-1.0, 3.0),
        lambda c: c.simplex,
        lambda c: c.corr_cholesky,
        lambda c: c.lower_cholesky,
        lambda c: c.positive_definite,
        lambda c: c.independent(c.positive, 1),
    ]
    for i, choose in enumerate(sets):
        x = drawn(-1, 1, 3, 3)
        for name in ("biject_to", "transform_to")[i in (8, 9) :]:
            y, z = (getattr(module(lib), name)(choose(module(lib).constraints))(lib.tensor(x)) for lib in (cr, torch))
            close(y, z, f"{name} of set {i}")
            assert bool(choose(D.constraints).check(y).all()), i
    with pytest.raises(NotImplementedError):
        D.transform_to(D.constraints.boolean)


@needs_torch
def test_made_of_others_are_pytorchs() -> None:
    """Independent, TransformedDistribution and MixtureSameFamily."""
    results = []
    for lib in (cr, torch):
        T = module(lib)
        t: Any = lambda v, lib=lib: lib.tensor(v, dtype=lib.float64)  # noqa: E731
        normal = T.Normal(t(LOC), t(SCALE))
        independent = T.Independent(normal, 1)
        log_normal = T.TransformedDistribution(normal, [T.AffineTransform(t(1.0), t(2.0)), T.ExpTransform()])
        falling = T.TransformedDistribution(T.Normal(t(0.0), t(1.0)), [T.AffineTransform(t(1.0), t(-2.0))])
        stick = T.TransformedDistribution(independent, T.StickBreakingTransform())
        mixture = T.MixtureSameFamily(T.Categorical(t(simplex_rows)), normal)
        vectors = T.MixtureSameFamily(
            T.Categorical(t(simplex_rows[0])), T.Independent(T.Normal(t(LOC.T), t(SCALE.T)), 1)
        )
        value = t(REAL)
        results.append(
            [
                independent.log_prob(value),
                independent.entropy(),
                independent.mean,
                log_normal.log_prob(t(POSITIVE)),
                log_normal.cdf(t(POSITIVE)),
                log_normal.icdf(t(UNIT)),
                falling.cdf(value),
                falling.icdf(t(UNIT)),
                stick.log_prob(t(sticks)),
                mixture.log_prob(value[:, 0]),
                mixture.cdf(value[:, 0]),
                mixture.mean,
                mixture.variance,
                vectors.log_prob(value[:, 0]),
                vectors.mean,
                vectors.variance,
                T.kl_divergence(independent, T.Independent(T.Normal(t(REAL), t(A)), 1)),
            ]
        )
        for d in (independent, log_normal, stick, mixture, vectors):
            assert tuple(d.sample((2,)).shape) == (2, *d.batch_shape, *d.event_shape)
            assert tuple(d.expand((2, *d.batch_shape)).sample().shape) == (2, *d.batch_shape, *d.event_shape)
    for i, (a, b) in enumerate(zip(*results, strict=True)):
        close(a, b, f"result {i}")


simplex_rows, sticks = simplex(3, 4), simplex(3, 5)

REFUSED: list[tuple[Callable[[Any, Any], Any], type[Exception]]] = [
    (lambda T, t: T.Normal(0.0, -1.0), ValueError),
    (lambda T, t: T.Normal(t(math.nan), 1.0), ValueError),
    (lambda T, t: T.Normal("0", 1.0), ValueError),
    (lambda T, t: T.Normal(0.0, 1.0).log_prob(t(math.nan)), ValueError),
    (lambda T, t: T.Normal(0.0, 1.0).log_prob(1.0), ValueError),
    (lambda T, t: T.Normal(t([0.0, 1.0]), 1.0).log_prob(t([1.0, 2.0, 3.0])), ValueError),
    (lambda T, t: T.Uniform(1.0, 0.0), ValueError),
    (lambda T, t: T.Uniform(0.0, 1.0).log_prob(t(2.0)), ValueError),
    (lambda T, t: T.Bernoulli(), ValueError),
    (lambda T, t: T.Bernoulli(t(0.5), t(0.5)), ValueError),
    (lambda T, t: T.Bernoulli(t(1.5)), ValueError),
    (lambda T, t: T.Bernoulli(t(0.5)).log_prob(t(0.5)), ValueError),
    (lambda T, t: T.Categorical(t(0.5)), ValueError),
    (lambda T, t: T.Categorical(t([-0.5, 1.5])), ValueError),
    (lambda T, t: T.Categorical(t([0.5, 0.5])).log_prob(t(2)), ValueError),
    (lambda T, t: T.Dirichlet(t(0.5)), ValueError),
    (lambda T, t: T.Dirichlet(t([0.5, 1.0])).log_prob(t([0.5, 0.7])), ValueError),
    (lambda T, t: T.HalfNormal(-1.0), ValueError),
    (lambda T, t: T.Chi2(t(-1.0)), ValueError),
    (lambda T, t: T.Geometric(t(0.0)), ValueError),
    (lambda T, t: T.Multinomial(t(3), t([0.5, 0.5])), NotImplementedError),
    (lambda T, t: T.Multinomial(3, t([0.5, 0.5])).log_prob(t([3.0, 1.0])), ValueError),
    (lambda T, t: T.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])), ValueError),
    (lambda T, t: T.MultivariateNormal(t([0.0, 0.0])), ValueError),
    (lambda T, t: T.MultivariateNormal(t(0.0), t([[1.0]])), ValueError),
    (lambda T, t: T.Independent(T.Normal(0.0, 1.0), 1), ValueError),
    (lambda T, t: T.TransformedDistribution(T.Normal(0.0, 1.0), 3), ValueError),
    (lambda T, t: T.MixtureSameFamily(T.Normal(0.0, 1.0), T.Normal(0.0, 1.0)), ValueError),
    (lambda T, t: T.ReshapeTransform((2,), (3,)), ValueError),
    (lambda T, t: T.ExpTransform(cache_size=2), ValueError),
    (lambda T, t: T.Poisson(-1.0), ValueError),
    (lambda T, t: T.Distribution().entropy(), NotImplementedError),
    (lambda T, t: T.Categorical(t([0.5, 0.5])).rsample(), NotImplementedError),
]


@pytest.mark.parametrize("call, kind", REFUSED)
def test_refused(call: Callable[[Any, Any], Any], kind: type[Exception]) -> None:
    with pytest.raises(kind) as ours:
        call(D, cr.tensor)
    assert str(ours.value) or kind is NotImplementedError
    if torch is not None:
        with pytest.raises(kind):
            call(torch.distributions, torch.tensor)


def test_unchecked() -> None:
    assert math.isnan(D.Normal(0.0, -1.0, validate_args=False).log_prob(cr.tensor(1.0)).item())
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)


@needs_torch
@pytest.mark.parametrize("name, parameters, value", CASES[::4], ids=IDS[::4])
def test_repr(name: str, parameters: dict[str, Any], value: Any) -> None:
    ours, theirs = repr(made(cr, name, parameters)[0]), repr(made(torch, name, parameters)[0])
    assert ours.replace("chainrule", "torch") == theirs or name == "Beta", ours  # PyTorch's Beta() shows no parameters


def test_float32_and_second_gradients() -> None:
    grad: Any = cr.autograd.grad
    for make in (lambda a: D.Gamma(a, 2.0), lambda a: D.StudentT(a), lambda a: D.Beta(a, 2.0), lambda a: D.Poisson(a)):
        for dtype in (cr.float32, cr.float64):
            a = cr.tensor([0.7, 2.5], dtype=dtype, requires_grad=True)
            y = make(a).log_prob(cr.tensor([1.0, 0.0] if make(a).support.is_discrete else [0.4, 0.6], dtype=dtype))
            (first,) = grad(y.sum(), [a], create_graph=True)
            (second,) = grad(first.sum(), [a])
            assert y.dtype is dtype and second.dtype is dtype and bool(cr.isfinite(second).all())


@pytest.mark.parametrize(
    "name", ["Normal", "Gamma", "Beta", "StudentT", "VonMises", "Poisson", "Binomial", "Categorical"]
)
def test_devices_agree(name: str) -> None:
    """The same seed gives the same samples on another device, to rounding."""
    found = []
    for device in ("cpu", "ref"):
        a = cr.tensor([0.4, 1.5, 30.0], dtype=cr.float64, device=device)
        b = cr.tensor([0.2, 0.5, 0.9], dtype=cr.float64, device=device)
        arguments = {"Poisson": (a,), "Binomial": (cr.full((3,), 60.0, dtype=cr.float64, device=device), b)}
        d = D.Categorical(b) if name == "Categorical" else getattr(D, name)(*arguments.get(name, (a, b)))
        cr.manual_seed(3)
        x = d.sample((200,))
        assert str(x.device) == device
        found.append([x.to("cpu"), d.log_prob(x).to("cpu")])
    for ours, others in zip(*found, strict=True):
        assert np.allclose(ours.tolist(), others.tolist(), rtol=1e-9)


def test_samples_of_matrices() -> None:
    """Means over many draws: df V and its variance, and factors of correlations of the variance 1 / (2 eta + n - 1)."""
    cr.manual_seed(5)
    w = cr.distributions.Wishart(cr.tensor([4.5, 9.0]), scale_tril=cr.tensor(LOWER[:2], dtype=cr.float32))
    x = w.rsample((8000,))
    assert x.shape == (8000, 2, 3, 3) and (w.support.check(x[:50])).all()
    assert ((x.mean(0) - w.mean).abs() < 5 * (w.variance / 8000).sqrt()).all()
    assert ((x.var(0) / w.variance - 1).abs() < 0.2).all()
    lkj = cr.distributions.LKJCholesky(4, cr.tensor([0.7, 3.0]))
    lower = lkj.sample((8000,))
    assert lower.shape == (8000, 2, 4, 4) and lkj.support.check(lower).all() and not lkj.has_rsample
    r = (lower @ lower.transpose(-2, -1))[..., 1:, :].tril(0)
    for i, eta in enumerate((0.7, 3.0)):
        for j, k in ((1, 0), (2, 1), (3, 0)):
            found = float((r[:, i, j - 1, k] ** 2).mean())
            assert abs(found * (2 * eta + 3) - 1) < 0.08, (eta, j, k, found)
    with pytest.raises(ValueError, match="dim to be an integer greater than or equal to 2"):
        cr.distributions.LKJCholesky(1)
    with pytest.raises(ValueError, match="expected to be greater than ndim - 1 = 2"):
        cr.distributions.Wishart(2.0, scale_tril=cr.eye(3))
    with pytest.raises(ValueError, match="Exactly one of"):
        cr.distributions.Wishart(4.0)
    wide = cr.distributions.LKJCholesky(3).expand((2,))
    assert wide.sample().shape == (2, 3, 3) and wide.log_prob(cr.eye(3)).shape == (2,)


def test_utils() -> None:
    """The helpers that distributions of a program's own are written with, as PyTorch's."""

    def run(lib: Any) -> list[Any]:
        u = lib.distributions.utils
        p = lib.tensor([0.0, 0.25, 1.0], dtype=lib.float64)
        out = [u.clamp_probs(p), u.probs_to_logits(p), u.probs_to_logits(p, True), u.logits_to_probs(p)]
        out += [u.logits_to_probs(p, is_binary=True), *u.broadcast_all(p, 2.0, lib.ones(2, 1, dtype=lib.float64))]
        m = lib.arange(32.0).reshape(2, 4, 4)
        for diag in (-2, -1, 0, 1, 3):
            vec = u.tril_matrix_to_vec(m, diag)
            out += [vec, u.vec_to_tril_matrix(vec, diag)] if diag <= 0 else [vec]
        out += [u._sum_rightmost(m, 0), u._sum_rightmost(m, 2), u._standard_normal((2, 3), lib.float32, "cpu") * 0]
        bad: Any
        for bad in (
            lambda: u.tril_matrix_to_vec(m, 4),
            lambda: u.vec_to_tril_matrix(lib.ones(5)),
            lambda: u.broadcast_all("a"),
        ):
            with pytest.raises(ValueError):
                bad()

        class Half:
            calls = 0

            @u.lazy_property
            def value(self) -> Any:
                self.calls += 1
                return lib.is_grad_enabled()

        half = Half()
        with lib.no_grad():
            assert half.value and half.value and half.calls == 1
        return [x.tolist() for x in out]

    mine = run(cr)
    if torch is not None:
        for a, b in zip(mine, run(torch), strict=True):
            assert (cr.tensor(a) - cr.tensor(b)).abs().max().item() < 1e-6
