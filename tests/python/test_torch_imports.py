"""chainrule.torch: names that exist for imports only, and the parts that other packages reach into."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_torch import PYTORCH, pytorch_prints, run, script

# What other packages import, and never use on one processor.
IMPORTS = """
from torch._C import _TensorMeta
from torch._dynamo import OptimizedModule, assume_constant_result, config
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._dynamo.eval_frame import OptimizedModule
from torch._higher_order_ops.associative_scan import associative_scan
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch._tensor_str import PRINT_OPTS, _tensor_str
from torch.autograd.profiler import EventList, record_function
from torch.backends import cudnn, opt_einsum
from torch.cuda import CUDAGraph, graph, is_current_stream_capturing
from torch.distributed import DeviceMesh, ProcessGroup, ReduceOp, Store
from torch.distributed._composable.fsdp import fully_shard
from torch.distributed._functional_collectives import all_to_all_single_autograd, wait_tensor
from torch.distributed._tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.distributed.algorithms.join import Join
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.constants import default_pg_timeout
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecisionPolicy
from torch.distributed.fsdp import ShardingStrategy, StateDictType
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.distributed.rpc import RRef, init_rpc
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.tensor.placement_types import _StridedShard
from torch.export import ExportedProgram
from torch.fft import fftn, rfft
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer, symbolic_trace, wrap
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.hub import HASH_REGEX
from torch.jit import Final, ScriptModule, _overload, _overload_method
from torch.jit.annotations import try_ann_to_type
from torch.library import Library, custom_op
from torch.linalg import inv_ex, solve
from torch.nested import nested_tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX, _IncompatibleKeys
from torch.nn.utils.convert_parameters import parameters_to_vector
from torch.onnx import is_in_onnx_export
from torch.optim.optimizer import Optimizer, _use_grad_for_differentiable, required
from torch.overrides import TorchFunctionMode, has_torch_function, is_tensor_like
from torch.profiler import kineto_available
from torch.serialization import MAP_LOCATION
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointFunction, get_device_states, set_device_states
from torch.utils.data import IterDataPipe, functional_datapipe
from torch.utils.data.datapipes.iter import Batcher
from torch.utils.data._utils.collate import default_collate
from torch.utils.dlpack import from_dlpack, to_dlpack
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle
from torch.distributions.wishart import Wishart
from torchvision.io import read_image
from torchvision.models import ResNet18_Weights, resnet18
from torchvision.models.feature_extraction import create_feature_extractor
from torchvision.ops import nms
import torch.distributed.fsdp.fully_sharded_data_parallel as fsdp
import torch.cuda.nvtx as nvtx
import torchvision
"""

# With them: what a package does at import, and questions whose answer is known.  The same lines as PyTorch's.
USES = """
import importlib.metadata, importlib.util, pickle, torch, torch.distributed
from torch.distributed.tensor.parallel import ColwiseParallel

@wrap
def traced(x): return x + 1

@_overload
def several(x: int) -> int: pass
def several(x): return x

@record
def main(): return 3

@functional_datapipe("sized")
class Sized(IterDataPipe): pass
class Mode(TorchFunctionMode): pass
class Style(ColwiseParallel): pass

def f(x: DTensor | None, m: "FSDP", s: Final[int] = 3) -> RRef[int]: return s

x = torch.ones(2)
print(isinstance(x, (DTensor, FSDP, FakeTensor)), traced(1), several(2), main(), f(x, x))
print(is_in_onnx_export(), torch.compiler.is_exporting(), is_fake(x), get_proxy_mode(), has_torch_function((x,)))
print(isinstance(torch.float8_e4m3fn, torch.dtype), torch.complex64, torch.cfloat == torch.complex64)
print(x.dtype == torch.complex64)
print(pickle.loads(pickle.dumps(torch.float8_e5m2)) is torch.float8_e5m2, torch.uint16.itemsize)
print(torch.complex128.is_complex)
for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"):
    limits = torch.finfo(getattr(torch, name))
    print(limits.max, limits.eps, limits.bits, limits.tiny)
