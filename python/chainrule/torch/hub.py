"""``torch.hub`` from local folders; nothing is downloaded."""

from __future__ import annotations

import os
import re
import sys
from typing import Any
from urllib.parse import urlparse

import chainrule as cr

from . import _names

__getattr__ = _names.forward(__name__)
__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the part of a file's name that begins its SHA-256
_dir: list[str] = []


def get_dir() -> str:
    """The folder of downloaded files: set_dir's, $TORCH_HOME/hub, or ~/.cache/torch/hub."""
    if _dir:
        return _dir[0]
    home = os.environ.get("TORCH_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str) -> None:
    """Sets that folder."""
    _dir[:] = [os.path.expanduser(d)]


def _module(repo_or_dir: Any, source: str) -> Any:
    """The file hubconf.py of a folder."""
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.expanduser(str(repo_or_dir))
    path = os.path.join(folder, "hubconf.py")
    if source != "local" or not os.path.exists(path):
        raise RuntimeError(
            f"torch.hub downloads nothing here: get {repo_or_dir} yourself and load it with source='local'"
            if source != "local"
            else f"torch.hub: there is no {path}"
        )
    sys.path.insert(0, folder)
    try:
        spec = spec_from_file_location("hubconf", path)
        assert spec and spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """``model(*args, **kwargs)`` of a folder's hubconf.py.  RuntimeError: source is not "local"."""
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(name, None)
    module = _module(repo_or_dir, source)
    if not callable(getattr(module, model, None)):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return getattr(module, model)(*args, **kwargs)


def list(repo_or_dir: Any, force_reload: bool = False, *, source: str = "github", **options: Any) -> Any:  # noqa: A001
    """The names of the models in a folder's hubconf.py."""
    module = _module(repo_or_dir, source)
    return [name for name, value in vars(module).items() if callable(value) and name[0] != "_"]


def help(repo_or_dir: Any, model: str, *, source: str = "github", **options: Any) -> Any:  # noqa: A001, PyTorch's name
    """The docstring of a model."""
    return getattr(_module(repo_or_dir, source), model).__doc__


def _file(url: str, model_dir: str | None, file_name: str | None) -> str:
    return os.path.join(
        model_dir or os.path.join(get_dir(), "checkpoints"), file_name or os.path.basename(urlparse(url).path)
    )


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The weights of a file that was downloaded to PyTorch's folder.  RuntimeError says where to put it."""
    path = _file(url, model_dir, file_name)
    if not os.path.exists(path):
        raise RuntimeError(f"torch.hub downloads nothing here: get {url} yourself and put it at {path}")
    return cr.load(path, map_location) if map_location is not None else cr.load(path)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """RuntimeError, unless the file is there: nothing is downloaded."""
    if not os.path.exists(dst):
        raise RuntimeError(f"torch.hub downloads nothing here: get {url} yourself and put it at {dst}")
