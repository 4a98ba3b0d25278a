"""``torch.storage``: the memory under tensors."""

from .legacy import Storage as TypedStorage
from .legacy import UntypedStorage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