print(torch.finfo(torch.float8_e8m0fnu).min, torch.finfo(torch.float16).max, len({torch.complex64, torch.cfloat}))
print(torch.__name__, torch.nn.__name__, torch.nn.functional.__name__)
version = importlib.metadata.version("torch").partition("+")[0]
print(version == torch.__version__.partition("+")[0], torch.__version__ >= (2, 1), torch.__version__ < "10", version)
print(torch.__version__ > "2.9.0", str(torch.__version__).split(".")[0], "torch" in
      {d.metadata["Name"] for d in importlib.metadata.distributions()}, importlib.util.find_spec("torch") is not None)
print(torch._C._nn._parse_to("cpu", torch.float64, True), torch._C._nn._parse_to(torch.half), torch._C._nn._parse_to(x))
print(torch._C._nn._parse_to(device="cpu", dtype=torch.int8), type(torch.Tensor) is _TensorMeta)
print(HASH_REGEX.search("a-0f3.pt")[1])
print(torch._C._log_api_usage_once("x"), torch.jit.annotate(int, 3), ReduceOp.RedOpType is not None, required)
bool, int, range, all = torch.bool, torch.int, torch.range, torch.all
print(torch.are_deterministic_algorithms_enabled(), torch.is_nonzero(torch.ones(1)))
print(torch.get_num_interop_threads() > 0)
print(sorted(n for n, v in vars(torch.nn.modules.activation).items() if n in ("ReLU", "Tanh") and isinstance(v, type)))
print({"Adam", "SGD"} <= set(vars(torch.optim)), "StepLR" in vars(torch.optim.lr_scheduler))
"""

# Using one says what is missing, in which line, and what to use.
RAISES = {
    "FSDP(x)": "torch.distributed.fsdp.FullyShardedDataParallel is not in chainrule (%s): weights are not sharded",
    "symbolic_trace(x)": "torch.fx.symbolic_trace is not in chainrule (%s): there is no symbolic trace",
    "FSDP.summon_full_params(x)": "torch.distributed.fsdp.FullyShardedDataParallel.summon_full_params is not in",
    "ShardingStrategy.FULL_SHARD()": "torch.distributed.fsdp.ShardingStrategy.FULL_SHARD is not in chainrule (%s)",
    "Mode()": "torch.overrides.TorchFunctionMode is not in chainrule (%s): functions are not intercepted",
    "fftn(x)": "torch.fft.fftn is not in chainrule (%s): complex numbers come later",
    "torch.stft(x, 2)": "torch.stft is not in chainrule (%s): complex numbers come later; use scipy.signal",
    "nms(x, x, 0.5)": "torchvision.ops.nms is not in chainrule (%s): this part is not in chainrule.vision",
    "torchvision.io.read_image(x)": "torchvision.io.read_image is not in chainrule (%s)",
    "resnet18(weights=ResNet18_Weights.DEFAULT)": "this package downloads no weights",
    "torch.ops.mine.unknown(x)": "torch.ops.mine.unknown is not in chainrule (%s): ops are not registered by name",
    "torch.ones(2, dtype=torch.complex64)": "must be dtype, not torch.complex64, which is not in chainrule: complex",
    "x.to(torch.float8_e4m3fn)": "got torch.float8_e4m3fn, which is not in chainrule: there are no floats of 8",
    "torch._C._something()": "torch._C._something is not in chainrule (%s): parts inside PyTorch do not exist",
    "associative_scan(lambda a: a)(3)": "associative_scan is not in chainrule (%s)",
}


def test_imports(tmp_path: Path, theirs: dict[str, str]) -> None:
    """Every import succeeds; what packages do with the names at import is what PyTorch does; using one raises."""
    ours = run(script(tmp_path, IMPORTS + USES))
    assert ours.returncode == 0, ours.stderr
    if PYTORCH:
        assert ours.stdout == theirs["imports"]
    lines = [f"try:\n    {use}\n    print('no error')\nexcept Exception as e:\n    print(e)" for use in RAISES]
    head = IMPORTS + "import torch\nx = torch.ones(2)\nclass Mode(TorchFunctionMode): pass\n"
    path = Path(script(tmp_path, head + "\n".join(lines)))
    said = run(str(path)).stdout.splitlines()
    assert len(said) == len(RAISES)
    first = len(head.splitlines()) + 2
    for i, (want, got) in enumerate(zip(RAISES.values(), said, strict=True)):
        assert want.replace("%s", f"{path}:{first + 5 * i}") in got


def test_every_module_of_pytorch() -> None:
    """`import torch.x.y` succeeds for the documented modules of PyTorch."""
    names = """amp autograd.anomaly_mode autograd.forward_ad backends.cpu backends.mha backends.xnnpack cpu cpu.amp
    cuda.comm cuda.memory cuda.nvtx cuda.profiler cuda.streams distributed.launch distributed.nn distributed.pipelining
    distributed.run jit.quantized masked monitor mps.profiler multiprocessing.pool multiprocessing.reductions
    multiprocessing.spawn nn.common_types nn.modules.channelshuffle nn.parallel.comm nn.parallel.parallel_apply
    nn.parallel.replicate nn.parallel.scatter_gather nn.utils.fusion optim.sparse_adam package quasirandom return_types
    signal.windows torch_version utils.bottleneck utils.collect_env utils.deterministic utils.mkldnn utils.model_zoo
    utils.module_tracker utils.throughput_benchmark""".split()
    code = f"import importlib\nfor name in {names}: importlib.import_module('torch.' + name)"
    done = run("-m", "timeit", "-n1", "-r1", code)
    assert done.returncode == 0, done.stderr


TREES = """
import torch
import torch.utils._pytree as p
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
Pair = namedtuple("Pair", "a b")
class Box:
    def __init__(self, *x): self.x = x
