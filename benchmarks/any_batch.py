"""
How fast native kernels of any batch are.

    python benchmarks/any_batch.py [MODEL …] [--sizes N,…] [--store FILE] [--seconds N]

Each model of `suite.py` (default: squeezenet) is compiled for native kernels alone, with a batch of
any size, and for each of some sizes (default 1 and 4). These and onnxruntime run in turn at that
size, N seconds for each (default 3).
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import suite

import collage_dsl as collage
from collage_dsl.engine.compile import Compiled
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.timing import interleaved, low


def image_of(model: onnx.ModelProto) -> tuple[str, list[int]]:
    """The name of the input, and the shape of one image of it."""
    value = model.graph.input[0]
    return value.name, [dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]]


def compiled(model: onnx.ModelProto, batch: int | str, store: Path | None) -> Compiled:
    taken, image = image_of(model)
    native, shapes = collage.gather({"kind": "llvm"}), {taken: (batch, *image)}
    return collage.compile(model, [native], shapes=shapes, store=store, race_seconds=0.5)


def library(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """The model in onnxruntime, on one core and with a batch of any size."""
    free = onnx.ModelProto()
    free.CopyFrom(model)
    del free.graph.value_info[:]
    for value in (*free.graph.input, *free.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(free.SerializeToString(), options)


def rows(name: str, given: argparse.Namespace) -> None:
    model = suite.model(name)
    taken, image = image_of(model)
    of_any, session = compiled(model, "n", given.store), library(model)
    for size in given.sizes:
        inputs: dict[str, Array] = {
            taken: np.random.default_rng(0).random((size, *image), np.float32)
        }

        def runner(made: Compiled, inputs: dict[str, Array] = inputs) -> Callable[[], object]:
            tensors = made.executable.tensors(inputs)
            return lambda: made.executable.call(tensors)

        def of_library(inputs: dict[str, Array] = inputs) -> object:
            return session.run(None, inputs)

        fixed = compiled(model, size, given.store)
        calls = [runner(of_any), runner(fixed), of_library]
        seconds = [low(each) for each in interleaved(calls, 1, budget=given.seconds * len(calls))]
        shown = " | ".join(f"{each * 1e3:.2f} ms" for each in seconds)
        print(f"| {name} | {size} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["squeezenet"])
    parser.add_argument(
        "--sizes", type=lambda text: list(map(int, text.split(","))), default=[1, 4]
    )
    parser.add_argument("--store", type=Path)
    parser.add_argument("--seconds", type=float, default=3)
    given = parser.parse_args()
    print("| model | images | any batch | this batch | onnxruntime |\n|---|---:|---:|---:|---:|")
    for name in given.models:
        rows(name, given)


if __name__ == "__main__":
    main()
