"""What the checker takes operators to say is true of what TVM accepts, and of all that matches."""

import importlib
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from collage_dsl.graph import Graph, Node, Toolchain
from collage_dsl.graph.operators import Operator, relax_operators
from collage_dsl.graph.types import short_dtype
from collage_dsl.language import check, to_text
from collage_dsl.language.reasoning.claims.relations import claims
from collage_dsl.language.reasoning.claims.required_calls import required_calls
from collage_dsl.language.reasoning.conclusions.premises import ALL_RELATIONS
from collage_dsl.language.reasoning.findings.sorts_of_values import Sorts
from collage_dsl.language.reasoning.findings.value_sorts import Shape, Tensor, Tuple
from collage_dsl.language.reasoning.operators.attribute_ranges import ranges
from collage_dsl.language.reasoning.patterns.pattern_shape import called, references
from collage_dsl.language.reasoning.values.assuming import assume
from collage_dsl.language.reasoning.values.domain import COUNT
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules import DFPattern, FusionSpec, Limits
from collage_dsl.rules.backtracking import Backtracking
from collage_dsl.rules.condition import (
    Attr,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Expression,
    Given,
    Rank,
    Size,
    Uses,
    Where,
)
from collage_dsl.rules.condition import Shape as ShapeOf
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.observer import NO_OBSERVER
from collage_dsl.rules.partial import Match
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    FieldOf,
    Operand,
    Parameter,
    Pattern,
    Reference,
    TupleOf,
)
from collage_dsl.rules.predicate import no_host_code
from collage_dsl.source import Source
from tests.cases import cases, sample
from tests.random_relax import random_pattern, relax_graph

SCRIPTS = Path(__file__).parents[1] / "scripts"

# TVM.


class Calls:
    """Random calls that differ a little from the sample call of an operator."""

    def __init__(self, operator: Operator, generator: random.Random) -> None:
        sys.path.insert(0, str(SCRIPTS))
        self.table = importlib.import_module("operator_table")
        self.types = importlib.import_module("operator_types")
        self.relax = importlib.import_module("tvm.relax")
        self.operator = operator
        self.generator = generator
        samples = [self.table.samples()[operator.name]()]
        self.samples = samples + self.table.other_samples().get(operator.name, [])

    def draw(self) -> Any:
        """A call, which TVM may refuse; None if it cannot even be written."""
        sample = self.generator.choice(self.samples)
        asked = self.generator.sample(
            sorted(self.operator.attrs), self.generator.randint(0, min(3, len(self.operator.attrs)))
        )
        changed = {name: self.attribute(name) for name in asked}
        changed = {name: value for name, value in changed.items() if value is not None}
        try:
            call = self.table.remade(self.operator.name, sample, **changed)
        except Exception:  # constructors refuse with errors of all sorts
            return None
        leading = self.generator.choice(((), (), (2,), (1,), (3, 2)))
        dtype = self.generator.choice((None, None, "float16", "int8", "bool", "int64"))
        operands = [self.operand(each, leading, dtype) for each in call.args]
        return self.relax.Call(call.op, operands, call.attrs)

    def attribute(self, name: str) -> Any:
        match self.operator.attrs[name]:
            case "int" | "int|ints":
                return self.generator.randint(-3, 4)
            case "ints":
                usual = self.operator.defaults.get(name)
                length = len(usual) if isinstance(usual, tuple) and usual else None
                length = length or self.generator.randint(0, 4)
                return [self.generator.randint(-2, 3) for _ in range(length)]
            case "bool":
                return self.generator.random() < 0.5
            case "dtype":
                return self.generator.choice(self.types.DTYPES)
            case "str":
                known = self.operator.values.get(name)
                return self.generator.choice(known) if known else None
        return None

    def operand(self, operand: Any, leading: Sequence[int], dtype: str | None) -> Any:
        type_ = operand.ty
        if isinstance(type_, self.relax.TupleType) and self.types.dtypes_of(type_):
            fields = [self.relax.Var("x", field) for field in type_.fields]
            return self.relax.Tuple([self.operand(field, leading, dtype) for field in fields])
        if not isinstance(type_, self.relax.TensorType) or type_.shape is None:
            return operand
        shape = [*leading, *(int(dim) for dim in type_.shape)]
        if self.generator.random() < 0.2 and shape:
            at = self.generator.randrange(len(shape))
            shape[at : at + 1] = self.generator.choice(([], [1], [2], [4], [8], [1, shape[at]]))
        if self.generator.random() < 0.1:
            dtype = self.generator.choice(self.types.DTYPES)
        return self.relax.Var("x", self.relax.TensorType(shape, dtype or type_.dtype))


