"""Tensors, automatic differentiation and neural networks: PyTorch's names over a small C library."""

from __future__ import annotations

from . import autograd as autograd
from . import cuda as cuda
from ._core import *  # noqa: F403
from ._core import __version__ as __version__
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled
