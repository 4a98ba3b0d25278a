"""Random programs for the fuzzer of compiled steps (fuzz_compile.py): what people write around ``compile``.

A program is a list of lines, each with a tag that names its kind; any of them may be left out.  Its setup makes
modules, tensors and optimizers, its functions work on them, and its actions call the functions and change
everything in between.  fuzz_tables.py has the words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container
from dataclasses import dataclass

from fuzz_reads import MODULE_READS, READS
from fuzz_tables import CHANGES, FEATURES, MODULES, OPTIMIZERS, PROCESS, REBIND, RESULTS, TENSORS, WRITES
from fuzz_world import FORK, Program


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


def features(line: Line) -> set[str]:
    """What is special in the text of a function or a call."""
    if line.where in ("setup", "late") or line.where == "act" and not line.tag.startswith("call "):
        return set()
    return {name for name, pattern in FEATURES.items() if re.search(pattern, line.text)}


class Maker:
    """Makes one program."""

    def __init__(self, seed: int, off: set[str], threads: int = 0) -> None:
        self.r = random.Random(seed)
        self.off, self.threads = off, threads
        self.calm = self.r.random() < 0.5  # equal calls with one change between them: most are replays
        self.lines: list[Line] = []
        self.names: set[str] = set()  # tensors that exist
        self.modules: list[str] = []
        self.optimizers: list[str] = []
        self.functions: dict[str, int] = {}  # name -> parameters
        self.made: list[str] = []  # results
        self.seed = 200
        self.reads: list[tuple[str, str, list[str], list[str]]] = []  # what functions read from Python
        self.nested: set[str] = set()  # functions whose argument is a nest
        self.numbered: set[str] = set()  # functions with a number as last argument
        self.captured: set[str] = set()  # functions that return a tensor which they did not make

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def pick(self, table: list[tuple[str, int]]) -> str:
        return self.r.choices([x for x, _ in table], [n for _, n in table])[0]

    def add(self, where: str, tag: str, text: str) -> None:
        if tag not in self.off:
            self.lines.append(Line(where, tag, text))

    def has(self, needs: str) -> bool:
        """Are these names there?  m and o: a module, an optimizer."""
        have = self.names | ({"m"} if self.modules else set()) | ({"o"} if self.optimizers else set())
        return all(x in have for x in needs.split(",") if x)

    def next_seed(self) -> int:
        self.seed += 1
        return self.seed

    # ---- setup ----

    def setup(self) -> None:
        r = self.r
        if self.chance(0.2):  # sizes that other kernels, tiles and loops are for
            self.add("setup", "rows", f"N = {r.choice([1, 67, 400])}")
        for name in r.sample(sorted(TENSORS), r.randint(2, 6)):
            self.names.add(name)
        if self.chance(0.5):
            self.names.add("w0")
        for i in range(r.choices([0, 1, 2], [1, 6, 2])[0]):
            text = self.pick(MODULES)
            while self.threads and any(
                x in text
                for x in (
                    "Dropout",
                    "Attention",
                    "Transformer",
                    *["Scale", "BatchNorm", "InstanceNorm", "max_norm", "spectral"] * (self.threads < 0),
                )
            ):
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
                groups = [*leaves] or [f"*{m}.parameters()" for m in self.modules]
            self.add("setup", "optimizer", f"o{i} = " + self.pick(OPTIMIZERS).format(p=f"[{', '.join(groups)}]"))
            self.optimizers.append(f"o{i}")
        if self.optimizers and self.chance(0.4):
            self.names.add("scaler")
            self.add("setup", "scaler", "scaler = cr.amp.GradScaler('cpu', init_scale=16.0, growth_interval=2)")
        if self.optimizers and self.chance(0.2):
            self.add("setup", "scheduler", f"sched = cr.optim.lr_scheduler.StepLR({self.optimizers[0]}, 1, 0.5)")
        if self.chance(0.15) and self.modules:
            self.add("setup", "ema", f"ema = copy.deepcopy({self.modules[0]})")
            self.names.add("ema")
        if self.modules:
            self.add("setup", "stop", f"{self.modules[0]}.stop = False")
        self.add(
            "setup",
            "name",
            "name = 'k'\ndef kraises():\n    try:\n        return kt['k']\n    except KeyError:\n        return 1.5",
        )

    # ---- expressions; a matrix has 6 columns ----

    def mat(self, local: list[str], depth: int = 2) -> str:
        r = self.r
        if depth == 0 or self.chance(0.2):
            return r.choice(local)
        a = self.mat(local, depth - 1)
        ways: list[tuple[Callable[[], str], float]] = [
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
            (lambda: f"Tripled.apply({a})", 0.3),
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
        ways += [
            v
            for n, v in (
                ("w1", "w1"),
                ("base", "v0"),
                ("base", "v1[0]"),
                ("base", "base[1]"),
                ("z0", "z0"),
                ("d0", "d0.float()"),
                ("ls", "ls[0]"),
                ("ls", "ls[1]"),
                ("dc", "dc['a']"),
                ("w0", "w0[0]"),
                ("w0", "w0.diagonal()"),
            )
            if n in self.names
        ] * 2
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
        ways = [f"{m}({a})" for m in self.modules]
        ways += [t for n, t in (("w0", f"{a} @ w0"), ("w1", f"{a} * w1")) if n in self.names]
        return self.r.choice(ways) if ways else a

    def loss(self, local: list[str]) -> str:
        a = self.source(self.mat(local))
        return self.r.choice(
            [
                f"({a}).square().mean()",
                f"({a}).abs().sum()",
                f"F.mse_loss({a}, {local[0]})",
                f"F.cross_entropy({a}, tg)" if "tg" in self.names else f"({a}).mean()",
            ]
        )

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
            written = [(text, n) for needs, text, n in WRITES if self.has(needs)]
            options = [t.format(h=local[-1], m=m) for t, n in written for _ in range(n)]
            text = r.choice(options)
            self.add(name, "data bound" if ".data =" in text else "write", text)
        elif kind == "attribute" and m:
            options = [
                f"{m}.kept = {local[-1]}",
                f"{m}.calls = getattr({m}, 'calls', 0) + 1",
                f"M({m}, 'Scale').scale *= 0.9",
                f"M({m}, 'Scale').plain = M({m}, 'Scale').plain * 0.9",
                f"M({m}, 'Scale').ts[0] = M({m}, 'Scale').ts[0] * 0.9",
                f"{m}.train(not {m}.training)",
            ]
            self.add(name, "attribute written", r.choice([x for x in options if self.suits(x)]))
        elif kind == "zero":
            options = (
                [
                    f"{m}.zero_grad()",
                    f"{m}.zero_grad(set_to_none=False)",
                    f"for p in {self.parameters()}:\n    p.grad = None",
                ]
                if m
                else []
            )
            options += [f"{o}.zero_grad()"] * 4 + [f"{o}.zero_grad(set_to_none=False)"] * 2 if o else []
            options += ["w0.grad = None"] if "w0" in self.names else []
            if options:
                self.add(name, "zero_grad", r.choice(options))
        elif kind == "backward":
            loss = self.loss(local)
            ways: list[tuple[str, float]] = [
                (f"loss = {loss}\nloss.backward()", 8),
                (f"loss = {loss}\nloss.backward(retain_graph=True)\nloss.backward()", 0.4),
                (
                    f"loss = {loss}\nscaler.scale(loss).backward()\nscaler.step({o})\nscaler.update()",
                    0.5 * (bool(o) and "scaler" in self.names),
                ),
                (
                    f"loss = {loss}\nfor p, g in zip({self.parameters()}, cr.autograd.grad(loss,"
                    f" {self.parameters()}, allow_unused=True)):\n    p.grad = g",
                    0.7,
                ),
                (f"with cr.autocast('cpu', dtype=cr.bfloat16):\n    loss = {loss}\nloss.backward()", 0.6),
                (
                    f"loss = {loss}\ngs = cr.autograd.grad(loss, {self.parameters()}, create_graph=True,"
                    " allow_unused=True)\nsum(g.square().sum() for g in gs if g is not None).backward()",
                    0.4,
                ),
            ]
            self.add(name, "backward", r.choices([w for w, _ in ways], [n for _, n in ways])[0])
        elif kind == "clip":
            ps = self.parameters()
            self.add(
                name,
                "clip",
                r.choice(
                    [
                        f"norm = nn.utils.clip_grad_norm_({ps}, 0.5)",
                        f"nn.utils.clip_grad_value_({ps}, 0.01)",
                        f"norm = nn.utils.get_total_norm([p.grad for p in {ps} if p.grad is not None])",
                        f"for p in {ps}:\n    if p.grad is not None: p.grad.mul_(0.5)",
                        f"for p in {ps}:\n    if p.grad is not None: p.grad = p.grad * 0.5",
                        f"for p in {ps}:\n    p.grad = None if p.grad is None else p.grad.clamp(-0.1, 0.1)",
                    ]
                ),
            )
        elif kind == "step" and o:
            lbfgs = any(line.text.startswith(f"{o} = ") and "LBFGS" in line.text for line in self.lines)
            self.add(
                name,
                "step",
                r.choice(
                    [f"{o}.step()"] * 6 * (not lbfgs)
                    + [
                        f"def again():\n    {o}.zero_grad()\n    y = {self.loss(local)}\n    y.backward()\n"
                        f"    return y\n{o}.step(again)"
                    ]
                ),
            )
        elif kind == "manual":
            ps = self.parameters()
            text = r.choice(
                [
                    f"with cr.no_grad():\n    for p in {ps}:\n        if p.grad is not None: p.sub_(p.grad, alpha=0.1)",
                    f"with cr.no_grad():\n    for p in {ps}:\n        if p.grad is not None: p -= 0.1 * p.grad",
                    f"for p in {ps}:\n    if p.grad is not None: p.data.add_(p.grad, alpha=-0.1)",
                    f"for p in {ps}:\n    if p.grad is not None: p.data = p.data - 0.1 * p.grad",
                ]
            )
            self.add(name, "manual step by data" if ".data =" in text else "manual step", text)
        elif kind == "norms":
            ps = self.parameters()
            self.add(name, "norms", f"norm = sum(p.grad.square().sum() for p in {ps} if p.grad is not None)")
        elif kind == "read":
            if self.chance(0.25) and (m or o):
                needs, text = r.choice([x for x in MODULE_READS if self.has(x[0])])
                self.add(name, "reads of a module", f"{local[-1]} = {local[-1]} * ({text.format(m=m, o=o)})")
            else:
                known = r.choice(READS)
                self.read(known)
                new = f"h{len(local)}"
                self.add(name, f"reads {known[0]}", f"{new} = {local[-1]} * ({r.choice(known[2])})")
                local.append(new)
        elif kind == "inside":
            h = local[-1]
            self.add(
                name,
                "hook inside",
                r.choice(
                    [
                        f"if {h}.requires_grad: {h}.register_hook(lambda g: g * 2)",
                        f"if {h}.requires_grad: {h}.retain_grad()",
                    ]
                ),
            )
        elif kind == "raise":
            self.add(
                name,
                "raise",
                r.choice(
                    ["if len(x) == 7: raise ValueError('seven rows')", "x[:, 5].sum(); x[5 if len(x) == 7 else 0]"]
                ),
            )

    def read(self, known: tuple[str, str, list[str], list[str]]) -> None:
        """The setup of what a function reads, and its changes from now on."""
        if known not in self.reads:
            self.reads.append(known)
            if known[1]:
                self.add("setup", f"setup of {known[0]}", known[1])

    def result(self, name: str, local: list[str], extra: list[str]) -> str:
        r = self.r
        one = [local[-1]] * 3 + [text.format(h=local[-1]) for needs, text in RESULTS if self.has(needs)]
        body = [line for line in self.lines if line.where == name]
        if "result graph" in self.off and any(
            re.search(r"backward|step\(again|autograd.grad", line.text) for line in body
        ):
            one = [f"{x}.detach()" if x.split(".")[0].split("[")[0] in local and "max" not in x else x for x in one]
            extra = [x if x == "norm" else "loss.detach()" for x in extra]
        one += extra * 3
        for m in self.modules:
            one += [f"Q({m})", f"Q({m}).detach()", f"[*{m}.buffers()]", f"Q({m}).grad"]
        for o in self.optimizers:
            one += [
                f"[t for t in moments({o}).values() if isinstance(t, cr.Tensor)]",
                f"[t * 1 for t in moments({o}).values() if isinstance(t, cr.Tensor)]",
            ]
        a, b = r.choice(one), r.choice(one)
        fresh = [*local[len([x for x in local if x in "xy"]) :], *extra, "cr.ones(3)", "None"]
        if any(x not in fresh and "*" not in x and "square" not in x and "sum" not in x for x in (a, b)):
            self.captured.add(name)
        if "outside grad" in self.off and ".grad" in a + b:
            a, b = a.replace(".grad", ""), b.replace(".grad", "")
        return r.choices(
            [
                f"return {a}",
                f"return {a}, {b}",
                f"return {{'a': {a}, 'b': [{b}, None, 3]}}",
                f"return {a}, {a}",
                "pass",
            ],
            [6, 3, 1, 0.5, 1],
        )[0]

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
        extra = ""
        if self.chance(0.1):
            self.numbered.add(name)
            extra = ", k=1"
        self.add(name, "def", f"{decorator}def {name}({', '.join(local)}{extra}):")
        if self.chance(0.06):
            self.nested.add(name)
            self.add(name, "nest", "x = x['x'][0]")
        if extra:
            local.append("(x * k)")
        plans = {
            "train": ["value"] * r.randint(0, 1)
            + ["backward"]
            + ["clip"] * self.chance(0.25)
            + ["step" if self.optimizers and self.chance(0.85) else "manual"],
            "forward": ["value"] * r.randint(1, 3),
            "step": ["clip"] * self.chance(0.3) + ["step"],
            "clip": ["clip"],
            "norms": ["norms"],
            "manual": ["manual"],
            "writes": ["write"] * r.randint(1, 3),
            "mixed": [
                r.choice(["value", "write", "backward", "clip", "step", "manual", "zero", "norms"])
                for _ in range(r.randint(2, 6))
            ],
        }[kind]
        if kind == "train":
            plans = ["zero", *plans] if self.chance(0.4) else [*plans, "zero"] if self.chance(0.8) else plans
        reads = {"step", "clip", "norms", "manual"}
        if "outside grad" in self.off and reads & set(plans):
            plans.insert(0, "backward")
        if self.threads >= 0:
            for extra in ("write", "attribute", "raise", "value", "inside", "read", "read", "read"):
                if self.chance(0.1) and not (extra == "attribute" and "attribute written" in self.off):
                    plans.insert(r.randint(0, len(plans)), extra)
        if self.chance(0.08) and self.modules:
            self.add(name, "stop", f"if {self.modules[0]}.stop: raise ValueError('stopped')")
        for what in plans:
            self.statement(name, local, what)
        texts = " ".join(line.text for line in self.lines if line.where == name)
        extra_results = ["loss", "loss.detach()"] * ("loss =" in texts) + ["norm"] * ("norm =" in texts)
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
        if any("Shared()" in line.text for line in self.lines) and self.chance(0.7):
            self.add("setup", "compiled class", "Shared.forward = compile(Shared.forward)")
        if self.modules and self.optimizers and self.chance(0.1) and self.threads >= 0:
            self.add("late", "trainer", f"trainer = Trainer({r.choice(self.modules)}, {r.choice(self.optimizers)})")
            for name, method in ("t0", "step"), ("t1", "evaluate"):
                self.functions[name.replace("t", "q")] = 1
                self.add("late", "compiled trainer", f"{name.replace('t', 'q')} = compile(trainer.{method})")
        if self.chance(0.06) and "f0" in self.functions:
            n = self.functions["f0"]
            names = ["x", "y"][:n]
            self.nested |= {"n0"} if "f0" in self.nested else set()
            self.functions["n0"] = n
            self.add(
                "late",
                "compiled in compiled",
                f"@compile\ndef n0({', '.join(names)}):\n    r = f0({', '.join(names)})\n    return r, cr.ones(2) * 3",
            )

    # ---- actions ----

    def argument(self) -> str:
        r, s = self.r, self.next_seed()
        if self.calm and self.chance(0.95):
            return f"X({s})"
        ways = [
            (f"X({s})", 12.0),
            (f"X({s}, 6, 5).t()", 0.4),
            (f"X({s}, 7, 6)", 0.5),
            (f"X({s}).requires_grad_()", 0.8),
            (f"X({s}, 1, 6).expand(5, 6)", 0.3),
            (f"X({s}, 7, 6)[2:]", 0.3),
            (f"X({s}, 5, 12)[:, ::2]", 0.3),
            (f"X({s}).double()", 0.2),
            (f"X({s}, 0, 6)", 0.15),
            (f"X({s}) * float('nan')", 0.1),
        ]
        ways += [
            (t, w)
            for n, t, w in (
                ("a0", "a0", 4.0),
                ("a0", "a0[:]", 0.7),
                ("a1", "a1", 2.0),
                ("t0", "t0", 0.7),
                ("t0", "t0[:]", 0.3),
                ("w0", "w0.detach()[:5]", 0.4),
                ("w0", "w0[1:]", 0.4),
                ("base", "base[:3]", 0.2),
            )
            if n in self.names
        ]
        if self.made:
            ways.append((f"first({r.choice(self.made[-4:])})" + ".detach()" * ("result as argument" in self.off), 0.8))
        return r.choices([w for w, _ in ways], [n for _, n in ways])[0]

    def call(self, name: str) -> None:
        r = self.r
        n = self.functions[name]
        args = [self.argument() for _ in range(n)]
        if n == 2 and self.chance(0.15):
            args[1] = args[0] if args[0][0] != "X" else args[1]
        if name in self.nested:
            args[0] = r.choice([f"{{'x': [{args[0]}]}}"] * 4 + [f"{{'x': [{args[0]}], 'k': 2}}"])
        if name in self.numbered:
            args.append(r.choice(["1", "1", "1", "2", "0.5", "True", "k=1", "k=3", "cr.tensor(2.0)"]))
        text = f"{name}({', '.join(args)})"
        if self.chance(0.02):
            text = f"often({name}, {', '.join(args)})"
        if self.chance(0.9):
            to = f"r{len(self.made) % 5}"
            self.made.append(to)
            text = f"{to} = {text}"
        if self.threads >= 0 and self.chance(0.05):
            text = (
                r.choice(
                    [
                        "with cr.no_grad(): ",
                        "with cr.autocast('cpu', dtype=cr.bfloat16): ",
                        "with cr.inference_mode(): ",
                        "with cr.enable_grad(): ",
                    ]
                )
                + text
            )
        self.add("act", f"call {self.family(name)}", text)
        if self.threads < 0:
            return
        if self.made and self.chance(0.25):
            at = self.made[-1]
            if self.chance(0.3):
                self.change(REBIND)
            ways = [
                (f"back({at})", 6, "outside backward"),
                (f"back({at}, retain_graph=True)", 0.5, "outside backward"),
                (f"first({at}).add_(1)", 1.0, "result written"),
                (f"first({at}).detach().mul_(2)", 1.0, "result written"),
                (f"del {at}", 1, "result deleted"),
                (f"first({at}).sum().backward()", 0.7, "unused result"),
                (f"first({at}).grad = None", 0.2, "result written"),
                (f"first({at}).retain_grad(); back({at})", 0.5, "outside backward"),
                (f"first({at}).register_hook(lambda g: g * 2); back({at})", 0.5, "outside backward"),
            ]
            ways = [w for w in ways if w[2] not in self.off]
            if "captured result" in self.off and name in self.captured | {"n0"}:
                ways = [w for w in ways if w[0].startswith(("back", "del"))]
            text, _, tag = r.choices(ways, [w[1] for w in ways])[0]
            self.add("act", tag, text)

    def family(self, name: str) -> str:
        return {"c": "module", "b": "method", "p": "opt.step", "n": "nested", "q": "trainer"}.get(name[0], "function")

    def change(self, never: Container[str] = ()) -> None:
        r = self.r
        changes = [(f"change of {name}", text) for name, _, _, texts in self.reads for text in texts]
        if changes and self.chance(0.5) and self.threads >= 0:
            tag, text = r.choice(changes)
            if not (self.threads and tag in ("change of clock", "change of the process", "change of module")):
                self.add("act", tag, text)
                return
        for _ in range(20):
            tag, needs, texts = r.choice(CHANGES)
            if self.calm and tag in PROCESS:
                continue
            if tag in self.off or tag in never or self.threads and (tag in PROCESS or self.threads < 0):
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
                text = text.format(
                    m=m, o=o, s=self.next_seed(), f=r.choice(["0.3", "0.05", "0.9", "0.6"]), k=r.randint(0, 3)
                )
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
        inner = {
            "Layers()": "Linear Layers LayerNorm",
            "Scale": "Scale",
            "Rnn(": "Rnn",
            "Embed(": "Embed Embedding",
            "Attention": "Multihead Linear",
            "Transformer": "Multihead Linear Norm Dropout",
        }
        return part in has or any(key in has and part in parts for key, parts in inner.items())

    def actions(self) -> None:
        r = self.r
        names = [*self.functions]
        main = names if len(names) < 3 else r.sample(names, 2)
        outside = (
            ""
            if self.chance(0.5)
            else r.choice([f"({self.source(self.mat([f'X({self.next_seed()})'], 1))}).square().mean().backward()"])
        )
        tags = {line.tag for line in self.lines}
        needs = "backward" not in tags and tags & {"step", "clip", "norms", "manual step", "compiled opt.step"}

        def rounds(n: int) -> None:
            for _ in range(n):
                if outside and (needs or self.chance(0.1)) and self.threads >= 0:
                    self.add(
                        "act",
                        "backward between",
                        re.sub(r"X\(\d+\)", f"X({self.next_seed()})", outside, count=1) if "X(" in outside else outside,
                    )
                for name in main:
                    self.call(name)

        rounds(r.choice([2, 3, 3, 4]))
        if self.calm:
            for _ in range(r.randint(4, 8)):
                self.change()
                rounds(2)
            return
        for _ in range(r.randint(3, 7)):
            for _ in range(r.choices([0, 1, 2, 3], [1, 6, 2, 1])[0]):
                self.change()
            if any(line.tag == "scheduler" for line in self.lines) and self.chance(0.3):
                self.add("act", "scheduler", "sched.step()")
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
    return any(
        line.tag in ("outside backward", "unused result")
        or ".backward()" in line.text
        and line.where == "act"
        or line.tag == "compiled in compiled"
        or line.tag in ("compiled module",)
        for line in lines
    )
