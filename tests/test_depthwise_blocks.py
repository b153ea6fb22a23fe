"""
The variant `depthwise` computes blocks of convolutions, and `native` proposes these blocks.
`direct` computes any chain of convolutions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl.backends.depthwise import unsuitable
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.depthwise import sizes
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.frontend.light import light_model
from tests.cases import covering, slow
from tests.test_product_variants import computed
from tests.test_schedule import Array, Shapes, convolved, fused, native

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))

from kernels.ours import made_by_us  # noqa: E402 - a module of the benchmarks
from layers import Layers, random_inputs  # noqa: E402 - a module of the benchmarks

PROCESSORS = pytest.mark.parametrize("processor", [None, "haswell", "x86-64"])

Window = tuple[tuple[int, ...], int, int, int, int]
"""The image, the channels, side and stride of the depthwise convolution, and the last channels."""

WINDOWS: list[Window] = [
    ((1, 5, 14, 13), 32, 3, 2, 20),
    ((2, 7, 15, 16), 16, 5, 1, 33),
    ((1, 16, 17, 9), 48, 5, 2, 16),
    ((1, 40, 7, 7), 240, 3, 1, 40),
    ((1, 3, 40, 3), 12, 7, 1, 9),
    ((1, 8, 31, 60), 8, 3, 1, 8),
]
MORE_WINDOWS: list[Window] = [((1, 24, 14, 14), 96, 3, 1, 24), ((1, 6, 112, 30), 32, 3, 2, 24)]

Step = tuple[int, int, int, bool]
"""The output channels of a convolution, its kernel and stride, and whether it is depthwise."""

CHAINS: list[tuple[tuple[int, ...], list[Step], bool]] = [
    ((1, 4, 14, 13), [(6, 1, 1, False), (6, 3, 2, True), (5, 1, 1, False)], False),
    ((2, 4, 15, 16), [(6, 1, 1, False), (6, 5, 1, True), (4, 1, 1, False)], True),
    ((1, 3, 19, 19), [(5, 3, 1, False), (6, 3, 2, False), (4, 3, 1, False)], False),
    ((1, 3, 19, 19), [(5, 3, 2, False), (5, 3, 1, True), (5, 3, 1, True)], False),
]
"""The image, the convolutions, and whether the image is added to what they compute."""


def block(steps: list[Step], residual: bool) -> Callable[..., Any]:
    def body(emit: Any, x: Any, *weights: Any) -> Any:
        y = x
        for (channels, kernel, stride, depthwise), w in zip(steps, weights, strict=True):
            groups = channels if depthwise else 1
            y = emit(R.nn.conv2d(y, w, strides=stride, padding=kernel // 2, groups=groups))
            y = emit(R.clip(y, 0.0, 6.0))
        return R.add(y, x) if residual else y

    return body


def expected(steps: list[Step], residual: bool) -> Callable[..., Array]:
    def result(x: Array, *weights: Array) -> Array:
        y = x
        for (channels, kernel, stride, depthwise), w in zip(steps, weights, strict=True):
            groups = channels if depthwise else 1
            y = np.clip(convolved(y, w, stride, kernel // 2, groups=groups), 0, 6)
        return y + x if residual else y

    return result


def shapes(image: tuple[int, ...], steps: list[Step]) -> list[tuple[int, ...]]:
    found, channels = [image], image[1]
    for out, kernel, _, depthwise in steps:
        found.append((out, 1 if depthwise else channels, kernel, kernel))
        channels = out
    return found


def check(
    given: Shapes,
    body: Callable[..., Any],
    expect: Callable[..., Array],
    target: Any,
    variant: str = "depthwise",
) -> None:
    random = np.random.default_rng(0)
    scales = [1.0, *(1 / np.sqrt(np.prod(shape[1:])) for shape in given[1:])]
    arrays = [
        (scale * random.standard_normal(shape)).astype("float32")
        for scale, shape in zip(scales, given, strict=True)
    ]
    (found,) = computed(given, body, arrays, target, variant)
    wanted = expect(*[array.astype("float64") for array in arrays])
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("image", "inner", "side", "stride", "made", "before", "after", "cores"),
    covering(WINDOWS, [(True, True), (True, False), (False, True)], [1, 2], rest=MORE_WINDOWS),
)
def test_a_block_of_any_shape_is_exact(
    image: tuple[int, ...],
    inner: int,
    side: int,
    stride: int,
    made: int,
    before: bool,
    after: bool,
    cores: int,
) -> None:
    image = image if before else (image[0], inner, *image[2:])
    steps: list[Step] = [(inner, 1, 1, False)] * before + [(inner, side, stride, True)]
    steps += [(made, 1, 1, False)] * after
    residual = stride == 1 and image[1] == steps[-1][0]
    check(shapes(image, steps), block(steps, residual), expected(steps, residual), native(cores))


@PROCESSORS
def test_a_narrower_processor_computes_the_same_block(processor: str | None) -> None:
    steps: list[Step] = [(40, 1, 1, False), (40, 3, 1, True), (24, 1, 1, False)]
    given = shapes((1, 24, 11, 19), steps)
    check(given, block(steps, True), expected(steps, True), native(1, processor))


def test_a_strip_of_few_rows_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "STRIP_BYTES", 16 * 1024)
    steps: list[Step] = [(48, 1, 1, False), (48, 5, 1, True), (24, 1, 1, False)]
    given = shapes((1, 24, 23, 18), steps)
    check(given, block(steps, True), expected(steps, True), native())


def test_biases_and_a_hard_swish_stand_between_the_convolutions() -> None:
    def hard_swish(emit: Any, x: Any) -> Any:
        bounded = emit(R.clip(emit(R.add(x, relax.const(3.0))), 0.0, 6.0))
        return emit(R.multiply(x, emit(R.divide(bounded, relax.const(6.0)))))

    def body(emit: Any, x: Any, u: Any, w: Any, v: Any, a: Any, b: Any, c: Any) -> Any:
        y = hard_swish(emit, emit(R.add(emit(R.nn.conv2d(x, u)), a)))
        y = emit(R.nn.conv2d(y, w, padding=2, groups=32))
        y = hard_swish(emit, emit(R.add(y, b)))
        return R.add(emit(R.add(emit(R.nn.conv2d(y, v)), c)), x)

    def swish(x: Array) -> Array:
        return x * np.clip(x + 3, 0, 6) / 6

    def expect(x: Array, u: Array, w: Array, v: Array, a: Array, b: Array, c: Array) -> Array:
        y = swish(convolved(x, u) + a)
        y = swish(convolved(y, w, padding=2, groups=32) + b)
        return convolved(y, v) + c + x

    biases = [(1, 32, 1, 1), (1, 32, 1, 1), (1, 12, 1, 1)]
    weights = [(32, 12, 1, 1), (32, 1, 5, 5), (12, 32, 1, 1)]
    check([(1, 12, 13, 17), *weights, *biases], body, expect, native())


def test_another_chain_is_refused_with_a_reason() -> None:
    steps: list[Step] = [(16, 3, 1, False), (16, 3, 1, True)]
    func = fused(shapes((1, 16, 9, 9), steps), block(steps, False))
    with pytest.raises(VariantError, match="pointwise"):
        schedule_variant(func, "depthwise", target=native())


@pytest.mark.usefixtures("small_loops_are_shared")
@pytest.mark.parametrize(("image", "steps", "residual", "cores"), covering(CHAINS, [1, 2]))
def test_direct_computes_any_chain(
    image: tuple[int, ...], steps: list[Step], residual: bool, cores: int
) -> None:
    given, body, expect = shapes(image, steps), block(steps, residual), expected(steps, residual)
    check(given, body, expect, native(cores), "direct")


def test_a_value_that_is_read_again_is_refused() -> None:
    def body(emit: Any, x: Any, u: Any, w: Any) -> Any:
        y = emit(R.nn.relu(emit(R.nn.conv2d(x, u))))
        return R.add(emit(R.nn.conv2d(y, w, padding=1, groups=16)), y)

    func = fused([(1, 16, 9, 9), (16, 16, 1, 1), (16, 1, 3, 3)], body)
    with pytest.raises(VariantError, match="elsewhere"):
        schedule_variant(func, "depthwise", target=native())


@pytest.mark.parametrize(
    ("channels", "groups", "reason"),
    [(32, 32, None), (32, 4, "groups"), (30, 30, "whole vectors"), (32, 1, "one tap")],
)
def test_the_check_of_a_graph_says_why_not(channels: int, groups: int, reason: str | None) -> None:
    graph = collage.parse_graph(f"""
        graph {{
          x: f32[1, {channels}, 9, 9];
          w: f32[{channels}, {channels // groups}, 3, 3];
          v: f32[8, {channels}, 1, 1];
          d = nn.conv2d(x, w) [groups = {groups}, padding = [1, 1, 1, 1]];
          y = nn.conv2d(d, v);
          return y;
        }}
    """)
    found = unsuitable(graph)
    assert found is None if reason is None else reason in str(found)


# A sum at the end, a stride, and no first convolution.
BLOCKS = [(16, 96, 24, 28, 2), (32, 32, 16, 28, 1), (64, 384, 64, 7, 1), slow((24, 144, 24, 28, 1))]


@pytest.mark.parametrize("layer", BLOCKS)
def test_a_block_of_mobilenet_is_that_of_onnxruntime(layer: tuple[int, ...]) -> None:
    taken, inner, made, image, stride = layer
    net = Layers()
    result = net.inverted(net.input(1, taken, image, image), taken, inner, made, stride)
    model = net.model(result)
    inputs = random_inputs(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, inputs)
    (whole,) = [m for m in made_by_us(model, inputs, native(), ["depthwise"]) if " " not in m.name]
    whole.loaded.call()
    found = whole.loaded.output()
    assert np.abs(found - wanted).max() <= 2e-6 * np.abs(wanted).max()


def test_a_block_of_mobilenet_is_proposed_whole_and_in_two_parts() -> None:
    net = Layers()
    model = net.model(net.inverted(net.input(1, 24, 14, 14), 24, 144, 24), (1, 24, 14, 14))
    graph = collage.from_onnx(model)
    (spec,) = collage.load(ROOT / "specs" / "native.collage").values()
    convolutions = {node.name for node in graph.nodes if node.op == "nn.conv2d"}
    found = collage.propose(graph, spec)
    blocks = [each for each in found if len(each.nodes & convolutions) > 1]
    # With and without the sum at the end: all three and the last two; and the first two.
    assert sorted(len(each.nodes & convolutions) for each in blocks) == [2, 2, 2, 3, 3]
    plan = collage.choose(graph, found, cost=lambda _: 1.0)
    assert len(plan.kernels) == 1


def test_no_block_is_proposed_in_resnet() -> None:
    graph = collage.from_onnx(light_model("resnet50"))
    (spec,) = collage.load(ROOT / "specs" / "native.collage").values()
    convolutions = {node.name for node in graph.nodes if node.op == "nn.conv2d"}
    found = collage.propose(graph, spec)
    assert len(found) > len(convolutions) > 50
    assert all(len(each.nodes & convolutions) <= 1 for each in found)
