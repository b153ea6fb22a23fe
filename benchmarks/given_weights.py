"""
Time linear layers in Relax whose weights are arguments, as language models have them.

    python benchmarks/given_weights.py [--tokens N,…] [--width N] [--layers N] [--store FILE]

Each layer is `matmul(x, permute_dims(w))` twice with a SiLU between them, from `--width` (default
1024) to four times as much and back. TVM's own pipeline and ours, with native kernels, with those
of onnxruntime and with both, run in turn on so many tokens (default 1, 4 and 64).
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

import collage_dsl as collage
from collage_dsl.measuring.timing import interleaved, low

PLANS = {"native": ["native"], "onnxruntime": ["onnxruntime"], "both": ["native", "onnxruntime"]}


def layers(tokens: int, width: int, count: int) -> Any:
    """The module, with a parameter for the tokens and one for each weight."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tokens, width), "float32"))
    shapes = [(4 * width, width), (width, 4 * width)] * count
    weights = [
        relax.Var(f"w{number}", relax.TensorType(shape, "float32"))
        for number, shape in enumerate(shapes)
    ]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            value: Any = x
            for number, weight in enumerate(weights):
                turned = builder.emit(relax.op.permute_dims(weight))
                value = builder.emit(relax.op.matmul(value, turned))
                if number % 2 == 0:
                    value = builder.emit(relax.op.nn.silu(value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def runner(executable: Any, arguments: list[Any]) -> Callable[[], object]:
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    return lambda: main(*arguments)


def row(tokens: int, given: argparse.Namespace) -> str:
    module, target = layers(tokens, given.width, given.layers), tvm.target.Target("llvm")
    generator = np.random.default_rng(0)
    arguments = [
        tvm.runtime.tensor(
            generator.normal(0, 0.02, tuple(map(int, each.ty.shape))).astype("float32")
        )
        for each in module["main"].params
    ]
    made = {"TVM": tvm.compile(module, target)}
    for name, targets in PLANS.items():
        passes = collage.pipeline(targets, store=given.store)
        made[name] = tvm.compile(module, target, relax_pipeline=passes)
    calls = [runner(each, arguments) for each in made.values()]
    seconds = [low(times) for times in interleaved(calls, 1, budget=4)]
    return f"| {tokens} | " + " | ".join(f"{each * 1e3:.2f} ms" for each in seconds) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=lambda text: list(map(int, text.split(","))))
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    print("| tokens | TVM | " + " | ".join(PLANS) + " |")
    print("|---:" * (2 + len(PLANS)) + "|")
    for tokens in given.tokens or (1, 4, 64):
        print(row(tokens, given), flush=True)


if __name__ == "__main__":
    main()
