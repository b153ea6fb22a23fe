"""
Why a pattern matches at a node or does not: everything that was tried there.

The matcher is watched while it works: what it wants, at which node, and what it refuses. Trying
the same thing at the same node again, with something else before it, is recorded once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import collage_dsl.rules.condition as conditions
from collage_dsl.graph import Graph, Node
from collage_dsl.rules.condition import UNKNOWN, Given, Where
from collage_dsl.rules.facts import Fact, facts, has_predicate
from collage_dsl.rules.matcher import Attempt, Match, _Frame, _Matcher, _Partial, _World, matches
from collage_dsl.rules.pattern import (
    Call,
    Either,
    FieldOf,
    Operand,
    Parameter,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
)
from collage_dsl.rules.predicate import Lookup, no_host_code
from collage_dsl.source import Span

MOST_STEPS = 2_000
"""So many steps of one attempt are recorded: alternatives and operand orders multiply."""


class Answer(Enum):
    """What came of asking a condition."""

    HELD = "held"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    NOT_ASKED = "not asked"
    """Host code is not asked once another condition has failed."""


@dataclass(slots=True, eq=False)
class Asked:
    """A condition, the node it was asked at, the answer, and the facts that it depends on."""

    where: Where
    node: int
    answer: Answer
    facts: tuple[Fact, ...]
    said: str = ""
    """What a predicate gave as its reason."""


@dataclass(slots=True, eq=False)
class Refused:
    """Something other than a condition that does not hold."""

    because: str
    span: Span | None = None


class How(Enum):
    """In which way something was tried."""

    PARTS = "parts"
    SWAPPED = "operands swapped"
    PRESENT = "present"
    ABSENT = "absent"
    ALTERNATIVE = "alternative"
    LONGER = "one more"
    ENDED = "no more"
    STANDS_FOR = "stands for"
    """The operand that a parameter of a called pattern stands for."""
    PATTERN = "pattern"


@dataclass(slots=True, eq=False)
class Way:
    """One way in which a step was tried. `held` counts the ways in which all in it did."""

    how: How
    pattern: Pattern | None = None
    """Whose results and conditions these are, where they are those of a pattern."""
    given: tuple[int, ...] = ()
    steps: list["Step"] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    held: int = 0


@dataclass(slots=True, eq=False)
class Step:
    """
    What was wanted at a node. `name` is that of the value in the pattern of `frame`, or of
    `parameter`.
    """

    wanted: Operand
    node: int
    frame: _Frame
    name: str = ""
    parameter: Parameter | None = None
    asked: list[Asked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    held: int = 0

    def is_for(self, wanted: Operand) -> bool:
        named = isinstance(wanted, Reference) and wanted.name == self.name
        return named or self.wanted == wanted


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Everything tried at node `root`. Where nothing matches, `attempt` has the refusal that came
    after the most had matched, and `reason` is its record.
    """

    graph: Graph
    root: int
    matches: tuple[Match, ...]
    attempt: Attempt
    step: Step
    reason: Asked | Refused | None
    is_complete: bool
    """Whether fewer than `MOST_STEPS` were tried."""


def explain(
    pattern: Pattern, graph: Graph, root: int, lookup: Lookup = no_host_code
) -> Explanation:
    """What is tried to match `pattern` at node `root`. Raises PredicateError as `matches` does."""
    attempt = Attempt()
    recorder = _Recorder(pattern, graph, attempt, lookup, root)
    recorder.root.held = sum(1 for _ in recorder.run(root))
    found = recorder.root.held > 0
    return Explanation(
        graph,
        root,
        matches(pattern, graph, root, Attempt(), lookup) if found else (),
        attempt,
        recorder.root,
        None if found else recorder.reason,
        recorder.count < MOST_STEPS,
    )


