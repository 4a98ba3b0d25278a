"""``torch.storage``: the memory under tensors."""

from .history import Storage as TypedStorage
from .history import UntypedStorage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
