"""Parts that match in several ways exclude each other exactly if no ways go together."""

from collections.abc import Iterable
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.language import check
from collage_dsl.source import Source
from tests.cases import cases

CALLS = {
    1: "expand_dims({x}) [axis == [0]]",
    0: "nn.relu({x})",
    -1: "sum({x}) [axis == [0], keepdims == false]",
}
"""Calls by how much they add to the rank."""

OPTIONAL = {
    1: "expand_dims?({x}) [axis == [0]]",
    0: "nn.relu?({x})",
    -1: "sum?({x}) [axis == [0], keepdims == false]",
}

Part = tuple[str, tuple[int, ...]]

AMOUNTS = st.sampled_from(sorted(CALLS))
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.tuples(st.just("either"), st.lists(AMOUNTS, min_size=2, max_size=3, unique=True).map(tuple)),
    st.tuples(st.just("optional"), AMOUNTS.map(lambda amount: (amount, 0))),
    st.tuples(st.just("repeat"), AMOUNTS.map(lambda amount: (amount, 2 * amount))),
)


def written(part: Part, of: str) -> str:
    what, amounts = part
    match what:
        case "either":
            return f"({' | '.join(CALLS[each].format(x=of) for each in amounts)})"
        case "optional":
            return OPTIONAL[amounts[0]].format(x=of)
        case _:
            return f"repeat[1..2] {CALLS[amounts[0]].format(x=of)}"


def texts(parts: Iterable[Part], added: int, *, called: bool) -> str:
    """A pattern of `parts` in turn that asks how much they add; each in a pattern of its own."""
    of, patterns, bindings = "x", "", ""
    for at, part in enumerate(parts):
        value = written(part, "v" if called else of)
        if called:
            patterns += f"pattern p{at}(v) {{ y = exp({value}); yield y; }}\n"
            value = f"p{at}({of})"
        bindings += f" a{at} = {value};"
        of = f"a{at}"
    asked = f"rank({of}) == rank(x) + {added}"
    return f"collage 1;\n{patterns}pattern p(x) {{{bindings} where {asked}; yield {of}; }}\n"


@cases(20)
@given(st.lists(PARTS, min_size=2, max_size=3), st.integers(-3, 3), st.booleans())
def test_a_pattern_is_refused_exactly_if_no_ways_of_its_parts_go_together(
    parts: list[Part], added: int, called: bool
) -> None:
    found = {each.code for each in check(Source("t", texts(parts, added, called=called)))}

    sums = map(sum, product(*(amounts for _, amounts in parts)))
    assert ("E0320" in found) == (added not in sums)


@cases(20)
@given(st.lists(PARTS, min_size=2, max_size=3), st.integers(-3, 3))
def test_an_alternative_is_warned_of_exactly_if_it_goes_with_no_others(
    parts: list[Part], added: int
) -> None:
    text = texts(parts, added, called=False)
    found = [each for each in check(Source("t", text)) if each.code == "W0314"]

    ways = [way for way in product(*(amounts for _, amounts in parts)) if sum(way) == added]
    for at, (what, amounts) in enumerate(parts):
        if what == "either" and ways:
            vain = {amount for amount in amounts if all(way[at] != amount for way in ways)}
            line = text.split(f"a{at} = ")[1].split(";")[0]
            start = text.index(f"a{at} = ")
            warned = [each for each in found if start <= each.span.start < start + len(line) + 5]
            assert len(warned) == sum(amount in vain for amount in amounts)
