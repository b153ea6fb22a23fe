"""The names of a pattern as far as it has been read, and what each stands for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, there_are
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.reasoning.pattern_shape import calls
from collage_dsl.language.resolve.dimensions import Dimensions
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    ListOf,
    Operand,
    Parameter,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.source import Span

ANY_NAME = ""
"""The name of a broken statement that may define any name."""


@dataclass(slots=True)
class Names:
    """
    The parameters and bindings of a pattern.

    Names in `broken` have definitions with syntax errors, so their uses are not reported;
    `everything` has the names that are defined anywhere in the pattern.
    """

    broken: frozenset[str]
    everything: frozenset[str]
    findings: Findings
    parameters: dict[str, Parameter] = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)
    """The bindings that never stand for an unchanged parameter."""
    defined: dict[str, Span] = field(default_factory=dict)
    dimensions: Dimensions = field(default_factory=Dimensions)

    def define(self, name: ast.Name) -> bool:
        if why := reserved(name.text):
            self.findings.error("E0208", name.span, why)
        if name.text in self.defined:
            message = f"`{name.text}` is defined twice in this pattern"
            note = Note("the first definition", self.defined[name.text])
            self.findings.error("E0202", name.span, message, notes=(note,))
            return False
        self.defined[name.text] = name.span
        return True

    def free(self, wish: str) -> str:
        """`wish`, or with a number if something has that name already."""
        name, number = wish, 1
        while name in self.everything or name in self.defined or reserved(name):
            number += 1
            name = f"{wish}_{number}"
        return name

    def is_known(self, name: ast.Name) -> bool:
        if name.text in self.defined:
            return True
        if name.text in self.broken or ANY_NAME in self.broken:
            return False
        if name.text in self.everything:
            message = f"`{name.text}` is used before it is defined"
            self.findings.error("E0206", name.span, message)
        elif self.dimensions.place(name.text):
            message = f"`{name.text}` is a dimension, not a value"
            hint = "a number of the model is a constant: `c: const`, and `where value(c) == …`"
            self.findings.error("E0306", name.span, message, hint)
        elif name.text == "const":
            message = "`const` is not a value"
            hint = "a constant is a parameter: `c: const`; a number is written alone: `1.0`"
            self.findings.error("E0206", name.span, message, hint)
        else:
            hint = did_you_mean(name.text, self.defined) or there_are(self.defined)
            self.findings.error("E0206", name.span, f"unknown name `{name.text}`", hint)
        return False

    def is_optional(self, name: str) -> bool:
        return name in self.parameters and self.parameters[name].optional

    def is_computed(self, operand: Operand) -> bool:
        """Whether `operand` matches only computed values and constants."""
        match operand:
            case Reference(name) if name in self.parameters:
                return self.parameters[name].constant
            case Reference(name) if name in self.bindings:
                return not isinstance(self.bindings[name].value, ListOf)
            case Reference() | Call() | PatternCall() | FieldOf() | Repeat():
                return True
            case TupleOf() | TupleOfEach() | PathFrom() | Flat():
                return True
            case Either(choices):
                return all(map(self.is_computed, choices))
            case _:
                return False

    def is_result_of(self, operand: Operand) -> bool:
        """Whether `operand` is the result of an operator, however it matches."""
        match operand:
            case Reference(name):
                return name in self.computed
            case Call(optional=optional):
                return not optional
            case TupleOf() | TupleOfEach() | FieldOf() | Flat():
                return True
            case Repeat(Call(), least) | PathFrom(least=least):
                return least > 0
            case Either(choices):
                return all(map(self.is_result_of, choices))
            case _:
                return False

    def call_of(self, name: str) -> Call | None:
        """The call that the value `name` is in every match; None if it need not be a call."""
        binding = self.bindings.get(name)
        while binding is not None and isinstance(binding.value, Reference):
            binding = self.bindings.get(binding.value.name)
        call = binding and binding.value
        return call if isinstance(call, Call) and not call.optional else None

    def calls(self) -> Iterator[Call]:
        for binding in self.bindings.values():
            yield from calls(binding.value)
