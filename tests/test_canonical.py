"""One canonical form, whoever wrote the module: our importer of ONNX, or TVM's."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx as tvm_from_onnx

import collage_dsl as collage
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import Form, Graph

op = relax.op
FAST = ("squeezenet", "shufflenet", "inception_v1")


def digests(graph: Graph) -> tuple[Counter[int], list[int]]:
    """What each node computes, and what the outputs do, whatever the names and the order."""
    found: list[int] = []
    for node in graph.nodes:
        inputs = tuple(found[index] for index in node.inputs)
        shown = node.name if node.form is Form.INPUT else ""
        if node.form in (Form.LITERAL, Form.PROJECTION):
            shown = repr(node.value)
        attrs = repr(sorted(node.attrs.items()))
        type_ = "" if node.form is Form.INPUT else str(node.type)
        found.append(hash((node.form, node.op, attrs, type_, inputs, shown)))
    return Counter(found), [found[index] for index in graph.outputs]


def by_tvm(model: onnx.ModelProto) -> Graph:
    return collage.from_relax(tvm_from_onnx(model, keep_params_in_input=False))


def price(kernel: Any) -> float:
    return (1e-6 if kernel.target == "tvm" else 3e-6) + 1e-7 * len(kernel.nodes)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in light_models()],
)
def test_a_light_model_has_the_same_plan_from_either_importer(name: str) -> None:
    model = light_model(name)
    ours, theirs = collage.from_onnx(model), by_tvm(model)
    assert digests(ours) == digests(theirs)

    specs = [collage.load(path)[key] for path, key in SPECS]
    kernels, costs = [], []
    for graph in (ours, theirs):
        found = collage.propose(graph, *specs)
        plan = collage.choose(graph, found, cost=price)
        kernels.append(
            (
                Counter((each.target, each.label, len(each.nodes)) for each in found),
                Counter((k.target, k.label, len(k.nodes)) for k in plan.kernels),
            )
        )
        costs.append(plan.cost)
    assert kernels[0] == kernels[1]
    assert costs[0] == pytest.approx(costs[1])


_ROOT = Path(collage.__file__).parent
_FOLDER = _ROOT / "specs" if (_ROOT / "specs").exists() else _ROOT.parent / "specs"
SPECS = [(_FOLDER / "native.collage", "tvm"), (_FOLDER / "onnxruntime.collage", "onnxruntime")]

# ---- Values ----


def function(shapes: dict[str, tuple[Any, ...]], body: Callable[..., Any]) -> tvm.IRModule:
    """A module whose function `main` is one dataflow block, which `body` writes."""
    builder = relax.BlockBuilder()
    dtypes = {"i": "int64"}
    params = [
        relax.Var(name, relax.TensorType(shape, dtypes.get(name, "float32")))
        for name, shape in shapes.items()
    ]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *params))
        builder.emit_func_output(result)
    return builder.get()


def array(*shape: int, seed: int = 0) -> Any:
    return relax.const(np.random.default_rng(seed).standard_normal(shape, np.float32))


def run(module: tvm.IRModule, inputs: list[Any]) -> Any:
    machine = relax.VirtualMachine(
        tvm.compile(module, tvm.target.Target({"kind": "llvm"})), tvm.cpu()
    )
    return machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()


def clipped(emit: Any, x: Any) -> Any:
    """What TVM writes for `Clip`."""
    low = emit(op.where(emit(op.isnan(relax.const(-0.5))), relax.const(-np.inf), relax.const(-0.5)))
    high = emit(op.where(emit(op.isnan(relax.const(0.7))), relax.const(np.inf), relax.const(0.7)))
    builder = relax.BlockBuilder.current()
    return emit(
        builder.call_te(tvm.topi.minimum, emit(builder.call_te(tvm.topi.maximum, x, low)), high)
    )


def limited(emit: Any, x: Any, *bounds: tuple[float, float]) -> Any:
    """What TVM's importer of PyTorch writes for `relu6` and others."""
    for low, high in bounds:
        x = emit(op.clip(x, low, high))
    return x


