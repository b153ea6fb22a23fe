"""Say what excludes a condition where the caret of the last one would not show it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.relations import Claim
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.conclusions.exclusion import Exclusion
from collage_dsl.language.reasoning.conclusions.premises import Condition, Premise
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Attr, Compare, Constant, DimAt, Rank, Value
from collage_dsl.rules.pattern import OPEN
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class MissingAxis:
    """An attribute that names an axis which is not there: its condition, and what is said of it."""

    condition: Condition
    message: str
    hint: str


def missing_axis(
    exclusion: Exclusion, found: Sequence[Premise], premises: Sequence[Premise]
) -> MissingAxis | None:
    """What names a missing axis in `found`, premises that exclude each other; None if nothing."""
    for condition, claim, axes in _named_axes(found):
        others = [each for each in premises if each is not condition]
        ways = [] if exclusion.is_tired else exclusion.ways(others)
        rank = ways[0].of(Rank(claim.called.tensors(0)[0])).only() if ways else None
        if not isinstance(rank, int):
            continue
        more = operators()[claim.ops[0]].axes.get(claim.relation.axes_in, 0)
        rank += more * len(axes)
        of = "gives" if more else "takes"
        for axis in axes:
            if isinstance(axis, int) and not -rank <= axis < rank:
                message = f"what `{claim.ops[0]}` {of} has rank {rank}, "
                hint = f"rank {rank} has axes {-rank} to {rank - 1}" if rank else ""
                return MissingAxis(condition, f"{message}so it has no axis {axis}", hint)
    return None


def _named_axes(
    found: Sequence[Premise],
) -> Iterator[tuple[Condition, Claim, tuple[Value, ...]]]:
    """The conditions in `found` that say which axes an attribute names, with what says so."""
    about_axes = [e for e in found if isinstance(e, Claim) and e.relation.axes_in]
    for each in found if about_axes else ():
        match each:
            case Condition(Compare("==", Attr(name), Constant(value)), at_call=True):
                for claim in about_axes:
                    if claim.called.attribute(claim.relation.axes_in).name == name:
                        yield each, claim, value if isinstance(value, tuple) else (value,)


def other_elements(exclusion: Exclusion, found: Sequence[Premise]) -> str:
    """How many elements a `reshape` in `found` takes and would give; empty if that is the same."""
    claims = (each.called for each in found if isinstance(each, Claim))
    calls = (called for called in claims if called.call.ops == ("reshape",))
    called = next((c for c in calls if c.operands[1] in c.names.lists), None)
    if called is None or exclusion.is_tired:
        return ""
    every = exclusion.premises.all
    others = [each for each in every if not isinstance(each, Claim) or each.called is not called]
    return next((_counts(way, called) for way in exclusion.ways(others)[:1]), "")


def _counts(way: Facts, called: Called) -> str:
    value, name = called.operands
    rank, items = way.of(Rank(value)).only(), called.names.lists[name].items
    if not isinstance(rank, int) or OPEN in items:
        return ""
    given = _dims(way, value, rank)
    named = zip(items, _dims(way, name, len(items)), strict=True)
    wanted = [item if isinstance(item, int) else dim for item, dim in named]
    for dim in [dim for dim in given if isinstance(dim, DimAt) and dim in wanted]:
        given.remove(dim)
        wanted.remove(dim)
    sides = [[dim for dim in dims if isinstance(dim, int) and dim > 0] for dims in (given, wanted)]
    is_known = sides == [given, wanted] and prod(sides[0]) != prod(sides[1])
    first, second = (" * ".join(map(str, dims)) or "1" for dims in sides)
    said = "1 element is" if first == "1" else f"{first} elements are"
    return f"{said} not {second}" if is_known else ""


def _dims(way: Facts, name: str, rank: int) -> list[object]:
    """The dimensions of a value: their numbers, or the terms that represent them."""
    dims = [DimAt(name, axis) for axis in range(rank)]
    numbers = (way.of(dim).only() for dim in dims)
    return [
        number if isinstance(number, int) else way.first(dim)
        for dim, number in zip(dims, numbers, strict=True)
    ]


def place_of(exclusion: Exclusion, condition: Condition) -> Span:
    """Where a condition is shown: what an item of a list says, at the whole list."""
    match condition.expression:
        case Compare("==", DimAt(of)) if of in exclusion.premises.lists and not condition.said:
            return _whole_list(condition.span)
        case _:
            return condition.span


def _whole_list(item: Span) -> Span:
    text = item.source.text
    start, end = text.rfind("[", 0, item.start + 1), text.find("]", item.end - 1)
    return Span(item.source, start, end + 1) if 0 <= start < end else item
