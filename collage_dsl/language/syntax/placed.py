"""Trees of lark that know where in the text they stand."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lark import Lark, Tree


class Placed(Tree[Any]):
    """
    A tree that reaches from `start` to `end`; None if it is of no text.

    `start_pos` and `end_pos` also count brackets around it, of which a rule such as
    `?operand: "(" operand ")"` makes no tree.
    """

    start: int | None = None
    end: int | None = None
    start_pos: int | None = None
    end_pos: int | None = None


_Build = Callable[[list[Any]], Any]
"""What lark calls with the trees and tokens that a rule was read from."""


def place_trees(parser: Lark) -> None:
    """
    Let `parser` note the places of its trees, which have to be of the class `Placed`.

    lark's own option for this also notes lines and columns, and takes three times as long.
    """
    callbacks: dict[Any, Any] = parser._callbacks
    for rule, build in callbacks.items():
        callbacks[rule] = partial(_placed, build)


def _placed(build: _Build, parts: list[Any]) -> Any:
    made = build(parts)
    if type(made) is not Placed:
        return made
    for first in parts:
        if first is not None and first.start_pos is not None:
            break
    else:
        return made
    for last in reversed(parts):
        if last is not None and last.end_pos is not None:
            break
    if made.start is None:
        made.start, made.end = first.start_pos, last.end_pos
    made.start_pos, made.end_pos = first.start_pos, last.end_pos
    return made
