"""``chainrule.nn.functional``: layers, activations and losses as functions.  The modules of ``chainrule.nn`` call them.

Letters in shapes: N and B batch, C channels or classes, T and S times, H heads, D head size, OC outputs.
A ``reduction`` is "mean", "sum" or "none".
"""

from ..._core import one_hot, pad
from . import activation, attention, conv, distance, layers, loss, norm
from .activation import *
from .attention import *
from .conv import *
from .distance import *
from .layers import *
from .loss import *
from .norm import *

__all__ = ["one_hot", "pad"]
for _part in (activation, attention, conv, distance, layers, loss, norm):
    __all__ += _part.__all__
