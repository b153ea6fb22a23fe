"""Try all ways in which a pattern may match at a node of a graph, one after the other."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from collage_dsl.graph import Form, Graph, members, opset
from collage_dsl.graph.operators import is_commutative
from collage_dsl.rules.asking import Asking
from collage_dsl.rules.condition import depends_on_facts
from collage_dsl.rules.flattening import COMBINING, agree, flattened, is_tree, together
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.lists import are_equal_literals, list_refusal
from collage_dsl.rules.observer import NO_OBSERVER, Observer
from collage_dsl.rules.partial import Match, Partial, binding
from collage_dsl.rules.parts import asks_predicates
from collage_dsl.rules.paths import beginnings, obstacles
from collage_dsl.rules.pattern import (
    Anything,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.rules.predicate import Lookup
from collage_dsl.rules.refusals import (
    calls_of_others,
    counts,
    is_called,
    may_be,
    no_tree,
    number_refusal,
    other_number,
    other_than,
    refuse,
    what,
)
from collage_dsl.rules.sources import refusal


class TooManyStepsError(Exception):
    """An attempt to match a pattern took more steps than are allowed."""


class Backtracking:
    """
    Finds the ways in which a pattern matches, with backtracking.

    Each method gives the ways in which one part of the pattern matches after what matched
    `so_far`, and tells the `observer` of that part. If an observer returns itself for a smaller
    part, its `each` is not called for that part. So an observer that records little costs little.

    `steps` counts how often an operand of the pattern was tried at a node. One more than `most`
    raises TooManyStepsError.
    """

    def __init__(self, pattern: Pattern, graph: Graph, lookup: Lookup) -> None:
        self.graph = graph
        self.asking = Asking(graph, lookup)
        self.outermost = Frame.of(pattern)
        self.steps = 0
        self.most = sys.maxsize
        self.has_predicates: bool | None = None
        """Whether some condition asks a predicate; None until that matters."""
        self.longer: dict[int, Call | PatternCall] = {}
        """By the id of a `Repeat`, its call with the rest of the chain as the first operand."""

    def run(self, root: int, observer: Observer) -> Iterator[Match]:
        for partial in self.result(self.outermost, root, Partial(), observer):
            if partial.inside and self.is_closed(partial, root, observer):
                own = {name: i for name, i in partial.bound.items() if "." not in name}
                yield Match(
                    partial.inside, partial.constants, own, own.get(self.outermost.pattern.anchor)
                )

    def result(
        self, frame: Frame, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        """Match the pattern of `frame` at `index`, with its conditions."""
        inner = observer.pattern(frame.pattern)
        tried = self.results(frame, index, so_far, inner)
        return tried if inner is observer else inner.each(tried)

    def results(
        self, frame: Frame, index: int, so_far: Partial, observer: Observer
    ) -> Iterator[Partial]:
        first, others = frame.results[0], frame.results[1:]
        for partial in self.operand(frame, first, index, so_far, observer):
            for whole in overruling(self.others(frame, others, partial, observer), observer):
                if self.asking.holds(frame, whole, index, observer):
                    yield whole

    def others(
        self, frame: Frame, results: Sequence[Reference], so_far: Partial, observer: Observer
    ) -> Iterator[Partial]:
        """
        The ways in which the further results of a pattern match. A further result shares a value
        with the first, so it is searched among the nodes below those that are bound. If it
        covers an operator of its own, and is not an absent optional one, its node must not be
        inside the match already.
        """
        if not results:
            yield so_far
            return
        bound = so_far.bound.get(frame.prefix + results[0].name)
        places = opset(so_far.bound.values()) if bound is None else 1 << bound
        for index in members(places) if bound is None else ():
            places |= self.graph.downstream_of[index]
        for index in members(places):
            for partial in self.operand(frame, results[0], index, so_far, observer):
                if so_far.inside >> index & 1 and partial.steps > so_far.steps:
                    continue
                shared = partial._replace(shared=partial.shared | 1 << index)
                yield from self.others(frame, results[1:], shared, observer)

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.most:
            raise TooManyStepsError

    def operand(
        self, frame: Frame, operand: Operand, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        self.step()
        inner = observer.operand(operand, index, frame)
        tried: Iterable[Partial]
        match operand:
            case Reference():
                tried = self.reference(frame, operand.name, index, so_far, inner)
            case Call():
                if operand.optional:
                    tried = overruling(self.optional(frame, operand, index, so_far, inner), inner)
                else:
                    tried = self.call(frame, operand, index, so_far, inner)
            case Flat():
                tried = overruling(self.flat(frame, operand, index, so_far, inner), inner)
            case PatternCall():
                if operand.optional:
                    tried = overruling(self.optional(frame, operand, index, so_far, inner), inner)
                else:
                    tried = self.called(frame, operand, index, so_far, inner)
            case Anything():
                tried = (so_far,)
            case Number():
                why = number_refusal(operand, self.graph.nodes[index])
                tried = refuse(inner, so_far, why) if why else (so_far,)
            case ListOf():
                why = list_refusal(operand, self.graph.nodes[index])
                tried = refuse(inner, so_far, why) if why else (so_far,)
            case TupleOf(fields):
                tried = self.tuple_of(frame, fields, index, so_far, inner)
            case TupleOfEach():
                tried = self.tuple_of_each(frame, operand, index, so_far, inner)
            case FieldOf():
                tried = self.field_of(frame, operand, index, so_far, inner)
            case Repeat():
                tried = overruling(self.repeat(frame, operand, index, so_far, inner), inner)
            case PathFrom():
                tried = overruling(self.path_from(frame, operand, index, so_far, inner), inner)
            case Either(choices):
                tried = overruling(self.either(frame, choices, index, so_far, inner), inner)
            case _:
                assert_never(operand)
        return tried if inner is observer else inner.each(tried)

    def either(
        self,
        frame: Frame,
        choices: tuple[Operand, ...],
        index: int,
        so_far: Partial,
        observer: Observer,
    ) -> Iterator[Partial]:
        node = self.graph.nodes[index]
        calls = calls_of_others(choices, node) if observer.hears(so_far.size) else ()
        if calls:
            names = " | ".join(dict.fromkeys(name for call in calls for name in call.names))
            because = f"`{node.name}` is {what(node)}, not {names}"
            refuse(observer, so_far, because, calls[0].span)
            return
        for choice in choices:
            yield from self.operand(frame, choice, index, so_far, observer)

    def optional(
        self,
        frame: Frame,
        call: Call | PatternCall,
        index: int,
        so_far: Partial,
        observer: Observer,
    ) -> Iterator[Partial]:
        """
        First try the call, then its first operand in place of the call. A node that neither of
        them is should have been what is not optional.
        """
        before = observer.reached()
        if isinstance(call, Call):
            yield from self.call(frame, call, index, so_far, observer)
        else:
            yield from self.called(frame, call, index, so_far, observer)
        if before < so_far.size == observer.reached():
            observer.overruled(so_far.size)
        yield from self.operand(frame, call.operands[0], index, so_far, observer)

    def called(
        self, frame: Frame, call: PatternCall, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        """Match a called pattern, which has its own names."""
        number = so_far.frames + 1
        callee = Frame.called(call, number, frame)
        return self.result(callee, index, so_far._replace(frames=number), observer)

    def tuple_of(
        self,
        frame: Frame,
        fields: tuple[Operand, ...],
        index: int,
        so_far: Partial,
        observer: Observer,
    ) -> Iterable[Partial]:
        node = self.graph.nodes[index]
        if node.form is not Form.TUPLE or len(node.inputs) != len(fields):
            because = f"`{node.name}` is {what(node)}, not a tuple of {len(fields)}"
            return refuse(observer, so_far, because)
        covered = so_far.covering(index, shared=frame.pattern.taps)
        return self.operands(frame, fields, node.inputs, covered, observer)

    def tuple_of_each(
        self,
        frame: Frame,
        wanted: TupleOfEach,
        index: int,
        so_far: Partial,
        observer: Observer,
    ) -> Iterable[Partial]:
        """
        Match each field. The ways of the fields multiply, so a tuple is refused before that if a
        field matches in no way by itself.
        """
        node = self.graph.nodes[index]
        count = len(node.inputs)
        if node.form is not Form.TUPLE or not wanted.least <= count <= wanted.most:
            because = f"`{node.name}` is {what(node)}, not a tuple of {counts(wanted)}"
            return refuse(observer, so_far, because)
        covered = so_far.covering(index, shared=frame.pattern.taps)
        if self.has_predicates is None:
            self.has_predicates = asks_predicates(self.outermost.pattern)
        inner = observer.operands(node.inputs)
        if not self.has_predicates:  # a predicate may ask which other fields have matched
            for field in dict.fromkeys(node.inputs):
                alone = self.operand(frame, wanted.field, field, covered, inner)
                if not any(True for _ in alone):
                    return ()
        tried = self.in_order(frame, (wanted.field,) * count, node.inputs, covered, inner)
        return tried if inner is observer else inner.each(tried)

    def field_of(
        self, frame: Frame, field_of: FieldOf, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        node = self.graph.nodes[index]
        if node.form is not Form.PROJECTION or node.value != field_of.index:
            because = f"`{node.name}` is {what(node)}, not field {field_of.index}"
            return refuse(observer, so_far, because)
        covered = so_far.covering(index, shared=frame.pattern.taps)
        return self.operand(frame, field_of.of, node.inputs[0], covered, observer)

    def repeat(
        self, frame: Frame, repeat: Repeat, index: int, so_far: Partial, observer: Observer
    ) -> Iterator[Partial]:
        """Try the longest chain first."""
        call, least, most = repeat.call, repeat.least, repeat.most
        if most > 0:
            longer = self.longer.get(id(repeat))
            if longer is None:
                rest = Repeat(call, max(least - 1, 0), most - 1)
                longer = replace(call, operands=(rest, *call.operands[1:]))
                self.longer[id(repeat)] = longer
            yield from self.operand(frame, longer, index, so_far, observer)
        if least == 0:
            if so_far.size < observer.reached() and self.begins_only_here(frame, repeat, index):
                observer.overruled(so_far.size + 1)
            yield from self.operand(frame, call.operands[0], index, so_far, observer)

    def begins_only_here(self, frame: Frame, repeat: Repeat, index: int) -> bool:
        """Whether a chain may begin with node `index`, and no longer one with a node above it."""
        call, node = repeat.call, self.graph.nodes[index]
        if not isinstance(call, Call) or not may_be(frame, call.operands[0], node):
            return False
        for _ in range(repeat.most):
            if not is_called(call, node) or len(node.inputs) != len(call.operands):
                break
            node = self.graph.nodes[node.inputs[0]]
            if may_be(frame, call.operands[0], node):
                return False
        return True

    def path_from(
        self, frame: Frame, path: PathFrom, index: int, so_far: Partial, observer: Observer
    ) -> Iterator[Partial]:
        """
        Try the longest path first, as far as the order of the graph says which is longer. Nodes
        that cannot be the origin are tried only if no node can: their refusal is then the reason.
        """
        found = list(beginnings(path, self.graph, index))
        held = False
        nodes = self.graph.nodes
        possible = [each for each in found if may_be(frame, path.origin, nodes[each[0]])]
        for origin, between in possible or found:
            covered = so_far
            for each in members(between):
                covered = covered.covering(each, shared=frame.pattern.taps)
            for partial in self.operand(frame, path.origin, origin, covered, observer):
                held = True
                yield partial
        if not held and observer.hears(so_far.size + 2):
            self.tell_obstacle(frame, path, index, so_far, observer)
        if not found:
            calls = f"{path.least} to {path.most} calls of {' | '.join(path.names)}"
            because = f"no {calls} alone lead to `{self.graph.nodes[index].name}`"
            refuse(observer, so_far, because)

    def tell_obstacle(
        self, frame: Frame, path: PathFrom, index: int, so_far: Partial, observer: Observer
    ) -> None:
        """Name the node on the way from an origin that matches, if there is one."""
        for origin, other in obstacles(path, self.graph, index):
            for partial in self.operand(frame, path.origin, origin, so_far, NO_OBSERVER):
                node = self.graph.nodes[other]
                way = f"on a path from `{self.graph.nodes[origin].name}`"
                because = f"`{node.name}` is {what(node)}, not {' | '.join(path.names)}, {way}"
                refuse(observer, partial.covering(index, shared=False), because)
                return

    def reference(
        self, frame: Frame, name: str, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        key = frame.prefix + name
        if key in so_far.bound:
            if so_far.bound[key] == index:
                return (so_far,)
            seen, here = self.graph.nodes[so_far.bound[key]], self.graph.nodes[index]
            if are_equal_literals(seen, here):
                return (so_far,)
            because = f"`{name}` is `{seen.name}` already and cannot be `{here.name}` too"
            return refuse(observer, so_far, because)
        parameter = frame.parameters.get(name)
        if parameter is None:
            value = self.operand(frame, frame.values[name], index, so_far, observer)
            return binding(key, index, 0, value)
        node = self.graph.nodes[index]
        if parameter.constant and node.form is not Form.CONSTANT:
            because = f"`{node.name}` is not a constant, as `{parameter.name}` must be"
            return refuse(observer, so_far, because)
        if parameter.excluded and (why := refusal(parameter.excluded, self.graph, index)):
            because = f"{why}, as `{parameter.name}` must not be"
            return refuse(observer, so_far, because, parameter.span)
        constants = 1 << index if parameter.constant else 0
        if frame.caller is None:
            return (so_far.binding(key, index, constants),)
        given = self.operand(frame.caller, frame.operands[name], index, so_far, observer)
        return binding(key, index, constants, given)

    def call(
        self, frame: Frame, call: Call, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        node = self.graph.nodes[index]
        if not is_called(call, node) or len(node.inputs) != len(call.operands):
            progress = so_far.size
            if observer.hears(progress):  # checked first, because most nodes are refused here
                because = f"`{node.name}` {other_than(call, node)}"
                observer.refused(progress, because, call.span, "")
            return ()
        covered = so_far.covering(index, shared=call.shared or frame.pattern.taps)
        if call.attributes:
            waiting = [w for w in call.attributes if depends_on_facts(w.condition)]
            if not self.asking.attributes_hold(call.attributes, index, covered, observer):
                return ()
            added = ((frame.prefix, where, index) for where in waiting)
            covered = covered._replace(pending=(*covered.pending, *added))
        if len(node.inputs) == 2 and is_commutative(node.op) and not call.ordered:
            ways = self.either_order(frame, call.operands, node.inputs, covered, observer)
            return overruling(ways, observer)
        return self.operands(frame, call.operands, node.inputs, covered, observer)

    def flat(
        self, frame: Frame, flat: Flat, index: int, so_far: Partial, observer: Observer
    ) -> Iterator[Partial]:
        """Take the tree at a node apart in each way, and match the values in each order."""
        node, values, wanted = self.graph.nodes[index], flat.values, together(flat)
        if not is_tree(flat.op, self.graph, index, len(values)):
            refuse(observer, so_far, no_tree(node, flat), flat.span)
            return
        dtype = getattr(node.type, "dtype", "float32")
        found = False
        for way in flattened(flat.op, self.graph, index, len(values)):
            self.step()
            found = True
            covered = so_far
            for call in way.calls:
                shared = frame.pattern.taps or (flat.shared and call == index)
                covered = covered.covering(call, shared=shared)
            inner = observer.operands(way.values)
            tried = self.any_order(frame, values, way.values, covered, inner)
            if agree(flat.op, wanted, way.numbers, dtype):
                yield from (tried if inner is observer else inner.each(tried))
            elif observer.hears(covered.size):
                because = other_number(node, flat, wanted, way)
                refuse(inner, next(tried, covered), because, flat.span)
        if not found:
            because = f"`{node.name}` is no {COMBINING[flat.op].noun} of {len(values)} values"
            refuse(observer, so_far, because, flat.span)

    def any_order(
        self,
        frame: Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        so_far: Partial,
        observer: Observer,
    ) -> Iterator[Partial]:
        """Match each operand of `wanted` at another of the nodes `given`."""
        if not wanted:
            yield so_far
            return
        for index in dict.fromkeys(given):
            at = given.index(index)
            rest = given[:at] + given[at + 1 :]
            for partial in self.operand(frame, wanted[0], index, so_far, observer):
                yield from self.any_order(frame, wanted[1:], rest, partial, observer)

    def either_order(
        self,
        frame: Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        so_far: Partial,
        observer: Observer,
    ) -> Iterator[Partial]:
        yield from self.operands(frame, wanted, given, so_far, observer)
        yield from self.operands(frame, wanted, given[::-1], so_far, observer)

    def operands(
        self,
        frame: Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        so_far: Partial,
        observer: Observer,
    ) -> Iterable[Partial]:
        inner = observer.operands(given)
        tried = self.in_order(frame, wanted, given, so_far, inner)
        return tried if inner is observer else inner.each(tried)

    def in_order(
        self,
        frame: Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        so_far: Partial,
        observer: Observer,
    ) -> Iterable[Partial]:
        """Match each operand of `wanted` at the node with the same place in `given`, in order."""
        if not wanted:
            return (so_far,)
        ways = self.operand(frame, wanted[0], given[0], so_far, observer)
        return self.rest(frame, wanted[1:], given[1:], ways, observer) if wanted[1:] else ways

    def rest(
        self,
        frame: Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        ways: Iterable[Partial],
        observer: Observer,
    ) -> Iterator[Partial]:
        for partial in ways:
            yield from self.in_order(frame, wanted, given, partial, observer)

    def is_closed(self, partial: Partial, root: int, observer: Observer) -> bool:
        """Whether no inner value is used outside the match."""
        inside = partial.inside
        for index in members(inside ^ inside & (1 << root | partial.shared)):
            node = self.graph.nodes[index]
            if self.graph.is_needed_outside(index, inside):
                refuse(observer, partial, f"`{node.name}` is used outside the match too")
                return False
        return True


def overruling(ways: Iterable[Partial], observer: Observer) -> Iterator[Partial]:
    """
    Pass on `ways`, in which a part matches. What was refused on the way to one of them is not why
    the pattern does not match.
    """
    before = observer.reached()
    for partial in ways:
        if before < observer.reached() == partial.size:
            observer.overruled(partial.size)
        yield partial
        before = observer.reached()
