"""Sets of possible values, and what conditions say of them, case by case."""

from math import inf

import pytest

from collage_dsl.language import check
from collage_dsl.language.domain import (
    ANYTHING,
    NATURAL,
    NOTHING,
    TRUTH,
    WHOLE,
    Values,
    between,
    calculated,
    divided_by,
    one_of,
    solved,
)
from collage_dsl.language.facts import MOST_WAYS, Facts, assume
from collage_dsl.rules.condition import (
    Attr,
    Bytes,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Has,
    Or,
    Rank,
    Shape,
    Size,
    Uses,
    Within,
)
from collage_dsl.source import Source


def test_a_set_without_numbers_between_its_ends_is_empty() -> None:
    assert between(1, 15).meet(divided_by(16, 0)).is_empty
    assert not between(1, 16).meet(divided_by(16, 0)).is_empty
    assert divided_by(4, 1).meet(divided_by(6, 0)).is_empty
    assert between(0, 1, whole=True).meet(Values(excluded=frozenset({0, 1}))).is_empty
    assert between(2, 2).meet(Values(excluded=frozenset({2}))).is_empty
    assert not between(0, 1).meet(Values(excluded=frozenset({0, 1}))).is_empty
    assert not between(0.25, 0.5).is_empty
    assert between(0.25, 0.5, whole=True).is_empty


def test_remainders_too_large_to_combine_exclude_nothing() -> None:
    one, other = divided_by(2**31, 1), divided_by(2**31 - 1, 1)

    assert 1 in one.meet(other)
    assert 2**31 + 1 in one.meet(other)


@pytest.mark.parametrize(
    ("values", "only"),
    [
        (one_of([3]), 3),
        (one_of([3, 4]), None),
        (one_of([3, 4]).meet(Values(excluded=frozenset({4}))), 3),
        (between(2, 3, whole=True).meet(Values(excluded=frozenset({2}))), 3),
        (between(2, 2, whole=True), 2),
        (between(0, 9).meet(divided_by(7, 5)), 5),
        (between(0, 9, whole=True), None),
        (NOTHING, None),
        (ANYTHING, None),
        (one_of(["f32"]), "f32"),
    ],
)
def test_the_only_value_of_a_set(values: Values, only: object) -> None:
    assert values.only() == only


def test_bounds_are_those_of_the_numbers_that_are_left() -> None:
    assert one_of([1, 5, 9]).meet(between(2, inf)).bounds() == (5, 9)
    assert one_of(["f32"]).bounds() == (-inf, inf)
    assert between(2, 4).bounds() == (2, 4)


def test_bounds_exclude_what_is_no_number() -> None:
    assert "f32" in ANYTHING
    assert "f32" not in between(-inf, 4)
    assert "f32" not in between(4, inf)
    assert "f32" not in WHOLE
    assert "f32" not in Values(excluded=frozenset({"f32"}))
    assert True in TRUTH
    assert -1 not in NATURAL
    assert 0.5 not in NATURAL


def test_calculating_is_exact_where_both_sides_are() -> None:
    assert calculated("/", one_of([7]), one_of([2])) == one_of([3])
    assert calculated("%", one_of([7]), one_of([0])).is_empty
    assert calculated("-", between(1, 3), between(1, 2)).bounds() == (-1, 2)
    assert calculated("*", between(-2, 3), between(4, 5)).bounds() == (-10, 15)
    assert calculated("*", NATURAL, one_of([0])).bounds() == (0, 0)
    assert calculated("%", NATURAL, one_of([4])).bounds() == (0, 3)
    assert calculated("%", ANYTHING, one_of([4])).bounds() == (0, 4)
    assert calculated("/", NATURAL, one_of([4])).bounds() == (0, inf)
    assert calculated("+", NATURAL, NATURAL).whole
    assert not calculated("+", NATURAL, ANYTHING).whole


