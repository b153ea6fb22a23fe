"""Check the syntax of a rule and build the `FusionRule` from it."""

from collections.abc import Iterable, Mapping
from typing import Any

from collage_dsl.language.messages.findings import count
from collage_dsl.language.messages.hints import Hint, did_you_mean, not_imported
from collage_dsl.language.resolve.arguments import bind
from collage_dsl.language.resolve.other_sorts import is_other_sort
from collage_dsl.language.resolve.rule_arguments import WRONG, ArgumentReader
from collage_dsl.language.resolve.rule_effects import check_rule
from collage_dsl.language.resolve.rule_names import CheckedRule, RuleNames, refuse_parametric
from collage_dsl.language.resolve.substitution import substituted
from collage_dsl.language.syntax import aliases, ast
from collage_dsl.rules import FusionRule, OnlyVariants
from collage_dsl.rules.rule_functions import RULES, Argument, RuleFunction, Sort
from collage_dsl.source import Span

MAX_DEPTH = 200
"""How deep rules may be nested, because walking them is recursive. A use of a name counts twice."""

MAX_SIZE = 10_000
"""How many parts a rule may have with its names written out; reused names make it grow fast."""


class RuleScope(RuleNames):
    """The patterns and rules of a file by name. A rule is checked when it is first used."""

    __slots__ = ()

    def rule(self, written: ast.Expression) -> FusionRule | None:
        """The rule of `written`; None after reporting what is wrong in it."""
        return _Expression(self).rule(written, 0).rule

    def named(self, name: ast.Name, depth: int) -> CheckedRule:
        """The rule of that name."""
        self.used.add(name.text)
        if name.text in self.active:
            self.recursion(name)
            return CheckedRule(None, 0, 0)
        if name.text not in self.checked:
            self.active.append(name.text)
            written = self.rules[name.text].value
            self.checked[name.text] = _Expression(self).rule(written, depth)
            self.active.pop()
        return self.checked[name.text]


def _of_table(name: str, known: Iterable[str]) -> str:
    """A hint for the prefix of an import that is written in place of a rule of it."""
    of_prefix = [each for each in known if each.startswith(f"{name}.")]
    return f"write `{of_prefix[0]}`" if of_prefix else ""


def _ours(name: str) -> str:
    return aliases.RULES.get(name, name)


