"""Models: GPT and Llama, folders in Hugging Face's layout, and the checkpoints of training, which are
those of the program ``chainrule train``."""

from .auto import from_pretrained
from .causal import CausalLM
from .checkpoint import load_checkpoint, save_checkpoint
from .decoder import Decoder
from .encoder import Encoder
from .evaluation import evaluate
from .gpt import GPT
from .llama import Llama

__all__ = [
    "CausalLM",
    "GPT",
    "Decoder",
    "Encoder",
    "Llama",
    "evaluate",
    "from_pretrained",
    "load_checkpoint",
    "save_checkpoint",
]
