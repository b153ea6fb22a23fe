"""The matcher finds what the definition says, and the language can write all that it matches."""

import re
from dataclasses import replace
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st

from collage_dsl.graph import Graph, Toolchain, members
from collage_dsl.graph.operators import operators
from collage_dsl.language import check, load, to_text
from collage_dsl.language.write.formatter import format_source
from collage_dsl.rules import DFPattern, FusionSpec, Limits, Pattern
from collage_dsl.rules.backtracking import Backtracking
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.observer import NO_OBSERVER
from collage_dsl.rules.partial import Match
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Excluded,
    FieldOf,
    Flat,
    Number,
    Parameter,
    Reference,
)
from collage_dsl.rules.predicate import no_host_code
from collage_dsl.rules.remembering import Remembering
from collage_dsl.source import Source
from tests.cases import cases
from tests.random_patterns import (
    graphs,
    has_types,
    near_misses,
    patterns,
    spelled,
    swapped,
    without,
)
from tests.slow_matcher import Part, Way, slow_matches, ways

NO_TYPE = {"E0312", "E0313"}
"""What is wrong with a pattern that takes a tensor for a tuple, which random ones often do."""


def at(pattern: Pattern, graph: Graph, root: int) -> dict[frozenset[int], Match]:
    """The matches at `root`, by the nodes inside."""
    found = matches(pattern, graph, root, Attempt())
    return {frozenset(members(match.inside)): match for match in found}


def can_hold(way: Way) -> bool:
    """Whether no constant has to be computed, and nothing has to come from what it must not."""
    computed = any(way.parts[part].is_inside for part in way.constants)
    return not computed and not any(must_come_from(way, *each) for each in way.excluded)


def must_come_from(way: Way, part: int, excluded: Excluded) -> bool:
    match way.parts[part]:
        case Part(Call(ops) as call):
            kinds = set(excluded.kinds)
            named = all(op in excluded.ops or operators()[op].kinds <= kinds for op in ops)
            return named and set(call.kinds) <= kinds
        case Part(FieldOf(), (of,)):
            return must_come_from(way, of, excluded)
        case Part(Number()):
            return excluded.constants
        case _:
            return excluded.constants and part in way.constants


@st.composite
def pairs(draw: Any) -> tuple[Pattern, Graph]:
    pattern = draw(patterns())
    return pattern, draw(st.one_of(near_misses(pattern), near_misses(pattern), graphs()))


@cases(80)
@given(pairs())
def test_the_matches_are_those_of_the_definition(pair: tuple[Pattern, Graph]) -> None:
    pattern, graph = pair
    expected = slow_matches(pattern, graph)
    event(f"matches: {min(len(expected), 2)}")

    for root in range(len(graph)):
        here = [match for match in expected if match.root == root]
        found = at(pattern, graph, root)
        assert set(found) == {match.inside for match in here}
        for inside, match in found.items():
            alike = [other for other in here if other.inside == inside]
            most = max(len(other.constants) for other in alike)
            chosen = (frozenset(members(match.constants)), dict(match.bound))
            assert chosen in [
                (other.constants, dict(other.bound))
                for other in alike
                if len(other.constants) == most
            ]
            assert match.anchor == match.bound.get(pattern.anchor)


A, B, C = Reference("a"), Reference("b"), Reference("c")
TREES = (
    Flat("multiply", (A, B, C, Number(0.5, 0.1))),
    Flat("add", (A, B, C)),
    Flat("multiply", (A, Call(("exp",), (A,)), B)),
    Flat("multiply", (A, A, B, Flat("add", (A, Number(2.0))))),
)


@cases(40)
@given(st.sampled_from(TREES), st.booleans(), st.data())
def test_trees_of_several_values_match_as_defined(
    tree: Flat, taps: bool, data: st.DataObject
) -> None:
    names = [name for name in "abc" if f"name='{name}'" in repr(tree)]
    bindings = (Binding("v", tree),)
    pattern = Pattern("p", tuple(map(Parameter, names)), bindings, "v", taps=taps)
    graph = data.draw(near_misses(pattern))
    expected = slow_matches(pattern, graph)
    event(f"matches: {min(len(expected), 2)}")

    for root in range(len(graph)):
        here = {match.inside for match in expected if match.root == root}
        assert set(at(pattern, graph, root)) == here


def all_matches(way: Backtracking, root: int) -> list[Match]:
    """The first match of each set of nodes and constants."""
    first: dict[tuple[int, int], Match] = {}
    for match in way.run(root, NO_OBSERVER):
        first.setdefault((match.inside, match.constants), match)
    return list(first.values())


