"""Where the limits of a rule or target are written, and how a limit is written there."""

from collections.abc import Mapping
from dataclasses import dataclass

from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class LimitPlaces:
    """The spans of limits by name: of arguments of `only_valid`, or of settings of a target."""

    spans: Mapping[str, Span]
    are_arguments: bool = False

    def __getitem__(self, name: str) -> Span:
        return self.spans[name]

    def limit(self, name: str, value: object) -> str:
        """`max_exits: any` as an argument, `max_exits any` as a setting, in backquotes."""
        return f"`{name}{':' * self.are_arguments} {value}`"
