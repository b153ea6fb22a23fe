"""Check the syntax of a pattern and build the `Pattern` of `rules` from it."""

from dataclasses import replace

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.advice import (
    sort_meant,
)
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.reasoning.findings.examination import examine
from collage_dsl.language.reasoning.findings.forms_in_relax import check_forms
from collage_dsl.language.reasoning.findings.tuples import check_tuples
from collage_dsl.language.reasoning.findings.used_results import check_used_results
from collage_dsl.language.reasoning.operators.attribute_values import check_values
from collage_dsl.language.reasoning.patterns.absence import can_hold, needed_names
from collage_dsl.language.reasoning.patterns.pattern_shape import always_there
from collage_dsl.language.resolve.conditions import Checker
from collage_dsl.language.resolve.excluded import excluded_sources
from collage_dsl.language.resolve.name_uses import check_size, check_uses
from collage_dsl.language.resolve.operands import OperandChecker
from collage_dsl.language.resolve.pattern_names import Names
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.resolve.scope import (
    PatternScope,
)
from collage_dsl.language.resolve.value_scope import ValueScope
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import Where
from collage_dsl.rules.pattern import (
    ANY,
    OPEN,
    Binding,
    Call,
    Either,
    Flat,
    Operand,
    Parameter,
    Pattern,
)
from collage_dsl.source import Span


def check_pattern(
    written: ast.Pattern, broken: frozenset[str], scope: PatternScope, findings: Findings
) -> Pattern | None:
    """
    The pattern of `written`; None after reporting what is wrong in it.

    Names in `broken` have definitions with syntax errors, so their uses are not reported.
    """
    return _PatternChecker(written, broken, scope, findings).run()


