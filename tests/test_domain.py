"""Sets of possible values, and what conditions say of them, case by case."""

from itertools import product
from math import inf

import pytest

from collage_dsl.language import check
from collage_dsl.language.reasoning.values.arithmetic import calculated, quotient, roots, solved
from collage_dsl.language.reasoning.values.assuming import MOST_WAYS, assume
from collage_dsl.language.reasoning.values.domain import (
    ANYTHING,
    NATURAL,
    NOTHING,
    TRUTH,
    WHOLE,
    Values,
    between,
    divided_by,
    is_whole,
    one_of,
)
from collage_dsl.language.reasoning.values.facts import Facts
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


def test_remainders_are_combined() -> None:
    moduli = (1, 2, 3, 4, 6, 9, 10)
    known = [(modulus, rest) for modulus in moduli for rest in range(modulus)]
    for (modulus, rest), (other, left) in product(known, known):
        met = divided_by(modulus, rest).meet(divided_by(other, left))
        both = [n for n in range(90) if n % modulus == rest and n % other == left]
        assert [n for n in range(90) if n in met] == both

    assert divided_by(2**9, 1).meet(divided_by(5**9, 2)).modulus == 10**9


@pytest.mark.parametrize(
    ("values", "only"),
    [
        (one_of([3]), 3),
        (one_of([3, 4]), None),
        (one_of([3, 4]).meet(Values(excluded=frozenset({4}))), 3),
        (between(2, 3, whole=True).meet(Values(excluded=frozenset({2}))), 3),
        (between(2, 2, whole=True), 2),
        (between(1, 9).meet(divided_by(7, 5)), 5),
        (between(0, 14).meet(divided_by(7, 5)).meet(Values(excluded=frozenset({5}))), 12),
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
    assert calculated("+", one_of([7]), one_of([2])) == one_of([9])
    assert calculated("-", one_of([7]), one_of([2])) == one_of([5])
    assert calculated("*", one_of([7]), one_of([2])) == one_of([14])
    assert calculated("/", one_of([7]), one_of([2])) == one_of([3, 3.5])
    assert calculated("%", one_of([7]), one_of([4])) == one_of([3])
    assert calculated("%", one_of([7]), one_of([0])).is_empty
    assert calculated("+", between(1, 3), between(1, 2)).bounds() == (2, 5)
    assert calculated("-", between(1, 3), between(1, 2)).bounds() == (-1, 2)
    assert calculated("*", between(-2, 3), between(4, 5)).bounds() == (-10, 15)
    assert calculated("*", between(1, 3), between(4, 5)).bounds() == (4, 15)
    assert calculated("*", NATURAL, one_of([0])).bounds() == (0, 0)
    assert calculated("*", ANYTHING, one_of([0])).bounds() == (0, 0)
    assert calculated("%", NATURAL, one_of([4])).bounds() == (0, 3)
    assert calculated("%", ANYTHING, one_of([4])).bounds() == (0, 4)
    assert calculated("/", NATURAL, one_of([4])).bounds() == (0, inf)
    assert calculated("/", between(2, 5), one_of([1])).bounds() == (2, 5)
    assert calculated("/", between(3, 7), one_of([2])).bounds() == (1, 3.5)
    assert calculated("/", NATURAL, one_of([0])) == ANYTHING
    assert calculated("%", NATURAL, one_of([1])).bounds() == (0, 0)
    assert calculated("%", NATURAL, one_of([0])) == ANYTHING
    assert not calculated("+", NATURAL, ANYTHING).whole
    assert not calculated("+", ANYTHING, NATURAL).whole
    assert not calculated("+", NATURAL, one_of([0.5, 1])).whole


@pytest.mark.parametrize("operator", ["+", "-", "*", "%"])
def test_whole_numbers_give_whole_numbers(operator: str) -> None:
    assert calculated(operator, NATURAL, one_of([4])).whole
    assert is_whole(calculated(operator, one_of([3, 4]), one_of([4])))
    assert not calculated(operator, between(0, 1), one_of([4])).whole


def test_a_quotient_drops_the_remainder_only_where_both_sides_are_surely_whole() -> None:
    assert 0.25 in calculated("/", one_of([2, 4]), one_of([8]))
    assert 0.5 in calculated("/", one_of([1]), one_of([2, 4]))
    assert quotient(NATURAL, one_of([4])).whole
    assert quotient(one_of([1024]), between(401, inf)).bounds() == (0, 2)
    assert quotient(between(1000, 1030), between(0, 3, whole=True)).bounds() == (333, 1030)
    assert quotient(between(-3, 3), between(2, 4)).bounds() == (-2, 1)
    assert quotient(between(1, 3), one_of([4.0]), is_exact=True).bounds() == (0.25, 0.75)
    assert quotient(one_of([1, 3]), one_of([4.0]), is_exact=True) == one_of([0.25, 0.75])


def test_solving_is_exact_for_whole_numbers() -> None:
    assert solved("+", one_of([7]), 2).bounds() == (5, 5)
    assert solved("-", one_of([7]), 2).bounds() == (9, 9)
    assert solved("*", between(7, 9), 2).bounds() == (3.5, 4.5)
    assert solved("*", one_of([2**40 + 1]), 2).bounds() == (2**39, 2**39 + 1)
    assert solved("*", one_of([2**60 + 2]), 2).bounds() == (2**59 + 1, 2**59 + 1)
    assert solved("*", one_of([10**9]), 3).bounds() == (333333333, 333333334)
    assert solved("*", between(-inf, 8), 2).bounds() == (-inf, 4)
    assert solved("*", one_of([4]), 1).bounds() == (4, 4)
    assert solved("*", one_of([0]), 0) == ANYTHING
    assert solved("*", one_of([-4]), -2) == ANYTHING
    assert solved("/", one_of([3]), 1).bounds() == (3, 4)
    assert solved("/", one_of([3]), 0) == ANYTHING
    assert solved("%", one_of([0]), 1) == divided_by(1, 0)
    assert solved("%", one_of([0]), 0) == ANYTHING
    assert solved("+", one_of([7]), 0.5) == ANYTHING
    assert solved("+", between(-inf, 4), 2).bounds() == (-inf, 2)
    assert solved("-", between(3, inf), 2).bounds() == (5, inf)
    assert solved("/", one_of([3]), 2).bounds() == (6, 8)
    assert solved("%", one_of([3]), 4) == divided_by(4, 3)
    assert solved("%", between(1, 2), 4) == ANYTHING
    assert solved("+", one_of([0.5]), 2) == ANYTHING


# Conditions.


def test_what_is_compared_is_known() -> None:
    (way,) = assume([Facts({})], Compare(">", Bytes("x"), Constant(3)))

    assert way.known == {Bytes("x"), Size("x"), Dtype("x"), Rank("x")}
    assert way.of(Has("x")).only() is True
    assert way.of(Bytes("x")).bounds() == (4, inf)


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

    assert way.of(DimAt("z", 0)).bounds() == (0, 3)
    assert way.of(DimAt("z", 0)).excluded == {3}
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
    assert len(ways) == MOST_WAYS


def test_a_pattern_with_many_conditions_is_checked_quickly() -> None:
    wheres = "".join(f"where dim(x, {at}) % 4 == 0 or dim(x, {at}) <= {at}; " for at in range(150))
    text = f"collage 1;\npattern f(x) {{ y = nn.relu(x); {wheres} where rank(x) < 3; yield y; }}\n"

    found = [diagnostic.code for diagnostic in check(Source("t", text))]

    assert set(found) <= {"E0320", "E0302"}


DIFFERENT = "where dim(x, 0) == 4; where dim(x, 1) == 5;"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("y = (nn.max_pool2d | nn.avg_pool2d)(x) [ceil_mode, not ceil_mode];", "E0320"),
        ("y = astype?(x) [dtype == f16]; where dtype(y) == f32;", "W0314"),
        ('y = topk(x) [ret_type == "values", dtype == i32]; where dtype(y) == f32;', ""),
        ("y = nn.relu(x); where rank(x) == 2; where rank(y) == 3;", "E0320"),
        ("y = ones(x); where rank(x) == 3; where rank(y) == 3;", ""),
        ("y = ones(x); where rank(x) == 1; where rank(y) == 3;", "E0320"),
        ("y = nn.dropout(x); where rank(x) == 2; where rank(y) == 3;", "E0302"),
        ("y = outer(x, x); where rank(x) == 1; where rank(y) == 2;", ""),
        ("y = concat((add?(x, _), x)); where rank(x) == 2;", ""),
        ("k = exp(x); z = add?(k, x); y = concat((z, x)); where rank(z) == 2;", ""),
        (
            "z = add?(exp(_), x); y = concat((z, x)); where rank(x) == 4; where rank(z) == 2;",
            "E0320",
        ),
        ('y = nn.max_pool2d(x) [layout == "NCHW"]; where rank(x) == 5;', "E0320"),
        ('y = nn.conv2d(_, x) [kernel_layout == "OIHW"]; where rank(x) == 5;', "E0320"),
        ('y = nn.conv1d(x, _) [data_layout == "NCW"]; where rank(x) == 3;', ""),
        # An attribute has a value unless its default is none; of different calls, it differs.
        ("y = astype(x) [dtype == f16 or dtype != f16];", "W0330"),
        ("y = argmax(x) [axis == 1 or axis != 1];", ""),
        ("y = argmax(x) [axis == none or axis == 1 or axis != 1];", ""),
        ("y = argmax(x) [axis == none or axis != none];", "W0330"),
        ("y = argmax(x) [axis == none and axis != none];", "E0302"),
        ("y = argmax(x) [not (axis == none), axis == none];", "E0320"),
        ("y = argmax(x) [axis == none, axis == 1];", "E0320"),
        ("y = argmax(x) [axis == none, axis != 1];", "E0320"),
        ("y = argmax(x) [axis == none, axis < 1];", "E0320"),
        ("y = argmax(x) [axis in [0, 1], none == axis];", "E0320"),
        ("y = argmax(x) [axis == 1, axis != none];", "W0330"),
        ("y = argmax(x) [axis in 0..3, none != axis];", "W0330"),
        ("y = argmax(x) [axis in [none, 1], axis != 1];", "E0320"),
        ("y = argmax(x) [axis in [none, 1], axis == none or axis == 1];", ""),
        ("y = argmax(x) [axis in [none, 1], axis != none, axis != 1];", "E0320"),
        ("y = argmax(x) [axis == none, axis in [none, 1]];", "W0330"),
        ("y = argmax(x) [axis == 1, axis in [none, 1, 2]];", "W0330"),
        ("y = argmax(x) [not axis in [none, 1], axis == none];", "E0320"),
        ("y = argmax(x) [axis != none, axis in [none, 1]];", "W0331"),
        ("y = argmax(x) [axis in [none, none]];", "W0316"),
        ("y = argmax(x) [axis == none, none in [none]];", "W0330"),
        ("y = sum(x) [axis == none, axis == [0]];", "E0320"),
        ("y = max(sum(x) [axis == none]) [axis == [0]];", ""),
        ("y = max(sum(x) [axis == none]) [axis != none];", ""),
        ("y = nn.conv2d(x, _) [out_dtype == none, out_dtype in [f32, f16]];", "E0320"),
        ("y = nn.conv2d(x, _) [out_dtype in [none, f32], out_dtype == f16];", "E0320"),
        ("y = concat((x, x)) [axis == none];", ""),
        ("y = (argmax | nn.softmax)(x) [axis == none];", ""),
        ("y = (nn.log_softmax | nn.softmax)(x) [axis == none];", "E0321"),
        ("y = argmax(x) [keepdims or not keepdims];", "W0330"),
        ("y = exp(nn.max_pool2d(nn.max_pool2d(x) [strides[*] == 1]) [strides[*] == 2]);", ""),
        ("y = nn.max_pool2d(x) [strides[*] == 1, strides[*] == 2];", "E0320"),
        ("y = squeeze(x) [not not axis[*] == 1, not not axis[*] == 2];", ""),
        # What is unknown, though what it asks is known, may not hold.
        ("y = exp(x); where rank(x) == 3; where not rank(x) == 2;", "W0330"),
        ("y = exp(x); where rank(x) == 3; where not shape(x) == [1, 2];", ""),
        ("y = exp(x); where rank(x) == 3; where shape(x) != [1, 2];", ""),
        ("y = exp(x); where rank(x) == 3; where shape(x) != [1, 2] and rank(x) == 3;", ""),
        ("y = exp(x); where rank(x) == 3; where rank(x) == 3 and shape(x) != [1, 2];", ""),
        ("y = exp(x); where dim(x, 0) == 2; where 8 / dim(x, 0) == 4;", ""),
        ("y = exp(x); where dim(x, 0) == 2; where dim(x, 0) % 2 == 0;", ""),
        # Dimensions from the end are those from the front, whichever is said first.
        ("y = exp(x); where rank(x) == 2; where dim(x, 0) == 4; where dim(x, -2) == 5;", "E0320"),
        ("y = exp(x); where dim(x, 0) == 4; where dim(x, -2) == 5; where rank(x) == 2;", "E0320"),
        ("y = exp(x); where dim(x, 1) == 4; where dim(x, -2) == 5; where rank(x) == 2;", ""),
        ("y = exp(x); where dim(x, -1) == 4; where dim(x, -2) == 5; where rank(x) == 2;", ""),
        ("y = exp(x); where dim(x, -1) == dim(x, 0); where rank(x) == 2; " + DIFFERENT, "E0320"),
        (
            "y = exp(x); " + DIFFERENT + " where dim(x, -1) == dim(x, -2); where rank(x) == 2;",
            "E0320",
        ),
        ("y = nn.conv2d(x, _) [groups == dim(x, 4)]; where rank(x) == 4;", "E0320"),
        ("y = matmul(x, _); where rank(x) == 2; where dim(x, 3) == 4;", "E0320"),
        ("y = matmul(x, _); where rank(x) == 0; where dim(x, 0) == 4;", "E0320"),
        ("y = exp(x); where rank(x) == 2; where not (rank(x) == 2 and rank(y) == 2);", "E0320"),
        ("y = exp(x); " + DIFFERENT + " where not (dim(x, 0) == 4 and dim(x, 1) == 5);", "E0320"),
        ("y = exp(x); " + DIFFERENT + " where not (dim(x, 0) == 4 and dim(x, 1) == 6);", "W0330"),
        ('y = nn.conv2d(x, _) [data_layout == "NCHW"]; where dim(x, 7) == 4;', "E0320"),
        ("y = exp(x); where rank(x) == 3; where not rank(x) in 2..4;", "E0320"),
        ("y = nn.max_pool2d(x) [strides[*] in 1..2, strides[*] == 3];", "E0320"),
        # Where not each is so, some may be.
        ("y = nn.max_pool2d(x) [not strides[*] == 1, not strides[*] != 1];", ""),
        ("y = nn.max_pool2d(x) [not strides[*] in [1], strides[*] in [1, 2]];", ""),
        ("y = nn.max_pool2d(x) [not strides[*] in 1..2, strides[*] in 1..3];", ""),
        ("y = exp(x); where false;", "E0302"),
        ("y = exp(x); where 1 == 2;", "E0302"),
        ("y = exp(x); where 2 != 2;", "E0302"),
        ("y = exp(x); where 2 in [3, 4];", "E0302"),
        ("y = exp(x); where 1 < 2;", "W0330"),
        ("y = exp(x); where true;", "W0330"),
        # What holds of the last call is said of the first, and the other way round.
        (f"y = {'add(' * 20}x{', _)' * 20}; where rank(y) <= 2; where rank(x) == 3;", "E0320"),
        (f"y = {'add(' * 20}x{', x)' * 20}; where rank(x) <= 2; where rank(y) == 3;", "E0320"),
        # What an optional call is called with is there too only where it comes first.
        ("y = nn.relu(nn.conv2d(flatten(x), _));", "E0320"),
        ("y = nn.relu?(nn.conv2d(flatten(x), _));", "E0320"),
        ("y = add(x, nn.conv2d(flatten(_), _));", "E0320"),
        ("y = add?(x, nn.conv2d(flatten(_), _));", "W0314"),
    ],
)
def test_what_is_said_of_a_pattern(body: str, codes: str) -> None:
    found = check(Source("t", f"collage 1; pattern p(x) {{ {body} yield y; }}"))

    assert [diagnostic.code for diagnostic in found] == codes.split()


