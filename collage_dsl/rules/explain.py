"""
Explain why a pattern matches at a node or does not: record everything that the matcher tried.

An observer of the matcher records what is wanted at which node, and what is refused. If the
matcher tries the same thing at the same node again, it is recorded once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from collage_dsl.graph import Graph
from collage_dsl.rules.condition import UNKNOWN, Given, Unknown, Value, Where
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.facts import Fact, facts, has_predicate
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.matcher import Attempt, Matcher
from collage_dsl.rules.observer import T
from collage_dsl.rules.partial import Match
from collage_dsl.rules.pattern import (
    Call,
    Either,
    FieldOf,
    Flat,
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
"""How many steps of one attempt are recorded at most. Alternatives and operand orders multiply."""


class Answer(Enum):
    """The answer of a condition."""

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
    """The reason that a predicate gave."""


@dataclass(slots=True, eq=False)
class Refused:
    """A refusal that does not come from a condition."""

    because: str
    span: Span | None = None


class How(Enum):
    """In which way something was tried."""

    PARTS = "parts"
    SWAPPED = "operands swapped"
    ABSENT = "absent"
    ALTERNATIVE = "alternative"
    LONGER = "one more"
    ENDED = "no more"
    STANDS_FOR = "stands for"
    """The operand that a parameter of a called pattern stands for."""
    PATTERN = "pattern"


@dataclass(slots=True, eq=False)
class Way:
    """One way in which a step was tried. It `held` if all of its parts did, at least once."""

    how: How
    pattern: Pattern | None = None
    """The pattern whose results and conditions these are, if they are those of a pattern."""
    given: tuple[int, ...] = ()
    steps: list["Step"] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    held: bool = False


@dataclass(slots=True, eq=False)
class Step:
    """
    What was wanted at a node. `name` is the name of the value, or of the `parameter`, in the
    pattern of `frame`.
    """

    wanted: Operand
    node: int
    frame: Frame
    name: str = ""
    parameter: Parameter | None = None
    asked: list[Asked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    held: bool = False

    def is_for(self, wanted: Operand) -> bool:
        named = isinstance(wanted, Reference) and wanted.name == self.name
        return named or self.wanted == wanted


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Everything that was tried at node `root`. If nothing matches, `attempt` has the refusal that
    came after the largest part had matched, and `reason` is the record of that refusal.
    """

    graph: Graph
    root: int
    matches: tuple[Match, ...]
    attempt: Attempt
    step: Step
    reason: Asked | Refused | None
    is_complete: bool
    """Whether everything that was tried is recorded."""


def explain(
    pattern: Pattern, graph: Graph, root: int, lookup: Lookup = no_host_code
) -> Explanation:
    """Record all tries to match `pattern` at node `root`. Raises PredicateError like `matches`."""
    return explained(Matcher(pattern, graph, lookup), root)


def explained(matcher: Matcher, root: int) -> Explanation:
    """The same for the pattern and graph of `matcher`, which may have matched at other nodes."""
    pattern, graph = matcher.pattern, matcher.graph
    record = _Record(graph)
    parameters = tuple(Reference(parameter.name) for parameter in pattern.parameters)
    step = Step(PatternCall(pattern, parameters), root, Frame.of(pattern))
    found = matcher.at(root, _Part(record, step))
    step.held = bool(found)
    reason = None if found else record.reason
    return Explanation(graph, root, found, record.attempt, step, reason, not record.is_full)


@dataclass(slots=True, eq=False)
class _Record:
    """The data that the observers of all parts of one attempt share."""

    graph: Graph
    attempt: Attempt = field(default_factory=Attempt)
    reason: Asked | Refused | None = None
    """The record of the refusal in `attempt`."""
    asking: list[Asked] = field(default_factory=list)
    """The conditions that were asked and are not settled yet."""
    count: int = 0
    is_cut: bool = False
    """Whether the attempt took so many steps that it was begun anew, which is not recorded."""

    @property
    def is_full(self) -> bool:
        return self.is_cut or self.count >= MOST_STEPS

    def step(self, way: Way, wanted: Operand, index: int, frame: Frame) -> Step:
        """The step of `way` in which `wanted` is tried at node `index`."""
        for step in way.steps:
            if step.node == index and step.is_for(wanted):
                return step
        self.count += 1
        way.steps.append(Step(wanted, index, frame))
        return way.steps[-1]

    def settled(self, wheres: Iterable[Where], index: int, given: Given) -> list[Asked]:
        """The conditions that were asked, then those of `wheres` that were not."""
        asked, self.asking = self.asking, []
        known = {id(each.where) for each in asked}
        rest = (where for where in wheres if id(where) not in known)
        return [*asked, *(_not_asked(where, index, given) for where in rest)]


