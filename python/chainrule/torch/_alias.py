"""Import hooks: modules that only forward to others, ``torch`` as a name of ``chainrule.torch``, and einops."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ._advice import PACKAGE, message
from ._names import forward, listed
from .version import __version__

# Modules without a file: their names are those of another module of this package.
FORWARDS = {
    "_tensor": "",
    "autograd.anomaly_mode": "autograd",
    "autograd.grad_mode": "autograd",
    "autograd.gradcheck": "autograd",
    "autograd.graph": "autograd",
    "autograd.variable": "autograd",
    "amp.autocast_mode": "amp",
    "amp.grad_scaler": "amp",
    "cuda.amp": "amp",
    "cuda.amp.autocast_mode": "amp",
    "cuda.amp.grad_scaler": "amp",
    "cuda.amp.common": "amp",
    "cuda.memory": "cuda",
    "cuda.random": "cuda",
    "cuda.streams": "cuda",
    "distributed.constants": "distributed",
    "distributed.distributed_c10d": "distributed",
    "distributions.distribution": "distributions",
    "distributions.kl": "distributions",
    "distributions.utils": "distributions",
    "functional": "",
    "multiprocessing.pool": "multiprocessing",
    "multiprocessing.queue": "multiprocessing",
    "multiprocessing.reductions": "multiprocessing",
    "multiprocessing.spawn": "multiprocessing",
    "nn.grad": "nn.functional",
    "nn.modules": "nn",
    "nn.parallel.data_parallel": "nn.parallel",
    "nn.parallel.distributed": "nn.parallel",
    "nn.modules.utils": "nn._tuples",
    "nn.parameter": "nn",
    "nn.utils.clip_grad": "nn.utils",
    "nn.utils.convert_parameters": "nn.utils",
    "nn.utils.fusion": "nn.utils",
    "optim.optimizer": "optim",
    "tensor": "",
    "torch_version": "version",
    "types": "",
    "utils.data._utils": "utils.data",
    "utils.data._utils.collate": "utils.data",
    "utils.data._utils.worker": "utils.data",
    "utils.data.dataloader": "utils.data",
    "utils.data.dataset": "utils.data",
    "utils.data.distributed": "utils.data",
    "utils.data.sampler": "utils.data",
    "utils.dlpack": "",
    "utils.tensorboard.summary": "utils.tensorboard",
    "utils.tensorboard.writer": "utils.tensorboard",
}
MODULES = """activation adaptive batchnorm channelshuffle container conv distance dropout embedding flatten fold
instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse transformer
upsampling""".split()
FORWARDS |= {f"nn.modules.{name}": "nn" for name in MODULES}
FORWARDS |= {
    f"distributions.{name}": "distributions"
    for name in """bernoulli beta binomial categorical cauchy chi2 constraint_registry continuous_bernoulli dirichlet
    exp_family exponential fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy half_normal independent
    inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal
    mixture_same_family multinomial multivariate_normal negative_binomial normal one_hot_categorical pareto poisson
    relaxed_bernoulli relaxed_categorical studentT transformed_distribution transforms uniform von_mises weibull
    wishart""".split()
}
FORWARDS |= {
    f"optim.{name}": "optim"
    for name in """_adafactor _muon adadelta adagrad adam adamax adamw asgd lbfgs nadam radam rmsprop rprop sgd
    sparse_adam""".split()
}


class Forwarding:
    """Loads a module of FORWARDS, or one that exists for imports only: without a source."""

    def __init__(self, *sources: str) -> None:
        self.sources = sources

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = forward(module.__name__, *self.sources)
        inside = module.__name__.removeprefix(PACKAGE + ".") + "."
        if not self.sources or any(name.startswith(inside) for name in FORWARDS):
            module.__path__ = []  # a package


class Same:
    """Gives a module that has been imported under its own name; from now on it says PyTorch's."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__name__, module.__spec__ = module.__spec__.name, self.spec  # type: ignore[union-attr]
        if module.__name__.startswith("torchvision"):
            module.__dict__.setdefault("__getattr__", forward(module.__name__))
            module.__version__ = Alias.VERSIONS["torchvision"]  # type: ignore[attr-defined]


