"""
Time quantized layers in our native kernels and in onnxruntime, in turn, on one core.

    taskset -c 0 python benchmarks/quantized_layers.py [--only 3x3] [--seconds SECONDS]

Each model is one layer that the tools of onnxruntime quantize: static ones with the quantization of
their input and of their result, dynamic ones with the search for the range of their input. Ours is
the plan of native kernels that is the cheapest by measured costs. Times are CPU time, a low
percentile. On processors for which sums of products saturate in onnxruntime, two more columns have
its time where it is asked for exact sums, and ours over that.
"""

import argparse
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnx
from kernels.timing import in_turns
from layers import Layers, random_inputs
from quantized import dynamic, quantized, static

import collage_dsl as collage
from collage_dsl.backends.instructions import host_cpu
from collage_dsl.exact_products.saturation import saturates
from collage_dsl.offline import onnxruntime

Quantize = Callable[[Path, Path], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A layer in float32, and how it is quantized."""

    name: str
    model: Callable[[], onnx.ModelProto]
    quantize: Quantize


def product(rows: int, taken: int, made: int) -> onnx.ModelProto:
    net = Layers()
    return net.model(net.fully_connected(net.input(rows, taken), taken, made), [rows, made])


def tokens(rows: int, taken: int, made: int) -> onnx.ModelProto:
    """The same with a product and a sum in place of a `Gemm`."""
    net = Layers()
    return net.model(net.linear(net.input(1, rows, taken), taken, made), [1, rows, made])


def convolution(
    taken: int, made: int, size: int, side: int, stride: int = 1, groups: int = 1
) -> onnx.ModelProto:
    net = Layers()
    x = net.relu(net.conv(net.input(1, taken, size, size), taken, made, side, stride, groups))
    return net.model(x, [1, made, -(-size // stride), -(-size // stride)])


def cases() -> Iterator[Case]:
    for rows, taken, made in ((128, 768, 768), (128, 768, 3072), (128, 3072, 768), (1, 2048, 1000)):
        name = f"{rows}x{taken}x{made}"
        yield Case(f"product {name}", partial(product, rows, taken, made), static)
        yield Case(f"dynamic {name}", partial(tokens, rows, taken, made), dynamic)
    for taken, made, size, side, stride in (
        (64, 64, 56, 3, 1),
        (128, 128, 28, 3, 1),
        (256, 256, 14, 3, 1),
        (512, 512, 7, 3, 1),
        (128, 128, 56, 3, 2),
        (64, 256, 56, 1, 1),
        (512, 128, 28, 1, 1),
        (256, 1024, 14, 1, 1),
        (3, 64, 224, 7, 2),
    ):
        by = f" by {stride}" if stride > 1 else ""
        name = f"{side}x{side}{by} {taken}->{made}@{size}"
        yield Case(name, partial(convolution, taken, made, size, side, stride), static)
    for channels, size, side, stride in (
        (32, 112, 3, 1),
        (144, 56, 3, 1),
        (144, 56, 3, 2),
        (384, 14, 3, 1),
        (672, 14, 5, 1),
        (960, 7, 3, 1),
    ):
        by = f" by {stride}" if stride > 1 else ""
        name = f"depthwise {side}x{side}{by} {channels}@{size}"
        depthwise = partial(convolution, channels, channels, size, side, stride, channels)
        yield Case(name, depthwise, static)


def main() -> None:
    logging.disable(logging.WARNING)  # advice of onnxruntime's tools
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the layers")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each layer")
    parser.add_argument("--store", type=Path, help="the file with costs of kernels")
    given = parser.parse_args()
    print(f"On {host_cpu()}, one thread.\n")
    more = "exact onnxruntime | ours over that |" if saturates() else ""
    print(f"| layer | ours | onnxruntime | ours over onnxruntime | {more}")
    print(f"|---|---:|---:|---:|{'---:|---:|' if more else ''}")
    for case in cases():
        if given.only in case.name:
            print(_line(case, given.seconds, given.store), flush=True)


def _line(case: Case, seconds: float, store: Path | None) -> str:
    model = quantized(case.model(), case.quantize)
    inputs = random_inputs(model)
    compiled = collage.compile(model, ["native"], store=store)
    calls: list[Callable[[], object]] = [partial(compiled.run, inputs)]
    for is_exact in (False, True) if saturates() else (False,):
        calls.append(partial(_session(model, is_exact=is_exact).run, None, inputs))
    ours, *theirs = in_turns(calls, 1, seconds)
    shown = (f"{each * 1e6:.0f} us | {ours / each:.2f}" for each in theirs)
    return f"| {case.name} | {ours * 1e6:.0f} us | {' | '.join(shown)} |"


def _session(model: onnx.ModelProto, *, is_exact: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if is_exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


if __name__ == "__main__":
    main()