def test_solving_is_exact_for_whole_numbers() -> None:
    assert solved("+", one_of([7]), 2).bounds() == (5, 5)
    assert solved("-", one_of([7]), 2).bounds() == (9, 9)
    assert solved("*", between(7, 9), 2).bounds() == (3.5, 4.5)
    assert solved("*", one_of([2**40 + 1]), 2).bounds() == (2**39, 2**39 + 1)
    assert solved("*", one_of([-4]), -2) == ANYTHING
    assert solved("/", one_of([3]), 2).bounds() == (6, 8)
    assert solved("%", one_of([3]), 4) == divided_by(4, 3)
    assert solved("%", between(1, 2), 4) == ANYTHING
    assert solved("+", one_of([0.5]), 2) == ANYTHING


# Conditions.


def test_what_is_compared_is_known() -> None:
    (way,) = assume([Facts({})], Compare(">", Bytes("x"), Constant(3)))

    assert way.known == {Bytes("x"), Size("x"), Dtype("x"), Rank("x")}
    assert way.of(Has("x")).only() is True
    assert way.of(Bytes("x")).bounds() == (3, inf)


def test_a_dimension_needs_a_rank() -> None:
    (front,) = assume([Facts({})], Compare("==", DimAt("x", 2), Constant(3)))
    (back,) = assume([Facts({})], Compare("==", DimAt("x", -2), Constant(3)))

    assert front.of(Rank("x")).bounds() == (3, inf)
    assert back.of(Rank("x")).bounds() == (2, inf)


def test_terms_that_are_equal_are_narrowed_together() -> None:
    ways = assume([Facts({})], Compare("==", DimAt("x", 0), DimAt("z", 0)))
    ways = assume(ways, Compare("==", DimAt("z", 0), Uses("x")))
    ways = assume(ways, Compare("<", Uses("x"), Constant(4)))
    (way,) = assume(ways, Compare("!=", DimAt("x", 0), Constant(3)))

    assert way.of(DimAt("z", 0)).excluded == {3, 4}
    assert not assume([way], Compare(">=", DimAt("z", 0), Constant(3)))


def test_shapes_have_ranks() -> None:
    (way,) = assume([Facts({})], Compare("==", Constant((1, 2)), Shape("x")))
    (choice,) = assume([Facts({})], Within(Shape("x"), Constant(((1,), (2, 3)))))

    assert way.of(Rank("x")).only() == 2
    assert way.of(DimAt("x", -1)).only() == 2
    assert choice.of(Rank("x")).allowed == {1, 2}


def test_an_attribute_starts_as_what_its_type_allows() -> None:
    facts = Facts({"0.groups": WHOLE, "0.ceil_mode": TRUTH})

    assert not assume([facts.copy()], Compare("==", Attr("0.groups"), Constant(0.5)))
    assert not assume([facts.copy()], Compare("==", Attr("0.ceil_mode"), Constant(2)))
    assert assume([facts.copy()], Compare("==", Attr("0.axis"), Constant(0.5)))
    (way,) = assume([facts.copy()], Attr("0.ceil_mode"), holds=False)
    assert way.of(Attr("0.ceil_mode")).only() is False


def test_conditions_with_too_many_ways_say_nothing() -> None:
    ways = [Facts({})]
    for axis in range(8):
        dim = DimAt("x", axis)
        either = Or(Compare("==", dim, Constant(1)), Compare("==", dim, Constant(2)))
        ways = assume(ways, either)
        assert 0 < len(ways) <= MOST_WAYS


def test_a_pattern_with_many_conditions_is_checked_quickly() -> None:
    wheres = "".join(f"where dim(x, {at}) % 4 == 0 or dim(x, {at}) < {at}; " for at in range(150))
    text = f"collage 1;\npattern f(x) {{ y = nn.relu(x); {wheres} where rank(x) < 3; yield y; }}\n"

    found = [diagnostic.code for diagnostic in check(Source("t", text))]

    assert set(found) <= {"E0320", "E0302"}
