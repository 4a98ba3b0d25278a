"""``torch.autograd.profiler``: an old place of ``torch.profiler``."""

from .. import _names
from ..profiler import profile as profile
from ..profiler import record_function as record_function

__all__ = ["profile", "record_function"]
__getattr__ = _names.forward(__name__)
