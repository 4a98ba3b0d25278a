"""``torch.__config__``: how the library was built."""

import chainrule


def show() -> str:
    """chainrule's version and the processor's kernels; PyTorch shows its compiler and libraries."""
    return f"chainrule {chainrule.__version__}: {chainrule.Device('cpu').info}\n"


def parallel_info() -> str:
    """The number of threads."""
    return f"chainrule: {chainrule.get_num_threads()} threads\n"
