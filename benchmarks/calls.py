"""
Time calls of compiled models from Python: the function of the virtual machine on ready tensors,
`run(inputs)`, and `run(inputs, out=…)`. They run in turn in one process.

    python benchmarks/calls.py [--seconds SECONDS]
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import tvm
import tvm_ffi
from onnx import TensorProto, helper
from tvm import relax

import collage_dsl as collage
from collage_dsl.frontend.light import light_model
from collage_dsl.measuring.timing import low
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.resources import folder

RUN, OUT = "`run(inputs)`", "`run(inputs, out=…)`"
HEAD = ("model", "inputs", "target", "alone", RUN, "more", "around", OUT, "more", "around")


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    for number in (1, 20):
        yield f"sum of {number}", sum_of(number)
    for name in ("squeezenet", "shufflenet"):
        yield name, light_model(name)


def sum_of(number: int) -> onnx.ModelProto:
    """relu(x0 + x1 + …) of `number` matrices."""
    names = [f"x{index}" for index in range(number)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (32, 32)) for name in names]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (32, 32))
    nodes = [helper.make_node("Sum", names, ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "sum", values, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(model: onnx.ModelProto, target: str) -> ModelExecutable:
    """`model` built for one target. All kernels have the same price, so none is measured."""
    spec = folder("specs") / f"{target}.collage"
    made = collage.compile(model, [spec], cost=lambda kernel: 1e-6, race_seconds=0.1)
    return made.executable


class Machine:
    """A virtual machine that adds up the time which its function takes."""

    def __init__(self, executable: ModelExecutable) -> None:
        self.main = relax.VirtualMachine(executable.module, tvm.cpu())["main"]
        self.seconds = 0.0

    def __call__(self, *tensors: Any) -> Any:
        start = time.perf_counter()
        result = self.main(*tensors)
        self.seconds += time.perf_counter() - start
        return result

    def taken(self) -> float:
        """The time since this was last asked."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def calls(executable: ModelExecutable, machine: Machine) -> list[Callable[[], object]]:
    """What is compared: `machine` alone, and the ways to run it. All read the same memory."""
    generator = np.random.default_rng(0)
    given, wanted = executable.signature.inputs, executable.signature.outputs
    inputs = {v.name: generator.uniform(-1, 1, v.static_shape or ()).astype(v.dtype) for v in given}
    out = {v.name: np.empty(v.static_shape or (), v.dtype) for v in wanted}
    tensors = [tvm_ffi.from_dlpack(array) for array in inputs.values()]
    executable._idle[:] = [machine]
    return [
        lambda: machine(*tensors),
        lambda: executable.run(inputs),
        lambda: executable.run(inputs, out=out),
    ]


def timed(executable: ModelExecutable, seconds: float) -> list[tuple[float, float]]:
    """
    For each of the calls its time, and how much of it is around the virtual machine: low
    percentiles, in microseconds. In each round they are called in another order, since a call
    finds in the caches what the one before it left.
    """
    machine = Machine(executable)
    compared = calls(executable, machine)
    times: list[list[tuple[float, float]]] = [[] for _ in compared]
    order = list(range(len(compared)))
    shuffle = random.Random(0).shuffle
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        shuffle(order)
        for index in order:
            start = time.perf_counter()
            compared[index]()
            whole = time.perf_counter() - start
            times[index].append((whole, whole - machine.taken()))
    return [(low([w for w, _ in each]) * 1e6, low([a for _, a in each]) * 1e6) for each in times]


def row(executable: ModelExecutable, seconds: float) -> list[str]:
    (alone, rest), (run, around), (filled, around_filled) = timed(executable, seconds)
    numbers = [alone, run, run - alone, around - rest, filled, filled - alone, around_filled - rest]
    return [f"{number:.1f}" for number in numbers]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="for each model and target")
    seconds = parser.parse_args().seconds
    print("| " + " | ".join(HEAD) + " |")
    print("|---|---:|---|" + "---:|" * (len(HEAD) - 3))
    for name, model in models():
        for target in ("native", "onnxruntime"):
            executable = compiled(model, target)
            inputs = str(len(executable.signature.inputs))
            print("| " + " | ".join([name, inputs, target, *row(executable, seconds)]) + " |")


if __name__ == "__main__":
    main()
