"""
TVM's pattern matcher as an oracle for ours: patterns as Relax's own `DFPattern`, graphs as Relax.

A `DFPattern` has no way back: the first alternative of an `OrPattern` that matches by itself is
kept, whatever comes after. So a pattern is not written as one with choices inside. It is written
out into *readings*, one for each way to choose an alternative, an optional node, a length of a
chain and an order of operands; a reading has no choices left, and TVM says all there is to say
about it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product
from typing import Any, assert_never

import numpy as np
from tvm.relax import dpl

from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import Form, Graph, TensorType, members
from collage_dsl.graph.operators import is_commutative, operators
from collage_dsl.graph.types import long_dtype
from collage_dsl.rules.condition import Attr, Compare, Constant, Dtype, Where, Within
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Parameter,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
)

Insides = set[frozenset[str]]
"""The names of the nodes that each match covers."""

COMMUTATIVE_IN_TVM = frozenset({"add", "multiply"})
"""TVM matches the operands of these in either order, and cannot be told not to."""


# What both can say.


def sayable(pattern: Pattern) -> Pattern:
    """
    `pattern` less what no `DFPattern` can say, to be given to both matchers.

    Left out are conditions other than on a dtype or the value of an attribute, and the order
    of additions and multiplications; a number is any value. Values may be used outside, as
    TVM does not ask.
    """
    return replace(
        pattern,
        bindings=tuple(Binding(b.name, _sayable(b.value)) for b in pattern.bindings),
        conditions=tuple(w for w in pattern.conditions if _dtypes(w) is not None),
        taps=True,
    )


def is_sayable(pattern: Pattern) -> bool:
    """False where there are several results: TVM has `used_by`, which `DFPattern` is no part of."""
    return not pattern.others


def _sayable(operand: Operand) -> Operand:
    match operand:
        case Anything() | Reference():
            return operand
        case Number() | ListOf() | Flat():  # TVM has no words for them
            return Anything()
        case Call():
            said = tuple(w for w in operand.attributes if _attribute(w) is not None)
            return replace(
                operand,
                operands=tuple(map(_sayable, operand.operands)),
                attributes=said,
                ordered=operand.ordered and not COMMUTATIVE_IN_TVM & set(operand.ops),
            )
        case PatternCall():
            operands = tuple(map(_sayable, operand.operands))
            return replace(operand, pattern=sayable(operand.pattern), operands=operands)
        case TupleOf(fields):
            return TupleOf(tuple(map(_sayable, fields)))
        case FieldOf(of, index):
            return FieldOf(_sayable(of), index)
        case Repeat(call, least, most):
            repeated = _sayable(call)
            assert isinstance(repeated, Call | PatternCall)
            return Repeat(repeated, least, most)
        case Either(choices):
            return Either(tuple(map(_sayable, choices)))
        case _:
            assert_never(operand)


def _dtypes(where: Where) -> tuple[str, tuple[str, ...]] | None:
    """`dtype(x) == f32`, `dtype(x) in [f32, f16]`: the name, and TVM's names of the dtypes."""
    match where.condition:
        case Compare("==", Dtype(name), Constant(str(dtype))):
            dtypes: tuple[object, ...] = (dtype,)
        case Within(Dtype(name), Constant(tuple(dtypes))):
            pass
        case _:
            return None
    return name, tuple(long_dtype(str(each)) or str(each) for each in dtypes)


def _attribute(where: Where) -> tuple[str, tuple[Any, ...]] | None:
    """`axis == -1`, `axis in [0, 1]`: the name, and the values."""
    match where.condition:
        case Compare("==", Attr(name), Constant(value)):
            return name, (value,)
        case Within(Attr(name), Constant(tuple(values))):
            return name, values
        case _:
            return None


# Readings.


@dataclass(frozen=True, slots=True)
class Reading:
    """A `DFPattern` without choices; `covering` are the parts that calls and tuples match."""

    pattern: Any
    covering: tuple[Any, ...]


def readings(pattern: Pattern) -> Iterator[Reading]:
    """The readings of a pattern that both can say, in the order in which ours tries them."""
    for written, so_far in _result(_Frame(pattern), _SoFar()):
        yield Reading(written, so_far.covering)


