"""Matching a pattern at a node of a graph, with backtracking."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, assert_never

import collage_dsl.rules.condition as conditions
from collage_dsl.graph import Form, Graph, Node, OpSet, members, opset
from collage_dsl.graph.operators import is_commutative
from collage_dsl.rules.condition import UNKNOWN, Given, Where
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    FieldOf,
    Number,
    Operand,
    Parameter,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
)
from collage_dsl.rules.predicate import Lookup, Predicate, Question, no_host_code
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Match:
    """
    The calls that a pattern covers, the constants it binds, and the node of each name. `anchor`
    is the node of the operator that the pattern says is its main one.
    """

    inside: OpSet
    constants: OpSet
    bound: Mapping[str, int] = field(hash=False)
    anchor: int | None = None


@dataclass(slots=True)
class Attempt:
    """The refusal that came after the most of a pattern had matched."""

    because: str = "the pattern matches nothing"
    span: Span | None = None
    progress: int = -1
    reason: str = ""
    """What the pattern itself says, where its condition has a text."""

    def refuse(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        if progress > self.progress:
            self.because, self.span, self.progress = because, span, progress
            self.reason = reason


def matches(
    pattern: Pattern, graph: Graph, root: int, attempt: Attempt, lookup: Lookup = no_host_code
) -> tuple[Match, ...]:
    """
    The matches of `pattern` whose result is node `root`; where there are none, `attempt`
    holds the reason. Raises PredicateError where `lookup` does for a predicate it asks.

    Matches of the same nodes count as one: that which binds the most constants, and of
    those the one in which optional nodes are present and operands in the order written.
    """
    return _distinct(_Matcher(pattern, graph, attempt, lookup).run(root))


def matches_everywhere(
    pattern: Pattern, graph: Graph, lookup: Lookup
) -> Iterator[tuple[int, tuple[Match, ...], Attempt]]:
    """What `matches` finds with each call, tuple and projection as the root, and its attempt."""
    matcher = _Matcher(pattern, graph, Attempt(), lookup)
    for root in members(graph.computed):
        matcher.attempt = Attempt()
        yield root, _distinct(matcher.run(root)), matcher.attempt


def _distinct(found: Iterator[Match]) -> tuple[Match, ...]:
    """Those with other nodes each, with the most constants bound."""
    best: dict[OpSet, Match] = {}
    for match in found:
        known = best.get(match.inside)
        if known is None or match.constants.bit_count() > known.constants.bit_count():
            best[match.inside] = match
    return tuple(best.values())


class _Partial(NamedTuple):
    """
    What has matched so far; `frames` counts the calls of patterns on the way.

    So many are made that they are no dataclass, which is made more slowly.
    """

    inside: OpSet = 0
    constants: OpSet = 0
    bound: Mapping[str, int] = MappingProxyType({})
    frames: int = 0
    shared: OpSet = 0
    """Of those inside, what may be used outside too."""
    pending: tuple[tuple[str, Where, int], ...] = ()
    """Conditions on attributes that wait for names to be bound: prefix, condition, node."""
    steps: int = 0
    """How many parts of the pattern are inside; two may be at one node."""

    def binding(self, name: str, index: int) -> "_Partial":
        bound = {**self.bound, name: index}
        return _Partial(
            self.inside,
            self.constants,
            bound,
            self.frames,
            self.shared,
            self.pending,
            self.steps,
        )

    def covering(self, index: int, *, shared: bool) -> "_Partial":
        return _Partial(
            self.inside | 1 << index,
            self.constants,
            self.bound,
            self.frames,
            self.shared | 1 << index if shared else self.shared,
            self.pending,
            self.steps + 1,
        )

    def holding(self, constant: int) -> "_Partial":
        return _Partial(
            self.inside,
            self.constants | 1 << constant,
            self.bound,
            self.frames,
            self.shared,
            self.pending,
            self.steps,
        )


@dataclass(frozen=True, slots=True)
class _Frame:
    """
    The pattern that names belong to. In a called pattern the parameters stand for `operands`
    of the caller, and bound names have a prefix that tells calls apart.
    """

    pattern: Pattern
    values: Mapping[str, Operand]
    parameters: Mapping[str, Parameter]
    prefix: str = ""
    operands: Mapping[str, Operand] = field(default_factory=dict)
    caller: "_Frame | None" = None


def _frame(pattern: Pattern) -> _Frame:
    values = {binding.name: binding.value for binding in pattern.bindings}
    return _Frame(pattern, values, {each.name: each for each in pattern.parameters})


class _Matcher:
    def __init__(self, pattern: Pattern, graph: Graph, attempt: Attempt, lookup: Lookup) -> None:
        self.pattern = pattern
        self.graph = graph
        self.attempt = attempt
        self.lookup = lookup
        self.outermost = _frame(pattern)

    def run(self, root: int) -> Iterator[Match]:
        for partial in self.result(self.outermost, root, _Partial()):
            if partial.inside and self.is_closed(partial, root):
                own = {name: i for name, i in partial.bound.items() if "." not in name}
                anchor = own.get(self.pattern.anchor)
                yield Match(partial.inside, partial.constants, own, anchor)

    def result(self, frame: _Frame, index: int, so_far: _Partial) -> Iterator[_Partial]:
        """The ways in which the pattern of `frame` matches at `index`, conditions and all."""
        pattern = frame.pattern
        for first in self.reference(frame, pattern.result, index, so_far):
            for partial in self.others(frame, pattern.others, first):
                if self.holds(frame, partial, index):
                    yield partial

    def others(self, frame: _Frame, names: tuple[str, ...], so_far: _Partial) -> Iterator[_Partial]:
        """
        The ways in which further results match. What they have in common with the first leads
        to them, so that each is below what is bound. Where one is an operator of its own, and
        not, say, an optional one that is missing, this is another than those inside.
        """
        if not names:
            yield so_far
            return
        bound = so_far.bound.get(frame.prefix + names[0])
        places = opset(so_far.bound.values()) if bound is None else 1 << bound
        for index in members(places) if bound is None else ():
            places |= self.graph.downstream_of[index]
        for index in members(places):
            for partial in self.reference(frame, names[0], index, so_far):
                if so_far.inside >> index & 1 and partial.steps > so_far.steps:
                    continue
                shared = partial._replace(shared=partial.shared | 1 << index)
                yield from self.others(frame, names[1:], shared)

    def operand(
        self, frame: _Frame, operand: Operand, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        match operand:
            case Reference():
                yield from self.reference(frame, operand.name, index, so_far)
            case Anything():
                yield so_far
            case Number():
                if self.is_number(operand, self.graph.nodes[index], so_far):
                    yield so_far
            case Call() | PatternCall():
                if isinstance(operand, Call):
                    yield from self.call(frame, operand, index, so_far)
                else:
                    yield from self.inner(frame, operand, index, so_far)
                if operand.optional:
                    yield from self.operand(frame, operand.operands[0], index, so_far)
            case TupleOf(fields):
                yield from self.tuple_of(frame, fields, index, so_far)
            case FieldOf():
                yield from self.field_of(frame, operand, index, so_far)
            case Repeat():
                yield from self.repeat(frame, operand, index, so_far)
            case Either(choices):
                for choice in choices:
                    yield from self.operand(frame, choice, index, so_far)
            case _:
                assert_never(operand)

    def tuple_of(
        self, frame: _Frame, fields: tuple[Operand, ...], index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        node = self.graph.nodes[index]
        if node.form is not Form.TUPLE or len(node.inputs) != len(fields):
            self.refuse(so_far, f"`{node.name}` is {_what(node)}, not a tuple of {len(fields)}")
            return
        covered = so_far.covering(index, shared=frame.pattern.taps)
        yield from self.operands(frame, fields, node.inputs, covered)

    def field_of(
        self, frame: _Frame, field_of: FieldOf, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        node = self.graph.nodes[index]
        if node.form is not Form.PROJECTION or node.value != field_of.index:
            self.refuse(so_far, f"`{node.name}` is {_what(node)}, not field {field_of.index}")
            return
        covered = so_far.covering(index, shared=frame.pattern.taps)
        yield from self.operand(frame, field_of.of, node.inputs[0], covered)

    def repeat(
        self, frame: _Frame, repeat: Repeat, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        """The longest chain first."""
        call, least, most = repeat.call, repeat.least, repeat.most
        if most > 0:
            rest = Repeat(call, max(least - 1, 0), most - 1)
            longer = replace(call, operands=(rest, *call.operands[1:]))
            yield from self.operand(frame, longer, index, so_far)
        if least == 0:
            yield from self.operand(frame, call.operands[0], index, so_far)

    def reference(
        self, frame: _Frame, name: str, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        key = frame.prefix + name
        if key in so_far.bound:
            if so_far.bound[key] == index:
                yield so_far
            else:
                seen = self.graph.nodes[so_far.bound[key]].name
                here = self.graph.nodes[index].name
                self.refuse(so_far, f"`{name}` is `{seen}` already and cannot be `{here}` too")
            return
        parameter = frame.parameters.get(name)
        if parameter is None:
            for partial in self.operand(frame, frame.values[name], index, so_far):
                yield partial.binding(key, index)
        elif self.accepts(parameter, index, so_far):
            held = so_far.holding(index) if parameter.constant else so_far
            if frame.caller is None:
                yield held.binding(key, index)
                return
            stands_for = frame.operands[name]
            for partial in self.operand(frame.caller, stands_for, index, held):
                yield partial.binding(key, index)

    def inner(
        self, frame: _Frame, call: PatternCall, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        """The match of a called pattern, with names of its own."""
        number = so_far.frames + 1
        names = (parameter.name for parameter in call.pattern.parameters)
        callee = replace(
            _frame(call.pattern),
            prefix=f"{number}.",
            operands=dict(zip(names, call.operands, strict=True)),
            caller=frame,
        )
        yield from self.result(callee, index, so_far._replace(frames=number))

    def accepts(self, parameter: Parameter, index: int, so_far: _Partial) -> bool:
        node = self.graph.nodes[index]
        if parameter.constant and node.form is not Form.CONSTANT:
            self.refuse(so_far, f"`{node.name}` is not a constant, as `{parameter.name}` must be")
            return False
        return True

    def call(self, frame: _Frame, call: Call, index: int, so_far: _Partial) -> Iterator[_Partial]:
        node = self.graph.nodes[index]
        if node.op not in call.ops or len(node.inputs) != len(call.operands):
            if self.is_told(so_far):
                self.refuse(so_far, f"`{node.name}` {_other_than(call, node)}", call.span)
            return
        covered = so_far.covering(index, shared=call.shared or frame.pattern.taps)
        if call.attributes:
            if not self.attributes_hold(call, node, covered):
                return
            waiting = [w for w in call.attributes if conditions.depends_on_facts(w.condition)]
            added = ((frame.prefix, where, index) for where in waiting)
            covered = covered._replace(pending=(*covered.pending, *added))
        yield from self.operands(frame, call.operands, node.inputs, covered)
        if len(node.inputs) == 2 and is_commutative(node.op) and not call.ordered:
            yield from self.operands(frame, call.operands, node.inputs[::-1], covered)

    def operands(
        self,
        frame: _Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        so_far: _Partial,
    ) -> Iterator[_Partial]:
        if not wanted:
            yield so_far
            return
        ways = self.operand(frame, wanted[0], given[0], so_far)
        if len(wanted) == 1:
            yield from ways
            return
        for partial in ways:
            yield from self.operands(frame, wanted[1:], given[1:], partial)

    def attributes_hold(self, call: Call, node: Node, so_far: _Partial) -> bool:
        return all(
            self.is_true(
                where, so_far, node, conditions.evaluate(where.condition, Given(attrs=node.attrs))
            )
            for where in call.attributes
            if not conditions.depends_on_facts(where.condition)
        )

    def is_closed(self, partial: _Partial, root: int) -> bool:
        """Whether no inner value is used outside the match."""
        for index in members(partial.inside & ~(1 << root | partial.shared)):
            node = self.graph.nodes[index]
            if self.graph.users_of[index] & ~partial.inside or self.graph.results >> index & 1:
                self.refuse(partial, f"`{node.name}` is used outside the match too")
                return False
        return True

    def holds(self, frame: _Frame, partial: _Partial, index: int) -> bool:
        """Whether the parameters of a pattern are matched, and its conditions hold."""
        pattern, start = frame.pattern, len(frame.prefix)
        for parameter in pattern.parameters:
            if not parameter.optional and frame.prefix + parameter.name not in partial.bound:
                self.refuse(partial, f"nothing was matched by `{parameter.name}`")
                return False
        if not pattern.conditions and not partial.pending:
            return True
        bound = {
            name[start:]: self.graph.nodes[i]
            for name, i in partial.bound.items()
            if name.startswith(frame.prefix)
        }
        world = _World(self.graph, self.lookup, partial.inside, index)
        for prefix, where, at in partial.pending:
            if prefix == frame.prefix:
                node = self.graph.nodes[at]
                if not self.asks(where, partial, node, Given(bound, node.attrs, world), world):
                    return False
        given = Given(bound, world=world)
        result = self.graph.nodes[index]
        return all(self.asks(where, partial, result, given, world) for where in pattern.conditions)

    def asks(
        self, where: Where, partial: _Partial, node: Node, given: Given, world: "_World"
    ) -> bool:
        world.said = ""  # what was said of a condition before this one, which held all the same
        held = conditions.evaluate(where.condition, given)
        return self.is_true(where, partial, node, held, world.said)

    def is_true(
        self, where: Where, so_far: _Partial, node: Node, held: object, said: str = ""
    ) -> bool:
        if held is UNKNOWN:
            reason = where.reason or "the condition"
            self.refuse(so_far, f"{reason}: unknown at `{node.name}`", where.span)
        elif not held:
            written = where.span.text if where.span else "a condition"
            reason = where.reason or said or f"`{written}` does not hold"
            self.refuse(so_far, f"{reason} (at `{node.name}`)", where.span, where.reason)
        return held is not UNKNOWN and bool(held)

    def is_number(self, number: Number, node: Node, so_far: _Partial) -> bool:
        if node.form is Form.CONSTANT and node.value is not None:
            values = node.value.ravel().tolist()  # type: ignore[attr-defined]
        elif node.form is Form.LITERAL and isinstance(node.value, int | float):
            values = [node.value]
        elif node.form is Form.CONSTANT:
            self.refuse(so_far, f"the value of `{node.name}` is not known")
            return False
        else:
            self.refuse(so_far, f"`{node.name}` is not a constant")
            return False
        wanted = rounded(number.value, getattr(node.type, "dtype", "float32"))
        allowed = number.tolerance * abs(number.value)
        if all(value == wanted or abs(value - number.value) <= allowed for value in values):
            return True
        self.refuse(so_far, f"`{node.name}` is not {number.value:g}")
        return False

    def is_told(self, so_far: _Partial) -> bool:
        """Whether a refusal now says more than those before, and is worth its text."""
        return so_far.inside.bit_count() > self.attempt.progress

    def refuse(
        self, so_far: _Partial, because: str, span: Span | None = None, reason: str = ""
    ) -> None:
        self.attempt.refuse(so_far.inside.bit_count(), because, span, reason)


class _World:
    """What conditions ask about a match beyond its nodes; `said` is the last refusal's text."""

    def __init__(self, graph: Graph, lookup: Lookup, inside: OpSet, root: int) -> None:
        self.graph = graph
        self.lookup = lookup
        self.inside = inside
        self.root = root
        self.said = ""

    def uses(self, node: Node) -> int:
        index = self.graph.index(node.name)
        return self.graph.users_of[index].bit_count() + (self.graph.results >> index & 1)

    def holds(self, predicate: Predicate, operands: tuple[Node | None, ...]) -> bool:
        indexes = (None if node is None else self.graph.index(node.name) for node in operands)
        asked = dict(zip(predicate.parameters, indexes, strict=True))
        self.said = self.lookup(predicate)(Question(self.graph, self.inside, self.root, asked))
        return not self.said


def rounded(value: float, dtype: str) -> float:
    """`value` as a constant of `dtype` holds it: 0.1 is 0.10000000149… as a float32."""
    try:
        match dtype:
            case "float16":
                return float(struct.unpack("<e", struct.pack("<e", value))[0])
            case "float32":
                return float(struct.unpack("<f", struct.pack("<f", value))[0])
            case "bfloat16":
                (bits,) = struct.unpack("<I", struct.pack("<f", value))
                bits += 0x7FFF + (bits >> 16 & 1)
                return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0])
            case _:
                return value
    except (OverflowError, struct.error):  # it is too large for the dtype
        return value


def _other_than(call: Call, node: Node) -> str:
    if node.op in call.ops:
        return f"has {len(node.inputs)} operands, not {len(call.operands)}"
    return f"is {_what(node)}, not {' | '.join(call.ops)}"


def _what(node: Node) -> str:
    if node.is_call:
        return f"a call of {node.op}"
    match node.form:
        case Form.TUPLE:
            return f"a tuple of {len(node.inputs)}"
        case Form.PROJECTION:
            return f"field {node.value} of a tuple"
        case Form.INPUT:
            return "an input"
        case form:
            return f"a {form.value}"
