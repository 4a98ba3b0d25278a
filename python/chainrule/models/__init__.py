"""Models: GPT, and the checkpoints of training, which are those of the program ``chainrule train``."""

from .checkpoint import load_checkpoint, save_checkpoint
from .gpt import GPT

__all__ = ["GPT", "load_checkpoint", "save_checkpoint"]
