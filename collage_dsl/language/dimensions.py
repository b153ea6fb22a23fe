"""Named dimensions: `x: [m, k]` as conditions on the parameter `x`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collage_dsl.language.findings import count
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
from collage_dsl.rules.pattern import Parameter

ANY = "_"
"""What stands for a dimension that nothing is said of."""


@dataclass(slots=True)
class Dimensions:
    """
    The named dimensions of one pattern, whose parameters are given in order.

    A name is the same dimension wherever it stands. In conditions it is that of the first
    parameter that is always there, else that of the first.
    """

    places: dict[str, tuple[DimAt, ...]] = field(default_factory=dict)
    """By name: one place that is always there, or those of optional parameters alone."""
    optional: set[str] = field(default_factory=set)
    """The optional ones among the parameters."""

    def demands(
        self, parameter: Parameter, dims: Sequence[str | int]
    ) -> Iterator[tuple[int | None, Where]]:
        """
        What has to hold of `parameter`, where there is one: each condition with the place among
        `dims` that it comes from, None for their number.
        """
        of = parameter.name
        if parameter.optional:
            self.optional.add(of)
        rank = Compare("==", Rank(of), Constant(len(dims)))
        reason = f"`{of}` must have {count(len(dims), 'dimension')}"
        yield None, Where(self._if_there(rank, of), reason)
        for axis, dim in enumerate(dims):
            here = DimAt(of, axis)
            if isinstance(dim, int):
                wanted = Compare("==", here, Constant(dim))
                reason = f"dimension {axis} of `{of}` must be {dim}"
                yield axis, Where(self._if_there(wanted, of), reason)
            elif dim != ANY:
                for there in self.places.get(dim, ()):
                    reason = f"`{dim}` must be the same in `{there.of}` and `{of}`"
                    yield axis, Where(self._same(here, there), reason)
                self._note(dim, here)

    def place(self, name: str) -> DimAt | None:
        """The dimension that a condition means by `name`; None where no parameter has it."""
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
