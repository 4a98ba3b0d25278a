"""Nested lists, tuples, dicts and registered classes as a flat list and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

__all__ = [
    "GetAttrKey", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec", "key_get", "keystr",
    "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_flatten_with_path", "tree_iter",
    "tree_leaves", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_map_with_path", "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Context = Any
FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
UnflattenFunc = Callable[[Iterable[Any], Any], Any]
Leaf = Callable[[Any], bool] | None


class NodeDef(NamedTuple):
    """A class that is a node: flatten_fn(x) is (children, context), unflatten_fn(children, context) is x."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class SequenceKey:
    """A position in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


def _keyed(x: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of a node with their keys."""
    node = SUPPORTED_NODES[_get_node_type(x)]
    if node.flatten_with_keys_fn:
        pairs, context = node.flatten_with_keys_fn(x)
        return list(pairs), context
    children, context = node.flatten_fn(x)
    if isinstance(x, dict):
        return [(MappingKey(key), child) for key, child in zip(x, children, strict=True)], context
    fields = getattr(x, "_fields", None)
    keys = map(GetAttrKey, fields) if fields else map(SequenceKey, range(len(children)))
    return list(zip(keys, children, strict=True)), context


_dict_flatten_with_keys = _list_flatten_with_keys = _tuple_flatten_with_keys = _keyed


