"""Compare two versions of spec files by what they match on the graphs of their tests."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from collage_dsl.engine.steps import proposed
from collage_dsl.engine.stopped import StoppedWarning
from collage_dsl.graph import Graph, OpSet, members
from collage_dsl.language import format_graph
from collage_dsl.language.graphs.values import with_arrays
from collage_dsl.language.resolve.file import Contents
from collage_dsl.language.resolve.rule_names import CheckedRule
from collage_dsl.language.write.linking import pattern_without_names, spec_without_names
from collage_dsl.rules import FusionSpec, Pattern
from collage_dsl.rules.matcher import Attempt, Matcher, matches
from collage_dsl.rules.predicate import Lookup, PredicateError

Version = Literal["old", "new", "both"]
Kind = Literal["pattern", "rule", "target"]

_Find = Callable[[Graph], set[OpSet]]
"""Finds the nodes of each match, or of each candidate, in a graph."""


@dataclass(frozen=True, slots=True)
class TestGraph:
    """The graph of a test, and the version that has it."""

    __test__ = False  # pytest must not collect this class

    file: str
    test: str
    graph: Graph
    version: Version


@dataclass(frozen=True, slots=True)
class Matched:
    """Nodes that one version matches and the other does not; `reason` says why not."""

    on: TestGraph
    nodes: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """
    A definition that is not the same in both versions. A pattern or target that both have is
    compared on all graphs; `unknown` says why what it matches is not known on some of them, or that
    there are none.
    """

    file: str
    kind: Kind
    name: str
    change: Literal["removed", "added", "changed"]
    lost: tuple[Matched, ...] = ()
    gained: tuple[Matched, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_breaking(self) -> bool:
        return self.change == "removed" or bool(self.lost)


class _UnknownError(Exception):
    """What a pattern or target matches on a graph is not known, because it stopped at a bound."""


def graphs_of(old: Mapping[str, Contents], new: Mapping[str, Contents]) -> tuple[TestGraph, ...]:
    """The distinct graphs of all tests, first those of the new version. Models are left out."""
    found = _graphs(new, "new")
    for text, each in _graphs(old, "old").items():
        found[text] = replace(found[text], version="both") if text in found else each
    return tuple(found.values())


def _graphs(files: Mapping[str, Contents], version: Version) -> dict[str, TestGraph]:
    """The graphs by their text."""
    found: dict[str, TestGraph] = {}
    for file, contents in files.items():
        for test in contents.tests:
            if test.graph is not None:
                graph = with_arrays(test.graph)
                on = TestGraph(file, test.name, graph, version)
                found.setdefault(format_graph(graph), on)
    return found


def changes(
    old: Mapping[str, Contents],
    new: Mapping[str, Contents],
    graphs: Sequence[TestGraph],
    lookup: Lookup,
) -> Iterator[Change]:
    """
    What changed in each file, by the names of the files. A definition that means the same in both
    versions, whatever its text and the names of the patterns that it calls, is no change.
    """
    nothing = Contents({})
    for file in dict.fromkeys((*new, *old)):
        two = _TwoVersions(file, old.get(file, nothing), new.get(file, nothing), graphs, lookup)
        yield from two.patterns()
        yield from two.rules()
        yield from two.targets()


@dataclass(frozen=True, slots=True)
class _TwoVersions:
    file: str
    old: Contents
    new: Contents
    graphs: Sequence[TestGraph]
    lookup: Lookup

    def patterns(self) -> Iterator[Change]:
        old, new = _own_patterns(self.old), _own_patterns(self.new)
        yield from self.only_one_has("pattern", old, new)
        for name in (name for name in new if name in old):
            if pattern_without_names(old[name]) == pattern_without_names(new[name]):
                continue
            before = partial(_matches, old[name], lookup=self.lookup)
            after = partial(_matches, new[name], lookup=self.lookup)
            found = self.compared("pattern", name, before, after)
            lost = tuple(self.explained(each, new[name]) for each in found.lost)
            yield replace(found, lost=lost)

    def rules(self) -> Iterator[Change]:
        """Rules match nothing by themselves: what they propose is seen in the targets."""
        yield from self.only_one_has("rule", _own_rules(self.old), _own_rules(self.new))

    def targets(self) -> Iterator[Change]:
        old, new = self.old.specs, self.new.specs
        yield from self.only_one_has("target", old, new)
        same_places = _placements(old) == _placements(new)
        for name in (name for name in new if name in old):
            if not same_places or spec_without_names(old[name]) != spec_without_names(new[name]):
                before = partial(_candidates, old[name], old, lookup=self.lookup)
                after = partial(_candidates, new[name], new, lookup=self.lookup)
                yield self.compared("target", name, before, after)

    def only_one_has(
        self, kind: Kind, old: Mapping[str, object], new: Mapping[str, object]
    ) -> Iterator[Change]:
        yield from (Change(self.file, kind, name, "removed") for name in old if name not in new)
        yield from (Change(self.file, kind, name, "added") for name in new if name not in old)

    def compared(self, kind: Kind, name: str, before: _Find, after: _Find) -> Change:
        lost: list[Matched] = []
        gained: list[Matched] = []
        unknown = [] if self.graphs else ["no test has a graph"]
        for each in self.graphs:
            try:
                first, second = before(each.graph), after(each.graph)
            except (_UnknownError, PredicateError) as problem:
                unknown.append(f"test `{each.test}`: {problem}")
                continue
            lost += [_matched(each, nodes) for nodes in sorted(first - second)]
            gained += [_matched(each, nodes) for nodes in sorted(second - first)]
        found = (tuple(lost), tuple(gained), tuple(unknown))
        return Change(self.file, kind, name, "changed", *found)

    def explained(self, lost: Matched, pattern: Pattern) -> Matched:
        """With the reason why `pattern` does not match there."""
        graph, attempt = lost.on.graph, Attempt()
        root = max(map(graph.index, lost.nodes))
        if matches(pattern, graph, root, attempt, self.lookup):
            return lost  # it matches there with other nodes
        return replace(lost, reason=attempt.reason or attempt.because)


def _own_patterns(contents: Contents) -> dict[str, Pattern]:
    return {name: each for name, each in contents.own.items() if isinstance(each, Pattern)}


def _own_rules(contents: Contents) -> dict[str, CheckedRule]:
    return {name: each for name, each in contents.own.items() if isinstance(each, CheckedRule)}


def _placements(specs: Mapping[str, FusionSpec]) -> list[object]:
    """What a `pin` or `forbid` says about the candidates of all targets."""
    return [(name, spec.placements) for name, spec in specs.items() if spec.placements]


def _matches(pattern: Pattern, graph: Graph, *, lookup: Lookup) -> set[OpSet]:
    matcher = Matcher(pattern, graph, lookup)
    found: set[OpSet] = set()
    for root in range(len(graph)):
        attempt = Attempt()
        found.update(match.inside for match in matcher.at(root, attempt))
        if attempt.stopped:
            node = graph.nodes[root].name
            raise _UnknownError(f"it stopped after {attempt.stopped} steps at `{node}` (W0334)")
    return found


def _candidates(
    spec: FusionSpec, among: Mapping[str, FusionSpec], graph: Graph, *, lookup: Lookup
) -> set[OpSet]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StoppedWarning)
        try:
            found = proposed(graph, (spec,), tuple(among.values()), lookup)
        except StoppedWarning as warning:
            raise _UnknownError(str(warning).splitlines()[0]) from None
    return {candidate.sub_graph.inside for candidate in found}


def _matched(on: TestGraph, nodes: OpSet) -> Matched:
    return Matched(on, tuple(on.graph.nodes[index].name for index in members(nodes)))