def by_one(emit: Any, x: Any) -> Any:
    half = emit(op.multiply(x, relax.const(0.5)))
    same = emit(op.multiply(emit(op.multiply(half, relax.const(2.0))), relax.const(1.0)))
    return op.multiply(x, emit(op.sigmoid(same)))


def normed(emit: Any, x: Any, **attrs: Any) -> Any:
    y = emit(op.nn.conv2d(x, array(4, 3, 3, 3)))
    y = emit(op.add(y, emit(op.reshape(array(4), (1, 4, 1, 1)))))
    parts = [array(4, seed=1), array(4, seed=2), array(4, seed=3), relax.const(VARIANCES)]
    whole = emit(op.nn.batch_norm(y, *parts, axis=1, **{"training": False, **attrs}))
    return emit(op.nn.relu(emit(relax.TupleGetItem(whole, 0))))


VARIANCES = np.array([0.5, 1.0, 2.0, 0.1], np.float32)


def summed(emit: Any, reduced: Any, x: Any) -> Any:
    parts = [emit(op.broadcast_to(each, (2, 3, 4))) for each in (x, array(4), array(1, 3, 1))]
    return reduced(emit(op.stack(parts, axis=0)), axis=[0])


def pooled(emit: Any, x: Any) -> Any:
    wide = emit(op.nn.avg_pool3d(
        emit(op.expand_dims(x, 1)), (3, 1, 1), padding=(1, 0, 0, 1, 0, 0), count_include_pad=True
    ))  # fmt: skip
    return op.squeeze(wide, [1])


def row_product(emit: Any, x: Any) -> Any:
    flat = emit(op.reshape(x, (6, 4)))
    product = emit(op.matmul(flat, emit(op.permute_dims(array(5, 4))), out_dtype="float32"))
    return op.reshape(emit(op.add(array(5), product)), (2, 3, 5))


def batch_product(emit: Any, x: Any) -> Any:
    left = emit(op.reshape(emit(op.broadcast_to(x, (2, 3, 4, 5))), (6, 4, 5)))
    right = emit(op.reshape(emit(op.permute_dims(x, [0, 1, 3, 2])), (6, 5, 4)))
    return op.reshape(emit(op.matmul(left, right)), (2, 3, 4, 4))


def softened(emit: Any, x: Any) -> Any:
    return op.reshape(emit(op.nn.softmax(emit(op.reshape(x, (2, 6))), axis=-1)), (2, 6, 1, 1))


def taken(emit: Any, x: Any, i: Any) -> Any:
    shape = emit(op.shape_to_tensor(emit(op.shape_of(x))))
    size = emit(op.take(shape, relax.const(1, "int64"), axis=0, mode="wrap"))
    below = emit(op.less(i, relax.const(0, "int64")))
    return op.take(x, emit(op.where(below, emit(op.add(i, size)), i)), axis=1)


def dropped(emit: Any, x: Any) -> Any:
    return op.exp(emit(relax.TupleGetItem(emit(op.nn.dropout(x, 0.5)), 0)))


def shifted(emit: Any, x: Any) -> Any:
    y = emit(op.subtract(emit(op.divide(x, relax.const(2.0))), array(3, 1, 1)))
    return op.multiply(array(1, 3, 1, 1, seed=1), emit(op.add(relax.const(1.0), y)))


