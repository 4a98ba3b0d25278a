"""ViT: a Transformer encoder over patches of an image (Dosovitskiy et al. 2020).

Letters in shapes: N batch, T patches and one class token, E width.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

from ... import _core, nn
from ..._core import Tensor
from ._weights import loaded

__all__ = ["VisionTransformer", "vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32"]


class MLPBlock(nn.Sequential):
    """Linear, GELU, dropout, Linear, dropout"""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )
        for m in (self[0], self[3]):
            nn.init.xavier_uniform_(m.weight)
            nn.init.normal_(m.bias, std=1e-6)


class EncoderBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)) : (N, T, E) -> the same"""

    def __init__(self, heads: int, width: int, hidden: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout=attention_dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = MLPBlock(width, hidden, dropout)

    def forward(self, input: Tensor) -> Tensor:
        h = self.ln_1(input)
        h, _ = self.self_attention(h, h, h, need_weights=False)
        x = input + self.dropout(h)
        y: Tensor = x + self.mlp(self.ln_2(x))
        return y


class Encoder(nn.Module):
    """Adds the positions, runs the blocks, normalizes."""

    def __init__(
        self, length: int, layers: int, heads: int, width: int, hidden: int, dropout: float, attention_dropout: float
    ) -> None:
        super().__init__()
        self.pos_embedding = nn.Parameter(_core.empty(1, length, width).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            OrderedDict(
                (f"encoder_layer_{i}", EncoderBlock(heads, width, hidden, dropout, attention_dropout))
                for i in range(layers)
            )
        )
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = self.ln(self.layers(self.dropout(input + self.pos_embedding)))
        return y


class VisionTransformer(nn.Module):
    """(N, 3, image_size, image_size) -> (N, num_classes)"""

    def __init__(
        self,
        image_size: int,
        patch_size: int,
        num_layers: int,
        num_heads: int,
        hidden_dim: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"patches of {patch_size} do not divide an image of {image_size}")
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(_core.zeros(1, 1, hidden_dim))
        self.encoder = Encoder(length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))
        fan_in = 3 * patch_size * patch_size
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / fan_in))
        if self.conv_proj.bias is not None:
            nn.init.zeros_(self.conv_proj.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        n, _, height, width = x.shape
        if (height, width) != (self.image_size, self.image_size):
            raise ValueError(f"Wrong image size: {height} x {width}; expected {self.image_size} x {self.image_size}")
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        h = self.encoder(_core.cat([self.class_token.expand(n, -1, -1), patches], 1))
        y: Tensor = self.heads(h[:, 0])
        return y


def _vit(
    patch: int, layers: int, heads: int, width: int, weights: Any, pretrained: bool, kwargs: Any
) -> VisionTransformer:
    kwargs.setdefault("image_size", 224)
    model = VisionTransformer(
        patch_size=patch, num_layers=layers, num_heads=heads, hidden_dim=width, mlp_dim=4 * width, **kwargs
    )
    return loaded(model, weights, pretrained)


def vit_b_16(
    *, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any
) -> VisionTransformer:
    """12 layers, 768 wide, patches of 16 x 16."""
    return _vit(16, 12, 12, 768, weights, pretrained, kwargs)


def vit_b_32(
    *, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any
) -> VisionTransformer:
    """12 layers, 768 wide, patches of 32 x 32."""
    return _vit(32, 12, 12, 768, weights, pretrained, kwargs)


def vit_l_16(
    *, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any
) -> VisionTransformer:
    """24 layers, 1024 wide, patches of 16 x 16."""
    return _vit(16, 24, 16, 1024, weights, pretrained, kwargs)


def vit_l_32(
    *, weights: Any = None, pretrained: bool = False, progress: bool = True, **kwargs: Any
) -> VisionTransformer:
    """24 layers, 1024 wide, patches of 32 x 32."""
    return _vit(32, 24, 16, 1024, weights, pretrained, kwargs)
