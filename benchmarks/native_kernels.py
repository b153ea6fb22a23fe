"""
Time the native schedules beside onnxruntime, one kernel at a time, on one thread.

    python benchmarks/native_kernels.py [--json] [--only conv] [--rounds 20]

Both sides are timed in turns, in CPU time of the thread; a low percentile is shown. `hot` calls a
kernel again and again, `cold` evicts the last-level cache before each call. onnxruntime is called
through io binding, which adds about 10 µs to each of its calls; a compiled function has no such
cost.
"""

from __future__ import annotations

import argparse
import inspect
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnxruntime
import tvm
from onnx import helper, numpy_helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import schedule

Shape = tuple[int, ...]
Emit = Callable[[Any], Any]

LOWERING = (
    relax.transform.LegalizeOps,
    relax.transform.AnnotateTIROpPattern,
    relax.transform.FuseOps,
    relax.transform.FuseTIR,
)
EVICTED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """
    One kernel, in Relax and in ONNX. The first `fed` tensors are inputs, the others weights.

    With `steps`, our side consists of several kernels. The first takes as many tensors as `body`
    has operands. Each next one takes the result before it, and as many of the remaining tensors
    as it needs.
    """

    name: str
    shapes: tuple[Shape, ...]
    body: Callable[..., Any]
    nodes: tuple[Any, ...]
    fed: int = 1
    steps: tuple[Callable[..., Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """Times of one kernel in microseconds, and the difference between the results."""

    name: str
    tvm_hot: float
    onnxruntime_hot: float
    tvm_cold: float
    onnxruntime_cold: float
    error: float
    schedule_seconds: float
    build_seconds: float


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def convolution(name: str, image: Shape, weight: Shape, **options: int) -> Case:
    pad, groups = options.get("padding", 0), options.get("groups", 1)
    strides = options.get("strides", 1)
    onnx_node = node("Conv", "a b", pads=[pad] * 4, group=groups, strides=[strides] * 2)
    return Case(name, (image, weight), lambda e, x, w: R.nn.conv2d(x, w, **options), (onnx_node,))


def conv_bias_relu(emit: Emit, x: Any, w: Any, b: Any) -> Any:
    y = emit(R.nn.conv2d(x, w, padding=1))
    return R.nn.relu(emit(R.add(y, emit(R.reshape(b, (1, -1, 1, 1))))))


def narrow(emit: Emit, x: Any, w: Any, b: Any) -> Any:
    y = emit(R.nn.conv2d(x, w))
    return R.nn.relu(emit(R.add(y, emit(R.reshape(b, (1, -1, 1, 1))))))


APART = (
    lambda emit, x, w: R.nn.conv2d(x, w, padding=1),
    lambda emit, y, b: R.add(y, emit(R.reshape(b, (1, -1, 1, 1)))),
    lambda emit, y: R.nn.relu(y),
)


def lrn(emit: Emit, x: Any) -> Any:
    """LRN as the ONNX importer writes it."""
    y = emit(R.expand_dims(emit(R.multiply(x, x)), [1]))
    y = emit(R.nn.avg_pool3d(y, (5, 1, 1), (1, 1, 1), (2, 0, 0, 2, 0, 0), count_include_pad=True))
    y = emit(R.multiply(emit(R.squeeze(y, [1])), relax.const(1e-4, "float32")))
    y = emit(R.power(emit(R.add(y, relax.const(1.0, "float32"))), relax.const(0.75, "float32")))
    return R.divide(x, y)


def cases() -> list[Case]:
    matmul = (node("MatMul", "a b"),)
    return [
        convolution("conv 3x3 64x56x56", (1, 64, 56, 56), (64, 64, 3, 3), padding=1),
        convolution("conv 3x3 128x28x28", (1, 128, 28, 28), (128, 128, 3, 3), padding=1),
        convolution("conv 3x3 256x14x14", (1, 256, 14, 14), (256, 256, 3, 3), padding=1),
        convolution("conv 3x3 512x7x7", (1, 512, 7, 7), (512, 512, 3, 3), padding=1),
        convolution("conv 1x1 256x56x56 64", (1, 256, 56, 56), (64, 256, 1, 1)),
        convolution("conv 1x1 64x56x56 256", (1, 64, 56, 56), (256, 64, 1, 1)),
        convolution("conv 1x1 1024x14x14 256", (1, 1024, 14, 14), (256, 1024, 1, 1)),
        convolution("conv 1x1 512x7x7 2048", (1, 512, 7, 7), (2048, 512, 1, 1)),
        convolution("conv 1x1 s2 256x56x56 512", (1, 256, 56, 56), (512, 256, 1, 1), strides=2),
        convolution("conv 7x7 s2 3x224x224", (1, 3, 224, 224), (64, 3, 7, 7), padding=3, strides=2),
        convolution("conv grouped 128x28x28 g32", (1, 128, 28, 28), (128, 4, 3, 3), padding=1,
                    groups=32),
        convolution("depthwise 3x3 144x56x56", (1, 144, 56, 56), (144, 1, 3, 3), padding=1,
                    groups=144),
        convolution("depthwise 3x3 s2 144x56x56", (1, 144, 56, 56), (144, 1, 3, 3), padding=1,
                    groups=144, strides=2),
        Case("conv+bias+relu 64x56x56", ((1, 64, 56, 56), (64, 64, 3, 3), (64,)), conv_bias_relu,
             (node("Conv", "a b c", "t", pads=[1] * 4), node("Relu", "t"))),
        Case("the same as three kernels", ((1, 64, 56, 56), (64, 64, 3, 3), (64,)), conv_bias_relu,
             (node("Conv", "a b c", "t", pads=[1] * 4), node("Relu", "t")), 1, APART),
        Case("1x1 conv+bias+relu 64x56x56", ((1, 64, 56, 56), (64, 64, 1, 1), (64,)), narrow,
             (node("Conv", "a b c", "t"), node("Relu", "t"))),
        Case("the same as three kernels", ((1, 64, 56, 56), (64, 64, 1, 1), (64,)), narrow,
             (node("Conv", "a b c", "t"), node("Relu", "t")), 1,
             (lambda emit, x, w: R.nn.conv2d(x, w), *APART[1:])),
        Case("matmul 128x768x768", ((128, 768), (768, 768)), lambda e, x, w: R.matmul(x, w),
             matmul),
        Case("matmul 128x3072x768", ((128, 3072), (3072, 768)), lambda e, x, w: R.matmul(x, w),
             matmul),
        Case("matmul 12x128x64x128", ((12, 128, 64), (12, 64, 128)), lambda e, x, w: R.matmul(x, w),
             matmul, 2),
        Case("gemv 4096x4096", ((1, 4096), (4096, 4096)), lambda e, x, w: R.matmul(x, w), matmul),
        Case("max pool 3x3 s2 64x112x112", ((1, 64, 112, 112),),
             lambda e, x: R.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)),
             (node("MaxPool", "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),)),
        Case("avg pool 3x3 192x28x28", ((1, 192, 28, 28),),
             lambda e, x: R.nn.avg_pool2d(x, (3, 3), (1, 1), (1, 1)),
             (node("AveragePool", "a", kernel_shape=[3, 3], pads=[1] * 4),)),
        Case("global average 1000x13x13", ((1, 1000, 13, 13),),
             lambda e, x: R.mean(x, [2, 3], keepdims=True), (node("GlobalAveragePool", "a"),)),
        Case("softmax 1x1000", ((1, 1000),), lambda e, x: R.nn.softmax(x),
             (node("Softmax", "a", axis=-1),)),
        Case("softmax 12x128x128", ((12, 128, 128),), lambda e, x: R.nn.softmax(x),
             (node("Softmax", "a", axis=-1),)),
        Case("layer norm 128x768", ((128, 768), (768,), (768,)),
             lambda e, x, g, b: R.nn.layer_norm(x, g, b, axes=[-1]),
             (node("LayerNormalization", "a b c", axis=-1),)),
        Case("gelu 128x3072", ((128, 3072),), lambda e, x: R.nn.gelu(x), (node("Gelu", "a"),)),
        Case("LRN 64x56x56", ((1, 64, 56, 56),), lrn,
             (node("LRN", "a", size=5, alpha=1e-4, beta=0.75),)),
        Case("add+relu 256x56x56", ((1, 256, 56, 56), (1, 256, 56, 56)),
             lambda e, x, y: R.nn.relu(e(R.add(x, y))),
             (node("Add", "a b", "t"), node("Relu", "t")), 2),
        Case("transpose 64x56x56 NHWC", ((1, 64, 56, 56),),
             lambda e, x: R.permute_dims(x, [0, 2, 3, 1]),
             (node("Transpose", "a", perm=[0, 2, 3, 1]),)),
        Case("concat 128+32x28x28", ((1, 128, 28, 28), (1, 32, 28, 28)),
             lambda e, x, y: R.concat([x, y], 1), (node("Concat", "a b", axis=1),), 2),
    ]  # fmt: skip


def fused(shapes: Sequence[Shape], body: Callable[..., Any]) -> Any:
    """The one function into which TVM fuses the operators of `body`."""
    builder = relax.BlockBuilder()
    inner = [relax.Var(f"p{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("kernel", inner, private=True, attrs={"Primitive": True}):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *inner))
        builder.emit_func_output(result)
    (kernel,) = builder.get().get_global_vars()
    outer = [relax.Var(f"q{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("main", outer):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(kernel, outer))
        builder.emit_func_output(result)
    module = builder.get()
    for lowering in LOWERING:
        module = lowering()(module)
    (func,) = (f for name, f in module.functions.items() if name.name_hint != "main")
    return func.with_attr("global_symbol", "kernel")


def session(case: Case, arrays: Sequence[np.ndarray]) -> Callable[[], Any]:
    """A call of onnxruntime that returns the binding; all but the inputs are initializers."""
    named = list(zip("abcdef", arrays, strict=False))
    fed, weights = named[: case.fed], named[case.fed :]
    graph = helper.make_graph(
        list(case.nodes),
        "case",
        [helper.make_tensor_value_info(name, 1, array.shape) for name, array in fed],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    runner = onnxruntime.InferenceSession(model.SerializeToString(), options)
    binding = runner.io_binding()
    for name, array in fed:
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    (first,) = runner.run(None, dict(fed))
    result = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(first))
    binding.bind_ortvalue_output("y", result)

    def call() -> Any:
        runner.run_with_iobinding(binding)
        return result

    return call


def cpu_time(call: Callable[[], Any], times: int = 1) -> float:
    """Microseconds of this thread for one call."""
    start = time.thread_time_ns()
    for _ in range(times):
        call()
    return (time.thread_time_ns() - start) / times / 1e3


def measure(calls: Sequence[Callable[[], Any]], rounds: int) -> list[tuple[float, float]]:
    """Hot and cold time of each call; the calls run in turn."""
    evicted = np.zeros(EVICTED_BYTES, np.uint8)
    times = [max(1, int(300 / max(1.0, min(cpu_time(c) for _ in range(3))))) for c in calls]
    hot: list[list[float]] = [[] for _ in calls]
    cold: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for index, call in enumerate(calls):
            call()
            hot[index].append(cpu_time(call, times[index]))
            evicted += 1
            cold[index].append(cpu_time(call))
    return [(low(h), low(c)) for h, c in zip(hot, cold, strict=True)]


def low(values: Sequence[float]) -> float:
    return float(np.percentile(values, 10))


def chain(
    case: Case, arrays: Sequence[np.ndarray], target: Any
) -> tuple[Callable[[], None], Any, tuple[float, float]]:
    """A call of our kernels one after the other, its result, and the seconds to make them."""
    left = [tvm.runtime.tensor(array) for array in arrays]
    calls, scheduling, building = [], 0.0, 0.0
    carried: list[Any] = []
    for body in case.steps or (case.body,):
        count = len(inspect.signature(body).parameters) - 1 - len(carried)
        operands, left = [*carried, *left[:count]], left[count:]
        func = fused([tuple(operand.shape) for operand in operands], body)
        begin = time.perf_counter()
        scheduled = schedule(func, target=target)
        middle = time.perf_counter()
        built = tvm.compile(tvm.IRModule({"kernel": scheduled}), target=target)["kernel"]
        scheduling, building = scheduling + middle - begin, building + time.perf_counter() - middle
        shape = [int(extent) for extent in func.params[-1].shape]
        carried = [tvm.runtime.tensor(np.zeros(shape, "float32"))]
        calls.append((built, (*operands, *carried)))

    def call() -> None:
        for kernel, tensors in calls:
            kernel(*tensors)

    return call, carried[0], (scheduling, building)


def run(case: Case, target: Any, rounds: int) -> Row:
    """Build a case both ways, compare the results, and time them."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in case.shapes]
    ours, result, seconds = chain(case, arrays, target)
    theirs = session(case, arrays)
    expected = theirs().numpy()
    ours()
    got = result.numpy().reshape(expected.shape)
    error = float(np.abs(got - expected).max() / np.abs(expected).max())
    (tvm_hot, tvm_cold), (ort_hot, ort_cold) = measure([ours, theirs], rounds)
    return Row(
        case.name, tvm_hot, ort_hot, tvm_cold, ort_cold, error, *seconds
    )  # fmt: skip


HEADER = (
    f"{'kernel':28} {'tvm':>9} {'ort':>9} {'ratio':>6}   {'tvm cold':>9} {'ort cold':>9} "
    f"{'ratio':>6}   {'error':>7} {'sched':>6} {'build':>6}"
)


def line(row: Row) -> str:
    hot, cold = row.tvm_hot / row.onnxruntime_hot, row.tvm_cold / row.onnxruntime_cold
    return (
        f"{row.name:28} {row.tvm_hot:9.1f} {row.onnxruntime_hot:9.1f} {hot:6.2f}   "
        f"{row.tvm_cold:9.1f} {row.onnxruntime_cold:9.1f} {cold:6.2f}   {row.error:7.0e} "
        f"{row.schedule_seconds:6.3f} {row.build_seconds:6.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--json", action="store_true", help="one JSON object for each kernel")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    processor = tvm.get_global_func("target.llvm_get_system_cpu")()
    target = tvm.target.Target({"kind": "llvm", "mcpu": processor, "num-cores": 1})
    if not given.json:
        print(f"{processor}, one thread, microseconds\n{HEADER}")
    for case in cases():
        if given.only in case.name:
            row = run(case, target, given.rounds)
            print(json.dumps(asdict(row)) if given.json else line(row), flush=True)


if __name__ == "__main__":
    main()
