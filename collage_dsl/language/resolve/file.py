"""What a file defines: its imports, names, patterns, rules, targets and tests together."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from collage_dsl.diagnostics import Note
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.resolve.functions import is_function
from collage_dsl.language.resolve.imports import Definition, Exports, Library, brought, imports_in
from collage_dsl.language.resolve.name_uses import check_shared_results
from collage_dsl.language.resolve.other_sorts import sorts_of
from collage_dsl.language.resolve.parameter_names import check_parameter_names
from collage_dsl.language.resolve.patterns import check_pattern
from collage_dsl.language.resolve.placements import check_placements
from collage_dsl.language.resolve.predicates import check_predicate
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.resolve.rule_names import CheckedRule
from collage_dsl.language.resolve.rules import RuleScope
from collage_dsl.language.resolve.same_targets import check_same_targets
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.resolve.substitution import check_parameters
from collage_dsl.language.resolve.targets import check_target
from collage_dsl.language.syntax import ast
from collage_dsl.rules import FusionRule, FusionSpec, Pattern
from collage_dsl.rules.placement import Placement
from collage_dsl.rules.predicate import Predicate
from collage_dsl.source import Span

if TYPE_CHECKING:
    from collage_dsl.language.resolve.spec_tests import SpecTest

_Named = ast.Let | ast.Predicate | ast.Pattern | ast.Rule

_BY_PLACEMENTS = ""
"""The user of classes in a `pin` or `forbid`, which have no name."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The specs, tests and patterns of a file."""

    specs: Mapping[str, FusionSpec]
    tests: "tuple[SpecTest, ...]" = ()
    patterns: Mapping[str, Pattern] = field(default_factory=dict)
    """The patterns that the file defines or imports, by name."""
    own: Mapping[str, Definition] = field(default_factory=dict)
    """What the file itself defines, by name, except targets and rules with parameters."""


