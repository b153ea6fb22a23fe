"""`pin` and `forbid`: operator calls that a target must run, or must not run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, assert_never

from collage_dsl.graph import Graph, OpSet, first, members, opset


@dataclass(frozen=True, slots=True)
class ByName:
    """
    `name("/head/*")`: calls whose name matches the glob. Only `*` is special, and it matches
    slashes too.
    """

    glob: str

    def matches(self, name: str) -> bool:
        escaped = self.glob.replace("[", "[[]").replace("?", "[?]")
        return fnmatchcase(name, escaped)

    def is_within(self, other: "ByName") -> bool:
        """Whether `other` matches each name that this matches, as `*` matches any text."""
        return other.matches(self.glob)


@dataclass(frozen=True, slots=True)
class ByOperator:
    """`op(nn.softmax, exp)`: calls of these operators."""

    ops: tuple[str, ...]


Selector = ByName | ByOperator

Action = Literal["pin", "forbid"]


@dataclass(frozen=True, slots=True)
class Placement:
    """
    `forbid op(nn.softmax) on lib because "slower";`. The spec of the target `lib` holds it.

    A forbidden call is in no kernel of that target. A pinned call is in no kernel of another.
    """

    action: Action
    selector: Selector
    because: str = ""

    def selected(self, graph: Graph) -> OpSet:
        """The operator calls that the selector selects; never tuples or projections."""
        return opset(index for index in members(graph.calls) if self._selects(graph, index))

    def _selects(self, graph: Graph, index: int) -> bool:
        node = graph.nodes[index]
        match self.selector:
            case ByName():
                return self.selector.matches(node.name)
            case ByOperator(ops):
                return node.op in ops
            case _:
                assert_never(self.selector)


class Placed:
    """The placements of several targets, applied to one graph."""

    def __init__(self, graph: Graph, placements: Mapping[str, Iterable[Placement]]) -> None:
        self.graph = graph
        self.placements = [
            (target, placement, placement.selected(graph))
            for target, several in placements.items()
            for placement in several
        ]

    def refusal(self, target: str, inside: OpSet) -> str:
        """Why `target` may not run the nodes `inside`; empty if it may."""
        for owner, placement, selected in self.placements:
            is_pin = placement.action == "pin"
            if inside & selected and (owner != target if is_pin else owner == target):
                name = self.graph.nodes[first(inside & selected)].name
                how = f"pinned to {owner}" if is_pin else f"forbidden on {owner}"
                reason = f" because {placement.because}" if placement.because else ""
                return f"`{name}` is {how}{reason}"
        return ""
