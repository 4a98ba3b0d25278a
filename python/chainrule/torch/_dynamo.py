"""``torch._dynamo``: ``torch.compile`` records steps (``chainrule.compile``), so these settings have no effect."""

from __future__ import annotations

from types import SimpleNamespace

from .compiler import allow_in_graph as allow_in_graph
from .compiler import disable as disable
from .compiler import is_compiling as is_compiling
from .compiler import reset as reset

config = SimpleNamespace(suppress_errors=False, verbose=False, cache_size_limit=8, recompile_limit=8)


def mark_dynamic(t: object, index: object, **options: object) -> None:
    """Nothing: every size may change."""
