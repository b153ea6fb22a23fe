"""Relax functions become graphs, and graphs Relax functions, with nothing lost."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: F841, N805, N812, SIM108

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from collage_dsl.frontend.dims import dim_of, expr_of
from collage_dsl.frontend.errors import FrontendError, UnsupportedRelax
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.light import light_model
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import (
    Form,
    Graph,
    Kind,
    Node,
    OpaqueType,
    TensorType,
    TupleType,
    members,
)
from collage_dsl.language.loading import patterns
from collage_dsl.rules.matcher import Attempt, matches
from tests.cases import slow

F32 = "float32"


def structure(graph: Graph) -> object:
    """What a graph says, but for the names of what is written inside a call."""
    rows = [
        (
            node.name if node.form in (Form.INPUT, Form.CALL, Form.PROJECTION) else "",
            (node.form, node.type, node.inputs, node.op, dict(node.attrs), node.kind, node.block),
            _digest(node.value) if node.form is Form.CONSTANT else node.value,
        )
        for node in graph.nodes
    ]
    return rows, graph.outputs, graph.name, graph.returns_tuple


def _digest(value: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(value)).hexdigest()


def function(
    shapes: dict[str, tuple[Any, ...]], body: Callable[..., Any], dtype: str = F32
) -> tvm.IRModule:
    """
    A module whose `main` binds what `body` makes of its parameters; of the call of an operator
    that gives a tuple, all fields.
    """
    builder = relax.BlockBuilder()
    params = [relax.Var(name, relax.TensorType(shape, dtype)) for name, shape in shapes.items()]
    with builder.function("main", params):
        with builder.dataflow():
            value = builder.normalize(body(*params))
            if isinstance(value, tvm.ir.Call) and isinstance(value.ty, relax.TupleType):
                whole = builder.emit(value)
                fields = (relax.TupleGetItem(whole, i) for i in range(len(value.ty.fields)))
                result: Any = relax.Tuple([builder.emit_output(field) for field in fields])
            else:
                result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def constant(*shape: int) -> Any:
    return relax.const(np.random.default_rng(0).standard_normal(shape, np.float32))


X = {"x": (2, 8, 6, 6)}
op = relax.op

CALLS: dict[str, tuple[dict[str, tuple[int, ...]], Callable[..., Any]]] = {
    "conv2d": (X, lambda x: op.nn.conv2d(x, constant(4, 2, 3, 3), padding=1, groups=4)),
    "avg_pool2d": (X, lambda x: op.nn.avg_pool2d(x, 3, 2, 1, count_include_pad=True)),
    "mean": (X, lambda x: op.mean(x, axis=[2, 3], keepdims=True)),
    "argmax": (X, lambda x: op.argmax(x, axis=1)),
    "matmul": (X, lambda x: op.matmul(x, constant(6, 3))),
    "reshape": (X, lambda x: op.reshape(x, (2, -1))),
    "clip": (X, lambda x: op.clip(x, 0, 6.5)),
    "split at": (X, lambda x: op.split(x, [2, 5], axis=1)),
    "split in": (X, lambda x: op.split(x, 2, axis=1)),
    "strided slice": (X, lambda x: op.strided_slice(x, [1, 2], [0, 1], [4, 5], [1, 2])),
    "concat": (X, lambda x: op.concat([x, constant(2, 1, 6, 6), x], axis=1)),
    "resize2d": (X, lambda x: op.image.resize2d(x, (12, 12), method="linear")),
    "layer_norm": (X, lambda x: op.nn.layer_norm(x, constant(6), constant(6), axes=-1)),
    "batch_norm": (X, lambda x: op.nn.batch_norm(x, *(constant(8),) * 4, axis=1)),
    "full": (X, lambda x: op.add(x, op.full((2, 8, 6, 6), relax.const(1.5, F32), F32))),
    "take": (X, lambda x: op.take(x, relax.const(np.array([1, 0])), axis=1)),
    "permute_dims": (X, op.permute_dims),
    "squeeze": ({"x": (2, 1, 3)}, op.squeeze),
    "cumsum": (X, lambda x: op.cumsum(x, axis=1, dtype="float64")),
    "astype": (X, lambda x: op.astype(x, "float16")),
    "attention": (
        {"q": (1, 4, 2, 8), "k": (1, 4, 2, 8)},
        lambda q, k: op.nn.attention(q, k, k, scale=0.25, causal_mask="TopLeft"),
    ),
    "pad": (X, lambda x: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 2, 2], pad_value=0.5)),
    "scalars": (X, lambda x: op.multiply(op.triu(x, 1), relax.const(2.0, F32))),
    "where": (X, lambda x: op.where(op.greater(x, relax.const(0.0, F32)), x, op.exp(x))),
    "topk": (X, lambda x: op.topk(x, k=2, axis=1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_module_comes_back_as_it_was(name: str) -> None:
    module = function(*CALLS[name])
    graph = from_relax(module, is_canonical=True)
    back = to_relax(graph)

    tvm.ir.assert_structural_equal(
        relax.transform.CanonicalizeBindings()(back), relax.transform.CanonicalizeBindings()(module)
    )
    assert structure(from_relax(back, is_canonical=True)) == structure(graph)


# The others are large, and have no operator that these lack.
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1", slow("densenet121")])
def test_a_light_model_comes_back_as_it_was(name: str) -> None:
    graph = from_onnx(light_model(name))

    assert structure(from_relax(to_relax(graph))) == structure(graph)


def test_the_nodes_are_in_the_order_of_the_bindings() -> None:
    graph = from_relax(
        function(
            {"x": (2, 3), "y": (2, 3)},
            lambda x, y: op.nn.relu(op.add(op.concat([x, y]), constant(3))),
        )
    )

    assert [(n.name, n.form) for n in graph.nodes] == [
        ("x", Form.INPUT),
        ("y", Form.INPUT),
        ("lv.args", Form.TUPLE),
        ("lv", Form.CALL),
        ("lv1.const1", Form.CONSTANT),
        ("lv1", Form.CALL),
        ("gv", Form.CALL),
    ]
    assert graph.operators(graph.calls) == ("concat", "add", "nn.relu")
    assert [n.kind for n in graph.nodes if n.is_call] == [
        Kind.INJECTIVE,
        Kind.BROADCAST,
        Kind.ELEMENTWISE,
    ]


def test_literals_are_nodes_named_after_their_operand() -> None:
    module = function({"x": (4, 6)}, lambda x: op.reshape(op.clip(x, 0, 6.5), (8, 3)))
    graph = from_relax(module, is_canonical=True)
    literals = [graph.nodes[i] for i in members(graph.literals)]

    assert [(n.name, n.type, n.value) for n in literals] == [
        ("lv.min", OpaqueType("int64"), 0),
        ("lv.max", OpaqueType("float64"), 6.5),
        ("gv.shape", OpaqueType("shape"), (8, 3)),
    ]


def test_a_tuple_of_numbers_is_one_literal() -> None:
    graph = from_relax(function({"x": (4, 6)}, lambda x: op.strided_slice(x, [1], [0], [4])))
    literals = [graph.nodes[i] for i in members(graph.literals)]

    assert [(n.name, n.value) for n in literals] == [
        ("gv.axes", (1,)),
        ("gv.begin", (0,)),
        ("gv.end", (4,)),
    ]
    assert not graph.free


def test_attributes_are_plain_values() -> None:
    graph = from_relax(function(*CALLS["conv2d"]))
    attrs = graph.nodes[-1].attrs

    assert attrs["strides"] == (1, 1)
    assert attrs["groups"] == 4
    assert attrs["data_layout"] == "NCHW"
    assert attrs["out_dtype"] is None
    assert {type(value) for value in attrs.values()} <= {int, str, tuple, type(None)}


def test_a_pattern_may_ask_for_an_attribute_that_has_no_value() -> None:
    asked = 'causal_mask in [none, "BottomRight"], scale == none, window_size == none'
    (pattern,) = patterns(
        text=f"collage 1; pattern p(q, k, v) {{ y = nn.attention(q, k, v) [{asked}]; yield y; }}"
    ).values()

    def is_matched(**attributes: Any) -> bool:
        module = function({"q": (1, 8, 2, 4)}, lambda q: op.nn.attention(q, q, q, **attributes))
        graph = from_relax(module)
        return bool(list(matches(pattern, graph, len(graph.nodes) - 1, Attempt())))

    assert is_matched()
    assert is_matched(causal_mask="BottomRight")
    assert not is_matched(causal_mask="TopLeft")
    assert not is_matched(scale=0.25)


def test_a_constant_that_is_used_twice_is_one_node() -> None:
    weight = constant(3)
    graph = from_relax(
        function({"x": (2, 3)}, lambda x: op.add(op.multiply(x, weight), weight)),
        names={weight: "scale"},
        is_canonical=True,
    )

    assert graph.names(graph.constants) == {"scale"}
    assert np.array_equal(graph.nodes[graph.index("scale")].value, weight.value.numpy())


def test_projections_know_their_index() -> None:
    def halves_added(x: Any) -> Any:
        halves = op.split(x, 2, axis=0)
        return op.add(relax.TupleGetItem(halves, 0), relax.TupleGetItem(halves, 1))

    graph = from_relax(function({"x": (4, 6)}, halves_added))
    projections = [n for n in graph.nodes if n.form is Form.PROJECTION]

    assert [(n.value, n.type) for n in projections] == [
        (0, TensorType(F32, (2, 6))),
        (1, TensorType(F32, (2, 6))),
    ]
    assert isinstance(graph.nodes[graph.index("lv")].type, TupleType)


def test_a_returned_tuple_is_several_outputs() -> None:
    graph = from_relax(function(X, lambda x: relax.Tuple([op.exp(x), op.argmin(x, 1, True)])))

    assert structure(from_relax(to_relax(graph))) == structure(graph)
    assert graph.returns_tuple
    assert [graph.nodes[i].op for i in graph.outputs] == ["exp", "argmin"]
    assert not graph.free


def test_an_alias_is_what_it_stands_for() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = a
                c = R.match_cast(b, R.Tensor((2, 3), "float32"))
                d = R.add(c, c)
                R.output(d)
            return d

    graph = from_relax(Module)

    assert [n.name for n in graph.nodes] == ["x", "a", "d"]
    assert graph.nodes[2].inputs == (1, 1)


def test_dataflow_blocks_are_numbered() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                a = R.exp(x)
                R.output(a)
            b = R.exp(a)
            with R.dataflow():
                c = R.exp(b)
                R.output(c)
            return c

    graph = from_relax(Module)

    assert [n.block for n in graph.nodes if n.is_call] == [0, 1, 2]
    assert len(from_relax(to_relax(graph))) == 4


def test_symbolic_dimensions_are_text() -> None:
    n = tvm.tirx.Var("n", "int64")
    module = function({"x": (n, 4)}, lambda x: op.reshape(op.concat([x, x]), (n, 8)))
    graph = from_relax(module)

    assert [n.type for n in graph.nodes if n.is_call] == [
        TensorType(F32, ("n * 2", 4)),
        TensorType(F32, ("n", 8)),
    ]
    assert structure(from_relax(to_relax(graph))) == structure(graph)


@pytest.mark.parametrize(
    "text", ["n", "n * 2", "(n + 1) // 2", "(n % 4) - 1", "max(n, m)", "min(n - 1, 8) * m"]
)
def test_dimensions_are_read_as_they_are_written(text: str) -> None:
    assert dim_of(expr_of(text, {})) == text


def test_a_dimension_that_is_no_expression_is_a_name() -> None:
    assert dim_of(expr_of("batch size", {})) == "batch size"


def test_a_constant_without_a_value_cannot_be_written() -> None:
    type_ = TensorType(F32, (2,))
    nodes = [
        Node("x", Form.INPUT, type_),
        Node("w", Form.CONSTANT, type_),
        Node("y", Form.CALL, type_, (0, 1), "add"),
    ]

    with pytest.raises(ValueError, match="the constant `w` has no value"):
        to_relax(Graph(nodes, [2]))


def refusal(module: tvm.IRModule, name: str = "main") -> str:
    with pytest.raises(UnsupportedRelax) as caught:
        from_relax(module, name)
    assert isinstance(caught.value, FrontendError)
    return str(caught.value)


def test_what_a_graph_cannot_hold_is_named() -> None:
    @I.ir_module
    class Module:
        @R.function
        def conditional(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor:
            if c:
                y = R.exp(x)
            else:
                y = R.negative(x)
            return y

        @R.function
        def calling(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Module
            with R.dataflow():
                y = cls.called(x)
                R.output(y)
            return y

        @R.function
        def called(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            with R.dataflow():
                y = R.call_inplace_packed(
                    "f", x, inplace_indices=[0], ty_args=[R.Tensor((2,), "float32")]
                )
                R.output(y)
            return y

        @R.function(pure=False)
        def printing(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            p = R.print(x, format="{}")
            return x

        @R.function
        def laid_out(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3, 2), "float32"):
            with R.dataflow():
                y = R.layout_transform(x, index_map=lambda i, j: (j, i))
                R.output(y)
            return y

    assert refusal(Module) == "the module has no function `main`"
    said = "the attribute value `T.index_map(lambda i, j: (j, i))` cannot be represented, at `y`"
    assert refusal(Module, "laid_out") == said
    assert refusal(Module, "conditional") == "`y` is an if, which cannot be represented"
    assert refusal(Module, "calling") == "`y` calls the function `called`"
    assert (
        refusal(Module, "called") == "`y` is a `call_inplace_packed`, not the call of an operator"
    )
    assert refusal(Module, "printing") == "`p` calls `print`, which has side effects"


def test_a_dimension_found_as_it_runs_is_refused() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor(None, "int64", ndim=2):
            n = T.int64()
            with R.dataflow():
                a = R.nonzero(x)
                b = R.match_cast(a, R.Tensor((1, n), "int64"))
                c = R.add(b, b)
                R.output(c)
            return c

    assert refusal(Module) == "`b` finds the dimension `n` as it runs"


def test_calls_of_compiled_functions_are_nodes() -> None:
    module = relax.transform.LegalizeOps()(function({"x": (2, 3)}, op.exp))
    [lowered] = {var.name_hint for var in module.get_global_vars()} - {"main"}

    [call] = [node for node in from_relax(module).nodes if node.is_call]

    assert call.op == "call_tir"
    assert call.attrs == {"function": lowered, "op_pattern": "opaque"}
    assert call.value.same_as(module[lowered])
    assert refusal(module, lowered) == f"`{lowered}` is not a Relax function"


@I.ir_module
class Halves:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tuple(
        R.Tensor((2, 4), "float32"), R.Tensor((2, 4), "float32")
    ):
        with R.dataflow():
            halves = R.split(x, 2, axis=0)
            R.output(halves)
        return halves


def test_a_tuple_that_a_call_gives_is_returned_as_its_fields() -> None:
    graph = from_relax(Halves)

    assert [graph.nodes[i].name for i in graph.outputs] == ["halves.0", "halves.1"]
    assert graph.returns_tuple


def test_a_variable_without_a_name_gets_one() -> None:
    """An input of ONNX with an empty name is one that is not given."""
    x, y = (relax.Var("", R.Tensor((2,), "float32")) for _ in range(2))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            output = builder.emit_output(relax.op.add(x, y))
        builder.emit_func_output(output)

    assert [node.name for node in from_relax(builder.get()).nodes[:2]] == ["value", "value_1"]
