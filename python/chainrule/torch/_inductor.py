"""``torch._inductor``: ``torch.compile`` records steps (``chainrule.compile``), so these settings have no effect."""

from . import _names
from ._dynamo import Config

__getattr__ = _names.forward(__name__)
config = Config(coordinate_descent_tuning=False, fx_graph_cache=False)