def as_one(readings: list[Reading]) -> Any:
    """One `DFPattern` for all: the choice is at its root, where going back is not needed."""
    return reduce(lambda left, right: left | right, (reading.pattern for reading in readings))


@dataclass(frozen=True, slots=True)
class _SoFar:
    """The `DFPattern` of each name, with the prefix of its frame."""

    named: Mapping[str, Any] = field(default_factory=dict)
    covering: tuple[Any, ...] = ()
    frames: int = 0

    def naming(self, name: str, pattern: Any) -> "_SoFar":
        return replace(self, named={**self.named, name: pattern})

    def covered(self, pattern: Any) -> "_SoFar":
        return replace(self, covering=(*self.covering, pattern))


@dataclass(frozen=True, slots=True)
class _Frame:
    pattern: Pattern
    prefix: str = ""
    operands: Mapping[str, Operand] = field(default_factory=dict)
    caller: "_Frame | None" = None
    dtypes: Mapping[str, str] = field(default_factory=dict)


_Found = Iterator[tuple[Any, _SoFar]]


def _result(frame: _Frame, so_far: _SoFar) -> _Found:
    """Every reading in which what must be matched is, for every choice of dtypes."""
    pattern = frame.pattern
    asked = [found for where in pattern.conditions if (found := _dtypes(where))]
    names = [name for name, _ in asked]
    assert len(set(names)) == len(names), "one condition on the dtype of a name"
    needed = {p.name for p in pattern.parameters if not p.optional} | set(names)
    for dtypes in product(*(dtypes for _, dtypes in asked)):
        chosen = replace(frame, dtypes=dict(zip(names, dtypes, strict=True)))
        for written, found in _reference(chosen, pattern.result, so_far):
            if all(frame.prefix + name in found.named for name in needed):
                yield written, found


def _reference(frame: _Frame, name: str, so_far: _SoFar) -> _Found:
    key = frame.prefix + name
    if key in so_far.named:
        yield so_far.named[key], so_far
        return
    parameter = frame.pattern.parameter(name)
    if parameter is None:
        values = {binding.name: binding.value for binding in frame.pattern.bindings}
        found = _operand(frame, values[name], so_far)
    else:
        found = _parameter(frame, parameter, so_far)
    for written, after in found:
        if name in frame.dtypes:
            written = written.has_dtype(frame.dtypes[name])
        yield written, after.naming(key, written)


def _parameter(frame: _Frame, parameter: Parameter, so_far: _SoFar) -> _Found:
    if frame.caller is None:
        yield dpl.is_const() if parameter.constant else dpl.wildcard(), so_far
        return
    for written, after in _operand(frame.caller, frame.operands[parameter.name], so_far):
        yield (dpl.is_const() & written if parameter.constant else written), after


def _operand(frame: _Frame, operand: Operand, so_far: _SoFar) -> _Found:
    match operand:
        case Anything():
            yield dpl.wildcard(), so_far
        case Reference(name):
            yield from _reference(frame, name, so_far)
        case Call():
            yield from _call(frame, operand, so_far)
            if operand.optional:
                yield from _operand(frame, operand.operands[0], so_far)
        case PatternCall():
            yield from _inner(frame, operand, so_far)
            if operand.optional:
                yield from _operand(frame, operand.operands[0], so_far)
        case TupleOf(fields):
            for written, after in _operands(frame, fields, so_far):
                made = dpl.is_tuple(written)
                yield made, after.covered(made)
        case FieldOf(of, index):
            for written, after in _operand(frame, of, so_far):
                made = dpl.is_tuple_get_item(written, index)
                yield made, after.covered(made)
        case Repeat(call, least, most):
            for length in range(most, least - 1, -1):
                yield from _operand(frame, _chain(call, length), so_far)
        case Either(choices):
            for choice in choices:
                yield from _operand(frame, choice, so_far)
        case Number() | ListOf() | Flat():
            raise ValueError("it is not sayable")
        case _:
            assert_never(operand)


def _chain(call: Call | PatternCall, length: int) -> Operand:
    chain = call.operands[0]
    for _ in range(length):
        chain = replace(call, operands=(chain, *call.operands[1:]))
    return chain


