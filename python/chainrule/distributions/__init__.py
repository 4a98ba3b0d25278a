"""``chainrule.distributions``: probability distributions under PyTorch's names.

``log_prob``, ``cdf``, ``entropy`` and ``kl_divergence`` have gradients for the parameters; ``rsample`` where
``has_rsample`` is set.  Samples come from the default generator: the same seed gives the same numbers."""

from . import constraints, continuous, discrete, gamma, kl, multivariate, transformed, transforms
from ._sampling import binomial as binomial
from ._sampling import poisson as poisson
from .continuous import *
from .discrete import *
from .distribution import Distribution, ExponentialFamily
from .gamma import *
from .kl import *
from .multivariate import *
from .transformed import *
from .transforms import *

__all__ = ["Distribution", "ExponentialFamily", "constraints", "kl", "transforms"]
__all__ += continuous.__all__
__all__ += discrete.__all__
__all__ += gamma.__all__
__all__ += kl.__all__
__all__ += multivariate.__all__
__all__ += transformed.__all__
__all__ += transforms.__all__
