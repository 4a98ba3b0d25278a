"""``chainrule.linalg``."""

from __future__ import annotations

from chainrule.linalg import LinAlgError as LinAlgError

from . import _names

_LinAlgError = LinAlgError
__getattr__ = _names.forward(__name__, "chainrule.linalg")
