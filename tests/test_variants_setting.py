"""The variants that a target asks for or refuses: what is checked, kept and proposed."""

import json
import re
from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl import builder as build
from collage_dsl.graph import Toolchain
from collage_dsl.graph.variants import COMPUTED, NATIVE_VARIANTS
from collage_dsl.language import check, parse_graph
from collage_dsl.language.forms import from_json, from_yaml, to_form, to_json, to_yaml
from collage_dsl.language.messages.explanations import explanation
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.rename import rename
from collage_dsl.rules import FusionSpec
from collage_dsl.source import Source
from tests.lsp.marked import marked

PAGE = Path(__file__).parent.parent / "docs" / "language.md"
CALLS = build.op_call_by_kind()


def spec_with(settings: str) -> FusionSpec:
    text = f"collage 1; target t on llvm {{ rules op_call_by_kind(); {settings} }}"
    return collage.load(text=text)["t"]


# What is kept.


def test_a_list_is_kept_as_it_is_written() -> None:
    assert spec_with("variants [winograd4, direct];").target.variants == ("winograd4", "direct")
    assert spec_with("").target.variants == Toolchain("t").variants == ()


def test_what_is_refused_leaves_all_other_native_variants() -> None:
    left = spec_with("variants not [winograd2, gemm];").target.variants

    assert left == tuple(each for each in NATIVE_VARIANTS if each not in ("winograd2", "gemm"))
    assert spec_with('compiler "tvm"; variants not [winograd2, gemm];').target.variants == left


def test_the_variants_of_a_library_are_its_own() -> None:
    assert spec_with('compiler "lib"; variants [im2col];').target.variants == ("im2col",)


def test_candidates_are_for_the_variants_of_their_target() -> None:
    graph = parse_graph("graph { x: f32[4]; a = exp(x); b = tanh(a); return b; }")
    found = spec_with("variants [direct];").candidates(graph)

    assert [each.toolchain.variants for each in found] == [("direct",), ("direct",)]
    assert {each.toolchain.variant for each in found} == {"direct"}


@pytest.mark.engine
def test_variants_travel_in_targets_and_in_json_and_yaml() -> None:
    spec = spec_with("variants not [gemm];")
    specs = {spec.name: spec}
    allowed = [each for each in NATIVE_VARIANTS if each != "gemm"]

    assert collage.extract(collage.attach({"kind": "llvm"}, spec)) == spec
    assert from_json(to_json(specs)) == from_yaml(to_yaml(specs)) == specs
    assert to_form(specs)["targets"][0]["target"]["variants"] == allowed
    assert "variants" not in to_form({"t": spec_with("")})["targets"][0]["target"]
    assert f"  variants [{', '.join(allowed)}];\n" in collage.to_text(spec)


def test_variants_can_be_built_and_are_checked() -> None:
    built = build.target("t", "llvm", rules=CALLS, variants=["direct", "gemm"])

    assert built == spec_with("variants [direct, gemm];")
    for wrong in (["fft"], ["gemm", "gemm"], ["2"]):
        with pytest.raises(collage.RuleError) as caught:
            build.target("t", "llvm", rules=CALLS, variants=wrong)
        assert {d.code for d in caught.value.diagnostics} == {"E0521"}


# The names.


def test_the_page_and_the_code_say_what_each_variant_is() -> None:
    (section,) = re.findall(r"^## Variants\n(.*?)^## ", PAGE.read_text("utf-8"), re.M | re.S)
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.M)

    assert dict(rows) == dict(NATIVE_VARIANTS)
    assert all(f"`{name}`" in explanation("E0521").text for name in NATIVE_VARIANTS)


def test_a_pattern_with_the_name_of_a_variant_is_renamed_alone() -> None:
    text = """collage 1;
pattern ¦direct(x) { y = nn.relu(x); yield y; }
target t on llvm { variants [direct]; rules only_variants(dfpattern(direct), [direct]); }
"""
    document, offset = marked(text)

    assert len(rename(document, offset, "activation", Files())) == 2


@pytest.mark.engine
def test_native_kernels_have_no_variant_that_a_spec_cannot_name() -> None:
    from collage_dsl.backends.variants import VARIANTS

    assert set(VARIANTS) <= set(NATIVE_VARIANTS)


OF_ONE_CALL = {
    "nn.relu": "y = nn.relu(x);",
    "nn.softmax": "y = nn.softmax(x);",
    "concat": "t = (x, z); y = concat(t) [axis = 0];",
    "matmul": "y = matmul(m, v);",
    "nn.conv1d": "y = nn.conv1d(s, k);",
    "nn.conv2d": "y = nn.conv2d(x, w);",
    "nn.conv2d_transpose": "y = nn.conv2d_transpose(x, w);",
}
INPUTS = """x: f32[1, 16, 8, 8]; z: f32[1, 16, 8, 8]; m: f32[4, 8]; v: f32[8, 8];
  s: f32[1, 16, 8]; k: f32[16, 16, 3]; w: f32[16, 16, 3, 3];"""


