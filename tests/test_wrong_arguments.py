"""A wrong argument of a public function is named, with what it must be."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from onnx.parser import parse_model

import collage_dsl as collage

pytestmark = pytest.mark.engine

TEXT = """collage 1;
pattern p(x) { y = nn.relu(x); yield y; }
target t on llvm { rules dfpattern(p); }
"""


@pytest.fixture(scope="module")
def right() -> SimpleNamespace:
    return SimpleNamespace(
        graph=collage.parse_graph("x: f32[4]; y = nn.relu(x); return y;"),
        specs=collage.load(text=TEXT),
        pattern=collage.patterns(text=TEXT)["p"],
    )


def compiled(**options: Any) -> collage.Compiled:
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Relu (x) }'
    )
    return collage.compile(model, ["native"], cost=lambda _: 1e-6, **options)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda r: collage.propose("m.onnx", r.specs["t"]), "`graph` of `propose` must be a Graph"),
        (lambda r: collage.propose(r.graph, r.specs), "`specs` of `propose` must be a FusionSpec"),
        (lambda r: collage.choose(None, [], cost=len), "`graph` of `choose` must be a Graph"),
        (lambda r: collage.why("p", r.graph, at="y"), "`pattern` of `why` must be a Pattern"),
        (lambda r: collage.why(r.pattern, r.graph, at=1), "`at` of `why` must be a string"),
        (lambda r: collage.near(r.pattern, r.pattern), "`graph` of `near` must be a Graph"),
        (lambda r: collage.from_relax(Path("m")), "`module` of `from_relax` must be an IRModule"),
        (lambda r: collage.realize(r.graph), "`plan` of `realize` must be a Plan"),
        (lambda r: collage.to_text("t"), "`spec` of `to_text` must be a FusionSpec"),
        (lambda r: collage.format_graph("g"), "`graph` of `format_graph` must be a Graph"),
        (lambda r: collage.example("p"), "`pattern` of `example` must be a Pattern"),
        (lambda r: collage.load(0), "`path` of `load` must be a string or a path or None"),
        (lambda r: collage.load(text=b"collage 1;"), "`text` of `load` must be a string or None"),
        (
            lambda r: collage.load(text=TEXT, search="specs"),
            "`search` of `load` must be a list or a tuple whose items are each a string or a path",
        ),
        (lambda r: collage.patterns(text=3), "`text` of `patterns` must be a string or None"),
        (lambda r: collage.parse_graph(None), "`text` of `parse_graph` must be a string"),
        (lambda r: collage.load_executable(3), "`path` of `load_executable` must be a string or a"),
        (lambda r: collage.CollagePartition(store=3), "`store` of `CollagePartition` must be a"),
        (lambda r: compiled(plans="3"), "`plans` of `compile` must be a whole number"),
        (lambda r: compiled(store=3), "`store` of `compile` must be a string or a path or None"),
        (lambda r: compiled(timeout="60s"), "`timeout` of `compile` must be a number"),
        (lambda r: compiled(allow_extern=1), "`allow_extern` of `compile` must be True or False"),
        (lambda r: compiled(frozen=3), "`frozen` of `compile` must be a path or a Lock"),
        (lambda r: compiled(sizes=[1]), "`sizes` of `compile` must be a dictionary, such as .*"),
        (
            lambda r: compiled(sizes={"n": 4}),
            "`sizes` of `compile` must have a list or a tuple of sizes for `n`",
        ),
    ],
)
def test_an_argument_of_another_type_is_named(
    right: SimpleNamespace, call: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(TypeError, match=f"^{said}.*, not "):
        call(right)


def test_a_list_with_an_item_of_another_type_is_shown() -> None:
    with pytest.raises(TypeError, match=r"each a string or a path, not \['specs', 3\]$"):
        collage.load(text=TEXT, search=["specs", 3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda r: compiled(shapes=5), TypeError, "`shapes` must be a dictionary"),
        (lambda r: compiled(shapes={"x": 4}), TypeError, "`shapes` must be a dictionary"),
        (lambda r: compiled(shapes={"x": (-1,)}), collage.FrontendError, "has the dimension -1"),
        (lambda r: compiled(shapes={"x": (4.0,)}), collage.FrontendError, "has the dimension 4.0"),
        (lambda r: compiled(shapes={"x": "4"}), TypeError, "`shapes` must be a dictionary"),
        (lambda r: collage.choose(r.graph, [5], cost=len), TypeError, "`found` of `choose` must"),
        (lambda r: collage.Copies("1", 2), TypeError, "`latency` and `bandwidth` of `Copies` must"),
        (lambda r: collage.CostTable("c.yaml"), TypeError, "`CostTable.load` reads a file"),
        (lambda r: collage.from_onnx(3), collage.FrontendError, "a model is the path of an ONNX"),
        (lambda r: collage.pipeline(3), collage.TargetError, "targets are given as a list"),
    ],
)
def test_an_argument_that_a_function_checks_itself_is_named_too(
    right: SimpleNamespace, call: Callable[[Any], object], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        call(right)


def test_what_does_not_fit_a_function_names_it(right: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match=r"^why\(\) takes 2 positional arguments"):
        collage.why(right.pattern, right.graph, "y")  # type: ignore[misc]
