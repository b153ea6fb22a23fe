"""The names of a pattern as far as it has been read, and what each stands for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from collage_dsl.diagnostics import Note
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.findings import Findings, there_are
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.reasoning.patterns.always import operators_at
from collage_dsl.language.reasoning.patterns.pattern_shape import calls
from collage_dsl.language.resolve.dimensions import Dimensions
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import Attr, AttrOf
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
from collage_dsl.rules.written import excluded_text
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
    reported: set[str] = field(default_factory=set)
    """Unknown names, each of which is reported once."""
    current: ast.Binding | None = None
    """The equation that is being read."""

    def define(self, name: ast.Name) -> bool:
        if why := reserved(name.text):
            self.findings.error("E0208", name.span, why)
        if name.text in self.defined:
            message = f"`{name.text}` is defined twice in this pattern"
            note = Note("the first definition", self.defined[name.text])
            self.findings.error("E0202", name.span, message, "give it another name", (note,))
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

    def name_of(self, call: ast.OperatorCall) -> tuple[str, bool]:
        """The name of the value of a call, or one that it could get, and whether it has it."""
        if self.current is not None and self.current.value is call:
            return self.current.name.text, True
        return self.free("k"), False

    def is_known(self, name: ast.Name, advice: str = "") -> bool:
        """Whether there is such a value; else reports it with `advice`, if no name is similar."""
        if name.text in self.defined:
            return True
        if name.text in self.broken or ANY_NAME in self.broken or name.text in self.reported:
            return False
        self.reported.add(name.text)
        if name.text in self.everything:
            message = f"`{name.text}` is used before it is defined"
            hint = f"write the statement of `{name.text}` above this one"
            self.findings.error("E0206", name.span, message, hint)
        elif self.dimensions.place(name.text):
            message = f"`{name.text}` is a dimension, not a value"
            constant = "a number of the model is a constant: `c: const`, and `where value(c) == …`"
            hint = advice or constant
            self.findings.error("E0306", name.span, message, hint)
        elif name.text == "const":
            message = "`const` is not a value"
            hint = "a constant is a parameter: `c: const`; a number is written alone: `1.0`"
            self.findings.error("E0206", name.span, message, hint)
        else:
            hint = did_you_mean(name.text, self.defined) or advice or there_are(self.defined)
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
            case PatternCall():
                return bool(operators_at(operand, self.bindings))
            case _:
                return False

    def is_no_constant(self, operand: Operand) -> str:
        """Why `operand` is never a constant; empty if it may be one."""
        if self.is_result_of(operand):
            return "this is computed"
        match operand:
            case Reference(name) if name in self.parameters:
                excluded = self.parameters[name].excluded
                if excluded is not None and excluded.constants:
                    return f"`{name}: {excluded_text(excluded)}` is none"
        return ""

    def operators_of(self, name: str) -> tuple[str, ...]:
        """
        The operators of one of which the value `name` is a call in every match; empty if it may be
        something else.
        """
        return operators_at(Reference(name), self.bindings)

    def owners(self, attribute: Attr | AttrOf) -> tuple[Operator, ...]:
        """The operators of one of which `k` of `k.strides` is a call; empty if not known."""
        of = attribute.of if isinstance(attribute, AttrOf) else ""
        return tuple(operators()[name] for name in self.operators_of(of))

    def calls(self) -> Iterator[Call]:
        for binding in self.bindings.values():
            yield from calls(binding.value)
