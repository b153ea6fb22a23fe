"""
Where the engines spend their time inside whole models, by kind of layer, on one thread.

    python benchmarks/by_layer.py MODEL…

Milliseconds of one run on the wall, so nothing else should run. onnxruntime and openvino say what
each node took. ncnn is asked for the result of one layer after the other. `layout` is the
conversion between plain and blocked tensors.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import suite
from engines import Inputs, converted, engines, ncnn_net
from layers import random_inputs

RUNS = 9

Times = Mapping[str, float]
"""Seconds by kind of layer."""

KINDS = {
    "fc": ("Gemm", "FusedGemm", "InnerProduct", "FullyConnected", "MatMul", "FusedMatMul"),
    "LRN": ("LRN", "Norm"),
    "pool": ("MaxPool", "AveragePool", "GlobalAveragePool", "Pooling", "AvgPool"),
    "concat": ("Concat", "Concatenation"),
    "layout": ("ReorderInput", "ReorderOutput", "Reorder", "Packing"),
}


def kind_of(operator: str, window: str = "") -> str:
    if "Conv" in operator:
        return f"conv {window}"
    return next((kind for kind, names in KINDS.items() if operator in names), "other")


def in_onnxruntime(model: onnx.ModelProto, inputs: Inputs) -> Times:
    with TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        options.enable_profiling = True
        options.profile_file_prefix = f"{folder}/profile"
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        for _ in range(RUNS):
            session.run(None, dict(inputs))
        events = json.loads(Path(session.end_profiling()).read_text())
    series = defaultdict(list)
    for event in events:
        if event["name"].endswith("_kernel_time"):
            shapes = [
                shape for each in event["args"]["input_type_shape"] for shape in each.values()
            ]
            window = "x".join(map(str, shapes[1][2:])) if len(shapes) > 1 else ""
            kind = kind_of(event["args"]["op_name"], window)
            series[event["name"], kind].append(event["dur"] * 1e-6)
    return added((kind, low(taken)) for (_, kind), taken in series.items())


def in_openvino(model: onnx.ModelProto, inputs: Inputs) -> Times:
    import openvino

    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
        "PERF_COUNT": True,
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    request = compiled.create_infer_request()
    windows = windows_of(compiled.get_runtime_model())
    series = defaultdict(list)
    for _ in range(RUNS):
        request.infer(dict(inputs))
        for node in request.profiling_info:
            kind = kind_of(node.node_type, windows.get(node.node_name, ""))
            series[node.node_name, kind].append(node.real_time.total_seconds())
    return added((kind, low(taken)) for (_, kind), taken in series.items())


def windows_of(compiled: Any) -> dict[str, str]:
    """The kernel size of each node of openvino that reads weights, by the name of the node."""
    return {
        node.get_friendly_name(): "x".join(map(str, list(node.input(1).get_shape())[-2:]))
        for node in compiled.get_ordered_ops()
        if len(node.inputs()) > 1
    }


def in_ncnn(model: onnx.ModelProto, inputs: Inputs) -> Times:
    import ncnn

    with TemporaryDirectory() as folder:
        given, _ = converted(model, Path(folder))
        net = ncnn_net(Path(folder), threads=1)
        layers = list(ncnn_layers((Path(folder) / "model.ncnn.param").read_text()))
    arrays = zip(inputs.values(), given, strict=True)
    mats = [ncnn.Mat(array, batch_index=index).clone() for array, index in arrays]

    series: list[list[float]] = [[] for _ in layers]
    for _ in range(RUNS):
        extractor = net.create_extractor()
        for index, mat in enumerate(mats):
            extractor.input(f"in{index}", mat)
        for (_, blob), taken in zip(layers, series, strict=True):
            taken.append(wall_time(partial(extractor.extract, blob, AS_WRITTEN)))
    return added((kind, low(taken)) for (kind, _), taken in zip(layers, series, strict=True))


AS_WRITTEN = 1
"""Asks ncnn for a result in the layout that its layer writes."""


def ncnn_layers(param: str) -> Iterator[tuple[str, str]]:
    """The kind of each layer, in the order in which they run, and the last of its results."""
    for line in param.splitlines()[2:]:
        operator, _, taken, made, *rest = line.split()
        blobs, options = (
            rest[int(taken) :],
            dict(each.split("=", 1) for each in rest if "=" in each),
        )
        if operator not in ("Input", "Split"):
            wide = options.get("1", "")
            yield kind_of(operator, f"{options.get('11', wide)}x{wide}"), blobs[int(made) - 1]


def wall_time(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def low(series: list[float]) -> float:
    return float(np.percentile(series, 20))


def added(pairs: Iterator[tuple[str, float]]) -> Times:
    total: dict[str, float] = defaultdict(float)
    for kind, seconds in pairs:
        total[kind] += seconds
    return total


PROFILES: Mapping[str, Callable[[onnx.ModelProto, Inputs], Times]] = {
    "onnxruntime": in_onnxruntime,
    "openvino": in_openvino,
    "ncnn": in_ncnn,
}


def show(name: str) -> None:
    model = suite.model(name)
    inputs = random_inputs(model)
    found: dict[str, Any] = {engine: PROFILES[engine](model, inputs) for engine in engines()}
    kinds = dict.fromkeys(kind for times in found.values() for kind in times)
    print(f"\n| {name} | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
    for kind in sorted(kinds, key=lambda kind: -max(t.get(kind, 0) for t in found.values())):
        columns = [f"{times.get(kind, 0) * 1e3:.2f}" for times in found.values()]
        print(f"| {kind} | {' | '.join(columns)} |", flush=True)
    print(f"| all | {' | '.join(f'{sum(times.values()) * 1e3:.2f}' for times in found.values())} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the engines spend their time.")
    parser.add_argument("models", nargs="+", metavar="MODEL", help=", ".join(suite.names()))
    for name in parser.parse_args().models:
        show(name)


if __name__ == "__main__":
    main()
