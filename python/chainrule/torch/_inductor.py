"""``torch._inductor``: ``torch.compile`` records steps (``chainrule.compile``), so these settings have no effect."""

from types import SimpleNamespace

config = SimpleNamespace(coordinate_descent_tuning=False, fx_graph_cache=False)
