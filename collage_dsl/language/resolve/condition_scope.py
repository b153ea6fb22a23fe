"""What the names in a condition stand for: attributes in brackets, values of the pattern."""

from collections.abc import Mapping
from typing import Protocol

from collage_dsl.graph.operators import Operator
from collage_dsl.language.messages.advice import truth_meant
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import write
from collage_dsl.language.reasoning.operators.calls import unknown_attribute
from collage_dsl.language.resolve.sorts import OF_ATTRIBUTE, Sort, Typed, dtype_of
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules
from collage_dsl.rules.pattern import Parameter
from collage_dsl.rules.predicate import Predicate


class Scope(Protocol):
    """What the names in a condition stand for."""

    def name(self, name: ast.Name) -> Typed | None:
        """The value of a bare name; None after reporting that the name is unknown."""

    def fact(self, function: ast.Name, of: ast.Name) -> bool:
        """Whether `function(of)` is allowed here; reports why it is not."""

    def predicates(self) -> Mapping[str, Predicate | None]:
        """The predicates allowed here by name; None for one whose declaration is wrong."""

    def is_other_sort(self, function: ast.Name) -> bool:
        """Whether a name that is used as a function stands for something else; reports it."""

    def use(self, predicate: ast.Name) -> None:
        """Record that a condition uses `predicate`."""

    def is_value(self, name: str) -> bool:
        """Whether `name` is a value of the pattern."""

    def is_dimension(self, name: str) -> bool:
        """Whether `name` is a named dimension of the pattern."""

    def parameter(self, name: str) -> Parameter | None:
        """The parameter `name`; None if no parameter is named so."""

    def constant(self, of: ast.Name) -> bool:
        """Whether the value `of` is always a constant; reports that it is not."""

    def owners(self, attribute: ast.Name) -> tuple[Operator, ...]:
        """The operators whose attribute is meant by `attribute`."""


class AttributeScope:
    """The names inside the brackets of a call: the attributes that all its operators have."""

    def __init__(
        self,
        operators: tuple[Operator, ...],
        findings: Findings,
        values: Scope,
        elsewhere: str,
    ) -> None:
        """`elsewhere` says where a condition about a dimension stands."""
        self.operators = operators
        self.findings = findings
        self.values = values
        self.elsewhere = elsewhere

    def name(self, name: ast.Name) -> Typed | None:
        if "." in name.text:
            return self.values.name(name)  # of another call
        types = [operator.attrs.get(name.text) for operator in self.operators]
        lacking = [op for op, type_ in zip(self.operators, types, strict=True) if type_ is None]
        if lacking and name.text == "none":
            return Typed(rules.Constant(None), Sort.NONE, name.span)
        if lacking:
            dtype = dtype_of(name)
            if dtype is None:
                hint: str = truth_meant(name.text)
                if any(name.text in each for op in self.operators for each in op.values.values()):
                    hint = write(f'"{name.text}"', ": it is a string")
                elif any(map(_has_free_text, self.operators)) and _is_compared(name):
                    hint = write(f'"{name.text}"', " for a string")
                if self.is_dimension(name.text):
                    hint = f"`{name.text}` is a dimension: {self.elsewhere}"
                unknown_attribute(lacking[0], name, self.findings, hint)
            return dtype
        sort = OF_ATTRIBUTE.get(types[0] or "", Sort.ANY)
        return Typed(
            rules.Attr(name.text),
            sort,
            name.span,
            attribute=name.text,
            owner=self.operators[0],
        )

    def fact(self, function: ast.Name, of: ast.Name) -> bool:
        return self.values.fact(function, of)

    def predicates(self) -> Mapping[str, Predicate | None]:
        return self.values.predicates()

    def is_other_sort(self, function: ast.Name) -> bool:
        return self.values.is_other_sort(function)

    def use(self, predicate: ast.Name) -> None:
        self.values.use(predicate)

    def is_value(self, name: str) -> bool:
        return self.values.is_value(name)

    def is_dimension(self, name: str) -> bool:
        return self.values.is_dimension(name)

    def parameter(self, name: str) -> Parameter | None:
        return self.values.parameter(name)

    def constant(self, of: ast.Name) -> bool:
        return self.values.constant(of)

    def owners(self, attribute: ast.Name) -> tuple[Operator, ...]:
        return self.values.owners(attribute) if "." in attribute.text else self.operators


def _is_compared(name: ast.Name) -> bool:
    """Whether something is compared with `name`, on its right."""
    before = name.span.source.text[: name.span.start].rstrip()
    return before.endswith(("==", "!="))


def _has_free_text(operator: Operator) -> bool:
    """Whether an attribute is a string that may be anything, such as the name of a function."""
    texts = (name for name, type_ in operator.attrs.items() if type_ == "str")
    return any(name not in operator.values for name in texts)
