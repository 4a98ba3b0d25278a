"""The rest of chainrule.nn beside PyTorch's: paddings, rearrangements, dropouts, bags, distances,
losses, the adaptive softmax, the transformer, lists and dicts of parameters."""

from __future__ import annotations

import copy
import math
import pickle
from collections import OrderedDict
from typing import Any

import chainrule as cr
import pytest
from cases import X, index
from chainrule import nn
from compare import differ, kinds
from test_nn import Case, case, compare_modules, label, needs_torch, torch, twins
from test_nn_functions import IMAGE, LINE, OTHER, REDUCTIONS, SIGN, VOLUME, WIDE, given

F = nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")

SPACES = [LINE, IMAGE, VOLUME]
TIMES, OTHERS = X((5, 2, 6)), X((7, 2, 6), seed=1)
TRIPLE = [WIDE, OTHER, X((3, 5), seed=2)]

LAYERS = [
    *(
        case(f"{name}{n}d", *args, of=[SPACES[n - 1]])
        for n in (1, 2, 3)
        for name, args in (
            ("ZeroPad", [2]),
            ("ConstantPad", [1, 3.5]),
            ("ReflectionPad", [1]),
            ("ReplicationPad", [(1, 2, 0, 1, 2, 1)[: 2 * n]]),
            ("CircularPad", [(1, 2, 0, 1, 2, 1)[: 2 * n]]),
        )
    ),
    case("Unfold", 2, of=[IMAGE]),
    case("Unfold", (3, 2), padding=(1, 0), stride=2, of=[IMAGE]),
    case("Fold", (4, 5), 2, of=[X((2, 12, 12))]),
    case("PixelShuffle", 2, of=[X((2, 8, 3, 4))]),
    case("PixelUnshuffle", 2, of=[X((2, 3, 6, 4))]),
    case("ChannelShuffle", 3, of=[X((2, 6, 4))]),
    *(case(f"{name}", 0.0, of=[IMAGE]) for name in ("Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")),
    case("Dropout1d", 0.0, of=[LINE]),
    case("Softmax2d", of=[IMAGE]),
    case("Embedding", 11, 3, sparse=False, of=[index((4, 2), 11)]),
    *(case("EmbeddingBag", 7, 5, mode=m, of=[index((3, 4), 7)]) for m in ("sum", "mean", "max")),
    case("EmbeddingBag", 7, 5, padding_idx=2, max_norm=1.0, of=[index((6,), 7), given(0, 2, 2)]),
    case("EmbeddingBag", 7, 5, mode="sum", include_last_offset=True, of=[index((6,), 7), given(0, 2, 6), X((6,))]),
    case("CosineSimilarity", of=[WIDE, OTHER]),
    case("CosineSimilarity", dim=0, of=[WIDE, OTHER]),
    case("PairwiseDistance", of=[WIDE, OTHER]),
    case("PairwiseDistance", 1.0, keepdim=True, of=[WIDE, OTHER]),
    case("AdaptiveLogSoftmaxWithLoss", 8, 20, [4, 10, 15], 2.0, of=[X((9, 8)), index((9,), 20)]),
    case("AdaptiveLogSoftmaxWithLoss", 8, 6, [2], head_bias=True, of=[X((8,)), index((), 6)]),
    case("NLLLoss2d", of=[X((3, 4, 5, 2)), index((3, 5, 2), 4)]),
    *(
        c
        for r in REDUCTIONS
        for c in (
            case("MarginRankingLoss", 0.3, reduction=r, of=[X((3,)), X((3,), seed=1), SIGN]),
            case("SoftMarginLoss", reduction=r, of=[X((3,)), SIGN]),
            case("MultiLabelMarginLoss", reduction=r, of=[X((4,)), given(2, 0, -1, 1)]),
            case("MultiLabelSoftMarginLoss", reduction=r, of=[WIDE, index((3, 5), 2)]),
            case("TripletMarginLoss", 2.0, swap=True, reduction=r, of=TRIPLE),
            case("TripletMarginWithDistanceLoss", margin=9.0, reduction=r, of=TRIPLE),
            case("PoissonNLLLoss", full=True, reduction=r, of=[WIDE, X((3, 5), low=0)]),
            case("GaussianNLLLoss", full=True, reduction=r, of=[WIDE, OTHER, X((3, 5), low=0.1)]),
        )
    ),
    case("TransformerEncoderLayer", 6, 2, 9, 0.0, "gelu", norm_first=True, of=[TIMES]),
    *(
        case("TransformerDecoderLayer", 6, 2, 9, 0.0, of=of, **options)
        for of, options in (
            ([TIMES, OTHERS], {}),
            ([TIMES, OTHERS], {"norm_first": True, "activation": "gelu"}),
            ([X((2, 5, 6)), X((2, 7, 6), seed=1)], {"batch_first": True, "bias": False}),
            ([X((5, 6)), X((7, 6), seed=1)], {}),
        )
    ),
    *(
        case("Transformer", 6, 2, 2, 1, 9, 0.0, of=[OTHERS, TIMES], **options)
        for options in ({}, {"norm_first": True, "bias": False})
    ),
    case("Transformer", 6, 2, 1, 2, 9, 0.0, batch_first=True, of=[X((2, 7, 6)), X((2, 5, 6), seed=1)]),
]


