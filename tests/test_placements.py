"""`pin` and `forbid`: what they rule out, alone and together, and what is said of it."""

import pytest

import collage_dsl as collage
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import searched
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.language import load, parse_graph, to_text
from collage_dsl.language.forms import from_json, from_yaml, to_json, to_yaml
from collage_dsl.rules import FusionSpec
from collage_dsl.rules.placement import ByName, ByOperator, Placement
from collage_dsl.search import Plan
from tests.graphs import graph_of

SPEC = """collage 1;
target tvm on llvm { rules op_call_by_kind(); }
target lib on llvm {
  compiler "lib";
  rules    combine_by_primitives(op_call_by_kind(), using: [join_anything]);
  limits   { max_exits any; taps allowed; }
  after    max_coalesce();
}
"""


def specs(*placements: str) -> list[FusionSpec]:
    return list(load(text=SPEC + "\n".join(placements)).values())


def chain() -> Graph:
    return parse_graph("x: f32[4]; `/a/1` = exp(x); b = tanh(`/a/1`); c = exp(b); return c;")


def lib_is_cheaper(candidate: CandidateKernel) -> float:
    return 1.0 if candidate.target == "lib" else 2.0


def plans(given: list[FusionSpec]) -> dict[str, Plan | str]:
    return searched(chain(), given, lib_is_cheaper, lookup()).plans


def proposed(*placements: str) -> set[tuple[str, frozenset[str]]]:
    return {(c.target, c.nodes) for c in collage.propose(chain(), *specs(*placements))}


def test_forbid_removes_candidates_of_its_target_that_hold_a_selected_call() -> None:
    everything = proposed()

    assert proposed('forbid name("b") on lib;') == {
        (target, nodes) for target, nodes in everything if target == "tvm" or "b" not in nodes
    }


def test_pin_removes_candidates_of_other_targets_that_hold_a_selected_call() -> None:
    everything = proposed()

    assert proposed("pin op(tanh) to tvm;") == {
        (target, nodes) for target, nodes in everything if target == "tvm" or "b" not in nodes
    }
    assert proposed('pin name("/a/*") to lib;') == {
        (target, nodes) for target, nodes in everything if target == "lib" or "/a/1" not in nodes
    }


def test_the_plan_keeps_to_placements_and_merging_does_too() -> None:
    found = plans(specs('pin name("b") to tvm because "accuracy";'))
    mixed = found["mixed"]

    assert isinstance(mixed, Plan)
    assert [kernel.target for kernel in mixed.kernels] == ["lib", "tvm", "lib"]
    assert isinstance(found["tvm"], Plan)
    assert found["lib"] == ("no target has a kernel for `b`; `b` is pinned to tvm because accuracy")


def test_what_nothing_may_run_is_said_with_the_reasons() -> None:
    given = specs('pin name("b") to tvm because "accuracy";', "forbid op(tanh) on tvm;")

    with pytest.raises(collage.UncoveredError) as raised:
        plans(given)

    assert str(raised.value).splitlines() == [
        "no target has a kernel for `b`",
        "  `b` (tanh):",
        "    target tvm: `b` is forbidden on tvm",
        "    target lib: `b` is pinned to tvm because accuracy",
    ]


def test_a_name_selects_only_operator_calls() -> None:
    text = "x: f32[4]; t = (x, x); y = concat(t) [axis = 0]; return y;"
    graph = parse_graph(text)

    assert Placement("pin", ByName("*")).selected(graph) == graph.set_of("y")
    assert Placement("pin", ByName("t")).selected(graph) == 0
    assert Placement("pin", ByOperator(("concat", "exp"))).selected(graph) == graph.set_of("y")


@pytest.mark.parametrize(
    ("glob", "selected"),
    [
        ("blocks[0]/*", {"blocks[0]/a", "blocks[0]/b/c"}),
        ("*/[ab]", set()),
        ("blocks[?]/a", set()),
        ("*[0]*c", {"blocks[0]/b/c"}),
        ("b*?", {"blocks0?"}),
    ],
)
def test_only_a_star_is_special_in_a_name(glob: str, selected: set[str]) -> None:
    names = ["blocks[0]/a", "blocks[0]/b/c", "blocks0/a", "blocks0?"]
    operands = ["x", *names]
    graph = graph_of({name: [operands[i]] for i, name in enumerate(names)}, [names[-1]])

    assert graph.names(Placement("pin", ByName(glob)).selected(graph)) == selected


def test_placements_travel_with_their_target_and_every_form_keeps_them() -> None:
    given = load(
        text=SPEC
        + 'let act = one_of(tanh, exp); pin op(act, tanh) to tvm because "a \\"b\\"";'
        + 'forbid name("*") on lib; pin name("x") to tvm;'
    )

    assert given["tvm"].placements == (
        Placement("pin", ByOperator(("tanh", "exp")), 'a "b"'),
        Placement("pin", ByName("x")),
    )
    assert given["lib"].placements == (Placement("forbid", ByName("*")),)
    assert load(text=to_text(given)) == given
    assert load(text=to_text(given["tvm"]))["tvm"] == given["tvm"]
    assert from_json(to_json(given)) == given
    assert from_yaml(to_yaml(given)) == given
