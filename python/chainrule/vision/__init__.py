"""``chainrule.vision``: image datasets, transforms and models, under torchvision's names.

Images are Pillow's where Pillow is installed, else uint8 tensors (C, H, W).  Transforms take both.
"""

from . import datasets, models, transforms, utils

__all__ = ["datasets", "models", "transforms", "utils"]