@needs_torch
@pytest.mark.parametrize("c", LAYERS, ids=label)
def test_layer_is_pytorchs(c: Case) -> None:
    name, args, kwargs, of = c
    mine, theirs = twins(name, args, kwargs)
    assert repr(mine) == repr(theirs)
    for training in (True, False):
        for module in (mine, theirs):
            module.train(training)
            module.zero_grad()
        compare_modules(mine, theirs, of)


# ---- the transformer's masks


def masks(lib: Any, size: int = 5) -> dict[str, Any]:
    return {
        "causal": lib.nn.Transformer.generate_square_subsequent_mask(size, dtype=lib.float64),
        "bool": lib.ones(size, size, dtype=lib.bool).triu(1),
        "added": X((size, size), seed=5).make(lib),
        "padding": lib.tensor([[False] * 5, [False, False, True, False, True]]),
        "other padding": lib.tensor([[False] * 7, [False, True, True, False, True, False, False]]),
        "cross": X((5, 7), seed=6).make(lib),
    }


MASKS = [
    ("TransformerEncoder", {"mask": "causal"}),
    ("TransformerEncoder", {"mask": "bool", "is_causal": True}),
    ("TransformerEncoder", {"mask": "added"}),
    ("TransformerEncoder", {"src_key_padding_mask": "padding"}),
    ("TransformerEncoder", {"mask": "bool", "src_key_padding_mask": "padding"}),
    ("TransformerDecoder", {"tgt_mask": "causal"}),
    ("TransformerDecoder", {"tgt_mask": "causal", "memory_mask": "cross"}),
    ("TransformerDecoder", {"tgt_is_causal": True, "tgt_mask": "bool"}),
    (
        "TransformerDecoder",
        {"tgt_key_padding_mask": "padding", "memory_key_padding_mask": "other padding", "tgt_mask": "bool"},
    ),
    ("Transformer", {"tgt_mask": "causal", "src_key_padding_mask": "other padding"}),
    ("Transformer", {"tgt_mask": "causal", "tgt_is_causal": True, "memory_key_padding_mask": "other padding"}),
]


def stack(lib: Any, name: str) -> Any:
    if name == "Transformer":
        return lib.nn.Transformer(6, 2, 1, 2, 9, 0.0).double()
    layer = getattr(lib.nn, f"{name}Layer")(6, 2, 9, 0.0, norm_first=True)
    return getattr(lib.nn, name)(layer, 2, lib.nn.LayerNorm(6)).double()


@needs_torch
@pytest.mark.parametrize("name, options", MASKS, ids=str)
def test_masks_of_the_transformer(name: str, options: dict[str, Any]) -> None:
    of = {"TransformerEncoder": [TIMES], "TransformerDecoder": [TIMES, OTHERS], "Transformer": [OTHERS, TIMES]}[name]
    mine, theirs = stack(cr, name), stack(torch, name)
    assert repr(mine) == repr(theirs)
    mine.load_state_dict(theirs.state_dict())
    made = [{k: masks(lib).get(v, v) if isinstance(v, str) else v for k, v in options.items()} for lib in (cr, torch)]

    class Call:
        """A module with its masks."""

        def __init__(self, module: Any, options: dict[str, Any]) -> None:
            self.module, self.options, self.parameters = module, options, module.parameters

        def __call__(self, *inputs: Any) -> Any:
            return self.module(*inputs, **self.options)

    compare_modules(Call(mine, made[0]), Call(theirs, made[1]), of)


