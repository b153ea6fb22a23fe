"""Say which values other conditions leave for what a condition asks about."""

from collections.abc import Sequence

from collage_dsl.language.messages.findings import quoted
from collage_dsl.language.reasoning.conclusions.contradiction_words import (
    axes_of,
    range_of,
    shape_of,
)
from collage_dsl.language.reasoning.conclusions.exclusion import Exclusion
from collage_dsl.language.reasoning.conclusions.premises import written_parts
from collage_dsl.language.reasoning.values.assuming import assume
from collage_dsl.language.reasoning.values.domain import ANYTHING, NATURAL, hull
from collage_dsl.language.reasoning.values.facts import Facts, values_of
from collage_dsl.language.reasoning.values.knowing import know
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    Attr,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Expression,
    Has,
    Max,
    Min,
    Not,
    Or,
    Place,
    Rank,
    Shape,
    Size,
    Uses,
    Within,
    parts,
)


def left_for(
    exclusion: Exclusion,
    ways: Sequence[Facts],
    part: Expression,
    place: ast.Expression | None,
) -> str:
    """
    A hint that says which values are left for what `part`, which excludes all `ways`, asks about;
    may be empty. `place` is `part` as it is written, unless the pattern does not say it itself.
    """
    match part, place:
        case Or(), ast.Operation("or"):
            every = list(written_parts(part, place, "or"))
            hints = [left_for(exclusion, ways, *each) for each in every]
            return "; ".join(dict.fromkeys(hints)) if all(hints) else ""
        case ((Compare("==", Dtype(), Constant()) | Within(Dtype(), _)), _) if len(ways) > 1:
            return _of_dtypes(ways, part, place)
    if len(ways) != 1:
        return ""
    way = ways[0].copy()
    if hint := axes_of(part, way) or _places_of(part, way):
        return hint
    for asked in parts(part):
        know(way, asked)
    if not way.possible or not _excludes(exclusion, way, part):
        return ""
    match part, place:
        case Not(Has(of)), _ if "." not in of and way.of(Has(of)).only() is True:
            return f"`{of}` is there"
        case Compare("==", Shape(of), _), ast.Operation(_, side, _) if side:
            return shape_of(quoted(side.span).strip("`"), of, way)
        case Compare("==", left, Constant(value)), _ if value in values_of(way, left):
            return ""
        case Compare(left=Min(of), right=Max(other)), _ if of == other:
            return _if_equal(way, of)
        case ((Compare(left=left) | Within(left, _)), ast.Operation(_, side, _)) if side:
            return _bounded(quoted(side.span).strip("`"), left, way)
        case Compare("==", DimAt(of, axis) as left, Constant()), None if ":" not in of:
            return _bounded(f"dim({of}, {axis})", left, way)
    return ""


def _of_dtypes(ways: Sequence[Facts], part: Expression, place: ast.Expression | None) -> str:
    """The dtypes that are left in several ways."""
    match part, place:
        case (
            (Compare(left=Dtype() as left) | Within(Dtype() as left, _)),
            ast.Operation(_, side, _),
        ) if side:
            values = hull(way.of(left) for way in ways)
            return "" if values.allowed is None else range_of(quoted(side.span).strip("`"), values)
        case _:
            return ""


def _if_equal(way: Facts, of: str) -> str:
    """A hint that the elements of a constant are equal, if they are."""
    return f"`{of}` has one element" if way.of(Size(of)).only() == 1 else ""


def _places_of(part: Expression, way: Facts) -> str:
    """A hint that says which places there are along an axis, if `part` asks for another one."""
    match part:
        case Compare(operator, Place(of, axis) as place, Constant(int() as number)):
            values = values_of(way, place)
            least, most = values.bounds()
            is_there = {
                "==": least <= number <= most,
                "<": least < number,
                "<=": least <= number,
                ">": most > number,
                ">=": most >= number,
            }
            return "" if is_there.get(operator, True) else range_of(f"place({of}, {axis})", values)
        case _:
            return next(filter(None, (_places_of(each, way) for each in parts(part))), "")


def _excludes(exclusion: Exclusion, way: Facts, part: Expression) -> bool:
    """Whether the values that `way` leaves are enough to exclude a comparison."""
    match part:
        case Compare(left=Rank() | DimAt() | Size() | Uses() | Attr() as left):
            alone = exclusion.start(())
            alone.narrow(left, way.of(left))
            return not alone.possible or not assume([alone], part)
        case _:
            return True


def _bounded(text: str, left: Expression, way: Facts) -> str:
    """A hint that says which values `left` has; empty if it has none beyond the usual."""
    values = values_of(way, left)
    return "" if values in (NATURAL, ANYTHING) else range_of(text, values)
