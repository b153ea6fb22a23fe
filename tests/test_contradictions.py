"""What the checker concludes from conditions is true of every value."""

import importlib
import sys
from collections.abc import Iterator
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph import Form, Node, TensorType
from collage_dsl.graph.operators import operators, relax_operators
from collage_dsl.language import check
from collage_dsl.language.graphs.values import constant_values
from collage_dsl.language.reasoning.claims.relations import broadcasts, keeps_dtype, keeps_shape
from collage_dsl.language.reasoning.findings import choices
from collage_dsl.language.reasoning.patterns.written_out import written_out
from collage_dsl.language.reasoning.values.arithmetic import (
    calculated,
    divisors_leaving,
    leading_to,
    rounded_down,
    solved,
)
from collage_dsl.language.reasoning.values.assuming import OPPOSITE, assume
from collage_dsl.language.reasoning.values.domain import WHOLE, Values, between, divided_by, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import (
    All,
    And,
    Attr,
    Bytes,
    Calculate,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Element,
    Expression,
    Given,
    Has,
    Item,
    Max,
    Min,
    Near,
    Not,
    Or,
    Place,
    Range,
    Rank,
    Shape,
    Size,
    Uses,
    ValueOf,
    Within,
)
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.source import Source
from tests.cases import cases

small = st.integers(-3, 12)
fractions = st.sampled_from([-0.5, 0.5, 2.5])
ends = fractions | st.integers(-12, 12) | st.sampled_from([-inf, inf])
sets = (
    st.builds(between, ends, ends, whole=st.booleans())
    | st.builds(lambda n, r: divided_by(n, r % n), st.integers(1, 9), small)
    | st.lists(small | fractions, max_size=4).map(one_of)
    | st.lists(small, max_size=4).map(lambda values: Values(excluded=frozenset(values)))
)
"""Sets of numbers of all forms."""

