"""Matching a pattern at a node of a graph, with backtracking."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import collage_dsl.rules.condition as conditions
from collage_dsl.graph import Form, Graph, Node, OpSet, members, opset
from collage_dsl.graph.operators import is_commutative
from collage_dsl.rules.condition import UNKNOWN, Where
from collage_dsl.rules.pattern import Anything, Call, Number, Operand, Parameter, Pattern, Reference
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Match:
    """The calls that a pattern covers, the constants it binds, and the node of each name."""

    inside: OpSet
    constants: OpSet
    bound: Mapping[str, int] = field(hash=False)


@dataclass(slots=True)
class Attempt:
    """The refusal that came after the most of a pattern had matched."""

    because: str = "the pattern matches nothing"
    span: Span | None = None
    progress: int = -1

    def refuse(self, progress: int, because: str, span: Span | None) -> None:
        if progress > self.progress:
            self.because, self.span, self.progress = because, span, progress


def matches(pattern: Pattern, graph: Graph, root: int, attempt: Attempt) -> tuple[Match, ...]:
    """
    The matches of `pattern` whose result is node `root`; where there are none, `attempt`
    holds the reason.

    Matches of the same nodes count as one: that which binds the most constants, and of
    those the one in which optional nodes are present and operands in the order written.
    """
    found: dict[OpSet, Match] = {}
    for match in _Matcher(pattern, graph, attempt).run(root):
        known = found.get(match.inside)
        if known is None or match.constants.bit_count() > known.constants.bit_count():
            found[match.inside] = match
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Partial:
    """What has matched so far."""

    inside: OpSet = 0
    bound: Mapping[str, int] = field(default_factory=dict)

    def binding(self, name: str, index: int) -> "_Partial":
        return _Partial(self.inside, {**self.bound, name: index})

    def covering(self, index: int) -> "_Partial":
        return _Partial(self.inside | 1 << index, self.bound)


class _Matcher:
    def __init__(self, pattern: Pattern, graph: Graph, attempt: Attempt) -> None:
        self.pattern = pattern
        self.graph = graph
        self.attempt = attempt
        self.values = {binding.name: binding.value for binding in pattern.bindings}

    def run(self, root: int) -> Iterator[Match]:
        for partial in self.operand(Reference(self.pattern.result), root, _Partial()):
            if partial.inside and self.holds(partial, root):
                yield Match(partial.inside, self.constants(partial), partial.bound)

    def operand(self, operand: Operand, index: int, so_far: _Partial) -> Iterator[_Partial]:
        match operand:
            case Anything():
                yield so_far
            case Number():
                if self.is_number(operand, self.graph.nodes[index], so_far):
                    yield so_far
            case Reference(name):
                yield from self.reference(name, index, so_far)
            case Call():
                yield from self.call(operand, index, so_far)
                if operand.optional:
                    yield from self.operand(operand.operands[0], index, so_far)
            case _:
                assert_never(operand)

    def reference(self, name: str, index: int, so_far: _Partial) -> Iterator[_Partial]:
        if name in so_far.bound:
            if so_far.bound[name] == index:
                yield so_far
            else:
                seen = self.graph.nodes[so_far.bound[name]].name
                here = self.graph.nodes[index].name
                self.refuse(so_far, f"`{name}` is `{seen}` already and cannot be `{here}` too")
            return
        parameter = self.pattern.parameter(name)
        if parameter is None:
            for partial in self.operand(self.values[name], index, so_far):
                yield partial.binding(name, index)
        elif self.accepts(parameter, index, so_far):
            yield so_far.binding(name, index)

    def accepts(self, parameter: Parameter, index: int, so_far: _Partial) -> bool:
        node = self.graph.nodes[index]
        if parameter.constant and node.form is not Form.CONSTANT:
            self.refuse(so_far, f"`{node.name}` is not a constant, as `{parameter.name}` must be")
            return False
        return True

    def call(self, call: Call, index: int, so_far: _Partial) -> Iterator[_Partial]:
        node = self.graph.nodes[index]
        if node.op not in call.ops or len(node.inputs) != len(call.operands):
            wanted = " | ".join(call.ops)
            self.refuse(so_far, f"`{node.name}` is {_what(node)}, not {wanted}", call.span)
            return
        covered = so_far.covering(index)
        if not self.attributes_hold(call, node, covered):
            return
        yield from self.operands(call.operands, node.inputs, covered)
        if len(node.inputs) == 2 and is_commutative(node.op):
            yield from self.operands(call.operands, node.inputs[::-1], covered)

    def operands(
        self, wanted: tuple[Operand, ...], given: tuple[int, ...], so_far: _Partial
    ) -> Iterator[_Partial]:
        if not wanted:
            yield so_far
            return
        for partial in self.operand(wanted[0], given[0], so_far):
            yield from self.operands(wanted[1:], given[1:], partial)

    def attributes_hold(self, call: Call, node: Node, so_far: _Partial) -> bool:
        return all(
            self.is_true(where, so_far, node, conditions.evaluate(where.condition, {}, node.attrs))
            for where in call.attributes
        )

    def holds(self, partial: _Partial, root: int) -> bool:
        """Whether the conditions hold and no inner value is used outside the match."""
        for index in members(partial.inside & ~(1 << root)):
            node = self.graph.nodes[index]
            if self.graph.users_of[index] & ~partial.inside or self.graph.results >> index & 1:
                self.refuse(partial, f"`{node.name}` is used outside the match too")
                return False
        missing = [p.name for p in self.pattern.parameters if not self.is_bound(p, partial)]
        if missing:
            self.refuse(partial, f"nothing was matched by `{missing[0]}`")
            return False
        bound = {name: self.graph.nodes[index] for name, index in partial.bound.items()}
        result = self.graph.nodes[root]
        return all(
            self.is_true(where, partial, result, conditions.evaluate(where.condition, bound))
            for where in self.pattern.conditions
        )

    def is_bound(self, parameter: Parameter, partial: _Partial) -> bool:
        return parameter.optional or parameter.name in partial.bound

    def is_true(self, where: Where, so_far: _Partial, node: Node, held: object) -> bool:
        if held is UNKNOWN:
            reason = where.reason or "the condition"
            self.refuse(so_far, f"{reason}: unknown at `{node.name}`", where.span)
        elif not held:
            written = where.span.text if where.span else "a condition"
            reason = where.reason or f"`{written}` does not hold"
            self.refuse(so_far, f"{reason} (at `{node.name}`)", where.span)
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

    def constants(self, partial: _Partial) -> OpSet:
        wanted = (p.name for p in self.pattern.parameters if p.constant)
        return opset(partial.bound[name] for name in wanted if name in partial.bound)

    def refuse(self, so_far: _Partial, because: str, span: Span | None = None) -> None:
        self.attempt.refuse(so_far.inside.bit_count(), because, span)


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


def _what(node: Node) -> str:
    return f"a call of {node.op}" if node.is_call else f"a {node.form.value}"
