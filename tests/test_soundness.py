"""A pattern that matches a graph is not refused, whatever else it says that is true there."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import settings

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import parse_graph
from collage_dsl.language.loading import check, patterns
from collage_dsl.language.resolve import patterns as resolved
from collage_dsl.rules.matcher import matches
from collage_dsl.rules.pattern import Pattern
from collage_dsl.source import Source
from collage_dsl.witness.example import NoExampleError, example
from tests.cases import ASKED
from tests.random_texts import text_of
from tests.true_conditions import TrueConditions


def with_condition(text: str, condition: str) -> str:
    start, end = text.rsplit("\n  yield ", 1)
    return f"{start}\n  where {condition};\n  yield {end}"


def unexamined(text: str) -> Pattern | None:
    """The pattern, which may be one that can never match; None if its text is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolved, "examine", lambda *_: None)
        try:
            return patterns(text=text)["p"]
        except RuleError:
            return None


def matching_texts(text: str, random: Random) -> Iterator[str]:
    """The text of a pattern, with conditions that hold in a graph that it matches."""
    pattern = patterns(text=text)["p"]
    found = example(pattern)
    graph = parse_graph(str(found))
    root = graph.index(found.at)
    first = next(iter(matches(pattern, graph, root)))
    true = TrueConditions(graph, first.bound, random)
    for _ in range(3 if true.numbers else 0):
        said = text
        for _ in range(random.randint(2, 7)):
            longer = with_condition(said, true.condition())
            more = unexamined(longer)
            if more and any(m.inside == first.inside for m in matches(more, graph, root)):
                said = longer
        yield said


@pytest.mark.properties
def test_what_matches_is_not_refused() -> None:
    asked = settings.get_current_profile_name() == ASKED
    examined = 0
    for seed in range(settings().max_examples if asked else 20):
        text = text_of(Random(seed))
        if any(found.is_error for found in check(Source("random", text))):
            continue
        try:
            for said in matching_texts(text, Random(f"true {seed}")):
                assert not [str(f) for f in check(Source("random", said)) if f.is_error], said
                examined += 1
        except NoExampleError:
            continue

    assert examined > 20
