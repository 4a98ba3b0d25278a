"""``torch.backends.mps``: chainrule does not use it."""

enabled = False


def is_available() -> bool:
    return False


def is_built() -> bool:
    return False
