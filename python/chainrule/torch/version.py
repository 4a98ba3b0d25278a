"""The version of PyTorch whose names are followed."""

from . import __version__ as __version__

cuda = hip = xpu = None
git_version = "chainrule"
debug = False