IMAGE = {"x": (2, 3, 6, 6)}
FORMS: dict[str, tuple[dict[str, tuple[int, ...]], Callable[..., Any], str]] = {
    "clip": ({"x": (2, 3)}, clipped, "clip"),
    "batch norm": (IMAGE, normed, "nn.conv2d add nn.relu"),
    "batch norm without a scale": (IMAGE, partial(normed, scale=False), "nn.conv2d add nn.relu"),
    "sum": ({"x": (2, 3, 4)}, lambda e, x: summed(e, op.sum, x), "add add"),
    "max": ({"x": (2, 3, 4)}, lambda e, x: summed(e, op.max, x), "maximum maximum"),
    "min": ({"x": (2, 3, 4)}, lambda e, x: summed(e, op.min, x), "minimum minimum"),
    "channel mean": (IMAGE, pooled, "nn.avg_pool2d"),
    "product of rows": ({"x": (2, 3, 4)}, row_product, "matmul add"),
    "product of batches": ({"x": (2, 3, 4, 5)}, batch_product, "permute_dims matmul"),
    "softmax": ({"x": (2, 6, 1, 1)}, softened, "nn.softmax"),
    "dropout": ({"x": (2, 3)}, dropped, "exp"),
    "arithmetic": (IMAGE, shifted, "multiply add"),
    "mean": (IMAGE, lambda e, x: op.mean(x, [-1, -2], True), "mean"),
    "clip without bounds": ({"x": (2, 3)}, lambda e, x: op.exp(limited(e, x, (-inf, inf))), "exp"),
    "clip from below": ({"x": (2, 3)}, lambda e, x: limited(e, x, (0, inf)), "nn.relu"),
    "clip from above": ({"x": (2, 3)}, lambda e, x: limited(e, x, (-inf, 1)), "minimum"),
    "two clips": ({"x": (2, 3)}, lambda e, x: limited(e, x, (0, inf), (-inf, 1)), "clip"),
    "two clips of no range": (
        {"x": (2, 3)},
        lambda e, x: limited(e, x, (1, inf), (-inf, -1)),
        "maximum minimum",
    ),
    "product by one": ({"x": (2, 3)}, by_one, "sigmoid multiply"),
    "clip of integers": ({"x": (2, 3)}, lambda e, x: op.clip(x, 0, 6), "clip"),
}


def inputs_of(shapes: dict[str, tuple[int, ...]]) -> list[Any]:
    generator = np.random.default_rng(7)
    return [generator.standard_normal(shape, np.float32) for shape in shapes.values()]