class _Expression:
    """Checks an expression that stands for a rule."""

    def __init__(self, scope: RuleScope) -> None:
        self.scope = scope
        self.findings = scope.findings
        self.reader = ArgumentReader(scope)
        self.depth = 0
        self.deepest = 0
        self.size = 0
        self.is_too_large = False

    def rule(self, written: ast.Expression, depth: int) -> CheckedRule:
        """The rule of `written`; `depth` is the depth of the rules around it."""
        self.depth = depth
        self.deepest = depth
        found = self.part(written)
        return CheckedRule(found, self.deepest - depth, self.size)

    def part(self, written: ast.Expression) -> FusionRule | None:
        self.size += 1
        self.depth += 1
        self.deepest = max(self.depth, self.deepest)
        found: FusionRule | None = None
        if self.depth > MAX_DEPTH:
            self.too_deep(written.span)
        elif isinstance(written, ast.Name):
            found = self.name(written)
        elif not isinstance(written, ast.Application):
            hint = (
                "join rules with `union(a, b)`"
                if isinstance(written, ast.List | ast.Operation)
                else ""
            )
            self.findings.error("E0404", written.span, "a rule is needed here", hint)
        elif self.size > MAX_SIZE:
            self.too_large(written.span)
        elif written.function.text in self.scope.rules:
            found = self.applied(written)
        elif (function := _ours(written.function.text)) not in RULES:
            self.unknown_function(written.function)
        else:
            found = self.function(RULES[function], written)
        self.depth -= 1
        return found

    def applied(self, written: ast.Application) -> FusionRule | None:
        """The body of a rule with parameters, with the arguments put in."""
        scope, name = self.scope, written.function
        rule = scope.rules[name.text]
        if not rule.parameters:
            self.unknown_function(name)
            return None
        scope.used.add(name.text)
        if name.text in scope.active:
            scope.recursion(name)
            return None
        wanted = len(rule.parameters)
        if self.has_named(written, [parameter.text for parameter in rule.parameters]):
            return None
        if len(written.arguments) != wanted:
            message = f"`{name.text}` takes {count(wanted, 'argument')}"
            message += f", not {len(written.arguments)}"
            wanted_names = ", ".join(parameter.text for parameter in rule.parameters)
            self.findings.error(
                "E0403", written.span, message, f"write `{name.text}({wanted_names})`"
            )
            return None
        bound = bind(written, self.findings, (wanted, wanted))
        if bound is None:
            return None
        names = (parameter.text for parameter in rule.parameters)
        body = substituted(rule.value, dict(zip(names, bound[0], strict=True)))
        scope.active.append(name.text)
        found = self.part(body)
        scope.active.pop()
        return found

    def has_named(self, written: ast.Application, parameters: list[str]) -> bool:
        """Whether an argument of a rule with parameters has a name, which is reported."""
        first = next((a.name for a in written.arguments if a.name is not None), None)
        if first is None:
            return False
        plain = [a.value.span.text for a in written.arguments if a.name is None]
        named = {a.name.text: a.value.span.text for a in written.arguments if a.name}
        said = dict(zip(parameters, plain, strict=False)) | named
        function = written.function.text
        whole = sorted(said) == sorted(parameters) and len(written.arguments) == len(parameters)
        values = [said[name] for name in parameters] if whole else parameters
        text = f"{function}({', '.join(values)})"
        hint = Hint(f"write `{text}`", text if whole else None)
        message = f"the arguments of `{function}` are told apart by their order, not by names"
        place = written.span
        self.findings.error("E0402", first.span, message, hint, place=place)
        return True

    def too_large(self, span: Span) -> None:
        if not self.is_too_large:
            message = f"this rule has more than {MAX_SIZE} parts when its names are written out"
            self.findings.error("E0406", span, message)
        self.is_too_large = True

    def too_deep(self, span: Span) -> None:
        message = f"rules are nested more than {MAX_DEPTH} deep here"
        self.findings.error("E0105", span, message)

    def name(self, name: ast.Name) -> FusionRule | None:
        scope = self.scope
        if name.text in scope.rules and scope.rules[name.text].parameters:
            message = f"`{name.text}` needs arguments"
            self.findings.error("E0404", name.span, message, f"write `{name.text}(…)`")
            return None
        if scope.is_rule(name.text):
            checked = scope.named(name, self.depth + 1)
            found = checked.rule
            self.deepest = max(self.deepest, self.depth + 1 + checked.depth)
            self.size += checked.size
            if self.deepest > MAX_DEPTH and found:
                self.too_deep(name.span)
                return None
            if self.size > MAX_SIZE and found:
                message = f"this rule has more than {MAX_SIZE} parts when its names are written out"
                self.findings.error("E0406", name.span, message)
                self.size = 0
                return None
            return found
        if name.text in scope.patterns:
            self.is_other_sort(name)
        elif _ours(name.text) in RULES:
            message = f"`{name.text}` needs parentheses"
            self.findings.error("E0404", name.span, message, f"write `{name.text}(…)`")
        elif name.text in scope.parametric:
            refuse_parametric(name, self.findings)
        elif name.text not in scope.broken and not self.is_other_sort(name):
            hint = _of_table(name.text, scope.checked)
            hint = hint or did_you_mean(name.text, (*scope.rules, *scope.checked))
            hint = hint or not_imported(name.text, scope.checked)
            self.findings.error("E0206", name.span, f"no rule is named `{name.text}`", hint)
        return None

    def is_other_sort(self, name: ast.Name) -> bool:
        return is_other_sort(name, "a rule", self.scope.values.defined, self.findings)

    def unknown_function(self, name: ast.Name) -> None:
        if name.text in self.scope.parametric:
            refuse_parametric(name, self.findings)
        elif self.scope.is_rule(name.text):
            hint: str = f"rename it: it hides the rule `{name.text}` of the language"
            if _ours(name.text) not in RULES:
                similar = did_you_mean(name.text, RULES)
                hint = similar or f"write `{name.text}` without parentheses"
            message = f"`{name.text}` is a rule without parameters"
            self.findings.error("E0401", name.span, message, hint)
        elif name.text not in self.scope.broken and not self.is_other_sort(name):
            rules = self.scope.rules
            known = (*RULES, *(each for each in rules if rules[each].parameters))
            hint = did_you_mean(name.text, known)
            self.findings.error("E0401", name.span, f"unknown rule `{name.text}`", hint)

    def function(self, function: RuleFunction, written: ast.Application) -> FusionRule | None:
        """The rule that a function of the table makes of its arguments."""
        takes, keywords = function.takes, function.keywords
        bound = bind(written, self.findings, takes, keywords, function.call)
        if bound is None:
            return None
        plain, named = bound
        if not self.in_order(function, plain):
            return None
        values: dict[str, Any] = {}
        for argument in function.arguments:
            said = _said(function, argument, plain, named)
            if argument.sort is Sort.LIMITS:
                values[argument.name] = self.reader.limits(named)
            elif said and argument.sort is Sort.RULE:
                values[argument.name] = self.rules(argument, said)
            elif said:
                values[argument.name] = self.reader.value(argument, said, written)
            elif argument.usual:
                self.missing(argument, plain, written)
                values[argument.name] = WRONG
        if any(value is WRONG for value in values.values()):
            return None
        if function.made is None:
            return values["rule"]  # type: ignore[no-any-return]
        found: FusionRule = function.made(**values)
        if isinstance(found, OnlyVariants) and isinstance(plain[1], ast.List):
            self.scope.lists.setdefault(found, plain[1].items[0].span)
        check_rule(found, written, plain, named, self.findings)
        return found

    def rules(self, argument: Argument, written: tuple[ast.Expression, ...]) -> Any:
        """The rules that an argument consists of; `WRONG` if one of them is wrong."""
        found = []
        for each in written:  # no comprehension: rules nest deep, and each call counts
            found.append(self.part(each))
        if None in found:
            return WRONG
        return tuple(found) if argument.many else found[0]

    def in_order(self, function: RuleFunction, plain: tuple[ast.Expression, ...]) -> bool:
        """Whether the label of a composite comes first; False after reporting that it does not."""
        if [argument.sort for argument in function.plain] != [Sort.LABEL, Sort.RULE]:
            return True
        label, rule = plain
        if isinstance(label, ast.Literal) or not isinstance(rule, ast.Literal):
            return True
        hint = f'write `{function.name}("label", rule)`'
        self.findings.error("E0404", rule.span, "the label must come first", hint)
        return False

    def missing(
        self, argument: Argument, plain: tuple[ast.Expression, ...], written: ast.Application
    ) -> None:
        message = f"`{written.function.text}` needs the argument `{argument.name}`"
        text = f"{argument.name}: {argument.usual}"
        end = plain[-1].span.end
        after = Span(written.span.source, end, end)
        hint = Hint(f"add `{text}`", f", {text}")
        self.findings.error("E0403", written.span, message, hint, place=after)


def _said(
    function: RuleFunction,
    argument: Argument,
    plain: tuple[ast.Expression, ...],
    named: Mapping[str, ast.Expression],
) -> tuple[ast.Expression, ...]:
    """What is written for `argument`; empty if it is absent."""
    if argument.is_named:
        return (named[argument.name],) if argument.name in named else ()
    at = function.plain.index(argument)
    return plain[at:] if argument.many else plain[at : at + 1]
