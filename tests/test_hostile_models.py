"""A malformed ONNX model is refused with a message that says what is wrong, and where."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, FunctionProto, TensorProto, helper, numpy_helper

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.onnx_data import external_files


def model(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """`y` of `x` and the constant `w`, both of four elements."""
    graph = helper.make_graph(
        nodes or [helper.make_node("Add", ["x", "w"], ["y"])],
        "hostile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(4, np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    made = model()
    change(made)
    return made


def refusal(given: onnx.ModelProto | Path) -> str:
    with pytest.raises(FrontendError) as caught:
        from_onnx(given)
    return str(caught.value)


def element(number: int) -> Callable[[onnx.ModelProto], object]:
    return lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", number)


def dimension(number: int) -> Callable[[onnx.ModelProto], object]:
    return lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", number)


def weight(**fields: object) -> Callable[[onnx.ModelProto], object]:
    def change(given: onnx.ModelProto) -> None:
        for name, value in fields.items():
            setattr(given.graph.initializer[0], name, value)

    return change


def element_of_result(number: int) -> Callable[[onnx.ModelProto], object]:
    def change(given: onnx.ModelProto) -> None:
        given.graph.output[0].type.tensor_type.elem_type = number

    return change


def last_node(op: str, **attributes: object) -> Callable[[onnx.ModelProto], object]:
    def change(given: onnx.ModelProto) -> None:
        last = given.graph.node[-1]
        last.CopyFrom(helper.make_node(op, last.input[:1], last.output, **attributes))

    return change


def dims_of_weight(*dims: int) -> Callable[[onnx.ModelProto], object]:
    def change(given: onnx.ModelProto) -> None:
        given.graph.initializer[0].dims[:] = dims

    return change


MODELS = [
    (element(99), "the input `x` has the unknown type of elements 99"),
    (
        element(TensorProto.COMPLEX64),
        "the input `x` is a tensor of complex numbers",
    ),
    (element_of_result(99), "the output `y` has the unknown type of elements 99"),
    (
        last_node("Cast", to=99),
        "cannot import `y`: operator Cast: the attribute `to` has the unknown type of elements 99",
    ),
    (
        last_node("ConstantOfShape", value=TensorProto(dims=[1], data_type=-1, float_data=[1.0])),
        "cannot import `y`: operator ConstantOfShape: the attribute `value` has the unknown type",
    ),
    (dimension(-4), "the input `x` has a dimension of -4"),
    (dimension(2**62), "the input `x` would be larger than 1 TiB"),
    (weight(data_type=99), "the constant `w` has the unknown type of elements 99"),
    (weight(data_type=0), "the constant `w` has the unknown type of elements 0"),
    (weight(raw_data=b"12345"), "the data of the constant `w` are damaged: "),
    (weight(raw_data=b"1234" * 3), "the data of the constant `w` are damaged: "),
    (dims_of_weight(-1), "the constant `w` has the shape [-1]"),
    (dims_of_weight(2**40, 2**40), "the constant `w` would be larger than 1 TiB"),
    (
        lambda m: setattr(m.opset_import[0], "version", 2**31),
        "the model uses operator set 2147483648; the newest that is known is",
    ),
    (lambda m: setattr(m.opset_import[0], "version", -1), "the model uses operator set -1"),
    (lambda m: m.graph.input[0].ClearField("name"), "one of the inputs of the model has no name"),
    (lambda m: m.graph.output[0].ClearField("name"), "one of the outputs of the model has no name"),
    (
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        "two constants of the model are named `w`",
    ),
    (lambda m: m.graph.input.append(m.graph.input[0]), "two inputs of the model are named `x`"),
    (
        lambda m: m.graph.node.append(m.graph.node[0]),
        "the value `y` of the model is computed or given twice",
    ),
]


@pytest.mark.parametrize(("change", "said"), MODELS, ids=[said for _, said in MODELS])
def test_a_malformed_model_is_refused(
    change: Callable[[onnx.ModelProto], object], said: str
) -> None:
    assert refusal(changed(change)).startswith(said)


def node(op: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, ["y"], name="n", **attributes)


def without_outputs() -> onnx.NodeProto:
    made = node("Relu", "x")
    made.output.append("z")
    return made


NODES = [
    (node("Add", "x"), "Add does not take 1 inputs"),
    (node("Add", "", "x"), "the input `A` of Add is missing"),
    (without_outputs(), "Relu does not have 2 outputs"),
    (node("ReduceSum", "x", axes=[0]), "ReduceSum of operator set 13 has no attribute `axes`"),
    (node("Softmax", "x", axis=0.5), "the attribute `axis` is not of the type INT"),
    (node("Softmax", "x", axis="last"), "the attribute `axis` is not of the type INT"),
    (node("MaxPool", "x"), "the attribute `kernel_shape` of MaxPool is missing"),
    (
        node("ConcatFromSequence", "x", axis=0),
        "sequences of tensors are not supported; onnxruntime refuses",
    ),
    (node("Constant"), "a constant has one value, not 0"),
]


@pytest.mark.parametrize(("made", "said"), NODES, ids=[said for _, said in NODES])
def test_a_malformed_node_is_refused_and_named(made: onnx.NodeProto, said: str) -> None:
    message = refusal(model(made))
    assert message.startswith("cannot import `n`: ")
    assert said in message
    assert made.op_type in message


def test_an_attribute_given_twice_is_refused() -> None:
    made = node("Softmax", "x", axis=0)
    made.attribute.append(AttributeProto(name="axis", type=AttributeProto.INT))

    assert refusal(model(made)) == (
        "cannot import `n`: operator Softmax: the attribute `axis` is given twice"
    )


def test_nodes_in_a_circle_are_refused() -> None:
    circle = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]

    assert (
        refusal(model(*circle)) == "nothing in the model computes the value `b` before it is used"
    )


def function(name: str, *called: str) -> FunctionProto:
    nodes = [helper.make_node(op, ["a"], ["b"], domain="here") for op in called]
    return helper.make_function("here", name, ["a"], ["b"], nodes, [helper.make_opsetid("here", 1)])


def with_functions(*functions: FunctionProto) -> onnx.ModelProto:
    made = model(helper.make_node("f0", ["x"], ["y"], domain="here"))
    made.opset_import.append(helper.make_opsetid("here", 1))
    made.functions.extend(functions)
    return made


def test_functions_that_call_themselves_are_refused() -> None:
    given = with_functions(function("f0", "f1"), function("f1", "f0"))

    assert refusal(given) == "the function `f0` of the model calls itself"


def test_a_function_that_is_there_twice_is_refused() -> None:
    given = with_functions(function("f0", "Relu"), function("f0", "Relu"))

    assert refusal(given) == "two functions of the model have the same name"


def test_a_function_with_too_many_inputs_is_refused() -> None:
    given = with_functions(function("f0", "Relu"))
    given.graph.node[0].input.append("x")

    assert refusal(given) == "the function `f0` of the model has 1 inputs, a node gives it 2"


def test_functions_that_double_are_refused() -> None:
    doubling = [function(f"f{k}", f"f{k + 1}", f"f{k + 1}") for k in range(60)]

    assert refusal(with_functions(*doubling)) == (
        "the functions of the model become more than 1000000 nodes"
    )


def test_a_long_chain_of_functions_is_refused() -> None:
    chain = [function(f"f{k}", f"f{k + 1}") for k in range(5000)]

    assert "call each other" in refusal(with_functions(*chain))


@pytest.mark.parametrize(
    ("op", "size"), [("ConstantOfShape", [2**40]), ("ConstantOfShape", [2**20, 2**20])]
)
def test_a_constant_too_large_to_be_computed_is_refused(op: str, size: list[int]) -> None:
    shape = numpy_helper.from_array(np.asarray(size, np.int64))
    nodes = [
        helper.make_node("Constant", [], ["s"], value=shape),
        helper.make_node(op, ["s"], ["big"], name="big"),
        helper.make_node("Add", ["x", "big"], ["y"]),
    ]

    assert refusal(model(*nodes)) == (
        f"cannot import `big`: operator {op}: the constant `big` has {2**40} elements"
    )


@pytest.mark.parametrize("name", ["f(x)", "n // 0", "a\0b", "(" * 500, "-" * 9000 + "n", "'"])
def test_a_dimension_may_have_any_name(name: str) -> None:
    given = changed(dimension(0))
    given.graph.node[0].CopyFrom(helper.make_node("Relu", ["x"], ["y"]))
    given.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name

    assert len(from_onnx(given)) == 2


def rename(model: onnx.ModelProto, part: str) -> None:
    """Give one part of the model the name `qqqq`."""
    inner = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["i"], name="qqqq" if part == "inner" else "")],
        "inner",
        [],
        [helper.make_tensor_value_info("i", TensorProto.FLOAT, None)],
    )
    node = model.graph.node[0]
    if part == "inner":
        node.CopyFrom(helper.make_node("If", ["w"], ["y"], then_branch=inner, else_branch=inner))
    elif part == "function":
        imported = [helper.make_opsetid("", 17)]
        model.functions.append(helper.make_function("here", "qqqq", ["a"], ["b"], [node], imported))
    else:
        setattr(node, part, "qqqq")


@pytest.mark.parametrize("part", ["name", "op_type", "domain", "inner", "function"])
@pytest.mark.parametrize("opset", [17, 5])
def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path, part: str, opset: int) -> None:
    path = tmp_path / "model.onnx"
    given = changed(lambda m: rename(m, part))
    given.opset_import[0].version = opset
    path.write_bytes(given.SerializeToString().replace(b"qqqq", b"\xff" * 4))

    assert refusal(path) == f"{path}: a name in the model is not UTF-8"


# External data.


def external(folder: Path, location: str, length: str = "16", offset: str = "0") -> Path:
    given = model()
    tensor = given.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(given.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("location", "length"),
    [
        *[("../secret", "16"), ("link", "16"), ("pipe", "16"), ("folder", "16"), ("a\0b", "16")],
        *[("short", "16"), ("short", "-1"), ("short", "nonsense"), ("short", str(2**62))],
    ],
)
def test_external_data_are_whole_files_in_the_folder(
    tmp_path: Path, location: str, length: str
) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "in"
    (folder / "folder").mkdir(parents=True)
    (folder / "link").symlink_to("../secret")
    (folder / "short").write_bytes(bytes(8))
    os.mkfifo(folder / "pipe")
    path = external(folder, location, length)

    said = refusal(path)
    assert said.startswith((f"cannot read the external data of {path}", "the data of"))


@pytest.mark.parametrize("length", ["nonsense", "-1", "\N{SUPERSCRIPT TWO}"])
def test_the_length_of_external_data_is_a_number(tmp_path: Path, length: str) -> None:
    (tmp_path / "short").write_bytes(bytes(8))
    path = external(tmp_path, "short", length)

    said = f"{path}: the length of `w` is `{length}`, which is no number of bytes"
    assert refusal(path) == f"cannot read the external data of {said}"
    assert external_files(path) == {tmp_path / "short"}


@pytest.mark.parametrize(
    ("offset", "place"), [("4", "end at byte 20"), (str(2**63), f"begin at byte {2**63}")]
)
def test_the_place_of_external_data_is_in_the_file(tmp_path: Path, offset: str, place: str) -> None:
    (tmp_path / "short").write_bytes(bytes(16))
    path = external(tmp_path, "short", offset=offset)

    said = f"{path}: the data of `w` {place}, but the file has 16 bytes"
    assert refusal(path) == f"cannot read the external data of {said}"


def test_a_pipe_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    os.mkfifo(path)

    assert refusal(path) == f"cannot read {path}: it is a pipe"


def test_an_empty_constant_in_place_of_a_number_does_not_end_the_process() -> None:
    """Inference of shapes in ONNX reads the first element of the depth."""
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 13]> g (float[2,3] x, float[0] v) => (float y) '
        "<float[3,1,0] depth = {}> { y = OneHot (x, depth, v) }"
    )

    assert refusal(made).startswith("cannot import `y`: operator OneHot: ")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("q_num_heads = 3, kv_num_heads = 0", "`kv_num_heads` of Attention are not both above 0"),
        ("q_num_heads = 3", "the attribute `kv_num_heads` of Attention is missing"),
        ("scale = 1.0", "the attribute `kv_num_heads` of Attention is missing"),
    ],
)
@pytest.mark.parametrize("more", ["softcap = 3.0", "is_causal = 1"])
def test_an_attention_without_heads_does_not_end_the_process(
    attributes: str, said: str, more: str
) -> None:
    """Inference of shapes in onnxruntime divides by their number."""
    made = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 23]> g (float[2,4,24] x) => (float y) '
        f"{{ y = Attention <{more}, {attributes}> (x, x, x) }}"
    )

    assert said in refusal(made)
