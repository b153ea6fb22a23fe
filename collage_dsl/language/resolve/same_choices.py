"""Report alternatives of a pattern that match nothing more than other ones do."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.graph.operators import is_commutative, operators
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Call, Operand


def check_same_choices(
    found: Sequence[Operand | None], written: Sequence[ast.Operand], findings: Findings
) -> None:
    """Report those `found` of the alternatives that are `written` which add nothing."""
    seen: set[Operand] = set()
    for choice, place in zip(found, written, strict=True):
        if choice in seen or _turned(choice) in seen:
            message = "an earlier alternative is the same, so this one adds nothing"
            if choice not in seen:
                message = "an earlier alternative takes the operands in either order, "
                message += "so this one adds nothing"
            findings.warning("W0316", place.span, message, "remove it")
        elif choice is not None:
            seen.add(choice)
            if isinstance(choice, Call) and any(_covers(other, choice) for other in found):
                message = f"another alternative calls {listed(choice.names, 'and')} "
                message += "with the same operands too, so this one adds nothing"
                findings.warning("W0316", place.span, message, "remove it")


def _turned(choice: Operand | None) -> Operand | None:
    """A commutative call with its two operands exchanged, which matches the same."""
    match choice:
        case Call(ops, (one, other), ordered=False, optional=False, kinds=()) if all(
            map(is_commutative, ops)
        ):
            return replace(choice, operands=(other, one))
        case _:
            return None


def _covers(one: Operand | None, other: Call) -> bool:
    """Whether `one` is the same call as `other`, but of more operators."""
    if not isinstance(one, Call) or set(one.names) <= set(other.names):
        return False
    by_kind = (operators()[op].kinds <= set(one.kinds) for op in set(other.ops) - set(one.ops))
    if not set(other.kinds) <= set(one.kinds) or not all(by_kind):
        return False
    return replace(other, ops=one.ops, kinds=one.kinds) == one