p.register_pytree_node(Box, lambda b: (list(b.x), "note"), lambda x, note: Box(*x), serialized_type_name="Box")
@dataclass
class Point:
    x: object
    y: object
p.register_dataclass(Point)
tree = {"a": [1, (2, Pair(3, None))], "b": OrderedDict(z=4, y=deque([5, 6], 4)), "c": defaultdict(list, k=[7]),
        "d": Box(8, [9]), "e": Point(10, {"f": ()})}
leaves, spec = p.tree_flatten(tree)
print(leaves, spec.num_leaves, spec.num_nodes, spec.num_children, p.LeafSpec().is_leaf())
again = p.tree_unflatten([2 * (x or 0) for x in leaves], spec)
print(again["a"], dict(again["b"]), again["b"]["y"].maxlen, again["c"].default_factory, again["d"].x, again["e"])
print([p.keystr(path) for path, _ in p.tree_flatten_with_path({"a": [1, Pair(2, 3)], "e": Point(1, 2)})[0]])
print(p.tree_map(lambda a, b: a + b, [1, (2, 3)], [10, (20, 30)]), p.tree_map(lambda a, b: (a, b), [1, 2], [[3], 4]))
print(p.tree_map_only(int, lambda x: -x, [1, "a", 2.0]), p.tree_all(bool, [1, [0]]), p.tree_any(bool, [1, [0]]))
print(p._broadcast_to_and_flatten((1, [2, 3]), p.tree_structure(((0, 0), [0, 0]))), p.tree_leaves([[], None, 1]))
print(p.tree_map_with_path(lambda path, x: (p.keystr(path), x), {"a": [1]}), p._get_node_type(Pair(1, 2)).__name__)
print(sorted(t.__name__ for t in (list, tuple, dict, Box, Point, int) if t in p.SUPPORTED_NODES))
print(spec.unflatten(range(len(leaves)))["e"], p.tree_structure([1, {"a": 2}]) == p.tree_structure([3, {"a": 4}]))
for bad in (lambda: p.tree_map(lambda a, b: 0, [1, 2], [1]), lambda: p.tree_unflatten([1], spec),
            lambda: p.register_pytree_node(Box, None, None)):
    try: bad()
    except ValueError as e: print(type(e).__name__)
