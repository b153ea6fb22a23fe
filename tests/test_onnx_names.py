"""Commands, reports and messages name the nodes of the ONNX model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import collage_dsl
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.realization.blame import Finder
from collage_dsl.realization.signature import ExecutableError
from tests.commands import assert_one_message, said

TEXT = """<ir_version: 9, opset_import: ["" : 17]>
g (float[5,3] x, int64[2] i, int64[2] j) => (float[2,3] y) {
  a = Gather (x, i)
  b = Gather (x, j)
  s = Add (a, b)
  y = Exp (s)
}"""


def made() -> onnx.ModelProto:
    model = onnx.parser.parse_model(TEXT)
    names = ("/first/Gather", "/second/Gather", "/sum", "")
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    return model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "m.onnx"
    onnx.save(made(), file)
    return file


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "s.collage"
    file.write_text(
        "collage 1; pattern summed(a, b) { y = exp(add(a, b)); yield y; }"
        "rule every = union(op_call_by_kind(), op_call_by_kind(opaque));"
        "target t on llvm { rules union(dfpattern(summed), every); }"
    )
    return file


def test_a_node_is_asked_for_by_the_name_of_its_onnx_node(model: Path, spec: Path) -> None:
    asked = ("--output-format", "json", "--at")
    by_onnx = said("why", f"{spec}#summed", model, *asked, "/sum")
    by_name = said("why", f"{spec}#summed", model, *asked, "s")

    assert json.loads(by_onnx.out) == json.loads(by_name.out)


def test_a_misspelt_name_of_an_onnx_node_is_pointed_at(model: Path, spec: Path) -> None:
    for command in (
        ("why", f"{spec}#summed", model),
        ("show", model),
        ("candidates", model, "-t", spec),
    ):
        message = "no node `/second/Gathr`; did you mean `/second/Gather`?"
        assert_one_message(said(*command, "--at", "/second/Gathr"), 2, message)


def test_candidates_of_one_node_are_shown(model: Path, spec: Path) -> None:
    answer = said("candidates", model, "-t", spec, "--at", "/sum", "--output-format", "json")
    found = json.loads(answer.out)["candidates"]

    assert sorted(each["nodes"] for each in found) == [["s"], ["s", "y"]]
    assert found[0]["onnx"][0] == {"op": "Add", "name": "/sum"}


def test_a_plan_names_the_onnx_nodes_of_its_kernels(
    model: Path, spec: Path, tmp_path: Path
) -> None:
    costs = tmp_path / "costs.yaml"
    costs.write_text("t: {ops: {'*': 1.0}}")
    text = said("plan", model, "-t", spec, "--costs", costs)
    answer = said("plan", model, "-t", spec, "--costs", costs, "--output-format", "json")

    assert text.code == 0, text.err
    assert "from the ONNX nodes" in text.out.splitlines()[0]
    assert "/second/Gather" in text.out
    kernels = json.loads(answer.out)["kernels"]
    assert [each["onnx"] for each in kernels][-1] == [
        {"op": "Add", "name": "/sum"},
        {"op": "Exp", "name": ""},
    ]


def indices(first: int, second: int) -> dict[str, Any]:
    x = np.ones((5, 3), np.float32)
    return {"x": x, "i": np.array([0, first]), "j": np.array([0, second])}


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_a_kernel_that_fails_names_the_onnx_node(target: str, tmp_path: Path) -> None:
    compiled = collage_dsl.compile(
        made(), [target], cost=[lambda _: 1e-6], race_seconds=0.01, inputs=indices(0, 1)
    )
    compiled.save(tmp_path / "out")
    loaded = collage_dsl.load_executable(tmp_path / "out")

    for executable in (compiled, loaded):
        for given, name in ((indices(7, 0), "first"), (indices(0, 9), "second")):
            with pytest.raises(ExecutableError, match=f"Gather node `/{name}/Gather`") as caught:
                executable.run(given)
            index = max(given["i"][1], given["j"][1])
            start = f"index {index} is out of range, valid are -5 to 4, at the Gather node"
            assert target != "native" or str(caught.value).startswith(start)
        assert executable.run(indices(1, 2))["y"].shape == (2, 3)


def test_only_the_call_that_did_not_end_is_blamed() -> None:
    calls = ({"take": ("the Gather node `a`",)}, {"take": ("the Gather node `b`",)})
    finder = Finder({"kernel": calls})
    for before in (True, False, True):
        finder(None, "kernel", before)
        finder(None, "other", before)

    assert finder.explained("take: too large") == "too large, at the Gather node `b`"
    finder(None, "kernel", False)
    assert finder.explained("take: too large") == "take: too large"


def test_an_error_of_the_import_names_file_node_and_operator(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[2,3] x) => (float[1,3] y) '
        "<int64[1] i = {7}> { y = Gather (x, i) }"
    )
    model.graph.node[0].name = "/embed"
    onnx.save(model, tmp_path / "m.onnx")

    with pytest.raises(FrontendError) as caught:
        collage_dsl.from_onnx(tmp_path / "m.onnx")
    assert str(caught.value) == (
        f"{tmp_path / 'm.onnx'}: cannot import `/embed`: operator Gather: "
        "the index 7 is out of range for an axis of size 2"
    )


def test_a_node_of_onnx_that_no_target_runs_says_which_target_does() -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]>
        g (float[3] x) => (int64[1,n] y) { y = NonZero (x) }"""
    spec = collage_dsl.load(text="collage 1; target t on llvm { rules op_call_by_kind(); }")["t"]

    with pytest.raises(collage_dsl.UncoveredError) as caught:
        collage_dsl.compile(onnx.parser.parse_model(text), [spec], cost=[lambda _: 1e-6])

    assert str(caught.value).splitlines()[-1] == (
        "help: add the target `onnxruntime`, which runs such nodes of ONNX"
    )


def test_a_call_that_nothing_covers_is_named_after_its_onnx_node() -> None:
    text = "pattern p(x) { y = exp(x); yield y; } target t on llvm { rules dfpattern(p); }"
    spec = collage_dsl.load(text=f"collage 1; {text}")["t"]

    said = r"`a` \(take, from Gather /first/Gather\)"
    with pytest.raises(collage_dsl.UncoveredError, match=said):
        collage_dsl.compile(made(), [spec], cost=[lambda _: 1e-6], inputs=indices(0, 1))
