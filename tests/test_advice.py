"""What hints name is there."""

from collage_dsl.graph.operators import operators
from collage_dsl.graph.target_kinds import target_kinds
from collage_dsl.language.messages import advice
from collage_dsl.language.resolve import target_kinds as kinds
from collage_dsl.language.resolve.functions import FUNCTIONS


def test_what_other_libraries_call_otherwise_is_an_operator() -> None:
    assert set(advice._OTHER_OPERATORS.values()) <= set(operators())
    assert not set(advice._OTHER_OPERATORS) & set(operators())


def test_what_other_libraries_call_otherwise_is_a_function() -> None:
    assert set(advice._OTHER_FACTS.values()) <= set(FUNCTIONS)


def test_what_others_call_targets_is_a_kind() -> None:
    assert set(kinds._MEANT.values()) <= set(target_kinds())