def test_transformer() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0, -math.inf, -math.inf], [0, 0, -math.inf], [0, 0, 0]] and mask.dtype == cr.float32
    net = nn.Transformer(8, 2, 1, 1, 16)
    first = next(iter(net.parameters()))
    assert first.abs().max().item() <= math.sqrt(6 / (8 + 24)), "Xavier"
    encoder = nn.Identity()
    assert nn.Transformer(8, 2, custom_encoder=encoder, num_decoder_layers=1).encoder is encoder
    assert {type(m) for m in net.train().modules()} == {type(m) for m in copy.deepcopy(net).modules()}
    with pytest.raises(RuntimeError, match="batch number"):
        net(cr.ones(3, 2, 8), cr.ones(3, 1, 8))
    with pytest.raises(RuntimeError, match="feature number"):
        net(cr.ones(3, 2, 4), cr.ones(3, 2, 4))


def test_backends_of_attention() -> None:
    from chainrule.nn.attention import SDPBackend, sdpa_kernel

    q = cr.randn(1, 2, 3, 4)
    wanted = F.scaled_dot_product_attention(q, q, q).tolist()
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        with sdpa_kernel(backends):
            assert F.scaled_dot_product_attention(q, q, q).tolist() == wanted
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel(["math"]):  # type: ignore[list-item]
        pass


@needs_torch
def test_multi_head_attention_forward() -> None:
    """With weights of their own, learned and static keys."""
    found = []
    for lib, f in ((cr, F), (torch, torch.nn.functional)):
        q, k, v = (X((t, 2, w), seed=t).make(lib) for t, w in ((5, 6), (7, 3), (7, 4)))
        weights = [X((6, w), seed=w).make(lib) for w in (6, 3, 4)]
        common = (6, 3, None, None, None, None, False, 0.0, X((6, 6), seed=9).make(lib), None)
        named = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights, strict=True))
        found += [f.multi_head_attention_forward(q, k, v, *common, use_separate_proj_weight=True, **named)]
        static = X((6, 4, 2), seed=3).make(lib)
        found += [
            f.multi_head_attention_forward(
                q, k, v, *common, use_separate_proj_weight=True, **named, static_k=static, static_v=static
            )
        ]
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        assert (wrong := differ("the result", ours, theirs, torch)) is None, wrong
    with pytest.raises(AssertionError, match="in_proj_weight"):
        F.multi_head_attention_forward(q, q, q, 6, 2, None, None, None, None, False, 0.0, cr.ones(6, 6), None)


# ---- lists and dicts of parameters


@needs_torch
def test_lists_of_parameters() -> None:
    reprs, states = [], []
    for lib in (cr, torch):
        row = lib.nn.ParameterList([lib.ones(2), lib.nn.Parameter(lib.ones(2, 3)), "text", lib.zeros(())])
        row += [lib.ones(1)]
        row.append(lib.ones(4)).extend([lib.ones(5)])
        row[0] = lib.nn.Parameter(lib.zeros(2))
        assert len(row) == 7 and row[2] == "text" and row[-1].shape == (5,) and len(row[1:3]) == 2
        assert [n for n, _ in row.named_parameters()] == ["0", "1", "3", "4", "5", "6"]
        with pytest.raises(IndexError):
            row[7]
        with pytest.raises(TypeError):
            row.extend(3)
        named = lib.nn.ParameterDict({"b": lib.ones(2), "a": lib.ones(3)})
        named["c"] = lib.nn.Parameter(lib.ones(1))
        named.update(OrderedDict(z=lib.ones(1), d=3))
        assert list(named) == ["a", "b", "c", "z", "d"] and "d" in named and len(named) == 5 and named["d"] == 3
        assert named.pop("z").shape == (1,) and named.popitem() == ("d", 3) and named.get("q", 1) == 1
        assert named.setdefault("e", lib.ones(2)) is named["e"] and [k for k, _ in named.items()] == [
            "a",
            "b",
            "c",
            "e",
        ]
        both = named | lib.nn.ParameterDict({"x": lib.ones(1)})
        both |= {"y": lib.ones(2)}
        assert list(both.keys()) == ["a", "b", "c", "e", "x", "y"] and list(reversed(both)) == list(both.keys())[::-1]
        assert both.copy()["a"] is both["a"] and list(both.fromkeys(["p"], 1).items()) == [("p", 1)]
        del both["a"]
        with pytest.raises(KeyError if lib is cr else AttributeError):
            both["a"]
        with pytest.raises(TypeError):
            both[3] = lib.ones(1)
        both = lib.nn.ParameterDict({"a": lib.ones(1)})  # PyTorch's keeps the key that it refused
        both.clear()
        assert len(both) == 0 and len(list(both.parameters())) == 0
        net = lib.nn.Module()
        net.row, net.named = row, named
        states.append(list(net.state_dict()))
        reprs.append(repr(net).replace("torch.FloatTensor", "torch.float32").replace("torch.", "chainrule."))
    assert states[0] == states[1] and reprs[0] == reprs[1]


