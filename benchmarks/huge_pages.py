"""
How much faster models run with their weights on huge pages.

    python benchmarks/huge_pages.py [MODEL …] [--store FILE] [--seconds N]

The plan of each model of `suite.py` (default: all) by TVM alone is built. It runs with its weights
as they are made and, in turn, with others that are moved to huge pages, for N seconds (default 5).
`later` is how much longer it takes to make the latter.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import suite
import tvm
from layers import random_inputs
from tvm import relax

import collage_dsl as collage
from collage_dsl.measuring.timing import interleaved, low
from collage_dsl.realization.entry import PREPARE, entry, prepared_weights

MIB = 1 << 20


def save(model: str, store: Path | None, folder: str) -> None:
    native = collage.gather({"kind": "llvm"})
    collage.compile(suite.model(model), targets=[native], store=store, race_seconds=1).save(folder)


def row(model: str, folder: str, seconds: float) -> str:
    executable = collage.load_executable(folder)
    machine = relax.VirtualMachine(executable.module, tvm.cpu())
    begun = time.perf_counter()
    as_made = tuple(map(tuple, machine[PREPARE]()))
    made = time.perf_counter()
    moved = prepared_weights(machine)
    later = (time.perf_counter() - made) - (made - begun)
    tensors = executable.tensors(random_inputs(suite.model(model)))

    def run(weights: tuple[tuple[object, ...], ...]) -> Callable[[], None]:
        main = entry(machine, weights)
        return lambda: main(*tensors)

    before, after = map(low, interleaved([run(as_made), run(moved)], 1, budget=seconds))
    size = sum(tensor.numel() * tensor.dtype.itemsize for each in moved for tensor in each)
    cells = f"{size / MIB:.0f} MiB | {later:.2f} s | {before * 1e3:.3f} ms | {after * 1e3:.3f} ms"
    return f"| {model} | {cells} | {after / before:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=suite.names())
    parser.add_argument("--store", type=Path)
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    print("| model | weights | later | as made | on huge pages | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    # A process for each: what one has freed may be on huge pages.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as pool:
        for model in given.models:
            with TemporaryDirectory() as folder:
                pool.submit(save, model, given.store, folder).result()
                found = pool.submit(row, model, folder, given.seconds).result()
            print(found, flush=True)


if __name__ == "__main__":
    main()
