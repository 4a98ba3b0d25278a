"""``chainrule.fft``, and what stands in the core under these names."""

from . import _names

__getattr__ = _names.forward(__name__, "chainrule.fft")
