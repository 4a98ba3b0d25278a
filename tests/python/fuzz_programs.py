"""Random programs for the fuzzer of compiled steps (fuzz_compile.py): what people write around ``compile``.

A program is a list of lines, each with a tag that names its kind; any of them may be left out.  Its setup makes
modules, tensors and optimizers, its functions work on them, and its actions call the functions and change
everything in between."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from fuzz_world import FORK, Program

# Kinds that docs/howto/compile.md declares as differing, or that issue asks to be given in other ways.
DECLARED = {
    "global": "a global name that the function reads is bound anew, or a plain global list or dict changes",
    "number result": "a number that the function returns stays that of the recording",
    "python effect": "what the function does to Python's objects is done while it records only",
    "result graph": "a result of a step that ran backward() itself requires no gradient any more",
    "captured result": "a captured tensor or an argument that is returned is a new handle, and no leaf",
    "unused result": "a result that the loss does not use has a gradient of zeros",
}


@dataclass(frozen=True)
class Line:
    where: str  # "setup", a function's name, "late" or "act"
    tag: str
    text: str


def rendered(lines: list[Line], loose: bool, threads: int) -> Program:
    """The texts of a program."""
    setup = [line.text for line in lines if line.where == "setup"]
    heads = {line.where: line for line in lines if line.tag == "def"}
    for name, head in heads.items():
        body = [line.text for line in lines if line.where == name and line.tag != "def"]
        setup.append(head.text)
        setup += ["    " + part for text in body or ["pass"] for part in text.split("\n")]
    setup += [line.text for line in lines if line.where == "late"]
    return Program("\n".join(setup) + "\n", [line.text for line in lines if line.where == "act"], loose, threads)


MODULES = [  # (text, weight)
    ("nn.Linear(6, 6)", 3),
    ("nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 6))", 6),
    ("nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 6, bias=False))", 2),
    ("Scale()", 6),
    ("nn.Sequential(Scale(), nn.Linear(6, 6))", 2),
    ("nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 2, 3, padding=1), nn.BatchNorm1d(2), nn.Flatten())", 2),
    ("nn.Sequential(nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 2, 3, padding=1), nn.GroupNorm(1, 2),"
     " nn.Dropout2d(0.4), nn.Flatten(), nn.Linear(12, 6))", 1),
    ("Rnn('GRU')", 1),
    ("Rnn('LSTM')", 1),
    ("Embed()", 2),
    ("Embed(padding_idx=3)", 1),
    ("Embed(max_norm=1.0)", 1),
    ("Layers()", 3),
    ("Attention()", 1),
    ("nn.TransformerEncoderLayer(6, 2, 8, 0.1)", 1),
    ("nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)), nn.Tanh())", 1),
    ("nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Tanh())", 1),
    ("nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 6), nn.LeakyReLU(0.1))", 1),
    ("nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten(), nn.RMSNorm(6))", 1),
]

OPTIMIZERS = [
    ("cr.optim.SGD({p}, lr=0.1, momentum=0.9)", 5),
    ("cr.optim.SGD({p}, lr=0.1)", 3),
    ("cr.optim.SGD({p}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)", 1),
    ("cr.optim.Adam({p}, lr=0.01)", 3),
    ("cr.optim.AdamW({p}, lr=0.01)", 3),
    ("cr.optim.AdamW({p}, lr=cr.tensor(0.01))", 1),
    ("cr.optim.Adam({p}, lr=0.01, amsgrad=True)", 1),
    ("cr.optim.RMSprop({p}, lr=0.01, momentum=0.5)", 1),
    ("cr.optim.Adagrad({p}, lr=0.05)", 1),
    ("cr.optim.NAdam({p}, lr=0.01)", 1),
    ("cr.optim.Lion({p}, lr=0.001)", 1),
    ("cr.optim.Adadelta({p})", 1),
    ("cr.optim.ASGD({p})", 1),
    ("cr.optim.Rprop({p}, lr=0.01)", 1),
    ("UserSGD({p})", 3),
    ("cr.optim.LBFGS({p}, lr=0.1, max_iter=2)", 1),
]

TENSORS = {
    "w0": "w0 = X(101, 6, 6).mul(0.4).requires_grad_()",
    "w1": "w1 = nn.Parameter(X(102, 6))",
    "base": "base = X(103, 4, 6)\nv0, v1, v2 = base[1], base[2:], base.t()[:, 3]",
    "t0": "t0 = X(104)",
    "z0": "z0 = nn.Parameter(X(105, 6), requires_grad=False)",
    "e0": "e0 = X(106, 6, 1).expand(6, 6)",
    "d0": "d0 = X(107, 6).double()",
    "i0": "i0 = cr.tensor([3, 1, 4, 1, 0])",
    "s0": "s0 = cr.tensor(0.5)",
    "a0": "a0 = X(108)",
    "a1": "a1 = X(109).requires_grad_()",
    "ls": "ls = [X(110, 6), X(111, 6).requires_grad_()]",
    "dc": "dc = {'a': X(112, 6), 'k': 2.0}",
    "gen": "gen = cr.Generator().manual_seed(5)",
    "num": "num = 2.0",
}

# Changes between calls: (tag, names that it needs, texts).  {n}: 0 or 1; {s}: a seed; {f}: a float; {k}: a small int.
CHANGES: list[tuple[str, str, list[str]]] = [
    # options of optimizers
    ("group lr", "o", ["group({o})['lr'] = {f}", "group({o})['lr'] = cr.tensor({f})", "group({o})['lr'] *= 0.5"]),
    ("group lr tensor", "o", ["group({o})['lr'].fill_({f})"]),
    ("group momentum", "o", ["group({o})['momentum'] = {f}", "group({o})['momentum'] = 0.0"]),
    ("group nesterov", "o", ["group({o})['nesterov'] = True"]),
    ("group maximize", "o", ["group({o})['maximize'] = not group({o}).get('maximize')"]),
    ("group weight_decay", "o", ["group({o})['weight_decay'] = {f}", "group({o})['weight_decay'] = 0.0"]),
    ("group betas", "o", ["group({o})['betas'] = ({f}, 0.9)"]),
    ("group eps", "o", ["group({o})['eps'] = {f}"]),
    ("group amsgrad", "o", ["group({o})['amsgrad'] = not group({o}).get('amsgrad')"]),
    ("group foreach", "o", ["group({o})['foreach'] = True", "group({o})['fused'] = True"]),
    ("group dampening", "o", ["group({o})['dampening'] = 0.5"]),
    ("group decay", "o", ["group({o})['decay'] = 0.5"]),
    ("groups replaced", "o", ["{o}.param_groups = copy.copy({o}.param_groups)",
                              "{o}.param_groups[0] = {{**group({o}), 'lr': {f}}}"]),
    ("params removed", "o", ["group({o})['params'].pop()", "del group({o})['params'][0]",
                             "group({o})['params'] = group({o})['params'][1:]"]),
    ("params reversed", "o", ["group({o})['params'].reverse()"]),
    ("param added", "o,w0", ["group({o})['params'].append(w0)"]),
    ("add_param_group", "o", ["extra = nn.Parameter(X({s}, 6)); extra.grad = X({s}, 6)\n"
                              "{o}.add_param_group({{'params': [extra], 'lr': {f}}})"]),
    ("state cleared", "o", ["{o}.state.clear()", "{o}.state = type({o}.state)(dict)",
                            "{o}.state.pop(group({o})['params'][0], None)"]),
    ("state in place", "o", ["[t.mul_(0.5) for t in moments({o}).values() if isinstance(t, cr.Tensor)]"]),
    ("state replaced", "o", ["s = moments({o}); s.update({{k: t * 0.5 for k, t in s.items()"
                             " if isinstance(t, cr.Tensor)}})"]),
    ("state step", "o", ["moments({o})['step'] = 1", "moments({o})['step'] += 3"]),
    ("state data", "o", ["s = moments({o})\nfor k, t in s.items():\n"
                         "    if isinstance(t, cr.Tensor): t.data = t * 2"]),
    ("state loaded", "o", ["{o}.load_state_dict(copy.deepcopy({o}.state_dict()))",
                           "{o}.load_state_dict({o}.state_dict())"]),
    ("optimizer saved", "o", ["saved = copy.deepcopy({o}.state_dict())"]),
    ("optimizer restored", "o", ["{o}.load_state_dict(saved)"]),
    ("optimizer step replaced", "o", ["{o}.step = lambda closure=None: None",
                                      "step = {o}.step; {o}.step = lambda: [p.data.mul_(0.9) for p in"
                                      " group({o})['params']]"]),
    ("optimizer step by hand", "o", ["{o}.step()"]),
    ("optimizer zero_grad", "o", ["{o}.zero_grad()", "{o}.zero_grad(set_to_none=False)"]),
    ("scheduler", "o", ["sched = cr.optim.lr_scheduler.StepLR({o}, 1, 0.5)", "sched.step()",
                        "sched = cr.optim.lr_scheduler.OneCycleLR({o}, 0.1, total_steps=20)"]),
    # attributes of modules
    ("train/eval", "m", ["{m}.eval()", "{m}.train()", "next(iter({m}.children())).eval()", "{m}.training = False"]),
    ("Dropout.p", "m", ["M({m}, 'Dropout').p = {f}", "M({m}, 'Dropout').p = 0.0"]),
    ("Dropout training", "m", ["M({m}, 'Dropout').training = False", "M({m}, 'Dropout').eval()"]),
    ("Dropout inplace", "m", ["M({m}, 'Dropout').inplace = True"]),
    ("Norm.momentum", "m", ["M({m}, 'Norm').momentum = {f}", "M({m}, 'Norm').momentum = None"]),
    ("Norm.eps", "m", ["M({m}, 'Norm').eps = {f}"]),
    ("Norm training", "m", ["M({m}, 'Norm').eval()"]),
    ("Norm track_running_stats", "m", ["M({m}, 'Norm').track_running_stats = False"]),
    ("Norm buffer replaced", "m", ["M({m}, 'Norm').running_mean = X({s}, *M({m}, 'Norm').running_mean.shape)",
                                   "M({m}, 'Norm').running_mean = None"]),
    ("Norm buffer in place", "m", ["M({m}, 'Norm').running_var.fill_({f})", "M({m}, 'Norm').reset_running_stats()"]),
    ("Norm buffer data", "m", ["M({m}, 'Norm').running_var.data = cr.ones_like(M({m}, 'Norm').running_var)"]),
    ("Norm count", "m", ["M({m}, 'Norm').num_batches_tracked.add_(5)"]),
    ("Norm affine", "m", ["M({m}, 'Norm').weight = None; M({m}, 'Norm').bias = None"]),
    ("slope", "m", ["M({m}, 'LeakyReLU').negative_slope = {f}"]),
    ("gelu", "m", ["M({m}, 'GELU').approximate = 'tanh'"]),
    ("conv attribute", "m", ["M({m}, 'Conv1d').padding = (1,); M({m}, 'Conv1d').groups = 1",
                             "M({m}, 'Conv1d').padding_mode = 'circular'"]),
    ("embedding attribute", "m", ["M({m}, 'Embedding').padding_idx = 7", "M({m}, 'Embedding').max_norm = {f}",
                                  "M({m}, 'Embedding').scale_grad_by_freq = True"]),
    ("attention attribute", "m", ["M({m}, 'Multihead').dropout = {f}"]),
    ("rnn attribute", "m", ["M({m}, 'Rnn').rnn.batch_first = True", "M({m}, 'Rnn').rnn.dropout = {f}"]),
    ("buffer of ints", "m", ["M({m}, 'Embed').idx = cr.tensor([0, 2, 2, 5, 8])", "M({m}, 'Embed').idx[0] = 4",
                             "M({m}, 'Embed').idx[1] = 12", "M({m}, 'Embed').idx.fill_(2)"]),
    ("plain number", "m", ["M({m}, 'Scale').scale = {f}", "M({m}, 'Scale').scale *= 0.5"]),
    ("plain flag", "m", ["M({m}, 'Scale').flag = not M({m}, 'Scale').flag"]),
    ("plain count", "m", ["M({m}, 'Scale').times = {k}"]),
    ("plain text", "m", ["M({m}, 'Scale').act = 'sigmoid'"]),
    ("plain dict", "m", ["M({m}, 'Scale').cfg['shift'] = {f}", "M({m}, 'Scale').cfg = {{'shift': {f}}}"]),
    ("plain function", "m", ["M({m}, 'Scale').fn = F.gelu"]),
    ("plain list of tensors", "m", ["M({m}, 'Scale').ts[0] = X({s}, 6)", "M({m}, 'Scale').ts.reverse()",
                                    "M({m}, 'Scale').ts = [X({s}, 6)]", "M({m}, 'Scale').ts[0].mul_(0.5)",
                                    "M({m}, 'Scale').ts[0].data = X({s}, 6)"]),
    ("plain tensor", "m", ["M({m}, 'Scale').plain = X({s}, 6)", "M({m}, 'Scale').plain.mul_(0.5)",
                           "M({m}, 'Scale').plain = X({s}, 6).requires_grad_()",
                           "M({m}, 'Scale').plain = M({m}, 'Scale').plain.double()"]),
    ("buffer", "m", ["M({m}, 'Scale').count = cr.ones(())", "M({m}, 'Scale').count.fill_(7)"]),
    ("attribute by setattr", "m", ["object.__setattr__(M({m}, 'Scale'), 'scale', {f})",
                                   "M({m}, 'Scale').__dict__['scale'] = {f}", "vars(M({m}, 'Scale')).update(flag=False)"]),
    ("attribute deleted", "m", ["del M({m}, 'Scale').plain", "del Q({m}).grad"]),
    # methods
    ("forward replaced", "m", ["{m}.forward = lambda x: x * 3", "M({m}, 'Linear').forward = lambda x: x[:, :6] * 2",
                               "M({m}, 'ReLU').forward = lambda x: x * 3"]),
    ("method replaced", "m", ["M({m}, 'Scale').extra = lambda: 1.5", "Scale.extra = lambda self: 2.5",
                              "Scale.forward = lambda self, x: x * self.scale"]),
    ("class attribute", "m", ["Scale.extra = lambda self: self.scale", "del Scale.extra"]),
    ("class changed", "m", ["M({m}, 'ReLU').__class__ = nn.Tanh"]),
    # layers
    ("layer replaced", "m", ["{m}[-1] = nn.Linear(8, 6)", "{m}[0] = nn.Linear(6, 8)", "{m}[2] = nn.Tanh()",
                             "M({m}, 'Layers').layers[0] = nn.Linear(6, 6)", "M({m}, 'Layers').skip = nn.Tanh()",
                             "M({m}, 'Layers').byname['a'] = nn.Tanh()"]),
    ("layer appended", "m", ["{m}.append(nn.Softmax(-1))", "M({m}, 'Layers').layers.append(nn.Linear(6, 6))",
                             "M({m}, 'Layers').byname['c'] = nn.Tanh()"]),
    ("layer removed", "m", ["del {m}[2]", "del M({m}, 'Layers').layers[0]", "M({m}, 'Layers').layers.pop(0)"]),
    ("layer inserted", "m", ["{m}.insert(0, nn.Tanh())"]),
    ("module deep copied", "m", ["twin = copy.deepcopy({m})", "twin = copy.deepcopy({m}); twin(X({s}))"]),
    # parameters
    ("parameter replaced", "m", ["M({m}, 'Linear').weight = nn.Parameter(M({m}, 'Linear').weight.detach() * 0.5)",
                                 "M({m}, 'Linear').bias = nn.Parameter(cr.ones_like(M({m}, 'Linear').bias))",
                                 "M({m}, 'Scale').weight = nn.Parameter(X({s}, 6))",
                                 "M({m}, 'Layers').ps[0] = nn.Parameter(X({s}, 6))"]),
    ("bias None", "m", ["M({m}, 'Linear').bias = None"]),
    ("parameters tied", "m", ["M({m}, 'Linear').bias = M({m}, 'Norm').bias",
                              "M({m}, 'Linear', 1).weight = M({m}, 'Linear').weight"]),
    ("parameters tied", "m,w1", ["M({m}, 'Scale').weight = w1"]),
    ("frozen", "m", ["{m}.requires_grad_(False)", "Q({m}).requires_grad_(False)", "Q({m}).requires_grad = False"]),
    ("frozen", "w0", ["w0.requires_grad_(False)", "w0.requires_grad = False"]),
    ("unfrozen", "m", ["{m}.requires_grad_(True)"]),
    ("unfrozen", "z0", ["z0.requires_grad_()"]),
    ("detach_", "w0", ["w0.detach_()"]),
    ("detach_", "m", ["Q({m}).detach_()"]),
    ("data replaced", "m", ["Q({m}).data = Q({m}).data * 0.5", "Q({m}).data = Q({m}).data.double()",
                            "Q({m}).data = cr.ones(2, 2)"]),
    ("data replaced", "w0", ["w0.data = X({s}, 6, 6)", "w0.data = X({s}, 6, 6).t()", "w0.data = w0.data[:3]"]),
    ("data replaced", "t0", ["t0.data = X({s})", "t0.data = X({s}, 6, 5).t()", "t0.data = X({s}).double()"]),
    ("data in place", "m", ["Q({m}).data.mul_(0.9)", "with cr.no_grad(): Q({m}).add_(0.01)"]),
    ("data in place", "w0", ["w0.data.mul_(0.9)", "with cr.no_grad(): w0[0].add_(0.01)"]),
    ("grad None", "m", ["Q({m}).grad = None", "{m}.zero_grad()"]),
    ("grad None", "w0", ["w0.grad = None"]),
    ("grad set", "m", ["Q({m}).grad = cr.ones_like(Q({m}))", "{m}.zero_grad(set_to_none=False)"]),
    ("grad set", "w0", ["w0.grad = X({s}, 6, 6)", "w0.grad = X({s}, 6, 6).t()", "w0.grad = w0.grad.clone()",
                        "w0.grad = cr.zeros(6, 6)", "w0.grad = e0"]),
    ("grad shared", "m,w0", ["for p in {m}.parameters():\n    if p.shape == w0.shape: p.grad = w0.grad"]),
    ("grad in place", "m", ["Q({m}).grad.mul_(2)"]),
    ("grad in place", "w0", ["w0.grad.mul_(2)", "w0.grad.zero_()", "w0.grad.data = X({s}, 6, 6)"]),
    ("grad made", "m", ["{m}(X({s})).square().mean().backward()"]),
    ("grad made", "w0", ["w0.square().sum().backward()"]),
    # precision and files
    ("to", "m", ["{m}.double()", "{m}.half()", "{m}.float()", "{m}.to(cr.bfloat16)", "{m}.to('cpu')",
                 *["{m}.double().float()", "{m}.half().float()"] * 3]),
    ("state dict loaded", "m", ["{m}.load_state_dict({{k: t * 0.5 for k, t in {m}.state_dict().items()}})",
                                "{m}.load_state_dict({m}.state_dict(), assign=True)",
                                "{m}.load_state_dict(copy.deepcopy({m}.state_dict()), assign=True)"]),
    ("saved and loaded", "m", ["f = io.BytesIO(); cr.save({m}.state_dict(), f); f.seek(0)\n"
                               "{m}.load_state_dict(cr.load(f))"]),
    # hooks
    ("forward hook", "m", ["hook = Q and M({m}, '').register_forward_hook(lambda m, i, y: y * 2)",
                           "hook = M({m}, 'Linear').register_forward_hook(lambda m, i, y: y + 1)"]),
    ("forward pre-hook", "m", ["hook = {m}.register_forward_pre_hook(lambda m, i: (i[0] * 2,))"]),
    ("backward hook", "m", ["hook = {m}.register_full_backward_hook(lambda m, gi, go: tuple(g and g * 2 if g is None"
                            " else g * 2 for g in gi))",
                            "hook = {m}.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))"]),
    ("tensor hook", "m", ["hook = Q({m}).register_hook(lambda g: g * 2)"]),
    ("tensor hook", "w0", ["hook = w0.register_hook(lambda g: g * 2)"]),
    ("hook that raises", "w0", ["hook = w0.register_hook(lambda g: 1 / 0)"]),
    ("post-accumulate hook", "w0", ["hook = w0.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(0.5), None)[1])"]),
    ("post-accumulate hook", "m", ["hook = Q({m}).register_post_accumulate_grad_hook(lambda p: (p.data.mul_(0.9), None)[1])"]),
    ("hook removed", "", ["hook.remove()"]),
    ("hooks cleared", "m", ["{m}._forward_hooks.clear()"]),
    ("global hook", "", ["hook = nn.register_module_forward_hook(lambda m, i, y: y)"]),
    # captured tensors
    ("tensor in place", "t0", ["t0.mul_(0.5)", "t0[0].fill_(2)", "t0.t().add_(0.1)"]),
    ("view in place", "base", ["v0.mul_(0.5)", "base.add_(0.1)", "v1[0].fill_(2)"]),
    ("tensor rebound by data", "base", ["v0.data = X({s}, 6)", "base.data = X({s}, 4, 6)"]),
    ("list in place", "ls", ["ls[0].mul_(0.5)", "ls[1].data = X({s}, 6)", "ls[1].requires_grad_(False)"]),
    ("dict in place", "dc", ["dc['a'].add_(0.5)", "dc['a'].requires_grad_()"]),
    ("scalar in place", "s0", ["s0.fill_({f})", "s0.add_(1)"]),
    ("index in place", "i0", ["i0[0] = 2", "i0[1] = 4", "i0[2] = 9", "i0.fill_(1)"]),
    ("requires_grad", "t0", ["t0.requires_grad_()", "t0.requires_grad_(False)"]),
    ("requires_grad", "d0", ["d0.requires_grad_()"]),
    ("retain_grad", "w0", ["w0.retain_grad()"]),
    ("global", "ls", ["ls[0] = X({s}, 6)", "ls.reverse()", "ls = [X({s}, 6), X({s}, 6)]"]),
    ("global", "dc", ["dc['a'] = X({s}, 6)", "dc['k'] = {f}"]),
    ("global", "num", ["num = {f}"]),
    ("global", "t0", ["t0 = X({s})", "t0 = t0.clone()"]),
    ("global", "w0", ["w0 = X({s}, 6, 6).requires_grad_()"]),
    ("global", "m", ["{m} = copy.deepcopy({m})"]),
    ("global function", "", ["helper = lambda x: x * 3"]),
    # the process
    ("manual_seed", "", ["cr.manual_seed({s})"]),
    ("rng state", "", ["rng = cr.get_rng_state()", "cr.set_rng_state(rng)", "cr.randn(3)"]),
    ("generator", "gen", ["gen.manual_seed({s})", "cr.randn(2, generator=gen)", "gst = gen.get_state()",
                          "gen.set_state(gst)"]),
    ("set_num_threads", "", ["cr.set_num_threads(1)", "cr.set_num_threads(2)"]),
    ("default dtype", "", ["cr.set_default_dtype(cr.float64)", "cr.set_default_dtype(cr.float32)"]),
    ("grad mode", "", ["cr.set_grad_enabled(False)", "cr.set_grad_enabled(True)"]),
    ("anomaly", "", ["cr.autograd.set_detect_anomaly(True)", "cr.autograd.set_detect_anomaly(False)"]),
    ("precision", "", ["cr.set_float32_matmul_precision('medium')"]),
    ("gc", "", ["gc.collect()", "cr.empty_cache()"]),
    ("fork", "", [FORK]),
    ("global", "w0", ["del w0; gc.collect()"]),
    ("global", "t0", ["del t0; gc.collect()"]),
    ("exception in a step", "", ["stop = True", "stop = False"]),
]
PROCESS = {"manual_seed", "rng state", "set_num_threads", "default dtype", "grad mode", "anomaly", "precision", "fork",
           "generator", "gc", "global hook", "layer replaced", "layer appended", "layer inserted", "module deep copied",
           "attention attribute", "Dropout training", "fork"}


class Maker:
    """Makes one program."""

    def __init__(self, seed: int, off: set[str], threads: int = 0) -> None:
        self.r = random.Random(seed)
        self.off, self.threads = off, threads
        self.lines: list[Line] = []
        self.names: set[str] = set()  # tensors that exist
        self.modules: list[str] = []
        self.optimizers: list[str] = []
        self.functions: dict[str, int] = {}  # name -> parameters
        self.made: list[str] = []  # results
        self.seed = 200
        self.captured: set[str] = set()  # functions that return a tensor which they did not make

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def pick(self, table: list[tuple[str, int]]) -> str:
        return self.r.choices([x for x, _ in table], [n for _, n in table])[0]

    def add(self, where: str, tag: str, text: str) -> None:
        if tag not in self.off:
            self.lines.append(Line(where, tag, text))

    def next_seed(self) -> int:
        self.seed += 1
        return self.seed

    # ---- setup ----

    def setup(self) -> None:
        r = self.r
        for name in r.sample(sorted(TENSORS), r.randint(2, 6)):
            self.names.add(name)
        if self.chance(0.5):
            self.names.add("w0")
        for i in range(r.choices([0, 1, 2], [1, 6, 2])[0]):
            text = self.pick(MODULES)
            while self.threads and any(x in text for x in ("Dropout", "Attention", "Transformer", *[
                    "Scale", "BatchNorm", "InstanceNorm", "max_norm", "spectral"] * (self.threads < 0))):
                text = self.pick(MODULES)  # random numbers are drawn by all threads; buffers would change
            self.add("setup", "module", f"m{i} = {text}")
            self.modules.append(f"m{i}")
        if not self.modules:
            self.names.add("w0")
        for name in sorted(self.names):
            self.add("setup", f"tensor {name}", TENSORS[name])
        leaves = [x for x in ("w0", "w1") if x in self.names]
        for i in range(r.choices([0, 1, 2], [1, 6, 1])[0]):
            groups = [f"*{m}.parameters()" for m in self.modules if self.chance(0.9)]
            groups += [x for x in leaves if self.chance(0.8)]
            if not groups:
                groups = leaves or [f"*{m}.parameters()" for m in self.modules]
            self.add("setup", "optimizer", f"o{i} = " + self.pick(OPTIMIZERS).format(p=f"[{', '.join(groups)}]"))
            self.optimizers.append(f"o{i}")
        if self.chance(0.15) and self.modules:
            self.add("setup", "ema", f"ema = copy.deepcopy({self.modules[0]})")
            self.names.add("ema")
        self.add("setup", "stop", "stop = False")

    # ---- expressions; a matrix has 6 columns ----

    def mat(self, local: list[str], depth: int = 2) -> str:
        r = self.r
        if depth == 0 or self.chance(0.2):
            return r.choice(local)
        a = self.mat(local, depth - 1)
        ways = [
            (lambda: f"({a}).tanh()", 2),
            (lambda: f"({a} + {self.vec(local)})", 2),
            (lambda: f"({a} * {self.vec(local)})", 2),
            (lambda: f"({a} + {self.mat(local, depth - 1)})", 1),
            (lambda: f"{a} @ {self.square()}", 2),
            (lambda: f"F.dropout({a}, 0.25)", 0.5),
            (lambda: f"({a} + cr.randn(6))", 0.5),
            (lambda: f"cr.rand_like({a})", 0.2),
            (lambda: f"cr.where({a} > 0, {a}, {self.vec(local)})", 0.5),
            (lambda: f"({a}).softmax(-1)", 0.5),
            (lambda: f"({a}).flip(0)", 0.3),
            (lambda: f"({a}).detach()", 0.3),
            (lambda: f"F.layer_norm({a}, (6,))", 0.4),
            (lambda: f"cr.cat([{a}, {a} * 2])[::2]", 0.4),
            (lambda: f"({a}).cumsum(0)", 0.3),
            (lambda: f"({a}).sort(-1).values", 0.2),
            (lambda: f"({a}).max(-1, keepdim=True).values * {a}", 0.2),
            (lambda: f"({a}).to(cr.bfloat16).sigmoid().float()", 0.3),
            (lambda: f"({a}).clone()", 0.3),
            (lambda: f"({a})[:, :3].repeat(1, 2)", 0.3),
            (lambda: f"F.normalize({a}, dim=-1)", 0.2),
            (lambda: f"({a}).masked_fill({a} < 0, 0.1)", 0.2),
            (lambda: f"({a}).view(-1, 6)", 0.2),
            (lambda: f"helper({a})", 0.4),
        ]
        if self.modules:
            m = r.choice(self.modules)
            ways.append((lambda: f"{m}({a})", 7))
            if "checkpoint" not in self.off:
                ways.append((lambda: f"checkpoint({m}, {a}, use_reentrant=False)", 0.5))
        if "t0" in self.names:
            ways.append((lambda: f"({a} + t0[:1])", 1))
        if "i0" in self.names:
            ways.append((lambda: f"({a})[i0]", 1))
        if "a1" in self.names:
            ways.append((lambda: f"({a} + a1[:1])", 0.7))
        if "gen" in self.names:
            ways.append((lambda: f"({a} + cr.randn(6, generator=gen))", 0.7))
        if "s0" in self.names:
            ways.append((lambda: f"({a} * s0)", 1))
        if "num" in self.names and "global" not in self.off:
            ways.append((lambda: f"({a} * num)", 1))
        if "ema" in self.names:
            ways.append((lambda: f"ema({a})", 1))
        if self.threads:
            while "rand" in (text := r.choices([w for w, _ in ways], [n for _, n in ways])[0]()) or "drop" in text:
                pass
            return text
        return r.choices([w for w, _ in ways], [n for _, n in ways])[0]()

    def vec(self, local: list[str]) -> str:
        ways = ["{a}.mean(0)", "{a}[0]", "2.0"]
        ways += [v for n, v in (("w1", "w1"), ("base", "v0"), ("base", "v1[0]"), ("base", "base[1]"), ("z0", "z0"),
                                ("d0", "d0.float()"), ("ls", "ls[0]"), ("ls", "ls[1]"), ("dc", "dc['a']"),
                                ("w0", "w0[0]"), ("w0", "w0.diagonal()")) if n in self.names] * 2
        if self.modules:
            ways.append(f"Q({self.r.choice(self.modules)}).flatten()[:6]")
        return self.r.choice(ways).format(a=self.r.choice(local))

    def square(self) -> str:
        ways = ["cr.eye(6)"] + [x for x in ("w0", "e0") if x in self.names] * 3
        return self.r.choice(ways)

    def source(self, a: str) -> str:
        """a, or a matrix made of it that depends on what learns."""
        if any(x in a for x in (*self.modules, "w0", "w1", "a1", "ls[1]")):
            return a
        ways = [f"{m}({a})" for m in self.modules] + [t for n, t in (("w0", f"{a} @ w0"), ("w1", f"{a} * w1")) if n in self.names]
        return self.r.choice(ways) if ways else a

    def loss(self, local: list[str]) -> str:
        a = self.source(self.mat(local))
        return self.r.choice([f"({a}).square().mean()", f"({a}).abs().sum()", f"F.mse_loss({a}, {local[0]})",
                              f"F.cross_entropy({a}, i0)" if "i0" in self.names else f"({a}).mean()"])

    def parameters(self) -> str:
        parts = [f"*{m}.parameters()" for m in self.modules] + [x for x in ("w0", "w1") if x in self.names]
        return f"[{', '.join(parts)}]"

    # ---- functions ----

    def statement(self, f: str, local: list[str], kind: str) -> None:
        r, name, o = self.r, f, r_choice(self.r, self.optimizers)
        m = r_choice(self.r, self.modules)
        if kind == "value":
            new = f"h{len(local)}"
            self.add(name, "value", f"{new} = {self.mat(local)}")
            local.append(new)
        elif kind == "write":
            options = [f"{local[-1]}.mul_(0.5)", f"{local[-1]}[0].add_(1)"]
            options += [t for n, t in (
                ("t0", "t0.mul_(0.9)"), ("t0", "t0[1].copy_(x[0].detach())"), ("base", "v0.add_(0.1)"),
                ("base", "base[1].mul_(0.5)"), ("base", "v1.copy_(base[:2])"), ("s0", "s0.add_(1)"),
                ("ls", "ls[0].add_(x.detach().mean(0))"), ("dc", "dc['a'].mul_(0.5)"), ("i0", "i0.copy_(i0.flip(0))"),
                ("i0", "i0.add_(1).remainder_(5)"), ("w0", "with cr.no_grad(): w0.mul_(0.99)"), ("w0", "w0.data.add_(0.01)"),
                ("w0", "w0.data = w0.data * 0.9"), ("t0", "t0.data = t0 * 2"), ("z0", "z0.add_(0.1)"),
                ("d0", "d0.add_(1)")) if n in self.names] * 2
            options += ["x.add_(1)", "x[0].mul_(2)", "x.data.mul_(0.5)", "x.detach().mul_(0.5)", "x.t()[0].fill_(1)",
                        "x.zero_()", "x.copy_(x.flip(0))"]
            if m:
                options += [f"with cr.no_grad(): Q({m}).mul_(0.99)", f"Q({m}).data.mul_(0.99)",
                            f"for b in {m}.buffers():\n    b.mul_(1)"]
                if "ema" in self.names:
                    options += [f"with cr.no_grad():\n    for a, b in zip(ema.parameters(), {m}.parameters()):\n"
                                "        a.lerp_(b, 0.1)"] * 3
            text = r.choice(options)
            self.add(name, "data bound" if ".data =" in text else "write", text)
        elif kind == "attribute" and m:
            options = [f"{m}.kept = {local[-1]}", f"{m}.calls = getattr({m}, 'calls', 0) + 1",
                f"M({m}, 'Scale').scale *= 0.9", f"M({m}, 'Scale').plain = M({m}, 'Scale').plain * 0.9",
                f"M({m}, 'Scale').ts[0] = M({m}, 'Scale').ts[0] * 0.9", f"{m}.train(not {m}.training)"]
            self.add(name, "attribute written", r.choice([x for x in options if self.suits(x)]))
        elif kind == "zero":
            options = [f"{m}.zero_grad()", f"{m}.zero_grad(set_to_none=False)",
                       f"for p in {self.parameters()}:\n    p.grad = None"] if m else []
            options += [f"{o}.zero_grad()"] * 4 + [f"{o}.zero_grad(set_to_none=False)"] * 2 if o else []
            options += ["w0.grad = None"] if "w0" in self.names else []
            if options:
                self.add(name, "zero_grad", r.choice(options))
        elif kind == "backward":
            loss = self.loss(local)
            ways = [(f"loss = {loss}\nloss.backward()", 8), (f"loss = {loss}\nloss.backward(retain_graph=True)\n"
                                                            "loss.backward()", 0.4),
                    (f"loss = {loss}\nfor p, g in zip({self.parameters()}, cr.autograd.grad(loss,"
                     f" {self.parameters()}, allow_unused=True)):\n    p.grad = g", 0.7),
                    (f"with cr.autocast('cpu', dtype=cr.bfloat16):\n    loss = {loss}\nloss.backward()", 0.6),
                    (f"loss = {loss}\ngs = cr.autograd.grad(loss, {self.parameters()}, create_graph=True,"
                     " allow_unused=True)\nsum(g.square().sum() for g in gs if g is not None).backward()", 0.4)]
            self.add(name, "backward", r.choices([w for w, _ in ways], [n for _, n in ways])[0])
        elif kind == "clip":
            ps = self.parameters()
            self.add(name, "clip", r.choice([f"norm = nn.utils.clip_grad_norm_({ps}, 0.5)",
                                             f"nn.utils.clip_grad_value_({ps}, 0.01)",
                                             f"norm = nn.utils.get_total_norm([p.grad for p in {ps} if p.grad is not"
                                             " None])",
                                             f"for p in {ps}:\n    if p.grad is not None: p.grad.mul_(0.5)",
                                             f"for p in {ps}:\n    if p.grad is not None: p.grad = p.grad * 0.5",
                                             f"for p in {ps}:\n    p.grad = None if p.grad is None else p.grad.clamp(-0.1, 0.1)"]))
        elif kind == "step" and o:
            lbfgs = any(line.text.startswith(f"{o} = ") and "LBFGS" in line.text for line in self.lines)
            self.add(name, "step", r.choice([f"{o}.step()"] * 6 * (not lbfgs) + [
                f"def again():\n    {o}.zero_grad()\n    y = {self.loss(local)}\n    y.backward()\n    return y\n"
                f"{o}.step(again)"]))
        elif kind == "manual":
            ps = self.parameters()
            text = r.choice([
                f"with cr.no_grad():\n    for p in {ps}:\n        if p.grad is not None: p.sub_(p.grad, alpha=0.1)",
                f"with cr.no_grad():\n    for p in {ps}:\n        if p.grad is not None: p -= 0.1 * p.grad",
                f"for p in {ps}:\n    if p.grad is not None: p.data.add_(p.grad, alpha=-0.1)",
                f"for p in {ps}:\n    if p.grad is not None: p.data = p.data - 0.1 * p.grad"])
            self.add(name, "manual step by data" if ".data =" in text else "manual step", text)
        elif kind == "norms":
            ps = self.parameters()
            self.add(name, "norms", f"norm = sum(p.grad.square().sum() for p in {ps} if p.grad is not None)")
        elif kind == "raise":
            self.add(name, "raise", r.choice(["if len(x) == 7: raise ValueError('seven rows')",
                                              "x[:, 5].sum(); x[5 if len(x) == 7 else 0]"]))

    def result(self, name: str, local: list[str], extra: list[str]) -> str:
        r = self.r
        one = [local[-1]] * 4 + [r.choice(local), f"{local[-1]}.detach()", "x", "x[1:]", "x.t()", "x.detach()",
                                "x.view(-1)", f"{local[-1]}[::2]", f"{local[-1]}.sum()", "cr.ones(3)", "None",
                                f"{local[-1]}.max(-1)", "x.square()"]
        one += [t for n, t in (("t0", "t0"), ("t0", "t0[1:]"), ("t0", "t0.t()"), ("w0", "w0"), ("w0", "w0 * 2"),
                               ("w0", "w0.grad"), ("w0", "w0.data"), ("base", "v0"), ("base", "base"),
                               ("base", "v1 + 1"), ("s0", "s0"), ("e0", "e0"), ("ls", "ls[0]"), ("ls", "ls"),
                               ("dc", "dc['a']"), ("i0", "i0"), ("d0", "d0 * 2"), ("w0", "w0.detach()"),
                               ("w0", "w0.norm()")) if n in self.names]
        body = [line for line in self.lines if line.where == name]
        if "result graph" in self.off and any("backward" in line.text or "step(again)" in line.text for line in body):
            one = [f"{x}.detach()" if x.split(".")[0].split("[")[0] in local and "max" not in x else x for x in one]
            extra = [x if x == "norm" else "loss.detach()" for x in extra]
        one += extra * 3
        for m in self.modules:
            one += [f"Q({m})", f"Q({m}).detach()", f"[*{m}.buffers()]", f"Q({m}).grad"]
        for o in self.optimizers:
            one += [f"[t for t in moments({o}).values() if isinstance(t, cr.Tensor)]",
                    f"[t * 1 for t in moments({o}).values() if isinstance(t, cr.Tensor)]"]
        a, b = r.choice(one), r.choice(one)
        fresh = [*local[len([x for x in local if x in "xy"]):], *extra, "cr.ones(3)", "None"]
        if any(x not in fresh and "*" not in x and "square" not in x and "sum" not in x for x in (a, b)):
            self.captured.add(name)
        if "outside grad" in self.off and ".grad" in a + b:
            a, b = a.replace(".grad", ""), b.replace(".grad", "")
        return r.choices([f"return {a}", f"return {a}, {b}", f"return {{'a': {a}, 'b': [{b}, None, 3]}}",
                          f"return {a}, {a}", "pass"], [6, 3, 1, 0.5, 1])[0]

    def function(self, i: int) -> None:
        r = self.r
        name, local = f"f{i}", ["x"]
        kinds = ["train"] * 5 + ["forward"] * 4 + ["step"] * 2 + ["mixed"] * 3 + ["clip", "norms", "manual", "writes"]
        if self.threads < 0:
            kinds = ["forward"]
        kind = r.choice(kinds)
        parameters = 2 if self.chance(0.2) else 1
        self.functions[name] = parameters
        if parameters == 2:
            local.append("y")
        decorator = ""
        if self.chance(0.07):
            decorator = r.choice(["@cr.no_grad()\n", "@cr.autocast('cpu', dtype=cr.bfloat16)\n", "@cr.enable_grad()\n"])
        self.add(name, "def", f"{decorator}def {name}({', '.join(local)}):")
        plans = {
            "train": ["value"] * r.randint(0, 1) + ["backward"] + ["clip"] * self.chance(0.25) + [
                "step" if self.optimizers and self.chance(0.85) else "manual"],
            "forward": ["value"] * r.randint(1, 3),
            "step": ["clip"] * self.chance(0.3) + ["step"],
            "clip": ["clip"],
            "norms": ["norms"],
            "manual": ["manual"],
            "writes": ["write"] * r.randint(1, 3),
            "mixed": [r.choice(["value", "write", "backward", "clip", "step", "manual", "zero", "norms"])
                      for _ in range(r.randint(2, 6))],
        }[kind]
        if kind == "train":
            plans = ["zero", *plans] if self.chance(0.4) else [*plans, "zero"] if self.chance(0.8) else plans
        reads = {"step", "clip", "norms", "manual"}
        if "outside grad" in self.off and reads & set(plans):
            plans.insert(0, "backward")
        if self.threads >= 0:
            for extra in ("write", "attribute", "raise", "value"):
                if self.chance(0.1) and not (extra == "attribute" and "attribute written" in self.off):
                    plans.insert(r.randint(0, len(plans)), extra)
        if self.chance(0.08):
            self.add(name, "stop", "if stop: raise ValueError('stopped')")
        for what in plans:
            self.statement(name, local, what)
        texts = " ".join(line.text for line in self.lines if line.where == name)
        extra_results = [x for x, mark in (("loss", "loss ="), ("loss.detach()", "loss ="), ("norm", "norm =")) if mark in texts]
        if kind == "forward" or self.chance(0.75):
            self.add(name, "return", self.result(name, local, extra_results))
        self.add("late", "compile", f"{name} = compile({name})")

    def more_functions(self) -> None:
        """Compiled methods and modules, and functions that call others."""
        r = self.r
        if self.modules and self.chance(0.25):
            m = r.choice(self.modules)
            self.functions["c0"] = 1
            self.add("late", "compiled module", f"c0 = compile({m})")
        if self.modules and self.chance(0.07):
            self.functions["b0"] = 1
            self.add("late", "compiled method", f"b0 = compile({r.choice(self.modules)}.forward)")
        if self.optimizers and self.chance(0.12) and self.threads >= 0 and "outside grad" not in self.off:
            self.functions["p0"] = 0
            self.add("late", "compiled opt.step", f"p0 = compile({r.choice(self.optimizers)}.step)")
        if self.chance(0.06) and "f0" in self.functions:
            n = self.functions["f0"]
            names = ["x", "y"][:n]
            self.functions["n0"] = n
            self.add("late", "compiled in compiled",
                     f"@compile\ndef n0({', '.join(names)}):\n    r = f0({', '.join(names)})\n    return r, x * 2")

    # ---- actions ----

    def argument(self) -> str:
        r, s = self.r, self.next_seed()
        ways = [(f"X({s})", 12.0), (f"X({s}, 6, 5).t()", 0.4), (f"X({s}, 7, 6)", 0.5), (f"X({s}).requires_grad_()", 0.8),
                (f"X({s}, 1, 6).expand(5, 6)", 0.3), (f"X({s}, 7, 6)[2:]", 0.3), (f"X({s}, 5, 12)[:, ::2]", 0.3),
                (f"X({s}).double()", 0.2), (f"X({s}, 0, 6)", 0.15), (f"X({s}) * float('nan')", 0.1)]
        ways += [(t, w) for n, t, w in (("a0", "a0", 4.0), ("a0", "a0[:]", 0.7), ("a1", "a1", 2.0), ("t0", "t0", 0.7),
                                        ("t0", "t0[:]", 0.3), ("w0", "w0.detach()[:5]", 0.4), ("w0", "w0[1:]", 0.4),
                                        ("base", "base[:3]", 0.2)) if n in self.names]
        if self.made:
            ways.append((f"first({r.choice(self.made[-4:])})" + ".detach()" * ("result as argument" in self.off), 0.8))
        return r.choices([w for w, _ in ways], [n for _, n in ways])[0]

    def call(self, name: str) -> None:
        r = self.r
        n = self.functions[name]
        args = [self.argument() for _ in range(n)]
        if n == 2 and self.chance(0.15):
            args[1] = args[0] if args[0][0] != "X" else args[1]
        text = f"{name}({', '.join(args)})"
        if self.chance(0.9):
            to = f"r{len(self.made) % 5}"
            self.made.append(to)
            text = f"{to} = {text}"
        if self.threads >= 0 and self.chance(0.05):
            text = r.choice(["with cr.no_grad(): ", "with cr.autocast('cpu', dtype=cr.bfloat16): ",
                             "with cr.inference_mode(): ", "with cr.enable_grad(): "]) + text
        self.add("act", f"call {self.family(name)}", text)
        if self.threads < 0:
            return
        if self.made and self.chance(0.25):
            at = self.made[-1]
            if self.chance(0.3):
                self.change()
            ways = [(f"back({at})", 6, "outside backward"), (f"back({at}, retain_graph=True)", 0.5, "outside backward"),
                    (f"first({at}).add_(1)", 1.0, "result written"), (f"first({at}).detach().mul_(2)", 1.0, "result written"),
                    (f"del {at}", 1, "result deleted"), (f"first({at}).sum().backward()", 0.7, "unused result"),
                    (f"first({at}).grad = None", 0.2, "result written"),
                    (f"first({at}).retain_grad(); back({at})", 0.5, "outside backward"),
                    (f"first({at}).register_hook(lambda g: g * 2); back({at})", 0.5, "outside backward")]
            ways = [w for w in ways if w[2] not in self.off]
            if "captured result" in self.off and name in self.captured | {"n0"}:
                ways = [w for w in ways if w[0].startswith(("back", "del"))]
            text, _, tag = r.choices(ways, [w[1] for w in ways])[0]
            self.add("act", tag, text)

    def family(self, name: str) -> str:
        return {"c": "module", "b": "method", "p": "opt.step", "n": "nested"}.get(name[0], "function")

    def change(self) -> None:
        r = self.r
        for _ in range(20):
            tag, needs, texts = r.choice(CHANGES)
            if tag in self.off or self.threads and (tag in PROCESS or self.threads < 0):
                continue
            later = {"hook removed": " hook = ", "optimizer restored": "saved = "}.get(tag)
            if later and not any(later in f" {line.text}" for line in self.lines if line.where == "act"):
                continue
            m, o = r_choice(r, self.modules), r_choice(r, self.optimizers)
            wanted = [x for x in needs.split(",") if x]
            if "m" in wanted and not m or "o" in wanted and not o:
                continue
            if any(x not in ("m", "o") and x not in self.names for x in wanted):
                continue
            text = r.choice(texts)
            if text != FORK:
                text = text.format(m=m, o=o, s=self.next_seed(), f=r.choice(["0.3", "0.05", "0.9", "0.6"]), k=r.randint(0, 3))
            if not self.suits(text):
                continue
            self.add("act", tag, text)
            return

    def suits(self, text: str) -> bool:
        """Does a module have the part that the text names?  Most changes without one would only raise."""
        if "M(" not in text or self.chance(0.02):
            return True
        m = text[text.index("M(") + 2 : text.index(",", text.index("M("))]
        part = text.split("'")[1] if "'" in text else ""
        has = next((line.text for line in self.lines if line.text.startswith(f"{m} = ")), "")
        inner = {"Layers()": "Linear Layers LayerNorm", "Scale": "Scale", "Rnn(": "Rnn", "Embed(": "Embed Embedding",
                 "Attention": "Multihead Linear", "Transformer": "Multihead Linear Norm Dropout"}
        return part in has or any(key in has and part in parts for key, parts in inner.items())

    def actions(self) -> None:
        r = self.r
        names = [*self.functions]
        main = names if len(names) < 3 else r.sample(names, 2)
        outside = "" if self.chance(0.5) else r.choice(
            [f"({self.source(self.mat(['X(%d)' % self.next_seed()], 1))}).square().mean().backward()"])
        needs = any(line.tag in ("step", "clip", "norms", "manual step", "compiled opt.step") for line in self.lines) and not any(
            line.tag == "backward" for line in self.lines)

        def rounds(n: int) -> None:
            for _ in range(n):
                if outside and (needs or self.chance(0.1)) and self.threads >= 0:
                    self.add("act", "backward between", re.sub(r"X\(\d+\)", f"X({self.next_seed()})", outside, count=1)
                             if "X(" in outside else outside)
                for name in main:
                    self.call(name)

        rounds(r.choice([2, 3, 3, 4]))
        for _ in range(r.randint(3, 7)):
            for _ in range(r.choices([0, 1, 2, 3], [1, 6, 2, 1])[0]):
                self.change()
            if self.chance(0.15):
                self.call(r.choice(names))
            rounds(r.choice([1, 1, 2, 3]))


def r_choice(r: random.Random, names: list[str]) -> str:
    return r.choice(names) if names else ""


def made(seed: int, off: set[str], threads: int = 0) -> tuple[list[Line], bool]:
    """The lines of a program, and whether sums of gradients may differ in their last bits."""
    maker = Maker(seed, off, threads)
    maker.setup()
    if maker.chance(0.9):
        maker.add("setup", "helper", "helper = lambda x: x * 2")
    for i in range(maker.r.choices([1, 2, 3], [5, 4, 1])[0]):
        maker.function(i)
    maker.more_functions()
    maker.actions()
    return maker.lines, loose(maker.lines)


def loose(lines: list[Line]) -> bool:
    """Is a result's backward pass outside?  A gradient may then be a sum in another order."""
    return any(line.tag in ("outside backward", "unused result") or ".backward()" in line.text and line.where == "act"
               or line.tag == "compiled in compiled" or line.tag in ("compiled module",) for line in lines)