class _PatternChecker:
    def __init__(
        self,
        written: ast.Pattern,
        broken: frozenset[str],
        scope: PatternScope,
        findings: Findings,
    ) -> None:
        self.written = written
        self.scope = scope
        self.findings = findings
        everything = (
            *(parameter.name.text for parameter in written.parameters),
            *(s.name.text for s in written.statements if isinstance(s, ast.Binding)),
        )
        self.names = Names(broken, frozenset(everything), findings)
        self.values = ValueScope(self.names, scope, findings)
        self.operands = OperandChecker(self.names, self.values, scope, findings)
        self.others: list[ast.Name] = []
        self.demands: list[Where] = []
        self.asked: list[tuple[Where, set[str]]] = []
        """The conditions, each with the bindings whose facts it uses without asking `has`."""

    def run(self) -> Pattern | None:
        errors = self.findings.errors
        for parameter in self.written.parameters:
            self.parameter(parameter)
        for statement in self.written.statements:
            if isinstance(statement, ast.Binding):
                self.binding(statement)
        checked = [
            (statement, self.where(statement))
            for statement in self.written.statements
            if isinstance(statement, ast.Where)
        ]
        result = self.result()
        if self.findings.errors > errors or result is None:
            return None
        if self.names.broken & self.names.everything:
            return None
        if self.names.everything - {
            *self.names.parameters,
            *self.names.bindings,
        }:  # they use broken definitions
            return None
        self.demands += self.demands_of_lists(result)
        pattern = Pattern(
            self.written.name.text,
            tuple(self.names.parameters.values()),
            tuple(self.names.bindings.values()),
            result.text,
            (*self.demands, *(where for _, where in checked if where)),
            tuple(name.text for name in self.others),
            self.taps(),
            self.anchor(),
            self.written.name.span,
        )
        said = self.findings.count
        if check_size(pattern, self.names, self.scope, self.findings):
            self.check_uses(result)
            check_tuples(pattern, self.written, self.scope.sorts, self.findings)
        if self.findings.errors == errors:
            told = self.demands, self.findings, self.scope.effort
            examine(pattern, self.written, result.span, *told)
        if self.findings.errors == errors:
            check_forms(pattern, self.findings)
            if self.findings.count == said:
                check_used_results(pattern, self.findings)
        return pattern if self.findings.errors == errors else None

    def parameter(self, written: ast.Parameter) -> None:
        tag = written.tag
        excluded = None
        if isinstance(tag, ast.Excluded):
            excluded = excluded_sources(tag, self.scope, self.findings)
        if isinstance(tag, ast.Name) and tag.text != "const":
            message = f"unknown sort of parameter `{tag.text}`"
            dims = "" if written.dims is None else written.dims.span.text
            hint = sort_meant(tag.text, written.name.text, dims)
            last = written.dims or tag
            whole = Span(tag.span.source, written.name.span.start, last.span.end)
            self.findings.error("E0206", tag.span, message, hint, place=whole)
        is_known = excluded is not None or not isinstance(tag, ast.Excluded)
        if self.names.define(written.name) and is_known:
            name, constant = written.name.text, isinstance(tag, ast.Name)
            optional, span = written.optional, written.name.span
            self.names.parameters[name] = Parameter(name, constant, optional, excluded, span)
            if written.dims is not None:
                self.dims(self.names.parameters[name], written.dims)

    def dims(self, parameter: Parameter, written: ast.Dims) -> None:
        """Add the conditions of named dimensions: the rank, and equal sizes for equal names."""
        names = [dim for dim in written.items if isinstance(dim, ast.Name)]
        said = [d.text if isinstance(d, ast.Name) else int(d.value) for d in written.items]
        for second in [name for name in names if name.text == OPEN][1:]:
            message = "only one `..` is allowed: with two, it is unclear which dimensions are meant"
            hint = "write `_` for each dimension of any size"
            self.findings.error("E0301", second.span, message, hint)
            said[written.items.index(second)] = ANY
        for name in names:
            if name.text not in (ANY, OPEN, *self.names.dimensions.places) and (
                why := reserved(name.text)
            ):
                self.findings.error("E0208", name.span, why)
        for axis, where in self.names.dimensions.demands(parameter, said):
            span = written.span if axis is None else written.items[axis].span
            self.demands.append(replace(where, span=span))

    def binding(self, written: ast.Binding) -> None:
        self.names.current = written
        value = self.value(written)
        if self.names.define(written.name) and value is not None:
            self.names.bindings[written.name.text] = Binding(written.name.text, value)
            if self.names.is_result_of(value):
                self.names.computed.add(written.name.text)

    def value(self, written: ast.Binding) -> Operand | None:
        if isinstance(written.value, ast.ListOf):
            return self.operands.list_of(written.value, written.name.text)
        return self.operands.operand(written.value)

    def demands_of_lists(self, result: ast.Name) -> list[Where]:
        """The conditions on the items of lists, which depend on what is always there."""
        names = self.names
        results = (result.text, *(other.text for other in self.others))
        always = always_there(names.parameters.values(), names.bindings.values(), results)
        return list(names.dimensions.demands_of_lists(always))

    def result(self) -> ast.Name | None:
        yields = [s for s in self.written.statements if isinstance(s, ast.Yield)]
        if not yields:
            if not self.names.broken:
                message = f"pattern `{self.written.name.text}` has no `yield`"
                bound = [s.name.text for s in self.written.statements if isinstance(s, ast.Binding)]
                hint = f"end with `yield {bound[-1] if bound else 'y'};`"
                self.findings.error("E0304", self.written.name.span, message, hint)
            return None
        if len(yields) > 1:
            message = "a pattern has only one `yield`"
            note = Note("yielded here first", yields[0].span)
            hint = "write `yield y, z;`"
            self.findings.error("E0304", yields[1].span, message, hint, notes=(note,))
            return None
        known = [self.is_result(name) for name in yields[0].names]
        first, *self.others = yields[0].names
        twice = [name for at, name in enumerate(self.others) if name.text in _texts(yields[0], at)]
        for name in twice:
            message = f"`{name.text}` is yielded twice"
            self.findings.error("E0304", name.span, message, "remove one of them")
        return first if all(known) and not twice else None

    def is_result(self, name: ast.Name) -> bool:
        if name.text in self.names.parameters:
            message = f"`{name.text}` is a parameter, so this pattern has no operator in it"
            hint = "yield what an operator gives"
            self.findings.error("E0301", name.span, message, hint)
            return False
        return self.names.is_known(name)

    def taps(self) -> bool:
        """Whether the pattern allows inner values to be used outside."""
        said = [s.value for s in self.written.statements if isinstance(s, ast.Taps)]
        for value in said:
            if value.text not in ("none", "allowed"):
                message = "`taps` must be `allowed` or `none`"
                hint = did_you_mean(value.text, ("none", "allowed"))
                self.findings.error("E0404", value.span, message, hint)
        for value in said[1:]:
            self.findings.error("E0502", value.span, "`taps` are given twice", "remove one of them")
        if said and said[0].text == "none":
            self.check_shared(said[0])
        return bool(said) and said[0].text == "allowed"

    def check_shared(self, none: ast.Name) -> None:
        """Report `taps none` beside a call that is `shared`."""
        for call in self.names.calls():
            if call.shared and call.span is not None:
                message = "`taps none` contradicts `shared` after a call"
                note = Note("shared here", call.span)
                self.findings.error("E0502", none.span, message, "remove `taps none;`", (note,))
                return

    def anchor(self) -> str:
        """The name of the anchor operator; empty if none is given."""
        said = [s.name for s in self.written.statements if isinstance(s, ast.Anchor)]
        for name in said[1:]:
            self.findings.error(
                "E0502", name.span, "the anchor is given twice", "remove one of them"
            )
        if not said or not self.names.is_known(said[0]):
            return ""
        binding = self.names.bindings.get(said[0].text)
        if binding is None or not _is_operator(binding.value):
            self.no_anchor(said[0])
        return said[0].text

    def no_anchor(self, name: ast.Name) -> None:
        message = f"`{name.text}` is not the call of an operator in every match"
        hint = "the anchor is a value such as `k` in `k = nn.conv2d(x, w);`"
        self.findings.error("E0310", name.span, message, hint)

    def where(self, written: ast.Where) -> Where | None:
        checker = Checker(self.findings, self.values)
        where = checker.condition(written.condition, written.reason)
        if where:
            check_values(where, self.names.owners, self.findings)
            asked = checker.asked - checker.has
            self.asked.append((where, asked))
        return where

    def check_uses(self, result: ast.Name) -> None:
        """Report names that are there always or never, where the other is needed."""
        always = check_uses(self.names, result, self.others, self.scope.sizes)
        for asked in self.values.asked_has:
            if asked.text in always:
                self.values.always_there(asked)
        anchors = [s.name for s in self.written.statements if isinstance(s, ast.Anchor)]
        for anchor in anchors:
            if anchor.text in self.names.bindings and anchor.text not in always:
                self.no_anchor(anchor)
        needed = needed_names(where.condition for where, _ in self.asked)
        for where, names in self.asked:
            others = names - needed
            self.check_absence(where, {name for name in others if self.names.is_optional(name)})
            self.check_absence(where, (others & set(self.names.bindings)) - always)

    def check_absence(self, where: Where, names: set[str]) -> None:
        """Report a condition that cannot hold if one of the optional `names` is not bound."""
        for name in sorted(names):
            if where.span and not can_hold(where.condition, name):
                message = f"without `{name}` this condition is unknown,"
                hint = f"write `not has({name}) or …` to match without it"
                message += " so the pattern does not match"
                self.findings.warning("W0307", where.span, message, hint)
                return


def _texts(written: ast.Yield, end: int) -> set[str]:
    return {name.text for name in written.names[: end + 1]}


def _is_operator(operand: Operand) -> bool:
    """Whether `operand` is an operator call in this pattern, however it matches."""
    match operand:
        case Call(optional=optional):
            return not optional
        case Flat():
            return True
        case Either(choices):
            return all(map(_is_operator, choices))
        case _:
            return False
