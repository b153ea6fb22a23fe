"""Whether the answers that a test expects can all be given together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import assert_never

from collage_dsl.graph import Form, Graph, members
from collage_dsl.language.reasoning.patterns.largest import largest
from collage_dsl.language.reasoning.patterns.smallest import smallest
from collage_dsl.language.resolve.questions import (
    Candidates,
    Expectation,
    Kernels,
    Matches,
    Proposes,
    TargetOf,
    WhyNot,
)
from collage_dsl.rules import DFPattern, FusionRule, FusionSpec, Pattern, sub_rules

Key = tuple[object, ...]
"""A count that can be asked for: `("kernels", "tvm")`."""

_MANY = 100
"""Only so many expectations of a test are compared with each other."""


def wanted(each: Expectation) -> tuple[float, float]:
    """The least and the greatest count that meets an expectation."""
    value = each.value
    assert isinstance(value, int)
    match each.operator:
        case "==":
            return value, value
        case "<":
            return 0, value - 1
        case "<=":
            return 0, value
        case ">":
            return max(0, value + 1), inf
        case ">=":
            return max(0, value), inf
        case _:
            return (1, inf) if value == 0 else (0, inf)


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What a test asks about: its graph, if it is known, and the targets that have costs, with their
    specs.
    """

    graph: Graph | None
    targets: Mapping[str, FusionSpec | None]

    @property
    def calls(self) -> float:
        """The number of operator calls in the graph; infinite if it is not known."""
        return inf if self.graph is None else self.graph.calls.bit_count()

    def is_call(self, name: str) -> bool:
        nodes = () if self.graph is None else self.graph.nodes
        return any(node.name == name and node.form is Form.CALL for node in nodes)

    def only_node(self) -> str | None:
        """The only node that a pattern can match at; None if there are several."""
        computed = 0 if self.graph is None else self.graph.computed
        if self.graph is None or computed.bit_count() != 1:
            return None
        return self.graph.nodes[members(computed)[0]].name


def contradicted(
    expectations: Sequence[Expectation], asked: Asked
) -> Iterator[tuple[Expectation, tuple[Expectation, ...]]]:
    """Each expectation that cannot hold together with earlier ones, and those."""
    kept: list[Expectation] = []
    for each in expectations[:_MANY]:
        if _is_possible([*kept, each], asked):
            kept.append(each)
        else:
            yield each, _needed(kept, each, asked)


def _needed(
    others: Sequence[Expectation], last: Expectation, asked: Asked
) -> tuple[Expectation, ...]:
    """The fewest of `others` without which `last` would be possible, as far as tried."""
    needed = list(others)
    for each in others:
        fewer = [other for other in needed if other is not each]
        if not _is_possible([*fewer, last], asked):
            needed = fewer
    return tuple(needed)


def _is_possible(expectations: Iterable[Expectation], asked: Asked) -> bool:
    answers = _Answers(asked)
    for each in expectations:
        answers.add(each)
    return answers.are_possible()


def _patterns(rule: FusionRule) -> list[Pattern] | None:
    """The patterns without whose matches `rule` proposes nothing; None if it needs none."""
    if isinstance(rule, DFPattern):
        return [rule.pattern]
    found = [_patterns(inner) for inner in sub_rules(rule)]
    if not found or None in found:
        return None
    return [pattern for patterns in found for pattern in patterns or ()]