@pytest.mark.engine
@pytest.mark.parametrize("op", OF_ONE_CALL)
def test_a_variant_computes_no_kernel_that_the_checker_says_it_never_does(op: str) -> None:
    from collage_dsl.backends.variants import VARIANTS

    graph = parse_graph(f"graph {{ {INPUTS} {OF_ONE_CALL[op]} return y; }}")
    able = {name for name, unsuitable in VARIANTS.items() if unsuitable(graph) is None}

    for name in able & COMPUTED.keys():
        assert op in COMPUTED[name].ops
        assert COMPUTED[name].least == 1


@pytest.mark.engine
@pytest.mark.parametrize("variant", COMPUTED)
def test_a_variant_computes_a_kernel_as_the_checker_says(variant: str) -> None:
    from collage_dsl.backends.variants import VARIANTS

    kernels = {
        **{op: f"{text} return y;" for op, text in OF_ONE_CALL.items()},
        "depthwise": "a = nn.conv2d(x, p); y = nn.conv2d(a, d) [groups = 16]; return y;",
    }
    pointwise = "p: f32[16, 16, 1, 1]; d: f32[16, 1, 3, 3];"
    able = [
        name
        for name, text in kernels.items()
        if VARIANTS[variant](parse_graph(f"graph {{ {INPUTS} {pointwise} {text} }}")) is None
    ]

    assert able


CONVOLUTIONS = [
    ("w: f32[16, 16, 3, 3]", ""),
    ("w: f32[16, 16, 3, 3]", "strides = [2, 2]"),
    ("w: f32[16, 16, 3, 3]", "dilation = [2, 2]"),
    ("w: f32[16, 16, 7, 7]", "strides = [2, 2]"),
    ("w: f32[16, 16, 7, 3]", "strides = [2, 2]"),
    ("w: f32[16, 16, 7, 7]", ""),
    ("w: f32[16, 16, 1, 5]", ""),
    ("w: f32[16, 16, 1, 1]", ""),
    ("w: f32[16, 4, 3, 3]", "groups = 4"),
    ("w: f32[16, 8, 3, 3]", "groups = 2"),
    ("w: f32[3, 3, 16, 16]", 'data_layout = "NHWC", kernel_layout = "HWIO"'),
]


@pytest.mark.engine
@pytest.mark.parametrize(("weight", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("variant", ["winograd2", "winograd4"])
def test_the_checker_refuses_the_convolutions_that_the_variant_refuses(
    variant: str, weight: str, attributes: str
) -> None:
    from collage_dsl.backends.variants import VARIANTS

    given = f" [{attributes}]" if attributes else ""
    data = "x: f32[1, 8, 8, 16]" if "NHWC" in given else "x: f32[1, 16, 8, 8]"
    call = f"y = nn.conv2d(x, w){given}; return y;"
    graph = parse_graph(f"graph {{ {data}; {weight}; {call} }}")
    (node,) = (each for each in graph.nodes if each.op == "nn.conv2d")
    asked = ", ".join(f"{name} == {_written(value)}" for name, value in node.attrs.items() if value)
    dims = weight.partition("f32")[2]
    text = f"pattern p(x, w: {dims}) {{ y = nn.conv2d(x, w) [{asked}]; yield y; }}"
    target = f"target t on llvm {{ variants [{variant}]; rules dfpattern(p); }}"

    found = check(Source("t.collage", f"collage 1;\n{text}\n{target}\n"))

    reason = VARIANTS[variant](graph)
    assert [d.code for d in found] == ["W0425"] * (reason is not None)
    assert all(reason and reason.partition(" ")[2] in d.help for d in found)


def _written(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


# What the engine makes of them.


@pytest.mark.engine
def test_a_library_that_lacks_the_variants_is_refused_with_the_reason(tmp_path: Path) -> None:
    from collage_dsl.backends.onnxruntime import OnnxRuntime
    from collage_dsl.cost import CostStore, Infeasible
    from collage_dsl.frontend.onnx import from_onnx
    from collage_dsl.measuring.cost import MeasuredCost
    from collage_dsl.realization.errors import BuildError
    from collage_dsl.realization.partition import realize
    from tests.models import small_convolution

    graph = from_onnx(small_convolution())
    found = spec_with('compiler "onnxruntime"; variants [fast];').candidates(graph)
    reason = "the backend onnxruntime has no variant fast"

    with MeasuredCost(lambda _: OnnxRuntime(), CostStore(tmp_path / "costs.sqlite")) as cost:
        assert {cost(candidate) for candidate in found} == {Infeasible(reason)}
    with pytest.raises(BuildError, match=reason):
        realize(graph, found, lambda _: OnnxRuntime())
