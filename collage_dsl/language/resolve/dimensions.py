"""Turn the dimensions in `x: [m, k]` into conditions on the parameter `x`."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from collage_dsl.language.messages.findings import count
from collage_dsl.rules.condition import (
    Compare,
    Constant,
    DimAt,
    Expression,
    Has,
    Not,
    Or,
    Rank,
    Where,
)
from collage_dsl.rules.pattern import ANY, OPEN, Parameter
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class NamedList:
    """The list `of`, and its named items, each with its place in the list and in the file."""

    of: str
    items: tuple[tuple[str, DimAt, Span | None], ...]


def _axes(dims: Sequence[str | int]) -> Iterator[tuple[int, int, str | int]]:
    """The numbers and names in `dims`, with index and axis. Axes after `..` are from the end."""
    is_open = OPEN in dims
    for at, dim in enumerate(dims):
        axis = at - len(dims) if is_open and at > dims.index(OPEN) else at
        if dim not in (ANY, OPEN):
            yield at, axis, dim


@dataclass(slots=True)
class Dimensions:
    """
    The named dimensions of one pattern. Call `demands` for its parameters in order.

    A name has the same size everywhere. In a condition it means the dimension of the first
    required parameter that has it, else of the first optional one.
    """

    places: dict[str, tuple[DimAt, ...]] = field(default_factory=dict)
    """By name: one place in a required parameter, or else its places in optional parameters."""
    optional: set[str] = field(default_factory=set)
    """The names of the optional parameters."""

    lists: list["NamedList"] = field(default_factory=list)
    """Lists with named items, in order."""

    def note_list(self, of: str, items: Sequence[str | int], spans: Sequence[Span] = ()) -> None:
        """Note the named items of the list `of`. What they ask is in `demands_of_lists`."""
        places = tuple(
            (name, DimAt(of, axis), spans[at] if spans else None)
            for at, axis, name in _axes(items)
            if isinstance(name, str)
        )
        for name, here, _ in places:
            self.places.setdefault(name, (here,))
        if places:
            self.lists.append(NamedList(of, places))

    def demands_of_lists(self, always: Collection[str]) -> Iterator[Where]:
        """
        The conditions on lists, each with its place: a name is the same number everywhere. Lists
        that are not `always` there are only asked if they are.
        """
        self.optional |= {each.of for each in self.lists if each.of not in always}
        for each in self.lists:
            for name, here, span in each.items:
                for there in self.places[name]:
                    if there != here:
                        reason = f"`{name}` must be the same in `{there.of}` and `{here.of}`"
                        yield Where(self._same(here, there), reason, span)

    def demands(
        self, parameter: Parameter, dims: Sequence[str | int]
    ) -> Iterator[tuple[int | None, Where]]:
        """
        The conditions on `parameter` if it is bound, each with the index in `dims` it comes from.

        The condition on the rank comes from no single dimension; its index is None.
        """
        of = parameter.name
        if parameter.optional:
            self.optional.add(of)
        if list(dims) != [OPEN]:
            yield None, self._rank(of, dims)
        for at, axis, dim in _axes(dims):
            here = DimAt(of, axis)
            if isinstance(dim, int):
                wanted = Compare("==", here, Constant(dim))
                reason = f"dimension {axis} of `{of}` must be {dim}"
                yield at, Where(self._if_there(wanted, of), reason)
            else:
                for there in self.places.get(dim, ()):
                    reason = f"`{dim}` must be the same in `{there.of}` and `{of}`"
                    yield at, Where(self._same(here, there), reason)
                self._note(dim, here)

    def _rank(self, of: str, dims: Sequence[str | int]) -> Where:
        if OPEN not in dims:
            rank = Compare("==", Rank(of), Constant(len(dims)))
            reason = f"`{of}` must have {count(len(dims), 'dimension')}"
            return Where(self._if_there(rank, of), reason)
        least = len(dims) - 1
        rank = Compare(">=", Rank(of), Constant(least))
        reason = f"`{of}` must have at least {count(least, 'dimension')}"
        return Where(self._if_there(rank, of), reason)

    def place(self, name: str) -> DimAt | None:
        """The dimension that a condition means by `name`; None if no parameter has it."""
        return next(iter(self.places.get(name, ())), None)

    def _same(self, here: DimAt, there: DimAt) -> Expression:
        same: Expression = Compare("==", here, there)
        if there.of != here.of:
            same = self._if_there(same, there.of)
        return self._if_there(same, here.of)

    def _if_there(self, condition: Expression, name: str) -> Expression:
        return Or(Not(Has(name)), condition) if name in self.optional else condition

    def _note(self, name: str, here: DimAt) -> None:
        known = self.places.get(name)
        if not known or (here.of not in self.optional and known[0].of in self.optional):
            self.places[name] = (here,)
        elif known[0].of in self.optional and here.of not in {place.of for place in known}:
            self.places[name] = (*known, here)
