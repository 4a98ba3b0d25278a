"""Neural networks: layers, activations and losses as modules, under PyTorch's names, and
micrograd's networks of Values.

Parameters have the names, shapes and initial distributions that PyTorch's have, so that state dicts go both ways.
"""

from ..micro import MLP, Layer, Neuron
from . import activation, attention, containers, functional, init, linear, loss, module, norm, rnn, utils
from .activation import *
from .attention import *
from .containers import *
from .linear import *
from .loss import *
from .module import *
from .norm import *
from .rnn import *

__all__ = ["MLP", "Layer", "Neuron", "functional", "init", "utils"]
for _part in (activation, attention, containers, linear, loss, module, norm, rnn):
    __all__ += _part.__all__
