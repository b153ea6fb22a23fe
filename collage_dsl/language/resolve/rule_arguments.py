"""Read the arguments of a rule, each as its sort says."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from re import ASCII, fullmatch
from typing import Any, assert_never

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import KINDS
from collage_dsl.language.messages.advice import kind_meant
from collage_dsl.language.messages.findings import Findings, count, listed, there_are
from collage_dsl.language.messages.hints import Hint, did_you_mean, not_imported, write
from collage_dsl.language.reasoning.findings.forms_in_relax import check_listed
from collage_dsl.language.reasoning.findings.list_items import check_names_twice
from collage_dsl.language.reasoning.operators.calls import refuse
from collage_dsl.language.resolve.arguments import string, whole_number
from collage_dsl.language.resolve.compilers import check_compiler
from collage_dsl.language.resolve.limits import check_limits
from collage_dsl.language.resolve.needless_primitives import check_needless
from collage_dsl.language.resolve.other_sorts import is_other_sort
from collage_dsl.language.resolve.rule_names import RuleNames
from collage_dsl.language.resolve.variants import variant_names
from collage_dsl.language.syntax import ast
from collage_dsl.rules import TVM_DEFAULT, KindPair, Pattern, Primitive
from collage_dsl.rules.predicate import BACKEND, Predicate
from collage_dsl.rules.rule_functions import (
    KIND_PAIR,
    PRIMITIVE_NAMES,
    PRIMITIVES,
    RULES,
    Argument,
    Choice,
    Sort,
    WholeNumber,
)

_SUPPORTS = r"[A-Za-z_][\w-]*\.supports"
"""A question to a backend: its name as in `compiler`, then `.supports`."""


class _Wrong(Enum):
    WRONG = "wrong"


WRONG = _Wrong.WRONG
"""What is read of an argument after reporting what is wrong in it. None can be a value."""


@dataclass(frozen=True, slots=True)
class ArgumentReader:
    """Reads the arguments that are no rules themselves."""

    names: RuleNames

    @property
    def findings(self) -> Findings:
        return self.names.findings

    def value(
        self, argument: Argument, written: tuple[ast.Expression, ...], call: ast.Application
    ) -> Any:
        """The value of an argument of `call`; `WRONG` after reporting what is wrong in it."""
        found = tuple(self.one(argument, each, call) for each in written)
        if WRONG in found:
            return WRONG
        return found if argument.many else found[0]

    def one(self, argument: Argument, written: ast.Expression, call: ast.Application) -> Any:
        found: object
        match argument.sort:
            case WholeNumber(least, most):
                found = whole_number(written, f"`{argument.name}`", self.findings, least, most)
            case Choice(words):
                found = self.choice(argument.name, words, written)
            case Sort.KIND:
                found = self.kind(written)
            case Sort.KIND_OR_NONE:
                if isinstance(written, ast.Name) and written.text == "none":
                    return None
                found = self.kind(written)
            case Sort.PATTERN:
                found = self.pattern(written, call)
            case Sort.PREDICATE:
                found = self.predicate(written)
            case Sort.LABEL:
                found = self.label(written)
            case Sort.OPERATORS:
                found = self.operators(written)
            case Sort.PRIMITIVES:
                found = self.primitives(written)
            case Sort.VARIANTS:
                found = self.variants(written)
            case Sort.RULE | Sort.LIMITS | Sort.TAPS | Sort.TRUTH:
                raise AssertionError(argument)
            case _:
                assert_never(argument.sort)
        return WRONG if found is None else found

    def limits(self, written: Mapping[str, ast.Expression]) -> Any:
        """The limits among the arguments with a name; `WRONG` after reporting."""
        errors = self.findings.errors
        found = check_limits(written.items(), self.findings)
        return WRONG if self.findings.errors > errors else found

    # Each of the following returns None after reporting what is wrong.

    def choice(self, name: str, words: tuple[str, ...], written: ast.Expression) -> str | None:
        if isinstance(written, ast.Name) and written.text in words:
            return written.text
        hint = did_you_mean(written.span.text, words)
        self.findings.error("E0404", written.span, f"`{name}` must be {listed(words)}", hint)
        return None

    def label(self, written: ast.Expression) -> str | None:
        label = string(written, "the label", self.findings)
        if label:
            self.names.labels.setdefault(label, written.span)
        return label

    def pattern(self, written: ast.Expression, call: ast.Application) -> Pattern | None:
        """The pattern that the argument of `dfpattern` names."""
        names = self.names
        if not isinstance(written, ast.Name):
            hint = self.pattern_meant(written, is_asked=call.span == written.span)
            hint = hint or Hint(there_are(names.patterns))
            message = "the name of a pattern is needed here"
            self.findings.error("E0404", written.span, message, hint)
        elif written.text in names.patterns:
            names.used.add(written.text)
            return names.patterns[written.text]
        elif names.is_rule(written.text):
            message = f"`{written.text}` is a rule, but a pattern is needed here"
            hint = write(written.text, " alone")
            self.findings.error("E0209", written.span, message, hint, (), call.span)
        elif written.text in names.refused:
            refuse(written, names.refused, self.findings)
        elif written.text not in names.broken and not self.is_other_sort(written, "a pattern"):
            hint = did_you_mean(written.text, names.patterns)
            hint = hint or not_imported(written.text, names.patterns)
            hint = hint or Hint(there_are(names.patterns))
            message = f"no pattern is named `{written.text}`"
            self.findings.error("E0206", written.span, message, hint)
        return None

    def is_other_sort(self, name: ast.Name, needed: str) -> bool:
        return is_other_sort(name, needed, self.names.values.defined, self.findings)

    def pattern_meant(self, written: ast.Expression, *, is_asked: bool) -> Hint:
        """
        What to write in place of the name of a pattern in quotes, or with operands. It stands in
        `dfpattern`, unless a test asks about it.
        """
        text = ""
        match written:
            case ast.Literal(str() as text):
                pass
            case ast.Application(ast.Name(text)):
                pass
        if text not in self.names.patterns:
            return Hint("")
        return write(text, " alone") if is_asked else Hint(f"write `dfpattern({text})`", text)

    def variants(self, written: ast.Expression) -> tuple[str, ...] | None:
        if not isinstance(written, ast.List):
            message, hint = "the variants must be a list of names", "write `[direct]`"
            self.findings.error("E0404", written.span, message, hint)
            return None
        for name in written.items:
            if isinstance(name, ast.Name):
                self.names.variants.setdefault(name.text, name.span)
        return variant_names(written, is_native=False, findings=self.findings) or None

    def predicate(self, written: ast.Expression) -> Predicate | None:
        """A declared predicate by its name, or that of a backend: `"NAME.supports"`."""
        names = self.names
        match written:
            case ast.Literal(str() as text, span) if fullmatch(_SUPPORTS, text, ASCII):
                check_compiler(text.removesuffix(".supports"), span, self.findings)
                return Predicate(text, ("call",), BACKEND + text.removesuffix(".supports"))
            case ast.Literal(str() as text):
                message = "this string is not a question to a backend"
                hint: str = 'write "NAME.supports", or the name of a predicate without quotes'
                if text in names.values.predicates:
                    hint = write(text, ", without quotes")
                elif text.isidentifier():
                    hint = write(f'"{text}.supports"')
                self.findings.error("E0404", written.span, message, hint)
            case ast.Name(name) if name in names.values.predicates:
                names.used.add(name)
                predicate = names.values.predicates[name]
                if predicate is None or len(predicate.parameters) == 1:
                    return predicate
                wanted = count(len(predicate.parameters), "value")
                message = f"`{name}` takes {wanted}, but here it gets one: the result of a call"
                hint = "declare it with one parameter"
                self.findings.error("E0404", written.span, message, hint)
            case ast.Name(name):
                if name not in names.broken and not self.is_other_sort(written, "a predicate"):
                    hint = did_you_mean(name, names.values.predicates)
                    message = f"no predicate is named `{name}`"
                    self.findings.error("E0206", written.span, message, hint)
            case _:
                message = "the name of a predicate is needed here"
                self.findings.error("E0404", written.span, message)
        return None

    def operators(self, written: ast.Expression) -> tuple[str, ...] | None:
        """The names of the operators in a list of operators and classes, each once."""
        if not isinstance(written, ast.List) or not written.items:
            message = "`ops` must be a list of operators and classes"
            hint: str = "write `ops: [nn.conv2d]`, or leave `ops` out for every operator"
            if isinstance(written, ast.Name):
                hint = write(f"[{written.span.text}]")
            self.findings.error("E0404", written.span, message, hint)
            return None
        found: dict[str, None] = {}
        is_known = True
        check_names_twice(written.items, self.findings)
        for item in written.items:
            part = self.names.values.operators(ast.Argument(None, item))
            is_known &= part is not None
            found |= dict.fromkeys(operator.name for operator in part or ())
        check_listed([item for item in written.items if isinstance(item, ast.Name)], self.findings)
        return tuple(found) if is_known else None

    def kind(self, written: ast.Expression) -> Kind | None:
        if not isinstance(written, ast.Name):
            text = written.span.text.strip('"')
            hint = write(text, ", without quotes") if text in KINDS else ""
            if isinstance(written, ast.List) and written.items:
                named = ", ".join(item.span.text for item in written.items)
                hint = write(named, ", without brackets")
            hint = hint or f"the kinds are {listed(KINDS, 'and')}"
            self.findings.error("E0404", written.span, "the name of a kind is needed here", hint)
            return None
        found = KINDS.get(written.text)
        if found is None:
            meant = kind_meant(written.text) or did_you_mean(written.text, KINDS)
            hint = meant or f"the kinds are {listed(KINDS, 'and')}"
            if not meant and written.text in operators():
                hint = "calls of one operator are matched by a pattern: `dfpattern(p)`"
            self.findings.error("E0401", written.span, f"unknown kind `{written.text}`", hint)
        return found

    def primitives(self, written: ast.Expression) -> tuple[Primitive, ...] | None:
        match written:
            case ast.Name("tvm_default"):
                return TVM_DEFAULT
            case ast.List(items):
                found = [self.primitive(item) for item in items]
                if any(primitives is None for primitives in found):
                    return None
                check_needless(items, [primitives or () for primitives in found], self.findings)
                return tuple(one for primitives in found if primitives for one in primitives)
        message = "`using` must be `tvm_default` or a list of primitives"
        is_one = isinstance(written, ast.Name | ast.Application)
        hint = write(f"[{written.span.text}]") if is_one else ""
        self.findings.error("E0404", written.span, message, hint)
        return None

    def primitive(self, written: ast.Expression) -> tuple[Primitive, ...] | None:
        match written:
            case ast.Name(name) if name in PRIMITIVES:
                return PRIMITIVES[name]
            case ast.Name(name) | ast.Application(ast.Name(name)) if name != KIND_PAIR:
                hint: str = did_you_mean(name, PRIMITIVE_NAMES)
                if name in RULES:
                    hint = f"`{name}` is a rule: write `{RULES[name].call}`"
                if not hint:
                    hint = f"the primitives are {listed(PRIMITIVE_NAMES, 'and')}"
                self.findings.error("E0401", written.span, f"unknown primitive `{name}`", hint)
                return None
            case ast.Application():
                return self.kind_pair(written)
        hint = "write `kind(anchor -> broadcast)`"
        self.findings.error("E0404", written.span, "a primitive is needed here", hint)
        return None

    def kind_pair(self, written: ast.Application) -> tuple[Primitive, ...] | None:
        match written.arguments:
            case (ast.Argument(None, ast.Arrow(left, right)),):
                upstream, downstream = self.kind(left), self.kind(right)
                if upstream is None or downstream is None:
                    return None
                return (KindPair(upstream, downstream),)
        message = "`kind` takes two kinds with an arrow between them"
        self.findings.error("E0404", written.span, message, "write `kind(anchor -> broadcast)`")
        return None
