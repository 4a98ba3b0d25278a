"""ResNet (He et al. 2015), ResNeXt (Xie et al. 2016), Wide ResNet (Zagoruyko and Komodakis 2016).

The stride of a bottleneck is in its 3 x 3 convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ..._core import Tensor
from ._weights import loaded

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNet",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext50_32x4d",
    "wide_resnet50_2",
]

Norm = Callable[[int], nn.Module]


def conv3x3(channels: int, width: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    return nn.Conv2d(
        channels, width, kernel_size=3, stride=stride, padding=dilation, groups=groups, bias=False, dilation=dilation
    )


def conv1x1(channels: int, width: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel_size=1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """relu(x + norm(conv3x3(relu(norm(conv3x3(x)))))); ``downsample`` makes x's shape that of the sum."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if groups != 1 or base_width != 64 or dilation != 1:
            raise ValueError("BasicBlock only supports groups=1, base_width=64 and dilation=1")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: Tensor = self.relu(y + (x if self.downsample is None else self.downsample(x)))
        return out


class Bottleneck(nn.Module):
    """BasicBlock with convolutions of 1 x 1, 3 x 3 and 1 x 1, the last one to ``planes`` * 4 channels."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        out: Tensor = self.relu(y + (x if self.downsample is None else self.downsample(x)))
        return out


class ResNet(nn.Module):
    """(N, 3, H, W) -> (N, num_classes); ``layers``: the number of blocks in each of four stages."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] = (False, False, False),
        norm_layer: Norm = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        self._norm, self._groups, self._base_width = norm_layer, groups, width_per_group
        self.inplanes, self.dilation = 64, 1
        self.conv1 = nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._stage(block, 64, layers[0], 1, False)
        self.layer2 = self._stage(block, 128, layers[1], 2, replace_stride_with_dilation[0])
        self.layer3 = self._stage(block, 256, layers[2], 2, replace_stride_with_dilation[1])
        self.layer4 = self._stage(block, 512, layers[3], 2, replace_stride_with_dilation[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init_residual and isinstance(m, BasicBlock | Bottleneck):
                last = m.bn2 if isinstance(m, BasicBlock) else m.bn3
                nn.init.zeros_(last.weight)

    def _stage(
        self, block: type[BasicBlock] | type[Bottleneck], planes: int, blocks: int, stride: int, dilate: bool
    ) -> nn.Sequential:
        downsample, dilation = None, self.dilation
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                conv1x1(self.inplanes, planes * block.expansion, stride), self._norm(planes * block.expansion)
            )
        row: list[nn.Module] = [
            block(self.inplanes, planes, stride, downsample, self._groups, self._base_width, dilation, self._norm)
        ]
        self.inplanes = planes * block.expansion
        row += [
            block(self.inplanes, planes, 1, None, self._groups, self._base_width, self.dilation, self._norm)
            for _ in range(1, blocks)
        ]
        return nn.Sequential(*row)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        y: Tensor = self.fc(self.avgpool(x).flatten(1))
        return y


def resnet18(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet of 18 layers."""
    return loaded(ResNet(BasicBlock, (2, 2, 2, 2), **kwargs), weights, pretrained)


def resnet34(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet of 34 layers."""
    return loaded(ResNet(BasicBlock, (3, 4, 6, 3), **kwargs), weights, pretrained)


def resnet50(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers, with bottlenecks."""
    return loaded(ResNet(Bottleneck, (3, 4, 6, 3), **kwargs), weights, pretrained)


def resnet101(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers, with bottlenecks."""
    return loaded(ResNet(Bottleneck, (3, 4, 23, 3), **kwargs), weights, pretrained)


def resnet152(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet of 152 layers, with bottlenecks."""
    return loaded(ResNet(Bottleneck, (3, 8, 36, 3), **kwargs), weights, pretrained)


def resnext50_32x4d(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers: 32 groups of 4 channels."""
    return loaded(ResNet(Bottleneck, (3, 4, 6, 3), groups=32, width_per_group=4, **kwargs), weights, pretrained)


def wide_resnet50_2(*, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers with bottlenecks twice as wide."""
    return loaded(ResNet(Bottleneck, (3, 4, 6, 3), width_per_group=128, **kwargs), weights, pretrained)