FEATURES = {
    "checkpoint": r"checkpoint\(", "autocast": r"autocast", "autograd.grad": r"autograd\.grad", "random": r"dropout|rand",
    "no_grad": r"no_grad", "inference": r"inference", "other strides": r"X\([^)]*\)\.t\(\)|::2|expand", "empty": r", 0, 6\)",
    "other rows": r", 7, 6\)", "argument requires grad": r"X\([^)]*\)\.requires_grad_|\(a1", "result as argument": r"\(first\(",
    "double": r"double", "returns .grad": r"return.*\.grad", "returns .data": r"return.*\.data", "closure": r"step\(again",
    "captured argument": r"\((t0|w0)", "create_graph": "create_graph", "retain_graph": "retain_graph", "index": r"\[i0\]",
    "returns x": r"return.*\bx\b", "returns moments": r"return.*moments", "writes x": r"^x\S*_\(", "generator": r"generator=",
}


def features(line: Line) -> set[str]:
    """What is special in the text of a function or a call."""
    if line.where in ("setup", "late") or line.where == "act" and not line.tag.startswith("call "):
        return set()
    return {name for name, pattern in FEATURES.items() if re.search(pattern, line.text)}


__all__ = ["DECLARED", "Line", "features", "loose", "made", "rendered", "replace"]
