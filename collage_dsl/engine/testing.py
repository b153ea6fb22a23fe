"""Run the `test` blocks of `.collage` files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any, assert_never

from collage_dsl.diagnostics import Diagnostic, Note
from collage_dsl.engine import predicates
from collage_dsl.engine.steps import UncoveredError, choose, explain_uncovered, proposed
from collage_dsl.graph import CandidateKernel, Graph, Node
from collage_dsl.graph.types import short_dtype, tensors
from collage_dsl.language.graphs.inferred import not_inferred
from collage_dsl.language.graphs.values import with_arrays
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.resolve.file import Contents
from collage_dsl.language.resolve.questions import (
    Candidates,
    Expectation,
    Kernels,
    Matches,
    Proposes,
    Question,
    TargetOf,
    WhyNot,
)
from collage_dsl.language.resolve.spec_tests import SpecTest
from collage_dsl.rules import FusionSpec
from collage_dsl.rules.explain import Answer, Asked, explain
from collage_dsl.rules.matcher import Attempt, Matcher, matches
from collage_dsl.rules.near import near
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.predicate import Lookup, PredicateError
from collage_dsl.search import NoPlanError, Plan

_HOLDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one test: the expectations that do not hold, or none if it passed."""

    test: SpecTest
    failures: tuple[Diagnostic, ...]

    @property
    def passed(self) -> bool:
        return not self.failures


_MOST_SHOWN = 6
"""The most candidates that a failed expectation lists."""


class UnusableError(Exception):
    """A test cannot be run: a model cannot be read, has no such node, or takes too many steps."""


def run_tests(contents: Contents, lookup: Lookup | None = None) -> Iterator[Outcome]:
    """
    The outcome of each test of a file, in file order. A `model` needs TVM.

    `lookup` finds the code of predicates. Without it, no host code is allowed.
    """
    lookup = lookup or predicates.lookup()
    for test in contents.tests:
        yield Outcome(test, tuple(_failures(test, contents.specs, lookup)))


def _failures(
    test: SpecTest, specs: Mapping[str, FusionSpec], lookup: Lookup
) -> Iterator[Diagnostic]:
    try:
        graph = _model(test) if test.graph is None else with_arrays(test.graph)
        asked = _Asked(test, specs, graph, lookup)
    except UnusableError as problem:
        yield Diagnostic("E0711", str(problem), test.span)
        return
    for expectation in test.expectations:
        try:
            failure = _failure(expectation, asked)
        except (UnusableError, UncoveredError, PredicateError) as problem:
            message, *more = str(problem).splitlines()
            notes = tuple(Note(line.strip()) for line in more)
            failure = Diagnostic("E0711", message, expectation.span, notes=notes)
        if failure is not None:
            yield failure


def _failure(expectation: Expectation, asked: "_Asked") -> Diagnostic | None:
    answer = asked.answer(expectation.question)
    if _HOLDS[expectation.operator](answer.value, expectation.value):
        return None
    unknown, hint = asked.unknown(expectation.question)
    notes = tuple(Note(text) for text in (answer.remark, *unknown) if text)
    return Diagnostic("E0710", f"found {answer.found}", expectation.span, hint, notes=notes)


