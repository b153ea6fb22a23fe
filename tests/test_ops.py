"""`collage ops`, and the schemas of the commands that need no model."""

from collage_dsl.cli.documents import CodesDocument, ExplainDocument, OpsDocument
from collage_dsl.graph.operators import operators
from tests.commands import assert_one_message, said


def test_an_operator_is_shown_with_its_attributes() -> None:
    done = said("ops", "nn.max_pool2d")

    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "nn.max_pool2d(data)  anchor"
    assert "    pool_size: ints = [1, 1]" in lines
    assert '    layout: str = "NCHW"' in lines


def test_an_attribute_that_may_have_no_value_says_so() -> None:
    done = said("ops", "concat")
    answer = OpsDocument.model_validate_json(said("ops", "concat", "--output-format", "json").out)

    assert "    axis: int or none = 0" in done.out.splitlines()
    assert answer.operators[0].attributes[0].may_be_none


def test_operands_that_are_optional_or_literal_are_marked() -> None:
    assert said("ops", "strided_slice").out.startswith(
        "strided_slice(x, <axes>, <begin>, <end>, <strides>?)  injective\n"
    )
    assert said("ops", "add").out == "add(x1, x2)  broadcast, commutative\n"


def test_a_glob_chooses_and_all_are_shown_without_one() -> None:
    pools = OpsDocument.model_validate_json(
        said("ops", "nn.*pool2d", "--output-format", "json").out
    )
    every = OpsDocument.model_validate_json(said("ops", "--output-format", "json").out)

    names = [operator.name for operator in pools.operators]
    assert "nn.max_pool2d" in names
    assert all(name.endswith("pool2d") for name in names)
    assert [operator.name for operator in every.operators] == sorted(operators())


def test_an_operator_that_is_not_there() -> None:
    assert_one_message(said("ops", "nn.conv2D"), 2, "did you mean `nn.conv2d`?")


def test_a_part_of_names_is_answered_with_a_glob_that_finds_them() -> None:
    for part in ("conv", "conv*"):
        assert_one_message(said("ops", part), 2, "write '*conv*' for those that have it in")
    assert "nn.conv2d(data, weight)" in said("ops", "*conv*").out
    assert_one_message(said("ops", "zzz"), 2, "`collage ops` lists all")


def test_explain_answers_by_its_schemas() -> None:
    page = ExplainDocument.model_validate_json(
        said("explain", "E0201", "--output-format", "json").out
    )
    every = CodesDocument.model_validate_json(said("explain", "--output-format", "json").out)

    assert every.codes[page.code] == page.title


def test_what_models_have_in_the_place_of_an_onnx_operator_is_shown() -> None:
    assert said("ops", "com.microsoft.BiasGelu").out == (
        "com.microsoft.BiasGelu(A, B)  opaque\n    in models: add and nn.gelu\n"
    )
    assert "in models: removed" in said("ops", "onnx.Identity").out
    assert "in models" not in said("ops", "onnx.LSTM").out
    (row,) = OpsDocument.model_validate_json(
        said("ops", "onnx.Relu", "--output-format", "json").out
    ).operators
    assert row.in_models == ["nn.relu"]
