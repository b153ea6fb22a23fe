"""Say in words which two things that are known of one value exclude each other."""

from collections.abc import Iterator
from math import inf

from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.values.domain import Values
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.shown_values import ENORMOUS, MOST_SHOWN, shown_in_order
from collage_dsl.language.reasoning.values.terms import Term
from collage_dsl.rules.condition import Attr, DimAt, Dtype, Rank, Size, Uses
from collage_dsl.rules.written import question_text


def clash_of(way: Facts) -> str:
    """Like "`dim(r, 3)` would be `64` and `128`"; empty if it cannot be said in few words."""
    if way.clash is None:
        return ""
    term, one, other = way.clash
    name, first, second = _name_of(way, term), _numbers_of(one), _numbers_of(other)
    return f"`{name}` would be {first} and {second}" if name and first and second else ""


def _name_of(way: Facts, term: Term) -> str:
    """A term that is equal to `term` as the user writes it; empty if there is none."""
    equal = (each for each in way.same if way.first(each) == term)
    for each in (term, *equal):
        match each:
            case Attr(name):
                return name.partition(".")[2]
            case DimAt() | Rank() | Size() | Uses() | Dtype():
                if of := _of(way, each):
                    return question_text(each, of)
    return ""


_Asked = DimAt | Rank | Size | Uses | Dtype


def _of(way: Facts, term: _Asked) -> str:
    """The name of a value of which the same is asked; empty if the user gives it none."""
    is_of_shape = isinstance(term, DimAt | Rank | Size)
    names = _of_one_shape(way, term.of) if is_of_shape else (term.of,)
    return next((name for name in names if name.isidentifier()), "")


def _of_one_shape(way: Facts, name: str) -> Iterator[str]:
    yield name
    same = way.representative(name)
    yield same
    yield from (other for other in way.shapes if way.representative(other) == same)


def _numbers_of(values: Values) -> str:
    """The values in words; empty if they are any, or many."""
    if values.allowed is not None:
        left = shown_in_order(value for value in values.allowed if value in values)
        return listed(left) if 0 < len(left) <= MOST_SHOWN else ""
    least, most = values.whole_bounds() if values.whole else values.bounds()
    if least == most:
        return f"`{least}`"
    if values.modulus > 1:
        more = f"{values.rest} more than " if values.rest else ""
        return f"{more}a multiple of {values.modulus}"
    if least > -ENORMOUS and most < ENORMOUS - 1:
        return f"{least} to {most}"
    if most < ENORMOUS - 1:
        return f"{most} or less" if most not in values.excluded else f"below {most}"
    if least > -inf and (least > 0 or not values.whole):
        return f"{least} or more" if least not in values.excluded else f"above {least}"
    return ""
