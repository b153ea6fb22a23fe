"""
Find the blocks, brackets and statement that contain the cursor.

Only the tokens before the cursor are used, so that this works in the middle of a statement that
cannot be parsed yet.
"""

import re
from dataclasses import dataclass, field
from string import ascii_letters, digits

from collage_dsl.language.syntax.formatter_tree import tokens

_IN_WORDS = f"{ascii_letters}{digits}_."
ITEMS = ("import", "let", "extern", "pattern", "rule", "target", "pin", "forbid", "test")
"""The words that begin a definition or statement of a file."""


@dataclass(slots=True)
class Bracket:
    """An open `(` or `[`: the names called before it, and the words in it since the last comma."""

    sign: str
    heads: tuple[str, ...]
    words: list[str] = field(default_factory=list)
    number: int = 0
    """The number of commas in it so far."""

    @property
    def argument(self) -> str:
        """The name of the argument that is being written; empty if it has none."""
        return self.words[0] if len(self.words) > 1 and self.words[1] == ":" else ""


@dataclass(slots=True)
class Context:
    """
    What surrounds the cursor.

    `blocks` are the first words of the statements whose braces are open, outermost first.
    `words` are the words of the statement before `prefix`, the word that is being written.
    """

    prefix: str
    blocks: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """The names that the outermost open block has defined so far."""
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By these names: what is called first in their values."""
    is_comment: bool = False
    is_string: bool = False

    @property
    def first(self) -> str:
        """The first word of the statement; empty if it is still being written."""
        return self.words[0] if self.words else ""

    @property
    def last(self) -> str:
        return self.words[-1] if self.words else ""

    @property
    def bracket(self) -> Bracket | None:
        return self.brackets[-1] if self.brackets else None

    def take(self, word: str, at_line_start: bool) -> None:
        if at_line_start and word in ITEMS:  # even if something before is not closed
            self.words, self.brackets, self.blocks, self.names = [], [], [], []
        match word:
            case "(" | "[":
                self.brackets.append(Bracket(word, self.heads()))
            case ")" | "]":
                if self.brackets:
                    self.brackets.pop()
            case "{":
                self.open_block()
            case "}":
                self.end_statement()
                del self.blocks[-1:]
            case ";":
                self.end_statement()
            case ",":
                if self.brackets:
                    self.brackets[-1].words = []
                    self.brackets[-1].number += 1
        if word not in ("{", "}", ";"):
            self.add(word)

    def add(self, word: str) -> None:
        self.words.append(word)
        if self.brackets and word not in ("(", "[", ","):
            self.brackets[-1].words.append(word)

    def heads(self) -> tuple[str, ...]:
        """The names that a bracket belongs to: `nn.conv2d` in `nn.conv2d(` and `nn.conv2d(x) [`."""
        words = self.words
        if words and words[-1] == "?":
            words = words[:-1]
        if words and words[-1] == ")":
            words = _before_brackets(words)
        if words and words[-1] == ")":  # (nn.relu | nn.gelu)(x) [
            return tuple(word for word in words[len(_before_brackets(words)) :] if _is_name(word))
        is_called = words and _is_name(words[-1]) and words[-1] != "in"
        return (words[-1],) if is_called else ()

    def open_block(self) -> None:
        self.blocks.append(self.first)
        if len(self.blocks) == 1:
            self.names = _parameters(self.words) if self.first == "pattern" else []
        self.words, self.brackets = [], []

    def end_statement(self) -> None:
        sign = self.words[1] if len(self.words) > 1 and self.blocks else ""
        if sign == "=" or (sign == ":" and "graph" in self.blocks):
            self.names.append(self.words[0])
            self.calls[self.words[0]] = _first_calls(self.words[2:])
        self.words, self.brackets = [], []


_ITEM = re.compile(rf"^(?:{'|'.join(ITEMS)})\b", re.MULTILINE)


def context(text: str, offset: int) -> Context:
    """The context of `offset` in `text`."""
    before = text[:offset]
    word = before[len(before.rstrip(_IN_WORDS)) :]
    prefix = word.lstrip(f"{digits}.")
    found = Context(prefix)
    line_end = text.find("\n", offset)
    text = text[: line_end if line_end >= 0 else len(text)]
    # What is before the last item does not matter.
    items = list(_ITEM.finditer(text, 0, offset))
    first = items[-1].start() if items else 0
    for kind, start, end in ((kind, first + s, first + e) for kind, s, e in tokens(text[first:])):
        if start >= offset - len(prefix):
            break
        if kind in ("comment", "string") and start < offset and (end >= offset > start):
            found.is_comment = kind == "comment"
            found.is_string = kind == "string" and end > offset
            if found.is_comment or found.is_string:
                return found
        if kind == "open":  # a string that is not closed yet
            found.is_string = True
            return found
        if kind not in ("comment", "space"):
            found.take(text[start:end], start == 0 or text[start - 1] == "\n")
    return found


def _before_brackets(words: list[str]) -> list[str]:
    """The words before the brackets at the end of `words`, without a `?`."""
    depth = 0
    for at in range(len(words) - 1, -1, -1):
        depth += (words[at] in (")", "]")) - (words[at] in ("(", "["))
        if depth == 0:
            return words[: at - 1] if words[at - 1 : at] == ["?"] else words[:at]
    return []


def _first_calls(words: list[str]) -> tuple[str, ...]:
    """What a value calls first: `nn.relu` and `exp` in `(nn.relu | exp)(x)`."""
    end = words.index(")") if words[:1] == ["("] and ")" in words else 1
    return tuple(word for word in words[:end] if _is_name(word))


def _parameters(words: list[str]) -> list[str]:
    """The parameters and dimensions of a pattern: `x`, `w` and `n` of `pattern p(x: [n], w)`."""
    names: list[str] = []
    for at in range(3, len(words)):
        before, word = words[at - 1], words[at]
        is_excluded = words[at - 2] == "not"  # `x: not (nn.relu | nn.silu)`
        if _is_name(word) and before in ("(", ",", "[") and not is_excluded:
            names.append(word)
    return names


def _is_name(word: str) -> bool:
    return word[:1].isalpha() or word[:1] == "_"
