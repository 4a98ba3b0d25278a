"""``torch.nn.utils.stateless``: an old name of ``torch.func.functional_call``."""

from ...func import functional_call as functional_call
