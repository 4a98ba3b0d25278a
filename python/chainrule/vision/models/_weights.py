"""Loading weights into a new network."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from ... import _core
from ...nn import Module

Network = TypeVar("Network", bound=Module)


def loaded(model: Network, weights: Any, pretrained: bool = False) -> Network:
    """The model with the state dict of the file ``weights``.  ValueError: weights by name, which would need a
    download."""
    if weights is None and not pretrained:
        return model
    if isinstance(weights, str | os.PathLike) and os.path.isfile(weights):
        model.load_state_dict(_core.load(weights))
        return model
    raise ValueError(
        f"weights={weights!r}, pretrained={pretrained}: this package downloads no weights. Give the path of a state"
        " dict, or call load_state_dict with one"
    )