@dataclass(slots=True)
class _Answers:
    """Bounds of counts, values that they do not have, and the texts and targets of answers."""

    asked: Asked
    least: dict[Key, float] = field(default_factory=dict)
    most: dict[Key, float] = field(default_factory=dict)
    unequal: set[tuple[Key, object]] = field(default_factory=set)
    texts: dict[Key, str] = field(default_factory=dict)
    running: dict[str, set[str]] = field(default_factory=dict)
    """The targets that may run a call."""
    specs: list[FusionSpec] = field(default_factory=list)
    is_planned: bool = False
    """Whether a plan is asked about, so that there is one."""
    possible: bool = True

    def add(self, each: Expectation) -> None:
        match each.question:
            case Matches(pattern, at, nodes):
                at = at or self.asked.only_node()
                nodes = None if smallest(pattern).nodes == largest(pattern) == nodes else nodes
                self.count(("matches", id(pattern), at, nodes), each)
            case Candidates(spec):
                self.count(("candidates", self.number(spec)), each)
            case Proposes(spec, names):
                key = ("proposes", self.number(spec), names)
                self.most[key] = 1
                self.count(key, each)
            case Kernels(target):
                self.is_planned = True
                self.count(("kernels", target), each)
            case WhyNot(pattern, at):
                self.reason(("matches", id(pattern), at, None), each)
            case TargetOf(node):
                self.is_planned = True
                self.target(node, each)
            case _:
                assert_never(each.question)

    def number(self, spec: FusionSpec) -> int:
        """The same number for equal specs."""
        if spec not in self.specs:
            self.specs.append(spec)
        return self.specs.index(spec)

    def count(self, key: Key, each: Expectation) -> None:
        least, most = wanted(each)
        self.at_least(key, least)
        self.most[key] = min(self.most.get(key, inf), most)
        if each.operator == "!=":
            self.unequal.add((key, each.value))

    def at_least(self, key: Key, least: float) -> None:
        self.least[key] = max(self.least.get(key, 0), least)

    def reason(self, key: Key, each: Expectation) -> None:
        """A reason why not means that there is no match; it is the empty text if there is one."""
        text = str(each.value)
        if each.operator == "==":
            self.possible &= self.texts.setdefault(key, text) == text
        else:
            self.unequal.add((key, text))
        if (each.operator == "==") == bool(text):
            self.most[key] = 0

    def target(self, node: str, each: Expectation) -> None:
        if self.asked.is_call(node):
            left = self.running.setdefault(node, set(self.asked.targets))
            named = {str(each.value)}
            left.intersection_update(named if each.operator == "==" else left - named)

    def are_possible(self) -> bool:
        self.propose()
        if self.is_planned:
            self.plan()
        if not self.possible or not all(self.running.values()):
            return False
        if any(self.texts.get(key) == value for key, value in self.unequal if key in self.texts):
            return False
        for key, most in self.most.items():
            least = self.least_of(key)
            if least > most or (least == most and (key, int(least)) in self.unequal):
                return False
        return True

    def propose(self) -> None:
        """Add that rules propose nothing where none of their patterns matches."""
        place = self.asked.only_node()
        for number, spec in enumerate(self.specs):
            patterns = _patterns(spec.rule)
            keys = [("matches", id(pattern), place, None) for pattern in patterns or ()]
            if keys and all(self.most.get(key) == 0 for key in keys):
                self.most["candidates", number] = 0

    def plan(self) -> None:
        """Add what is known of every plan."""
        for left in self.running.values():
            if len(left) == 1:
                self.at_least(("kernels", *left), 1)
        for name, spec in self.asked.targets.items():
            number = self.specs.index(spec) if spec in self.specs else -1
            if spec is not None and self.most.get(("candidates", number)) == 0:
                self.most["kernels", name] = 0
        every = [self.most.get(("kernels", name), inf) for name in self.asked.targets]
        whole = min(self.most.get(("kernels", None), inf), self.asked.calls, sum(every))
        self.most["kernels", None] = whole
        if self.asked.calls >= 1 and self.asked.graph is not None:
            self.at_least(("kernels", None), 1)

    def least_of(self, key: Key) -> float:
        """The least count, also for what is part of it."""
        own = self.least.get(key, 0)
        match key:
            case ("matches", pattern, at, nodes):
                parts = [each[2:] for each in self.least if each[:2] == ("matches", pattern)]
                places = {place for place, _ in parts if at is None} - {None}
                sizes = {size for _, size in parts if nodes is None} - {None}
                at_places = (("matches", pattern, place, nodes) for place in places)
                of_sizes = (("matches", pattern, at, size) for size in sizes)
                return max(
                    own, sum(map(self.least_of, at_places)), sum(map(self.least_of, of_sizes))
                )
            case ("candidates", number):
                proposed = (each for each in self.least if each[:2] == ("proposes", number))
                return max(own, sum(self.least[each] for each in proposed))
            case ("kernels", None):
                parts = [("kernels", name) for name in self.asked.targets]
                return max(own, sum(self.least.get(each, 0) for each in parts))
            case _:
                return own
