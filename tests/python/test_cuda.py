"""Two NVIDIA GPUs, simulated (tests/cudasim), as a script sees them: which there are, operands on
two devices, errors.  In a process of its own, for what a process opens as its GPUs is settled
once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from conftest import BUILD

SIMULATOR = BUILD / "cudasim"


def run(script: str, **environment: str) -> str:
    if not (SIMULATOR / "libcuda.so.1").exists():
        pytest.skip("the simulated GPU needs Linux on x86-64 or aarch64 and a C++ compiler")
    libraries = {"CUDA": "libcuda.so.1", "NVRTC": "libnvrtc.so.13", "CUBLASLT": "libcublasLt.so.13", "CACHE": "cache"}
    libraries["CUSOLVER"] = "libcusolver.so.12"
    switches = {f"CHAINRULE_{name}": str(SIMULATOR / file) for name, file in libraries.items()}
    env = {
        **os.environ,
        **switches,
        "CHAINRULE_WGPU": "off",
        "CUDASIM_DEVICES": "2",
        "CUDASIM_QUIET": "1",
        "PYTHONPATH": str(BUILD / "python"),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", "import chainrule as cr\n" + textwrap.dedent(script)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_devices() -> None:
    said = run(
        """
        print(cr.cuda.is_available(), cr.cuda.device_count(), cr.Device.cuda(1), cr.Device("cuda").is_cuda())
        for wrong in (lambda: cr.Device.cuda(99), lambda: cr.ones(2, device="cuda:2"), lambda:
        cr.Device.cuda(-1), lambda: cr.Device("cuda:x")):
            try:
                wrong()
            except ValueError as problem:
                print(problem)
        """
    )
    assert said.splitlines() == [
        "True 2 cuda:1 True",
        "[cuda] device 99 does not exist: 2 devices found",
        "[cuda] device 2 does not exist: 2 devices found",
        "[cuda] device -1 does not exist: 2 devices found",
        "[cuda] device x does not exist: 2 devices found",
    ]


@pytest.mark.parametrize(
    ("switch", "value", "message"),
    [
        ("CHAINRULE_CUDA", "off", "CHAINRULE_CUDA=off"),
        ("CHAINRULE_CUDA", "/nowhere.so", "CHAINRULE_CUDA=/nowhere.so cannot be opened"),
        ("CUDASIM_DRIVER", "11080", "the NVIDIA driver is too old: it knows CUDA 11.8, 12.0 is needed"),
        ("CUDASIM_DEVICES", "0", "the NVIDIA driver sees no device"),
        ("CHAINRULE_NVRTC", "off", "Simulated GPU cannot be used: CHAINRULE_NVRTC=off"),
    ],
)
def test_something_is_missing(switch: str, value: str, message: str) -> None:
    script = """
    try:
        cr.ones(2, device="cuda")
    except RuntimeError as problem:
        print(problem)
    print(cr.ones(2).sum().item())
    """
    said = run(script, **{switch: value}).splitlines()
    assert message in said[0] and said[1] == "2.0"


@pytest.mark.parametrize("solver", ["", "off"])
def test_linear_algebra(solver: str) -> None:
    """The host's promises on a GPU, for matrices of own kernels and of cuSOLVER, or of the host without that: errors
    name the matrix of the batch, gradients, compiled steps."""
    run(
        """
        linalg = cr.linalg
        for n in (8, 40):
            cr.manual_seed(1)
            x = cr.randn(3, n, n, dtype=cr.float64)
            a = x @ x.mT + cr.eye(n, dtype=cr.float64)
            bad, flat = a.clone(), a.clone()
            bad[2, 5, 5] = -1
            flat[1, :, 3] = 0
            odd = a.clone()
            odd[1, 4, 3] = float("nan")
            for call, where in (
                (lambda: linalg.cholesky(bad.to("cuda")), "matrix (2,) of the batch is not positive-definite: its"
                    " leading minor of order 6 is not"),
                (lambda: linalg.solve(flat.to("cuda"), x.to("cuda")), "matrix (1,) of the batch is singular: pivot 4"),
                (lambda: linalg.eigh(odd.to("cuda")), "matrix (1,) of the batch"),
                (lambda: linalg.svd(odd.to("cuda")), "matrix (1,) of the batch"),
            ):
                try:
                    call()
                    raise SystemExit(f"{n}: nothing is said: {where}")
                except linalg.LinAlgError as problem:
                    assert where in str(problem), str(problem)

            def loss(a, x):
                return (linalg.solve_ex(a, x)[0].square().sum() + linalg.cholesky_ex(a)[0].sum()
                        + linalg.lu_factor_ex(a)[0].square().mean())
            results = []
            gradients = cr.func.grad(loss, (0, 1))
            for device in ("cpu", "cuda"):
                p, q = a.to(device), x.to(device)
                for f in (gradients, cr.compile(gradients)):
                    for _ in range(3):
                        results.append([y.to("cpu") for y in f(p, q)])
            for other in results[1:]:
                for got, want in zip(other, results[0]):
                    assert ((got - want).abs().max() / want.abs().max()).item() < 1e-10
            assert (linalg.pinv(x.to("cuda")).to("cpu") - linalg.inv(x)).abs().max() < 1e-8
        """,
        **({"CHAINRULE_CUSOLVER": solver} if solver else {}),
    )


def test_generation_replays() -> None:
    said = run(
        """
        from chainrule.models import GPT, Llama, generation
        cr.manual_seed(0)
        for model in (GPT(65, 64, 2, 4, 32), Llama(50, 64, 2, 4, 32, 48, 2, window=9)):
            text = model.generate([1, 2, 3], 80, 0)
            assert model.to("cuda").generate([1, 2, 3], 80, 0) == text
            print(generation.step_of(model).lacks() or "replays")
        """
    )
    assert said.split() == ["replays", "replays"]


def test_two_devices_in_an_operation() -> None:
    run(
        """
        places = ("cpu", "cuda:0", "cuda:1")
        numbers = [[3.0, 1, 4], [1, 5, 9], [2, 6, 5]]
        ops = {
            "add": lambda x, y: x + y, "iadd": lambda x, y: x.clone().add_(y), "matmul": lambda x,
            y: x @ y, "cat": lambda x, y: cr.cat([x, y]),
            "where": lambda x, y: cr.where(x > 2, x, y), "index": lambda x, y: x[(y[0] % 3).long()],
            "mask": lambda x, y: x.masked_fill(y > 2, 7),
            "linear": lambda x, y: cr.nn.functional.linear(x, x, y[0]), "loss": lambda x, y:
            cr.nn.functional.mse_loss(x, y),
            "compare": lambda x, y: x == y,
        }
        for one in places:
            for two in places:
                x, y = cr.tensor(numbers, device=one), cr.tensor(numbers, device=two)
                for name, op in ops.items():
                    if one != two:
                        try:
                            op(x, y)
                            raise SystemExit(f"{name} of {one} and {two} says nothing")
                        except ValueError as problem:
                            assert f"operands on two devices, {one} and {two}: " in str(problem), (name, str(problem))
                    with cr.auto_transfer(True):
                        moved = op(x, y)
                    assert str(moved.device) == one and (moved == op(x, x)).all().item(), (name, one, two)
                assert (x + cr.tensor(2.0).item()).sum().item() == 54 and (x * 2).sum().item() == 72
        """
    )


def test_out_of_memory() -> None:
    said = run(
        """
        x = cr.ones(1000, device="cuda")
        try:
            cr.ones(1 << 26, device="cuda")
        except cr.OutOfMemoryError as problem:
            print(problem)
        print((x + x).sum().item(), cr.cuda.memory_allocated() > 0)
        try:
            cr.cuda.memory_allocated("cpu")
        except ValueError as problem:
            print(problem)
        """,
        CHAINRULE_GPU_MEMORY="64",
    ).splitlines()
    assert "cuda:0 is out of memory: asked for 256.0 MiB" in said[0] and said[1:] == [
        "2000.0 True",
        "expected a CUDA device, not cpu",
    ]


def test_offload() -> None:
    said = run(
        """
        def train(device, **how):
            cr.manual_seed(0)
            w = cr.randn(50, 40).to(device).requires_grad_()
            x = cr.randn(9, 50).to(device)
            optimizer = cr.optim.AdamW([w], lr=1e-2, amsgrad=True, **how)
            losses = []
            for _ in range(4):
                optimizer.zero_grad()
                loss = (x @ w).square().mean()
                loss.backward()
                before = cr.memory_stats(device)[0]
                optimizer.step()
                losses.append(loss.item())
                if len(losses) == 1:
                    made = cr.memory_stats(device)[0] - before
            optimizer.load_state_dict(optimizer.state_dict())
            moments = [optimizer.state[w][name] for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")]
            assert all(str(m.device).startswith(device) for m in moments)
            return losses, w.tolist(), [m.tolist() for m in moments], made

        for device in ("cuda", "cpu"):
            *plain, made = train(device)
            *offloaded, less = train(device, offload=True)
            assert plain == offloaded and plain[0][3] < plain[0][0]
            print(device, made >= 3 * 4 * 50 * 40, less >= 3 * 4 * 50 * 40)
        """
    )
    assert said.splitlines() == ["cuda True False", "cpu True True"]
