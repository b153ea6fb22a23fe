"""
Time a large store of costs.

    python benchmarks/store.py [--rows 1000000] [--lookups 10000]

Makes a store with so many rows in a temporary folder, then opens it and looks costs up, each in a
new process, as commands do. Seconds are wall time.
"""

import argparse
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter

from collage_dsl.cost import Context, CostStore, Measurement

_CONTEXTS = 50


def key(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def fill(path: Path, rows: int) -> None:
    contexts = [Context(key(-1 - c), "a machine", "llvm") for c in range(_CONTEXTS)]
    with CostStore(path) as store:
        store.add(
            contexts,
            (
                Measurement(key(n), contexts[n % _CONTEXTS].key, "nn.conv2d+nn.relu", n * 1e-9)
                for n in range(rows)
            ),
        )


def look_up(path: Path, rows: int, lookups: int) -> None:
    """Of every ten kernels that are asked for, nine are known."""
    generator = Random(0)
    wanted = [generator.randrange(rows * 10 // 9) for _ in range(lookups)]
    asked = [(key(n), key(-1 - n % _CONTEXTS)) for n in wanted]
    start = perf_counter()
    store = CostStore(path)
    opened = perf_counter()
    found = sum(store.get(*each) is not None for each in asked)
    done = perf_counter()
    known = sum(n < rows for n in wanted)
    assert found == known, (found, known)
    print(f"open {opened - start:.4f} s, {lookups} look-ups {done - opened:.3f} s, {found} found")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a large store of costs.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--lookups", type=int, default=10_000)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.path:
        look_up(asked.path, asked.rows, asked.lookups)
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "costs.sqlite"
        start = perf_counter()
        fill(path, asked.rows)
        print(f"{asked.rows} rows in {perf_counter() - start:.0f} s", flush=True)
        options = ["--rows", str(asked.rows), "--lookups", str(asked.lookups)]
        subprocess.run([sys.executable, __file__, "--path", str(path), *options], check=True)


if __name__ == "__main__":
    main()
