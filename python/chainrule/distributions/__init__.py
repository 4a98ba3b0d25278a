"""``chainrule.distributions``: probability distributions under PyTorch's names.

``log_prob``, ``cdf``, ``entropy`` and ``kl_divergence`` have gradients for the parameters; ``rsample`` where
``has_rsample`` is set.  Samples come from the default generator: the same seed gives the same numbers."""

from . import constraints, kl, transforms
from ._sampling import binomial as binomial
from ._sampling import poisson as poisson
from .constraint_registry import ConstraintRegistry, biject_to, transform_to
from .continuous import *
from .discrete import *
from .distribution import Distribution, ExponentialFamily
from .gamma import *
from .kl import *
from .matrix import *
from .multivariate import *
from .transformed import *
from .transforms import *
from .utils import _standard_normal as _standard_normal
from .utils import _sum_rightmost as _sum_rightmost
from .utils import broadcast_all as broadcast_all
from .utils import clamp_probs as clamp_probs
from .utils import lazy_property as lazy_property
from .utils import logits_to_probs as logits_to_probs
from .utils import probs_to_logits as probs_to_logits
from .utils import tril_matrix_to_vec as tril_matrix_to_vec
from .utils import vec_to_tril_matrix as vec_to_tril_matrix

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "ConstraintRegistry",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]
