"""``chainrule.nn.utils``: gradients and values of many parameters at once, sequences of different lengths (``rnn``)."""

from . import gradients, rnn
from .gradients import *

__all__ = ["rnn"]
for _part in (gradients,):
    __all__ += _part.__all__
