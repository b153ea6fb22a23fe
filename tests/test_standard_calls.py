"""
What calls of standard operators of ONNX take and give, by the onnx package, and without it.

The nodes in the tests of the onnx package show that no pattern is refused that a node matches.
"""

import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language.inference import onnx_package
from tests.cases import sample, slow
from tests.corpus import findings, said_by
from tests.onnx_node_patterns import NodeCase, node_cases

SPECS = Path(__file__).parents[1] / "specs"

PARTS = 8


@cache
def nodes() -> tuple[NodeCase, ...]:
    """Of all tests of the onnx package, which takes seconds."""
    return tuple(node_cases())


def by_operator() -> dict[str, list[NodeCase]]:
    ops = sorted({case.op for case in nodes()})
    return {op: [case for case in nodes() if case.op == op] for op in ops}


def said_of(text: str) -> list[Diagnostic]:
    """The findings, without those that models have an operator of Relax instead."""
    return [each for each in findings(text) if each.code != "W0336"]


def refusals(case: NodeCase, rng: random.Random | None = None) -> list[str]:
    """What is said against a pattern of a node; some of the nodes do have a dimension of 0."""
    found = (said_by(each) for each in said_of(case.pattern(rng)))
    return [said for said in found if "no dimension is 0" not in said]


@pytest.mark.parametrize(
    ("part", "count"),
    [*sample(2, [(part, 1) for part in range(PARTS)]), *(slow(part, 2) for part in range(PARTS))],
)
def test_no_pattern_is_refused_that_a_node_matches(part: int, count: int) -> None:
    """Of the first `count` nodes of each operator."""
    found = {}
    for op, cases in [*by_operator().items()][part::PARTS]:
        rng = random.Random(op)
        for case in cases[:count]:
            found[case.name] = refusals(case) + refusals(case, rng)

    assert {name: said for name, said in found.items() if said} == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_pattern_of_any_node_is_refused(seed: int) -> None:
    rng = random.Random(seed)

    assert [(case.name, said) for case in nodes() if (said := refusals(case, rng))] == []


def test_the_nodes_are_of_most_operators() -> None:
    assert len(by_operator()) > 170


def _with_other_result(case: NodeCase) -> NodeCase:
    """The node with a result that it cannot have."""
    first, *others = case.results
    shape = (*first.shape[:-1], first.shape[-1] + 1)
    return replace(case, results=(replace(first, shape=shape), *others))


def test_most_patterns_are_refused_that_ask_for_another_shape() -> None:
    every_third = [*by_operator().values()][::3]
    cases = [_with_other_result(of[0]) for of in every_third if of[0].results[0].shape]
    refused = [case.op for case in cases if refusals(case)]

    assert len(refused) > len(cases) * 0.5


MISTAKES = {
    "p(x: [_, _]) { y = onnx.Softmax(x) [axis == 2]; yield y; }": "'axis' must be in [-2 , 1]",
    "p(x: [_, 3, 4]) { y = onnx.Det(x); yield y; }": "between 4 and 3",
    "p(a: [_, _], b: [_, _]) { y = onnx.Concat(a, b) [axis == 3]; yield y; }": (
        "axis must be in [-rank, rank-1]"
    ),
    "p(x) { y = onnx.RoiAlign(x, _, _) [output_height == 7]; where dim(y, 2) == 9; yield y; }": (
        "`dim(y, 2)` is `7`"
    ),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.items())
def test_a_mistake_is_told(text: str, said: str) -> None:
    (found,) = said_of(f"pattern {text}")

    assert found.code == "E0320"
    assert said in said_by(found)


def test_what_a_relation_says_is_told_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_package, "_package", lambda: None)
    findings.cache_clear()

    (found,) = said_of("pattern p(x: [_, _], i: [_, 3]) { y = onnx.GatherND(x, i); yield y; }")

    findings.cache_clear()
    assert found.code == "E0320"
    assert "`dim(i, 1)` is always a whole number from 1 to 2" in said_by(found)


@pytest.mark.parametrize("text", MISTAKES)
def test_without_the_package_nothing_is_said(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_package, "_package", lambda: None)
    findings.cache_clear()

    said = said_of(f"pattern {text}")

    findings.cache_clear()
    assert said == []


RIGHT = (
    "(x: [4, 4]) { y = onnx.Einsum(x, x) [equation == 'ij,jk->ik'];",
    "(x: [2, 3]) { y = onnx.Concat(x, x) [axis == 0]; where dim(y, 0) == 4;",
    "(x: []) { y = onnx.Transpose(x) [perm == []];",
    "(x: [4, 4]) { y = onnx.Softmax(x) [axis == 9223372036854775808];",
    "(x: [1, 9223372036854775808]) { y = onnx.LpNormalization(x);",
    "(x: [4294967296, 4294967296]) { y = onnx.Flatten(x) [axis == 0];",
    "(x: [_], s: const & [1]) { y = com.microsoft.DequantizeLinear(x, s) [axis == 1];",
    "(x: [_], s: const & [1]) { y = onnx.DequantizeLinear(x, s) [axis == 1];",
    "(a: [_, 2, 3], b: [_, 2, 5]) { y = onnx.Concat(a, b);",
    "(a: [_, 7], b: [9, 7]) { y = onnx.Gemm(a, b); where dim(y, 1) == 9;",
    "(x: [_, 8, _, _], w: [8, 1, 3, 3]) { y = onnx.Conv(x, w);",
    "(x: [_, 8, 9, 9], w: [8, 4, 2, 2]) { y = onnx.ConvTranspose(x, w); where dim(y, 1) == 8;",
    "(x: [_, 8, 9, 9]) { y = onnx.MaxPool(x) [kernel_shape == [3, 3]]; where dim(y, 2) == 3;",
    "(x, w, r) { t = onnx.LSTM(x, w, r); h = t.0; where rank(h) == 3; y = add(h, t.1);",
    "(x, k) { y = onnx.TopK(x, k); where dtype(y) == i64;",
    "(x) { y = onnx.Cast(x) [to == 8];",
    "(x: [_, 8, _, _], g: [8, 7, 7], b, m, v) { y = onnx.BatchNormalization(x, g, b, m, v);",
    "(x: [_, 6, _], g: [3], b) { y = onnx.GroupNormalization(x, g, b) [num_groups == 3];",
    "(x: [_, 8, _], w, z: [_, 8, _]) { y = com.microsoft.FusedConv(x, w, z);",
)
"""Patterns of which a part may be otherwise than it usually is."""


@pytest.mark.parametrize("text", RIGHT)
def test_what_a_node_may_have_is_not_refused(text: str) -> None:
    body = text.replace("'", '"')

    assert said_of(f"pattern p{body} yield y; }}") == []


def test_the_package_is_not_imported_for_operators_of_relax() -> None:
    program = (
        "import sys; from pathlib import Path; from collage_dsl.language import check\n"
        "from collage_dsl.source import Source\n"
        f"folder = Path({str(SPECS)!r})\n"
        "for each in folder.glob('*.collage'):\n"
        "    check(Source(each.name, each.read_text('utf-8')), [folder])\n"
        "assert 'onnx' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