NUMBERS = [half / 2 if half % 2 else half // 2 for half in range(-80, 81)]


@cases(100)
@given(sets, sets, sets)
def test_what_is_in_both_sets_is_what_they_have_in_common(a: Values, b: Values, c: Values) -> None:
    met = a.meet(b).meet(c)

    assert [n for n in NUMBERS if n in met] == [n for n in NUMBERS if n in a and n in b and n in c]
    if met.is_empty:
        assert not any(n in met for n in NUMBERS)
    if met.only() is not None:
        assert [n for n in NUMBERS if n in met] == [met.only()]


@cases(100)
@given(st.sampled_from("+-*/%"), sets, sets)
def test_calculating_keeps_all_results(operator: Any, a: Values, b: Values) -> None:
    found = calculated(operator, a, b)
    for x in (n for n in NUMBERS if abs(n) < 9 and n in a):
        for y in (n for n in NUMBERS if abs(n) < 9 and n in b):
            result = evaluate(Calculate(operator, Constant(x), Constant(y)), Given())
            assert not isinstance(result, int | float) or result in found


@cases(100)
@given(st.sampled_from("+-*/%"), sets, small)
def test_solving_keeps_all_that_lead_to_a_result(operator: Any, a: Values, constant: int) -> None:
    found = solved(operator, a, constant)
    for x in NUMBERS:
        result = evaluate(Calculate(operator, Constant(x), Constant(constant)), Given())
        assert not (isinstance(result, int | float) and result in a) or x in found


@cases(100)
@given(st.sampled_from("+-*/%"), sets, sets, small)
def test_few_numbers_are_those_that_lead_to_a_result(
    operator: Any, a: Values, inner: Values, constant: int
) -> None:
    found = leading_to(operator, inner, constant, a)
    for x in (n for n in NUMBERS if n in inner):
        result = evaluate(Calculate(operator, Constant(x), Constant(constant)), Given())
        assert not (isinstance(result, int | float) and result in a) or x in found


@cases(100)
@given(st.integers(0, 60), st.integers(0, 9))
def test_divisors_are_all_those_that_leave_a_rest(number: int, rest: int) -> None:
    found = divisors_leaving(number, rest)

    assert all((n in found) == (number % n == rest) for n in range(1, 80))


@cases(100)
@given(sets, small)
def test_rounding_down_keeps_all_results(a: Values, by: int) -> None:
    found = rounded_down(a, by)

    assert by == 0 or all(n - n % by in found for n in NUMBERS if n in a)


@cases(100)
@given(sets)
def test_whole_bounds_hold_all_whole_numbers(values: Values) -> None:
    least, most = values.whole_bounds()
    whole = [n for n in NUMBERS if isinstance(n, int) and n in values]

    assert all(least <= n <= most for n in whole)


# Conditions.

axis = Attr("0.axis")
names = st.sampled_from(["x", "z"])
numbers = st.recursive(
    (st.integers(-2, 9) | fractions).map(Constant)
    | st.builds(Rank, names)
    | st.builds(DimAt, names, st.integers(-3, 2))
    | st.builds(Size, names)
    | st.builds(Bytes, names)
    | st.builds(ValueOf, names)
    | st.builds(Min, names)
    | st.builds(Max, names)
    | st.just(Item(axis, 0))
    | st.just(axis),
    lambda inner: st.builds(Calculate, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
    max_leaves=3,
)
dtypes = st.sampled_from(["f32", "f16", "i8"])
OPERATORS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
written = small | fractions | st.just(0.1)
elements = st.builds(Element, names)
beside_elements = (
    numbers
    | elements
    | st.builds(Place, names, st.integers(-2, 1))
    | st.builds(Calculate, st.sampled_from(["+", "-", "*", "%"]), elements, small.map(Constant))
    | written.map(Constant)
)
of_elements: st.SearchStrategy[Expression] = st.recursive(
    st.builds(Compare, OPERATORS, elements, beside_elements)
    | st.builds(Near, elements, beside_elements)
    | st.builds(Within, elements, st.builds(Range, st.integers(-2, 3), st.integers(3, 9)))
    | st.builds(
        Within, elements, st.lists(written, min_size=1, max_size=3).map(tuple).map(Constant)
    ),
    lambda inner: (
        st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner)
    ),
    max_leaves=3,
)
shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
EQUALITIES = st.sampled_from(["==", "!="])
atoms = (
    st.builds(Compare, OPERATORS, numbers, numbers)
    | st.builds(Compare, EQUALITIES, st.builds(Dtype, names), dtypes.map(Constant))
    | st.builds(Compare, EQUALITIES, st.builds(Dtype, names), st.builds(Dtype, names))
    | st.builds(Compare, EQUALITIES, st.builds(Shape, names), shapes.map(Constant))
    | st.builds(Compare, EQUALITIES, st.builds(Shape, names), st.builds(Shape, names))
    | st.builds(Within, numbers, st.builds(Range, st.integers(-2, 3), st.integers(3, 9)))
    | st.builds(
        Within, numbers, st.builds(Constant, st.lists(small, min_size=1, max_size=3).map(tuple))
    )
    | st.builds(
        Within,
        st.builds(Dtype, names),
        st.builds(Constant, st.lists(dtypes, min_size=1, max_size=2).map(tuple)),
    )
    | st.builds(Has, names)
    | st.builds(Near, numbers, numbers)
    | st.builds(All, of_elements)
    | st.builds(Compare, EQUALITIES, st.just(axis), st.just(Constant(None)))
    | st.builds(
        Within,
        st.just(axis),
        st.lists(st.none() | small, min_size=1, max_size=3).map(tuple).map(Constant),
    )
    | st.builds(Constant, st.booleans())
)
conditions: st.SearchStrategy[Expression] = st.recursive(
    atoms,
    lambda inner: (
        st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner)
    ),
    max_leaves=5,
)
types = st.builds(
    TensorType,
    st.sampled_from(["float32", "float16", "int8"]),
    st.none() | st.lists(st.integers(0, 4) | st.sampled_from(["n", "?"]), max_size=3).map(tuple),
)


def constant(dtype: str, elements: list[float]) -> Node:
    type_ = TensorType(dtype, (len(elements),))
    value = constant_values(dtype, (len(elements),), elements)
    return Node("n", Form.CONSTANT, type_, value=value)


constants = st.builds(
    constant, st.sampled_from(["float32", "float16", "int8"]), st.lists(small, max_size=3)
) | st.builds(constant, st.sampled_from(["float32", "float16"]), st.lists(written, max_size=3))
bindings = st.dictionaries(
    names, st.builds(Node, st.just("n"), st.just(Form.INPUT), types) | constants, min_size=1
)


@cases(200)
@given(st.lists(conditions, min_size=1, max_size=4), bindings, st.none() | small)
def test_conditions_that_hold_for_some_values_do_not_exclude_each_other(
    said: list[Expression], bound: dict[str, Node], value_of_axis: int | None
) -> None:
    given = Given(bound, {axis.name: value_of_axis})
    held = [evaluate(condition, given) for condition in said]
    ways = [Facts({axis.name: WHOLE})]
    for condition, value in zip(said, held, strict=True):
        if isinstance(value, bool):
            ways = assume(ways, condition, holds=value)

    assert ways


# Chains of comparisons.

