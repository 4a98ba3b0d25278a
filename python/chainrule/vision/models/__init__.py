"""Networks for images: LeNet, AlexNet, VGG, ResNet, MobileNetV2, ViT.  Parameters have torchvision's names, so
that its weight files load by ``load_state_dict``."""

from . import alexnet as _alexnet
from . import lenet as _lenet
from . import mobilenetv2, resnet, vgg, vision_transformer
from .alexnet import *
from .lenet import *
from .mobilenetv2 import *
from .resnet import *
from .vgg import *
from .vision_transformer import *

__all__: list[str] = []
for _part in (_alexnet, _lenet, mobilenetv2, resnet, vgg, vision_transformer):
    __all__ += _part.__all__
