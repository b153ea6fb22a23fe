"""A model that cannot be imported is refused in one sentence that says where and why."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from collage_dsl.cli.failure import explained
from collage_dsl.frontend.errors import DefectError, FrontendError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.onnx_operators import CANONICAL, cast
from collage_dsl.frontend.onnx_site import Site
from tests.test_frontend_onnx import Array, model, node, weights


def refusal(given: str | Path | onnx.ModelProto, **options: dict[str, tuple[int, ...]]) -> str:
    with pytest.raises(FrontendError) as caught:
        from_onnx(given, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def small_model() -> onnx.ModelProto:
    return model(
        [node("Conv", "x w", "y")], {"x": (1, 3, 4, 4)}, ["y"], {"w": weights(64, 3, 1, 1)}
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    assert refusal(path) == f"cannot read {path}: there is no such file"
    assert refusal(tmp_path) == f"cannot read {tmp_path}: it is a folder"


def test_an_empty_file_is_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.touch()

    assert refusal(str(path)) == f"{path} is not an ONNX model: the file is empty"


@pytest.mark.parametrize(
    "content", [b"# A heading\n\nText.\n", b"\x00" * 100, b"{}", b"PK\x03\x04"]
)
def test_another_file_is_not_a_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "README.json"
    path.write_bytes(content)

    assert refusal(path).startswith(f"{path} is not an ONNX model")


@pytest.mark.parametrize("suffix", [".json", ".py"])
def test_a_file_with_a_module_of_relax_says_how_it_is_looked_at(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_text("{}")

    said = refusal(path)
    assert "a Relax module is read in Python, by `from_relax`" in said
    assert said.endswith(
        "`format_graph` gives the graph as text, which the commands `show`, `coverage`, "
        "`candidates`, `why` and `near` read from a `.graph` file"
    )


def test_half_a_file_is_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small_model().SerializeToString()[:300])

    assert refusal(path) == (
        f"{path} is not an ONNX model, or only a part of one: it cannot be decoded"
    )


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(
        small_model(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert len(from_onnx(path)) == 3
    (tmp_path / "weights.bin").unlink()

    assert refusal(path).startswith(f"cannot read the external data of {path}: ")
    assert "weights.bin" in refusal(path)


def test_an_unknown_operator_is_named_with_its_node() -> None:
    foo = helper.make_node("Foo", ["x"], ["y"], name="foo_1")
    given = model([foo], {"x": (2,)}, ["y"])

    assert refusal(given).startswith("cannot import `foo_1`: ONNX has no operator Foo in operator")


def test_a_node_without_a_name_goes_by_its_output() -> None:
    given = model([helper.make_node("Foo", ["x"], ["y"], domain="custom")], {"x": (2,)}, ["y"])

    said = "cannot import `y`: operator Foo of `custom` is not supported; onnxruntime refuses"
    assert refusal(given).startswith(said)


def operators(given: onnx.ModelProto) -> list[str]:
    return [each.op for each in from_onnx(given).nodes if each.is_call]


def test_control_flow_is_one_node() -> None:
    branch = helper.make_graph(
        [node("Relu", "x", "z")], "branch", [], [onnx.ValueInfoProto(name="z")]
    )
    given = model(
        [
            node("ReduceSum", "x", "s", keepdims=0),
            node("Cast", "s", "c", to=onnx.TensorProto.BOOL),
            node("If", "c", "y", then_branch=branch, else_branch=branch),
        ],
        {"x": (2,)},
        ["y"],
    )

    assert operators(given) == ["sum", "astype", "onnx.If"]


def test_shapes_that_do_not_fit_are_refused_at_the_node() -> None:
    given = model([node("Add", "x v", "y")], {"x": (2, 3), "v": (2, 4)}, ["y"])

    assert refusal(given).startswith("cannot import `Add_y`: operator Add: ")


def test_a_size_below_0_is_refused_at_the_node() -> None:
    constants = {"w": weights(1, 16, 1, 3)}
    made = node("ConvTranspose", "x w", "y", pads=[1, 0, 1, 1])
    given = model([made], {"x": (2, 1, 1, 8)}, ["y"], constants)

    assert refusal(given).endswith("operator ConvTranspose: `y` would have a dimension of -1")


def test_training_is_refused() -> None:
    constants = {name: weights(3) for name in "sbmv"}
    given = model(
        [node("BatchNormalization", "x s b m v", "y", training_mode=1)],
        {"x": (2, 3)},
        ["y"],
        constants,
        opset=15,
    )

    assert refusal(given).startswith(
        "cannot import `BatchNormalization_y`: only BatchNormalization for inference, "
        "by channel, is supported; onnxruntime refuses"
    )


def test_a_dropout_whose_mask_is_used_is_kept() -> None:
    given = model([node("Dropout", "x", "y mask")], {"x": (2, 3)}, ["y", "mask"])

    assert operators(given) == ["onnx.Dropout"]


def test_what_tvm_would_compute_otherwise_is_kept() -> None:
    scales = np.array([1, 1, 0.6, 0.6], np.float32)
    resize = node("Resize", "x roi scales", "y", mode="linear")
    given = model([resize], {"x": (1, 1, 4, 4)}, ["y"], {"roi": scales[:0], "scales": scales})
    infinite = node("IsInf", "x", "y", detect_negative=0)

    assert operators(given) == ["onnx.Resize"]
    symmetric = "half_pixel_symmetric"
    wanted = node("Resize", "x '' '' sizes", "y", coordinate_transformation_mode=symmetric)
    wanted.input[:] = ["x", "", "", "sizes"]
    sizes = {"sizes": np.array([1, 1, 6, 3])}
    assert operators(model([wanted], {"x": (1, 1, 4, 4)}, ["y"], sizes, opset=19)) == [
        "onnx.Resize"
    ]
    infinity = model([infinite], {"x": (4,)}, ["y"])
    infinity.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    assert operators(infinity) == ["onnx.IsInf"]


def test_an_operator_is_known_in_its_own_domain_only() -> None:
    attention = node("Attention", "x x x", "y", softcap=2.0)
    given = model([attention], {"x": (1, 2, 3, 4)}, ["y"], opset=23)

    assert operators(given) == ["onnx.Attention"]


def test_an_input_of_strings_is_no_tensor_of_relax() -> None:
    given = model([node("Identity", "x", "y")], {"x": (2,)}, ["y"])
    given.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING

    assert str(from_onnx(given).nodes[0].type) == "tensor(string)"
    assert refusal(given, shapes={"x": (3,)}) == (
        "the input `x` is no tensor that can have a shape: tensor(string)"
    )


def test_a_node_that_needs_a_size_is_kept_for_any_size() -> None:
    given = model(
        [node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")],
        {"x": (1, 3, "h", "w")},
        ["y"],
    )

    assert operators(given) == ["onnx.MaxPool"]


@pytest.mark.parametrize("size", [9, "h"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_automatic_padding_of_windows_with_gaps_is_refused(op: str, size: int | str) -> None:
    """Of any size, since onnxruntime gives another one than it says."""
    pooling = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}
    shapes = {"x": (1, 3, size, 9)}

    def given(dilations: list[int]) -> onnx.ModelProto:
        return model([node(op, "x", "y", dilations=dilations, **pooling)], shapes, ["y"], opset=22)

    assert len(operators(given([1, 1]))) >= 1
    assert refusal(given([2, 1])).endswith(
        f"operator {op}: onnxruntime does not pad by `SAME_LOWER` with dilations: "
        "write `pads` instead"
    )


def test_what_takes_an_unknown_rank_is_kept() -> None:
    given = model([node("Relu", "x", "y")], {"x": (2,)}, ["y"])
    given.graph.input[0].type.tensor_type.ClearField("shape")

    assert operators(given) == ["onnx.Relu"]
    assert len(from_onnx(given, shapes={"x": (2, 3)})) == 2


def test_a_shape_for_no_input_is_refused() -> None:
    given = model([node("Add", "x v", "y")], {"x": (2, 3), "v": (3,)}, ["y"])

    assert refusal(given, shapes={"z": (1, 3)}) == (
        "the model has no input `z`; its inputs are `x`, `v`"
    )
    assert refusal(given, shapes={"x": (3,)}) == (
        "the input `x` has 2 dimensions, the shape given for it 1"
    )


def test_a_value_that_nothing_computes_is_named() -> None:
    given = model([node("Relu", "z", "y")], {"x": (2,)}, ["y"])

    assert refusal(given) == "nothing in the model computes the value `z`"


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("Erfc", "what wrote the model has not converted it"),
        ("ImageDecoder", "it came with set 20"),
        ("TensorScatter", "it came with set 24"),
    ],
)
def test_an_operator_that_onnx_lacks_in_the_set_of_the_model_is_named(op: str, said: str) -> None:
    """tf2onnx leaves operators of TensorFlow that it does not know as they are."""
    given = model([node(op, "x", "y")], {"x": ("n",)}, ["y"], opset=17)

    assert refusal(given) == (
        f"cannot import `{op}_y`: ONNX has no operator {op} in operator set 17: {said}"
    )


@pytest.mark.parametrize("op", ["GroupNormalization", "CenterCropPad"])
def test_a_node_of_a_later_set_is_read_by_what_its_operator_is_there(op: str) -> None:
    """Both have attributes or operands that they need, which these nodes lack."""
    given = model([node(op, "x", "y")], {"x": (2, 4, 3)}, ["y"], opset=11)

    assert refusal(given) == (
        f"cannot import `{op}_y`: ONNX has no operator {op} in operator set 11: it came with set 18"
    )


def test_an_operator_set_that_never_was_is_refused() -> None:
    given = model([node("Relu", "x", "y")], {"x": (2,)}, ["y"], opset=0)

    assert refusal(given) == "the model uses operator set 0; the first is 1"


def test_an_input_may_be_a_sequence() -> None:
    given = model([node("SequenceAt", "x i", "y")], {"x": (2,)}, ["y"], {"i": np.array(0)})
    tensor = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, (2,))
    given.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(tensor))

    assert operators(given) == ["onnx.SequenceAt"]


def test_importing_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_onnx(small_model())
        refusal(model([node("LSTM", "x x x", "y")], {"x": (2, 2, 2)}, ["y"]))

    assert capfd.readouterr() == ("", "")


def test_shapes_that_do_not_fit_at_the_last_node_are_refused_there() -> None:
    given = model([node("MatMul", "x w", "y")], {"x": (4, 7)}, ["y"], {"w": weights(8, 8)})

    assert refusal(given) == (
        "cannot import `MatMul_y`: operator MatMul: Matmul requires the reduction length of the "
        "operands to be equal; however, the LHS x has shape [4, 7], while the RHS w has shape "
        "[8, 8]; the reduction dimensions of 7 and 8 are not equal"
    )


def test_shapes_that_do_not_fit_are_refused_where_they_meet_and_not_where_they_are_used() -> None:
    nodes = [node("Conv", "x w", "c"), node("Add", "c b", "y"), node("Relu", "y", "z")]
    given = model(
        nodes, {"x": (1, 4, 8, 8)}, ["z"], {"w": weights(8, 3, 3, 3), "b": weights(8, 1, 1)}
    )

    assert refusal(given).startswith("cannot import `Conv_c`: operator Conv: ")


def test_a_refusal_is_free_of_the_notation_of_tvm() -> None:
    given = model([node("Add", "x v", "y")], {"x": (2, 3), "v": (2, 4)}, ["y"])

    assert refusal(given) == (
        "cannot import `Add_y`: operator Add: the first input shape at dim 1 is 3 and the second "
        "input shape at dim 1 is 4, which are not broadcastable"
    )


def test_a_slice_whose_bounds_are_scalars_is_refused() -> None:
    bounds = {"s": np.array(0), "e": np.array(1)}
    given = model([node("Slice", "x s e", "y")], {"x": (2, 3)}, ["y"], bounds)

    assert refusal(given) == (
        "cannot import `Slice_y`: operator Slice: the starts of the slice are no vector"
    )


def test_an_index_that_is_always_out_of_range_is_refused() -> None:
    given = model([node("Gather", "x i", "y")], {"x": (2, 3)}, ["y"], {"i": np.array([0, -3])})

    assert refusal(given) == (
        "cannot import `Gather_y`: operator Gather: the index -3 is out of range for an axis of "
        "size 2"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("m.graph", "`show`, `coverage`, `candidates`, `why` and `near`, and in Python"),
        ("s.collage", "it is a spec file, which is given as a target"),
        ("m.pt2", "export the program to ONNX"),
        ("m.json", "by `from_relax`"),
    ],
)
def test_a_file_of_another_kind_is_told_where_to_go(tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / name
    for content in ("", "hello"):
        path.write_text(content)

        assert said in refusal(path)


def test_a_mistake_in_our_code_is_no_operator_without_a_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(CANONICAL, "Relu", cast)  # `cast` reads an attribute that Relu lacks
    given = model([node("Relu", "x", "y")], {"x": (2,)}, ["y"])

    with pytest.raises(DefectError) as caught:
        from_onnx(given)

    assert str(caught.value) == "cannot import `Relu_y`: operator Relu: KeyError: 'to'"
    assert explained(caught.value).message.startswith("internal error: DefectError: cannot import")


def test_a_mistake_of_a_converter_of_tvm_is_an_operator_without_a_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(site: Site) -> None:
        raise KeyError(site.node.op_type)  # in a module that is not ours, as TVM's are

    monkeypatch.setitem(CANONICAL, "Relu", wrong)

    assert operators(model([node("Relu", "x", "y")], {"x": (2,)}, ["y"])) == ["onnx.Relu"]


def test_a_missing_input_among_several_is_named() -> None:
    given = model([node("Concat", "x", "y", axis=0)], {"x": (2,)}, ["y"])
    given.graph.node[0].input.append("")

    assert refusal(given) == "cannot import `Concat_y`: the input `inputs` of Concat is missing"


def test_an_output_that_is_declared_with_a_type_that_tvm_lacks_is_named() -> None:
    given = model([node("Relu", "x", "y")], {"x": (2,)}, ["y"])
    given.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT4

    assert refusal(given) == "the output `y` is declared as int4 and is float32"


@pytest.mark.parametrize("pads", [np.zeros((2, 3), np.int64), np.zeros(3, np.int64)])
def test_numbers_that_do_not_pad_all_axes_are_refused(pads: Array) -> None:
    given = model([node("Pad", "x p", "y")], {"x": (2, 3)}, ["y"], {"p": pads})

    said = f"cannot import `Pad_y`: {pads.size} numbers pad 2 of 2 axes; onnxruntime"
    assert refusal(given).startswith(said)


def test_an_optional_without_a_value_is_kept_as_it_is() -> None:
    type_ = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])
    given = model(
        [node("Optional", "", "o", type=type_), node("OptionalHasElement", "o", "y")],
        {"x": (2,)},
        ["y"],
        opset=18,
    )
    given.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL

    assert operators(given) == ["onnx.Optional", "onnx.OptionalHasElement"]


def test_tensors_of_other_shapes_cannot_be_joined() -> None:
    given = model([node("Concat", "x z", "y", axis=1)], {"x": (2, 6), "z": (3, 5)}, ["y"])

    assert refusal(given).startswith(
        "cannot import `Concat_y`: tensors of [2, 6] and [3, 5] cannot be joined along axis 1; "
    )


@pytest.mark.parametrize(
    ("given", "helps"),
    [
        (helper.make_node("Foo", ["x"], ["y"], domain="custom"), False),
        (node("Add", "x h", "y"), False),
        (node("Concat", "x h", "y", axis=0), False),
        (node("PRelu", "h s", "y"), True),
    ],
    ids=["unknown", "sum", "concat", "slopes"],
)
def test_a_static_shape_is_advised_only_where_sizes_are_not_known(
    given: onnx.NodeProto, helps: bool
) -> None:
    unfinished = model([given], {"x": ("n", 4), "h": ("n", "m", 4), "s": ("m", 1)}, ["y"], opset=16)
    for value in unfinished.graph.input[1:]:
        value.type.tensor_type.elem_type = onnx.TensorProto.INT16

    assert ("a static shape may help" in refusal(unfinished)) == helps


@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear", "QLinearMatMul"])
def test_a_scale_that_is_no_finite_number_is_refused(op: str, scale: float) -> None:
    zero = np.zeros((), np.uint8)
    constants = {"s": np.asarray([scale], np.float32), "z": zero, "q": np.ones((2, 2), np.uint8)}
    inputs = {"QuantizeLinear": "x s z", "DequantizeLinear": "q s z"}
    given = inputs.get(op, "q s z q s z s z")
    unusable = model([node(op, given, "y")], {"x": (2, 2)}, ["y"], constants)

    assert refusal(unusable) == (
        f"cannot import `{op}_y`: operator {op}: the scale `s` has an element that is infinite or "
        "not a number"
    )