@pytest.mark.parametrize("name", FORMS)
def test_the_canonical_form_computes_the_same(name: str) -> None:
    shapes, body, ops = FORMS[name]
    module = function(shapes, body)
    graph = collage.from_relax(module)

    assert " ".join(node.op for node in graph.nodes if node.is_call) == ops
    inputs = inputs_of(shapes)
    np.testing.assert_allclose(
        run(to_relax(graph), inputs), run(module, inputs), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", FORMS)
def test_what_is_in_canonical_form_stays_as_it_is(name: str) -> None:
    graph = collage.from_relax(function(*FORMS[name][:2]))
    module = to_relax(graph)

    assert collage.from_relax(module).source.module.same_as(module)  # type: ignore[attr-defined]


def test_an_index_is_counted_from_the_end_by_the_operator() -> None:
    graph = collage.from_relax(function({"x": (2, 5), "i": (3,)}, taken))

    assert [node.op for node in graph.nodes if node.is_call] == ["take"]
    assert [graph.nodes[i].name for i in graph.nodes[-1].inputs] == ["x", "i"]


def test_an_index_that_is_clipped_is_left() -> None:
    """A negative one would be 0."""

    def clipped_index(emit: Any, x: Any, i: Any) -> Any:
        below = emit(op.less(i, relax.const(0, "int64")))
        raised = emit(op.add(i, relax.const(5, "int64")))
        return op.take(x, emit(op.where(below, raised, i)), axis=1, mode="clip")

    graph = collage.from_relax(function({"x": (2, 5), "i": (3,)}, clipped_index))

    assert [node.op for node in graph.nodes if node.is_call] == ["less", "add", "where", "take"]


def test_what_is_rounded_is_computed_as_it_is_written() -> None:
    def rounded(emit: Any, x: Any) -> Any:
        return op.round(emit(op.divide(x, relax.const(np.float32(3)))))

    graph = collage.from_relax(function({"x": (2, 3)}, rounded))

    assert [node.op for node in graph.nodes if node.is_call] == ["divide", "round"]


def test_a_function_taken_as_it_is_keeps_its_operators() -> None:
    graph = from_relax(function(IMAGE, normed), is_canonical=True)

    assert "nn.batch_norm" in [node.op for node in graph.nodes]


TRAINS = partial(normed, training=True)


@pytest.mark.parametrize(
    ("shapes", "body", "kept"),
    [
        (IMAGE, TRAINS, "nn.batch_norm"),
        ({"x": (2, 3)}, lambda e, x: e(op.nn.dropout(x, 0.5)), "nn.dropout"),
        ({"x": (3,)}, lambda e, x: op.divide(x, relax.const(np.float32(0))), "divide"),
        ({"x": (2, 6, 1, 2)}, lambda e, x: not_one_axis(e, x), "reshape"),
        ({"x": (2, 3)}, lambda e, x: op.broadcast_to(array(1), (70, 70)), "broadcast_to"),
    ],
)
def test_what_is_not_the_same_is_left(shapes: Any, body: Any, kept: str) -> None:
    graph = collage.from_relax(function(shapes, body))

    assert kept in [node.op for node in graph.nodes]


def not_one_axis(emit: Any, x: Any) -> Any:
    matrix = emit(op.reshape(x, (2, 12)))
    return op.reshape(emit(op.nn.softmax(matrix, axis=-1)), (2, 6, 1, 2))


def test_functions_that_nothing_calls_any_more_are_left_out() -> None:
    graph = collage.from_relax(function({"x": (2, 3)}, clipped))

    names = {var.name_hint for var in graph.source.module.get_global_vars()}  # type: ignore[attr-defined]
    assert names == {"main"}


@pytest.mark.parametrize("attrs", [{}, {"global_symbol": "forward", "num_input": 1}])
def test_a_function_keeps_its_attributes_whatever_its_name(attrs: dict[str, Any]) -> None:
    made = function({"x": (2, 3)}, clipped)
    main = made["main"].without_attr("global_symbol").with_attrs(attrs)
    others = {var: each for var, each in made.functions_items() if var.name_hint != "main"}
    infos = {"vdevice": [relax.VDevice("llvm")]}
    module = tvm.IRModule({**others, tvm.ir.GlobalVar("forward"): main}, global_infos=infos)
    spec = collage.load(text="collage 1; target tvm on llvm { rules op_call_by_kind(); }")["tvm"]

    graph = collage.from_relax(module, "forward")
    plan = collage.choose(graph, collage.propose(graph, spec), cost=lambda _: 1e-6)
    result = collage.realize(plan)

    assert "clip" in [node.op for node in graph.nodes], "the canonical form is another one"
    assert dict((result["forward"].attrs or {}).items()) == attrs
    assert [str(each.target.kind.name) for each in result.global_infos["vdevice"]] == ["llvm"]


def test_names_are_kept_for_the_values_that_remain() -> None:
    module = function(IMAGE, normed)
    bindings = module["main"].body.blocks[0].bindings
    graph = collage.from_relax(module, names={bindings[-2].var: "result"})

    assert graph.nodes[-1].name == "result"


def test_a_symbolic_dimension_stays_one() -> None:
    n = tvm.tirx.Var("n", "int64")

    def body(emit: Any, x: Any) -> Any:
        return op.add(emit(op.matmul(x, emit(op.permute_dims(array(5, 4))))), array(5))

    graph = collage.from_relax(function({"x": (n, 4)}, body))

    assert [node.op for node in graph.nodes if node.is_call] == ["matmul", "add"]
    assert str(graph.nodes[-1].type) == "f32[n, 5]"


def test_constants_of_onnx_keep_their_names() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[2,4] x) => (float[2,5] y) '
        "{ y = MatMul (x, w) }"
    )
    weight = np.ones((4, 5), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))

    assert {node.name for node in collage.from_onnx(model).nodes} == {"x", "w", "y"}