"""

PARTS = """
import tempfile, torch
from collections import OrderedDict
from torch.utils.checkpoint import CheckpointFunction, checkpoint, detach_variable, get_device_states, set_device_states
from torch.utils.hooks import RemovableHandle
from torch.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
hooks = OrderedDict()
handle = RemovableHandle(hooks)
hooks[handle.id] = 3
with handle: print(len(hooks))
print(dict(hooks), isinstance(torch.ones(1, requires_grad=True).register_hook(print), RemovableHandle))
print(isinstance(torch.nn.Linear(1, 1).register_forward_hook(print), RemovableHandle))
w = torch.ones(2, requires_grad=True)
y = CheckpointFunction.apply(lambda x: (x * x).sum(), True, w)
y.backward()
print(w.grad, get_device_states(w), set_device_states([], []))
print([v.requires_grad for v in detach_variable((w, 3 * w.detach()))])
vector = parameters_to_vector([w])
vector_to_parameters(vector.detach() * 2, [w])
print(w)

@torch.library.custom_op("mine::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    return x.detach() * by

def setup(ctx, inputs, output): ctx.by = inputs[1]
scaled.register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=setup)
@scaled.register_fake
def _(x, by=2.0): return torch.empty_like(x)
x = torch.ones(3, requires_grad=True)
scaled(x, by=3.0).sum().backward()
print(x.grad, torch.ops.mine.scaled(torch.ones(2)))
library = torch.library.Library("yours", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
z = torch.ones(2, requires_grad=True)
torch.ops.yours.twice(z).sum().backward()
print(z.grad)

with tempfile.NamedTemporaryFile() as file:
    file.write(bytes(range(8))); file.flush()
    s = torch.UntypedStorage.from_file(file.name, False, 8)
    print(len(s), torch.asarray(s[2:6], dtype=torch.uint8), s.nbytes(), s[7])
f = torch.arange(6.0).view(2, 3).t()
print(f.untyped_storage().nbytes(), f.untyped_storage().size(), f.untyped_storage().data_ptr() == f.data_ptr())
print(torch.arange(6.0)[2:].storage()[-1])
print(isinstance(torch.nn.ModuleDict(torch.nn.ModuleDict({"a": torch.nn.ReLU()}))["a"], torch.nn.ReLU))
for workers in (0, 1):
    print(torch.utils.data.DataLoader([1, 2], num_workers=workers).prefetch_factor)
for n in (0, 1, 2, 7):
    for window in (torch.hann_window, torch.hamming_window, torch.blackman_window):
        print([round(v, 3) + 0.0 for w in (window(n), window(n, periodic=False)) for v in w.tolist()])
m = torch.arange(6.0).view(2, 3)
print(m.mH, m.H, torch.norm(m, "nuc"), m[None].norm("nuc", (1, 2), True))
print(m.adjoint(), torch.adjoint(m), torch.conj(m), torch.hann_window(3, dtype=torch.float64).dtype)
class Needs(torch.nn.ModuleDict):
    def __init__(self):
        super().__init__()
        self.after = 1
    def update(self, modules): print(self.after)
Needs()
with torch.device("meta"):
    layer = torch.nn.Linear(2, 3)
print(layer.weight.shape)
"""

# What a meta tensor is, and what it refuses.
META = """
import torch, warnings
import torch.nn.functional as F
def tried(f):
    try:
        return f()
    except Exception as e:
        return type(e).__name__
with torch.device("meta"):
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 36, 10),
    )
    made = [
        torch.zeros(2, 3),
        torch.ones(2),
        torch.randn(3, 4),
        torch.arange(10),
        torch.full((2,), 7),
        torch.eye(3),
        torch.empty(10**12),
        torch.tensor([1, 2]),
        torch.linspace(0, 1, 5),
        torch.randperm(4),
        torch.rand(2),
        torch.randint(3, (2,)),
    ]
