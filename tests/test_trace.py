"""The reasons why rules propose nothing."""

import pytest

from collage_dsl.cost import Cost
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import UncoveredError, propose, searched
from collage_dsl.graph import CandidateKernel
from collage_dsl.language import load, parse_graph
from collage_dsl.rules import trace
from collage_dsl.rules.trace import Refusal

GRAPH = parse_graph("graph { x: f32[4]; y = exp(x); z = tanh(y); return z; }")
SPEC = load(text="collage 1; target t on llvm { rules op_call_by_kind(anchor); }")["t"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Refusal]:
    """The refusals that are made while a test runs."""
    found: list[Refusal] = []

    def make(*values: object) -> Refusal:
        found.append(Refusal(*values))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(trace, "Refusal", make)
    return found


def unit_cost(candidate: CandidateKernel) -> Cost:
    return 1.0


def test_proposing_keeps_no_refusals(made: list[Refusal]) -> None:
    assert propose(GRAPH, SPEC) == ()
    assert made == []


def test_refusals_are_kept_for_calls_that_nothing_covers(made: list[Refusal]) -> None:
    with pytest.raises(UncoveredError, match="exp is elementwise, which the rule does not name"):
        searched(GRAPH, [SPEC], unit_cost, lookup())

    assert {each.inside for each in made} == {GRAPH.set_of("y"), GRAPH.set_of("z")}
