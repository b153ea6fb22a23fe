"""Check the operators of conditions: what their operands are, and what they give."""

import re
from dataclasses import dataclass
from typing import cast

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import write
from collage_dsl.language.resolve.sorts import (
    Sort,
    Typed,
    as_dtype,
    called,
    comparable,
    elements,
    meant,
    possible_values,
)
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules
from collage_dsl.source import Span

_ARITHMETIC = ("+", "-", "*", "/", "%")


@dataclass(slots=True)
class Operations:
    """
    The operators, whose operands were checked before.

    A wrong operand is reported once, and the result is None.
    """

    findings: Findings

    def operation(self, operator: str, left: Typed, right: Typed, span: Span) -> Typed | None:
        if operator in ("and", "or"):
            if not (self.is_truth(left) & self.is_truth(right)):
                return None
            make = rules.And if operator == "and" else rules.Or
            return Typed(make(left.value, right.value), Sort.TRUTH, span)
        if operator in _ARITHMETIC:
            return self.arithmetic(operator, left, right, span)
        if operator == "in":
            return self.within(left, right, span)
        return self.comparison(operator, left, right, span)

    def arithmetic(self, operator: str, left: Typed, right: Typed, span: Span) -> Typed | None:
        if not (self.is_number(left, operator) & self.is_number(right, operator)):
            return None
        if operator in ("/", "%") and right.value == rules.Constant(0):
            self.findings.error(
                "E0302", right.span, "this divides by zero, so the result is never known"
            )
            return None
        if operator == "/":
            self.check_quotient(left, right, span)
        if isinstance(left.value, rules.Each) or isinstance(right.value, rules.Each):
            message = "elements can only be compared"
            self.findings.error("E0303", span, message)
            return None
        value = rules.Calculate(cast(rules.Arithmetic, operator), left.value, right.value)
        return Typed(value, Sort.NUMBER, span)

    def check_quotient(self, left: Typed, right: Typed, span: Span) -> None:
        """Report that two whole numbers are divided, which drops a remainder."""
        match left.value, right.value:
            case rules.Constant(int() as one), rules.Constant(int() as other) if one % other:
                message = f"this is {one // other}: `/` drops the remainder of whole numbers"
                hint = write(f"{left.span.text}.0 / {right.span.text}")
                self.findings.warning("W0337", span, message, hint)

    def comparison(self, operator: str, left: Typed, right: Typed, span: Span) -> Typed | None:
        if isinstance(right.value, rules.Each):
            message = f"write `{right.span.text}` on the left"
            self.findings.error(
                "E0303", right.span, "elements must be on the left of a comparison", message
            )
            return None
        if operator not in ("==", "!="):
            if not (self.is_number(left, operator) and self.is_number(right, operator)):
                return None
        else:
            left, right = as_dtype(left, right), as_dtype(right, left)
            if not self.fit(left, right, span):
                return None
        value = rules.Compare(cast(rules.Comparison, operator), left.value, right.value)
        return Typed(value, Sort.TRUTH, span)

    def near(
        self, left: Typed, right: Typed, within: ast.Literal | None, span: Span
    ) -> Typed | None:
        if not (self.is_number(left, "~=") & self.is_number(right, "~=")):
            return None
        each = next((t for t in (left, right) if isinstance(t.value, rules.Each)), None)
        if each is not None:
            message = "elements cannot be compared with `~=`"
            self.findings.error("E0303", each.span, message)
            return None
        zero = next((t for t in (left, right) if t.value == rules.Constant(0)), None)
        if zero is not None:
            message = "a tolerance is relative, so only 0 itself is near 0"
            self.findings.warning("W0317", zero.span, message, "write `== 0`")
        tolerance = self.tolerance(within)
        return Typed(rules.Near(left.value, right.value, tolerance), Sort.TRUTH, span)

    def tolerance(self, within: ast.Literal | None) -> float:
        if within is None:
            return rules.TOLERANCE
        if not 0 < within.value < 1:  # type: ignore[operator]
            message = f"a tolerance must be between 0 and 1, not {within.span.text}"
            hint = "it is relative: `a ~= b within 0.01` allows one percent"
            self.findings.error("E0311", within.span, message, hint)
        return float(within.value)

    def within(self, left: Typed, right: Typed, span: Span) -> Typed | None:
        if right.sort is Sort.RANGE:
            if not self.is_number(left, "in"):
                return None
            return Typed(rules.Within(left.value, right.value), Sort.TRUTH, span)
        if right.sort in (Sort.NUMBERS, Sort.ANY) and left.sort in (Sort.NUMBER, Sort.ANY):
            return Typed(rules.Within(left.value, right.value), Sort.TRUTH, span)
        if right.sort is not Sort.LIST:
            message = f"`in` needs a list on its right, but this is {right.sort.value}"
            self.findings.error("E0303", right.span, message, write(f"[{right.span.text}]"))
            return None
        if not right.items:
            message = "this list is empty, so the condition never holds"
            self.findings.error("E0302", span, message, "name values in it, or remove it")
            return None
        items = [as_dtype(item, left) for item in right.items]
        fits = [self.fit(left, item, item.span) for item in items]
        if not all(fits):
            return None
        values = tuple(cast(rules.Constant, item.value).value for item in items)
        return Typed(rules.Within(left.value, rules.Constant(values)), Sort.TRUTH, span)

    def is_truth(self, typed: Typed) -> bool:
        if typed.sort in (Sort.TRUTH, Sort.ANY):
            return True
        message = f"a condition is needed here, but this is {typed.sort.value}"
        self.findings.error("E0303", typed.span, message, possible_values(typed) or _asked(typed))
        return False

    def is_number(self, typed: Typed, operator: str) -> bool:
        if typed.sort in (Sort.NUMBER, Sort.ANY):
            return True
        message = f"`{operator}` needs numbers, but this is {typed.sort.value}"
        hint = elements(typed.attribute) if typed.sort is Sort.NUMBERS else ""
        if typed.sort is Sort.DTYPE:
            hint = f"write `{typed.span.text} in [f16, f32]` for some dtypes"
        self.findings.error("E0303", typed.span, message, hint)
        return False

    def fit(self, left: Typed, right: Typed, span: Span) -> bool:
        """Whether the sorts of the two can be equal; reports that they cannot."""
        if not comparable(left, right):
            code = "E0205" if left.attribute or right.attribute else "E0303"
            named = left if left.attribute or not right.attribute else right
            other = right if named is left else left
            what = f"`{named.attribute}`" if named.attribute else "the left side"
            message = f"{what} is {named.sort.value}, which {called(other)} never equals"
            self.findings.error(code, span, message, meant(named, other), place=other.span)
            return False
        return True


_AFTER_OR = re.compile(r"\bor\s+\Z")


def _is_after_or(place: Span) -> bool:
    return _AFTER_OR.search(place.source.text, max(0, place.start - 20), place.start) is not None


def _asked(typed: Typed) -> str:
    """A hint how a condition asks for something, where it is written without one."""
    text = " ".join(typed.span.text.split())
    match typed.sort:
        case Sort.NUMBER if "%" in text:
            return f"write `{text} == 0`"
        case Sort.NUMBER if not isinstance(typed.value, rules.Constant):
            return f"compare it with a number: `{text} == 1`"
        case Sort.DTYPE if isinstance(typed.value, rules.Constant):
            return f"each side of `or` is a condition; one of several is `in [f32, {text}]`"
        case _ if _is_after_or(typed.span):
            return f"each side of `or` is a condition; one of several is `in [{text}, …]`"
        case Sort.DTYPE:
            return f"write `{text} == f32`"
        case Sort.NUMBERS if isinstance(typed.value, rules.Attr | rules.AttrOf):
            return f"compare each of them: `{text}[*] == 1`"
    return ""