class _Recorder(_Matcher):
    """
    A matcher that records. What it does is at `step` or, in one way of it, in `way`: each
    generator sets them where it goes on and restores them where it gives something.
    """

    def __init__(
        self, pattern: Pattern, graph: Graph, attempt: Attempt, lookup: Lookup, root: int
    ) -> None:
        super().__init__(pattern, graph, attempt, lookup)
        names = tuple(Reference(parameter.name) for parameter in pattern.parameters)
        self.root = Step(PatternCall(pattern, names), root, _Frame(pattern, {}, {}))
        self.step = self.root
        self.way: Way | None = None
        self.count = 0
        self.reason: Asked | Refused | None = None
        self.frame: _Frame | None = None
        self.asking: list[Asked] = []
        self.subject: Asked | None = None

    # What is tried.

    def result(self, frame: _Frame, index: int, so_far: _Partial) -> Iterator[_Partial]:
        tried = super().result(frame, index, so_far)
        if self.is_full():
            return tried
        way = self.way_of(self.step, How.PATTERN)
        way.pattern = frame.pattern
        return self.during(self.step, way, tried)

    def reference(
        self, frame: _Frame, name: str, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        tried = super().reference(frame, name, index, so_far)
        if self.is_full():
            return tried
        implicit = self.implicit_way(Reference(name))
        step = self.step_of(self.way or implicit, Reference(name), index, frame)
        step.name, step.parameter = name, frame.pattern.parameter(name)
        return self.during(step, None, tried, implicit)

    def operand(
        self, frame: _Frame, operand: Operand, index: int, so_far: _Partial
    ) -> Iterator[_Partial]:
        tried = super().operand(frame, operand, index, so_far)
        if isinstance(operand, Reference) or self.is_full():
            return tried
        if self.is_value_of(self.step, frame, operand):
            self.step.wanted = operand
            return tried
        implicit = self.implicit_way(operand)
        step = self.step_of(self.way or implicit, operand, index, frame)
        return self.during(step, None, tried, implicit)

    def operands(
        self,
        frame: _Frame,
        wanted: tuple[Operand, ...],
        given: tuple[int, ...],
        so_far: _Partial,
    ) -> Iterator[_Partial]:
        tried = super().operands(frame, wanted, given, so_far)
        if self.way is not None or self.is_full():  # the rest of the operands
            return tried
        as_written = given == self.graph.nodes[self.step.node].inputs
        way = self.way_of(self.step, How.PARTS if as_written else How.SWAPPED)
        way.given = given
        return self.during(self.step, way, tried)

    def during(
        self,
        step: Step,
        way: Way | None,
        tried: Iterator[_Partial],
        implicit: Way | None = None,
    ) -> Iterator[_Partial]:
        """What `tried` gives, at `step` or in `way`. An `implicit` way holds where `step` does."""
        before = self.step, self.way
        self.step, self.way = step, way
        for partial in tried:
            (way or step).held += 1
            if implicit:
                implicit.held += 1
            self.step, self.way = before
            yield partial
            self.step, self.way = step, way
        self.step, self.way = before

    def is_value_of(self, step: Step, frame: _Frame, operand: Operand) -> bool:
        """Whether the name of `step` was looked up, and this is what it stands for."""
        return self.way is None and bool(step.name) and frame.values.get(step.name) is operand

    def is_full(self) -> bool:
        return self.count >= MOST_STEPS

    def step_of(self, way: Way | None, wanted: Operand, index: int, frame: _Frame) -> Step:
        assert way is not None
        for step in way.steps:
            if step.node == index and step.is_for(wanted):
                return step
        self.count += 1
        way.steps.append(Step(wanted, index, frame))
        return way.steps[-1]

    def implicit_way(self, wanted: Operand) -> Way | None:
        """The way that begins with trying `wanted`; None where one has begun."""
        if self.way is not None:
            return None
        how = _how(self.step, wanted)
        if how is not How.ALTERNATIVE:
            return self.way_of(self.step, how)
        for way in self.step.ways:
            if way.steps[0].is_for(wanted):
                return way
        self.step.ways.append(Way(how))
        return self.step.ways[-1]

    def way_of(self, step: Step, how: How) -> Way:
        for way in step.ways:
            if way.how is how:
                return way
        step.ways.append(Way(how))
        return step.ways[-1]

    # What is refused.

    def attributes_hold(self, call: Call, node: Node, so_far: _Partial) -> bool:
        self.asking = []
        held = super().attributes_hold(call, node, so_far)
        plain = [w for w in call.attributes if not conditions.depends_on_facts(w.condition)]
        if not self.step.asked and not self.is_full():
            given = Given(attrs=node.attrs)
            self.step.asked = [*self.asking, *self.not_asked(plain, self.step.node, given)]
        return held

    def holds(self, frame: _Frame, partial: _Partial, index: int) -> bool:
        self.frame, self.asking = frame, []
        held = super().holds(frame, partial, index)
        self.frame = None
        if self.way is None or self.way.pattern is not frame.pattern:
            return held
        given = self.given(frame, partial, self.graph.nodes[index])
        rest = () if self.way.refused else self.not_asked(frame.pattern.conditions, index, given)
        self.keep(self.way, [*self.asking, *rest])
        return held

    def keep(self, way: Way, asked: list[Asked]) -> None:
        """Of all that was asked of the values bound, show what decided, or the most that held."""
        has_reason = any(each is self.reason for each in asked)
        had_reason = any(each is self.reason for each in way.asked)
        if has_reason or not way.asked or (not had_reason and _held(asked) > _held(way.asked)):
            way.asked = asked

    def not_asked(
        self, wheres: "tuple[Where, ...] | list[Where]", index: int, given: Given
    ) -> Iterator[Asked]:
        """The conditions after the first that failed: nothing hangs on them, but users do."""
        known = {id(asked.where) for asked in self.asking}
        for where in wheres:
            if id(where) in known:
                continue
            if has_predicate(where.condition):
                yield Asked(where, index, Answer.NOT_ASKED, facts(where.condition, given))
            else:
                held = conditions.evaluate(where.condition, given)
                yield Asked(where, index, _answer(held), facts(where.condition, given))

    def is_true(
        self, where: Where, so_far: _Partial, node: Node, held: object, said: str = ""
    ) -> bool:
        given = Given(attrs=node.attrs)
        if self.frame is not None:
            given = self.given(self.frame, so_far, node)
        index = self.graph.index(node.name)
        self.subject = Asked(where, index, _answer(held), facts(where.condition, given), said)
        self.asking.append(self.subject)
        answer = super().is_true(where, so_far, node, held, said)
        self.subject = None
        return answer

    def given(self, frame: _Frame, partial: _Partial, node: Node) -> Given:
        bound = {
            name[len(frame.prefix) :]: self.graph.nodes[index]
            for name, index in partial.bound.items()
            if name.startswith(frame.prefix)
        }
        world = _World(self.graph, self.lookup, partial.inside, self.root.node)
        return Given(bound, node.attrs, world)

    def refuse(
        self, so_far: _Partial, because: str, span: Span | None = None, reason: str = ""
    ) -> None:
        before = self.attempt.progress
        super().refuse(so_far, because, span, reason)
        record: Asked | Refused = self.subject or self.refusal(because, span)
        if self.attempt.progress != before:
            self.reason = record

    def refusal(self, because: str, span: Span | None) -> Refused:
        """The record of a refusal that is no condition's, one for each text."""
        refused = (self.way or self.step).refused
        for each in refused:
            if each.because == because:
                return each
        refused.append(Refused(because, span))
        return refused[-1]


def _how(step: Step, wanted: Operand) -> How:
    match step.wanted:
        case Either():
            return How.ALTERNATIVE
        case Repeat():
            return How.LONGER if _is_chain(wanted) else How.ENDED
        case Call() | PatternCall():
            return How.ABSENT
        case Reference() if step.parameter:
            return How.STANDS_FOR
        case FieldOf() | TupleOf() | _:
            return How.PARTS


def _is_chain(wanted: Operand) -> bool:
    match wanted:
        case Call(_, (Repeat(), *_)) | PatternCall(_, (Repeat(), *_)):
            return True
        case _:
            return False


def _answer(held: object) -> Answer:
    if held is UNKNOWN:
        return Answer.UNKNOWN
    return Answer.HELD if held else Answer.REFUSED


def _held(asked: list[Asked]) -> int:
    return sum(each.answer is Answer.HELD for each in asked)
