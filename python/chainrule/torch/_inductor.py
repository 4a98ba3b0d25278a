"""``torch._inductor``: nothing is compiled, so its settings have no effect."""

from types import SimpleNamespace

config = SimpleNamespace(coordinate_descent_tuning=False, fx_graph_cache=False)
