"""The tokens and parse trees that the parser makes."""

from typing import Any, Self


class Token(str):
    """A token of kind `type` that begins at `start_pos`."""

    __slots__ = ("start_pos", "type")

    type: str
    start_pos: int

    def __new__(cls, type_: str, text: str, start: int) -> Self:
        token = str.__new__(cls, text)
        token.type = type_
        token.start_pos = start
        return token


class Tree:
    """
    A node with the name `data`. Its children are trees, tokens, or None for an absent part.

    Its span also covers the tokens that are not children.
    """

    __slots__ = ("children", "data", "end_pos", "start_pos")

    def __init__(self, data: str, children: list[Any], start_pos: int, end_pos: int) -> None:
        self.data = data
        self.children = children
        self.start_pos = start_pos
        self.end_pos = end_pos