def test_the_dimensions_of_a_parameter_may_say_what_is_known() -> None:
    call = "y = nn.conv2d(x, w) [groups == dim(x, 1), groups == 4];"
    said = f"collage 1; pattern p(x: [_, 4, _, _], w) {{ {call} yield y; }}"
    again = f"collage 1; pattern p(x, w) {{ {call} where dim(x, 1) == 4; yield y; }}"

    assert check(Source("t", said)) == ()
    assert [found.code for found in check(Source("t", again))] == ["W0330"]


@pytest.mark.parametrize(("number", "codes"), [(99, ["E0320"]), (100, [])])
def test_the_first_hundred_conditions_are_looked_at(number: int, codes: list[str]) -> None:
    wheres = "".join(f"where dim(x, {at}) == 4; " for at in range(number))
    text = f"pattern p(x) {{ y = exp(x); {wheres} where dim(x, 0) == 5; yield y; }}"

    assert [found.code for found in check(Source("t", f"collage 1; {text}"))] == codes


@pytest.mark.parametrize(("number", "codes"), [(40, ["E0320"]), (41, [])])
def test_the_first_forty_calls_are_looked_at(number: int, codes: list[str]) -> None:
    wheres = "where dtype(x) == f32; where dtype(y) == f16;"
    text = f"pattern p(x) {{ y = {'exp(' * number}x{')' * number}; {wheres} yield y; }}"

    assert [found.code for found in check(Source("t", f"collage 1; {text}"))] == codes