SUPPORTED_NODES: dict[Any, NodeDef] = {
    list: NodeDef(list, lambda x: (list(x), None), lambda children, _: list(children)),
    tuple: NodeDef(tuple, lambda x: (list(x), None), lambda children, _: tuple(children)),
    namedtuple: NodeDef(namedtuple, lambda x: (list(x), type(x)), lambda children, kind: kind(*children)),  # type: ignore[arg-type]
    dict: NodeDef(
        dict, lambda x: (list(x.values()), list(x)), lambda children, keys: dict(zip(keys, children, strict=True))
    ),
    OrderedDict: NodeDef(
        OrderedDict,
        lambda x: (list(x.values()), list(x)),
        lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
    ),
    defaultdict: NodeDef(
        defaultdict,
        lambda x: (list(x.values()), [x.default_factory, list(x)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: NodeDef(deque, lambda x: (list(x), x.maxlen), lambda children, maxlen: deque(children, maxlen)),
}
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)
for _kind, _node in SUPPORTED_NODES.items():  # _dict_flatten, _dict_unflatten and their relatives
    globals()[f"_{_kind.__name__.lower()}_flatten"] = _node.flatten_fn
    globals()[f"_{_kind.__name__.lower()}_unflatten"] = _node.unflatten_fn


def register_pytree_node(
    cls: type,
    flatten_fn: FlattenFunc,
    unflatten_fn: UnflattenFunc,
    *,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
    **options: Any,
) -> None:
    """Makes a class a node.  ValueError: it is one."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls: type, flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, *args: Any, **kw: Any
) -> None:
    """An old name, which took a class again."""
    SUPPORTED_NODES.pop(cls, None)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **kw)


def register_dataclass(cls: type, *, field_names: Any = None, drop_field_names: Any = None, **options: Any) -> None:
    """Makes a dataclass a node whose children are its fields."""
    names = [name for name in field_names or cls.__dataclass_fields__ if name not in (drop_field_names or ())]  # type: ignore[attr-defined]
    register_pytree_node(
        cls,
        lambda x: ([getattr(x, name) for name in names], None),
        lambda children, _: cls(**dict(zip(names, children, strict=True))),
        flatten_with_keys_fn=lambda x: ([(GetAttrKey(name), getattr(x, name)) for name in names], None),
    )


def _deregister_pytree_node(cls: type) -> None:
    """Makes a class a leaf again."""
    del SUPPORTED_NODES[cls]


def is_namedtuple_class(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_namedtuple(x: Any) -> bool:
    return is_namedtuple_class(x if isinstance(x, type) else type(x))


def _get_node_type(tree: Any) -> Any:
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_class(kind) else kind


def _is_leaf(tree: Any, is_leaf: Leaf = None) -> bool:
    return (is_leaf is not None and bool(is_leaf(tree))) or _get_node_type(tree) not in SUPPORTED_NODES


@dataclass
class TreeSpec:
    """The shape of a nest: its type, what it needs besides its children, their specs."""

    type: Any
    context: Any = None
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(c.num_nodes for c in self.children_specs)

    def children(self) -> list[TreeSpec]:
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of a nest that stand where this spec has its leaves.  ValueError: the nest has another shape."""
        if self.type is None:
            return [tree]
        kind = _get_node_type(tree)
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree) if kind in SUPPORTED_NODES else ([], None)
        if kind is not self.type or len(children) != len(self.children_specs) or context != self.context:
            raise ValueError(f"Type mismatch; expected {self.type!r} of {len(self.children_specs)}, but got {tree!r}.")
        return [x for spec, child in zip(self.children_specs, children, strict=True) for x in spec.flatten_up_to(child)]


def LeafSpec() -> TreeSpec:  # noqa: N802, PyTorch's name
    """The spec of a leaf."""
    return TreeSpec(None)


def treespec_leaf() -> TreeSpec:
    return TreeSpec(None)


def tree_flatten_with_path(tree: Any, is_leaf: Leaf = None) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """([(path, leaf) ...], spec) of a nest; a path is a tuple of keys."""
    if _is_leaf(tree, is_leaf):
        return [((), tree)], TreeSpec(None)
    children, context = _keyed(tree)
    leaves, specs = [], []
    for key, child in children:
        below, spec = tree_flatten_with_path(child, is_leaf)
        leaves += [((key, *path), leaf) for path, leaf in below]
        specs.append(spec)
    return leaves, TreeSpec(_get_node_type(tree), context, specs)


def tree_flatten(tree: Any, is_leaf: Leaf = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, spec) of a nest."""
    if _is_leaf(tree, is_leaf):
        return [tree], TreeSpec(None)
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    leaves, specs = [], []
    for child in children:
        below, spec = tree_flatten(child, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest of a spec with these leaves.  ValueError: too many or too few."""
    values = list(leaves)
    if len(values) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(values)} leaves for a spec of {treespec.num_leaves}")
    return _built(iter(values), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn(
        [_built(leaves, child) for child in spec.children_specs], spec.context
    )


def tree_leaves(tree: Any, is_leaf: Leaf = None) -> list[Any]:
    """The leaves of a nest."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_leaves_with_path(tree: Any, is_leaf: Leaf = None) -> list[tuple[tuple[Any, ...], Any]]:
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Leaf = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """The nest with ``func`` of each leaf, and of what other nests have in its place."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return tree_unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)), spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """Calls ``func`` for each leaf and returns the nest itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """``tree_map`` of a function that takes the path first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return tree_unflatten(map(func, paths, leaves, *(spec.flatten_up_to(rest) for rest in rests)), spec)


def _is_a(kind: Any) -> Callable[[Any], bool]:
    return kind if callable(kind) and not isinstance(kind, type) else lambda x: isinstance(x, kind)


def map_only(kind: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function for a type, or for what a predicate takes; others stay."""
    fits = _is_a(kind)
    return lambda func: lambda x: func(x) if fits(x) else x


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Leaf = None) -> Any:
    """``tree_map`` of the leaves of one type; others stay."""
    return tree_map(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_map_only_(kind: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Leaf = None) -> Any:
    return tree_map_(map_only(kind)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kind: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if _is_a(kind)(x))


def tree_any_only(kind: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if _is_a(kind)(x))


def keystr(path: Iterable[Any]) -> str:
    """A path as text: "['a'][0].weight" """
    return "".join(map(str, path))


def key_get(obj: Any, path: Iterable[Any]) -> Any:
    """What stands at a path."""
    return reduce(lambda x, key: key.get(x), path, obj)


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Leaf = None) -> list[Any] | None:
    """The leaves of a nest that ends above the spec's, each as often as the spec has leaves below it; None: the nest
    has another shape."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.type is not _get_node_type(tree):
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if context != treespec.context or len(children) != len(treespec.children_specs):
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        below = _broadcast_to_and_flatten(child, spec, is_leaf)
        if below is None:
            return None
        found += below
    return found
