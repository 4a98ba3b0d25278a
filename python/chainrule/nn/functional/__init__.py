"""``chainrule.nn.functional``: layers, activations and losses as functions.  The modules of ``chainrule.nn`` call them.

Letters in shapes: N and B batch, C channels or classes, T and S times, H heads, D head size, OC outputs.
A ``reduction`` is "mean", "sum" or "none".
"""

from ... import _core
from ..._core import one_hot, pad
from . import (
    _mixed,
    activation,
    attention,
    conv,
    ctc,
    distance,
    dropouts,
    grid,
    layers,
    likelihood,
    loss,
    margin_loss,
    multihead,
    norm,
    pooling,
    rearrange,
    resample,
    rotary,
)
from .activation import *
from .attention import *
from .conv import *
from .ctc import *
from .distance import *
from .dropouts import *
from .grid import *
from .layers import *
from .likelihood import *
from .loss import *
from .margin_loss import *
from .multihead import *
from .norm import *
from .pooling import *
from .rearrange import *
from .resample import *
from .rotary import *

__all__ = ["one_hot", "pad"]
for _part in (
    activation,
    attention,
    conv,
    ctc,
    distance,
    dropouts,
    grid,
    layers,
    likelihood,
    loss,
    margin_loss,
    multihead,
    norm,
    pooling,
    rearrange,
    resample,
    rotary,
):
    __all__ += _part.__all__

for _name in __all__:
    _policy = _core._autocast_policy(_name)
    if _policy:
        globals()[_name] = _mixed.mixed(globals()[_name], _policy)
