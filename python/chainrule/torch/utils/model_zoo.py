"""``torch.utils.model_zoo``: an old place of functions of ``torch.hub``."""

from ..hub import load_state_dict_from_url as load_state_dict_from_url
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_state_dict_from_url", "load_url"]
