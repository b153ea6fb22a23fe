"""
Run quantized models by our plan and by onnxruntime, in turn, on one core, and compare the results.

    taskset -c 0 python benchmarks/quantized_models.py [MODEL …] [--store FILE] [--seconds SECONDS]

The models are those of `suite.py` (default: resnet50 and mobilenet_v2), which the tools of
onnxruntime quantize. Ours is the plan that `collage.compile` keeps for the targets `native` and
`onnxruntime`. onnxruntime runs the whole model with all its optimisations. Times are CPU time, a
low percentile. The last two columns are the largest differences from what onnxruntime computes
without optimisations, in steps of the quantization of the result.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
import onnx
import suite
from kernels.timing import in_turns
from layers import random_inputs
from onnx import version_converter
from quantized import quantized

import collage_dsl as collage
from collage_dsl.backends.instructions import host_cpu
from collage_dsl.graph.arrays import Array
from collage_dsl.offline import onnxruntime

OPSET = 17  # the least that is quantized by channels is 13


def main() -> None:
    logging.disable(logging.WARNING)  # advice of onnxruntime's tools
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet50", "mobilenet_v2"])
    parser.add_argument("--store", type=Path, help="the file with costs of kernels")
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing, for each model")
    given = parser.parse_args()
    print(f"On {host_cpu()}, one thread.\n")
    print(
        "| model | ours | onnxruntime | ours over onnxruntime | steps, ours | steps, onnxruntime |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name in given.models:
        print(_line(name, given.seconds, given.store), flush=True)


def _line(name: str, seconds: float, store: Path | None) -> str:
    model = _quantized(suite.model(name))
    inputs = random_inputs(model)
    plain, optimised = (
        _session(model, level)
        for level in (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
        )
    )
    compiled = collage.compile(model, ["native", "onnxruntime"], name=name, store=store)
    (result,) = compiled.run(inputs).values()
    (expected,), (theirs,) = plain.run(None, inputs), optimised.run(None, inputs)
    found = [_steps(each, expected) for each in (result, theirs)]
    calls = [lambda: compiled.run(inputs), lambda: optimised.run(None, inputs)]
    times = in_turns(calls, 1, seconds)
    shown = " | ".join(f"{each * 1e3:.2f} ms" for each in times)
    return f"| {name} | {shown} | {times[0] / times[1]:.2f} | {found[0]} | {found[1]} |"


def _quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    return quantized(model)


def _session(model: onnx.ModelProto, level: object) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _steps(result: Array, expected: Array) -> int:
    """The largest difference, in the least distance of two numbers of the `expected` result."""
    step = np.diff(np.unique(expected)).min()
    return round(float(np.abs(result - expected).max() / step))


if __name__ == "__main__":
    main()