@pytest.mark.engine
@pytest.mark.parametrize("name", sample(2, [n for n, op in relax_operators().items() if op.takes]))
def test_what_tvm_accepts_is_never_excluded(name: str, request: pytest.FixtureRequest) -> None:
    operator = relax_operators()[name]
    calls = Calls(operator, random.Random(name))
    tried = 15 * (request.config.getoption("--cases") or 1)
    for _ in range(tried):
        call = calls.draw()
        type_ = None if call is None else calls.types.accepted(call)
        if type_ is None or "-" in str(type_) or _has_no_window(call, calls, type_):
            continue  # TVM does not refuse all negative dimensions
        if _has_no_code(call, calls):
            continue
        facts = list(_facts(call, type_, calls))
        pattern = _pattern(operator.name, call, type_, calls)
        assert _may_be(type_, pattern, calls), (call, type_)
        assert _excluded(pattern, facts) is None, (call, type_)


def _has_no_window(call: Any, calls: Calls, type_: Any) -> bool:
    """Whether a window has no size, moves by nothing, or does not fit, which TVM may accept."""
    known = ranges((calls.operator.name,))
    slid = [name.removesuffix("[*]") for name, values in known.items() if values == COUNT]
    given = [_value(getattr(call.attrs, name)) for name in slid]
    lists = [each if isinstance(each, tuple) else (each,) for each in given if each is not None]
    sizes = [size for each in lists for size in each]
    return bool(slid) and (min(sizes, default=1) < 1 or bool(re.search(r"\b0[,)]", str(type_))))


def _has_no_code(call: Any, calls: Calls) -> bool:
    """Whether TVM infers a type of the call, but has no code for its axis or its dtypes."""
    name, rank = calls.operator.name, getattr(call.args[0].ty, "ndim", 0)
    axes = [getattr(call.attrs, axis) for op, axis in calls.table.AXES if op == name]
    if any(axis is not None and not -rank <= axis < rank for axis in axes):
        return True
    computed = calls.table.COMPUTED.get(name)
    return computed is not None and any(
        short_dtype(str(operand.ty.dtype)) not in computed for operand in call.args
    )


@pytest.mark.engine
@pytest.mark.parametrize("name", [n for n in relax_operators() if n.startswith("bitwise")])
def test_tvm_has_code_for_exactly_the_dtypes_of_the_table(name: str) -> None:
    calls = Calls(relax_operators()[name], random.Random(name))
    arguments, _ = calls.samples[0]
    sample = calls.table.constructor(name)(*arguments)
    places = range(len(arguments))

    for dtype in calls.types.DTYPES:
        call = calls.types.with_dtype(sample, places, dtype)
        has_code = calls.table.kind(call.args, call) != "opaque"
        assert has_code == (short_dtype(dtype) in calls.table.COMPUTED[name]), dtype


def _pattern(name: str, call: Any, type_: Any, calls: Calls) -> Pattern:
    """The call of a pattern that matches `call`, and projections of all its results."""
    operands = tuple(_operand(operand, f"x{at}", calls) for at, operand in enumerate(call.args))
    asked = tuple(
        Where(Compare("==", Attr(attribute), Constant(value)))
        for attribute in calls.operator.attrs
        if (value := _value(getattr(call.attrs, attribute))) is not None
    )
    bindings = [Binding("y", Call((name,), operands, asked))]
    if isinstance(type_, calls.relax.TupleType):
        fields = enumerate(type_.fields)
        bindings += [Binding(f"y{at}", FieldOf(Reference("y"), at)) for at, _ in fields]
    names = frozenset().union(*map(references, operands))
    return Pattern("p", tuple(map(Parameter, sorted(names))), tuple(bindings), "y")


def _operand(operand: Any, name: str, calls: Calls) -> Operand:
    if isinstance(operand.ty, calls.relax.TensorType):
        return Reference(name)
    if isinstance(operand.ty, calls.relax.TupleType) and calls.types.dtypes_of(operand.ty):
        fields = enumerate(operand.ty.fields)
        return TupleOf(tuple(Reference(f"{name}_{at}") for at, _ in fields))
    return Anything()


def _value(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, str):
        return short_dtype(str(value))
    if hasattr(value, "value"):
        return value.value
    return tuple(map(_value, value)) if hasattr(value, "__iter__") else short_dtype(str(value))


def _facts(call: Any, type_: Any, calls: Calls) -> Iterator[Expression]:
    named = [(f"x{at}", operand.ty) for at, operand in enumerate(call.args)]
    named.append(("y", type_))
    for name, each in named:
        if isinstance(each, calls.relax.TensorType):
            yield from _facts_of(name, each)
        elif isinstance(each, calls.relax.TupleType) and calls.types.dtypes_of(each):
            separator = "" if name == "y" else "_"
            for at, field in enumerate(each.fields):
                yield from _facts_of(f"{name}{separator}{at}", field)


def _facts_of(name: str, type_: Any) -> Iterator[Expression]:
    yield Compare("==", Dtype(name), Constant(short_dtype(str(type_.dtype))))
    if type_.shape is not None and hasattr(type_.shape, "values"):
        dims = tuple(_value(dim) for dim in type_.shape)
        if all(isinstance(dim, int) for dim in dims):
            yield Compare("==", ShapeOf(name), Constant(dims))
    elif type_.ndim >= 0:
        yield Compare("==", Rank(name), Constant(type_.ndim))


