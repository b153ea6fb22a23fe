"""What the names in the conditions of a pattern stand for: its values, and what they have."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.advice import (
    attribute_of_parameter,
    dtype_meant,
    function_meant,
    no_attribute,
    none_meant,
    some_dtypes,
    truth_meant,
)
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.messages.hints import Hint, did_you_mean, write
from collage_dsl.language.reasoning.operators.calls import unknown_attribute
from collage_dsl.language.resolve.literal_operands import needed
from collage_dsl.language.resolve.other_sorts import FUNCTION, is_other_sort
from collage_dsl.language.resolve.pattern_names import ANY_NAME, Names
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.resolve.sorts import OF_ATTRIBUTE, Sort, Typed, dtype_of
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import FUNCTIONS, AttrOf
from collage_dsl.rules.pattern import Call, Parameter, Reference
from collage_dsl.rules.predicate import Predicate

_COMPARED = re.compile(r"\s*(==|!=)\s*(\w+)")


@dataclass(slots=True)
class ValueScope:
    """The `Scope` of the conditions of a pattern."""

    names: Names
    scope: PatternScope
    findings: Findings
    asked_has: list[ast.Name] = field(default_factory=list)
    """The bindings that a condition asks `has` about."""

    def name(self, name: ast.Name) -> Typed | None:
        if dtype := dtype_of(name):
            return dtype
        place = self.names.dimensions.place(name.text)
        if place is not None and name.text not in self.names.everything:
            return Typed(place, Sort.NUMBER, name.span)
        if attribute := self.attribute_of(name):
            return attribute
        if name.text in self.names.defined:
            message = f"the value of `{name.text}` is known only when the model runs"
            hint = f"ask for `dtype({name.text})`, `shape({name.text})` or `dim({name.text}, 0)`"
            if (parameter := self.parameter(name.text)) and parameter.constant:
                message = f"`{name.text}` is a constant, not a number"
                hint = f"ask for `value({name.text})`, or `all({name.text} >= 0)` of its elements"
            if compared := _COMPARED.match(name.span.source.text, name.span.end):
                hint = self.of_absence(name.text, compared[1], compared[2]) or hint
            if place is not None:
                hint = f"`{name.text}` is a dimension of `{place.of}` too: give one another name"
            self.findings.error("E0306", name.span, message, hint)
        elif self.is_no_attribute(name):
            pass
        elif any(name.text in self.attributes_of(call) for call in self.names.calls()):
            message = f"the attribute `{name.text}` cannot be asked here"
            self.findings.error("E0306", name.span, message, self.of_calls(name.text))
        elif not self.names.broken & {name.text, ANY_NAME} and name.text not in self.names.reported:
            self.names.reported.add(name.text)
            hint = self.of_number(name.text)
            if (value := name.text.partition(".")[0]) != name.text and self.is_later(value):
                hint = f"write the statement of `{value}` above this one"
            hint = hint or function_meant(name.text, FUNCTIONS) or dtype_meant(name.text)
            if predicate := self.scope.predicates.get(name.text):
                hint = write(f"{name.text}({', '.join(predicate.parameters)})")
            hint = hint or truth_meant(name.text) or no_attribute(name.text)
            hint = hint or self.of_parameter(name.text)
            hint = hint or did_you_mean(name.text, self.names.defined) or some_dtypes(name.text)
            self.findings.error("E0206", name.span, f"unknown name `{name.text}`", hint)
        return None

    def is_later(self, value: str) -> bool:
        """Whether a statement further down defines `value`."""
        return value in self.names.everything and value not in self.names.defined

    def of_absence(self, name: str, operator: str, word: str) -> str:
        """A hint if the value `name` is compared with `none` or a word for it, else empty."""
        if word != "none" and not none_meant(word):
            return ""
        parameter = self.parameter(name)
        if parameter is None or not parameter.optional:
            return f"`{name}` is never absent; a parameter `b?` may be"
        return f"write `{'not ' * (operator == '==')}has({name})`"

    def of_number(self, name: str) -> Hint:
        """A hint if a number of the program is asked like an attribute: `k.min` of a `clip`."""
        of, _, operand = name.partition(".")
        known = tuple(operators()[op] for op in self.names.operators_of(of))
        names = (known[0].operands or ()) if known else ()
        at = names.index(operand) if operand in names else len(names)
        is_number = known and known[0].takes[at : at + 1] == ("number",)
        return Hint(needed(known, (), at) if is_number else "")

    def of_parameter(self, name: str) -> Hint:
        """A hint if an attribute is asked of a parameter, with the calls that have it."""
        attribute = name.partition(".")[2]
        named = self.names.bindings
        having = [each for each in named if self.has_attribute(f"{each}.{attribute}")]
        return attribute_of_parameter(name, self.names.parameters, having)

    def of_calls(self, attribute: str) -> Hint:
        """A hint to ask `attribute` of a call that has it: `k.strides`."""
        named = (f"{each}.{attribute}" for each in self.names.bindings)
        having = [each for each in named if self.has_attribute(each)]
        if len(having) == 1:
            return write(having[0])
        return Hint(f"write {listed(having)}" if having else "ask it in brackets after the call")

    def has_attribute(self, name: str) -> bool:
        """Whether `k.strides` can be asked."""
        of, _, attribute = name.partition(".")
        ops = self.names.operators_of(of)
        return bool(ops) and all(attribute in operators()[op].attrs for op in ops)

    def owners(self, attribute: ast.Name) -> tuple[Operator, ...]:
        names = self.names.operators_of(attribute.text.partition(".")[0])
        return tuple(operators()[op] for op in names)

    def attribute_of(self, name: ast.Name) -> Typed | None:
        """`k.strides`, if all operators that `k` may be a call of have the attribute."""
        of, _, attribute = name.text.partition(".")
        owners = self.owners(name)
        types = [operator.attrs.get(attribute) for operator in owners]
        if not types or None in types:
            return None
        sort = OF_ATTRIBUTE.get(types[0] or "", Sort.ANY)
        return Typed(
            AttrOf(of, attribute),
            sort,
            name.span,
            attribute=name.text,
            owner=owners[0],
        )

    def is_no_attribute(self, name: ast.Name) -> bool:
        """Whether `name` is written like an attribute of a value, but is none; reports it."""
        of, _, attribute = name.text.partition(".")
        if not attribute or of not in self.names.bindings or function_meant(name.text, FUNCTIONS):
            return False
        lacking = [op for op in self.owners(name) if attribute not in op.attrs]
        if lacking:
            unknown_attribute(lacking[0], ast.Name(attribute, name.span), self.findings)
        else:
            message = f"`{of}` is not the call of an operator in every match"
            hint = "only a call has attributes, such as `k` in `k = nn.conv2d(x, w);`, or a value "
            hint += "of which each alternative is a call"
            match self.names.bindings[of].value:
                case Call(kinds=(kind, *_)):
                    message = f"operators of the kind `{kind}` have no attributes in common"
                    hint = "name operators in place of the kind"
            self.findings.error("E0306", name.span, message, hint)
        return True

    def is_value(self, name: str) -> bool:
        return name in self.names.defined

    def is_dimension(self, name: str) -> bool:
        return name in self.names.dimensions.places and name not in self.names.everything

    def parameter(self, name: str) -> Parameter | None:
        return self.names.parameters.get(name)

    def constant(self, of: ast.Name) -> bool:
        found = self.names.parameters.get(of.text)
        binding = self.names.bindings.get(of.text)
        if found is None and binding is not None and isinstance(binding.value, Reference):
            return self.constant(replace(of, text=binding.value.name))
        if found is not None and found.constant:
            return True
        if found is None:
            message = f"`{of.text}` is computed, so its elements are not known"
            hint = "constants are parameters: `w: const`"
        else:
            message = f"`{of.text}` is not required to be a constant, so its elements are not known"
            hint = f"write `{of.text}{'?' * found.optional}: const` among the parameters"
        self.findings.error("E0306", of.span, message, hint)
        return False

    def attributes_of(self, call: Call) -> set[str]:
        return {name for op in call.ops for name in operators()[op].attrs}

    def fact(self, function: ast.Name, of: ast.Name) -> bool:
        place = self.names.dimensions.place(of.text)
        if place is not None and of.text not in self.names.everything:
            message = f"`{of.text}` is a dimension, not a value"
            hint = f"write `{of.text}` alone, which is a number"
            if function.text in ("min", "max"):
                hint = "dimensions are numbers: compare them with `>=`"
            elif function.text == "has":
                hint = self.instead_of_dimension(of.text, place.of)
            self.findings.error("E0306", of.span, message, hint)
            return False
        if not self.names.is_known(of):
            return False
        if function.text == "has" and of.text in self.names.bindings:
            self.asked_has.append(of)  # only later it is known whether it is optional
        elif function.text == "has" and not self.names.is_optional(of.text):
            self.always_there(of)
            return False
        return True

    def instead_of_dimension(self, name: str, of: str) -> str:
        """What `has` can ask about instead of the dimension `name` of `of`."""
        if of not in self.names.everything:
            return "give its list a name, as in `s = [b, n];`, and ask `has(s)`"
        if of in self.names.parameters and not self.names.is_optional(of):
            return f"`{name}` is a dimension of `{of}`, which is always there"
        return Hint(f"write `has({of})`", of)

    def predicates(self) -> Mapping[str, Predicate | None]:
        return self.scope.predicates

    def is_other_sort(self, function: ast.Name) -> bool:
        return is_other_sort(function, FUNCTION, self.scope.defined, self.findings)

    def use(self, predicate: ast.Name) -> None:
        self.scope.note_use(predicate)

    def always_there(self, name: ast.Name) -> None:
        message = f"`{name.text}` is always present: `has` is only for optional values"
        hint = f"write `{name.text}?` where it is a parameter that may be absent"
        hint = hint if name.text in self.names.parameters else self.of_optional_call(name.text)
        self.findings.error("E0306", name.span, message, hint)

    def of_optional_call(self, name: str) -> str:
        """How to ask whether the call of an equation is there; empty if it always is."""
        binding = self.names.bindings.get(name)
        if binding is None or not getattr(binding.value, "optional", False):
            return ""
        return f"write `call = …; {name} = (call | …);` without the `?`, and ask `has(call)`"
