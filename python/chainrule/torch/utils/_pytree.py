"""Nested lists, tuples and dicts as a flat list and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_unflatten"]

Make = Callable[[list[Any], Any], Any]


@dataclass
class TreeSpec:
    """The shape of a nest: its type, what it needs besides its children, their specs."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)


def _parts(x: Any) -> tuple[list[Any], Any] | None:
    """Children and context of a node; None for a leaf."""
    if type(x) in _REGISTERED:
        children, context = _REGISTERED[type(x)][0](x)
        return list(children), context
    if type(x) in (dict, OrderedDict, defaultdict):
        return list(x.values()), (list(x), getattr(x, "default_factory", None))
    if type(x) in (list, tuple) or (isinstance(x, tuple) and hasattr(x, "_fields")):
        return list(x), None
    return None


_REGISTERED: dict[type, tuple[Callable[[Any], Any], Make]] = {}


def register_pytree_node(cls: type, flatten_fn: Callable[[Any], Any], unflatten_fn: Make, **options: Any) -> None:
    """Makes a class a node: flatten_fn(x) is (children, context), unflatten_fn(children, context) is x."""
    _REGISTERED[cls] = flatten_fn, unflatten_fn


_register_pytree_node = register_pytree_node


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, spec) of a nest."""
    found = None if is_leaf and is_leaf(tree) else _parts(tree)
    if found is None:
        return [tree], TreeSpec(None, None)
    leaves, specs = [], []
    for child in found[0]:
        below, spec = tree_flatten(child, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(type(tree), found[1], specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest of a spec with these leaves.  ValueError: too many or too few."""
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(values)} leaves for a spec of {treespec.num_leaves}")
    return _built(iter(values), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    children = [_built(leaves, child) for child in spec.children_specs]
    if spec.type in _REGISTERED:
        return _REGISTERED[spec.type][1](children, spec.context)
    if issubclass(spec.type, dict):
        keys, factory = spec.context
        pairs = zip(keys, children, strict=True)
        return defaultdict(factory, pairs) if spec.type is defaultdict else spec.type(pairs)
    return spec.type(*children) if hasattr(spec.type, "_fields") else spec.type(children)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a nest."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The nest with ``func`` of each leaf, and of the leaves of other nests of the same shape."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """``tree_map`` of the leaves of one type; others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree)
