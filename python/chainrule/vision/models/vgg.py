"""VGG (Simonyan and Zisserman 2014), with and without batch normalization."""

from __future__ import annotations

from typing import Any

from ... import nn
from ..._core import Tensor
from ._weights import loaded

__all__ = ["VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]

# Convolutions of 3 x 3 in each of five stages; max pooling ends a stage.
STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
WIDTHS = (64, 128, 256, 512, 512)


def _features(depth: int, batch_norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = 3
    for count, width in zip(STAGES[depth], WIDTHS, strict=True):
        for _ in range(count):
            layers.append(nn.Conv2d(channels, width, kernel_size=3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU(inplace=True))
            channels = width
        layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """(N, 3, H, W), H and W at least 32 -> (N, num_classes)"""

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            self._init_weights()

    def _init_weights(self) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return y


def _vgg(depth: int, batch_norm: bool, weights: Any, pretrained: bool, **kwargs: Any) -> VGG:
    if weights is not None or pretrained:
        kwargs["init_weights"] = False
    return loaded(VGG(_features(depth, batch_norm), **kwargs), weights, pretrained)


def vgg11(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """8 convolutions, 3 linear layers."""
    return _vgg(11, False, weights, pretrained, **kwargs)


def vgg11_bn(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """vgg11 with batch normalization."""
    return _vgg(11, True, weights, pretrained, **kwargs)


def vgg13(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """10 convolutions, 3 linear layers."""
    return _vgg(13, False, weights, pretrained, **kwargs)


def vgg13_bn(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """vgg13 with batch normalization."""
    return _vgg(13, True, weights, pretrained, **kwargs)


def vgg16(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """13 convolutions, 3 linear layers."""
    return _vgg(16, False, weights, pretrained, **kwargs)


def vgg16_bn(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """vgg16 with batch normalization."""
    return _vgg(16, True, weights, pretrained, **kwargs)


def vgg19(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """16 convolutions, 3 linear layers."""
    return _vgg(19, False, weights, pretrained, **kwargs)


def vgg19_bn(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> VGG:
    """vgg19 with batch normalization."""
    return _vgg(19, True, weights, pretrained, **kwargs)