def test_lists_of_parameters_copy() -> None:
    net = nn.ParameterList([cr.ones(2), cr.zeros(3)])
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert len(twin) == 2 and twin[0] is not net[0] and twin[0].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="should not be called"):
        net(1)


# ---- what both refuse

BAD: list[tuple[str, Any]] = [
    ("margins", lambda nn, ones: nn.ReflectionPad1d(9)(ones(2, 3, 4))),
    ("softmax of pixels", lambda nn, ones: nn.Softmax2d()(ones(2, 3))),
    ("triplet margin", lambda nn, ones: nn.TripletMarginLoss(margin=0)),
    ("triplet margin with distance", lambda nn, ones: nn.TripletMarginWithDistanceLoss(margin=0)),
    ("cutoffs", lambda nn, ones: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 2])),
    ("no cutoffs", lambda nn, ones: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [])),
    ("class", lambda nn, ones: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5])(ones(2, 4), ones(2).long() * 10)),
    ("batch", lambda nn, ones: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5])(ones(2, 4), ones(3).long())),
    ("decoder's activation", lambda nn, ones: nn.TransformerDecoderLayer(6, 2, activation="tanh")),
    ("alpha dropout", lambda nn, ones: nn.AlphaDropout(1.5)),
    ("bag's mode", lambda nn, ones: nn.EmbeddingBag(3, 2, mode="least")(ones(2, 2).long())),
    ("bag's padding", lambda nn, ones: nn.EmbeddingBag(3, 2, padding_idx=4)),
    ("table's shape", lambda nn, ones: nn.Embedding(3, 2, _weight=ones(2, 2))),
]


@needs_torch
@pytest.mark.parametrize("what, f", BAD, ids=[b[0] for b in BAD])
def test_refuses_as_pytorch(what: str, f: Any) -> None:
    raised = []
    for lib in (cr, torch):
        with pytest.raises(Exception) as e:  # noqa: B017,PT011  which one is what is compared
            f(lib.nn, lib.ones)
        raised.append(e.value)
    assert kinds(raised[1]) <= kinds(raised[0]) and isinstance(raised[0], (type(raised[1]), RuntimeError)), raised


@needs_torch
def test_adaptive_softmax() -> None:
    mine, theirs = twins("AdaptiveLogSoftmaxWithLoss", (8, 20, [4, 10]), {"div_value": 2.0})
    x = X((9, 8))
    for name in ("log_prob", "predict"):
        ours, other = getattr(mine, name)(x.make(cr)), getattr(theirs, name)(x.make(torch))
        assert (wrong := differ(name, ours, other, torch)) is None, wrong
    assert (mine.log_prob(x.make(cr)).exp().sum(-1) - 1).abs().max().item() < 1e-12
    mine.reset_parameters()


@pytest.mark.filterwarnings("default")
def test_old_arguments_of_modules() -> None:
    cases: list[tuple[Any, dict[str, Any]]] = [
        (nn.MSELoss, {}),
        (nn.CrossEntropyLoss, {}),
        (nn.TripletMarginLoss, {"margin": 2.0}),
    ]
    for kind, more in cases:
        with pytest.warns(UserWarning, match="reduction='sum'"):
            assert kind(size_average=False, **more).reduction == "sum"
        with pytest.warns(UserWarning, match="reduction='none'"):
            assert kind(reduce=False, **more).reduction == "none"
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.NLLLoss(None, False).reduction == "sum"


@needs_torch
def test_ctc() -> None:
    """PyTorch's gradient is that through a log_softmax, and therefore compared behind one."""
    found = []
    for lib in (cr, torch):
        x = X((6, 2, 4)).make(lib).requires_grad_()
        loss = lib.nn.CTCLoss(2, "sum", True)
        assert repr(loss) == "CTCLoss()"
        y = loss(x.log_softmax(-1), lib.tensor([[0, 1, 1], [3, 0, 0]]), lib.tensor([6, 5]), lib.tensor([3, 1]))
        y.backward()
        found.append([y, x.grad])
    assert (wrong := differ("the result", found[0], found[1], torch)) is None, wrong


def test_tables_that_are_given() -> None:
    values = cr.randn(4, 3)
    for kind in (nn.Embedding, nn.EmbeddingBag):
        layer = kind.from_pretrained(values, padding_idx=1)
        assert (
            not layer.weight.requires_grad and layer.weight.data_ptr() == values.data_ptr() and layer.padding_idx == 1
        )
        assert kind.from_pretrained(values, freeze=False).weight.requires_grad
    assert not nn.Embedding(4, 3, _freeze=True).weight.requires_grad
