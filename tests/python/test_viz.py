"""chainrule.viz: what the pictures hold.  How they look is for eyes."""

from __future__ import annotations

import builtins
import io
import sys
from typing import Any

import chainrule as cr
import pytest

# ---- progress


def test_progress_changes_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*cr.viz.progress(range(5), "steps")] == [0, 1, 2, 3, 4] and [*cr.viz.progress(iter("ab"), total=2)] == ["a", "b"]
    real = builtins.__import__

    def without_tqdm(name: str, *rest: Any, **named: Any) -> Any:
        if name == "tqdm":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_tqdm)
    steps = range(3)
    assert cr.viz.progress(steps) is steps


def test_progress_shows_a_bar_to_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm", reason="tqdm is not installed (pip install chainrule[viz])")
    for watched in (False, True):
        stderr = io.StringIO()
        stderr.isatty = lambda watched=watched: watched  # type: ignore[method-assign,misc]
        monkeypatch.setattr(sys, "stderr", stderr)
        assert sum(cr.viz.progress(range(4), "training")) == 6
        assert ("training" in stderr.getvalue()) == watched
