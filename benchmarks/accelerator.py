"""
Find the fusions of `examples/accelerator.collage` in models of real size, as PyTorch exports them.

    make accelerator
    .venv-models/bin/python benchmarks/accelerator.py [MODEL …] [--folder FOLDER]

The models are those of `torch_models.py`, some of `suite.py` that are written by hand, and some
quantized ones (`quantized.py`). What is expected is what the plain loops of `tests/fusions` find.
Prints a row for each model and kind of fusion. Ends with exit code 1 if the spec misses a fusion,
or finds one more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import suite
import torch_models
from quantized import static

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))

import collage_dsl as collage  # noqa: E402 - after the path of the tests
from tests.fusions import FUSIONS, proposed  # noqa: E402 - a module of the tests

FREE = "-free"
"""The end of the name of a model with dimensions of any size."""

STATIC = "-static"
"""The end of the name of a model that onnxruntime quantizes, with ranges from runs."""

WRITTEN = {
    f"{name}-by-hand": name for name in ("mobilenet_v2", "vit_tiny", "convnext_tiny", "gpt2")
}
"""Models of `suite.py` that no exporter wrote."""

MODELS = (
    "bert_base",
    "bert_base-free",
    "minilm",
    "gpt2",
    "llama",
    "vit_base",
    "convnext_tiny",
    "mobilenet_v3",
    *WRITTEN,
    "mobilenet_v3-static",
    "vit_base-static",
)


@dataclass(frozen=True, slots=True)
class Row:
    model: str
    kind: str
    expected: int
    matched: int
    missed: int
    extra: int


def rows(name: str, folder: Path) -> Iterator[Row]:
    graph = collage.from_onnx(_model(name, folder))
    begun = time.process_time()
    found = proposed(graph)
    took = time.process_time() - begun
    print(f"{name}: {graph.calls.bit_count()} calls, {took:.1f} s to match", file=sys.stderr)
    for kind, search in FUSIONS.items():
        wanted, matched = search(graph), found[kind]
        if wanted or matched:
            right = len(wanted & matched)
            yield Row(name, kind, len(wanted), right, len(wanted) - right, len(matched) - right)


def _model(name: str, folder: Path) -> Path:
    if name in WRITTEN:
        path = folder / f"{name}.onnx"
        onnx.save(suite.model(WRITTEN[name]), path)
        return path
    if name.endswith(STATIC):
        path = folder / f"{name}.onnx"
        static(torch_models.export(name.removesuffix(STATIC), folder), path)
        return path
    free = name.endswith(FREE)
    return torch_models.export(name.removesuffix(FREE), folder, free=free)


def main() -> None:
    parser = argparse.ArgumentParser(description="Find the fusions of an accelerator in models.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--folder", type=Path, help="where exported models are kept")
    given = parser.parse_args()
    wrong = False
    print("| model | fusion | expected | matched | missed | extra |")
    print("|---|---|---:|---:|---:|---:|")
    with TemporaryDirectory() as made:
        for name in given.models or MODELS:
            for row in rows(name, given.folder or Path(made)):
                numbers = f"{row.expected} | {row.matched} | {row.missed} | {row.extra}"
                print(f"| {row.model} | {row.kind} | {numbers} |", flush=True)
                wrong |= row.missed + row.extra > 0
    sys.exit(wrong)


if __name__ == "__main__":
    main()
