"""Check what a pattern has in place of shapes, bounds and numbers, which a program writes."""

from collections.abc import Sequence

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, Taken
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.language.resolve.pattern_names import Names
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import ANY, Number, Operand


def check_literals(
    known: tuple[Operator, ...],
    written: ast.OperatorCall,
    operands: Sequence[Operand | None],
    names: Names,
    findings: Findings,
) -> None:
    """Report computed operands in places of shapes and bounds, and lists in places of numbers."""
    for at, (operand, place) in enumerate(zip(operands, written.operands, strict=False)):
        literal = bool(known) and all(
            op.operands and op.operands[at] in op.literals for op in known
        )
        if literal and operand is not None and names.is_computed(operand):
            message = f"{_called(known, at)} is neither computed nor a constant"
            hint = "it is a shape or number written in the program; match it with `_`"
            findings.error("E0301", place.span, message, hint)
        elif isinstance(operand, Number) and _take(known, at, "list"):
            message = f"{_called(known, at)} must be a list, not a number"
            hint = write(f"[{place.span.text}]") if operand.value % 1 == 0 else ""
            findings.error("E0301", place.span, message, hint or "match it with `_`")
        elif isinstance(place, ast.ListOf) and _take(known, at, "number"):
            message = f"{_called(known, at)} must be a number, not a list"
            only = place.items[0].span.text if len(place.items) == 1 else ""
            hint = write(only) if only.lstrip("-").isdigit() else "match it with `_`"
            findings.error("E0301", place.span, message, hint)
        elif isinstance(place, ast.ListOf) and {op.name for op in known} == {"reshape"}:
            _check_dimensions(place, findings)


def is_wrong_bracket(
    known: tuple[Operator, ...], at: int, place: ast.Operand, findings: Findings
) -> bool:
    """
    Whether the operand `at` is a tuple, but must be a list, or the other way round; reports it.
    """
    if known and _take(known, at, "tuple") and _has_names(place):
        text = place.span.text
        new = f"({text[1:-1]})"
        message = f"`{known[0].name}` takes a tuple, but `{text}` is a list"
        hint = Hint(f"tuples stand in parentheses: `{new}`", new)
        findings.error("E0312", place.span, message, hint)
        return True
    if not isinstance(place, ast.TupleOf) or not known or not _take(known, at, "list"):
        return False
    is_shape = {op.name for op in known} == {"reshape"}
    new = f"[{', '.join(_item(field, is_shape=is_shape) for field in place.fields)}]"
    message = f"{_called(known, at)} must be a list, not a tuple"
    hint = Hint(f"lists stand in brackets: `{new}`", new)
    findings.error("E0301", place.span, message, hint)
    return True


def _has_names(place: ast.Operand) -> bool:
    """Whether `place` is a list of several names, which may be those of values."""
    if not isinstance(place, ast.ListOf) or len(place.items) < 2:
        return False
    return all(isinstance(item, ast.Name) for item in place.items)


def _item(field: ast.Operand, *, is_shape: bool) -> str:
    """What a list has for a field of a tuple. In a shape, -1 and 0 stand for other numbers."""
    text = field.span.text
    is_item = isinstance(field, ast.Name) or text.lstrip("-").isdigit()
    return text if is_item and not (is_shape and text in ("-1", "0")) else ANY


def _check_dimensions(written: ast.ListOf, findings: Findings) -> None:
    """Warn of what stands for a dimension in ONNX; in a graph it has been computed."""
    for item in written.items:
        if isinstance(item, ast.Literal) and item.value in (-1, 0):
            message = f"a shape in a model has the number itself here, not {item.span.text}"
            findings.warning("W0318", item.span, message, write("_", ", or a name"))


def _called(known: tuple[Operator, ...], at: int) -> str:
    """Like "`shape` of `reshape`"."""
    names = known[0].operands or ()
    return f"`{names[at]}` of `{known[0].name}`"


def _take(known: tuple[Operator, ...], at: int, taken: Taken) -> bool:
    """Whether all operators take a list, or a number, at the place `at`."""
    return all(operator.takes[at : at + 1] == (taken,) for operator in known)


def needed(known: tuple[Operator, ...], kinds: tuple[Kind, ...], at: int) -> str:
    """What to write for an operand that is a number or a list of the program; else empty."""
    if not known or kinds or not known[0].operands:
        return ""
    for taken in ("number", "list"):
        if _take(known, at, taken):
            what = f"`{known[0].operands[at]}` of `{known[0].name}` is a {taken}"
            return f"{what} that the program writes: write one, or `_` for any"
    return ""
