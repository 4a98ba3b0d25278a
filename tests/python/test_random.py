"""Generators: seeds, states that are saved, copies; that every function draws from the one it is
given; the package's ``random``."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import chainrule as cr
import pytest
from chainrule import Generator, Tensor

DRAWS: dict[str, Callable[[Generator | None], Tensor]] = {
    "rand": lambda g: cr.rand(40, generator=g),
    "randn": lambda g: cr.randn(40, generator=g),
    "randint": lambda g: cr.randint(100, (40,), generator=g),
    "randperm": lambda g: cr.randperm(2000, generator=g),
    "multinomial": lambda g: cr.multinomial(cr.ones(3, 50), 40, generator=g),
    "multinomial with replacement": lambda g: cr.ones(50).multinomial(40, True, generator=g),
    "bernoulli": lambda g: cr.full((99,), 0.5).bernoulli(generator=g),
    "bernoulli p": lambda g: cr.bernoulli(cr.zeros(99), 0.5, generator=g),
    "normal": lambda g: cr.normal(cr.zeros(40), 2.0, generator=g),
    "normal of numbers": lambda g: cr.normal(0.0, 2.0, (40,), generator=g),
    "uniform_": lambda g: cr.zeros(40).uniform_(generator=g),
    "normal_": lambda g: cr.zeros(40).normal_(generator=g),
    "log_normal_": lambda g: cr.zeros(40).log_normal_(generator=g),
    "exponential_": lambda g: cr.zeros(40).exponential_(generator=g),
    "cauchy_": lambda g: cr.zeros(40).cauchy_(generator=g),
    "geometric_": lambda g: cr.zeros(40).geometric_(0.1, generator=g),
    "bernoulli_": lambda g: cr.zeros(99).bernoulli_(generator=g),
    "random_": lambda g: cr.zeros(40).random_(generator=g),
}


def same(a: Tensor, b: Tensor) -> bool:
    return bool((a == b).all())


@pytest.mark.parametrize("name", DRAWS)
def test_generators(name: str) -> None:
    draw = DRAWS[name]
    g = Generator().manual_seed(7)
    first, second = draw(g), draw(g)
    assert not same(first, second)
    assert same(first, draw(Generator().manual_seed(7))) and not same(first, draw(Generator().manual_seed(8)))
    state = g.get_state()
    third = draw(g)
    for resumed in (
        Generator().set_state(state),
        g.set_state(state).clone_state(),
        copy.copy(g.set_state(state)),
        pickle.loads(pickle.dumps(g.set_state(state))),
    ):
        assert same(third, draw(resumed))
    with cr.random.fork_rng():
        cr.manual_seed(7)
        assert same(first, draw(None))


def test_the_default_generator() -> None:
    before = cr.get_rng_state()
    with cr.random.fork_rng():
        assert cr.manual_seed(5) is cr.default_generator and cr.initial_seed() == 5 == cr.random.initial_seed()
        a = cr.rand(5)
        state = cr.get_rng_state()
        b = cr.rand(5)
        cr.set_rng_state(state)
        assert same(b, cr.rand(5)) and not same(a, b)
        assert cr.seed() == cr.initial_seed() != cr.seed()
    assert same(before, cr.get_rng_state())
    with cr.random.fork_rng(devices=[], enabled=False):
        cr.rand(1)
    assert not same(before, cr.get_rng_state())
    cr.set_rng_state(before)


def test_generator_objects() -> None:
    g = Generator("cpu")
    assert str(g.device) == "cpu" and str(Generator("ref").device) == "ref" == str(
        Generator("ref").clone_state().device
    )
    assert g.seed() == g.initial_seed() != g.seed()
    state = g.get_state()
    assert state.dtype == cr.uint8 and tuple(state.shape) == (16,)
    for wrong in (cr.zeros(16), cr.zeros(3, dtype=cr.uint8)):
        with pytest.raises(ValueError):
            g.set_state(wrong)


def test_the_same_on_every_device() -> None:
    draws: list[Callable[[str], Tensor]] = [
        lambda d: cr.randperm(3000, device=d),
        lambda d: cr.randint(-5, 2**40, (300,), device=d),
        lambda d: cr.rand(300, device=d),
        lambda d: cr.multinomial(cr.arange(200, device=d).float(), 300, True),
        lambda d: cr.empty(300, device=d).random_(),
        lambda d: cr.empty(300, device=d).bernoulli_(0.3),
    ]
    for draw in draws:
        found = []
        for device in ("cpu", "ref"):
            with cr.random.fork_rng():
                cr.manual_seed(3)
                found.append(draw(device).tolist())
        assert found[0] == found[1]


def test_messages() -> None:
    messages: dict[str, Callable[[], Tensor]] = {
        r"\[bernoulli\] the chance must be in \[0, 1\]: 2 at \(1,\)": lambda: cr.bernoulli(cr.tensor([0.5, 2.0])),
        r"\[multinomial\] weights are finite and not negative: -1 at \(0, 1\)": lambda: cr.multinomial(
            cr.tensor([[1.0, -1.0]]), 1
        ),
        r"\[multinomial\] the weights of row 0 sum to 0": lambda: cr.multinomial(cr.zeros(3), 1),
        r"\[multinomial\] 3 samples without replacement from row 0, which has 2": lambda: cr.multinomial(
            cr.tensor([1.0, 0.0, 2.0]), 3
        ),
        r"\[randperm\] negative size": lambda: cr.randperm(-1),
        r"\[random_\] low must be below high: 3, 3": lambda: cr.zeros(2).random_(3, 3),
        r"leaf": lambda: cr.zeros(2, requires_grad=True).normal_(),
    }
    for text, wrong in messages.items():
        with pytest.raises(RuntimeError, match=text):
            wrong()
    with pytest.raises(TypeError, match="needs a size"):
        cr.normal(0.0, 1.0)  # type: ignore[call-overload]