def _call(frame: _Frame, call: Call, so_far: _SoFar) -> _Found:
    asked = [found for where in call.attributes if (found := _attribute(where))]
    for op, (operands, after) in product(call.ops, list(_operands(frame, call.operands, so_far))):
        if any(name not in operators()[op].attrs for name, _ in asked):
            continue  # TVM raises where an operator has no such attribute
        swaps = len(operands) == 2 and is_commutative(op) and not call.ordered
        for order in (operands, operands[::-1]) if swaps else (operands,):
            for values in product(*(values for _, values in asked)):
                made = dpl.is_op(f"relax.{op}")(*order, add_constraint=False)
                attributes = {name: v for (name, _), v in zip(asked, values, strict=True)}
                yield made.has_attr(attributes) if attributes else made, after.covered(made)


def _operands(
    frame: _Frame, operands: tuple[Operand, ...], so_far: _SoFar
) -> Iterator[tuple[list[Any], _SoFar]]:
    if not operands:
        yield [], so_far
        return
    for first, after in _operand(frame, operands[0], so_far):
        for rest, last in _operands(frame, operands[1:], after):
            yield [first, *rest], last


def _inner(frame: _Frame, call: PatternCall, so_far: _SoFar) -> _Found:
    number = so_far.frames + 1
    names = [parameter.name for parameter in call.pattern.parameters]
    operands = dict(zip(names, call.operands, strict=True))
    callee = _Frame(call.pattern, f"{number}.", operands, frame)
    yield from _result(callee, replace(so_far, frames=number))


# Graphs.


class RelaxGraph:
    """A graph as a Relax function, with the expression of each node and back."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.module = to_relax(with_values(graph))
        function = self.module[graph.name]
        self.bound = {
            binding.var: binding.value
            for block in function.body.blocks
            for binding in block.bindings
        }
        by_name = {var.name: var for var in self.bound}
        self.exprs: dict[str, Any] = {}
        for index in reversed(list(members(graph.computed))):
            name = graph.nodes[index].name
            self.exprs[name] = by_name[name] if name in by_name else self.written_in_its_user(index)
        self.names: dict[Any, str] = {}
        for name, expr in self.exprs.items():
            self.names |= {expr: name, self.bound.get(expr, expr): name}

    def written_in_its_user(self, index: int) -> Any:
        """The expression of a tuple that is not bound to a variable."""
        (user,) = members(self.graph.users_of[index])
        place = self.graph.nodes[user].inputs.index(index)
        return self.bound[self.exprs[self.graph.nodes[user].name]].args[place]

    def covered(self, reading: Reading, root: str) -> frozenset[str] | None:
        """What TVM says that the reading covers; None where it does not match at `root`."""
        found = reading.pattern.extract_matched_expr(self.exprs[root], self.bound)
        if found is None:
            return None
        return frozenset(self.names[found[part]] for part in reading.covering)


def with_values(graph: Graph) -> Graph:
    """`graph` with ones for the constants whose values are not known."""
    nodes = [
        replace(node, value=np.ones(node.tensor.static_shape, node.tensor.dtype))
        if node.form is Form.CONSTANT and node.value is None and isinstance(node.type, TensorType)
        else node
        for node in graph.nodes
    ]
    return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)


# The comparison.


def ours(pattern: Pattern, graph: Graph, root: int) -> Insides:
    found = matches(pattern, graph, root, Attempt())
    return {graph.names(match.inside) for match in found}


def check_agreement(pattern: Pattern, given: RelaxGraph) -> int:
    """Compare the matches at every node; how many there were."""
    pattern = sayable(pattern)
    # One that covers nothing is no match to us: it would be a kernel of no operator.
    written = [reading for reading in readings(pattern) if reading.covering]
    one = as_one(written) if written else None
    count = 0
    for index in members(given.graph.computed):
        root = given.graph.nodes[index].name
        expected = {c for reading in written if (c := given.covered(reading, root)) is not None}
        found = ours(pattern, given.graph, index)
        assert found == expected, (
            f"at `{root}` TVM covers {_shown(expected)}, we cover {_shown(found)}: {pattern}"
        )
        if found and one is not None:
            assert one.match(given.exprs[root], given.bound), f"as one, not at `{root}`: {pattern}"
        count += len(found)
    return count


def _shown(insides: Insides) -> list[list[str]]:
    return sorted(sorted(inside) for inside in insides)