def _model(test: SpecTest) -> Graph:
    path = Path(test.span.source.name).parent / test.model
    if not path.is_file():
        raise UnusableError(f"there is no model `{test.model}`")
    from collage_dsl.frontend.onnx import from_onnx  # needs TVM, and few tests need this

    return from_onnx(path)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The value to compare, the text that shows it, and a further remark."""

    value: int | str
    found: str
    remark: str = ""


class _Asked:
    """Answers the questions of one test."""

    def __init__(
        self, test: SpecTest, specs: Mapping[str, FusionSpec], graph: Graph, lookup: Lookup
    ) -> None:
        self.test = test
        self.among = tuple(specs.values())
        self.specs = tuple(spec for name, spec in specs.items() if name in test.costs)
        self.graph = graph
        self.lookup = lookup
        self.plan = cache(self._plan)

    def answer(self, question: Question) -> _Answer:
        match question:
            case Matches():
                return self.matches(question)
            case WhyNot():
                return self.why_not(question)
            case Candidates(spec):
                found = self.proposed(spec)
                return _counted(len(found), "candidate", self.shown(found))
            case Proposes():
                return self.proposes(question)
            case Kernels(target):
                kernels = [k for k in self.plan().kernels if target in (None, k.target)]
                return _counted(len(kernels), "kernel", ", ".join(k.label for k in kernels))
            case TargetOf(node):
                self.index(node)
                running = (k.target for k in self.plan().kernels if node in k.nodes)
                target = next(running, "")
                return _Answer(target, f"`{target}`" if target else "no target")
            case _:
                assert_never(question)

    def index(self, node: str) -> int:
        try:
            return self.graph.index(node)
        except KeyError:
            raise UnusableError(f"the model has no node `{node}`") from None

    def matches(self, question: Matches) -> _Answer:
        roots = range(len(self.graph)) if question.at is None else [self.index(question.at)]
        attempts = {root: Attempt() for root in roots}
        matcher = Matcher(question.pattern, self.graph, self.lookup)
        found = [m for root, attempt in attempts.items() for m in matcher.at(root, attempt)]
        for root, attempt in attempts.items():
            self.refuse_stopped(root, attempt)
        sizes = [(match.inside & self.graph.calls).bit_count() for match in found]
        fitting = sum(question.nodes in (None, size) for size in sizes)
        remark = ""
        if not found and question.at is not None:
            remark = attempts[roots[0]].because
        elif not found:
            remark = self.nearest(question.pattern, attempts)
        elif fitting < len(found):
            remark = _sizes(sizes)
        return _counted(fitting, "match", remark, "es")

    def why_not(self, question: WhyNot) -> _Answer:
        attempt, root = Attempt(), self.index(question.at)
        if matches(question.pattern, self.graph, root, attempt, self.lookup):
            return _Answer("", "a match")
        self.refuse_stopped(root, attempt)
        reason = attempt.reason or attempt.because
        return _Answer(reason, f'"{reason}"')

    def unknown(self, question: Question) -> tuple[tuple[str, ...], str]:
        """The unknown facts because of which nothing matches, and how they become known."""
        if not isinstance(question, Matches | WhyNot) or question.at is None:
            return (), ""
        root = self.index(question.at)
        reason = explain(question.pattern, self.graph, root, self.lookup).reason
        if not isinstance(reason, Asked) or reason.answer is not Answer.UNKNOWN:
            return (), ""
        unknown = [fact for fact in reason.facts if fact.unknown]
        nodes = (self.graph.index(fact.node) for fact in unknown if fact.node)
        causes = (not_inferred(self.graph, node) for node in nodes if not self.test.model)
        cause = next((cause for cause in causes if cause is not None), None)
        return tuple(map(str, unknown)), "" if cause is None else _write_type(cause)

    def refuse_stopped(self, root: int, attempt: Attempt) -> None:
        if attempt.stopped:
            node = self.graph.nodes[root].name
            because = f"the pattern stopped after {attempt.stopped} steps at `{node}`"
            raise UnusableError(f"{because} (W0334)")

    def proposes(self, question: Proposes) -> _Answer:
        for node in sorted(question.nodes):
            self.index(node)
        found = self.proposed(question.spec)
        if any(candidate.nodes == question.nodes for candidate in found):
            return _Answer(1, "it")
        return _counted(0, "such candidate", self.shown(found) or "there are 0 candidates")

    def shown(self, found: Sequence[CandidateKernel]) -> str:
        """The nodes of the first candidates, as text; empty if there are none."""
        each = (sorted(candidate.nodes, key=self.graph.index) for candidate in found)
        texts = list(dict.fromkeys(f"[{', '.join(nodes)}]" for nodes in each))
        more = len(texts) - _MOST_SHOWN
        if more > 0:
            shown = ", ".join(f"`{text}`" for text in texts[:_MOST_SHOWN])
            return f"the candidates are {shown} and {more} more"
        are = "the candidate is" if len(texts) == 1 else "the candidates are"
        return f"{are} {listed(texts, 'and')}" if texts else ""

    def nearest(self, pattern: Pattern, attempts: Mapping[int, Attempt]) -> str:
        """Why a pattern that matches nowhere does not match where most of it does."""
        misses = near(pattern, self.graph, 1, self.lookup).misses
        if not misses:
            return ""
        root = misses[0][1].root
        return f"nearest is `{self.graph.nodes[root].name}`: {attempts[root].because}"

    def proposed(self, *specs: FusionSpec) -> tuple[CandidateKernel, ...]:
        return proposed(self.graph, specs, self.among, self.lookup)

    def _plan(self) -> Plan:
        from collage_dsl.cost.table import CostTable, TargetCosts  # few tests need it

        tables = {name: TargetCosts(ops=dict(ops)) for name, ops in self.test.costs.items()}
        cost = CostTable(tables)
        try:
            found = self.proposed(*self.specs)
            return choose(self.graph, found, cost=cost, merge=self.specs)
        except NoPlanError as error:
            raise explain_uncovered(self.graph, self.specs, cost, self.lookup, error) from error


def _write_type(node: Node) -> str:
    """A hint to write the type of a call in the graph of a test."""
    dtypes = [each.dtype for each in tensors(node.type)]
    type_ = f"{short_dtype(dtypes[0]) if dtypes else 'f32'}[…]"
    said = f"the shape of `{node.name}` is not inferred from `{node.op}`; write it: "
    return f"{said}`{node.name}: {type_} = {node.op}(…)`"


def _sizes(sizes: Sequence[int]) -> str:
    """The numbers of operators of matches, as text: `the match has 1 operator`."""
    of = "operator" if set(sizes) == {1} else "operators"
    if len(sizes) == 1:
        return f"the match has {sizes[0]} {of}"
    return f"the matches have {', '.join(map(str, sizes))} {of}"


def _counted(number: int, noun: str, remark: str = "", plural: str = "s") -> _Answer:
    return _Answer(number, f"{number} {noun}{'' if number == 1 else plural}", remark)
