"""When a GPU pays: one kind of work over its size, on the cpu and on a GPU; milliseconds, least of
three loops, waiting once a loop.

use: gpu_curve.py matmul|elementwise|gpt [--device gpu] [--threads N] [--quick]

matmul: (N, N) by (N, N).  elementwise: gelu of N numbers.  gpt: a training step with AdamW of 2
layers N wide, on 8 windows of 64 tokens."""

import argparse
import json
import time
from collections.abc import Callable

import chainrule as cr

Run = Callable[[], object]


def matmul(n: int, device: cr.Device) -> Run:
    x, y = cr.randn(n, n, device=device), cr.randn(n, n, device=device)
    return lambda: x @ y


def elementwise(n: int, device: cr.Device) -> Run:
    x = cr.randn(n, device=device)
    return lambda: cr.nn.functional.gelu(x)


def gpt(n: int, device: cr.Device) -> Run:
    vocabulary, context, batch = 96, 64, 8
    model = cr.models.GPT(vocabulary, context, 2, 4, n, generator=cr.Generator().manual_seed(1), device=device)
    optimizer = cr.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = cr.tensor([i * i % vocabulary for i in range(batch * context)], device=device).view(batch, context)

    def step() -> None:
        optimizer.zero_grad()
        model.loss(tokens, tokens).backward()
        optimizer.step()

    return step


KINDS = {
    "matmul": (matmul, [32, 64, 128, 256, 512, 1024]),
    "elementwise": (elementwise, [10**3, 10**4, 10**5, 10**6, 10**7]),
    "gpt": (gpt, [16, 32, 64, 128, 256]),
}


def milliseconds(run: Run, device: cr.Device, room: float) -> float:
    def loop(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            run()
        cr.synchronize(device)
        return (time.perf_counter() - start) / times

    loop(3)  # kernels are compiled, memory is taken
    times = max(1, min(1000, int(room / loop(1))))
    return 1e3 * min(loop(times) for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description="One kind of work over its size, on the cpu and on a GPU.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    make, sizes = KINDS[o.kind]
    devices = {"cpu": cr.Device("cpu"), "gpu": cr.Device(o.device)}
    rows = [
        {
            "size": size,
            **{
                f"{name}_ms": milliseconds(make(size, device), device, 0.05 if o.quick else 0.2)
                for name, device in devices.items()
            },
        }
        for size in (sizes[:-1] if o.quick else sizes)
    ]
    print(json.dumps({"device": str(devices["gpu"]), "rows": rows}))


if __name__ == "__main__":
    main()
