"""
Tune fused kernels, and time the schedules that were found beside ours.

    python benchmarks/tuned.py [--only NAME] [--trials 64] [--records FILE] [--rounds 40]

Each layer is one fused kernel of the native backend, on one core. It is tuned until its records
have the trials, so a second run only compares. The record is looked up in a fresh process. Then the
fastest of our variants and the tuned kernel run in turns, in one process, each after the last-level
cache was evicted. The ratio is the time of ours over that of the tuned kernel: above 1, the tuned
kernel is faster. Times are the 20th percentile of CPU time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import CostStore, cheapest
from collage_dsl.cost.records import Records
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain
from collage_dsl.graph.tuning import TUNED
from collage_dsl.measuring.built import built
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.recorded import BestRecords
from collage_dsl.measuring.task import kernel_task
from collage_dsl.measuring.timing import evict, low, undisturbed
from collage_dsl.measuring.tuning import tune
from collage_dsl.realization.variants import with_variant

FLOAT, HALF, INT8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8


class Layer:
    """Writes a small ONNX model of one kernel, whose weights are constants or inputs."""

    def __init__(self, *shape: int, has_constants: bool = True) -> None:
        self.shape = shape
        self.has_constants = has_constants
        self.inputs = [helper.make_tensor_value_info("x", FLOAT, shape)]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.last = "x"

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        if not self.has_constants:
            self.inputs.append(helper.make_tensor_value_info(name, FLOAT, shape))
            return name
        array = np.random.default_rng(len(self.weights)).normal(0, 0.1, shape)
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def then(self, op: str, *others: str, **attributes: object) -> Layer:
        result = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *others], [result], **attributes))
        self.last = result
        return self

    def convolution(self, channels: int, size: int, *, stride: int = 1, dilation: int = 1) -> Layer:
        pad, weight = dilation * (size // 2), self.weight(channels, self.shape[1], size, size)
        strides, dilations = [stride, stride], [dilation, dilation]
        return self.then("Conv", weight, pads=[pad] * 4, strides=strides, dilations=dilations)

    def model(self, dtype: int = FLOAT) -> onnx.ModelProto:
        outputs = [helper.make_tensor_value_info(self.last, dtype, None)]
        graph = helper.make_graph(self.nodes, "layer", self.inputs, outputs, self.weights)
        opset = [helper.make_opsetid("", 20)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opset, ir_version=9)
        )


def narrowed(dtype: int, channels: int, *shape: int, size: int, **how: int) -> onnx.ModelProto:
    return Layer(*shape).convolution(channels, size, **how).then("Cast", to=dtype).model(dtype)


def given(channels: int, *shape: int, size: int, **how: int) -> onnx.ModelProto:
    """The same to int8, with weights that are an input: no variant of ours packs such weights."""
    layer = Layer(*shape, has_constants=False).convolution(channels, size, **how)
    return layer.then("Cast", to=INT8).model(INT8)


def product(rows: int, inner: int, columns: int) -> Layer:
    layer = Layer(rows, inner)
    return layer.then("MatMul", layer.weight(inner, columns))


LAYERS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "conv3x3d2-int8": lambda: narrowed(INT8, 32, 1, 32, 32, 32, size=3, dilation=2),
    "conv3x3d2-f16": lambda: narrowed(HALF, 32, 1, 32, 32, 32, size=3, dilation=2),
    "conv3x3s2-int8": lambda: narrowed(INT8, 32, 1, 16, 64, 64, size=3, stride=2),
    "conv1x1-int8": lambda: narrowed(INT8, 64, 1, 64, 32, 32, size=1),
    "given3x3d2-int8": lambda: given(32, 1, 32, 32, 32, size=3, dilation=2),
    "given3x3-int8": lambda: given(32, 1, 32, 32, 32, size=3),
    "given1x1-int8": lambda: given(64, 1, 64, 32, 32, size=1),
    "conv3x3-relu": lambda: Layer(1, 32, 32, 32).convolution(32, 3).then("Relu").model(),
    "matmul-gelu": lambda: product(64, 128, 256).then("Gelu").model(),
    "softmax": lambda: Layer(64, 256).then("Softmax", axis=-1).model(),
}


def kernel(model: onnx.ModelProto) -> CandidateKernel:
    graph = from_onnx(model)
    return CandidateKernel(graph, SubGraph(graph.calls), Toolchain("tvm"))


def has_record(name: str, records: Path) -> bool:
    """Whether there is a record for a layer."""
    with Records(records) as known:
        found = BestRecords(known, lambda _: Tvm())(kernel(LAYERS[name]()))
    return found.toolchain.record is not None


def is_found_again(name: str, records: Path) -> bool:
    """The same, asked in a fresh process."""
    command = [sys.executable, __file__, "--only", name, "--records", str(records), "--look-up"]
    return subprocess.run(command, check=False).returncode == 0


def side_by_side(ours: CandidateKernel, tuned: CandidateKernel, rounds: int) -> tuple[float, float]:
    """The seconds of two kernels, which run in turns."""
    runs = [
        built(kernel_task(each, Tvm(), {}), np.random.default_rng(0)).run for each in (ours, tuned)
    ]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for run, series in zip(runs, times, strict=True):
            series.append(undisturbed(run, 1, evict))
    return low(times[0]), low(times[1])


def compared(name: str, folder: Path, records: Path, trials: int, rounds: int) -> str:
    candidate = kernel(LAYERS[name]())
    with CostStore(folder / "costs.sqlite") as store, Records(records) as known:
        with MeasuredCost(lambda _: Tvm(), store) as cost:
            found = tune(candidate, trials, cost, known)
            cost(candidate)
            best = cheapest(cost.variants(candidate)).name
        if found.best is None:
            return f"{name:16} none of {len(found.trials)} schedules can be used"
        record = BestRecords(known, lambda _: Tvm())(candidate)
    ours, theirs = with_variant(candidate, best), with_variant(record, TUNED)
    one, other = side_by_side(ours, theirs, rounds)
    again = "yes" if is_found_again(name, records) else "NO"
    times = f"{one * 1e6:9.1f} {other * 1e6:9.1f} {one / other:6.2f}"
    return f"{name:16} {len(found.trials):6} {best:10} {times}   {again}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--records", type=Path, help="the file that keeps the schedules")
    parser.add_argument("--look-up", action="store_true", help="only say whether there is a record")
    given = parser.parse_args()
    if given.look_up:
        sys.exit(0 if has_record(given.only, given.records) else 1)
    with tempfile.TemporaryDirectory() as folder:
        records = given.records or Path(folder) / "records.sqlite"
        print("layer            trials ours       ours (µs) tuned (µs)  ratio   found again")
        for name in LAYERS:
            if given.only in name:
                line = compared(name, Path(folder), records, given.trials, given.rounds)
                print(line, flush=True)


if __name__ == "__main__":
    main()