@pytest.mark.parametrize("asked", ["4 in shape(b)", "rank(b) in shape(x)", "bytes(b) == 4"])
def test_what_is_asked_of_an_operand_says_that_it_is_there(asked: str) -> None:
    call = "k = exp(x); y = add?(k, b);"
    text = f"collage 1; pattern p(x, b?) {{ {call} where {asked}; where not has(b); yield y; }}"

    assert [found.code for found in check(Source("t", text))] == ["W0307", "E0320"]


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ("rank(w) == 2 and (rank(x) == 2 or rank(x) == 3)", "rank(w) < 3", "W0330"),
        ("shape(x) in [[1, 2], [3, 4]]", "rank(x) == 3", "E0320"),
        ("not shape(x) in [[1, 2]]", "rank(x) == 2", ""),
        ("not dtype(x) in [f32, f16]", "dtype(x) == f16", "E0320"),
        ("dtype(x) in [f32, f16]", "dtype(x) in [f16, f64]", "W0331 W0331"),
        ("shape(x) == shape(w)", "rank(x) == 2 and rank(w) == 3", "E0320"),
        ("shape(x) != shape(w)", "rank(x) == 2 and rank(w) == 2", ""),
        ("[1, 2] == shape(x)", "dim(x, 1) == 3", "E0320"),
        ("shape(x) == [1, 2]", "dim(x, 0) == 2", "E0320"),
        ("shape(x) == [1, 2]", "rank(x) == 3", "E0320"),
        ("[1, 2] == shape(x)", "rank(x) == 3", "E0320"),
        ("shape(x) != [1, 2]", "rank(x) == 2", ""),
        ("rank(x) < 9", "rank(x) != rank(x)", "E0302"),
        ("rank(x) < 9", "rank(x) < rank(x)", "E0302"),
        ("rank(x) < 9", "rank(x) > rank(x)", "E0302"),
        ("rank(x) <= rank(x)", "rank(x) == 3", ""),
        ("rank(x) >= rank(x)", "rank(x) == 3", ""),
        ("rank(x) == rank(x)", "rank(x) == 3", ""),
        ("dim(x, 0) == dim(w, 1)", "dim(w, 1) < dim(x, 0)", "E0320"),
        ("dim(x, 0) == dim(w, 1)", "dim(x, 0) == 3 and dim(w, 1) == 4", "E0320"),
        ("dim(x, 0) != dim(w, 1)", "dim(x, 0) == 3 and dim(w, 1) == 4", ""),
        ("dim(x, 0) < 3", "dim(x, 0) == 3", "E0320"),
        ("dim(x, 0) < 3", "dim(x, 0) == 2", ""),
        ("dim(x, 0) <= 3", "dim(x, 0) == 3", ""),
        ("dim(x, 0) <= 2", "dim(x, 0) == 3", "E0320"),
        ("dim(x, 0) > 3", "dim(x, 0) == 3", "E0320"),
        ("dim(x, 0) > 3", "dim(x, 0) == 4", ""),
        ("dim(x, 0) >= 3", "dim(x, 0) == 3", ""),
        ("dim(x, 0) >= 4", "dim(x, 0) == 3", "E0320"),
        ("3 < dim(x, 0)", "dim(x, 0) == 3", "E0320"),
        ("3 >= dim(x, 0)", "dim(x, 0) == 4", "E0320"),
        ("3 <= dim(x, 0)", "dim(x, 0) == 2", "E0320"),
        ("3 > dim(x, 0)", "dim(x, 0) == 3", "E0320"),
        ("3 != dim(x, 0)", "dim(x, 0) == 3", "E0320"),
        ("dim(x, 0) < dim(w, 0)", "dim(w, 0) == 3 and dim(x, 0) == 3", "E0320"),
        ("dim(x, 0) < dim(w, 0)", "dim(x, 0) == 3 and dim(w, 0) == 3", "E0320"),
        ("5 - dim(x, 0) == 1", "dim(x, 0) == 4", "W0330"),
        ("5 - dim(x, 0) == 1", "dim(x, 0) == 3", "E0320"),
        ("2 + dim(x, 0) == 5", "dim(x, 0) == 4", "E0320"),
        ("2 + dim(x, 0) == 5", "dim(x, 0) % 4 == 0", "E0320"),
        ("2 * dim(x, 0) == 6", "dim(x, 0) % 4 == 0", "E0320"),
        ("2 * dim(x, 0) == 6", "dim(x, 0) == 4", "E0320"),
        ("8 / dim(x, 0) == 2", "dim(x, 0) == 4", ""),
        ("9 % dim(x, 0) == 1", "dim(x, 0) == 4", ""),
        ("dim(x, 0) / 2 == 2", "dim(x, 0) == 6", "E0320"),
        ("dim(x, 0) / 2 == 2", "dim(x, 0) == 5", ""),
        ("dim(x, 0) - 2 == 2", "dim(x, 0) == 6", "E0320"),
        ("dim(x, 0) + dim(x, 1) < 5", "dim(x, 0) == 6", "E0320"),
        ("dim(x, 0) + dim(x, 1) < 5", "dim(x, 0) == 4", "W0319"),
        ("(dim(x, 0) + 1) * 2 == 6", "dim(x, 0) == 3", "E0320"),
        ("uses(x) * uses(x) < uses(w) * uses(w)", "uses(x) == 3 and uses(w) == 1", "E0320"),
        ("(dim(x, 0) + 1) * 2 == 6", "dim(x, 0) == 2", "W0330"),
    ],
)
def test_what_two_conditions_say_together(first: str, second: str, codes: str) -> None:
    wheres = f"where {first}; where {second};"
    text = f"collage 1; pattern p(x, w) {{ y = matmul(x, w); {wheres} yield y; }}"

    assert [found.code for found in check(Source("t", text))] == codes.split()


@pytest.mark.parametrize(
    ("square", "found"),
    [
        (one_of((7,)), []),
        (one_of((9,)), [3]),
        (between(2, 16), [2, 3, 4]),
        (between(-5, 1), [0, 1]),
        (between(-inf, -1), []),
        (between(26, inf), [6, 7, 8]),
    ],
)
def test_roots_are_the_numbers_with_such_a_square(square: Values, found: list[int]) -> None:
    assert [number for number in range(9) if number in roots(square, 2)] == found


@pytest.mark.parametrize("exponent", [2, 3, 4, 7])
def test_a_root_is_that_of_its_power_only(exponent: int) -> None:
    for root in (1, 2, 3, 10, 12345, 10**20):
        power = root**exponent

        assert roots(one_of((power,)), exponent).bounds() == (root, root)
        assert roots(one_of((power - 1,)), exponent).is_empty == (power > 1)
        assert roots(one_of((power + 1,)), exponent).is_empty