class FileChecker:
    """Check what a file says, and find what it defines."""

    def __init__(
        self, file: ast.File, findings: Findings, library: Library, folder: Path | None
    ) -> None:
        self.file = file
        self.findings = findings
        self.library = library
        self.folder = folder
        self.broken = frozenset(broken.name for broken in file.broken)
        self.broken_inside = sorted(file.broken, key=_start)

    def run(self) -> Contents:
        patterns = [item for item in self.file.items if isinstance(item, ast.Pattern)]
        rules = [item for item in self.file.items if isinstance(item, ast.Rule)]
        lets = [item for item in self.file.items if isinstance(item, ast.Let)]
        targets = [item for item in self.file.items if isinstance(item, ast.Target)]
        predicates = [item for item in self.file.items if isinstance(item, ast.Predicate)]
        self.check_names(list(self.definitions()))
        self.check_names([(target, target.name) for target in targets])
        for rule in rules:
            check_parameter_names(rule.parameters, self.findings)
        imported = self.imports()
        inner = self.patterns(patterns, lets, predicates, imported)
        written = {rule.name.text: rule for rule in reversed(rules)}
        scope = RuleScope(inner.checked, written, self.broken, self.findings, inner)
        for name, definition in imported.definitions.items():
            if isinstance(definition, CheckedRule) and name not in written:
                scope.checked[name] = definition
        scope.refused, scope.parametric = imported.refused, imported.parametric
        self.inner, self.scope = inner, scope
        specs = [(t, check_target(t, self.is_whole(t.span), scope, self.findings)) for t in targets]
        used_by_targets = {*scope.used, _BY_PLACEMENTS}
        proposing = {target.name.text: spec.rule for target, spec in specs if spec is not None}
        fallbacks = {t.name.text for t, spec in specs if spec is not None and spec.fallback}
        placements = self.placements([t.name.text for t in targets], proposing, fallbacks)
        for rule in written.values():
            if rule.name.text not in scope.checked and not rule.parameters:
                scope.named(rule.name, 0)
        if targets:
            written_down: list[_Named] = [*lets, *predicates, *patterns, *rules]
            self.check_use(written_down, _with_used(used_by_targets, inner.uses))
            self.check_shared_results(patterns)
        if not self.file.broken and not self.findings.errors:
            for rule in rules:
                check_parameters(rule, self.findings)
        found = {
            target.name.text: replace(spec, placements=placements.get(target.name.text, ()))
            for target, spec in specs
            if spec is not None
        }
        is_right = not self.findings.errors
        names = frozenset(target.name.text for target in targets) | self.broken
        tests = self.tests(scope, found, names)
        if is_right:
            named = [(t.name, found[t.name.text]) for t in targets if t.name.text in found]
            check_same_targets(named, [test.costs for test in tests], self.findings)
        self.check_imports({*scope.used, *(used for _, used in inner.uses)})
        by_name = {n: p for n, p in inner.checked.items() if p is not None}
        return Contents(found, tests, by_name, self.own())

    def placements(
        self, targets: Sequence[str], rules: Mapping[str, FusionRule], fallbacks: Collection[str]
    ) -> dict[str, tuple[Placement, ...]]:
        written = [item for item in self.file.items if isinstance(item, ast.Placement)]
        return check_placements(
            written, targets, rules, fallbacks, self.broken, self.inner, self.findings
        )

    def exports(self) -> Exports:
        """The file's own definitions. Imported ones are not passed on."""
        errors = tuple(d for d in self.findings.in_order() if d.is_error)
        own, imported = self.own(), imports_in(self.file)
        scope = self.inner
        with_parameters = frozenset(n for n, rule in self.scope.rules.items() if rule.parameters)
        return Exports(
            *(own, scope.depths, scope.sizes, errors),
            imported=imported,
            parametric=with_parameters,
        )

    def own(self) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        for item in self.file.items:
            match item:
                case ast.Pattern(name):
                    definition: Definition | None = self.inner.checked.get(name.text)
                case ast.Let(name):
                    definition = self.inner.known.get(name.text)
                case ast.Predicate(name):
                    definition = self.inner.predicates.get(name.text)
                case ast.Rule(name):
                    definition = self.scope.checked.get(name.text)
                case _:
                    continue
            if definition is not None:
                found[name.text] = definition
        return found

    def imports(self) -> Exports:
        """All imported definitions, by the names that they have in this file."""
        found: dict[str, Definition] = {}
        depths: dict[int, int] = {}
        sizes: dict[int, int] = {}
        refused: dict[str, str] = {}
        parametric: set[str] = set()
        for item in self.file.items:
            if not isinstance(item, ast.Import):
                continue
            exports = self.library.exports(item, self.folder, self.findings)
            if exports is None:
                self.broken |= _names_of(item)
                continue
            errors = self.findings.errors
            found.update(brought(item, exports, self.findings))
            if self.findings.errors > errors:
                self.broken |= _names_of(item) - found.keys()
            depths.update(exports.depths)
            sizes.update(exports.sizes)
            if item.prefix is not None:
                prefix = item.prefix.text
                refused |= {f"{prefix}.{name}": why for name, why in exports.refused.items()}
                parametric |= {f"{prefix}.{name}" for name in exports.parametric}
        return Exports(found, depths, sizes, refused=refused, parametric=frozenset(parametric))

    def check_imports(self, used: set[str]) -> None:
        """Report the imported names that nothing uses."""
        if self.file.broken or self.findings.errors:
            return
        for item in self.file.items:
            if not isinstance(item, ast.Import):
                continue
            for imported in item.names:
                if imported.visible.text not in used:
                    name = imported.visible
                    self.unused(name)
            prefix = item.prefix
            if prefix and not any(name.startswith(f"{prefix.text}.") for name in used):
                self.unused(prefix)

    def unused(self, name: ast.Name) -> None:
        message = f"nothing uses `{name.text}`"
        self.findings.warning("W0805", name.span, message, "remove it, or the whole import")

    def definitions(self) -> Iterator[tuple[ast.Item, ast.Name]]:
        """The names that the file defines or imports, except those of targets."""
        for item in self.file.items:
            match item:
                case ast.Import(_, None, names):
                    yield from ((item, imported.visible) for imported in names)
                case ast.Import(_, prefix) if prefix is not None:
                    yield item, prefix
                case ast.Let(name) | ast.Predicate(name) | ast.Pattern(name) | ast.Rule(name):
                    yield item, name

    def tests(
        self, scope: RuleScope, specs: Mapping[str, FusionSpec], targets: frozenset[str]
    ) -> "tuple[SpecTest, ...]":
        written = [item for item in self.file.items if isinstance(item, ast.Test)]
        if not written:
            return ()
        from collage_dsl.language.resolve.spec_tests import check_test  # few files need it

        self.check_test_names(written)
        whole = [test for test in written if self.is_whole(test.span)]
        checked = (check_test(test, scope, specs, targets, self.findings) for test in whole)
        return tuple(test for test in checked if test is not None)

    def check_test_names(self, written: Sequence[ast.Test]) -> None:
        first: dict[str, Span] = {}
        for test in written:
            if (before := first.setdefault(test.name, test.name_span)) is not test.name_span:
                note = Note("the first test", before)
                message = f"another test is named {test.name_span.text}, so results are ambiguous"
                hint = "say in the name what is different about this test"
                self.findings.warning("W0705", test.name_span, message, hint, (note,))

    def check_names(self, items: Sequence[tuple[ast.Item, ast.Name]]) -> None:
        first: dict[str, Span] = {}
        for item, name in items:
            if not isinstance(item, ast.Target) and (why := reserved(name.text)):
                self.findings.error("E0208", name.span, why)
            elif _can_be_called(item) and name.text in operators():
                message = f"`{name.text}` is already an operator"
                self.findings.error("E0208", name.span, message, "choose another name")
            elif isinstance(item, ast.Predicate) and is_function(name.text):
                message = f"`{name.text}` is already a function of conditions"
                self.findings.error("E0208", name.span, message, "choose another name")
            elif isinstance(item, ast.Import) and item.prefix and name.text in _namespaces():
                message = f"`{name.text}` is already the prefix of operators"
                self.findings.error("E0208", name.span, message, "choose another prefix")
            if name.text in first:
                note = Note("the first definition", first[name.text])
                message = f"`{name.text}` is defined twice"
                hint = "rename one of them; for an import, write `as` and another name"
                self.findings.error("E0202", name.span, message, hint, (note,))
            first.setdefault(name.text, name.span)

    def patterns(
        self,
        written: list[ast.Pattern],
        lets: list[ast.Let],
        predicates: list[ast.Predicate],
        imported: Exports,
    ) -> PatternScope:
        """The scope in which every pattern and every class of operators has been checked."""

        def check_one(pattern: ast.Pattern) -> Pattern | None:
            broken = frozenset(broken.name for broken in self.inside(pattern.span))
            return check_pattern(pattern, broken, scope, self.findings)

        named = {pattern.name.text: pattern for pattern in reversed(written)}
        classes = {let.name.text: let for let in reversed(lets)}
        scope = PatternScope(named, classes, self.broken, self.findings, check_one)
        scope.depths.update(imported.depths)
        scope.sizes.update(imported.sizes)
        scope.refused = imported.refused
        scope.defined = sorts_of(self.file, imported.definitions)
        for name, definition in imported.definitions.items():
            if isinstance(definition, Pattern) and name not in named:
                scope.checked[name] = definition
            elif isinstance(definition, tuple) and name not in classes:
                scope.known[name] = definition
            elif isinstance(definition, Predicate):
                scope.predicates[name] = definition
        for broken in self.file.broken:
            if broken.span.text.startswith("extern") and broken.name != "extern":
                scope.predicates[broken.name] = None
        for predicate in reversed(predicates):
            checked = check_predicate(predicate, self.findings)
            scope.predicates[predicate.name.text] = checked
        for let in lets:
            scope.class_of(let.name)
        for pattern in written:
            if named[pattern.name.text] is pattern:
                scope.pattern(pattern.name)
            else:
                check_one(pattern)
        scope.uses -= {("", name) for name in (*named, *classes)}
        return scope

    def is_whole(self, span: Span) -> bool:
        return not self.inside(span)

    def inside(self, span: Span) -> list[ast.Broken]:
        """The statements inside `span` that have syntax errors."""
        first = bisect_left(self.broken_inside, span.start, key=_start)
        return self.broken_inside[first : bisect_right(self.broken_inside, span.end, key=_start)]

    def check_use(self, items: Sequence[_Named], used: set[str]) -> None:
        if self.file.broken or self.findings.errors:
            return
        for item in items:
            if item.name.text not in used:
                message = f"no target uses {_what(item)} `{item.name.text}`"
                self.findings.warning("W0405", item.name.span, message)

    def check_shared_results(self, patterns: Sequence[ast.Pattern]) -> None:
        """Report `shared` on the results of patterns that no other pattern calls."""
        called = {used for _, used in self.inner.uses}
        if not self.file.broken and not self.findings.errors:
            for pattern in patterns:
                if pattern.name.text not in called:
                    check_shared_results(pattern, self.findings)


