"""AlexNet in one column (Krizhevsky 2014)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ..._core import Tensor
from ._weights import loaded

__all__ = ["AlexNet", "alexnet"]


class AlexNet(nn.Module):
    """(N, 3, H, W), H and W at least 63 -> (N, num_classes)"""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return y


def alexnet(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> AlexNet:
    """AlexNet, with the weights of a file where ``weights`` names one."""
    return loaded(AlexNet(**kwargs), weights, pretrained)
