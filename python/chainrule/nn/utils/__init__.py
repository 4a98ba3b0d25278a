"""``chainrule.nn.utils``: gradients and values of many parameters at once, weights that are computed
(``parametrize``, ``parametrizations``), pruning (``prune``), calls with other parameters (``stateless``), sequences
of different lengths (``rnn``)."""

from . import fusion, gradients, making, parametrizations, parametrize, prune, recomputed, rnn, stateless
from .fusion import *
from .gradients import *
from .making import *
from .recomputed import *

__all__ = ["parametrizations", "parametrize", "prune", "rnn", "stateless"]
for _part in (fusion, gradients, making, recomputed):
    __all__ += _part.__all__