print([(tuple(x.shape), str(x.dtype), str(x.device), x.is_meta) for x in made])
print({name: (tuple(p.shape), str(p.device), p.requires_grad) for name, p in net.named_parameters()})
y = net(torch.empty(5, 3, 8, 8, device="meta"))
print(tuple(y.shape), y.device.type, y.is_meta, y.requires_grad)
y.sum().backward()
print([tuple(p.grad.shape) for p in net.parameters()], net[0].weight.grad.is_meta)
print(
    torch.empty(2, 3, device="meta"),
    torch.zeros(3, dtype=torch.float64, device="meta"),
    torch.ones(2, device="meta", requires_grad=True),
    torch.tensor(3, device="meta"),
)
x = torch.empty(4, 6, device="meta")
w = torch.empty(6, 3, device="meta", dtype=torch.float64)
print(
    [
        tuple(t.shape)
        for t in (
            x @ w.float(),
            x.sum(1),
            x.T,
            x[1:, ::2],
            x.reshape(2, -1),
            torch.cat([x, x]),
            x.softmax(1),
            x.max(1).values,
            x.sort().values,
            x.topk(2).values,
            x.var(0),
            F.pad(x, (1, 1)),
            torch.einsum("ij,kj->ik", x, x),
            x.cumsum(0),
            x.expand(2, 4, 6),
            torch.stack([x, x]),
        )
    ]
)
print(
    (x > 0).dtype,
    x.argmax(1).dtype,
    (x * 2).dtype,
    (x.int() + 1.5).dtype,
    x.to(torch.bfloat16).dtype,
    x.stride(),
    x.numel(),
    x.element_size(),
)
for f in (
    lambda: x.tolist(),
    lambda: x[0, 0].item(),
    lambda: bool(x[0, 0]),
    lambda: x.cpu(),
    lambda: x.to("cpu"),
    lambda: x.nonzero(),
    lambda: x[x > 0],
    lambda: float(x[0, 0]),
    lambda: torch.zeros(4, 6).copy_(x),
    lambda: net.to("cpu"),
):
    print(issubclass(RuntimeError, eval(tried(f))) or issubclass(eval(tried(f)), RuntimeError))
print(
    type(tried(lambda: x + torch.ones(4, 6))).__name__,
    tuple((x + 1).shape),
    tuple(x.copy_(torch.ones(4, 6)).shape),
)
sources = torch.nn.Sequential(
    torch.nn.Conv2d(3, 4, 3),
    torch.nn.BatchNorm2d(4),
    torch.nn.ReLU(),
    torch.nn.Flatten(),
    torch.nn.Linear(4 * 36, 10),
)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    net.load_state_dict(sources.state_dict())
print(len(seen) > 0, net[0].weight.is_meta)
print(
    net.load_state_dict(sources.state_dict(), assign=True),
    net[0].weight.is_meta,
    type(net[0].weight).__name__,
    net[0].weight.requires_grad,
)
image = torch.ones(2, 3, 8, 8)
print(torch.equal(net.eval()(image), sources.eval()(image)))
other = torch.nn.Linear(3, 2, device="meta").to_empty(device="cpu")
other.reset_parameters()
print(other.weight.device, tuple(other(torch.ones(1, 3)).shape))
moved = torch.nn.Linear(3, 2).to("meta")
print(moved.weight.is_meta, moved.bias.device)
print(
    torch.zeros(3).is_meta,
    torch.device("meta"),
    torch.zeros_like(x).is_meta,
    torch.zeros_like(x, device="cpu").is_meta,
    x.new_zeros(2).is_meta,
)
rnn = torch.nn.LSTM(4, 5, device="meta")
out, (h, c) = rnn(torch.empty(7, 2, 4, device="meta"))
print(tuple(out.shape), tuple(h.shape), tuple(c.shape))
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, device="meta", batch_first=True)
print(tuple(layer(torch.empty(2, 3, 8, device="meta")).shape))
optimizer = torch.optim.AdamW(layer.parameters())
layer(torch.empty(2, 3, 8, device="meta")).sum().backward()
optimizer.step()
print(tuple(next(layer.parameters()).shape), torch.get_default_device())
"""
# What a graph saves passes through the innermost pair of hooks.
HOOKS = """
import torch
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
log = []
def pack(x):
    log.append(("pack", tuple(x.shape), x.is_leaf and x.requires_grad))
    return x.clone(), len(log)
def unpack(kept):
    log.append(("unpack", tuple(kept[0].shape)))
    return kept[0]
a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
b = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
with saved_tensors_hooks(pack, unpack):
    y = (a * b).exp()
print(sorted(log, key=str))
y.sum().backward()
print(sorted(log, key=str), a.grad.tolist() == (b * (a * b).exp()).tolist())
log.clear()
with torch.no_grad(), saved_tensors_hooks(pack, unpack):
    a * b
print(log, (a * b).requires_grad)
# scaled values show that backward reads what the hooks gave
with saved_tensors_hooks(lambda x: x, lambda x: 2 * x):
    z = (a * b).sum()