def _can_be_called(item: ast.Item) -> bool:
    """Whether a pattern can call what `item` defines, in the way it calls an operator."""
    is_table = isinstance(item, ast.Import) and item.is_table
    return is_table or isinstance(item, ast.Let | ast.Pattern)


def _what(item: _Named) -> str:
    match item:
        case ast.Let():
            return "class"
        case ast.Predicate():
            return "predicate"
        case ast.Pattern():
            return "pattern"
        case ast.Rule():
            return "rule"


def _with_used(names: set[str], uses: set[tuple[str, str]]) -> set[str]:
    """`names`, and everything that they use directly or indirectly."""
    by: defaultdict[str, list[str]] = defaultdict(list)
    for user, used in sorted(uses):
        by[user].append(used)
    found, waiting = set(names), list(names)
    while waiting:
        new = [name for name in by[waiting.pop()] if name not in found]
        found.update(new)
        waiting += new
    return found


def _names_of(item: ast.Import) -> frozenset[str]:
    """The names that an import would make visible; with a prefix, only those used in the file."""
    if item.prefix is None:
        return frozenset(imported.visible.text for imported in item.names)
    text = item.span.source.text
    return frozenset(re.findall(rf"(?<![\w.]){item.prefix.text}\.[\w.]+", text))


@cache
def _namespaces() -> frozenset[str]:
    return frozenset(name.split(".")[0] for name in operators() if "." in name)


def _start(broken: ast.Broken) -> int:
    return broken.span.start
