"""Data in batches: datasets, samplers, a loader with threads, tokenizers and token files.

The order of a shuffled loader depends only on its seed and epoch, so ``state_dict()`` is a few
numbers, and a resumed run sees the batches that the uninterrupted one would have seen."""

from . import dataloader, dataset, packing, sampler, text, worker
from .dataloader import *
from .dataset import *
from .packing import *
from .sampler import *
from .text import *
from .worker import *

__all__ = [*dataloader.__all__, *dataset.__all__, *packing.__all__, *sampler.__all__, *text.__all__, *worker.__all__]