@cases(80)
@given(pairs())
def test_to_remember_what_matched_changes_no_match(pair: tuple[Pattern, Graph]) -> None:
    pattern, graph = pair
    plain = Backtracking(pattern, graph, no_host_code)
    remembering = Remembering(pattern, graph, no_host_code)

    for root in range(len(graph)):
        assert all_matches(remembering, root) == all_matches(plain, root)


@cases(40)
@given(patterns(bare=True), st.data())
def test_a_pattern_matches_all_that_it_says_in_any_order_of_operands(
    pattern: Pattern, data: st.DataObject
) -> None:
    """With each optional node and without it, and with each of several alternatives."""
    for way in filter(can_hold, ways(pattern)):
        graph = spelled(way)
        free = {
            place
            for place, part in enumerate(way.parts)
            if isinstance(part.says, Call) and not part.says.ordered
        }
        exchanged = data.draw(st.sets(st.sampled_from(sorted(free)))) if free else set()
        inside = frozenset(place for place, part in enumerate(way.parts) if part.is_inside)
        if inside:
            assert inside in at(pattern, swapped(graph, exchanged), way.results[0])


@cases(40)
@given(pairs(), st.data())
def test_exchanging_operands_loses_no_match(
    pair: tuple[Pattern, Graph], data: st.DataObject
) -> None:
    pattern, graph = pair
    ordered = any(
        isinstance(part.says, Call) and part.says.ordered
        for way in ways(pattern)
        for part in way.parts
    )
    places = set() if ordered else data.draw(st.sets(st.integers(0, len(graph) - 1)))
    other = swapped(graph, places)

    for root in range(len(graph)):
        assert set(at(pattern, graph, root)) == set(at(pattern, other, root))


@cases(40)
@given(pairs(), st.data())
def test_what_is_made_optional_matches_as_before(
    pair: tuple[Pattern, Graph], data: st.DataObject
) -> None:
    pattern, graph = pair
    calls = [
        at
        for at, binding in enumerate(pattern.bindings)
        if isinstance(binding.value, Call) and not isinstance(binding.value.operands[0], Number)
    ]
    chosen = data.draw(st.sets(st.sampled_from(calls))) if calls else set()
    looser = replace(
        pattern,
        bindings=tuple(
            replace(binding, value=replace(binding.value, optional=True))
            if at in chosen
            else binding
            for at, binding in enumerate(pattern.bindings)
        ),
    )

    for root in range(len(graph)):
        assert set(at(pattern, graph, root)) <= set(at(looser, graph, root))


@cases(40)
@given(patterns(bare=True))
def test_a_graph_without_an_optional_node_is_matched_too(pattern: Pattern) -> None:
    for way in filter(can_hold, ways(pattern)):
        for place, part in enumerate(way.parts):
            if not isinstance(part.says, Call) or not part.says.optional:
                continue
            if pattern.others and place in way.results:  # two results may become one
                continue
            graph, left = without(spelled(way), place)
            root = way.results[0] if way.results[0] != place else part.of[0]
            inside = frozenset(at for at in left if way.parts[at].is_inside)
            if inside:
                assert inside in at(pattern, graph, root)


@cases(30)
@given(patterns().filter(lambda pattern: all(map(can_hold, ways(pattern)))))
def test_a_pattern_is_written_and_read_back_without_a_word(pattern: Pattern) -> None:
    limits = Limits(max_exits=None, taps=True)
    spec = FusionSpec(Toolchain("t", "llvm"), DFPattern(pattern), limits)
    text = to_text(spec)
    unconditional = to_text(replace(spec, rule=DFPattern(replace(pattern, conditions=()))))
    formatted = format_source(Source("t", text))

    said = {found.code for found in check(Source("t", text))}
    if NO_TYPE & {found.code for found in check(Source("t", unconditional))}:
        assert not all(has_types(spelled(way)) for way in ways(pattern))
    if "E0320" in said:
        assert re.search(r"[=<!]=|reshape", text), "without conditions, only lists exclude others"
    # A random condition may ask for the rank of a tuple, or for what an operator never gives.
    assume(not said & (NO_TYPE | {"E0302", "E0320"}))
    # A random condition may follow from another, need an optional call, or ask for what no operator
    # of a kind gives; and a result may be shared.
    assert said <= {"W0307", "W0314", "W0319", "W0330", "W0335", "W0426"}
    assert load(text=text) == {"t": spec}
    assert load(text=formatted) == {"t": spec}
    assert format_source(Source("t", formatted)) == formatted