a.grad = b.grad = None
z.backward()
print(a.grad.tolist(), b.grad.tolist())
# innermost pair
with saved_tensors_hooks(lambda x: x, lambda x: 2 * x):
    with saved_tensors_hooks(lambda x: x, lambda x: 3 * x):
        z = (a * b).sum()
    u = (a * b).sum()
v = (a * b).sum()
for t in (z, u, v):
    print([g.tolist() for g in torch.autograd.grad(t, (a, b))])
# twice over one graph
with saved_tensors_hooks(pack, unpack):
    z = (a * a * b).sum()
log.clear()
first = torch.autograd.grad(z, a, retain_graph=True)[0]
count = len(log)
second = torch.autograd.grad(z, a)[0]
print(first.tolist(), second.tolist(), len(log) == 2 * count, count > 0)
# second derivatives
with saved_tensors_hooks(pack, unpack):
    z = (a**3 * b).sum()
    (g,) = torch.autograd.grad(z, a, create_graph=True)
print(torch.autograd.grad(g.sum(), a)[0].tolist())
# functions
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x**3
        ctx.save_for_backward(x, y)
        return y
    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        log.append(("in backward", tuple(y.shape)))
        return 3 * g * x * x
log.clear()
with saved_tensors_hooks(pack, unpack):
    z = Cube.apply(a).sum()
print([kind for kind, *_ in log])
print(torch.autograd.grad(z, a)[0].tolist(), sorted(kind for kind, *_ in log))
# errors
def tried(f):
    try:
        return f()
    except Exception as e:
        return type(e).__name__, str(e).splitlines()[0]
def refuses():
    with disable_saved_tensors_hooks("not here"):
        with saved_tensors_hooks(pack, unpack):
            pass
print(tried(refuses))
def inside():
    with saved_tensors_hooks(pack, unpack):
        with disable_saved_tensors_hooks("not here either"):
            pass
print(tried(inside))
def wrong():
    with saved_tensors_hooks(lambda x: x, lambda x: 3):
        y = (a * b).sum()
    y.backward()
print(tried(wrong))
def raises_in_pack():
    with saved_tensors_hooks(lambda x: 1 / 0, lambda x: x):
        a * b
print(tried(raises_in_pack)[0])
def raises_in_unpack():
    with saved_tensors_hooks(lambda x: x, lambda x: 1 / 0):
        y = (a * b).sum()
    y.backward()
print(tried(raises_in_unpack)[0])
with disable_saved_tensors_hooks("nothing is used"):
    print((a * b).sum().item())
with saved_tensors_hooks(pack, unpack):
    pass
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
x = torch.randn(5, 3)
net(x).square().mean().backward()
plain = [p.grad.clone() for p in net.parameters()]
for hooks in (
    save_on_cpu(),
    save_on_cpu(pin_memory=False),
    saved_tensors_hooks(lambda x: x.detach().numpy().copy(), torch.from_numpy),
):
    net.zero_grad()
    with hooks:
        loss = net(x).square().mean()
    loss.backward()
    print(all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), plain)))
with saved_tensors_hooks(lambda x: x, lambda x: x):
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    y = w * 2
    y.mul_(y.detach() + 1)
print(torch.autograd.grad(y.sum(), w)[0].tolist())
"""


OTHER_PACKAGES = {"trees": TREES, "parts": PARTS, "meta": META, "hooks": HOOKS}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a script -> what PyTorch prints for it."""
    imports = "\n".join(line for line in IMPORTS.splitlines() if "torchvision" not in line) + USES
    folder = tmp_path_factory.mktemp("theirs")
    texts = {folder / f"{name}.py": text for name, text in {**OTHER_PACKAGES, "imports": imports}.items()}
    for path, text in texts.items():
        path.write_text(text)
    return {Path(path).stem: said for path, said in pytorch_prints([*texts]).items()}


@pytest.mark.skipif(not PYTORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", OTHER_PACKAGES)
def test_parts_that_packages_use(name: str, tmp_path: Path, theirs: dict[str, str]) -> None:
    """The same lines as PyTorch's."""
    ours = run(script(tmp_path, OTHER_PACKAGES[name]))
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == theirs[name]
