"""Tensors, automatic differentiation and neural networks: PyTorch's names over a small C library."""

from __future__ import annotations

from ._core import *  # noqa: F403
from ._core import __version__ as __version__
