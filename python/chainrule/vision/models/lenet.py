"""LeNet-5 for images of 28 x 28 or 32 x 32 (LeCun et al. 1998), with ReLU and max pooling."""

from __future__ import annotations

from ... import nn
from ..._core import Tensor
from ...nn import functional as F

__all__ = ["LeNet"]


class LeNet(nn.Module):
    """(N, C, 28, 28) or (N, C, 32, 32) -> (N, num_classes)"""

    def __init__(self, num_classes: int = 10, in_channels: int = 1, image_size: int = 28) -> None:
        super().__init__()
        if image_size not in (28, 32):
            raise ValueError(f"LeNet takes images of 28 x 28 or 32 x 32, got image_size={image_size}")
        self.conv1 = nn.Conv2d(in_channels, 6, 5, padding=2 if image_size == 28 else 0)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        y: Tensor = self.fc3(F.relu(self.fc2(x)))
        return y