def _may_be(type_: Any, pattern: Pattern, calls: Calls) -> bool:
    """Whether the value of the call may be what TVM gives."""
    match Sorts.of_pattern(pattern, {}).names["y"]:
        case Tensor():
            return isinstance(type_, calls.relax.TensorType)
        case Tuple(fields):
            is_tuple = isinstance(type_, calls.relax.TupleType)
            if pattern.bindings[0].value.ops == ("split",):  # type: ignore[union-attr]
                return True  # one part is a tensor
            return is_tuple and (fields is None or len(fields) == len(type_.fields))
        case Shape():
            return isinstance(type_, calls.relax.ShapeType)
    return True


def _excluded(pattern: Pattern, facts: Sequence[Expression]) -> Expression | str | None:
    """A fact that the checker takes to be impossible together with those before it."""
    calls, names = required_calls(pattern, frozenset(b.name for b in pattern.bindings))
    said = [claim for each in calls for claim in claims(each, ALL_RELATIONS)]
    way = Facts({name: values for each in calls for name, values in each.attributes().items()})
    for claim in said:
        claim.once(way)
    asked = [
        Compare("==", calls[0].attribute(attr.name), constant)
        for where in calls[0].call.attributes
        for attr, constant in [(where.condition.left, where.condition.right)]  # type: ignore[union-attr]
        if isinstance(attr, Attr)
    ]
    for _ in range(2):
        for fact in (*asked, *(_renamed(fact, names.same) for fact in facts)):
            ways = assume([way], fact)
            for claim in said:
                if ways:
                    claim.again(way)
                if not way.possible:
                    return f"{fact}, {claim.says}"
            if not ways:
                return fact
    return None


def _renamed(fact: Expression, same: dict[str, str]) -> Expression:
    match fact:
        case Compare("==", (Dtype(of) | Rank(of) | ShapeOf(of)) as left, right):
            return Compare("==", type(left)(same.get(of, of)), right)
    return fact


# What matches.


def conditions(generator: random.Random, names: Sequence[str]) -> Iterator[Expression]:
    """Conditions on the values called `names`, of which some hold."""
    comparisons = ("==", "!=", "<", ">=")
    for _ in range(60):
        one, other = generator.choice(names), generator.choice(names)
        axes = generator.randint(-2, 1), generator.randint(-2, 1)
        left, right = generator.choice(
            [
                (Rank(one), Rank(other)),
                (Rank(one), Constant(generator.randint(0, 3))),
                (DimAt(one, axes[0]), DimAt(other, axes[1])),
                (DimAt(one, axes[0]), Constant(generator.choice((1, 2, 4, 8)))),
                (Size(one), Size(other)),
                (Size(one), Constant(generator.choice((4, 8, 16)))),
                (Uses(one), Constant(generator.randint(1, 3))),
            ]
        )
        yield Compare(generator.choice(comparisons), left, right)  # type: ignore[arg-type]
        equality: Any = generator.choice(comparisons[:2])
        yield Compare(equality, ShapeOf(one), ShapeOf(other))
        yield Compare(equality, Dtype(one), Dtype(other))


def first_match(pattern: Pattern, graph: Graph) -> Match | None:
    way = Backtracking(pattern, graph, no_host_code)
    return next((m for root in range(len(graph)) for m in way.run(root, NO_OBSERVER)), None)


class World:
    """What conditions ask about a graph."""

    said = ""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def uses(self, node: Node) -> int:
        index = self.graph.index(node.name)
        return self.graph.users_of[index].bit_count() + (self.graph.results >> index & 1)

    def holds(self, *_: object) -> bool:
        return False


NEVER = {"E0302", "E0312", "E0313", "E0320"}


@cases(50)
@given(st.integers(0, 2**32))
def test_a_pattern_that_matches_is_never_said_not_to(seed: int) -> None:
    generator = random.Random(seed)
    graph = relax_graph(generator, generator.randint(3, 14))
    pattern = random_pattern(generator, graph)
    match = first_match(pattern, graph)
    event("matches" if match else "does not match")
    if match is None or len(set(called(pattern))) > 1:  # two patterns of one name have no text
        return
    bound = {name: graph.nodes[index] for name, index in match.bound.items()}
    holding = [
        condition
        for condition in conditions(generator, sorted(bound))
        if evaluate(condition, Given(bound, world=World(graph))) is True
    ]
    asked = tuple(Where(each) for each in generator.sample(holding, min(6, len(holding))))
    pattern = Pattern(
        pattern.name,
        pattern.parameters,
        pattern.bindings,
        pattern.result,
        (*pattern.conditions, *asked),
    )
    spec = FusionSpec(Toolchain("t", "llvm"), DFPattern(pattern), Limits())
    found = check(Source("t", to_text(spec)))

    assert not [str(each) for each in found if each.code in NEVER]
