"""
Compile the light models for the shipped targets and print their times: the plan of each target
alone, the mixed plan, and, in a second race, the kept plan and onnxruntime on the original file.

    python benchmarks/models.py [MODEL …]
"""

import functools
import sys

import numpy as np
import onnx
import onnxruntime

import collage_dsl as collage
from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.graph import TensorType
from collage_dsl.measuring.task import random_array
from collage_dsl.measuring.timing import interleaved, low
from collage_dsl.resources import folder

SPECS = [folder("specs") / "native.collage", folder("specs") / "onnxruntime.collage"]
HEAD = ("model", "operators", "tvm alone", "onnxruntime alone", "mixed", "kept", "onnxruntime")


def main(names: list[str]) -> None:
    print("| " + " | ".join(HEAD) + " | kept / onnxruntime |")
    print("|---" * (len(HEAD) + 1) + "|")
    for name in names or light_models():
        print("| " + " | ".join(row(name)) + " |", flush=True)


def row(name: str) -> list[str]:
    model = light_model(name)
    compiled = collage.compile(model, SPECS, name=name)
    report = compiled.report
    measured = {c.name: c.measured.seconds for c in report.contenders if c.measured}
    kept, reference = race(compiled, model)
    return [
        name,
        str(report.plan.operators),
        *(f"{measured[c] * 1e3:.2f} ms" for c in ("tvm", "onnxruntime", "mixed")),
        report.chosen,
        f"{reference * 1e3:.2f} ms",
        f"{kept / reference:.2f}",
    ]


def race(compiled: collage.Compiled, model: onnx.ModelProto) -> tuple[float, float]:
    """The seconds of the kept plan and of onnxruntime on the original model, run in turn."""
    generator = np.random.default_rng(0)
    inputs = {
        value.name: random_array(TensorType(value.dtype, value.shape), generator)
        for value in compiled.executable.signature.inputs
    }
    tensors = compiled.executable.tensors(inputs)
    ours = functools.partial(compiled.executable.call, tensors)
    theirs = session(model)
    times = interleaved([ours, lambda: theirs.run(None, inputs)], 1, budget=10)
    return low(times[0]), low(times[1])


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