CHAINED = (Uses("a"), DimAt("b", 0), Attr("0.axis"))
LARGEST = 14
"""If differences of three numbers have a solution, they have one from 0 to this number."""

linked = st.sampled_from(CHAINED)
shifts = st.integers(-3, 3).map(Constant)
chains = st.lists(
    st.builds(
        Compare,
        OPERATORS,
        st.builds(Calculate, st.sampled_from(["+", "-"]), linked, shifts) | linked,
        linked | shifts,
    ),
    min_size=1,
    max_size=7,
)


def solutions(said: list[Compare]) -> Iterator[tuple[int, ...]]:
    """The values from 0 to LARGEST of CHAINED for which all of `said` hold."""
    tests = " and ".join(f"({_code(c.left)} {c.operator} {_code(c.right)})" for c in said)
    holds = eval(f"lambda a, b, c: {tests}")
    return (found for found in product(range(LARGEST + 1), repeat=3) if holds(*found))


def _code(expression: Expression) -> str:
    match expression:
        case Constant(value):
            return str(value)
        case Calculate(operator, left, right):
            return f"({_code(left)} {operator} {_code(right)})"
        case _:
            return "abc"[CHAINED.index(expression)]  # type: ignore[arg-type]


@cases(100)
@given(chains)
def test_a_chain_of_comparisons_excludes_itself_exactly_if_it_has_no_solution(
    said: list[Compare],
) -> None:
    """With `!=`, a chain may have no solution and nobody notices: each `!=` is tried alone."""
    ways = [Facts({"0.axis": between(0, inf, whole=True)})]
    for condition in said:
        ways = assume(ways, condition)

    has_solution = any(solutions(said))
    if not ways:
        assert not has_solution
    elif all(condition.operator != "!=" for condition in said):
        assert has_solution


@cases(100)
@given(chains, st.builds(Compare, OPERATORS, linked, linked))
def test_what_follows_from_a_chain_holds_in_each_solution(
    said: list[Compare], last: Compare
) -> None:
    ways = [Facts({"0.axis": between(0, inf, whole=True)})]
    for condition in said:
        ways = assume(ways, condition)

    if not assume(ways, last, holds=False):
        assert not any(solutions([*said, Compare(OPPOSITE[last.operator], last.left, last.right)]))


# What is known of operators is what TVM infers.

SCRIPTS = Path(__file__).parents[1] / "scripts"


def sample_types(name: str) -> tuple[list[Any], Any]:
    """The types of the operands and of the result of a sample call."""
    sys.path.insert(0, str(SCRIPTS))
    table = importlib.import_module("operator_table")
    relax = importlib.import_module("tvm.relax")
    operands, attributes = table.samples()[name]()
    builder = relax.BlockBuilder()
    parameters = list(dict.fromkeys(table.variables(operands)))
    with builder.function("main", parameters):
        with builder.dataflow():
            call = builder.normalize(table.constructor(name)(*operands, **attributes))
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return [argument.ty for argument in call.args], call.ty


@pytest.mark.engine
@pytest.mark.parametrize("name", [name for name in operators() if keeps_dtype(name)])
def test_an_operator_keeps_the_dtype_as_tvm_infers(name: str) -> None:
    operands, result = sample_types(name)

    assert result.dtype == operands[0].dtype
    if broadcasts(name):
        assert operands[1].dtype == operands[0].dtype


@pytest.mark.engine
@pytest.mark.parametrize("name", [name for name in relax_operators() if keeps_shape(name)])
def test_an_operator_keeps_the_shape_as_tvm_infers(name: str) -> None:
    operands, result = sample_types(name)

    assert list(result.shape) == list(operands[0].shape)


@pytest.mark.engine
@pytest.mark.parametrize(
    "name", [name for name in relax_operators() if broadcasts(name) and name != "where"]
)
def test_an_operator_broadcasts_as_tvm_infers(name: str) -> None:
    operands, result = sample_types(name)

    assert [operand.ndim for operand in operands] == [2, 1]
    assert result.ndim == 2


def test_alternatives_beside_each_other_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 40
    lines = [f"e{at} = (nn.relu(x) | exp(tanh(x)));" for at in range(count)]
    lines += [f"s{at} = add(s{at - 1}, e{at});" for at in range(1, count)]
    lines[count:count] = ["s0 = nn.relu(e0);"]
    text = f"collage 1; pattern p(x) {{ {' '.join(lines)} yield s{count - 1}; }}"
    written = 0

    def counted(*given: Any) -> Any:
        nonlocal written
        written += 1
        return written_out(*given)

    monkeypatch.setattr(choices, "written_out", counted)
    check(Source("many.collage", text))
    assert 0 < written <= 5 * count
