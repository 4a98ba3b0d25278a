"""Utilities: data, checkpointing, trees, TensorBoard."""

from .. import _names

__getattr__ = _names.forward(__name__)
