"""How far a pattern has matched, and the whole match."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from collage_dsl.graph import OpSet
from collage_dsl.rules.condition import Where


@dataclass(frozen=True, slots=True)
class Match:
    """
    The nodes that a pattern covers, the constants it binds, and the node of each name. `anchor`
    is the node of the main operator, if the pattern names one.
    """

    inside: OpSet
    constants: OpSet
    bound: Mapping[str, int] = field(hash=False)
    anchor: int | None = None


class Partial(NamedTuple):
    """
    What has matched so far. `frames` counts the calls of other patterns until here.

    A named tuple, because many are made; `_make` takes half the time of a call.
    """

    inside: OpSet = 0
    constants: OpSet = 0
    bound: Mapping[str, int] = MappingProxyType({})
    frames: int = 0
    shared: OpSet = 0
    """The nodes inside that may be used outside too."""
    pending: tuple[tuple[str, Where, int], ...] = ()
    """Conditions on attributes that wait for names to be bound: prefix, condition, node."""
    steps: int = 0
    """How many parts of the pattern are inside; two may be at one node."""
    size: int = 0
    """How many nodes are inside: counting them takes long in a large graph."""

    def binding(self, name: str, index: int, constants: OpSet) -> "Partial":
        inside, known, bound, *rest = self
        return Partial._make((inside, known | constants, {**bound, name: index}, *rest))

    def covering(self, index: int, *, shared: bool) -> "Partial":
        inside, constants, bound, frames, may_leave, pending, steps, size = self
        node = 1 << index
        may_leave |= node if shared else 0
        size += not inside >> index & 1
        return Partial._make(
            (inside | node, constants, bound, frames, may_leave, pending, steps + 1, size)
        )


def binding(name: str, index: int, constants: OpSet, ways: Iterable[Partial]) -> Iterator[Partial]:
    for partial in ways:
        yield partial.binding(name, index, constants)
