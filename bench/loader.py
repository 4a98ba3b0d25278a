"""An epoch of DataLoader over small samples in one process, the same lines in each library;
seconds, least of several epochs.

use: loader.py chainrule|torch [--quick] [--threads 2]        prints JSON
"""

import argparse
import importlib
import json
import time
from typing import Any

SAMPLES, QUICK_SAMPLES, FEATURES, BATCH = 1_000_000, 100_000, 4, 64


def datasets(lib: Any, data: Any, n: int) -> dict[str, Any]:
    """A table of tensors, and a dataset as a user writes it, whose samples are fetched and put together one by one."""
    x, y = lib.randn(n, FEATURES), lib.arange(n)

    class Rows(data.Dataset):  # type: ignore[misc,name-defined]
        def __len__(self) -> int:
            return n

        def __getitem__(self, i: int) -> tuple[Any, int]:
            return x[i], i % 10

    return {"TensorDataset": data.TensorDataset(x, y), "Dataset of one's own": Rows()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["chainrule", "torch"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    lib = importlib.import_module(o.library)
    data = importlib.import_module("chainrule.data" if o.library == "chainrule" else "torch.utils.data")
    lib.set_num_threads(o.threads)
    n, rows = QUICK_SAMPLES if o.quick else SAMPLES, []
    for name, dataset in datasets(lib, data, n).items():
        loader, seconds = data.DataLoader(dataset, BATCH, shuffle=True), []
        for _ in range(2):
            start = time.perf_counter()
            seen = sum(len(y) for _, y in loader)
            seconds.append(time.perf_counter() - start)
            assert seen == n
        rows.append({"name": name, "seconds": min(seconds)})
    print(json.dumps({"version": f"{o.library} {lib.__version__}", "samples": n, "rows": rows}))


if __name__ == "__main__":
    main()
