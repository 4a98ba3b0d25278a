"""Neural networks: layers, activations and losses as modules, under PyTorch's names, and
micrograd's networks of Values.

Parameters have the names, shapes and initial distributions that PyTorch's have, so that state dicts go both ways.
"""

from ..micro import MLP, Layer, Neuron
from . import (
    activation,
    adaptive,
    attention,
    containers,
    conv,
    distance,
    dropouts,
    embedding,
    functional,
    init,
    lazy,
    linear,
    lora,
    loss,
    margin_loss,
    module,
    multihead,
    norm,
    padding,
    parallel,
    parameter,
    pooling,
    quantized,
    rearrange,
    rnn,
    rotary,
    transformer,
    upsample,
    utils,
)
from .activation import *
from .adaptive import *
from .containers import *
from .conv import *
from .distance import *
from .dropouts import *
from .embedding import *
from .lazy import *
from .linear import *
from .loss import *
from .margin_loss import *
from .module import *
from .multihead import *
from .norm import *
from .padding import *
from .parameter import *
from .pooling import *
from .quantized import *
from .rearrange import *
from .rnn import *
from .rotary import *
from .transformer import *
from .upsample import *

# Base classes and helpers without a public name, which programs extend or import all the same.
_BASES = """_BatchNorm _InstanceNorm _NormBase _Loss _WeightedLoss _get_activation_fn _get_clones
NonDynamicallyQuantizableLinear""".split()
for _part in (conv, dropouts, linear, loss, norm, padding, pooling, transformer):
    globals().update({name: x for name, x in vars(_part).items() if name in _BASES or name.endswith("Nd")})

globals().update(_lazy := lazy.lazy_classes(globals()))

__all__ = ["MLP", "Layer", "Neuron", "attention", "functional", "init", "lora", "parallel", "utils"]
for _part in (
    activation,
    adaptive,
    containers,
    conv,
    distance,
    dropouts,
    embedding,
    lazy,
    linear,
    loss,
    margin_loss,
    module,
    multihead,
    norm,
    padding,
    parameter,
    pooling,
    quantized,
    rearrange,
    rnn,
    rotary,
    transformer,
    upsample,
):
    __all__ += _part.__all__
__all__ += _lazy
