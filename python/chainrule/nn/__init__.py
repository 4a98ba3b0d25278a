"""Neural networks: layers, activations and losses as modules, under PyTorch's names, and micrograd's networks of Values.

Parameters have the names, shapes and initial distributions that PyTorch's have, so that state dicts go both ways.
"""

from ..micro import MLP, Layer, Neuron
from . import functional, init, utils
from .activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from .attention import MultiheadAttention, TransformerEncoderLayer
from .containers import ModuleDict, ModuleList, Sequential
from .linear import Bilinear, Dropout, Embedding, Flatten, Identity, Linear, Unflatten
from .loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    MultiMarginLoss,
    NLLLoss,
    SmoothL1Loss,
)
from .module import Module, Parameter
from .norm import BatchNorm1d, BatchNorm2d, GroupNorm, LayerNorm, RMSNorm

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Bilinear", "CELU", "CosineEmbeddingLoss", "CrossEntropyLoss", "Dropout", "ELU",
    "Embedding", "Flatten", "GELU", "GLU", "GroupNorm", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss",
    "Identity", "KLDivLoss", "L1Loss", "Layer", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MLP", "MSELoss", "Mish", "Module",
    "ModuleDict", "ModuleList", "MultiMarginLoss", "MultiheadAttention", "NLLLoss", "Neuron", "PReLU", "Parameter", "RMSNorm", "ReLU", "ReLU6",
    "SELU", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
    "Threshold", "TransformerEncoderLayer", "Unflatten", "functional", "init", "utils",
]  # fmt: skip