class _Part:
    """
    The observer that records one part of an attempt: `step`, or one `way` in which it is tried.

    Where the step begins a way of the step around it, that way, `begun`, holds when the step does.
    """

    __slots__ = ("begun", "record", "step", "way")

    def __init__(
        self, record: _Record, step: Step, way: Way | None = None, begun: Way | None = None
    ) -> None:
        self.record = record
        self.step = step
        self.way = way
        self.begun = begun

    def operand(self, operand: Operand, index: int, frame: Frame) -> "_Part":
        if self.record.is_full:
            return self.unrecorded()
        if self.is_named(operand, frame):
            self.step.wanted = operand
            return self
        way = self.way or self.way_beginning_with(operand)
        step = self.record.step(way, operand, index, frame)
        if isinstance(operand, Reference):
            step.name, step.parameter = operand.name, frame.parameters.get(operand.name)
        return _Part(self.record, step, begun=None if self.way else way)

    def pattern(self, pattern: Pattern) -> "_Part":
        if self.record.is_full:
            return self.unrecorded()
        way = self.way_of(How.PATTERN)
        way.pattern = pattern
        return _Part(self.record, self.step, way)

    def operands(self, given: tuple[int, ...]) -> "_Part":
        if self.record.is_full:
            return self.unrecorded()
        if isinstance(self.step.wanted, Flat):
            way = self.way_of(How.PARTS, given)
        else:
            as_written = given == self.record.graph.nodes[self.step.node].inputs
            way = self.way_of(How.PARTS if as_written else How.SWAPPED)
        way.given = given
        return _Part(self.record, self.step, way)

    def each(self, tried: Iterable[T]) -> Iterable[T]:
        for match in tried:
            (self.way or self.step).held = True
            if self.begun:
                self.begun.held = True
            yield match

    def asked(
        self, where: Where, index: int, given: Given, held: Value | Unknown, said: str
    ) -> None:
        found = facts(where.condition, given)
        self.record.asking.append(Asked(where, index, _answer(held), found, said))

    def settled(self, wheres: Iterable[Where], index: int, given: Given) -> None:
        if self.way and self.way.refused:
            wheres = ()
        asked = self.record.settled(wheres, index, given)
        if self.way:
            self.keep(self.way, asked)
        elif not self.step.asked and not self.record.is_full:
            self.step.asked = asked

    def hears(self, progress: int) -> bool:
        return self.record.attempt.hears(progress)

    def refused(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        record = self.record
        refused = record.asking[-1] if record.asking else self.refusal(because, span)
        if self.hears(progress):
            record.reason = refused
        record.attempt.refused(progress, because, span, reason)

    def reached(self) -> int:
        return self.record.attempt.reached()

    def overruled(self, progress: int) -> None:
        self.record.attempt.overruled(progress)

    def again(self) -> "_Unrecorded":
        self.record.is_cut = True
        self.record.asking = []
        return self.unrecorded()

    def stops(self, steps: int) -> None:
        self.record.attempt.stops(steps)

    def is_named(self, operand: Operand, frame: Frame) -> bool:
        """Whether this step is for the name of the value `operand`."""
        if self.way or isinstance(operand, Reference):
            return False
        return frame.values.get(self.step.name) is operand

    def unrecorded(self) -> "_Unrecorded":
        return _Unrecorded(self.record, self.step, self.way)

    def way_of(self, how: How, given: tuple[int, ...] | None = None) -> Way:
        """The way of the step that is tried so; if they are `given`, with these operands."""
        for way in self.step.ways:
            if way.how is how and given in (None, way.given):
                return way
        self.step.ways.append(Way(how))
        return self.step.ways[-1]

    def way_beginning_with(self, wanted: Operand) -> Way:
        how = _how(self.step, wanted)
        if how is not How.ALTERNATIVE:
            return self.way_of(how)
        for way in self.step.ways:
            if way.steps[0].is_for(wanted):
                return way
        self.step.ways.append(Way(how))
        return self.step.ways[-1]

    def keep(self, way: Way, asked: list[Asked]) -> None:
        """Keep `asked` if it has the reason, or if more of it held than of what `way` has."""
        reason = self.record.reason
        has_reason = any(each is reason for each in asked)
        had_reason = any(each is reason for each in way.asked)
        if has_reason or not way.asked or (not had_reason and _held(asked) > _held(way.asked)):
            way.asked = asked

    def refusal(self, because: str, span: Span | None) -> Refused:
        """The record of a refusal that does not come from a condition; one for each text."""
        refused = (self.way or self.step).refused
        for each in refused:
            if each.because == because:
                return each
        refused.append(Refused(because, span))
        return refused[-1]


class _Unrecorded(_Part):
    """Hears what is tried after `MOST_STEPS`, and records only refusals, in the part before."""

    __slots__ = ()

    def operand(self, operand: Operand, index: int, frame: Frame) -> "_Unrecorded":
        return self

    def pattern(self, pattern: Pattern) -> "_Unrecorded":
        return self

    def operands(self, given: tuple[int, ...]) -> "_Unrecorded":
        return self

    def each(self, tried: Iterable[T]) -> Iterable[T]:
        return tried

    def settled(self, wheres: Iterable[Where], index: int, given: Given) -> None:
        self.record.asking = []


def _not_asked(where: Where, index: int, given: Given) -> Asked:
    """
    The answer of a condition after the first that failed. The match does not depend on it, but
    the user wants to see it.
    """
    if has_predicate(where.condition):
        return Asked(where, index, Answer.NOT_ASKED, facts(where.condition, given))
    held = evaluate(where.condition, given)
    return Asked(where, index, _answer(held), facts(where.condition, given))


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


def _answer(held: Value | Unknown) -> Answer:
    if held is UNKNOWN:
        return Answer.UNKNOWN
    return Answer.HELD if held else Answer.REFUSED


def _held(asked: list[Asked]) -> int:
    return sum(each.answer is Answer.HELD for each in asked)