class Finder:
    """The modules of FORWARDS, and what happens after einops has been imported."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        inside = name.removeprefix(PACKAGE + ".")
        if inside != name and inside in FORWARDS:
            return ModuleSpec(name, Forwarding(f"{PACKAGE}.{FORWARDS[inside]}".rstrip(".")))  # type: ignore[arg-type]
        if inside != name and listed(f"torch.{inside}.*") and not PathFinder.find_spec(name, path):
            return ModuleSpec(name, Forwarding())  # type: ignore[arg-type]
        if name == "einops._backends":
            spec = PathFinder.find_spec(name, path)
            if spec and spec.loader:
                run = spec.loader.exec_module

                def and_register(module: ModuleType) -> None:
                    run(module)
                    register_einops(module)

                spec.loader.exec_module = and_register  # type: ignore[method-assign]
            return spec
        return None


class Alias:
    """``torch.x`` is ``chainrule.torch.x``, and ``torchvision.x`` is ``chainrule.vision.x``."""

    NAMES = {"torch": PACKAGE, "torchvision": "chainrule.vision"}
    VERSIONS = {"torch": __version__, "torchvision": "0.28.0"}  # those of PyTorch that belong together

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """What ``importlib.metadata`` says of torch and torchvision."""
        from importlib.metadata import Distribution

        class Named(Distribution):
            def __init__(self, name: str, version: str) -> None:
                self.texts = {
                    "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                    "top_level.txt": name,
                }

            def read_text(self, filename: str) -> str | None:
                return self.texts.get(filename)

            def locate_file(self, path: Any) -> Any:
                return path

        for name, version in self.VERSIONS.items():
            if context.name in (None, name):
                yield Named(name, version)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        first, _, rest = name.partition(".")
        if first not in self.NAMES:
            return None
        real = f"{self.NAMES[first]}.{rest}" if rest else self.NAMES[first]
        if first == "torchvision" and listed(f"{name}.*"):
            return ModuleSpec(name, Forwarding())  # type: ignore[arg-type]
        try:
            module = import_module(real)
        except ModuleNotFoundError as problem:
            if problem.name is None or not real.startswith(problem.name):
                raise
            if sys._getframe(1).f_globals.get("__name__") == "importlib.util":  # find_spec asks whether it is there
                return None
            said = (
                message(name)
                if first == "torch"
                else f"{name} is not in chainrule: read the data with NumPy, and build the model of torch.nn"
            )
            raise ModuleNotFoundError(said, name=name) from None
        return ModuleSpec(name, Same(module), is_package=hasattr(module, "__path__"))  # type: ignore[arg-type]


def install(finder: Any, first: bool = False) -> None:
    """Puts a finder into use, once."""
    if not any(type(known) is type(finder) for known in sys.meta_path):
        sys.meta_path.insert(0 if first else len(sys.meta_path), finder)


def install_finder() -> None:
    """What importing this package does."""
    install(Finder(), first=True)
    if "einops._backends" in sys.modules:
        register_einops(sys.modules["einops._backends"])


def install_alias() -> None:
    """Makes ``torch`` stand for ``chainrule.torch`` in this process from now on."""
    install(Alias(), first=True)


def register_einops(backends: Any) -> None:
    """Tells einops what chainrule's tensors can do; its list of backends is the classes of AbstractBackend."""
    import chainrule

    class ChainruleBackend(backends.AbstractBackend):  # type: ignore[misc]
        framework_name = "chainrule"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, chainrule.Tensor)

        def from_numpy(self, x: Any) -> Any:
            y = chainrule.from_numpy(x)
            return y.requires_grad_() if y.is_floating_point() else y

        def to_numpy(self, x: Any) -> Any:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Any:
            return chainrule.arange(start, stop)

        def reduce(self, x: Any, operation: str, reduced_axes: Sequence[int]) -> Any:
            axes = tuple(reduced_axes)
            if operation in ("min", "max"):
                return x.amin(axes) if operation == "min" else x.amax(axes)
            if operation in ("any", "all"):
                return getattr(x, operation)(dim=axes)
            return getattr(x, operation)(axes)

        def transpose(self, x: Any, axes: Sequence[int]) -> Any:
            return x.permute(axes)

        def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
            return chainrule.stack(tensors)

        def add_axis(self, x: Any, new_position: int) -> Any:
            return x.unsqueeze(new_position)

        def tile(self, x: Any, repeats: Sequence[int]) -> Any:
            return x.repeat(repeats)

        def add_axes(self, x: Any, n_axes: int, pos2len: dict[int, int]) -> Any:
            shape = [-1] * n_axes
            for position, length in pos2len.items():
                x = x.unsqueeze(position)
                shape[position] = length
            return x.expand(shape)

        def concat(self, tensors: Sequence[Any], axis: int) -> Any:
            return chainrule.cat(tensors, axis)

        def is_float_type(self, x: Any) -> bool:
            return bool(x.is_floating_point())

        def einsum(self, pattern: str, *x: Any) -> Any:
            return chainrule.einsum(pattern, *x)

        def layers(self) -> Any:
            raise NotImplementedError("einops.layers.torch works in scripts that `python -m chainrule.torch` runs")

    backends.ChainruleBackend = ChainruleBackend  # classes are found while something keeps them
