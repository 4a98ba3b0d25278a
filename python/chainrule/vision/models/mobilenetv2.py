"""MobileNetV2: inverted residuals with depthwise convolutions (Sandler et al. 2018)."""

from __future__ import annotations

from typing import Any

from ... import nn
from ..._core import Tensor
from ._weights import loaded

__all__ = ["MobileNetV2", "mobilenet_v2"]

# expansion, channels, blocks, stride of the first block
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def _rounded(channels: float, multiple: int) -> int:
    """The nearest multiple, but no less than 90 % of the channels."""
    found = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return found + multiple if found < 0.9 * channels else found


def _conv_norm(channels: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """x + narrow(depthwise(widen(x))); without the sum where shapes differ."""

    def __init__(self, channels: int, width: int, stride: int, expand_ratio: int) -> None:
        super().__init__()
        hidden = round(channels * expand_ratio)
        self.use_res_connect = stride == 1 and channels == width
        layers: list[nn.Module] = [] if expand_ratio == 1 else [_conv_norm(channels, hidden, 1)]
        layers += [
            _conv_norm(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, width, 1, bias=False),
            nn.BatchNorm2d(width),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.conv(x) if self.use_res_connect else self.conv(x)
        return y


class MobileNetV2(nn.Module):
    """(N, 3, H, W) -> (N, num_classes)"""

    def __init__(
        self, num_classes: int = 1000, width_mult: float = 1.0, round_nearest: int = 8, dropout: float = 0.2
    ) -> None:
        super().__init__()
        channels = _rounded(32 * width_mult, round_nearest)
        self.last_channel = _rounded(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [_conv_norm(3, channels, 3, stride=2)]
        for expansion, planes, blocks, stride in STAGES:
            width = _rounded(planes * width_mult, round_nearest)
            for i in range(blocks):
                features.append(InvertedResidual(channels, width, 1 if i else stride, expansion))
                channels = width
        features.append(_conv_norm(channels, self.last_channel, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return y


def mobilenet_v2(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> MobileNetV2:
    """MobileNetV2, with the weights of a file where ``weights`` names one."""
    return loaded(MobileNetV2(**kwargs), weights, pretrained)
